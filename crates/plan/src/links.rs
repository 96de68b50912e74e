//! What the probes of all agents say of the links: reports become figures, figures the statuses of Links, and what
//! changes an order to an agent becomes one. Called by `tombolo_controller::links`; start reading at [`plan`].
//!
//! Who probes whom is in [`orders`], what is known of each pair in [`pairs`], and what a Link says in [`status`].

mod orders;
mod pairs;
mod status;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use tombolo_model::event::Tone;
use tombolo_model::link::{End, EndKind};
use tombolo_model::phrase::first_few;
use tombolo_model::{
    App, Assignment, Condition, Link, LinkSpec, LinkStatus, Node, Probing, ProbingSpec, Reason,
    Shared, Site,
};

use crate::Monotonic;

/// Links between sites that the loop makes by itself, at most: a hundred sites have 4,950 pairs. The nearest come
/// first.
pub const LINKS_MADE_MAX: usize = 5_000;
/// While a figure is about to be written or not, somebody has to look.
const LOOK_CLOSELY: Duration = Duration::from_secs(1);
/// For so long a node has to contradict its peers. When its line has become another, it knows so before they do: a peer
/// probes it once in a minute and a half.
const SUSPECTED_FOR: Duration = Duration::from_secs(5 * 60);
/// Peers that are named of those that contradict a node.
const NAMED_MAX: usize = 5;

/// Everything that is looked at.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    pub sites: Vec<Shared<Site>>,
    pub nodes: Vec<Shared<Node>>,
    pub links: Vec<Shared<Link>>,
    pub probings: Vec<Shared<Probing>>,
    pub apps: Vec<Shared<App>>,
    pub assignments: Vec<Shared<Assignment>>,
}

/// What one look leaves for the next. It may be lost at any time: coordinates are found anew within some reports, and
/// a status stays as it is until somebody has measured again.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    pairs: pairs::Pairs,
    orders: orders::Rings,
    kept: BTreeMap<String, status::Kept>,
    /// Who contradicts its peers, and since when.
    suspects: BTreeMap<String, Monotonic>,
    accused: BTreeSet<String>,
}

/// What to write. Each is for the state that was looked at.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Tells an agent whom to probe; `version` is of the order that it replaces, if there is one.
    Order {
        node: String,
        version: Option<String>,
        spec: Box<ProbingSpec>,
    },
    /// The node probes nobody any more.
    Withdraw {
        node: String,
    },
    /// Two sites were found to have a way between them that nobody declared.
    Make {
        link: String,
        spec: Box<LinkSpec>,
    },
    /// A link that this loop made has lost an end.
    Remove {
        link: String,
    },
    Write {
        link: String,
        version: Option<String>,
        status: Box<LinkStatus>,
        news: Vec<Told>,
    },
    /// What a node says of its peers contradicts what they say, or does so no more.
    Judge {
        node: String,
        version: Option<String>,
        conditions: Vec<Condition>,
        told: Told,
    },
}

/// An Event about the object of an action.
#[derive(Clone, Debug, PartialEq)]
pub struct Told {
    pub tone: Tone,
    pub reason: Reason,
    pub message: String,
}

/// What one look brings.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    pub actions: Vec<Action>,
    pub memory: Memory,
    pub wake_at: Option<Monotonic>,
}

/// Decides. `now` is what durations are counted by, `time` what people read.
pub fn plan(observed: &Observed, mut memory: Memory, now: Monotonic, time: &Time) -> Plan {
    let land = Land::of(observed);
    let mut actions = Vec::new();
    memory.pairs.hear(&observed.probings, &land, now);
    judge(&land, &mut memory, now, time, &mut actions);
    actions.extend(orders::plan(observed, &land, &memory.pairs, &mut memory.orders, now));
    actions.extend(made(&land, &memory.pairs, now));
    let mut wake_at = memory.orders.next_turn(&land, now);
    for link in &observed.links {
        let Some(name) = &link.metadata.name else { continue };
        let known = memory.pairs.between(&land, &link.spec.ends, &memory.accused, now);
        if known.is_empty() && !memory.kept.contains_key(name) {
            continue;
        }
        let kept = memory.kept.entry(name.clone()).or_insert_with(|| status::Kept::of(link, time));
        let (written, is_settled) = kept.look(link, &known, now, time);
        actions.extend(written);
        if !is_settled {
            let soon = now + LOOK_CLOSELY;
            wake_at = Some(wake_at.map_or(soon, |known| known.min(soon)));
        }
    }
    let links: BTreeSet<&String> =
        observed.links.iter().filter_map(|link| link.metadata.name.as_ref()).collect();
    memory.kept.retain(|name, _| links.contains(name));
    Plan { actions, memory, wake_at }
}

/// Names to objects, and what is where.
struct Land<'o> {
    sites: BTreeMap<&'o str, &'o Site>,
    nodes: BTreeMap<&'o str, &'o Node>,
    probings: BTreeMap<&'o str, &'o Probing>,
    /// By site, the nodes of it.
    members: BTreeMap<&'o str, Vec<&'o str>>,
    links: &'o [Shared<Link>],
}

