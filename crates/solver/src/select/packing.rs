//! Branch and bound for blocks that have nothing to do with each other but that they want the same
//! nodes: no network, no engine in common. Called by [`exactly`](super::improve::exactly) instead of
//! [`branch`](super::branch), whose prices for the resources of a node do not see that a block cannot
//! be divided.
//!
//! Here it is the blocks that have a price, and every node takes the best set of blocks that fits on
//! it at these prices. What the nodes gain and all prices together are a bound, whatever the prices
//! are; where every block is taken exactly once, it is the best answer. Start reading at [`search`].

mod sack;

use super::branch::{Aim, Found};
use super::domain::Domain;
use super::ids::{NodeRank, ZoneRank};
use super::kernel::{Kernel, NEVER, dead, float};
use super::meter::Meter;
use super::state::State;
use crate::problem::Scope;
use sack::{SackCrowd, Sacks, Take, blocks_of};

/// A set of blocks is a number with a bit for each.
const BLOCKS_MAX: usize = 64;
/// Rounds of prices before the search, and once more after places have been struck out.
const ROUNDS: usize = 100;
/// More than all rounding of sums together.
const SLACK: f64 = 1e-3;

/// Whether the kernel is one of those that this search is made for.
pub(super) fn suits(kernel: &Kernel, state: &State<'_>) -> bool {
    let whole = |domain: &Domain| {
        domain.unseen.is_none()
            && domain.spans.iter().all(|span| span.zone == ZoneRank::ANYWHERE && dead(span.more))
    };
    kernel.blocks.len() <= BLOCKS_MAX
        && kernel.pairs.is_empty()
        && kernel.blocks.iter().all(|number| state.frame.blocks[*number].plain())
        // A sack counts one item for a block.
        && kernel.blocks.iter().all(|number| {
            state.frame.blocks[*number].scatter.iter().all(|(_, weight)| *weight == 1)
        })
        && kernel.domains.iter().all(whole)
}

/// The best places for the blocks of the kernel, if they beat the floor. The state is only read.
pub(super) fn search(kernel: &Kernel, state: &State<'_>, aim: Aim, meter: &mut Meter<'_>) -> Found {
    let mut nodes: Vec<NodeRank> =
        kernel.domains.iter().flat_map(|domain| domain.places.iter().map(|p| p.node)).collect();
    nodes.sort_unstable();
    nodes.dedup();
    let sacks = sacks(kernel, state, &nodes);
    let blocks = kernel.blocks.len();
    let mut twin_after = vec![None; blocks];
    for (block, domain) in kernel.domains.iter().enumerate() {
        if let Some(twin) = domain.twin {
            twin_after[twin] = Some(block);
        }
    }
    let level = Level {
        open: u64::MAX >> (BLOCKS_MAX - blocks),
        settled: float(state.objective),
        takes: vec![Take::default(); nodes.len()],
        at: vec![None; blocks],
    };
    let twin_before = kernel.domains.iter().map(|domain| domain.twin).collect();
    let (best, open, ended) = (None, NEVER, false);
    let mut search = Search { sacks, meter, aim, best, open, ended, twin_before, twin_after };
    search.run(level);
    let place = |(block, node): (usize, &usize)| {
        let there = kernel.domains[block].places.iter().find(|place| place.node == nodes[*node]);
        *there.expect("an answer is made of places")
    };
    let places = search.best.map(|best| best.iter().enumerate().map(place).collect());
    Found { places, open: search.open + SLACK }
}

