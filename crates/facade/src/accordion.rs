//! What ACCORDION asks of a minicloud: `GET /characterization`. The shapes are in
//! [`shapes`]; this brings the Nodes that the caller may see.

mod shapes;

use axum::extract::Query;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Json, Router};
use kube::api::{Api, ListParams};
use serde::Deserialize;
use tombolo_gate::Caller;
use tombolo_identity::Role;
use tombolo_model::Node;

use crate::clock::time_of_day;
use crate::refusal::Refusal;

pub(crate) fn router() -> Router {
    Router::new()
        .route("/characterization", get(characterization))
        .route("/characterization/", get(characterization))
}

#[derive(Debug, Deserialize)]
struct Asked {
    /// `json` if left out.
    format: Option<String>,
    /// Of `json`: `devices` (the first shape, and what is given if left out) or `topics`.
    shape: Option<String>,
    /// One Node; all of them if left out.
    node: Option<String>,
}

async fn characterization(
    Extension(caller): Extension<Caller>,
    Query(asked): Query<Asked>,
) -> Result<Response, Refusal> {
    let nodes = nodes(&caller, asked.node.as_deref()).await?;
    let wrong = |field: &str, known: &str| {
        Err(Refusal::new(StatusCode::BAD_REQUEST, format!("{field} is {known}")))
    };
    match (asked.format.as_deref(), asked.shape.as_deref()) {
        (None | Some("json"), None | Some("devices")) => {
            Ok(Json(shapes::json_of_all(&nodes)).into_response())
        }
        (None | Some("json"), Some("topics")) => {
            let now = f64::from(u32::try_from(time_of_day().as_second()).unwrap_or(u32::MAX));
            Ok(Json(shapes::json_by_topic(&nodes, now, "")).into_response())
        }
        (None | Some("json"), Some(_)) => wrong("shape", "devices or topics"),
        (Some("tosca"), None) => {
            let text = shapes::tosca_of_all(&nodes);
            Ok(([(CONTENT_TYPE, "application/yaml")], text).into_response())
        }
        (Some("tosca"), Some(_)) => wrong("shape", "for json only"),
        (Some(_), _) => wrong("format", "json or tosca"),
    }
}

async fn nodes(caller: &Caller, name: Option<&str>) -> Result<Vec<Node>, Refusal> {
    let api: Api<Node> = Api::all(caller.client.clone());
    // An agent sees its own node and no other.
    let own = match &caller.subject().role {
        Role::Agent(remit) => Some(remit.name()),
        Role::Anonymous | Role::Guest | Role::User | Role::Manager | Role::Admin | Role::System => {
            None
        }
    };
    match name.or(own) {
        Some(name) => Ok(vec![api.get(name).await?]),
        None => Ok(api.list(&ListParams::default()).await?.items),
    }
}
