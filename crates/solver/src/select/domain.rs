//! Where one block of a [`Kernel`](super::kernel::Kernel) could go: the best places of each zone
//! that is worth a look. Start reading at [`Domain::of`].

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::frame::{Block, Frame, Place};
use super::ids::{BlockId, ZoneRank};
use super::index::{NOTHING, sort_key};
use super::kernel::{NEVER, dead, float};
use super::meter::Meter;
use super::state::{FORBIDDEN, State};

/// So many times the zones that are kept are looked into.
const LOOKED_INTO: usize = 3;
/// So many places more than are kept are looked at where load decides among them.
const LOOKED_BEYOND: usize = 64;

#[derive(Clone, Debug)]
pub(super) struct Span {
    pub zone: ZoneRank,
    pub start: usize,
    pub end: usize,
    /// Network and all: what the best place of this zone would give that was not kept.
    pub more: f64,
    /// What the traffic to those that are placed already costs here.
    pub cost: i64,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Domain {
    pub spans: Vec<Span>,
    pub places: Vec<Place>,
    /// The value of each place, less what it costs to be there beside those that are placed already.
    pub worth: Vec<i64>,
    /// The block before this one in the kernel that it could change places with.
    pub twin: Option<usize>,
    /// What the best of those zones could give that were not even looked into.
    pub unseen: Option<i64>,
}

impl Domain {
    /// The best places of a block that are still free. `complete` says that no answer needs more than
    /// `keep` of them. Where there are many more than `zones` zones, only those are looked into that
    /// could be among the best.
    pub(super) fn of(
        state: &State<'_>,
        number: BlockId,
        keep: usize,
        complete: bool,
        zones: usize,
    ) -> Domain {
        let frame = state.frame;
        let block = &frame.blocks[number];
        let index = &frame.indices[block.index as usize];
        let mut domain = Domain::default();
        if frame.broken[number.at()] {
            return domain;
        }
        let costs = if block.zoned { state.zone_costs(number) } else { vec![0] };
        let most = zones.saturating_mul(LOOKED_INTO);
        let (looked_into, unseen) = promising(state, number, &costs, most);
        domain.unseen = unseen;
        for zone in looked_into {
            let name = match block.zoned {
                true => ZoneRank::new(zone),
                false => ZoneRank::ANYWHERE,
            };
            let (places, left_out) = index.zone(zone);
            let extra = block
                .extra
                .iter()
                .filter(|place| name == ZoneRank::ANYWHERE || frame.zone_of[place.node] == name);
            let extra: Vec<Place> =
                extra.filter(|place| state.admits(block, place)).copied().collect();
            if places.is_empty() && extra.is_empty() {
                continue;
            }
            let cost = costs[zone];
            if cost != FORBIDDEN {
                let lists = Lists { places, extra, left_out };
                let start = domain.places.len();
                let span = Span { zone: name, start, end: start, more: NEVER, cost };
                let more = match frame.is_crowded(number) {
                    true => add_crowded(state, block, &mut domain, &lists, (keep, complete)),
                    false => add_places(state, block, &mut domain, &lists, keep),
                };
                domain.close_span(span, more.filter(|_| !complete).max(lists.left_out));
            }
        }
        domain
    }

    /// The best place of each zone by what is left of its value at some prices; nothing where it does not fit.
    pub(super) fn at_prices(
        frame: &Frame<'_>,
        number: BlockId,
        worth: &dyn Fn(&Block, &Place) -> Option<i64>,
        meter: &mut Meter<'_>,
    ) -> Domain {
        let block = &frame.blocks[number];
        let index = &frame.indices[block.index as usize];
        let mut domain = Domain::default();
        if frame.broken[number.at()] {
            return domain;
        }
        let mut looked = 0;
        for zone in 0..index.zones() {
            let name = if block.zoned { ZoneRank::new(zone) } else { ZoneRank::ANYWHERE };
            let (places, left_out) = index.zone(zone);
            let mut best: Option<(i64, Place)> = None;
            let mut look = |place: &Place, best: &mut Option<(i64, Place)>| {
                looked += 1;
                let worth = worth(block, place);
                if worth.is_some_and(|worth| best.is_none_or(|(most, _)| worth > most)) {
                    *best = worth.map(|worth| (worth, *place));
                }
            };
            let own = block.extra.iter();
            own.filter(|place| name == ZoneRank::ANYWHERE || frame.zone_of[place.node] == name)
                .for_each(|place| look(place, &mut best));
            for place in places {
                // The lists are sorted, and prices are never less than nothing.
                if best.is_some_and(|(most, _)| place.value < most) {
                    break;
                }
                if block.skip.is_empty() || block.skip.binary_search(&place.node).is_err() {
                    look(place, &mut best);
                }
            }
            let start = domain.places.len();
            if let Some((worth, place)) = best {
                domain.places.push(place);
                domain.worth.push(worth);
            }
            let span = Span { zone: name, start, end: start, more: NEVER, cost: 0 };
            domain.close_span(span, left_out);
        }
        meter.spend(looked / 2 + 1);
        domain
    }

    pub(super) fn best(&self, span: &Span) -> i64 {
        match span.start < span.end {
            true => self.worth[span.start] - span.cost,
            #[expect(clippy::cast_possible_truncation, reason = "it was made of an i64")]
            false => span.more as i64,
        }
    }

    fn close_span(&mut self, mut span: Span, more: Option<i64>) {
        if let Some(more) = more {
            span.more = float(more - span.cost);
        }
        span.end = self.places.len();
        if span.end > span.start || !dead(span.more) {
            self.spans.push(span);
        }
    }

