//! The loop over a made-up API: what it decides, and that it always comes to the same end.

mod away;
mod changed;
mod churn;
mod failover;
mod fails;
mod near;
mod offer;
mod restart;

use std::collections::BTreeSet;
use std::fmt::Write as _;

use expect_test::{Expect, expect};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};
use tombolo_model::{AppPhase, ConditionStatus, condition};

use super::*;

/// An API with Apps, Assignments and machines, and agents that do what they are told.
#[derive(Clone, Debug, Default)]
struct Stage {
    observed: Observed,
    memory: Memory,
    now: Monotonic,
    version: u64,
    /// Nodes on which nothing comes up, and the reason that their agents give.
    broken: BTreeMap<String, &'static str>,
    /// The steps that a search may take, if fewer than usual.
    work: Option<u64>,
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
        let known = |n: &&mut Shared<Node>| n.metadata.name.as_deref() == Some(node);
        let node = self.observed.nodes.iter_mut().find(known).unwrap();
        let condition = json!({"type": "Ready", "status": if ready { "True" } else { "False" },
            "reason": "Test", "message": "no heartbeat", "lastTransitionTime": "1970-01-01T00:00:00Z"});
        let status = node.status.as_mut().unwrap();
        status.conditions = vec![serde_json::from_value(condition).unwrap()];
    }

    fn drain(&mut self, node: &str) {
        let known = |n: &&mut Shared<Node>| n.metadata.name.as_deref() == Some(node);
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
        let usual = Limits::default();
        let limits = Limits { work: self.work.unwrap_or(usual.work), ..usual };
        let plan = plan(&self.observed, &self.memory, self.now, &time_of_day, &limits);
        // What is left out as quiet changes nothing: a look at everything decides the same.
        let all = Memory { quiet: Arc::default(), ..self.memory.clone() };
        let whole = super::plan(&self.observed, &all, self.now, &time_of_day, &limits);
        assert_eq!(plan.steps, whole.steps);
        assert_eq!(plan.releases, whole.releases);
        assert_eq!(plan.doubts, whole.doubts);
        assert_eq!((&plan.memory, plan.wake_at), (&whole.memory, whole.wake_at));
        plan
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
        for release in plan.releases.iter().take(count.saturating_sub(done)) {
            let is = |a: &Assignment| a.metadata.name.as_ref() == Some(&release.name);
            assert!(release.finalizers.is_empty());
            self.observed.assignments.retain(|a| !is(a));
        }
        let done = done + plan.releases.len().min(count.saturating_sub(done));
        let doubts = plan.doubts.len().min(count.saturating_sub(done));
        for doubt in plan.doubts.into_iter().take(doubts) {
            let is = |a: &&mut Shared<Assignment>| a.metadata.name.as_ref() == Some(&doubt.name);
            let one = self.observed.assignments.iter_mut().find(is).unwrap();
            self.memory.note_written(&doubt);
            one.status.as_mut().unwrap().conditions = doubt.conditions;
        }
        done + doubts
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
                assignments.push((*made).into());
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
            let node = assignment.spec.node.as_deref().unwrap();
            let trouble = self.broken.get(node);
            let said = |kind: &str, is: bool| {
                let status = if is { "True" } else { "False" };
                json!({"type": kind, "status": status, "reason": trouble.unwrap_or(&"Up"),
                    "message": "", "lastTransitionTime": "1970-01-01T00:00:00Z"})
            };
            let status = json!({
                "observedGeneration": assignment.metadata.generation,
                "addresses": [format!("{node}.example")],
                "conditions": [said("Available", trouble.is_none()),
                    said("Degraded", trouble.is_some())],
            });
            let status = Some(serde_json::from_value(status).unwrap());
            // An object that says the same is the same one in memory, as in a mirror.
            if assignment.status != status {
                assignment.status = status;
            }
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
        let plan = self.plan();
        for steps in plan.steps {
            for action in steps.actions {
                writeln!(text, "{action}").unwrap();
            }
        }
        for release in plan.releases {
            writeln!(text, "{release}").unwrap();
        }
        for doubt in plan.doubts {
            writeln!(text, "{doubt}").unwrap();
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
            write the status: Placed: data/0 on a1, web/0 on b1, web/1 on a1
            create shop-data-0-4d4e53b9: it was given this place
            create shop-web-0-c5ff726c: it was given this place
            create shop-web-1-3a89f336: it was given this place
        "#]],
    );
    stage.settle();
    check_actions(&stage, expect![[""]]);
    check_places(
        &stage,
        expect![[r#"
            shop: Running 3/3
              data/0 on a1
              web/0 on b1
              web/1 on a1
            assigned data/0 on a1
            assigned web/0 on b1
            assigned web/1 on a1
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
            write the status: Unplaceable: data/0 has no place: needs 9 cpu; the only node, a1, has 4; node a1 would fit with 4 cpu instead of 9; web/0 has no place either
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
        let image =
            |a: &&Shared<Assignment>| a.spec.run.container.as_ref().unwrap().image == "shop:2";
        stage.observed.assignments.iter().filter(image).count()
    };
    assert_eq!(new(&stage), 1);
    stage.look(usize::MAX);
    assert_eq!(new(&stage), 1, "the first is not up yet");
    stage.settle();
    assert_eq!(new(&stage), 3);
}

#[test]
fn an_update_goes_on_when_the_new_one_is_well_and_not_while_the_old_one_serves() {
    let mut stage = Stage::new(&["a1:4"]);
    let mut web = component("web", 2, "1");
    stage.apply("shop", app(&[web.clone()]));
    stage.settle();
    web["restartedAt"] = json!("2030-01-31T12:00:00Z");
    stage.apply("shop", app(&[web]));
    stage.look(usize::MAX);
    stage.agents();
    let told = |stage: &Stage| {
        let all = stage.observed.assignments.iter();
        all.filter(|a| a.spec.restarted_at.is_some()).count()
    };
    for assignment in &mut stage.observed.assignments {
        if assignment.spec.restarted_at.is_some() {
            let status = assignment.status.as_mut().unwrap();
            status.conditions.push(not_applied("Updating"));
        }
    }
    stage.look(usize::MAX);
    assert_eq!(told(&stage), 1);
    let phase = stage.observed.apps[0].status.as_ref().and_then(|status| status.phase);
    assert_eq!(phase.map(|phase| phase.as_str()), Some("Deploying"));
    stage.settle();
    assert_eq!(told(&stage), 2);
}

fn not_applied(reason: &str) -> Condition {
    let condition = json!({"type": "Applied", "status": "False", "reason": reason, "message": "",
        "lastTransitionTime": "1970-01-01T00:00:00Z"});
    serde_json::from_value(condition).unwrap()
}

#[test]
fn an_update_that_fails_is_never_ready_while_the_old_one_serves() {
    let mut stage = Stage::new(&["a1:4"]);
    let mut web = component("web", 1, "1");
    stage.apply("shop", app(&[web.clone()]));
    stage.settle();
    web["restartedAt"] = json!("2030-01-31T12:00:00Z");
    stage.apply("shop", app(&[web]));
    stage.look(usize::MAX);
    stage.agents();
    let said = stage.observed.assignments[0].status.as_mut().unwrap();
    said.conditions.push(not_applied("NoSuchImage"));
    let degraded = said.conditions.iter_mut().find(|known| known.kind == "Degraded").unwrap();
    degraded.status = ConditionStatus::True;
    degraded.reason = "NoSuchImage".to_owned();
    degraded.message = "the update fails, the old one serves: there is no image".to_owned();
    stage.look(usize::MAX);
    let status = stage.observed.apps[0].status.as_ref().unwrap();
    let of = |kind: &str| {
        let found = status.conditions.iter().find(|known| known.kind == kind).unwrap();
        format!("{} {}", found.status.as_str(), found.reason)
    };
    assert_eq!(of("Ready"), "False Degraded");
    assert_eq!(of("Degraded"), "True NoSuchImage");
    let message = status.message.as_deref();
    assert_eq!(
        message,
        Some("web/0 on a1: the update fails, the old one serves: there is no image")
    );
}

#[test]
fn restarts_one_instance_after_the_other_where_it_is() {
    let mut stage = Stage::new(&["a1:4"]);
    let mut web = component("web", 3, "1");
    stage.apply("shop", app(&[web.clone()]));
    stage.settle();
    let before = stage.places();
    web["restartedAt"] = json!("2030-01-31T12:00:00Z");
    stage.apply("shop", app(&[web]));
    stage.look(usize::MAX);
    let told = |stage: &Stage| {
        stage.observed.assignments.iter().filter(|a| a.spec.restarted_at.is_some()).count()
    };
    assert_eq!(told(&stage), 1);
    stage.settle();
    assert_eq!((told(&stage), stage.places()), (3, before));
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
