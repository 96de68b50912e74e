//! What one look costs, and how that grows with nodes and Apps. Prints figures and asserts none of
//! them: `cargo test --release -p tombolo-controller --lib cost -- --ignored --nocapture`.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use kube::api::DynamicObject;
use serde_json::{Value, json};

use tombolo_plan::placing::{Verb, plan};

use super::*;

/// Nodes of one site.
const NODES_PER_SITE: usize = 10;

fn object(value: &Value) -> Arc<DynamicObject> {
    Arc::new(serde_json::from_value(value.clone()).unwrap())
}

fn site(number: usize) -> Value {
    json!({"apiVersion": "tombolo.dev/v1alpha1", "kind": "Site",
        "metadata": {"name": format!("s{number}"), "uid": format!("s{number}")},
        "spec": {"engine": "docker"}})
}

fn node(number: usize) -> Value {
    let has = json!({"cpu": "16", "memory": "64Gi", "storage": "500Gi"});
    json!({"apiVersion": "tombolo.dev/v1alpha1", "kind": "Node",
        "metadata": {"name": format!("n{number}"), "uid": format!("n{number}"),
            "labels": {"zone": format!("z{}", number % 7)}},
        "spec": {"site": format!("s{}", number / NODES_PER_SITE)},
        "status": {"capacity": has, "allocatable": has, "securityScore": number % 100,
            "characteristics": {"cpu": {"architecture": "amd64", "cores": 16}},
            "load": {"cpu": 0.2, "memory": 0.3}, "addresses": ["192.0.2.1"],
            "conditions": [{"type": "Ready", "status": "True", "reason": "Heartbeat",
                "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}})
}

fn app(number: usize) -> Value {
    let component = |name: &str, to: &str| {
        json!({"name": name, "replicas": 1, "needs": {"cpu": "500m", "memory": "256Mi"},
            "run": [{"container": {"image": "shop:1"}}], "expose": [{"port": 80}],
            "connects": if to.is_empty() { json!([]) } else { json!([{"to": to, "port": 80}]) }})
    };
    json!({"apiVersion": "tombolo.dev/v1alpha1", "kind": "App",
        "metadata": {"name": format!("app{number}"), "namespace": "default", "generation": 1,
            "uid": format!("app{number}"), "resourceVersion": "1"},
        "spec": {"components": [component("web", "api"), component("api", "data"),
            component("data", "")]}})
}

/// All objects of a world in which everything runs.
struct Settled {
    observed: Observed,
    memory: Memory,
}

fn settle(nodes: usize, apps: usize, clock: Clock) -> Settled {
    let typed = |value: Value| serde_json::from_value(value).unwrap();
    let mut observed = Observed {
        apps: (0..apps).map(|number| serde_json::from_value(app(number)).unwrap()).collect(),
        sites: (0..nodes.div_ceil(NODES_PER_SITE)).map(site).map(typed).collect(),
        nodes: (0..nodes).map(|number| serde_json::from_value(node(number)).unwrap()).collect(),
        ..Observed::default()
    };
    let mut memory = Memory::default();
    for round in 0..20 {
        let decided = look(&observed, &memory, clock);
        memory = decided.memory;
        if decided.steps.is_empty() {
            break;
        }
        assert!(round < 19, "it does not settle");
        for steps in decided.steps {
            for action in steps.actions {
                carry_out(&mut observed, steps.app, action.verb);
            }
        }
    }
    Settled { observed, memory }
}

fn look(observed: &Observed, memory: &Memory, clock: Clock) -> Plan {
    let limits = Limits::default();
    plan(observed, memory, clock.now(), &Time(clock::time_of_day()), &limits)
}

fn carry_out(observed: &mut Observed, app: usize, verb: Verb) {
    let is = |a: &Assignment, name: &str| a.metadata.name.as_deref() == Some(name);
    match verb {
        Verb::Decide { status, .. } => observed.apps[app].status = Some(*status),
        Verb::Create(mut made) => {
            made.metadata.uid.clone_from(&made.metadata.name);
            made.metadata.resource_version = Some("1".to_owned());
            let up = json!({"addresses": ["192.0.2.1"], "conditions": [{"type": "Available",
                "status": "True", "reason": "Running", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z"}]});
            made.status = Some(serde_json::from_value(up).unwrap());
            observed.assignments.push(*made);
        }
        Verb::Update { name, spec, .. } => {
            let known = observed.assignments.iter_mut().find(|a| is(a, &name)).unwrap();
            known.spec = *spec;
        }
        Verb::Delete { name, .. } => observed.assignments.retain(|a| !is(a, &name)),
    }
}

/// The shortest of some tries.
fn shortest(clock: Clock, mut what: impl FnMut()) -> Duration {
    let tries = (0..5).map(|_| {
        let started = clock.now();
        what();
        clock.now().since(started)
    });
    tries.min().unwrap()
}

fn objects<K: serde::Serialize>(items: &[K]) -> Vec<Arc<DynamicObject>> {
    items.iter().map(|item| object(&serde_json::to_value(item).unwrap())).collect()
}

#[test]
#[ignore = "a measurement: it prints and takes minutes"]
fn of_a_look_in_which_nothing_is_to_be_done() {
    let clock = Clock::start();
    let mut table = String::from("nodes apps | type all again | type none | type one | decide\n");
    for (nodes, apps) in [(1_000, 100), (1_000, 1_000), (10_000, 100), (10_000, 1_000)] {
        let world = settle(nodes, apps, clock);
        let all = (objects(&world.observed.nodes), objects(&world.observed.assignments));
        let fresh = shortest(clock, || {
            Typed::<Node>::default().refresh("Node", all.0.clone());
            Typed::<Assignment>::default().refresh("Assignment", all.1.clone());
        });
        let (mut of_nodes, mut of_assignments) = (Typed::<Node>::default(), Typed::default());
        of_nodes.refresh("Node", all.0.clone());
        of_assignments.refresh("Assignment", all.1.clone());
        let none = shortest(clock, || {
            of_nodes.refresh("Node", all.0.clone());
            Typed::<Assignment>::refresh(&mut of_assignments, "Assignment", all.1.clone());
        });
        let mut changed = all.0.clone();
        let one = shortest(clock, || {
            changed[nodes / 2] = object(&node(nodes / 2));
            of_nodes.refresh("Node", changed.clone());
        });
        let decide = shortest(clock, || {
            assert!(look(&world.observed, &world.memory, clock).steps.is_empty());
        });
        writeln!(table, "{nodes} {apps} | {fresh:.1?} | {none:.1?} | {one:.1?} | {decide:.1?}")
            .unwrap();
    }
    println!("{table}");
}
