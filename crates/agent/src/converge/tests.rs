//! The loop over an engine in memory, with a clock that is turned by hand.

use expect_test::{Expect, expect};
use serde_json::{Value, json};
use tombolo_driver::fake::Fake;
use tombolo_identity::Remit;
use tombolo_model::condition;
use tombolo_model::keys::FINALIZER_ASSIGNMENT;

use crate::orders::News;

use super::*;

struct World {
    engine: Fake,
    converge: Converge,
    seconds: u64,
    version: u64,
}

fn remit() -> Remit {
    Remit::Node { site: "north".to_owned(), node: "crane".to_owned() }
}

fn assignment(uid: &str, change: Value) -> Assignment {
    let mut spec = json!({"app": "shop", "component": uid, "replica": 0, "site": "north",
        "node": "crane", "engine": "host", "run": {"process": {"command": [uid]}}});
    for (key, value) in change.as_object().into_iter().flatten() {
        spec[key] = value.clone();
    }
    serde_json::from_value(json!({
        "apiVersion": "tombolo.dev/v1alpha1", "kind": "Assignment",
        "metadata": {"name": uid, "namespace": "default", "uid": uid, "resourceVersion": "1",
            "generation": 1},
        "spec": spec,
    }))
    .unwrap()
}

impl World {
    fn new(engine: Fake, orders: Orders) -> World {
        let driver: Arc<dyn Driver> = Arc::new(engine.clone());
        let drivers = Drivers::from([(Engine::Host, driver)]);
        World { engine, converge: Converge::new(remit(), drivers, orders), seconds: 0, version: 1 }
    }

    fn with(uid: &str, change: Value) -> World {
        let mut world = World::new(Fake::new(Engine::Host), Orders::default());
        let assignments = vec![assignment(uid, change)];
        world.converge.orders.note(News::Listed { assignments, version: Some(1) });
        world
    }

    fn change(&mut self, uid: &str, change: Value) {
        self.version += 1;
        let mut next = assignment(uid, change);
        next.metadata.resource_version = Some(self.version.to_string());
        next.status = self.converge.orders.assignments.get(uid).and_then(|old| old.status.clone());
        self.converge.orders.note(News::Applied(Box::new(next)));
    }

    fn now(&self) -> Now {
        Now {
            clock: Monotonic::from_start(Duration::from_secs(self.seconds)),
            time: Timestamp::from_second(i64::try_from(self.seconds).unwrap()).unwrap(),
            cut_off_since: None,
            unheard: false,
            heard_since_boot: None,
            silent_after: Duration::ZERO,
            address: Some("192.0.2.1".to_owned()),
            own_address: None,
        }
    }

    async fn look(&mut self) -> Report {
        let now = self.now();
        self.converge.activate(&now).await
    }

    /// Activates until nothing more happens; the server takes every write.
    async fn settle(&mut self) {
        for _ in 0..20 {
            let report = self.look().await;
            let idle = report.begun.is_empty() && report.writes.is_empty();
            for write in report.writes {
                let What::Status { status, .. } = write.what else { continue };
                self.version += 1;
                let mut written = write.assignment;
                written.metadata.resource_version = Some(self.version.to_string());
                written.status = Some(*status);
                self.converge.orders.note(News::Applied(Box::new(written)));
            }
            while !self.converge.actions.is_empty() {
                self.converge.next_done().await;
            }
            if idle {
                return;
            }
        }
        panic!("it does not settle: {:?}", self.engine.done());
    }

    async fn after(&mut self, seconds: u64) {
        self.seconds += seconds;
        self.settle().await;
    }

    fn id(&self, uid: &str) -> InstanceId {
        let orders = &self.converge.orders;
        let revision = desired::revision(&orders.assignments[uid], &orders.entries);
        InstanceId::new(uid, revision).unwrap()
    }

    /// What was done to the engine, revisions by the order in which they came.
    fn done(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        let mut said = |line: String| {
            let (verb, id) = line.split_once(' ').unwrap();
            let (uid, revision) = id.split_once('.').unwrap();
            if !names.iter().any(|name| name == revision) {
                names.push(revision.to_owned());
            }
            let number = names.iter().position(|name| name == revision).unwrap() + 1;
            format!("{verb} {uid}@{number}")
        };
        self.engine.done().into_iter().map(&mut said).collect()
    }

