//! A port of a node is given to one.

use super::*;

/// Nodes `n0`… with one cpu each.
fn land(nodes: usize) -> crate::what_if::World {
    let nodes = (0..nodes).map(|number| format!("\nnode n{number} s cpu=1"));
    world(&format!("site s docker{}", nodes.collect::<String>()))
}

fn publishes(name: &str, replicas: u32, expose: Value) -> Value {
    json!({"name": name, "replicas": replicas, "expose": expose})
}

fn on(port: u16) -> Value {
    json!([{"port": 80, "published": port, "public": true}])
}

#[track_caller]
fn places(world: &crate::what_if::World) -> Vec<String> {
    let plan = world.plan(&Options::default());
    let placed = plan.apps.iter().flat_map(|app| &app.instances);
    let mut nodes: Vec<String> = placed.filter_map(|one| one.placement.node.clone()).collect();
    nodes.sort();
    nodes
}

#[test]
fn two_instances_with_one_published_port_go_to_two_nodes() {
    let world = land(2).with([web(json!([publishes("vote", 2, on(18222))]))]);
    assert_eq!(places(&world), ["n0", "n1"]);
    let two = json!([publishes("a", 1, on(80)), publishes("b", 1, on(80))]);
    assert_eq!(places(&land(2).with([web(two)])), ["n0", "n1"]);
}

#[test]
fn ports_of_two_transports_and_ports_that_are_not_fixed_are_no_matter() {
    let dns = json!([
        publishes("tcp", 1, json!([{"port": 53, "published": 53}])),
        publishes("udp", 1, json!([{"port": 53, "protocol": "udp", "published": 53}])),
        publishes("any", 2, json!([{"port": 53}])),
    ]);
    assert_eq!(places(&land(1).with([web(dns)])), ["n0", "n0", "n0", "n0"]);
}

#[test]
fn a_port_that_only_some_way_to_run_must_have_is_not_asked_for() {
    let free = json!({"process": {"command": ["web", "$(PORT)"], "ports": [80]}});
    let bound = json!({"process": {"command": ["web"], "ports": [80]}});
    let part = |run: Value| json!([{"name": "web", "replicas": 2, "run": run}]);
    let host = || world("site s host\nnode n0 s cpu=1");
    assert_eq!(places(&host().with([web(part(json!([free])))])), ["n0", "n0"]);
    assert!(places(&host().with([web(part(json!([bound])))])).is_empty());
    let either = json!([{"container": {"image": "web:1"}}, bound]);
    assert_eq!(places(&land(1).with([web(part(either))])), ["n0", "n0"]);
}

#[test]
fn who_has_the_port_is_named() {
    let mut world =
        land(1).with([app("first", json!({"components": [publishes("a", 1, on(80))]}))]);
    let plan = world.plan(&Options::default());
    world.settle(&plan);
    let world = world.with([web(json!([publishes("b", 1, on(80))]))]);
    let plan = world.plan(&Options::default());
    let unplaced = plan.apps.iter().flat_map(|app| &app.unplaced).next().unwrap();
    let expected =
        "needs port 80/tcp of the node; the only node, n0, has given it to shop/first/a/0";
    assert!(unplaced.reasons[0].contains(expected), "{unplaced:?}");
    assert!(
        unplaced.suggestion.as_ref().is_some_and(|says| says.contains("another port than 80/tcp")),
        "{unplaced:?}"
    );
}

#[test]
fn of_several_that_share_a_port_it_is_said_that_a_node_has_it_once() {
    let world = land(1).with([web(json!([publishes("vote", 2, on(80))]))]);
    let plan = world.plan(&Options::default());
    let unplaced = &plan.apps[0].unplaced[0];
    assert!(unplaced.reasons[0].contains("together they need port 80/tcp 2 times"), "{unplaced:?}");
    assert!(unplaced.reasons[0].contains("port 80/tcp once"), "{unplaced:?}");
    let suggestion = unplaced.suggestion.as_deref();
    assert_eq!(suggestion, Some("they would fit if each published another port"));
}

#[test]
fn two_that_already_share_a_node_and_a_port_are_told_apart() {
    let parts = json!([publishes("vote", 2, on(80))]);
    let mut world = land(2).with([web(parts)]);
    let plan = world.plan(&Options::default());
    world.settle(&plan);
    world.running.iter_mut().for_each(|one| one.node = "n0".to_owned());
    assert_eq!(places(&world), ["n0", "n1"]);
}

#[test]
fn a_cluster_has_ports_of_its_own() {
    let world = world("site s kubernetes\nnode n0 s cpu=1");
    let world = world.with([web(json!([publishes("vote", 2, on(30080))]))]);
    assert_eq!(places(&world), ["n0", "n0"]);
}
