//! The connection on which one errand is answered: frames both ways, few of them held at a time.
//! Made by [`super::carry`] for the errands beside this file.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use futures::stream;
use http::Method;
use http_body::Frame as Piece;
use http_body_util::{BodyExt as _, StreamBody};
use serde::Serialize;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tombolo_model::errand::{self, Channel, Frame, Frames, Opening, Refusal};

use super::send;
use crate::connection::{Flow, Wire};

/// Frames that wait for the network. More would only hold back what is newer.
const FRAMES_AHEAD: usize = 4;
/// How often we say that we are there.
const ALIVE_EVERY: Duration = Duration::from_secs(30);
/// The server says so as often: without a word for so long, it is not there.
const SILENCE_MAX: Duration = Duration::from_secs(100);

#[derive(Debug)]
pub(super) struct Line {
    pub(super) to: Outgoing,
    pub(super) from: Incoming,
}

/// The other side is gone, and with it the reason for the errand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gone;

#[derive(Clone, Debug)]
pub(super) struct Outgoing(mpsc::Sender<Bytes>);

pub(super) struct Incoming {
    body: Flow,
    frames: Frames,
}

impl Line {
    pub(super) async fn dial(wire: &Wire, id: &str) -> io::Result<Line> {
        let (sender, receiver) = mpsc::channel(FRAMES_AHEAD);
        let pieces = stream::unfold(receiver, async |mut receiver: mpsc::Receiver<Bytes>| {
            let bytes = receiver.recv().await?;
            Some((Ok(Piece::data(bytes)), receiver))
        });
        let body: Flow = StreamBody::new(pieces).boxed_unsync();
        let path = format!("{}?id={id}", errand::PATH);
        let response = send(wire, Method::POST, &path, body).await?;
        let from = Incoming { body: response.into_body(), frames: Frames::default() };
        Ok(Line { to: Outgoing(sender), from })
    }
}

impl Outgoing {
    pub(super) async fn send(&self, channel: Channel, payload: &[u8]) -> Result<(), Gone> {
        let bytes = Frame::new(channel, payload).to_bytes();
        self.0.send(bytes.into()).await.map_err(|_| Gone)
    }

    async fn json(&self, channel: Channel, payload: &impl Serialize) -> Result<(), Gone> {
        let bytes = Frame::json(channel, payload).to_bytes();
        self.0.send(bytes.into()).await.map_err(|_| Gone)
    }

    pub(super) async fn ready(&self) -> Result<(), Gone> {
        self.json(Channel::Opening, &Opening::Ready).await
    }

    /// Says no, and why.
    pub(super) async fn refuse(&self, refusal: Refusal) {
        // Whoever has gone does not want to know.
        _ = self.json(Channel::Opening, &Opening::Refused(refusal)).await;
    }

    /// The last word: how it ended.
    pub(super) async fn ended(&self, status: Value) {
        // Whoever has gone does not want to know.
        _ = self.json(Channel::Status, &status).await;
    }

    /// Says now and then that we are there; ends when nobody is at the other end.
    pub(super) async fn keep_alive(&self) {
        loop {
            tokio::select! {
                () = self.0.closed() => return,
                () = tokio::time::sleep(ALIVE_EVERY) => (),
            }
            if self.send(Channel::Alive, &[]).await.is_err() {
                return;
            }
        }
    }
}

impl Incoming {
    /// The next frame that says something. A caller that is interrupted while it waits loses nothing.
    pub(super) async fn next(&mut self) -> Result<Frame, Gone> {
        loop {
            while let Some(frame) = self.frames.next_frame().map_err(|_| Gone)? {
                if frame.channel != Channel::Alive {
                    return Ok(frame);
                }
            }
            match timeout(SILENCE_MAX, self.body.frame()).await {
                Ok(Some(Ok(piece))) => self.frames.feed(&piece.into_data().unwrap_or_default()),
                Ok(Some(Err(_)) | None) | Err(_) => return Err(Gone),
            }
        }
    }

    /// Waits until the server has closed the connection. To hang up before would cut off the last word.
    pub(super) async fn end(mut self) {
        while self.next().await.is_ok() {}
    }
}

impl std::fmt::Debug for Incoming {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Incoming").finish_non_exhaustive()
    }
}
