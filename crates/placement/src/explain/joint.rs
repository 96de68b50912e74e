//! Each instance has a node that would take it, but not all of them at once: which rules between
//! them are in conflict, found by leaving them out one after the other and searching again.

use std::collections::BTreeSet;

use tombolo_model::app::Unplaced;

use super::decision::amount;
use crate::compile::{Compiled, EdgeOrigin, Origin};
use crate::problem::{Problem, Scope};
use crate::select::{Limits, Outcome, Selection, select};
use crate::words;

/// Each rule costs a search. With more of them the connections are taken as one.
const RULES_MAX: usize = 40;
/// For one search.
const WORK_MAX: u64 = 300_000;

/// A rule that binds several instances.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rule {
    /// The nodes have only so much of this resource.
    Room(usize),
    Latency(EdgeOrigin),
    Bandwidth(EdgeOrigin),
    AllConnections,
    Apart(usize),
    Together(usize),
    OneEngine,
}

pub(super) fn of(compiled: &Compiled<'_, '_>, limits: &Limits<'_>) -> Vec<Unplaced> {
    let rules = rules(compiled);
    let feasible = |left_out: &BTreeSet<Rule>| {
        let problem = without(compiled, left_out);
        let limits = Limits { work: limits.work.min(WORK_MAX), ..*limits };
        let found = select(&problem, &limits).ok();
        found.filter(|found| found.parts.iter().all(|part| *part == Outcome::Placed))
    };
    let mut left_out: BTreeSet<Rule> = BTreeSet::new();
    let mut kept: Vec<Rule> = Vec::new();
    for rule in &rules {
        left_out.insert(*rule);
        if feasible(&left_out).is_some() {
            left_out.remove(rule);
            kept.push(*rule);
        }
    }
    if kept.is_empty() {
        return everyone(
            compiled,
            vec!["no choice of nodes was found within the time given".to_owned()],
            None,
        );
    }
    let reasons: Vec<String> = kept.iter().map(|rule| say(compiled, *rule)).collect();
    let suggestion = kept.iter().find_map(|rule| {
        let only: BTreeSet<Rule> = [*rule].into();
        let found = feasible(&only)?;
        mend(compiled, *rule, &found)
    });
    everyone(compiled, reasons, suggestion)
}

/// Every instance that runs nowhere gets the same reasons: it is a matter between them.
fn everyone(
    compiled: &Compiled<'_, '_>,
    reasons: Vec<String>,
    suggestion: Option<String>,
) -> Vec<Unplaced> {
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
        reasons: reasons.clone(),
        suggestion: suggestion.clone(),
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
    rules.extend((0..problem.apart.len()).map(Rule::Apart));
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
            Rule::Room(resource) => {
                // A node that is too small for one instance alone stays too small for it.
                let most =
                    problem.items.iter().map(|item| item.demand[resource]).max().unwrap_or(0);
                let all: u64 = problem
                    .items
                    .iter()
                    .fold(0, |sum, item| sum.saturating_add(item.demand[resource]));
                for node in &mut problem.nodes {
                    if node.capacity[resource] >= most {
                        node.capacity[resource] = node.capacity[resource].saturating_add(all);
                    }
                }
            }
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
            Rule::Together(group) => problem.together[group].items.truncate(1),
            Rule::OneEngine => problem.same_engine.clear(),
        }
    }
    problem
}

fn each_edge(
    compiled: &Compiled<'_, '_>,
    problem: &mut Problem,
    which: impl Fn(&EdgeOrigin) -> bool,
    change: impl Fn(&mut crate::problem::Edge),
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
    let names = |items: &[u32]| {
        let names: BTreeSet<&str> =
            items.iter().filter_map(|item| component(compiled, *item)).collect();
        words::list(&names.into_iter().map(str::to_owned).collect::<Vec<_>>())
    };
    match rule {
        Rule::Room(resource) => {
            let name = &problem.resources[resource];
            let all = problem
                .items
                .iter()
                .fold(0u64, |sum, item| sum.saturating_add(item.demand[resource]));
            let left = problem
                .nodes
                .iter()
                .fold(0u64, |sum, node| sum.saturating_add(node.capacity[resource]));
            let nodes = problem.nodes.len();
            let (all, left) = (amount(name, all), amount(name, left));
            format!(
                "together they need {all}, the {nodes} nodes that may run them have {left} left"
            )
        }
        Rule::Latency(origin) => {
            let (from, to, connection) = ends(compiled, origin);
            match connection.latency {
                Some(max) => format!("{from} needs at most {max} to {to}"),
                None => format!("{from} needs a measured way to {to}"),
            }
        }
        Rule::Bandwidth(origin) => {
            let (from, to, connection) = ends(compiled, origin);
            format!("{from} needs {} to {to}", words::rate(crate::affinity::bandwidth(connection)))
        }
        Rule::AllConnections => "what its connections need".to_owned(),
        Rule::Apart(group) => {
            let group = &problem.apart[group];
            let what = match group.scope {
                Scope::Node => "node",
                Scope::Zone => "site",
            };
            format!("no two instances of {} may share a {what}", names(&group.items))
        }
        Rule::Together(group) => {
            format!("{} must share a site", names(&problem.together[group].items))
        }
        Rule::OneEngine => "all components must run on one kind of engine".to_owned(),
    }
}

/// What the answer without the rule shows: so much more would have been enough.
fn mend(compiled: &Compiled<'_, '_>, rule: Rule, found: &Selection) -> Option<String> {
    let problem = &compiled.problem;
    match rule {
        Rule::Room(resource) => {
            let mut used = vec![0u64; problem.nodes.len()];
            for (item, choice) in problem.items.iter().zip(&found.chosen) {
                let sum = used.get_mut(choice.as_ref()?.node as usize)?;
                *sum = sum.saturating_add(item.demand[resource]);
            }
            let over = |(node, used): (usize, &u64)| {
                let short = used.saturating_sub(problem.nodes[node].capacity[resource]);
                (short > 0).then_some((short, node))
            };
            let (short, node) = used.iter().enumerate().filter_map(over).max()?;
            let name = compiled.continuum.node(compiled.nodes[node]).name;
            let short = amount(&problem.resources[resource], short);
            Some(format!("they would fit with {short} more on node {name}"))
        }
        Rule::Latency(origin) => {
            let (from, to, _) = ends(compiled, origin);
            let needed = problem
                .edges
                .iter()
                .zip(&compiled.edge_origins)
                .filter(|(_, from)| **from == origin)
                .filter_map(|(edge, _)| {
                    let zone = |item: u32| {
                        let choice = found.chosen[item as usize]?;
                        Some(problem.nodes[choice.node as usize].zone as usize)
                    };
                    Some(problem.routes[zone(edge.a)?][zone(edge.b)?].as_ref()?.latency_us)
                })
                .max()?;
            Some(format!("they would fit if {} from {from} to {to} would do", words::delay(needed)))
        }
        Rule::Bandwidth(origin) => {
            let (from, to, _) = ends(compiled, origin);
            Some(format!("they would fit with less bandwidth from {from} to {to}"))
        }
        Rule::AllConnections => Some("they would fit without their connections".to_owned()),
        Rule::Apart(_) => Some("they would fit if some might share".to_owned()),
        Rule::Together(_) => Some("they would fit at different sites".to_owned()),
        Rule::OneEngine => Some("they would fit with homogeneous: false".to_owned()),
    }
}

fn component<'c>(compiled: &Compiled<'c, '_>, item: u32) -> Option<&'c str> {
    match compiled.origins[item as usize] {
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
