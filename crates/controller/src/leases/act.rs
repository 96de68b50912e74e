//! What the loop does: one write of a status and one Event, for each action.

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};

use tombolo_model::keys::{ANNOTATION_PROBE, SYSTEM_NAMESPACE, node_lease};
use tombolo_plan::leases::{Action, Ask};

use crate::clock;
use crate::event::{self, News, Tone};

use super::Error;
use super::look::{Origin, resource};

/// Who we are in managedFields and Events.
const FIELD_MANAGER: &str = "tombolo-leases";

/// A person reads this much; more may be a hostile holder name.
const MESSAGE_LENGTH_MAX: usize = 512;

pub(super) async fn apply(client: &Client, action: &Action, origin: &Origin) -> Result<(), Error> {
    let subject = || action.subject.to_string();
    let now = clock::time_of_day();
    write_status(client, action, origin, now)
        .await
        .map_err(|source| Error::Status { subject: subject(), source })?;
    write_event(client, action, origin, now)
        .await
        .map_err(|source| Error::Event { subject: subject(), source })
}

/// Puts a question on the Lease of a node, or takes it back. Writing it twice does no harm.
pub(super) async fn ask(client: &Client, ask: &Ask) -> Result<(), Error> {
    let api: Api<Lease> = Api::namespaced(client.clone(), SYSTEM_NAMESPACE);
    let patch = json!({"metadata": {"annotations": {ANNOTATION_PROBE: ask.probe}}});
    let params =
        PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..Default::default() };
    let written = api.patch(&node_lease(&ask.node), &params, &Patch::Merge(patch)).await;
    written.map(drop).map_err(|source| Error::Ask { node: ask.node.clone(), source })
}

/// The patch names the resourceVersion that the decision was made on. If the object has changed
/// since, it fails, and nobody's condition is overwritten with an old copy.
async fn write_status(
    client: &Client,
    action: &Action,
    origin: &Origin,
    now: Timestamp,
) -> Result<(), kube::Error> {
    let ready = json!({
        "type": "Ready",
        "status": if action.why.ready() { "True" } else { "False" },
        "reason": action.why.reason(),
        "message": message(action),
        "lastTransitionTime": Time(now),
    });
    let others = origin.conditions.iter().filter(|condition| condition["type"] != "Ready");
    let conditions: Vec<&Value> = others.chain([&ready]).collect();
    let patch = json!({
        "metadata": { "resourceVersion": origin.resource_version },
        "status": { "conditions": conditions },
    });
    let resource = resource(action.subject.kind);
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let params =
        PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..Default::default() };
    api.patch_status(&action.subject.name, &params, &Patch::Merge(patch)).await.map(drop)
}

async fn write_event(
    client: &Client,
    action: &Action,
    origin: &Origin,
    now: Timestamp,
) -> Result<(), kube::Error> {
    let resource = resource(action.subject.kind);
    let about = ObjectReference {
        api_version: Some(resource.api_version),
        kind: Some(resource.kind),
        name: Some(action.subject.name.clone()),
        uid: Some(origin.uid.clone()),
        resource_version: Some(origin.resource_version.clone()),
        ..ObjectReference::default()
    };
    let news = News {
        component: FIELD_MANAGER,
        about,
        tone: if action.why.ready() { Tone::Normal } else { Tone::Warning },
        reason: action.event_reason(),
        message: message(action),
    };
    event::write(client, news, now).await
}

fn message(action: &Action) -> String {
    action.why.to_string().chars().take(MESSAGE_LENGTH_MAX).collect()
}
