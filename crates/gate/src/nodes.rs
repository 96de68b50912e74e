//! What a Node says about who acts for it, and how the gate changes that.

use serde_json::{Value, json};
use tombolo_identity::joining::{Fallen, Known};
use tombolo_model::{Reason, condition, keys};

use crate::Gate;
use crate::failure::Failure;
use crate::record::Record;
use crate::resources::{Unwritten, now, ours};

const ATTEMPTS_MAX: usize = 16;
/// So many copies are remembered by name; older ones are found out again.
const COPIES_MAX: usize = 8;

/// What is known of a node, as its Node has it.
pub fn known(node: &Value) -> Known {
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

pub(crate) fn failure(fallen: &Fallen) -> Failure {
    match fallen {
        // It is who it says; only not the only one.
        Fallen::Quarantined { .. } => Failure::new(403, Reason::Quarantined, fallen.to_string()),
        Fallen::NodeGone { .. }
        | Fallen::SiteGone { .. }
        | Fallen::Moved { .. }
        | Fallen::Revoked { .. }
        | Fallen::Replaced { .. } => Failure::unauthorized(fallen.to_string()),
    }
}

/// Names an instance as a copy, so that it is let in no more.
pub(crate) async fn quarantine(
    gate: &Gate,
    node: &str,
    copy: &str,
    record: &Record,
) -> Result<(), Failure> {
    change(gate, &ours("nodes", node), record, |live| {
        let mut copies = known(live).quarantined;
        if copies.iter().any(|known| known == copy) {
            return None;
        }
        copies.push(copy.to_owned());
        let first = copies.len().saturating_sub(COPIES_MAX);
        let list = copies[first..].join(",");
        Some(json!({"metadata": {"annotations": {keys::ANNOTATION_QUARANTINED: list}}}))
    })
    .await
}

/// Says on the Node whether two use its identity.
pub(crate) async fn set_cloned(
    gate: &Gate,
    node: &str,
    (status, reason): (&str, Reason),
    message: &str,
    record: &Record,
) -> Result<(), Failure> {
    change(gate, &ours("nodes", node), record, |live| {
        let all = live["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let (was, others): (Vec<Value>, Vec<Value>) =
            all.into_iter().partition(|found| found["type"] == condition::CLONED);
        // Of a node that never had a copy nothing has to be said.
        if was.is_empty() && status == "False" {
            return None;
        }
        let cloned = json!({
            "type": condition::CLONED, "status": status, "reason": reason.word(), "message": message,
            "lastTransitionTime": now(),
        });
        let conditions: Vec<Value> = others.into_iter().chain([cloned]).collect();
        Some(json!({"status": {"conditions": conditions}}))
    })
    .await
}

/// Reads, patches what was read, and looks again if somebody else was quicker. A patch of a status
/// goes to the subresource.
async fn change(
    gate: &Gate,
    path: &str,
    record: &Record,
    patch: impl Fn(&Value) -> Option<Value>,
) -> Result<(), Failure> {
    for _ in 0..ATTEMPTS_MAX {
        let Some(live) = gate.resources().get(path).await? else { return Ok(()) };
        let Some(mut patch) = patch(&live) else { return Ok(()) };
        patch["metadata"]["resourceVersion"] = live["metadata"]["resourceVersion"].clone();
        let to = if patch["status"].is_null() { path.to_owned() } else { format!("{path}/status") };
        match gate.resources().patch(&to, &patch, record).await {
            Ok(_) => return Ok(()),
            Err(Unwritten::Raced) => (),
            Err(Unwritten::Refused(failure)) => return Err(failure),
        }
    }
    Err(Failure::new(409, "Conflict", "too many write the node at once; try again in a second"))
}
