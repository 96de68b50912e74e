//! What is placed so far, what is left of nodes and links, and what the next placement would do.
//! All of the search goes through [`State::place`] and [`State::take`]: a state never breaks a
//! constraint.

use std::collections::BTreeSet;

use super::crowd::Crowd;
use super::frame::{Block, Frame, Place};
use super::ids::{BlockId, EdgeId, NodeRank, ZoneRank};
use crate::problem::Scope;

/// The cost of a zone that a block may not be in.
pub(super) const FORBIDDEN: i64 = i64::MAX;

#[derive(Clone, Debug)]
pub(super) struct State<'f> {
    pub frame: &'f Frame<'f>,
    /// `[node * dims + dimension]`
    left: Vec<u64>,
    /// What is left of each link; `None` is unlimited.
    links: Vec<Option<u64>>,
    /// [`Place::NONE`] for a block that is not placed. The value counts no traffic.
    at: Vec<Place>,
    /// Group and node or zone that are taken.
    taken: BTreeSet<(u32, u32)>,
    /// Engine of each group, and by how many blocks.
    engines: Vec<(u32, u32)>,
    /// The blocks on each node, as a list through `next` and `previous`.
    first: Vec<BlockId>,
    next: Vec<BlockId>,
    previous: Vec<BlockId>,
    pub objective: i64,
    pub crowd: Crowd,
}

