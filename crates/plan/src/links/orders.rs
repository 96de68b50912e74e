//! Who probes whom: each node its neighbours on the ring of all names and its nearest, which keeps the map of the
//! network; and whoever matters to an App that runs or looks for a place. Start at [`plan`].

use core::net::SocketAddr;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tombolo_model::probing::{Matter, PEERS_MAX, ProbePeer};
use tombolo_model::{App, AppId, ProbingSpec};
use tombolo_network::probing::{EPOCH, NEIGHBOURS, neighbours};

use super::pairs::{Pairs, milliseconds};
use super::{Action, Land, Observed};
use crate::Monotonic;

/// Pairs of one node that matter; the budget of a node would not pay for more.
const MATTERS_MAX: usize = 16;
/// Candidates that are measured for a component: the likeliest by estimates.
const SHORTLIST: usize = 12;
/// Pairs of two components whose instances talk: many instances on many nodes are sampled.
const PAIRS_OF_A_CONNECTION: usize = 64;
/// While machines come and go, neighbours are chosen anew only so often: a thousand that join are a thousand changes,
/// and each would write an order to everybody.
const CHOSEN_EVERY: Duration = Duration::from_secs(30);
/// So few are chosen anew at once.
const FEW: usize = 32;

/// Whose neighbours are who, until the ring turns.
#[derive(Clone, Debug, Default)]
pub(super) struct Rings {
    everybody: BTreeSet<String>,
    chosen_at: Option<(u32, Monotonic)>,
    neighbours: BTreeMap<String, BTreeSet<String>>,
}

impl Rings {
    fn choose(&mut self, everybody: BTreeSet<String>, pairs: &Pairs, now: Monotonic) {
        let epoch = epoch(now);
        let is_same = self.everybody == everybody;
        if let Some((chosen_in, at)) = self.chosen_at {
            let is_soon = everybody.len() > FEW && now.since(at) < CHOSEN_EVERY;
            if is_same && chosen_in == epoch || !is_same && is_soon {
                return;
            }
        }
        self.chosen_at = Some((epoch, now));
        self.neighbours = everybody
            .iter()
            .map(|me| {
                let estimates = pairs.estimates(me);
                (me.clone(), neighbours(me, &everybody, &estimates, NEIGHBOURS, epoch))
            })
            .collect();
        self.everybody = everybody;
    }

    /// When neighbours may have to be chosen anew, whatever else happens.
    pub(super) fn next_turn(&self, land: &Land<'_>, now: Monotonic) -> Option<Monotonic> {
        let (_, at) = self.chosen_at.filter(|_| !self.everybody.is_empty())?;
        let turn = Monotonic::from_start(EPOCH.saturating_mul(epoch(now).saturating_add(1)));
        let is_same = self.everybody.len() == answering(land).count();
        Some(if is_same { turn } else { turn.min(at + CHOSEN_EVERY) })
    }
}

fn epoch(now: Monotonic) -> u32 {
    u32::try_from(now.since_start().as_secs() / EPOCH.as_secs()).unwrap_or(u32::MAX)
}

/// Nodes that answer probes, and where.
fn answering<'l>(land: &'l Land<'_>) -> impl Iterator<Item = (&'l str, SocketAddr)> {
    land.probings.iter().filter_map(|(node, probing)| {
        land.port(land.site_of(node)?)?;
        let address = probing.status.as_ref()?.address.as_ref()?.parse::<SocketAddr>().ok()?;
        Some((*node, address))
    })
}

/// The orders that are not what they should be.
pub(super) fn plan(
    observed: &Observed,
    land: &Land<'_>,
    pairs: &Pairs,
    rings: &mut Rings,
    now: Monotonic,
) -> Vec<Action> {
    let addresses: BTreeMap<&str, SocketAddr> = answering(land).collect();
    rings.choose(addresses.keys().map(|name| (*name).to_owned()).collect(), pairs, now);
    let matters = matters(observed, land, pairs, &addresses, now);
    let mut actions = Vec::new();
    for (name, node) in &land.nodes {
        let probing = land.probings.get(name).copied();
        let Some(port) = land.port(&node.spec.site) else { continue };
        let none = BTreeMap::new();
        let matters = matters.get(name).unwrap_or(&none);
        let neighbours = rings.neighbours.get(*name).into_iter().flatten();
        let mut peers: BTreeMap<&str, Option<Matter>> =
            neighbours.map(|peer| (peer.as_str(), None)).collect();
        let mut urgent: Vec<(&str, Matter)> =
            matters.iter().map(|(peer, it)| (*peer, *it)).collect();
        urgent.sort_by_key(|(peer, matter)| (*matter, *peer));
        peers.extend(urgent.into_iter().take(MATTERS_MAX).map(|(peer, it)| (peer, Some(it))));
        let own = addresses.get(name);
        let peer = |(peer, matter): (&str, Option<Matter>)| {
            let address = *addresses.get(peer)?;
            // A loopback address means another machine elsewhere.
            let is_here = own.is_some_and(|own| own.ip().is_loopback());
            let site = land.site_of(peer)?.to_owned();
            (!address.ip().is_loopback() || is_here).then(|| ProbePeer {
                node: peer.to_owned(),
                address: address.to_string(),
                site,
                matter,
            })
        };
        let peers: Vec<ProbePeer> = peers.into_iter().filter_map(peer).take(PEERS_MAX).collect();
        let spec = ProbingSpec { port: Some(port), peers };
        if probing.is_none_or(|probing| probing.spec != spec) {
            let version = probing.and_then(|probing| probing.metadata.resource_version.clone());
            actions.push(Action::Order { node: (*name).to_owned(), version, spec: Box::new(spec) });
        }
    }
    let withdrawn = land
        .probings
        .keys()
        .filter(|node| land.site_of(node).and_then(|site| land.port(site)).is_none());
    actions.extend(withdrawn.map(|node| Action::Withdraw { node: (*node).to_owned() }));
    actions
}

