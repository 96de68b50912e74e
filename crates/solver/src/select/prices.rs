//! What the nodes of a [`Kernel`] ask for their resources where several blocks want the same, so
//! that the bound of a [`Dual`] knows that not everybody can have the best. Called by
//! [`Dual::new`].

mod curves;

use std::collections::BTreeMap;

use super::crowd::count;
use super::dual::Dual;
use super::frame::{Block, Frame};
use super::ids::NodeRank;
use super::kernel::{Kernel, dead, float};
use super::meter::Meter;
use super::state::State;
use crate::problem::Scope;
use curves::{Curves, Taken};

/// What a node asks for each of its resources, and for being the only one of a group of blocks
/// that avoid each other.
pub(super) struct Prices {
    nodes: Vec<NodeRank>,
    dims: usize,
    price: Vec<f64>,
    /// Block and place of everything on a node.
    wanted: Vec<Vec<(u32, u32)>>,
    /// What is left of each node, `[node * dims + dimension]`.
    left: Vec<f64>,
    /// What each block needs.
    demand: Vec<Vec<f64>>,
    resources: usize,
    /// What load costs, and items that would rather not share a node.
    curves: Vec<Curves>,
    /// By block: how many items it has in each group of [`Curves::scatter`].
    weight: Vec<Vec<f64>>,
}

/// Of blocks that need more than a half of a node, one fits; of those that need more than a third,
/// two do. Seen as resources of their own, these give better bounds than shares can.
const CROWDS: [f64; 2] = [1.0, 2.0];

impl Prices {
    pub(super) fn new(kernel: &Kernel, state: &State<'_>) -> Prices {
        let frame = state.frame;
        let mut nodes: Vec<NodeRank> =
            kernel.domains.iter().flat_map(|d| d.places.iter().map(|p| p.node)).collect();
        nodes.sort_unstable();
        nodes.dedup();
        let mut wanted = vec![Vec::new(); nodes.len()];
        for (b, domain) in (0u32..).zip(&kernel.domains) {
            for (p, place) in (0u32..).zip(&domain.places) {
                if let Ok(local) = nodes.binary_search(&place.node) {
                    wanted[local].push((b, p));
                }
            }
        }
        let blocks = || kernel.blocks.iter().map(|number| &frame.blocks[*number]);
        // Blocks that avoid each other on a node share one more resource of it, of which there is
        // one.
        let mut groups: Vec<u32> = blocks().flat_map(|block| &block.apart).copied().collect();
        groups.retain(|group| frame.apart[*group as usize].scope == Scope::Node);
        groups.sort_unstable();
        groups.dedup();
        let dims = frame.dims * (1 + CROWDS.len()) + groups.len();
        let mut left = Vec::with_capacity(nodes.len() * dims);
        for node in &nodes {
            left.extend(state.left(*node).iter().map(|left| amount(*left)));
            left.extend(groups.iter().map(|_| 1.0));
            // Cover inequalities: at most k blocks of more than 1/(k+1) of a resource fit on a
            // node.
            left.extend(CROWDS.iter().flat_map(|most| vec![*most; frame.dims]));
        }
        let demand = blocks().map(|block| demand_of(frame, block, &groups)).collect();
        let price = vec![0.0; nodes.len() * dims];
        let mut scattered: Vec<u32> =
            blocks().flat_map(|block| block.scatter.iter().map(|(group, _)| *group)).collect();
        scattered.sort_unstable();
        scattered.dedup();
        let crowded = kernel.blocks.iter().any(|number| frame.is_crowded(*number));
        let curves = match crowded {
            true => {
                nodes.iter().map(|node| Curves::new(kernel, state, *node, &scattered)).collect()
            }
            false => Vec::new(),
        };
        let weight = |block: &Block| -> Vec<f64> {
            let of = |group: &u32| block.scatter.iter().find(|(other, _)| other == group);
            scattered.iter().map(|group| of(group).map_or(0.0, |(_, w)| float(*w))).collect()
        };
        let weight = blocks().map(weight).collect();
        let resources = frame.dims;
        Prices { nodes, dims, price, wanted, left, demand, resources, curves, weight }
    }

    /// What a block takes of each curve of a node.
    fn takes(&self, kernel: &Kernel, state: &State<'_>, block: usize, node: usize) -> Vec<f64> {
        let own = &state.frame.blocks[kernel.blocks[block]];
        let mut takes = vec![count(state.frame.share(own, self.nodes[node]))];
        takes.extend(&self.weight[block]);
        takes
    }