fn sacks(kernel: &Kernel, state: &State<'_>, nodes: &[NodeRank]) -> Sacks {
    let frame = state.frame;
    let blocks: Vec<_> = kernel.blocks.iter().map(|number| &frame.blocks[*number]).collect();
    let demand = blocks.iter().flat_map(|block| match &block.demand {
        Some(demand) => demand.to_vec(),
        // It has no place then, and there would be no kernel.
        None => vec![u64::MAX; frame.dims],
    });
    let left = nodes.iter().flat_map(|node| state.left(*node)).copied();
    let apart = blocks.iter().enumerate().map(|(block, own)| {
        let shared = |other: &&super::frame::Block| {
            let mut groups = own.apart.iter().filter(|group| other.apart.contains(group));
            groups.any(|group| frame.apart[*group as usize].scope == Scope::Node)
        };
        let others = blocks.iter().enumerate().filter(|(other, _)| *other != block);
        others.filter(|(_, other)| shared(other)).fold(0, |set, (other, _)| set | 1u64 << other)
    });
    let mut sacks = Sacks::new(nodes.len(), demand.collect(), left.collect(), apart.collect());
    let mut twins: Vec<usize> = (0..blocks.len()).collect();
    for (block, domain) in kernel.domains.iter().enumerate() {
        twins[block] = domain.twin.map_or(block, |twin| twins[twin]);
    }
    sacks = sacks.crowded(crowd(kernel, state, nodes), twins);
    for (block, domain) in kernel.domains.iter().enumerate() {
        for place in &domain.places {
            let node = nodes.binary_search(&place.node).expect("it is made of all places");
            sacks.admit(node, block, float(place.value));
        }
    }
    sacks
}

fn crowd(kernel: &Kernel, state: &State<'_>, nodes: &[NodeRank]) -> Option<SackCrowd> {
    let frame = state.frame;
    if !kernel.blocks.iter().any(|number| frame.is_crowded(*number)) {
        return None;
    }
    let blocks = || kernel.blocks.iter().map(|number| &frame.blocks[*number]);
    let mut groups: Vec<u32> = blocks().flat_map(|b| b.scatter.iter().map(|(g, _)| *g)).collect();
    groups.sort_unstable();
    groups.dedup();
    let local = |(group, _): &(u32, i64)| {
        groups.binary_search(group).expect("it is made of the groups of all blocks")
    };
    let share = |node: &NodeRank| {
        let node = *node;
        blocks().map(move |block| frame.share(block, node))
    };
    let there = nodes.iter().flat_map(|node| groups.iter().map(|g| state.crowd.there(*g, *node)));
    Some(SackCrowd {
        blocks: kernel.blocks.len(),
        problem_load: frame.problem.load.costs_alone(),
        load: nodes.iter().map(|node| state.crowd.load(*node)).collect(),
        share: nodes.iter().flat_map(share).collect(),
        groups: blocks().map(|block| block.scatter.iter().map(local).collect()).collect(),
        group_cost: groups.iter().map(|group| frame.scatter_cost[*group as usize]).collect(),
        there: there.collect(),
    })
}

/// What is settled, and what the nodes make of the rest.
#[derive(Clone)]
struct Level {
    /// The blocks that have no node yet.
    open: u64,
    /// The value of the others.
    settled: f64,
    /// By node.
    takes: Vec<Take>,
    /// By block.
    at: Vec<Option<usize>>,
}

/// A node for a block, and how good an answer with it could be.
#[derive(Clone, Copy)]
struct Offer {
    bound: f64,
    node: usize,
}

struct Search<'a, 'l> {
    sacks: Sacks,
    meter: &'a mut Meter<'l>,
    aim: Aim,
    best: Option<Vec<usize>>,
    open: f64,
    ended: bool,
    /// By block: the one before and the one after it that it could change places with.
    twin_before: Vec<Option<usize>>,
    twin_after: Vec<Option<usize>>,
}

impl Search<'_, '_> {
    fn run(&mut self, mut root: Level) {
        for block in 0..self.sacks.blocks {
            // To begin with, what a block has at its third choice is what it is worth anyway.
            let mut values: Vec<f64> = (0..self.sacks.nodes)
                .filter(|node| self.sacks.candidates[*node] & 1 << block != 0)
                .map(|node| self.sacks.value(node, block) - self.sacks.cost(node, block))
                .collect();
            values.sort_unstable_by(|a, b| b.total_cmp(a));
            self.sacks.price[block] = values.get(2).or(values.last()).copied().unwrap_or(0.0);
        }
        // Twice: places that were struck out make the knapsacks smaller, and with them the second
        // bound.
        for _ in 0..2 {
            self.find_prices(&mut root);
            if !self.worth_a_look(self.bound(&root)) || !self.strike_out(&root) {
                break;
            }
            self.ask_all(&mut root);
        }
        self.descend(&root);
    }

