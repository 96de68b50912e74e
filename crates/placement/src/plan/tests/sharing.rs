//! A batch does not heap up on the best node, and a node that fails moves nobody but those that were on it.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::{Value, json};

use super::super::Step;
use crate::compile::{Options, Scope};
use crate::testing::{app, nodes, world};
use crate::what_if::World;

/// Sites with nodes of so many cores each, and how much a node costs an hour.
fn continuum(sites: usize, nodes: usize, cores: usize, cost: impl Fn(usize) -> f64) -> World {
    let mut text = String::new();
    for site in 0..sites {
        writeln!(text, "site s{site:02} docker").unwrap();
    }
    for node in 0..nodes {
        let (site, cost, memory) = (node % sites, cost(node), 4 * cores);
        writeln!(text, "node n{node:03} s{site:02} cpu={cores} memory={memory}Gi cost={cost}")
            .unwrap();
    }
    world(&text)
}

fn replicas(name: &str, count: usize, more: Value) -> tombolo_model::App {
    let needs = json!({"cpu": 1, "memory": "1Gi"});
    let mut spec = json!({"components": [{"name": "web", "needs": needs, "replicas": count}]});
    for (key, value) in more.as_object().into_iter().flatten() {
        spec[key] = value.clone();
    }
    app(name, spec)
}

fn by_node(places: impl IntoIterator<Item = String>) -> BTreeMap<String, usize> {
    let mut count = BTreeMap::new();
    places.into_iter().for_each(|node| *count.entry(node).or_insert(0) += 1);
    count
}

#[test]
fn equal_nodes_share_sixty_replicas_and_a_wish_to_pack_fills_one() {
    let world = |more| continuum(1, 20, 64, |_| 1.0).with([replicas("web", 60, more)]);
    let count = by_node(nodes(&world(json!({})).plan(&Options::default())).into_values());
    assert!(count.len() == 20 && count.values().all(|count| *count == 3), "{count:?}");
    for more in [json!({"profile": "pack"}), json!({"weights": {"energy": 1}})] {
        let count = by_node(nodes(&world(more).plan(&Options::default())).into_values());
        assert_eq!(count.len(), 1, "{count:?}");
    }
}

/// The cheapest node is worth most, and a batch does not fill it before the next is used.
#[test]
fn nodes_of_different_worth_share_a_batch_too() {
    let price = |node: usize| 1.0 + 0.02 * f64::from(u32::try_from(node).unwrap());
    let world = |more| continuum(4, 20, 64, price).with([replicas("web", 60, more)]);
    let wish = json!({"weights": {"cost": 1}});
    let plan = world(wish).plan(&Options::default());
    let count = by_node(nodes(&plan).into_values());
    assert!(count.len() >= 10, "{count:?}");
    assert!(count.values().all(|count| *count <= 10), "{count:?}");
    let reasons = plan.apps[0].instances.iter().flat_map(|one| &one.placement.decision);
    let next: Vec<_> = reasons.flat_map(|decision| &decision.alternatives).collect();
    let says = |words: &str| {
        next.iter().any(|next| next.reason.as_deref().is_some_and(|reason| reason.contains(words)))
    };
    assert!(says("replicas"), "{next:?}");
    let wish = json!({"weights": {"cost": 1}, "profile": "pack"});
    let count = by_node(nodes(&world(wish).plan(&Options::default())).into_values());
    assert_eq!(count.len(), 1, "{count:?}");
}

/// What came before counts as load, so that Apps that come one by one do not all find the same node best.
#[test]
fn apps_that_come_one_by_one_share_equal_nodes() {
    let mut world = continuum(2, 10, 8, |_| 1.0);
    for number in 0..20 {
        let needs = json!({"cpu": 2, "memory": "1Gi"});
        let spec = json!({"weights": {"cost": 1}, "components": [{"name": "web", "needs": needs}]});
        world = world.with([app(&format!("a{number:02}"), spec)]);
        let plan = world.plan(&Options::default());
        world.settle(&plan);
    }
    let count = by_node(world.running.iter().map(|running| running.node.clone()));
    assert!(count.len() == 10 && count.values().all(|count| *count == 2), "{count:?}");
}

/// 500 nodes on 50 sites, 200 Apps of four instances that settle, and a site that fails.
#[test]
fn a_site_that_fails_moves_only_what_was_there_and_nothing_twice() {
    let kinds = |node: usize| [1.0, 1.3, 0.8][node % 3];
    let mut world = continuum(50, 500, 8, kinds);
    let apps = (0..200).map(|number| {
        let needs = json!({"cpu": "500m", "memory": "512Mi"});
        let back = json!({"name": "back", "needs": needs, "stateful": number % 3 == 0});
        let front = json!({"name": "front", "needs": needs, "replicas": 3});
        app(&format!("a{number:03}"), json!({"components": [back, front]}))
    });
    world = world.with(apps);
    let plan = world.plan(&Options::default());
    world.settle(&plan);
    assert_eq!(world.running.len(), 800);
    let before = world.running.clone();
    let used = by_node(before.iter().map(|running| running.node.clone()));
    // A third of them cost least, and all of those share.
    assert!(used.len() > 150, "{} nodes carry 800 instances", used.len());

    let failed: Vec<String> =
        (0..500).filter(|n| n % 50 == 7).map(|n| format!("n{n:03}")).collect();
    let gone = |node: &String| failed.contains(node);
    world.nodes.retain(|node| !gone(node.metadata.name.as_ref().unwrap()));
    let plan = world.plan(&Options::default());
    for instance in plan.apps.iter().flat_map(|app| &app.instances) {
        assert!(matches!(instance.step, Step::Start | Step::Stay), "{instance:?}");
    }
    world.settle(&plan);
    let key = |one: &crate::running::Running| (one.app.clone(), one.component.clone(), one.replica);
    let now: BTreeMap<_, _> =
        world.running.iter().map(|one| (key(one), one.node.clone())).collect();
    assert_eq!(now.len(), 800);
    for one in &before {
        assert!(gone(&one.node) || now[&key(one)] == one.node, "{one:?} was moved");
        assert!(!gone(&now[&key(one)]));
    }
    // Nothing is left to do, also when everything may move.
    for scope in [Scope::Pending, Scope::All] {
        let plan = world.plan(&Options { scope, ..Options::default() });
        let moved = plan.apps.iter().flat_map(|app| &app.instances);
        let moved = moved.filter(|instance| instance.step != Step::Stay).count();
        match scope {
            Scope::Pending => assert_eq!(moved, 0),
            // Each of these gains more than it costs.
            Scope::All => assert!(moved < 40, "{moved} move"),
        }
    }
}
