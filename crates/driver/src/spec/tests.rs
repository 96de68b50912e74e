//! What becomes of an Assignment.

use expect_test::{Expect, expect};
use serde_json::json;

use super::*;

/// The Spec of an Assignment with this `run` and `expose`, where the Secret `db` has the entry
/// `password` and the ConfigMap `web` the entry `page`.
#[track_caller]
fn check(run: Value, expose: Value, expected: Expect) {
    let assignment: Assignment = serde_json::from_value(json!({
        "apiVersion": "tombolo.dev/v1alpha1",
        "kind": "Assignment",
        "metadata": {"name": "shop-web-0", "namespace": "default", "uid": "u-1"},
        "spec": {
            "app": "shop", "component": "web", "replica": 0, "site": "here", "engine": "host",
            "run": run, "expose": expose,
        },
    }))
    .unwrap();
    let look_up = |entry: Entry<'_>| match entry {
        Entry::Secret(key) if key.name == "db" && key.key == "password" => {
            Ok(Secret::from("hunter2"))
        }
        Entry::Config(key) if key.name == "web" && key.key == "page" => Ok(Secret::from("<p>")),
        Entry::Secret(key) if key.name == "db" => Err(Absent::Entry),
        Entry::Secret(_) | Entry::Config(_) => Err(Absent::Object),
    };
    let text = match Spec::resolve(&assignment, 1, &look_up) {
        Ok(spec) => {
            let fixed: Vec<String> = spec.fixed_ports.iter().map(ToString::to_string).collect();
            assert!(!format!("{spec:?}").contains("hunter2"));
            let secrets: Vec<&[u8]> = spec.env.values().map(Secret::expose).collect();
            let secrets: Vec<_> = secrets.iter().map(|s| String::from_utf8_lossy(s)).collect();
            format!(
                "{}\n{:#?}\n{secrets:?}\n{:?}\nfixed {fixed:?}\n",
                spec.id, spec.files, spec.ports
            )
        }
        Err(error) => format!("{error}\n"),
    };
    expected.assert_eq(&text);
}

#[test]
fn entries_of_secrets_and_config_maps_are_looked_up() {
    check(
        json!({"process": {
            "command": ["web"],
            "env": {"A": "1"},
            "secretEnv": {"PASSWORD": {"name": "db", "key": "password"}},
            "files": [{"path": "/index.html", "config": {"name": "web", "key": "page"}}],
            "ports": [8080],
        }}),
        json!([]),
        expect![[r#"
            u-1.1
            [
                FilePlaced {
                    path: "/index.html",
                    content: Secret(hidden),
                },
            ]
            ["1", "hunter2"]
            [Port { port: 8080, protocol: Tcp, published: None, exposed: false, reach: Loopback }]
            fixed ["8080/tcp"]
        "#]],
    );
}

#[test]
fn every_missing_entry_is_told() {
    check(
        json!({"process": {
            "command": ["web"],
            "secretEnv": {"PASSWORD": {"name": "db", "key": "pass"}},
            "files": [{"path": "/index.html", "config": {"name": "www", "key": "page"}}],
        }}),
        json!([]),
        expect![[r#"
            there is no ConfigMap "www" with an entry "page", no entry "pass" in the Secret "db"
        "#]],
    );
}

#[test]
fn a_port_is_fixed_unless_the_program_asks_for_it() {
    check(
        json!({"process": {"command": ["web", "--port=$(PORT_80)", "$(PORT)"], "ports": [90, 80, 70]}}),
        json!([{"port": 80, "published": 8080}, {"port": 60, "protocol": "udp"}]),
        expect![[r#"
            u-1.1
            []
            []
            [Port { port: 90, protocol: Tcp, published: None, exposed: false, reach: Loopback }, Port { port: 80, protocol: Tcp, published: Some(8080), exposed: true, reach: Public }, Port { port: 70, protocol: Tcp, published: None, exposed: false, reach: Loopback }, Port { port: 60, protocol: Udp, published: None, exposed: true, reach: Public }]
            fixed ["70/tcp", "8080/tcp", "60/udp"]
        "#]],
    );
}

#[test]
fn a_container_holds_only_the_ports_that_it_publishes() {
    check(
        json!({"container": {"image": "web:1", "ports": [80, 81]}}),
        json!([{"port": 80, "published": 8080}]),
        expect![[r#"
            u-1.1
            []
            []
            [Port { port: 80, protocol: Tcp, published: Some(8080), exposed: true, reach: Public }, Port { port: 81, protocol: Tcp, published: None, exposed: false, reach: Loopback }]
            fixed ["8080/tcp"]
        "#]],
    );
}

#[test]
fn one_way_must_be_given() {
    check(
        json!({}),
        json!([]),
        expect![[r#"
        exactly one way to run must be given: container, process, compose or manifests
    "#]],
    );
}

#[test]
fn a_port_is_open_to_its_own_node_unless_the_assignment_says_more() {
    let opens = |reach: serde_json::Value| {
        let assignment: Assignment = serde_json::from_value(json!({
            "apiVersion": "tombolo.dev/v1alpha1",
            "kind": "Assignment",
            "metadata": {"name": "shop-web-0", "namespace": "default", "uid": "u-1"},
            "spec": {
                "app": "shop", "component": "web", "replica": 0, "site": "here", "engine": "docker",
                "run": {"container": {"image": "web:1"}},
                "expose": [{"port": 80}, {"port": 443}],
                "reach": reach,
            },
        }))
        .unwrap();
        let mut spec = Spec::resolve(&assignment, 1, &|_| Err(Absent::Object)).unwrap();
        spec.address = Some(IpAddr::from([10, 0, 0, 7]));
        let on = |port: &Port| spec.opens_on(port.reach).map(|on| on.to_string());
        spec.ports.iter().map(|port| on(port).unwrap_or_default()).collect::<Vec<_>>()
    };
    assert_eq!(opens(json!([])), ["127.0.0.1", "127.0.0.1"]);
    assert_eq!(opens(json!([{"port": 80, "from": "node"}])), ["10.0.0.7", "127.0.0.1"]);
    assert_eq!(opens(json!([{"port": 443, "from": "public"}])), ["127.0.0.1", ""]);
    assert_eq!(opens(Value::Null), ["", ""], "its controller knows of no reach");
}
