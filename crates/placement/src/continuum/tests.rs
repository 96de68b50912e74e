//! What a node has to give, and how rows are found.

use serde_json::{Value, json};

use super::*;
use crate::testing::world;

fn amounts(spec: Value, status: Value) -> (u64, u64, u64) {
    let mut spec = spec;
    spec["site"] = json!("s");
    let node: Node = serde_json::from_value(json!({
        "apiVersion": "tombolo.dev/v1alpha1", "kind": "Node",
        "metadata": {"name": "n"}, "spec": spec, "status": status,
    }))
    .unwrap();
    let amounts = Amounts::of_node(&node);
    (amounts.cpu_millis, amounts.memory_bytes, amounts.device("camera"))
}

#[test]
fn gives_what_is_allocatable_or_else_what_is_not_reserved() {
    let whole = json!({"cpu": 4, "memory": "8"});
    assert_eq!(amounts(json!({}), json!({"capacity": whole})), (4000, 8, 0));
    let reserved = json!({"reserved": {"cpu": 5, "memory": "3"}});
    assert_eq!(amounts(reserved.clone(), json!({"capacity": whole})), (0, 5, 0));
    // What is said to be allocatable counts, also when it is nothing.
    let status = json!({"capacity": whole, "allocatable": {"cpu": 0}});
    assert_eq!(amounts(reserved, status), (0, 5, 0));
}

#[test]
fn counts_a_device_that_was_stated_and_found_once() {
    let found = json!({"devices": [{"name": "camera", "status": "available"}, {"name": "old", "path": "camera", "status": "busy"}]});
    assert_eq!(amounts(json!({}), json!({"characteristics": found})).2, 1);
    let stated = json!({"allocatable": {"devices": {"camera": 2}}, "characteristics": found});
    assert_eq!(amounts(json!({}), stated).2, 2);
}

#[test]
fn rows_are_found_by_name_in_whatever_order_they_came() {
    let world = world("site z docker\nsite a docker\nnode y z cpu=1\nnode b a cpu=2");
    let (continuum, troubles) = Continuum::of(&world.sites, &world.nodes, &world.links);
    assert_eq!(troubles, []);
    let node = continuum.node_index("y").unwrap();
    assert_eq!((continuum.node(node).name, continuum.site_of(node).name), ("y", "z"));
    assert_eq!((continuum.node_index("c"), continuum.site_index("a")), (None, Some(0)));
}
