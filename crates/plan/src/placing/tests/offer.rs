//! What would be better is offered, and done when somebody asks for it.

use super::*;

fn offered(stage: &Stage) -> Vec<String> {
    let limits = Limits::default();
    let offers = offers(&stage.observed, &stage.memory, stage.now, &limits);
    offers.into_iter().map(|offer| offer.news.message).collect()
}

fn set_cost(stage: &mut Stage, node: &str, cost: f64) {
    let known = |n: &&mut Shared<Node>| n.metadata.name.as_deref() == Some(node);
    stage.observed.nodes.iter_mut().find(known).unwrap().spec.cost_hourly = Some(cost);
}

fn placed(stage: &Stage) -> BTreeSet<String> {
    let status = stage.observed.apps[0].status.as_ref().unwrap();
    status.placements.iter().filter_map(|at| at.node.clone()).collect()
}

#[test]
fn a_better_node_is_offered_and_taken_when_asked_for() {
    let mut stage = Stage::new(&["a1:4", "b1:4"]);
    set_cost(&mut stage, "a1", 1.0);
    set_cost(&mut stage, "b1", 9.0);
    let shop = |at: Option<&str>| {
        let mut web = component("web", 1, "500m");
        web["rebalancedAt"] = json!(at);
        let mut spec = app(&[web]);
        spec["weights"] = json!({"cost": 1});
        spec
    };
    stage.apply("shop", shop(None));
    stage.settle();
    assert_eq!(placed(&stage), BTreeSet::from(["a1".to_owned()]));
    assert_eq!(offered(&stage), [] as [String; 0], "it is where it is best");

    // Prices change: nothing moves by itself, however often it is looked at.
    set_cost(&mut stage, "a1", 9.0);
    set_cost(&mut stage, "b1", 1.0);
    for _ in 0..4 {
        stage.pass(600);
        stage.settle();
        assert_eq!(placed(&stage), BTreeSet::from(["a1".to_owned()]));
    }
    let told = offered(&stage);
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("to move web/0 from a1 to b1"), "{told:?}");

    stage.apply("shop", shop(Some("2030-01-31T12:00:00Z")));
    stage.settle();
    assert_eq!(placed(&stage), BTreeSet::from(["b1".to_owned()]));
    assert_eq!(offered(&stage), [] as [String; 0], "it was taken");
    let starts = stage.observed.assignments.iter().filter(|a| a.spec.restarted_at.is_some());
    assert_eq!(starts.count(), 0, "who moves is not restarted beside that");
}

#[test]
fn what_gains_less_than_its_price_is_not_offered() {
    let mut stage = Stage::new(&["a1:4", "b1:4"]);
    set_cost(&mut stage, "a1", 1.0);
    set_cost(&mut stage, "b1", 1.2);
    let mut data = component("data", 1, "500m");
    data["stateful"] = json!(true);
    let mut spec = app(&[data]);
    spec["weights"] = json!({"cost": 1});
    stage.apply("shop", spec);
    stage.settle();
    // A little better elsewhere, and state is dear to move.
    set_cost(&mut stage, "a1", 1.2);
    set_cost(&mut stage, "b1", 1.0);
    stage.settle();
    assert_eq!(offered(&stage), [] as [String; 0]);
}