impl<'f> State<'f> {
    pub(super) fn new(frame: &'f Frame<'f>) -> State<'f> {
        let blocks = frame.blocks.len();
        State {
            frame,
            left: frame.capacity.clone(),
            links: frame.problem.links.iter().map(|link| link.bandwidth_bps).collect(),
            at: vec![Place::NONE; blocks],
            taken: BTreeSet::new(),
            engines: vec![(0, 0); frame.engine_groups],
            first: vec![BlockId::NOBODY; frame.nodes],
            next: vec![BlockId::NOBODY; blocks],
            previous: vec![BlockId::NOBODY; blocks],
            objective: 0,
            crowd: Crowd::new(frame),
        }
    }

    pub(super) fn left(&self, node: NodeRank) -> &[u64] {
        &self.left[node.at() * self.frame.dims..][..self.frame.dims]
    }

    pub(super) fn at(&self, block: BlockId) -> Option<Place> {
        let place = self.at[block.at()];
        (place.node != NodeRank::NONE).then_some(place)
    }

    pub(super) fn zone_at(&self, block: BlockId) -> Option<ZoneRank> {
        self.at(block).map(|place| self.frame.zone_of[place.node])
    }

    /// The blocks on a node.
    pub(super) fn on(&self, node: NodeRank) -> impl Iterator<Item = BlockId> + '_ {
        let mut next = self.first[node.at()];
        std::iter::from_fn(move || {
            let this = next;
            if this == BlockId::NOBODY {
                return None;
            }
            next = self.next[this.at()];
            Some(this)
        })
    }

    /// Whether the node has room, nobody there whom the block avoids, and the right engine. Zones
    /// and bandwidth are not looked at.
    pub(super) fn admits(&self, block: &Block, place: &Place) -> bool {
        let Some(demand) = &block.demand else { return false };
        self.left(place.node).iter().zip(demand).all(|(left, demand)| left >= demand)
            && (block.apart.is_empty() || self.apart_from_all(block, Scope::Node, place.node.0))
            && (block.engines.is_empty() || self.engines_agree(block, place.tag))
    }

    fn apart_from_all(&self, block: &Block, scope: Scope, place: u32) -> bool {
        let groups = block.apart.iter().filter(|g| self.frame.apart[**g as usize].scope == scope);
        groups.into_iter().all(|group| !self.taken.contains(&(*group, place)))
    }

    fn engines_agree(&self, block: &Block, tag: u32) -> bool {
        block.engines.iter().enumerate().all(|(byte, group)| {
            let (engine, count) = self.engines[*group as usize];
            count == 0 || engine == (tag >> (8 * byte)) & 0xff
        })
    }

    /// What a block adds to the cost of a node by being there beside the others.
    pub(super) fn crowding(&self, block: &Block, node: NodeRank) -> i64 {
        self.crowd.cost(self.frame, block, node)
    }

    /// What the traffic of a block costs in a zone, to itself and to those that are placed; `None`
    /// if it may not be there.
    pub(super) fn zone_cost(&self, number: BlockId, zone: ZoneRank) -> Option<i64> {
        let block = &self.frame.blocks[number];
        let mut cost = 0;
        for edge in &block.inner {
            cost += self.frame.price(&self.frame.edges[*edge], zone, zone)?;
        }
        for edge in &block.edges {
            let edge = &self.frame.edges[*edge];
            let other = if edge.a == number { edge.b } else { edge.a };
            let Some(there) = self.zone_at(other) else { continue };
            let (from, to) = if edge.a == number { (zone, there) } else { (there, zone) };
            cost += self.frame.price(edge, from, to)?;
        }
        for group in &block.together {
            for other in &self.frame.together[*group as usize] {
                if *other != number && self.zone_at(*other).is_some_and(|there| there != zone) {
                    return None;
                }
            }
        }
        self.apart_from_all(block, Scope::Zone, zone.0).then_some(cost)
    }

    /// The same for every zone, quicker than one by one; [`FORBIDDEN`] where it may not be.
    pub(super) fn zone_costs(&self, number: BlockId) -> Vec<i64> {
        let frame = self.frame;
        let block = &frame.blocks[number];
        let mut costs = vec![0; frame.zones];
        for edge in &block.inner {
            let edge = &frame.edges[*edge];
            for (zone, cost) in ZoneRank::first(frame.zones).zip(&mut costs) {
                *cost = frame.price(edge, zone, zone).map_or(FORBIDDEN, |price| plus(*cost, price));
            }
        }
        for edge in &block.edges {
            let edge = &frame.edges[*edge];
            let outward = edge.a == number;
            let Some(there) = self.zone_at(if outward { edge.b } else { edge.a }) else { continue };
            let (prices, delays) = match outward {
                true => (frame.cost.to(there), frame.latency_us.to(there)),
                false => (frame.cost.from(there), frame.latency_us.from(there)),
            };
            for ((cost, price), delay) in costs.iter_mut().zip(prices).zip(delays) {
                let sum = plus(*cost, edge.traffic * price);
                *cost = if *delay > edge.latency_us_max { FORBIDDEN } else { sum };
            }
            costs[there.at()] = plus(costs[there.at()], edge.near);
        }
        for group in &block.together {
            let others = frame.together[*group as usize].iter().filter(|other| **other != number);
            if let Some(home) = others.filter_map(|other| self.zone_at(*other)).next() {
                let away =
                    ZoneRank::first(frame.zones).zip(&mut costs).filter(|(zone, _)| *zone != home);
                away.for_each(|(_, cost)| *cost = FORBIDDEN);
            }
        }
        for group in &block.apart {
            let members = &frame.apart[*group as usize];
            if members.scope == Scope::Zone {
                for (_, zone) in self.taken.range((*group, 0)..=(*group, u32::MAX)) {
                    costs[*zone as usize] = FORBIDDEN;
                }
            }
        }
        costs
    }

    /// Puts a block there, unless that would break a constraint. Returns whether it did.
    pub(super) fn place(&mut self, number: BlockId, place: Place) -> bool {
        let frame = self.frame;
        let block = &frame.blocks[number];
        if frame.broken[number.at()] || !self.admits(block, &place) {
            return false;
        }
        let mut gain = place.value;
        let zone = frame.zone_of[place.node];
        if block.zoned {
            let Some(cost) = self.zone_cost(number, zone) else { return false };
            gain -= cost;
            if !self.reserve(number, zone) {
                return false;
            }
        }
        gain -= self.crowding(block, place.node);
        self.crowd.add(frame, block, place.node);
        let demand = block.demand.as_ref().expect("a block without a demand is not admitted");
        let left = &mut self.left[place.node.at() * frame.dims..][..frame.dims];
        for (left, demand) in left.iter_mut().zip(demand) {
            *left -= demand;
        }
        self.mark(block, &place, zone);
        self.at[number.at()] = place;
        self.objective += gain;
        let first = std::mem::replace(&mut self.first[place.node.at()], number);
        self.next[number.at()] = first;
        self.previous[number.at()] = BlockId::NOBODY;
        if first != BlockId::NOBODY {
            self.previous[first.at()] = number;
        }
        true
    }

    fn mark(&mut self, block: &Block, place: &Place, zone: ZoneRank) {
        for group in &block.apart {
            let scope = self.frame.apart[*group as usize].scope;
            self.taken.insert((*group, spot(scope, place.node, zone)));
        }
        for (byte, group) in block.engines.iter().enumerate() {
            let (engine, count) = &mut self.engines[*group as usize];
            *engine = (place.tag >> (8 * byte)) & 0xff;
            *count += 1;
        }
    }

    /// Takes a block away; it must be placed.
    pub(super) fn take(&mut self, number: BlockId) -> Place {
        let frame = self.frame;
        let block = &frame.blocks[number];
        let place = std::mem::replace(&mut self.at[number.at()], Place::NONE);
        assert!(place.node != NodeRank::NONE, "only a block that is placed can be taken");
        let zone = frame.zone_of[place.node];
        if let Some(demand) = &block.demand {
            let left = &mut self.left[place.node.at() * frame.dims..][..frame.dims];
            for (left, demand) in left.iter_mut().zip(demand) {
                *left += demand;
            }
        }
        for group in &block.apart {
            let scope = frame.apart[*group as usize].scope;
            self.taken.remove(&(*group, spot(scope, place.node, zone)));
        }
        for group in &block.engines {
            self.engines[*group as usize].1 -= 1;
        }
        // Not what it gained: others may have come or gone since.
        let cost = match block.zoned {
            true => self.zone_cost(number, zone).expect("a state breaks no constraint"),
            false => 0,
        };
        self.crowd.remove(frame, block, place.node);
        self.objective -= place.value - cost - self.crowding(block, place.node);
        if block.zoned {
            self.release(number, &block.edges, zone);
        }
        let (next, previous) = (self.next[number.at()], self.previous[number.at()]);
        match previous {
            BlockId::NOBODY => self.first[place.node.at()] = next,
            _ => self.next[previous.at()] = next,
        }
        if next != BlockId::NOBODY {
            self.previous[next.at()] = previous;
        }
        place
    }

    /// Takes the bandwidth of all edges to placed blocks, or none of it.
    fn reserve(&mut self, number: BlockId, zone: ZoneRank) -> bool {
        let frame = self.frame;
        let edges = &frame.blocks[number].edges;
        for (done, edge) in edges.iter().enumerate() {
            let Some((links, bps)) = self.usage(number, *edge, zone) else { continue };
            if !self.take_bandwidth(links, bps) {
                self.release(number, &edges[..done], zone);
                return false;
            }
        }
        true
    }

    fn release(&mut self, number: BlockId, edges: &[EdgeId], zone: ZoneRank) {
        for edge in edges {
            if let Some((links, bps)) = self.usage(number, *edge, zone) {
                self.give_bandwidth(links, bps);
            }
        }
    }

    /// The links that an edge uses when the block is in `zone`, and how much of each; `None` if it
    /// uses none.
    fn usage(&self, number: BlockId, edge: EdgeId, zone: ZoneRank) -> Option<(&'f [u32], u64)> {
        let frame = self.frame;
        let edge = &frame.edges[edge];
        let other = if edge.a == number { edge.b } else { edge.a };
        let there = self.zone_at(other)?;
        if there == zone || edge.bandwidth_bps == 0 {
            return None;
        }
        let (from, to) = if edge.a == number { (zone, there) } else { (there, zone) };
        Some((&frame.route(from, to)?.links, edge.bandwidth_bps))
    }

    fn take_bandwidth(&mut self, links: &[u32], bps: u64) -> bool {
        for (done, link) in links.iter().enumerate() {
            let Some(left) = &mut self.links[*link as usize] else { continue };
            match left.checked_sub(bps) {
                Some(rest) => *left = rest,
                None => {
                    self.give_bandwidth(&links[..done], bps);
                    return false;
                }
            }
        }
        true
    }

    fn give_bandwidth(&mut self, links: &[u32], bps: u64) {
        for link in links {
            if let Some(left) = &mut self.links[*link as usize] {
                *left += bps;
            }
        }
    }
}

fn plus(cost: i64, more: i64) -> i64 {
    if cost == FORBIDDEN { FORBIDDEN } else { cost + more }
}

fn spot(scope: Scope, node: NodeRank, zone: ZoneRank) -> u32 {
    match scope {
        Scope::Node => node.0,
        Scope::Zone => zone.0,
    }
}
