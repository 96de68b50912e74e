//! The problem in canonical order, cut for searching: the same set of nodes, items and edges gives
//! the same frame, in whatever order it arrived. Built once by [`select`](super::select()).
//!
//! Items that must share a node become one [`Block`], which is what the search moves about.

use std::collections::BTreeMap;

use super::ids::{BlockId, EdgeId, NodeRank, ZoneRank};
use super::index::{self, Index};
use super::order::{CostRange, Order, Square, find, join, narrow};
use crate::problem::{
    Candidate, Choice, Class, Invalid, Item, ItemId, LATENCY_US_MAX, NodeId, Problem, Route, Scope,
    ZoneId,
};

/// More than any bound on latency: every edge has one, [`LATENCY_US_MAX`] if nothing else.
const NO_WAY: u64 = u64::MAX;

/// A place for a block: less is better known as "earlier in the list".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub value: i64,
    pub node: NodeRank,
    /// The engine (its rank by name) of each engine group that the block has items in, a byte each.
    pub tag: u32,
}

impl Place {
    pub(super) const NONE: Place = Place { value: 0, node: NodeRank::NONE, tag: 0 };
}

/// Items that share a node, mostly a single one.
#[derive(Debug, Default)]
pub(super) struct Block {
    /// As the problem numbers them.
    pub items: Vec<ItemId>,
    /// `None` if the sum is more than any node can have.
    pub demand: Option<Box<[u64]>>,
    /// Into [`Frame::indices`].
    pub index: u32,
    /// Its zone matters: it has edges, or must be with or apart from others by zone.
    pub zoned: bool,
    /// Nodes of the index that do not count, sorted: barred, or with a value of their own in `extra`.
    pub skip: Vec<NodeRank>,
    pub extra: Vec<Place>,
    pub engines: Vec<u32>,
    /// Edges to other blocks.
    pub edges: Vec<EdgeId>,
    /// Edges between items of this block.
    pub inner: Vec<EdgeId>,
    /// Into [`Frame::apart`].
    pub apart: Vec<u32>,
    /// Into [`Frame::together`].
    pub together: Vec<u32>,
    /// Where it runs now; [`NodeRank::NONE`] if nowhere.
    pub current: NodeRank,
    /// Its items that count as load, if load costs anything.
    pub loads: Vec<ItemId>,
    /// Into [`Frame::scatter_cost`], with how many of its items are in that group.
    pub scatter: Vec<(u32, i64)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Edge {
    pub a: BlockId,
    pub b: BlockId,
    pub traffic: i64,
    pub latency_us_max: u64,
    pub bandwidth_bps: u64,
    /// What it costs that both are in one zone; less than 0 draws them there.
    pub near: i64,
}

#[derive(Debug)]
pub(super) struct Apart {
    pub scope: Scope,
    pub blocks: Vec<BlockId>,
}

#[derive(Debug)]
pub(super) struct Part {
    /// As the problem numbers it.
    pub index: usize,
    pub blocks: Vec<BlockId>,
}

#[derive(Debug)]
pub(super) struct Frame<'a> {
    pub problem: &'a Problem,
    pub dims: usize,
    pub zones: usize,
    pub nodes: usize,
    pub zone_of: Vec<ZoneRank>,
    /// `[node * dims + dimension]`
    pub capacity: Vec<u64>,
    pub cost: Square<i64>,
    pub cost_range: CostRange,
    /// [`NO_WAY`] where there is none.
    pub latency_us: Square<u64>,
    pub indices: Vec<Index>,
    pub blocks: Vec<Block>,
    /// The first is served first.
    pub parts: Vec<Part>,
    pub edges: Vec<Edge>,
    pub apart: Vec<Apart>,
    /// Blocks that must share a zone.
    pub together: Vec<Vec<BlockId>>,
    pub engine_groups: usize,
    /// What others use of each node, in thousandths.
    pub load_before: Vec<u64>,
    /// Up to here load costs nothing.
    pub load_free: u64,
    /// Of two items of a group on one node.
    pub scatter_cost: Vec<i64>,
    /// From our order to that of the problem.
    nodes_given: Vec<NodeId>,
    zones_given: Vec<ZoneId>,
    engines_given: Vec<u32>,
    engine_group_of: Vec<Option<u32>>,
    /// The classes whose candidates are in the order of nodes.
    ascending: Vec<bool>,
    /// A block that can never be placed: two items on one node that must not share one.
    pub broken: Vec<bool>,
}

