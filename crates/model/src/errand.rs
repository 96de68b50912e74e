//! An errand: what an agent fetches from a running instance for somebody who asks the server now:
//! lines of a log, a command, a connection to a port. The server writes an [`Errand`] as one line of
//! JSON to the agent, which answers with frames; both sides of the apiserver and the agent read and
//! write them with what is here. How they travel is in `docs/adr/0004-errands.md`.
//!
//! Start with [`Errand`], then [`Frames`].

use serde::{Deserialize, Serialize};

use crate::reason::Reason;

/// Where an agent waits for errands (GET) and answers them (POST, with `id` in the query).
pub const PATH: &str = "/tombolo/errands";

/// No frame carries more: both sides hold a few of them at a time, and no more.
pub const PAYLOAD_BYTES_MAX: usize = 64 * 1024;

const HEAD_BYTES: usize = 5;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Errand {
    /// Nobody can guess it; the answer names it.
    pub id: String,
    /// The uid of the Assignment.
    pub assignment: String,
    pub what: What,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum What {
    Log(LogOptions),
    Exec(ExecOptions),
    PortForward(Port),
}

/// Which lines of a log, in the words of Kubernetes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LogOptions {
    /// Go on with new lines, over restarts and updates.
    pub follow: bool,
    /// Only the last so many.
    pub tail_lines: Option<u32>,
    /// Only those of the last so many seconds, by the clock of the node.
    pub since_seconds: Option<u32>,
    /// Only those from this time on (RFC 3339).
    pub since_time: Option<String>,
    /// Put the time before each line.
    pub timestamps: bool,
    /// Only those from before the run of now.
    pub previous: bool,
    /// Only this part of the instance.
    pub part: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ExecOptions {
    pub command: Vec<String>,
    /// With a terminal of this size at first.
    pub terminal: Option<Size>,
    /// Whether the command gets input; if not, it reads the end at once.
    pub input: bool,
    pub part: Option<String>,
}

/// Of a terminal; the names are those that Kubernetes' clients send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Size {
    #[serde(rename = "Width")]
    pub columns: u16,
    #[serde(rename = "Height")]
    pub rows: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Port {
    pub port: u16,
}

/// The first frame of an answer: it can be done, or this is why not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Opening {
    Ready,
    Refused(Refusal),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Refusal {
    /// The word of a [`Reason`]; an agent of another version may have others.
    pub reason: String,
    pub message: String,
}

impl Refusal {
    pub fn new(reason: Reason, message: impl Into<String>) -> Refusal {
        Refusal { reason: reason.into(), message: message.into() }
    }
}

/// What a frame is about. The first five are Kubernetes' own (`v5.channel.k8s.io`), so that the server
/// passes a frame of a client on as it is; the rest stay between server and agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channel {
    Input,
    Output,
    ErrorOutput,
    /// A `Status`: how it ended. The last frame of an answer that is whole.
    Status,
    /// A [`Size`].
    Resize,
    /// An [`Opening`].
    Opening,
    /// Nothing; only that the other side is there.
    Alive,
    /// The end of the channel that the payload names.
    Close,
}

impl Channel {
    const ALL: [(u8, Channel); 8] = [
        (0, Channel::Input),
        (1, Channel::Output),
        (2, Channel::ErrorOutput),
        (3, Channel::Status),
        (4, Channel::Resize),
        (16, Channel::Opening),
        (17, Channel::Alive),
        (255, Channel::Close),
    ];

    pub fn number(self) -> u8 {
        let row = Channel::ALL.iter().find(|(_, channel)| *channel == self);
        row.map_or(u8::MAX, |(number, _)| *number)
    }

    pub fn of(number: u8) -> Option<Channel> {
        Channel::ALL.iter().find(|(known, _)| *known == number).map(|(_, channel)| *channel)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    pub channel: Channel,
    pub payload: Vec<u8>,
}

impl Frame {
    pub fn new(channel: Channel, payload: impl Into<Vec<u8>>) -> Frame {
        Frame { channel, payload: payload.into() }
    }

    pub fn json(channel: Channel, payload: &impl Serialize) -> Frame {
        Frame::new(channel, serde_json::to_vec(payload).unwrap_or_default())
    }

    /// As it travels. What is longer than a frame may be goes in several.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.payload.len() + HEAD_BYTES);
        let mut write = |piece: &[u8]| {
            bytes.push(self.channel.number());
            let length = u32::try_from(piece.len()).unwrap_or(u32::MAX);
            bytes.extend_from_slice(&length.to_be_bytes());
            bytes.extend_from_slice(piece);
        };
        match self.payload.is_empty() {
            true => write(&[]),
            false => self.payload.chunks(PAYLOAD_BYTES_MAX).for_each(write),
        }
        bytes
    }
}

/// Whoever sends this does not speak our language.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    #[error("a frame of {bytes} bytes is longer than {PAYLOAD_BYTES_MAX}")]
    TooLong { bytes: usize },
    #[error("there is no channel {number}")]
    NoSuchChannel { number: u8 },
}

/// Frames out of bytes that come in pieces of any size.
#[derive(Debug, Default)]
pub struct Frames {
    pending: Vec<u8>,
    read: usize,
}

impl Frames {
    pub fn feed(&mut self, bytes: &[u8]) {
        self.pending.drain(..self.read);
        self.read = 0;
        self.pending.extend_from_slice(bytes);
    }