    /// What is dropped becomes one span that only a bound can see.
    pub(super) fn drop_spans(&mut self, kept: &[bool]) {
        let mut more = self.unseen.map_or(NEVER, float);
        let mut spans = Vec::new();
        let (mut places, mut worth) = (Vec::new(), Vec::new());
        for (span, kept) in self.spans.iter().zip(kept) {
            if *kept {
                let start = places.len();
                places.extend_from_slice(&self.places[span.start..span.end]);
                worth.extend_from_slice(&self.worth[span.start..span.end]);
                spans.push(Span { start, end: places.len(), ..span.clone() });
            } else {
                more = more.max(float(self.best(span))).max(span.more);
            }
        }
        let end = places.len();
        spans.push(Span { zone: ZoneRank::ELSEWHERE, start: end, end, more, cost: 0 });
        self.spans = spans;
        self.places = places;
        self.worth = worth;
    }
}

/// The zones to look into, ascending, and how good the best of the others could be. No more than a
/// glance at the first place of each.
fn promising(
    state: &State<'_>,
    number: BlockId,
    costs: &[i64],
    most: usize,
) -> (Vec<usize>, Option<i64>) {
    let frame = state.frame;
    let block = &frame.blocks[number];
    let index = &frame.indices[block.index as usize];
    if !block.zoned || index.zones() <= most {
        return ((0..index.zones()).collect(), None);
    }
    let mut offers: Vec<(Reverse<i64>, usize)> = Vec::with_capacity(index.zones());
    for (zone, (best, cost)) in index.best().iter().zip(costs).enumerate() {
        let own = block.extra.iter().filter(|p| frame.zone_of[p.node].at() == zone);
        let best = own.map(|place| place.value).fold(*best, i64::max);
        if best != NOTHING && *cost != FORBIDDEN {
            offers.push((Reverse(best - cost), zone));
        }
    }
    let mut unseen = None;
    if offers.len() > most {
        let (_, first, _) = offers.select_nth_unstable(most);
        unseen = Some(first.0.0);
        offers.truncate(most);
    }
    let mut zones: Vec<usize> = offers.into_iter().map(|(_, zone)| zone).collect();
    zones.sort_unstable();
    (zones, unseen)
}

/// The same where those that are placed already make a place worth less than its value: the list is not in the order of
/// worth then. Of `keep` places for each set of engines, those that are worth most. Unless the places have to be
/// complete, the search ends soon after it has enough; what follows in the list counts with its value.
fn add_crowded(
    state: &State<'_>,
    block: &Block,
    domain: &mut Domain,
    lists: &Lists<'_>,
    (keep, complete): (usize, bool),
) -> Option<i64> {
    let free = lists.places.iter().filter(|place| {
        (block.skip.is_empty() || block.skip.binary_search(&place.node).is_err())
            && state.admits(block, place)
    });
    let worth = |place: &Place| place.value - state.crowding(block, place.node);
    let mut found: Vec<(i64, Place)> = lists.extra.iter().map(|p| (worth(p), *p)).collect();
    // The least worth of the best `keep`.
    let mut best: BinaryHeap<Reverse<i64>> =
        found.iter().map(|(worth, _)| Reverse(*worth)).collect();
    let mut more = None;
    let mut beyond = 0;
    for place in free {
        while best.len() > keep {
            best.pop();
        }
        if block.engines.is_empty() && best.len() == keep {
            let is_over = best.peek().is_none_or(|Reverse(least)| place.value <= *least);
            beyond += 1;
            if is_over || (!complete && beyond > LOOKED_BEYOND) {
                more = Some(place.value);
                break;
            }
        }
        found.push((worth(place), *place));
        best.push(Reverse(worth(place)));
    }
    found.sort_unstable_by_key(|(worth, place)| (Reverse(*worth), sort_key(place)));
    let mut kept: Vec<(u32, usize)> = Vec::new();
    for (worth, place) in found {
        let at = kept.iter().position(|(tag, _)| *tag == place.tag).unwrap_or_else(|| {
            kept.push((place.tag, 0));
            kept.len() - 1
        });
        if kept[at].1 < keep {
            kept[at].1 += 1;
            domain.places.push(place);
            domain.worth.push(worth);
        } else {
            more = more.max(Some(worth));
        }
    }
    more
}

struct Lists<'a> {
    places: &'a [Place],
    extra: Vec<Place>,
    left_out: Option<i64>,
}

/// Returns the value of the best place that was not kept.
fn add_places(
    state: &State<'_>,
    block: &Block,
    domain: &mut Domain,
    lists: &Lists<'_>,
    keep: usize,
) -> Option<i64> {
    let free = lists.places.iter().filter(|place| {
        (block.skip.is_empty() || block.skip.binary_search(&place.node).is_err())
            && state.admits(block, place)
    });
    let mut free = free.peekable();
    let mut extra = lists.extra.iter().peekable();
    // Places with other engines do not stand in for each other.
    let mut kept: Vec<(u32, usize)> = Vec::new();
    let mut more = None;
    loop {
        let from_list = match (free.peek(), extra.peek()) {
            (None, None) => return more,
            (Some(place), Some(other)) => sort_key(place) < sort_key(other),
            (Some(_), None) => true,
            (None, Some(_)) => false,
        };
        let next = if from_list { free.next() } else { extra.next() };
        let Some(place) = next else { return more };
        let at = kept.iter().position(|(tag, _)| *tag == place.tag).unwrap_or_else(|| {
            kept.push((place.tag, 0));
            kept.len() - 1
        });
        if kept[at].1 < keep {
            kept[at].1 += 1;
            domain.places.push(*place);
            domain.worth.push(place.value);
            continue;
        }
        more = more.max(Some(place.value));
        if block.engines.is_empty() {
            return more;
        }
    }
}
