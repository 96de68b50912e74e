//! The continuum as flat rows: sites and nodes sorted by name, each fact that filter and score look
//! at in its place, and the [`Network`] between them. Made once for a look at the world by
//! [`Continuum::of`] and shared by all plans over it.

mod amounts;
mod attached;

use std::borrow::Borrow;
use std::collections::BTreeSet;

use tombolo_model::characteristics::EngineVersion;
use tombolo_model::condition::{self, CONFINING, READY};
use tombolo_model::needs::Taint;
use tombolo_model::node::Load;
use tombolo_model::privilege::{self, Privilege};
use tombolo_model::site::Location;
use tombolo_model::{About, Arch, Condition, ConditionStatus, Engine, Link, Node, Site, Trouble};

use crate::paths::Network;

pub use amounts::Amounts;

/// More would not be one continuum but a mistake in a loop that lists.
pub const NODES_MAX: usize = 1_000_000;

/// Sites, nodes and the network between them, ready for questions.
#[derive(Clone, Debug)]
pub struct Continuum<'a> {
    pub sites: Vec<SiteRow<'a>>,
    pub nodes: Vec<NodeRow<'a>>,
    pub network: Network,
    /// What an hour of one core costs in the middle; the unit of the cost score.
    pub(crate) cost_reference: Option<f64>,
}

#[derive(Clone, Debug)]
pub struct SiteRow<'a> {
    pub name: &'a str,
    pub object: &'a Site,
    /// Why it takes no work although it is not cordoned, and since when.
    pub not_ready: Option<&'a Condition>,
    /// Its network location.
    pub zone: u32,
    /// What its workloads may do beyond their own walls.
    pub(crate) allow: BTreeSet<Privilege>,
}

#[derive(Clone, Debug)]
pub struct NodeRow<'a> {
    pub name: &'a str,
    pub object: &'a Node,
    /// Index into [`Continuum::sites`].
    pub site: u32,
    /// Index into the zones of [`Continuum::network`].
    pub zone: u32,
    /// That of its site.
    pub engine: Engine,
    /// Another one that its agent serves beside it.
    pub also: Option<Engine>,
    pub arch: Option<Arch>,
    /// What may be given to workloads, before anything runs.
    pub total: Amounts<'a>,
    /// Of the node, or else how far its site is trusted.
    pub security: Option<u8>,
    pub compliance: Option<u8>,
    /// Why it takes no work although it is not cordoned, and since when.
    pub not_ready: Option<&'a Condition>,
    pub cordoned: bool,
    /// Why its agent cannot confine programs; nothing if it can, or has not said.
    pub(crate) not_confining: Option<&'a str>,
    /// Whether it or its site has any taint.
    pub tainted: bool,
    pub(crate) facts: Facts,
}

/// What the score reads of a node, copied out of the object: plans go through all nodes several
/// times, and the objects lie far apart.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Facts {
    pub mhz: Option<f64>,
    /// Of the whole machine when busy, or else when idle.
    pub watts: Option<f64>,
    /// Of the node itself, in grams for a kilowatt-hour.
    pub carbon: Option<f64>,
    /// Of the node, and of its network.
    pub failures: Option<(u32, u32)>,
    cost_hourly: Option<f64>,
    /// How busy it is or will be, from 0 to 1: processor or memory, whichever is more.
    pub busy: Option<f64>,
}

impl<'a> Continuum<'a> {
    /// Takes what can be used and says what cannot.
    pub fn of<S, N, L>(
        sites: &'a [S],
        nodes: &'a [N],
        links: &'a [L],
    ) -> (Continuum<'a>, Vec<Trouble>)
    where
        S: Borrow<Site>,
        N: Borrow<Node>,
        L: Borrow<Link>,
    {
        let mut troubles = Vec::new();
        let mut site_rows: Vec<SiteRow<'a>> =
            sites.iter().filter_map(|s| site_row(s.borrow(), &mut troubles)).collect();
        site_rows.sort_by_key(|site| site.name);
        drop_twins(&mut site_rows, |site| site.name, About::Site, &mut troubles);

        let mut node_rows = node_rows(nodes, &site_rows, &mut troubles);
        if nodes.len() > NODES_MAX {
            let says = format!("{} nodes are given, the first {NODES_MAX} are used", nodes.len());
            troubles.push(Trouble::new(About::Continuum, says));
        }
        drop_twins(&mut node_rows, |node| node.name, About::Node, &mut troubles);
        if node_rows.is_empty() {
            troubles.push(Trouble::new(About::Continuum, "there is no node to run anything on"));
        }

        let links: Vec<&Link> = links.iter().map(Borrow::borrow).collect();
        let network = Network::of(&mut site_rows, &mut node_rows, &links, &mut troubles);
        let cost_reference = cost_reference(&node_rows);
        (Continuum { sites: site_rows, nodes: node_rows, network, cost_reference }, troubles)
    }

    pub fn site_index(&self, name: &str) -> Option<u32> {
        let found = self.sites.binary_search_by(|site| site.name.cmp(name)).ok()?;
        u32::try_from(found).ok()
    }

    pub fn node_index(&self, name: &str) -> Option<u32> {
        let found = self.nodes.binary_search_by(|node| node.name.cmp(name)).ok()?;
        u32::try_from(found).ok()
    }

    /// # Panics
    ///
    /// If the index is not one of this continuum's.
    pub fn node(&self, index: u32) -> &NodeRow<'a> {
        &self.nodes[index as usize]
    }

