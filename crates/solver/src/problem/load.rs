//! What it costs to put much on one node, and items on one node or in one zone that would rather not be. Both rise
//! faster than what is there (they are convex), so that a batch finds its own balance instead of filling the best
//! node first. Checked by [`Problem::check`], weighed by the search.

use std::collections::BTreeMap;

use super::{Choice, ItemId, NodeId, Problem, Scope};

/// A node that is full has so many thousandths.
pub const FULL: u64 = 1_000;

/// What load costs, the same on all nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Piecewise linear: each adds its cost to every thousandth of load above it, so costs never fall. Without any,
    /// load is free.
    pub steps: Vec<Step>,
    /// By node.
    pub nodes: Vec<NodeLoad>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// In thousandths of a node.
    pub above: u64,
    /// Of each thousandth more; not less than 0.
    pub cost: i64,
}

/// What a share of a node is a share of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeLoad {
    /// As long as [`Problem::resources`]; 0 for a resource that does not count.
    pub whole: Box<[u64]>,
    /// What others use, in thousandths.
    pub before: u64,
}

/// Items of one part that would rather not be, or rather be, on the same node or in the same zone: every two of them
/// that are cost so much.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scatter {
    pub items: Vec<ItemId>,
    pub scope: Scope,
    /// Less than 0 draws them together; on nodes that is not for the search.
    pub cost: i64,
}

impl Load {
    /// What an item takes of a node, in thousandths rounded down: its share of the resource of which it takes most.
    pub fn share(&self, node: NodeId, demand: &[u64]) -> u64 {
        let Some(load) = self.nodes.get(node.at()) else { return 0 };
        let shares = load.whole.iter().zip(demand).filter(|(whole, _)| **whole > 0);
        let most = shares.map(|(whole, demand)| demand.saturating_mul(FULL) / whole).max();
        most.unwrap_or(0).min(FULL)
    }

    /// What a node costs with this load, in thousandths.
    pub fn cost(&self, load: u64) -> i64 {
        let above =
            |step: &Step| i64::try_from(load.saturating_sub(step.above)).unwrap_or(i64::MAX);
        self.steps.iter().map(|step| step.cost.saturating_mul(above(step))).sum()
    }

    /// What load costs, without the nodes.
    pub(crate) fn costs_alone(&self) -> Load {
        Load { steps: self.steps.clone(), nodes: Vec::new() }
    }

    /// What others use of a node.
    pub fn before(&self, node: NodeId) -> u64 {
        self.nodes.get(node.at()).map_or(0, |load| load.before)
    }
}

impl Problem {
    /// What the load of nodes and the nearness of items cost.
    pub(super) fn crowding(&self, chosen: &[Option<Choice>]) -> i64 {
        let mut load: BTreeMap<NodeId, u64> = BTreeMap::new();
        for (item, choice) in self.items.iter().zip(chosen) {
            let Some(choice) = choice.filter(|_| item.loads) else { continue };
            *load.entry(choice.node).or_default() += self.load.share(choice.node, &item.demand);
        }
        let of_node = |(node, load): (NodeId, u64)| {
            let before = self.load.before(node);
            self.load.cost(before + load) - self.load.cost(before)
        };
        let loads: i64 = load.into_iter().map(of_node).sum();
        loads + self.scatter.iter().map(|group| self.scattering(group, chosen)).sum::<i64>()
    }

    fn scattering(&self, group: &Scatter, chosen: &[Option<Choice>]) -> i64 {
        let mut there: BTreeMap<u32, i64> = BTreeMap::new();
        for choice in group.items.iter().filter_map(|item| chosen[*item]) {
            let place = match group.scope {
                Scope::Node => choice.node.0,
                Scope::Zone => self.nodes[choice.node].zone.0,
            };
            *there.entry(place).or_default() += 1;
        }
        there.into_values().map(|count| group.cost * count * (count - 1) / 2).sum()
    }
}
