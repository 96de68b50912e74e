//! Everything that the loops look at: one [`Mirror`] for each kind, shared by all loops of the process.
//! A loop that needs another kind adds a field here.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use k8s_openapi::api::coordination::v1::Lease;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject};
use kube::core::GroupVersionKind;

use tombolo_model::keys::SYSTEM_NAMESPACE;
use tombolo_model::policy::Policy;
use tombolo_model::{App, Assignment, Link, Node, Probing, Site};
use tombolo_plan::foreign;
use tombolo_plan::placing::{Memory, Observed, struck};
use tombolo_policy::look::Engine;

use crate::clock;
use crate::mirror::{Mirror, Source};

/// Cheap to clone; all clones are the same world.
#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) apps: Mirror<App>,
    pub(crate) assignments: Mirror<Assignment>,
    pub(crate) sites: Mirror<Site>,
    pub(crate) nodes: Mirror<Node>,
    pub(crate) links: Mirror<Link>,
    /// An older cluster may not have installed them.
    pub(crate) policies: Mirror<Policy>,
    pub(crate) probings: Mirror<Probing>,
    /// Those of the system's namespace.
    pub(crate) leases: Mirror<Lease>,
    /// The kinds of other projects, which a cluster may not have installed.
    pub(crate) foreign: BTreeMap<foreign::Kind, Mirror<DynamicObject>>,
    /// What the placing loop remembered after its last look. Explanations are made with it.
    memory: Arc<Mutex<Memory>>,
    measured: Measured,
}

/// Who answers what was measured.
#[derive(Clone)]
pub(crate) struct Measured(Arc<dyn Engine>);

impl std::fmt::Debug for Measured {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Measured")
    }
}

impl World {
    pub(crate) fn new(engine: Arc<dyn Engine>) -> World {
        let foreign = foreign::Kind::ALL.into_iter();
        World {
            apps: Mirror::new("App"),
            assignments: Mirror::new("Assignment"),
            sites: Mirror::new("Site"),
            nodes: Mirror::new("Node"),
            links: Mirror::new("Link"),
            policies: Mirror::optional("Policy"),
            probings: Mirror::optional("Probing"),
            leases: Mirror::new("Lease"),
            foreign: foreign.map(|kind| (kind, Mirror::optional(kind.as_str()))).collect(),
            memory: Arc::default(),
            measured: Measured(engine),
        }
    }

    pub(crate) fn engine(&self) -> &dyn Engine {
        self.measured.0.as_ref()
    }

    /// What places are chosen from.
    pub(crate) fn observed(&self) -> Observed {
        Observed {
            apps: self.apps.all(),
            assignments: self.assignments.all(),
            sites: self.sites.all(),
            nodes: self.nodes.all(),
            links: self.links.all(),
            struck: struck(&self.policies.all(), clock::time_of_day().as_millisecond()),
        }
    }

    /// The mirrors behind [`World::observed`].
    pub(crate) fn observed_sources(&self) -> Vec<&dyn Source> {
        vec![&self.apps, &self.assignments, &self.sites, &self.nodes, &self.links, &self.policies]
    }

    pub(crate) fn memory(&self) -> Memory {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn remember(&self, memory: Memory) {
        *self.memory.lock().unwrap_or_else(PoisonError::into_inner) = memory;
    }

    /// Every mirror, for the board that shows how they are.
    pub(crate) fn sources(&self) -> Vec<&dyn Source> {
        let others: [&dyn Source; 2] = [&self.probings, &self.leases];
        let ours = self.observed_sources().into_iter().chain(others);
        let foreign = self.foreign.values().map(|mirror| mirror as &dyn Source);
        ours.chain(foreign).collect()
    }

    /// Keeps the world current while it is polled, by one watch for each kind; never ends.
    pub(crate) async fn keep(&self, client: &Client) {
        let all = client.clone();
        let foreign = self
            .foreign
            .iter()
            .map(|(kind, mirror)| mirror.keep(Api::all_with(client.clone(), &resource(*kind))));
        tokio::join!(
            self.apps.keep(Api::all(all.clone())),
            self.assignments.keep(Api::all(all.clone())),
            self.sites.keep(Api::all(all.clone())),
            self.nodes.keep(Api::all(all.clone())),
            self.links.keep(Api::all(all.clone())),
            self.policies.keep(Api::all(all.clone())),
            self.probings.keep(Api::all(all.clone())),
            self.leases.keep(Api::namespaced(all.clone(), SYSTEM_NAMESPACE)),
            futures::future::join_all(foreign),
        );
    }
}

pub(crate) fn resource(kind: foreign::Kind) -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk(kind.group(), kind.version(), kind.as_str()))
}
