//! Takes the oldest message of the outbox and sends it, for ever: [`send_on`]. One message at a time, with a
//! rest after each, so that heartbeats and errands on the same connection always get through.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::{HeaderMap, StatusCode};
use tombolo_model::phrase::with_causes;
use tombolo_telemetry::wire::remote_write::Version;

use super::Desk;
use super::outbox::{Message, Outbox};
use crate::connection::Connection;

const PATH: &str = "/prometheus/api/v1/write";
/// What 8 KiB take on a link that is still of use.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// How many samples of a message were written.
const WRITTEN: &str = "x-prometheus-remote-write-samples-written";

/// What became of the messages so far.
#[derive(Debug, Default)]
pub(super) struct Told {
    sent_bytes: AtomicU64,
    failures: AtomicU64,
    refused: AtomicU64,
}

impl Told {
    pub(super) fn sent_bytes(&self) -> u64 {
        self.sent_bytes.load(Ordering::Relaxed)
    }

    pub(super) fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    pub(super) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }
}

/// What the server made of a message.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Taken,
    /// So many of its samples will never be taken; the others are.
    Refused(u64),
    /// Not now.
    Later(String),
}

/// From 0 to 1.
pub(super) fn chance() -> f64 {
    f64::from(getrandom::u32().unwrap_or(u32::MAX)) / f64::from(u32::MAX)
}

pub(super) async fn send_on(desk: &Desk, outbox: &Outbox, told: &Told) {
    let (clock, pace) = (desk.clock, desk.settings.pace);
    let mut failures = 0_u32;
    loop {
        let (number, message) = outbox.next().await;
        let bytes = message.body.len() as u64;
        let began = clock.now();
        let outcome = send(&desk.connection, &message).await;
        let took = clock.now().since(began);
        let rest = match outcome {
            Outcome::Taken => pace.rest(bytes, took),
            Outcome::Refused(samples) => {
                told.refused.fetch_add(samples, Ordering::Relaxed);
                pace.rest(bytes, took)
            }
            Outcome::Later(why) => {
                if failures == 0 {
                    tracing::info!(why, "metrics wait until the server takes them");
                }
                failures = failures.saturating_add(1);
                told.failures.fetch_add(1, Ordering::Relaxed);
                outbox.not_taken().await;
                tokio::time::sleep(pace.retry(failures, chance())).await;
                continue;
            }
        };
        failures = 0;
        told.sent_bytes.fetch_add(bytes, Ordering::Relaxed);
        outbox.done(number).await;
        tokio::time::sleep(rest).await;
    }
}

async fn send(connection: &Connection, message: &Message) -> Outcome {
    let body = message.body.to_vec();
    let request = http::Request::post(PATH)
        .header(CONTENT_TYPE, Version::CONTENT_TYPE_V2)
        .header(CONTENT_ENCODING, "snappy")
        .header("x-prometheus-remote-write-version", Version::V2.header())
        .body(kube::client::Body::from(body))
        .expect("these headers are right");
    let asked = connection.ask(async |client| client.send(request).await);
    match tokio::time::timeout(ANSWER_TIMEOUT, asked).await {
        Ok(Some(Ok(answer))) => outcome(answer.status(), answer.headers(), message.samples),
        Ok(Some(Err(error))) => Outcome::Later(with_causes(&error)),
        Ok(None) => Outcome::Later("the connection was replaced".to_owned()),
        Err(late) => Outcome::Later(late.to_string()),
    }
}

fn outcome(status: StatusCode, headers: &HeaderMap, samples: u64) -> Outcome {
    if status.is_success() {
        return Outcome::Taken;
    }
    let written = headers.get(WRITTEN).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    match status {
        // What was right of it was taken. The same message will never be taken whole.
        StatusCode::BAD_REQUEST => Outcome::Refused(samples.saturating_sub(written.unwrap_or(0))),
        StatusCode::PAYLOAD_TOO_LARGE | StatusCode::UNSUPPORTED_MEDIA_TYPE => {
            Outcome::Refused(samples)
        }
        // Also 401, 403 and 404: a server that is being restored, or is of another version, may
        // take it in an hour.
        _ => Outcome::Later(format!("the server answers {status}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_will_never_be_taken_is_given_up() {
        let none = HeaderMap::new();
        assert_eq!(outcome(StatusCode::NO_CONTENT, &none, 9), Outcome::Taken);
        let some = HeaderMap::from_iter([(http::HeaderName::from_static(WRITTEN), 7.into())]);
        assert_eq!(outcome(StatusCode::BAD_REQUEST, &some, 9), Outcome::Refused(2));
        assert_eq!(outcome(StatusCode::BAD_REQUEST, &none, 9), Outcome::Refused(9));
        assert_eq!(outcome(StatusCode::PAYLOAD_TOO_LARGE, &none, 9), Outcome::Refused(9));
        for code in [401, 403, 404, 429, 500, 503] {
            let later = outcome(StatusCode::from_u16(code).unwrap(), &none, 9);
            assert!(matches!(later, Outcome::Later(_)), "{code}");
        }
    }
}
