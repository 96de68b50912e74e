//! Problems made up from a seed, for tests and benchmarks: sites in a plane with links between the
//! near ones, nodes of a few sizes, applications as chains and fans. Start reading at [`problem`].
//!
//! They are made at the level of numbers; `tombolo sim instance` makes whole documents.

mod tight;

pub use tight::{Short, Tight, tight};

use crate::problem::{
    Candidate, Class, Edge, Group, Hops, Item, ItemId, Link, Node, NodeId, Part, Problem, Route,
    Scope, ZoneId,
};
use crate::select::Dice;

/// How large, and how hard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    pub zones: usize,
    pub nodes: usize,
    /// Applications.
    pub parts: usize,
    /// Of each application.
    pub items: usize,
    /// How many different lists of candidates there are.
    pub classes: usize,
    /// Edges between the items of an application, with latency and bandwidth.
    pub network: bool,
    /// Percent of the processors of all nodes that the items need together.
    pub load: u64,
    pub seed: u64,
}

const CPU: usize = 0;

/// A problem of this size; equal sizes give equal problems.
pub fn problem(size: &Size) -> Problem {
    let mut dice = Dice::new(size.seed ^ 0x5a17_5eed);
    let mut problem = Problem {
        resources: vec!["cpu_millis".into(), "memory_bytes".into(), "storage_bytes".into()],
        engines: vec!["docker".into(), "kubernetes".into(), "podman".into()],
        ..Problem::default()
    };
    add_network(&mut problem, size.zones.max(1), &mut dice);
    add_nodes(&mut problem, size, &mut dice);
    for _ in 0..size.classes.max(1) {
        let class = class(&problem, &mut dice);
        problem.classes.push(class);
    }
    add_parts(&mut problem, size, &mut dice);
    problem
}

/// Every zone is linked to the three nearest, and routes go the quickest way.
fn add_network(problem: &mut Problem, zones: usize, dice: &mut Dice) {
    problem.zones = (0..zones).map(|zone| format!("site-{zone:04}")).collect();
    let spots: Vec<(i64, i64)> = (0..zones)
        .map(|_| {
            let mut coordinate = || i64::try_from(dice.below(1000)).unwrap_or(0);
            (coordinate(), coordinate())
        })
        .collect();
    let far = |a: usize, b: usize| {
        let (dx, dy) = (spots[a].0 - spots[b].0, spots[a].1 - spots[b].1);
        (dx * dx + dy * dy).unsigned_abs().isqrt()
    };
    let mut latency: Vec<Vec<(usize, u64, u32)>> = vec![Vec::new(); zones];
    for a in 0..zones {
        let mut near: Vec<usize> = (0..zones).filter(|b| *b != a).collect();
        near.sort_unstable_by_key(|b| (far(a, *b), *b));
        for b in near.into_iter().take(3) {
            if latency[a].iter().any(|(other, ..)| *other == b) {
                continue;
            }
            let link = index(problem.links.len());
            let bandwidth = [100, 300, 1_000, 10_000][dice.below(4)] * 1_000_000;
            let (from, to) = (ZoneId::new(a), ZoneId::new(b));
            problem.links.push(Link { a: from, b: to, bandwidth_bps: Some(bandwidth) });
            let micros = 200 + 20 * far(a, b);
            latency[a].push((b, micros, link));
            latency[b].push((a, micros, link));
        }
    }
    for from in 0..zones {
        let row = routes_from(&latency, from);
        let cost = |route: &Option<Route>| {
            let micros = route.as_ref().map_or(0, |route| route.latency_us);
            i64::try_from(micros / 100).unwrap_or(0)
        };
        problem.zone_cost.push(row.iter().map(cost).collect());
        problem.routes.push(row);
    }
}

