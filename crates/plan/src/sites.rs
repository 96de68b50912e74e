//! What a Site says of its Nodes: how many are ready, what they have together, which versions run
//! there. Called by `tombolo_controller::sites`; start reading at [`plan`]. Its Ready condition is
//! not from here but from [`crate::leases`].

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use tombolo_model::condition::{self, READY};
use tombolo_model::needs::Resources;
use tombolo_model::phrase::first_few;
use tombolo_model::{Bytes, Cpu, Node, Site, SiteStatus};

/// Versions that are named when the nodes of a site differ; more are counted.
const VERSIONS_MAX: usize = 3;

/// Writes the status of a Site, whole, if it is still the one that was looked at.
#[derive(Clone, Debug, PartialEq)]
pub struct Action {
    pub site: String,
    pub resource_version: Option<String>,
    pub status: SiteStatus,
}

/// Decides which statuses are old. Carrying it out and planning again gives nothing.
pub fn plan(sites: &[impl Borrow<Site>], nodes: &[impl Borrow<Node>]) -> Vec<Action> {
    let mut members: BTreeMap<&str, Vec<&Node>> = BTreeMap::new();
    for node in nodes.iter().map(Borrow::borrow) {
        members.entry(&node.spec.site).or_default().push(node);
    }
    let mut actions = Vec::new();
    for site in sites.iter().map(Borrow::borrow) {
        let Some(name) = site.metadata.name.clone() else { continue };
        let members = members.get(name.as_str()).map_or(&[][..], Vec::as_slice);
        let status = status(site, members);
        if site.status.as_ref() != Some(&status) {
            let resource_version = site.metadata.resource_version.clone();
            actions.push(Action { site: name, resource_version, status });
        }
    }
    actions
}

fn status(site: &Site, nodes: &[&Node]) -> SiteStatus {
    let ready: Vec<&Node> = nodes.iter().filter(|node| is_ready(node)).copied().collect();
    let capacity = nodes.iter().filter_map(|node| node.status.as_ref()?.capacity.as_ref());
    let free = ready.iter().filter_map(|node| {
        let status = node.status.as_ref()?;
        status.allocatable.as_ref().or(status.capacity.as_ref())
    });
    let engine = |node: &&Node| {
        let found = node.status.as_ref()?.characteristics.as_ref()?;
        let engine = found.engines.iter().find(|engine| engine.name == site.spec.engine)?;
        engine.version.clone()
    };
    let agent = |node: &&Node| node.status.as_ref()?.agent_version.clone();
    SiteStatus {
        observed_generation: site.metadata.generation,
        conditions: site.status.as_ref().map(|s| s.conditions.clone()).unwrap_or_default(),
        ready: Some(format!("{}/{}", ready.len(), nodes.len())),
        capacity: sum(capacity),
        allocatable: sum(free),
        engine_version: versions(nodes.iter().filter_map(engine).collect()),
        agent_version: versions(nodes.iter().filter_map(agent).collect()),
    }
}

fn is_ready(node: &Node) -> bool {
    node.status.as_ref().is_some_and(|status| condition::is_true(&status.conditions, READY))
}

/// What several have together; nothing if none says what it has.
fn sum<'a>(parts: impl Iterator<Item = &'a Resources>) -> Option<Resources> {
    let mut total: Option<Resources> = None;
    for part in parts {
        let total = total.get_or_insert_default();
        let bytes = |a: Option<Bytes>, b: Option<Bytes>| match (a, b) {
            (Some(a), Some(b)) => Some(Bytes::new(a.get().saturating_add(b.get()))),
            (one, other) => one.or(other),
        };
        total.cpu = match (total.cpu, part.cpu) {
            (Some(a), Some(b)) => Some(Cpu::from_millis(a.millis().saturating_add(b.millis()))),
            (one, other) => one.or(other),
        };
        total.memory = bytes(total.memory, part.memory);
        total.storage = bytes(total.storage, part.storage);
        total.gpu = match (total.gpu, part.gpu) {
            (Some(a), Some(b)) => Some(a.saturating_add(b)),
            (one, other) => one.or(other),
        };
        for (device, count) in &part.devices {
            let all = total.devices.entry(device.clone()).or_default();
            *all = all.saturating_add(*count);
        }
    }
    total
}

fn versions(found: BTreeSet<String>) -> Option<String> {
    (!found.is_empty()).then(|| first_few(&found, VERSIONS_MAX))
}

impl fmt::Display for Action {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ready = self.status.ready.as_deref().unwrap_or_default();
        write!(out, "write the status of Site {}: {ready} nodes ready", self.site)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn site(name: &str) -> Site {
        let made = json!({"apiVersion": "tombolo.dev/v1alpha1", "kind": "Site",
            "metadata": {"name": name, "generation": 2, "resourceVersion": "7"},
            "spec": {"engine": "docker"},
            "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "NodesReady",
                "message": "", "lastTransitionTime": "1970-01-01T00:00:00Z"}]}});
        serde_json::from_value(made).unwrap()
    }

    fn node(name: &str, site: &str, ready: &str, cpu: &str, version: &str) -> Node {
        let has = json!({"cpu": cpu, "memory": "1Gi", "devices": {"camera": 1}});
        let made = json!({"apiVersion": "tombolo.dev/v1alpha1", "kind": "Node",
            "metadata": {"name": name}, "spec": {"site": site},
            "status": {"capacity": has, "agentVersion": "0.1.0",
                "characteristics": {"engines": [{"name": "docker", "version": version}]},
                "conditions": [{"type": "Ready", "status": ready, "reason": "Test",
                    "message": "", "lastTransitionTime": "1970-01-01T00:00:00Z"}]}});
        serde_json::from_value(made).unwrap()
    }

    fn said(action: &Action) -> Value {
        let mut status = serde_json::to_value(&action.status).unwrap();
        assert_eq!(status["conditions"][0]["reason"], "NodesReady", "others write that");
        status.as_object_mut().unwrap().remove("conditions");
        status
    }

    #[test]
    fn a_site_says_what_its_nodes_have_together() {
        let mut sites = vec![site("a"), site("b")];
        let nodes = [
            node("a1", "a", "True", "4", "27.1"),
            node("a2", "a", "False", "500m", "26.0"),
            node("c1", "c", "True", "8", "26.0"),
        ];
        let actions = plan(&sites, &nodes);
        assert_eq!(
            said(&actions[0]),
            json!({"observedGeneration": 2, "ready": "1/2",
                "capacity": {"cpu": "4500m", "memory": "2Gi", "devices": {"camera": 2}},
                "allocatable": {"cpu": "4", "memory": "1Gi", "devices": {"camera": 1}},
                "engineVersion": "26.0, 27.1", "agentVersion": "0.1.0"})
        );
        assert_eq!(said(&actions[1]), json!({"observedGeneration": 2, "ready": "0/0"}));
        assert_eq!(actions[0].to_string(), "write the status of Site a: 1/2 nodes ready");
        for (site, action) in sites.iter_mut().zip(actions) {
            site.status = Some(action.status);
        }
        assert_eq!(plan(&sites, &nodes), [], "it has been said");
    }

    #[test]
    fn many_versions_are_counted() {
        let found = |count: u8| (0..count).map(|one| one.to_string()).collect();
        assert_eq!(versions(found(0)), None);
        assert_eq!(versions(found(3)).as_deref(), Some("0, 1, 2"));
        assert_eq!(versions(found(5)).as_deref(), Some("0, 1, 2 and 2 more"));
    }
}
