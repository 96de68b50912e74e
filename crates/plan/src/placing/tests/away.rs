//! Nodes that fall silent, return, or are gone: who is replaced, who wins, who is let go of.

use super::*;

#[test]
fn waits_for_a_silent_node_as_long_as_the_rule_says() {
    let mut stage = Stage::new(&["a1:4", "b1:2"]);
    let mut quick = component("quick", 1, "1");
    quick["disconnect"] = json!({"action": "replace", "after": "10s"});
    quick["needs"]["nodes"] = json!(["a1", "b1"]);
    let mut loyal = component("loyal", 1, "100m");
    loyal["disconnect"] = json!({"action": "keep"});
    let usual = component("usual", 1, "100m");
    stage.apply("shop", app(&[quick, loyal, usual]));
    stage.settle();
    check_places(
        &stage,
        expect![[r#"
        shop: Running 3/3
          loyal/0 on a1
          quick/0 on a1
          usual/0 on a1
        assigned loyal/0 on a1
        assigned quick/0 on a1
        assigned usual/0 on a1
    "#]],
    );
    stage.set_ready("a1", false);
    stage.settle();
    let said = stage.observed.apps[0].status.as_ref().unwrap().message.clone().unwrap();
    assert!(said.ends_with("on a1; the node is not ready: no heartbeat"), "{said}");
    assert_eq!(stage.plan().wake_at, Some(stage.now + Duration::from_secs(10)));
    stage.pass(10);
    stage.settle();
    check_places(
        &stage,
        expect![[r#"
            shop: Degraded 1/3
              loyal/0 on a1
              quick/0 on b1
              usual/0 on a1
            assigned loyal/0 on a1
            assigned quick/0 on b1
            assigned usual/0 on a1
        "#]],
    );
    stage.pass(290);
    stage.settle();
    check_places(
        &stage,
        expect![[r#"
            shop: Degraded 2/3
              loyal/0 on a1
              quick/0 on b1
              usual/0 on b1
            assigned loyal/0 on a1
            assigned quick/0 on b1
            assigned usual/0 on b1
        "#]],
    );
    // It comes back: the newest instances stay, the others go.
    stage.set_ready("a1", true);
    stage.settle();
    check_places(
        &stage,
        expect![[r#"
        shop: Running 3/3
          loyal/0 on a1
          quick/0 on b1
          usual/0 on b1
        assigned loyal/0 on a1
        assigned quick/0 on b1
        assigned usual/0 on b1
    "#]],
    );
}

/// One instance that is replaced after 10 s, and whose original comes back.
fn returning(stateful: bool) -> Stage {
    return_to(Stage::new(&["a1:4", "b1:2"]), stateful)
}

fn return_to(stage: Stage, stateful: bool) -> Stage {
    let mut data = component("data", 1, "1");
    data["stateful"] = json!(stateful);
    return_with(stage, app(&[data]))
}

fn return_with(mut stage: Stage, mut spec: Value) -> Stage {
    let rule = json!({"action": "replace", "after": "10s", "onReturn": "original"});
    spec["components"][0]["disconnect"] = rule;
    stage.apply("shop", spec);
    stage.settle();
    stage.set_ready("a1", false);
    stage.settle();
    stage.pass(10);
    stage.settle();
    stage
}

#[test]
fn the_original_gets_its_place_back_where_the_rule_says_so() {
    let mut stage = returning(false);
    check_places(
        &stage,
        expect![[r#"
            shop: Running 1/1
              data/0 on b1
            assigned data/0 on a1
            assigned data/0 on b1
        "#]],
    );
    let reason = stage.observed.apps[0].status.as_ref().unwrap().placements[0].decision.clone();
    let reason = reason.unwrap().reason.unwrap();
    assert!(reason.starts_with("a1 has been silent for 10 s (Test: no heartbeat); "), "{reason}");
    // The process is lost meanwhile; what was decided is not.
    stage.memory = Memory::default();
    stage.set_ready("a1", true);
    check_actions(
        &stage,
        expect![[r#"
            write the status: Returned: data/0 on a1 (before on b1): its node has returned, and the rule says that the original stays
        "#]],
    );
    // The other one serves until the original is known to be up.
    stage.agents();
    stage.look(1);
    check_actions(
        &stage,
        expect![[r#"
            delete shop-data-0-381cea98: it has moved, and the new one is up
        "#]],
    );
    stage.settle();
    check_places(
        &stage,
        expect![[r#"
            shop: Running 1/1
              data/0 on a1
            assigned data/0 on a1
        "#]],
    );
}

#[test]
fn an_original_with_state_comes_back_with_a_higher_fence_and_never_beside_the_other() {
    let mut stage = returning(true);
    let on_b1 = |a: &&Shared<Assignment>| a.spec.node.as_deref() == Some("b1");
    let fence = stage.observed.assignments.iter().find(on_b1).unwrap().spec.fence.unwrap();
    stage.set_ready("a1", true);
    for _ in 0..10 {
        stage.agents();
        assert!(stage.observed.assignments.len() <= 1, "{}", stage.places());
        stage.look(usize::MAX);
    }
    check_places(
        &stage,
        expect![[r#"
            shop: Running 1/1
              data/0 on a1
            assigned data/0 on a1
        "#]],
    );
    assert!(stage.observed.assignments[0].spec.fence.unwrap() > fence);
}

#[test]
fn an_original_comes_back_by_the_engine_that_can_run_it() {
    let mut stage = Stage::new(&["a1:4", "b1:2"]);
    stage.observed.sites[0].spec.engine = tombolo_model::Engine::Host;
    let engines = json!({"engines": [{"name": "host"}, {"name": "docker"}]});
    let status = stage.observed.nodes[0].status.as_mut().unwrap();
    status.characteristics = Some(serde_json::from_value(engines).unwrap());
    let mut stage = return_to(stage, true);
    stage.set_ready("a1", true);
    stage.settle();
    check_places(
        &stage,
        expect![[r#"
            shop: Running 1/1
              data/0 on a1
            assigned data/0 on a1
        "#]],
    );
    assert_eq!(stage.observed.assignments[0].spec.engine, tombolo_model::Engine::Docker);
}

#[test]
fn an_original_comes_back_by_the_engine_that_a_plan_would_choose() {
    use tombolo_model::Engine;
    let (process, container) =
        (json!({"process": {"command": ["x"]}}), json!({"container": {"image": "x:1"}}));
    let comes_back_by = |run: Value, engines: Value, homogeneous: bool| {
        let mut stage = Stage::new(&["a1:4", "b1:2"]);
        stage.observed.sites[0].spec.engine = Engine::Host;
        let found = json!({"engines": [{"name": "host"}, {"name": "docker"}]});
        let status = stage.observed.nodes[0].status.as_mut().unwrap();
        status.characteristics = Some(serde_json::from_value(found).unwrap());
        let mut data = component("data", 1, "1");
        data["stateful"] = json!(true);
        data["run"] = run;
        data["needs"]["engines"] = engines;
        let mut spec = app(&[data]);
        spec["homogeneous"] = json!(homogeneous);
        let mut stage = return_with(stage, spec);
        // All of it is gone from there, and only the status knows where it was.
        let on_a1 = |a: &Assignment| a.spec.node.as_deref() == Some("a1");
        stage.observed.assignments.retain(|one| !on_a1(one));
        stage.set_ready("a1", true);
        let actions = stage.plan().steps.into_iter().flat_map(|steps| steps.actions);
        let decided = actions.into_iter().find_map(|action| match action.verb {
            Verb::Decide { status, .. } => Some(status.placements[0].clone()),
            _ => None,
        });
        let decided = decided.unwrap();
        assert_eq!(decided.node.as_deref(), Some("a1"));
        decided.engine.unwrap()
    };
    let both = json!([process, container]);
    assert_eq!(comes_back_by(both.clone(), json!([]), false), Engine::Host);
    assert_eq!(comes_back_by(both.clone(), json!(["docker"]), false), Engine::Docker);
    assert_eq!(comes_back_by(json!([container, process]), json!([]), false), Engine::Docker);
    assert_eq!(comes_back_by(both, json!([]), true), Engine::Docker, "as the one in its place");
}

#[test]
fn an_original_whose_node_is_removed_is_waited_for_no_longer() {
    let mut stage = returning(false);
    stage.observed.nodes.retain(|node| node.metadata.name.as_deref() != Some("a1"));
    stage.settle();
    check_places(
        &stage,
        expect![[r#"
            shop: Running 1/1
              data/0 on b1
            assigned data/0 on b1
        "#]],
    );
}

/// The App is gone, and the collector has marked what it owned.
fn orphan(stage: &mut Stage) {
    stage.observed.apps.clear();
    for assignment in &mut stage.observed.assignments {
        assignment.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
    }
}

#[test]
fn what_a_deleted_app_leaves_on_a_dead_node_does_not_hang() {
    let mut stage = Stage::new(&["a1:4"]);
    let mut web = component("web", 1, "1");
    web["disconnect"] = json!({"action": "keep"});
    stage.apply("shop", app(&[web]));
    stage.settle();
    stage.set_ready("a1", false);
    stage.look(usize::MAX);
    orphan(&mut stage);
    // Its agent may still come and take it down.
    check_actions(&stage, expect![[""]]);
    assert_eq!(stage.plan().wake_at, Some(stage.now + REPLACE_AFTER_DEFAULT));
    stage.pass(300);
    check_actions(
        &stage,
        expect![[r#"
            let go of shop-web-0-1fef2224: node a1 has been silent for 300 s; what runs there ends when it returns
        "#]],
    );
    stage.settle();
    assert!(stage.observed.assignments.is_empty());
}

#[test]
fn what_a_removed_node_leaves_goes_at_once() {
    let mut stage = Stage::new(&["a1:4"]);
    stage.apply("shop", app(&[component("web", 1, "1")]));
    stage.settle();
    let gone = stage.clone();
    orphan(&mut stage);
    stage.observed.nodes.clear();
    check_actions(
        &stage,
        expect![[r#"
            let go of shop-web-0-1fef2224: node a1 is gone
        "#]],
    );
    let mut stage = gone;
    orphan(&mut stage);
    stage.observed.sites.clear();
    check_actions(
        &stage,
        expect![[r#"
            let go of shop-web-0-1fef2224: site a is gone
        "#]],
    );
}

#[test]
fn doubts_what_a_silent_node_last_said_until_it_speaks_again() {
    let available = |stage: &Stage| {
        let status = stage.observed.assignments[0].status.as_ref().unwrap();
        let known = condition::find(&status.conditions, "Available").unwrap();
        (known.status, known.reason.clone(), known.message.clone())
    };
    let mut stage = Stage::new(&["a1:4"]);
    stage.apply("shop", app(&[component("web", 1, "1")]));
    stage.settle();
    stage.set_ready("a1", false);
    check_actions(
        &stage,
        expect![[r#"
        write the status: what it says is old
        doubt shop-web-0-1fef2224: its node is silent
    "#]],
    );
    stage.settle();
    let (status, reason, message) = available(&stage);
    assert_eq!((status, reason.as_str()), (ConditionStatus::Unknown, "NodeSilent"));
    assert_eq!(message, "a1 is silent; the instance was up when it was last heard of");

    // The next silence is a new one. An agent that can write though it is not heard is believed, and
    // not contradicted for ever; it may answer before anybody looks again.
    stage.set_ready("a1", true);
    stage.settle();
    stage.set_ready("a1", false);
    stage.look(usize::MAX);
    assert_eq!(available(&stage).0, ConditionStatus::Unknown);
    stage.set_ready("a1", true);
    stage.agents();
    stage.set_ready("a1", false);
    stage.settle();
    assert_eq!(available(&stage).0, ConditionStatus::True);
}

/// The instances that the status of the only App shows with a place, and those without one.
fn shown(stage: &Stage) -> (Vec<String>, Vec<String>) {
    let status = stage.observed.apps[0].status.clone().unwrap();
    let key = |component: &str, replica: u32| format!("{component}/{replica}");
    let placements = status.placements.iter().map(|at| key(&at.component, at.replica));
    let unplaced = status.unplaced.iter().map(|one| key(&one.component, one.replica));
    (placements.collect(), unplaced.collect())
}

#[test]
fn an_instance_has_a_place_or_none_and_not_both() {
    let mut stage = Stage::new(&["a1:2", "b1:2", "c1:2"]);
    let mut web = component("web", 3, "2");
    web["disconnect"] = json!({"action": "replace", "after": "10s"});
    stage.apply("shop", app(&[web]));
    stage.settle();
    let before = stage.places();
    stage.set_ready("a1", false);
    stage.set_ready("b1", false);
    stage.settle();
    stage.pass(10);
    stage.settle();
    let (placed, unplaced) = shown(&stage);
    assert_eq!((placed.len(), unplaced.len()), (1, 2), "{placed:?} {unplaced:?}");
    assert!(unplaced.iter().all(|one| !placed.contains(one)), "{placed:?} {unplaced:?}");
    // Their Assignments stay, and when the nodes return they are where they were.
    assert_eq!(stage.observed.assignments.len(), 3);
    let status = stage.observed.apps[0].status.clone().unwrap();
    assert_eq!((status.phase, status.ready.as_deref()), (Some(AppPhase::Degraded), Some("1/3")));
    stage.set_ready("a1", true);
    stage.set_ready("b1", true);
    stage.settle();
    assert_eq!(stage.places(), before);
}

#[test]
fn the_last_instance_is_given_up_and_known_again() {
    let mut stage = Stage::new(&["a1:2", "b1:1"]);
    let mut web = component("web", 1, "2");
    web["disconnect"] = json!({"action": "replace", "after": "10s"});
    stage.apply("shop", app(&[web]));
    stage.settle();
    let before = stage.places();
    stage.set_ready("a1", false);
    stage.settle();
    stage.pass(10);
    stage.settle();
    assert_eq!(shown(&stage), (Vec::new(), vec!["web/0".to_owned()]));
    let status = stage.observed.apps[0].status.clone().unwrap();
    assert_eq!(status.phase, Some(AppPhase::Degraded), "it ran, and will again");
    stage.set_ready("a1", true);
    stage.settle();
    assert_eq!(stage.places(), before);
}
