//! Agents by what is known of their nodes: whether they still stand, at every request; and whether
//! two of them use one identity, at every heartbeat. All of it is looked up in memory, so that a
//! node that is removed or revoked is out with its next request, also on an open connection.

use http::HeaderMap;
use serde_json::{Value, json};
use tombolo_identity::clones::Beat;
use tombolo_identity::joining::{Bearer, Fallen, Known, standing};
use tombolo_identity::subject::lease_of_node;
use tombolo_identity::{Role, Subject};
use tombolo_model::{condition, keys};
use tombolo_store::{Error, Object};

use crate::kinds::Kind;
use crate::object::text;
use crate::own_writes::{self, Author};
use crate::server::Api;
use crate::status::Failure;
use crate::write::{Unwritten, store_failure};
use crate::{encode, time};

const ATTEMPTS_MAX: usize = 16;
/// So many copies are remembered by name; older ones are found out again.
const COPIES_MAX: usize = 8;

/// Refuses an agent that does not stand for its node any more; lets everybody else pass.
pub(crate) fn check(
    api: &Api,
    subject: &Subject,
    key: Option<&str>,
    headers: &HeaderMap,
) -> Result<(), Failure> {
    let Role::Agent { site, node } = &subject.role else { return Ok(()) };
    let instance = headers.get(keys::INSTANCE_HEADER).and_then(|value| value.to_str().ok());
    let bearer = Bearer { site, node, key, instance };
    stands(api, &bearer).map_err(|fallen| failure(&fallen))
}

pub(crate) fn stands(api: &Api, bearer: &Bearer<'_>) -> Result<(), Fallen> {
    let known = find(api, bearer.node).map(|(_, node)| known(&node));
    standing(bearer, known.as_ref(), site_exists(api, bearer.site))
}

pub(crate) fn failure(fallen: &Fallen) -> Failure {
    match fallen {
        // It is who it says; only not the only one.
        Fallen::Quarantined { .. } => Failure::new(403, "Quarantined", fallen.to_string()),
        Fallen::NodeGone { .. }
        | Fallen::SiteGone { .. }
        | Fallen::Moved { .. }
        | Fallen::Revoked { .. }
        | Fallen::Replaced { .. } => Failure::unauthorized(fallen.to_string()),
    }
}

pub(crate) fn site_exists(api: &Api, site: &str) -> bool {
    api.store.get(&format!("{}/sites//{site}", keys::GROUP)).is_some()
}

pub(crate) fn find(api: &Api, node: &str) -> Option<(std::sync::Arc<Object>, Value)> {
    let stored = api.store.get(&format!("{}/nodes//{node}", keys::GROUP))?;
    let value = encode::parse(&stored);
    Some((stored, value))
}

/// What a Node says about who acts for it.
pub(crate) fn known(node: &Value) -> Known {
    let annotation = |key: &str| node["metadata"]["annotations"][key].as_str();
    let conditions = node["status"]["conditions"].as_array();
    let ready = |found: &Value| found["type"] == condition::READY && found["status"] == "True";
    Known {
        site: node["spec"]["site"].as_str().unwrap_or_default().to_owned(),
        machine: annotation(keys::ANNOTATION_MACHINE).map(str::to_owned),
        key: annotation(keys::ANNOTATION_KEY).map(str::to_owned),
        revoked: annotation(keys::ANNOTATION_REVOKED).is_some(),
        alive: conditions.is_some_and(|conditions| conditions.iter().any(ready)),
        quarantined: annotation(keys::ANNOTATION_QUARANTINED)
            .map(|list| list.split(',').map(str::to_owned).collect())
            .unwrap_or_default(),
    }
}

/// Listens to a write by `subject`: the Lease of its node is its heartbeat.
pub(crate) async fn hear(
    api: &Api,
    subject: &Subject,
    kind: &Kind,
    object: &Value,
) -> Result<(), Failure> {
    let Role::Agent { node, .. } = &subject.role else { return Ok(()) };
    let is_lease = kind.is("coordination.k8s.io", "Lease");
    if !is_lease || text(object, "name") != lease_of_node(node) {
        return Ok(());
    }
    let instance = object["spec"]["holderIdentity"].as_str().unwrap_or_default();
    let copies = find(api, node).map(|(_, node)| known(&node).quarantined).unwrap_or_default();
    if copies.iter().any(|copy| copy == instance) {
        return Err(failure(&Fallen::Quarantined { node: node.clone() }));
    }
    match api.door.beat(node, instance) {
        Beat::Kept | Beat::Taken { .. } => Ok(()),
        Beat::Cloned { original, newcomer } => {
            quarantine(api, subject, node, &original, &newcomer).await
        }
    }
}

/// Flags the node, so that people see it, and the newcomer, so that it is let in no more.
async fn quarantine(
    api: &Api,
    subject: &Subject,
    node: &str,
    original: &str,
    newcomer: &str,
) -> Result<(), Failure> {
    tracing::warn!(node, original, newcomer, "two machines use one identity");
    let author = Author { user: &subject.name, verb: "quarantine" };
    let kind = &own_writes::served(api, keys::GROUP, keys::VERSION, "nodes").kind;
    let message = format!(
        "{original} and {newcomer} are both alive with the identity of this node, so that one has \
         a copy of the other's data folder; {newcomer} came later and is let in no more"
    );
    for _ in 0..ATTEMPTS_MAX {
        let Some((stored, live)) = find(api, node) else { return Ok(()) };
        let mut copies = known(&live).quarantined;
        copies.push(newcomer.to_owned());
        let first = copies.len().saturating_sub(COPIES_MAX);
        let mut object = live.clone();
        object["metadata"]["annotations"][keys::ANNOTATION_QUARANTINED] =
            json!(copies[first..].join(","));
        set_cloned(&mut object, "True", "TwoInstances", &message);
        let writes = vec![
            own_writes::replace(api, kind, &stored, &live, object, author)?,
            own_writes::event_of_node(api, node, ("Warning", "Cloned"), &message, author)?,
        ];
        match commit(api, kind, node, writes).await {
            Ok(()) => return Ok(()),
            Err(Unwritten::Raced) => (),
            Err(Unwritten::Refused(failure)) => return Err(failure),
        }
    }
    Err(Failure::stale(kind, node))
}

pub(crate) fn set_cloned(node: &mut Value, status: &str, reason: &str, message: &str) {
    let cloned = json!({
        "type": condition::CLONED, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": time::now(),
    });
    let others = node["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let others = others.into_iter().filter(|found| found["type"] != condition::CLONED);
    node["status"]["conditions"] = others.chain([cloned]).collect();
}

/// All of the writes or none.
pub(crate) async fn commit(
    api: &Api,
    kind: &Kind,
    name: &str,
    writes: Vec<tombolo_store::Write>,
) -> Result<(), Unwritten> {
    match api.store.commit(writes).await {
        Ok(_) => Ok(()),
        Err(Error::Conflict { .. } | Error::AlreadyExists { .. } | Error::NotFound { .. }) => {
            Err(Unwritten::Raced)
        }
        Err(error) => Err(Unwritten::Refused(store_failure(kind, name, &error))),
    }
}
