//! Each instance has a node that would take it, but not all of them at once: which rules between
//! them are in conflict, found by leaving them out one after the other and searching again.

use std::collections::BTreeSet;

use tombolo_model::app::Unplaced;
use tombolo_solver::problem::{ItemId, NodeId, Problem, Scope};
use tombolo_solver::select::{Limits, Outcome, Selection, select};

use super::Lack;
use super::decision::{amount, amounts};
use crate::compile::{self, Compiled, EdgeOrigin, Origin};
use crate::paths::UNMEASURED_US;
use crate::words;

/// Each rule costs a search. With more of them the connections are taken as one.
const RULES_MAX: usize = 40;
/// For one search.
const WORK_MAX: u64 = 300_000;
/// Pairs of an instance and a node too small for it. Beyond, small nodes stay as they are for all.
const BARRED_MAX: usize = 1_000_000;
/// Nodes of which it is tried whether more room on one of them alone would do; each costs a search.
const NODES_TRIED_MAX: usize = 8;
/// A suggestion to change more nodes than this helps nobody.
const NODES_NAMED_MAX: usize = 4;
/// Where they need less of everything than this share of what is left, room is not what makes the
/// search long.
const TIGHT_PERCENT: u128 = 70;

/// A rule that binds several instances.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rule {
    /// The nodes have only so much of this resource.
    Room(usize),
    Latency(EdgeOrigin),
    Bandwidth(EdgeOrigin),
    AllConnections,
    Apart(usize),
    /// Groups that keep the instances of one component even.
    Even(usize),
    Together(usize),
    OneEngine,
}

pub(super) fn of(compiled: &Compiled<'_, '_>, lack: Lack, limits: &Limits<'_>) -> Vec<Unplaced> {
    let limits = Limits { work: limits.work.min(WORK_MAX), ..*limits };
    // Reasons are only given for what is proven to be impossible: a rule that was in the way of one
    // search need not be in the way of the App.
    if let Lack::GaveUp { steps } = lack {
        match searched(&compiled.problem, &limits) {
            Search::Impossible => (),
            Search::GaveUp => return not_proven(compiled, not_found(steps), steps),
            Search::Placed(found) => {
                let says = "a place was found while looking for the reason; it is taken next time";
                return not_proven(compiled, says.to_owned(), found.work);
            }
        }
    }
    let search = |left_out: &BTreeSet<Rule>| searched(&without(compiled, left_out), &limits);
    // Deletion filter: a rule without which it still is impossible is no part of the conflict. A rule
    // of which a search within its limits says neither stays: what is kept then still is impossible,
    // though perhaps not the least that is.
    let mut left_out: BTreeSet<Rule> = BTreeSet::new();
    let mut kept: Vec<Rule> = Vec::new();
    for rule in rules(compiled) {
        left_out.insert(rule);
        match search(&left_out) {
            Search::Impossible => (),
            Search::Placed(_) | Search::GaveUp => {
                left_out.remove(&rule);
                kept.push(rule);
            }
        }
    }
    let mut reasons: Vec<String> = kept.iter().map(|rule| say(compiled, *rule)).collect();
    // Instances of the same two components have the same to say.
    reasons.dedup();
    if reasons.is_empty() {
        reasons.push("their needs contradict each other on every choice of nodes".to_owned());
    }
    let suggestion = kept.iter().find_map(|rule| {
        let only: BTreeSet<Rule> = [*rule].into();
        let Search::Placed(found) = search(&only) else { return None };
        let fits = |changed: &Problem| matches!(searched(changed, &limits), Search::Placed(_));
        mend(compiled, *rule, &found, &fits)
    });
    everyone(compiled, &Unplaced { reasons, suggestion, ..Unplaced::default() })
}

/// `no place was found within 10,000,000 steps of search; there may be one`.
pub(super) fn not_found(steps: u64) -> String {
    let steps = words::grouped(steps);
    format!("no place was found within {steps} steps of search; there may be one")
}

/// What is told of an App for which there may be a place.
fn not_proven(compiled: &Compiled<'_, '_>, says: String, steps: u64) -> Vec<Unplaced> {
    let mut reasons = vec![says];
    reasons.extend(tightest(compiled));
    let suggestion = "it is searched for again when a node or an App changes; \
                      `tombolo plan --time-limit 60s` searches longer now";
    let suggestion = Some(suggestion.to_owned());
    let gave_up_after = Some(steps);
    everyone(compiled, &Unplaced { reasons, suggestion, gave_up_after, ..Unplaced::default() })
}

