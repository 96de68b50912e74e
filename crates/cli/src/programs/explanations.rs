//! `/tombolo/plan`, `/tombolo/why` and `/tombolo/what-if`: what the loops would decide and why, for those who
//! may read Apps. Called by `up`. Whose Apps are told of is asked of the table of rights, for each namespace.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Extension, Json, Router};
use kube::api::Api;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tombolo_controller::Explainer;
use tombolo_controller::explainer::{MayRead, Unexplained};
use tombolo_gate::Caller;
use tombolo_identity::Verb;
use tombolo_identity::access::{Attributes, Resource, Target, authorize};
use tombolo_model::explanation::{
    AppName, PLAN_PATH, PlanRequest, WHAT_IF_PATH, WHY_PATH, WhatIfRequest, WhyRequest,
};
use tombolo_model::{About, App, Trouble, TroubleKind, keys, validate};

/// Instances of the Apps that are brought along, all together. An answer says some hundred bytes of each, and
/// whoever may read Apps may ask.
const INSTANCES_MAX: u64 = 20_000;

fn too_many(files: &[App]) -> Option<String> {
    let components = files.iter().flat_map(|app| &app.spec.components);
    let instances: u64 = components.map(|one| u64::from(one.replicas.unwrap_or(1))).sum();
    (instances > INSTANCES_MAX).then(|| {
        format!(
            "these Apps have {instances} instances, and a server plans {INSTANCES_MAX} at most; \
             `tombolo match` plans more, without a server"
        )
    })
}

pub(super) fn routes(explainer: Explainer) -> Router {
    Router::new()
        .route(PLAN_PATH, post(plan))
        .route(WHY_PATH, post(why))
        .route(WHAT_IF_PATH, post(what_if))
        .with_state(explainer)
}

async fn plan(
    State(explainer): State<Explainer>,
    Extension(caller): Extension<Caller>,
    body: Bytes,
) -> Result<Response, Refused> {
    let request: PlanRequest = read(&body, &["files"])?;
    if let Some(message) = too_many(&request.files) {
        return Err(Refused::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message));
    }
    for name in &request.apps {
        until_seen(&explainer, &caller, name).await?;
    }
    told(explainer.plan(request, may_read(&caller)).await)
}

async fn why(
    State(explainer): State<Explainer>,
    Extension(caller): Extension<Caller>,
    body: Bytes,
) -> Result<Response, Refused> {
    let request: WhyRequest = read(&body, &[])?;
    until_seen(&explainer, &caller, &request.app).await?;
    told(explainer.why(request).await)
}

async fn what_if(
    State(explainer): State<Explainer>,
    Extension(caller): Extension<Caller>,
    body: Bytes,
) -> Result<Response, Refused> {
    let request: WhatIfRequest = read(&body, &["addSites", "addNodes", "addLinks"])?;
    told(explainer.what_if(request, may_read(&caller)).await)
}

/// Reads a question. The documents in it are held to the rules of their kinds, as if they were written.
fn read<T: DeserializeOwned>(body: &[u8], documents: &[&str]) -> Result<T, Refused> {
    let value: Value =
        serde_json::from_slice(body).map_err(|error| Refused::question(error.to_string()))?;
    let documents = documents.iter().filter_map(|key| value[*key].as_array()).flatten();
    for document in documents {
        if let Some(first) = validate::object(document).first() {
            let name = document["metadata"]["name"].as_str().unwrap_or("without a name");
            let kind = document["kind"].as_str().unwrap_or("document");
            let message = format!("{kind} {name}: {}: {}", first.field, first.message);
            return Err(Refused::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message));
        }
    }
    serde_json::from_value(value).map_err(|error| Refused::question(error.to_string()))
}

/// Reads the App with the rights of whoever asks, who is refused here in the API's own words, and waits
/// until the loops have seen it as it is.
async fn until_seen(explainer: &Explainer, caller: &Caller, name: &AppName) -> Result<(), Refused> {
    let apps: Api<App> = Api::namespaced(caller.client.clone(), &name.namespace);
    let Some(app) = apps.get_opt(&name.name).await? else {
        return Err(Refused::of(Unexplained::Trouble(Trouble::not_found(About::App(name.id())))));
    };
    explainer.until_seen(&app).await.map_err(Refused::of)
}

