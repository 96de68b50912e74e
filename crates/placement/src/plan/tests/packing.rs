//! Tight packing that exists by construction: nodes are made of the instances that fill them. Nothing
//! of it may be called impossible, whatever the search finds within its limits.

use serde_json::{Value, json};
use tombolo_solver::select::Dice;

use crate::compile::Options;
use crate::plan::Outcome;
use crate::testing::{app, world};

/// Nodes as lines, and components that fill them with `slack` percent to spare.
fn tight(seed: u64, nodes: usize, slack: usize) -> (String, Vec<Value>) {
    let mut dice = Dice::new(seed);
    let mut lines = vec!["site athens docker".to_owned()];
    let mut components = Vec::new();
    for node in 0..nodes {
        let (mut cpu, mut memory) = (0, 0);
        for _ in 0..1 + dice.below(3) {
            let (own_cpu, own_memory) = (1 + dice.below(5), 1 + dice.below(5));
            (cpu, memory) = (cpu + own_cpu, memory + own_memory);
            let needs = json!({"cpu": own_cpu.to_string(), "memory": format!("{own_memory}Gi")});
            // Numbered by dice: the order of names must not give the answer away.
            let name = format!("p{:04}-{}", dice.below(10_000), components.len());
            components.push(
                json!({"name": name, "needs": needs, "run": [{"container": {"image": "x"}}]}),
            );
        }
        let (cpu, memory) = (cpu * (100 + slack) * 10, memory * (100 + slack) * 1024 / 100);
        let security = dice.below(100);
        lines.push(format!(
            "node n{node:02} athens cpu={cpu}m memory={memory}Mi security={security}"
        ));
    }
    (lines.join("\n"), components)
}

#[test]
fn what_exists_by_construction_is_never_called_impossible() {
    let mut placed = 0;
    for seed in 0..60 {
        let slack = [0, 5, 10, 20][usize::try_from(seed % 4).unwrap()];
        let (text, components) = tight(seed, 4 + usize::try_from(seed % 9).unwrap(), slack);
        let plan = world(&text).with([app("web", json!({"components": components}))]);
        let plan = plan.plan(&Options::default());
        let [app] = plan.apps.as_slice() else { panic!("one App, one plan") };
        if app.outcome == Outcome::Placed {
            placed += 1;
            continue;
        }
        for one in &app.unplaced {
            assert!(one.gave_up_after.is_some(), "seed {seed}: {one:?}");
            assert!(
                one.reasons[0].starts_with("no place was found within"),
                "seed {seed}: {one:?}"
            );
            let suggestion = one.suggestion.as_deref().unwrap_or_default();
            assert!(!suggestion.contains("would fit"), "seed {seed}: {suggestion}");
        }
        assert!(!plan.optimal, "seed {seed}");
    }
    assert!(placed >= 20, "{placed} of 60 are placed");
}

/// One instance runs on the only node that is large enough for another: while it is held there, it can
/// be proven that the other has no place. It may move, and then there is a place for all.
#[test]
fn what_is_impossible_only_beside_what_could_move_is_not_called_impossible() {
    let mut gave_up = 0;
    for seed in 0..40 {
        let (text, mut components) = tight(seed, 5 + usize::try_from(seed % 8).unwrap(), 0);
        let runs = components[0]["name"].as_str().unwrap().to_owned();
        components.push(json!({"name": "whole", "needs": {"cpu": "12", "memory": "12Gi"}}));
        let text =
            format!("{text}\nnode large athens cpu=12 memory=12Gi\nrun shop/web {runs} 0 large");
        let world = world(&text).with([app("web", json!({"components": components}))]);
        // Enough for the proof beside what is held, and too little for the whole packing.
        let work = [500, 2_000, 8_000, 32_000][usize::try_from(seed % 4).unwrap()];
        let plan = world.plan_within(work, &Options::default());
        let [app] = plan.apps.as_slice() else { panic!("one App, one plan") };
        if app.outcome == Outcome::Placed {
            continue;
        }
        gave_up += 1;
        for one in &app.unplaced {
            assert!(one.gave_up_after.is_some(), "seed {seed}: {one:?}");
        }
    }
    assert!(gave_up > 0, "the search must give up now and then, or nothing is tested");
}

#[test]
fn what_is_impossible_is_still_called_so() {
    let (text, mut components) = tight(3, 8, 0);
    components[0]["needs"]["cpu"] = json!("4");
    components.push(components[0].clone());
    components.last_mut().unwrap()["name"] = json!("one-more");
    let plan = world(&text).with([app("web", json!({"components": components}))]);
    let plan = plan.plan(&Options::default());
    let one = &plan.apps[0].unplaced[0];
    assert_eq!(one.gave_up_after, None, "{one:?}");
    assert!(one.reasons[0].starts_with("together they need"), "{one:?}");
}
