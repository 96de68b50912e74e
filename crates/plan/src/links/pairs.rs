//! What is known of each pair of nodes: what its ends reported, where every node is in the network, and what that says
//! of two places. Kept by [`super::plan`]; start at [`Pairs::hear`] and [`Pairs::between`].

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tombolo_model::link::{End, EndKind};
use tombolo_model::probing::Found;
use tombolo_model::{Probing, Shared};
use tombolo_network::coordinates::{Coordinate, Vivaldi};
use tombolo_network::witness::{self, Verdict};
use tombolo_network::{Figure, Kind};

use super::{Land, ordered};
use crate::Monotonic;

/// A figure that is older is forgotten, and the pair is estimated.
const FORGET_AFTER: Duration = Duration::from_secs(60 * 60);
/// Figures that are further apart in time say nothing about who lies: the network may have changed.
const COMPARED_WITHIN: Duration = Duration::from_secs(10 * 60);
/// Who lies is asked no more often: nothing depends on the second.
const JUDGE_EVERY: Duration = Duration::from_secs(10);
/// A coordinate that is off by more than half estimates nothing.
const ERROR_MOST: f64 = 0.5;
/// Nodes of a place whose coordinates are looked at.
const NODES_LOOKED_AT: usize = 4;
/// What one report says of each peer moves the coordinates so often: the median of a report rests on many probes.
const PULLS: u32 = 4;

/// By who reports, and about whom.
type Pair = (String, String);

#[derive(Clone, Debug, Default)]
pub(super) struct Pairs {
    heard: BTreeMap<Pair, Heard>,
    /// By two sites in the order of their names: the pairs between them.
    by_sites: BTreeMap<(String, String), BTreeSet<Pair>>,
    /// By node: the version of its last report.
    versions: BTreeMap<String, Option<String>>,
    points: BTreeMap<String, Point>,
    judged: Option<Monotonic>,
    is_news: bool,
    has_looked: bool,
}

#[derive(Clone, Debug)]
struct Point {
    at: Vivaldi<String>,
    samples: u32,
}

/// What one end said of a pair.
#[derive(Clone, Debug)]
pub(super) struct Heard {
    pub(super) found: Found,
    /// When it was measured; nothing if that was before this process began, which nobody can tell.
    pub(super) measured: Option<Monotonic>,
    /// When it was told.
    told: Monotonic,
    /// Since when all probes are lost, by what was told without a break.
    lost_since: Option<Monotonic>,
}

/// What is known between two places.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    /// The report in the middle, of those that were answered.
    pub(super) middle: Option<(Found, Duration)>,
    pub(super) samples: u32,
    pub(super) probes: u32,
    pub(super) answered: u32,
    /// Milliseconds there and back, by coordinates.
    pub(super) estimated: Option<Figure>,
    pub(super) is_dead: bool,
    pub(super) is_alive: bool,
}

impl Known {
    pub(super) fn is_empty(&self) -> bool {
        self.middle.is_none() && self.estimated.is_none() && !self.is_dead
    }
}

/// Lost probes that make a pair silent.
const LOST_IN_A_ROW: u32 = tombolo_network::status::LOST_IN_A_ROW;
/// Only one end says that the pair is silent: the other may be dead, and whoever listens to its heartbeats has time
/// to find that out.
const ONE_WORD_AFTER: Duration = Duration::from_secs(60);

impl Pairs {
    /// Takes in the reports that are new.
    pub(super) fn hear(&mut self, probings: &[Shared<Probing>], land: &Land<'_>, now: Monotonic) {
        let is_first = !std::mem::replace(&mut self.has_looked, true);
        let mut there = BTreeSet::new();
        for probing in probings {
            let (Some(node), Some(status)) = (&probing.metadata.name, &probing.status) else {
                continue;
            };
            if !land.nodes.contains_key(node.as_str()) {
                continue;
            }
            there.insert(node.clone());
            let version = status.measured_at.as_ref().map(|time| time.0.to_string());
            if self.versions.get(node) == Some(&version) {
                continue;
            }
            let is_known = self.versions.insert(node.clone(), version).is_some();
            let is_of_before = is_first && !is_known;
            for found in status.found.iter().filter(|found| found.node != *node) {
                self.take(land, node, found, is_of_before, now);
            }
        }
        self.versions.retain(|node, _| there.contains(node));
        self.forget(land, now);
    }

