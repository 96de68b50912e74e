//! How good the best answer of a large problem could be. Called by [`select`](super::select())
//! where there are too many blocks to look at all of them at once.
//!
//! Blocks that have to do with each other by network or groups are bounded together, each such set
//! on an empty continuum. The plain ones are bounded by prices for nodes that all of them want. Where
//! that is better, all are bounded by prices, as if distance cost nothing.

use super::crowd::{Crowd, Curve, count};
use super::domain::Domain;
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
    let mut plain = Vec::new();
    let mut sets = Vec::new();
    let mut seen = vec![false; frame.blocks.len()];
    for block in placed {
        if seen[block.at()] {
            continue;
        }
        match frame.blocks[*block].zoned {
            true => sets.push(tied(frame, *block, &mut seen)),
            false => plain.push(*block),
        }
    }
    let now = |of: &[BlockId]| -> f64 {
        let values = of.iter().filter_map(|block| state.at(*block)).map(|place| place.value);
        float(values.sum::<i64>() - state.crowd.total(frame))
    };
    let bound = if sets.len() > 1 {
        // All compete for nodes by prices, and distance costs the least it could; then each set sees distance too, at
        // the prices that were found.
        let mut market = Market::new(state, placed);
        let edges = frame.edges.iter().filter(|edge| state.at(edge.a).is_some());
        let least: i64 = edges.map(|edge| frame.least_price(edge)).sum();
        let far = market.bound(now(placed), meter) - float(least);
        far.min(market.bound_of_sets(&sets, &plain, meter))
    } else {
        // A set alone knows of its own competition.
        let empty = State::new(frame);
        let alone: f64 = sets.iter().map(|set| bound_of_set(&empty, set, meter)).sum();
        alone + Market::new(state, &plain).bound(now(&plain), meter)
    };
    floor(bound + 1e-3).max(state.objective)
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
#[derive(Clone)]
struct Kind<'f> {
    block: &'f Block,
    count: f64,
    /// The least value that one of them has now.
    marginal: i64,
    /// As many nodes as there are blocks, if no two may share one.
    nodes: Option<usize>,
}

/// Blocks that avoid each other, up to which the best nodes for all of them are looked for one by one.
const APART_MAX: usize = 1_024;

#[derive(Clone)]
struct Market<'s, 'f> {
    state: &'s State<'f>,
    kinds: Vec<Kind<'f>>,
    /// For the whole of each node's capacity, `[node * dims + dimension]`.
    price: Vec<f64>,
    /// By node, if load costs anything: its cost, and the price of a thousandth.
    loads: Vec<(Curve, f64)>,
}

/// What all kinds want of the nodes.
struct Wanted {
    /// As [`Market::price`].
    shares: Vec<f64>,
    /// In thousandths, by node.
    load: Vec<f64>,
}

/// The price of a thousandth of load moves by this part of the price of a whole node.
const LOAD_UNIT: f64 = 1_000.0;

fn with_least_price(curve: Curve) -> (Curve, f64) {
    let least = curve.least();
    (curve, least)
}

fn kinds<'f>(state: &State<'f>, blocks: &[BlockId]) -> Vec<Kind<'f>> {
    let frame = state.frame;
    let mut order: Vec<BlockId> = blocks.to_vec();
    let of = |number: &BlockId| &frame.blocks[*number];
    let key = |number: &BlockId| {
        let block = of(number);
        let own = (!block.skip.is_empty()).then_some(*number);
        let demand = block.demand.as_deref();
        (own, block.index, demand, !block.loads.is_empty(), block.apart.as_slice())
    };
    order.sort_by(|a, b| key(a).cmp(&key(b)));
    let mut kinds = Vec::new();
    for same in order.chunk_by(|a, b| key(a) == key(b)) {
        let values = same.iter().filter_map(|number| state.at(*number)).map(|p| p.value);
        let marginal = values.min().unwrap_or(0);
        #[expect(clippy::cast_precision_loss, reason = "items are counted in u32")]
        let count = same.len() as f64;
        // They share all groups, and no two of a group are in one place.
        let is_apart = !of(&same[0]).apart.is_empty() && same.len() <= APART_MAX;
        let nodes = is_apart.then_some(same.len());
        kinds.push(Kind { block: of(&same[0]), count, marginal, nodes });
    }
    kinds
}

impl<'s, 'f> Market<'s, 'f> {
    fn new(state: &'s State<'f>, plain: &[BlockId]) -> Market<'s, 'f> {
        let frame = state.frame;
        let empty = Crowd::new(frame);
        let loads = match plain.iter().any(|number| !frame.blocks[*number].loads.is_empty()) {
            true => NodeRank::first(frame.nodes)
                .map(|node| with_least_price(empty.load_curve(frame, node)))
                .collect(),
            false => Vec::new(),
        };
        Market { state, kinds: kinds(state, plain), price: vec![0.0; frame.capacity.len()], loads }
    }

    /// What each set of blocks that have to do with each other could earn by itself at these prices, what the others
    /// could, and what the nodes do. Sees distance and competition.
    fn bound_of_sets(
        &self,
        sets: &[Vec<BlockId>],
        plain: &[BlockId],
        meter: &mut Meter<'_>,
    ) -> f64 {
        let frame = self.state.frame;
        let worth = |block: &Block, place: &Place| {
            // Rounded up, so that the bound stays one.
            self.fee(block, place).map(|fee| floor(float(place.value) - fee) + 1)
        };
        let mut bound = Market { kinds: kinds(self.state, plain), ..self.clone() }.ask(meter).0;
        for set in sets {
            let domain = |block: &BlockId| Domain::at_prices(frame, *block, &worth, meter);
            let domains: Vec<Domain> = set.iter().map(domain).collect();
            let mut kernel = Kernel::of(frame, set, domains, WIDTH, meter);
            let dual = Dual::at_prices(&mut kernel, ROUNDS, meter);
            bound += dual.bound + dual.slack;
        }
        bound
    }

