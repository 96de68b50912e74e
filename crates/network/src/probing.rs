//! Whom to probe next. Called by the agent, each time it may send; start at [`plan`].
//!
//! All pairs of N nodes would be N² probes. A node probes a few neighbours ([`neighbours`]), which gives it a
//! coordinate, and coordinates estimate all other pairs. What an estimate is too unsure for is measured: the
//! candidates of a placement after a [`shortlist`], connections that run, bounds that seem violated. These come first
//! and at once, but not beyond the budget: every octet is taken out of the [`Purse`] of its link and of the node
//! before it is planned.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::figure::Figure;

/// Octets of a probe of the delay on the wire, there and back: 44 of STAMP, 8 of UDP and 20 of IP, twice.
pub const LATENCY_OCTETS: u32 = 2 * (44 + 8 + 20);
/// What a link may carry of probes, in bits a second in the mean.
pub const LINK_BPS: u32 = 1_000;
/// Where somebody pays for each octet.
pub const METERED_LINK_BPS: u32 = 100;
/// What a node may send and cause of probes of delays: for what matters, and for its coordinate, so that neither can
/// starve the other. Half a kilobit together.
pub const NODE_BPS: u32 = 300;
pub const NODE_NEIGHBOUR_BPS: u32 = 200;
/// The same for trains of packets.
pub const NODE_TRAIN_BPS: u32 = 500;
/// What a purse holds: so long of its income. Enough to probe a shortlist at once.
const RESERVE: Duration = Duration::from_secs(60);
/// A train is some ninety kilobytes there and as many back, so its purse saves for longer: what is held is one train
/// to a link that nobody knows, and half of another.
const TRAIN_RESERVE: Duration = Duration::from_secs(60 * 60);
/// How many neighbours a node has: the error of coordinates falls little beyond.
pub const NEIGHBOURS: usize = 16;
/// After how long neighbours are chosen anew: eight probes of each, of which the median and the coordinate have made
/// the most.
pub const EPOCH: Duration = Duration::from_secs(8 * 96);
/// By how many places the ring turns. Odd and prime, so that it comes back to the same places late.
const TURN: u32 = 37;
/// How often a neighbour is probed: what sixteen of them cost a node is 192 bit/s.
const NEIGHBOUR_EVERY: Duration = Duration::from_secs(96);
/// One that runs costs 288 bit/s. Who sees it get worse says that it is violated, and looks closer.
const CONNECTED_EVERY: Duration = Duration::from_secs(4);
const VIOLATED_EVERY: Duration = Duration::from_secs(1);
/// A candidate is probed as often as this until it has [`CANDIDATE_SAMPLES`].
const CANDIDATE_EVERY: Duration = Duration::from_millis(200);
pub const CANDIDATE_SAMPLES: u32 = 5;
/// A measurement that is younger need not be repeated for a placement.
const CANDIDATE_FRESH: Duration = Duration::from_secs(30);
/// How often the bandwidth of an idle link is looked at.
const TRAIN_EVERY: Duration = Duration::from_secs(2 * 60 * 60);
/// More probes than this at one look would be a train themselves.
const PROBES_MOST: usize = 32;

/// Why a pair matters. The first is the most urgent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Matter {
    /// A bound of an App seems to be violated.
    Violated,
    /// An App may be placed by it.
    Candidate,
    /// Components talk over it.
    Connected,
}

/// Why a probe is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Because {
    Matters(Matter),
    /// For the coordinate of this node.
    Neighbour,
    /// The link is idle, and nobody knows what it carries.
    Idle,
}

/// What is known of a peer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Peer {
    /// The link that leads there, whose purse pays.
    pub link: String,
    pub matter: Option<Matter>,
    pub is_neighbour: bool,
    /// When it was last probed, and by how many probes within the window.
    pub probed: Option<Duration>,
    pub samples: u32,
    /// Whether a train may be sent: nothing of ours flows, which would tell the same for nothing.
    pub is_idle: bool,
    pub train_sent: Option<Duration>,
    /// What a train to this peer costs, there and back.
    pub train_octets: u32,
}

/// What to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    Latency,
    Train,
}

/// One probe to send now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    pub peer: String,
    pub what: What,
    pub because: Because,
    /// On the wire, there and back.
    pub octets: u32,
}

/// What to send, and what is left of the budgets.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    pub probes: Vec<Probe>,
    pub purses: Purses,
    /// When there is something to do again, if nothing changes.
    pub next: Duration,
}

/// A budget: an income in octets, saved up to a bound. It can only be paid out of what is there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Purse {
    per_second: f64,
    most: f64,
    held: f64,
    at: Duration,
}

