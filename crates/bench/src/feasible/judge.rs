//! Whether places keep what documents ask for. It reads the documents as they are written and has a shortest-path
//! algorithm of its own; nothing here is the matchmaker's.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context as _;
use serde_json::Value;

use super::make::Made;

/// Sites by number, and links between them that make a tree, so that there is one way.
#[derive(Debug)]
pub(super) struct Net {
    pub delay: Vec<Vec<u64>>,
    /// By pair of sites: the link to take first, and where it leads.
    next: BTreeMap<(usize, usize), (usize, usize)>,
}

const FAR: u64 = u64::MAX / 4;

impl Net {
    /// Floyd and Warshall.
    pub(super) fn of(sites: usize, links: &[(usize, usize, u64)]) -> Net {
        let mut net = Net { delay: vec![vec![FAR; sites]; sites], next: BTreeMap::new() };
        (0..sites).for_each(|site| net.delay[site][site] = 0);
        for (number, (a, b, delay)) in links.iter().enumerate() {
            for (from, to) in [(*a, *b), (*b, *a)] {
                net.delay[from][to] = *delay;
                net.next.insert((from, to), (number, to));
            }
        }
        for middle in 0..sites {
            for from in 0..sites {
                for to in 0..sites {
                    let around = net.delay[from][middle] + net.delay[middle][to];
                    if around < net.delay[from][to] {
                        net.delay[from][to] = around;
                        net.next.insert((from, to), net.next[&(from, middle)]);
                    }
                }
            }
        }
        net
    }

    /// The links from one site to another.
    pub(super) fn way(&self, from: usize, to: usize) -> impl Iterator<Item = usize> + '_ {
        let mut at = from;
        std::iter::from_fn(move || {
            let (link, next) = *self.next.get(&(at, to)).filter(|_| at != to)?;
            at = next;
            Some(link)
        })
    }
}

/// The documents as numbers.
#[derive(Debug)]
pub(super) struct Judge<'m> {
    pub components: Vec<Asks<'m>>,
    pub nodes: Vec<Has<'m>>,
    net: Net,
    links: Vec<u64>,
}

#[derive(Debug)]
pub(super) struct Asks<'m> {
    pub name: &'m str,
    pub replicas: usize,
    doc: &'m Value,
    cpu: u64,
    memory: u64,
    devices: usize,
    port: Option<u64>,
    /// Components by number: with whom, apart from whom, and whom it calls at what rate and delay.
    with: Vec<usize>,
    apart: Vec<usize>,
    calls: Vec<(usize, u64, u64)>,
}

#[derive(Debug)]
pub(super) struct Has<'m> {
    pub name: &'m str,
    doc: &'m Value,
    site: usize,
    cpu: u64,
    memory: u64,
    devices: usize,
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// A number and its unit.
fn amount(value: &Value) -> anyhow::Result<u64> {
    let text = text(value);
    let digits = text.find(|sign: char| !sign.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..digits].parse().with_context(|| format!("{text} is no amount"))?;
    Ok(if text.ends_with("Gi") { number << 30 } else { number })
}

/// In thousandths.
fn cpu(value: &Value) -> anyhow::Result<u64> {
    Ok(amount(value)? * if text(value).ends_with('m') { 1 } else { 1_000 })
}

