//! The network of the continuum: locations, the Links between them, and the shortest ways. Built by
//! [`Continuum::of`](crate::Continuum::of); asked by filter, affinity and compile. Start reading at
//! [`Network::ways_from`].
//!
//! A site is a location. A node at which a Link ends is a location of its own, joined to its site by
//! its Link to the site or, when there is none, by an implied one without delay. A way with fewer
//! implied joints is taken before a shorter one: what was measured counts more than what is assumed. A Link
//! whose delay was measured from end to end is the way between its ends, also where two others together
//! look shorter: packets take the way that they take.

mod explorer;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tombolo_model::condition::{self, READY};
use tombolo_model::link::EndKind;
use tombolo_model::{About, ConditionStatus, FigureKind, Link, LinkStatus, Trouble};
use tombolo_solver::problem::Hops;

use crate::continuum::{NodeRow, SiteRow};
use crate::words;

pub(crate) use explorer::{Direction, Explorer};

/// The delay of a way that nobody has measured: too long for any promise, and not endless.
pub const UNMEASURED_US: u64 = 1_000_000;
/// A delay beyond this is a typing error; sums of them must not overflow.
const LATENCY_US_MAX: u64 = 1 << 40;
/// More is not one continuum but a mistake in a loop that lists.
const LINKS_MAX: usize = 1_000_000;

/// Locations and the links between them.
#[derive(Clone, Debug, Default)]
pub struct Network {
    pub zones: Vec<Zone>,
    pub links: Vec<LinkRow>,
    /// By location: where a link leads and which it is; `None` is an implied joint.
    out: Vec<Vec<(u32, Option<u32>)>>,
    back: Vec<Vec<(u32, Option<u32>)>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone {
    /// `site`, or `site/node` for a node with Links of its own.
    pub name: String,
    /// Index into the sites of the continuum.
    pub site: u32,
    /// Whether any Link ends here, up or down. Nothing is known about a location without one.
    pub measured: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct LinkRow {
    pub name: String,
    pub a: u32,
    pub b: u32,
    pub one_way: bool,
    pub down: bool,
    pub latency_us: u64,
    pub jitter_us: u64,
    /// `None` is unlimited.
    pub bandwidth_bps: Option<u64>,
    pub failures: u32,
    /// Watt-hours for a gigabyte.
    pub energy: Option<f64>,
    /// Probes from end to end have found the delay: packets between these two take this way and no other.
    pub is_measured: bool,
    /// Nobody has declared it. That there is no such link says nothing about two locations.
    pub is_found: bool,
    /// How the delay was found, for people; `None` where it is declared.
    pub found: Option<String>,
}

/// The shortest way between two locations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Way {
    pub latency_us: u64,
    pub jitter_us: u64,
    /// The least of the links; `None` is unlimited.
    pub bandwidth_bps: Option<u64>,
    /// In the order of travel.
    pub links: Hops,
    /// Nothing is known about one of the ends: the delay is assumed, and no promise can be kept.
    pub assumed: bool,
}

/// What is known about the ways between one location and all others.
pub type Ways = Vec<Option<Way>>;

/// Ways that were asked for, each computed once.
#[derive(Debug, Default)]
pub(crate) struct WayBook {
    from: BTreeMap<u32, Arc<Ways>>,
    to: BTreeMap<u32, Arc<Ways>>,
}

impl WayBook {
    pub(crate) fn from(&mut self, network: &Network, zone: u32) -> Arc<Ways> {
        Arc::clone(self.from.entry(zone).or_insert_with(|| Arc::new(network.ways_from(zone))))
    }

