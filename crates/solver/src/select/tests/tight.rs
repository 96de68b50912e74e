//! Tight packing: what exists by construction is found, and "impossible" is only said of what trying
//! all sets of items for every node says too.

use super::{Dice, Limits, Outcome, select, solve};
use crate::problem::Problem;
use crate::sample::{Short, Tight, tight};

fn size(seed: u64, nodes: usize) -> Tight {
    let at = usize::try_from(seed).unwrap();
    let short = [Short::Cpu, Short::CpuAndMemory][at / 5 % 2];
    Tight { nodes, slack_percent: [0, 5, 10, 15, 20][at % 5], short, seed }
}

#[test]
fn finds_a_packing_that_exists() {
    for seed in 0..60 {
        let problem = tight(&size(seed, 6 + usize::try_from(seed).unwrap() / 3));
        let limits = Limits { work: 4_000_000, ..Limits::default() };
        let found = select(&problem, &limits).expect("the problem is valid");
        assert_eq!(found.parts, [Outcome::Placed], "seed {seed}");
        assert_eq!(problem.check(&found.chosen), Ok(found.objective), "seed {seed}");
    }
}

/// Whether there is a packing, by dynamic programming over sets of items: after each node, all sets
/// that can be on the nodes so far. Only room counts.
fn exists(problem: &Problem) -> bool {
    let items = problem.items.len();
    let mut reached = vec![false; 1 << items];
    reached[0] = true;
    for node in &problem.nodes {
        let fits = |set: usize| {
            let members = problem.items.iter().enumerate().filter(|(item, _)| set >> item & 1 == 1);
            let sum =
                |resource: usize| members.clone().map(|(_, i)| i.demand[resource]).sum::<u64>();
            (0..problem.resources.len()).all(|resource| sum(resource) <= node.capacity[resource])
        };
        let sets: Vec<usize> = (1..1 << items).filter(|set| fits(*set)).collect();
        let mut next = reached.clone();
        for before in (0..1 << items).filter(|before| reached[*before]) {
            for set in sets.iter().filter(|set| *set & before == 0) {
                next[before | set] = true;
            }
        }
        reached = next;
    }
    reached[(1 << items) - 1]
}

#[test]
fn impossible_packings_are_impossible() {
    let (mut impossible, mut possible) = (0, 0);
    for seed in 0..400 {
        let mut problem = tight(&size(seed, 3 + usize::try_from(seed % 4).unwrap()));
        if problem.items.len() > 10 {
            continue;
        }
        // A little more here and there: some still exist, most do not.
        let mut dice = Dice::new(seed);
        for _ in 0..1 + dice.below(2) {
            let item = dice.below(problem.items.len());
            problem.items[item].demand[0] += 1_000;
            let item = dice.below(problem.items.len());
            problem.items[item].demand[0] -= 1_000.min(problem.items[item].demand[0]);
        }
        let expected = match exists(&problem) {
            true => Outcome::Placed,
            false => Outcome::Infeasible,
        };
        assert_eq!(solve(&problem, seed).parts, [expected], "seed {seed}");
        match expected {
            Outcome::Placed => possible += 1,
            Outcome::Infeasible | Outcome::NotFound => impossible += 1,
        }
    }
    assert!(impossible > 50 && possible > 50, "{impossible} impossible, {possible} possible");
}

#[test]
fn others_make_room_for_a_part_that_comes_late() {
    for seed in 0..20 {
        // So many that they are not searched all at once, in parts that come one after the other.
        let mut problem = tight(&Tight { slack_percent: 10, ..size(seed, 30) });
        let items = problem.parts.remove(0).items;
        for (number, few) in items.chunks(4).enumerate() {
            let (id, items) = (format!("part-{number:02}"), few.to_vec());
            problem.parts.push(crate::problem::Part { id, priority: 0, items, packs: false });
        }
        let limits = Limits { work: 4_000_000, ..Limits::default() };
        let found = select(&problem, &limits).expect("the problem is valid");
        assert!(problem.check(&found.chosen).is_ok(), "seed {seed}");
        let without = found.parts.iter().filter(|part| **part != Outcome::Placed).count();
        assert!(!found.parts.contains(&Outcome::Infeasible), "seed {seed}");
        assert!(without <= 1, "seed {seed}: {without} of {} are not placed", found.parts.len());
    }
}