    fn check(&self, uid: &str, expect: Expect) {
        let status = self.converge.orders.assignments[uid].status.clone().unwrap_or_default();
        let mut text = format!("{}\n", self.done().join(", "));
        for found in &status.conditions {
            let kind = &found.kind;
            text.push_str(&format!(
                "{kind}={} {}: {}\n",
                found.status, found.reason, found.message
            ));
        }
        text.push_str(&format!("restarts {} at {:?}\n", status.restarts, status.addresses));
        expect.assert_eq(&text);
    }
}

/// As with an image whose registry does not answer: the start was told to be on its way long ago.
#[tokio::test]
async fn a_start_that_fails_late_says_the_same_as_one_that_fails_at_once() {
    let mut world = World::with("web", json!({}));
    let error = Error::NoSuchImage { image: "web:1".to_owned() };
    for seconds in [0, 1, 1, 1, 1] {
        world.after(seconds).await;
        world.engine.fails_late(&world.id("web"), error.clone());
    }
    world.after(0).await;
    world.check("web", expect![[r#"
        start web@1, start web@1, start web@1
        Applied=True NoSuchImage: image web:1 does not exist, neither here nor in its registry; it failed 3 times in a row and waits 2 s before the next start
        Progressing=True NoSuchImage: image web:1 does not exist, neither here nor in its registry; it failed 3 times in a row and waits 2 s before the next start
        Available=False NoSuchImage: image web:1 does not exist, neither here nor in its registry; it failed 3 times in a row and waits 2 s before the next start
        Degraded=True NoSuchImage: image web:1 does not exist, neither here nor in its registry; it failed 3 times in a row and waits 2 s before the next start. Check the name and the tag of web:1, or push it to its registry.
        restarts 0 at []
    "#]]);
}

#[tokio::test]
async fn what_is_assigned_starts_and_is_told() {
    let mut world = World::with("web", json!({}));
    world.settle().await;
    world.after(3).await;
    world.check(
        "web",
        expect![[r#"
        start web@1
        Applied=True Running: it is up
        Progressing=False Running: it is up
        Available=True Running: it is up
        Degraded=False Running: it is up
        restarts 0 at ["192.0.2.1"]
    "#]],
    );
}

#[tokio::test]
async fn what_ends_is_started_again_and_counted() {
    let mut world = World::with("web", json!({}));
    world.settle().await;
    let id = world.id("web");
    world.engine.writes(&id, "out of paper");
    world.engine.exits(&id, 1);
    world.settle().await;
    world.after(1).await;
    let status = world.converge.orders.assignments["web"].status.clone().unwrap();
    assert_eq!(status.restarts, 1);
    assert_eq!(status.last_exit.unwrap().log, ["out of paper"]);
    assert_eq!(world.done(), ["start web@1", "start web@1"]);
}

#[tokio::test]
async fn a_start_that_fails_is_told_with_what_helps_and_tried_again() {
    let mut world = World::with("web", json!({}));
    let error = || Error::CommandNotFound { command: "web".to_owned(), looked_in: Vec::new() };
    world.engine.fails("web", error());
    world.engine.fails("web", error());
    world.settle().await;
    world.check("web", expect![[r#"

        Applied=False CommandNotFound: command "web" was not found; it is tried again every second
        Progressing=True CommandNotFound: command "web" was not found; it is tried again every second
        Available=False CommandNotFound: command "web" was not found; it is tried again every second
        Degraded=True CommandNotFound: command "web" was not found; it is tried again every second. Install "web" on the node, write its whole path, or choose a node that has it.
        restarts 0 at []
    "#]]);
    world.after(1).await;
    assert_eq!(world.done(), ["start web@1"]);
}

#[tokio::test]
async fn an_update_that_fails_goes_back_to_what_was_well() {
    let mut world = World::with("web", json!({}));
    world.settle().await;
    world.after(3).await;
    world.change("web", json!({"run": {"process": {"command": ["web", "new"]}}}));
    for _ in 0..3 {
        world.engine.fails("web", Error::Invalid { what: "it is broken".to_owned() });
    }
    world.settle().await;
    let status = world.converge.orders.assignments["web"].status.clone().unwrap();
    let degraded = condition::find(&status.conditions, condition::DEGRADED).unwrap();
    assert_eq!(degraded.reason, "RolledBack");
    assert!(condition::is_true(&status.conditions, condition::AVAILABLE));
    assert_eq!(world.done()[0], "start web@1");
    assert!(!world.done().iter().any(|done| done.starts_with("stop")), "{:?}", world.done());
}

#[tokio::test]
async fn others_are_sent_to_the_old_one_until_the_new_one_is_well() {
    let run =
        |port: u16| json!({"run": {"process": {"command": ["web", "$(PORT)"], "ports": [port]}}});
    let mut world = World::with("web", run(8080));
    world.settle().await;
    world.after(3).await;
    let told = |world: &World| {
        let status = world.converge.orders.assignments["web"].status.clone().unwrap();
        (status.instance.unwrap(), status.ports[0].published)
    };
    let reached = async |world: &World| {
        let look =
            observe::look(&world.converge.drivers, &mut observe::Unanswered::default()).await;
        let nearby = world.converge.nearby(&look, &world.now());
        nearby.reached.into_values().flatten().collect::<Vec<_>>()
    };
    let (before, known) = (told(&world), reached(&world).await);
    assert_eq!(known.len(), 1);
    world.change("web", run(9090));
    world.settle().await;
    let running = observe::look(&world.converge.drivers, &mut observe::Unanswered::default())
        .await
        .instances
        .len();
    assert_eq!(running, 2, "{:?}", world.done());
    assert_eq!((told(&world), reached(&world).await), (before.clone(), known.clone()));
    world.after(3).await;
    assert_ne!(told(&world), before);
    let now = reached(&world).await;
    assert!(now.len() == 1 && now != known, "{now:?} after {known:?}");
}

#[tokio::test]
async fn what_is_not_assigned_any_more_stops_once_a_server_says_so() {
    let mut world = World::with("web", json!({}));
    world.settle().await;
    let engine = world.engine.clone();
    let mut again = World::new(engine, Orders::default());
    again.settle().await;
    assert_eq!(again.done(), ["start web@1"], "nobody has said anything yet");
    again.converge.orders.note(News::Listed { assignments: Vec::new(), version: Some(2) });
    again.settle().await;
    assert_eq!(again.done(), ["start web@1", "stop web@1", "remove web@1"]);
}

#[tokio::test]
async fn an_agent_that_comes_back_finds_everything_and_restarts_nothing() {
    let mut world = World::with("web", json!({}));
    world.settle().await;
    world.after(3).await;
    let orders = world.converge.orders.clone();
    let mut again =
        World::new(world.engine.clone(), Orders { authority: Authority::Doubtful, ..orders });
    again.settle().await;
    assert_eq!(again.done(), ["start web@1"]);
    again.engine.reboots();
    again.settle().await;
    assert_eq!(again.done(), ["start web@1", "start web@1"], "from what it remembers");
}

#[tokio::test]
async fn an_engine_that_is_away_is_told_and_nothing_is_started_twice() {
    let mut world = World::with("web", json!({}));
    world.settle().await;
    world.after(3).await;
    world.engine.unreachable();
    world.settle().await;
    let status = world.converge.orders.assignments["web"].status.clone().unwrap();
    let degraded = condition::find(&status.conditions, condition::DEGRADED).unwrap();
    assert_eq!(degraded.reason, "EngineUnreachable");
    let report = world.look().await;
    let soon = world.now().clock + Duration::from_secs(1);
    assert!(report.wake_at.is_some_and(|at| at <= soon), "it is asked again: {report:?}");
    world.engine.reachable();
    world.settle().await;
    assert_eq!(world.done(), ["start web@1"]);
}

#[tokio::test(start_paused = true)]
async fn an_engine_that_hangs_holds_up_the_others_once_and_not_at_every_look() {
    let mut world = World::with("web", json!({}));
    let docker = Fake::new(Engine::Docker);
    world.converge.drivers.insert(Engine::Docker, Arc::new(docker.clone()));
    world.settle().await;
    docker.hangs();
    world.look().await;
    let before = tokio::time::Instant::now();
    world.engine.exits(&world.id("web"), 1);
    world.settle().await;
    assert_eq!(world.done(), ["start web@1", "start web@1"]);
    assert_eq!(before.elapsed(), Duration::ZERO, "nobody waits for it any more");
    // The question is given up, and a new one asked that nobody waits for either.
    for _ in 0..3 {
        tokio::time::sleep(Duration::from_secs(31)).await;
        let before = tokio::time::Instant::now();
        world.look().await;
        world.look().await;
        assert_eq!(before.elapsed(), Duration::ZERO, "nor is it waited for later");
    }
    // What was asked before is lost for good; at last it is given up, and a new question answered.
    docker.answers();
    tokio::time::sleep(Duration::from_secs(31)).await;
    world.look().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let look = observe::look(&world.converge.drivers, &mut world.converge.unanswered).await;
    assert!(look.silent.is_empty(), "{look:?}");
}

#[tokio::test(start_paused = true)]
async fn an_engine_that_answers_late_is_heard_but_not_of_what_was_before_an_action() {
    let mut world = World::with("web", json!({}));
    world.engine.answers_after(Duration::from_secs(6));
    world.settle().await;
    assert!(world.done().is_empty(), "it has not said what there is");
    tokio::time::sleep(Duration::from_secs(2)).await;
    world.look().await;
    // The next question is asked before the start has begun, and would be answered so.
    world.converge.next_done().await;
    for _ in 0..3 {
        tokio::time::sleep(Duration::from_secs(7)).await;
        let report = world.look().await;
        assert!(report.begun.is_empty(), "{report:?}");
    }
    assert_eq!(world.done(), ["start web@1"]);
    let look = observe::look(&world.converge.drivers, &mut world.converge.unanswered).await;
    assert!(look.silent.contains_key(&Engine::Host), "it is asked for the next look: {look:?}");
    tokio::time::sleep(Duration::from_secs(7)).await;
    let look = observe::look(&world.converge.drivers, &mut world.converge.unanswered).await;
    assert_eq!(look.instances.len(), 1, "{look:?}");
}

#[tokio::test]
async fn what_is_deleted_is_let_go_of_only_when_it_is_gone() {
    let mut world = World::with("web", json!({}));
    world.settle().await;
    world.engine.stubborn("web");
    let mut going = world.converge.orders.assignments["web"].clone();
    going.metadata.deletion_timestamp = Some(Time(Timestamp::from_second(9).unwrap()));
    going.metadata.finalizers = Some(vec![FINALIZER_ASSIGNMENT.to_owned()]);
    going.metadata.resource_version = Some("1000".to_owned());
    world.converge.orders.note(News::Applied(Box::new(going)));
    let now = Now {
        clock: Monotonic::default(),
        time: Timestamp::from_second(9).unwrap(),
        cut_off_since: None,
        unheard: false,
        heard_since_boot: None,
        silent_after: Duration::ZERO,
        address: Some("192.0.2.1".to_owned()),
        own_address: None,
    };
    let lets_go = |report: &Report| report.writes.iter().any(|write| write.what == What::LetGo);
    let mut ended = false;
    for _ in 0..10 {
        let report = world.converge.activate(&now).await;
        while !world.converge.actions.is_empty() {
            world.converge.next_done().await;
        }
        if lets_go(&report) {
            assert!(ended, "it still runs");
            assert_eq!(world.done().last().unwrap(), "remove web@1");
            return;
        }
        if world.done().iter().any(|done| done.starts_with("stop")) && !ended {
            ended = true;
            let id = world.id("web");
            world.engine.exits(&id, 0);
        }
    }
    panic!("it was never let go of: {:?}", world.done());
}
