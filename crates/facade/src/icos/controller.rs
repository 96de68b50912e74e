//! `/api/v3/controller/`: the lighthouse as the ICOS shell knows it. A thin form of
//! `/tombolo/controllers`, asked with the rights of whoever asks here.

use axum::body::Bytes;
use axum::http::{Request, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use kube::Client;
use serde::Deserialize;
use serde_json::{Value, json};
use tombolo_gate::Caller;

use crate::refusal::Refusal;

const PATH: &str = "/tombolo/controllers";
/// Where controllers of ours listen that do not say.
const PORT_DEFAULT: u16 = 7070;

#[derive(Debug, Deserialize)]
struct Controller {
    name: String,
    address: String,
}

/// Those that have been heard within the last minute; 204 if there is none.
pub(crate) async fn list(Extension(caller): Extension<Caller>) -> Result<Response, Refusal> {
    let controllers: Vec<Value> = registered(&caller.client)
        .await?
        .iter()
        .map(|one| json!({"name": one["name"], "address": one["addresses"][0]}))
        .collect();
    match controllers.is_empty() {
        true => Ok(StatusCode::NO_CONTENT.into_response()),
        false => Ok(Json(controllers).into_response()),
    }
}

/// 201 for one that was not there, 202 for one that was and is heard again.
pub(crate) async fn register(
    Extension(caller): Extension<Caller>,
    body: Bytes,
) -> Result<StatusCode, Refusal> {
    let told: Controller = serde_json::from_slice(&body)
        .map_err(|error| invalid(format!("expected {{\"name\": …, \"address\": …}}: {error}")))?;
    let name = told.name.to_ascii_lowercase().replace('_', "-");
    let address = address(&told.address)?;
    let is_known = registered(&caller.client).await?.iter().any(|one| one["name"] == name);
    let body = json!({"name": name, "addresses": [address]}).to_string();
    let request = Request::post(PATH).header("content-type", "application/json");
    let answer = send(&caller.client, request.body(body.into_bytes())).await;
    answer.map_err(|refusal| match refusal.code() {
        // What ICOS answers where the input is not as it should be.
        StatusCode::BAD_REQUEST => refusal.with_code(StatusCode::METHOD_NOT_ALLOWED),
        _ => refusal,
    })?;
    Ok(if is_known { StatusCode::ACCEPTED } else { StatusCode::CREATED })
}

async fn registered(client: &Client) -> Result<Vec<Value>, Refusal> {
    let mut answer = send(client, Request::get(PATH).body(Vec::new())).await?;
    match answer["controllers"].take() {
        Value::Array(controllers) => Ok(controllers),
        _ => Ok(Vec::new()),
    }
}

async fn send(
    client: &Client,
    request: Result<Request<Vec<u8>>, axum::http::Error>,
) -> Result<Value, Refusal> {
    let request = request.map_err(|error| {
        tracing::error!(%error, "a request of our own cannot be built");
        Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "the server failed; see its log")
    })?;
    Ok(client.request(request).await?)
}

/// ICOS gives an address alone. Ours are dialled over TLS and nothing else.
fn address(told: &str) -> Result<String, Refusal> {
    let host = match told.split_once("://") {
        Some(("https", host)) => host,
        None => told,
        Some((scheme, _)) => {
            return Err(invalid(format!(
                "controllers are reached over https; {scheme} is not taken"
            )));
        }
    };
    let host = host.trim_end_matches('/');
    let is_bare = match host.rsplit_once(']') {
        Some((_, rest)) => rest.is_empty(),
        None => !host.contains(':'),
    };
    match is_bare && !told.contains("://") {
        true => Ok(format!("https://{host}:{PORT_DEFAULT}")),
        false => Ok(format!("https://{host}")),
    }
}

fn invalid(message: String) -> Refusal {
    Refusal::new(StatusCode::METHOD_NOT_ALLOWED, message)
}
