//! Which resources are an agent's, and what it may change of them. Plain decisions: stored objects come
//! in as JSON, an answer comes out. The door of the home looks the objects up and asks here at every
//! request of an agent, so that another home asks the same; in the embedded API that is
//! `tombolo_apiserver::scope`. Start at [`is_for`].

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tombolo_identity::Remit;
use tombolo_model::keys::{self, FINALIZER_ASSIGNMENT, GROUP};

/// Events about what has no namespace are where Kubernetes puts such.
const EVENT_NAMESPACE: &str = "default";
/// Nodes of a site that its one agent may have made: as many as any cluster that one agent stands for. More would let
/// one stolen certificate fill the store and slow down every search for places.
pub const NODES_MAX: usize = 1000;

/// Whether an Assignment is for this agent: that of another node, which it names, is none of a sibling's
/// business. An Assignment that names no node may be taken by any agent of the site.
pub fn is_for(assignment: &Value, remit: &Remit) -> bool {
    site_for(assignment, remit) == remit.site()
}

/// The site of an Assignment; nothing if it is for another node than that of this agent.
pub fn site_for<'a>(assignment: &'a Value, remit: &Remit) -> &'a str {
    let spec = &assignment["spec"];
    let site = spec["site"].as_str().unwrap_or_default();
    let covers = |node: &str| match remit {
        Remit::Node { node: own, .. } => own == node,
        // Which of its nodes it is for makes no difference.
        Remit::Site { .. } => true,
    };
    if spec["node"].as_str().is_none_or(covers) { site } else { "" }
}

/// Whether a Node is among those that this agent sees.
pub fn is_node_of(node: &Value, remit: &Remit) -> bool {
    let name = node["metadata"]["name"].as_str().unwrap_or_default();
    remit.covers(node["spec"]["site"].as_str().unwrap_or_default(), name)
}

/// The site of a Node as the table of rights is to know it: the agent of one node has no right to a
/// Node because of its site.
pub fn site_of_node<'a>(node: &'a Value, remit: &Remit) -> &'a str {
    match remit {
        Remit::Site { .. } => node["spec"]["site"].as_str().unwrap_or_default(),
        Remit::Node { .. } => "",
    }
}

/// Whether a Probing is that of the agent's own node: a link is measured by an end of it and by nobody else. Whoever
/// stands for a whole site is at none of its machines, and measures nothing.
pub fn is_probing_of(probing: &Value, remit: &Remit) -> bool {
    match remit {
        Remit::Node { node, .. } => probing["metadata"]["name"] == node.as_str(),
        Remit::Site { .. } => false,
    }
}

/// Whether a Probing tells only of pairs that its own node is an end of: each peer is another node, and one that it
/// was asked to probe. What was asked may have changed a moment ago; such a report is written again without it.
fn found_by_itself(probing: &Value) -> bool {
    let own = &probing["metadata"]["name"];
    let asked: std::collections::BTreeSet<&str> = probing["spec"]["peers"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|peer| peer["node"].as_str())
        .collect();
    let found = probing["status"]["found"].as_array();
    found.into_iter().flatten().all(|one| {
        one["node"].as_str().is_some_and(|node| asked.contains(node)) && one["node"] != *own
    })
}

/// What an Event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About<'a> {
    /// An object of the Event's own namespace.
    Assignment(&'a str),
    Node(&'a str),
    /// Nothing that an agent has to do with.
    Other,
}

/// What an Event in `namespace` is about.
pub fn about<'a>(event: &'a Value, namespace: Option<&str>) -> About<'a> {
    let about = &event["involvedObject"];
    let of = |field: &str| about[field].as_str().unwrap_or_default();
    let ours = of("apiVersion").split('/').next() == Some(GROUP);
    match (of("kind"), namespace) {
        ("Assignment", Some(namespace)) if ours && of("namespace") == namespace => {
            About::Assignment(about["name"].as_str().unwrap_or_default())
        }
        ("Node", Some(EVENT_NAMESPACE)) if ours => {
            About::Node(about["name"].as_str().unwrap_or_default())
        }
        _ => About::Other,
    }
}

