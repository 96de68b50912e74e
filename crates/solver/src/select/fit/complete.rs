//! Bin completion (Korf 2002; Fukunaga and Korf 2007): node after node is filled with a set of blocks,
//! and where no set of the first node leads to an answer, there is none.
//!
//! Two things keep the sets few. Dominance: a set to which a block could be added need not be
//! tried, because from any answer that has it that block can be moved here. And waste: what a set leaves
//! unused is taken from what all nodes together may leave unused, so the tighter the packing, the
//! fewer sets there are. What is missing after some nodes and has failed once is not tried again.

use std::collections::BTreeSet;

use super::super::meter::{Dice, Meter};
use super::kinds::Kinds;

/// Sets of one node that are tried; where there are more, nothing is proven.
const SETS_MAX: usize = 4_000;
/// States that are known to lead nowhere; some MB.
const FAILED_MAX: usize = 200_000;
/// Work of one descent; then it starts again with the sets in another order, and does not look again
/// at what is known to fail.
const DESCENT: u64 = 20_000;

pub(super) enum End {
    /// By kind: the nodes of its members.
    Found(Vec<Vec<usize>>),
    /// There is no answer.
    Nothing,
    Stopped,
}

pub(super) struct Search {
    /// The nodes in the order in which they are filled: those with the fewest sets first.
    order: Vec<usize>,
    /// How many of each kind have no node.
    missing: Vec<u16>,
    /// By depth: how many were missing when it failed.
    failed: BTreeSet<(u16, Box<[u16]>)>,
    /// By depth and dimension: what is left of the nodes from there on.
    room: Vec<Vec<u128>>,
    /// By kind: the last depth at which a node admits it.
    last: Vec<usize>,
    /// Kinds, the largest first.
    kinds: Vec<usize>,
    /// By depth, what was put there.
    sets: Vec<Vec<u16>>,
    /// Some sets were left out.
    cut: bool,
    descents: u32,
}

impl Search {
    pub(super) fn new(kinds: &Kinds) -> Search {
        let mut order: Vec<usize> = (0..kinds.nodes()).collect();
        let sum = |node: &usize| {
            let left = &kinds.left[node * kinds.dims..][..kinds.dims];
            left.iter().fold(0u64, |sum, left| sum.saturating_add(*left))
        };
        // Small nodes first: they have the fewest maximal sets, so that a dead end shows near the
        // root.
        order.sort_by_key(|node| (sum(node), *node));
        let mut by_size: Vec<usize> = (0..kinds.kinds.len()).collect();
        by_size.sort_by_key(|kind| (std::cmp::Reverse(kinds.kinds[*kind].size), *kind));
        let mut room = vec![vec![0u128; kinds.dims]; order.len() + 1];
        for depth in (0..order.len()).rev() {
            let left = &kinds.left[order[depth] * kinds.dims..][..kinds.dims];
            let sums = room[depth + 1].iter().zip(left).map(|(sum, left)| sum + u128::from(*left));
            room[depth] = sums.collect();
        }
        let last =
            |kind: usize| order.iter().rposition(|node| kinds.admits(*node, kind)).unwrap_or(0);
        Search {
            last: (0..kinds.kinds.len()).map(last).collect(),
            missing: (0..kinds.kinds.len())
                .map(|kind| u16::try_from(kinds.count(kind)).unwrap_or(u16::MAX))
                .collect(),
            failed: BTreeSet::new(),
            room,
            kinds: by_size,
            sets: vec![Vec::new(); order.len()],
            cut: false,
            order,
            descents: 0,
        }
    }