impl<'a> Frame<'a> {
    pub(super) fn new(problem: &'a Problem, listed_max: usize) -> Result<Frame<'a>, Invalid> {
        let nodes = Order::of(problem.nodes.len(), |n| problem.nodes[n].id.as_str());
        let zones = Order::of(problem.zones.len(), |z| problem.zones[z].as_str());
        let engines = Order::of(problem.engines.len(), |e| problem.engines[e].as_str());
        let items = Order::of(problem.items.len(), |i| problem.items[i].id.as_str());
        let resources = Order::of(problem.resources.len(), |r| problem.resources[r].as_str());

        let mut capacity = Vec::with_capacity(problem.nodes.len() * resources.given.len());
        let mut zone_of = Vec::with_capacity(problem.nodes.len());
        for given in &nodes.given {
            let node = &problem.nodes[*given as usize];
            zone_of.push(ZoneRank(zones.rank[node.zone.at()]));
            capacity.extend(resources.given.iter().map(|r| node.capacity[*r as usize]));
        }
        let mut cost = Vec::with_capacity(zones.given.len() * zones.given.len());
        let mut latency_us = Vec::with_capacity(cost.capacity());
        for from in &zones.given {
            let row = &problem.zone_cost[*from as usize];
            cost.extend(zones.given.iter().map(|to| row[*to as usize]));
            let row = &problem.routes[*from as usize];
            let routes = zones.given.iter().map(|to| row[*to as usize].as_ref());
            latency_us.extend(routes.map(|route| route.map_or(NO_WAY, |route| route.latency_us)));
        }
        let mut frame = Frame {
            problem,
            dims: resources.given.len(),
            zones: zones.given.len(),
            nodes: nodes.given.len(),
            zone_of,
            capacity,
            cost_range: CostRange::new(&cost, zones.given.len()),
            cost: Square::new(cost, zones.given.len()),
            latency_us: Square::new(latency_us, zones.given.len()),
            indices: Vec::new(),
            blocks: Vec::new(),
            parts: Vec::new(),
            edges: Vec::new(),
            apart: Vec::new(),
            together: Vec::new(),
            engine_groups: 0,
            load_before: Vec::new(),
            load_free: 0,
            scatter_cost: Vec::new(),
            nodes_given: nodes.given.into_iter().map(NodeId).collect(),
            zones_given: zones.given.into_iter().map(ZoneId).collect(),
            engines_given: engines.given,
            engine_group_of: Vec::new(),
            ascending: problem.classes.iter().map(ascending).collect(),
            broken: Vec::new(),
        };
        let block_of = frame.add_blocks(&items, &resources.given);
        frame.add_groups(&block_of);
        frame.add_edges(&block_of);
        frame.add_crowding(&block_of);
        frame.add_parts(&block_of);
        frame.add_engine_groups(&items);
        if let Some(block) = frame.blocks.iter().find(|block| block.engines.len() > 4) {
            let id = &problem.items[block.items[0]].id;
            return Err(Invalid::new(format!(
                "{id} shares a node with items of more than four groups of one engine"
            )));
        }
        index::add(&mut frame, &nodes.rank, &engines.rank, listed_max);
        Ok(frame)
    }

    pub(super) fn route(&self, from: ZoneRank, to: ZoneRank) -> Option<&'a Route> {
        self.problem.route(self.zones_given[from.at()], self.zones_given[to.at()])
    }

    /// What the traffic of an edge costs between two zones; `None` if it may not go there.
    pub(super) fn price(&self, edge: &Edge, from: ZoneRank, to: ZoneRank) -> Option<i64> {
        if self.latency_us.at(from, to) > edge.latency_us_max {
            return None;
        }
        let near = if from == to { edge.near } else { 0 };
        Some(edge.traffic * self.cost.at(from, to) + near)
    }

    /// No two zones cost an edge less than this.
    pub(super) fn least_price(&self, edge: &Edge) -> i64 {
        let (low, high) = self.cost_range.any;
        (edge.traffic * low).min(edge.traffic * high) + edge.near.min(0)
    }

    pub(super) fn capacity(&self, node: NodeRank) -> &[u64] {
        &self.capacity[node.at() * self.dims..][..self.dims]
    }

    /// The answer in the words of the problem.
    pub(super) fn choices(&self, block: BlockId, place: Place) -> Vec<(ItemId, Choice)> {
        let node = self.given_node(place.node);
        let block = &self.blocks[block];
        let choose = |item: &ItemId| {
            let group = self.engine_group_of[item.at()];
            let byte = group.and_then(|g| block.engines.iter().position(|other| *other == g));
            let engine = match byte {
                Some(byte) => {
                    let rank = (place.tag >> (8 * byte)) & 0xff;
                    u8::try_from(self.engines_given[rank as usize])
                        .expect("engines are counted in u8")
                }
                None => self.best_engine(&self.problem.items[*item], node),
            };
            (*item, Choice { node, engine })
        };
        block.items.iter().map(choose).collect()
    }

