//! Nodes, zones, routes and links of the problem: only what some candidate can touch, under new
//! numbers. Start reading at [`lay_out`].

mod prune;

use std::collections::{BTreeMap, BTreeSet};

use tombolo_model::{AppId, Engine};
use tombolo_solver::problem::{Candidate, Hops, Link, Node, NodeId, Route, Scope, ZoneId};

use super::{Compiled, EdgeOrigin, Kind, carried, crowding, index, resources};
use crate::affinity::Bounds;
use crate::ask;
use crate::bits::Bits;
use crate::continuum::Continuum;
use crate::paths::WayBook;
use crate::reschedule;
use crate::score;

/// Routes are kept for every pair of zones; more would take more than 100 MB.
const ZONES_MAX: usize = 1024;
/// A problem without traffic needs no zones; so many are kept because people like to see them.
const ZONES_SHOWN_MAX: usize = 256;

pub(super) fn lay_out(compiled: &mut Compiled<'_, '_>) {
    let mut plan = ZonePlan::of(compiled);
    if plan.wired.len() > ZONES_MAX {
        prune::keep_best_zones(compiled, &plan.wired, ZONES_MAX);
        plan = ZonePlan::of(compiled);
    }
    place_nodes(compiled, &plan);
    fill_classes(compiled);
    let problem = &mut compiled.problem;
    problem.engines = Engine::ALL.iter().map(|engine| engine.as_str().to_owned()).collect();
    let zones = plan.names.len();
    problem.zones = plan.names;
    problem.routes = vec![vec![None; zones]; zones];
    problem.zone_cost = vec![vec![0; zones]; zones];
    for (zone, routes) in problem.routes.iter_mut().enumerate() {
        routes[zone] = Some(Route { latency_us: 0, links: Hops::default() });
    }
    if !problem.edges.is_empty() {
        compiled.is_narrowed |= has_divided_site(compiled);
        route(compiled, &plan.wired, &plan.number);
    }
}

/// Whether items that must share a site have one to choose that is several locations: sharing one of these is
/// more than is asked for.
fn has_divided_site(compiled: &Compiled<'_, '_>) -> bool {
    let problem = &compiled.problem;
    let mut zone_of_site: BTreeMap<u32, u32> = BTreeMap::new();
    let classes: BTreeSet<u32> = problem
        .together
        .iter()
        .flat_map(|group| &group.items)
        .map(|item| problem.items[*item].class)
        .collect();
    let nodes = classes.iter().flat_map(|class| compiled.kinds[*class as usize].admitted.iter());
    nodes.into_iter().any(|node| {
        let row = compiled.continuum.node(node);
        *zone_of_site.entry(row.site).or_insert(row.zone) != row.zone
    })
}

/// Which locations become zones, and under which number.
struct ZonePlan {
    names: Vec<String>,
    /// By location of the network.
    number: Vec<Option<u32>>,
    /// Locations between which there is traffic.
    wired: Vec<u32>,
    /// The zone of all locations that have no number.
    elsewhere: Option<u32>,
}

impl ZonePlan {
    fn of(compiled: &Compiled<'_, '_>) -> ZonePlan {
        let problem = &compiled.problem;
        let network = &compiled.continuum.network;
        let talking = talking(compiled);
        let nodes = compiled.continuum.nodes.len();
        let (mut any, mut with_traffic) = (Bits::none(nodes), Bits::none(nodes));
        for (kind, talks) in compiled.kinds.iter().zip(&talking) {
            any.or(&kind.admitted);
            if *talks {
                with_traffic.or(&kind.admitted);
            }
        }
        // Whoever waits for its turn to move stays where no new one may go.
        for (item, node) in compiled.currents() {
            any.insert(node);
            if talking[problem.items[item].class as usize] {
                with_traffic.insert(node);
            }
        }
        // Without traffic the site is all that matters of a location.
        let zone = |node: u32| match problem.edges.is_empty() {
            true => compiled.continuum.node(node).site,
            false => compiled.continuum.node(node).zone,
        };
        let used: BTreeSet<u32> = seen(network.zones.len(), any.iter().map(zone));
        let wired: BTreeSet<u32> = seen(network.zones.len(), with_traffic.iter().map(zone));
        let groups = problem.apart.iter().chain(&problem.together).map(|group| group.scope);
        let mut groups = groups.chain(problem.scatter.iter().map(|group| group.scope));
        let grouped = groups.any(|scope| scope == Scope::Zone);
        let max = if problem.edges.is_empty() { ZONES_SHOWN_MAX } else { ZONES_MAX };
        let kept: Vec<u32> = match used.len() <= max || grouped {
            true => used.iter().copied().collect(),
            false => wired.iter().copied().collect(),
        };
        let mut plan = ZonePlan {
            names: Vec::new(),
            number: vec![None; network.zones.len()],
            wired: wired.into_iter().collect(),
            elsewhere: None,
        };
        for zone in &kept {
            plan.number[*zone as usize] = Some(index(plan.names.len()));
            plan.names.push(network.zones[*zone as usize].name.clone());
        }
        if kept.len() < used.len() {
            plan.elsewhere = Some(index(plan.names.len()));
            plan.names.push("elsewhere".to_owned());
        }
        plan
    }

