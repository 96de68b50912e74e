//! Why is this component not on that node? Everything that fails there, each with its margin.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};

use tombolo_model::{About, App, AppId, Trouble};
use tombolo_solver::problem::{Choice, ItemId};

use super::neighbours::{self, Neighbours};
use super::{closed, unknown};
use crate::compile::{self, Compiled, Options, Origin, Scope};
use crate::continuum::{Amounts, Continuum};
use crate::filter::{self, Look};
use crate::paths::WayBook;
use crate::reschedule;
use crate::running::{Hold, Running};
use crate::words;

/// Which end of a connection one is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Calls {
    Out,
    In,
}

/// What one component thinks of one node.
#[derive(Clone, Debug, PartialEq)]
pub struct Pair {
    /// Every need that the node does not meet, with the margin: `needs 2 cpu, has 1.5`.
    pub failing: Vec<String>,
    /// 0 to 100, as if the needs were met.
    pub score: f64,
    /// By criterion, 0 to 100 before weighing.
    pub terms: BTreeMap<String, f64>,
    /// Where the component runs now, and its score there.
    pub instead: Vec<(String, f64)>,
}

/// Looks at one pair. The component's own instances make room for it, all others stay.
pub fn pair<A: Borrow<App>>(
    continuum: &Continuum<'_>,
    apps: &[A],
    running: &[Running],
    options: &Options,
    (app, component, node): (&AppId, &str, &str),
) -> Result<Pair, Trouble> {
    let about = About::App(app.clone());
    let apps: Vec<&App> = apps.iter().map(Borrow::borrow).collect();
    let which = apps.iter().position(|one| AppId::of(one) == *app);
    let which = which.ok_or_else(|| Trouble::not_found(about.clone()))?;
    let part = apps[which].spec.components.iter().position(|one| one.name == component);
    let part = part.ok_or_else(|| Trouble::not_found(About::Component(component.to_owned())))?;
    let missing = || Trouble::not_found(About::Node(node.to_owned()));
    let node = continuum.node_index(node).ok_or_else(missing)?;
    let others: BTreeSet<usize> = (0..apps.len()).filter(|other| *other != which).collect();
    let options = Options { scope: Scope::All, ..options.clone() };
    let compiled = compile::compile_without(continuum, &apps, running, &options, &others);
    if let Some(trouble) = compiled.troubles.iter().find(|trouble| trouble.is_about_app(app)) {
        return Err(trouble.clone());
    }
    let Some((item, mut failing)) = subject(&compiled, part, node) else {
        return Err(Trouble::new(about, "it is stopped, or wants no instance of it"));
    };
    let barred = &compiled.problem.items[item].barred;
    if compiled.at[node as usize].is_some_and(|at| barred.contains(&at)) {
        failing.push("it violated a policy there recently".to_owned());
    }
    // A name that nothing has keeps it off every node.
    if let Some(ask) = compiled.ask(item).filter(|_| !failing.is_empty()) {
        failing.splice(0..0, unknown::of(continuum, ask).sentences);
    }
    failing.extend(from_neighbours(&compiled, item, node));
    failing.extend(from_links(&compiled, item, node));
    let neighbours = Neighbours::of(&compiled, &as_it_runs(&compiled));
    let engines = neighbours::engines(&compiled, item, node);
    // That no engine there can run it is said already.
    if !engines.is_empty() {
        failing.extend(neighbours.against(&compiled, item, node, &engines));
    }

    let class = compiled.problem.items[item].class as usize;
    let wish = compiled.kinds[class].wish.as_ref();
    let score = |node: u32| {
        wish.map_or(0.0, |wish| (wish.score(&compiled.ground, node) * 10.0).round() / 10.0)
    };
    let mut terms = BTreeMap::new();
    for (name, _, term) in wish.iter().flat_map(|wish| wish.terms(&compiled.ground, node)) {
        terms
            .insert(name.to_owned(), (term.unwrap_or(crate::score::NEUTRAL) * 10.0).round() / 10.0);
    }
    let held = compiled.roster.held(app, component);
    let held =
        held.filter_map(|one| Some((one.node.clone(), score(continuum.node_index(&one.node)?))));
    let mut instead: Vec<(String, f64)> = held.collect();
    instead.dedup();
    Ok(Pair { failing, score: score(node), terms, instead })
}

/// The instance of the component that is on the node or, if none is, the one that lacks least there;
/// with every need of it that the node does not meet.
fn subject(compiled: &Compiled<'_, '_>, part: usize, node: u32) -> Option<(ItemId, Vec<String>)> {
    let left = left(compiled, part, node);
    let mut found: Option<(ItemId, Vec<String>)> = None;
    for (item, origin) in ItemId::first(compiled.origins.len()).zip(&compiled.origins) {
        let Origin::Wanted { app, component, replica, ask } = *origin else { continue };
        if component != part {
            continue;
        }
        let ask = &compiled.asks[ask];
        let look = Look { continuum: compiled.continuum, left: &left, ask, node };
        let failing = filter::failing(&look);
        let says = |asked: &filter::Asked| match asked.need.name {
            // Since when it is down comes first, and says more than that it is.
            "ready" => closed::sentence(*asked, &[look]),
            _ => None,
        };
        let says = |asked| says(asked).unwrap_or_else(|| asked.rejection(&look));
        let failing = || failing.iter().map(says).collect::<Vec<_>>();
        if compiled.runs_on(app, component, replica) == Some(node) {
            return Some((item, failing()));
        }
        let failing = failing();
        if found.as_ref().is_none_or(|(_, least)| failing.len() < least.len()) {
            found = Some((item, failing));
        }
    }
    found
}