impl<'m> Judge<'m> {
    pub(super) fn of(made: &'m Made) -> anyhow::Result<Judge<'m>> {
        let site = |name: &str| made.sites.iter().position(|site| site["metadata"]["name"] == name);
        let parts = list(&made.app["spec"]["components"]);
        let named = |name: &Value| parts.iter().position(|part| part["name"] == *name);
        let all = |names: &Value| list(names).iter().filter_map(named).collect();
        let asks = |doc: &'m Value| {
            let call = |one: &Value| {
                let max = one.get("latency").map_or(Ok(FAR), amount)?;
                anyhow::Ok((
                    named(&one["to"]).context("it calls somebody")?,
                    amount(&one["bandwidth"])?,
                    max,
                ))
            };
            anyhow::Ok(Asks {
                name: text(&doc["name"]),
                replicas: usize::try_from(doc["replicas"].as_u64().unwrap_or(1))?,
                doc,
                cpu: cpu(&doc["needs"]["cpu"])?,
                memory: amount(&doc["needs"]["memory"])?,
                devices: list(&doc["needs"]["devices"]).len(),
                port: doc["expose"][0]["published"].as_u64(),
                with: all(&doc["affinity"]["with"]),
                apart: all(&doc["affinity"]["apart"]),
                calls: list(&doc["connects"]).iter().map(call).collect::<Result<_, _>>()?,
            })
        };
        let has = |doc: &'m Value| {
            anyhow::Ok(Has {
                name: text(&doc["metadata"]["name"]),
                doc,
                site: site(text(&doc["spec"]["site"])).context("its site is there")?,
                cpu: cpu(&doc["status"]["allocatable"]["cpu"])?,
                memory: amount(&doc["status"]["allocatable"]["memory"])?,
                devices: list(&doc["status"]["characteristics"]["devices"]).len(),
            })
        };
        let link = |link: &Value| {
            let end =
                |number: usize| site(text(&link["spec"]["ends"][number]["name"])).context("an end");
            anyhow::Ok((end(0)?, end(1)?, amount(&link["spec"]["latency"])?))
        };
        let links: Vec<(usize, usize, u64)> =
            made.links.iter().map(link).collect::<Result<_, _>>()?;
        Ok(Judge {
            components: parts.iter().map(asks).collect::<Result<_, _>>()?,
            nodes: made.nodes.iter().map(has).collect::<Result<_, _>>()?,
            net: Net::of(made.sites.len(), &links),
            links: made
                .links
                .iter()
                .map(|link| amount(&link["spec"]["bandwidth"]))
                .collect::<Result<_, _>>()?,
        })
    }

    /// Whether an instance alone may be there.
    pub(super) fn admits(&self, component: usize, node: usize) -> bool {
        let (asks, has) = (&self.components[component], &self.nodes[node]);
        let needs = &asks.doc["needs"];
        let arch = &has.doc["status"]["characteristics"]["cpu"]["architecture"];
        let arches = list(&needs["arch"]);
        let labels = needs["labels"].as_object().into_iter().flatten();
        let mut labels = labels.map(|(key, value)| has.doc["metadata"]["labels"][key] == *value);
        (arches.is_empty() || arches.contains(arch))
            && labels.all(|holds| holds)
            && (list(&has.doc["spec"]["taints"]).is_empty()
                || !list(&needs["tolerations"]).is_empty())
            && asks.cpu <= has.cpu
            && asks.memory <= has.memory
            && asks.devices <= has.devices
    }

    /// The first thing that places break, in words; those of a component that is not there yet are passed over.
    pub(super) fn broken(&self, places: &[Vec<usize>]) -> Option<String> {
        for (component, at) in places.iter().enumerate() {
            if at.iter().any(|node| !self.admits(component, *node)) {
                return Some(format!("{} may not be there", self.components[component].name));
            }
        }
        self.too_full(places).or_else(|| self.neighbours(places)).or_else(|| self.calls(places))
    }

    fn too_full(&self, places: &[Vec<usize>]) -> Option<String> {
        let mut used = vec![(0, 0, 0); self.nodes.len()];
        let mut ports: BTreeSet<(usize, u64)> = BTreeSet::new();
        for (asks, at) in self.components.iter().zip(places) {
            for node in at {
                let (cpu, memory, devices) = &mut used[*node];
                (*cpu, *memory, *devices) =
                    (*cpu + asks.cpu, *memory + asks.memory, *devices + asks.devices);
                if asks.port.is_some_and(|port| !ports.insert((*node, port))) {
                    return Some(format!("{} has no port of its own", asks.name));
                }
            }
        }
        let full = |(has, (cpu, memory, devices)): (&Has<'_>, (u64, u64, usize))| {
            let over = cpu > has.cpu || memory > has.memory || devices > has.devices;
            over.then(|| format!("{} is too full", has.name))
        };
        self.nodes.iter().zip(used).find_map(full)
    }

    fn neighbours(&self, places: &[Vec<usize>]) -> Option<String> {
        let site = |node: &usize| self.nodes[*node].site;
        for (component, (asks, at)) in self.components.iter().zip(places).enumerate() {
            let rule = &asks.doc["affinity"];
            let by: Vec<usize> = match text(&rule["spread"]) {
                "site" => at.iter().map(site).collect(),
                _ => at.clone(),
            };
            let broken = match (text(&rule["spread"]), rule["skew"].as_u64()) {
                ("", _) => false,
                (_, None) => by.iter().collect::<BTreeSet<_>>().len() < by.len(),
                // The least is known when all are there.
                (over, Some(skew)) => {
                    at.len() == asks.replicas && self.unevenness(component, over, &by) > skew
                }
            };
            let shares = |other: &usize| places[*other].iter().any(|node| at.contains(node));
            let sites: BTreeSet<usize> = at.iter().map(site).collect();
            let strays = |other: &usize| {
                let all: BTreeSet<usize> =
                    places[*other].iter().map(site).chain(sites.clone()).collect();
                all.len() > 1
            };
            if broken || asks.apart.iter().any(shares) || asks.with.iter().any(strays) {
                return Some(format!("{} is not among the neighbours that it asks for", asks.name));
            }
        }
        None
    }

    /// By how much places differ that have room for one.
    fn unevenness(&self, component: usize, over: &str, by: &[usize]) -> u64 {
        let fit = (0..self.nodes.len()).filter(|node| self.admits(component, *node));
        let place = |node: usize| if over == "site" { self.nodes[node].site } else { node };
        let mut counts: BTreeMap<usize, u64> = fit.map(|node| (place(node), 0)).collect();
        by.iter().for_each(|place| *counts.entry(*place).or_default() += 1);
        counts.values().max().unwrap_or(&0) - counts.values().min().unwrap_or(&0)
    }

    fn calls(&self, places: &[Vec<usize>]) -> Option<String> {
        let mut carried = vec![0; self.links.len()];
        for (asks, at) in self.components.iter().zip(places) {
            for (to, bps, max) in &asks.calls {
                let share = bps.div_ceil(self.components[*to].replicas.max(1) as u64);
                for (a, b) in at.iter().flat_map(|a| places[*to].iter().map(move |b| (*a, *b))) {
                    let (a, b) = (self.nodes[a].site, self.nodes[b].site);
                    if self.net.delay[a][b] > *max {
                        return Some(format!("{} is too far from whom it calls", asks.name));
                    }
                    self.net.way(a, b).for_each(|link| carried[link] += share);
                }
            }
        }
        let full = carried.iter().zip(&self.links).any(|(carried, has)| carried > has);
        full.then(|| "a link carries too much".to_owned())
    }
}

