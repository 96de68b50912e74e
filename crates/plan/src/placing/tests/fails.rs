//! What fails, what is busy, and how many may be down at once.

use super::*;

pub(super) fn node_of(stage: &Stage) -> String {
    let status = stage.observed.apps[0].status.as_ref().unwrap();
    status.placements[0].node.clone().unwrap()
}

/// Where the one instance is after it has failed on its node for `seconds`.
pub(super) fn after_failing(
    component: Value,
    reason: &'static str,
    seconds: u64,
) -> (Stage, String) {
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
        let going = |a: &&Shared<Assignment>| a.metadata.deletion_timestamp.is_some();
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

#[test]
fn an_update_that_fails_stops_with_the_first_and_is_told() {
    let mut stage = Stage::new(&["a1:4", "b1:4"]);
    let with = |command: &str| {
        let mut web = component("web", 2, "1");
        web["run"] = json!([{"container": {"image": command}}]);
        web["affinity"] = json!({"apart": ["web"]});
        app(&[web])
    };
    stage.apply("shop", with("shop:1"));
    stage.settle();
    stage.apply("shop", with("shop:2"));
    stage.look(usize::MAX);
    let told = |stage: &Stage| {
        let status = stage.observed.apps[0].status.clone().unwrap();
        let ready = condition::find(&status.conditions, "Ready").unwrap().clone();
        let available = condition::is_true(&status.conditions, "Available");
        let (phase, message) = (status.phase.unwrap().as_str(), status.message.unwrap());
        format!(
            "{phase}, available {available}, ready {} ({}): {message}",
            ready.status, ready.reason
        )
    };
    expect![
        "Deploying, available true, ready False (Deploying): updating web/0 on a1, web/1 on b1"
    ]
    .assert_eq(&told(&stage));

    // The agent of the one that was given it goes back to the revision before.
    stage.agents();
    let roll_back = |stage: &mut Stage| {
        let with_new = |a: &&mut Shared<Assignment>| {
            serde_json::to_string(&a.spec.run).unwrap().contains("shop:2")
        };
        let mut count = 0;
        for assignment in stage.observed.assignments.iter_mut().filter(with_new) {
            count += 1;
            let status = assignment.status.as_mut().unwrap();
            let degraded = status.conditions.iter_mut().find(|known| known.kind == "Degraded");
            let degraded = degraded.unwrap();
            degraded.status = ConditionStatus::True;
            degraded.reason = "RolledBack".to_owned();
            degraded.message = "went back to the last good revision: no such image".to_owned();
        }
        count
    };
    assert_eq!(roll_back(&mut stage), 1);
    check_actions(
        &stage,
        expect![[r#"
            write the status: RolledBack: web/0 on a1 went back to the last good revision: no such image
        "#]],
    );
    stage.look(usize::MAX);
    assert_eq!(roll_back(&mut stage), 1, "the other one is spared");
    check_actions(&stage, expect![""]);
    expect!["Degraded, available true, ready False (RolledBack): web/0 on a1 went back to the last good revision: no such image"]
        .assert_eq(&told(&stage));

    // What is right again is rolled out.
    stage.apply("shop", with("shop:3"));
    stage.settle();
    expect!["Running, available true, ready True (Running): all instances are up"]
        .assert_eq(&told(&stage));
    let runs = serde_json::to_string(&stage.observed.assignments).unwrap();
    assert!(!runs.contains("shop:1") && !runs.contains("shop:2"), "{runs}");
}

#[test]
fn what_grows_beyond_its_node_stays_as_it_is_and_says_why() {
    let mut stage = Stage::new(&["a1:4"]);
    stage.apply("shop", app(&[component("web", 1, "1")]));
    stage.settle();
    let mut greedy = component("web", 1, "99");
    greedy["run"] = json!([{"container": {"image": "shop:2"}}]);
    stage.apply("shop", app(&[greedy]));
    stage.settle();
    let given = stage.observed.assignments[0].spec.resources.as_ref().unwrap();
    assert_eq!(given.cpu.unwrap().millis(), 1000, "what runs stays as it is");
    let status = stage.observed.apps[0].status.as_ref().unwrap();
    let message = status.message.as_deref().unwrap();
    assert!(message.contains("web/0 has no place: "), "{message}");
}

/// Phase, reason and message of an App that has never been up, and the Events that told it.
fn told(stage: &mut Stage) -> (AppPhase, String, String, Vec<&'static str>) {
    let mut events = Vec::new();
    for _ in 0..3 {
        stage.agents();
        for action in stage.plan().steps.into_iter().flat_map(|steps| steps.actions) {
            if let Verb::Decide { news, .. } = action.verb {
                events.extend(news.into_iter().filter(|one| one.bad).map(|one| one.reason.word()));
            }
        }
        stage.look(usize::MAX);
    }
    stage.settle();
    let status = stage.observed.apps[0].status.clone().unwrap();
    let degraded = condition::find(&status.conditions, condition::DEGRADED).unwrap();
    assert_eq!(degraded.status == ConditionStatus::True, status.phase == Some(AppPhase::Degraded));
    (status.phase.unwrap(), degraded.reason.clone(), status.message.unwrap(), events)
}

#[test]
fn an_app_that_never_came_up_says_the_first_cause_and_tells_it_once() {
    let mut stage = Stage::new(&["a1:4"]);
    stage.broken.insert("a1".to_owned(), "NoSuchImage");
    stage.apply("shop", app(&[component("web", 1, "1")]));
    let (phase, reason, message, events) = told(&mut stage);
    assert_eq!((phase, reason.as_str()), (AppPhase::Degraded, "NoSuchImage"));
    assert!(message.starts_with("web/0 on a1: "), "{message}");
    assert_eq!(events, ["NoSuchImage"]);
    stage.broken.clear();
    let (phase, reason, _, events) = told(&mut stage);
    assert_eq!((phase, reason.as_str()), (AppPhase::Running, "Running"));
    assert_eq!(events, [] as [&str; 0]);
}

#[test]
fn a_cause_that_is_known_after_the_app_went_down_is_told_too() {
    let mut stage = Stage::new(&["a1:4"]);
    stage.apply("shop", app(&[component("web", 1, "1")]));
    stage.settle();
    let said = stage.observed.assignments[0].status.as_mut().unwrap();
    let available = said.conditions.iter_mut().find(|known| known.kind == "Available").unwrap();
    available.status = ConditionStatus::False;
    stage.look(usize::MAX);
    let phase = stage.observed.apps[0].status.as_ref().unwrap().phase;
    assert_eq!(phase, Some(AppPhase::Degraded), "nobody knows yet why");
    stage.broken.insert("a1".to_owned(), "CrashLoop");
    let (_, reason, _, events) = told(&mut stage);
    assert_eq!((reason.as_str(), events.as_slice()), ("CrashLoop", ["CrashLoop"].as_slice()));
}

#[test]
fn who_calls_what_fails_is_not_the_first_cause() {
    let mut stage = Stage::new(&["a1:4"]);
    stage.broken.insert("a1".to_owned(), "CrashLoop");
    let mut caller = component("api", 1, "1");
    caller["connects"] = json!([{"to": "web"}]);
    stage.apply("shop", app(&[caller, component("web", 1, "1")]));
    let (_, _, message, _) = told(&mut stage);
    assert!(message.starts_with("web/0 on a1: "), "{message}");
}

#[test]
fn what_has_no_place_is_told_before_what_fails() {
    let mut stage = Stage::new(&["a1:4"]);
    stage.broken.insert("a1".to_owned(), "CrashLoop");
    stage.apply("shop", app(&[component("web", 1, "64")]));
    let (phase, reason, message, events) = told(&mut stage);
    assert_eq!((phase, reason.as_str()), (AppPhase::Unplaceable, "Unplaceable"));
    assert!(message.starts_with("web/0 has no place: "), "{message}");
    assert_eq!(events, ["Unplaceable"]);
}

#[test]
fn a_search_that_gave_up_is_told_as_such_and_not_as_impossible() {
    // Three of 3 and three of 2 in three nodes of 5: who fills one node after the other and has no work left to search
    // finds nothing.
    let mut stage = Stage::new(&["a1:5", "a2:5", "a3:5"]);
    stage.work = Some(0);
    let parts = [component("b", 3, "2"), component("c", 3, "3")];
    let mut spec = app(&parts);
    spec["profile"] = json!("pack");
    stage.apply("shop", spec);
    let (phase, _, message, events) = told(&mut stage);
    assert_eq!(phase, AppPhase::Placing);
    assert!(message.starts_with("b/0 waits for a place: no place was found within"), "{message}");
    assert_eq!(events, ["PlaceNotFound"]);
    let status = stage.observed.apps[0].status.clone().unwrap();
    let placed = condition::find(&status.conditions, condition::PLACED).unwrap();
    assert_eq!((placed.status, placed.reason.as_str()), (ConditionStatus::False, "PlaceNotFound"));
}

#[test]
fn what_is_reckoned_with_is_what_the_loop_remembers() {
    let mut stage = Stage::new(&["a1:4", "b1:4"]);
    let mut web = component("web", 1, "1");
    web["disconnect"] = json!({"action": "replace", "after": "10s"});
    stage.apply("shop", app(&[web]));
    stage.settle();
    let held = |basis: &Basis| basis.running[0].hold;
    stage.set_ready("a1", false);
    stage.set_ready("b1", false);
    stage.settle();
    stage.pass(10);
    let remembered = Basis::of(&stage.observed, &stage.memory, stage.now);
    assert_eq!(held(&remembered), tombolo_placement::Hold::Lost);
    let forgotten = Basis::without_memory(&stage.observed);
    assert_eq!(held(&forgotten), tombolo_placement::Hold::Held, "silent since now");
}