/// The resource that they take most of, where it is scarce enough to make the search long.
fn tightest(compiled: &Compiled<'_, '_>) -> Option<String> {
    let problem = &compiled.problem;
    let nodes = admitted(problem);
    let share = |resource: usize| {
        let (all, left) = demand_and_room(problem, &nodes, resource);
        u128::from(all) * 100 / u128::from(left.max(1))
    };
    let resource = (0..problem.resources.len()).max_by_key(|resource| share(*resource))?;
    let (all, left) = demand_and_room(problem, &nodes, resource);
    let name = &problem.resources[resource];
    let (all, left) = amounts(name, all, left);
    let says =
        format!("together they need {all} of the {left} that are left on {} nodes", nodes.len());
    (share(resource) >= TIGHT_PERCENT).then_some(says)
}

/// Whether it is proven that the problem has no answer.
pub(super) fn is_impossible(compiled: &Compiled<'_, '_>, limits: &Limits<'_>) -> bool {
    let limits = Limits { work: limits.work.min(WORK_MAX), ..*limits };
    !compiled.is_narrower() && matches!(searched(&compiled.problem, &limits), Search::Impossible)
}

/// What a search says of a problem.
enum Search {
    Placed(Box<Selection>),
    /// Proven.
    Impossible,
    GaveUp,
}

fn searched(problem: &Problem, limits: &Limits<'_>) -> Search {
    // A problem that cannot be stated is no proof of anything.
    let Ok(found) = select(problem, limits) else { return Search::GaveUp };
    if found.parts.iter().all(|part| *part == Outcome::Placed) {
        return Search::Placed(Box::new(found));
    }
    match found.parts.contains(&Outcome::Infeasible) {
        true => Search::Impossible,
        false => Search::GaveUp,
    }
}

/// Every instance that runs nowhere gets the same reasons: it is a matter between them.
fn everyone(compiled: &Compiled<'_, '_>, says: &Unplaced) -> Vec<Unplaced> {
    let wanted = compiled.origins.iter().filter_map(|origin| match *origin {
        Origin::Wanted { app, component, replica, .. } => Some((app, component, replica)),
        Origin::Anchor { .. } => None,
    });
    let missing: Vec<_> =
        wanted.clone().filter(|(a, c, r)| compiled.runs_on(*a, *c, *r).is_none()).collect();
    let concerned: Vec<_> = if missing.is_empty() { wanted.collect() } else { missing };
    let unplaced = concerned.into_iter().map(|(app, component, replica)| Unplaced {
        component: compiled.apps[app].spec.components[component].name.clone(),
        replica,
        ..says.clone()
    });
    unplaced.collect()
}

fn rules(compiled: &Compiled<'_, '_>) -> Vec<Rule> {
    let problem = &compiled.problem;
    let mut rules: Vec<Rule> = Vec::new();
    let mut connections: BTreeSet<EdgeOrigin> = BTreeSet::new();
    connections.extend(&compiled.edge_origins);
    if !problem.same_engine.is_empty() {
        rules.push(Rule::OneEngine);
    }
    let is_even = |group: &usize| compiled.evenly.iter().any(|one| one.groups.contains(group));
    rules.extend((0..problem.apart.len()).filter(|group| !is_even(group)).map(Rule::Apart));
    rules.extend((0..compiled.evenly.len()).map(Rule::Even));
    rules.extend((0..problem.together.len()).map(Rule::Together));
    for origin in &connections {
        let edges =
            problem.edges.iter().zip(&compiled.edge_origins).filter(|(_, from)| *from == origin);
        let (mut late, mut wide) = (false, false);
        for (edge, _) in edges {
            late |= edge.latency_us_max.is_some();
            wide |= edge.bandwidth_bps > 0;
        }
        if late {
            rules.push(Rule::Latency(*origin));
        }
        if wide {
            rules.push(Rule::Bandwidth(*origin));
        }
    }
    let used = |resource: &usize| problem.items.iter().any(|item| item.demand[*resource] > 0);
    rules.extend((0..problem.resources.len()).filter(used).map(Rule::Room));
    if rules.len() > RULES_MAX {
        rules.retain(|rule| !matches!(rule, Rule::Latency(_) | Rule::Bandwidth(_)));
        rules.truncate(RULES_MAX - 1);
        rules.push(Rule::AllConnections);
    }
    rules
}