    fn bound(&self, level: &Level) -> f64 {
        let prices = blocks_of(level.open).map(|block| self.sacks.price[block]).sum::<f64>();
        level.settled + prices + level.takes.iter().map(|take| take.gain).sum::<f64>()
    }

    /// Objectives are whole numbers, so anything less than one more is no more.
    fn worth_a_look(&self, bound: f64) -> bool {
        self.aim.floor.is_none_or(|floor| bound + SLACK >= float(floor) + 1.0)
    }

    fn ask_all(&mut self, level: &mut Level) {
        for (node, take) in level.takes.iter_mut().enumerate() {
            *take = self.sacks.best(node, level.open);
        }
        let work = self.sacks.work();
        self.meter.spend(work);
    }

    /// Makes blocks cheaper that no node takes, and dearer where several do, as long as the bound
    /// comes down. Leaves the best prices, and what the nodes take at them.
    fn find_prices(&mut self, level: &mut Level) {
        let goal = self.aim.floor.map_or(0.0, float);
        let mut best: Option<(f64, Vec<f64>)> = None;
        let (mut step, mut stale) = (1.0, 0);
        for _ in 0..ROUNDS {
            self.ask_all(level);
            let bound = self.bound(level);
            match &best {
                Some((least, _)) if *least <= bound => stale += 1,
                _ => {
                    best = Some((bound, self.sacks.price.clone()));
                    stale = 0;
                }
            }
            // Subgradient method on the prices of the blocks, as in `prices`, here for the relaxed
            // constraint that each block is taken exactly once.
            let slopes = slopes(level, self.sacks.blocks);
            let steepness: f64 = slopes.iter().map(|slope| slope * slope).sum();
            if steepness == 0.0 || !self.worth_a_look(bound) || self.meter.over() {
                break;
            }
            if stale > 3 {
                (step, stale) = (step * 0.5, 0);
            }
            let length = step * (bound - goal).max(1.0) / steepness;
            for (price, slope) in self.sacks.price.iter_mut().zip(&slopes) {
                *price -= length * slope;
            }
        }
        if let Some((_, price)) = best {
            self.sacks.price = price;
        }
        self.ask_all(level);
    }

    /// Takes away the places that cannot be in a better answer. Returns whether there were any.
    fn strike_out(&mut self, root: &Level) -> bool {
        let bound = self.bound(root);
        let mut any = false;
        for block in 0..self.sacks.blocks {
            let kept = self.offers(root, block, bound);
            for node in 0..self.sacks.nodes {
                let there = self.sacks.candidates[node] & 1 << block != 0;
                if there && !kept.iter().any(|offer| offer.node == node) {
                    self.sacks.candidates[node] &= !(1 << block);
                    any = true;
                }
            }
        }
        any
    }

    /// The nodes for a block that could be in a better answer.
    fn offers(&mut self, level: &Level, block: usize, bound: f64) -> Vec<Offer> {
        let bit = 1u64 << block;
        let open = level.open & !bit;
        // The bound without this block: its price goes, and the nodes that took it choose again.
        let mut rest = bound - self.sacks.price[block];
        let mut without: Vec<(usize, f64)> = Vec::new();
        for (node, take) in level.takes.iter().enumerate().filter(|(_, take)| take.set & bit != 0) {
            let gain = self.sacks.best(node, open).gain;
            rest -= take.gain - gain;
            without.push((node, gain));
        }
        let at_least = self.twin_before[block].and_then(|twin| level.at[twin]).unwrap_or(0);
        let at_most = self.twin_after[block].and_then(|twin| level.at[twin]);
        let mut offers = Vec::new();
        for node in at_least..=at_most.unwrap_or(self.sacks.nodes - 1) {
            if !self.sacks.admits(node, block) {
                continue;
            }
            let value = self.sacks.value(node, block) - self.sacks.cost(node, block);
            // Reduced-cost fixing in two steps: first the cheap test, then the one that fills the
            // node anew.
            if !self.worth_a_look(rest + value) {
                continue;
            }
            let before = without.iter().find(|(other, _)| *other == node);
            let before = before.map_or(level.takes[node].gain, |(_, gain)| *gain);
            // The node with the block on it fills the rest of itself as well as it can.
            let barred = self.sacks.seat(node, block);
            let after = self.sacks.best(node, open).gain;
            self.sacks.unseat(node, block, barred);
            let bound = rest + value - before + after;
            if self.worth_a_look(bound) {
                offers.push(Offer { bound, node });
            }
        }
        let work = self.sacks.work();
        self.meter.spend(work);
        offers
    }

