//! What is whose, and what may be changed of it, as data.

use serde_json::json;

use super::*;

fn node() -> Remit {
    Remit::Node { site: "north".to_owned(), node: "n1".to_owned() }
}

fn site() -> Remit {
    Remit::Site { site: "north".to_owned() }
}

#[test]
fn an_assignment_is_for_the_agent_of_its_node_or_of_its_whole_site() {
    // The site and the node of an Assignment; for the agent of n1 at north, for that of all of north.
    let table = [
        ("north", json!("n1"), true, true),
        ("north", json!("n2"), false, true),
        ("north", Value::Null, true, true),
        ("south", json!("n1"), false, false),
        ("south", Value::Null, false, false),
    ];
    for (at, named, for_node, for_site) in table {
        let assignment = json!({"spec": {"site": at, "node": named}});
        assert_eq!(is_for(&assignment, &node()), for_node, "{assignment}");
        assert_eq!(is_for(&assignment, &site()), for_site, "{assignment}");
    }
}

#[test]
fn an_event_is_about_what_lies_where_the_event_does() {
    let event = |kind: &str, namespace: Option<&str>| {
        json!({"involvedObject": {"apiVersion": "tombolo.dev/v1alpha1", "kind": kind,
            "namespace": namespace, "name": "a"}})
    };
    let of = |event: &Value, namespace| format!("{:?}", about(event, namespace));
    let assignment = event("Assignment", Some("shop"));
    assert_eq!(of(&assignment, Some("shop")), r#"Assignment("a")"#);
    assert_eq!(of(&assignment, Some("farm")), "Other");
    assert_eq!(of(&event("Node", None), Some("default")), r#"Node("a")"#);
    assert_eq!(of(&event("Node", None), Some("shop")), "Other");
    assert_eq!(of(&event("Site", None), Some("default")), "Other");
    let mut foreign = event("Node", None);
    foreign["involvedObject"]["apiVersion"] = json!("v1");
    assert_eq!(of(&foreign, Some("default")), "Other");
}

#[test]
fn the_agent_of_a_site_keeps_nodes_at_its_site_and_out_of_the_hands_of_others() {
    let at = |site: &str| json!({"metadata": {"name": "n2"}, "spec": {"site": site}});
    let change = |part, live: &Value, object: &Value| {
        may_change(Some(&site()), (GROUP, "Node"), part, live, object)
    };
    let (main, status) = (Part::Main, Part::Status);
    assert_eq!(change(main, &Value::Null, &at("north")), Ok(()), "it makes one");
    let mut cordoned = at("north");
    cordoned["spec"]["unschedulable"] = json!(true);
    assert_eq!(change(main, &at("north"), &cordoned), Ok(()));
    assert!(change(main, &cordoned, &at("north")).is_err(), "whoever closed it opens it again");
    assert_eq!(change(status, &at("north"), &at("north")), Ok(()));
    let elsewhere = Err(Refused::Forbidden("may give no node to another site"));
    assert_eq!(change(main, &Value::Null, &at("south")), elsewhere);
    assert_eq!(change(main, &at("north"), &at("south")), elsewhere);
    assert_eq!(change(main, &at("south"), &at("north")), Err(Refused::NotFound), "it takes none");
    assert_eq!(change(status, &at("south"), &at("south")), Err(Refused::NotFound));
    for mark in ["tombolo.dev/key", "tombolo.dev/revoked", "tombolo.dev/machine"] {
        let mut marked = at("north");
        marked["metadata"]["annotations"] = json!({mark: "x"});
        let refused = Err(Refused::Forbidden("may not change who acts for a node"));
        assert_eq!(change(main, &at("north"), &marked), refused, "{mark}");
        assert_eq!(change(main, &marked, &at("north")), refused, "{mark}");
        assert_eq!(change(main, &Value::Null, &marked), refused, "{mark}");
    }
    let mut held = at("north");
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    assert!(change(main, &at("north"), &held).is_err());
}

#[test]
fn what_makes_a_node_a_better_place_is_not_for_its_agent_to_say() {
    let node = |more: Value| {
        let mut node = json!({"metadata": {"name": "n2"}, "spec": {"site": "north"}});
        for (pointer, value) in more.as_object().unwrap() {
            let (part, key) = pointer.split_once(' ').unwrap();
            match part {
                "label" => node["metadata"]["labels"][key] = value.clone(),
                part => node[part][key] = value.clone(),
            }
        }
        node
    };
    let change = |remit: Remit, part, live: &Value, object: &Value| {
        may_change(Some(&remit), (GROUP, "Node"), part, live, object)
    };
    let (plain, new) = (node(json!({})), Value::Null);
    for (may, live, object) in [
        (true, &new, node(json!({"label tombolo.dev/site": "north"}))),
        (true, &new, node(json!({"label tombolo.dev/managed": "true", "label zone": "a"}))),
        (true, &plain, node(json!({"label zone": "a"}))),
        (false, &new, node(json!({"label tombolo.dev/site": "south"}))),
        (false, &new, node(json!({"label secure.tombolo.dev/hall": "true"}))),
        (false, &plain, node(json!({"label secure.tombolo.dev/hall": "true"}))),
        (false, &node(json!({"label secure.tombolo.dev/hall": "false"})), plain.clone()),
        (false, &new, node(json!({"spec location": {"country": "DE"}}))),
        (false, &plain, node(json!({"spec location": {"country": "DE"}}))),
        (
            false,
            &node(json!({"spec taints": [{"key": "a", "effect": "NoSchedule"}]})),
            plain.clone(),
        ),
    ] {
        let answer = change(site(), Part::Main, live, &object);
        assert_eq!(answer.is_ok(), may, "{live} to {object}: {answer:?}");
    }
    for (may, live) in [
        (true, node(json!({"label tombolo.dev/managed": "true", "label zone": "a"}))),
        (false, node(json!({"label secure.tombolo.dev/hall": "false"}))),
        (false, node(json!({"spec taints": [{"key": "a", "effect": "NoSchedule"}]}))),
        (false, node(json!({"spec unschedulable": true}))),
    ] {
        let answer = may_remove(&site(), (GROUP, "Node"), &live);
        assert_eq!(answer.is_ok(), may, "it would be made again without: {live}");
    }
    let scored = |score: u8| node(json!({"status securityScore": score}));
    let of_site = |live: &Value, object: &Value| change(site(), Part::Status, live, object);
    assert!(of_site(&plain, &scored(99)).is_err(), "its site is trusted as far as its spec says");
    assert!(of_site(&scored(50), &scored(51)).is_err());
    assert_eq!(of_site(&scored(50), &scored(50)), Ok(()), "what a person has written may stay");
    let own = Remit::Node { site: "north".to_owned(), node: "n2".to_owned() };
    assert_eq!(
        change(own, Part::Status, &plain, &scored(80)),
        Ok(()),
        "it has looked at its machine"
    );
}

#[test]
fn what_has_gone_to_another_agent_is_not_found() {
    let other = json!({"spec": {"site": "north", "node": "n2"}});
    let change = |remit: Option<&Remit>| {
        may_change(remit, (GROUP, "Assignment"), Part::Status, &other, &other)
    };
    assert_eq!(change(Some(&node())), Err(Refused::NotFound));
    assert_eq!(change(Some(&site())), Ok(()));
    assert_eq!(change(None), Ok(()), "whoever stands in for agents is bound to no node");
}

#[test]
fn an_agent_lets_go_of_what_is_being_deleted_and_changes_nothing_else() {
    let live = json!({
        "metadata": {"name": "a", "deletionTimestamp": "2026-06-01T00:00:00Z",
            "finalizers": ["tombolo.dev/undeploy", "example.com/hold"], "managedFields": [1]},
        "spec": {"site": "north"}, "status": {},
    });
    let with = |pointer: &str, value: Value| {
        let mut object = live.clone();
        *object.pointer_mut(pointer).unwrap() = value;
        object
    };
    let gone = with("/metadata/finalizers", json!(["example.com/hold"]));
    assert!(holds_or_lets_go(&live, &gone));
    assert!(holds_or_lets_go(&live, &with("/metadata/managedFields", json!([]))));
    assert!(
        !holds_or_lets_go(&live, &with("/metadata/finalizers", json!([]))),
        "another's finalizer"
    );
    assert!(!holds_or_lets_go(&live, &with("/spec/site", json!("south"))));
    assert!(!holds_or_lets_go(&live, &with("/metadata/name", json!("b"))));
    let mut alive = live.clone();
    alive["metadata"].as_object_mut().unwrap().remove("deletionTimestamp");
    let mut alive_gone = gone.clone();
    alive_gone["metadata"].as_object_mut().unwrap().remove("deletionTimestamp");
    assert!(!holds_or_lets_go(&alive, &alive_gone), "nobody has asked for its end");
    assert!(holds_or_lets_go(&alive_gone, &alive), "it takes hold of it");
    assert!(!holds_or_lets_go(&gone, &live), "it is too late to take hold of it");
}

#[test]
fn a_secret_is_named_by_the_environment_and_the_files_alone() {
    let assignment = json!({"spec": {"run": {"process": {
        "command": ["x", "token"], "env": {"A": "token"},
        "secretEnv": {"KEY": {"name": "keys", "key": "a"}},
        "files": [{"path": "/a", "secret": {"name": "certs", "key": "a"}},
            {"path": "/b", "config": {"name": "settings", "key": "b"}}],
    }}}});
    let named = |resource: &str| {
        let all = ["keys", "certs", "settings", "token", "a"];
        all.into_iter().filter(|name| names(&assignment, resource, name)).collect::<Vec<_>>()
    };
    assert_eq!(named("secrets"), ["keys", "certs"]);
    assert_eq!(named("configmaps"), ["settings"]);
}

#[test]
fn an_agent_tells_of_links_that_its_own_node_is_an_end_of_and_of_no_others() {
    let probing = |name: &str, asked: &[&str], found: &[&str]| {
        let named = |nodes: &[&str]| nodes.iter().map(|it| json!({"node": it})).collect::<Vec<_>>();
        json!({"metadata": {"name": name}, "spec": {"peers": named(asked)},
            "status": {"found": named(found)}})
    };
    let change = |remit: &Remit, part, name: &str, found: &[&str]| {
        let (live, object) = (probing(name, &["n2"], &[]), probing(name, &["n2"], found));
        may_change(Some(remit), (GROUP, "Probing"), part, &live, &object)
    };
    assert_eq!(change(&node(), Part::Status, "n1", &["n2"]), Ok(()));
    assert_eq!(change(&node(), Part::Status, "n1", &[]), Ok(()));
    let told = |found: &[&str]| change(&node(), Part::Status, "n1", found);
    assert!(matches!(told(&["n3"]), Err(Refused::Forbidden(_))), "nobody asked for that");
    assert!(matches!(told(&["n2", "n1"]), Err(Refused::Forbidden(_))), "to itself");
    let other = change(&node(), Part::Status, "n2", &["n2"]);
    assert_eq!(other, Err(Refused::NotFound), "in the name of a sibling");
    assert_eq!(change(&site(), Part::Status, "n1", &["n2"]), Err(Refused::NotFound));
    let own = change(&node(), Part::Main, "n1", &[]);
    assert!(matches!(own, Err(Refused::Forbidden(_))), "whom it probes is not its to say");
}