/// Whether an Assignment names this Secret or ConfigMap. The ways to run something that can are
/// `secretEnv` and `files`.
pub fn names(assignment: &Value, resource: &str, name: &str) -> bool {
    let run = &assignment["spec"]["run"];
    let file_field = if resource == "secrets" { "secret" } else { "config" };
    ["container", "process"].iter().any(|way| {
        let environment = run[way]["secretEnv"].as_object().into_iter().flatten();
        let mut environment = environment.map(|(_, entry)| &entry["name"]);
        let mut files = run[way]["files"].as_array().into_iter().flatten();
        (resource == "secrets" && environment.any(|found| found == name))
            || files.any(|file| file[file_field]["name"] == name)
    })
}

/// Which part of an object is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Main,
    Status,
}

/// Why an agent may not make a change that the table of rights lets it make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It is not, or no longer, among what the agent sees.
    NotFound,
    /// How the sentence goes on that begins with its name.
    Forbidden(&'static str),
}

/// What an agent may change of an object; of an Assignment also what a program may change that stands in
/// for an agent (then there is no `remit`). `live` is null of an object that is new.
pub fn may_change(
    remit: Option<&Remit>,
    (group, kind): (&str, &str),
    part: Part,
    live: &Value,
    object: &Value,
) -> Result<(), Refused> {
    let theirs = |seen: fn(&Value, &Remit) -> bool, object: &Value| {
        remit.is_some_and(|remit| !seen(object, remit))
    };
    // It was the agent's when the request was allowed; it may have gone to another agent since.
    match (group, kind) {
        (GROUP, "Assignment") if theirs(is_for, live) => return Err(Refused::NotFound),
        (GROUP, "Node") if !live.is_null() && theirs(is_node_of, live) => {
            return Err(Refused::NotFound);
        }
        (GROUP, "Probing") if theirs(is_probing_of, live) => return Err(Refused::NotFound),
        (_, _) => (),
    }
    match (part, group, kind) {
        (Part::Status, GROUP, "Node") if says_how_secure(remit, live, object) => Err(
            Refused::Forbidden("may not say how secure a node is: that is the trust of its site"),
        ),
        (Part::Status, GROUP, "Probing") => match found_by_itself(object) {
            true => Ok(()),
            false => Err(Refused::Forbidden(
                "may say of its links only those that it was asked to probe, and none to itself",
            )),
        },
        (Part::Status, _, _) => Ok(()),
        (Part::Main, GROUP, "Probing") => {
            Err(Refused::Forbidden("may not choose whom it probes: the controller does"))
        }
        (Part::Main, GROUP, "Assignment") => match holds_or_lets_go(live, object) {
            true => Ok(()),
            false => Err(Refused::Forbidden(
                "may change nothing of an assignment but its status, take hold of it, and let go of \
                 one that is being deleted",
            )),
        },
        (Part::Main, GROUP, "Node") if theirs(is_node_of, object) => {
            Err(Refused::Forbidden("may give no node to another site"))
        }
        (Part::Main, GROUP, "Node") if marks(live) != marks(object) => {
            Err(Refused::Forbidden("may not change who acts for a node"))
        }
        (Part::Main, GROUP, "Node") if own_labels(live, object) != own_labels(object, object) => {
            Err(Refused::Forbidden("may not set labels of tombolo.dev"))
        }
        (Part::Main, GROUP, "Node") if !keeps_the_wishes(live, object) => Err(Refused::Forbidden(
            "may say of the spec of a node its site, and that it takes nothing new, and no more",
        )),
        (Part::Main, "", "Event")
            if !live.is_null() && live["involvedObject"] != object["involvedObject"] =>
        {
            Err(Refused::Forbidden("may not make an event about something else"))
        }
        (Part::Main, _, _) => match bonds(live) == bonds(object) {
            true => Ok(()),
            false => Err(Refused::Forbidden("may set neither finalizers nor owners")),
        },
    }
}

/// Whether somebody who may make any number of Nodes says of one how safely it is set up. An agent of one machine
/// has looked at it.
fn says_how_secure(remit: Option<&Remit>, live: &Value, object: &Value) -> bool {
    let score = |node: &Value| node["status"].get("securityScore").cloned();
    matches!(remit, Some(Remit::Site { .. }))
        && score(object).is_some_and(|said| Some(said) != score(live))
}

