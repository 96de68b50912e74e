//! From a good answer to a better one: all at once where the problem is small, which also proves
//! how good it is, and a few blocks at a time where it is not (large neighbourhood search).

use super::branch::{self, Aim, Found};
use super::dual::Dual;
use super::frame::Place;
use super::ids::BlockId;
use super::kernel::{Kernel, Width, dead, float};
use super::meter::{Dice, Meter};
use super::packing;
use super::state::State;

/// Blocks that are taken out and put back in one round, at least and at most.
const FREED: (usize, usize) = (5, 12);
const WORK_PER_ROUND: u64 = 10_000;

/// How long to go on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rounds {
    /// In one series.
    pub count: u32,
    /// The share of the objective that a series must gain to be followed by another.
    pub gain_least: f64,
}

const WIDTH: Width = Width { places: 4, zones: 24 };
/// Rounds of prices and sweeps before an exact search.
const ROUNDS_EXACT: usize = 200;
/// A kernel with more places than this is cut to the best of each zone first.
const PLACES_MAX: usize = 40_000;
/// The same for the entries of the tables of all pairs.
const TABLES_MAX: usize = 500_000;

/// Searches over all of the blocks at once, starting from what is placed. Returns a bound on the
/// objective.
pub(super) fn exactly(
    state: &mut State<'_>,
    blocks: &[BlockId],
    until: u64,
    meter: &mut Meter<'_>,
) -> i64 {
    let incumbent = state.objective;
    let before: Vec<Place> = blocks.iter().map(|block| state.take(*block)).collect();
    let zones = state.frame.zones.max(1);
    let small = blocks.len() * blocks.len() * zones <= PLACES_MAX
        && blocks.len() * zones * zones <= TABLES_MAX;
    // Dominance: of n free blocks, none needs more than the n best places of a zone.
    let width = match small {
        true => Width { places: blocks.len(), zones },
        false => Width { places: 4, zones: 48 },
    };
    let mut bound = incumbent;
    let mut answer = before;
    if let Some(mut kernel) = Kernel::new(state, blocks, width, meter) {
        let aim = Aim { floor: Some(incumbent), until, first: false, enough: 0 };
        let found = match packing::suits(&kernel, state) {
            true => packing::search(&kernel, state, aim, meter),
            false => by_prices(&mut kernel, state, aim, meter),
        };
        answer = found.places.unwrap_or(answer);
        if !dead(found.open) {
            bound = floor(found.open);
        }
    }
    put_back(state, blocks, &answer);
    bound.max(state.objective)
}

fn by_prices(kernel: &mut Kernel, state: &mut State<'_>, aim: Aim, meter: &mut Meter<'_>) -> Found {
    let base = float(state.objective);
    let goal = aim.floor.map(|floor| float(floor) - base);
    let dual = Dual::new(kernel, state, goal, ROUNDS_EXACT, meter);
    let found = branch::search(kernel, &dual, state, aim, meter);
    Found { open: found.open.min(base + dual.bound) + dual.slack, ..found }
}

#[expect(clippy::cast_possible_truncation, reason = "far below 2^53, as `validate` has seen to")]
pub(super) fn floor(bound: f64) -> i64 {
    bound.floor() as i64
}

fn put_back(state: &mut State<'_>, blocks: &[BlockId], places: &[Place]) {
    for (block, place) in blocks.iter().zip(places) {
        let done = state.place(*block, *place);
        assert!(done, "an answer that was found can be put in place");
    }
}

/// Takes some blocks out and puts them back as well as can be, again and again, until a
/// series of rounds has gained next to nothing, the bound is reached, or the work is done.
pub(super) fn by_neighbourhoods(
    state: &mut State<'_>,
    blocks: &[BlockId],
    bound: i64,
    rounds: Rounds,
    until: u64,
    dice: &mut Dice,
    meter: &mut Meter<'_>,
) {
    let mut before = state.objective;
    let mut round = 0;
    while state.objective < bound && !meter.over() && meter.spent < until {
        let freed = neighbourhood(state, blocks, dice);
        reseat(state, &freed, meter);
        round += 1;
        if round % rounds.count == 0 {
            if float(state.objective - before) <= rounds.gain_least * float(before.abs()) {
                return;
            }
            before = state.objective;
        }
    }
}

fn reseat(state: &mut State<'_>, freed: &[BlockId], meter: &mut Meter<'_>) {
    let incumbent = state.objective;
    let before: Vec<Place> = freed.iter().map(|block| state.take(*block)).collect();
    let mut answer = None;
    if let Some(mut kernel) = Kernel::new(state, freed, WIDTH, meter) {
        let goal = float(incumbent) - float(state.objective);
        let dual = Dual::new(&mut kernel, state, Some(goal), 4, meter);
        let until = meter.spent.saturating_add(WORK_PER_ROUND);
        let aim = Aim { floor: Some(incumbent), until, first: false, enough: 0 };
        answer = branch::search(&kernel, &dual, state, aim, meter).places;
    }
    put_back(state, freed, answer.as_deref().unwrap_or(&before));
}

/// A block, those it talks to, and those on the nodes that it would rather have.
fn neighbourhood(state: &State<'_>, blocks: &[BlockId], dice: &mut Dice) -> Vec<BlockId> {
    let frame = state.frame;
    // The neighbourhood grows from one random block: first along its edges and groups (blocks that
    // should move together), then to those who hold the places that it would rather have (blocks
    // that are in the way).
    let mut freed = vec![blocks[dice.below(blocks.len())]];
    let most = FREED.0 + dice.below(FREED.1 - FREED.0 + 1);
    let add = |freed: &mut Vec<BlockId>, block: BlockId, most: usize| {
        if freed.len() < most && !freed.contains(&block) && state.at(block).is_some() {
            freed.push(block);
        }
    };
    let mut at = 0;
    while at < freed.len() && freed.len() < most / 2 {
        let number = freed[at];
        for edge in &frame.blocks[number].edges {
            let edge = &frame.edges[*edge];
            add(&mut freed, if edge.a == number { edge.b } else { edge.a }, most / 2 + 1);
        }
        for group in &frame.blocks[number].together {
            for other in &frame.together[*group as usize] {
                add(&mut freed, *other, most);
            }
        }
        at += 1;
    }
    // Twice, so that a chain can form: the second draw may meet a block that the first wish has
    // added.
    for _ in 0..2 {
        let number = freed[dice.below(freed.len())];
        let block = &frame.blocks[number];
        let Some(place) = state.at(number) else { continue };
        let index = &frame.indices[block.index as usize];
        let zone = match block.zoned {
            true => frame.zone_of[place.node].at(),
            false => 0,
        };
        let (places, _) = index.zone(zone);
        let better = places.partition_point(|other| other.value > place.value);
        if better > 0 {
            let wish = places[dice.below(better)].node;
            let there: Vec<BlockId> = state.on(wish).take(most).collect();
            there.into_iter().for_each(|other| add(&mut freed, other, most));
        }
    }
    // The rest by chance, which keeps the search from freeing the same set again and again.
    while freed.len() < most.min(blocks.len()) {
        let other = blocks[dice.below(blocks.len())];
        match freed.contains(&other) {
            true => break,
            false => freed.push(other),
        }
    }
    freed
}
