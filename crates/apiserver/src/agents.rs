//! Whether agents still stand for their nodes, asked at every request. What is known of a node is
//! looked up in memory, so that an agent whose node is removed or revoked is out with its next
//! request, also on an open connection. What agents do beside resources is in `tombolo_gate`.

use http::HeaderMap;
use serde_json::Value;
use tombolo_gate::nodes::known;
use tombolo_identity::joining::{Bearer, Fallen, standing};
use tombolo_identity::subject::lease_of_node;
use tombolo_identity::{Role, Subject};
use tombolo_model::{Reason, keys};

use crate::encode;
use crate::kinds::Kind;
use crate::object::text;
use crate::server::Api;
use crate::status::Failure;

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

fn stands(api: &Api, bearer: &Bearer<'_>) -> Result<(), Fallen> {
    let known = find(api, bearer.node).map(|node| known(&node));
    let site = format!("{}/sites//{}", keys::GROUP, bearer.site);
    standing(bearer, known.as_ref(), api.store.get(&site).is_some())
}

fn failure(fallen: &Fallen) -> Failure {
    match fallen {
        // It is who it says; only not the only one.
        Fallen::Quarantined { .. } => {
            Failure::new(403, Reason::Quarantined.word(), fallen.to_string())
        }
        Fallen::NodeGone { .. }
        | Fallen::SiteGone { .. }
        | Fallen::Moved { .. }
        | Fallen::Revoked { .. }
        | Fallen::Replaced { .. } => Failure::unauthorized(fallen.to_string()),
    }
}

fn find(api: &Api, node: &str) -> Option<Value> {
    let stored = api.store.get(&format!("{}/nodes//{node}", keys::GROUP))?;
    Some(encode::parse(&stored))
}

/// Refuses the heartbeat of an instance that was found to be a copy, whatever its requests say of
/// themselves: a heartbeat names the instance in the Lease.
pub(crate) fn check_heartbeat(
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
    let copies = find(api, node).map(|node| known(&node).quarantined).unwrap_or_default();
    match copies.iter().any(|copy| copy == instance) {
        true => Err(failure(&Fallen::Quarantined { node: node.clone() })),
        false => Ok(()),
    }
}