impl Purse {
    /// A full purse.
    pub fn new(bits_per_second: u32, reserve: Duration, now: Duration) -> Purse {
        let per_second = f64::from(bits_per_second) / 8.0;
        let most = per_second * reserve.as_secs_f64();
        Purse { per_second, most, held: most, at: now }
    }

    /// A clock that goes back earns nothing.
    fn earn(&mut self, now: Duration) {
        let passed = now.saturating_sub(self.at).as_secs_f64();
        self.held = (self.held + passed * self.per_second).min(self.most);
        self.at = self.at.max(now);
    }

    fn holds(&self, octets: u32) -> bool {
        self.held >= f64::from(octets)
    }

    fn pay(&mut self, octets: u32) {
        self.held -= f64::from(octets);
    }
}

/// The budgets of a node: for itself and for each link that its probes take.
#[derive(Clone, Debug, PartialEq)]
pub struct Purses {
    node: Purse,
    node_neighbours: Purse,
    node_trains: Purse,
    links: BTreeMap<String, LinkPurses>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct LinkPurses {
    latency: Purse,
    trains: Purse,
}

impl Purses {
    /// `metered` says which links are paid by the octet. Half of what a link may carry is for delays, half for trains.
    pub fn new<'a>(links: impl IntoIterator<Item = (&'a str, Metering)>, now: Duration) -> Purses {
        let purses = |metering| {
            let half = match metering {
                Metering::Free => LINK_BPS / 2,
                Metering::Metered => METERED_LINK_BPS / 2,
            };
            let latency = Purse::new(half, RESERVE, now);
            let reserve = match metering {
                Metering::Free => TRAIN_RESERVE,
                Metering::Metered => TRAIN_RESERVE * (LINK_BPS / METERED_LINK_BPS),
            };
            LinkPurses { latency, trains: Purse::new(half, reserve, now) }
        };
        Purses {
            node: Purse::new(NODE_BPS, RESERVE, now),
            node_neighbours: Purse::new(NODE_NEIGHBOUR_BPS, RESERVE, now),
            node_trains: Purse::new(NODE_TRAIN_BPS, TRAIN_RESERVE, now),
            links: links.into_iter().map(|(link, way)| (link.to_owned(), purses(way))).collect(),
        }
    }

    /// From now on these are the links. Those that were known keep what they have.
    pub fn lead<'a>(
        &mut self,
        links: impl IntoIterator<Item = (&'a str, Metering)>,
        now: Duration,
    ) {
        let mut fresh = Purses::new(links, now).links;
        for (link, purses) in &mut fresh {
            if let Some(known) = self.links.get(link) {
                *purses = *known;
            }
        }
        self.links = fresh;
    }

    fn earn(&mut self, now: Duration) {
        self.node.earn(now);
        self.node_neighbours.earn(now);
        self.node_trains.earn(now);
        for purses in self.links.values_mut() {
            purses.latency.earn(now);
            purses.trains.earn(now);
        }
    }

    /// Pays for a probe, or does not. A link that has no purse is not paid for.
    fn pay(&mut self, link: &str, because: Because, octets: u32) -> bool {
        let Some(link) = self.links.get_mut(link) else { return false };
        let (node, link) = match because {
            Because::Matters(_) => (&mut self.node, &mut link.latency),
            Because::Neighbour => (&mut self.node_neighbours, &mut link.latency),
            Because::Idle => (&mut self.node_trains, &mut link.trains),
        };
        let paid = node.holds(octets) && link.holds(octets);
        if paid {
            node.pay(octets);
            link.pay(octets);
        }
        paid
    }
}

/// Whether somebody pays for each octet of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metering {
    Free,
    Metered,
}

/// Whom to probe now: what is due, the most urgent first and then the longest waiting, as far as the purses go. Whoever
/// carries it out keeps the purses that come back.
pub fn plan(peers: &BTreeMap<String, Peer>, purses: &Purses, now: Duration) -> Plan {
    let mut purses = purses.clone();
    purses.earn(now);
    let mut wishes: Vec<Wish<'_>> = peers
        .iter()
        .flat_map(|(name, peer)| [latency(name, peer), train(name, peer)])
        .flatten()
        .collect();
    let next = wishes.iter().map(|wish| wish.due).filter(|due| *due > now).min();
    wishes.retain(|wish| wish.due <= now);
    wishes.sort_by(|a, b| (a.because, a.due, a.name).cmp(&(b.because, b.due, b.name)));
    let mut probes = Vec::new();
    for wish in wishes {
        if probes.len() < PROBES_MOST && purses.pay(&wish.peer.link, wish.because, wish.octets) {
            let Wish { what, because, octets, .. } = wish;
            probes.push(Probe { peer: wish.name.to_owned(), what, because, octets });
        }
    }
    let next = next.unwrap_or(now + NEIGHBOUR_EVERY);
    Plan { probes, purses, next }
}

