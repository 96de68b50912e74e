//! The part of the problem that is decided next: some blocks, everything else where it is.
//!
//! A block only ever needs the best few places of each zone. With n blocks free, one that is at
//! its (n+1)th best place of a zone could move to one of the n better ones, because the other n−1
//! cannot be on all of them; its zone, and with it the network, stays as it was. Where fewer are
//! kept, a [`Span`] remembers how good the best of the rest is, so that bounds stay bounds.

use std::collections::BTreeMap;

use super::frame::{Block, Edge, Frame, Place};
use super::index::{NOTHING, sort_key};
use super::meter::Meter;
use super::state::{FORBIDDEN, State};
use crate::problem::Scope;

/// Worse than any sum of values and costs.
pub(super) const NEVER: f64 = -1e18;

pub(super) fn dead(score: f64) -> bool {
    score < -1e17
}

/// How much of the problem is looked at.
#[derive(Clone, Copy, Debug)]
pub(super) struct Width {
    /// Places kept for a zone.
    pub places: usize,
    /// Zones kept for a block.
    pub zones: usize,
}

/// So many times the zones that are kept are looked into.
const LOOKED_INTO: usize = 3;

/// Any zone, for blocks whose zone does not matter.
pub(super) const ANYWHERE: u32 = u32::MAX;
/// Those zones that were not kept.
pub(super) const ELSEWHERE: u32 = u32::MAX - 1;

#[derive(Clone, Debug)]
pub(super) struct Span {
    pub zone: u32,
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
    /// The block before this one in the kernel that it could change places with.
    pub twin: Option<usize>,
    /// What the best of those zones could give that were not even looked into.
    unseen: Option<i64>,
}

/// Two blocks whose zones have to do with each other.
#[derive(Clone, Debug)]
pub(super) struct Pair {
    pub a: usize,
    pub b: usize,
    /// `[span of a * spans of b + span of b]`: less than 0 costs, [`NEVER`] is forbidden.
    pub table: Vec<f64>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Kernel {
    pub blocks: Vec<u32>,
    pub domains: Vec<Domain>,
    pub pairs: Vec<Pair>,
    /// The pairs of each block.
    pub pairs_of: Vec<Vec<usize>>,
}

impl Kernel {
    /// The blocks must not be placed in `state`. `None` if one of them has no place at all.
    pub(super) fn new(
        state: &State<'_>,
        blocks: &[u32],
        width: Width,
        meter: &mut Meter<'_>,
    ) -> Option<Kernel> {
        let mut kernel = Kernel { blocks: blocks.to_vec(), ..Kernel::default() };
        for block in blocks {
            let enough = width.places.min(blocks.len());
            let domain = domain(state, *block, enough, enough == blocks.len(), width.zones);
            meter.spend((domain.places.len() + domain.spans.len()) as u64);
            if domain.spans.is_empty() && domain.unseen.is_none() {
                return None;
            }
            kernel.domains.push(domain);
        }
        kernel.keep_zones(state, width.zones);
        kernel.add_pairs(state.frame, meter);
        kernel.pairs_of = vec![Vec::new(); blocks.len()];
        for (number, pair) in kernel.pairs.iter().enumerate() {
            kernel.pairs_of[pair.a].push(number);
            kernel.pairs_of[pair.b].push(number);
        }
        kernel.add_twins(state.frame);
        Some(kernel)
    }

    /// Where there are more zones than can be looked at, keeps those that are good for a block
    /// alone and those that are good for all of them together.
    fn keep_zones(&mut self, state: &State<'_>, keep: usize) {
        let whole = |domain: &Domain| domain.spans.len() <= keep && domain.unseen.is_none();
        if self.domains.iter().all(whole) {
            return;
        }
        let mut joint = vec![(0i64, 0i64); state.frame.zones];
        for domain in &self.domains {
            for span in domain.spans.iter().filter(|span| span.zone != ANYWHERE) {
                let (count, sum) = &mut joint[span.zone as usize];
                *count += 1;
                *sum += domain.best(span);
            }
        }
        for domain in &mut self.domains {
            if domain.spans.len() <= keep {
                if domain.unseen.is_some() {
                    domain.drop_spans(&vec![true; domain.spans.len()]);
                }
                continue;
            }
            let spans = domain.spans.iter().enumerate();
            let mut order: Vec<(i64, (i64, i64), usize)> =
                spans.map(|(s, span)| (-domain.best(span), joint[span.zone as usize], s)).collect();
            let mut kept = vec![false; order.len()];
            let half = keep / 2;
            order.select_nth_unstable_by_key(half, |(alone, _, s)| (*alone, *s));
            order[..half].iter().for_each(|(_, _, s)| kept[*s] = true);
            let rest = &mut order[half..];
            rest.select_nth_unstable_by_key(keep - half - 1, |(_, joint, s)| {
                (std::cmp::Reverse(*joint), *s)
            });
            rest[..keep - half].iter().for_each(|(_, _, s)| kept[*s] = true);
            domain.drop_spans(&kept);
        }
    }