    pub fn site_of(&self, node: u32) -> &SiteRow<'a> {
        &self.sites[self.node(node).site as usize]
    }

    /// Where a node is: what it says itself, then what its agent found, then its site's place.
    pub(crate) fn locations(&self, node: u32) -> [Option<&'a Location>; 3] {
        let row = self.node(node);
        let found = row.object.status.as_ref().and_then(|status| status.characteristics.as_ref());
        [
            row.object.spec.location.as_ref(),
            found.and_then(|found| found.location.as_ref()),
            self.site_of(node).object.spec.location.as_ref(),
        ]
    }

    /// A property of the place of a node, from the first location that knows it.
    pub(crate) fn place<T>(
        &self,
        node: u32,
        read: impl Fn(&'a Location) -> Option<T>,
    ) -> Option<T> {
        self.locations(node).into_iter().flatten().find_map(read)
    }

    pub(crate) fn coordinates(&self, node: u32) -> Option<(f64, f64)> {
        self.place(node, |place| Some((place.latitude?, place.longitude?)))
    }

    /// The taints of a node and of its site.
    pub(crate) fn taints(&self, node: u32) -> impl Iterator<Item = &'a Taint> {
        let site = self.site_of(node).object;
        self.node(node).object.spec.taints.iter().chain(&site.spec.taints)
    }
}

impl<'a> NodeRow<'a> {
    /// Those of the node alone.
    pub(crate) fn own_taints(&self) -> &'a [Taint] {
        &self.object.spec.taints
    }

    /// Processor cores, for figures that are given per core.
    pub(crate) fn cores(&self) -> Option<f64> {
        let cpu = self.total.cpu_millis;
        #[expect(clippy::cast_precision_loss, reason = "a number of cores for a score")]
        (cpu > 0).then(|| cpu as f64 / 1000.0)
    }

    /// What an hour of one core costs.
    pub(crate) fn cost_per_core(&self) -> Option<f64> {
        let cost = self.facts.cost_hourly.filter(|cost| cost.is_finite() && *cost >= 0.0)?;
        Some(cost / self.cores().unwrap_or(1.0).max(0.001))
    }
}

fn site_row<'a>(site: &'a Site, troubles: &mut Vec<Trouble>) -> Option<SiteRow<'a>> {
    let Some(name) = site.metadata.name.as_deref() else {
        troubles.push(Trouble::new(About::NamelessSite, "one has no name and is left out"));
        return None;
    };
    let conditions = site.status.as_ref().map_or(&[][..], |status| &status.conditions);
    let allow = privilege::allowed(site.spec.allow.as_deref());
    Some(SiteRow { name, object: site, not_ready: not_ready(conditions), zone: 0, allow })
}

/// Rows are made in the order in which the objects lie in memory, and sorted afterwards: objects
/// are large, and going through them in the order of names would wait for each.
fn node_rows<'a, N: Borrow<Node>>(
    nodes: &'a [N],
    sites: &[SiteRow<'a>],
    troubles: &mut Vec<Trouble>,
) -> Vec<NodeRow<'a>> {
    let mut found = Vec::new();
    let mut rows: Vec<Option<NodeRow<'a>>> = Vec::with_capacity(nodes.len().min(NODES_MAX));
    let mut keys: Vec<(u128, u32)> = Vec::with_capacity(rows.capacity());
    let mut last_site = 0;
    for node in nodes.iter().take(NODES_MAX) {
        let row = node_row(node.borrow(), sites, &mut last_site, &mut found);
        let Some(row) = row else { continue };
        keys.push((prefix(row.name), u32::try_from(rows.len()).unwrap_or(u32::MAX)));
        rows.push(Some(row));
    }
    // The order of the input must not show.
    found.sort();
    troubles.extend(found);
    let name = |row: u32| rows[row as usize].as_ref().map(|row| row.name);
    keys.sort_unstable_by(|(a, one), (b, other)| {
        // Of two with the same name, the first that was given comes first.
        a.cmp(b).then_with(|| name(*one).cmp(&name(*other))).then(one.cmp(other))
    });
    keys.into_iter().filter_map(|(_, row)| rows[row as usize].take()).collect()
}

/// The first letters of a name as a number that compares as they do.
fn prefix(name: &str) -> u128 {
    let mut bytes = [0; 16];
    let len = name.len().min(bytes.len());
    bytes[..len].copy_from_slice(&name.as_bytes()[..len]);
    u128::from_be_bytes(bytes)
}

