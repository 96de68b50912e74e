//! Chooses a node and an engine for every item of a [`Problem`], as good as can be found and with
//! a proven bound on what could be better. Start reading at [`select`].

mod bound;
mod branch;
mod construct;
mod crowd;
mod domain;
mod dual;
mod fit;
mod frame;
mod gather;
mod ids;
mod improve;
mod index;
mod kernel;
mod level;
mod meter;
mod order;
mod packing;
mod prices;
mod state;

use construct::Construct;
use frame::Frame;
use ids::BlockId;
use improve::Rounds;
pub use meter::Dice;
use meter::Meter;
use state::State;

use crate::problem::{Choice, Invalid, Problem};

/// Up to here all blocks are searched at once.
const EXACT_BLOCKS_MAX: usize = 48;

/// Rounds of large neighbourhood search in a row without gain, after which it ends; more gains less than
/// one in a thousand.
const ROUNDS_NETWORK: u32 = 150;
const ROUNDS_PLAIN: u32 = 1_000;

/// How long to search.
#[derive(Clone, Copy)]
pub struct Limits<'a> {
    /// Steps of work after which the best answer so far is returned. One is about one candidate
    /// looked at: 10 to 50 million a second.
    pub work: u64,
    /// Asked now and then; after `true` the best answer so far is returned soon. A deadline goes
    /// here.
    pub stop: &'a dyn Fn() -> bool,
    /// The same problem, work and seed give the same answer, as long as `stop` does not interfere.
    pub seed: u64,
    /// Candidates of all classes together up to which each is kept and sorted. Where there are more, only the
    /// best of each zone are, so that an application on 100,000 nodes is placed in the time of a glance; what
    /// is left out counts in the bound. Tests set it low.
    pub listed_max: usize,
}

impl std::fmt::Debug for Limits<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Limits").field("work", &self.work).field("seed", &self.seed).finish()
    }
}

impl Default for Limits<'_> {
    fn default() -> Self {
        Limits { work: WORK_DEFAULT, stop: &|| false, seed: 0, listed_max: LISTED_MAX_DEFAULT }
    }
}

/// Enough to prove the optimum of most single applications, and some hundred milliseconds.
pub const WORK_DEFAULT: u64 = 10_000_000;

/// Sorting more than this is most of the time of one application.
const LISTED_MAX_DEFAULT: usize = 1_000_000;

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    /// One for every item of the problem, in its order; `None` for the items of a part that was
    /// not placed.
    pub chosen: Vec<Option<Choice>>,
    /// What [`Problem::check`] says about `chosen`.
    pub objective: i64,
    /// No choice for the same parts has a greater objective.
    pub bound: i64,
    /// `chosen` is the best there is: the objective is the bound, and every part that was not
    /// placed could not be.
    pub optimal: bool,
    /// In the order of [`Problem::parts`].
    pub parts: Vec<Outcome>,
    pub work: u64,
}

/// What became of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Placed,
    /// There is no room for it beside the parts that come before it.
    Infeasible,
    /// None was found within the limits.
    NotFound,
}

/// Places all parts that can be placed, in the order of their priority, and makes the objective of
/// them all together as great as it can within the limits.
pub fn select(problem: &Problem, limits: &Limits<'_>) -> Result<Selection, Invalid> {
    problem.validate()?;
    let frame = Frame::new(problem, limits.listed_max)?;
    let mut meter = Meter::new(limits);
    let mut state = State::new(&frame);
    let mut construct = Construct::new(&frame);
    let mut outcomes = vec![Outcome::NotFound; problem.parts.len()];
    let mut placed = Vec::new();
    // Parts come by priority and are placed whole or not at all: an earlier part may be moved for a
    // later one, and is never given up for it.
    for part in &frame.parts {
        let outcome = construct.part(&mut state, &part.blocks, &placed, &mut meter);
        if outcome == Outcome::Placed {
            placed.extend_from_slice(&part.blocks);
        }
        outcomes[part.index] = outcome;
    }
    placed.sort_unstable();
    let bound = improve(&mut state, &placed, limits, &mut meter);
    level::level(&mut state, &placed, &mut meter);

    let mut chosen = vec![None; problem.items.len()];
    for block in &placed {
        let place = state.at(*block).expect("a part is placed whole");
        for (item, choice) in frame.choices(*block, place) {
            chosen[item] = Some(choice);
        }
    }
    let objective = state.objective;
    let certain = outcomes.iter().all(|outcome| *outcome != Outcome::NotFound);
    let optimal = certain && bound == objective;
    Ok(Selection { chosen, objective, bound, optimal, parts: outcomes, work: meter.spent })
}

/// Returns a bound on the objective.
fn improve(
    state: &mut State<'_>,
    placed: &[BlockId],
    limits: &Limits<'_>,
    meter: &mut Meter<'_>,
) -> i64 {
    if placed.is_empty() {
        return 0;
    }
    let mut dice = Dice::new(limits.seed);
    let search = improve::by_neighbourhoods;
    if placed.len() <= EXACT_BLOCKS_MAX {
        let short = Rounds { count: 8, gain_least: 1e-3 };
        // A short search for a good floor, because branch and bound prunes by it; then the first
        // proof.
        search(state, placed, i64::MAX, short, meter.mark(0.1), &mut dice, meter);
        let bound = improve::exactly(state, placed, meter.mark(0.2), meter);
        // Where only room is short, a round is quick, and a tight packing lets few of them gain.
        let plain = placed.iter().all(|block| state.frame.blocks[*block].plain());
        let count = if plain { ROUNDS_PLAIN } else { ROUNDS_NETWORK };
        let long = Rounds { count, gain_least: 0.0 };
        search(state, placed, bound, long, meter.mark(0.5), &mut dice, meter);
        if state.objective == bound || meter.over() {
            return bound;
        }
        // With a better floor the proof that did not end before may end now.
        let again = improve::exactly(state, placed, meter.mark(0.5), meter);
        return bound.min(again);
    }
    // Too many blocks for one kernel: the bound comes from relaxations, the answer from
    // neighbourhoods.
    let bound = bound::of(state, placed, meter);
    let rounds = Rounds { count: 64, gain_least: 5e-4 };
    search(state, placed, bound, rounds, u64::MAX, &mut dice, meter);
    bound
}

#[cfg(test)]
mod tests;
