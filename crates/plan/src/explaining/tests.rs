//! What is told agrees with what the loop does, and says no more than whoever asks may read.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};
use tombolo_model::explanation::{AppName, Search, Target};

use super::*;
use crate::placing::{REPLACE_AFTER_DEFAULT, Verb, plan as look};

fn object(kind: &str, metadata: Value, rest: Value) -> Value {
    let mut value = rest;
    value["apiVersion"] = json!(tombolo_model::keys::API_VERSION);
    value["kind"] = json!(kind);
    value["metadata"] = metadata;
    value
}

fn app(namespace: &str, name: &str, needs: Value) -> App {
    let metadata = json!({"namespace": namespace, "name": name, "uid": format!("uid-{name}"),
        "generation": 1});
    let run = json!([{"container": {"image": "web:1"}}]);
    let spec = json!({"components": [{"name": "web", "needs": needs, "run": run}]});
    serde_json::from_value(object("App", metadata, json!({"spec": spec}))).unwrap()
}

/// Two sites with a node each, `a1` better than `b1`.
fn land(apps: Vec<App>) -> Seen {
    let site = |name: &str| {
        let spec = json!({"spec": {"engine": "docker"}});
        serde_json::from_value(object("Site", json!({"name": name}), spec)).unwrap()
    };
    let node = |name: &str, security: u8| {
        let has = json!({"cpu": "4", "memory": "8Gi"});
        let status = json!({"capacity": has, "allocatable": has, "securityScore": security});
        let rest = json!({"spec": {"site": &name[..1]}, "status": status});
        serde_json::from_value(object("Node", json!({"name": name}), rest)).unwrap()
    };
    let observed = Observed {
        sites: vec![site("a"), site("b")],
        nodes: vec![node("a1", 90), node("b1", 10)],
        apps: apps.into_iter().map(Shared::from).collect(),
        ..Observed::default()
    };
    Seen { observed, ..Seen::default() }
}

/// One look of the loop: what it decides is written, and what it remembers is kept.
fn settle(seen: &mut Seen) {
    let time_of_day = Time(Timestamp::UNIX_EPOCH);
    let planned = look(&seen.observed, &seen.memory, seen.now, &time_of_day, &Limits::default());
    seen.memory = planned.memory;
    for steps in planned.steps {
        for action in steps.actions {
            if let Verb::Decide { status, .. } = action.verb {
                seen.observed.apps[steps.app].status = Some(*status);
            }
        }
    }
}

fn silence(seen: &mut Seen, node: usize) {
    let silent = json!({"type": "Ready", "status": "False", "reason": "HeartbeatLost",
        "message": "no heartbeat for 60 s", "lastTransitionTime": "2024-01-01T10:32:00Z"});
    let status = seen.observed.nodes[node].status.as_mut().unwrap();
    status.conditions = vec![serde_json::from_value(silent).unwrap()];
}

fn node_of(seen: &Seen) -> Option<String> {
    seen.observed.apps[0].status.as_ref().unwrap().placements[0].node.clone()
}

fn named(name: &str) -> PlanRequest {
    let apps = vec![AppName { namespace: "shop".to_owned(), name: name.to_owned() }];
    PlanRequest { apps, ..PlanRequest::default() }
}

fn why_not(seen: &Seen, node: &str) -> WhyComponent {
    let app = AppName { namespace: "shop".to_owned(), name: "web".to_owned() };
    let request = WhyRequest { app, component: None, node: node.to_owned() };
    why(seen, &request).unwrap().components.remove(0)
}

const ALL: MayRead<'static> = &|_| true;

#[test]
fn a_node_that_the_loop_gives_up_is_given_up_by_every_explanation() {
    let mut seen = land(vec![app("shop", "web", json!({"cpu": 2}))]);
    settle(&mut seen);
    assert_eq!(node_of(&seen).as_deref(), Some("a1"));
    silence(&mut seen, 0);
    settle(&mut seen);
    assert_eq!(node_of(&seen).as_deref(), Some("a1"), "its node is waited for");
    seen.now = seen.now + REPLACE_AFTER_DEFAULT + Duration::from_secs(1);

    // Nobody has looked since: what is told is what the next look does.
    let told = plan(seen.clone(), named("web"), ALL, &Limits::default()).unwrap();
    assert_eq!(told.apps[0].instances[0].placement.node.as_deref(), Some("b1"), "{told:?}");
    let fail_other = Target { kind: TargetKind::Node, name: "b1".to_owned() };
    let request = WhatIfRequest { fail: vec![fail_other], ..WhatIfRequest::default() };
    let told = what_if(seen.clone(), request, ALL, &Limits::default()).unwrap();
    assert_eq!(told.differences.len(), 1, "{told:?}");
    assert_eq!(told.differences[0].to, None, "a1 is given up and b1 fails: {told:?}");
    let told = why_not(&seen, "a1");
    assert_eq!(told.instead, [], "it runs nowhere that counts: {told:?}");
    assert!(told.failing[0].starts_with("site a is silent since 2024-01-01 10:32"), "{told:?}");
    settle(&mut seen);
    assert_eq!(node_of(&seen).as_deref(), Some("b1"));

    // Without the memory it would be waited for anew.
    let mut forgotten = land(vec![app("shop", "web", json!({"cpu": 2}))]);
    settle(&mut forgotten);
    silence(&mut forgotten, 0);
    forgotten.now = seen.now;
    assert_eq!(why_not(&forgotten, "a1").instead[0].node, "a1");
}

