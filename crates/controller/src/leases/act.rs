//! What the loop does: one write of a status and one Event, for each action.

use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use tombolo_plan::leases::Action;

use crate::clock;

use super::Error;
use super::look::{Origin, resource};

/// Who we are in managedFields and Events.
const FIELD_MANAGER: &str = "tombolo-leases";

/// Sites and Nodes have no namespace, so their Events are where Kubernetes puts such: here.
const EVENT_NAMESPACE: &str = "default";

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
    let event = Event {
        metadata: ObjectMeta {
            generate_name: Some(format!("{}.", action.subject.name)),
            ..ObjectMeta::default()
        },
        involved_object: ObjectReference {
            api_version: Some(resource.api_version),
            kind: Some(resource.kind),
            name: Some(action.subject.name.clone()),
            uid: Some(origin.uid.clone()),
            resource_version: Some(origin.resource_version.clone()),
            ..ObjectReference::default()
        },
        type_: Some(if action.why.ready() { "Normal" } else { "Warning" }.to_owned()),
        reason: Some(action.event_reason().to_owned()),
        message: Some(message(action)),
        source: Some(EventSource { component: Some(FIELD_MANAGER.to_owned()), host: None }),
        first_timestamp: Some(Time(now)),
        last_timestamp: Some(Time(now)),
        count: Some(1),
        ..Event::default()
    };
    let api: Api<Event> = Api::namespaced(client.clone(), EVENT_NAMESPACE);
    api.create(&PostParams::default(), &event).await.map(drop)
}

fn message(action: &Action) -> String {
    action.why.to_string().chars().take(MESSAGE_LENGTH_MAX).collect()
}
