//! What a Node says about its agent, and a Site about the agent of all its nodes; and how the gate
//! changes that.

use serde_json::{Value, json};
use tombolo_identity::Remit;
use tombolo_identity::joining::{Fallen, Known};
use tombolo_model::{Reason, condition, keys};

use crate::Gate;
use crate::failure::Failure;
use crate::record::Record;
use crate::resources::{Unwritten, now, ours};

const ATTEMPTS_MAX: usize = 16;
/// So many copies are remembered by name; older ones are found out again.
const COPIES_MAX: usize = 8;

/// The path of the object that says who acts: the Node, or the Site whose agent stands for all of it.
pub(crate) fn path(remit: &Remit) -> String {
    match remit {
        Remit::Node { node, .. } => ours("nodes", node),
        Remit::Site { site } => ours("sites", site),
    }
}

/// The Node of an agent, if the agent stands for one node, and its Site.
pub(crate) async fn find(
    gate: &Gate,
    remit: &Remit,
) -> Result<(Option<Value>, Option<Value>), Failure> {
    let node = match remit {
        Remit::Node { node, .. } => gate.resources().get(&ours("nodes", node)).await?,
        Remit::Site { .. } => None,
    };
    Ok((node, gate.resources().get(&ours("sites", remit.site())).await?))
}

/// What is known of the agent of a node, as the Node has it.
pub fn known(node: &Value) -> Known {
    known_at(node, node["spec"]["site"].as_str().unwrap_or_default())
}

/// What is known of the agent of a whole site, as the Site has it.
pub fn known_of_site(site: &Value) -> Known {
    known_at(site, site["metadata"]["name"].as_str().unwrap_or_default())
}

fn known_at(object: &Value, site: &str) -> Known {
    let annotation = |key: &str| object["metadata"]["annotations"][key].as_str();
    let conditions = object["status"]["conditions"].as_array();
    let ready = |found: &Value| found["type"] == condition::READY && found["status"] == "True";
    Known {
        site: site.to_owned(),
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
        // It is who it says it is, but another agent says the same.
        Fallen::Quarantined { .. } => Failure::new(403, Reason::Quarantined, fallen.to_string()),
        Fallen::NodeGone { .. }
        | Fallen::SiteGone { .. }
        | Fallen::Moved { .. }
        | Fallen::Revoked { .. }
        | Fallen::SiteHasAgent { .. }
        | Fallen::Replaced { .. } => Failure::unauthorized(fallen.to_string()),
    }
}

/// Names an instance as a copy, so that it is let in no more.
pub(crate) async fn quarantine(
    gate: &Gate,
    remit: &Remit,
    copy: &str,
    record: &Record,
) -> Result<(), Failure> {
    change(gate, &path(remit), record, |live| {
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

/// Says on the Node or Site whether two use the identity of its agent.
pub(crate) async fn set_cloned(
    gate: &Gate,
    remit: &Remit,
    (status, reason): (&str, Reason),
    message: &str,
    record: &Record,
) -> Result<(), Failure> {
    change(gate, &path(remit), record, |live| {
        let all = live["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let (was, others): (Vec<Value>, Vec<Value>) =
            all.into_iter().partition(|found| found["type"] == condition::CLONED);
        // Of an agent that never had a copy nothing has to be said.
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
    Err(Failure::new(409, "Conflict", "too many write it at once; try again in a second"))
}
