//! `/jobmanager/groups`: groups of jobs, which are Apps. What the shell calls a deployment is the
//! same, so that all of it is done by [`super::deployment`]. Start at [`router`].

use axum::body::Bytes;
use axum::http::StatusCode;
use axum::routing::{get, put};
use axum::{Extension, Json, Router};
use kube::ResourceExt as _;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};
use tombolo_gate::Caller;
use tombolo_model::App;

use super::deployment;
use super::index::Index;
use super::job;
use crate::refusal::Refusal;

type Answer = Result<Json<Value>, Refusal>;

pub(super) fn router() -> Router {
    let all = || get(deployment::list).post(create).put(describe);
    let one = || get(deployment::show).delete(deployment::delete);
    Router::new()
        .route("/jobmanager/groups", all())
        .route("/jobmanager/groups/", all())
        .route("/jobmanager/groups/{id}", one())
        .route("/jobmanager/groups/{id}/", one())
        .route("/jobmanager/groups/start/{id}", put(deployment::start))
        .route("/jobmanager/groups/stop/{id}", put(deployment::stop))
        .route("/jobmanager/groups/undeploy/{id}", put(deployment::delete))
}

/// The body is a descriptor of any format.
async fn create(
    Extension(caller): Extension<Caller>,
    body: Bytes,
) -> Result<(StatusCode, Json<Value>), Refusal> {
    let unreadable = StatusCode::UNPROCESSABLE_ENTITY;
    let reading = deployment::read(&body).map_err(|refusal| refusal.with_code(unreadable))?;
    deployment::bring(&caller, reading).await
}

/// The description is all that a group has to change: its jobs are decided by its descriptor.
async fn describe(
    Extension(caller): Extension<Caller>,
    Extension(index): Extension<Index>,
    body: Bytes,
) -> Answer {
    let wrong = |why: String| Refusal::new(StatusCode::BAD_REQUEST, why);
    let body: Value = serde_json::from_slice(&body)
        .map_err(|error| wrong(format!("the body is not JSON: {error}")))?;
    let id = body["id"].as_str().or(body["ID"].as_str());
    let id = id.ok_or_else(|| wrong("JobGroup UUID is required".to_owned()))?;
    let app = deployment::find(&caller.client, &index, id).await?;
    let name = body["appName"].as_str();
    if name.is_some_and(|name| name != app.name_any()) {
        let message = format!("the group is called {:?}, and cannot be renamed", app.name_any());
        return Err(Refusal::new(StatusCode::CONFLICT, message));
    }
    let Some(description) = body["appDescription"].as_str() else {
        return Err(wrong("appDescription is what can be changed, and it is missing".to_owned()));
    };
    let api: Api<App> = Api::namespaced(caller.client.clone(), &deployment::namespace(&app));
    let patch = Patch::Merge(json!({"spec": {"description": description}}));
    let app = api.patch(&app.name_any(), &PatchParams::default(), &patch).await?;
    Ok(Json(job::group(&app, &deployment::own(&caller.client, &index, &app).await?)))
}
