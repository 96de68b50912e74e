//! Worlds in a line each: what is wanted, what is there, what the plan says.

use expect_test::{Expect, expect};
use proptest::prelude::*;

use tombolo_model::ConditionStatus;

use super::*;

/// A world that lives on: an engine that does what it is told, and a clock that is turned by hand.
#[derive(Clone, Debug, Default)]
struct World {
    desired: Desired,
    engine: Observed,
    memory: Memory,
    seconds: u64,
    ends: u64,
}

fn problem(reason: &str) -> Problem {
    let message = format!("it ended ({reason})");
    Problem { reason: Reason::of(reason).unwrap(), message, help: String::new() }
}

fn wanted(component: &str, revision: u64) -> Wanted {
    Wanted {
        revision,
        app: "shop".to_owned(),
        component: component.to_owned(),
        after: Vec::new(),
        exclusive: false,
        stopped: false,
        checked: false,
        grace: Duration::from_secs(10),
        stop_when_cut_off: None,
        blocked: None,
        fallback: None,
    }
}

impl World {
    fn wanting(component: &str, revision: u64) -> World {
        let mut world = World::default();
        world.desired.authority = Authority::Fresh;
        world.want(wanted(component, revision));
        world
    }

    fn want(&mut self, wanted: Wanted) {
        self.desired.wanted.insert(wanted.component.clone(), wanted);
    }

    fn of(&mut self, component: &str) -> &mut Wanted {
        self.desired.wanted.get_mut(component).expect("it is wanted")
    }

    fn sees(&mut self, component: &str, revision: u64, seen: Seen) {
        self.engine.insert(Id { assignment: component.to_owned(), revision }, seen);
    }

    fn ends(&mut self, component: &str, revision: u64, reason: &str) {
        self.ends += 1;
        let exited = Seen::Exited { at: self.ends, ordered: false, problem: problem(reason) };
        self.sees(component, revision, exited);
    }

    fn is_hindered(&mut self, component: &str, revision: u64) {
        self.ends += 1;
        let problem = problem("PortTaken");
        let failed = Seen::Failed { at: self.ends, retry: Retry::Soon, problem };
        self.sees(component, revision, failed);
    }

    fn now(&self) -> Monotonic {
        Monotonic::from_start(Duration::from_secs(self.seconds))
    }

    fn plan(&self) -> Plan {
        plan(&self.desired, &self.engine, &self.memory, self.now())
    }

    /// Plans, and lets the engine do it: starts succeed at once, stops are obeyed at once.
    fn step(&mut self) -> String {
        let plan = self.plan();
        for action in &plan.actions {
            self.ends += 1;
            match action.verb {
                Verb::Start => {
                    self.engine.insert(action.id.clone(), Seen::Running(Health::Unknown));
                }
                Verb::Stop { .. } => {
                    let ordered =
                        Seen::Exited { at: self.ends, ordered: true, problem: problem("Stopped") };
                    self.engine.insert(action.id.clone(), ordered);
                }
                Verb::Remove => _ = self.engine.remove(&action.id),
            }
        }
        let mut text = String::new();
        for action in &plan.actions {
            text.push_str(&format!("{action}\n"));
        }
        for (uid, phase) in &plan.phases {
            let facts = phase.facts();
            let letter = |fact: &Fact, letter| match fact.status {
                ConditionStatus::True => letter,
                ConditionStatus::False | ConditionStatus::Unknown => '-',
            };
            let conditions: String = [
                letter(&facts.applied, 'A'),
                letter(&facts.progressing, 'P'),
                letter(&facts.available, 'V'),
                letter(&facts.degraded, 'D'),
            ]
            .iter()
            .collect();
            let fact = facts.available;
            text.push_str(&format!("{uid} is {conditions} {}: {}\n", fact.reason, fact.message));
        }
        for stray in &plan.strays {
            text.push_str(&format!("keeps {}@{}\n", stray.assignment, stray.revision));
        }
        if let Some(at) = plan.wake_at {
            text.push_str(&format!("wakes after {:?}\n", at.since(self.now())));
        }
        self.memory = plan.memory;
        text
    }

