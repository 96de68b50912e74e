//! The way of a request through the door. Requests inside the process do not come here: whoever sent
//! them has been admitted. Start at [`Api::admitting`].

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use bytes::{Bytes, BytesMut};
use futures::future::poll_immediate;
use http::Method;
use http::request::Parts;
use http_body::Body as _;
use http_body_util::BodyExt as _;
use tokio::time::{sleep_until, timeout};
use tombolo_identity::{Role, Subject};

use super::flow::{self, Arrival, Flow, Level, Work};
use super::ledger::Account;
use super::metered::{held, meter};
use super::{Asking, Charge, Connection, Good, Payer, Place, Traffic, Wanted, too_many};
use crate::authenticate::{self, Authenticated};
use crate::request::{Path, Query, modern, parse_path};
use crate::server::{Api, body_too_large, body_too_slow};
use crate::status::Failure;

impl Api {
    /// The whole router behind the door: for [`crate::serve`], and for nobody inside the process.
    pub fn admitting(&self, router: Router) -> Router {
        router.layer(from_fn_with_state(self.clone(), admit))
    }

    /// For [`crate::serve`], which counts connections there.
    pub fn traffic(&self) -> Arc<Traffic> {
        self.traffic.clone()
    }
}

async fn admit(State(api): State<Api>, request: Request, next: Next) -> Response {
    let Some(connection) = request.extensions().get::<Connection>().cloned() else {
        return next.run(request).await;
    };
    let (mut parts, body) = request.into_parts();
    // A watch is counted as one however it is asked for.
    parts.uri = modern(&parts.uri).unwrap_or(parts.uri);
    let subject = authenticate::subject(&api, &parts);
    let is_known = subject.as_ref().is_ok_and(|subject| subject.role != Role::Anonymous);
    let request = Request::from_parts(parts, body);
    if is_known {
        return answered(&api, &connection, subject, request, next).await;
    }
    let flow = Flow::of(&Subject::anonymous(), connection.0.address);
    let Some(asking) = Asking::begin(&connection, &flow) else {
        connection.end();
        return too_many("requests").into_response();
    };
    held(answered(&api, &connection, subject, request, next).await, asking)
}

async fn answered(
    api: &Api,
    connection: &Connection,
    subject: Result<Subject, Failure>,
    request: Request,
    next: Next,
) -> Response {
    let subject = match subject {
        Ok(subject) => subject,
        Err(failure) => return failure.into_response(),
    };
    let flow = Flow::of(&subject, connection.0.address);
    match pass(api, connection, subject, &flow, request, next).await {
        Ok(response) => response,
        Err(failure) => {
            if failure.code == 429 {
                // Who does not keep to Retry-After would otherwise be refused as fast as it can ask,
                // and each refusal costs something.
                sleep_until(api.traffic.refusal_at(&flow)).await;
            }
            failure.into_response()
        }
    }
}

async fn pass(
    api: &Api,
    connection: &Connection,
    subject: Subject,
    flow: &Flow,
    request: Request,
    next: Next,
) -> Result<Response, Failure> {
    let (mut parts, body) = request.into_parts();
    let path = parse_path(parts.uri.path());
    if subject.role != Role::Anonymous {
        connection.vouch(flow)?;
    }
    let level = flow::level(&subject, &path);
    let account = Account { flow: flow.clone(), connection: connection.0.id };
    let payer = Payer { traffic: api.traffic.clone(), account };
    let reading = reading(&parts, &path);
    let watch = match reading {
        Reading::Watch => Some(payer.take(Good::Watches, 1)?),
        Reading::WholeList | Reading::Other => None,
    };
    let expected = match (&reading, &path) {
        (Reading::Watch | Reading::WholeList, Path::Resource(target)) => {
            api.traffic.expected_bytes(&flow::collection(target))
        }
        _ => 0,
    };
    parts.extensions.insert(Authenticated(subject));
    parts.extensions.insert(payer.clone());
    let response = match (level, flow::arrival(&path)) {
        (Level::Exempt, _) => next.run(Request::from_parts(parts, body)).await,
        (_, Arrival::Flowing) => {
            let _place = payer.take(Good::Bodies, 1)?;
            next.run(Request::from_parts(parts, body)).await
        }
        (level, Arrival::Whole) => {
            let (body, _held) = arrive(&payer, body).await?;
            let work = match flow::is_metrics_query(parts.uri.path()) {
                true => Work::Searching,
                false => flow::work(&parts.method, &path),
            };
            let width = match (work, flow::is_facade(parts.uri.path())) {
                // Each client has one of these at a time, however large its question is.
                (Work::Searching, _) => 1,
                (_, true) => api.traffic.limits().facade,
                (_, false) => flow::width(body.len(), expected),
            };
            let place =
                Place::take(&api.traffic, Wanted { level, work, flow: flow.clone(), width })
                    .await?;
            parts.extensions.insert(place.clone());
            let response = next.run(Request::from_parts(parts, Body::from(body))).await;
            // What goes on now, such as a watch, is the client's time and not ours.
            place.end();
            response
        }
    };
    meter(response, &payer, watch)
}

/// What of a collection a request reads.
enum Reading {
    Watch,
    WholeList,
    /// A page of a list, which is small, or anything else.
    Other,
}

fn reading(parts: &Parts, path: &Path) -> Reading {
    let is_collection = matches!(path, Path::Resource(target) if target.name.is_none());
    if parts.method != Method::GET || !matches!(path, Path::Resource(_)) {
        return Reading::Other;
    }
    // What cannot be read is refused by the handler.
    let query =
        Query::parse(&parts.method, parts.uri.query().unwrap_or_default()).unwrap_or_default();
    match (query.watch, query.limit) {
        (true, _) => Reading::Watch,
        (false, None) if is_collection => Reading::WholeList,
        (false, _) => Reading::Other,
    }
}

/// The whole body. While it comes, it is counted, and its request holds no seat.
async fn arrive(payer: &Payer, body: Body) -> Result<(Bytes, Option<Charge>), Failure> {
    if body.is_end_stream() {
        return Ok((Bytes::new(), None));
    }
    let mut collecting = Box::pin(collect(payer, body));
    // Most bodies come together with their head.
    if let Some(collected) = poll_immediate(&mut collecting).await {
        return collected;
    }
    let _place = payer.take(Good::Bodies, 1)?;
    timeout(payer.traffic.limits().body, collecting).await.unwrap_or_else(|_| Err(body_too_slow()))
}

async fn collect(payer: &Payer, mut body: Body) -> Result<(Bytes, Option<Charge>), Failure> {
    let bytes_max = payer.traffic.limits().body_bytes_each;
    let mut charge: Option<Charge> = None;
    let mut first = Bytes::new();
    let mut rest = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else { return Err(body_too_large(bytes_max)) };
        let Ok(data) = frame.into_data() else { continue };
        if first.len() + rest.len() + data.len() > bytes_max {
            return Err(body_too_large(bytes_max));
        }
        match &mut charge {
            Some(charge) => charge.grow(data.len())?,
            None => charge = Some(payer.take(Good::BodyBytes, data.len())?),
        }
        if first.is_empty() {
            first = data;
        } else {
            rest.extend_from_slice(&data);
        }
    }
    if rest.is_empty() {
        return Ok((first, charge));
    }
    let mut whole = BytesMut::with_capacity(first.len() + rest.len());
    whole.extend_from_slice(&first);
    whole.extend_from_slice(&rest);
    Ok((whole.freeze(), charge))
}
