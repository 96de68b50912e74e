//! Carries out steps that are written down. Each can be carried out twice: what a step leads to is in the step, and what
//! is so already is left alone.

use std::fmt;

use kube::Client;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use serde_json::{Value, json};

use tombolo_model::keys::TAINT_DRAIN;
use tombolo_model::policy::{Action, Policy, PolicyStep, StepState};
use tombolo_model::{App, AppId, Node, Shared};
use tombolo_policy::live::{Carried, Key};
use tombolo_policy::remedy::patched;

use super::{FIELD_MANAGER, as_ourselves};
use crate::harness::Context;
use crate::patch::guarded;

/// A move that nothing has come of by then is given up: the violation, if it lasts, brings up another.
const MOVE_MS_MAX: i64 = 600_000;

/// What is on a Node by whose quarantine.
const TAINT_VALUE: &str = "policy";

/// What became of a step.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Acted {
    /// It is under way, or must be tried again.
    Still,
    Over {
        state: StepState,
        message: Option<String>,
    },
}

impl Acted {
    fn taken() -> Acted {
        Acted::Over { state: StepState::Taken, message: None }
    }

    fn dropped(why: impl Into<String>) -> Acted {
        Acted::Over { state: StepState::Dropped, message: Some(why.into()) }
    }
}

pub(super) async fn act(
    context: &Context,
    (namespace, _): &Key,
    step: &PolicyStep,
    now_ms: i64,
) -> Result<Acted, kube::Error> {
    let app = step.app.as_deref().map(|name| AppId::new(namespace, name));
    let app = app.and_then(|id| find(&context.world.apps.all(), &id));
    match step.action {
        Action::None | Action::Notify | Action::Webhook => Ok(Acted::taken()),
        Action::Migrate | Action::Redeploy | Action::Reallocation => {
            Ok(moved(app.as_ref(), step, now_ms))
        }
        Action::Quarantine => quarantine(context, step).await,
        Action::ScaleUp
        | Action::ScaleDown
        | Action::ScaleOut
        | Action::ScaleIn
        | Action::Patch
        | Action::Restart => change(context, app.as_ref(), step).await,
    }
}

fn find(apps: &[Shared<App>], id: &AppId) -> Option<Shared<App>> {
    apps.iter().find(|app| AppId::of(app) == *id).cloned()
}

/// The placing loop moves, because the step is written down. Here it is seen that it has.
fn moved(app: Option<&Shared<App>>, step: &PolicyStep, now_ms: i64) -> Acted {
    let Some(app) = app else { return Acted::dropped("the App is gone") };
    let status = app.status.as_ref();
    let own = status.map_or(&[][..], |status| &status.placements);
    let own = own.iter().filter(|at| Some(&at.component) == step.component.as_ref());
    let nodes: Vec<&str> = own.filter_map(|at| at.node.as_deref()).collect();
    let from = step.node.as_deref().unwrap_or_default();
    if !nodes.is_empty() && !nodes.contains(&from) {
        let message = step.message.as_deref().unwrap_or_default();
        let message = format!("{message}; it is on {} now", nodes.join(", "));
        return Acted::Over { state: StepState::Taken, message: Some(message) };
    }
    match now_ms - step.at.0.as_millisecond() > MOVE_MS_MAX {
        true => Acted::dropped(format!("nothing has moved away from {from} within ten minutes")),
        false => Acted::Still,
    }
}

