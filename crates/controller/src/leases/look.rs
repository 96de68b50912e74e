//! What the loop sees: Sites, Nodes and their Leases, kept current by three watches.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::stream::{BoxStream, SelectAll, StreamExt};
use k8s_openapi::api::coordination::v1 as coordination;
use kube::api::{Api, ApiResource, DynamicObject, ListParams};
use kube::runtime::reflector::store::Store;
use kube::runtime::watcher;
use kube::{Client, ResourceExt};
use serde_json::Value;

use tombolo_model::keys::{
    ANNOTATION_PROBE, ANNOTATION_REACHED, SYSTEM_NAMESPACE, node_lease, site_lease,
};
use tombolo_plan::leases::{Holder, Kind, Lease, Member, Observed, Subject};

use crate::mirror::{Progress, mirror};

use super::Error;

/// Nobody is asked about more siblings at once.
const ANSWERS_MAX: usize = 64;

/// One look.
pub(super) struct Look {
    pub(super) observed: Observed,
    pub(super) origins: BTreeMap<Subject, Origin>,
}

/// What acting on an object needs to know of it: the action is for exactly this state.
pub(super) struct Origin {
    pub(super) uid: String,
    pub(super) resource_version: String,
    /// As they are, so that those of others are written back as they are.
    pub(super) conditions: Vec<Value>,
}

pub(super) struct World {
    sites: Store<DynamicObject>,
    nodes: Store<DynamicObject>,
    leases: Store<coordination::Lease>,
    lease_api: Api<coordination::Lease>,
    seeing: BTreeMap<Watched, Seeing>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Watched {
    Sites,
    Nodes,
    Leases,
}

const WATCHED: [Watched; 3] = [Watched::Sites, Watched::Nodes, Watched::Leases];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seeing {
    /// The first list is not complete.
    NotYet,
    Current,
    /// The watch has failed and has shown nothing since: what it showed before may be old.
    Stale,
}

/// That something was seen, or could not be.
pub(super) struct Change {
    watched: Watched,
    event: Result<Progress, watcher::Error>,
}

impl World {
    /// Starts the watches. The stream must be polled for the world to stay current; each change
    /// goes to [`World::note`].
    pub(super) fn watch(client: &Client) -> (World, SelectAll<BoxStream<'static, Change>>) {
        let lease_api = Api::namespaced(client.clone(), SYSTEM_NAMESPACE);
        let (sites, site_changes) =
            mirror(Api::all_with(client.clone(), &resource(Kind::Site)), resource(Kind::Site));
        let (nodes, node_changes) =
            mirror(Api::all_with(client.clone(), &resource(Kind::Node)), resource(Kind::Node));
        let (leases, lease_changes) = mirror(lease_api.clone(), ());
        let changes = futures::stream::select_all([
            site_changes.map(|event| Change { watched: Watched::Sites, event }).boxed(),
            node_changes.map(|event| Change { watched: Watched::Nodes, event }).boxed(),
            lease_changes.map(|event| Change { watched: Watched::Leases, event }).boxed(),
        ]);
        let seeing = WATCHED.map(|watched| (watched, Seeing::NotYet)).into();
        (World { sites, nodes, leases, lease_api, seeing }, changes)
    }

    pub(super) fn note(&mut self, change: Change) {
        let seeing = match (change.event, self.seeing[&change.watched]) {
            (Ok(Progress::Changed), _) => Seeing::Current,
            (Ok(Progress::Listing), before) => before,
            (Err(error), before) => {
                tracing::warn!(watched = ?change.watched, %error, "a watch failed; it starts again");
                match before {
                    Seeing::NotYet => Seeing::NotYet,
                    Seeing::Current | Seeing::Stale => Seeing::Stale,
                }
            }
        };
        self.seeing.insert(change.watched, seeing);
    }