    pub(crate) fn to(&mut self, network: &Network, zone: u32) -> Arc<Ways> {
        Arc::clone(self.to.entry(zone).or_insert_with(|| Arc::new(network.ways_to(zone))))
    }
}

impl Network {
    pub(crate) fn of(
        sites: &mut [SiteRow<'_>],
        nodes: &mut [NodeRow<'_>],
        links: &[&Link],
        troubles: &mut Vec<Trouble>,
    ) -> Network {
        let mut network = Network::default();
        for (index, site) in (0u32..).zip(sites.iter_mut()) {
            site.zone = index;
            let zone = Zone { name: site.name.to_owned(), site: index, measured: false };
            network.zones.push(zone);
        }
        let mut own: BTreeSet<&str> = BTreeSet::new();
        for end in links.iter().take(LINKS_MAX).flat_map(|link| &link.spec.ends) {
            if end.kind == EndKind::Node {
                own.insert(&end.name);
            }
        }
        for node in nodes.iter_mut() {
            node.zone = node.site;
            if own.contains(node.name) {
                node.zone = u32::try_from(network.zones.len()).unwrap_or(u32::MAX);
                let name = format!("{}/{}", sites[node.site as usize].name, node.name);
                network.zones.push(Zone { name, site: node.site, measured: false });
            }
        }
        let site_zones: BTreeMap<&str, u32> =
            sites.iter().map(|site| (site.name, site.zone)).collect();
        let node_zones: BTreeMap<&str, u32> = nodes
            .iter()
            .filter(|node| own.contains(node.name))
            .map(|node| (node.name, node.zone))
            .collect();
        let zone = |kind: EndKind, name: &str| match kind {
            EndKind::Site => site_zones.get(name).copied(),
            EndKind::Node => node_zones.get(name).copied(),
        };
        let mut rows: Vec<LinkRow> = links
            .iter()
            .take(LINKS_MAX)
            .filter_map(|link| link_row(link, &zone, troubles))
            .collect();
        // By name: the order in which Links are listed must not decide between equal ways.
        rows.sort_by(|a, b| a.name.cmp(&b.name).then(a.a.cmp(&b.a)).then(a.b.cmp(&b.b)));
        network.links = rows;
        network.join();
        network
    }

    fn join(&mut self) {
        self.out = vec![Vec::new(); self.zones.len()];
        self.back = vec![Vec::new(); self.zones.len()];
        let mut uplink = vec![false; self.zones.len()];
        for (index, link) in (0u32..).zip(&self.links) {
            let (a, b) = (link.a as usize, link.b as usize);
            self.zones[a].measured |= !link.is_found;
            self.zones[b].measured |= !link.is_found;
            for (node, site) in [(a, link.b), (b, link.a)] {
                uplink[node] |= self.zones[node].site == site;
            }
            if link.down {
                continue;
            }
            self.out[a].push((link.b, Some(index)));
            self.back[b].push((link.a, Some(index)));
            if !link.one_way {
                self.out[b].push((link.a, Some(index)));
                self.back[a].push((link.b, Some(index)));
            }
        }
        for (index, zone) in (0u32..).zip(&self.zones) {
            if zone.site == index || uplink[index as usize] {
                continue;
            }
            for (from, to) in [(index, zone.site), (zone.site, index)] {
                self.out[from as usize].push((to, None));
                self.back[to as usize].push((from, None));
            }
        }
    }

    /// How the longest link of a way was found, in brackets; empty where all are declared.
    pub(crate) fn told(&self, way: &Way) -> String {
        let rows = way.links.iter().map(|link| &self.links[*link as usize]);
        let longest = rows.filter(|row| row.found.is_some()).max_by_key(|row| row.latency_us);
        let found = longest.and_then(|row| row.found.as_ref());
        found.map_or_else(String::new, |found| format!(" ({found})"))
    }

    /// The shortest ways from one location to every other; `None` where there is none.
    pub fn ways_from(&self, zone: u32) -> Ways {
        self.ways(zone, Direction::From)
    }

    /// The shortest ways from every location to one; links may be one-way.
    pub fn ways_to(&self, zone: u32) -> Ways {
        self.ways(zone, Direction::To)
    }

    /// Goes out from many locations, one after the other.
    pub(crate) fn explorer(&self) -> Explorer<'_> {
        Explorer::new(self, Direction::From)
    }

    fn ways(&self, start: u32, direction: Direction) -> Ways {
        let mut explorer = Explorer::new(self, direction);
        explorer.explore(start);
        (0u32..).take(self.zones.len()).map(|zone| explorer.way(zone)).collect()
    }
}

fn narrower(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (Some(one), None) | (None, Some(one)) => Some(one),
        (None, None) => None,
    }
}

fn link_row(
    link: &Link,
    zone: &impl Fn(EndKind, &str) -> Option<u32>,
    troubles: &mut Vec<Trouble>,
) -> Option<LinkRow> {
    let name = link.metadata.name.clone().unwrap_or_default();
    let about = About::Link(name.clone());
    let [first, second] = link.spec.ends.as_slice() else {
        let says = format!("it has {} ends and not two, so it is left out", link.spec.ends.len());
        troubles.push(Trouble::new(about, says));
        return None;
    };
    let mut ends = [0; 2];
    for (end, index) in [first, second].into_iter().zip(&mut ends) {
        let Some(found) = zone(end.kind, &end.name) else {
            let says = format!("{} {:?} does not exist, so it is left out", end.kind, end.name);
            troubles.push(Trouble::new(about, says));
            return None;
        };
        *index = found;
    }
    if ends[0] == ends[1] {
        troubles.push(Trouble::new(about, "both ends are the same, so it is left out"));
        return None;
    }
    let quality = link.quality();
    let is_found = link.is_made_by_probes();
    if is_found && quality.latency.is_none() {
        // It was made a moment ago, and its figures follow.
        return None;
    }
    let conditions = link.status.as_ref().map_or(&[][..], |status| &status.conditions);
    let down = condition::find(conditions, READY)
        .is_some_and(|ready| ready.status == ConditionStatus::False);
    Some(LinkRow {
        name,
        a: ends[0],
        b: ends[1],
        one_way: link.spec.one_way,
        down,
        latency_us: quality
            .latency
            .map_or(UNMEASURED_US, |delay| delay.micros().min(LATENCY_US_MAX)),
        jitter_us: quality.jitter.map_or(0, |jitter| jitter.micros().min(LATENCY_US_MAX)),
        bandwidth_bps: quality.bandwidth.map(|rate| rate.bps()),
        failures: quality.failures.unwrap_or(0),
        energy: quality.energy.filter(|energy| energy.is_finite() && *energy >= 0.0),
        is_measured: link.is_measured() && link.status.as_ref().is_some_and(is_probed),
        is_found,
        found: link.is_found().then(|| found(link)).flatten(),
    })
}

fn is_probed(status: &LinkStatus) -> bool {
    status.kind == Some(FigureKind::Measured)
}

/// As `link a-b: 40ms ± 1ms, measured at 2030-01-31T12:00:00Z by 45 samples`.
fn found(link: &Link) -> Option<String> {
    let status = link.status.as_ref()?;
    let name = link.metadata.name.as_deref().unwrap_or_default();
    let delay = words::delay(status.measured.latency?.micros());
    let mut said = format!("link {name}: {delay}");
    if let Some(spread) = status.spread {
        said.push_str(&format!(" ± {}", words::delay(spread.micros())));
    }
    said.push_str(match status.kind {
        Some(FigureKind::Estimated) => ", estimated",
        Some(FigureKind::Measured) | None => ", measured",
    });
    if let Some(at) = &status.measured_at {
        said.push_str(&format!(" at {}", at.0.strftime("%Y-%m-%dT%H:%M:%SZ")));
    }
    if let Some(samples) = status.samples {
        said.push_str(&format!(" by {samples} samples"));
    }
    Some(said)
}

#[cfg(test)]
mod tests;
