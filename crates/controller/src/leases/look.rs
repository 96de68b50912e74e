//! What the loop sees, as plain values: Sites, Nodes and their Leases.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::coordination::v1 as coordination;
use kube::{Resource, ResourceExt};

use tombolo_model::condition::{self, READY, UP};
use tombolo_model::keys::{
    ANNOTATION_KEY, ANNOTATION_PROBE, ANNOTATION_REACHED, ANNOTATION_REVOKED, node_lease,
    site_lease,
};
use tombolo_model::{Condition, ConditionStatus, Node, Shared, Site};
use tombolo_plan::leases::{Holder, Kind, Lease, Member, Observed, Subject, Voice};

/// Nobody is asked about more siblings at once.
const ANSWERS_MAX: usize = 64;

/// One look.
pub(super) struct Look {
    pub(super) observed: Observed,
    pub(super) origins: BTreeMap<Subject, Origin>,
}

/// What acting on an object needs to know of it: the action is for exactly this state.
#[derive(Clone, Debug)]
pub(super) struct Origin {
    pub(super) uid: String,
    pub(super) resource_version: String,
    /// As they are, so that those of others are written back as they are.
    pub(super) conditions: Vec<Condition>,
}

pub(super) fn look(
    sites: &[Shared<Site>],
    nodes: &[Shared<Node>],
    leases: &[Shared<coordination::Lease>],
) -> Look {
    let mut leases: BTreeMap<String, Lease> =
        leases.iter().map(|lease| (lease.name_any(), read_lease(lease))).collect();
    let mut look = Look { observed: Observed::new(), origins: BTreeMap::new() };
    let mut of_one_agent = BTreeSet::new();
    for site in sites {
        // Also while the agent of the site is revoked: no other agent could speak for its nodes.
        if site.annotations().contains_key(ANNOTATION_KEY) {
            of_one_agent.insert(site.name_any());
        }
        let status = site.status.as_ref();
        let conditions = status.map_or(&[][..], |status| &status.conditions);
        let member = member(conditions, leases.remove(&site_lease(&site.name_any())));
        look.put(Kind::Site, &**site, conditions, member);
    }
    for node in nodes {
        let status = node.status.as_ref();
        let conditions = status.map_or(&[][..], |status| &status.conditions);
        let member = Member {
            address: status.and_then(|status| status.addresses.first().cloned()),
            site: Some(node.spec.site.clone()),
            voice: match of_one_agent.contains(&node.spec.site) && !has_agent(node) {
                true => Voice::OfSite { down: down(conditions) },
                false => Voice::Own,
            },
            ..member(conditions, leases.remove(&node_lease(&node.name_any())))
        };
        look.put(Kind::Node, &**node, conditions, member);
    }
    look
}

impl Look {
    fn put(&mut self, kind: Kind, object: &impl Resource, known: &[Condition], member: Member) {
        let subject = Subject { kind, name: object.name_any() };
        let origin = Origin {
            uid: object.uid().unwrap_or_default(),
            resource_version: object.resource_version().unwrap_or_default(),
            conditions: known.to_vec(),
        };
        self.observed.insert(subject.clone(), member);
        self.origins.insert(subject, origin);
    }
}

/// Whether an agent has joined as this very node, and may act.
fn has_agent(node: &Node) -> bool {
    let has = |mark| node.annotations().contains_key(mark);
    has(ANNOTATION_KEY) && !has(ANNOTATION_REVOKED)
}

/// Why a node is down, by the word of the agent of its site.
fn down(conditions: &[Condition]) -> Option<String> {
    let up = condition::find(conditions, UP)?;
    match up.status {
        ConditionStatus::False => Some(up.message.clone()),
        ConditionStatus::True | ConditionStatus::Unknown => None,
    }
}

fn member(conditions: &[Condition], lease: Option<Lease>) -> Member {
    let ready = condition::find(conditions, READY);
    Member {
        reason: ready.map(|ready| ready.reason.clone()),
        ready: ready.and_then(|ready| match ready.status {
            ConditionStatus::True => Some(true),
            ConditionStatus::False => Some(false),
            ConditionStatus::Unknown => None,
        }),
        address: None,
        site: None,
        voice: Voice::Own,
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
