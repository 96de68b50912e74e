//! The loop that serves the kinds of other projects: an App for each of their objects, and their
//! status in their own words. What it decides is in [`tombolo_plan::foreign`]; here it looks, acts
//! and sleeps. Called by `tombolo up` and `tombolo controller`; start at [`run`].

use std::future::Future;
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, Preconditions};
use kube::core::GroupVersionKind;
use kube::{Client, ResourceExt};
use serde_json::json;

use tombolo_model::{App, Assignment, Node, Site};
use tombolo_plan::Monotonic;
use tombolo_plan::foreign::{Action, Foreign, Kind, Observed, Verb, plan};

use crate::clock::{self, Clock};
use crate::cycle::{self, Cycle, Pace};
use crate::event::{self, News, Tone};
use crate::mirror::{Change, Mirrors};
use crate::patch;
use crate::typed::{Loan, Typed};

/// Who we are in managedFields and Events.
const FIELD_MANAGER: &str = "tombolo-foreign";
/// More would hold up the next look.
const ACTIONS_PER_ACTIVATION_MAX: usize = 64;
/// What nobody told of is found by looking now and then.
const LOOK_EVERY: Duration = Duration::from_secs(60);
/// What a failed action left is looked at again after this.
const RETRY_AFTER: Duration = Duration::from_secs(2);
const PACE: Pace =
    Pace { gap_min: Duration::from_millis(100), gap_factor: 1, first_within: LOOK_EVERY };

struct Translation {
    client: Client,
    mirrors: Mirrors,
    apps: Typed<App>,
    assignments: Typed<Assignment>,
    nodes: Typed<Node>,
    sites: Typed<Site>,
}

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
    let (mirrors, changes) = Mirrors::watch(&client, &watched);
    let translation = Translation {
        client,
        mirrors,
        apps: Typed::default(),
        assignments: Typed::default(),
        nodes: Typed::default(),
        sites: Typed::default(),
    };
    cycle::run(translation, changes, PACE, clock, shutdown).await;
}

impl Cycle for Translation {
    type Change = Change;

    fn note(&mut self, change: Change) -> bool {
        self.mirrors.note(change)
    }

    async fn activate(&mut self, now: Monotonic) -> Monotonic {
        let objects = objects(&self.mirrors);
        // Most have none of them, and need not look at all the rest.
        if objects.is_empty() || !self.mirrors.all_listed() {
            return now + LOOK_EVERY;
        }
        let (observed, loans) = self.look(objects);
        let actions = plan(&observed);
        let mut all_done = actions.len() <= ACTIONS_PER_ACTIVATION_MAX;
        for action in actions.iter().take(ACTIONS_PER_ACTIVATION_MAX) {
            let foreign = &observed.objects[action.object];
            tracing::info!(kind = foreign.kind.as_str(), name = foreign.name, %action, "applying");
            if let Err(error) = apply(&self.client, foreign, action).await {
                all_done = false;
                tracing::warn!(%action, %error, "failed; the next look decides again");
            }
        }
        self.put_back(observed, loans);
        now + if all_done { LOOK_EVERY } else { RETRY_AFTER }
    }
}

impl Translation {
    fn look(&mut self, objects: Vec<Foreign>) -> (Observed, [Loan; 4]) {
        let count = Kind::ALL.len();
        self.mirrors.refresh(count, &mut self.apps);
        self.mirrors.refresh(count + 1, &mut self.assignments);
        self.mirrors.refresh(count + 2, &mut self.nodes);
        self.mirrors.refresh(count + 3, &mut self.sites);
        let (apps, of_apps) = self.apps.lend();
        let (assignments, of_assignments) = self.assignments.lend();
        let (nodes, of_nodes) = self.nodes.lend();
        let (sites, of_sites) = self.sites.lend();
        let observed = Observed { objects, apps, assignments, nodes, sites };
        (observed, [of_apps, of_assignments, of_nodes, of_sites])
    }

    fn put_back(&mut self, observed: Observed, loans: [Loan; 4]) {
        let [of_apps, of_assignments, of_nodes, of_sites] = loans;
        self.apps.give_back(observed.apps, of_apps);
        self.assignments.give_back(observed.assignments, of_assignments);
        self.nodes.give_back(observed.nodes, of_nodes);
        self.sites.give_back(observed.sites, of_sites);
    }
}

fn objects(mirrors: &Mirrors) -> Vec<Foreign> {
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
    objects
}

async fn apply(client: &Client, foreign: &Foreign, action: &Action) -> Result<(), kube::Error> {
    match &action.verb {
        Verb::Write(objects) => {
            for object in objects {
                patch::apply(client, &foreign.namespace, object, FIELD_MANAGER).await?;
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
