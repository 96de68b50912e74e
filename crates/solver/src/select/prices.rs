//! What the nodes of a [`Kernel`] ask for their resources where several blocks want the same, so
//! that the bound of a [`Dual`] knows that not everybody can have the best. Called by
//! [`Dual::new`].

use super::dual::Dual;
use super::frame::{Block, Frame};
use super::ids::NodeRank;
use super::kernel::{Kernel, dead, float};
use super::meter::Meter;
use super::state::State;
use crate::problem::Scope;

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
        Prices { nodes, dims, price, wanted, left, demand, resources: frame.dims }
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
        kernel: &Kernel,
        dual: &mut Dual,
        step: f64,
        meter: &mut Meter<'_>,
    ) -> bool {
        // The subgradient at these prices: what the favourites of all blocks take of each resource,
        // less what is there.
        let mut load = vec![0.0; self.price.len()];
        for (b, domain) in kernel.domains.iter().enumerate() {
            meter.spend(domain.spans.len() as u64);
            let Some(place) = favourite(kernel, dual, b) else { continue };
            let node = domain.places[place].node;
            let Ok(local) = self.nodes.binary_search(&node) else { continue };
            let load = &mut load[local * self.dims..][..self.dims];
            for (dim, load) in load.iter_mut().enumerate() {
                *load += self.need(b, local, dim);
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
        if steepness == 0.0 {
            return false;
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
                dual.paid += price - self.price[at];
                self.price[at] = price;
            }
            meter.spend(self.wanted[node].len() as u64);
            self.charge(kernel, dual, node);
        }
        dual.paid = self.price.iter().sum();
        true
    }

    /// Brings the worth of all places on a node up to date with its prices.
    fn charge(&self, kernel: &Kernel, dual: &mut Dual, node: usize) {
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
            dual.worth[b][p] = float(domain.places[p].value - span.cost) - fee;
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
        over || groups.windows(2).any(|pair| pair[0] == pair[1])
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