    /// The next whole frame; nothing if more bytes are needed.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, Malformed> {
        let rest = &self.pending[self.read..];
        let Some((head, rest)) = rest.split_first_chunk::<HEAD_BYTES>() else { return Ok(None) };
        let [number, length @ ..] = *head;
        let channel = Channel::of(number).ok_or(Malformed::NoSuchChannel { number })?;
        let bytes = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
        if bytes > PAYLOAD_BYTES_MAX {
            return Err(Malformed::TooLong { bytes });
        }
        let Some(payload) = rest.get(..bytes) else { return Ok(None) };
        let frame = Frame::new(channel, payload);
        self.read += HEAD_BYTES + bytes;
        Ok(Some(frame))
    }
}

/// How a command ended, as Kubernetes' clients read it from the status channel.
pub fn ended(code: i32) -> serde_json::Value {
    if code == 0 {
        return well();
    }
    serde_json::json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "reason": "NonZeroExitCode",
        "message": format!("command terminated with non-zero exit code: {code}"),
        "details": {"causes": [{"reason": "ExitCode", "message": code.to_string()}]},
    })
}

/// It came to its end as it should.
pub fn well() -> serde_json::Value {
    serde_json::json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"})
}

/// It broke off.
pub fn broken(reason: Reason, message: &str) -> serde_json::Value {
    serde_json::json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "reason": reason.word(), "message": message, "code": 500,
    })
}

/// The exit code in a status of [`ended`]; a sentence if there is none in it.
pub fn code(status: &serde_json::Value) -> Result<i32, String> {
    if status["status"] == "Success" {
        return Ok(0);
    }
    let causes = status["details"]["causes"].as_array().map(Vec::as_slice).unwrap_or_default();
    let cause = causes.iter().find(|cause| cause["reason"] == "ExitCode");
    let code = cause.and_then(|cause| cause["message"].as_str()?.parse().ok());
    code.ok_or_else(|| status["message"].as_str().unwrap_or("it ended, nobody says how").to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all(frames: &mut Frames) -> Vec<Frame> {
        let mut found = Vec::new();
        while let Some(frame) = frames.next_frame().unwrap() {
            found.push(frame);
        }
        found
    }

    #[test]
    fn what_is_too_long_for_a_frame_goes_in_several() {
        let long = Frame::new(Channel::Output, vec![7; PAYLOAD_BYTES_MAX + 1]);
        let mut frames = Frames::default();
        frames.feed(&long.to_bytes());
        let lengths: Vec<usize> = all(&mut frames).iter().map(|one| one.payload.len()).collect();
        assert_eq!(lengths, [PAYLOAD_BYTES_MAX, 1]);
    }

    #[test]
    fn a_frame_without_a_payload_is_a_frame() {
        let mut frames = Frames::default();
        frames.feed(&Frame::new(Channel::Alive, []).to_bytes());
        assert_eq!(all(&mut frames), [Frame::new(Channel::Alive, [])]);
    }

    #[test]
    fn who_promises_too_much_or_uses_an_unknown_channel_is_refused() {
        let mut frames = Frames::default();
        frames.feed(&[1, 0xff, 0, 0, 0]);
        assert_eq!(frames.next_frame(), Err(Malformed::TooLong { bytes: 0xff00_0000 }));
        let mut frames = Frames::default();
        frames.feed(&[9, 0, 0, 0, 0]);
        assert_eq!(frames.next_frame(), Err(Malformed::NoSuchChannel { number: 9 }));
    }

    #[test]
    fn an_exit_code_is_read_as_it_was_written() {
        for wanted in [0, 1, 3, 127, 137] {
            assert_eq!(code(&ended(wanted)), Ok(wanted));
        }
        assert_eq!(
            code(&broken(Reason::Lost, "the node is gone")),
            Err("the node is gone".to_owned())
        );
        assert!(code(&serde_json::Value::Null).is_err());
    }

    #[test]
    fn an_errand_is_one_line_and_is_read_again() {
        let options = LogOptions { tail_lines: Some(3), ..LogOptions::default() };
        let errand =
            Errand { id: "a".to_owned(), assignment: "b".to_owned(), what: What::Log(options) };
        let text = serde_json::to_string(&errand).unwrap();
        assert!(!text.contains('\n'), "{text}");
        assert_eq!(serde_json::from_str::<Errand>(&text).unwrap(), errand);
    }

    proptest! {
        #[test]
        fn frames_are_read_however_they_are_cut(
            payloads in proptest::collection::vec(
                proptest::collection::vec(any::<u8>(), 0..50), 0..10),
            cut in 1_usize..20,
        ) {
            let sent: Vec<Frame> =
                payloads.into_iter().map(|payload| Frame::new(Channel::Output, payload)).collect();
            let bytes: Vec<u8> = sent.iter().flat_map(Frame::to_bytes).collect();
            let mut frames = Frames::default();
            let mut found = Vec::new();
            for piece in bytes.chunks(cut) {
                frames.feed(piece);
                found.extend(all(&mut frames));
            }
            prop_assert_eq!(found, sent);
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut frames = Frames::default();
            frames.feed(&bytes);
            while let Ok(Some(_)) = frames.next_frame() {}
        }
    }
}
