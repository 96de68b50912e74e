//! One instance that no node takes: a minimal set of its needs that no node meets together, and the
//! node that is nearest to fitting.

use std::collections::BTreeSet;

use tombolo_solver::problem::ItemId;

use super::{closed, unknown};
use crate::ask::Slot;
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
    let granted = granted(&asked);
    let mut masks: Vec<u128> = Vec::with_capacity(compiled.continuum.nodes.len());
    let spoils = |node: u32| takes_from_a_sibling(&look(compiled, ask, node));
    let is_barred = |node: u32| compiled.at[node as usize].is_some_and(|at| barred.contains(&at));
    for node in 0..compiled.continuum.nodes.len() {
        let node = crate::compile::index(node);
        let mask = failing(&look(compiled, ask, node), &asked);
        if mask == 0 && !is_barred(node) {
            return None;
        }
        masks.push(mask);
    }
    if masks.contains(&0) {
        let reasons = vec!["a policy was violated recently on every node that would do".to_owned()];
        let suggestion = Some("wait, or take the policy back".to_owned());
        return Some(Conflict { reasons, suggestion });
    }
    let down = down(compiled, ask, &asked, &masks);
    let least = minimal(&masks, &down, granted, asked.len());
    let told = |bit: &usize| {
        let others =
            least.iter().filter(|other| *other != bit).fold(0, |mask, one| mask | 1 << one);
        let closed = |node: &&u32| masks[**node as usize] & (others | 1 << bit) == 1 << bit;
        let closed = down.iter().filter(closed).map(|node| look(compiled, ask, *node));
        let sentence = closed::sentence(asked[*bit], &closed.collect::<Vec<_>>());
        sentence.unwrap_or_else(|| reason(compiled, item, &asked, *bit, &least))
    };
    let unknown = unknown::of(compiled.continuum, ask);
    let is_told = |bit: &&usize| unknown.needs.contains(&asked[**bit].need.name);
    let rest: Vec<String> = least.iter().filter(|bit| !is_told(bit)).map(told).collect();
    let reasons = unknown.sentences.iter().cloned().chain(rest).collect();
    let mut nearest: Option<((bool, Effort), u32)> = None;
    for (node, mask) in (0..).zip(&masks).filter(|(node, _)| !is_barred(*node) && !spoils(*node)) {
        // A node that is only down is nearer than any that would have to be another one.
        let is_other = if down.is_empty() { mask & !granted != 0 } else { !down.contains(&node) };
        let effort = (is_other, effort(&look(compiled, ask, node), &asked, *mask));
        if nearest.as_ref().is_none_or(|(least, _)| effort < *least) {
            nearest = Some((effort, node));
        }
    }
    // For a name that nothing has, the name that was meant is the way out.
    let suggestion = match (nearest, ask.slot) {
        _ if !unknown.needs.is_empty() => None,
        (Some((_, node)), _) => {
            Some(suggestion(&look(compiled, ask, node), &asked, masks[node as usize]))
        }
        (None, Slot::Label(key, value)) => Some(format!("add a node with the label {key}={value}")),
        (None, Slot::Alike | Slot::Place(..) | Slot::AnyPlace) => None,
    };
    Some(Conflict { reasons, suggestion })
}

/// Whether the node has the label by another value, for which the component wants an instance as well: that one would
/// lose its place if the label were changed.
fn takes_from_a_sibling(look: &Look<'_, '_>) -> bool {
    let Slot::Label(key, own) = look.ask.slot else { return false };
    let wanted = look.ask.component.on_each.iter().flat_map(|each| &each.values);
    let has = filter::label(look.continuum, look.node, key);
    has.is_some_and(|has| has != own && wanted.into_iter().any(|value| value == has))
}

/// The needs that a node does not meet, as bits.
fn failing(look: &Look<'_, '_>, asked: &[Asked]) -> u128 {
    let met = |need: &Asked| (need.need.admits)(look, need.number);
    let failing = asked.iter().enumerate().filter(|(_, need)| !met(need));
    failing.fold(0, |mask, (bit, _)| mask | 1 << bit)
}

