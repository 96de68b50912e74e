//! Two agents of one site and one Assignment without a node.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::json;

use super::*;

fn assignment(node: Option<&str>, holder: Option<&str>, until: i64) -> Assignment {
    let mut assignment: Assignment = serde_json::from_value(json!({
        "apiVersion": "tombolo.dev/v1alpha1", "kind": "Assignment",
        "metadata": {"name": "web-0", "namespace": "default", "uid": "u-1"},
        "spec": {"app": "shop", "component": "web", "replica": 0, "site": "north", "node": node,
            "engine": "host", "run": {"process": {"command": ["web"]}}},
    }))
    .unwrap();
    let held_until =
        holder.map(|_| Time(k8s_openapi::jiff::Timestamp::from_second(until).unwrap()));
    assignment.status = Some(tombolo_model::AssignmentStatus {
        agent: holder.map(str::to_owned),
        held_until,
        ..Default::default()
    });
    assignment
}

fn at(seconds: u64) -> Monotonic {
    Monotonic::from_start(Duration::from_secs(seconds))
}

#[test]
fn what_nobody_holds_is_taken_and_what_names_a_node_is_not() {
    let mut memory = Memory::default();
    assert_eq!(decide(&assignment(None, None, 0), "a", &mut memory, at(0)), Decision::Write);
    let named = assignment(Some("a"), None, 0);
    assert_eq!(decide(&named, "a", &mut memory, at(0)), Decision::Leave(None));
}

#[test]
fn the_holder_renews_in_time() {
    let mut memory = Memory::default();
    let held = assignment(None, Some("a"), 0);
    assert_eq!(decide(&held, "a", &mut memory, at(0)), Decision::Wait(at(100)));
    assert_eq!(decide(&held, "a", &mut memory, at(99)), Decision::Wait(at(100)));
    assert_eq!(decide(&held, "a", &mut memory, at(100)), Decision::Write);
    let renewed = assignment(None, Some("a"), 400);
    assert_eq!(decide(&renewed, "a", &mut memory, at(101)), Decision::Wait(at(201)));
}

#[test]
fn another_takes_over_when_the_claim_was_not_renewed_whatever_the_clocks_say() {
    let mut memory = Memory::default();
    // By its own words it ended long ago, and by our clock it has just been seen.
    let held = assignment(None, Some("a"), -1_000_000);
    assert_eq!(decide(&held, "b", &mut memory, at(0)), Decision::Leave(Some(at(300))));
    let renewed = assignment(None, Some("a"), 7);
    assert_eq!(decide(&renewed, "b", &mut memory, at(299)), Decision::Leave(Some(at(599))));
    assert_eq!(decide(&renewed, "b", &mut memory, at(598)), Decision::Leave(Some(at(599))));
    assert_eq!(decide(&renewed, "b", &mut memory, at(599)), Decision::Write);
}
