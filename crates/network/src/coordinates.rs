//! Where a node is in the network, so that the delay to any other is known without a probe: Vivaldi (Dabek and
//! others, 2004) in four dimensions and a height, with the mends that practice asked for (Ledlie and others, 2007): a
//! moving median before anything is believed, and a term that takes up what no point in space can. Near peers pull
//! harder than far ones, which is ours and mends the tail of the errors. Start at [`Vivaldi::observe`].
//!
//! A coordinate is good for choosing whom to probe, and not for a promise: see [ADR
//! 18](../../../docs/adr/0018-coordinates-and-shortlists.md).

use std::collections::{BTreeMap, VecDeque};

pub const DIMENSIONS: usize = 4;
/// How far one probe moves a node, and its opinion of its own error, at most.
const PULL: f64 = 0.25;
const LEARN: f64 = 0.25;
/// Peers that are nearer than this pull with all their force, those beyond with as much less as they are further. A
/// long way is off by more milliseconds than a short one is long, and would drown it.
const NEAR_MS: f64 = 100.0;
/// A node that knows nothing.
const ERROR_MOST: f64 = 1.0;
const ERROR_LEAST: f64 = 0.02;
/// The access line of the best connected machine, in milliseconds. Below, heights would turn negative.
const HEIGHT_LEAST: f64 = 0.01;
/// Probes of one peer over which the median goes. More react too late, fewer let single slow packets through.
const FILTER: usize = 5;
/// Peers of whom we keep probes: far more than anybody probes at a time.
const PEERS_MOST: usize = 256;
/// Probes whose rest goes into the adjustment.
const RESTS: usize = 64;
/// A delay above is a mistake, or not of this planet.
const RTT_MS_MOST: f64 = 60_000.0;
/// The smallest delay that is told apart from none.
const RTT_MS_LEAST: f64 = 0.01;

/// Where a node is. Distances are milliseconds there and back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Coordinate {
    pub point: [f64; DIMENSIONS],
    /// The way from the node to the core of the network, which every packet goes.
    pub height: f64,
    /// What distances are off by on average; half of it counts at each end.
    pub adjustment: f64,
    /// How far off distances are, as a share of them.
    pub error: f64,
}

impl Default for Coordinate {
    fn default() -> Coordinate {
        Coordinate { point: [0.0; DIMENSIONS], height: 1.0, adjustment: 0.0, error: ERROR_MOST }
    }
}

/// What two coordinates say of the delay between their nodes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    pub rtt_ms: f64,
    /// Four fifths of the truths lie within, 19 of 20 within twice that (measured on PlanetLab).
    pub spread_ms: f64,
}

impl Coordinate {
    /// Whether it can be reckoned with. What comes from another node is not to be believed unseen.
    pub fn is_sound(&self) -> bool {
        let far = |value: &f64| value.is_finite() && value.abs() <= RTT_MS_MOST;
        self.point.iter().all(far)
            && far(&self.height)
            && far(&self.adjustment)
            && self.height >= 0.0
            && self.error.is_finite()
            && self.error >= 0.0
    }

    fn span(&self, other: &Coordinate) -> f64 {
        let squares = self.point.iter().zip(&other.point).map(|(a, b)| (a - b) * (a - b));
        squares.sum::<f64>().sqrt()
    }

    fn raw(&self, other: &Coordinate) -> f64 {
        self.span(other) + self.height + other.height
    }

    /// The delay there and back between two nodes.
    pub fn estimate(&self, other: &Coordinate) -> Estimate {
        let raw = self.raw(other);
        let adjusted = raw + self.adjustment + other.adjustment;
        let rtt_ms = if adjusted > 0.0 { adjusted } else { raw }.max(RTT_MS_LEAST);
        let error = (self.error * self.error + other.error * other.error).sqrt();
        Estimate { rtt_ms, spread_ms: rtt_ms * error }
    }
}

/// What a probe did to the coordinate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Observed {
    Moved,
    /// The probe or the peer's coordinate cannot be reckoned with.
    Refused,
}

/// The coordinate of one node, and what it takes to keep it.
#[derive(Clone, Debug)]
pub struct Vivaldi<P> {
    own: Coordinate,
    recent: BTreeMap<P, VecDeque<f64>>,
    rests: VecDeque<f64>,
    /// Any number; which way two nodes part that are at the same point.
    chance: u64,
}

