//! What one look costs, and how that grows with nodes and Apps. Prints figures and asserts none of
//! them: `cargo test --release -p tombolo-controller --lib cost -- --ignored --nocapture`.

use std::fmt::Write as _;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use tombolo_model::{Assignment, Node, Shared};
use tombolo_plan::placing::{Verb, plan};

use super::*;
use crate::mirror::{Lenient, Mirror};

/// Nodes of one site.
const NODES_PER_SITE: usize = 10;

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
    let is = |a: &Shared<Assignment>, name: &str| a.metadata.name.as_deref() == Some(name);
    match verb {
        Verb::Decide { status, .. } => observed.apps[app].status = Some(*status),
        Verb::Create(mut made) => {
            made.metadata.uid.clone_from(&made.metadata.name);
            made.metadata.resource_version = Some("1".to_owned());
            let up = json!({"addresses": ["192.0.2.1"], "conditions": [{"type": "Available",
                "status": "True", "reason": "Running", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z"}]});
            made.status = Some(serde_json::from_value(up).unwrap());
            observed.assignments.push((*made).into());
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

fn texts<K: serde::Serialize>(items: &[K]) -> Vec<String> {
    items.iter().map(|item| serde_json::to_string(item).unwrap()).collect()
}

fn read<K>(texts: &[String]) -> Mirror<K>
where
    K: kube::Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned,
    K: Send + Sync + 'static,
{
    let mirror = Mirror::new("measured");
    for text in texts {
        mirror.put(serde_json::from_str::<Lenient<K>>(text).unwrap());
    }
    mirror
}

#[test]
#[ignore = "a measurement: it prints and takes minutes"]
fn of_a_look_in_which_nothing_is_to_be_done() {
    let clock = Clock::start();
    let mut table = String::from("nodes apps | read all | see all | decide\n");
    for (nodes, apps) in [(1_000, 100), (1_000, 1_000), (10_000, 100), (10_000, 1_000)] {
        let world = settle(nodes, apps, clock);
        let texts = (texts(&world.observed.nodes), texts(&world.observed.assignments));
        let mut mirrors: (Mirror<Node>, Mirror<Assignment>) = (read(&texts.0), read(&texts.1));
        let all = shortest(clock, || mirrors = (read(&texts.0), read(&texts.1)));
        let see = shortest(clock, || drop((mirrors.0.all(), mirrors.1.all())));
        let decide = shortest(clock, || {
            assert!(look(&world.observed, &world.memory, clock).steps.is_empty());
        });
        writeln!(table, "{nodes} {apps} | {all:.1?} | {see:.1?} | {decide:.1?}").unwrap();
    }
    println!("{table}");
}