    pub(super) fn run(
        &mut self,
        kinds: &Kinds,
        until: u64,
        dice: &mut Dice,
        meter: &mut Meter<'_>,
    ) -> End {
        while !meter.over() && meter.spent < until {
            // Geometric restarts: an unlucky order at the root costs little, and the limit doubles
            // until the search ends.
            let stop = meter.spent.saturating_add(DESCENT << self.descents.min(10)).min(until);
            self.descents += 1;
            let mut descent = Descent { kinds, stop, dice, meter, search: self, stopped: false };
            if descent.go(0) {
                return End::Found(self.answer());
            }
            if !descent.stopped {
                // Every set of every node was tried, or left out for one that dominates it: a
                // proof.
                return if self.cut { End::Stopped } else { End::Nothing };
            }
        }
        End::Stopped
    }

    fn answer(&self) -> Vec<Vec<usize>> {
        let mut at = vec![Vec::new(); self.missing.len()];
        for (node, set) in self.order.iter().zip(&self.sets) {
            for (kind, many) in set.iter().enumerate() {
                at[kind].extend(std::iter::repeat_n(*node, usize::from(*many)));
            }
        }
        at
    }
}

struct Descent<'a, 'l> {
    kinds: &'a Kinds,
    search: &'a mut Search,
    stop: u64,
    dice: &'a mut Dice,
    meter: &'a mut Meter<'l>,
    stopped: bool,
}

/// A set for one node.
struct Filling {
    /// What is left of the node, as a share: less is better.
    unused: u64,
    blocks: usize,
    luck: u64,
    set: Vec<u16>,
}

impl Descent<'_, '_> {
    /// Whether all that is missing finds a place on the nodes from `depth` on.
    fn go(&mut self, depth: usize) -> bool {
        if self.search.missing.iter().all(|missing| *missing == 0) {
            self.search.sets[depth..].iter_mut().for_each(Vec::clear);
            return true;
        }
        if depth == self.search.order.len() || !self.hopeful(depth) {
            return false;
        }
        // Nogoods: the nodes so far matter only by what they leave missing.
        let key = (u16::try_from(depth).unwrap_or(u16::MAX), self.search.missing.clone().into());
        if self.search.failed.contains(&key) {
            return false;
        }
        if self.meter.over() || self.meter.spent >= self.stop {
            self.stopped = true;
            return false;
        }
        for filling in self.fillings(depth) {
            for (missing, many) in self.search.missing.iter_mut().zip(&filling.set) {
                *missing -= many;
            }
            let found = self.go(depth + 1);
            for (missing, many) in self.search.missing.iter_mut().zip(&filling.set) {
                *missing += many;
            }
            if found {
                self.search.sets[depth] = filling.set;
                return true;
            }
            if self.stopped {
                return false;
            }
        }
        if self.search.failed.len() < FAILED_MAX {
            self.search.failed.insert(key);
        }
        false
    }

    /// Whether nobody is left behind by the nodes so far, and there is enough of everything.
    fn hopeful(&mut self, depth: usize) -> bool {
        self.meter.spend(self.search.missing.len() as u64 / 4 + 2);
        let missing = self.search.missing.iter().enumerate().filter(|(_, missing)| **missing > 0);
        let mut needed = vec![0u128; self.kinds.dims];
        for (kind, missing) in missing {
            if self.search.last[kind] < depth {
                return false;
            }
            for (needed, demand) in needed.iter_mut().zip(&self.kinds.kinds[kind].demand) {
                *needed += u128::from(*demand) * u128::from(*missing);
            }
        }
        needed.iter().zip(&self.search.room[depth]).all(|(needed, room)| needed <= room)
    }

