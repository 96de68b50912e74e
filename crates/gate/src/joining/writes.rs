//! What a joining writes between the first and the last word on its token: the Site, the Node, and what the
//! Node says about its new agent.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tombolo_identity::joining::{How, Plan};
use tombolo_model::site::Engine;
use tombolo_model::{Reason, keys, names};

use super::wanted::Join;
use crate::record::Record;
use crate::resources::{Unwritten, ours};
use crate::{Gate, nodes};

/// Makes the Site if it is missing, and makes the Node or gives it to this machine.
pub(super) async fn take_in(
    gate: &Gate,
    wanted: &Join,
    plan: &Plan,
    node: Option<Value>,
    marks: &Value,
    record: &Record,
) -> Result<(), Unwritten> {
    let resources = gate.resources();
    if plan.make_site {
        let engine = wanted.engine.unwrap_or(Engine::Host);
        let site = json!({
            "apiVersion": keys::API_VERSION, "kind": "Site",
            "metadata": {"name": plan.site}, "spec": {"engine": engine},
        });
        match resources.create(&ours("sites", ""), &site, record).await {
            // Another machine of the site has come at the same time.
            Ok(_) | Err(Unwritten::Raced) => (),
            Err(refused) => return Err(refused),
        }
    }
    match node {
        None => {
            let node = new_node(wanted, plan, marks);
            resources.create(&ours("nodes", ""), &node, record).await?;
        }
        Some(live) => {
            let patch = adopted(wanted, &live, marks);
            resources.patch(&ours("nodes", &wanted.node), &patch, record).await?;
        }
    }
    Ok(())
}

/// What the Node says about its new agent. Done again if the joining broke off before its end; it never
/// touches who acts for the node, so that a revocation in the meantime stays.
pub(super) async fn finish(
    gate: &Gate,
    wanted: &Join,
    plan: &Plan,
    record: &Record,
) -> Result<(), Unwritten> {
    let resources = gate.resources();
    let (over, message) = (("False", Reason::JoinedAnew), Reason::JoinedAnew.says(&[]));
    nodes::set_cloned(gate, &wanted.node, over, &message, record).await?;
    let version = json!({"status": {"agentVersion": wanted.agent_version}});
    let status = format!("{}/status", ours("nodes", &wanted.node));
    resources.patch(&status, &version, record).await?;
    gate.leases().forget_node(&wanted.node);
    let reason = ("Normal", reason(&plan.how));
    resources.event_of_node(&wanted.node, reason, &plan.how.to_string(), record).await;
    tracing::info!(site = plan.site, node = wanted.node, how = %plan.how, "joined");
    Ok(())
}

fn reason(how: &How) -> Reason {
    match how {
        How::New | How::Expected => Reason::Joined,
        How::Reinstalled => Reason::Reinstalled,
        How::Replaced { .. } => Reason::Replaced,
        How::Again => Reason::JoinedAgain,
    }
}

fn new_node(wanted: &Join, plan: &Plan, marks: &Value) -> Value {
    let mut node = json!({
        "apiVersion": keys::API_VERSION, "kind": "Node",
        "metadata": {"name": wanted.node, "annotations": marks},
        "spec": {"site": plan.site},
    });
    if !wanted.labels.is_empty() {
        node["metadata"]["labels"] = json!(wanted.labels);
    }
    // Names of sites may be longer than labels.
    if names::label_value(&plan.site).is_ok() {
        node["metadata"]["labels"][keys::LABEL_SITE] = json!(plan.site);
    }
    node
}

/// The patch that gives the node as it was read to another agent. What was held against the last agent
/// is over.
fn adopted(wanted: &Join, live: &Value, marks: &Value) -> Value {
    let mut patch = json!({"metadata": {
        "resourceVersion": live["metadata"]["resourceVersion"],
        "annotations": marks, "labels": relabelled(&wanted.labels, &[]),
    }});
    for over in [keys::ANNOTATION_REVOKED, keys::ANNOTATION_QUARANTINED] {
        patch["metadata"]["annotations"][over] = Value::Null;
    }
    patch
}

/// The change of the labels: what people have written on the node since stays, and what the operator of
/// the machine says anew counts more.
pub(super) fn relabelled(labels: &BTreeMap<String, String>, dropped: &[String]) -> Value {
    let dropped = dropped.iter().filter(|key| !keys::is_own(key));
    let mut change: BTreeMap<&str, Value> =
        dropped.map(|key| (key.as_str(), Value::Null)).collect();
    change.extend(labels.iter().map(|(key, value)| (key.as_str(), json!(value))));
    json!(change)
}