/// What the other components of the App, too, leave of the node.
fn left<'a>(compiled: &Compiled<'_, 'a>, part: usize, node: u32) -> Amounts<'a> {
    let Some(app) = compiled.scoped.planned.first().copied() else {
        return compiled.free[node as usize].clone();
    };
    let name = compiled.continuum.node(node).name;
    let own = &compiled.apps[app].spec.components[part].name;
    let beside = compiled
        .roster
        .of_app(&compiled.ids[app])
        .filter(|one| one.hold == Hold::Held && one.node == name && one.component != *own);
    let mut left = compiled.free[node as usize].clone();
    for one in beside {
        left = left.without(&compile::amounts(one, Some(compiled.apps[app])));
    }
    left
}

/// By item: where it is now.
fn as_it_runs(compiled: &Compiled<'_, '_>) -> Vec<Option<Choice>> {
    let mut chosen = vec![None; compiled.origins.len()];
    for (item, node) in compiled.currents() {
        chosen[item] = compiled.at[node as usize]
            .map(|node| Choice { node, engine: reschedule::engine_at(compiled, item, node) });
    }
    chosen
}

/// Where the partner of an item runs, which of the two calls, and by which edge.
fn partners(
    compiled: &Compiled<'_, '_>,
    item: ItemId,
) -> impl Iterator<Item = (usize, u32, Calls)> {
    let edges = compiled.problem.edges.iter().enumerate();
    edges.filter_map(move |(number, edge)| {
        let (other, calls) = match () {
            () if edge.a == item => (edge.b, Calls::Out),
            () if edge.b == item => (edge.a, Calls::In),
            () => return None,
        };
        let at = match compiled.origins[other.at()] {
            Origin::Wanted { app, component, replica, .. } => {
                compiled.runs_on(app, component, replica)?
            }
            Origin::Anchor { .. } => return None,
        };
        Some((number, at, calls))
    })
}

/// Links on the ways to its partners that have too little bandwidth left.
fn from_links(compiled: &Compiled<'_, '_>, item: ItemId, node: u32) -> Vec<String> {
    let continuum = compiled.continuum;
    let mut book = WayBook::default();
    let mut needed: BTreeMap<u32, u64> = BTreeMap::new();
    let zone = |node: u32| continuum.node(node).zone;
    let mut add = |needed: &mut BTreeMap<u32, u64>, from: u32, to: u32, rate: u64| {
        let ways = book.from(&continuum.network, zone(from));
        for link in ways[zone(to) as usize].iter().flat_map(|way| &way.links) {
            let sum = needed.entry(*link).or_insert(0);
            *sum = sum.saturating_add(rate);
        }
    };
    for (edge, at, calls) in partners(compiled, item) {
        let rate = compiled.problem.edges[edge].bandwidth_bps;
        match calls {
            Calls::Out => add(&mut needed, node, at, rate),
            Calls::In => add(&mut needed, at, node, rate),
        }
    }
    needed.retain(|_, rate| *rate > 0);
    if needed.is_empty() {
        return Vec::new();
    }
    let mut taken = compile::reserved(compiled);
    let places: BTreeMap<ItemId, u32> = compiled.currents().collect();
    for edge in compiled.problem.edges.iter().filter(|edge| edge.a != item && edge.b != item) {
        if let (Some(from), Some(to)) = (places.get(&edge.a), places.get(&edge.b)) {
            add(&mut taken, *from, *to, edge.bandwidth_bps);
        }
    }
    let lacking = |(link, rate): (u32, u64)| {
        let row = &continuum.network.links[link as usize];
        let left = row.bandwidth_bps?.saturating_sub(taken.get(&link).copied().unwrap_or(0));
        let (needs, has) = (words::rate(rate), words::rate_left(left));
        (rate > left).then(|| format!("needs {needs} of link {}, has {has} left", row.name))
    };
    needed.into_iter().filter_map(lacking).collect()
}

/// What stands between the node and where its partners run now.
fn from_neighbours(compiled: &Compiled<'_, '_>, item: ItemId, node: u32) -> Vec<String> {
    let continuum = compiled.continuum;
    let mut found = Vec::new();
    let problem = &compiled.problem;
    for (number, at, calls) in partners(compiled, item) {
        let (edge, origin) = (&problem.edges[number], compiled.edge_origins[number]);
        let other = if edge.a == item { edge.b } else { edge.a };
        let caller = &compiled.apps[origin.app].spec.components[origin.component];
        let bounds = crate::affinity::Bounds::of(&caller.connects[origin.connection]);
        let (from, to) = match calls {
            Calls::Out => (node, at),
            Calls::In => (at, node),
        };
        let ways = continuum.network.ways_from(continuum.node(from).zone);
        let name = &problem.items[other].id;
        match &ways[continuum.node(to).zone as usize] {
            None => found
                .push(format!("needs a way to {name} on {}, has none", continuum.node(at).name)),
            Some(way) if !bounds.kept_by(way) => {
                let max = bounds.latency_us_max.map_or_else(
                    || "a measured way".to_owned(),
                    |max| format!("at most {}", words::delay(max)),
                );
                let has = if way.assumed {
                    "nothing is known about it".to_owned()
                } else {
                    format!("has {}{}", words::delay(way.latency_us), continuum.network.told(way))
                };
                found.push(format!("needs {max} to {name} on {}, {has}", continuum.node(at).name));
            }
            Some(_) => (),
        }
    }
    found.sort();
    found.dedup();
    found
}
