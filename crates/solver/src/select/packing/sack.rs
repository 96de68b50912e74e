//! What one node would take at the prices of the blocks: a knapsack, small enough to be filled
//! exactly. Used by [`packing`](super).

use super::super::kernel::float;
use crate::problem::Load;

/// A search through the sets of one node ends after this many steps; what it gains is then
/// bounded, and the set is the best that was seen.
const STEPS_MAX: u32 = 4_000;

/// Nodes, blocks, and what is left of the nodes.
pub(super) struct Sacks {
    pub blocks: usize,
    pub nodes: usize,
    dims: usize,
    /// `[node * blocks + block]`
    values: Vec<f64>,
    /// By node: the blocks that may be there.
    pub candidates: Vec<u64>,
    /// By node: blocks that must not be with those that were seated there.
    barred: Vec<u64>,
    /// `[node * dims + dimension]`
    left: Vec<u64>,
    /// `[block * dims + dimension]`
    demand: Vec<u64>,
    /// By block: those that it must not share a node with.
    pub apart: Vec<u64>,
    /// By block.
    pub price: Vec<f64>,
    /// What blocks on one node cost.
    crowd: Option<SackCrowd>,
    /// By block: the first of those that differ in name alone.
    twins: Vec<usize>,
    /// Work done since it was asked for last.
    steps: u32,
    list: Vec<Offer>,
}

#[derive(Clone, Copy)]
struct Offer {
    block: usize,
    gain: f64,
    /// Of the resource that is shortest; nothing where there are no resources.
    need: u64,
    /// What it gains for its size.
    ratio: f64,
    /// What it costs beside those that are seated, which `gain` has taken off.
    alone: f64,
}

/// A set of blocks for a node.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Take {
    pub set: u64,
    /// Their values less their prices, and less what they cost beside those that are seated.
    pub gain: f64,
}

/// The blocks of a set.
pub(super) fn blocks_of(mut set: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let block = (set != 0).then(|| set.trailing_zeros() as usize)?;
        set &= set - 1;
        Some(block)
    })
}

impl Sacks {
    pub(super) fn new(nodes: usize, demand: Vec<u64>, left: Vec<u64>, apart: Vec<u64>) -> Sacks {
        let (blocks, dims) = (apart.len(), left.len() / nodes.max(1));
        Sacks {
            blocks,
            nodes,
            dims,
            values: vec![0.0; nodes * blocks],
            candidates: vec![0; nodes],
            barred: vec![0; nodes],
            left,
            demand,
            apart,
            price: vec![0.0; blocks],
            crowd: None,
            twins: (0..blocks).collect(),
            steps: 0,
            list: Vec::with_capacity(blocks),
        }
    }

    /// With what blocks on one node cost, and which of them differ in name alone.
    pub(super) fn crowded(self, crowd: Option<SackCrowd>, twins: Vec<usize>) -> Sacks {
        Sacks { crowd, twins, ..self }
    }

    pub(super) fn admit(&mut self, node: usize, block: usize, value: f64) {
        self.values[node * self.blocks + block] = value;
        self.candidates[node] |= 1 << block;
    }

    pub(super) fn value(&self, node: usize, block: usize) -> f64 {
        self.values[node * self.blocks + block]
    }

    /// What a block costs on a node beside those that are there.
    pub(super) fn cost(&self, node: usize, block: usize) -> f64 {
        self.crowd.as_ref().map_or(0.0, |crowd| crowd.cost(node, block))
    }

    /// What a block that was seated last costs.
    pub(super) fn cost_of_last(&mut self, node: usize, block: usize) -> f64 {
        let Some(crowd) = &mut self.crowd else { return 0.0 };
        crowd.remove(node, block);
        let cost = crowd.cost(node, block);
        crowd.add(node, block);
        cost
    }

    /// What a set is worth on a node beside those that are seated.
    pub(super) fn worth(&mut self, node: usize, set: u64) -> f64 {
        let values: f64 = blocks_of(set).map(|block| self.value(node, block)).sum();
        let Some(crowd) = &mut self.crowd else { return values };
        let mut costs = 0.0;
        for block in blocks_of(set) {
            costs += crowd.cost(node, block);
            crowd.add(node, block);
        }
        blocks_of(set).for_each(|block| crowd.remove(node, block));
        values - costs
    }

    /// The work since the last time.
    pub(super) fn work(&mut self) -> u64 {
        u64::from(std::mem::take(&mut self.steps))
    }