fn routes_from(links: &[Vec<(usize, u64, u32)>], from: usize) -> Vec<Option<Route>> {
    let mut routes: Vec<Option<Route>> = vec![None; links.len()];
    let mut open = std::collections::BTreeSet::from([(0, from)]);
    routes[from] = Some(Route { latency_us: 0, links: Hops::default() });
    while let Some((so_far, zone)) = open.pop_first() {
        let way = routes[zone].as_ref().map_or_else(Vec::new, |route| route.links.to_vec());
        for (to, micros, link) in &links[zone] {
            let latency_us = so_far + micros;
            let known = routes[*to].as_ref().map(|route| route.latency_us);
            if known.is_none_or(|known| latency_us < known) {
                if let Some(known) = known {
                    open.remove(&(known, *to));
                }
                let links = way.iter().chain([link]).copied().collect();
                routes[*to] = Some(Route { latency_us, links });
                open.insert((latency_us, *to));
            }
        }
    }
    routes
}

fn add_nodes(problem: &mut Problem, size: &Size, dice: &mut Dice) {
    for node in 0..size.nodes {
        let cores = [2, 4, 4, 8, 16, 64][dice.below(6)];
        let capacity = Box::new([cores * 1_000, cores << 31, cores << 34]);
        let zone = ZoneId::new(dice.below(problem.zones.len()));
        problem.nodes.push(Node { id: format!("node-{node:06}"), zone, capacity });
    }
}

/// Most nodes are admitted; what they are liked for is spread as weighted sums are.
fn class(problem: &Problem, dice: &mut Dice) -> Class {
    let mut candidates = Vec::with_capacity(problem.nodes.len());
    let admitted = 5 + dice.below(4);
    for (node, _) in problem.nodes.iter().enumerate() {
        if node % 8 >= admitted {
            continue;
        }
        let value = (0..4).map(|_| dice.below(2_501)).sum::<usize>();
        let value = i32::try_from(value).unwrap_or(0);
        let engine = u8::try_from(node % 3).unwrap_or(0);
        candidates.push(Candidate { node: NodeId::new(node), engine, value });
    }
    Class { candidates }
}

fn add_parts(problem: &mut Problem, size: &Size, dice: &mut Dice) {
    let total: u64 = problem.nodes.iter().map(|node| node.capacity[CPU]).sum();
    let count = (size.parts * size.items).max(1) as u64;
    let mean = (total / 100 * size.load / count).clamp(10, 4_000);
    for part in 0..size.parts {
        let first = problem.items.len();
        for item in 0..size.items {
            let cpu = (mean / 2 + mean * dice.below(5) as u64 / 4).max(1);
            problem.items.push(Item {
                id: format!("app-{part:05}/{item:04}"),
                class: index(dice.below(problem.classes.len())),
                demand: Box::new([cpu, cpu << 20, (cpu << 22) * (dice.below(2) as u64)]),
                ..Item::default()
            });
        }
        if size.network {
            add_edges(problem, first, size.items, dice);
        }
        let items = (first..problem.items.len()).map(ItemId::new).collect();
        problem.parts.push(Part { id: format!("app-{part:05}"), priority: 0, items, packs: false });
    }
}

/// A chain with some fans, a pair that stays apart, and a pair that stays together.
fn add_edges(problem: &mut Problem, first: usize, items: usize, dice: &mut Dice) {
    for item in 1..items {
        let from = match dice.below(3) {
            0 => first + dice.below(item),
            _ => first + item - 1,
        };
        let latency_us_max = [None, Some(10_000), Some(20_000), Some(40_000)][dice.below(4)];
        problem.edges.push(Edge {
            a: ItemId::new(from),
            b: ItemId::new(first + item),
            traffic: i64::try_from(1 + dice.below(8)).unwrap_or(1),
            latency_us_max,
            bandwidth_bps: [0, 1, 2, 5][dice.below(4)] * 1_000_000,
        });
    }
    if items >= 4 {
        let pair = |a: usize| vec![ItemId::new(first + a), ItemId::new(first + a + 1)];
        problem.apart.push(Group { items: pair(0), scope: Scope::Node });
        problem.together.push(Group { items: pair(2), scope: Scope::Zone });
    }
}

fn index(value: usize) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}
