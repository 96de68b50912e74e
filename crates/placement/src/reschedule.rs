//! Moving and staying: what it costs to leave, what a violation weighs, how many may be down at
//! once. The rules are in `docs/placement.md`. [`weigh`] is called by [`crate::compile`], the rest by
//! [`crate::plan()`].

use std::collections::BTreeMap;

use tombolo_model::AppId;
use tombolo_model::component::Component;
use tombolo_solver::problem::{Adjust, Choice, ItemId, NodeId};

use crate::ask;
use crate::compile::{Compiled, Options, Origin};
use crate::running::{Strike, Verdict};

/// Every move must gain more than this, in hundredths of a point of score: small differences come
/// and go with every measurement.
pub const HYSTERESIS: i32 = 300;
/// State has to be carried over, and nobody is served meanwhile.
const STATE: i32 = 2_000;
/// The only instance is away for a moment.
const INTERRUPTION: i32 = 200;
/// At most, for data that has to be read again.
const DATA: f64 = 2_000.0;

/// For so long an excluded pair stays excluded.
pub const EXCLUDED_SECONDS: u64 = 600;
/// After this time a penalty is half of what it was.
pub const HALF_LIFE_SECONDS: u64 = 600;
/// What a fresh violation weighs.
const PENALTY: f64 = 5_000.0;

/// What a violation weighs now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Penalty {
    Barred,
    Points(i32),
    Forgotten,
}

impl Penalty {
    pub(crate) fn counts(self) -> bool {
        match self {
            Penalty::Barred | Penalty::Points(_) => true,
            Penalty::Forgotten => false,
        }
    }
}

/// Half of it is gone after each half-life, and all of it when it is less than what any move costs.
pub(crate) fn penalty(strike: &Strike, now: u64) -> Penalty {
    // A violation from the future is a clock that was set back: it counts as fresh.
    let age = now.saturating_sub(strike.at);
    let age = match strike.verdict {
        Verdict::Exclude if age < EXCLUDED_SECONDS => return Penalty::Barred,
        Verdict::Exclude => age - EXCLUDED_SECONDS,
        Verdict::Penalise => age,
    };
    #[expect(clippy::cast_precision_loss, reason = "seconds for a decay")]
    let half_lives = age as f64 / HALF_LIFE_SECONDS as f64;
    #[expect(clippy::cast_possible_truncation, reason = "at most PENALTY")]
    let points = (PENALTY * (-half_lives).exp2()).round() as i32;
    if points < HYSTERESIS { Penalty::Forgotten } else { Penalty::Points(points) }
}

/// What it costs to move one instance away, in hundredths of a point.
pub(crate) fn moving_cost(component: &Component) -> i32 {
    let mut cost = HYSTERESIS;
    if component.stateful {
        cost += STATE;
    }
    if ask::instances(component) == 1 {
        cost += INTERRUPTION;
    }
    let gravity = crate::score::gravity(component);
    #[expect(clippy::cast_possible_truncation, reason = "at most DATA")]
    let data = (DATA * gravity).round() as i32;
    cost + data
}

/// Puts what runs now and what was violated into the items.
pub(crate) fn weigh(compiled: &mut Compiled<'_, '_>, options: &Options) {
    let mut strikes: BTreeMap<(&AppId, &str), Vec<&Strike>> = BTreeMap::new();
    for strike in &options.strikes {
        strikes.entry((&strike.app, &strike.component)).or_default().push(strike);
    }
    for item in ItemId::first(compiled.origins.len()) {
        let Origin::Wanted { app, component, replica, .. } = compiled.origins[item.at()] else {
            continue;
        };
        let part = &compiled.apps[app].spec.components[component];
        let mut barred = Vec::new();
        let mut adjust = Vec::new();
        let current =
            compiled.runs_on(app, component, replica).and_then(|node| compiled.at[node as usize]);
        if let Some(node) = current {
            // Its volume and its process are with the engine: another on the same node is a move.
            let engine = Some(engine_at(compiled, item, node));
            adjust.push(Adjust { node, engine, delta: moving_cost(part) });
        }
        for strike in strikes.get(&(&compiled.ids[app], part.name.as_str())).into_iter().flatten() {
            let node = compiled.continuum.node_index(&strike.node);
            let Some(node) = node.and_then(|node| compiled.at[node as usize]) else { continue };
            match penalty(strike, options.now) {
                Penalty::Barred if !barred.contains(&node) => barred.push(node),
                Penalty::Barred | Penalty::Forgotten => (),
                Penalty::Points(points) => {
                    adjust.push(Adjust { node, engine: None, delta: -points });
                }
            }
        }
        let item = &mut compiled.problem.items[item];
        item.current = current;
        item.barred = barred;
        item.adjust = adjust;
    }
}

