//! Runs the search, keeps to the disruption budgets, and makes sure that nothing got worse.

use tombolo_solver::problem::{Candidate, Choice, Class, Invalid, ItemId};
use tombolo_solver::select::{Limits, Outcome, Selection, select};

use crate::compile::{Compiled, Kind, index};
use crate::reschedule;

/// What was found, after all rules about moving.
#[derive(Clone, Debug)]
pub(super) struct Solved {
    pub chosen: Vec<Option<Choice>>,
    pub parts: Vec<Outcome>,
    pub objective: i64,
    pub bound: i64,
    pub optimal: bool,
    pub work: u64,
    /// Items that stay for now because too many of their component would be down.
    pub waiting: Vec<ItemId>,
}

pub(super) fn solve(
    compiled: &mut Compiled<'_, '_>,
    limits: &Limits<'_>,
) -> Result<Solved, Invalid> {
    let first = select(&compiled.problem, limits)?;
    let first = not_worse(compiled, honest(compiled, first));
    let waiting = reschedule::over_budget(compiled, &first.chosen);
    if waiting.is_empty() {
        return Ok(solved(first, Vec::new()));
    }
    let before: Vec<u32> = waiting.iter().map(|item| compiled.problem.items[*item].class).collect();
    for item in &waiting {
        pin(compiled, *item);
    }
    let second = honest(compiled, select(&compiled.problem, limits)?);
    let second = not_worse(compiled, second);
    let placed =
        |selection: &Selection| selection.parts.iter().filter(|p| **p == Outcome::Placed).count();
    if placed(&second) >= placed(&first) {
        return Ok(solved(second, waiting));
    }
    // Going one after the other is impossible (two that swap places): all at once, then.
    for (item, class) in waiting.iter().zip(before) {
        compiled.problem.items[*item].class = class;
    }
    compiled
        .notes
        .push("more instances move at once than wished, there is no other way".to_owned());
    Ok(solved(first, Vec::new()))
}

fn solved(selection: Selection, waiting: Vec<ItemId>) -> Solved {
    Solved {
        chosen: selection.chosen,
        parts: selection.parts,
        objective: selection.objective,
        bound: selection.bound,
        optimal: selection.optimal,
        work: selection.work,
        waiting,
    }
}

/// Where places were left out before the search, what it has proven is not proven of all.
fn honest(compiled: &Compiled<'_, '_>, found: Selection) -> Selection {
    let Some(ceiling) = compiled.ceiling else { return found };
    let gains = compiled.problem.items.iter().map(|item| {
        let adjust = item.adjust.iter().map(|adjust| i64::from(adjust.delta)).max();
        adjust.unwrap_or(0).max(0)
    });
    let bound = found.bound.max(ceiling + gains.sum::<i64>());
    let unsure = |part: Outcome| match part {
        Outcome::Placed => Outcome::Placed,
        Outcome::Infeasible | Outcome::NotFound => Outcome::NotFound,
    };
    let parts = found.parts.into_iter().map(unsure).collect();
    Selection { bound, parts, optimal: false, ..found }
}

/// If all that is wanted runs already, and the search found nothing better, all stays.
fn not_worse(compiled: &Compiled<'_, '_>, found: Selection) -> Selection {
    let problem = &compiled.problem;
    let stay = reschedule::as_it_stands(compiled);
    let Some(stay) = stay.filter(|stay| *stay != found.chosen) else { return found };
    match problem.check(&stay) {
        Ok(objective) if objective >= found.objective => {
            let parts = vec![Outcome::Placed; problem.parts.len()];
            Selection { chosen: stay, objective, parts, ..found }
        }
        Ok(_) | Err(_) => found,
    }
}

/// Leaves an item no choice but to stay where it runs.
fn pin(compiled: &mut Compiled<'_, '_>, item: ItemId) {
    let Some(node) = compiled.problem.items[item].current else { return };
    let class = index(compiled.problem.classes.len());
    let engine = reschedule::engine_at(compiled, item, node);
    let value = compiled.problem.value(item, Choice { node, engine });
    let adjust = compiled.problem.items[item].value_of(&Candidate { node, engine, value: 0 });
    let own = value.map_or(0, |value| value - adjust);
    let value = i32::try_from(own).unwrap_or(0);
    compiled.problem.classes.push(Class { candidates: vec![Candidate { node, engine, value }] });
    compiled.kinds.push(Kind::fixed(compiled.continuum, compiled.nodes[node.at()]));
    let item = &mut compiled.problem.items[item];
    item.class = class;
    item.barred.clear();
}