    /// Whether the block may go there beside those that are seated.
    pub(super) fn admits(&self, node: usize, block: usize) -> bool {
        self.candidates[node] & !self.barred[node] & (1 << block) != 0 && self.has_room(node, block)
    }

    fn has_room(&self, node: usize, block: usize) -> bool {
        let left = &self.left[node * self.dims..][..self.dims];
        left.iter().zip(&self.demand[block * self.dims..]).all(|(left, demand)| left >= demand)
    }

    /// Puts a block on a node that admits it. Returns what [`Sacks::unseat`] needs.
    pub(super) fn seat(&mut self, node: usize, block: usize) -> u64 {
        self.load(node, block);
        let barred = self.barred[node];
        self.barred[node] |= self.apart[block];
        barred
    }

    pub(super) fn unseat(&mut self, node: usize, block: usize, barred: u64) {
        self.unload(node, block);
        self.barred[node] = barred;
    }

    fn load(&mut self, node: usize, block: usize) {
        let left = &mut self.left[node * self.dims..][..self.dims];
        for (left, demand) in left.iter_mut().zip(&self.demand[block * self.dims..]) {
            *left -= demand;
        }
        if let Some(crowd) = &mut self.crowd {
            crowd.add(node, block);
        }
    }

    fn unload(&mut self, node: usize, block: usize) {
        let left = &mut self.left[node * self.dims..][..self.dims];
        for (left, demand) in left.iter_mut().zip(&self.demand[block * self.dims..]) {
            *left += demand;
        }
        if let Some(crowd) = &mut self.crowd {
            crowd.remove(node, block);
        }
    }

    /// The best set of open blocks for a node.
    pub(super) fn best(&mut self, node: usize, open: u64) -> Take {
        let mut list = std::mem::take(&mut self.list);
        list.clear();
        let mut all = Take::default();
        let mut apart = 0;
        for block in blocks_of(self.candidates[node] & open & !self.barred[node]) {
            let alone = self.cost(node, block);
            let gain = self.value(node, block) - self.price[block] - alone;
            if gain > 0.0 && self.has_room(node, block) {
                list.push(Offer { block, gain, need: 0, ratio: 0.0, alone });
                apart |= self.apart[block];
                all.set |= 1 << block;
                all.gain += gain;
            }
        }
        self.steps += 1;
        let take = match list.len() < 2 || self.go_together(node, &list, apart & all.set != 0) {
            true => all,
            false => self.fill(node, &mut list),
        };
        self.list = list;
        take
    }

    /// Whether nothing keeps all of the list from being there, and they cost no more than each alone.
    fn go_together(&mut self, node: usize, list: &[Offer], are_apart: bool) -> bool {
        if are_apart || !self.has_room_for_all(node, list) {
            return false;
        }
        let Some(crowd) = &mut self.crowd else { return true };
        let mut dearer = 0.0;
        for offer in list {
            dearer += crowd.cost(node, offer.block) - offer.alone;
            crowd.add(node, offer.block);
        }
        list.iter().for_each(|offer| crowd.remove(node, offer.block));
        dearer < 0.5
    }

    fn has_room_for_all(&self, node: usize, list: &[Offer]) -> bool {
        (0..self.dims)
            .all(|dim| self.wanted(list, dim) <= u128::from(self.left[node * self.dims + dim]))
    }

    fn wanted(&self, list: &[Offer], dim: usize) -> u128 {
        list.iter().map(|offer| u128::from(self.demand[offer.block * self.dims + dim])).sum()
    }

    fn fill(&mut self, node: usize, list: &mut [Offer]) -> Take {
        let share = |dim: &usize| {
            let left = self.left[node * self.dims + dim];
            if left == 0 { 0.0 } else { wide(self.wanted(list, *dim)) / amount(left) }
        };
        let shares: Vec<f64> = (0..self.dims).map(|dim| share(&dim)).collect();
        // A bound for several dimensions at once would be a knapsack of its own; Dantzig's bound
        // over the scarcest one is valid, because the others only take sets away.
        let shortest = (0..self.dims).max_by(|a, b| shares[*a].total_cmp(&shares[*b]));
        for offer in list.iter_mut() {
            offer.need = shortest.map_or(0, |dim| self.demand[offer.block * self.dims + dim]);
            offer.ratio = offer.gain / amount(offer.need);
        }
        let twins = &self.twins;
        list.sort_unstable_by(|a, b| {
            let ratio = b.ratio.total_cmp(&a.ratio);
            ratio.then(twins[a.block].cmp(&twins[b.block])).then(a.block.cmp(&b.block))
        });
        let room = shortest.map_or(0, |dim| self.left[node * self.dims + dim]);
        let ceiling = ceiling(list, room);
        let mut filling = Filling { best: Take::default(), steps: 0 };
        self.add(node, list, room, (Take::default(), 0), &mut filling);
        self.steps += filling.steps;
        // An unfinished knapsack is worth its Dantzig bound, or the sum would not be a bound.
        if filling.steps >= STEPS_MAX {
            filling.best.gain = ceiling;
        }
        filling.best
    }

