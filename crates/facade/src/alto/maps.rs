//! Sites, Nodes and Links as the maps of ALTO: a PID is a site, its prefixes are the addresses of its nodes, and what
//! it costs to get from one to another is what the links on the best way say. Pure; called by [`super`].

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use tombolo_alto::{Costs, Maps, Metric, Pid, Prefix};
use tombolo_model::condition::{self, READY};
use tombolo_model::link::EndKind;
use tombolo_model::{ConditionStatus, Link, Node, Site};
use tombolo_network::graph::{Graph, Way};

/// The delay of a link of which nobody knows it, in microseconds: never the best way if there is another.
const UNKNOWN_US: u64 = 1_000_000;

/// What is known of a link, for adding it up.
#[derive(Clone, Copy, Debug)]
struct Leg {
    /// One way.
    latency_us: Option<u64>,
    bandwidth_bps: Option<u64>,
    loss: Option<f64>,
    is_measured: bool,
}

pub(super) struct Land {
    pids: BTreeMap<Pid, BTreeSet<Prefix>>,
    graph: Graph<String>,
    legs: BTreeMap<(String, String), Leg>,
}

impl Land {
    pub(super) fn of(sites: &[Site], nodes: &[Node], links: &[Link]) -> Land {
        let mut pids: BTreeMap<Pid, BTreeSet<Prefix>> = BTreeMap::new();
        for name in sites.iter().filter_map(|site| site.metadata.name.as_deref()) {
            pids.extend(pid(name).map(|pid| (pid, BTreeSet::new())));
        }
        let mut site_of: BTreeMap<&str, &str> = BTreeMap::new();
        for node in nodes {
            site_of.extend(node.metadata.name.as_deref().map(|name| (name, &*node.spec.site)));
            let addresses = node.status.iter().flat_map(|status| &status.addresses);
            let prefixes = pid(&node.spec.site).and_then(|pid| pids.get_mut(&pid));
            if let Some(prefixes) = prefixes {
                prefixes.extend(addresses.filter_map(|address| host(address)));
            }
        }
        // A node with links of its own is a place; between it and its site is nothing, unless a link says more.
        let mut legs: BTreeMap<(String, String), Leg> = BTreeMap::new();
        let none = Leg { latency_us: Some(0), bandwidth_bps: None, loss: None, is_measured: false };
        for link in links.iter().filter(|link| !is_down(link)) {
            let [one, other] = link.spec.ends.as_slice() else { continue };
            let place = |end: &tombolo_model::link::End| match end.kind {
                EndKind::Site => Some(end.name.clone()),
                EndKind::Node => Some(format!("{}/{}", site_of.get(end.name.as_str())?, end.name)),
            };
            let (Some(a), Some(b)) = (place(one), place(other)) else { continue };
            for node in [&a, &b] {
                if let Some((site, _)) = node.split_once('/') {
                    legs.entry((node.clone(), site.to_owned())).or_insert(none);
                    legs.entry((site.to_owned(), node.clone())).or_insert(none);
                }
            }
            put(&mut legs, (a.clone(), b.clone()), leg(link));
            if !link.spec.one_way {
                put(&mut legs, (b, a), leg(link));
            }
        }
        let places = sites.iter().filter_map(|site| site.metadata.name.clone());
        let ways = legs.iter().map(|((from, to), leg)| {
            (from.clone(), to.clone(), leg.latency_us.unwrap_or(UNKNOWN_US))
        });
        Land { graph: Graph::new(places, ways), pids, legs }
    }

    pub(super) fn maps(self) -> Maps {
        let mut costs = Vec::new();
        for from in self.pids.keys() {
            let mut ways = self.graph.ways_from(&name(from));
            for to in self.pids.keys() {
                let way = ways.remove(&name(to));
                let Some(way) = self.direct(&name(from), &name(to)).or(way) else { continue };
                let told = self.told(&way);
                let known = [
                    (Metric::RoutingCost, told.latency_ms),
                    (Metric::Hops, Some(told.hops)),
                    (Metric::DelayRt, told.latency_ms.map(|ms| (ms * 2000.0).round())),
                    (Metric::BandwidthAvailable, told.bandwidth_bps),
                    (Metric::Loss, told.loss),
                ];
                let known = known.into_iter().filter_map(|(metric, cost)| Some((metric, cost?)));
                costs.extend(known.map(|(metric, cost)| (metric, from.clone(), to.clone(), cost)));
            }
        }
        Maps { pids: self.pids, costs: Costs::new(costs) }
    }