/// Whoever changes the App meanwhile comes first: the step was decided on what is no longer there.
async fn change(
    context: &Context,
    app: Option<&Shared<App>>,
    step: &PolicyStep,
) -> Result<Acted, kube::Error> {
    let Some(app) = app else { return Ok(Acted::dropped("the App is gone")) };
    let name = step.component.as_deref().unwrap_or_default();
    let components = &app.spec.components;
    let Some(at) = components.iter().position(|one| one.name == name) else {
        return Ok(Acted::dropped("the component is gone"));
    };
    let set = step.set.clone().unwrap_or(Value::Null);
    let wanted = match patched(&components[at], &set) {
        Ok(wanted) => wanted,
        Err(why) => return Ok(Acted::dropped(why)),
    };
    if wanted == components[at] {
        return Ok(Acted::taken());
    }
    if app.metadata.generation != step.generation {
        return Ok(Acted::dropped("the App has been changed by somebody else since"));
    }
    let namespace = app.metadata.namespace.clone().unwrap_or_default();
    let api: Api<App> = Api::namespaced(context.client.clone(), &namespace);
    // By generation and not by version: the status is written at any time, and is no other spec.
    let patch = json!([
        {"op": "test", "path": "/metadata/generation", "value": step.generation},
        {"op": "replace", "path": format!("/spec/components/{at}"), "value": wanted},
    ]);
    let patch: json_patch::Patch =
        serde_json::from_value(patch).map_err(kube::Error::SerdeError)?;
    let name = step.app.as_deref().unwrap_or_default();
    match api.patch(name, &as_ourselves(), &Patch::Json::<()>(patch)).await {
        Ok(_) => Ok(Acted::taken()),
        Err(kube::Error::Api(status)) if status.code == 404 => {
            Ok(Acted::dropped("the App is gone"))
        }
        // The mirror is behind: the next look knows what was changed.
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(Acted::Still),
        Err(kube::Error::Api(status)) if status.code == 422 => {
            let live = api.get_opt(name).await?;
            let same = live.is_some_and(|live| live.metadata.generation == step.generation);
            match same {
                // It is the change itself that is refused.
                true => Ok(Acted::dropped(status.message.clone())),
                false => Ok(Acted::Still),
            }
        }
        Err(error) => Err(error),
    }
}

/// Nothing new goes there, and what is there leaves, as with `tombolo node drain`.
async fn quarantine(context: &Context, step: &PolicyStep) -> Result<Acted, kube::Error> {
    let name = step.node.as_deref().unwrap_or_default();
    let api: Api<Node> = Api::all(context.client.clone());
    let Some(node) = api.get_opt(name).await? else {
        return Ok(Acted::dropped("the node is gone"));
    };
    let is_drained = node.spec.taints.iter().any(|taint| taint.key == TAINT_DRAIN);
    if node.spec.unschedulable && is_drained {
        return Ok(Acted::taken());
    }
    let mut taints = json!(node.spec.taints);
    if let (Some(taints), false) = (taints.as_array_mut(), is_drained) {
        taints.push(json!({"key": TAINT_DRAIN, "value": TAINT_VALUE, "effect": "NoExecute"}));
    }
    let change = json!({
        "metadata": {"resourceVersion": node.metadata.resource_version},
        "spec": {"unschedulable": true, "taints": taints},
    });
    match api.patch(name, &as_ourselves(), &Patch::Merge(change)).await {
        Ok(_) => Ok(Acted::taken()),
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(Acted::Still),
        Err(error) => Err(error),
    }
}

/// A policy that an App carries.
pub(super) struct Carry(pub(super) Carried);

impl fmt::Display for Carry {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Carried::Create(policy) => {
                let name = policy.metadata.name.as_deref().unwrap_or_default();
                write!(out, "create policy {name}: its App carries it")
            }
            Carried::Update { name, .. } => write!(out, "update policy {name}: its App says other"),
            Carried::Delete { name, .. } => write!(out, "delete policy {name}: its App lacks it"),
        }
    }
}

pub(super) async fn carry(client: Client, Carry(action): Carry) -> Result<(), kube::Error> {
    match action {
        Carried::Create(policy) => {
            let namespace = policy.metadata.namespace.clone().unwrap_or_default();
            let api: Api<Policy> = Api::namespaced(client, &namespace);
            let params =
                PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), dry_run: false };
            match api.create(&params, &policy).await {
                // The mirror is behind.
                Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
                other => other.map(drop),
            }
        }
        Carried::Update { namespace, name, resource_version, spec } => {
            let api: Api<Policy> = Api::namespaced(client, &namespace);
            let patch = guarded(Some(resource_version), "/spec", json!(spec))?;
            let params: PatchParams = as_ourselves();
            api.patch(&name, &params, &Patch::Json::<()>(patch)).await.map(drop)
        }
        Carried::Delete { namespace, name, uid } => {
            let api: Api<Policy> = Api::namespaced(client, &namespace);
            let only = Preconditions { uid: Some(uid), resource_version: None };
            let params = DeleteParams { preconditions: Some(only), ..DeleteParams::default() };
            match api.delete(&name, &params).await {
                Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
                answer => answer.map(drop),
            }
        }
    }
}

/// A policy whose answers were heard.
pub(super) struct Cleared(pub(super) String, pub(super) String);

impl fmt::Display for Cleared {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "take the answers off policy {}: they were heard", self.1)
    }
}
