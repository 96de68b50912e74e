//! Tries every choice. Knows nothing but [`Problem::check`].

use crate::problem::{Choice, ItemId, Problem, Violation};

/// The best objective with all items placed; `None` if there is no way to place them.
pub(super) fn best(problem: &Problem) -> Option<i64> {
    let all: Vec<ItemId> = ItemId::first(problem.items.len()).collect();
    let mut chosen = vec![None; problem.items.len()];
    let mut best = None;
    descend(problem, &all, &mut chosen, &mut best);
    best
}

/// Which parts are placed, and the best objective of those.
pub(super) fn best_by_parts(problem: &Problem) -> (Vec<bool>, i64) {
    let mut order: Vec<usize> = (0..problem.parts.len()).collect();
    order.sort_by_key(|p| (-i64::from(problem.parts[*p].priority), &problem.parts[*p].id));
    let mut placed = vec![false; problem.parts.len()];
    let mut items = Vec::new();
    let mut objective = 0;
    for part in order {
        let mut more: Vec<ItemId> = items.clone();
        more.extend(&problem.parts[part].items);
        let mut chosen = vec![None; problem.items.len()];
        let mut best = None;
        descend(problem, &more, &mut chosen, &mut best);
        if let Some(best) = best {
            placed[part] = true;
            items = more;
            objective = best;
        }
    }
    (placed, objective)
}

fn descend(
    problem: &Problem,
    items: &[ItemId],
    chosen: &mut Vec<Option<Choice>>,
    best: &mut Option<i64>,
) {
    let Some((item, rest)) = items.split_first() else {
        if let Ok(objective) = problem.check(chosen) {
            *best = Some(best.map_or(objective, |best| best.max(objective)));
        }
        return;
    };
    let class = problem.items[*item].class as usize;
    for candidate in &problem.classes[class].candidates {
        chosen[*item] = Some(Choice { node: candidate.node, engine: candidate.engine });
        // What is broken by some is not mended by more, but for the parts that are not whole yet.
        let torn = |violation: &Violation| matches!(violation, Violation::Torn { .. });
        if problem.check(chosen).err().is_none_or(|broken| broken.iter().all(torn)) {
            descend(problem, rest, chosen, best);
        }
    }
    chosen[*item] = None;
}