    /// Probes from end to end know better than links that are added up.
    fn direct(&self, from: &str, to: &str) -> Option<Way<String>> {
        let pair = (from.to_owned(), to.to_owned());
        let leg = self.legs.get(&pair).filter(|leg| leg.is_measured)?;
        Some(Way { places: vec![pair.0, pair.1], cost: leg.latency_us.unwrap_or(UNKNOWN_US) })
    }

    fn told(&self, way: &Way<String>) -> Told {
        let legs = way
            .places
            .windows(2)
            .filter_map(|pair| self.legs.get(&(pair[0].clone(), pair[1].clone())));
        let legs: Vec<&Leg> = legs.collect();
        let micros = legs.iter().map(|leg| leg.latency_us).sum::<Option<u64>>();
        let narrow = legs.iter().filter_map(|leg| leg.bandwidth_bps).min();
        // Only where something is known of one of them: a way of which nobody knows any loss has none to tell.
        let lost: Vec<f64> = legs.iter().filter_map(|leg| leg.loss).collect();
        let arrives = lost.iter().fold(1.0, |share, loss| share * (1.0 - loss / 100.0));
        let loss = (!lost.is_empty()).then(|| ((1.0 - arrives) * 1e4).round() / 100.0);
        let hops = way.places.len().saturating_sub(1);
        Told {
            latency_ms: micros.map(|micros| float(micros) / 1000.0),
            hops: float(u64::try_from(hops).unwrap_or(u64::MAX)),
            bandwidth_bps: narrow.map(float),
            loss,
        }
    }

    pub(super) fn best(&self, from: &str, to: &str) -> Option<Value> {
        let (from, to) = (from.to_owned(), to.to_owned());
        let way = self.direct(&from, &to).or_else(|| self.graph.best(&from, &to))?;
        Some(self.shown(&way))
    }

    pub(super) fn disjoint(&self, from: &str, to: &str, most: usize) -> Vec<Value> {
        let ways = self.graph.disjoint(&from.to_owned(), &to.to_owned(), most);
        ways.iter().map(|way| self.shown(way)).collect()
    }

    fn shown(&self, way: &Way<String>) -> Value {
        let told = self.told(way);
        json!({
            "path": way.places, "hops": told.hops, "latency_ms": told.latency_ms,
            "bandwidth_bps": told.bandwidth_bps, "loss_percent": told.loss,
        })
    }
}

struct Told {
    latency_ms: Option<f64>,
    hops: f64,
    bandwidth_bps: Option<f64>,
    loss: Option<f64>,
}

/// Names of PIDs have no dots, and names of sites may.
fn pid(site: &str) -> Option<Pid> {
    Pid::new(site.replace('.', "@")).ok()
}

fn name(pid: &Pid) -> String {
    pid.as_str().replace('@', ".")
}

fn host(address: &str) -> Option<Prefix> {
    let address: std::net::IpAddr = address.parse().ok()?;
    Prefix::new(address, if address.is_ipv4() { 32 } else { 128 })
}

fn is_down(link: &Link) -> bool {
    let conditions = link.status.as_ref().map_or(&[][..], |status| &status.conditions);
    condition::find(conditions, READY).is_some_and(|ready| ready.status == ConditionStatus::False)
}

fn leg(link: &Link) -> Leg {
    let quality = link.quality();
    Leg {
        latency_us: quality.latency.map(|latency| latency.micros()),
        bandwidth_bps: quality.bandwidth.map(|rate| rate.bps()),
        loss: quality.loss,
        is_measured: link.is_measured(),
    }
}

/// Of several links between the same places the fastest counts, and what is unknown last.
fn put(legs: &mut BTreeMap<(String, String), Leg>, pair: (String, String), leg: Leg) {
    let slow = |leg: &Leg| leg.latency_us.unwrap_or(u64::MAX);
    let known = legs.entry(pair).or_insert(leg);
    if slow(&leg) < slow(known) {
        *known = leg;
    }
}

#[expect(clippy::cast_precision_loss, reason = "costs are known to a few digits")]
fn float(number: u64) -> f64 {
    number as f64
}
