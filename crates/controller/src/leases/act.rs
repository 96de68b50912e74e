//! What the loop does: one write of a status and one Event, for each action.

use std::collections::BTreeMap;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams};
use serde_json::json;

use tombolo_model::condition::READY;
use tombolo_model::event::{News, Tone};
use tombolo_model::keys::{ANNOTATION_PROBE, SYSTEM_NAMESPACE, node_lease};
use tombolo_model::{Condition, ConditionStatus, Node, Site};
use tombolo_plan::leases::{Action, Ask, Kind, Subject};

use crate::clock;
use crate::event::Teller;

use super::look::Origin;

/// Who we are in managedFields and Events.
const FIELD_MANAGER: &str = "tombolo-leases";

/// A person reads this much; more may be a hostile holder name.
const MESSAGE_LENGTH_MAX: usize = 512;

pub(super) async fn apply(
    client: &Client,
    teller: &Teller,
    origins: &BTreeMap<Subject, Origin>,
    action: Action,
) -> Result<(), kube::Error> {
    let Some(origin) = origins.get(&action.subject) else { return Ok(()) };
    let now = clock::time_of_day();
    write_status(client, &action, origin, now).await?;
    // The status says the same as the Event, and nothing would write the Event a second time.
    if let Err(error) = write_event(client, teller, &action, origin).await {
        tracing::warn!(%action, %error, "an event could not be written");
    }
    Ok(())
}

/// Puts a question on the Lease of a node, or takes it back. Writing it twice does no harm.
pub(super) async fn ask(client: &Client, ask: Ask) -> Result<(), kube::Error> {
    let api: Api<Lease> = Api::namespaced(client.clone(), SYSTEM_NAMESPACE);
    let patch = json!({"metadata": {"annotations": {ANNOTATION_PROBE: ask.probe}}});
    api.patch(&node_lease(&ask.node), &as_ourselves(), &Patch::Merge(patch)).await.map(drop)
}

/// The patch names the resourceVersion that the decision was made on. If the object has changed
/// since, it fails, and nobody's condition is overwritten with an old copy.
async fn write_status(
    client: &Client,
    action: &Action,
    origin: &Origin,
    now: Timestamp,
) -> Result<(), kube::Error> {
    let ready = Condition {
        kind: READY.to_owned(),
        status: if action.why.ready() { ConditionStatus::True } else { ConditionStatus::False },
        reason: action.why.reason().word().to_owned(),
        message: message(action),
        last_transition_time: Time(now),
        observed_generation: None,
    };
    let others = origin.conditions.iter().filter(|condition| condition.kind != READY);
    let conditions: Vec<&Condition> = others.chain([&ready]).collect();
    let patch = json!({
        "metadata": { "resourceVersion": origin.resource_version },
        "status": { "conditions": conditions },
    });
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource(action.subject.kind));
    let name = &action.subject.name;
    api.patch_status(name, &as_ourselves(), &Patch::Merge(patch)).await.map(drop)
}

async fn write_event(
    client: &Client,
    teller: &Teller,
    action: &Action,
    origin: &Origin,
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
        message: &message(action),
    };
    teller.tell(client, &news).await
}

fn resource(kind: Kind) -> ApiResource {
    match kind {
        Kind::Site => ApiResource::erase::<Site>(&()),
        Kind::Node => ApiResource::erase::<Node>(&()),
    }
}

fn as_ourselves() -> PatchParams {
    PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() }
}

fn message(action: &Action) -> String {
    action.why.to_string().chars().take(MESSAGE_LENGTH_MAX).collect()
}
