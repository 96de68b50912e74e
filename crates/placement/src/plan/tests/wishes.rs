//! Wishes decide where a place is as good as another, and keep nobody from running.

use serde_json::{Value, json};

use crate::compile::Options;
use crate::testing::{nodes, web, world};

const WORLD: &str = "
    site a docker
    site b docker
    node a1 a cpu=4 memory=8Gi tier=gold cores=8
    node a2 a cpu=4 memory=8Gi cores=16
    node b1 b cpu=4 memory=8Gi tier=iron cores=2
    node b2 b cpu=4 memory=8Gi taint=spot:PreferNoSchedule";

/// Where each instance of the components goes.
fn places(components: Value) -> String {
    let plan = world(WORLD).with([web(components)]).plan(&Options::default());
    let places = nodes(&plan).into_iter().map(|(instance, node)| format!("{instance} {node}"));
    places.collect::<Vec<_>>().join(", ")
}

fn one(more: Value) -> Value {
    let mut one = json!({"name": "web", "needs": {"cpu": 1, "memory": "1Gi"}});
    for (key, value) in more.as_object().into_iter().flatten() {
        one[key] = value.clone();
    }
    json!([one])
}

#[test]
fn a_label_draws_as_far_as_it_is_wished_for() {
    let wish = |rule: Value| one(json!({"prefers": [{"weight": 20, "labels": [rule]}]}));
    for (rule, node) in [
        (json!({"key": "tier", "operator": "In", "values": ["iron", "steel"]}), "b1"),
        (json!({"key": "tier", "operator": "Exists"}), "a1"),
        (json!({"key": "cores", "operator": "Gt", "values": ["8"]}), "a2"),
        (json!({"key": "cores", "operator": "Lt", "values": ["8"]}), "b1"),
        (json!({"key": "tier", "operator": "NotIn", "values": ["gold", "iron"]}), "a2"),
        // Nobody has it: it runs all the same.
        (json!({"key": "tier", "operator": "In", "values": ["mithril"]}), "a1"),
    ] {
        assert_eq!(places(wish(rule.clone())), format!("web/0 {node}"), "{rule}");
    }
}

#[test]
fn a_rule_about_a_label_must_hold() {
    let need =
        |rule: Value| one(json!({"needs": {"cpu": 1, "memory": "1Gi", "labelRules": [rule]}}));
    for (rule, node) in [
        (json!({"key": "tier", "operator": "NotIn", "values": ["gold"]}), "a2"),
        (json!({"key": "cores", "operator": "Lt", "values": ["8"]}), "b1"),
        (json!({"key": "tier", "operator": "DoesNotExist"}), "a2"),
    ] {
        assert_eq!(places(need(rule.clone())), format!("web/0 {node}"), "{rule}");
    }
    let none = need(json!({"key": "tier", "operator": "In", "values": ["mithril"]}));
    let plan = world(WORLD).with([web(none)]).plan(&Options::default());
    let reasons = &plan.apps[0].unplaced[0].reasons;
    assert!(reasons.iter().any(|reason| reason.contains("label tier in mithril")), "{reasons:?}");
}

#[test]
fn a_taint_that_asks_to_stay_away_is_heard_while_there_is_room() {
    let three = one(json!({"replicas": 3}));
    assert!(!places(three).contains("b2"));
    let many = one(json!({"replicas": 16}));
    assert_eq!(places(many).matches("b2").count(), 4, "who needs it goes there");
    let tolerates = json!({"cpu": 1, "memory": "1Gi", "tolerations": [{"key": "spot"}]});
    let all = one(json!({"replicas": 4, "needs": tolerates}));
    assert!(places(all).contains("b2"));
}

#[test]
fn components_are_drawn_together_kept_apart_and_spread_by_wishes() {
    let two = |more: Value| {
        let mut front = json!({"name": "front", "needs": {"cpu": 1, "memory": "1Gi"}});
        for (key, value) in more.as_object().into_iter().flatten() {
            front[key] = value.clone();
        }
        json!([{"name": "back", "needs": {"cpu": 1, "memory": "1Gi", "nodes": ["b1"]}}, front])
    };
    let with = two(json!({"prefers": [{"weight": 30, "with": ["back"]}]}));
    assert_eq!(places(with), "back/0 b1, front/0 b1");
    let both = json!([{"weight": 30, "with": ["back"]}, {"weight": 15, "apart": ["back"]}]);
    assert_eq!(places(two(json!({"prefers": both}))), "back/0 b1, front/0 b2");
    let spread = one(json!({"replicas": 2, "prefers": [{"weight": 5, "spread": "site"}]}));
    assert_eq!(places(spread), "web/0 a1, web/1 b1");
    // Three instances on two sites: a rule would leave them without a place.
    let spread = one(json!({"replicas": 3, "prefers": [{"weight": 5, "spread": "site"}]}));
    assert_eq!(places(spread).matches("web/").count(), 3);
}
