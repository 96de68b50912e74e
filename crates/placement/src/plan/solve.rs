//! Runs the search, keeps to the disruption budgets, and makes sure that nothing got worse.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use tombolo_solver::problem::{Candidate, Choice, Class, Invalid, ItemId, NodeId};
use tombolo_solver::select::{Limits, Outcome, Selection, select};

use crate::compile::{Compiled, Kind, Options, Origin, Scope, index};
use crate::explain;
use crate::reschedule;

/// Instances that are tried whether they could stay after all, each in a search of its own.
const HELD_AGAIN_MAX: usize = 16;

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
    /// Instances that were let go, because somebody would have had no place beside them.
    pub make_room: BTreeSet<ItemId>,
}

pub(super) fn solve(
    compiled: &mut Compiled<'_, '_>,
    options: &Options,
    limits: &Limits<'_>,
) -> Result<Solved, Invalid> {
    let mut kept = keep(compiled, &settled(compiled, options));
    let found = search(compiled, &mut kept, limits);
    // Whoever explains the answer asks what an instance would have liked, not that it was held.
    kept.release(compiled, |_| true);
    Ok(Solved { make_room: kept.let_go, ..found? })
}

fn search(
    compiled: &mut Compiled<'_, '_>,
    kept: &mut Kept,
    limits: &Limits<'_>,
) -> Result<Solved, Invalid> {
    let first = first_answer(compiled, kept, limits)?;
    let first = not_worse(compiled, honest(compiled, first));
    let waiting = reschedule::over_budget(compiled, &first.chosen);
    if waiting.is_empty() {
        return Ok(solved(first, Vec::new()));
    }
    let held = keep(compiled, &waiting);
    let second = honest(compiled, select(&compiled.problem, limits)?);
    let second = not_worse(compiled, second);
    if placed(compiled, &second) >= placed(compiled, &first) {
        return Ok(solved(believed(second, &first), waiting));
    }
    // Going one after the other is impossible (two that swap places): all at once, then.
    held.release(compiled, |_| true);
    compiled
        .notes
        .push("more instances move at once than wished, there is no other way".to_owned());
    Ok(solved(first, Vec::new()))
}

/// What runs and may stay does, as long as everybody finds a place beside it. If somebody does not, the other
/// instances of the same App may move, and if that does not help, all that are planned. They are let go only for
/// an answer that places more: an App that has no place in any case moves nobody. Only of the search that holds
/// nobody it is believed that something has no place.
fn first_answer(
    compiled: &mut Compiled<'_, '_>,
    kept: &mut Kept,
    limits: &Limits<'_>,
) -> Result<Selection, Invalid> {
    if kept.items.is_empty() {
        return select(&compiled.problem, limits);
    }
    let hurried = Limits { work: limits.work / 4, ..*limits };
    let mut best = select(&compiled.problem, &hurried)?;
    if best.parts.contains(&Outcome::NotFound) {
        // To give up early is no reason to move others.
        best = select(&compiled.problem, limits)?;
    }
    let lacking: BTreeSet<usize> = lacking(&best).collect();
    if lacking.is_empty() {
        return Ok(best);
    }
    let of_part = compiled.part_of.iter().filter(|(_, part)| lacking.contains(part));
    let theirs: BTreeSet<usize> = of_part.map(|(app, _)| *app).collect();
    let everybody: BTreeSet<usize> = compiled.scoped.planned.iter().copied().collect();
    let mut freest = best.clone();
    for released in [theirs, everybody] {
        kept.release(compiled, |app| released.contains(&app));
        let found = select(&compiled.problem, limits)?;
        if placed(compiled, &found) > placed(compiled, &best) {
            best = fewest_moved(compiled, kept, found.clone(), limits)?;
        }
        if lacking_none(&best) {
            return Ok(best);
        }
        freest = found;
    }
    kept.hold(compiled);
    Ok(believed(best, &freest))
}

