//! One instance that no node takes: a minimal set of its needs that no node meets together, and the
//! node that is nearest to fitting.

use std::collections::BTreeSet;

use tombolo_solver::problem::ItemId;

use crate::compile::Compiled;
use crate::filter::{self, Asked, Look, Mend};

/// Needs are told apart by bits; what is beyond counts as met. Nobody writes so many.
const NEEDS_MAX: usize = 128;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Conflict {
    /// Take any one away and a node fits.
    pub reasons: Vec<String>,
    pub suggestion: Option<String>,
}

/// `None` if some node takes the instance by itself.
pub(super) fn of(compiled: &Compiled<'_, '_>, item: ItemId) -> Option<Conflict> {
    let ask = compiled.ask(item)?;
    if compiled.continuum.nodes.is_empty() {
        let reasons = vec!["there is no node to run anything on".to_owned()];
        return Some(Conflict { reasons, suggestion: Some("add a node".to_owned()) });
    }
    let mut asked = filter::asked(ask);
    asked.truncate(NEEDS_MAX);
    let barred = &compiled.problem.items[item].barred;
    let mut masks: BTreeSet<u128> = BTreeSet::new();
    let mut nearest: Option<(Effort, u32, u128)> = None;
    for node in 0..compiled.continuum.nodes.len() {
        let node = crate::compile::index(node);
        let look = look(compiled, ask, node);
        let mut mask = 0u128;
        for (bit, need) in asked.iter().enumerate() {
            if !(need.need.admits)(&look, need.number) {
                mask |= 1 << bit;
            }
        }
        let is_barred = compiled.at[node as usize].is_some_and(|at| barred.contains(&at));
        if mask == 0 && !is_barred {
            return None;
        }
        masks.insert(mask);
        let effort = effort(&look, &asked, mask);
        if !is_barred && nearest.as_ref().is_none_or(|(least, _, _)| effort < *least) {
            nearest = Some((effort, node, mask));
        }
    }
    if masks.contains(&0) {
        let reasons = vec!["all nodes that would do had a violation of a policy lately".to_owned()];
        let suggestion = Some("wait, or take the policy back".to_owned());
        return Some(Conflict { reasons, suggestion });
    }
    let least = minimal(&masks, &asked);
    let reasons = least.iter().map(|bit| reason(compiled, item, &asked, *bit, &least)).collect();
    let suggestion =
        nearest.map(|(_, node, mask)| suggestion(&look(compiled, ask, node), &asked, mask));
    Some(Conflict { reasons, suggestion })
}

fn look<'l, 'a>(
    compiled: &'l Compiled<'_, 'a>,
    ask: &'l crate::ask::Ask<'l>,
    node: u32,
) -> Look<'l, 'a> {
    Look { continuum: compiled.continuum, left: &compiled.free[node as usize], ask, node }
}

/// Fewer changes first, then smaller ones.
#[derive(Clone, Debug, PartialEq, PartialOrd)]
struct Effort(f64, u32);

fn effort(look: &Look<'_, '_>, asked: &[Asked], mask: u128) -> Effort {
    let failing = bits(mask).map(|bit| (asked[bit].need.mend)(look, asked[bit].number).effort);
    // A change of kind weighs as much as several of degree, and each one more is one too many.
    let sum: f64 = failing.map(|effort| 1.0 + effort).sum();
    Effort(sum, mask.count_ones())
}

fn bits(mask: u128) -> impl Iterator<Item = usize> {
    (0..NEEDS_MAX).filter(move |bit| mask & (1 << bit) != 0)
}

/// Needs of which every node fails at least one, and none of which can be left out. What nobody
/// writes into an App (that a node is ready, that its engine can run it) is taken for granted: only
/// if no node is left by that alone is it the conflict.
fn minimal(masks: &BTreeSet<u128>, asked: &[Asked]) -> Vec<usize> {
    let mut granted = 0u128;
    for (bit, need) in asked.iter().enumerate() {
        if need.need.granted {
            granted |= 1 << bit;
        }
    }
    let open: Vec<u128> = masks.iter().copied().filter(|mask| mask & granted == 0).collect();
    let (masks, mut kept) = match open.is_empty() {
        true => (masks.iter().map(|mask| mask & granted).collect(), granted),
        false => (open, !granted),
    };
    for bit in 0..asked.len() {
        let without = kept & !(1 << bit);
        if masks.iter().all(|mask| mask & without != 0) {
            kept = without;
        }
    }
    bits(kept).filter(|bit| *bit < asked.len()).collect()
}

/// `needs 7Gi memory; of the 3 nodes that meet the rest, the nearest has 6.2Gi`.
fn reason(
    compiled: &Compiled<'_, '_>,
    item: ItemId,
    asked: &[Asked],
    bit: usize,
    least: &[usize],
) -> String {
    let Some(ask) = compiled.ask(item) else { return String::new() };
    let need = &asked[bit];
    let wants = (need.need.wants)(ask, need.number);
    let mut count = 0usize;
    let mut best: Option<(f64, u32)> = None;
    for node in 0..compiled.continuum.nodes.len() {
        let node = crate::compile::index(node);
        let look = look(compiled, ask, node);
        let granted = (0..asked.len()).filter(|other| asked[*other].need.granted);
        let mut rest = least.iter().copied().chain(granted).filter(|other| *other != bit);
        // When what is granted is the conflict itself, the rest of it is in `least`.
        let only_granted = need.need.granted;
        let rest_met = rest.all(|other| {
            (only_granted && !least.contains(&other))
                || (asked[other].need.admits)(&look, asked[other].number)
        });
        if rest_met {
            count += 1;
            let Mend { effort, .. } = (need.need.mend)(&look, need.number);
            if best.is_none_or(|(least, _)| effort < least) {
                best = Some((effort, node));
            }
        }
    }
    let Some((_, node)) = best else { return format!("needs {wants}") };
    let look = look(compiled, ask, node);
    let has = (need.need.has)(&look, need.number);
    let name = look.row().name;
    match (count, least.len()) {
        (1, 1) => format!("needs {wants}; the only node, {name}, {has}"),
        (_, 1) => format!("needs {wants}; the nearest of {count} nodes, {name}, {has}"),
        (1, _) => format!("needs {wants}; the only node that meets the rest, {name}, {has}"),
        (_, _) => format!("needs {wants}; of {count} nodes that meet the rest, {name} {has}"),
    }
}

fn suggestion(look: &Look<'_, '_>, asked: &[Asked], mask: u128) -> String {
    let changes: Vec<String> =
        bits(mask).map(|bit| (asked[bit].need.mend)(look, asked[bit].number).says).collect();
    format!("node {} would fit {}", look.row().name, crate::words::list(&changes))
}