    fn take(&mut self, land: &Land<'_>, node: &str, found: &Found, is_old: bool, now: Monotonic) {
        let (Some(from), Some(to)) = (land.site_of(node), land.site_of(&found.node)) else {
            return;
        };
        let pair = (node.to_owned(), found.node.clone());
        let before = self.heard.get(&pair);
        let is_lost = found.lost_in_a_row >= LOST_IN_A_ROW;
        let lost_since =
            is_lost.then(|| before.and_then(|before| before.lost_since).unwrap_or(now));
        let age = found.age.unwrap_or_default().to_std();
        let measured = (!is_old).then(|| now.before(age));
        let heard = Heard { found: found.clone(), measured, told: now, lost_since };
        let (a, b) = ordered(from, to);
        self.by_sites.entry((a.to_owned(), b.to_owned())).or_default().insert(pair.clone());
        self.heard.insert(pair, heard);
        self.is_news = true;
        if let Some(rtt) = found.p50.filter(|_| !is_lost) {
            self.pull(node, &found.node, milliseconds(rtt));
        }
    }

    /// Both ends of a pair have seen the same delay.
    fn pull(&mut self, one: &str, other: &str, rtt_ms: f64) {
        for _ in 0..PULLS {
            for (own, peer) in [(one, other), (other, one)] {
                let theirs = self.coordinate(peer).unwrap_or_default();
                let point = self
                    .points
                    .entry(own.to_owned())
                    .or_insert_with(|| Point { at: Vivaldi::new(chance(own)), samples: 0 });
                point.at.observe(&peer.to_owned(), &theirs, rtt_ms);
            }
        }
        for name in [one, other] {
            if let Some(point) = self.points.get_mut(name) {
                point.samples = point.samples.saturating_add(1);
            }
        }
    }

    fn coordinate(&self, node: &str) -> Option<Coordinate> {
        Some(self.points.get(node)?.at.coordinate())
    }

    fn forget(&mut self, land: &Land<'_>, now: Monotonic) {
        let is_there = |node: &String| land.nodes.contains_key(node.as_str());
        self.points.retain(|node, _| is_there(node));
        let heard = &mut self.heard;
        heard.retain(|(from, about), heard| {
            is_there(from) && is_there(about) && now.since(heard.told) < FORGET_AFTER
        });
        self.by_sites.retain(|_, pairs| {
            pairs.retain(|pair| heard.contains_key(pair));
            !pairs.is_empty()
        });
    }

    /// Milliseconds there and back, by coordinates.
    pub(super) fn estimate(&self, one: &str, other: &str) -> Option<Figure> {
        let (a, b) = (self.points.get(one)?, self.points.get(other)?);
        let (from, to) = (a.at.coordinate(), b.at.coordinate());
        if from.error > ERROR_MOST || to.error > ERROR_MOST {
            return None;
        }
        let estimate = from.estimate(&to);
        Some(Figure {
            value: estimate.rtt_ms,
            kind: Kind::Estimated,
            age: Duration::ZERO,
            spread: estimate.spread_ms,
            samples: a.samples.min(b.samples),
        })
    }

    /// What one node measured to another, in milliseconds there and back.
    pub(super) fn measured(&self, from: &str, to: &str, now: Monotonic) -> Option<Figure> {
        let heard = self.heard.get(&(from.to_owned(), to.to_owned()))?;
        figure(heard, now)
    }

