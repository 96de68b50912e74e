//! Which ports are open to whom, and under which addresses.

use serde_json::{Value, json};

use super::*;

fn component(value: Value) -> Component {
    serde_json::from_value(value).unwrap()
}

fn container(nodes: &[&str]) -> Value {
    json!({"run": [{"container": {"image": "x:1"}}], "needs": {"nodes": nodes}})
}

/// A database with ports 5432 and 9187, the second public if `public`, and a caller that says this of
/// its connection; both are kept to these nodes.
#[track_caller]
fn check(connection: Value, callee: Value, caller: Value, expected: &[&str]) {
    let mut callee = callee;
    callee["name"] = json!("db");
    callee["expose"] = json!([{"port": 5432}, {"port": 9187, "protocol": "http"}]);
    let mut caller = caller;
    caller["name"] = json!("web");
    let mut connects = connection;
    connects["to"] = json!("db");
    caller["connects"] = json!([connects]);
    let (callee, caller) = (component(callee), component(caller));
    let open = open(&callee, caller.connects.iter().map(|connection| (&caller, connection)));
    let shown: Vec<String> = open.iter().map(|one| format!("{} {}", one.port, one.from)).collect();
    assert_eq!(shown, expected);
}

#[test]
fn a_port_is_open_to_its_own_node_alone_unless_somebody_says_more() {
    let quiet = component(json!({
        "name": "db", "run": [{"container": {"image": "x:1"}}],
        "expose": [{"port": 5432, "published": 5432}],
    }));
    assert!(open(&quiet, []).is_empty());
    let public = component(json!({
        "name": "web", "run": [{"container": {"image": "x:1"}}],
        "expose": [{"port": 80, "public": true}, {"port": 81}],
    }));
    let open = open(&public, []);
    assert_eq!(open.len(), 1);
    assert_eq!((open[0].port, open[0].from), (80, Reach::Public));
}

#[test]
fn a_port_that_somebody_elsewhere_may_call_is_open_on_its_node() {
    check(json!({"port": 9187}), container(&[]), container(&[]), &["9187 node"]);
    check(json!({}), container(&[]), container(&[]), &["5432 node"]);
    check(json!({}), container(&["a"]), container(&["b"]), &["5432 node"]);
    check(json!({}), container(&["a"]), container(&["a", "b"]), &["5432 node"]);
}

#[test]
fn those_that_are_kept_to_one_node_need_no_port_of_it() {
    check(json!({}), container(&["a"]), container(&["a"]), &[]);
    let process = json!({"run": [{"process": {"command": ["web"]}}], "needs": {"nodes": ["a"]}});
    check(json!({}), process.clone(), process.clone(), &[]);
    // A container does not reach the loopback address of its node.
    check(json!({}), process, container(&["a"]), &["5432 node"]);
    let bound = json!({"onMove": "restart"});
    check(bound, container(&["a"]), container(&["a"]), &["5432 node"]);
}

#[test]
fn a_port_is_closed_only_with_the_next_change_of_its_app() {
    let open = |list: &[(u16, Reach)]| -> Vec<PortReach> {
        let one = |(port, from): &(u16, Reach)| PortReach {
            port: *port,
            protocol: Protocol::Tcp,
            from: *from,
        };
        list.iter().map(one).collect()
    };
    let known = open(&[(80, Reach::Node), (81, Reach::Public)]);
    let wanted = open(&[(81, Reach::Node), (82, Reach::Node)]);
    let expected = open(&[(80, Reach::Node), (81, Reach::Public), (82, Reach::Node)]);
    assert_eq!(widest(&known, &wanted), expected);
}

fn status(addresses: Value, ports: Value) -> AssignmentStatus {
    serde_json::from_value(json!({"restarts": 0, "addresses": addresses, "ports": ports})).unwrap()
}

#[track_caller]
fn elsewhere(ports: Value, expected: &[(&str, u16)]) {
    let status = status(json!(["crane.example", "fd00::7"]), ports);
    let found = from_elsewhere(&status, 80, Protocol::Http);
    let found: Vec<(&str, u16)> = found.iter().map(|(host, port)| (host.as_str(), *port)).collect();
    assert_eq!(found, expected);
}

#[test]
fn others_are_told_only_what_they_can_reach() {
    let everywhere = [("crane.example", 8080), ("[fd00::7]", 8080)];
    elsewhere(json!([{"port": 80, "published": 8080, "reach": "public"}]), &everywhere);
    elsewhere(json!([{"port": 80, "published": 8080}]), &everywhere);
    let node = json!([{"port": 80, "published": 8080, "reach": "node", "on": "10.0.0.7"}]);
    elsewhere(node, &[("10.0.0.7", 8080)]);
    let inside = json!([{"port": 80, "published": 8080, "reach": "loopback", "on": "127.0.0.1"}]);
    elsewhere(inside, &[]);
    elsewhere(json!([{"port": 80}]), &[]);
    elsewhere(json!([]), &[("crane.example", 80), ("[fd00::7]", 80)]);
}

#[test]
fn those_on_the_same_node_are_told_the_nearest_way() {
    let port = |published: Option<u16>, reach, on: Option<&str>| PublishedPort {
        port: 80,
        protocol: Protocol::Tcp,
        published,
        reach,
        on: on.map(str::to_owned),
    };
    let here = |port: &PublishedPort, own| from_here(port, own, Some("crane")).unwrap_or_default();
    let own = Some("172.18.0.2");
    assert_eq!(here(&port(Some(8080), Some(Reach::Public), None), own), "crane:8080");
    let node = port(Some(8080), Some(Reach::Node), Some("fd00::7"));
    assert_eq!(here(&node, own), "[fd00::7]:8080");
    let inside = port(Some(8080), Some(Reach::Loopback), Some("127.0.0.1"));
    assert_eq!(here(&inside, own), "172.18.0.2:80");
    assert_eq!(here(&inside, None), "127.0.0.1:8080");
    assert_eq!(here(&port(None, None, None), own), "172.18.0.2:80");
    assert_eq!(here(&port(None, None, None), None), "");
}
