//! The part of the problem that is decided next: some blocks, everything else where it is.
//!
//! A block only ever needs the best few places of each zone. With n blocks free, one that is at
//! its (n+1)th best place of a zone could move to one of the n better ones, because the other n−1
//! cannot be on all of them; its zone, and with it the network, stays as it was. Where fewer are
//! kept, a [`Span`](super::domain::Span) remembers how good the best of the rest is, so that bounds stay bounds.

use std::collections::BTreeMap;

use super::domain::Domain;
use super::frame::{Edge, Frame};
use super::ids::{BlockId, NodeRank, ZoneRank};
use super::meter::Meter;
use super::state::State;
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
    pub blocks: Vec<BlockId>,
    pub domains: Vec<Domain>,
    pub pairs: Vec<Pair>,
    /// The pairs of each block.
    pub pairs_of: Vec<Vec<usize>>,
}

impl Kernel {
    /// The blocks must not be placed in `state`. `None` if one of them has no place at all.
    pub(super) fn new(
        state: &State<'_>,
        blocks: &[BlockId],
        width: Width,
        meter: &mut Meter<'_>,
    ) -> Option<Kernel> {
        let mut domains = Vec::with_capacity(blocks.len());
        for block in blocks {
            let enough = width.places.min(blocks.len());
            let domain = Domain::of(state, *block, enough, enough == blocks.len(), width.zones);
            meter.spend((domain.places.len() + domain.spans.len()) as u64);
            if domain.spans.is_empty() && domain.unseen.is_none() {
                return None;
            }
            domains.push(domain);
        }
        let mut kernel = Kernel::of(state.frame, blocks, domains, width, meter);
        kernel.add_twins(state.frame);
        Some(kernel)
    }

    /// Of blocks of which it is known where each could go.
    pub(super) fn of(
        frame: &Frame<'_>,
        blocks: &[BlockId],
        domains: Vec<Domain>,
        width: Width,
        meter: &mut Meter<'_>,
    ) -> Kernel {
        let mut kernel = Kernel { blocks: blocks.to_vec(), domains, ..Kernel::default() };
        // Order matters: pairs are tables over the zones that are kept, twins compare the places
        // that are kept.
        kernel.keep_zones(frame, width.zones);
        kernel.add_pairs(frame, meter);
        kernel.pairs_of = vec![Vec::new(); blocks.len()];
        for (number, pair) in kernel.pairs.iter().enumerate() {
            kernel.pairs_of[pair.a].push(number);
            kernel.pairs_of[pair.b].push(number);
        }
        kernel
    }

    /// Where there are more zones than can be looked at, keeps those that are good for a block
    /// alone and those that are good for all of them together.
    fn keep_zones(&mut self, frame: &Frame<'_>, keep: usize) {
        let whole = |domain: &Domain| domain.spans.len() <= keep && domain.unseen.is_none();
        if self.domains.iter().all(whole) {
            return;
        }
        let mut joint = vec![(0i64, 0i64); frame.zones];
        for domain in &self.domains {
            for span in domain.spans.iter().filter(|span| span.zone != ZoneRank::ANYWHERE) {
                let (count, sum) = &mut joint[span.zone.at()];
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
                spans.map(|(s, span)| (-domain.best(span), joint[span.zone.at()], s)).collect();
            let mut kept = vec![false; order.len()];
            // Half of the zones for the block itself, half for those where the others are well off
            // too: a zone that is second best for everybody is often where all of them end.
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
        let place_of: BTreeMap<BlockId, usize> =
            self.blocks.iter().enumerate().map(|(place, block)| (*block, place)).collect();
        let mut tables: BTreeMap<(usize, usize), Vec<f64>> = BTreeMap::new();
        let domains = &self.domains;
        let mut add = |a: usize, b: usize, term: &dyn Fn(ZoneRank, ZoneRank) -> f64| {
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
            let block = &frame.blocks[*block];
            for edge in &block.edges {
                let edge = &frame.edges[*edge];
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
            let block = &frame.blocks[*number];
            if block.items.len() > 1 || block.zoned {
                continue;
            }
            let signature = Signature {
                index: block.index,
                demand: block.demand.as_deref(),
                skip: &block.skip,
                extra: block.extra.iter().map(|p| (p.node, p.value, p.tag)).collect(),
                crowds: (!block.loads.is_empty(), &block.scatter),
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
    skip: &'a [NodeRank],
    extra: Vec<(NodeRank, i64, u32)>,
    crowds: (bool, &'a [(u32, i64)]),
    groups: (&'a [u32], &'a [u32], NodeRank),
}

/// `same` or `other` by whether two zones are one; whatever is better where that is not known.
fn meet(from: ZoneRank, to: ZoneRank, same: f64, other: f64) -> f64 {
    if from == ZoneRank::ELSEWHERE || to == ZoneRank::ELSEWHERE {
        return same.max(other);
    }
    if from == to { same } else { other }
}

#[expect(clippy::cast_precision_loss, reason = "values and costs stay below 2^53; see `validate`")]
pub(super) fn float(value: i64) -> f64 {
    value as f64
}

fn term(frame: &Frame<'_>, edge: &Edge, from: ZoneRank, to: ZoneRank) -> f64 {
    let range = match (from, to) {
        (ZoneRank::ELSEWHERE, ZoneRank::ELSEWHERE) => frame.cost_range.any,
        (ZoneRank::ELSEWHERE, to) => frame.cost_range.to[to.at()],
        (from, ZoneRank::ELSEWHERE) => frame.cost_range.from[from.at()],
        (from, to) => return frame.price(edge, from, to).map_or(NEVER, |price| float(-price)),
    };
    // Whichever end is better, by the sign of the traffic; and whether it is one zone is not known.
    float(-(edge.traffic * range.0).min(edge.traffic * range.1) - edge.near.min(0))
}