/// The problem with some rules left out.
fn without(compiled: &Compiled<'_, '_>, rules: &BTreeSet<Rule>) -> Problem {
    let mut problem = compiled.problem.clone();
    for rule in rules {
        match *rule {
            Rule::Room(resource) => widen(&mut problem, resource),
            Rule::Latency(origin) => {
                each_edge(
                    compiled,
                    &mut problem,
                    |from| *from == origin,
                    |edge| edge.latency_us_max = None,
                );
            }
            Rule::Bandwidth(origin) => {
                each_edge(
                    compiled,
                    &mut problem,
                    |from| *from == origin,
                    |edge| edge.bandwidth_bps = 0,
                );
            }
            Rule::AllConnections => problem.edges.clear(),
            Rule::Apart(group) => problem.apart[group].items.truncate(1),
            Rule::Even(which) => {
                let groups = compiled.evenly[which].groups.clone();
                problem.apart[groups].iter_mut().for_each(|group| group.items.truncate(1));
            }
            Rule::Together(group) => problem.together[group].items.truncate(1),
            Rule::OneEngine => problem.same_engine.clear(),
        }
    }
    problem
}

/// Gives every node room for everything, but a node that is too small for one instance alone stays
/// too small for it.
fn widen(problem: &mut Problem, resource: usize) {
    let demands = problem.items.iter().map(|item| item.demand[resource]);
    let most = demands.clone().max().unwrap_or(0);
    let all = demands.fold(0, u64::saturating_add);
    let small: Vec<(NodeId, u64)> = NodeId::first(problem.nodes.len())
        .zip(&problem.nodes)
        .map(|(number, node)| (number, node.capacity[resource]))
        .filter(|(_, capacity)| *capacity < most)
        .collect();
    let few = small.len().saturating_mul(problem.items.len()) <= BARRED_MAX;
    if few {
        for item in &mut problem.items {
            let too_small = small.iter().filter(|(_, has)| *has < item.demand[resource]);
            item.barred.extend(too_small.map(|(number, _)| *number));
        }
    }
    for node in &mut problem.nodes {
        let capacity = &mut node.capacity[resource];
        if few || *capacity >= most {
            *capacity = capacity.saturating_add(all);
        }
    }
}

fn each_edge(
    compiled: &Compiled<'_, '_>,
    problem: &mut Problem,
    which: impl Fn(&EdgeOrigin) -> bool,
    change: impl Fn(&mut tombolo_solver::problem::Edge),
) {
    // Without edges there is nothing left to change.
    for (edge, origin) in problem.edges.iter_mut().zip(&compiled.edge_origins) {
        if which(origin) {
            change(edge);
        }
    }
}

fn say(compiled: &Compiled<'_, '_>, rule: Rule) -> String {
    let problem = &compiled.problem;
    let names = |items: &[ItemId]| {
        let names: BTreeSet<&str> =
            items.iter().filter_map(|item| component(compiled, *item)).collect();
        words::list(&names.into_iter().map(str::to_owned).collect::<Vec<_>>())
    };
    match rule {
        Rule::Room(resource) => {
            let name = &problem.resources[resource];
            let nodes = admitted(problem);
            let (all, left) = demand_and_room(problem, &nodes, resource);
            let fragmented = all <= left;
            let (all, left) = amounts(name, all, left);
            match nodes.len() {
                nodes if fragmented => format!(
                    "together they need {all}; the {nodes} nodes that may run them have {left} left, \
                     but not in pieces that fit"
                ),
                1 => format!(
                    "together they need {all}, the only node that may run them has {left} left"
                ),
                nodes => format!(
                    "together they need {all}, the {nodes} nodes that may run them have {left} left"
                ),
            }
        }
        Rule::Latency(origin) => {
            let (from, to, connection) = ends(compiled, origin);
            match (connection.latency, connection.jitter) {
                (Some(max), None) => format!("{from} needs at most {max} to {to}"),
                (None, Some(max)) => format!("{from} needs at most {max} of jitter to {to}"),
                (Some(max), Some(jitter)) => {
                    format!("{from} needs at most {max} and {jitter} of jitter to {to}")
                }
                (None, None) => format!("{from} needs a measured way to {to}"),
            }
        }
        Rule::Bandwidth(origin) => {
            let (from, to, connection) = ends(compiled, origin);
            format!("{from} needs {} to {to}", words::rate(crate::affinity::bandwidth(connection)))
        }
        Rule::AllConnections => "what its connections need".to_owned(),
        Rule::Apart(group) => {
            let group = &problem.apart[group];
            let what = what(group.scope);
            format!("no two instances of {} may share a {what}", names(&group.items))
        }
        Rule::Even(which) => {
            let even = &compiled.evenly[which];
            let (what, skew) = (what(even.scope), even.skew);
            let items: Vec<ItemId> =
                problem.apart[even.groups.clone()].iter().flat_map(|g| &g.items).copied().collect();
            format!(
                "no {what} may have over {skew} more instances of {} than another",
                names(&items)
            )
        }
        Rule::Together(group) => {
            format!("{} must share a site", names(&problem.together[group].items))
        }
        Rule::OneEngine => "all components must run on one kind of engine".to_owned(),
    }
}

