//! Problems of every kind that have an answer, because the answer was there first: items are put
//! somewhere at random, and every rule that this breaks is loosened until it just holds.

use std::collections::BTreeMap;

use super::{Dice, Outcome, solve, tiny};
use crate::problem::{Choice, Group, ItemId, Problem, Scope};
use crate::sample::{self, Size};

/// Loosens the problem until some choice breaks none of its rules; `None` if an item has no candidate.
fn plant(mut problem: Problem, dice: &mut Dice) -> Option<Problem> {
    let mut chosen = Vec::new();
    for item in &problem.items {
        let class = &problem.classes[item.class as usize];
        let allowed: Vec<_> =
            class.candidates.iter().filter(|c| !item.barred.contains(&c.node)).collect();
        let drawn = allowed.get(dice.below(allowed.len().max(1)))?;
        chosen.push(Choice { node: drawn.node, engine: drawn.engine });
    }
    let zone = |item: ItemId| problem.nodes[chosen[item.at()].node].zone.at();
    let mut used = vec![vec![0; problem.resources.len()]; problem.nodes.len()];
    for (item, choice) in problem.items.iter().zip(&chosen) {
        for (used, demand) in used[choice.node.at()].iter_mut().zip(&item.demand) {
            *used += demand;
        }
    }
    problem.edges.retain(|edge| problem.routes[zone(edge.a)][zone(edge.b)].is_some());
    let mut carried: BTreeMap<u32, u64> = BTreeMap::new();
    for edge in &mut problem.edges {
        let Some(route) = &problem.routes[zone(edge.a)][zone(edge.b)] else { continue };
        edge.latency_us_max = edge.latency_us_max.map(|max| max.max(route.latency_us));
        if zone(edge.a) != zone(edge.b) {
            route.links.iter().for_each(|l| *carried.entry(*l).or_default() += edge.bandwidth_bps);
        }
    }
    let spot = |group: &Group, item: ItemId| match group.scope {
        Scope::Node => chosen[item.at()].node.at(),
        Scope::Zone => zone(item),
    };
    let spots = |group: &Group| {
        let all = group.items.iter().map(|item| spot(group, *item));
        all.collect::<std::collections::BTreeSet<usize>>().len()
    };
    let apart = |group: &Group| spots(group) == group.items.len();
    let apart: Vec<Group> = problem.apart.iter().filter(|group| apart(group)).cloned().collect();
    let together: Vec<Group> =
        problem.together.iter().filter(|group| spots(group) <= 1).cloned().collect();
    (problem.apart, problem.together) = (apart, together);
    problem.same_engine.retain(|items| {
        items.windows(2).all(|pair| chosen[pair[0].at()].engine == chosen[pair[1].at()].engine)
    });
    for (node, used) in problem.nodes.iter_mut().zip(used) {
        // Mostly no more than what is used; the rest would make it easy.
        node.capacity = used.into_iter().map(|used: u64| used + dice.below(2) as u64).collect();
    }
    for (link, carried) in carried {
        let left = &mut problem.links[link as usize].bandwidth_bps;
        *left = left.map(|left| left.max(carried));
    }
    let chosen: Vec<Option<Choice>> = chosen.into_iter().map(Some).collect();
    assert!(problem.check(&chosen).is_ok(), "what was planted is an answer");
    Some(problem)
}

#[test]
fn nothing_that_has_an_answer_is_called_impossible() {
    let (mut tried, mut found) = (0, 0);
    for seed in 0..2_600 {
        let mut dice = Dice::new(seed);
        let made = match seed % 10 {
            0 => sample::problem(&Size {
                zones: 1 + dice.below(5),
                nodes: 3 + dice.below(20),
                parts: 1,
                items: 4 + dice.below(12),
                classes: 3,
                network: seed % 20 == 0,
                load: 50,
                seed,
            }),
            _ => tiny::problem(seed, 1),
        };
        let Some(problem) = plant(made, &mut dice) else { continue };
        tried += 1;
        let [outcome] = solve(&problem, seed).parts[..] else { panic!("one part") };
        assert_ne!(outcome, Outcome::Infeasible, "seed {seed}");
        found += u32::from(outcome == Outcome::Placed);
    }
    assert!(tried >= 2_000, "{tried} problems");
    assert!(found * 100 >= tried * 97, "{found} of {tried} are placed");
}