    /// Prices that come near to what is wanted and what is there, and the least bound on the way, which is theirs.
    fn bound(&mut self, now: f64, meter: &mut Meter<'_>) -> f64 {
        let mut least = self.ask(meter).0;
        let mut best = (self.price.clone(), self.loads.clone());
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
                best = (self.price.clone(), self.loads.clone());
            }
            if stale > 3 {
                step *= 0.5;
                stale = 0;
            }
            if least < now + 1.0 || meter.over() || !self.change(&load, step * (bound - now)) {
                break;
            }
        }
        (self.price, self.loads) = best;
        least + 1e-9 * least.abs()
    }

    /// What all kinds would pay for their best nodes, and how much of each node they want.
    fn ask(&self, meter: &mut Meter<'_>) -> (f64, Wanted) {
        let frame = self.state.frame;
        let mut bound: f64 = self.price.iter().sum();
        bound += self.loads.iter().map(|(curve, price)| curve.earned(*price)).sum::<f64>();
        let mut load = vec![0.0; self.price.len()];
        let mut loads = vec![0.0; self.loads.len()];
        for kind in &self.kinds {
            if let Some(nodes) = kind.nodes {
                let best = self.best_apart(kind, nodes, meter);
                bound += best.iter().map(|(worth, _)| worth).sum::<f64>();
                for (_, node) in best.iter().filter(|(_, node)| *node != NodeRank::NONE) {
                    self.shares(kind.block, *node, |at, share| load[at] += share);
                    if let Some(load) = loads.get_mut(node.at()) {
                        *load += count(frame.share(kind.block, *node));
                    }
                }
                continue;
            }
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
                if let Some(load) = loads.get_mut(node.at()) {
                    *load += count(frame.share(kind.block, node)) * kind.count;
                }
            }
        }
        (bound, Wanted { shares: load, load: loads })
    }

    /// The best nodes for blocks of which no two may share one, and what they are worth. A place that was left out of
    /// the lists stands for as many as are wanted.
    fn best_apart(
        &self,
        kind: &Kind<'_>,
        wanted: usize,
        meter: &mut Meter<'_>,
    ) -> Vec<(f64, NodeRank)> {
        let index = &self.state.frame.indices[kind.block.index as usize];
        let zones = 0..index.zones();
        let left_out = zones.clone().filter_map(|zone| index.zone(zone).1).max();
        // The best come first.
        let mut best: Vec<(f64, NodeRank)> = match left_out {
            Some(left_out) => vec![(float(left_out), NodeRank::NONE); wanted],
            None => Vec::with_capacity(wanted + 1),
        };
        let mut looked = index.zones() as u64;
        let mut look = |place: &Place, best: &mut Vec<(f64, NodeRank)>| {
            looked += 1;
            let Some(fee) = self.fee(kind.block, place) else { return };
            let worth = float(place.value) - fee;
            let at = best.partition_point(|(other, _)| *other >= worth);
            best.insert(at, (worth, place.node));
            best.truncate(wanted);
        };
        kind.block.extra.iter().for_each(|place| look(place, &mut best));
        let skip = &kind.block.skip;
        for zone in zones {
            for place in index.zone(zone).0 {
                let is_full = best.len() == wanted;
                if is_full && best.last().is_some_and(|(worst, _)| float(place.value) <= *worst) {
                    break;
                }
                if skip.is_empty() || skip.binary_search(&place.node).is_err() {
                    look(place, &mut best);
                }
            }
        }
        meter.spend(looked + 1);
        best
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
        if let Some((_, price)) = self.loads.get(place.node.at()).filter(|(_, price)| *price > 0.0)
        {
            fee += price * count(frame.share(block, place.node));
        }
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

    fn change(&mut self, wanted: &Wanted, step: f64) -> bool {
        let load = &wanted.shares;
        // The same subgradient as in `prices`, per share of a whole node instead of per unit.
        let slope = |at: usize| match load[at] > 1.0 || self.price[at] > 0.0 {
            true => load[at] - 1.0,
            false => 0.0,
        };
        let bent = |((curve, price), load): (&(Curve, f64), &f64)| {
            (load - load.clamp(curve.offered_below(*price), curve.offered(*price))) / LOAD_UNIT
        };
        let bent: Vec<f64> = self.loads.iter().zip(&wanted.load).map(bent).collect();
        let steepness: f64 = (0..load.len()).map(|at| slope(at) * slope(at)).sum();
        let steepness = steepness + bent.iter().map(|slope| slope * slope).sum::<f64>();
        if steepness == 0.0 {
            return false;
        }
        let slopes: Vec<f64> = (0..load.len()).map(slope).collect();
        for (price, slope) in self.price.iter_mut().zip(slopes) {
            *price = (*price + step / steepness * slope).max(0.0);
        }
        for ((curve, price), slope) in self.loads.iter_mut().zip(bent) {
            let after = *price + step / steepness * slope / LOAD_UNIT;
            *price = after.clamp(curve.least(), curve.most());
        }
        true
    }
}
