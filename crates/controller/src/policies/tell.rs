//! What people hear of policies: Events on the App, on the Node, or on the Policy where neither is named.

use k8s_openapi::api::core::v1::ObjectReference;

use tombolo_model::event::{self, Tone};
use tombolo_model::keys::API_VERSION;
use tombolo_model::policy::{Policy, PolicyStep, StepState};
use tombolo_model::{AppId, Reason, Shared};
use tombolo_policy::live::{Key, News, NewsKind, Told, figures};

use super::FIELD_MANAGER;
use crate::harness::Context;

/// Events of one look. The statuses say the rest.
const EVENTS_MAX: usize = 256;

pub(super) async fn told(context: &Context, told: &Told) {
    for (key, news) in told.0.iter().take(EVENTS_MAX) {
        let (tone, reason, message) = sentence(key, news);
        let target = &news.target;
        let about = about(context, key, (target.app.as_deref(), target.node.as_deref()), None);
        write(context, about, tone, reason, &message).await;
    }
}

fn sentence(key: &Key, news: &News) -> (Tone, Reason, String) {
    let policy = ("policy", key.1.clone());
    let subject = ("subject", news.target.to_string());
    let figures = ("figures", figures(Some(news.value), news.limit));
    match &news.kind {
        NewsKind::Violated => {
            let reason = Reason::PolicyViolated;
            (Tone::Warning, reason, reason.says(&[policy, subject, figures]))
        }
        NewsKind::Predicted => {
            let reason = Reason::PolicyPredicted;
            (Tone::Warning, reason, reason.says(&[policy, subject, figures]))
        }
        NewsKind::Resolved { after_ms } => {
            let reason = Reason::PolicyResolved;
            let after = ("after", (after_ms / 1000).to_string());
            (Tone::Normal, reason, reason.says(&[policy, subject, after]))
        }
        NewsKind::Suggested { id, action } => {
            let reason = Reason::PolicySuggests;
            let action = ("action", action.to_string());
            let fills = [action, subject, ("why", news.why.clone()), ("id", id.clone())];
            (Tone::Normal, reason, reason.says(&fills))
        }
        NewsKind::Helpless => {
            let reason = Reason::PolicyHelpless;
            let why = ("why", news.why.clone());
            (Tone::Warning, reason, reason.says(&[policy, subject, why]))
        }
    }
}

/// A step was carried out, or something else came first.
pub(super) async fn acted(
    context: &Context,
    key: &Key,
    policy: Option<&Shared<Policy>>,
    (step, state, message): (&PolicyStep, StepState, Option<&str>),
) {
    let uid = policy.and_then(|policy| policy.metadata.uid.clone());
    let about = about(context, key, (step.app.as_deref(), step.node.as_deref()), uid);
    let why = message.unwrap_or_default();
    let why = match state {
        StepState::Taken | StepState::Decided => why.to_owned(),
        StepState::Refused | StepState::Dropped => format!("it was dropped: {why}"),
    };
    let fills =
        [("action", step.action.to_string()), ("subject", step.subject.clone()), ("why", why)];
    let reason = Reason::PolicyActed;
    write(context, about, Tone::Normal, reason, &reason.says(&fills)).await;
}

fn about(
    context: &Context,
    (namespace, policy): &Key,
    (app, node): (Option<&str>, Option<&str>),
    uid: Option<String>,
) -> ObjectReference {
    let named =
        |kind: &str, namespace: Option<&String>, name: &str, uid: Option<String>| ObjectReference {
            api_version: Some(API_VERSION.to_owned()),
            kind: Some(kind.to_owned()),
            namespace: namespace.cloned(),
            name: Some(name.to_owned()),
            uid,
            ..ObjectReference::default()
        };
    if let Some(name) = app {
        let id = AppId::new(namespace, name);
        let apps = context.world.apps.all();
        let uid = apps.iter().find(|app| AppId::of(app) == id);
        let uid = uid.and_then(|app| app.metadata.uid.clone());
        return named("App", Some(namespace), name, uid);
    }
    match node {
        Some(node) => named("Node", None, node, None),
        None => named("Policy", Some(namespace), policy, uid),
    }
}

/// An Event that cannot be written is no reason to stop: the status says the same.
async fn write(
    context: &Context,
    about: ObjectReference,
    tone: Tone,
    reason: Reason,
    message: &str,
) {
    let news = event::News { component: FIELD_MANAGER, about, tone, reason, message };
    if let Err(error) = context.teller.tell(&context.client, &news).await {
        tracing::warn!(name = news.about.name, %error, "an event could not be written");
    }
}
