//! A first answer for a part that spans more than can be looked at at once: all of it in one zone,
//! and what has no place there as near to the rest as can be. Called by
//! [`Construct`](super::construct::Construct) where going from neighbour to neighbour has run into
//! a dead end: a hub whose links are used up by the first of its partners, for one.

use super::frame::{Frame, Place};
use super::ids::BlockId;
use super::meter::Meter;
use super::state::{FORBIDDEN, State};

/// Zones that are tried, the most promising first.
const HOMES_MAX: usize = 48;

/// Places all of the blocks, those that belong together one after the other, or none.
pub(super) fn in_one_zone(state: &mut State<'_>, order: &[BlockId], meter: &mut Meter<'_>) -> bool {
    homes(state.frame, order)
        .into_iter()
        .any(|home| !meter.stopped() && fill(state, order, home, meter))
}

/// Zones by how many of the blocks have a place there, then by how good those are.
fn homes(frame: &Frame<'_>, blocks: &[BlockId]) -> Vec<usize> {
    let mut liked = vec![(0usize, 0i64); frame.zones];
    for number in blocks {
        let index = &frame.indices[frame.blocks[*number].index as usize];
        if index.zones() != frame.zones {
            continue;
        }
        for (zone, (count, sum)) in liked.iter_mut().enumerate() {
            if let Some(best) = index.zone(zone).0.first() {
                *count += 1;
                *sum += best.value;
            }
        }
    }
    let mut homes: Vec<usize> = (0..frame.zones).collect();
    homes.sort_by_key(|zone| (std::cmp::Reverse(liked[*zone]), *zone));
    homes.truncate(HOMES_MAX);
    homes
}

fn fill(state: &mut State<'_>, order: &[BlockId], home: usize, meter: &mut Meter<'_>) -> bool {
    let mut abroad = Vec::new();
    let mut done = Vec::with_capacity(order.len());
    let there = Some(home);
    for number in order {
        let zoned = state.frame.blocks[*number].zoned;
        match put(state, *number, there.filter(|_| zoned).unwrap_or(0), meter) {
            true => done.push(*number),
            false => abroad.push(*number),
        }
    }
    for number in abroad {
        if !put_abroad(state, number, meter) {
            for block in done {
                state.take(block);
            }
            return false;
        }
        done.push(number);
    }
    true
}

/// The best place of a zone that has room.
fn put(state: &mut State<'_>, number: BlockId, zone: usize, meter: &mut Meter<'_>) -> bool {
    match free(state, number, zone, meter) {
        Some(place) => state.place(number, place),
        None => false,
    }
}

/// Where traffic and value together are best.
fn put_abroad(state: &mut State<'_>, number: BlockId, meter: &mut Meter<'_>) -> bool {
    let frame = state.frame;
    let block = &frame.blocks[number];
    if !block.zoned {
        return false;
    }
    let mut offers = Vec::new();
    for (zone, cost) in state.zone_costs(number).into_iter().enumerate() {
        if cost == FORBIDDEN {
            continue;
        }
        if let Some(place) = free(state, number, zone, meter) {
            offers.push((std::cmp::Reverse(place.value - cost), zone, place));
        }
    }
    meter.spend((frame.zones * (1 + block.edges.len())) as u64 / 4);
    offers.sort_by_key(|(worth, zone, _)| (*worth, *zone));
    offers.into_iter().any(|(_, _, place)| state.place(number, place))
}

fn free(state: &State<'_>, number: BlockId, zone: usize, meter: &mut Meter<'_>) -> Option<Place> {
    let frame = state.frame;
    let block = &frame.blocks[number];
    let (places, _) = frame.indices[block.index as usize].zone(zone);
    let own =
        block.extra.iter().filter(|place| !block.zoned || frame.zone_of[place.node].at() == zone);
    let own = own.into_iter().find(|place| state.admits(block, place));
    let at = places.iter().position(|place| {
        block.skip.binary_search(&place.node).is_err() && state.admits(block, place)
    });
    meter.spend(at.unwrap_or(places.len()) as u64 / 4 + 1);
    let shared = at.map(|at| &places[at]);
    [own, shared].into_iter().flatten().min_by_key(|place| super::index::sort_key(place)).copied()
}
