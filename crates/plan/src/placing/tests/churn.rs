//! Whatever happens, in whatever order: it settles, nothing is lost, and no more is down than may be.

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Turn {
    Apply { app: usize, web: u32, data: u32, heavy: bool, stateful: bool, calls: bool },
    Stop { app: usize },
    Silence { node: usize },
    Return { node: usize },
    Drain { node: usize },
    Pass { seconds: u64 },
    Agents,
    Look { count: usize },
    Crash,
}

fn turn() -> impl Strategy<Value = Turn> {
    prop_oneof![
        3 => (0..2usize, 0..4u32, 0..3u32, any::<bool>(), any::<bool>(), any::<bool>()).prop_map(
            |(app, web, data, heavy, stateful, calls)| {
                Turn::Apply { app, web, data, heavy, stateful, calls }
            }),
        1 => (0..2usize).prop_map(|app| Turn::Stop { app }),
        1 => (0..4usize).prop_map(|node| Turn::Silence { node }),
        1 => (0..4usize).prop_map(|node| Turn::Return { node }),
        1 => (0..4usize).prop_map(|node| Turn::Drain { node }),
        1 => (0..400u64).prop_map(|seconds| Turn::Pass { seconds }),
        2 => Just(Turn::Agents),
        4 => (0..6usize).prop_map(|count| Turn::Look { count }),
        1 => Just(Turn::Crash),
    ]
}

const NODES: [&str; 4] = ["a1", "a2", "b1", "c1"];
const APPS: [&str; 2] = ["shop", "farm"];

fn take(stage: &mut Stage, turn: &Turn) {
    match turn {
        Turn::Apply { app: which, web, data, heavy, stateful, calls } => {
            let cpu = if *heavy { "2" } else { "500m" };
            let mut web = component("web", *web, cpu);
            if *calls {
                web["connects"] = json!([{"app": APPS[1 - which], "to": "data", "port": 80}]);
            }
            let mut data = component("data", *data, cpu);
            data["expose"] = json!([{"port": 80}]);
            data["stateful"] = json!(stateful);
            data["unavailableMax"] = json!(if *heavy { 2 } else { 1 });
            stage.apply(APPS[*which], app(&[web, data]));
        }
        Turn::Stop { app: which } => {
            let known = |a: &App| a.metadata.name.as_deref() == Some(APPS[*which]);
            if let Some(found) = stage.observed.apps.iter().find(|a| known(a)) {
                let mut spec = serde_json::to_value(&found.spec).unwrap();
                spec["stopped"] = json!(true);
                stage.apply(APPS[*which], spec);
            }
        }
        Turn::Silence { node } => stage.set_ready(NODES[*node], false),
        Turn::Return { node } => stage.set_ready(NODES[*node], true),
        Turn::Drain { node } => {
            if stage.observed.nodes[*node].spec.taints.is_empty() {
                stage.drain(NODES[*node]);
            }
        }
        Turn::Pass { seconds } => stage.pass(*seconds),
        Turn::Agents => stage.agents(),
        Turn::Look { count } => {
            let before = stage.clone();
            stage.look(*count);
            no_more_down_than_allowed(&before, stage);
        }
        Turn::Crash => stage.memory = Memory::default(),
    }
    no_state_twice(stage);
}

/// On nodes that answer, an instance with state is there once.
fn no_state_twice(stage: &Stage) {
    let silent: BTreeSet<&str> = current::silent_nodes(&stage.observed).into_iter().collect();
    let mut holders: BTreeSet<(&str, &str, u32)> = BTreeSet::new();
    for a in &stage.observed.assignments {
        let spec = &a.spec;
        if spec.fence.is_some() && !silent.contains(spec.node.as_deref().unwrap()) {
            let twice = !holders.insert((&spec.app, &spec.component, spec.replica));
            // One that was given up on a silent node may come back and go.
            assert!(!twice || a.metadata.deletion_timestamp.is_some() || has_going(stage, a));
        }
    }
}

