//! Somebody has no place beside those that run: which of the Apps that stand could make room. Called by
//! [`super::plan()`]; start reading at [`beside`].

use std::collections::{BTreeMap, BTreeSet};

use tombolo_model::{App, AppId};
use tombolo_solver::problem::ItemId;

use crate::ask::Ask;
use crate::compile::{self, Compiled, Origin};
use crate::continuum::Amounts;
use crate::explain;
use crate::filter::{self, Look};
use crate::running::{Hold, Running};

/// As long as no more instances run, all of them are planned together, and "no place" is proven of all that
/// could be. More would make each look slow in which somebody has no place.
const ALL_MAX: usize = 256;
/// Of more, so many Apps: with them a search takes some hundred milliseconds.
const APPS_MAX: usize = 40;
/// Nodes that are looked at for each instance that wants one: those that would have to be left by fewest.
const NODES_MAX: usize = 8;
/// Kinds of instances without a place that are looked at; the others get their turn when these have one.
const KINDS_MAX: usize = 16;
/// A stateful instance moves for nobody if so many others could.
const STATE_COUNTS: usize = 16;

/// Apps that stand and may be asked to make room.
#[derive(Clone, Debug, Default)]
pub(super) struct Room {
    pub apps: BTreeSet<AppId>,
    /// These are all that run: who has no place beside them has none at all.
    pub all: bool,
}

/// Apps whose instances are where those that have no place could be.
pub(super) fn beside(compiled: &Compiled<'_, '_>, lacking: &[usize]) -> Room {
    let standing: BTreeMap<&AppId, &App> = compiled
        .scoped
        .standing
        .iter()
        .map(|app| (&compiled.ids[*app], compiled.apps[*app]))
        .collect();
    let is_standing =
        |one: &&Running| one.app.as_ref().is_some_and(|app| standing.contains_key(app));
    let held = || compiled.roster.iter().filter(|one| one.hold == Hold::Held).filter(is_standing);
    if held().take(ALL_MAX + 1).count() <= ALL_MAX {
        let apps = standing.keys().map(|id| (*id).clone()).collect();
        return Room { apps, all: true };
    }
    let mut there: BTreeMap<u32, Vec<&Running>> = BTreeMap::new();
    for one in held() {
        if let Some(node) = compiled.continuum.node_index(&one.node) {
            there.entry(node).or_default().push(one);
        }
    }
    let mut room = Room { apps: neighbours(compiled, lacking, &standing), all: false };
    let app_of = |one: &Running| one.app.as_ref().and_then(|id| standing.get(id)).copied();
    for ask in wanting(compiled, lacking) {
        let mut nodes: Vec<(usize, u32)> = there
            .iter()
            .filter_map(|(node, those)| {
                let leave = leaving(compiled, &ask, *node, those, &app_of)?;
                Some((leave, *node))
            })
            .collect();
        nodes.sort_unstable();
        let apps = nodes.iter().take(NODES_MAX).flat_map(|(_, node)| &there[node]);
        for app in apps.filter_map(|one| one.app.as_ref()) {
            if room.apps.len() < APPS_MAX {
                room.apps.insert(app.clone());
            }
        }
    }
    room
}

/// Apps that those without a place speak to.
fn neighbours(
    compiled: &Compiled<'_, '_>,
    lacking: &[usize],
    standing: &BTreeMap<&AppId, &App>,
) -> BTreeSet<AppId> {
    let calls = |app: &App| -> BTreeSet<AppId> {
        let connections = app.spec.components.iter().flat_map(|part| &part.connects);
        let named = connections.filter_map(|connection| connection.app.as_deref());
        named.map(|name| AppId::of(app).beside(Some(name))).collect()
    };
    let called: BTreeSet<AppId> =
        lacking.iter().flat_map(|app| calls(compiled.apps[*app])).collect();
    let own: BTreeSet<&AppId> = lacking.iter().map(|app| &compiled.ids[*app]).collect();
    let speaks = |id: &AppId, app: &App| {
        called.contains(id) || calls(app).iter().any(|called| own.contains(called))
    };
    let found = standing.iter().filter(|(id, app)| speaks(id, app));
    found.map(|(id, _)| (*id).clone()).take(APPS_MAX).collect()
}

/// What the instances that want a place ask for, each kind once.
fn wanting<'c>(compiled: &Compiled<'c, '_>, lacking: &[usize]) -> Vec<Ask<'c>> {
    let mut seen: BTreeSet<(u32, Box<[u64]>)> = BTreeSet::new();
    let mut wanting = Vec::new();
    for item in ItemId::first(compiled.origins.len()) {
        let Origin::Wanted { app, component, replica, ask } = compiled.origins[item.at()] else {
            continue;
        };
        let may_stay = || {
            let at = compiled.runs_on(app, component, replica);
            at.is_some_and(|at| explain::eviction(compiled, item, at).is_empty())
        };
        if !lacking.contains(&app) || may_stay() {
            continue;
        }
        let own = &compiled.problem.items[item];
        if wanting.len() < KINDS_MAX && seen.insert((own.class, own.demand.clone())) {
            wanting.push(compiled.asks[ask].clone());
        }
    }
    wanting
}

/// How many would have to leave a node until an instance has room there; nothing where it has none even if all
/// of them do. Those that give most room go first, and those with state last.
fn leaving<'c>(
    compiled: &Compiled<'_, '_>,
    ask: &Ask<'c>,
    node: u32,
    there: &[&'c Running],
    app_of: &dyn Fn(&Running) -> Option<&'c App>,
) -> Option<usize> {
    let continuum = compiled.continuum;
    let fits =
        |left: &Amounts<'_>| filter::failing(&Look { continuum, left, ask, node }).is_empty();
    let total = &continuum.node(node).total;
    if !fits(total) {
        return None;
    }
    let has_state = |one: &Running| {
        let parts = app_of(one).map_or(&[][..], |app| &app.spec.components);
        parts.iter().any(|part| part.name == one.component && part.stateful)
    };
    let mut those: Vec<(bool, Amounts<'_>)> =
        there.iter().map(|one| (has_state(one), compile::amounts(one, app_of(one)))).collect();
    let size = |amounts: &Amounts<'_>| {
        let share = |used: u64, all: u64| u128::from(used) * 1_000 / u128::from(all.max(1));
        share(amounts.cpu_millis, total.cpu_millis)
            .max(share(amounts.memory_bytes, total.memory_bytes))
    };
    those.sort_by_key(|(state, amounts)| (*state, std::cmp::Reverse(size(amounts))));
    // From nobody having left to all of them.
    let mut effort = 0;
    for left in 0..=those.len() {
        let stay = those[left..].iter();
        if fits(&stay.fold(total.clone(), |has, (_, used)| has.without(used))) {
            return Some(effort);
        }
        effort += those.get(left).map_or(0, |(state, _)| if *state { STATE_COUNTS } else { 1 });
    }
    None
}