    /// The candidates of a class on a node, as the problem numbers it.
    pub(super) fn on_node(&self, class: u32, node: NodeId) -> impl Iterator<Item = &'a Candidate> {
        let candidates = &self.problem.classes[class as usize].candidates;
        let range = match self.ascending[class as usize] {
            true => {
                let start = candidates.partition_point(|c| c.node < node);
                start..candidates.len()
            }
            false => 0..candidates.len(),
        };
        let ascending = self.ascending[class as usize];
        let here = candidates[range].iter().take_while(move |c| !ascending || c.node == node);
        here.filter(move |c| c.node == node)
    }

    fn best_engine(&self, item: &Item, node: NodeId) -> u8 {
        let names = &self.problem.engines;
        let best = self.on_node(item.class, node).min_by_key(|c| {
            (std::cmp::Reverse(item.value_of(c)), names[usize::from(c.engine)].as_str())
        });
        best.expect("a block is placed where all of its items are admitted").engine
    }

    pub(super) fn given_node(&self, node: NodeRank) -> NodeId {
        self.nodes_given[node.at()]
    }

    /// The group of items with one engine that an item is in.
    pub(super) fn engine_group_of(&self, item: ItemId) -> Option<u32> {
        self.engine_group_of[item.at()]
    }

    /// Returns the block of every item.
    fn add_blocks(&mut self, items: &Order, resources: &[u32]) -> Vec<BlockId> {
        let problem = self.problem;
        let mut leader: Vec<u32> = (0..narrow(items.given.len())).collect();
        for group in problem.together.iter().filter(|group| group.scope == Scope::Node) {
            join(&mut leader, group.items.iter().map(|item| items.rank[item.at()]));
        }
        let mut block_of = vec![BlockId(0); items.given.len()];
        let mut block_of_leader = BTreeMap::new();
        for position in 0..items.given.len() {
            let given = ItemId(items.given[position]);
            let item = &problem.items[given];
            let leader = find(&mut leader, narrow(position));
            let demand = resources.iter().map(|r| item.demand[*r as usize]);
            if leader as usize == position {
                block_of_leader.insert(leader, BlockId(narrow(self.blocks.len())));
                let current = NodeRank::NONE;
                let demand = Some(demand.collect());
                self.blocks.push(Block { demand, current, ..Block::default() });
            } else {
                let block = &mut self.blocks[block_of_leader[&leader]];
                let sum = block.demand.take();
                block.demand = sum.and_then(|sum| {
                    sum.iter().zip(demand).map(|(sum, more)| sum.checked_add(more)).collect()
                });
            }
            let block = block_of_leader[&leader];
            self.blocks[block].items.push(given);
            block_of[given.at()] = block;
        }
        self.broken = vec![false; self.blocks.len()];
        block_of
    }

    fn add_groups(&mut self, block_of: &[BlockId]) {
        let blocks_of = |items: &[ItemId]| -> Vec<BlockId> {
            let mut blocks: Vec<BlockId> = items.iter().map(|item| block_of[item.at()]).collect();
            blocks.sort_unstable();
            blocks
        };
        for group in &self.problem.together {
            let mut blocks = blocks_of(&group.items);
            blocks.dedup();
            if blocks.len() > 1 {
                self.together.push(blocks);
            }
        }
        self.together.sort();
        for group in &self.problem.apart {
            let blocks = blocks_of(&group.items);
            for pair in blocks.windows(2).filter(|pair| pair[0] == pair[1]) {
                self.broken[pair[0].at()] = true;
            }
            self.apart.push(Apart { scope: group.scope, blocks });
        }
        self.apart.sort_by(|a, b| (a.scope, &a.blocks).cmp(&(b.scope, &b.blocks)));
        for (number, blocks) in (0u32..).zip(&self.together) {
            for block in blocks {
                let block = &mut self.blocks[*block];
                block.zoned = true;
                block.together.push(number);
            }
        }
        for (number, group) in (0u32..).zip(&self.apart) {
            for block in &group.blocks {
                let block = &mut self.blocks[*block];
                block.zoned |= group.scope == Scope::Zone;
                block.apart.push(number);
            }
        }
    }

    fn add_edges(&mut self, block_of: &[BlockId]) {
        let edges = self.problem.edges.iter().map(|edge| Edge {
            a: block_of[edge.a.at()],
            b: block_of[edge.b.at()],
            traffic: edge.traffic,
            latency_us_max: edge
                .latency_us_max
                .map_or(LATENCY_US_MAX, |max| max.min(LATENCY_US_MAX)),
            bandwidth_bps: edge.bandwidth_bps,
            near: 0,
        });
        self.edges = edges.chain(self.near_pairs(block_of)).collect();
        self.edges.sort_unstable();
        for (number, edge) in EdgeId::first(self.edges.len()).zip(&self.edges) {
            self.blocks[edge.a].zoned = true;
            self.blocks[edge.b].zoned = true;
            if edge.a == edge.b {
                self.blocks[edge.a].inner.push(number);
            } else {
                self.blocks[edge.a].edges.push(number);
                self.blocks[edge.b].edges.push(number);
            }
        }
    }

    /// Every two items that it matters to whether they share a zone, as an edge that goes any way.
    fn near_pairs(&self, block_of: &[BlockId]) -> Vec<Edge> {
        let mut pairs: BTreeMap<(BlockId, BlockId), i64> = BTreeMap::new();
        for group in self.problem.scatter.iter().filter(|group| group.scope == Scope::Zone) {
            let blocks: Vec<BlockId> = group.items.iter().map(|item| block_of[item.at()]).collect();
            for (at, a) in blocks.iter().enumerate() {
                for b in &blocks[at + 1..] {
                    *pairs.entry((*a.min(b), *a.max(b))).or_insert(0) += group.cost;
                }
            }
        }
        let edge = |((a, b), near)| Edge {
            a,
            b,
            traffic: 0,
            latency_us_max: NO_WAY,
            bandwidth_bps: 0,
            near,
        };
        pairs.into_iter().filter(|(_, near)| *near != 0).map(edge).collect()
    }

    fn add_crowding(&mut self, block_of: &[BlockId]) {
        let problem = self.problem;
        let load = &problem.load;
        self.load_before = self.nodes_given.iter().map(|node| load.before(*node)).collect();
        let costly = load.steps.iter().filter(|step| step.cost > 0);
        self.load_free = costly.map(|step| step.above).min().unwrap_or(u64::MAX);
        if self.load_free < u64::MAX && !load.nodes.is_empty() {
            for block in &mut self.blocks {
                let items = block.items.iter().filter(|item| problem.items[**item].loads);
                block.loads = items.copied().collect();
            }
        }
        let groups = problem.scatter.iter();
        for group in groups.filter(|group| group.scope == Scope::Node && group.cost > 0) {
            let number = narrow(self.scatter_cost.len());
            self.scatter_cost.push(group.cost);
            for item in &group.items {
                let block = &mut self.blocks[block_of[item.at()]];
                match block.scatter.iter_mut().find(|(other, _)| *other == number) {
                    Some((_, weight)) => *weight += 1,
                    None => block.scatter.push((number, 1)),
                }
            }
        }
    }

    fn add_parts(&mut self, block_of: &[BlockId]) {
        let parts = &self.problem.parts;
        let order = Order::of(parts.len(), |p| {
            (std::cmp::Reverse(parts[p].priority), parts[p].id.as_str())
        });
        for given in order.given {
            let items = parts[given as usize].items.iter();
            let mut blocks: Vec<BlockId> = items.map(|item| block_of[item.at()]).collect();
            blocks.sort_unstable();
            blocks.dedup();
            self.parts.push(Part { index: given as usize, blocks });
        }
    }

    fn add_engine_groups(&mut self, items: &Order) {
        let mut leader: Vec<u32> = (0..narrow(items.given.len())).collect();
        let mut grouped = vec![false; items.given.len()];
        for group in &self.problem.same_engine {
            join(&mut leader, group.iter().map(|item| items.rank[item.at()]));
            for item in group {
                grouped[item.at()] = true;
            }
        }
        let mut number_of = BTreeMap::new();
        self.engine_group_of = vec![None; items.given.len()];
        for (rank, given) in (0u32..).zip(&items.given) {
            if grouped[*given as usize] {
                let leader = find(&mut leader, rank);
                let next = narrow(number_of.len());
                let number = *number_of.entry(leader).or_insert(next);
                self.engine_group_of[*given as usize] = Some(number);
            }
        }
        self.engine_groups = number_of.len();
        for block in &mut self.blocks {
            for item in &block.items {
                if let Some(group) = self.engine_group_of[item.at()]
                    && !block.engines.contains(&group)
                {
                    block.engines.push(group);
                }
            }
        }
    }
}

fn ascending(class: &Class) -> bool {
    class.candidates.is_sorted_by_key(|candidate| candidate.node)
}