struct Wish<'a> {
    name: &'a str,
    peer: &'a Peer,
    what: What,
    because: Because,
    due: Duration,
    octets: u32,
}

fn latency<'a>(name: &'a str, peer: &'a Peer) -> Option<Wish<'a>> {
    let (because, every) = match (peer.matter, peer.is_neighbour) {
        (Some(Matter::Candidate), _) if peer.samples < CANDIDATE_SAMPLES => {
            (Because::Matters(Matter::Candidate), CANDIDATE_EVERY)
        }
        (Some(Matter::Candidate), _) => (Because::Matters(Matter::Candidate), CANDIDATE_FRESH),
        (Some(Matter::Violated), _) => (Because::Matters(Matter::Violated), VIOLATED_EVERY),
        (Some(Matter::Connected), _) => (Because::Matters(Matter::Connected), CONNECTED_EVERY),
        (None, true) => (Because::Neighbour, NEIGHBOUR_EVERY),
        (None, false) => return None,
    };
    let due = peer.probed.map_or(Duration::ZERO, |probed| probed + every);
    Some(Wish { name, peer, what: What::Latency, because, due, octets: LATENCY_OCTETS })
}

fn train<'a>(name: &'a str, peer: &'a Peer) -> Option<Wish<'a>> {
    let wanted = peer.is_idle && (peer.matter.is_some() || peer.is_neighbour);
    if !wanted || peer.train_octets == 0 {
        return None;
    }
    let due = peer.train_sent.map_or(Duration::ZERO, |sent| sent + TRAIN_EVERY);
    let octets = peer.train_octets;
    Some(Wish { name, peer, what: What::Train, because: Because::Idle, due, octets })
}

/// Whom a node probes for its coordinate: half of them the nearest that are known, which make short ways right; the
/// others at growing distances around the ring of all names, which hold the whole together. The ring turns with each
/// `epoch` (one every [`EPOCH`]): who always meets the same few has a coordinate that is right for these. So all
/// nodes together send O(N) probes, and everybody is probed by somebody.
pub fn neighbours(
    me: &str,
    everybody: &BTreeSet<String>,
    estimates: &BTreeMap<String, f64>,
    most: usize,
    epoch: u32,
) -> BTreeSet<String> {
    let others = everybody.iter().filter(|name| *name != me);
    let mut ring: Vec<&String> = {
        let after = others.clone().filter(|name| name.as_str() > me);
        after.chain(others.clone().filter(|name| name.as_str() < me)).collect()
    };
    if let Some(turn) = (TURN.wrapping_mul(epoch) as usize).checked_rem(ring.len()) {
        ring.rotate_left(turn);
    }
    let mut nearest: Vec<(&String, f64)> = others
        .filter_map(|name| Some((name, *estimates.get(name)?)))
        .filter(|(_, estimate)| estimate.is_finite())
        .collect();
    nearest.sort_by(|a, b| a.1.total_cmp(&b.1).then(a.0.cmp(b.0)));
    let near = nearest.into_iter().map(|(name, _)| name.clone()).take(most / 2);
    let mut chosen: BTreeSet<String> = near.collect();
    let mut distance = 1;
    while chosen.len() < most && distance <= ring.len() {
        chosen.insert(ring[distance - 1].clone());
        distance *= 2;
    }
    // A small network, or nothing known yet: whoever comes next.
    for name in ring {
        if chosen.len() >= most {
            break;
        }
        chosen.insert(name.clone());
    }
    chosen
}

/// Which candidates are worth measuring: those that might be the best as far as anybody knows, the likeliest
/// first, at most so many. Figures are costs: less is better.
pub fn shortlist<P: Clone + Ord>(candidates: &[(P, Figure)], most: usize) -> Vec<P> {
    let surely = candidates.iter().map(|(_, figure)| figure.at_most()).min_by(f64::total_cmp);
    let Some(surely) = surely else { return Vec::new() };
    let mut possible: Vec<&(P, Figure)> =
        candidates.iter().filter(|(_, figure)| figure.at_least() <= surely).collect();
    possible.sort_by(|a, b| a.1.value.total_cmp(&b.1.value).then_with(|| a.0.cmp(&b.0)));
    possible.into_iter().take(most).map(|(candidate, _)| candidate.clone()).collect()
}

#[cfg(test)]
mod tests;