/// What trying everything says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tried {
    Exists,
    None,
    /// It would take too long.
    Unknown,
}

impl Judge<'_> {
    /// Tries all places, the instances that need most first, until one choice keeps everything or `steps` are spent.
    pub(super) fn try_everything(&self, mut steps: u64) -> Tried {
        let mut order: Vec<usize> = Vec::new();
        for (component, asks) in self.components.iter().enumerate() {
            order.extend(vec![component; asks.replicas]);
        }
        order.sort_by_key(|component| {
            let asks = &self.components[*component];
            (std::cmp::Reverse((asks.cpu / 1_000) * (asks.memory >> 30)), *component)
        });
        let mut places = vec![Vec::new(); self.components.len()];
        match self.deeper(&order, &mut places, &mut steps) {
            true => Tried::Exists,
            false if steps == 0 => Tried::Unknown,
            false => Tried::None,
        }
    }

    fn deeper(&self, order: &[usize], places: &mut Vec<Vec<usize>>, steps: &mut u64) -> bool {
        let Some((component, rest)) = order.split_first() else { return true };
        // Instances of a component are alike: one order of their nodes is enough.
        let first = places[*component].last().copied().unwrap_or(0);
        for node in first..self.nodes.len() {
            if *steps == 0 {
                return false;
            }
            *steps -= 1;
            places[*component].push(node);
            if self.broken(places).is_none() && self.deeper(rest, places, steps) {
                return true;
            }
            places[*component].pop();
        }
        false
    }
}
