//! Ejection chains: who has no node takes the place of others that are easier to place, and they look
//! for another one. Who was hard to place before is not ejected lightly again (guided ejection search;
//! Nagata and Bräysy 2009).

use super::super::meter::{Dice, Meter};
use super::decreasing::Packed;
use super::kinds::Kinds;

/// More than three at once are better found one after the other.
const EJECTED_MAX: usize = 3;
/// Random moves after each ejection, so that the search does not go in circles.
const SHUFFLES: usize = 8;

/// Returns whether all are placed.
pub(super) fn run(
    packed: &mut Packed,
    kinds: &Kinds,
    until: u64,
    dice: &mut Dice,
    meter: &mut Meter<'_>,
) -> bool {
    let mut penalty = vec![1u64; kinds.kinds.len()];
    loop {
        settle(packed, kinds, meter);
        let Some(kind) = hardest(packed, &penalty, kinds) else { return true };
        if meter.over() || meter.spent >= until {
            return false;
        }
        // Guidance: a kind that was left over often becomes dear to eject, so that it keeps its
        // place.
        penalty[kind] += 1;
        if let Some(ejection) = cheapest(packed, kinds, kind, &penalty, dice, meter) {
            for other in &ejection.kinds {
                packed.take(kinds, ejection.node, *other);
            }
            packed.put(kinds, ejection.node, kind);
        }
        for _ in 0..SHUFFLES {
            shuffle(packed, kinds, dice, meter);
        }
    }
}

/// Places whoever fits somewhere, where the least is left afterwards.
fn settle(packed: &mut Packed, kinds: &Kinds, meter: &mut Meter<'_>) {
    for kind in 0..kinds.kinds.len() {
        while packed.missing[kind] > 0 {
            meter.spend(kinds.kinds[kind].nodes.len() as u64 / 2 + 1);
            let free = kinds.kinds[kind].nodes.iter().filter(|n| packed.fits(kinds, **n, kind));
            let sum = |node: &&usize| {
                packed.left(kinds, **node).iter().fold(0u64, |a, b| a.saturating_add(*b))
            };
            let Some(node) = free.min_by_key(sum).copied() else { break };
            packed.put(kinds, node, kind);
        }
    }
}

fn hardest(packed: &Packed, penalty: &[u64], kinds: &Kinds) -> Option<usize> {
    let missing = (0..kinds.kinds.len()).filter(|kind| packed.missing[*kind] > 0);
    missing.max_by_key(|kind| (penalty[*kind], kinds.kinds[*kind].size))
}

struct Ejection {
    node: usize,
    kinds: Vec<usize>,
}

/// The node and those on it that would have to go, with the least sum of penalties.
fn cheapest(
    packed: &Packed,
    kinds: &Kinds,
    kind: usize,
    penalty: &[u64],
    dice: &mut Dice,
    meter: &mut Meter<'_>,
) -> Option<Ejection> {
    let mut best: Option<((u64, u64, u64), Ejection)> = None;
    let count = kinds.kinds.len();
    for node in &kinds.kinds[kind].nodes {
        let here = &packed.here[node * count..][..count];
        let mut there: Vec<usize> = Vec::new();
        for (other, many) in here.iter().enumerate() {
            there.extend(std::iter::repeat_n(other, usize::from(*many).min(EJECTED_MAX)));
        }
        meter.spend(there.len() as u64 + 4);
        // Those that the kind avoids go in any case.
        let (must, may): (Vec<usize>, Vec<usize>) =
            there.into_iter().partition(|other| kinds.kinds[kind].apart.contains(other));
        let mut choice = Choice { kinds, penalty, may: &may, best: None, steps: 0 };
        let lacks: Vec<i128> = packed
            .left(kinds, *node)
            .iter()
            .zip(&kinds.kinds[kind].demand)
            .map(|(left, demand)| i128::from(*demand) - i128::from(*left))
            .collect();
        choice.start(&must, lacks);
        meter.spend(choice.steps);
        if let Some((cost, size, set)) = choice.best {
            // Equal ejections are drawn, or the search would turn in circles.
            let rank = (cost, size, dice.roll());
            if best.as_ref().is_none_or(|(least, _)| rank < *least) {
                best = Some((rank, Ejection { node: *node, kinds: set }));
            }
        }
    }
    best.map(|(_, ejection)| ejection)
}

struct Choice<'a> {
    kinds: &'a Kinds,
    penalty: &'a [u64],
    may: &'a [usize],
    /// Penalty, size, and who.
    best: Option<(u64, u64, Vec<usize>)>,
    steps: u64,
}

impl Choice<'_> {
    fn start(&mut self, must: &[usize], mut lacks: Vec<i128>) {
        let mut so_far = (0u64, 0u64, must.to_vec());
        for other in must {
            relieve(self.kinds, &mut lacks, *other);
            so_far.0 += self.penalty[*other];
            so_far.1 = so_far.1.saturating_add(self.kinds.kinds[*other].size);
        }
        self.add(0, &lacks, &so_far);
    }

    /// Tries all sets of up to [`EJECTED_MAX`] of those that may go.
    fn add(&mut self, from: usize, lacks: &[i128], so_far: &(u64, u64, Vec<usize>)) {
        self.steps += 1;
        if self.best.as_ref().is_some_and(|best| (best.0, best.1) <= (so_far.0, so_far.1)) {
            return;
        }
        if lacks.iter().all(|lack| *lack <= 0) {
            self.best = Some(so_far.clone());
            return;
        }
        if so_far.2.len() >= EJECTED_MAX {
            return;
        }
        for at in from..self.may.len() {
            let other = self.may[at];
            // Members of a kind are the same: one of them stands for all at this depth.
            if at > from && self.may[at - 1] == other {
                continue;
            }
            let mut lacks = lacks.to_vec();
            relieve(self.kinds, &mut lacks, other);
            let mut more = so_far.clone();
            more.0 += self.penalty[other];
            more.1 = more.1.saturating_add(self.kinds.kinds[other].size);
            more.2.push(other);
            self.add(at + 1, &lacks, &more);
        }
    }
}

fn relieve(kinds: &Kinds, lacks: &mut [i128], other: usize) {
    for (lack, demand) in lacks.iter_mut().zip(&kinds.kinds[other].demand) {
        *lack -= i128::from(*demand);
    }
}

/// Two of different nodes change places, or one moves, if there is room for that.
fn shuffle(packed: &mut Packed, kinds: &Kinds, dice: &mut Dice, meter: &mut Meter<'_>) {
    meter.spend(2);
    let (Some((a, one)), Some((b, other))) =
        (drawn(packed, kinds, dice), drawn(packed, kinds, dice))
    else {
        return;
    };
    if a == b || one == other || !kinds.admits(b, one) {
        return;
    }
    if packed.fits(kinds, b, one) {
        packed.take(kinds, a, one);
        packed.put(kinds, b, one);
        return;
    }
    if !kinds.admits(a, other) {
        return;
    }
    packed.take(kinds, a, one);
    packed.take(kinds, b, other);
    if packed.fits(kinds, b, one) && packed.fits(kinds, a, other) {
        packed.put(kinds, b, one);
        packed.put(kinds, a, other);
    } else {
        packed.put(kinds, a, one);
        packed.put(kinds, b, other);
    }
}

/// A random member of a random kind, and its node.
fn drawn(packed: &Packed, kinds: &Kinds, dice: &mut Dice) -> Option<(usize, usize)> {
    let kind = dice.below(kinds.kinds.len());
    let at = &packed.at()[kind];
    (!at.is_empty()).then(|| (at[dice.below(at.len())], kind))
}