    fn descend(&mut self, level: &Level) {
        let bound = self.bound(level);
        if !self.worth_a_look(bound) {
            return;
        }
        if self.ended || self.meter.over() || self.meter.spent >= self.aim.until {
            self.ended = true;
            self.open = self.open.max(bound);
            return;
        }
        // A block that no node takes, or several do, is what keeps the relaxation from being an
        // answer.
        let (mut once, mut twice) = (0, 0);
        for take in &level.takes {
            twice |= once & take.set;
            once |= take.set;
        }
        let unsettled = level.open & (!once | twice);
        if unsettled == 0 {
            self.take_answer(level, bound);
            return;
        }
        // The block with the fewest places to go is decided next.
        let mut choice: Option<(usize, Vec<Offer>)> = None;
        for block in blocks_of(unsettled) {
            let offers = self.offers(level, block, bound);
            if choice.as_ref().is_none_or(|(_, fewest)| offers.len() < fewest.len()) {
                choice = Some((block, offers));
            }
        }
        let Some((block, mut offers)) = choice else { return };
        offers.sort_unstable_by(|a, b| b.bound.total_cmp(&a.bound).then(a.node.cmp(&b.node)));
        for offer in offers {
            let barred = self.sacks.seat(offer.node, block);
            let below = self.below(level, block, offer.node);
            self.descend(&below);
            self.sacks.unseat(offer.node, block, barred);
        }
    }

    /// The level after a block was seated.
    fn below(&mut self, level: &Level, block: usize, at: usize) -> Level {
        let mut below = level.clone();
        below.open &= !(1 << block);
        below.settled += self.sacks.value(at, block) - self.sacks.cost_of_last(at, block);
        below.at[block] = Some(at);
        for (node, take) in below.takes.iter_mut().enumerate() {
            if node == at || take.set & 1 << block != 0 {
                *take = self.sacks.best(node, below.open);
            }
        }
        below
    }

    /// Every open block is taken once: nothing in this part of the search is better, unless the
    /// gain of a node is only bounded.
    fn take_answer(&mut self, level: &Level, bound: f64) {
        let mut places: Vec<usize> = level.at.iter().map(|at| at.unwrap_or(0)).collect();
        let mut objective = level.settled;
        for (node, take) in level.takes.iter().enumerate() {
            blocks_of(take.set).for_each(|block| places[block] = node);
            objective += self.sacks.worth(node, take.set);
        }
        let objective = super::improve::floor(objective + 0.5);
        if self.aim.floor.is_none_or(|floor| objective > floor) {
            self.aim.floor = Some(objective);
            self.best = Some(places);
        }
        if self.worth_a_look(bound) {
            self.open = self.open.max(bound);
        }
    }
}

/// How the bound changes with the price of each block: by one less for each node that takes it.
fn slopes(level: &Level, blocks: usize) -> Vec<f64> {
    let mut slopes = vec![0.0; blocks];
    for block in blocks_of(level.open) {
        slopes[block] = 1.0;
    }
    for take in &level.takes {
        for block in blocks_of(take.set) {
            slopes[block] -= 1.0;
        }
    }
    slopes
}
