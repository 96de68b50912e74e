//! A client's WebSocket and an agent's frames, made one. Nothing is kept here but the message that is
//! being passed on: a side that reads slowly slows down the other side. Called by [`super::subresource`];
//! start at [`splice`].

use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use futures::{SinkExt as _, StreamExt as _};
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_tungstenite::tungstenite::Message;
use tombolo_model::Reason;
use tombolo_model::errand::{Channel, Frame, broken};

use super::carry::{Line, SILENCE_MAX};
use super::websocket::Socket;

/// A client answers a ping by itself; a client that does not is gone.
const PING_EVERY: Duration = Duration::from_secs(30);
/// A client that has been told the end closes its side at once.
const GOODBYE_MAX: Duration = Duration::from_secs(5);

/// What a message of the client is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// The first byte says which channel, as Kubernetes has it.
    Channels,
    /// What goes through a connection; an empty message is its end in that direction.
    Raw,
}

impl Form {
    pub(super) fn protocols(self) -> &'static [&'static str] {
        match self {
            Form::Channels => &["v5.channel.k8s.io", "v4.channel.k8s.io"],
            Form::Raw => &["raw.tombolo.dev"],
        }
    }

    /// A message of the client as a frame for the agent; nothing if it means nothing.
    fn inward(self, message: &[u8]) -> Option<Frame> {
        match self {
            Form::Raw if message.is_empty() => {
                Some(Frame::new(Channel::Close, [Channel::Input.number()]))
            }
            Form::Raw => Some(Frame::new(Channel::Input, message)),
            Form::Channels => {
                let (number, payload) = message.split_first()?;
                let channel = Channel::of(*number)?;
                let theirs = matches!(channel, Channel::Input | Channel::Resize | Channel::Close);
                // Clients open a channel with an empty message.
                let says = !payload.is_empty();
                (theirs && says).then(|| Frame::new(channel, payload))
            }
        }
    }

    /// A frame of the agent as a message for the client.
    fn outward(self, frame: &Frame) -> Option<Vec<u8>> {
        match (self, frame.channel) {
            (Form::Raw, Channel::Output) => Some(frame.payload.clone()),
            (Form::Raw, Channel::Close) => Some(Vec::new()),
            (Form::Raw, _) => None,
            (Form::Channels, Channel::Output | Channel::ErrorOutput | Channel::Status) => {
                let mut message = vec![frame.channel.number()];
                message.extend_from_slice(&frame.payload);
                Some(message)
            }
            (Form::Channels, _) => None,
        }
    }
}

/// Passes on until one of the two ends; then both do.
pub(super) async fn splice(socket: Socket, line: Line, form: Form) {
    let (mut to_client, mut from_client) = socket.split();
    let Line { mut incoming, to_agent, place } = line;
    let up = async {
        while let Ok(Some(Ok(message))) = timeout(SILENCE_MAX, from_client.next()).await {
            let frame = match &message {
                Message::Binary(bytes) => form.inward(bytes),
                Message::Text(text) => form.inward(text.as_bytes()),
                Message::Close(_) => break,
                Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => None,
            };
            let Some(frame) = frame else { continue };
            // An agent whose command has ended takes no more input, and what it said last may still be on
            // its way to the client. So this goes on reading.
            _ = to_agent.send(Bytes::from(frame.to_bytes())).await;
        }
    };
    let down = async {
        let mut pings = interval(PING_EVERY);
        pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let (message, last) = tokio::select! {
                frame = incoming.next() => {
                    let frame = frame.unwrap_or_else(|lost| {
                        Frame::json(Channel::Status, &broken(Reason::NodeUnreachable, &lost))
                    });
                    let last = frame.channel == Channel::Status;
                    (form.outward(&frame).map(|bytes| Message::Binary(bytes.into())), last)
                }
                _ = pings.tick() => (Some(Message::Ping(Bytes::new())), false),
            };
            let sent = match message {
                Some(message) => to_client.send(message).await.is_ok(),
                None => true,
            };
            if last || !sent {
                break;
            }
        }
        // A client that has gone is not told.
        _ = to_client.close().await;
    };
    let mut up = pin!(up);
    tokio::select! {
        () = &mut up => (),
        // Closing with something unread would take back what the client has not seen yet.
        () = down => {
            _ = timeout(GOODBYE_MAX, up).await;
        }
    }
    drop(place);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_writes_input_and_sizes_and_nothing_else() {
        let inward = |message: &[u8]| {
            Form::Channels.inward(message).map(|frame| (frame.channel, frame.payload))
        };
        assert_eq!(inward(b"\x00ls"), Some((Channel::Input, b"ls".to_vec())));
        assert_eq!(inward(b"\x04{}"), Some((Channel::Resize, b"{}".to_vec())));
        assert_eq!(inward(b"\xff\x00"), Some((Channel::Close, vec![0])));
        for nothing in [&b""[..], b"\x00", b"\x01x", b"\x03x", b"\x10x", b"\x63x"] {
            assert_eq!(inward(nothing), None, "{nothing:?}");
        }
    }

    #[test]
    fn a_raw_connection_ends_in_one_direction_by_an_empty_message() {
        let frame = Form::Raw.inward(b"").unwrap();
        assert_eq!((frame.channel, frame.payload), (Channel::Close, vec![0]));
        let close = Frame::new(Channel::Close, [1]);
        assert_eq!(Form::Raw.outward(&close), Some(Vec::new()));
        let data = Frame::new(Channel::Output, *b"abc");
        assert_eq!(Form::Raw.outward(&data), Some(b"abc".to_vec()));
    }

    #[test]
    fn what_is_between_server_and_agent_stays_there() {
        for channel in [Channel::Opening, Channel::Alive, Channel::Input, Channel::Resize] {
            for form in [Form::Channels, Form::Raw] {
                assert_eq!(form.outward(&Frame::new(channel, [1])), None, "{channel:?}");
            }
        }
        let status = Frame::new(Channel::Status, *b"{}");
        assert_eq!(Form::Channels.outward(&status), Some(b"\x03{}".to_vec()));
    }
}