impl<'o> Land<'o> {
    fn of(observed: &'o Observed) -> Land<'o> {
        let mut members: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        let nodes = observed.nodes.iter().map(AsRef::as_ref);
        let nodes: BTreeMap<&str, &Node> =
            nodes.filter_map(|node| Some((node.metadata.name.as_deref()?, node))).collect();
        for (name, node) in &nodes {
            members.entry(node.spec.site.as_str()).or_default().push(name);
        }
        let sites = observed.sites.iter().map(AsRef::as_ref);
        let probings = observed.probings.iter().map(AsRef::as_ref);
        Land {
            sites: sites
                .filter_map(|site: &Site| Some((site.metadata.name.as_deref()?, site)))
                .collect(),
            probings: probings
                .filter_map(|one: &Probing| Some((one.metadata.name.as_deref()?, one)))
                .collect(),
            nodes,
            members,
            links: &observed.links,
        }
    }

    /// The port on which the nodes of a site answer probes, if it allows them.
    fn port(&self, site: &str) -> Option<u16> {
        self.sites.get(site)?.spec.probe_port
    }

    fn site_of(&self, node: &str) -> Option<&'o str> {
        self.nodes.get(node).map(|node| node.spec.site.as_str())
    }

    fn is_ready(&self, node: &str) -> bool {
        use tombolo_model::condition::{READY, is_true};
        let status = self.nodes.get(node).and_then(|node| node.status.as_ref());
        status.is_some_and(|status| is_true(&status.conditions, READY))
    }
}

/// Links between sites of which something is known and that nobody has declared, and those that have lost an end.
fn made(land: &Land<'_>, pairs: &pairs::Pairs, now: Monotonic) -> Vec<Action> {
    let mut actions = Vec::new();
    let mut joined: BTreeSet<(&str, &str)> = BTreeSet::new();
    let mut names: BTreeSet<&str> = BTreeSet::new();
    let mut count = 0;
    for link in land.links {
        let name = link.metadata.name.as_deref().unwrap_or_default();
        names.insert(name);
        let is_made = link.is_made_by_probes();
        let gone = |end: &End| land.port(&end.name).is_none();
        if is_made && link.spec.ends.iter().any(gone) {
            actions.push(Action::Remove { link: name.to_owned() });
            continue;
        }
        count += usize::from(is_made);
        if let [End { kind: EndKind::Site, name: a }, End { kind: EndKind::Site, name: b }] =
            link.spec.ends.as_slice()
        {
            joined.insert(ordered(a, b));
        }
    }
    for (a, b) in pairs.sites(land, now, LINKS_MADE_MAX) {
        let name = format!("{a}-to-{b}");
        if count >= LINKS_MADE_MAX {
            break;
        }
        if joined.contains(&(a, b)) || names.contains(name.as_str()) {
            continue;
        }
        let end = |name: &str| End { kind: EndKind::Site, name: name.to_owned() };
        let spec = LinkSpec { ends: vec![end(a), end(b)], ..LinkSpec::default() };
        actions.push(Action::Make { link: name, spec: Box::new(spec) });
        count += 1;
    }
    actions
}

fn ordered<'a>(a: &'a str, b: &'a str) -> (&'a str, &'a str) {
    if a <= b { (a, b) } else { (b, a) }
}

/// Names those whose figures contradict most of their peers: from now on their peers' count alone.
fn judge(
    land: &Land<'_>,
    memory: &mut Memory,
    now: Monotonic,
    time: &Time,
    actions: &mut Vec<Action>,
) {
    let Some(verdict) = memory.pairs.verdict(now) else { return };
    let suspects = verdict.liars.iter().map(|liar| {
        let since = memory.suspects.get(&liar.name).copied().unwrap_or(now);
        (liar.name.clone(), since)
    });
    memory.suspects = suspects.collect();
    let is_proven = |name: &String| {
        memory.suspects.get(name).is_some_and(|since| now.since(*since) >= SUSPECTED_FOR)
    };
    let liars: BTreeMap<&str, &Vec<String>> = verdict
        .liars
        .iter()
        .filter(|liar| is_proven(&liar.name))
        .map(|liar| (liar.name.as_str(), &liar.contradicts))
        .collect();
    let names: BTreeSet<&str> =
        memory.accused.iter().map(String::as_str).chain(liars.keys().copied()).collect();
    for name in names {
        let Some(node) = land.nodes.get(name) else { continue };
        let told = match liars.get(name) {
            // It has been told.
            Some(_) if memory.accused.contains(name) => continue,
            Some(peers) => {
                let named: BTreeSet<String> = peers.iter().cloned().collect();
                let peers = ("peers", first_few(&named, NAMED_MAX));
                let reason = Reason::DelaysDoubted;
                Told { tone: Tone::Warning, reason, message: reason.says(&[peers]) }
            }
            None => {
                let reason = Reason::DelaysBelieved;
                Told { tone: Tone::Normal, reason, message: reason.says(&[]) }
            }
        };
        actions.extend(status::judged(name, node, told, time));
    }
    memory.accused = liars.keys().map(|name| (*name).to_owned()).collect();
}

impl fmt::Display for Action {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::Order { node, spec, .. } => {
                write!(out, "ask {node} to probe {} peers", spec.peers.len())
            }
            Action::Withdraw { node } => write!(out, "ask {node} to probe nobody any more"),
            Action::Make { link, .. } => write!(out, "make link {link}: probes have found a way"),
            Action::Remove { link } => write!(out, "remove link {link}: an end has gone"),
            Action::Write { link, status, .. } => {
                let latency = status.measured.latency.map(|it| it.to_string());
                let latency = latency.as_deref().unwrap_or("no delay");
                write!(out, "write the status of link {link}: {latency}")
            }
            Action::Judge { node, told, .. } => write!(out, "say of {node}: {}", told.message),
        }
    }
}

#[cfg(test)]
mod tests;