/// As the table of rights says of a list of Apps.
fn may_read(caller: &Caller) -> MayRead {
    let subject = caller.subject().clone();
    Arc::new(move |namespace| {
        let group = keys::GROUP;
        let apps = Resource { group, resource: "apps", namespace, ..Resource::default() };
        let attributes = Attributes { verb: Verb::List, target: Target::Resource(apps) };
        authorize(&subject, &attributes).is_ok()
    })
}

fn told(answer: Result<impl Serialize, Unexplained>) -> Result<Response, Refused> {
    Ok(Json(answer.map_err(Refused::of)?).into_response())
}

/// A `Status`, as clients of Kubernetes read it.
#[derive(Debug)]
struct Refused {
    code: StatusCode,
    reason: String,
    message: String,
    /// Of what does not exist: it tells a name that is unknown from a path that is.
    details: Value,
}

impl Refused {
    fn new(code: StatusCode, reason: &str, message: String) -> Refused {
        Refused { code, reason: reason.to_owned(), message, details: Value::Null }
    }

    fn question(why: String) -> Refused {
        Refused::new(StatusCode::BAD_REQUEST, "BadRequest", format!("the question: {why}"))
    }

    fn of(why: Unexplained) -> Refused {
        let says = why.to_string();
        match why {
            Unexplained::NotYet => {
                Refused::new(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", says)
            }
            Unexplained::TooMany => {
                Refused::new(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", says)
            }
            Unexplained::TooLong => Refused::new(StatusCode::BAD_REQUEST, "BadRequest", says),
            Unexplained::Failed => {
                Refused::new(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", says)
            }
            Unexplained::Trouble(trouble) => match trouble.kind {
                TroubleKind::NotFound => {
                    let details = json!({"group": keys::GROUP, "kind": kind(&trouble.about)});
                    let refused = Refused::new(StatusCode::NOT_FOUND, "NotFound", says);
                    Refused { details, ..refused }
                }
                TroubleKind::Unusable => {
                    Refused::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", says)
                }
            },
        }
    }
}

fn kind(about: &About) -> &'static str {
    match about {
        About::App(_) => "apps",
        About::Component(_) => "components",
        About::Link(_) => "links",
        About::Node(_) | About::NamelessNode => "nodes",
        About::Site(_) | About::NamelessSite => "sites",
        About::Continuum | About::Problem | About::Topology => "continuum",
    }
}

/// What the API said is said on; what we know of an error of our own stays in our log.
impl From<kube::Error> for Refused {
    fn from(error: kube::Error) -> Refused {
        match error {
            kube::Error::Api(status) => {
                let code = StatusCode::from_u16(status.code).unwrap_or(StatusCode::BAD_GATEWAY);
                Refused::new(code, &status.reason, status.message.clone())
            }
            other => {
                tracing::error!(error = %other, "an App could not be read to explain it");
                Refused::of(Unexplained::Failed)
            }
        }
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "reason": self.reason, "code": self.code.as_u16(),
        });
        if !self.details.is_null() {
            status["details"] = self.details;
        }
        (self.code, Json(status)).into_response()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_has_a_bound_on_its_instances() {
        let app = |replicas: u32| -> App {
            let web = json!({"name": "web", "replicas": replicas,
                "run": [{"container": {"image": "web:1"}}]});
            serde_json::from_value(json!({"apiVersion": keys::API_VERSION, "kind": "App",
                "metadata": {"name": "shop"}, "spec": {"components": [web]}}))
            .expect("an App")
        };
        assert_eq!(too_many(&[app(10_000), app(10_000)]), None);
        let told = too_many(&[app(10_000), app(10_001)]).expect("too many");
        assert!(told.contains("20001 instances"), "{told}");
    }
}
