//! What fails, what is busy, and how many may be down at once.

use super::*;

fn node_of(stage: &Stage) -> String {
    let status = stage.observed.apps[0].status.as_ref().unwrap();
    status.placements[0].node.clone().unwrap()
}

/// Where the one instance is after it has failed on its node for `seconds`.
fn after_failing(component: Value, reason: &'static str, seconds: u64) -> (Stage, String) {
    let mut stage = Stage::new(&["a1:4", "b1:4"]);
    stage.apply("shop", app(&[component]));
    stage.settle();
    let before = node_of(&stage);
    stage.broken.insert(before.clone(), reason);
    stage.settle();
    assert_eq!(node_of(&stage), before, "it may recover");
    assert!(stage.plan().wake_at.is_none_or(|at| at == stage.now + strikes::STRIKE_AFTER));
    stage.pass(seconds);
    stage.settle();
    (stage, before)
}

#[test]
fn what_fails_on_one_node_is_tried_on_another_once_and_not_for_ever() {
    let (mut stage, before) = after_failing(component("web", 1, "1"), "DiskFull", 60);
    let after = node_of(&stage);
    assert_ne!(after, before);
    // It fails there too: so it is its own fault, and it stays.
    stage.broken.insert(after.clone(), "CrashLoop");
    for _ in 0..200 {
        stage.pass(59);
        stage.settle();
        assert_eq!(node_of(&stage), after);
    }
}

#[test]
fn what_serves_or_holds_state_is_not_moved_because_it_fails() {
    let (stage, before) = after_failing(component("web", 1, "1"), "RolledBack", 120);
    assert_eq!(node_of(&stage), before);
    let (stage, before) = after_failing(component("web", 1, "1"), "DiskFull", 59);
    assert_eq!(node_of(&stage), before);
    let mut data = component("data", 1, "1");
    data["stateful"] = json!(true);
    let (stage, before) = after_failing(data, "DiskFull", 120);
    assert_eq!(node_of(&stage), before);
}

#[test]
fn a_busy_node_is_left_to_others() {
    for busy in ["a1", "b1"] {
        let mut stage = Stage::new(&["a1:4", "b1:4"]);
        for node in &mut stage.observed.nodes {
            let is_busy = node.metadata.name.as_deref() == Some(busy);
            let load = json!({"cpu": if is_busy { 0.9 } else { 0.1 }, "memory": 0.2});
            let status = node.status.as_mut().unwrap();
            status.load = serde_json::from_value(load).unwrap();
        }
        stage.apply("shop", app(&[component("web", 1, "1")]));
        stage.settle();
        assert_ne!(node_of(&stage), busy);
    }
}

#[test]
fn two_with_state_leave_a_drained_node_one_after_the_other() {
    let mut stage = Stage::new(&["a1:4", "b1:8"]);
    let mut data = component("data", 2, "1");
    data["stateful"] = json!(true);
    data["needs"]["nodes"] = json!(["a1"]);
    stage.apply("shop", app(&[data.clone()]));
    stage.settle();
    data["needs"]["nodes"] = json!(["b1"]);
    // A third begins with the move: this is no reason to take down both at once.
    data["replicas"] = json!(3);
    stage.apply("shop", app(&[data]));
    for _ in 0..20 {
        stage.look(usize::MAX);
        let going = |a: &&Assignment| a.metadata.deletion_timestamp.is_some();
        assert!(stage.observed.assignments.iter().filter(going).count() <= 1);
        stage.agents();
    }
    stage.settle();
    check_places(
        &stage,
        expect![[r#"
            shop: Running 3/3
              data/0 on b1
              data/1 on b1
              data/2 on b1
            assigned data/0 on b1
            assigned data/1 on b1
            assigned data/2 on b1
        "#]],
    );
}