/// `last_site` is where the last node was: the next one is often there too.
fn node_row<'a>(
    node: &'a Node,
    sites: &[SiteRow<'a>],
    last_site: &mut usize,
    troubles: &mut Vec<Trouble>,
) -> Option<NodeRow<'a>> {
    let Some(name) = node.metadata.name.as_deref() else {
        troubles.push(Trouble::new(About::NamelessNode, "one has no name and is left out"));
        return None;
    };
    let wanted = node.spec.site.as_str();
    if sites.get(*last_site).is_none_or(|site| site.name != wanted) {
        let Ok(found) = sites.binary_search_by(|site| site.name.cmp(wanted)) else {
            let says = format!("its site {wanted:?} does not exist, so it is left out");
            troubles.push(Trouble::new(About::Node(name.to_owned()), says));
            return None;
        };
        *last_site = found;
    }
    let site = *last_site;
    let of_site = &sites[site];
    let status = node.status.as_ref();
    let characteristics = status.and_then(|status| status.characteristics.as_ref());
    let conditions = status.map_or(&[][..], |status| &status.conditions);
    Some(NodeRow {
        name,
        object: node,
        site: u32::try_from(site).ok()?,
        zone: 0,
        engine: of_site.object.spec.engine,
        also: characteristics.and_then(|found| also(of_site.object.spec.engine, &found.engines)),
        arch: characteristics.and_then(|c| c.cpu.as_ref()?.architecture),
        total: Amounts::of_node(node),
        security: status.and_then(|status| status.security_score).or(of_site
            .object
            .spec
            .trust
            .map(|trust| trust.score())),
        compliance: status.and_then(|status| status.compliance_score),
        not_ready: not_ready(conditions).or(of_site.not_ready),
        cordoned: node.spec.unschedulable || of_site.object.spec.unschedulable,
        tainted: !node.spec.taints.is_empty() || !of_site.object.spec.taints.is_empty(),
        not_confining: not_confining(conditions),
        facts: facts(node),
    })
}

fn facts(node: &Node) -> Facts {
    let status = node.status.as_ref();
    let processor = status.and_then(|status| status.characteristics.as_ref()?.cpu.as_ref());
    let energy = status.and_then(|status| status.energy.as_ref());
    let failures = status.and_then(|status| status.failures.as_ref());
    Facts {
        mhz: processor.and_then(|cpu| cpu.frequency_mhz_max).map(f64::from),
        watts: energy.and_then(|energy| energy.busy_watts.or(energy.idle_watts)),
        carbon: energy.and_then(|energy| energy.carbon_intensity),
        failures: failures.map(|failures| (failures.node, failures.network)),
        cost_hourly: node.spec.cost_hourly,
        busy: status.and_then(|status| status.load.as_ref()).map(busy),
    }
}

fn busy(load: &Load) -> f64 {
    load.cpu.max(load.cpu_forecast.unwrap_or(0.0)).max(load.memory.unwrap_or(0.0))
}

/// One agent serves processes and containers of one machine. A cluster has agents of its own.
pub(crate) fn also(of_site: Engine, found: &[EngineVersion]) -> Option<Engine> {
    let other = match of_site {
        Engine::Host => Engine::Docker,
        Engine::Docker => Engine::Host,
        Engine::Kubernetes => return None,
    };
    found.iter().any(|engine| engine.name == other).then_some(other)
}

/// Nobody has said anything about a node from a file: it is taken as ready.
fn not_ready(conditions: &[Condition]) -> Option<&Condition> {
    let ready = condition::find(conditions, READY)?;
    match ready.status {
        ConditionStatus::True => None,
        ConditionStatus::False | ConditionStatus::Unknown => Some(ready),
    }
}

/// Nobody has said anything about a node from a file: it is taken to confine what it runs.
fn not_confining(conditions: &[Condition]) -> Option<&str> {
    let confining = condition::find(conditions, CONFINING)?;
    match confining.status {
        ConditionStatus::True | ConditionStatus::Unknown => None,
        ConditionStatus::False => Some(confining.message.as_str()),
    }
}

fn drop_twins<T>(
    rows: &mut Vec<T>,
    name: impl Fn(&T) -> &str,
    about: impl Fn(String) -> About,
    troubles: &mut Vec<Trouble>,
) {
    rows.dedup_by(|later, first| {
        let twins = name(later) == name(first);
        if twins {
            let says = "there are two of this name; the first is used";
            troubles.push(Trouble::new(about(name(first).to_owned()), says));
        }
        twins
    });
}

/// The middle price, rounded to a power of two, so that one more node seldom moves the score of all
/// the others.
fn cost_reference(nodes: &[NodeRow<'_>]) -> Option<f64> {
    let mut costs: Vec<f64> =
        nodes.iter().filter_map(NodeRow::cost_per_core).filter(|cost| *cost > 0.0).collect();
    if costs.is_empty() {
        return None;
    }
    let middle = costs.len() / 2;
    let (_, median, _) = costs.select_nth_unstable_by(middle, f64::total_cmp);
    Some(median.log2().round().exp2())
}

#[cfg(test)]
mod tests;