/// Items that want to move but must wait, because too many of their component would be down at
/// once. Those that gain most go first.
pub(crate) fn over_budget(compiled: &Compiled<'_, '_>, chosen: &[Option<Choice>]) -> Vec<ItemId> {
    let mut moves: BTreeMap<(usize, usize), Vec<(i64, ItemId)>> = BTreeMap::new();
    for (item, choice) in ItemId::first(chosen.len()).zip(chosen) {
        let Origin::Wanted { app, component, replica, .. } = compiled.origins[item.at()] else {
            continue;
        };
        let (Some(choice), Some(at)) = (choice, compiled.runs_on(app, component, replica)) else {
            continue;
        };
        if compiled.nodes[choice.node.at()] == at && keeps_engine(compiled, item, *choice) {
            continue;
        }
        let gain = gain(compiled, item, *choice);
        moves.entry((app, component)).or_default().push((gain, item));
    }
    let mut waiting = Vec::new();
    for ((app, component), mut wanting) in moves {
        let part = &compiled.apps[app].spec.components[component];
        // Nobody could ever move if none may be down.
        let budget = part.unavailable_max.unwrap_or(1).max(1) as usize;
        // Those that run nowhere are down already.
        let up = compiled.roster.held(&compiled.ids[app], &part.name).count();
        let budget = budget.saturating_sub(ask::instances(part).saturating_sub(up));
        wanting.sort_by_key(|(gain, item)| (std::cmp::Reverse(*gain), *item));
        waiting.extend(wanting.into_iter().skip(budget).map(|(_, item)| item));
    }
    waiting.sort_unstable();
    waiting
}

/// The answer that leaves everything where it runs; `None` if something that is wanted runs nowhere.
pub(crate) fn as_it_stands(compiled: &Compiled<'_, '_>) -> Option<Vec<Option<Choice>>> {
    let problem = &compiled.problem;
    let stays = ItemId::first(problem.items.len()).zip(&problem.items).map(|(number, item)| {
        let node = match compiled.origins[number.at()] {
            Origin::Wanted { .. } => item.current?,
            Origin::Anchor { .. } => problem.classes[item.class as usize].candidates.first()?.node,
        };
        Some(Some(Choice { node, engine: engine_at(compiled, number, node) }))
    });
    stays.collect()
}

/// By how much the new place is better than the present one; most of all when it must leave.
pub(crate) fn gain(compiled: &Compiled<'_, '_>, item: ItemId, choice: Choice) -> i64 {
    let problem = &compiled.problem;
    let current = problem.items[item].current;
    let stay = current.and_then(|node| {
        problem.value(item, Choice { node, engine: engine_at(compiled, item, node) })
    });
    let go = problem.value(item, choice).unwrap_or(0);
    match stay {
        Some(stay) => go - stay,
        None => i64::MAX / 2,
    }
}

/// Whether an item that stays on its node also stays with its engine.
pub(crate) fn keeps_engine(compiled: &Compiled<'_, '_>, item: ItemId, choice: Choice) -> bool {
    choice.engine == engine_at(compiled, item, choice.node)
}

/// The engine by which an item of the problem runs on a node of it, or would: the one that it has
/// there now, as long as the node has it and it may run the component.
pub(crate) fn engine_at(compiled: &Compiled<'_, '_>, item: ItemId, node: NodeId) -> u8 {
    let row = compiled.continuum.node(compiled.nodes[node.at()]);
    let Origin::Wanted { app, component, replica, ask } = compiled.origins[item.at()] else {
        return ask::engine_number(row.engine);
    };
    let runs = compiled.asks[ask].runs();
    let name = &compiled.apps[app].spec.components[component].name;
    let now = compiled.roster.get(&compiled.ids[app], name, replica);
    let now = now.filter(|now| now.node == row.name).map(|now| now.engine);
    let now = now.filter(|now| Some(*now) == row.also || *now == row.engine);
    let engine = now.filter(|now| runs.can(*now));
    ask::engine_number(engine.unwrap_or_else(|| runs.pick(row.engine, row.also)))
}

#[cfg(test)]
mod tests;
