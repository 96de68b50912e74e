//! The first answer: part after part, each as good as it can be with those before it in place.
//! Called by [`select`](super::select()).

use std::cmp::Reverse;

use super::branch::{self, Aim};
use super::dual::Dual;
use super::fit::{self, Fit};
use super::frame::{Block, Frame, Place};
use super::gather;
use super::ids::{BlockId, NodeRank};
use super::improve;
use super::index::sort_key;
use super::kernel::{Kernel, Width, dead};
use super::meter::Meter;
use super::state::State;
use super::{EXACT_BLOCKS_MAX, Outcome};

/// Blocks that are decided at once; more would be slow, fewer would not see each other.
const CHUNK: usize = 24;
/// Work for one block of a chunk, on average.
const WORK_PER_BLOCK: u64 = 2_000;
/// The share of its worth that a better first answer must gain to be searched for.
const ENOUGH: f64 = 0.002;
const NARROW: Width = Width { places: 3, zones: 24 };
const FULL: Width = Width { places: usize::MAX, zones: usize::MAX };
/// Others that may be asked to move when a part finds no room.
const ASKED_MAX: usize = 12;
/// So many places are compared for one block where it matters who else is there.
const CROWDED_MAX: usize = 512;
/// The same where nothing but room is short, and ejection chains decide who moves.
const MOVED_MAX: usize = 2_000;
/// The share of the work left that is spent on packing alone: the rest is for a proof by branch and
/// bound, and for a better answer.
const PACKING_SHARE: f64 = 0.4;

pub(super) struct Construct<'f> {
    frame: &'f Frame<'f>,
    /// Where the first place of each index is that may have room, for blocks that need no zone.
    next: Vec<usize>,
}

impl<'f> Construct<'f> {
    pub(super) fn new(frame: &'f Frame<'f>) -> Construct<'f> {
        Construct { frame, next: vec![0; frame.indices.len()] }
    }

    /// Places a part whole, or leaves the state as it was.
    pub(super) fn part(
        &mut self,
        state: &mut State<'f>,
        blocks: &[BlockId],
        placed: &[BlockId],
        meter: &mut Meter<'_>,
    ) -> Outcome {
        let plain = |block: &BlockId| self.frame.blocks[*block].plain();
        meter.grant(4 * WORK_PER_BLOCK * blocks.len() as u64);
        // Three attempts, each dearer than the one before: greedy, then the part in one zone, then
        // with the others moved out of its way.
        let done = match blocks.iter().all(plain) {
            true => self.by_value(state, blocks, meter),
            false => by_chunks(state, blocks, meter),
        };
        let large = blocks.len() + placed.len() > EXACT_BLOCKS_MAX;
        if done || (large && self.gather(state, blocks, meter)) {
            meter.grant(0);
            return Outcome::Placed;
        }
        meter.grant(0);
        if meter.over() {
            return Outcome::NotFound;
        }
        let outcome = match large {
            false => jointly(state, blocks, placed, meter),
            true => packed(state, blocks, placed, meter)
                .unwrap_or_else(|| with_others_moved(state, blocks, meter)),
        };
        // Others may have moved, and left room where there was none.
        self.next.fill(0);
        outcome
    }

    /// Too many to decide at once: they go where they fit, and the improvement does the rest.
    fn gather(&self, state: &mut State<'f>, blocks: &[BlockId], meter: &mut Meter<'_>) -> bool {
        blocks.iter().any(|block| self.frame.blocks[*block].zoned)
            && gather::in_one_zone(state, &by_nearness(self.frame, blocks), meter)
    }

    /// Each block takes the best place that has room, the largest block first.
    fn by_value(
        &mut self,
        state: &mut State<'f>,
        blocks: &[BlockId],
        meter: &mut Meter<'_>,
    ) -> bool {
        for (done, block) in blocks.iter().enumerate() {
            let place = self.best_place(state, *block, meter).filter(|_| !meter.stopped());
            if !place.is_some_and(|place| state.place(*block, place)) {
                take_all(state, &blocks[..done]);
                return false;
            }
        }
        true
    }

    fn best_place(
        &mut self,
        state: &State<'_>,
        number: BlockId,
        meter: &mut Meter<'_>,
    ) -> Option<Place> {
        let frame = self.frame;
        let block = &frame.blocks[number];
        let index = &frame.indices[block.index as usize];
        let (places, _) = index.zone(0);
        let least = index.least();
        let next = &mut self.next[block.index as usize];
        let full = |place: &Place| {
            state.left(place.node).iter().zip(least).any(|(left, least)| left < least)
        };
        // A place that has no room for the least demand of its class will have none later either:
        // nothing is taken out meanwhile (`part` starts anew where others have moved). So full
        // places are passed once, not once for each block.
        while *next < places.len() && full(&places[*next]) {
            *next += 1;
        }
        let allowed = |place: &&Place| {
            (block.skip.is_empty() || block.skip.binary_search(&place.node).is_err())
                && state.admits(block, place)
        };
        if frame.is_crowded(number) {
            let free = places[*next..].iter().filter(allowed);
            let own = block.extra.iter().filter(|place| state.admits(block, place));
            return least_crowded(state, block, own.copied().collect(), free, meter);
        }
        let found = places[*next..].iter().position(|place| allowed(&place));
        meter.spend(found.unwrap_or(places.len() - *next) as u64 / 4 + 1);
        let shared = found.map(|at| places[*next + at]);
        let own = block.extra.iter().find(|place| state.admits(block, place)).copied();
        let best = [shared, own].into_iter().flatten().min_by_key(sort_key)?;
        // Among equals, it stays where it runs.
        let stays = places[*next..].iter().take_while(|place| place.value == best.value);
        let stays = stays.take(64).find(|place| place.node == block.current).filter(allowed);
        Some(stays.copied().unwrap_or(best))
    }
}

