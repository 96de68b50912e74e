//! The Nodes of a site whose one agent stands for all its machines: which to make, tell of and remove,
//! so that there is one for each machine of its engine. Called by `tombolo_agent::machines`; start at
//! [`plan`].

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use tombolo_model::condition::{self, Finding, UP};
use tombolo_model::keys::{LABEL_MANAGED, LABEL_SITE, is_own};
use tombolo_model::node::Machine;
use tombolo_model::{ConditionStatus, Node, NodeSpec, NodeStatus, Reason, names};

#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    Make(Box<Node>),
    /// Puts these labels on the Node; what people have put there stays.
    Label {
        node: String,
        labels: BTreeMap<String, String>,
    },
    /// The Node with the status that it should have.
    Tell(Box<Node>),
    /// The engine has no such machine any more, and it was us who made the Node.
    Remove(String),
}

/// What to do next. Carrying it out and planning again gives nothing. `nodes` are those of the site;
/// `now` is written for people.
pub fn plan(site: &str, machines: &[Machine], nodes: &[Node], now: &Time) -> Vec<Action> {
    let known: BTreeMap<&str, &Node> = nodes.iter().map(|node| (name(node), node)).collect();
    let there: BTreeSet<&str> = machines.iter().map(|machine| machine.name.as_str()).collect();
    let mut actions = Vec::new();
    for machine in machines {
        match known.get(machine.name.as_str()) {
            // Its status is told when it is there.
            None => actions.push(Action::Make(Box::new(made(site, machine)))),
            Some(node) => actions.extend(keep(node, machine, now)),
        }
    }
    for (name, node) in known.iter().filter(|(name, _)| !there.contains(*name)) {
        match labels(node).contains_key(LABEL_MANAGED) && is_bare(node) {
            true if node.metadata.deletion_timestamp.is_some() => (),
            true => actions.push(Action::Remove((*name).to_owned())),
            // Somebody wants it to be there, or has said what it is for; it must not look as if it were.
            false => actions.extend(tell(node, |status| say(status, Some(MISSING), now))),
        }
    }
    actions
}

const MISSING: &str = "the engine of the site has no such machine";

fn made(site: &str, machine: &Machine) -> Node {
    let spec = NodeSpec { site: site.to_owned(), ..Default::default() };
    let mut node = Node::new(&machine.name, spec);
    let mut labels = machine.labels.clone();
    labels.insert(LABEL_MANAGED.to_owned(), "true".to_owned());
    // Names of sites may be longer than labels.
    if names::label_value(site).is_ok() {
        labels.insert(LABEL_SITE.to_owned(), site.to_owned());
    }
    node.metadata.labels = Some(labels);
    node
}

/// Whether nobody has written down any wish. A Node that came again would not have it, so it is not ours to remove.
fn is_bare(node: &Node) -> bool {
    let is_ours = |key: &&String| matches!(key.as_str(), LABEL_MANAGED | LABEL_SITE);
    node.spec == NodeSpec { site: node.spec.site.clone(), ..NodeSpec::default() }
        && labels(node).keys().filter(|key| is_own(key)).all(|key| is_ours(&key))
}

fn keep(node: &Node, machine: &Machine, now: &Time) -> Vec<Action> {
    let news = machine.labels.iter().filter(|(key, value)| labels(node).get(*key) != Some(*value));
    let news: BTreeMap<String, String> =
        news.map(|(key, value)| (key.clone(), value.clone())).collect();
    let mut actions = Vec::new();
    if !news.is_empty() {
        actions.push(Action::Label { node: name(node).to_owned(), labels: news });
    }
    actions.extend(tell(node, |status| {
        status.capacity.clone_from(&machine.capacity);
        status.allocatable.clone_from(&machine.allocatable);
        status.characteristics.clone_from(&machine.characteristics);
        status.addresses.clone_from(&machine.addresses);
        say(status, machine.down.as_deref(), now);
    }));
    actions
}

/// The Node with another status, if it is another.
fn tell(node: &Node, change: impl FnOnce(&mut NodeStatus)) -> Option<Action> {
    let mut status = node.status.clone().unwrap_or_default();
    change(&mut status);
    let news = node.status.as_ref() != Some(&status);
    news.then(|| Action::Tell(Box::new(Node { status: Some(status), ..node.clone() })))
}

fn say(status: &mut NodeStatus, down: Option<&str>, now: &Time) {
    let (is, reason, message) = match down {
        None => (ConditionStatus::True, Reason::Running, "its engine says that it is up"),
        Some(why) => (ConditionStatus::False, Reason::SaidDown, why),
    };
    let finding = Finding { kind: UP, status: is, reason, message, observed_generation: None };
    condition::set(&mut status.conditions, finding, now);
}

fn name(node: &Node) -> &str {
    node.metadata.name.as_deref().unwrap_or_default()
}

fn labels(node: &Node) -> BTreeMap<String, String> {
    node.metadata.labels.clone().unwrap_or_default()
}

impl fmt::Display for Action {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::Make(node) => write!(out, "make Node {}", name(node)),
            Action::Label { node, labels } => {
                let keys: Vec<&str> = labels.keys().map(String::as_str).collect();
                write!(out, "label Node {node}: {}", keys.join(", "))
            }
            Action::Tell(node) => {
                let conditions = node.status.as_ref().map(|status| status.conditions.as_slice());
                match conditions.and_then(|conditions| condition::find(conditions, UP)) {
                    Some(up) => write!(out, "tell of Node {}: {}", name(node), up.message),
                    None => write!(out, "tell of Node {}", name(node)),
                }
            }
            Action::Remove(node) => write!(out, "remove Node {node}: its machine is gone"),
        }
    }
}

#[cfg(test)]
mod tests;