/// Of those that an answer moves, only those are let go without whom it could not place as much: each is held
/// again, the dearest first, as long as it can be.
fn fewest_moved(
    compiled: &mut Compiled<'_, '_>,
    kept: &mut Kept,
    found: Selection,
    limits: &Limits<'_>,
) -> Result<Selection, Invalid> {
    let hurried = Limits { work: limits.work / 8, ..*limits };
    let mut best = found;
    kept.let_go = kept.moved(compiled, &best);
    let mut tried: Vec<ItemId> = kept.let_go.iter().copied().collect();
    tried.sort_by_key(|item| (Reverse(cost_of_moving(compiled, *item)), *item));
    for item in tried.into_iter().take(HELD_AGAIN_MAX) {
        if !kept.let_go.remove(&item) {
            continue;
        }
        kept.hold(compiled);
        let again = select(&compiled.problem, &hurried)?;
        if placed(compiled, &again) >= placed(compiled, &best) {
            kept.let_go = kept.moved(compiled, &again);
            best = again;
        } else {
            kept.let_go.insert(item);
        }
    }
    kept.hold(compiled);
    Ok(best)
}

fn cost_of_moving(compiled: &Compiled<'_, '_>, item: ItemId) -> i32 {
    let adjust = compiled.problem.items[item].adjust.iter().map(|adjust| adjust.delta);
    adjust.max().unwrap_or(0)
}

/// The answer, with its "impossible" taken back where a search that held fewer instances in place has not proven
/// the same: what could not be placed beside those that were held may have a place once they move.
fn believed(answer: Selection, freest: &Selection) -> Selection {
    let is_placed = |found: &Selection, part: usize| found.parts[part] == Outcome::Placed;
    // The freest search found a place for the part, and proved that then another one has none. That is a proof
    // for this answer too, if it places all of those between which the proof was made.
    let in_exchange = |part: usize| {
        let others = (0..freest.parts.len()).filter(|other| *other != part);
        is_placed(freest, part)
            && !freest.parts.contains(&Outcome::NotFound)
            && others
                .into_iter()
                .all(|other| !is_placed(freest, other) || is_placed(&answer, other))
    };
    let is_proven = |part: usize| freest.parts[part] == Outcome::Infeasible || in_exchange(part);
    let judged = |(part, outcome): (usize, &Outcome)| match outcome {
        Outcome::Placed => Outcome::Placed,
        Outcome::Infeasible if is_proven(part) => Outcome::Infeasible,
        Outcome::Infeasible | Outcome::NotFound => Outcome::NotFound,
    };
    let parts: Vec<Outcome> = answer.parts.iter().enumerate().map(judged).collect();
    let optimal = answer.optimal && parts == answer.parts;
    Selection { parts, optimal, ..answer }
}

/// The parts that have no place.
fn lacking(found: &Selection) -> impl Iterator<Item = usize> {
    let parts = found.parts.iter().enumerate();
    parts.filter(|(_, outcome)| **outcome != Outcome::Placed).map(|(part, _)| part)
}

fn lacking_none(found: &Selection) -> bool {
    lacking(found).next().is_none()
}

/// How many Apps have a place, the most important first: an answer with more of them is the better one.
fn placed(compiled: &Compiled<'_, '_>, found: &Selection) -> BTreeMap<Reverse<i32>, usize> {
    let mut counts = BTreeMap::new();
    for part in compiled.part_of.values() {
        let priority = compiled.problem.parts[*part].priority;
        let count = counts.entry(Reverse(priority)).or_default();
        *count += usize::from(found.parts[*part] == Outcome::Placed);
    }
    counts
}

/// Instances that run well, of Apps that nobody has changed: they are planned only because something
/// else of their App has no place any more.
fn settled(compiled: &Compiled<'_, '_>, options: &Options) -> Vec<ItemId> {
    if options.scope == Scope::All {
        return Vec::new();
    }
    let well = |item: &ItemId| {
        let Origin::Wanted { app, component, replica, .. } = compiled.origins[item.at()] else {
            return false;
        };
        let own = &compiled.problem.items[*item];
        let Some(at) = compiled.runs_on(app, component, replica) else { return false };
        own.current.is_some()
            && !options.changed.contains(&compiled.ids[app])
            && own.adjust.iter().all(|adjust| adjust.delta >= 0)
            && explain::eviction(compiled, *item, at).is_empty()
    };
    ItemId::first(compiled.origins.len()).filter(well).collect()
}

