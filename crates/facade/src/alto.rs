//! The map of the network for others: ALTO (RFC 7285, RFC 8189, RFC 8895) and the paths that CODECO's network
//! component serves beside it, all below `/alto`. The documents are made by `tombolo_alto`, the maps of Sites, Nodes
//! and Links in [`maps`].

mod maps;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::Path;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use futures::stream;
use kube::api::{Api, ListParams};
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tombolo_alto::{Address, CostType, Metric, Mode, ResourceId, Service, Stream, Wanted, media};
use tombolo_gate::Caller;

use crate::refusal::Refusal;
use maps::Land;

/// Where everything stands. Addresses in the directory are relative to it, as RFC 7285 allows.
const BASE: &str = "/alto";
const NETWORK_MAP: &str = "networkmap";
/// Streams of updates at once, of everybody together: each looks at all links every few seconds.
const STREAMS_MOST: usize = 32;
/// How often a stream looks for what has changed. Links are written no more often than once a minute when all is quiet.
const STREAM_EVERY: Duration = Duration::from_secs(5);
/// Ways between two sites that share no link.
const WAYS_MOST: usize = 8;

pub(crate) fn router() -> Router {
    let streams = Arc::new(Semaphore::new(STREAMS_MOST));
    Router::new()
        .route("/alto", get(directory))
        .route("/alto/", get(directory))
        .route("/alto/directory", get(directory))
        .route("/alto/networkmap", get(network_map))
        .route("/alto/networkmap/filtered", post(filtered_network_map))
        .route("/alto/costmap", get(routing_costs))
        .route("/alto/costmap/filtered", post(filtered_cost_map))
        .route("/alto/costmap/filter/{pid}", get(costs_from))
        .route("/alto/costmap/{name}", get(cost_map))
        .route("/alto/endpointprop", post(endpoint_properties))
        .route("/alto/endpointcost", post(endpoint_costs))
        .route("/alto/updates", post(updates).layer(Extension(streams)))
        .route("/alto/maps", get(both_maps))
        .route("/alto/best/{from}/{to}", get(best))
        .route("/alto/all/{from}/{to}", get(all))
}

/// What the caller may see of the network.
async fn land(caller: &Caller) -> Result<Land, Refusal> {
    let client = &caller.client;
    let params = ListParams::default();
    let (sites, nodes, links) = (
        Api::all(client.clone()).list(&params).await?.items,
        Api::all(client.clone()).list(&params).await?.items,
        Api::all(client.clone()).list(&params).await?.items,
    );
    Ok(Land::of(&sites, &nodes, &links))
}

async fn service(caller: &Caller) -> Result<Service, Refusal> {
    let id = ResourceId::new(NETWORK_MAP).expect("a name of letters");
    Ok(Service::new(BASE, id, land(caller).await?.maps()))
}

fn document(media: &'static str, value: &Value) -> Response {
    ([(CONTENT_TYPE, media)], value.to_string()).into_response()
}

/// A request that is wrong is told so with a code of RFC 7285.
fn answer(media: &'static str, asked: Result<Value, tombolo_alto::Refusal>) -> Response {
    match asked {
        Ok(value) => document(media, &value),
        Err(refusal) => {
            (StatusCode::BAD_REQUEST, document(media::ERROR, &refusal.document())).into_response()
        }
    }
}

/// A body of another type is none of ours (RFC 7285, 8.3.2).
fn check_type(headers: &HeaderMap, wanted: &str) -> Result<(), Refusal> {
    let given = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let given = given.split(';').next().unwrap_or_default().trim();
    match given.eq_ignore_ascii_case(wanted) {
        true => Ok(()),
        false => Err(Refusal::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            format!("a request here is of the type {wanted}"),
        )),
    }
}

async fn directory(Extension(caller): Extension<Caller>) -> Result<Response, Refusal> {
    Ok(document(media::DIRECTORY, &service(&caller).await?.directory()))
}

async fn network_map(Extension(caller): Extension<Caller>) -> Result<Response, Refusal> {
    Ok(document(media::NETWORK_MAP, &service(&caller).await?.network_map()))
}

