//! What the loop does about one App: one write for each action, in order; Assignments that are to be
//! made one after the other are made together.

use futures::stream::{self, StreamExt as _};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Client, ResourceExt};
use serde_json::json;

use tombolo_model::event::{self, Tone};
use tombolo_model::{App, Assignment, Reason, keys};
use tombolo_plan::placing::{Action, Doubt, News, Release, Verb};

use crate::event::Teller;
use crate::patch::guarded;
use crate::report::failure;

/// Who we are in managedFields and Events.
const FIELD_MANAGER: &str = "tombolo-placing";

/// Instances of one App that come into being at the same time. More would let one large App take all
/// the room in a commit of the store.
const CREATES_AT_ONCE: usize = 32;

/// Carries out the actions about one App until one fails. How many were done, and what failed.
pub(super) async fn apply(
    client: &Client,
    teller: &Teller,
    app: &App,
    actions: Vec<Action>,
) -> (usize, Vec<String>) {
    let mut done = 0;
    let mut failed = Vec::new();
    for together in actions.chunk_by(are_creates) {
        let work: Vec<_> = together.iter().map(|action| act(client, teller, app, action)).collect();
        let mut work = stream::iter(work).buffered(CREATES_AT_ONCE);
        while let Some(acted) = work.next().await {
            match acted {
                Ok(()) => done += 1,
                Err(why) => failed.push(why),
            }
        }
        if !failed.is_empty() {
            break;
        }
    }
    (done, failed)
}

/// Both make an Assignment: neither waits for the other.
fn are_creates(one: &Action, other: &Action) -> bool {
    matches!((&one.verb, &other.verb), (Verb::Create(_), Verb::Create(_)))
}

async fn act(client: &Client, teller: &Teller, app: &App, action: &Action) -> Result<(), String> {
    let name = app.name_any();
    tracing::debug!(app = name, %action, "applying");
    let carried_out = carry_out(client, app, &action.verb).await;
    carried_out.map_err(|error| failure(&format!("App {name}: {action}"), &error))?;
    tracing::info!(app = name, %action, "applied");
    if let Verb::Decide { news, .. } = &action.verb {
        tell(client, teller, app, news).await;
    }
    Ok(())
}

/// Lets go of an Assignment that nobody will take down.
pub(super) async fn release(
    client: &Client,
    teller: &Teller,
    release: Release,
) -> Result<(), kube::Error> {
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
    let news = event::News {
        component: FIELD_MANAGER,
        about,
        tone: Tone::Warning,
        reason: Reason::Abandoned,
        message: &release.why,
    };
    write_event(client, teller, &news).await;
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

pub(super) async fn tell(client: &Client, teller: &Teller, app: &App, news: &[News]) {
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
        let (reason, message) = (one.reason, one.message.as_str());
        let news = event::News { component: FIELD_MANAGER, about, tone, reason, message };
        write_event(client, teller, &news).await;
    }
}

/// An Event that cannot be written is no reason to stop: the status says the same.
async fn write_event(client: &Client, teller: &Teller, news: &event::News<'_>) {
    if let Err(error) = teller.tell(client, news).await {
        tracing::warn!(name = news.about.name, %error, "an event could not be written");
    }
}