#[test]
fn of_apps_that_may_not_be_read_only_the_number_is_told() {
    let mut seen = land(vec![
        app("farm", "cow", json!({"cpu": 4, "nodes": ["b1"]})),
        app("shop", "web", json!({"cpu": 2})),
    ]);
    let own = |namespace: &str| namespace == "shop";
    let told = plan(seen.clone(), named("web"), &own, &Limits::default()).unwrap();
    assert_eq!(told.apps.iter().map(|app| app.app.as_str()).collect::<Vec<_>>(), ["shop/web"]);
    assert_eq!((told.hidden, told.notes.len()), (1, 0), "{told:?}");
    let told = plan(seen.clone(), named("web"), ALL, &Limits::default()).unwrap();
    assert_eq!((told.apps.len(), told.hidden), (2, 0), "{told:?}");

    settle(&mut seen);
    let fail = ["a1", "b1"].map(|name| Target { kind: TargetKind::Node, name: name.to_owned() });
    let request = WhatIfRequest { fail: fail.to_vec(), ..WhatIfRequest::default() };
    let told = what_if(seen, request, &own, &Limits::default()).unwrap();
    assert!(told.differences.iter().all(|one| one.app == "shop/web"), "{told:?}");
    assert_eq!((told.differences.len(), told.hidden), (1, 1), "{told:?}");
}

#[test]
fn a_file_is_planned_as_if_it_were_applied() {
    let mut seen = land(vec![app("shop", "web", json!({"cpu": 2}))]);
    settle(&mut seen);
    let same = PlanRequest {
        files: vec![app("shop", "web", json!({"cpu": 2}))],
        ..PlanRequest::default()
    };
    let told = plan(seen.clone(), same, ALL, &Limits::default()).unwrap();
    assert_eq!((told.apps.len(), told.settled.len()), (0, 1), "{told:?}");
    assert_eq!(told.settled[0].placements[0].node.as_deref(), Some("a1"), "{told:?}");
    let large = PlanRequest {
        files: vec![app("shop", "web", json!({"cpu": 20}))],
        search: Search { seed: 7, ..Search::default() },
        ..PlanRequest::default()
    };
    let told = plan(seen.clone(), large, ALL, &Limits::default()).unwrap();
    assert_eq!(told.apps[0].outcome, PlannedOutcome::Kept, "{told:?}");
    assert!(told.apps[0].unplaced[0].reasons[0].contains("needs 20 cpu"), "{told:?}");
    assert!(!told.feasible);
    let unknown = plan(seen, named("web2"), ALL, &Limits::default()).unwrap_err();
    assert_eq!(unknown, Trouble::not_found(About::App(AppId::new("shop", "web2"))));
}

/// A node as busy as this and an idle one: the idle one is chosen, as the loop does it.
#[test]
fn a_busy_node_is_avoided_as_the_loop_avoids_it() {
    let proposed = |first: f64, second: f64| {
        let mut seen = land(Vec::new());
        for (node, cpu) in [(0, first), (1, second)] {
            let status = seen.observed.nodes[node].status.as_mut().unwrap();
            status.security_score = None;
            status.load = serde_json::from_value(json!({"cpu": cpu})).unwrap();
        }
        let files = vec![app("shop", "web", json!({}))];
        let told =
            plan(seen, PlanRequest { files, ..PlanRequest::default() }, ALL, &Limits::default());
        told.unwrap().apps[0].instances[0].placement.node.clone().unwrap()
    };
    assert_eq!((proposed(0.9, 0.1), proposed(0.1, 0.9)), ("b1".to_owned(), "a1".to_owned()));
}
