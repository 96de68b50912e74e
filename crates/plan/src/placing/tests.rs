//! The loop over a made-up API: what it decides, and that it always comes to the same end.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use expect_test::{Expect, expect};
use k8s_openapi::jiff::Timestamp;
use proptest::prelude::*;
use serde_json::{Value, json};
use tombolo_model::AppPhase;

use super::*;

/// An API with Apps, Assignments and machines, and agents that do what they are told.
#[derive(Clone, Debug, Default)]
struct Stage {
    observed: Observed,
    memory: Memory,
    now: Monotonic,
    version: u64,
}

impl Stage {
    /// `a1:4` is node `a1` of site `a` (its first letter), with 4 cores.
    fn new(nodes: &[&str]) -> Stage {
        let mut stage = Stage::default();
        for node in nodes {
            let (name, cores) = node.split_once(':').unwrap();
            let site = &name[..1];
            if !stage.observed.sites.iter().any(|s| s.metadata.name.as_deref() == Some(site)) {
                let made = json!({"apiVersion": "tombolo.dev/v1alpha1", "kind": "Site",
                    "metadata": {"name": site}, "spec": {"engine": "docker"}});
                stage.observed.sites.push(serde_json::from_value(made).unwrap());
            }
            let made = json!({"apiVersion": "tombolo.dev/v1alpha1", "kind": "Node",
                "metadata": {"name": name}, "spec": {"site": site},
                "status": {"allocatable": {"cpu": cores, "memory": "64Gi", "storage": "64Gi"}}});
            stage.observed.nodes.push(serde_json::from_value(made).unwrap());
        }
        stage
    }

    fn apply(&mut self, name: &str, spec: Value) {
        self.version += 1;
        let known =
            self.observed.apps.iter_mut().find(|a| a.metadata.name.as_deref() == Some(name));
        match known {
            Some(app) => {
                app.spec = serde_json::from_value(spec).unwrap();
                app.metadata.generation = app.metadata.generation.map(|g| g + 1);
                app.metadata.resource_version = Some(self.version.to_string());
            }
            None => {
                let made = json!({"apiVersion": "tombolo.dev/v1alpha1", "kind": "App",
                    "metadata": {"name": name, "namespace": "default", "generation": 1,
                        "uid": format!("uid-{name}"), "resourceVersion": self.version.to_string()},
                    "spec": spec});
                self.observed.apps.push(serde_json::from_value(made).unwrap());
            }
        }
    }

    fn set_ready(&mut self, node: &str, ready: bool) {
        let known = |n: &&mut Node| n.metadata.name.as_deref() == Some(node);
        let node = self.observed.nodes.iter_mut().find(known).unwrap();
        let condition = json!({"type": "Ready", "status": if ready { "True" } else { "False" },
            "reason": "Test", "message": "no heartbeat", "lastTransitionTime": "1970-01-01T00:00:00Z"});
        let status = node.status.as_mut().unwrap();
        status.conditions = vec![serde_json::from_value(condition).unwrap()];
    }

    fn drain(&mut self, node: &str) {
        let known = |n: &&mut Node| n.metadata.name.as_deref() == Some(node);
        let node = self.observed.nodes.iter_mut().find(known).unwrap();
        let taint = json!({"key": "tombolo.dev/drain", "effect": "NoExecute"});
        node.spec.taints.push(serde_json::from_value(taint).unwrap());
        node.spec.unschedulable = true;
    }

    fn pass(&mut self, seconds: u64) {
        self.now = self.now + Duration::from_secs(seconds);
    }

    fn plan(&self) -> Plan {
        let time_of_day = Time(Timestamp::UNIX_EPOCH);
        plan(&self.observed, &self.memory, self.now, &time_of_day, &Limits::default())
    }

    /// One look; its first `count` actions are carried out. Those of an App are in order, and an
    /// action never fails here.
    fn look(&mut self, count: usize) -> usize {
        let plan = self.plan();
        self.memory = plan.memory;
        let actions: Vec<(usize, Action)> = plan
            .steps
            .into_iter()
            .flat_map(|steps| steps.actions.into_iter().map(move |action| (steps.app, action)))
            .collect();
        let done = actions.len().min(count);
        for (app, action) in actions.into_iter().take(count) {
            self.carry_out(app, action.verb);
        }
        done
    }