    /// Tries the rest of the list with and without each.
    fn add(
        &mut self,
        node: usize,
        list: &[Offer],
        room: u64,
        (so_far, barred): (Take, u64),
        filling: &mut Filling,
    ) {
        filling.steps += 1;
        if so_far.gain > filling.best.gain {
            filling.best = so_far;
        }
        let Some((first, rest)) = list.split_first() else { return };
        // Branch and bound: even with divisible blocks the rest cannot catch up.
        let most = ceiling(list, room).min(self.most(node, list));
        if filling.steps >= STEPS_MAX || so_far.gain + most <= filling.best.gain {
            return;
        }
        let dearer = self.cost(node, first.block) - first.alone;
        if barred & (1 << first.block) == 0 && self.has_room(node, first.block) {
            self.load(node, first.block);
            let gain = so_far.gain + first.gain - dearer;
            let take = Take { set: so_far.set | 1 << first.block, gain };
            let barred = barred | self.apart[first.block];
            self.add(node, rest, room - first.need, (take, barred), filling);
            self.unload(node, first.block);
        }
        // Without the first, its twins need not be tried either.
        let is_twin = |other: &&Offer| {
            self.twins[other.block] == self.twins[first.block] && other.gain == first.gain
        };
        let rest = &rest[rest.iter().take_while(is_twin).count()..];
        self.add(node, rest, room, (so_far, barred), filling);
    }

    /// What the list could gain if all of it had room, each beside those that are there already.
    fn most(&self, node: usize, list: &[Offer]) -> f64 {
        if self.crowd.is_none() {
            return f64::INFINITY;
        }
        let gain = |offer: &Offer| offer.gain - (self.cost(node, offer.block) - offer.alone);
        list.iter().map(gain).filter(|gain| *gain > 0.0).sum()
    }
}

/// What blocks on one node cost, as [`Crowd`](super::super::crowd::Crowd) knows it, in the numbers of a sack.
pub(super) struct SackCrowd {
    pub blocks: usize,
    pub problem_load: Load,
    /// By node, with what is seated.
    pub load: Vec<u64>,
    /// `[node * blocks + block]`
    pub share: Vec<u64>,
    /// By block.
    pub groups: Vec<Vec<usize>>,
    pub group_cost: Vec<i64>,
    /// `[node * groups + group]`
    pub there: Vec<i64>,
}

impl SackCrowd {
    fn cost(&self, node: usize, block: usize) -> f64 {
        let share = self.share[node * self.blocks + block];
        let now = self.load[node];
        let load = match share {
            0 => 0,
            _ => self.problem_load.cost(now + share) - self.problem_load.cost(now),
        };
        let there = &self.there[node * self.group_cost.len()..];
        let groups = self.groups[block].iter().map(|group| self.group_cost[*group] * there[*group]);
        float(load + groups.sum::<i64>())
    }

    fn add(&mut self, node: usize, block: usize) {
        self.load[node] += self.share[node * self.blocks + block];
        let first = node * self.group_cost.len();
        self.groups[block].iter().for_each(|group| self.there[first + group] += 1);
    }

    fn remove(&mut self, node: usize, block: usize) {
        self.load[node] -= self.share[node * self.blocks + block];
        let first = node * self.group_cost.len();
        self.groups[block].iter().for_each(|group| self.there[first + group] -= 1);
    }
}

struct Filling {
    best: Take,
    steps: u32,
}

/// What the list could gain if blocks could be divided.
fn ceiling(list: &[Offer], mut room: u64) -> f64 {
    let mut gain = 0.0;
    for offer in list {
        if offer.need > room {
            return gain + offer.gain * amount(room) / amount(offer.need);
        }
        room -= offer.need;
        gain += offer.gain;
    }
    gain
}

#[expect(clippy::cast_precision_loss, reason = "a share of a node, to sort by and to bound")]
fn amount(value: u64) -> f64 {
    value as f64
}

#[expect(clippy::cast_precision_loss, reason = "a share of a node, to sort by")]
fn wide(value: u128) -> f64 {
    value as f64
}
