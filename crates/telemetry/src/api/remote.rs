//! `write` and `read`: Prometheus' remote-write, from agents, other Prometheus servers and collectors, and
//! remote-read.

use axum::Extension;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::header::{CONTENT_ENCODING, CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use tokio::sync::oneshot;
use tombolo_series::{Budget, Span};

use super::query::querier;
use super::refusal::Refusal;
use super::{Asker, Service, Stamp};
use crate::store::{Batch, WriteError, Written};
use crate::wire::remote_write::{self, Version};
use crate::wire::{self, Series, remote_read};

/// Senders of Prometheus log the text of an answer, so that it is plain.
fn plain(code: StatusCode, problem: impl Into<String>) -> Response {
    (code, problem.into() + "\n").into_response()
}

fn header<'a>(headers: &'a HeaderMap, name: &axum::http::HeaderName) -> &'a str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

pub(super) async fn write(
    State(service): State<Service>,
    Extension(asker): Extension<Asker>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    if let Stamp::Refused(why) = &asker.stamp {
        return plain(StatusCode::FORBIDDEN, why);
    }
    let kind = header(&headers, &CONTENT_TYPE);
    let Some(version) = Version::of_content_type(kind) else {
        let problem = format!("the content type {kind:?} is not one of remote-write");
        return plain(StatusCode::UNSUPPORTED_MEDIA_TYPE, problem);
    };
    let encoding = header(&headers, &CONTENT_ENCODING);
    if !encoding.is_empty() && encoding != "snappy" {
        let problem = format!("the encoding {encoding:?} is not snappy");
        return plain(StatusCode::UNSUPPORTED_MEDIA_TYPE, problem);
    }
    match take(&service, &asker, version, body).await {
        Ok(written) => told(version, &written),
        Err(response) => *response,
    }
}

async fn take(
    service: &Service,
    asker: &Asker,
    version: Version,
    body: Bytes,
) -> Result<Written, Box<Response>> {
    let bounds = *service.bounds();
    let busy = || {
        let mut response = plain(StatusCode::SERVICE_UNAVAILABLE, WriteError::Busy.to_string());
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
        Box::new(response)
    };
    let size = remote_write::unpacked_bytes(&body, &bounds.wire).map_err(refused)?;
    let size = u32::try_from(size).unwrap_or(u32::MAX).clamp(1, bounds.write_bytes);
    // Nobody waits here with a body in memory: the sender has it too, and comes again.
    let room = service.shared.writes.try_acquire_many(size).map_err(|_| busy())?;
    let store = service.store().await.map_err(|refusal| Box::new(refusal.into_response()))?;
    let (asker, now_ms) = (asker.clone(), service.now_ms());
    let reading = move || -> Result<Batch, wire::Error> {
        let batch = remote_write::decode(version, &body, &bounds.wire)?;
        let series = batch.series.into_iter().map(|one| {
            let Series { labels, samples } = one;
            Series { labels: asker.stamp.labels(&labels), samples }
        });
        let (source, series) = (asker.name.clone(), series.collect());
        Ok(Batch { source, series, metadata: batch.metadata, now_ms })
    };
    let read = tokio::task::spawn_blocking(reading).await;
    let stumbled = || Box::new(plain(StatusCode::INTERNAL_SERVER_ERROR, "the message stumbled"));
    let batch = read.map_err(|_| stumbled())?.map_err(refused)?;
    let (sender, receiver) = oneshot::channel();
    store.write(batch, move |written| drop(sender.send(written)));
    let written = receiver.await.map_err(|_| stumbled())?;
    drop(room);
    written.map_err(|error| match error {
        WriteError::Busy => busy(),
        WriteError::Disk(_) => Box::new(plain(StatusCode::SERVICE_UNAVAILABLE, error.to_string())),
    })
}

/// What was wrong with a message is wrong for ever: a sender that hears 400 does not send it again.
fn refused(error: wire::Error) -> Box<Response> {
    let code = match &error {
        wire::Error::TooMany { what: "bytes", .. } => StatusCode::PAYLOAD_TOO_LARGE,
        wire::Error::TooMany { .. }
        | wire::Error::NotSnappy
        | wire::Error::Malformed(_)
        | wire::Error::BadLabels(_) => StatusCode::BAD_REQUEST,
    };
    Box::new(plain(code, error.to_string()))
}

/// Everything that could be taken was. Of the rest the sender hears, as from Prometheus, in a 400.
fn told(version: Version, written: &Written) -> Response {
    let mut response = match sentence(written) {
        None => StatusCode::NO_CONTENT.into_response(),
        Some(problem) => plain(StatusCode::BAD_REQUEST, problem),
    };
    if version == Version::V2 {
        let tally = &written.tally;
        let samples = tally.taken + tally.taken_late + tally.known;
        let headers = response.headers_mut();
        headers.insert("x-prometheus-remote-write-samples-written", samples.into());
        // Native histograms and exemplars are not stored.
        headers.insert("x-prometheus-remote-write-histograms-written", 0.into());
        headers.insert("x-prometheus-remote-write-exemplars-written", 0.into());
    }
    response
}

fn sentence(written: &Written) -> Option<String> {
    let tally = &written.tally;
    let refusal = written.refusal.as_ref().map(ToString::to_string).unwrap_or_default();
    let parts = [
        (written.beyond, refusal.as_str()),
        (tally.conflicts, "duplicate sample for timestamp: another value is there"),
        (tally.too_old, "out of bounds: older than what is still taken"),
        (written.ahead, "out of bounds: too far in the future"),
    ];
    let parts: Vec<String> = parts
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, why)| format!("{count} samples were not taken: {why}"))
        .collect();
    let first = written.first.as_ref().map(|labels| format!(" (the first of {labels})"));
    (!parts.is_empty()).then(|| parts.join("; ") + &first.unwrap_or_default())
}

pub(super) async fn read(
    State(service): State<Service>,
    Extension(asker): Extension<Asker>,
    body: Bytes,
) -> Result<Response, Refusal> {
    let limits = service.bounds().wire;
    let queries = remote_read::decode(&body, &limits);
    let queries = queries.map_err(|error| Refusal::bad_data(error.to_string()))?;
    let querier = querier(&service, &asker).await?;
    let turn = service.turn().await?;
    // The whole answer is in memory, sixteen bytes a sample and more: a tenth of what a query may read.
    let samples_max = service.bounds().samples_max / 10;
    let reading = tokio::task::spawn_blocking(move || {
        let _turn = turn;
        let budget = Budget::new(samples_max, u64::MAX).tolerant();
        let mut results = Vec::new();
        for query in queries {
            let span = Span::new(query.from_ms, query.to_ms);
            let mut found = Vec::new();
            let selected = querier.as_ref().map(|one| one.select(&query.matchers, span));
            for selected in selected.into_iter().flatten() {
                let mut samples = Vec::new();
                selected.read(span, &budget, &mut samples)?;
                if !samples.is_empty() {
                    found.push(Series { labels: selected.labels, samples });
                }
            }
            results.push(found);
        }
        Ok(remote_read::encode(&results))
    });
    let answer = reading.await.map_err(|_| Refusal::internal("the reading stumbled"))?;
    let answer =
        answer.map_err(|error: tombolo_series::ReadError| Refusal::bad_data(error.to_string()))?;
    let headers = [(CONTENT_TYPE, "application/x-protobuf"), (CONTENT_ENCODING, "snappy")];
    Ok((headers, answer).into_response())
}