/// The labels of our own domain that a Node has, or is to have while it is new: what these say is believed
/// when places are chosen, and so people's to set and not an agent's.
fn own_labels<'a>(node: &'a Value, object: &'a Value) -> BTreeMap<&'a str, &'a Value> {
    let mut labels: BTreeMap<&str, &Value> = BTreeMap::new();
    if node.is_null() {
        // What a new one has to say is whose it is.
        let labels_of_new = object["metadata"]["labels"].as_object().into_iter().flatten();
        let site = &object["spec"]["site"];
        labels.extend(labels_of_new.filter_map(|(key, value)| match key.as_str() {
            keys::LABEL_SITE => Some((key.as_str(), site)),
            keys::LABEL_MANAGED => Some((key.as_str(), value)),
            _ => None,
        }));
        return labels;
    }
    let all = node["metadata"]["labels"].as_object().into_iter().flatten();
    labels
        .extend(all.map(|(key, value)| (key.as_str(), value)).filter(|(key, _)| keys::is_own(key)));
    labels
}

/// Whether an agent leaves to people what they say of a Node: taints, what is kept back, devices that are
/// stated. That it takes nothing new an agent may say, but not take back.
fn keeps_the_wishes(live: &Value, object: &Value) -> bool {
    let bare = |node: &Value| {
        let mut spec = node["spec"].clone();
        if let Some(fields) = spec.as_object_mut() {
            fields.remove("unschedulable");
        }
        spec
    };
    let is_closed = |node: &Value| node["spec"]["unschedulable"] == true;
    let wished = match live.is_null() {
        true => json!({"site": object["spec"]["site"]}),
        false => bare(live),
    };
    bare(object) == wished && (is_closed(object) || !is_closed(live))
}

/// Whether an agent may remove an object that is its own. A Node with wishes of people goes by people's hands: it
/// would be made again at once, without them.
pub fn may_remove(remit: &Remit, (group, kind): (&str, &str), live: &Value) -> Result<(), Refused> {
    let is_bare = |node: &Value| {
        let own = node["metadata"]["labels"].as_object().into_iter().flatten();
        let mut own = own.map(|(key, _)| key.as_str()).filter(|key| keys::is_own(key));
        node["spec"] == json!({"site": node["spec"]["site"]})
            && own.all(|key| matches!(key, keys::LABEL_SITE | keys::LABEL_MANAGED))
    };
    match (group, kind, remit) {
        (GROUP, "Node", Remit::Site { .. }) if !is_bare(live) => {
            Err(Refused::Forbidden("may not remove a node of which people have said something"))
        }
        (_, _, _) => Ok(()),
    }
}

/// What keeps an object, and what it goes with.
fn bonds(object: &Value) -> [Option<&Value>; 2] {
    ["finalizers", "ownerReferences"].map(|field| object["metadata"].get(field))
}

/// What a Node says about who acts for it.
fn marks(node: &Value) -> [Option<&Value>; 4] {
    let marks = [
        keys::ANNOTATION_KEY,
        keys::ANNOTATION_MACHINE,
        keys::ANNOTATION_REVOKED,
        keys::ANNOTATION_QUARANTINED,
    ];
    marks.map(|mark| node["metadata"]["annotations"].get(mark))
}

/// Whether all that has changed is the agent's own finalizer: gone from an object that is being
/// deleted, or put on one that is not.
fn holds_or_lets_go(live: &Value, object: &Value) -> bool {
    let bare = |value: &Value| {
        let mut value = value.clone();
        if let Some(metadata) = value["metadata"].as_object_mut() {
            metadata.retain(|key, _| !matches!(key.as_str(), "finalizers" | "managedFields"));
        }
        value
    };
    let holders = |value: &Value| {
        let list = value["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
        let (own, others): (Vec<Value>, Vec<Value>) =
            list.into_iter().partition(|holder| holder == FINALIZER_ASSIGNMENT);
        (!own.is_empty(), others)
    };
    let ((held, others), (holds, others_then)) = (holders(live), holders(object));
    let is_deleting = !live["metadata"]["deletionTimestamp"].is_null();
    let is_right = if is_deleting { held || !holds } else { holds || !held };
    is_right && bare(live) == bare(object) && others == others_then
}

#[cfg(test)]
mod tests;
