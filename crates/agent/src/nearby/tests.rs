//! Whom an instance is told of, by what the controller says and by what runs here.

use serde_json::{Value, json};

use super::*;

fn assignment(component: &str, peers: Value, status: Value) -> Assignment {
    serde_json::from_value(json!({
        "apiVersion": "tombolo.dev/v1alpha1", "kind": "Assignment",
        "metadata": {"name": component, "namespace": "default", "uid": component},
        "spec": {"app": "shop", "component": component, "replica": 0, "site": "north",
            "node": "crane", "engine": "host", "run": {"process": {"command": ["web"]}},
            "peers": peers},
        "status": status,
    }))
    .unwrap()
}

/// `store 5432=a:1` runs here: its port and where it is reached.
fn nearby(runs: &[&str], assigned: &[Assignment]) -> Nearby {
    let mut nearby = Nearby::default();
    for one in runs {
        let (component, at) = one.split_once(' ').unwrap();
        let (port, address) = at.split_once('=').unwrap();
        let key = ("default".to_owned(), "shop".to_owned(), component.to_owned());
        let reached = (port.parse().unwrap(), address.to_owned());
        nearby.reached.entry(key).or_default().push(reached);
    }
    for one in assigned {
        nearby.assign(one);
    }
    nearby
}

#[track_caller]
fn check(nearby: &Nearby, peer: Value, expected: &[&str]) {
    let caller = assignment("web", json!([peer]), Value::Null);
    assert_eq!(nearby.addresses(&caller, &caller.spec.peers[0]), expected);
}

#[test]
fn what_runs_here_is_known_before_the_controller_says_so() {
    let here = nearby(&["store 5432=a:1", "store 80=a:2"], &[]);
    check(&here, json!({"component": "store"}), &["a:1"]);
    check(&here, json!({"component": "store", "port": 80}), &["a:2"]);
    check(&here, json!({"component": "store", "port": 81, "addresses": ["b:9"]}), &["b:9"]);
    check(&here, json!({"component": "store", "addresses": ["b:9", "a:1"]}), &["a:1", "b:9"]);
    check(&here, json!({"component": "store", "app": "other"}), &[]);
}

#[test]
fn an_address_that_this_node_has_given_up_is_not_handed_out() {
    let status = json!({"addresses": ["a"], "ports": [{"port": 5432, "published": 7}]});
    let store = assignment("store", json!([]), status);
    let moved = nearby(&["store 5432=a:8"], std::slice::from_ref(&store));
    check(&moved, json!({"component": "store", "addresses": ["a:7", "b:9"]}), &["a:8", "b:9"]);
    let down = nearby(&[], std::slice::from_ref(&store));
    check(&down, json!({"component": "store", "addresses": ["a:7"]}), &[]);
    let same = nearby(&["store 5432=a:7"], &[store]);
    check(&same, json!({"component": "store", "addresses": ["a:7"]}), &["a:7"]);
}

#[test]
fn whoever_is_bound_to_an_address_begins_with_it() {
    let here = nearby(&["store 5432=a:1"], &[]);
    let peer = json!({"component": "store", "addresses": ["b:9"], "bound": "b:9"});
    check(&here, peer, &["b:9", "a:1"]);
    let gone = json!({"component": "store", "addresses": [], "bound": "b:9"});
    check(&here, gone, &["a:1"]);
}

#[test]
fn what_is_assigned_to_this_node_does_not_count_as_up_elsewhere() {
    let store = assignment("store", json!([]), Value::Null);
    let here = nearby(&[], &[store]);
    let caller = |addresses: Value| {
        assignment("web", json!([{"component": "store", "addresses": addresses}]), Value::Null)
    };
    let up = |nearby: &Nearby, caller: &Assignment| {
        nearby.is_up_elsewhere(caller, &caller.spec.peers[0])
    };
    assert!(!up(&here, &caller(json!(["a:1"]))), "it was up here, before the reboot");
    assert!(up(&here, &caller(json!(["a:1", "b:1"]))));
    assert!(up(&nearby(&[], &[]), &caller(json!(["b:1"]))));
    assert!(!up(&nearby(&[], &[]), &caller(json!([]))));
}