    /// One table for each two blocks that have an edge or a group of zones in common.
    fn add_pairs(&mut self, frame: &Frame<'_>, meter: &mut Meter<'_>) {
        let place_of: BTreeMap<u32, usize> =
            self.blocks.iter().enumerate().map(|(place, block)| (*block, place)).collect();
        let mut tables: BTreeMap<(usize, usize), Vec<f64>> = BTreeMap::new();
        let domains = &self.domains;
        let mut add = |a: usize, b: usize, term: &dyn Fn(u32, u32) -> f64| {
            let (low, high) = (a.min(b), a.max(b));
            let width = domains[high].spans.len();
            let table = tables
                .entry((low, high))
                .or_insert_with(|| vec![0.0; domains[low].spans.len() * width]);
            meter.spend(table.len() as u64 / 2);
            for (s, span_low) in domains[low].spans.iter().enumerate() {
                for (t, span_high) in domains[high].spans.iter().enumerate() {
                    let (from, to) = match a == low {
                        true => (span_low.zone, span_high.zone),
                        false => (span_high.zone, span_low.zone),
                    };
                    let entry = &mut table[s * width + t];
                    *entry = (*entry + term(from, to)).max(NEVER);
                }
            }
        };
        for (place, block) in self.blocks.iter().enumerate() {
            let block = &frame.blocks[*block as usize];
            for edge in &block.edges {
                let edge = &frame.edges[*edge as usize];
                if edge.a != self.blocks[place] {
                    continue;
                }
                if let Some(other) = place_of.get(&edge.b) {
                    add(place, *other, &|from, to| term(frame, edge, from, to));
                }
            }
            for group in &block.together {
                let members = &frame.together[*group as usize];
                let free = members.iter().filter_map(|member| place_of.get(member));
                // One after the other is enough to hold them all together.
                if let Some(other) = free.filter(|other| **other > place).min() {
                    add(place, *other, &|from, to| meet(from, to, 0.0, NEVER));
                }
            }
            for group in &block.apart {
                let group = &frame.apart[*group as usize];
                if group.scope == Scope::Zone {
                    let free = group.blocks.iter().filter_map(|member| place_of.get(member));
                    for other in free.filter(|other| **other > place) {
                        add(place, *other, &|from, to| meet(from, to, NEVER, 0.0));
                    }
                }
            }
        }
        let pairs = tables.into_iter().map(|((a, b), table)| Pair { a, b, table });
        self.pairs = pairs.collect();
    }

