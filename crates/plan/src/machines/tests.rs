//! Machines come, change, go down and go, as data.

use expect_test::{Expect, expect};

use super::*;

/// `name`, `name label:x` or `name down:why`.
fn machine(text: &str) -> Machine {
    let mut words = text.split_whitespace();
    let name = words.next().unwrap().to_owned();
    let mut machine =
        Machine { name, addresses: vec!["10.0.0.1".to_owned()], ..Machine::default() };
    for word in words {
        match word.split_once(':').unwrap() {
            ("label", value) => _ = machine.labels.insert("zone".to_owned(), value.to_owned()),
            ("down", why) => machine.down = Some(why.to_owned()),
            other => panic!("{other:?}"),
        }
    }
    machine
}

/// Node `byhand` was made by a person. Plans until nothing is left to do.
#[track_caller]
fn check(looks: &[&[&str]], expect: Expect) {
    let now = Time(k8s_openapi::jiff::Timestamp::UNIX_EPOCH);
    let spec = tombolo_model::NodeSpec { site: "alps".to_owned(), ..Default::default() };
    let mut nodes = vec![Node::new("byhand", spec)];
    let mut said = String::new();
    for (number, look) in looks.iter().enumerate() {
        let machines: Vec<Machine> = look.iter().map(|text| machine(text)).collect();
        for _ in 0..2 {
            for action in plan("alps", &machines, &nodes, &now) {
                said.push_str(&format!("{number}: {action}\n"));
                carry_out(action, &mut nodes);
            }
        }
        assert_eq!(plan("alps", &machines, &nodes, &now), [], "two steps do it all");
    }
    expect.assert_eq(&said);
}

fn carry_out(action: Action, nodes: &mut Vec<Node>) {
    let at = |nodes: &[Node], wanted: &str| nodes.iter().position(|node| name(node) == wanted);
    match action {
        Action::Make(node) => nodes.push(*node),
        Action::Label { node, labels } => {
            let found = at(nodes, &node).unwrap();
            nodes[found].metadata.labels.get_or_insert_default().extend(labels);
        }
        Action::Tell(node) => {
            let found = at(nodes, name(&node)).unwrap();
            nodes[found] = *node;
        }
        Action::Remove(node) => nodes.retain(|found| name(found) != node),
    }
}

#[test]
fn each_machine_has_a_node_that_comes_and_goes_with_it() {
    check(
        &[&["m1", "m2", "byhand"], &["m1", "byhand"], &["m1", "m3", "byhand"]],
        expect![[r#"
        0: make Node m1
        0: make Node m2
        0: tell of Node byhand: its engine says that it is up
        0: tell of Node m1: its engine says that it is up
        0: tell of Node m2: its engine says that it is up
        1: remove Node m2: its machine is gone
        2: make Node m3
        2: tell of Node m3: its engine says that it is up
    "#]],
    );
}

#[test]
fn a_machine_that_is_down_keeps_its_node() {
    check(
        &[&["m1", "byhand"], &["m1 down:unplugged", "byhand"], &["m1", "byhand"]],
        expect![[r#"
        0: make Node m1
        0: tell of Node byhand: its engine says that it is up
        0: tell of Node m1: its engine says that it is up
        1: tell of Node m1: unplugged
        2: tell of Node m1: its engine says that it is up
    "#]],
    );
}

#[test]
fn what_a_person_has_made_is_kept_and_told_to_be_missing() {
    check(
        &[&["byhand"], &[]],
        expect![[r#"
        0: tell of Node byhand: its engine says that it is up
        1: tell of Node byhand: the engine of the site has no such machine
    "#]],
    );
}

#[test]
fn labels_of_the_engine_follow_and_others_stay() {
    check(
        &[&["m1 label:a", "byhand"], &["m1 label:b", "byhand"], &["m1", "byhand"]],
        expect![[r#"
        0: make Node m1
        0: tell of Node byhand: its engine says that it is up
        0: tell of Node m1: its engine says that it is up
        1: label Node m1: zone
    "#]],
    );
}

#[test]
fn a_node_of_which_people_have_said_something_is_not_removed() {
    let now = Time(k8s_openapi::jiff::Timestamp::UNIX_EPOCH);
    let bare = made("alps", &machine("m1"));
    let mut closed = bare.clone();
    closed.spec.unschedulable = true;
    let mut labelled = bare.clone();
    let label = ("secure.tombolo.dev/hall".to_owned(), "true".to_owned());
    labelled.metadata.labels.get_or_insert_default().extend([label]);
    let told = |node: Node| plan("alps", &[], &[node], &now).remove(0).to_string();
    assert_eq!(told(bare), "remove Node m1: its machine is gone");
    for wished in [closed, labelled] {
        assert_eq!(
            told(wished),
            format!("tell of Node m1: {MISSING}"),
            "it would come back without"
        );
    }
}