    /// The sets to which none of the missing can be added, the fullest first.
    fn fillings(&mut self, depth: usize) -> Vec<Filling> {
        let kinds = self.kinds;
        let node = self.search.order[depth];
        let left = kinds.left[node * kinds.dims..][..kinds.dims].to_vec();
        // The waste that is left to all remaining nodes together (Martello and Toth: total room
        // less total demand). A set that wastes more cannot be in an answer.
        let mut spare = self.search.room[depth].clone();
        for (kind, missing) in self.search.missing.iter().enumerate() {
            for (spare, demand) in spare.iter_mut().zip(&kinds.kinds[kind].demand) {
                *spare = spare.saturating_sub(u128::from(*demand) * u128::from(*missing));
            }
        }
        let wanted = |kind: &usize| self.search.missing[*kind] > 0 && kinds.admits(node, *kind);
        let there: Vec<usize> = self.search.kinds.iter().copied().filter(wanted).collect();
        let set = vec![0; self.search.missing.len()];
        let mut filler = Filler {
            kinds,
            missing: &self.search.missing,
            there: &there,
            spare: &spare,
            whole: &left,
            found: Vec::new(),
            set,
            blocks: 0,
            steps: 0,
        };
        filler.add(0, &mut left.clone());
        let (full, steps, mut found) = (filler.is_full(), filler.steps, filler.found);
        self.search.cut |= full;
        self.meter.spend(steps);
        for filling in &mut found {
            filling.luck = self.dice.roll() % 4;
        }
        // Fullest first, and of equally full ones those with fewer and larger blocks: small ones
        // fit in later.
        found.sort_by_key(|filling| (filling.unused, filling.blocks as u64 + filling.luck));
        found
    }
}

struct Filler<'a> {
    kinds: &'a Kinds,
    missing: &'a [u16],
    /// Kinds that may be there, the largest first.
    there: &'a [usize],
    /// By dimension: what may be left unused.
    spare: &'a [u128],
    whole: &'a [u64],
    found: Vec<Filling>,
    set: Vec<u16>,
    blocks: usize,
    steps: u64,
}

impl Filler<'_> {
    fn is_full(&self) -> bool {
        self.found.len() >= SETS_MAX || self.steps > 40 * SETS_MAX as u64
    }

    fn add(&mut self, from: usize, left: &mut [u64]) {
        self.steps += 1;
        if self.is_full() {
            return;
        }
        let Some(kind) = self.there.get(from).copied() else {
            self.take(left);
            return;
        };
        let demand = &self.kinds.kinds[kind].demand;
        let most = self.most(kind, left);
        for (left, demand) in left.iter_mut().zip(demand) {
            *left -= demand * u64::from(most);
        }
        self.set[kind] = most;
        self.blocks += usize::from(most);
        loop {
            self.add(from + 1, left);
            if self.set[kind] == 0 {
                return;
            }
            self.set[kind] -= 1;
            self.blocks -= 1;
            for (left, demand) in left.iter_mut().zip(demand) {
                *left += demand;
            }
        }
    }

    /// How many more of a kind there is room for.
    fn most(&self, kind: usize, left: &[u64]) -> u16 {
        let own = &self.kinds.kinds[kind];
        if own.apart.iter().any(|other| self.set[*other] > 0) {
            return 0;
        }
        let mut most = self.missing[kind] - self.set[kind];
        if own.apart.contains(&kind) {
            most = most.min(1);
        }
        for (left, demand) in left.iter().zip(&own.demand) {
            if *demand > 0 {
                most = most.min(u16::try_from(left / demand).unwrap_or(u16::MAX));
            }
        }
        most
    }

    /// Keeps the set if it wastes no more than may be wasted, and nobody could be added.
    fn take(&mut self, left: &[u64]) {
        if left.iter().zip(self.spare).any(|(left, spare)| u128::from(*left) > *spare) {
            return;
        }
        // Dominance: a set that could take one more is contained in one that has it.
        if self.there.iter().any(|kind| self.most(*kind, left) > 0) {
            return;
        }
        let share =
            |(left, whole): (&u64, &u64)| u128::from(*left) * 1000 / u128::from((*whole).max(1));
        let unused: u128 = left.iter().zip(self.whole).map(share).sum();
        let unused = u64::try_from(unused).unwrap_or(u64::MAX);
        self.found.push(Filling { unused, blocks: self.blocks, luck: 0, set: self.set.clone() });
    }
}