    fn zone_of(&self, location: u32, site: u32) -> u32 {
        let number = self.number[location as usize].or(self.number[site as usize]);
        number.or(self.elsewhere).unwrap_or(0)
    }
}

/// By class: whether its items talk to others.
fn talking(compiled: &Compiled<'_, '_>) -> Vec<bool> {
    let problem = &compiled.problem;
    let mut talking = vec![false; problem.classes.len()];
    for end in problem.edges.iter().flat_map(|edge| [edge.a, edge.b]) {
        talking[problem.items[end].class as usize] = true;
    }
    talking
}

fn seen(zones: usize, of: impl Iterator<Item = u32>) -> BTreeSet<u32> {
    let mut marks = Bits::none(zones);
    of.for_each(|zone| marks.insert(zone));
    marks.iter().collect()
}

/// Takes over every node that some item may use, in the order of their ids, which is what everyone
/// who reads the problem would sort them by.
fn place_nodes(compiled: &mut Compiled<'_, '_>, plan: &ZonePlan) {
    let continuum = compiled.continuum;
    let mut used = Bits::none(continuum.nodes.len());
    compiled.kinds.iter().for_each(|kind| used.or(&kind.admitted));
    for (_, node) in compiled.currents() {
        used.insert(node);
    }
    let count = used.count();
    compiled.at = vec![None; continuum.nodes.len()];
    compiled.nodes = Vec::with_capacity(count);
    compiled.problem.nodes.reserve(count);
    compiled.problem.load = crowding::load();
    compiled.problem.load.nodes.reserve(count);
    for node in by_id(continuum, &used) {
        let row = continuum.node(node);
        let site = continuum.site_of(node);
        compiled.at[node as usize] = Some(NodeId::new(compiled.nodes.len()));
        let (free, names) = (&compiled.free[node as usize], &compiled.problem.resources);
        let load = crowding::of_node(&row.total, free, names);
        compiled.problem.load.nodes.push(load);
        compiled.nodes.push(node);
        compiled.problem.nodes.push(Node {
            id: [site.name, "/", row.name].concat(),
            zone: ZoneId(plan.zone_of(row.zone, site.zone)),
            capacity: resources::capacity(
                row,
                &compiled.free[node as usize],
                &compiled.problem.resources,
            ),
        });
    }
}

/// The nodes by `site/name`. Sites and nodes are sorted by name already; all that is left is to
/// deal the nodes out to the sites.
fn by_id(continuum: &Continuum<'_>, nodes: &Bits) -> Vec<u32> {
    let mut sites: Vec<(String, usize)> = continuum
        .sites
        .iter()
        .enumerate()
        .map(|(s, site)| (format!("{}/", site.name), s))
        .collect();
    sites.sort_unstable();
    let mut next = vec![0; continuum.sites.len()];
    for node in nodes.iter() {
        next[continuum.node(node).site as usize] += 1;
    }
    let mut start = 0;
    for (_, site) in sites {
        let count = std::mem::replace(&mut next[site], start);
        start += count;
    }
    let mut order = vec![0; start];
    for node in nodes.iter() {
        let at = &mut next[continuum.node(node).site as usize];
        order[*at] = node;
        *at += 1;
    }
    order
}

