//! How good the best answer of a large problem could be. Called by [`select`](super::select())
//! where there are too many blocks to look at all of them at once.
//!
//! Blocks that have to do with each other by network or groups are bounded together, each such set
//! on an empty continuum. The plain ones are bounded by prices for nodes that all of them want. Where
//! that is better, all are bounded by prices, as if distance cost nothing.

use super::dual::Dual;
use super::frame::{Block, Frame, Place};
use super::ids::{BlockId, NodeRank};
use super::improve::floor;
use super::kernel::{Kernel, Width, float};
use super::meter::Meter;
use super::state::State;

const WIDTH: Width = Width { places: 1, zones: 32 };
const ROUNDS: usize = 4;
const PRICE_ROUNDS: usize = 60;

/// No choice for the blocks that are placed has a greater objective.
pub(super) fn of(state: &State<'_>, placed: &[BlockId], meter: &mut Meter<'_>) -> i64 {
    let frame = state.frame;
    let mut bound = 0.0;
    let mut plain = Vec::new();
    let mut seen = vec![false; frame.blocks.len()];
    let empty = State::new(frame);
    let mut sets = 0;
    for block in placed {
        if seen[block.at()] {
            continue;
        }
        if !frame.blocks[*block].zoned {
            plain.push(*block);
            continue;
        }
        // Relaxation 1: each connected component alone on an empty continuum. Sees distance, no
        // competition.
        let set = tied(frame, *block, &mut seen);
        sets += 1;
        bound += bound_of_set(&empty, &set, meter);
    }
    let now: i64 = plain.iter().filter_map(|block| state.at(*block)).map(|p| p.value).sum();
    bound += Market::new(state, &plain).bound(float(now), meter);
    // Relaxation 2: all compete for nodes by prices, and distance costs the least it could.
    // A single set knows of its own competition.
    if sets > 1 {
        bound = bound.min(with_free_traffic(state, placed, meter));
    }
    floor(bound + 1e-3).max(state.objective)
}

/// All blocks compete for nodes, and traffic costs the least that it could. Better than looking at
/// each set alone where there are many of them and the good nodes are few.
fn with_free_traffic(state: &State<'_>, placed: &[BlockId], meter: &mut Meter<'_>) -> f64 {
    let frame = state.frame;
    let (low, high) = frame.cost_range.any;
    let placed_edges = frame.edges.iter().filter(|edge| state.at(edge.a).is_some());
    // The smallest cost of any two zones bounds the traffic cost of an edge from below.
    let least: i64 = placed_edges.map(|edge| (edge.traffic * low).min(edge.traffic * high)).sum();
    let now: i64 = placed.iter().filter_map(|block| state.at(*block)).map(|p| p.value).sum();
    Market::new(state, placed).bound(float(now), meter) - float(least)
}

/// All blocks that a block has edges or groups of zones with, and theirs.
fn tied(frame: &Frame<'_>, start: BlockId, seen: &mut [bool]) -> Vec<BlockId> {
    let mut set = vec![start];
    seen[start.at()] = true;
    let mut at = 0;
    while at < set.len() {
        let number = set[at];
        let block = &frame.blocks[number];
        let edges = block.edges.iter().map(|edge| &frame.edges[*edge]);
        let by_edge = edges.map(|edge| if edge.a == number { edge.b } else { edge.a });
        let groups = block.together.iter().flat_map(|group| &frame.together[*group as usize]);
        for other in by_edge.chain(groups.copied()) {
            if !std::mem::replace(&mut seen[other.at()], true) {
                set.push(other);
            }
        }
        at += 1;
    }
    set.sort_unstable();
    set
}

fn bound_of_set(empty: &State<'_>, set: &[BlockId], meter: &mut Meter<'_>) -> f64 {
    let Some(mut kernel) = Kernel::new(empty, set, WIDTH, meter) else { return 0.0 };
    let dual = Dual::new(&mut kernel, empty, None, ROUNDS, meter);
    dual.bound + dual.slack
}

/// Blocks that want the same, and how many there are of them.
struct Kind<'f> {
    block: &'f Block,
    count: f64,
    /// The least value that one of them has now.
    marginal: i64,
}

struct Market<'s, 'f> {
    state: &'s State<'f>,
    kinds: Vec<Kind<'f>>,
    /// For the whole of each node's capacity, `[node * dims + dimension]`.
    price: Vec<f64>,
}

impl<'s, 'f> Market<'s, 'f> {
    fn new(state: &'s State<'f>, plain: &[BlockId]) -> Market<'s, 'f> {
        let frame = state.frame;
        let mut order: Vec<BlockId> = plain.to_vec();
        let of = |number: &BlockId| &frame.blocks[*number];
        let key = |number: &BlockId| {
            let block = of(number);
            let own = (!block.skip.is_empty()).then_some(*number);
            (own, block.index, block.demand.as_deref())
        };
        order.sort_by(|a, b| key(a).cmp(&key(b)));
        let mut kinds = Vec::new();
        for same in order.chunk_by(|a, b| key(a) == key(b)) {
            let values = same.iter().filter_map(|number| state.at(*number)).map(|p| p.value);
            let marginal = values.min().unwrap_or(0);
            #[expect(clippy::cast_precision_loss, reason = "items are counted in u32")]
            kinds.push(Kind { block: of(&same[0]), count: same.len() as f64, marginal });
        }
        Market { state, kinds, price: vec![0.0; frame.capacity.len()] }
    }