fn what(scope: Scope) -> &'static str {
    match scope {
        Scope::Node => "node",
        Scope::Zone => "site",
    }
}

/// What would have been enough: what the answer without the rule takes, made as little as can be.
/// `fits` says whether a changed problem has an answer.
fn mend(
    compiled: &Compiled<'_, '_>,
    rule: Rule,
    found: &Selection,
    fits: &dyn Fn(&Problem) -> bool,
) -> Option<String> {
    match rule {
        Rule::Room(resource) if compile::is_port(&compiled.problem.resources[resource]) => {
            Some("they would fit if each published another port".to_owned())
        }
        Rule::Room(resource) => more_room(compiled, resource, found, fits),
        Rule::Latency(origin) => more_time(compiled, origin, found, fits),
        Rule::Bandwidth(origin) => less_bandwidth(compiled, origin, fits),
        Rule::AllConnections => Some("they would fit without their connections".to_owned()),
        Rule::Apart(_) => Some("they would fit if some might share".to_owned()),
        Rule::Even(_) => Some("they would fit if they were not spread evenly".to_owned()),
        Rule::Together(_) => Some("they would fit at different sites".to_owned()),
        Rule::OneEngine => Some("they would fit with homogeneous: false".to_owned()),
    }
}

fn more_room(
    compiled: &Compiled<'_, '_>,
    resource: usize,
    found: &Selection,
    fits: &dyn Fn(&Problem) -> bool,
) -> Option<String> {
    let problem = &compiled.problem;
    let mut used = vec![0u64; problem.nodes.len()];
    for (item, choice) in problem.items.iter().zip(&found.chosen) {
        let sum = used.get_mut(choice.as_ref()?.node.at())?;
        *sum = sum.saturating_add(item.demand[resource]);
    }
    let short = |(node, used): (usize, &u64)| {
        let short = used.saturating_sub(problem.nodes[node].capacity[resource]);
        (short > 0).then_some((node, short))
    };
    let mut over: Vec<(usize, u64)> = used.iter().enumerate().filter_map(short).collect();
    let with = |node: usize, more: u64| {
        let mut changed = problem.clone();
        let capacity = &mut changed.nodes[node].capacity[resource];
        *capacity = capacity.saturating_add(more);
        fits(&changed)
    };
    // One node is easier to change than several, if that is enough.
    let all = over.iter().fold(0u64, |sum, (_, short)| sum.saturating_add(*short));
    over.sort_by_key(|(node, short)| (std::cmp::Reverse(*short), *node));
    let mut tried = over.iter().copied().take(NODES_TRIED_MAX);
    if let Some((node, _)) = tried.find(|(node, _)| with(*node, all)) {
        let step =
            step(all, if problem.resources[resource].ends_with("bytes") { 1024 } else { 1000 });
        let steps = first(all.div_ceil(step), |steps| with(node, steps.saturating_mul(step)));
        over = vec![(node, steps.saturating_mul(step).min(all))];
    }
    if over.len() > NODES_NAMED_MAX {
        return None;
    }
    let says = |(node, short): &(usize, u64)| {
        let name = compiled.continuum.node(compiled.nodes[*node]).name;
        format!("{} more on node {name}", amount(&problem.resources[resource], *short))
    };
    let changes: Vec<String> = over.iter().map(says).collect();
    (!changes.is_empty()).then(|| format!("they would fit with {}", words::list(&changes)))
}

