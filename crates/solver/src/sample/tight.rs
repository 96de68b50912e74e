//! Packings that exist by construction: every node is made of the items that fill it, with a little
//! to spare, and then the items are shuffled. Start reading at [`tight`].

use super::index;
use crate::problem::{
    Candidate, Class, Hops, Item, ItemId, Node, NodeId, Part, Problem, Route, ZoneId,
};
use crate::select::Dice;

/// How large, and how tight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tight {
    pub nodes: usize,
    /// What nodes have beyond what fills them.
    pub slack_percent: u64,
    pub short: Short,
    pub seed: u64,
}

/// What there is little of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Short {
    /// Memory is plentiful.
    Cpu,
    CpuAndMemory,
}

/// A problem that has an answer. One to three items of 1 to 5 cores and 1 to 5 GiB fill a node.
pub fn tight(size: &Tight) -> Problem {
    let mut dice = Dice::new(size.seed ^ 0x7197_ac4e);
    let mut problem = Problem {
        zones: vec!["site".into()],
        routes: vec![vec![Some(Route { latency_us: 0, links: Hops::default() })]],
        zone_cost: vec![vec![0]],
        resources: vec!["cpu_millis".into(), "memory_mib".into()],
        engines: vec!["docker".into()],
        ..Problem::default()
    };
    let mut demands: Vec<[u64; 2]> = Vec::new();
    let mut class = Class::default();
    for node in 0..size.nodes {
        let first = demands.len();
        for _ in 0..1 + dice.below(3) {
            let (cores, gib) = (1 + dice.below(5) as u64, 1 + dice.below(5) as u64);
            demands.push([cores * 1_000, gib * 1_024]);
        }
        let sum = |resource: usize| demands[first..].iter().map(|demand| demand[resource]).sum();
        let with_slack = |sum: u64| sum * (100 + size.slack_percent) / 100;
        let memory = match size.short {
            Short::Cpu => 640 * 1_024,
            Short::CpuAndMemory => with_slack(sum(1)),
        };
        let capacity = Box::new([with_slack(sum(0)), memory]);
        problem.nodes.push(Node { id: format!("node-{node:03}"), zone: ZoneId(0), capacity });
        let value = i32::try_from(dice.below(5_000) + dice.below(5_000)).unwrap_or(0);
        class.candidates.push(Candidate { node: NodeId::new(node), engine: 0, value });
    }
    problem.classes.push(class);
    for last in (1..demands.len()).rev() {
        demands.swap(last, dice.below(last + 1));
    }
    for (item, demand) in demands.into_iter().enumerate() {
        let id = format!("item-{:03}", index(item));
        problem.items.push(Item { id, demand: Box::new(demand), ..Item::default() });
    }
    let items = ItemId::first(problem.items.len()).collect();
    problem.parts.push(Part { id: "app".into(), priority: 0, items, packs: false });
    problem
}