async fn filtered_network_map(
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Refusal> {
    check_type(&headers, media::NETWORK_MAP_FILTER)?;
    Ok(answer(media::NETWORK_MAP, service(&caller).await?.filtered_network_map(&body)))
}

const ROUTING: CostType = CostType { metric: Metric::RoutingCost, mode: Mode::Numerical };

async fn routing_costs(Extension(caller): Extension<Caller>) -> Result<Response, Refusal> {
    Ok(document(media::COST_MAP, &service(&caller).await?.cost_map(ROUTING)))
}

async fn cost_map(
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
) -> Result<Response, Refusal> {
    let service = service(&caller).await?;
    let known = service.resource(&format!("costmap-{name}"));
    let known =
        known.ok_or_else(|| Refusal::not_found(format!("there is no cost map {name:?}")))?;
    Ok(document(media::COST_MAP, &known))
}

async fn filtered_cost_map(
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Refusal> {
    check_type(&headers, media::COST_MAP_FILTER)?;
    Ok(answer(media::COST_MAP, service(&caller).await?.filtered_cost_map(&body)))
}

async fn costs_from(
    Extension(caller): Extension<Caller>,
    Path(pid): Path<String>,
) -> Result<Response, Refusal> {
    let asked = json!({
        "cost-type": {"cost-mode": "numerical", "cost-metric": "routingcost"},
        "pids": {"srcs": [pid], "dsts": []},
    });
    let asked = asked.to_string();
    Ok(answer(media::COST_MAP, service(&caller).await?.filtered_cost_map(asked.as_bytes())))
}

async fn endpoint_properties(
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Refusal> {
    check_type(&headers, media::ENDPOINT_PROPERTIES_ASKED)?;
    Ok(answer(media::ENDPOINT_PROPERTIES, service(&caller).await?.endpoint_properties(&body)))
}

async fn endpoint_costs(
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Refusal> {
    check_type(&headers, media::ENDPOINT_COSTS_ASKED)?;
    let client = Address(caller.address);
    Ok(answer(media::ENDPOINT_COSTS, service(&caller).await?.endpoint_costs(&body, client)))
}

async fn both_maps(Extension(caller): Extension<Caller>) -> Result<Response, Refusal> {
    let service = service(&caller).await?;
    let both = json!({"networkmap": service.network_map(), "costmap": service.cost_map(ROUTING)});
    Ok(document("application/json", &both))
}

async fn best(
    Extension(caller): Extension<Caller>,
    Path((from, to)): Path<(String, String)>,
) -> Result<Response, Refusal> {
    let land = land(&caller).await?;
    let way = land.best(&from, &to).ok_or_else(|| no_way(&from, &to))?;
    Ok(document("application/json", &json!({from: {to: way}})))
}

async fn all(
    Extension(caller): Extension<Caller>,
    Path((from, to)): Path<(String, String)>,
) -> Result<Response, Refusal> {
    let land = land(&caller).await?;
    let ways = land.disjoint(&from, &to, WAYS_MOST);
    match ways.is_empty() {
        true => Err(no_way(&from, &to)),
        false => Ok(document("application/json", &json!({from: {to: ways}}))),
    }
}

fn no_way(from: &str, to: &str) -> Refusal {
    Refusal::not_found(format!("no way is known from {from:?} to {to:?}"))
}

/// What one client of updates is being told.
struct Told {
    caller: Caller,
    stream: Stream,
    first: Option<String>,
    /// Given back when the client goes.
    _seat: OwnedSemaphorePermit,
}

async fn updates(
    Extension(caller): Extension<Caller>,
    Extension(streams): Extension<Arc<Semaphore>>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Refusal> {
    check_type(&headers, media::UPDATES_ASKED)?;
    let service = service(&caller).await?;
    let wanted = match Wanted::read(&body, &service) {
        Ok(wanted) => wanted,
        Err(refusal) => return Ok(answer(media::UPDATES, Err(refusal))),
    };
    let seat = streams.try_acquire_owned().map_err(|_| {
        let message = format!("there are {STREAMS_MOST} streams already; ask again later");
        Refusal::new(StatusCode::SERVICE_UNAVAILABLE, message)
    })?;
    let mut stream = Stream::default();
    let events = stream.change(wanted, &service);
    let first = events.iter().map(tombolo_alto::Event::lines).collect();
    let told = Told { caller, stream, first: Some(first), _seat: seat };
    let body = Body::from_stream(stream::unfold(told, next));
    Ok(([(CONTENT_TYPE, media::UPDATES)], body).into_response())
}

/// What has changed since; ends when the caller may no longer see it, or nobody can.
async fn next(mut told: Told) -> Option<(Result<String, Infallible>, Told)> {
    if let Some(first) = told.first.take() {
        return Some((Ok(first), told));
    }
    tokio::time::sleep(STREAM_EVERY).await;
    if !(told.caller.still)().await {
        return None;
    }
    let service = service(&told.caller).await.ok()?;
    let events = told.stream.update(&service);
    let lines: String = events.iter().map(tombolo_alto::Event::lines).collect();
    // A comment, so that both sides notice a connection that is no more.
    let lines = if lines.is_empty() { ":\n\n".to_owned() } else { lines };
    Some((Ok(lines), told))
}