fn more_time(
    compiled: &Compiled<'_, '_>,
    origin: EdgeOrigin,
    found: &Selection,
    fits: &dyn Fn(&Problem) -> bool,
) -> Option<String> {
    let problem = &compiled.problem;
    let (from, to, connection) = ends(compiled, origin);
    let zone = |item: ItemId| {
        let choice = found.chosen[item]?;
        Some(problem.nodes[choice.node].zone.at())
    };
    let edges = problem.edges.iter().zip(&compiled.edge_origins);
    let delays = edges.filter(|(_, from)| **from == origin).filter_map(|(edge, _)| {
        Some(problem.routes[zone(edge.a)?][zone(edge.b)?].as_ref()?.latency_us)
    });
    let enough = delays.max()?;
    let mut delays: Vec<u64> =
        problem.routes.iter().flatten().flatten().map(|r| r.latency_us).collect();
    delays.retain(|delay| *delay < enough);
    delays.sort_unstable();
    delays.dedup();
    let least = first(delays.len() as u64, |at| {
        let Some(delay) = delays.get(usize::try_from(at).unwrap_or(usize::MAX)) else {
            return true;
        };
        let mut changed = problem.clone();
        let which = |from: &EdgeOrigin| *from == origin;
        each_edge(compiled, &mut changed, which, |edge| edge.latency_us_max = Some(*delay));
        fits(&changed)
    });
    let least = delays.get(usize::try_from(least).unwrap_or(usize::MAX)).copied().unwrap_or(enough);
    if least >= UNMEASURED_US {
        return Some(format!("they would fit if a way from {from} to {to} were measured as short"));
    }
    let jitter = if connection.jitter.is_some() { ", whatever its jitter" } else { "" };
    Some(format!("they would fit if {} from {from} to {to} would do{jitter}", words::delay(least)))
}

fn less_bandwidth(
    compiled: &Compiled<'_, '_>,
    origin: EdgeOrigin,
    fits: &dyn Fn(&Problem) -> bool,
) -> Option<String> {
    let (from, to, connection) = ends(compiled, origin);
    let edges = compiled.problem.edges.iter().zip(&compiled.edge_origins);
    let share =
        edges.filter(|(_, from)| **from == origin).map(|(edge, _)| edge.bandwidth_bps).max()?;
    let all = crate::affinity::bandwidth(connection);
    let partners = all.div_ceil(share.max(1)).max(1);
    let step = step(all, 1000);
    let most = all / step;
    // From as much as is asked for down to nothing, with which they fit.
    let less = first(most, |less| {
        let mut changed = compiled.problem.clone();
        let share = ((most - less) * step).div_ceil(partners);
        let which = |from: &EdgeOrigin| *from == origin;
        each_edge(compiled, &mut changed, which, |edge| {
            edge.bandwidth_bps = edge.bandwidth_bps.min(share)
        });
        fits(&changed)
    });
    let rate = (most - less) * step;
    Some(match rate {
        0 => format!("they would fit without bandwidth from {from} to {to}"),
        _ => format!("they would fit with {} from {from} to {to}", words::rate(rate)),
    })
}

/// The tenth of a unit in which people would say the amount.
fn step(amount: u64, base: u64) -> u64 {
    let mut unit: u64 = 1;
    while let Some(next) = unit.checked_mul(base).filter(|next| *next <= amount) {
        unit = next;
    }
    (unit / 10).max(1)
}

/// The first number for which it holds, given that it holds for `end` and for all after the first.
fn first(end: u64, holds: impl Fn(u64) -> bool) -> u64 {
    let (mut start, mut end) = (0, end);
    while start < end {
        let middle = start + (end - start) / 2;
        if holds(middle) { end = middle } else { start = middle + 1 }
    }
    end
}

/// The nodes that may run one of the items. A node that is in the problem only because something runs
/// there takes nobody.
fn admitted(problem: &Problem) -> BTreeSet<NodeId> {
    let classes: BTreeSet<u32> = problem.items.iter().map(|item| item.class).collect();
    let candidates = classes.iter().flat_map(|class| &problem.classes[*class as usize].candidates);
    candidates.map(|candidate| candidate.node).collect()
}

/// How much of a resource all items need, and how much is left on the nodes.
fn demand_and_room(problem: &Problem, nodes: &BTreeSet<NodeId>, resource: usize) -> (u64, u64) {
    let demands = problem.items.iter().map(|item| item.demand[resource]);
    let each = nodes.iter().map(|node| problem.nodes[*node].capacity[resource]);
    (demands.fold(0, u64::saturating_add), each.fold(0, u64::saturating_add))
}

fn component<'c>(compiled: &Compiled<'c, '_>, item: ItemId) -> Option<&'c str> {
    match compiled.origins[item.at()] {
        Origin::Wanted { app, component, .. } | Origin::Anchor { app, component, .. } => {
            Some(compiled.apps.get(app)?.spec.components.get(component)?.name.as_str())
        }
    }
}

fn ends<'c>(
    compiled: &Compiled<'c, '_>,
    origin: EdgeOrigin,
) -> (&'c str, &'c str, &'c tombolo_model::component::Connection) {
    let component = &compiled.apps[origin.app].spec.components[origin.component];
    let connection = &component.connects[origin.connection];
    (&component.name, &connection.to, connection)
}
