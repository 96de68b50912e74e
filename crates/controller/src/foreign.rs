//! The loop that serves the kinds of other projects: an App for each of their objects, and their
//! status in their own words. What it decides is in [`tombolo_plan::foreign`]; here it looks and acts.
//! Run by [`crate::harness`].

use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, Preconditions};
use kube::{Client, ResourceExt};
use serde_json::json;

use tombolo_model::event::{News, Tone};
use tombolo_model::{App, Reason};
use tombolo_plan::Monotonic;
use tombolo_plan::foreign::{Action, Foreign, Observed, Verb, plan};
use tombolo_plan::supervision::{Pace, Report};

use crate::event::Teller;
use crate::harness::{Context, Loop};
use crate::mirror::Source;
use crate::patch;
use crate::report::{Bounds, carry_out};
use crate::world::{World, resource};

/// Who we are in managedFields and Events.
const FIELD_MANAGER: &str = "tombolo-foreign";
/// Actions about the same object come one after the other in the plan and must be done in that order.
const BOUNDS: Bounds = Bounds { actions_max: 64, at_once: 1 };

pub(crate) struct Translation(Context);

impl Loop for Translation {
    const NAME: &'static str = "foreign";
    const PACE: Pace = Pace {
        gap_min: Duration::from_millis(100),
        gap_factor: 1,
        look_every: Duration::from_secs(60),
        retry_after: Duration::from_secs(2),
    };

    fn reads(world: &World) -> Vec<&dyn Source> {
        let ours: [&dyn Source; 4] = [&world.apps, &world.assignments, &world.nodes, &world.sites];
        let theirs = world.foreign.values().map(|mirror| mirror as &dyn Source);
        ours.into_iter().chain(theirs).collect()
    }

    fn start(context: Context) -> Translation {
        Translation(context)
    }

    async fn look(&mut self, _now: Monotonic) -> Result<Report, kube::Error> {
        let Context { client, world, teller, .. } = &self.0;
        let objects = objects(world);
        // Most clusters have none of them, and need not look at all the rest.
        if objects.is_empty() {
            return Ok(Report::default());
        }
        let observed = Observed {
            objects,
            apps: world.apps.all(),
            assignments: world.assignments.all(),
            nodes: world.nodes.all(),
            sites: world.sites.all(),
        };
        let objects = &observed.objects;
        let apply = |action: Action| apply(client, teller, &objects[action.object], action);
        Ok(carry_out(plan(&observed), BOUNDS, apply).await)
    }
}

fn objects(world: &World) -> Vec<Foreign> {
    let mut objects = Vec::new();
    for (kind, mirror) in &world.foreign {
        for object in mirror.all() {
            objects.push(Foreign {
                kind: *kind,
                namespace: object.namespace().unwrap_or_default(),
                name: object.name_any(),
                uid: object.uid().unwrap_or_default(),
                object: serde_json::to_value(&*object).unwrap_or_default(),
            });
        }
    }
    objects
}

async fn apply(
    client: &Client,
    teller: &Teller,
    foreign: &Foreign,
    action: Action,
) -> Result<(), kube::Error> {
    match &action.verb {
        Verb::Write(objects) => {
            for object in objects {
                patch::apply(client, &foreign.namespace, object, FIELD_MANAGER).await?;
            }
            tell(client, teller, foreign, &action.why).await
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
            api.patch(app, &params, &Patch::Json::<()>(patch)).await.map(drop)
        }
        Verb::Delete { app, uid } => {
            let api: Api<App> = Api::namespaced(client.clone(), &foreign.namespace);
            let only = Preconditions { uid: Some(uid.clone()), resource_version: None };
            let params = DeleteParams { preconditions: Some(only), ..DeleteParams::default() };
            api.delete(app, &params).await.map(drop)
        }
        Verb::Status(status) => {
            let version = foreign.object["metadata"]["resourceVersion"].as_str();
            let patch = patch::guarded(version.map(str::to_owned), "/status", status.clone())?;
            let api: Api<DynamicObject> =
                Api::namespaced_with(client.clone(), &foreign.namespace, &resource(foreign.kind));
            let params = PatchParams::default();
            api.patch_status(&foreign.name, &params, &Patch::Json::<()>(patch)).await.map(drop)
        }
    }
}

async fn tell(
    client: &Client,
    teller: &Teller,
    foreign: &Foreign,
    message: &str,
) -> Result<(), kube::Error> {
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
        reason: Reason::Translated,
        message,
    };
    teller.tell(client, &news).await
}