/// Items that are held where they run, and what they were before.
struct Kept {
    items: Vec<Held>,
    /// Those that were let go, because somebody had no place beside them.
    let_go: BTreeSet<ItemId>,
}

struct Held {
    item: ItemId,
    /// The class that leaves it no choice, and the one that it had before.
    pinned: u32,
    class: u32,
    barred: Vec<NodeId>,
}

fn keep(compiled: &mut Compiled<'_, '_>, items: &[ItemId]) -> Kept {
    let hold = |item: &ItemId| {
        let own = &compiled.problem.items[*item];
        let (class, barred) = (own.class, own.barred.clone());
        pin(compiled, *item);
        Held { item: *item, pinned: compiled.problem.items[*item].class, class, barred }
    };
    Kept { items: items.iter().map(hold).collect(), let_go: BTreeSet::new() }
}

impl Kept {
    /// Lets those go whose App is meant.
    fn release(&self, compiled: &mut Compiled<'_, '_>, meant: impl Fn(usize) -> bool) {
        for held in &self.items {
            if app_of(compiled, held.item).is_some_and(&meant) {
                let own = &mut compiled.problem.items[held.item];
                own.class = held.class;
                own.barred.clone_from(&held.barred);
            }
        }
    }

    /// Holds again all but those that were let go.
    fn hold(&self, compiled: &mut Compiled<'_, '_>) {
        for held in &self.items {
            let own = &mut compiled.problem.items[held.item];
            if self.let_go.contains(&held.item) {
                own.class = held.class;
                own.barred.clone_from(&held.barred);
            } else {
                own.class = held.pinned;
                own.barred.clear();
            }
        }
    }

    /// Those that an answer does not leave where they run.
    fn moved(&self, compiled: &Compiled<'_, '_>, found: &Selection) -> BTreeSet<ItemId> {
        let moved = |item: &ItemId| {
            let Some(choice) = found.chosen[*item] else { return false };
            compiled.problem.items[*item].current != Some(choice.node)
                || !reschedule::keeps_engine(compiled, *item, choice)
        };
        self.items.iter().map(|held| held.item).filter(moved).collect()
    }
}

fn app_of(compiled: &Compiled<'_, '_>, item: ItemId) -> Option<usize> {
    match compiled.origins[item.at()] {
        Origin::Wanted { app, .. } => Some(app),
        Origin::Anchor { .. } => None,
    }
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
        make_room: BTreeSet::new(),
    }
}

/// Where places or choices were left out before the search, what it has proven is not proven of all.
fn honest(compiled: &Compiled<'_, '_>, found: Selection) -> Selection {
    if !compiled.is_narrower() {
        return found;
    }
    let unsure = |part: Outcome| match part {
        Outcome::Placed => Outcome::Placed,
        Outcome::Infeasible | Outcome::NotFound => Outcome::NotFound,
    };
    let parts = found.parts.iter().copied().map(unsure).collect();
    let found = Selection { parts, optimal: false, ..found };
    let Some(ceiling) = compiled.ceiling else { return found };
    let gains = compiled.problem.items.iter().map(|item| {
        let adjust = item.adjust.iter().map(|adjust| i64::from(adjust.delta)).max();
        adjust.unwrap_or(0).max(0)
    });
    let drawn = compiled.problem.scatter.iter().map(|group| {
        let pairs = i64::try_from(group.items.len() * group.items.len() / 2).unwrap_or(i64::MAX);
        pairs.saturating_mul((-group.cost).max(0))
    });
    let bound = found.bound.max(ceiling + gains.sum::<i64>() + drawn.sum::<i64>());
    Selection { bound, ..found }
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