    /// Blocks that differ in name alone could change places; the search looks at one order only.
    fn add_twins(&mut self, frame: &Frame<'_>) {
        let mut last: BTreeMap<Signature<'_>, usize> = BTreeMap::new();
        for (place, number) in self.blocks.iter().enumerate() {
            let block = &frame.blocks[*number as usize];
            if block.items.len() > 1 || block.zoned {
                continue;
            }
            let signature = Signature {
                index: block.index,
                demand: block.demand.as_deref(),
                skip: &block.skip,
                extra: block.extra.iter().map(|p| (p.node, p.value, p.tag)).collect(),
                groups: (&block.apart, &block.engines, block.current),
            };
            self.domains[place].twin = last.insert(signature, place);
        }
        // Their lists must be the same, place by place.
        for place in 0..self.domains.len() {
            if let Some(twin) = self.domains[place].twin
                && self.domains[place].places != self.domains[twin].places
            {
                self.domains[place].twin = None;
            }
        }
    }
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Signature<'a> {
    index: u32,
    demand: Option<&'a [u64]>,
    skip: &'a [u32],
    extra: Vec<(u32, i64, u32)>,
    groups: (&'a [u32], &'a [u32], u32),
}

/// `same` or `other` by whether two zones are one; whatever is better where that is not known.
fn meet(from: u32, to: u32, same: f64, other: f64) -> f64 {
    if from == ELSEWHERE || to == ELSEWHERE {
        return same.max(other);
    }
    if from == to { same } else { other }
}

impl Domain {
    fn best(&self, span: &Span) -> i64 {
        match span.start < span.end {
            true => self.places[span.start].value - span.cost,
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
    fn drop_spans(&mut self, kept: &[bool]) {
        let mut more = self.unseen.map_or(NEVER, float);
        let mut spans = Vec::new();
        let mut places = Vec::new();
        for (span, kept) in self.spans.iter().zip(kept) {
            if *kept {
                let start = places.len();
                places.extend_from_slice(&self.places[span.start..span.end]);
                spans.push(Span { start, end: places.len(), ..span.clone() });
            } else {
                more = more.max(float(self.best(span))).max(span.more);
            }
        }
        let end = places.len();
        spans.push(Span { zone: ELSEWHERE, start: end, end, more, cost: 0 });
        self.spans = spans;
        self.places = places;
    }
}

#[expect(clippy::cast_precision_loss, reason = "values and costs stay below 2^53; see `validate`")]
pub(super) fn float(value: i64) -> f64 {
    value as f64
}

/// The best places of a block that are still free. `complete` says that no answer needs more than
/// `keep` of them. Where there are many more than `zones` zones, only those are looked into that
/// could be among the best.
fn domain(state: &State<'_>, number: u32, keep: usize, complete: bool, zones: usize) -> Domain {
    let frame = state.frame;
    let block = &frame.blocks[number as usize];
    let index = &frame.indices[block.index as usize];
    let mut domain = Domain::default();
    if frame.broken[number as usize] {
        return domain;
    }
    let costs = if block.zoned { state.zone_costs(number) } else { vec![0] };
    let most = zones.saturating_mul(LOOKED_INTO);
    let (looked_into, unseen) = promising(state, number, &costs, most);
    domain.unseen = unseen;
    for zone in looked_into {
        let name = match block.zoned {
            true => u32::try_from(zone).unwrap_or(ANYWHERE),
            false => ANYWHERE,
        };
        let (places, left_out) = index.zone(zone);
        let extra = block
            .extra
            .iter()
            .filter(|place| name == ANYWHERE || frame.zone_of[place.node as usize] == name);
        let extra: Vec<Place> = extra.filter(|place| state.admits(block, place)).copied().collect();
        if places.is_empty() && extra.is_empty() {
            continue;
        }
        let cost = costs[zone];
        if cost != FORBIDDEN {
            let lists = Lists { places, extra, left_out };
            let start = domain.places.len();
            let span = Span { zone: name, start, end: start, more: NEVER, cost };
            let more = add_places(state, block, &mut domain, &lists, keep);
            domain.close_span(span, more.filter(|_| !complete).max(lists.left_out));
        }
    }
    domain
}

/// The zones to look into, ascending, and how good the best of the others could be. No more than a
/// glance at the first place of each.
fn promising(
    state: &State<'_>,
    number: u32,
    costs: &[i64],
    most: usize,
) -> (Vec<usize>, Option<i64>) {
    let frame = state.frame;
    let block = &frame.blocks[number as usize];
    let index = &frame.indices[block.index as usize];
    if !block.zoned || index.zones() <= most {
        return ((0..index.zones()).collect(), None);
    }
    let mut offers: Vec<(std::cmp::Reverse<i64>, usize)> = Vec::with_capacity(index.zones());
    for (zone, (best, cost)) in index.best().iter().zip(costs).enumerate() {
        let own = block.extra.iter().filter(|p| frame.zone_of[p.node as usize] as usize == zone);
        let best = own.map(|place| place.value).fold(*best, i64::max);
        if best != NOTHING && *cost != FORBIDDEN {
            offers.push((std::cmp::Reverse(best - cost), zone));
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
            continue;
        }
        more = more.max(Some(place.value));
        if block.engines.is_empty() {
            return more;
        }
    }
}

fn term(frame: &Frame<'_>, edge: &Edge, from: u32, to: u32) -> f64 {
    let range = match (from, to) {
        (ELSEWHERE, ELSEWHERE) => frame.cost_range.any,
        (ELSEWHERE, to) => frame.cost_range.to[to as usize],
        (from, ELSEWHERE) => frame.cost_range.from[from as usize],
        (from, to) => return frame.price(edge, from, to).map_or(NEVER, |price| float(-price)),
    };
    // Whichever end is better, by the sign of the traffic.
    float(-(edge.traffic * range.0).min(edge.traffic * range.1))
}
