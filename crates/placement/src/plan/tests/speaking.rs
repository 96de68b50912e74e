//! Apps that speak to each other and come in one go.

use serde_json::{Value, json};

use super::super::Outcome;
use crate::compile::{Options, Scope};
use crate::testing::{app, nodes, world};
use crate::what_if::World;

const LAND: &str = "
    site s1 docker
    site s2 docker
    node n1 s1 cpu=4
    node n2 s2 cpu=4
    link s1 s2 30ms
";

/// Apps of one component each, that call each other like this.
fn calling(apps: &[(&str, &str, Value)]) -> World {
    let apps = apps.iter().map(|(name, calls, needs)| {
        let connects = match calls.is_empty() {
            true => json!([]),
            false => json!([{"app": calls, "to": calls, "latency": "20ms"}]),
        };
        app(name, json!({"components": [{"name": name, "needs": needs, "connects": connects}]}))
    });
    world(LAND).with(apps)
}

#[test]
fn apps_that_call_each_other_find_their_places_in_one_look() {
    let free = || json!({"cpu": 1});
    let pinned = || json!({"cpu": 1, "nodes": ["n2"]});
    let chains: [&[(&str, &str, Value)]; 4] = [
        &[("a", "b", free()), ("b", "", pinned())],
        &[("a", "", pinned()), ("b", "a", free())],
        &[("a", "b", free()), ("b", "c", free()), ("c", "", pinned())],
        &[("a", "b", pinned()), ("b", "a", free())],
    ];
    for apps in chains {
        for scope in [Scope::Pending, Scope::All] {
            let mut world = calling(apps);
            let plan = world.plan(&Options { scope, ..Options::default() });
            assert!(plan.apps.iter().all(|app| app.outcome == Outcome::Placed), "{apps:?}");
            let places = nodes(&plan);
            assert_eq!(places.len(), apps.len());
            assert!(places.values().all(|node| node == "n2"), "{apps:?}: {places:?}");
            world.settle(&plan);
            assert_eq!(world.plan(&Options::default()).apps, [], "{apps:?}");
        }
    }
}

#[test]
fn one_that_has_no_place_does_not_keep_the_other_from_its_own() {
    let world = calling(&[("a", "b", json!({"cpu": 1})), ("b", "", json!({"cpu": 64}))]);
    let plan = world.plan(&Options::default());
    let outcomes: Vec<Outcome> = plan.apps.iter().map(|app| app.outcome).collect();
    assert_eq!(outcomes, [Outcome::Placed, Outcome::Unplaced]);
}

/// Between them they have to be near, and each was put where it is better off.
#[test]
fn those_who_are_spoken_to_move_for_one_that_has_no_place_otherwise() {
    let mut world = calling(&[("b", "", json!({"cpu": 1})), ("c", "", json!({"cpu": 1}))]);
    world.running = crate::testing::world("run shop/b b 0 n1\nrun shop/c c 0 n2").running;
    assert_eq!(world.plan(&Options::default()).apps, [], "they are well where they are");
    let calls = |to: &str| json!({"app": to, "to": to, "latency": "20ms"});
    let part = json!({"name": "x", "needs": {"cpu": 1}, "connects": [calls("b"), calls("c")]});
    world.apps.push(app("x", json!({"components": [part]})).into());
    let plan = world.plan(&Options::default());
    let places: std::collections::BTreeSet<String> = nodes(&plan).into_values().collect();
    assert!(plan.apps.iter().all(|app| app.outcome == Outcome::Placed), "{:?}", plan.apps);
    assert_eq!((plan.apps.len(), places.len()), (3, 1), "{:?}", plan.apps);
    world.settle(&plan);
    assert_eq!(world.plan(&Options::default()).apps, []);
}