/// One look takes down no more instances of a component than may be down together.
fn no_more_down_than_allowed(before: &Stage, after: &Stage) {
    let silent: BTreeSet<&str> = current::silent_nodes(&before.observed).into_iter().collect();
    let own = |stage: &'_ Stage,
               app: &App,
               at: &tombolo_model::app::Placement|
     -> Vec<Shared<Assignment>> {
        let same = |a: &&Shared<Assignment>| {
            a.metadata.owner_references.as_ref().unwrap()[0].uid
                == *app.metadata.uid.as_ref().unwrap()
                && a.spec.component == at.component
                && a.spec.replica == at.replica
        };
        stage.observed.assignments.iter().filter(same).cloned().collect()
    };
    let up = |a: &Shared<Assignment>| {
        let seen = a.status.as_ref().and_then(|status| status.observed_generation);
        current::is_available(a)
            && seen == a.metadata.generation
            && a.metadata.deletion_timestamp.is_none()
            && !silent.contains(a.spec.node.as_deref().unwrap())
    };
    // Peers that have come or moved are told to an instance, and it goes on; unless it is to be restarted
    // for the address of one.
    let goes_on = |known: &Assignment, now: &Assignment| {
        let (was, is) = (&known.spec, &now.spec);
        let told = AssignmentSpec {
            peers: is.peers.clone(),
            decision: is.decision.clone(),
            allow: is.allow.clone(),
            app_generation: is.app_generation,
            ..was.clone()
        };
        let bound = |spec: &AssignmentSpec| -> Vec<Option<String>> {
            spec.peers.iter().map(|peer| peer.bound.clone()).collect()
        };
        known.metadata.uid == now.metadata.uid
            && now.metadata.deletion_timestamp.is_none()
            && told == *is
            && bound(was) == bound(is)
    };
    for app in &after.observed.apps {
        for component in &app.spec.components {
            let max = component.unavailable_max.unwrap_or(1) as usize;
            let placements = app.status.iter().flat_map(|status| &status.placements);
            let placements = placements.filter(|at| at.component == component.name);
            let (mut down, mut taken) = (0, 0);
            for at in placements {
                let was = own(before, app, at).iter().any(up);
                let told = own(after, app, at);
                let is = own(before, app, at)
                    .iter()
                    .filter(|known| up(known))
                    .any(|known| told.iter().any(|now| goes_on(known, now)));
                taken += usize::from(was && !is);
                let waits = silent.contains(at.node.as_deref().unwrap());
                down += usize::from(!was && !waits);
            }
            assert!(
                taken == 0 || taken + down <= max,
                "{} {}\n{}",
                component.name,
                max,
                after.places()
            );
        }
    }
}

fn has_going(stage: &Stage, one: &Assignment) -> bool {
    stage.observed.assignments.iter().any(|other| {
        other.spec.app == one.spec.app
            && other.spec.component == one.spec.component
            && other.spec.replica == one.spec.replica
            && other.metadata.deletion_timestamp.is_some()
    })
}

/// Assigned and staying, of an App.
fn assigned(stage: &Stage, app: &App) -> usize {
    let own = stage.observed.assignments.iter().filter(|a| {
        Some(a.spec.app.as_str()) == app.metadata.name.as_deref()
            && a.metadata.deletion_timestamp.is_none()
    });
    own.count()
}

/// On its way out on a node that does not answer.
fn awaited(stage: &Stage, app: &App) -> usize {
    let silent: BTreeSet<&str> = current::silent_nodes(&stage.observed).into_iter().collect();
    let own = stage.observed.assignments.iter().filter(|a| {
        Some(a.spec.app.as_str()) == app.metadata.name.as_deref()
            && a.metadata.deletion_timestamp.is_some()
            && silent.contains(a.spec.node.as_deref().unwrap())
    });
    own.count()
}

/// The phase of an App, and which replicas of which components have a place.
type End = (Option<AppPhase>, Vec<(String, u32)>);

/// What runs of each App in the end, on whatever nodes.
fn ends(stage: &Stage) -> Vec<End> {
    let end = |app: &Shared<App>| {
        let status = app.status.clone().unwrap_or_default();
        let placed = status.placements.iter().map(|at| (at.component.clone(), at.replica));
        (status.phase, placed.collect())
    };
    stage.observed.apps.iter().map(end).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    /// Whatever happens, in whatever order, and wherever the process dies: it settles, and what is
    /// assigned is what the statuses say, of each App all or nothing.
    #[test]
    fn it_settles_whatever_happens(turns in prop::collection::vec(turn(), 1..25)) {
        let mut stage = Stage::new(&["a1:4", "a2:4", "b1:2", "c1:8"]);
        for turn in &turns {
            take(&mut stage, turn);
        }
        stage.settle();
        prop_assert_eq!(stage.actions(), "");
        for app in &stage.observed.apps {
            let status = app.status.as_ref().unwrap();
            let decided = status.placements.len();
            // One of a silent node may be on hold beside the one that replaces it, or, with state,
            // before it.
            let assigned = assigned(&stage, app) + awaited(&stage, app);
            prop_assert!(assigned >= decided, "{}", stage.places());
            let wanted: usize = app.spec.components.iter().map(tombolo_placement::ask::instances).sum();
            match status.phase.unwrap() {
                AppPhase::Stopped | AppPhase::Unplaceable => prop_assert_eq!(decided, 0),
                AppPhase::Running => prop_assert_eq!(decided, wanted),
                AppPhase::Pending | AppPhase::Placing | AppPhase::Deploying | AppPhase::Degraded => (),
            }
        }
    }

    /// A crash after any part of what a look decided leads to the same end: the same instances run. What was
    /// not written before the crash is decided anew, beside what was, and may find another node that is as good.
    #[test]
    fn a_crash_changes_nothing(turns in prop::collection::vec(turn(), 1..12), count in 0usize..20) {
        let mut stage = Stage::new(&["a1:4", "a2:4", "b1:2", "c1:8"]);
        for turn in &turns {
            match turn {
                Turn::Apply { app: 1, .. } | Turn::Stop { app: 1 } => (),
                turn => take(&mut stage, turn),
            }
        }
        // What was known of silence is lost with the process; here it begins anew for both.
        stage.memory = Memory::default();
        let mut crashed = stage.clone();
        crashed.look(count);
        crashed.memory = Memory::default();
        crashed.look(usize::MAX);
        crashed.settle();
        stage.look(usize::MAX);
        stage.settle();
        prop_assert_eq!(ends(&crashed), ends(&stage), "{}\n{}", crashed.places(), stage.places());
    }
}