impl<P: Ord + Clone> Vivaldi<P> {
    /// `chance` should differ from node to node: a hash of the name will do.
    pub fn new(chance: u64) -> Vivaldi<P> {
        let own = Coordinate::default();
        Vivaldi { own, recent: BTreeMap::new(), rests: VecDeque::new(), chance: chance | 1 }
    }

    /// Goes on from where an earlier process was.
    pub fn resume(own: Coordinate, chance: u64) -> Vivaldi<P> {
        let own = if own.is_sound() { own } else { Coordinate::default() };
        Vivaldi { own, ..Vivaldi::new(chance) }
    }

    pub fn coordinate(&self) -> Coordinate {
        self.own
    }

    /// A probe of a peer took so long there and back, and the peer says where it is.
    pub fn observe(&mut self, peer: &P, theirs: &Coordinate, rtt_ms: f64) -> Observed {
        let plausible = rtt_ms > 0.0 && rtt_ms <= RTT_MS_MOST;
        if !plausible || !theirs.is_sound() {
            return Observed::Refused;
        }
        let rtt = self.filtered(peer, rtt_ms.max(RTT_MS_LEAST));
        let raw = self.own.raw(theirs);
        let weight = self.own.error / (self.own.error + theirs.error.max(ERROR_LEAST));
        // Of the larger of the two: the error of a way of no length would be without bounds.
        let off = (raw - rtt).abs() / rtt.max(raw);
        let learn = LEARN * weight;
        self.own.error =
            (off * learn + self.own.error * (1.0 - learn)).clamp(ERROR_LEAST, ERROR_MOST);
        self.pull(theirs, PULL * weight * (NEAR_MS / (rtt + 1.0)).min(1.0) * (rtt - raw));
        self.rest(rtt - self.own.raw(theirs));
        Observed::Moved
    }

    /// The median of the last probes of this peer.
    fn filtered(&mut self, peer: &P, rtt_ms: f64) -> f64 {
        if !self.recent.contains_key(peer) && self.recent.len() >= PEERS_MOST {
            self.recent.pop_first();
        }
        let recent = self.recent.entry(peer.clone()).or_default();
        if recent.len() >= FILTER {
            recent.pop_front();
        }
        recent.push_back(rtt_ms);
        let mut sorted: Vec<f64> = recent.iter().copied().collect();
        sorted.sort_unstable_by(f64::total_cmp);
        sorted[(sorted.len() - 1) / 2]
    }

    /// Moves away from the peer by `force`, or towards it if that is negative.
    fn pull(&mut self, theirs: &Coordinate, force: f64) {
        let span = self.own.span(theirs);
        let away = self.away(theirs, span);
        for (value, direction) in self.own.point.iter_mut().zip(away) {
            *value += direction * force;
        }
        if span > 0.0 {
            let share = (self.own.height + theirs.height) / span;
            self.own.height = (self.own.height + share * force).max(HEIGHT_LEAST);
        }
        if !self.own.is_sound() {
            self.own = Coordinate::default();
        }
    }

    /// The direction from the peer to us; any, if we are where it is.
    fn away(&mut self, theirs: &Coordinate, span: f64) -> [f64; DIMENSIONS] {
        let mut away = [0.0; DIMENSIONS];
        if span > 1e-9 {
            for (value, (a, b)) in away.iter_mut().zip(self.own.point.iter().zip(&theirs.point)) {
                *value = (a - b) / span;
            }
            return away;
        }
        for value in &mut away {
            self.chance ^= self.chance << 13;
            self.chance ^= self.chance >> 7;
            self.chance ^= self.chance << 17;
            let [.., low, high] = self.chance.to_be_bytes();
            *value = f64::from(u16::from_be_bytes([low, high])) / 32_768.0 - 1.0;
        }
        let length = away.iter().map(|value| value * value).sum::<f64>().sqrt().max(1e-9);
        away.map(|value| value / length)
    }

    fn rest(&mut self, rest: f64) {
        if self.rests.len() >= RESTS {
            self.rests.pop_front();
        }
        self.rests.push_back(rest);
        let count = self.rests.iter().fold(0.0, |count, _| count + 1.0);
        self.own.adjustment = self.rests.iter().sum::<f64>() / (2.0 * count);
    }
}

#[cfg(test)]
mod tests;
