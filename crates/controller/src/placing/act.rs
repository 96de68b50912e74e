//! What the loop does about one App: one write for each action, in order.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Client, ResourceExt};
use serde_json::json;

use tombolo_model::{App, Assignment, Reason, keys};
use tombolo_plan::placing::{Action, Doubt, News, Release, Verb};

use crate::clock;
use crate::event::{self, Tone};
use crate::patch::guarded;
use crate::report::failure;

/// Who we are in managedFields and Events.
const FIELD_MANAGER: &str = "tombolo-placing";

/// Carries out the actions about one App until one fails. How many were done, and what failed.
pub(super) async fn apply(
    client: &Client,
    app: &App,
    actions: Vec<Action>,
) -> (usize, Option<String>) {
    let name = app.name_any();
    for (done, action) in actions.iter().enumerate() {
        tracing::info!(app = name, %action, "applying");
        if let Err(error) = carry_out(client, app, &action.verb).await {
            return (done, Some(failure(&format!("App {name}: {action}"), &error)));
        }
        if let Verb::Decide { news, .. } = &action.verb {
            tell(client, app, news).await;
        }
    }
    (actions.len(), None)
}

/// Lets go of an Assignment that nobody will take down.
pub(super) async fn release(client: &Client, release: Release) -> Result<(), kube::Error> {
    let api: Api<Assignment> = Api::namespaced(client.clone(), &release.namespace);
    let version = Some(release.resource_version);
    let patch = guarded(version, "/metadata/finalizers", json!(release.finalizers))?;
    api.patch(&release.name, &as_ourselves(), &Patch::Json::<()>(patch)).await?;
    let about = ObjectReference {
        api_version: Some(keys::API_VERSION.to_owned()),
        kind: Some("Assignment".to_owned()),
        namespace: Some(release.namespace),
        name: Some(release.name),
        uid: Some(release.uid),
        ..ObjectReference::default()
    };
    write_event(client, about, Tone::Warning, Reason::Abandoned, &release.why).await;
    Ok(())
}

/// Writes that nobody knows any more whether an instance is up.
pub(super) async fn doubt(client: &Client, doubt: &Doubt) -> Result<(), kube::Error> {
    let api: Api<Assignment> = Api::namespaced(client.clone(), &doubt.namespace);
    let version = Some(doubt.resource_version.clone());
    let patch = guarded(version, "/status/conditions", json!(doubt.conditions))?;
    api.patch_status(&doubt.name, &as_ourselves(), &Patch::Json::<()>(patch)).await.map(drop)
}

async fn carry_out(client: &Client, app: &App, verb: &Verb) -> Result<(), kube::Error> {
    let namespace = app.namespace().unwrap_or_default();
    let assignments: Api<Assignment> = Api::namespaced(client.clone(), &namespace);
    match verb {
        Verb::Decide { status, .. } => {
            let apps: Api<App> = Api::namespaced(client.clone(), &namespace);
            // The whole of it: what it said and no longer says is no longer so.
            let patch = guarded(app.resource_version(), "/status", json!(status))?;
            let name = app.name_any();
            apps.patch_status(&name, &as_ourselves(), &Patch::Json::<()>(patch)).await.map(drop)
        }
        Verb::Create(assignment) => {
            let params =
                PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), dry_run: false };
            assignments.create(&params, assignment).await.map(drop)
        }
        Verb::Update { name, resource_version, spec } => {
            let patch = guarded(Some(resource_version.clone()), "/spec", json!(spec))?;
            assignments.patch(name, &as_ourselves(), &Patch::Json::<()>(patch)).await.map(drop)
        }
        Verb::Delete { name, uid } => {
            let only = Preconditions { uid: Some(uid.clone()), resource_version: None };
            let params = DeleteParams { preconditions: Some(only), ..DeleteParams::default() };
            match assignments.delete(name, &params).await {
                Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
                answer => answer.map(drop),
            }
        }
    }
}

fn as_ourselves() -> PatchParams {
    PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() }
}

async fn tell(client: &Client, app: &App, news: &[News]) {
    for one in news {
        let about = ObjectReference {
            api_version: Some(keys::API_VERSION.to_owned()),
            kind: Some("App".to_owned()),
            namespace: app.namespace(),
            name: Some(app.name_any()),
            uid: app.uid(),
            ..ObjectReference::default()
        };
        let tone = if one.bad { Tone::Warning } else { Tone::Normal };
        write_event(client, about, tone, one.reason, &one.message).await;
    }
}

/// An Event that cannot be written is no reason to stop: the status says the same.
async fn write_event(
    client: &Client,
    about: ObjectReference,
    tone: Tone,
    reason: Reason,
    message: &str,
) {
    let name = about.name.clone();
    let message = message.to_owned();
    let news = event::News { component: FIELD_MANAGER, about, tone, reason, message };
    if let Err(error) = event::write(client, news, clock::time_of_day()).await {
        tracing::warn!(name, %error, "an event could not be written");
    }
}
