//! Branch and bound over a [`Kernel`]: takes the block that has most to lose, tries its places from
//! the most promising down, and turns back where the [`Dual`] says that nothing better can follow.
//!
//! Run to its end it proves the best, or that there is nothing. Stopped earlier it still knows how
//! good the best of what it has not seen could be.

use super::dual::Dual;
use super::frame::Place;
use super::ids::{NodeRank, ZoneRank};
use super::kernel::{Kernel, NEVER, dead};
use super::meter::Meter;
use super::state::State;

/// What a search has found.
#[derive(Clone, Debug)]
pub(super) struct Found {
    /// A place for every block of the kernel, better than `floor` was.
    pub places: Option<Vec<Place>>,
    /// No choice for the blocks of the kernel gives the whole state more than this, unless it is no
    /// more than what was found or than `floor`. [`NEVER`] if nothing is left to be seen.
    pub open: f64,
}

/// Where to stop and what to beat.
#[derive(Clone, Copy, Debug)]
pub(super) struct Aim {
    /// Only objectives of the whole state above this are of interest.
    pub floor: Option<i64>,
    /// The work spent at which to stop.
    pub until: u64,
    /// Take the first answer.
    pub first: bool,
    /// What another answer must be better by than the one that was found to be worth a search.
    pub enough: i64,
}

struct Search<'a, 'f, 'l> {
    kernel: &'a Kernel,
    dual: &'a Dual,
    state: &'a mut State<'f>,
    meter: &'a mut Meter<'l>,
    aim: Aim,
    /// The objective before the first block was placed.
    base: f64,
    best: Option<Vec<Place>>,
    open: f64,
    ended: bool,
    places: Vec<Option<Taken>>,
    /// The one after each block that it could change places with.
    twin_after: Vec<Option<usize>>,
}

#[derive(Clone, Copy)]
struct Taken {
    place: Place,
    at: usize,
}

/// Scores as they are after the blocks so far.
#[derive(Clone, Default)]
struct Level {
    score: Vec<f64>,
    top: Vec<f64>,
    /// The first place of each span that is still free.
    next: Vec<usize>,
    /// The part of the bound that no longer depends on a choice.
    settled: f64,
}

struct Offer {
    bound: f64,
    span: usize,
    at: usize,
}

/// The state is as it was when this returns.
pub(super) fn search(
    kernel: &Kernel,
    dual: &Dual,
    state: &mut State<'_>,
    aim: Aim,
    meter: &mut Meter<'_>,
) -> Found {
    let mut twin_after = vec![None; kernel.blocks.len()];
    for (block, domain) in kernel.domains.iter().enumerate() {
        if let Some(twin) = domain.twin {
            twin_after[twin] = Some(block);
        }
    }
    let base = super::kernel::float(state.objective);
    let mut next = Vec::with_capacity(dual.top.len());
    for domain in &kernel.domains {
        next.extend(domain.spans.iter().map(|span| span.start));
    }
    // What a block brings is added when it is decided. Pairs count with their maximum until one of
    // their ends is placed, and with the true row of their table from then on.
    let settled = base + dual.paid + dual.pair_max.iter().sum::<f64>();
    let level = Level { score: dual.score.clone(), top: dual.top.clone(), next, settled };
    let places = vec![None; kernel.blocks.len()];
    let (best, open, ended) = (None, NEVER, false);
    let mut search =
        Search { kernel, dual, state, meter, aim, base, best, open, ended, places, twin_after };
    let mut spare = Vec::new();
    search.descend(&level, kernel.blocks.len(), &mut spare);
    Found { places: search.best, open: search.open }
}