/// Gives every class its candidates, by the numbers that the nodes have in the problem.
fn fill_classes(compiled: &mut Compiled<'_, '_>) {
    let engines: Vec<(u8, Option<(Engine, Engine)>)> = compiled
        .nodes
        .iter()
        .map(|node| {
            let row = compiled.continuum.node(*node);
            (ask::engine_number(row.engine), row.also.map(|also| (row.engine, also)))
        })
        .collect();
    let bound = bound_by_engine(compiled);
    let rows = || NodeId::first(compiled.nodes.len()).zip(&compiled.nodes);
    let classes = compiled.problem.classes.iter_mut().zip(&compiled.kinds);
    for ((class, kind), bound) in classes.zip(bound) {
        let count = kind.admitted.count();
        class.candidates.reserve_exact(count);
        let candidate = |number: NodeId, value: i32| {
            let engine = match engines[number.at()] {
                (engine, None) => engine,
                (_, Some((engine, also))) => ask::engine_number(kind.runs.pick(engine, Some(also))),
            };
            Candidate { node: number, engine, value }
        };
        match &kind.values {
            Some(values) => {
                let admitted = rows().filter(|(_, node)| kind.admitted.contains(**node));
                class.candidates.extend(
                    admitted.map(|(number, node)| candidate(number, values[*node as usize])),
                );
            }
            // Few of many.
            None => {
                let numbered = |node: u32| compiled.at[node as usize].map(|number| (number, node));
                class.candidates.extend(kind.admitted.iter().filter_map(numbered).map(
                    |(number, node)| {
                        let value = kind.value(&compiled.ground, node);
                        candidate(number, value)
                    },
                ));
                class.candidates.sort_unstable_by_key(|candidate| candidate.node);
            }
        }
        if bound {
            add_second_engines(&mut class.candidates, &engines, kind);
        }
    }
}

/// By class: whether some of its items must run by the engine of others, or run by one that is not
/// the best of their node, with which they stay.
fn bound_by_engine(compiled: &Compiled<'_, '_>) -> Vec<bool> {
    let problem = &compiled.problem;
    let mut bound = vec![false; problem.classes.len()];
    for item in problem.same_engine.iter().flatten() {
        bound[problem.items[*item].class as usize] = true;
    }
    for (item, node) in compiled.currents() {
        let Some(number) = compiled.at[node as usize] else { continue };
        let class = problem.items[item].class as usize;
        let row = compiled.continuum.node(node);
        let best = compiled.kinds[class].runs.pick(row.engine, row.also);
        let now = reschedule::engine_at(compiled, item, number);
        bound[class] |= now != ask::engine_number(best);
    }
    bound
}

/// Where all must run by one engine, the better one of a node may be the wrong one: the other
/// is a candidate too, a hundredth of a point behind, so that it is taken only for the others' sake.
fn add_second_engines(
    candidates: &mut Vec<Candidate>,
    engines: &[(u8, Option<(Engine, Engine)>)],
    kind: &Kind,
) {
    let second = |candidate: &Candidate| {
        let (first, also) = engines[candidate.node.at()].1?;
        let other = if kind.runs.pick(first, Some(also)) == first { also } else { first };
        let (engine, value) = (ask::engine_number(other), candidate.value - 1);
        kind.runs.can(other).then_some(Candidate { engine, value, ..*candidate })
    };
    let more: Vec<Candidate> = candidates.iter().filter_map(second).collect();
    candidates.extend(more);
    candidates.sort_by_key(|candidate| candidate.node);
}

/// Fills routes, links and costs between the wired locations. There may be a million ways: each is
/// taken over as soon as it is found.
fn route(compiled: &mut Compiled<'_, '_>, wired: &[u32], number: &[Option<u32>]) {
    let network = &compiled.continuum.network;
    let jitters = jitter_bounds(compiled);
    let mut shaky: BTreeMap<u64, u64> = BTreeMap::new();
    let mut steady: BTreeMap<u64, u64> = BTreeMap::new();
    let mut crossed = vec![false; network.links.len()];
    let mut ways = network.explorer();
    let numbered: Vec<(u32, u32)> =
        wired.iter().filter_map(|zone| Some((*zone, number[*zone as usize]?))).collect();
    for (from, a) in &numbered {
        ways.explore(*from);
        for (to, b) in &numbered {
            let Some(way) = ways.way(*to) else { continue };
            for link in &way.links {
                crossed[*link as usize] = true;
            }
            for max in &jitters {
                if way.jitter_us > *max {
                    let least = shaky.entry(*max).or_insert(u64::MAX);
                    *least = (*least).min(way.latency_us);
                } else {
                    let most = steady.entry(*max).or_insert(0);
                    *most = (*most).max(way.latency_us);
                }
            }
            let energy = way.links.iter().filter_map(|link| network.links[*link as usize].energy);
            let problem = &mut compiled.problem;
            problem.zone_cost[*a as usize][*b as usize] =
                score::traffic_cost(way.latency_us, energy.sum(), from == to);
            problem.routes[*a as usize][*b as usize] =
                Some(Route { latency_us: way.latency_us, links: way.links });
        }
    }
    let links = number_links(compiled, &crossed, number);
    for route in compiled.problem.routes.iter_mut().flatten().flatten() {
        route.links.iter_mut().for_each(|link| *link = links[*link as usize]);
    }
    widen(compiled);
    bound_jitter(compiled, &shaky, &steady);
}