    /// What a block needs of a dimension of a node, in the units of `left`.
    fn need(&self, block: usize, node: usize, dim: usize) -> f64 {
        let demand = &self.demand[block];
        if dim < demand.len() {
            return demand[dim];
        }
        let resource = (dim - demand.len()) % self.resources;
        let most = CROWDS[(dim - demand.len()) / self.resources];
        let left = self.left[node * self.dims + resource];
        // Beyond any doubt that rounding could raise.
        if demand[resource] * (most + 1.0) > left * (1.0 + 1e-9) { 1.0 } else { 0.0 }
    }

    /// Raises the prices of what is wanted too much and lowers those of what is not. Returns
    /// whether there is any price to change.
    pub(super) fn change(
        &mut self,
        (kernel, state): (&Kernel, &State<'_>),
        dual: &mut Dual,
        step: f64,
        meter: &mut Meter<'_>,
    ) -> bool {
        // The subgradient at these prices: what the favourites of all blocks take of each resource,
        // less what is there.
        let mut load = vec![0.0; self.price.len()];
        let mut taken: BTreeMap<usize, Taken> = BTreeMap::new();
        for (b, domain) in kernel.domains.iter().enumerate() {
            meter.spend(domain.spans.len() as u64);
            let Some(place) = favourite(kernel, dual, b) else { continue };
            let node = domain.places[place].node;
            let Ok(local) = self.nodes.binary_search(&node) else { continue };
            let load = &mut load[local * self.dims..][..self.dims];
            for (dim, load) in load.iter_mut().enumerate() {
                *load += self.need(b, local, dim);
            }
            if !self.curves.is_empty() {
                let alone = float(domain.places[place].value - domain.worth[place]);
                let takes = self.takes(kernel, state, b, local);
                taken.entry(local).or_default().add(&takes, alone);
            }
        }
        let mut slope = vec![0.0; self.price.len()];
        let mut steepness = 0.0;
        for (at, load) in load.iter().enumerate() {
            let left = self.left[at];
            // Complementary slackness: a resource that is free and not wanted too much keeps its
            // price of 0.
            if left > 0.0 && (*load > left || self.price[at] > 0.0) {
                slope[at] = load / left - 1.0;
                steepness += slope[at] * slope[at];
            }
        }
        let nothing = Taken::default();
        let mut bent: Vec<Vec<f64>> = Vec::with_capacity(self.curves.len());
        for (node, curves) in self.curves.iter().enumerate() {
            bent.push(curves.slopes(taken.get(&node).unwrap_or(&nothing)));
            steepness += bent[node].iter().map(|slope| slope * slope).sum::<f64>();
        }
        if steepness == 0.0 {
            return false;
        }
        for (node, slopes) in bent.iter().enumerate() {
            if slopes.iter().any(|slope| *slope != 0.0) {
                self.curves[node].change(slopes, step / steepness);
                meter.spend(self.wanted[node].len() as u64);
                match self.curves[node].is_priced() {
                    true => dual.priced.insert(self.nodes[node]),
                    false => dual.priced.remove(&self.nodes[node]),
                };
                self.charge((kernel, state), dual, node);
            }
        }
        for node in 0..self.nodes.len() {
            let here = node * self.dims..(node + 1) * self.dims;
            if slope[here.clone()].iter().all(|slope| *slope == 0.0) {
                continue;
            }
            for at in here {
                // Projected on prices of at least 0: a negative price would pay blocks for using a
                // node.
                let price = (self.price[at] + step / steepness * slope[at]).max(0.0);
                self.price[at] = price;
            }
            meter.spend(self.wanted[node].len() as u64);
            self.charge((kernel, state), dual, node);
        }
        let earned = self.curves.iter().map(Curves::earned);
        dual.paid = self.price.iter().sum::<f64>() + earned.sum::<f64>();
        true
    }

    /// Brings the worth of all places on a node up to date with its prices.
    fn charge(&self, (kernel, state): (&Kernel, &State<'_>), dual: &mut Dual, node: usize) {
        let curves = self.curves.get(node).filter(|curves| curves.is_priced());
        let here = node * self.dims..(node + 1) * self.dims;
        for (b, p) in &self.wanted[node] {
            let (b, p) = (*b as usize, *p as usize);
            let domain = &kernel.domains[b];
            let at = domain.spans.partition_point(|span| span.end <= p);
            let span = &domain.spans[at];
            let mut fee = 0.0;
            for (dim, at) in here.clone().enumerate() {
                if self.price[at] > 0.0 {
                    fee += self.price[at] * self.need(b, node, dim) / self.left[at];
                }
            }
            let own = match curves {
                Some(curves) => {
                    fee += curves.fee(&self.takes(kernel, state, b, node));
                    domain.places[p].value
                }
                None => domain.worth[p],
            };
            dual.worth[b][p] = float(own - span.cost) - fee;
            let worths = dual.worth[b][span.start..span.end].iter().copied();
            let top = worths.fold(span.more, f64::max);
            let flat = dual.offsets[b] + at;
            if !dead(dual.score[flat]) {
                dual.score[flat] += top - dual.top[flat];
            }
            dual.top[flat] = top;
        }
    }
}

/// Whether the favourite places of all blocks together are more than there is.
pub(super) fn overloaded(kernel: &Kernel, dual: &Dual, state: &State<'_>) -> bool {
    let frame = state.frame;
    let mut wanted: Vec<(NodeRank, usize)> = Vec::with_capacity(kernel.blocks.len());
    for block in 0..kernel.blocks.len() {
        if let Some(place) = favourite(kernel, dual, block) {
            wanted.push((kernel.domains[block].places[place].node, block));
        }
    }
    wanted.sort_unstable();
    wanted.chunk_by(|a, b| a.0 == b.0).any(|here| {
        let blocks = here.iter().map(|(_, b)| &frame.blocks[kernel.blocks[*b]]);
        let over = (0..frame.dims).any(|dim| {
            let demands = blocks.clone().filter_map(|block| block.demand.as_ref());
            let sum: u128 = demands.map(|demand| u128::from(demand[dim])).sum();
            sum > u128::from(state.left(here[0].0)[dim])
        });
        let mut groups: Vec<u32> = blocks.flat_map(|block| &block.apart).copied().collect();
        groups.sort_unstable();
        over || groups.windows(2).any(|pair| pair[0] == pair[1]) || dearer(kernel, state, here)
    })
}

/// Whether blocks on one node cost more together than each alone.
fn dearer(kernel: &Kernel, state: &State<'_>, here: &[(NodeRank, usize)]) -> bool {
    let frame = state.frame;
    let blocks = || here.iter().map(|(_, b)| kernel.blocks[*b]);
    if here.len() < 2 || !blocks().any(|number| frame.is_crowded(number)) {
        return false;
    }
    let mut crowd = state.crowd.clone();
    blocks().any(|number| {
        let block = &frame.blocks[number];
        let is_dearer = crowd.cost(frame, block, here[0].0) > state.crowding(block, here[0].0);
        crowd.add(frame, block, here[0].0);
        is_dearer
    })
}

fn demand_of(frame: &Frame<'_>, block: &Block, groups: &[u32]) -> Vec<f64> {
    let mut demand = vec![0.0; frame.dims];
    if let Some(own) = &block.demand {
        demand = own.iter().map(|demand| amount(*demand)).collect();
    }
    let member = |group: &u32| if block.apart.contains(group) { 1.0 } else { 0.0 };
    demand.extend(groups.iter().map(member));
    demand
}

#[expect(clippy::cast_precision_loss, reason = "a share of a node, for a price")]
fn amount(value: u64) -> f64 {
    value as f64
}

/// The place that a block would take if it were alone; `None` if that is one that was not kept.
fn favourite(kernel: &Kernel, dual: &Dual, block: usize) -> Option<usize> {
    let flat = dual.offsets[block]..dual.offsets[block + 1];
    let scores = dual.score[flat.clone()].iter().enumerate();
    let (best, score) = scores.max_by(|a, b| a.1.total_cmp(b.1).then(b.0.cmp(&a.0)))?;
    if dead(*score) {
        return None;
    }
    let span = &kernel.domains[block].spans[best];
    let worth = &dual.worth[block][span.start..span.end];
    let (place, worth) =
        worth.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1).then(b.0.cmp(&a.0)))?;
    (*worth >= span.more).then_some(span.start + place)
}
