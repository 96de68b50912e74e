//! Room for blocks that want nothing but room, where taking the best place for each has run into a dead
//! end. Values do not count here: any answer will do, and the improvement makes it a good one. Called
//! by [`Construct`](super::construct::Construct). Start reading at [`all`].
//!
//! This is vector bin packing with bins of different sizes. Three searches are tried, the cheapest
//! first: first-fit and best-fit decreasing in several orders; ejection chains, which repair the
//! best of these; and bin completion, which fills node after node and ends with an answer or a proof.

mod complete;
mod decreasing;
mod eject;
mod kinds;

use super::frame::Place;
use super::ids::{BlockId, NodeRank};
use super::meter::{Dice, Meter};
use super::state::State;
use kinds::Kinds;

/// What became of the blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fit {
    /// All of them are placed.
    Found,
    /// There is no way to place them beside what is placed in the state; proven.
    Impossible,
    /// Neither was found out. The state is as it was.
    Unknown,
}

/// Turns of ejection and completion, each with twice the work of the one before: a problem that is
/// easy for either ends early, and neither takes much from the other.
const TURNS: u32 = 12;
/// Work of the first turn.
const TURN_WORK: u64 = 50_000;

/// Places all of the blocks, which are plain and not placed. What is placed stays where it is.
pub(super) fn all(
    state: &mut State<'_>,
    blocks: &[BlockId],
    until: u64,
    meter: &mut Meter<'_>,
) -> Fit {
    let homes = blocks.iter().map(|block| state.frame.blocks[*block].current).collect();
    let Some(kinds) = Kinds::of(state, blocks, homes, meter) else { return Fit::Unknown };
    if kinds.short() {
        return kinds.verdict(Fit::Impossible);
    }
    let mut dice = Dice::new(0);
    let mut packed = decreasing::best(&kinds, meter);
    let mut completion = complete::Search::new(&kinds);
    for turn in 0..TURNS {
        let work = TURN_WORK << turn;
        if eject::run(&mut packed, &kinds, mark(meter, work, until), &mut dice, meter) {
            return kinds.put(state, packed.at());
        }
        match completion.run(&kinds, mark(meter, work, until), &mut dice, meter) {
            complete::End::Found(at) => return kinds.put(state, &at),
            complete::End::Nothing => return kinds.verdict(Fit::Impossible),
            complete::End::Stopped => (),
        }
        if meter.over() || meter.spent >= until {
            break;
        }
    }
    Fit::Unknown
}

/// Places all of the blocks; the `others`, which are plain and placed, may be moved for them. Only ejection
/// chains are tried, from where everything is, so that few have to move. Returns whether it was done;
/// if not, the state is as it was.
pub(super) fn with_others(
    state: &mut State<'_>,
    blocks: &[BlockId],
    others: &[BlockId],
    until: u64,
    meter: &mut Meter<'_>,
) -> bool {
    let before: Vec<Place> = others.iter().map(|block| state.take(*block)).collect();
    let everyone: Vec<BlockId> = blocks.iter().chain(others).copied().collect();
    let homes = blocks.iter().map(|_| NodeRank::NONE).chain(before.iter().map(|place| place.node));
    let fit = match Kinds::of(state, &everyone, homes.collect(), meter) {
        Some(kinds) if !kinds.short() => {
            let mut packed = kinds.as_it_was();
            match eject::run(&mut packed, &kinds, until, &mut Dice::new(0), meter) {
                true => kinds.put(state, packed.at()),
                false => Fit::Unknown,
            }
        }
        Some(_) | None => Fit::Unknown,
    };
    if fit == Fit::Found {
        return true;
    }
    for (block, place) in others.iter().zip(before) {
        let back = state.place(*block, place);
        assert!(back, "what was placed can be placed again");
    }
    false
}

fn mark(meter: &Meter<'_>, work: u64, until: u64) -> u64 {
    meter.spent.saturating_add(work).min(until)
}