    fn carry_out(&mut self, app: usize, verb: Verb) {
        self.version += 1;
        let version = Some(self.version.to_string());
        let is = |a: &Assignment, name: &str| a.metadata.name.as_deref() == Some(name);
        let assignments = &mut self.observed.assignments;
        match verb {
            Verb::Decide { status, .. } => {
                self.observed.apps[app].status = Some(*status);
                self.observed.apps[app].metadata.resource_version = version;
            }
            Verb::Create(mut made) => {
                let name = made.metadata.name.clone().unwrap();
                assert!(!assignments.iter().any(|a| is(a, &name)), "{name} is there already");
                made.metadata.uid = Some(format!("uid-{}", self.version));
                made.metadata.generation = Some(1);
                made.metadata.resource_version = version;
                made.metadata.finalizers = Some(vec!["tombolo.dev/undeploy".to_owned()]);
                assignments.push(*made);
            }
            Verb::Update { name, spec, resource_version } => {
                let one = assignments.iter_mut().find(|a| is(a, &name)).unwrap();
                assert_eq!(one.metadata.resource_version.as_ref(), Some(&resource_version));
                one.spec = *spec;
                one.metadata.generation = one.metadata.generation.map(|g| g + 1);
                one.metadata.resource_version = version;
            }
            Verb::Delete { name, .. } => {
                let one = assignments.iter_mut().find(|a| is(a, &name)).unwrap();
                one.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
                one.metadata.resource_version = version;
            }
        }
    }

    /// Agents of nodes that are ready start what is assigned and let go of what is deleted.
    fn agents(&mut self) {
        let silent: BTreeSet<String> =
            current::silent_nodes(&self.observed).into_iter().map(str::to_owned).collect();
        let works = |a: &Assignment| !silent.contains(a.spec.node.as_deref().unwrap_or_default());
        self.observed.assignments.retain(|a| a.metadata.deletion_timestamp.is_none() || !works(a));
        for assignment in self.observed.assignments.iter_mut().filter(|a| works(a)) {
            let status = json!({
                "observedGeneration": assignment.metadata.generation,
                "addresses": [format!("{}.example", assignment.spec.node.as_deref().unwrap())],
                "conditions": [{"type": "Available", "status": "True", "reason": "Up",
                    "message": "", "lastTransitionTime": "1970-01-01T00:00:00Z"}],
            });
            assignment.status = Some(serde_json::from_value(status).unwrap());
        }
    }

    /// Until nothing is left to do.
    fn settle(&mut self) {
        for _ in 0..40 {
            self.agents();
            if self.look(usize::MAX) == 0 {
                return;
            }
        }
        panic!("it does not settle: {}", self.actions());
    }

    fn actions(&self) -> String {
        let mut text = String::new();
        for steps in self.plan().steps {
            for action in steps.actions {
                writeln!(text, "{action}").unwrap();
            }
        }
        text
    }

    /// Who is where, as the status says and as it is assigned.
    fn places(&self) -> String {
        let mut text = String::new();
        for app in &self.observed.apps {
            let status = app.status.clone().unwrap_or_default();
            let name = app.metadata.name.as_deref().unwrap();
            let (phase, ready) = (status.phase.map_or("-", AppPhase::as_str), status.ready);
            writeln!(text, "{name}: {phase} {}", ready.unwrap_or_default()).unwrap();
            for at in &status.placements {
                let node = at.node.as_deref().unwrap();
                writeln!(text, "  {}/{} on {node}", at.component, at.replica).unwrap();
            }
        }
        let mut assigned: Vec<String> = self
            .observed
            .assignments
            .iter()
            .map(|a| {
                let going = if a.metadata.deletion_timestamp.is_some() { " going" } else { "" };
                let node = a.spec.node.as_deref().unwrap();
                format!("assigned {}/{} on {node}{going}", a.spec.component, a.spec.replica)
            })
            .collect();
        assigned.sort();
        for line in assigned {
            writeln!(text, "{line}").unwrap();
        }
        text
    }
}

