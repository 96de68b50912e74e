//! Why is this component not on that node? Everything that fails there, each with its margin.

use std::collections::{BTreeMap, BTreeSet};

use tombolo_model::App;

use crate::compile::{self, Options, Origin, Scope};
use crate::continuum::Continuum;
use crate::filter::{self, Look};
use crate::running::Running;
use crate::trouble::Trouble;
use crate::words;

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
pub fn pair(
    continuum: &Continuum<'_>,
    apps: &[App],
    running: &[Running],
    options: &Options,
    (app, component, node): (&str, &str, &str),
) -> Result<Pair, Trouble> {
    let missing = |what: &str, name: &str| Trouble::new(format!("{what} {name}"), "does not exist");
    let ids: Vec<String> = apps.iter().map(crate::ask::app_id).collect();
    let which = ids.iter().position(|id| id == app).ok_or_else(|| missing("app", app))?;
    let part = apps[which].spec.components.iter().position(|one| one.name == component);
    let part = part.ok_or_else(|| missing("component", component))?;
    let node = continuum.node_index(node).ok_or_else(|| missing("node", node))?;
    let others: BTreeSet<usize> = (0..apps.len()).filter(|other| *other != which).collect();
    let options = Options { scope: Scope::All, ..options.clone() };
    let compiled = compile::compile_without(continuum, apps, running, &options, &others);
    if let Some(trouble) = compiled.troubles.first() {
        return Err(trouble.clone());
    }
    let of_component =
        |origin: &&Origin| matches!(origin, Origin::Wanted { component, .. } if *component == part);
    let Some(Origin::Wanted { ask, .. }) = compiled.origins.iter().find(of_component) else {
        return Err(Trouble::new(
            format!("app {app}"),
            "it is stopped, or wants no instance of it",
        ));
    };
    let ask = &compiled.asks[*ask];
    let look = Look { continuum, left: &compiled.free[node as usize], ask, node };
    let mut failing: Vec<String> =
        filter::failing(&look).iter().map(|asked| asked.rejection(&look)).collect();
    let item = compiled.origins.iter().position(|origin| of_component(&origin)).unwrap_or(0);
    let barred = &compiled.problem.items[item].barred;
    if compiled.at[node as usize].is_some_and(|at| barred.contains(&at)) {
        failing.push("it was in violation of a policy there lately".to_owned());
    }
    failing.extend(from_neighbours(&compiled, compile::index(item), node));

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

/// What stands between the node and where its partners run now.
fn from_neighbours(compiled: &compile::Compiled<'_, '_>, item: u32, node: u32) -> Vec<String> {
    let continuum = compiled.continuum;
    let mut found = Vec::new();
    let problem = &compiled.problem;
    for (edge, origin) in problem.edges.iter().zip(&compiled.edge_origins) {
        if edge.a != item && edge.b != item {
            continue;
        }
        let other = if edge.a == item { edge.b } else { edge.a };
        let Origin::Wanted { app, component, replica, .. } = compiled.origins[other as usize]
        else {
            continue;
        };
        let Some(at) = compiled.runs_on(app, component, replica) else { continue };
        let caller = &compiled.apps[origin.app].spec.components[origin.component];
        let bounds = crate::affinity::Bounds::of(&caller.connects[origin.connection]);
        let (from, to) = if edge.a == item { (node, at) } else { (at, node) };
        let ways = continuum.network.ways_from(continuum.node(from).zone);
        let name = &problem.items[other as usize].id;
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
                    format!("has {}", words::delay(way.latency_us))
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
