//! The shortest ways from one location to all others (Dijkstra). One [`Explorer`] goes out from many
//! locations, one after the other: a continuum of a thousand sites has a million ways.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use tombolo_solver::problem::Hops;

use super::{Network, UNMEASURED_US, Way, narrower};

#[derive(Clone, Copy, Debug)]
pub(crate) enum Direction {
    From,
    To,
}

/// Implied joints, delay and hops in one number, compared in this order: 16, 56 and 24 bits. A delay
/// beyond its bits would count as a joint more; a link has at most 40 of them.
type Length = u128;
const JOINT: Length = 1 << 80;
const MICROSECOND: Length = 1 << 24;
const HOP: Length = 1;
const LENGTH_MAX: Length = (1 << 96) - 1;

/// The location before, and the link from there; `None` is an implied joint.
type Step = (u32, Option<u32>);

#[derive(Debug)]
pub(crate) struct Explorer<'n> {
    network: &'n Network,
    direction: Direction,
    start: u32,
    /// By location; `None` where there is no way.
    lengths: Vec<Option<Length>>,
    steps: Vec<Step>,
    /// A length and, in the last 32 bits, its location.
    queue: BinaryHeap<Reverse<u128>>,
    links: Vec<u32>,
}

impl<'n> Explorer<'n> {
    pub(super) fn new(network: &'n Network, direction: Direction) -> Explorer<'n> {
        Explorer {
            network,
            direction,
            start: 0,
            lengths: Vec::new(),
            steps: vec![(0, None); network.zones.len()],
            queue: BinaryHeap::new(),
            links: Vec::new(),
        }
    }

    /// Finds all ways from (or to) a location.
    pub(crate) fn explore(&mut self, start: u32) {
        let neighbours = match self.direction {
            Direction::From => &self.network.out,
            Direction::To => &self.network.back,
        };
        self.start = start;
        self.lengths.clear();
        self.lengths.resize(self.network.zones.len(), None);
        self.lengths[start as usize] = Some(0);
        self.queue.clear();
        self.queue.push(Reverse(u128::from(start)));
        while let Some(Reverse(entry)) = self.queue.pop() {
            let (length, zone) = (entry >> 32, location(entry));
            if self.lengths[zone as usize] != Some(length) {
                continue;
            }
            for (next, link) in &neighbours[zone as usize] {
                let more = match link {
                    Some(link) => {
                        Length::from(self.network.links[*link as usize].latency_us) * MICROSECOND
                    }
                    None => JOINT,
                };
                let further = (length + more + HOP).min(LENGTH_MAX);
                let known = &mut self.lengths[*next as usize];
                if known.is_none_or(|known| further < known) {
                    *known = Some(further);
                    self.steps[*next as usize] = (zone, *link);
                    self.queue.push(Reverse(further << 32 | u128::from(*next)));
                }
            }
        }
        self.take_what_was_measured();
    }

    /// What probes found from end to end is how long it takes, whatever others add up to.
    fn take_what_was_measured(&mut self) {
        let neighbours = match self.direction {
            Direction::From => &self.network.out,
            Direction::To => &self.network.back,
        };
        let mut taken = None;
        let mut direct: Vec<(u32, u64, u32)> = Vec::new();
        for (next, link) in &neighbours[self.start as usize] {
            let Some(link) = *link else { continue };
            let row = &self.network.links[link as usize];
            if row.is_measured {
                direct.push((*next, row.latency_us, link));
            }
        }
        direct.sort_unstable();
        for (next, _, link) in direct {
            // Of several links between the same two, the shortest.
            if taken != Some(next) {
                self.steps[next as usize] = (self.start, Some(link));
                taken = Some(next);
            }
        }
    }

    /// The way between the start and a location; `None` if there is none.
    pub(crate) fn way(&mut self, zone: u32) -> Option<Way> {
        let network = self.network;
        if self.lengths[zone as usize].is_none() {
            let measured = |zone: u32| network.zones[zone as usize].measured;
            let known = measured(self.start) && measured(zone);
            let assumed = Way { latency_us: UNMEASURED_US, assumed: true, ..Way::default() };
            return (!known).then_some(assumed);
        }
        let mut way = Way::default();
        self.links.clear();
        let mut at = zone;
        while at != self.start {
            let (before, link) = self.steps[at as usize];
            if let Some(link) = link {
                let row = &network.links[link as usize];
                way.latency_us = way.latency_us.saturating_add(row.latency_us);
                way.jitter_us = way.jitter_us.saturating_add(row.jitter_us);
                way.bandwidth_bps = narrower(way.bandwidth_bps, row.bandwidth_bps);
                self.links.push(link);
            }
            at = before;
        }
        // It was followed back to the start.
        match self.direction {
            Direction::From => self.links.reverse(),
            Direction::To => (),
        }
        way.links = Hops::from(self.links.as_slice());
        Some(way)
    }
}

fn location(entry: u128) -> u32 {
    #[expect(clippy::cast_possible_truncation, reason = "the last 32 bits are the location")]
    let zone = entry as u32;
    zone
}
