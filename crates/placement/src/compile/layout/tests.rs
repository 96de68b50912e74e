//! What becomes of a continuum with more locations than routes can be kept for.

use serde_json::{Value, json};

use super::*;
use crate::compile::{Options, compile};
use crate::testing::{nodes, web, world};
use crate::what_if::World;

/// A hub, more good sites than there may be zones, and what `text` adds.
fn wide(text: &str) -> World {
    let mut lines = String::from("site hub docker\n");
    for site in 0..ZONES_MAX + 60 {
        lines += &format!(
            "site s{site:04} docker\nnode n{site:04} s{site:04} cpu=8 memory=8Gi mhz=4000 tier=gold\nlink hub s{site:04} 5ms\n"
        );
    }
    world(&(lines + text))
}

fn talking(needs: Value) -> tombolo_model::App {
    web(json!([
        {"name": "a", "needs": needs, "connects": [{"to": "b", "latency": "30ms"}]},
        // Not where the cameras are: those sites are good for one component alone.
        {"name": "b", "needs": {"labels": {"tier": "gold"}}},
    ]))
}

/// Poor in everything but its camera.
const CAMERAS: &str = "
    site zz1 docker\nnode cam1 zz1 cpu=1 memory=1Gi mhz=100 device=camera\nlink hub zz1 20ms
    site zz2 docker\nnode cam2 zz2 cpu=1 memory=1Gi mhz=100 device=camera\nlink hub zz2 21ms
";

#[test]
fn the_few_sites_with_a_device_are_kept_among_a_thousand_better_ones() {
    let world = wide(CAMERAS).with([talking(json!({"devices": ["camera"]}))]);
    let plan = world.plan(&Options::default());
    let at = nodes(&plan);
    assert_eq!(at["a/0"], "cam1");
    assert!(at["b/0"].starts_with('n'), "{at:?}");
    assert!(plan.notes.iter().any(|note| note.contains("1024 best")), "{:?}", plan.notes);
    // Nothing is claimed about those that were not considered.
    assert!(!plan.optimal);
    let (continuum, _) = Continuum::of(&world.sites, &world.nodes, &world.links);
    let compiled = compile(&continuum, &world.apps, &[], &Options::default());
    assert!(plan.bound >= compiled.ceiling.unwrap() && plan.bound > plan.objective);
}

#[test]
fn what_runs_at_a_poor_site_may_stay_there() {
    let text = format!("{CAMERAS}\nrun shop/web a 0 cam2\nrun shop/web b 0 n0000");
    let world = wide(&text).with([talking(json!({}))]);
    let (continuum, _) = Continuum::of(&world.sites, &world.nodes, &world.links);
    let options = Options { scope: crate::Scope::All, ..Options::default() };
    let compiled = compile(&continuum, &world.apps, &world.running, &options);
    assert!(compiled.problem.zones.len() <= ZONES_MAX + 1, "{}", compiled.problem.zones.len());
    for (item, node) in compiled.currents() {
        let number = compiled.at[node as usize].unwrap();
        let class = compiled.problem.items[item].class as usize;
        let mut candidates = compiled.problem.classes[class].candidates.iter();
        assert!(candidates.any(|candidate| candidate.node == number), "item {item}");
    }
}

#[test]
fn nodes_and_candidates_are_in_the_order_of_ids() {
    let text = "
        site a docker\nsite a-b docker\nsite b docker
        node z a cpu=1\nnode y a-b cpu=1\nnode x b cpu=1\nnode w a cpu=1
    ";
    let world = world(text).with([web(json!([{"name": "a"}]))]);
    let (continuum, _) = Continuum::of(&world.sites, &world.nodes, &world.links);
    let compiled = compile(&continuum, &world.apps, &[], &Options::default());
    let ids: Vec<&str> = compiled.problem.nodes.iter().map(|node| node.id.as_str()).collect();
    assert_eq!(ids, ["a-b/y", "a/w", "a/z", "b/x"]);
    let candidates = &compiled.problem.classes[0].candidates;
    assert!(candidates.is_sorted_by_key(|candidate| candidate.node));
    for (number, node) in compiled.nodes.iter().enumerate() {
        assert_eq!(compiled.at[*node as usize], Some(NodeId::new(number)));
        let site = continuum.site_of(*node).name;
        assert_eq!(ids[number], format!("{site}/{}", continuum.node(*node).name));
    }
}
