//! Instances that are spread evenly over nodes or sites, and may share them.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::{Value, json};
use tombolo_solver::select::Dice;

use super::super::{Outcome, Step};
use crate::compile::Options;
use crate::plan::Plan;
use crate::testing::{app, world};
use crate::what_if::World;

/// Sites by the cores of their nodes.
fn sites(cores: &[&[usize]]) -> World {
    let mut text = String::new();
    for (site, nodes) in cores.iter().enumerate() {
        writeln!(text, "site s{site} docker").unwrap();
        for (node, cores) in nodes.iter().enumerate() {
            writeln!(text, "node n{site}{node} s{site} cpu={cores} memory=64Gi").unwrap();
        }
    }
    world(&text)
}

fn evenly(replicas: usize, over: &str, skew: u32) -> Value {
    let affinity = json!({"spread": over, "skew": skew});
    let needs = json!({"cpu": 1, "memory": "1Gi"});
    json!({"components": [{"name": "web", "needs": needs, "replicas": replicas, "affinity": affinity}]})
}

/// How many there are at each site.
fn by_site(plan: &Plan) -> BTreeMap<String, usize> {
    let mut count = BTreeMap::new();
    for one in plan.apps.iter().flat_map(|app| &app.instances) {
        *count.entry(one.placement.site.clone()).or_insert(0) += 1;
    }
    count
}

#[test]
fn more_instances_than_sites_share_them_evenly() {
    let world = sites(&[&[8], &[2, 2], &[16]]).with([app("x", evenly(10, "site", 1))]);
    let plan = world.plan(&Options::default());
    assert_eq!(plan.apps[0].outcome, Outcome::Placed);
    let mut counts: Vec<usize> = by_site(&plan).into_values().collect();
    counts.sort_unstable();
    assert_eq!(counts, [3, 3, 4]);

    let world = sites(&[&[8, 8, 8, 1]]).with([app("x", evenly(7, "node", 1))]);
    let plan = world.plan(&Options::default());
    assert_eq!(plan.apps[0].outcome, Outcome::Placed, "2, 2, 2 and 1");
}

#[test]
fn a_site_without_more_room_keeps_the_others_from_more_and_it_is_said() {
    let world = sites(&[&[8], &[1], &[8]]).with([app("x", evenly(6, "site", 1))]);
    let plan = world.plan(&Options::default());
    let lacks = &plan.apps[0].unplaced[0];
    assert_eq!(lacks.gave_up_after, None, "{lacks:?}");
    let says = "no site may have over 1 more instances of web than another";
    assert!(lacks.reasons.iter().any(|reason| reason == says), "{lacks:?}");
    assert_eq!(lacks.suggestion.as_deref(), Some("they would fit if they were not spread evenly"));
    let mut spec = evenly(6, "site", 1);
    spec["components"][0].as_object_mut().unwrap().remove("affinity");
    let without = sites(&[&[8], &[1], &[8]]).with([app("x", spec)]);
    assert_eq!(without.plan(&Options::default()).apps[0].outcome, Outcome::Placed);
}

/// Whether so many instances can be dealt to places with so much room.
fn exists(room: &[usize], count: usize, skew: usize) -> bool {
    let Some((first, rest)) = room.split_first() else { return false };
    let mut dealt: Vec<Vec<usize>> = (0..=*first).map(|own| vec![own]).collect();
    for more in rest {
        let longer = |begun: &Vec<usize>| {
            let begun = begun.clone();
            (0..=*more).map(move |own| [begun.as_slice(), &[own]].concat())
        };
        dealt = dealt.iter().flat_map(longer).collect();
    }
    dealt.into_iter().any(|dealt| {
        let (most, least) = (dealt.iter().max().unwrap(), dealt.iter().min().unwrap());
        dealt.iter().sum::<usize>() == count && most - least <= skew
    })
}

#[test]
fn what_is_said_is_what_trying_everything_says() {
    let (mut yes, mut no) = (0, 0);
    for seed in 0..250 {
        let mut dice = Dice::new(seed);
        let skew = 1 + dice.below(3);
        let over = ["site", "node"][dice.below(2)];
        // Sites of one and two nodes; a node without a whole core takes nobody and counts for nothing.
        let cores: Vec<Vec<usize>> = (0..1 + dice.below(4))
            .map(|_| (0..1 + dice.below(2)).map(|_| 1 + dice.below(4)).collect())
            .collect();
        let room: Vec<usize> = match over {
            "site" => cores.iter().map(|site| site.iter().sum()).collect(),
            _ => cores.iter().flatten().copied().collect(),
        };
        let count = 1 + dice.below(room.iter().sum::<usize>() + 2).min(11);
        let lists: Vec<&[usize]> = cores.iter().map(Vec::as_slice).collect();
        let skew_said = u32::try_from(skew).unwrap();
        let world = sites(&lists).with([app("x", evenly(count, over, skew_said))]);
        let plan = world.plan(&Options::default());
        let [app] = plan.apps.as_slice() else { panic!("one App, one plan") };
        let says = format!("seed {seed}: {count} over {room:?}, skew {skew}");
        match (exists(&room, count, skew), app.outcome) {
            (true, Outcome::Placed) => yes += 1,
            (false, Outcome::Unplaced) => no += 1,
            // What the rule says is stated a little stricter there: nothing may be called impossible.
            (true, Outcome::Unplaced) if skew > 1 => {
                assert!(app.unplaced.iter().all(|one| one.gave_up_after.is_some()), "{says}");
            }
            (exists, outcome) => panic!("{says}: exists {exists}, {outcome:?}"),
        }
    }
    assert!(yes > 120 && no > 30, "{yes} and {no}");
}

#[test]
fn nobody_moves_because_it_is_uneven_and_newcomers_even_it_out() {
    let mut world = sites(&[&[8], &[8], &[8]]).with([app("x", evenly(5, "site", 1))]);
    for replica in 0..3 {
        let line = format!("run shop/x web {replica} n00");
        world.running.extend(crate::testing::world(&line).running);
    }
    let plan = world.plan(&Options::default());
    for one in &plan.apps[0].instances[..3] {
        assert_eq!(one.step, Step::Stay, "{one:?}");
    }
    let counts: Vec<usize> = by_site(&plan).into_values().collect();
    assert_eq!(counts, [3, 1, 1]);
    world.settle(&plan);
    assert_eq!(world.plan(&Options::default()).apps, []);

    // One site goes: those that were there share the others.
    let mut world = sites(&[&[8], &[8], &[8]]).with([app("x", evenly(6, "site", 1))]);
    let plan = world.plan(&Options::default());
    world.settle(&plan);
    world.nodes.retain(|node| node.spec.site != "s1");
    let plan = world.plan(&Options::default());
    assert_eq!(by_site(&plan).into_values().collect::<Vec<_>>(), [3, 3]);
    let stay = plan.apps[0].instances.iter().filter(|one| one.step == Step::Stay).count();
    assert_eq!(stay, 4, "only those of the site that is gone have a new place");
}
