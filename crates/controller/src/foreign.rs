//! The loop that serves the kinds of other projects: an App for each of their objects, and their
//! status in their own words. What it decides is in [`tombolo_plan::foreign`]; here it looks, acts
//! and sleeps. Called by `tombolo up` and `tombolo controller`; start at [`run`].

use std::future::Future;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, Preconditions};
use kube::core::GroupVersionKind;
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

use tombolo_model::{App, Assignment, Node, Site};
use tombolo_plan::foreign::{Action, Foreign, Kind, Observed, Verb, plan};

use crate::clock::{self, Clock};
use crate::event::{self, News, Tone};
use crate::mirror::Mirrors;

/// Who we are in managedFields and Events.
const FIELD_MANAGER: &str = "tombolo-foreign";
/// More would hold up the next look.
const ACTIONS_PER_ACTIVATION_MAX: usize = 64;
/// Many changes come together; one look is enough for all of them.
const LOOK_GAP_MIN: Duration = Duration::from_millis(100);
/// What a failed action left is looked at again after this.
const LOOK_EVERY: Duration = Duration::from_secs(60);
const RETRY_AFTER: Duration = Duration::from_secs(2);

/// Runs until `shutdown` is ready.
pub async fn run(client: Client, clock: Clock, shutdown: impl Future<Output = ()>) {
    let kinds = Kind::ALL.map(resource);
    let ours = [
        ApiResource::erase::<App>(&()),
        ApiResource::erase::<Assignment>(&()),
        ApiResource::erase::<Node>(&()),
        ApiResource::erase::<Site>(&()),
    ];
    let watched: Vec<ApiResource> = kinds.iter().chain(&ours).cloned().collect();
    let (mut mirrors, mut changes) = Mirrors::watch(&client, &watched);
    let mut earliest = clock.now();
    let mut wake_at = clock.now() + LOOK_EVERY;
    let mut shutdown = std::pin::pin!(shutdown);
    loop {
        tokio::select! {
            biased;
            () = &mut shutdown => return,
            () = clock.sleep_until(wake_at) => (),
            Some(change) = changes.next() => {
                if mirrors.note(change) {
                    wake_at = wake_at.min(earliest);
                }
                continue;
            }
        }
        let all_done = activate(&client, &mirrors).await;
        earliest = clock.now() + LOOK_GAP_MIN;
        wake_at = clock.now() + if all_done { LOOK_EVERY } else { RETRY_AFTER };
    }
}

/// Looks, decides, acts; once. Whether nothing is left to do.
async fn activate(client: &Client, mirrors: &Mirrors) -> bool {
    if !mirrors.all_listed() {
        return true;
    }
    let observed = look(mirrors);
    let actions = plan(&observed);
    let mut all_done = actions.len() <= ACTIONS_PER_ACTIVATION_MAX;
    for action in actions.iter().take(ACTIONS_PER_ACTIVATION_MAX) {
        let foreign = &observed.objects[action.object];
        tracing::info!(kind = foreign.kind.as_str(), name = foreign.name, %action, "applying");
        if let Err(error) = apply(client, foreign, action).await {
            all_done = false;
            tracing::warn!(%action, %error, "failed; the next look decides again");
        }
    }
    all_done
}

fn look(mirrors: &Mirrors) -> Observed {
    let count = Kind::ALL.len();
    let mut objects = Vec::new();
    for (index, kind) in Kind::ALL.into_iter().enumerate() {
        for object in mirrors.objects(index) {
            objects.push(Foreign {
                kind,
                namespace: object.namespace().unwrap_or_default(),
                name: object.name_any(),
                uid: object.uid().unwrap_or_default(),
                object: serde_json::to_value(&*object).unwrap_or_default(),
            });
        }
    }
    Observed {
        objects,
        apps: mirrors.typed(count),
        assignments: mirrors.typed(count + 1),
        nodes: mirrors.typed(count + 2),
        sites: mirrors.typed(count + 3),
    }
}

async fn apply(client: &Client, foreign: &Foreign, action: &Action) -> Result<(), kube::Error> {
    match &action.verb {
        Verb::Write(objects) => {
            for object in objects {
                write(client, foreign, object).await?;
            }
            tell(client, foreign, &action.why).await
        }
        Verb::Replace { app, uid, spec } => {
            let patch = json!([
                {"op": "test", "path": "/metadata/uid", "value": uid},
                {"op": "add", "path": "/spec", "value": spec},
            ]);
            let patch: json_patch::Patch =
                serde_json::from_value(patch).map_err(kube::Error::SerdeError)?;
            let api: Api<App> = Api::namespaced(client.clone(), &foreign.namespace);
            let params = PatchParams {
                field_manager: Some(FIELD_MANAGER.to_owned()),
                ..PatchParams::default()
            };
            api.patch(app, &params, &Patch::Json::<()>(patch)).await?;
            tell(client, foreign, &action.why).await
        }
        Verb::Delete { app, uid } => {
            let api: Api<App> = Api::namespaced(client.clone(), &foreign.namespace);
            let only = Preconditions { uid: Some(uid.clone()), resource_version: None };
            let params = DeleteParams { preconditions: Some(only), ..DeleteParams::default() };
            api.delete(app, &params).await.map(drop)
        }
        Verb::Status(status) => {
            let version = &foreign.object["metadata"]["resourceVersion"];
            // The old status goes whole: what it said and the new one does not is no longer so.
            let patch = json!([
                {"op": "test", "path": "/metadata/resourceVersion", "value": version},
                {"op": "add", "path": "/status", "value": status},
            ]);
            let patch: json_patch::Patch =
                serde_json::from_value(patch).map_err(kube::Error::SerdeError)?;
            let api: Api<DynamicObject> =
                Api::namespaced_with(client.clone(), &foreign.namespace, &resource(foreign.kind));
            let params = PatchParams::default();
            api.patch_status(&foreign.name, &params, &Patch::Json::<()>(patch)).await.map(drop)
        }
    }
}

async fn write(client: &Client, foreign: &Foreign, object: &Value) -> Result<(), kube::Error> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (version, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
    let (group, version) = version.split_once('/').unwrap_or(("", &version));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, &kind));
    let api: Api<DynamicObject> =
        Api::namespaced_with(client.clone(), &foreign.namespace, &resource);
    let params = PatchParams::apply(FIELD_MANAGER).force();
    api.patch(&text(&object["metadata"]["name"]), &params, &Patch::Apply(object)).await.map(drop)
}

async fn tell(client: &Client, foreign: &Foreign, message: &str) -> Result<(), kube::Error> {
    let about = ObjectReference {
        api_version: Some(format!("{}/{}", foreign.kind.group(), foreign.kind.version())),
        kind: Some(foreign.kind.as_str().to_owned()),
        namespace: Some(foreign.namespace.clone()),
        name: Some(foreign.name.clone()),
        uid: Some(foreign.uid.clone()),
        ..ObjectReference::default()
    };
    let news = News {
        component: FIELD_MANAGER,
        about,
        tone: Tone::Normal,
        reason: "Translated",
        message: message.to_owned(),
    };
    event::write(client, news, clock::time_of_day()).await
}

fn resource(kind: Kind) -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk(kind.group(), kind.version(), kind.as_str()))
}