/// The place that is worth most beside those that are there. The list is in the order of values, so it need not be read
/// to its end.
fn least_crowded<'p>(
    state: &State<'_>,
    block: &Block,
    own: Vec<Place>,
    free: impl Iterator<Item = &'p Place>,
    meter: &mut Meter<'_>,
) -> Option<Place> {
    let key = |place: &Place| {
        let worth = place.value - state.crowding(block, place.node);
        // Among equals, it stays where it runs.
        (Reverse(worth), place.node != block.current, sort_key(place))
    };
    let mut best = own.into_iter().min_by_key(key);
    let mut worth = best.map(|place| key(&place));
    let mut looked = 0;
    for place in free {
        let is_over = worth.is_some_and(|(Reverse(worth), _, _)| place.value < worth);
        if is_over || looked > CROWDED_MAX {
            break;
        }
        looked += 1;
        let this = key(place);
        if worth.is_none_or(|worth| this < worth) {
            (best, worth) = (Some(*place), Some(this));
        }
        // An empty place: none that follows in the list is worth more.
        if worth.is_some_and(|(Reverse(worth), stays, _)| worth == place.value && !stays) {
            break;
        }
    }
    meter.spend(looked as u64 / 2 + 1);
    best
}

impl Block {
    /// Nothing but the node and its value matters.
    pub(super) fn plain(&self) -> bool {
        !self.zoned && self.engines.is_empty()
    }
}

/// Neighbours come one after the other, so that a chunk holds what belongs together.
fn by_nearness(frame: &Frame<'_>, blocks: &[BlockId]) -> Vec<BlockId> {
    let mut order: Vec<BlockId> = Vec::with_capacity(blocks.len());
    let mut seen = std::collections::BTreeSet::new();
    for start in blocks {
        let from = order.len();
        if seen.insert(*start) {
            order.push(*start);
        }
        let mut at = from;
        while at < order.len() {
            let number = order[at];
            let block = &frame.blocks[number];
            let edges = block.edges.iter().map(|edge| &frame.edges[*edge]);
            let by_edge = edges.map(|edge| if edge.a == number { edge.b } else { edge.a });
            let groups = block.together.iter().flat_map(|group| &frame.together[*group as usize]);
            for other in by_edge.chain(groups.copied()) {
                if seen.insert(other) {
                    order.push(other);
                }
            }
            at += 1;
        }
    }
    order
}

fn by_chunks(state: &mut State<'_>, blocks: &[BlockId], meter: &mut Meter<'_>) -> bool {
    let order = by_nearness(state.frame, blocks);
    for (done, chunk) in order.chunks(CHUNK).enumerate() {
        let work = WORK_PER_BLOCK * chunk.len() as u64;
        let places = solve(state, chunk, NARROW, work, false, meter).0;
        if !places.is_some_and(|places| put(state, chunk, &places)) {
            take_all(state, &order[..done * CHUNK]);
            return false;
        }
    }
    true
}

fn take_all(state: &mut State<'_>, blocks: &[BlockId]) -> Vec<Place> {
    blocks.iter().map(|block| state.take(*block)).collect()
}

fn put(state: &mut State<'_>, blocks: &[BlockId], places: &[Place]) -> bool {
    for (done, (block, place)) in blocks.iter().zip(places).enumerate() {
        if !state.place(*block, *place) {
            take_all(state, &blocks[..done]);
            return false;
        }
    }
    true
}