    /// Prices that come near to what is wanted and what is there; the least bound on the way.
    fn bound(&mut self, now: f64, meter: &mut Meter<'_>) -> f64 {
        let mut least = self.ask(meter).0;
        // A warm start: prices near the dual optimum save rounds.
        self.first_prices();
        let mut step = 1.0;
        let mut stale = 0;
        for _ in 0..PRICE_ROUNDS {
            let (bound, load) = self.ask(meter);
            stale += 1;
            if bound < least {
                least = bound;
                stale = 0;
            }
            if stale > 3 {
                step *= 0.5;
                stale = 0;
            }
            if least < now + 1.0 || meter.over() || !self.change(&load, step * (bound - now)) {
                break;
            }
        }
        least + 1e-9 * least.abs()
    }

    /// What all kinds would pay for their best nodes, and how much of each node they want.
    fn ask(&self, meter: &mut Meter<'_>) -> (f64, Vec<f64>) {
        let frame = self.state.frame;
        let mut bound: f64 = self.price.iter().sum();
        let mut load = vec![0.0; self.price.len()];
        for kind in &self.kinds {
            let index = &frame.indices[kind.block.index as usize];
            let zones = 0..index.zones();
            let left_out = zones.clone().filter_map(|zone| index.zone(zone).1).max();
            let mut best = left_out.map_or(super::kernel::NEVER, float);
            let mut favourite = None;
            let mut looked = index.zones() as u64;
            let mut look = |place: &Place, best: &mut f64| {
                looked += 1;
                let Some(fee) = self.fee(kind.block, place) else { return };
                let worth = float(place.value) - fee;
                if worth > *best {
                    (*best, favourite) = (worth, Some(place.node));
                }
            };
            kind.block.extra.iter().for_each(|place| look(place, &mut best));
            let skip = &kind.block.skip;
            for zone in zones {
                // The lists are sorted: nothing that follows can be better.
                for place in index.zone(zone).0 {
                    if float(place.value) <= best {
                        break;
                    }
                    if skip.is_empty() || skip.binary_search(&place.node).is_err() {
                        look(place, &mut best);
                    }
                }
            }
            meter.spend(looked / 2 + 1);
            bound += best * kind.count;
            if let Some(node) = favourite {
                self.shares(kind.block, node, |at, share| load[at] += share * kind.count);
            }
        }
        (bound, load)
    }

    /// `None` if the block does not even fit on the empty node.
    fn fee(&self, block: &Block, place: &Place) -> Option<f64> {
        let frame = self.state.frame;
        let demand = block.demand.as_ref()?;
        let capacity = frame.capacity(place.node);
        if capacity.iter().zip(demand).any(|(has, need)| has < need) {
            return None;
        }
        let mut fee = 0.0;
        self.shares(block, place.node, |at, share| fee += share * self.price[at]);
        Some(fee)
    }

    /// The share of each resource of a node that a block takes.
    fn shares(&self, block: &Block, node: NodeRank, mut each: impl FnMut(usize, f64)) {
        let frame = self.state.frame;
        let Some(demand) = &block.demand else { return };
        let first = node.at() * frame.dims;
        for (dim, (need, has)) in demand.iter().zip(frame.capacity(node)).enumerate() {
            if *need > 0 && *has > 0 {
                #[expect(clippy::cast_precision_loss, reason = "a share, for a price")]
                each(first + dim, *need as f64 / *has as f64);
            }
        }
    }

    /// What those who are on a full node gain over the last of their kind is what the node could
    /// ask of them.
    fn first_prices(&mut self) {
        let frame = self.state.frame;
        let mut gain = vec![0.0; frame.nodes];
        let mut weight = vec![0.0; frame.nodes];
        for kind in &self.kinds {
            let index = &frame.indices[kind.block.index as usize];
            for zone in 0..index.zones() {
                let better = index.zone(zone).0.iter();
                for place in better.take_while(|place| place.value > kind.marginal) {
                    let mut most: f64 = 0.0;
                    self.shares(kind.block, place.node, |_, share| most = most.max(share));
                    if most > 0.0 && most <= 1.0 {
                        let node = place.node.at();
                        gain[node] += kind.count * float(place.value - kind.marginal) / most;
                        weight[node] += kind.count;
                    }
                }
            }
        }
        for node in NodeRank::first(frame.nodes) {
            if weight[node.at()] == 0.0 {
                continue;
            }
            let (capacity, left) = (frame.capacity(node), self.state.left(node));
            let used = |dim: usize| match capacity[dim] {
                0 => 0.0,
                #[expect(clippy::cast_precision_loss, reason = "a share, for a price")]
                capacity => 1.0 - left[dim] as f64 / capacity as f64,
            };
            let scarce = (0..frame.dims).max_by(|a, b| used(*a).total_cmp(&used(*b)));
            if let Some(scarce) = scarce.filter(|dim| used(*dim) > 0.5) {
                self.price[node.at() * frame.dims + scarce] = gain[node.at()] / weight[node.at()];
            }
        }
    }

    fn change(&mut self, load: &[f64], step: f64) -> bool {
        // The same subgradient as in `prices`, per share of a whole node instead of per unit.
        let slope = |at: usize| match load[at] > 1.0 || self.price[at] > 0.0 {
            true => load[at] - 1.0,
            false => 0.0,
        };
        let steepness: f64 = (0..load.len()).map(|at| slope(at) * slope(at)).sum();
        if steepness == 0.0 {
            return false;
        }
        let slopes: Vec<f64> = (0..load.len()).map(slope).collect();
        for (price, slope) in self.price.iter_mut().zip(slopes) {
            *price = (*price + step / steepness * slope).max(0.0);
        }
        true
    }
}