/// Takes over the links that some way crosses. Returns their new numbers.
fn number_links(
    compiled: &mut Compiled<'_, '_>,
    crossed: &[bool],
    number: &[Option<u32>],
) -> Vec<u32> {
    let network = &compiled.continuum.network;
    let reserved = reserved(compiled);
    let mut number = number.to_vec();
    let mut links = vec![u32::MAX; network.links.len()];
    for (link, row) in (0u32..).zip(&network.links).filter(|(link, _)| crossed[*link as usize]) {
        let ends = [row.a, row.b].map(|end| {
            *number[end as usize].get_or_insert_with(|| {
                compiled.problem.zones.push(network.zones[end as usize].name.clone());
                index(compiled.problem.zones.len() - 1)
            })
        });
        links[link as usize] = index(compiled.problem.links.len());
        let taken = reserved.get(&link).copied().unwrap_or(0);
        compiled.problem.links.push(Link {
            a: ZoneId(ends[0]),
            b: ZoneId(ends[1]),
            bandwidth_bps: row.bandwidth_bps.map(|bps| bps.saturating_sub(taken)),
        });
    }
    links
}

/// Makes room for the locations that traffic only passes.
fn widen(compiled: &mut Compiled<'_, '_>) {
    let problem = &mut compiled.problem;
    let zones = problem.zones.len();
    for row in &mut problem.routes {
        row.resize(zones, None);
    }
    for row in &mut problem.zone_cost {
        row.resize(zones, 0);
    }
    for zone in problem.routes.len()..zones {
        let mut row = vec![None; zones];
        row[zone] = Some(Route { latency_us: 0, links: Hops::default() });
        problem.routes.push(row);
        problem.zone_cost.push(vec![0; zones]);
    }
}

/// The bound on jitter of the connection that an edge stands for.
fn jitter_max(compiled: &Compiled<'_, '_>, origin: EdgeOrigin) -> Option<u64> {
    let component = &compiled.apps[origin.app].spec.components[origin.component];
    Bounds::of(&component.connects[origin.connection]).jitter_us_max
}

fn jitter_bounds(compiled: &Compiled<'_, '_>) -> BTreeSet<u64> {
    compiled.edge_origins.iter().filter_map(|origin| jitter_max(compiled, *origin)).collect()
}

/// The model has no word for jitter. A bound on it becomes a bound on latency that keeps every way
/// with too much jitter out, and perhaps some others. `shaky` is the least delay of such a way, `steady` the
/// greatest of the others.
fn bound_jitter(
    compiled: &mut Compiled<'_, '_>,
    shaky: &BTreeMap<u64, u64>,
    steady: &BTreeMap<u64, u64>,
) {
    for number in 0..compiled.problem.edges.len() {
        let Some(max) = jitter_max(compiled, compiled.edge_origins[number]) else { continue };
        let latency = shaky.get(&max).map_or(u64::MAX, |least| least.saturating_sub(1));
        let edge = &mut compiled.problem.edges[number];
        let asked = edge.latency_us_max.unwrap_or(u64::MAX);
        let steady = steady.get(&max).copied().unwrap_or(0);
        compiled.is_narrowed |= steady > latency && asked > latency;
        edge.latency_us_max = Some(asked.min(latency));
    }
}

/// Bandwidth that Apps which are not planned now have set aside, by link of the network.
pub(crate) fn reserved(compiled: &Compiled<'_, '_>) -> BTreeMap<u32, u64> {
    let Compiled { continuum, apps, ids, scoped, roster, .. } = compiled;
    let planned: BTreeSet<&AppId> = scoped.planned.iter().map(|app| &ids[*app]).collect();
    let mut book = WayBook::default();
    // With a planned App it is an edge of the problem.
    carried::by_link(continuum, apps, ids, &scoped.standing, roster, &mut book, |other| {
        !planned.contains(other)
    })
}

#[cfg(test)]
mod tests;
