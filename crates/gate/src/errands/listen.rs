//! `/tombolo/errands`, the agents' side: GET waits for errands, a line of JSON each, and POST answers
//! one.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::{Stream, stream};
use http::Uri;
use http::header::CONTENT_TYPE;
use tokio::sync::mpsc;
use tombolo_identity::{Remit, Role, Subject};
use tombolo_model::errand::{Channel, Errand, Frame};

use super::{Answer, Seat};
use crate::Gate;
use crate::caller::{Caller, Still};
use crate::failure::Failure;

/// How often an agent that waits is told that we are there. It is what an idle agent hears of us, so
/// it must be little: some 10 bit/s. It takes us for gone after 150 s.
const WORD_EVERY: Duration = Duration::from_secs(100);
/// While an errand is under way.
const ALIVE_EVERY: Duration = Duration::from_secs(30);
/// Frames that wait for an agent that does not read.
const FRAMES_AHEAD: usize = 4;

/// An agent that waits.
struct Listening {
    still: Still,
    errands: mpsc::Receiver<Errand>,
    _seat: Seat,
    greeted: bool,
}

/// The errands of an agent as they come, for as long as it is allowed.
pub(crate) fn wait(gate: &Gate, caller: &Caller) -> Result<Response, Failure> {
    let (seat, errands) = gate.errands().listen(remit(caller.subject())?);
    let still = caller.still.clone();
    let listening = Listening { still, errands, _seat: seat, greeted: false };
    let body = Body::from_stream(lines(listening));
    Ok(([(CONTENT_TYPE, "application/x-ndjson")], body).into_response())
}

fn lines(listening: Listening) -> impl Stream<Item = Result<Bytes, Infallible>> {
    stream::unfold(listening, async |mut listening| {
        let line = match std::mem::replace(&mut listening.greeted, true) {
            false => Bytes::from_static(b"\n"),
            true => listening.next().await?,
        };
        Some((Ok(line), listening))
    })
}

impl Listening {
    /// The next line; nothing when it is over: another connection took our place, or the node was
    /// removed, revoked or found to be a copy.
    async fn next(&mut self) -> Option<Bytes> {
        let errand = match tokio::time::timeout(WORD_EVERY, self.errands.recv()).await {
            Ok(errand) => Some(errand?),
            Err(_) => None,
        };
        if !(self.still)().await {
            return None;
        }
        let mut line = match errand {
            Some(errand) => serde_json::to_vec(&errand).ok()?,
            None => Vec::new(),
        };
        line.push(b'\n');
        Some(line.into())
    }
}

/// The answer of an agent: its frames come in the body, those to it go out in the response, at the
/// same time.
pub(crate) fn answer(
    gate: &Gate,
    caller: &Caller,
    uri: &Uri,
    from_agent: Body,
) -> Result<Response, Failure> {
    let remit = remit(caller.subject())?;
    // An id is made by us and has nothing in it that would be encoded.
    let mut pairs = uri.query().unwrap_or_default().split('&');
    let id = pairs.find_map(|pair| pair.strip_prefix("id=")).unwrap_or_default();
    let (to_agent, frames) = mpsc::channel(FRAMES_AHEAD);
    let answer = Answer { from_agent, to_agent };
    let unknown = |_| {
        let message = "nobody waits for the answer to this errand, or not from this agent";
        Failure::new(404, "NotFound", message)
    };
    gate.errands().answer(id, remit, answer).map_err(unknown)?;
    let body = Body::from_stream(outgoing(frames));
    Ok(([(CONTENT_TYPE, "application/octet-stream")], body).into_response())
}

/// Ends when nobody is left to send a frame, by which the agent knows that it can stop.
fn outgoing(frames: mpsc::Receiver<Bytes>) -> impl Stream<Item = Result<Bytes, Infallible>> {
    stream::unfold(frames, async |mut frames| {
        let frame = match tokio::time::timeout(ALIVE_EVERY, frames.recv()).await {
            Ok(frame) => frame?,
            Err(_) => Frame::new(Channel::Alive, []).to_bytes().into(),
        };
        Some((Ok(frame), frames))
    })
}

fn remit(subject: &Subject) -> Result<&Remit, Failure> {
    match &subject.role {
        Role::Agent(remit) => Ok(remit),
        Role::Anonymous | Role::Guest | Role::User | Role::Manager | Role::Admin | Role::System => {
            Err(Failure::forbidden("errands are for agents"))
        }
    }
}
