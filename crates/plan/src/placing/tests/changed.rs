//! An App that somebody has changed gets a new look, though all of it has a place.

use super::*;

/// `a1` takes little power, `b1` is safe.
fn stage() -> Stage {
    let mut stage = Stage::new(&["a1:4", "b1:4"]);
    for (node, watts, score) in [(0, 10, 10), (1, 400, 90)] {
        let status = stage.observed.nodes[node].status.as_mut().unwrap();
        status.energy = serde_json::from_value(json!({"busyWatts": watts})).unwrap();
        status.security_score = Some(score);
    }
    stage
}

fn weighed(criterion: &str, image: &str) -> Value {
    let mut web = component("web", 2, "1");
    web["run"] = json!([{"container": {"image": image}}]);
    json!({"weights": {criterion: 1}, "components": [web]})
}

fn nodes(stage: &Stage) -> Vec<&str> {
    let placements =
        stage.observed.apps.iter().flat_map(|app| &app.status.as_ref().unwrap().placements);
    placements.map(|at| at.node.as_deref().unwrap()).collect()
}

#[test]
fn other_weights_move_it_one_instance_after_the_other() {
    let mut stage = stage();
    stage.apply("shop", weighed("security", "shop:1"));
    stage.settle();
    assert_eq!(nodes(&stage), ["b1", "b1"]);
    stage.apply("shop", weighed("energy", "shop:1"));
    stage.look(usize::MAX);
    let mut once = nodes(&stage);
    once.sort_unstable();
    assert_eq!(once, ["a1", "b1"], "one may be down");
    // Whoever goes on knows of nothing but what is written.
    stage.memory = Memory::default();
    stage.settle();
    assert_eq!(nodes(&stage), ["a1", "a1"]);
    assert_eq!(stage.actions(), "");
    let status = stage.observed.apps[0].status.as_ref().unwrap();
    let placed = condition::find(&status.conditions, PLACED).unwrap();
    assert_eq!(placed.observed_generation, stage.observed.apps[0].metadata.generation);
}

#[test]
fn an_app_that_is_put_over_itself_has_not_changed() {
    let mut stage = stage();
    stage.apply("shop", weighed("security", "shop:1"));
    stage.settle();
    let same = (*stage.observed.apps[0]).clone();
    assert_eq!(stage.observed.put(same.clone()), 0);
    assert!(super::super::changed(&stage.observed).is_empty());
    let mut other = same;
    other.spec.stopped = true;
    assert_eq!(stage.observed.put(other), 0);
    assert_eq!(super::super::changed(&stage.observed).len(), 1);
    let new = serde_json::from_value(json!({"apiVersion": "tombolo.dev/v1alpha1", "kind": "App",
        "metadata": {"name": "new"}, "spec": weighed("energy", "new:1")}));
    assert_eq!(stage.observed.put(new.unwrap()), 1);
}

#[test]
fn an_update_moves_nothing_that_is_well_where_it_is() {
    let mut stage = stage();
    stage.apply("shop", weighed("security", "shop:1"));
    stage.settle();
    stage.apply("shop", weighed("security", "shop:2"));
    stage.settle();
    assert_eq!(nodes(&stage), ["b1", "b1"]);
    let images = stage.observed.assignments.iter().map(|a| &a.spec.run.container);
    assert!(images.into_iter().all(|c| c.as_ref().unwrap().image == "shop:2"));
}

#[test]
fn what_changes_around_an_app_moves_nothing_that_may_stay() {
    let mut stage = stage();
    stage.apply("shop", weighed("security", "shop:1"));
    stage.settle();
    stage.observed.nodes[0].status.as_mut().unwrap().security_score = Some(100);
    assert_eq!(stage.actions(), "");
}