    /// `None` until everything has been listed once: half a world would look like a silent one.
    pub(super) async fn look(&self) -> Result<Option<Look>, Error> {
        if self.seeing.values().any(|seeing| *seeing == Seeing::NotYet) {
            return Ok(None);
        }
        // Old Sites and Nodes do no harm, because every write names the state it was decided on.
        // An old Lease would make a living machine look silent, so it is read afresh.
        let leases = match self.seeing[&Watched::Leases] {
            Seeing::Stale => self.list_leases().await?,
            Seeing::NotYet | Seeing::Current => self.leases.state(),
        };
        let mut leases: BTreeMap<String, Lease> =
            leases.iter().map(|lease| (lease.name_any(), read_lease(lease))).collect();

        let mut look = Look { observed: Observed::new(), origins: BTreeMap::new() };
        for (kind, store) in [(Kind::Site, &self.sites), (Kind::Node, &self.nodes)] {
            for object in store.state() {
                let subject = Subject { kind, name: object.name_any() };
                let origin = read_origin(&object);
                let lease = leases.remove(&lease_name(&subject));
                look.observed.insert(subject.clone(), read_member(&object, &origin, lease));
                look.origins.insert(subject, origin);
            }
        }
        Ok(Some(look))
    }

    async fn list_leases(&self) -> Result<Vec<Arc<coordination::Lease>>, Error> {
        let list = self.lease_api.list(&ListParams::default()).await.map_err(Error::Look)?;
        Ok(list.items.into_iter().map(Arc::new).collect())
    }
}

/// Read without their types: one object that a stranger's server let in must not hide all others.
pub(super) fn resource(kind: Kind) -> ApiResource {
    match kind {
        Kind::Site => ApiResource::erase::<tombolo_model::Site>(&()),
        Kind::Node => ApiResource::erase::<tombolo_model::Node>(&()),
    }
}

fn lease_name(subject: &Subject) -> String {
    match subject.kind {
        Kind::Site => site_lease(&subject.name),
        Kind::Node => node_lease(&subject.name),
    }
}

fn read_origin(object: &DynamicObject) -> Origin {
    let conditions = object.data["status"]["conditions"].as_array();
    Origin {
        uid: object.uid().unwrap_or_default(),
        resource_version: object.resource_version().unwrap_or_default(),
        conditions: conditions.cloned().unwrap_or_default(),
    }
}

fn read_member(object: &DynamicObject, origin: &Origin, lease: Option<Lease>) -> Member {
    let ready = origin.conditions.iter().find(|condition| condition["type"] == "Ready");
    let text = |value: &Value| value.as_str().map(str::to_owned);
    Member {
        reason: ready.and_then(|ready| text(&ready["reason"])),
        address: text(&object.data["status"]["addresses"][0]),
        ready: ready.and_then(|ready| match ready["status"].as_str() {
            Some("True") => Some(true),
            Some("False") => Some(false),
            Some(_) | None => None,
        }),
        site: text(&object.data["spec"]["site"]),
        lease,
    }
}

fn read_lease(lease: &coordination::Lease) -> Lease {
    let spec = lease.spec.clone().unwrap_or_default();
    let renewed = spec.renew_time.map(|time| time.0.to_string()).unwrap_or_default();
    let annotation = |key: &str| lease.annotations().get(key);
    let answers = annotation(ANNOTATION_REACHED).into_iter().flat_map(|text| text.split(','));
    let answers = answers.take(ANSWERS_MAX).filter_map(|one| one.split_once('='));
    Lease {
        probe: annotation(ANNOTATION_PROBE).cloned(),
        answers: answers.map(|(node, reached)| (node.to_owned(), reached == "yes")).collect(),
        // The resourceVersion alone would do, were there no API that keeps it on a restore.
        version: format!("{} {renewed}", lease.resource_version().unwrap_or_default()),
        duration_seconds: spec.lease_duration_seconds.and_then(|seconds| seconds.try_into().ok()),
        holder: match spec.holder_identity.as_deref() {
            Some("") => Holder::Released,
            Some(name) => Holder::Named(name.to_owned()),
            None => Holder::Unnamed,
        },
        renewed,
    }
}