    #[track_caller]
    fn check(&mut self, expect: Expect) {
        expect.assert_eq(&self.step());
    }
}

#[test]
fn starts_what_is_assigned_and_counts_it_as_up_once_it_has_run_a_while() {
    let mut world = World::wanting("web", 1);
    world.check(expect![[r#"
        start web@1: it is assigned and not there
        web is AP-- Starting: starting
    "#]]);
    world.check(expect![[r#"
        web is A-V- Running: it is up
        wakes after 2s
    "#]]);
    world.seconds += 2;
    world.check(expect![[r#"
        web is A-V- Running: it is up
    "#]]);
}

#[test]
fn starts_again_at_once_first_and_then_after_longer_and_longer_pauses() {
    let mut world = World::wanting("web", 1);
    world.step();
    world.ends("web", 1, "Error");
    world.check(expect![[r#"
        start web@1: it ended (Error)
        web is AP-- Restarting: it is being started again
    "#]]);
    world.ends("web", 1, "Error");
    world.check(expect![[r#"
        web is AP-D Error: it ended (Error); it failed 2 times in a row and waits 1 s before the next start
        wakes after 1s
    "#]]);
    world.seconds += 1;
    world.check(expect![[r#"
        start web@1: it ended (Error)
        web is AP-- Restarting: it is being started again
    "#]]);
    world.ends("web", 1, "Error");
    world.check(expect![[r#"
        web is AP-D CrashLoop: it ended (Error); it failed 3 times in a row and waits 2 s before the next start
        wakes after 2s
    "#]]);
}

#[test]
fn a_start_that_failed_is_told_before_it_is_tried_again() {
    let mut world = World::wanting("web", 1);
    world.step();
    for at in [1, 2] {
        world.sees(
            "web",
            1,
            Seen::Failed { at, retry: Retry::Later, problem: problem("PortTaken") },
        );
        world.check(match at {
            1 => expect![[r#"
                web is AP-D PortTaken: it ended (PortTaken); it failed once and waits 1 s before the next start
                wakes after 1s
            "#]],
            _ => expect![[r#"
                web is AP-D PortTaken: it ended (PortTaken); it failed 2 times in a row and waits 1 s before the next start
                wakes after 1s
            "#]],
        });
        world.seconds += 1;
        world.step();
    }
}

#[test]
fn forgives_failures_after_ten_good_minutes() {
    let mut world = World::wanting("web", 1);
    world.step();
    for _ in 0..2 {
        world.ends("web", 1, "Error");
        world.step();
        world.seconds += 1;
        world.step();
    }
    world.step();
    world.seconds += 600;
    world.step();
    world.ends("web", 1, "Error");
    world.check(expect![[r#"
        start web@1: it ended (Error)
        web is AP-- Restarting: it is being started again
    "#]]);
}

#[test]
fn keeps_the_old_revision_until_the_new_one_is_well() {
    let mut world = World::wanting("web", 1);
    world.of("web").checked = true;
    world.sees("web", 1, Seen::Running(Health::Well));
    world.step();
    world.of("web").revision = 2;
    world.check(expect![[r#"
        start web@2: what is to run has changed
        web is -PV- Updating: the old one serves until the new one is well: starting
    "#]]);
    world.check(expect![[r#"
        web is -PV- Updating: the old one serves until the new one is well: it runs and has not answered its check yet
    "#]]);
    world.sees("web", 2, Seen::Running(Health::Well));
    world.check(expect![[r#"
        stop web@1: the new revision is well
        web is A-V- Running: it is up
    "#]]);
    world.check(expect![[r#"
        remove web@1: it has ended and is not needed
        web is A-V- Running: it is up
    "#]]);
    world.check(expect![[r#"
        web is A-V- Running: it is up
    "#]]);
}

#[test]
fn goes_back_to_the_good_revision_when_the_new_one_keeps_failing() {
    let mut world = World::wanting("web", 1);
    world.of("web").checked = true;
    world.sees("web", 1, Seen::Running(Health::Well));
    world.step();
    world.of("web").revision = 2;
    world.step();
    for _ in 0..3 {
        world.ends("web", 2, "Error");
        world.step();
        world.seconds += 10;
        world.step();
    }
    world.check(expect![[r#"
        web is --VD RolledBack: went back to the last good revision: it ended (Error)
    "#]]);
    // It stays so until somebody writes another revision.
    world.seconds += 10_000;
    world.check(expect![[r#"
        web is --VD RolledBack: went back to the last good revision: it ended (Error)
    "#]]);
    world.of("web").revision = 3;
    world.check(expect![[r#"
        start web@3: what is to run has changed
        web is -PV- Updating: the old one serves until the new one is well: starting
    "#]]);
}

#[test]
fn says_that_the_old_one_serves_while_the_update_fails() {
    let mut world = World::wanting("web", 1);
    world.of("web").checked = true;
    world.sees("web", 1, Seen::Running(Health::Well));
    world.step();
    world.of("web").revision = 2;
    world.step();
    world.ends("web", 2, "Error");
    world.step();
    world.ends("web", 2, "Error");
    world.check(expect![[r#"
        web is -PVD Error: the update fails, the old one serves: it ended (Error); it failed 2 times in a row and waits 1 s before the next start
        wakes after 1s
    "#]]);
    world.of("web").revision = 3;
    world.of("web").blocked = Some(problem("NoSuchEntry"));
    world.check(expect![[r#"
        web is --VD NoSuchEntry: the update fails, the old one serves: it ended (NoSuchEntry)
    "#]]);
    // One that is not well either does not serve.
    world.sees("web", 1, Seen::Running(Health::Unwell("no".to_owned())));
    world.check(expect![[r#"
        web is ---D NoSuchEntry: it ended (NoSuchEntry)
    "#]]);
}

#[test]
fn goes_back_to_what_an_update_overtook_once_that_has_run_a_while() {
    let mut world = World::wanting("web", 1);
    world.step();
    world.step();
    world.of("web").revision = 2;
    world.step();
    for _ in 0..3 {
        world.is_hindered("web", 2);
        world.step();
    }
    world.check(expect![[r#"
        web is -PVD PortTaken: the update fails, the old one serves: it ended (PortTaken); it is tried again every second
        wakes after 1s
    "#]]);
    world.seconds += 2;
    world.check(expect![[r#"
        remove web@2: it has ended and is not needed
        web is --VD RolledBack: went back to the last good revision: it ended (PortTaken)
    "#]]);
    // Nobody knows how to start it again: what is wanted is all there is.
    world.ends("web", 1, "Error");
    world.check(expect![[r#"
        start web@2: what is to run has changed
        web is AP-- Starting: starting
    "#]]);
}

#[test]
fn tries_every_second_what_something_on_the_machine_hinders_and_says_it_once() {
    let mut world = World::wanting("web", 1);
    world.step();
    world.is_hindered("web", 1);
    world.check(expect![[r#"
        start web@1: it ended (PortTaken)
        web is -P-D PortTaken: it ended (PortTaken); it is tried again every second
    "#]]);
    let told = "web is -P-D PortTaken: it ended (PortTaken); it is tried again every second\n";
    for _ in 0..100 {
        world.is_hindered("web", 1);
        assert_eq!(world.step(), format!("{told}wakes after 1s\n"));
        world.seconds += 1;
        world.sees("web", 1, Seen::Starting { doing: "starting".to_owned() });
        assert_eq!(world.step(), told);
    }
    // It was not its fault: the first failure of its own counts as the first.
    world.sees("web", 1, Seen::Running(Health::Unknown));
    world.check(expect![[r#"
        web is A-V- Running: it is up
        wakes after 2s
    "#]]);
    world.ends("web", 1, "Error");
    world.check(expect![[r#"
        start web@1: it ended (Error)
        web is AP-- Restarting: it is being started again
    "#]]);
}

#[test]
fn does_not_call_up_what_crashes_again_and_again_before_it_has_run_a_while() {
    let mut world = World::wanting("web", 1);
    world.step();
    for _ in 0..3 {
        world.ends("web", 1, "Error");
        world.step();
        world.seconds += 2;
        world.step();
    }
    world.check(expect![[r#"
        web is AP-- Restarting: it is being started again
        wakes after 2s
    "#]]);
    world.seconds += 2;
    world.check(expect![[r#"
        web is A-V- Running: it is up
    "#]]);
}

#[test]
fn ends_the_old_one_first_where_only_one_can_be_and_starts_it_again_if_the_new_one_fails() {
    let mut world = World::wanting("db", 1);
    world.of("db").exclusive = true;
    world.of("db").checked = true;
    world.sees("db", 1, Seen::Running(Health::Well));
    world.step();
    world.of("db").revision = 2;
    world.of("db").fallback = Some(1);
    world.check(expect![[r#"
        stop db@1: what is to run has changed
        db is AP-- Starting: the old one ends before the new one starts
    "#]]);
    world.check(expect![[r#"
        start db@2: what is to run has changed
        db is AP-- Starting: starting
    "#]]);
    let hopeless = Seen::Failed { at: 99, retry: Retry::Never, problem: problem("Invalid") };
    world.sees("db", 2, hopeless);
    world.check(expect![[r#"
        start db@1: the new revision failed, the last good one returns: it ended (Invalid)
        db is -P-D RolledBack: went back to the last good revision: it ended (Invalid)
    "#]]);
    world.sees("db", 1, Seen::Running(Health::Well));
    world.check(expect![[r#"
        remove db@2: it has ended and is not needed
        db is --VD RolledBack: went back to the last good revision: it ended (Invalid)
    "#]]);
}

#[test]
fn restarts_what_is_not_well_and_counts_that_as_a_failure() {
    let mut world = World::wanting("web", 1);
    world.of("web").checked = true;
    world.sees("web", 1, Seen::Running(Health::Unwell("GET / answers 500".to_owned())));
    world.check(expect![[r#"
        stop web@1: its check fails: GET / answers 500
        web is AP-D Unhealthy: restarted: GET / answers 500
    "#]]);
    world.check(expect![[r#"
        start web@1: GET / answers 500
        web is AP-- Restarting: it is being started again
    "#]]);
    world.sees("web", 1, Seen::Running(Health::Unwell("GET / answers 500".to_owned())));
    world.step();
    world.check(expect![[r#"
        web is AP-D Unhealthy: GET / answers 500; it failed 2 times in a row and waits 1 s before the next start
        wakes after 1s
    "#]]);
}

#[test]
fn waits_for_what_should_come_first_but_not_for_ever() {
    let mut world = World::wanting("store", 1);
    let mut web = wanted("web", 1);
    web.after = vec![Before { component: "store".to_owned(), up_elsewhere: false }];
    world.want(web);
    world.check(expect![[r#"
        start store@1: it is assigned and not there
        store is AP-- Starting: starting
        web is -P-- Waiting: waits for store to come up first
        wakes after 60s
    "#]]);
    world.seconds += 2;
    world.check(expect![[r#"
        start web@1: it is assigned and not there
        store is A-V- Running: it is up
        web is AP-- Starting: starting
        wakes after 2s
    "#]]);

    let mut alone = World::wanting("web", 1);
    alone.of("web").after = vec![Before { component: "store".to_owned(), up_elsewhere: false }];
    alone.check(expect![[r#"
        web is -P-- Waiting: waits for store to come up first
        wakes after 60s
    "#]]);
    alone.seconds += 60;
    alone.check(expect![[r#"
        start web@1: it is assigned and not there
        web is AP-- Starting: starting
    "#]]);
}

#[test]
fn ends_what_is_no_longer_assigned_only_when_the_controller_said_so() {
    let mut world = World::default();
    world.sees("web", 1, Seen::Running(Health::Unknown));
    world.check(expect![[r#"
          keeps web@1
    "#]]);
    world.desired.authority = Authority::Fresh;
    world.check(expect![[r#"
        stop web@1: it is no longer assigned
    "#]]);
    world.check(expect![[r#"
        remove web@1: it has ended and is not needed
    "#]]);
    world.check(expect![[r#""#]]);
}

#[test]
fn takes_down_what_asked_for_it_when_the_controller_stays_away() {
    let mut world = World::wanting("web", 1);
    world.of("web").stop_when_cut_off = Some(Duration::from_secs(300));
    world.step();
    world.seconds += 5;
    world.desired.cut_off_since = Some(world.now());
    world.check(expect![[r#"
        web is A-V- Running: it is up
        wakes after 2s
    "#]]);
    world.seconds += 300;
    world.check(expect![[r#"
        stop web@1: the controller has been out of reach for 300 s
        web is ---D CutOff: taken down: the controller is out of reach
    "#]]);
    world.desired.cut_off_since = None;
    world.check(expect![[r#"
        start web@1: it is assigned and not there
        web is AP-- Starting: starting
    "#]]);
}

#[test]
fn what_was_well_stays_so_until_a_check_says_otherwise() {
    let mut world = World::wanting("web", 1);
    world.step();
    world.step();
    world.seconds += 2;
    world.step();
    // A check is added to what runs.
    world.of("web").checked = true;
    world.check(expect![[r#"
        web is A-V- Running: it is up
    "#]]);
    // The agent is another, which has not asked yet.
    world.memory = Memory::of_good(world.memory.good());
    world.check(expect![[r#"
        web is A-V- Running: it is up
    "#]]);
    // Another run of it has to answer first, whoever looks.
    world.ends("web", 1, "Error");
    world.step();
    world.check(expect![[r#"
        web is AP-- Checking: it runs and has not answered its check yet
    "#]]);
    world.memory = Memory::of_good(BTreeMap::new());
    world.check(expect![[r#"
        web is AP-- Checking: it runs and has not answered its check yet
    "#]]);
}

#[test]
fn does_not_begin_what_may_run_elsewhere_before_the_controller_was_heard() {
    let mut world = World::wanting("web", 1);
    world.of("web").stop_when_cut_off = Some(Duration::from_secs(300));
    world.want(wanted("other", 1));
    world.desired.unheard = true;
    world.check(expect![[r#"
        start other@1: it is assigned and not there
        other is AP-- Starting: starting
        web is ---D CutOff: not started: since the agent started or was cut off, the controller has not said that it is still to run here, and it may run elsewhere by now
    "#]]);
    world.desired.unheard = false;
    world.step();
    // What runs already is left to its rule.
    world.desired.unheard = true;
    world.check(expect![[r#"
        other is A-V- Running: it is up
        web is A-V- Running: it is up
        wakes after 2s
    "#]]);
}

#[test]
fn says_what_keeps_it_from_trying() {
    let mut world = World::wanting("web", 1);
    world.of("web").blocked = Some(Problem::new(Reason::NoSuchEntry, "there is no Secret"));
    world.check(expect![[r#"
        web is ---D NoSuchEntry: there is no Secret
    "#]]);
}

#[test]
fn stops_on_request_and_starts_again_at_once() {
    let mut world = World::wanting("web", 1);
    world.step();
    world.of("web").stopped = true;
    world.check(expect![[r#"
        stop web@1: it is to be stopped
        web is A--- Stopped: stopped on request
    "#]]);
    world.check(expect![[r#"
        remove web@1: it has ended and is not needed
        web is A--- Stopped: stopped on request
    "#]]);
    world.of("web").stopped = false;
    world.check(expect![[r#"
        start web@1: it is assigned and not there
        web is AP-- Starting: starting
    "#]]);
}

#[test]
fn an_agent_that_starts_anew_knows_the_good_revision_and_touches_nothing_that_runs() {
    let mut world = World::wanting("web", 1);
    world.sees("web", 1, Seen::Running(Health::Unknown));
    world.step();
    world.seconds += 2;
    world.step();
    let good = world.memory.good();
    world.memory = Memory::of_good(good.clone());
    assert_eq!(world.memory.good(), good);
    assert_eq!(good, BTreeMap::from([("web".to_owned(), 1)]));
    world.check(expect![[r#"
        web is A-V- Running: it is up
        wakes after 2s
    "#]]);
}

fn any_seen() -> impl Strategy<Value = Seen> {
    prop_oneof![
        Just(Seen::Starting { doing: "pulling".to_owned() }),
        Just(Seen::Running(Health::Unknown)),
        Just(Seen::Running(Health::Well)),
        Just(Seen::Running(Health::Failing("no".to_owned()))),
        Just(Seen::Running(Health::Unwell("no".to_owned()))),
        Just(Seen::Stopping),
        (1..4u64, any::<bool>()).prop_map(|(at, ordered)| Seen::Exited {
            at,
            ordered,
            problem: problem("Error")
        }),
        (1..4u64, prop_oneof![Just(Retry::Never), Just(Retry::Later), Just(Retry::Soon)])
            .prop_map(|(at, retry)| Seen::Failed { at, retry, problem: problem("NoSuchImage") }),
    ]
}

prop_compose! {
    fn any_wanted()(
        component in 0..3u8, revision in 1..4u64, flags in any::<[bool; 4]>(),
        fallback in proptest::option::of(1..4u64), after in proptest::collection::vec(0..3u8, 0..2),
    ) -> Wanted {
        let [exclusive, stopped, checked, blocked] = flags;
        let before = |component: u8| Before { component: format!("c{component}"), up_elsewhere: false };
        Wanted {
            exclusive, stopped: stopped && blocked, checked, fallback,
            blocked: (blocked && !stopped).then(|| problem("NoSuchEntry")),
            after: after.into_iter().map(before).collect(),
            ..wanted(&format!("c{component}"), revision)
        }
    }
}

fn any_world() -> impl Strategy<Value = World> {
    let ids = (0..4u8, 1..4u64)
        .prop_map(|(uid, revision)| Id { assignment: format!("u{uid}"), revision });
    let engine = proptest::collection::btree_map(ids, any_seen(), 0..8);
    let wanted = proptest::collection::btree_map(
        (0..4u8).prop_map(|uid| format!("u{uid}")),
        any_wanted(),
        0..4,
    );
    (engine, wanted, any::<bool>()).prop_map(|(engine, wanted, fresh)| {
        let authority = if fresh { Authority::Fresh } else { Authority::Doubtful };
        let desired = Desired { wanted, authority, ..Desired::default() };
        World { desired, engine, ends: 100, ..World::default() }
    })
}

proptest! {
    /// Random worlds, then a while in which everything that is started comes up well.
    #[test]
    fn every_world_settles_with_each_wanted_assignment_running_once(world in any_world()) {
        let mut world = world;
        for _ in 0..400 {
            world.step();
            for seen in world.engine.values_mut() {
                match seen {
                    Seen::Running(health) => *health = Health::Well,
                    Seen::Starting { .. } => *seen = Seen::Running(Health::Well),
                    Seen::Stopping => {
                        *seen = Seen::Exited { at: 1000, ordered: true, problem: problem("Stopped") };
                    }
                    Seen::Exited { .. } | Seen::Failed { .. } => (),
                }
            }
            world.seconds += 2;
        }
        let plan = world.plan();
        prop_assert!(plan.actions.is_empty(), "{:?}", plan.actions);
        for (uid, wanted) in &world.desired.wanted {
            let there = of_assignment(&world.engine, uid).filter(|(_, seen)| seen.alive()).count();
            let never = wanted.blocked.is_some()
                || matches!(plan.phases[uid], Phase::Blocked(_));
            let expected = usize::from(!wanted.stopped);
            prop_assert!(never || there == expected, "{uid}: {there} {:?}", plan.phases[uid]);
        }
    }

    #[test]
    fn a_world_without_authority_loses_nothing_that_it_does_not_know(world in any_world()) {
        let mut world = world;
        world.desired.authority = Authority::Doubtful;
        let plan = world.plan();
        for action in &plan.actions {
            prop_assert!(world.desired.wanted.contains_key(&action.id.assignment));
        }
    }

    #[test]
    fn what_holds_a_thing_that_is_there_once_never_runs_twice(world in any_world()) {
        let mut world = world;
        for wanted in world.desired.wanted.values_mut() {
            wanted.exclusive = true;
        }
        let alone = |engine: &Observed| {
            engine.keys().all(|id| {
                of_assignment(engine, &id.assignment).filter(|(_, seen)| seen.alive()).count() <= 1
            })
        };
        prop_assume!(alone(&world.engine));
        for _ in 0..20 {
            world.step();
            prop_assert!(alone(&world.engine), "{:?}", world.engine);
            world.seconds += 1;
        }
    }
}
