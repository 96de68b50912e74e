//! Where the peers of an instance are, as far as this node knows: what the controller has told, and
//! what runs here, which the agent knows first. Plain; made by [`crate::converge`] at each look, read
//! by [`crate::desired`]; start at [`Nearby::addresses`].

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use tombolo_driver::{Instance, State};
use tombolo_model::Assignment;
use tombolo_model::assignment::Peer;
use tombolo_plan::reach;

use crate::report;

/// A component of an App: namespace, App and component.
type Component = (String, String, String);

#[derive(Clone, Debug, Default)]
pub struct Nearby {
    /// Ports of the instances that run here, and where they are reached.
    pub reached: BTreeMap<Component, Vec<(u16, String)>>,
    /// How many Assignments of a component this node has.
    pub assigned: BTreeMap<Component, usize>,
    /// What the controller still says of instances here and is no longer so.
    pub stale: BTreeSet<String>,
    /// Where the files are that tell instances of their peers; none are kept without it.
    pub files: Option<PathBuf>,
    /// The address of this machine on which others reach what is open to them.
    pub address: Option<IpAddr>,
}

impl Nearby {
    /// Adds an instance that runs here. `address` is where the machine is reached; an engine of many
    /// machines says it of each instance.
    pub fn add(&mut self, instance: &Instance, address: Option<&str>) {
        let State::Running(running) = &instance.state else { return };
        let origin = &instance.origin;
        let key = (origin.namespace.clone(), origin.app.clone(), origin.component.clone());
        for port in &running.ports {
            let own = running.addresses.first().map(String::as_str);
            let reached = reach::from_here(&report::port(port, address), own, address);
            let reached = reached.map(|reached| (port.port, reached));
            self.reached.entry(key.clone()).or_default().extend(reached);
        }
    }

    /// Notes what this node has been assigned, after all that runs was added.
    pub fn assign(&mut self, assignment: &Assignment) {
        *self.assigned.entry(component_of(assignment)).or_default() += 1;
        let Some(status) = &assignment.status else { return };
        let here = self.reached.get(&component_of(assignment));
        let runs = |told: &String| here.iter().any(|all| all.iter().any(|(_, is)| is == told));
        self.stale.extend(reach::told_elsewhere(status).filter(|told| !runs(told)));
    }

    /// Where a peer is reached now. What runs here comes first: it is near, and it is known to run.
    pub fn addresses(&self, caller: &Assignment, peer: &Peer) -> Vec<String> {
        let here = self.reached.get(&component_called(caller, peer)).map_or(&[][..], Vec::as_slice);
        let port = peer.port.or(here.first().map(|(port, _)| *port));
        let here = here.iter().filter(|(own, _)| Some(*own) == port).map(|(_, address)| address);
        let told = peer.addresses.iter().filter(|told| !self.stale.contains(*told));
        let mut addresses: Vec<String> = Vec::new();
        for address in here.chain(told) {
            if !addresses.contains(address) {
                addresses.push(address.clone());
            }
        }
        // An instance that is bound to an address gets it first, for as long as it is there.
        if let Some(at) = addresses.iter().position(|one| Some(one) == peer.bound.as_ref()) {
            addresses[..=at].rotate_right(1);
        }
        addresses
    }

    /// Whether instances of the peer were up on other nodes when the Assignment was written. After a
    /// reboot the instances of this node are not up again just because they were then.
    pub fn is_up_elsewhere(&self, caller: &Assignment, peer: &Peer) -> bool {
        let here = self.assigned.get(&component_called(caller, peer)).copied().unwrap_or(0);
        peer.addresses.len() > here
    }

    /// The folder with the file for the instances of an Assignment.
    pub fn folder(&self, uid: &str) -> Option<PathBuf> {
        self.files.as_deref().map(|files: &Path| files.join(uid))
    }
}

fn component_of(assignment: &Assignment) -> Component {
    let namespace = assignment.metadata.namespace.clone().unwrap_or_default();
    (namespace, assignment.spec.app.clone(), assignment.spec.component.clone())
}

fn component_called(caller: &Assignment, peer: &Peer) -> Component {
    let namespace = caller.metadata.namespace.clone().unwrap_or_default();
    let app = peer.app.clone().unwrap_or_else(|| caller.spec.app.clone());
    (namespace, app, peer.component.clone())
}

#[cfg(test)]
mod tests;