impl Search<'_, '_, '_> {
    fn descend(&mut self, level: &Level, missing: usize, spare: &mut Vec<Level>) {
        if missing == 0 {
            self.take_answer();
            return;
        }
        self.meter.spend(level.score.len() as u64 / 4 + 8);
        // Fail first: a block without a place ends this branch before any other is tried.
        let Some((block, bound)) = self.next_block(level) else { return };
        if !self.worth_a_look(bound) {
            return;
        }
        let options = self.options(level, block, bound);
        let mut child = spare.pop().unwrap_or_default();
        for option in options {
            if !self.worth_a_look(option.bound) {
                break;
            }
            if self.ended || self.meter.over() || self.meter.spent >= self.aim.until {
                self.ended = true;
                // The offers are sorted, so this bound holds for all that follow and are not looked
                // at.
                self.open = self.open.max(option.bound);
                break;
            }
            let place = self.kernel.domains[block].places[option.at];
            let dearer = self.dearer(block, option.at);
            if !self.state.place(self.kernel.blocks[block], place) {
                continue;
            }
            self.places[block] = Some(Taken { place, at: option.at });
            if self.follow(level, &mut child, block, &option, dearer) {
                self.descend(&child, missing - 1, spare);
            }
            self.places[block] = None;
            self.state.take(self.kernel.blocks[block]);
        }
        spare.push(child);
    }

    /// What a place costs by now, beyond what it cost before the first block was placed: others have come to the node,
    /// and costs rise with them. Where the node has a price, the bound has counted all of that already.
    fn dearer(&self, block: usize, at: usize) -> f64 {
        let (number, domain) = (self.kernel.blocks[block], &self.kernel.domains[block]);
        let place = domain.places[at];
        let frame = self.state.frame;
        if !frame.is_crowded(number) || self.dual.priced.contains(&place.node) {
            return 0.0;
        }
        let now = place.value - self.state.crowding(&frame.blocks[number], place.node);
        super::kernel::float(domain.worth[at] - now)
    }

    fn take_answer(&mut self) {
        let objective = self.state.objective;
        if self.aim.floor.is_none_or(|floor| objective > floor) {
            self.aim.floor = Some(objective);
            let places = self.places.iter().flatten();
            self.best = Some(places.map(|taken| taken.place).collect());
            self.ended |= self.aim.first;
        }
    }

    /// Objectives are whole numbers, so anything less than one more is no more.
    fn worth_a_look(&self, bound: f64) -> bool {
        let more = if self.best.is_some() { self.aim.enough } else { 0 };
        let least = self.aim.floor.map(|floor| super::kernel::float(floor + more) + 1.0);
        !dead(bound - self.base) && least.is_none_or(|least| bound + self.dual.slack >= least)
    }

    /// The block to decide next, and the bound as it stands; `None` if a block has no place.
    ///
    /// Neighbours of what is decided come first: the zones that have no way to go on were struck
    /// out before the search, so that walking along the edges rarely meets a dead end. Among
    /// those, the block that has most to lose.
    fn next_block(&self, level: &Level) -> Option<(usize, f64)> {
        let mut bound = level.settled;
        let mut choice: Option<(bool, f64, usize)> = None;
        for block in 0..self.kernel.blocks.len() {
            if self.places[block].is_some() {
                continue;
            }
            let (start, end) = (self.dual.offsets[block], self.dual.offsets[block + 1]);
            let (mut best, mut second, mut at) = (NEVER, NEVER, start);
            for (flat, score) in (start..end).zip(&level.score[start..end]) {
                if *score > best {
                    (second, best, at) = (best, *score, flat);
                } else if *score > second {
                    second = *score;
                }
            }
            if dead(best) {
                return None;
            }
            let worth = &self.dual.worth[block];
            let span = &self.kernel.domains[block].spans[at - start];
            let after = level.next[at] + 1;
            // Without a network the whole domain is one span, and the second best is the next place
            // in it.
            if span.zone == ZoneRank::ANYWHERE && after < span.end {
                second = second.max(best - level.top[at] + worth[after]);
            }
            bound += best;
            let pairs = &self.kernel.pairs_of[block];
            let near = dead(second)
                || pairs
                    .iter()
                    .map(|pair| &self.kernel.pairs[*pair])
                    .any(|pair| self.places[pair.a].is_some() || self.places[pair.b].is_some());
            // A block with many edges restricts others: it is worth deciding a little earlier.
            let weight = 1.0 + super::kernel::float(i64::try_from(pairs.len()).unwrap_or(0)) / 4.0;
            let regret = (best - second).min(1e15) * weight;
            if choice.is_none_or(|(nearer, most, _)| (near, regret) > (nearer, most)) {
                choice = Some((near, regret, block));
            }
        }
        choice.map(|(_, _, block)| (block, bound))
    }

    /// The places of a block that could be in a better answer, the most promising first.
    fn options(&mut self, level: &Level, block: usize, bound: f64) -> Vec<Offer> {
        let domain = &self.kernel.domains[block];
        let offset = self.dual.offsets[block];
        let scores = &level.score[offset..self.dual.offsets[block + 1]];
        let best = scores.iter().copied().fold(NEVER, f64::max);
        // Symmetry breaking: twins are placed in the order of their lists, which cuts n! orders to
        // one.
        let at_least = domain.twin.and_then(|twin| self.places[twin]).map_or(0, |t| t.at);
        let at_most = self.twin_after[block].and_then(|twin| self.places[twin]);
        let at_most = at_most.map_or(usize::MAX, |taken| taken.at);
        let mut options = Vec::new();
        let mut unseen = NEVER;
        for (span_at, span) in domain.spans.iter().enumerate() {
            let flat = offset + span_at;
            if dead(level.score[flat]) {
                continue;
            }
            let without = bound - best + level.score[flat] - level.top[flat];
            // Places that were cut from the list are never tried; their value remains in the bound.
            if !dead(span.more) {
                unseen = unseen.max(without + span.more);
            }
            let places = level.next[flat].max(at_least)..span.end.min(at_most.saturating_add(1));
            for at in places {
                let bound = without + self.dual.worth[block][at];
                if !self.worth_a_look(bound) {
                    break;
                }
                let bound = bound - self.dearer(block, at);
                if self.worth_a_look(bound) {
                    options.push(Offer { bound, span: span_at, at });
                }
            }
        }
        if self.worth_a_look(unseen) {
            self.open = self.open.max(unseen);
        }
        self.meter.spend(options.len() as u64);
        let current = self.state.frame.blocks[self.kernel.blocks[block]].current;
        let moves = |option: &Offer| domain.places[option.at].node != current;
        options.sort_by(|a, b| {
            b.bound.total_cmp(&a.bound).then_with(|| moves(a).cmp(&moves(b))).then(a.at.cmp(&b.at))
        });
        options
    }

    /// Brings the scores up to date with a block that was just placed. Returns false if another
    /// block has no place any more.
    fn follow(
        &mut self,
        level: &Level,
        child: &mut Level,
        block: usize,
        option: &Offer,
        dearer: f64,
    ) -> bool {
        child.score.clone_from(&level.score);
        child.top.clone_from(&level.top);
        child.next.clone_from(&level.next);
        let flat = self.dual.offsets[block] + option.span;
        child.settled =
            level.settled + level.score[flat] - level.top[flat] + self.dual.worth[block][option.at];
        child.settled -= dearer;
        for number in &self.kernel.pairs_of[block] {
            let pair = &self.kernel.pairs[*number];
            let other = if pair.a == block { pair.b } else { pair.a };
            if self.places[other].is_some() {
                continue;
            }
            // The maximum of the pair is replaced by the row that the placed block has chosen.
            child.settled -= self.dual.pair_max[*number];
            let (start, end) = (self.dual.offsets[other], self.dual.offsets[other + 1]);
            let width = self.dual.offsets[pair.b + 1] - self.dual.offsets[pair.b];
            let (first, stride) = match pair.a == block {
                true => (option.span * width, 1),
                false => (option.span, width),
            };
            let entries = pair.table[first..].iter().step_by(stride);
            for (score, entry) in child.score[start..end].iter_mut().zip(entries) {
                *score = (*score + entry).max(NEVER);
            }
        }
        let taken = self.places[block].map_or(Place::NONE, |taken| taken.place);
        self.crowd_out(child, block, &taken)
    }

    /// Others may no longer fit where they wanted to go.
    fn crowd_out(&self, child: &mut Level, block: usize, taken: &Place) -> bool {
        let frame = self.state.frame;
        let zone = frame.zone_of[taken.node];
        let own = &frame.blocks[self.kernel.blocks[block]];
        for other in 0..self.kernel.blocks.len() {
            if self.places[other].is_some() {
                continue;
            }
            let domain = &self.kernel.domains[other];
            let theirs = &frame.blocks[self.kernel.blocks[other]];
            let engines = theirs.engines.iter().any(|group| own.engines.contains(group));
            // Only the zone of the node that was just taken can have lost a place, except where an
            // engine is shared.
            let spans = match domain.spans.first() {
                _ if engines => 0..domain.spans.len(),
                Some(span) if span.zone == ZoneRank::ANYWHERE => 0..1,
                _ => {
                    let at = domain.spans.partition_point(|span| span.zone < zone);
                    at..(at + 1).min(domain.spans.len())
                }
            };
            let mut alive = true;
            for at in spans {
                let flat = self.dual.offsets[other] + at;
                let span = &domain.spans[at];
                let mut next = child.next[flat];
                if dead(child.score[flat]) || (!engines && self.elsewhere(other, next, taken.node))
                {
                    continue;
                }
                while next < span.end && !self.state.admits(theirs, &domain.places[next]) {
                    next += 1;
                }
                if next == child.next[flat] {
                    continue;
                }
                child.next[flat] = next;
                let worth = self.dual.worth[other].get(next).filter(|_| next < span.end);
                let top = worth.copied().unwrap_or(NEVER).max(span.more);
                child.score[flat] = match dead(top) {
                    true => NEVER,
                    false => child.score[flat] + top - child.top[flat],
                };
                child.top[flat] = top;
                alive = !dead(child.score[flat]);
            }
            if !alive {
                let (start, end) = (self.dual.offsets[other], self.dual.offsets[other + 1]);
                if child.score[start..end].iter().all(|score| dead(*score)) {
                    return false;
                }
            }
        }
        true
    }

    /// The place is not on the node.
    fn elsewhere(&self, block: usize, place: usize, node: NodeRank) -> bool {
        self.kernel.domains[block].places.get(place).is_none_or(|place| place.node != node)
    }
}
