//! What it costs to put a block where others are: the load of its node, and items that would rather not share one.
//! Both costs are convex, so what a block costs on top of what is there now is never more than what it costs
//! later: every bound of the search leans on that. Used by [`State`] and by all that bound it.

use std::collections::BTreeMap;

use super::frame::{Block, Frame};
use super::ids::{BlockId, NodeRank};

/// How much is on the nodes.
#[derive(Clone, Debug)]
pub(super) struct Crowd {
    /// In thousandths, by node.
    load: Vec<u64>,
    /// By group and node: how many items.
    there: BTreeMap<(u32, NodeRank), i64>,
}

/// A rising cost in pieces: how much each unit of a piece costs and how long it is. The last has no end.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Curve {
    pub pieces: Vec<(f64, f64)>,
}

impl Crowd {
    pub(super) fn new(frame: &Frame<'_>) -> Crowd {
        Crowd { load: frame.load_before.clone(), there: BTreeMap::new() }
    }

    /// What a block adds to the cost of a node.
    pub(super) fn cost(&self, frame: &Frame<'_>, block: &Block, node: NodeRank) -> i64 {
        let mut cost = 0;
        if !block.loads.is_empty() {
            let before = self.load[node.at()];
            let after = before + frame.share(block, node);
            if after > frame.load_free {
                let load = &frame.problem.load;
                cost = load.cost(after) - load.cost(before);
            }
        }
        for (group, weight) in &block.scatter {
            let there = self.there(*group, node);
            cost += frame.scatter_cost[*group as usize] * pairs_more(there, *weight);
        }
        cost
    }

    pub(super) fn add(&mut self, frame: &Frame<'_>, block: &Block, node: NodeRank) {
        if !block.loads.is_empty() {
            self.load[node.at()] += frame.share(block, node);
        }
        for (group, weight) in &block.scatter {
            *self.there.entry((*group, node)).or_insert(0) += weight;
        }
    }

    pub(super) fn remove(&mut self, frame: &Frame<'_>, block: &Block, node: NodeRank) {
        if !block.loads.is_empty() {
            self.load[node.at()] -= frame.share(block, node);
        }
        for (group, weight) in &block.scatter {
            if let Some(there) = self.there.get_mut(&(*group, node)) {
                *there -= weight;
                if *there == 0 {
                    self.there.remove(&(*group, node));
                }
            }
        }
    }

    /// What all of it costs.
    pub(super) fn total(&self, frame: &Frame<'_>) -> i64 {
        let load = &frame.problem.load;
        let loads = self.load.iter().zip(&frame.load_before).filter(|(now, before)| now > before);
        let loads: i64 = loads.map(|(now, before)| load.cost(*now) - load.cost(*before)).sum();
        let pairs = self
            .there
            .iter()
            .map(|((group, _), there)| frame.scatter_cost[*group as usize] * pairs_more(0, *there));
        loads + pairs.sum::<i64>()
    }

    pub(super) fn load(&self, node: NodeRank) -> u64 {
        self.load[node.at()]
    }

    /// How many items of a group are on a node.
    pub(super) fn there(&self, group: u32, node: NodeRank) -> i64 {
        self.there.get(&(group, node)).copied().unwrap_or(0)
    }

    /// What more load on a node would cost, by the thousandth.
    pub(super) fn load_curve(&self, frame: &Frame<'_>, node: NodeRank) -> Curve {
        let steps = &frame.problem.load.steps;
        let now = self.load[node.at()];
        let mut ends: Vec<u64> = steps.iter().map(|s| s.above).filter(|end| *end > now).collect();
        ends.sort_unstable();
        ends.dedup();
        let mut pieces = Vec::with_capacity(ends.len() + 1);
        let mut from = now;
        for end in ends.iter().copied().map(Some).chain([None]) {
            let here = steps.iter().filter(|step| step.above <= from);
            let cost = super::kernel::float(here.map(|step| step.cost).sum());
            let length = end.map_or(f64::INFINITY, |end| count(end - from));
            pieces.push((cost, length));
            from = end.unwrap_or(from);
        }
        Curve { pieces }
    }

    /// What so many items more of a group would cost on a node, one by one.
    pub(super) fn scatter_curve(
        &self,
        frame: &Frame<'_>,
        group: u32,
        node: NodeRank,
        most: i64,
    ) -> Curve {
        let there = self.there(group, node);
        let cost = |more: i64| super::kernel::float(frame.scatter_cost[group as usize] * more);
        let mut pieces: Vec<(f64, f64)> = (0..most).map(|more| (cost(there + more), 1.0)).collect();
        pieces.push((cost(there + most), f64::INFINITY));
        Curve { pieces }
    }
}

impl Curve {
    /// The most that a node could earn at this price for a unit, costs taken off (the convex conjugate of the cost).
    pub(super) fn earned(&self, price: f64) -> f64 {
        let better = self.pieces.iter().take_while(|(cost, _)| *cost < price);
        better.map(|(cost, length)| (price - cost) * length).sum()
    }

    /// How much a node would offer at this price at most, and at least ([`Curve::offered_below`]).
    pub(super) fn offered(&self, price: f64) -> f64 {
        self.pieces.iter().take_while(|(cost, _)| *cost <= price).map(|(_, length)| length).sum()
    }

    pub(super) fn offered_below(&self, price: f64) -> f64 {
        self.pieces.iter().take_while(|(cost, _)| *cost < price).map(|(_, length)| length).sum()
    }

    pub(super) fn cost(&self, mut amount: f64) -> f64 {
        let mut sum = 0.0;
        for (cost, length) in &self.pieces {
            let here = amount.min(*length);
            if here <= 0.0 {
                break;
            }
            sum += cost * here;
            amount -= here;
        }
        sum
    }

    pub(super) fn least(&self) -> f64 {
        self.pieces.first().map_or(0.0, |(cost, _)| *cost)
    }

    /// At a higher price a node would offer without end.
    pub(super) fn most(&self) -> f64 {
        self.pieces.last().map_or(0.0, |(cost, _)| *cost)
    }
}

impl Frame<'_> {
    /// What a block takes of a node, in thousandths.
    pub(super) fn share(&self, block: &Block, node: NodeRank) -> u64 {
        let given = self.given_node(node);
        let share = |item: &crate::problem::ItemId| {
            self.problem.load.share(given, &self.problem.items[*item].demand)
        };
        block.loads.iter().map(share).sum()
    }

    /// Whether it matters to a block who else is on its node, beside room.
    pub(super) fn is_crowded(&self, block: BlockId) -> bool {
        let block = &self.blocks[block];
        !block.loads.is_empty() || !block.scatter.is_empty()
    }
}

/// Pairs that `weight` more items make with those that are there and among themselves.
fn pairs_more(there: i64, weight: i64) -> i64 {
    weight * there + weight * (weight - 1) / 2
}

#[expect(clippy::cast_precision_loss, reason = "thousandths of a node, a million at most")]
pub(super) fn count(thousandths: u64) -> f64 {
    thousandths as f64
}