    /// Delays from one node to all others that are known or can be estimated.
    pub(super) fn estimates(&self, node: &str) -> BTreeMap<String, f64> {
        let others = self.points.keys().filter(|other| *other != node);
        others
            .filter_map(|other| Some((other.clone(), self.estimate(node, other)?.value)))
            .collect()
    }

    /// Who contradicts its peers; nothing if there is no news, or it was asked a moment ago.
    pub(super) fn verdict(&mut self, now: Monotonic) -> Option<Verdict> {
        let is_soon = self.judged.is_some_and(|then| now.since(then) < JUDGE_EVERY);
        if !self.is_news || is_soon {
            return None;
        }
        (self.is_news, self.judged) = (false, Some(now));
        let lately = |heard: &Heard| {
            let figure = figure(heard, now)?;
            (figure.age < COMPARED_WITHIN).then_some(figure)
        };
        let reports = self.heard.iter();
        let reports = reports.filter_map(|(pair, heard)| Some((pair.clone(), lately(heard)?)));
        Some(witness::judge(&reports.collect()))
    }

    /// Pairs of sites of which something is known, the measured ones first, then the nearest.
    pub(super) fn sites<'l>(
        &self,
        land: &Land<'l>,
        now: Monotonic,
        most: usize,
    ) -> Vec<(&'l str, &'l str)> {
        let open: Vec<&'l str> =
            land.sites.keys().copied().filter(|site| land.port(site).is_some()).collect();
        let mut measured = Vec::new();
        let mut estimated = Vec::new();
        // All pairs of many sites are too many to look at in vain.
        let few = open.len() * open.len() <= 4 * most;
        for (index, a) in open.iter().enumerate() {
            for b in &open[index + 1..] {
                let pairs = self.by_sites.get(&((*a).to_owned(), (*b).to_owned()));
                let answered = pairs.into_iter().flatten().any(|pair| {
                    self.heard.get(pair).is_some_and(|heard| figure(heard, now).is_some())
                });
                if answered {
                    measured.push((*a, *b));
                } else if few && let Some(figure) = self.between_places(land, a, b) {
                    estimated.push((figure.value, (*a, *b)));
                }
            }
        }
        estimated.sort_by(|one, other| one.0.total_cmp(&other.0).then(one.1.cmp(&other.1)));
        measured.extend(estimated.into_iter().map(|(_, pair)| pair));
        measured
    }

    /// The estimate in the middle of those between some nodes of two sites.
    fn between_places(&self, land: &Land<'_>, a: &str, b: &str) -> Option<Figure> {
        let some = |site: &str| -> Vec<&str> {
            let members = land.members.get(site).map_or(&[][..], Vec::as_slice);
            let known = members.iter().copied().filter(|node| self.points.contains_key(*node));
            known.take(NODES_LOOKED_AT).collect()
        };
        self.middle_estimate(&some(a), &some(b))
    }

    fn middle_estimate(&self, from: &[&str], to: &[&str]) -> Option<Figure> {
        let to =
            |one: &str| to.iter().filter(move |other| **other != one).copied().collect::<Vec<_>>();
        let mut figures: Vec<Figure> = from
            .iter()
            .flat_map(|one| to(one).into_iter().filter_map(|other| self.estimate(one, other)))
            .collect();
        figures.sort_by(|a, b| a.value.total_cmp(&b.value));
        figures.get(figures.len() / 2).copied()
    }

    /// What is known between the two ends of a link. What the accused say does not count.
    pub(super) fn between(
        &self,
        land: &Land<'_>,
        ends: &[End],
        accused: &BTreeSet<String>,
        now: Monotonic,
    ) -> Known {
        let [one, other] = ends else { return Known::default() };
        let site = |end: &'_ End| match end.kind {
            EndKind::Site => Some(end.name.clone()),
            EndKind::Node => land.site_of(&end.name).map(str::to_owned),
        };
        let (Some(a), Some(b)) = (site(one), site(other)) else { return Known::default() };
        let key = if a <= b { (a, b) } else { (b, a) };
        let is_of = |end: &End, node: &str| match end.kind {
            EndKind::Site => land.site_of(node) == Some(end.name.as_str()),
            EndKind::Node => end.name == node,
        };
        let crosses = |(from, about): &Pair| {
            is_of(one, from) && is_of(other, about) || is_of(other, from) && is_of(one, about)
        };
        let pairs: Vec<(&Pair, &Heard)> = self
            .by_sites
            .get(&key)
            .into_iter()
            .flatten()
            .filter(|pair| crosses(pair) && !accused.contains(&pair.0))
            .filter_map(|pair| Some((pair, self.heard.get(pair)?)))
            .filter(|(_, heard)| heard.measured.is_some())
            .collect();
        let mut known = Known::default();
        let mut answered: Vec<(&Heard, Duration)> = Vec::new();
        for (_, heard) in &pairs {
            known.probes = known.probes.saturating_add(heard.found.probes);
            known.answered = known.answered.saturating_add(heard.found.answered);
            let age = heard.measured.map(|at| now.since(at));
            if let (Some(_), Some(age)) = (heard.found.p50, age) {
                known.samples = known.samples.saturating_add(heard.found.answered);
                answered.push((heard, age));
            }
        }
        answered.sort_by_key(|(heard, _)| heard.found.p50);
        let middle = answered.get(answered.len() / 2);
        known.middle = middle.map(|(heard, age)| (heard.found.clone(), *age));
        known.is_alive = pairs.iter().any(|(_, heard)| heard.lost_since.is_none());
        known.is_dead = !pairs.is_empty()
            && !known.is_alive
            && pairs.iter().any(|(pair, heard)| self.is_silent(land, pair, heard, now));
        if known.middle.is_none() {
            let members = |end: &End| match end.kind {
                EndKind::Site => {
                    let members = land.members.get(end.name.as_str());
                    members
                        .map_or(&[][..], Vec::as_slice)
                        .iter()
                        .copied()
                        .take(NODES_LOOKED_AT)
                        .collect()
                }
                EndKind::Node => {
                    vec![land.nodes.get_key_value(end.name.as_str()).map_or("", |(n, _)| n)]
                }
            };
            let (from, to): (Vec<&str>, Vec<&str>) = (members(one), members(other));
            known.estimated = self.middle_estimate(&from, &to);
        }
        known
    }

    /// Whether it is the way between the two that is cut, and not one of them that is dead: both say so, or one says
    /// so for long while the other is known to live. A machine that says that nobody listens there can be reached.
    fn is_silent(&self, land: &Land<'_>, pair: &Pair, heard: &Heard, now: Monotonic) -> bool {
        let (from, about) = pair;
        let Some(since) = heard.lost_since.filter(|_| !heard.found.refused) else { return false };
        let back = self.heard.get(&(about.clone(), from.clone()));
        let both = back.is_some_and(|back| back.lost_since.is_some() && !back.found.refused);
        let lives = land.is_ready(from) && land.is_ready(about);
        lives && (both || now.since(since) >= ONE_WORD_AFTER)
    }
}

fn figure(heard: &Heard, now: Monotonic) -> Option<Figure> {
    let p50 = heard.found.p50?;
    Some(Figure {
        value: milliseconds(p50),
        kind: Kind::Measured,
        age: now.since(heard.measured?),
        spread: heard.found.spread.map_or(0.0, milliseconds),
        samples: heard.found.answered,
    })
}

pub(super) fn milliseconds(time: tombolo_model::Duration) -> f64 {
    time.to_std().as_secs_f64() * 1000.0
}

/// Two nodes at one point part in different directions.
fn chance(name: &str) -> u64 {
    // FNV-1a: any spread of the names will do.
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
