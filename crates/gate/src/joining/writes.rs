//! What a joining writes between the first and the last word on its token: the Site, the Node, and what the
//! Node says about its new agent.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tombolo_identity::Remit;
use tombolo_identity::joining::{How, JoinPlan};
use tombolo_model::event::Tone;
use tombolo_model::site::Engine;
use tombolo_model::{Reason, keys, names};

use super::wanted::Join;
use crate::record::Record;
use crate::resources::{Unwritten, ours};
use crate::{Gate, nodes};

/// Makes the Site if it is missing, and makes the Node or Site or gives it to this machine. `live` is
/// the object as it was read.
pub(super) async fn take_in(
    gate: &Gate,
    wanted: &Join,
    plan: &JoinPlan,
    live: Option<Value>,
    marks: &Value,
    record: &Record,
) -> Result<(), Unwritten> {
    let resources = gate.resources();
    match (&plan.remit, live) {
        (remit, Some(live)) => {
            let patch = adopted(wanted, &live, marks);
            resources.patch(&nodes::path(remit), &patch, record).await?;
        }
        (Remit::Site { site }, None) => {
            let site = new_site(wanted, site, Some(marks));
            resources.create(&ours("sites", ""), &site, record).await?;
        }
        (Remit::Node { site, node }, None) => {
            let node = new_node(wanted, site, node, marks);
            resources.create(&ours("nodes", ""), &node, record).await?;
        }
    }
    Ok(())
}

/// The Site of a node that joins, if there is none.
pub(super) async fn make_site(
    gate: &Gate,
    wanted: &Join,
    plan: &JoinPlan,
    record: &Record,
) -> Result<(), Unwritten> {
    match (&plan.remit, plan.make_site) {
        (Remit::Node { site, .. }, true) => {
            let site = new_site(wanted, site, None);
            match gate.resources().create(&ours("sites", ""), &site, record).await {
                // Another machine of the site has come at the same time.
                Ok(_) | Err(Unwritten::Raced) => Ok(()),
                Err(refused) => Err(refused),
            }
        }
        (Remit::Node { .. } | Remit::Site { .. }, _) => Ok(()),
    }
}

/// What the Node or Site says about its new agent. Done again if the joining broke off before its end;
/// it never touches who acts for it, so that a revocation in the meantime stays.
pub(super) async fn finish(
    gate: &Gate,
    wanted: &Join,
    plan: &JoinPlan,
    record: &Record,
) -> Result<(), Unwritten> {
    let (resources, remit) = (gate.resources(), &plan.remit);
    let (over, message) = (("False", Reason::JoinedAnew), Reason::JoinedAnew.says(&[]));
    nodes::set_cloned(gate, remit, over, &message, record).await?;
    match remit {
        Remit::Node { .. } => {
            let version = json!({"status": {"agentVersion": wanted.agent_version}});
            let status = format!("{}/status", nodes::path(remit));
            resources.patch(&status, &version, record).await?;
        }
        Remit::Site { .. } => (),
    }
    gate.leases().forget_seats(&remit.lease());
    let reason = (Tone::Normal, reason(&plan.how));
    resources.event_of(remit, reason, &plan.to_string(), record).await;
    tracing::info!(agent_of = %remit, how = %plan, "joined");
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

/// `marks` say who acts for all of it.
fn new_site(wanted: &Join, site: &str, marks: Option<&Value>) -> Value {
    let engine = wanted.engine.unwrap_or(Engine::Host);
    let mut made = json!({
        "apiVersion": keys::API_VERSION, "kind": "Site",
        "metadata": {"name": site}, "spec": {"engine": engine},
    });
    if let Some(marks) = marks {
        made["metadata"]["annotations"] = marks.clone();
        if !wanted.labels.is_empty() {
            made["metadata"]["labels"] = json!(wanted.labels);
        }
    }
    made
}

fn new_node(wanted: &Join, site: &str, node: &str, marks: &Value) -> Value {
    let mut made = json!({
        "apiVersion": keys::API_VERSION, "kind": "Node",
        "metadata": {"name": node, "annotations": marks},
        "spec": {"site": site},
    });
    if !wanted.labels.is_empty() {
        made["metadata"]["labels"] = json!(wanted.labels);
    }
    // Names of sites may be longer than labels.
    if names::label_value(site).is_ok() {
        made["metadata"]["labels"][keys::LABEL_SITE] = json!(site);
    }
    made
}

/// The patch that gives the Node or Site as it was read to another agent. What was held against the last agent
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_operator_no_longer_says_is_dropped_and_what_is_ours_is_not() {
        let labels = BTreeMap::from([("hall".to_owned(), "3".to_owned())]);
        let dropped = ["rack", "hall", "secure.tombolo.dev/hall", keys::LABEL_SITE];
        let change = relabelled(&labels, &dropped.map(str::to_owned));
        assert_eq!(change, json!({"hall": "3", "rack": null}));
    }
}