fn component(name: &str, replicas: u32, cpu: &str) -> Value {
    json!({"name": name, "replicas": replicas, "needs": {"cpu": cpu},
        "run": [{"container": {"image": "shop:1"}}]})
}

fn app(components: &[Value]) -> Value {
    json!({"components": components})
}

#[track_caller]
fn check_actions(stage: &Stage, expected: Expect) {
    expected.assert_eq(&stage.actions());
}

#[track_caller]
fn check_places(stage: &Stage, expected: Expect) {
    expected.assert_eq(&stage.places());
}

#[test]
fn decides_first_and_assigns_then() {
    let mut stage = Stage::new(&["a1:4", "b1:2"]);
    stage.apply("shop", app(&[component("web", 2, "1"), component("data", 1, "3")]));
    check_actions(
        &stage,
        expect![[r#"
        write the status: Placed: data/0 on a1, web/0 on a1, web/1 on b1
        create shop-data-0-4d4e53b9: it was given this place
        create shop-web-0-1fef2224: it was given this place
        create shop-web-1-61595426: it was given this place
    "#]],
    );
    stage.settle();
    check_actions(&stage, expect![[""]]);
    check_places(
        &stage,
        expect![[r#"
        shop: Running 3/3
          data/0 on a1
          web/0 on a1
          web/1 on b1
        assigned data/0 on a1
        assigned web/0 on a1
        assigned web/1 on b1
    "#]],
    );
}

#[test]
fn takes_nothing_apart_when_there_is_no_place_for_all() {
    let mut stage = Stage::new(&["a1:4"]);
    stage.apply("shop", app(&[component("web", 1, "1"), component("data", 1, "9")]));
    check_actions(
        &stage,
        expect![[r#"
        write the status: Unplaceable: data/0 has no place: needs 9 cpu; the only node, a1, has 4; node a1 would fit with 5 cpu less
    "#]],
    );
    stage.settle();
    check_places(
        &stage,
        expect![[r#"
        shop: Unplaceable 0/2
    "#]],
    );
    stage.apply("shop", app(&[component("web", 1, "1"), component("data", 1, "2")]));
    stage.settle();
    stage.apply("shop", app(&[component("web", 1, "1"), component("data", 2, "2")]));
    stage.settle();
    // What runs stays, although what is wanted has no place.
    check_places(
        &stage,
        expect![[r#"
        shop: Degraded 2/3
          data/0 on a1
          web/0 on a1
        assigned data/0 on a1
        assigned web/0 on a1
    "#]],
    );
}

#[test]
fn moves_off_a_drained_node_and_keeps_the_old_one_until_the_new_one_is_up() {
    let mut stage = Stage::new(&["a1:4", "b1:2"]);
    stage.apply("shop", app(&[component("web", 1, "1")]));
    stage.settle();
    let node = stage.observed.assignments[0].spec.node.clone().unwrap();
    stage.drain(&node);
    stage.look(usize::MAX);
    check_places(
        &stage,
        expect![[r#"
            shop: Running 1/1
              web/0 on b1
            assigned web/0 on a1
            assigned web/0 on b1
        "#]],
    );
    check_actions(&stage, expect![[""]]);
    stage.agents();
    check_actions(
        &stage,
        expect![[r#"
        write the status: what it says is old
        delete shop-web-0-1fef2224: it has moved, and the new one is up
    "#]],
    );
    stage.settle();
    check_places(
        &stage,
        expect![[r#"
        shop: Running 1/1
          web/0 on b1
        assigned web/0 on b1
    "#]],
    );
}

#[test]
fn state_is_never_in_two_places() {
    let mut stage = Stage::new(&["a1:4", "b1:2"]);
    let mut data = component("data", 1, "1");
    data["stateful"] = json!(true);
    stage.apply("shop", app(&[data]));
    stage.settle();
    let node = stage.observed.assignments[0].spec.node.clone().unwrap();
    let fence = stage.observed.assignments[0].spec.fence.unwrap();
    stage.drain(&node);
    stage.look(usize::MAX);
    // The old one is on its way out, and the new one is not there yet.
    check_places(
        &stage,
        expect![[r#"
        shop: Degraded 0/1
          data/0 on b1
        assigned data/0 on a1 going
    "#]],
    );
    check_actions(&stage, expect![[""]]);
    stage.settle();
    check_places(
        &stage,
        expect![[r#"
        shop: Running 1/1
          data/0 on b1
        assigned data/0 on b1
    "#]],
    );
    assert!(stage.observed.assignments[0].spec.fence.unwrap() > fence);
}

#[test]
fn waits_for_a_silent_node_as_long_as_the_rule_says() {
    let mut stage = Stage::new(&["a1:4", "b1:2"]);
    let mut quick = component("quick", 1, "1");
    quick["disconnect"] = json!({"action": "replace", "after": "10s"});
    quick["needs"]["nodes"] = json!(["a1", "b1"]);
    let mut loyal = component("loyal", 1, "100m");
    loyal["disconnect"] = json!({"action": "keep"});
    let usual = component("usual", 1, "100m");
    stage.apply("shop", app(&[quick, loyal, usual]));
    stage.settle();
    check_places(
        &stage,
        expect![[r#"
        shop: Running 3/3
          loyal/0 on a1
          quick/0 on a1
          usual/0 on a1
        assigned loyal/0 on a1
        assigned quick/0 on a1
        assigned usual/0 on a1
    "#]],
    );
    stage.set_ready("a1", false);
    stage.settle();
    assert_eq!(stage.plan().wake_at, Some(stage.now + Duration::from_secs(10)));
    stage.pass(10);
    stage.settle();
    check_places(
        &stage,
        expect![[r#"
            shop: Degraded 1/3
              loyal/0 on a1
              quick/0 on b1
              usual/0 on a1
            assigned loyal/0 on a1
            assigned quick/0 on a1 going
            assigned quick/0 on b1
            assigned usual/0 on a1
        "#]],
    );
    stage.pass(290);
    stage.settle();
    check_places(
        &stage,
        expect![[r#"
            shop: Degraded 2/3
              loyal/0 on a1
              quick/0 on b1
              usual/0 on b1
            assigned loyal/0 on a1
            assigned quick/0 on a1 going
            assigned quick/0 on b1
            assigned usual/0 on a1 going
            assigned usual/0 on b1
        "#]],
    );
    // It comes back: the newest instances stay, the others go.
    stage.set_ready("a1", true);
    stage.settle();
    check_places(
        &stage,
        expect![[r#"
        shop: Running 3/3
          loyal/0 on a1
          quick/0 on b1
          usual/0 on b1
        assigned loyal/0 on a1
        assigned quick/0 on b1
        assigned usual/0 on b1
    "#]],
    );
}

#[test]
fn stops_and_starts_on_request() {
    let mut stage = Stage::new(&["a1:4"]);
    let mut spec = app(&[component("web", 2, "1")]);
    stage.apply("shop", spec.clone());
    stage.settle();
    spec["stopped"] = json!(true);
    stage.apply("shop", spec.clone());
    check_actions(
        &stage,
        expect![[r#"
        write the status: Stopped: stopped on request, 2 instances go down
        delete shop-web-0-1fef2224: it is no longer wanted
        delete shop-web-1-3a89f336: it is no longer wanted
    "#]],
    );
    stage.settle();
    check_places(
        &stage,
        expect![[r#"
        shop: Stopped 0/0
    "#]],
    );
    spec["stopped"] = json!(false);
    stage.apply("shop", spec);
    stage.settle();
    check_places(
        &stage,
        expect![[r#"
        shop: Running 2/2
          web/0 on a1
          web/1 on a1
        assigned web/0 on a1
        assigned web/1 on a1
    "#]],
    );
}

#[test]
fn updates_one_instance_after_the_other() {
    let mut stage = Stage::new(&["a1:4"]);
    let mut web = component("web", 3, "1");
    stage.apply("shop", app(&[web.clone()]));
    stage.settle();
    web["run"] = json!([{"container": {"image": "shop:2"}}]);
    stage.apply("shop", app(&[web.clone()]));
    stage.look(usize::MAX);
    let new = |stage: &Stage| {
        let image = |a: &&Assignment| a.spec.run.container.as_ref().unwrap().image == "shop:2";
        stage.observed.assignments.iter().filter(image).count()
    };
    assert_eq!(new(&stage), 1);
    stage.look(usize::MAX);
    assert_eq!(new(&stage), 1, "the first is not up yet");
    stage.settle();
    assert_eq!(new(&stage), 3);
}

#[test]
fn tells_callers_where_those_they_call_are() {
    let mut stage = Stage::new(&["a1:4"]);
    let mut web = component("web", 1, "1");
    web["connects"] = json!([{"to": "data", "port": 5432}]);
    let mut data = component("data", 2, "1");
    data["connects"] = json!([{"to": "web"}]);
    data["expose"] = json!([{"port": 5432, "protocol": "tcp", "public": true}]);
    stage.apply("shop", app(&[web, data]));
    stage.settle();
    let web = stage.observed.assignments.iter().find(|a| a.spec.component == "web").unwrap();
    assert_eq!(web.spec.peers[0].addresses, ["a1.example:5432"]);
    assert!(!web.spec.peers[0].first, "they call each other");
    let status = stage.observed.apps[0].status.as_ref().unwrap();
    assert_eq!(status.endpoints[0].url, "tcp://a1.example:5432");
}

#[test]
fn a_status_that_got_lost_moves_nothing() {
    let mut stage = Stage::new(&["a1:4", "b1:4"]);
    stage.apply("shop", app(&[component("web", 2, "1")]));
    stage.settle();
    let before = stage.places();
    stage.observed.apps[0].status = None;
    stage.settle();
    assert_eq!(stage.places(), before);
}

#[test]
fn names_are_valid_however_long_their_parts_are() {
    let long = "a".repeat(253);
    let mut stage = Stage::new(&["a1:4"]);
    let part = "c".repeat(63);
    stage.apply(&long, app(&[component(&part, 1, "1")]));
    stage.settle();
    let made = &stage.observed.assignments[0];
    let name = made.metadata.name.as_deref().unwrap();
    assert_eq!(tombolo_model::names::subdomain(name), Ok(()));
    assert!(made.metadata.labels.as_ref().unwrap().values().all(|value| value.len() <= 63));
    let invalid = tombolo_model::validate::object(&serde_json::to_value(made).unwrap());
    assert_eq!(invalid, []);
}

#[derive(Clone, Debug)]
enum Turn {
    Apply { app: usize, web: u32, data: u32, heavy: bool, stateful: bool },
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
        3 => (0..2usize, 0..4u32, 0..3u32, any::<bool>(), any::<bool>()).prop_map(
            |(app, web, data, heavy, stateful)| Turn::Apply { app, web, data, heavy, stateful }),
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
        Turn::Apply { app: which, web, data, heavy, stateful } => {
            let cpu = if *heavy { "2" } else { "500m" };
            let mut data = component("data", *data, cpu);
            data["stateful"] = json!(stateful);
            stage.apply(APPS[*which], app(&[component("web", *web, cpu), data]));
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
            stage.look(*count);
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
            // One of a silent node may be on hold beside the one that replaces it.
            prop_assert!(assigned(&stage, app) >= decided, "{}", stage.places());
            let wanted: usize = app.spec.components.iter().map(tombolo_placement::ask::instances).sum();
            match status.phase.unwrap() {
                AppPhase::Stopped | AppPhase::Unplaceable => prop_assert_eq!(decided, 0),
                AppPhase::Running => prop_assert_eq!(decided, wanted),
                AppPhase::Pending | AppPhase::Placing | AppPhase::Deploying | AppPhase::Degraded => (),
            }
        }
    }

    /// A crash after any part of what a look decided leads to the same end. (With several Apps the
    /// second may be decided anew, beside the first, and find another place that is as good.)
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
        prop_assert_eq!(crashed.places(), stage.places());
    }
}