/// Nodes that would do and are closed: they are down, cordoned or tainted. They are those that meet all
/// that the App asks for. Where there is none, and whatever is admitted is closed, they are those that
/// would have room if they were empty: what holds a node that is down keeps its room, and that the node
/// is down comes first.
fn down(
    compiled: &Compiled<'_, '_>,
    ask: &crate::ask::Ask<'_>,
    asked: &[Asked],
    masks: &[u128],
) -> BTreeSet<u32> {
    let granted = granted(asked);
    let amounts = asked.iter().enumerate().filter(|(_, need)| need.need.amount);
    let amounts = amounts.fold(0u128, |mask, (bit, _)| mask | 1 << bit);
    let nodes = |which: &dyn Fn(u128) -> bool| -> BTreeSet<u32> {
        (0..).zip(masks).filter(|(_, mask)| which(**mask)).map(|(node, _)| node).collect()
    };
    let closed = nodes(&|mask| mask & !granted == 0);
    let admitted = nodes(&|mask| mask & !granted & !amounts == 0);
    if !closed.is_empty() || admitted.iter().any(|node| masks[*node as usize] & granted == 0) {
        return closed;
    }
    let would_do = |node: &u32| {
        let left = &compiled.continuum.node(*node).total;
        let empty = Look { left, ..look(compiled, ask, *node) };
        failing(&empty, asked) & !granted == 0
    };
    admitted.into_iter().filter(would_do).collect()
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

/// The needs that nobody writes into an App: that a node is ready, that its engine can run it.
fn granted(asked: &[Asked]) -> u128 {
    let granted = asked.iter().enumerate().filter(|(_, need)| need.need.granted);
    granted.fold(0, |mask, (bit, _)| mask | 1 << bit)
}

/// Needs of which every node fails at least one, and none of which can be left out. Where nodes would do,
/// what keeps them from serving is the first cause: that they are down, cordoned or tainted. Else what is
/// granted is left aside, unless no node is left by that alone.
fn minimal(masks: &[u128], down: &BTreeSet<u32>, granted: u128, asked: usize) -> Vec<usize> {
    let open = || masks.iter().copied().filter(|mask| mask & granted == 0);
    let (masks, mut kept): (BTreeSet<u128>, u128) = match (down.is_empty(), open().next()) {
        (false, _) => (down.iter().map(|node| masks[*node as usize] & granted).collect(), granted),
        (true, None) => (masks.iter().map(|mask| mask & granted).collect(), granted),
        (true, Some(_)) => (open().collect(), !granted),
    };
    let mut leave_out = |bit: usize| {
        let without = kept & !(1 << bit);
        if masks.iter().all(|mask| mask & without != 0) {
            kept = without;
        }
    };
    // Of several doors that are closed the first is told: that a node is down comes before what else it is.
    match down.is_empty() {
        true => (0..asked).for_each(leave_out),
        false => (0..asked).rev().for_each(&mut leave_out),
    }
    bits(kept).filter(|bit| *bit < asked).collect()
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
    // When what is granted is the conflict, it is so of the nodes that meet all else, if there are any.
    let asked_for = (0..asked.len()).filter(|other| !asked[*other].need.granted);
    let all: Vec<usize> = least.iter().copied().chain(asked_for).collect();
    let meets_all = |node: usize| {
        let look = look(compiled, ask, crate::compile::index(node));
        let mut rest = all.iter().filter(|other| !asked[**other].need.granted);
        rest.all(|other| (asked[*other].need.admits)(&look, asked[*other].number))
    };
    let some_down = need.need.granted && (0..compiled.continuum.nodes.len()).any(meets_all);
    let counted: &[usize] = if some_down { &all } else { least };
    let mut count = 0usize;
    let mut best: Option<(f64, u32)> = None;
    for node in 0..compiled.continuum.nodes.len() {
        let node = crate::compile::index(node);
        let look = look(compiled, ask, node);
        let met = |other: usize| (asked[other].need.admits)(&look, asked[other].number);
        let rest_met = match need.need.granted {
            true => counted.iter().all(|other| *other == bit || met(*other)),
            false => {
                let granted = (0..asked.len()).filter(|other| asked[*other].need.granted);
                let mut rest = least.iter().copied().chain(granted).filter(|other| *other != bit);
                rest.all(met)
            }
        };
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
    match (count, counted.len()) {
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