/// Places for the blocks, and whether it is certain that there are none.
fn solve(
    state: &mut State<'_>,
    blocks: &[BlockId],
    width: Width,
    work: u64,
    first: bool,
    meter: &mut Meter<'_>,
) -> (Option<Vec<Place>>, bool) {
    // No place for one of the blocks is a proof as well.
    let Some(mut kernel) = Kernel::new(state, blocks, width, meter) else { return (None, true) };
    let dual = Dual::new(&mut kernel, state, None, 3, meter);
    if dead(dual.bound) {
        return (None, true);
    }
    meter.grant(work.min(4 * WORK_PER_BLOCK * blocks.len() as u64));
    let until = meter.spent.saturating_add(work);
    // The improvement mends what little a first answer leaves.
    let enough = improve::floor(dual.bound.abs() * ENOUGH);
    let aim = Aim { floor: None, until, first, enough };
    let found = branch::search(&kernel, &dual, state, aim, meter);
    // Only a search that has seen everything proves that there is nothing.
    let none = found.places.is_none() && dead(found.open);
    (found.places, none)
}

/// All blocks so far are up for change: finds an answer for them all, or proves that there is none.
fn jointly(
    state: &mut State<'_>,
    blocks: &[BlockId],
    placed: &[BlockId],
    meter: &mut Meter<'_>,
) -> Outcome {
    let before = take_all(state, placed);
    let mut all: Vec<BlockId> = blocks.iter().chain(placed).copied().collect();
    all.sort_unstable();
    let plain = all.iter().all(|block| state.frame.blocks[*block].plain());
    let until = meter.mark(PACKING_SHARE);
    let (places, none) = match plain.then(|| fit::all(state, &all, until, meter)) {
        Some(Fit::Found) => return Outcome::Placed,
        Some(Fit::Impossible) => (None, true),
        Some(Fit::Unknown) | None => {
            let work = meter.share(0.5);
            solve(state, &all, FULL, work, true, meter)
        }
    };
    match places {
        Some(places) if put(state, &all, &places) => Outcome::Placed,
        _ => {
            let back = put(state, placed, &before);
            assert!(back, "what was placed can be placed again");
            if none { Outcome::Infeasible } else { Outcome::NotFound }
        }
    }
}

/// Packs a part of a large problem where nothing but room is short: beside the others, then with
/// those moved that are where the part could go. `None` if that is not what is in its way, or did
/// not help.
fn packed(
    state: &mut State<'_>,
    blocks: &[BlockId],
    placed: &[BlockId],
    meter: &mut Meter<'_>,
) -> Option<Outcome> {
    let plain = |block: &BlockId| state.frame.blocks[*block].plain();
    if !blocks.iter().all(plain) {
        return None;
    }
    match fit::all(state, blocks, meter.mark(PACKING_SHARE), meter) {
        Fit::Found => return Some(Outcome::Placed),
        // Impossible beside the others is no proof: the others could move.
        Fit::Impossible if placed.is_empty() => return Some(Outcome::Infeasible),
        Fit::Impossible | Fit::Unknown => (),
    }
    let frame = state.frame;
    let wanted = |block: &BlockId| {
        let block = &frame.blocks[*block];
        frame.indices[block.index as usize].zone(0).0.iter().chain(&block.extra)
    };
    let mut nodes: Vec<NodeRank> = blocks.iter().flat_map(wanted).map(|p| p.node).collect();
    nodes.sort_unstable();
    nodes.dedup();
    let mut others: Vec<BlockId> = nodes.iter().flat_map(|node| state.on(*node)).collect();
    others.retain(|block| frame.blocks[*block].plain());
    others.truncate(MOVED_MAX);
    let until = meter.mark(PACKING_SHARE);
    let found = fit::with_others(state, blocks, &others, until, meter);
    found.then_some(Outcome::Placed)
}

/// In a large problem, only those that are in the way are asked to move.
fn with_others_moved(state: &mut State<'_>, blocks: &[BlockId], meter: &mut Meter<'_>) -> Outcome {
    if blocks.len() > EXACT_BLOCKS_MAX {
        return Outcome::NotFound;
    }
    let work = 10 * WORK_PER_BLOCK * blocks.len() as u64;
    let mut empty = State::new(state.frame);
    // Where the part would go on an empty continuum shows who is in its way.
    let (alone, none) = solve(&mut empty, blocks, FULL, work, true, meter);
    if none {
        return Outcome::Infeasible;
    }
    let wanted = alone.into_iter().flatten().map(|place| place.node);
    let mut asked: Vec<BlockId> = wanted.flat_map(|node| state.on(node)).collect();
    asked.sort_unstable();
    asked.dedup();
    // Cut before the search: with more blocks than this it would not end within its work.
    asked.truncate(ASKED_MAX);
    let before = take_all(state, &asked);
    let mut all: Vec<BlockId> = blocks.iter().chain(&asked).copied().collect();
    all.sort_unstable();
    let work = 4 * WORK_PER_BLOCK * all.len() as u64;
    let (places, _) = solve(state, &all, NARROW, work, true, meter);
    if places.is_some_and(|places| put(state, &all, &places)) {
        return Outcome::Placed;
    }
    let back = put(state, &asked, &before);
    assert!(back, "what was placed can be placed again");
    Outcome::NotFound
}
