//! Whether agents still stand for their node or site, asked at every request. What is known of it is
//! looked up in memory, so that an agent whose node or site is removed or revoked is out with its next
//! request, also on an open connection. What agents do beside resources is in `tombolo_gate`.

use http::HeaderMap;
use serde_json::Value;
use tombolo_gate::nodes::{known, known_of_site};
use tombolo_identity::joining::{Bearer, Fallen, Known, standing};
use tombolo_identity::{Remit, Role, Subject};
use tombolo_model::{Reason, keys};

use crate::encode;
use crate::kinds::Kind;
use crate::object::text;
use crate::server::Api;
use crate::status::Failure;

/// Refuses an agent that does not stand for its node or site any more; lets everybody else pass.
pub(crate) fn check(
    api: &Api,
    subject: &Subject,
    key: Option<&str>,
    headers: &HeaderMap,
) -> Result<(), Failure> {
    let Role::Agent(remit) = &subject.role else { return Ok(()) };
    let instance = headers.get(keys::INSTANCE_HEADER).and_then(|value| value.to_str().ok());
    let bearer = Bearer { remit, key, instance };
    stands(api, &bearer).map_err(|fallen| failure(&fallen))
}

fn stands(api: &Api, bearer: &Bearer<'_>) -> Result<(), Fallen> {
    let node = match bearer.remit {
        Remit::Node { node, .. } => of_node(api, node),
        Remit::Site { .. } => None,
    };
    standing(bearer, node.as_ref(), of_site(api, bearer.remit.site()).as_ref())
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
        | Fallen::SiteHasAgent { .. }
        | Fallen::Replaced { .. } => Failure::unauthorized(fallen.to_string()),
    }
}

fn of_node(api: &Api, node: &str) -> Option<Known> {
    Some(known(&find(api, &format!("{}/nodes//{node}", keys::GROUP))?))
}

fn of_site(api: &Api, site: &str) -> Option<Known> {
    Some(known_of_site(&find(api, &format!("{}/sites//{site}", keys::GROUP))?))
}

fn find(api: &Api, key: &str) -> Option<Value> {
    api.store.get(key).map(|stored| encode::parse(&stored))
}

/// An agent draws 32 letters for itself. The name is repeated in marks, sentences and logs, where a comma
/// would make two of it.
const INSTANCE_BYTES_MAX: usize = 64;

fn is_instance(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    name.len() <= INSTANCE_BYTES_MAX && name.bytes().all(allowed)
}

/// Refuses the heartbeat of an instance that was found to be a copy, whatever its requests say of
/// themselves: a heartbeat names the instance in the Lease.
pub(crate) fn check_heartbeat(
    api: &Api,
    subject: &Subject,
    kind: &Kind,
    object: &Value,
) -> Result<(), Failure> {
    let Role::Agent(remit) = &subject.role else { return Ok(()) };
    let is_lease = kind.is("coordination.k8s.io", "Lease");
    if !is_lease || text(object, "name") != remit.lease() {
        return Ok(());
    }
    let instance = object["spec"]["holderIdentity"].as_str().unwrap_or_default();
    if !is_instance(instance) {
        return Err(Failure::bad_request(format!(
            "spec.holderIdentity of an agent's Lease has {INSTANCE_BYTES_MAX} letters, digits, dashes, \
             dots and underscores at most"
        )));
    }
    let known = match remit {
        Remit::Node { node, .. } => of_node(api, node),
        Remit::Site { site } => of_site(api, site),
    };
    let copies = known.map(|known| known.quarantined).unwrap_or_default();
    match copies.iter().any(|copy| copy == instance) {
        true => Err(failure(&Fallen::Quarantined { of: remit.clone() })),
        false => Ok(()),
    }
}