/// By node: which of its peers matter, and why most.
type Matters<'o> = BTreeMap<&'o str, BTreeMap<&'o str, Matter>>;

fn matters<'o>(
    observed: &'o Observed,
    land: &Land<'o>,
    pairs: &Pairs,
    addresses: &BTreeMap<&str, SocketAddr>,
    now: Monotonic,
) -> Matters<'o> {
    let mut places: BTreeMap<(AppId, &str), BTreeSet<&str>> = BTreeMap::new();
    for assignment in &observed.assignments {
        let namespace = assignment.metadata.namespace.as_deref().unwrap_or_default();
        let app = AppId::new(namespace, &assignment.spec.app);
        if let Some(node) = &assignment.spec.node {
            places.entry((app, &assignment.spec.component)).or_default().insert(node);
        }
    }
    let mut matters = Matters::new();
    for app in &observed.apps {
        for wish in wishes(app) {
            let none = BTreeSet::new();
            let from = places.get(&(AppId::of(app), wish.component)).unwrap_or(&none);
            let to = places.get(&(wish.called.clone(), wish.to)).unwrap_or(&none);
            let mut is_late = from.is_empty();
            let both = from.iter().flat_map(|from| to.iter().map(move |to| (*from, *to)));
            for (from, to) in both.filter(|(from, to)| from != to).take(PAIRS_OF_A_CONNECTION) {
                let late = wish.latency_ms_max.is_some_and(|most| {
                    pairs.measured(from, to, now).is_some_and(|it| it.at_most() / 2.0 > most)
                });
                is_late |= late;
                note(
                    &mut matters,
                    from,
                    to,
                    if late { Matter::Violated } else { Matter::Connected },
                );
            }
            if wish.latency_ms_max.is_some() && is_late {
                for to in to {
                    for candidate in candidates(land, pairs, addresses, to) {
                        note(&mut matters, candidate, to, Matter::Candidate);
                    }
                }
            }
        }
    }
    matters
}

fn note<'o>(matters: &mut Matters<'o>, from: &'o str, to: &'o str, matter: Matter) {
    let known = matters.entry(from).or_default().entry(to).or_insert(matter);
    *known = matter.min(*known);
}

/// A component that calls another.
struct Wish<'o> {
    component: &'o str,
    called: AppId,
    to: &'o str,
    latency_ms_max: Option<f64>,
}

fn wishes(app: &App) -> impl Iterator<Item = Wish<'_>> {
    app.spec.components.iter().flat_map(move |component| {
        component.connects.iter().map(move |connection| Wish {
            component: &component.name,
            called: AppId::of(app).beside(connection.app.as_deref()),
            to: &connection.to,
            latency_ms_max: connection.latency.map(milliseconds),
        })
    })
}

/// One node of each site, the likeliest first: those that nobody has looked at come after those that are near.
fn candidates<'o>(
    land: &Land<'o>,
    pairs: &Pairs,
    addresses: &BTreeMap<&str, SocketAddr>,
    to: &str,
) -> Vec<&'o str> {
    let mut some: Vec<(f64, &'o str)> = Vec::new();
    for members in land.members.values() {
        let mut able =
            members.iter().filter(|node| land.is_ready(node) && addresses.contains_key(**node));
        if let Some(node) = able.find(|node| **node != to) {
            let far = pairs.estimate(node, to).map_or(f64::INFINITY, |figure| figure.value);
            some.push((far, node));
        }
    }
    some.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(b.1)));
    some.into_iter().map(|(_, node)| node).take(SHORTLIST).collect()
}
