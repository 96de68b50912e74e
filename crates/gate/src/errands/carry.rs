//! One errand, from the question to frames that flow: finds the agent, sends the errand, waits for the
//! answer. Called by [`super::subresource`]; start at [`open`].

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::body::BodyDataStream;
use bytes::Bytes;
use futures::{Stream, StreamExt as _, stream};
use jiff::Timestamp;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};
use tombolo_identity::Remit;
use tombolo_model::errand::{Channel, Errand, Frame, Frames, Opening, Refusal, What};
use tombolo_model::{Reason, names};

use super::{Answer, Place};
use crate::caller::Still;
use crate::failure::Failure;
use crate::resources::{self, ours, timestamp};
use crate::{Gate, nodes};

/// An agent whose connection broke is back within this, if its node is well.
const LISTENER_PATIENCE: Duration = Duration::from_secs(3);
/// An agent that takes longer to dial back, or to say whether it can, is not well.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(10);
/// Both sides say every half minute that they are there: a side that has said nothing for so long is
/// gone.
pub(super) const SILENCE_MAX: Duration = Duration::from_secs(100);

/// Bad gateway: we are well, and whom we asked is not. Neither 503 nor 504, because clients of
/// Kubernetes try those again by themselves, and their user would wait half a minute for a sentence
/// that is there at once.
const UNREACHED: u16 = 502;
/// How often it is asked whether both still may: a token or a node may be revoked meanwhile, and then
/// nothing goes through 10 s later.
const ASK_EVERY: Duration = Duration::from_secs(5);

/// Whose instance, and what is wanted of it.
pub(crate) struct Wanted<'a> {
    pub(crate) client: &'a str,
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
    pub(crate) what: What,
    /// Whether the client still may have what it has.
    pub(crate) allowed: Still,
}

/// An errand that is under way. Dropping it ends it, at the agent too.
#[derive(Debug)]
pub(crate) struct Line {
    pub(super) incoming: Incoming,
    pub(super) to_agent: mpsc::Sender<Bytes>,
    pub(super) place: Place,
}

/// The frames of an agent.
pub(super) struct Incoming {
    body: BodyDataStream,
    frames: Frames,
    agent: Remit,
    /// Whether the agent still stands for what it stood for, with the key that it had at the beginning.
    stands: Still,
    allowed: Still,
    asked: Instant,
    heard: Instant,
}

/// Sends the errand and waits until the agent says that it can be done.
pub(crate) async fn open(gate: &Gate, wanted: Wanted<'_>) -> Result<Line, Failure> {
    let Wanted { client, namespace, name, what, allowed } = wanted;
    let (agent, assignment) = find(gate, namespace, name).await?;
    let full = |full: super::Full| Failure::too_many(format!("{full}; close some first"), 5);
    let place = gate.errands().enter(&agent, client).map_err(full)?;
    let stands = standing(gate, &agent).await;
    let Some(listener) = gate.errands().listener(&agent, LISTENER_PATIENCE).await else {
        return Err(not_connected(gate, &agent).await);
    };
    let id = uuid::Uuid::new_v4().to_string();
    let mut expected = gate.errands().expect(&id, &agent);
    match listener.try_send(Errand { id, assignment, what }) {
        Ok(()) => (),
        Err(mpsc::error::TrySendError::Full(_)) => {
            let message = format!("the agent of {agent} does not keep up");
            return Err(Failure::too_many(message, 1));
        }
        Err(mpsc::error::TrySendError::Closed(_)) => return Err(not_connected(gate, &agent).await),
    }
    let late = || silent(&agent);
    let answered = timeout(ANSWER_TIME_MAX, &mut expected.answer).await;
    let Answer { from_agent, to_agent } = answered.map_err(|_| late())?.map_err(|_| late())?;
    let body = from_agent.into_data_stream();
    let (frames, now) = (Frames::default(), Instant::now());
    let (asked, heard) = (now, now);
    let mut incoming =
        Incoming { body, frames, agent: agent.clone(), stands, allowed, asked, heard };
    let first = timeout(ANSWER_TIME_MAX, incoming.next()).await.map_err(|_| late())?;
    let first = first.map_err(|lost| Failure::new(UNREACHED, Reason::NodeUnreachable, lost))?;
    match (first.channel, serde_json::from_slice(&first.payload)) {
        (Channel::Opening, Ok(Opening::Ready)) => Ok(Line { incoming, to_agent, place }),
        (Channel::Opening, Ok(Opening::Refused(refusal))) => Err(refused(&refusal)),
        (_, _) => Err(Failure::new(UNREACHED, Reason::NodeUnreachable, strange(&agent))),
    }
}

/// Whether the agent that acts now still does. An agent that joins anew is another. Where the API does
/// not answer, nobody knows, and the errand ends.
async fn standing(gate: &Gate, agent: &Remit) -> Still {
    let first = key(gate, agent).await.ok().flatten();
    let (gate, agent) = (gate.clone(), agent.clone());
    Arc::new(move || {
        let (gate, agent, first) = (gate.clone(), agent.clone(), first.clone());
        Box::pin(async move {
            let now = key(&gate, &agent).await.ok().flatten();
            first.is_some() && now == first
        })
    })
}

/// The key that acts for it; nothing if nobody may.
async fn key(gate: &Gate, agent: &Remit) -> Result<Option<Option<String>>, Failure> {
    let live = gate.resources().get(&nodes::path(agent)).await?;
    let known = live.as_ref().map(nodes::known).filter(|known| !known.revoked);
    Ok(known.map(|known| known.key))
}

/// The agent that has the Assignment, and the Assignment's uid.
async fn find(gate: &Gate, namespace: &str, name: &str) -> Result<(Remit, String), Failure> {
    let missing = || {
        let message = format!("assignments.tombolo.dev {name:?} not found");
        Failure::new(404, "NotFound", message)
    };
    // What is no name is none of an Assignment.
    if names::subdomain(namespace).is_err() || names::subdomain(name).is_err() {
        return Err(missing());
    }
    let path = resources::assignment(namespace, name);
    let assignment = gate.resources().get(&path).await?.ok_or_else(missing)?;
    let node = [&assignment["spec"]["node"], &assignment["status"]["agent"]];
    let node = node.into_iter().find_map(Value::as_str).ok_or_else(|| {
        let message = format!("assignment {name:?} has not been taken by an agent yet");
        Failure::new(409, Reason::NotRunning, message)
    })?;
    let uid = assignment["metadata"]["uid"].as_str().unwrap_or_default();
    let site = assignment["spec"]["site"].as_str().unwrap_or_default();
    Ok((agent_at(gate, site, node).await?, uid.to_owned()))
}

/// The agent that stands for a node of a site: its own, or that of the whole site.
async fn agent_at(gate: &Gate, site: &str, node: &str) -> Result<Remit, Failure> {
    let live = gate.resources().get(&ours("sites", site)).await?;
    let of_site = live.is_some_and(|live| nodes::known_of_site(&live).has_agent());
    let site = site.to_owned();
    Ok(match of_site {
        true => Remit::Site { site },
        false => Remit::Node { site, node: node.to_owned() },
    })
}

async fn not_connected(gate: &Gate, agent: &Remit) -> Failure {
    let lease = gate.resources().get(&resources::lease(&agent.lease())).await;
    let lease = lease.ok().flatten();
    let renewed = lease.as_ref().and_then(|lease| lease["spec"]["renewTime"].as_str());
    let message =
        format!("the agent of {agent} is not connected; {}", last_heard(renewed, timestamp()));
    Failure::new(UNREACHED, Reason::NodeUnreachable, message)
}

/// A clause on when an agent was last heard, by its last heartbeat.
fn last_heard(renewed: Option<&str>, now: Timestamp) -> String {
    let Some(then) = renewed.and_then(|text| text.parse::<Timestamp>().ok()) else {
        return "it has never been heard".to_owned();
    };
    let seconds = now.as_second().saturating_sub(then.as_second()).max(0);
    let ago = match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    };
    format!("it was last heard {ago} ago, at {}", then.strftime("%Y-%m-%dT%H:%M:%SZ"))
}

fn silent(agent: &Remit) -> Failure {
    let message = format!(
        "the agent of {agent} did not answer within {} s; the link to it may be cut",
        ANSWER_TIME_MAX.as_secs()
    );
    Failure::new(UNREACHED, Reason::NodeSilent, message)
}

fn strange(agent: &Remit) -> String {
    format!(
        "the agent of {agent} answers in a way that is not understood: is it of another version?"
    )
}

/// Refusals of agents that are worth a code of their own.
const REFUSALS: &[(Reason, u16, &str)] = &[
    (Reason::NotRunning, 409, Reason::NotRunning.word()),
    (Reason::NoSuchInstance, 409, Reason::NotRunning.word()),
    (Reason::CommandNotFound, 422, Reason::CommandNotFound.word()),
    (Reason::NotExecutable, 422, Reason::NotExecutable.word()),
    (Reason::NoSuchPort, 422, Reason::NoSuchPort.word()),
    (Reason::ConnectionRefused, 502, Reason::ConnectionRefused.word()),
    (Reason::Invalid, 400, "BadRequest"),
    (Reason::Unsupported, 501, Reason::Unsupported.word()),
];

fn refused(refusal: &Refusal) -> Failure {
    let known = Reason::of(&refusal.reason);
    let row = REFUSALS.iter().find(|(reason, ..)| Some(*reason) == known);
    let failed = (502, Reason::AgentFailed.word());
    let (code, reason) = row.map_or(failed, |(_, code, reason)| (*code, *reason));
    Failure::new(code, reason, refusal.message.clone())
}

impl Incoming {
    /// The next frame that says something. A caller that is interrupted while it waits loses nothing.
    pub(super) async fn next(&mut self) -> Result<Frame, String> {
        loop {
            while let Some(frame) = self.frames.next_frame().map_err(|_| strange(&self.agent))? {
                if frame.channel != Channel::Alive {
                    return Ok(frame);
                }
            }
            if self.asked.elapsed() >= ASK_EVERY {
                if !(self.stands)().await {
                    return Err(format!("the agent of {} has lost its right", self.agent));
                }
                if !(self.allowed)().await {
                    return Err("you may not have this any more".to_owned());
                }
                self.asked = Instant::now();
            }
            match timeout(ASK_EVERY, self.body.next()).await {
                Ok(Some(Ok(bytes))) => {
                    self.heard = Instant::now();
                    self.frames.feed(&bytes);
                }
                Ok(Some(Err(_)) | None) => {
                    return Err(format!("the agent of {} has gone", self.agent));
                }
                // The agent says something every half minute.
                Err(_) if self.heard.elapsed() < SILENCE_MAX => (),
                Err(_) => {
                    return Err(format!("the agent of {} has fallen silent", self.agent));
                }
            }
        }
    }
}

impl Line {
    /// What the instance wrote, and an error if that is not all of it.
    pub(crate) fn output(self) -> impl Stream<Item = io::Result<Bytes>> + Send + 'static {
        stream::unfold(Some(self), async |line| {
            let mut line = line?;
            loop {
                let frame = match line.incoming.next().await {
                    Ok(frame) => frame,
                    Err(lost) => return Some((Err(io::Error::other(lost)), None)),
                };
                match frame.channel {
                    Channel::Output | Channel::ErrorOutput => {
                        return Some((Ok(Bytes::from(frame.payload)), Some(line)));
                    }
                    Channel::Status => {
                        let status: Value = serde_json::from_slice(&frame.payload).ok()?;
                        let broken = status["status"] != "Success";
                        let message = status["message"].as_str().unwrap_or_default().to_owned();
                        return broken.then(|| (Err(io::Error::other(message)), None));
                    }
                    Channel::Input
                    | Channel::Resize
                    | Channel::Opening
                    | Channel::Alive
                    | Channel::Close => (),
                }
            }
        })
    }
}

impl std::fmt::Debug for Incoming {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Incoming").field("agent", &self.agent).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_is_away_was_last_heard_at_its_last_heartbeat() {
        let now = "2026-06-01T12:00:00Z".parse().unwrap();
        let heard = |text| last_heard(Some(text), now);
        assert_eq!(
            heard("2026-06-01T11:59:15.5Z"),
            "it was last heard 45 s ago, at 2026-06-01T11:59:15Z"
        );
        assert_eq!(
            heard("2026-06-01T11:00:00Z"),
            "it was last heard 60 min ago, at 2026-06-01T11:00:00Z"
        );
        assert_eq!(
            heard("2026-06-01T12:00:09Z"),
            "it was last heard 0 s ago, at 2026-06-01T12:00:09Z"
        );
        assert_eq!(last_heard(None, now), "it has never been heard");
        assert_eq!(last_heard(Some("soon"), now), "it has never been heard");
    }

    #[test]
    fn a_refusal_that_nobody_knows_is_the_agents_failure() {
        let refusal = |reason: &str| Refusal { reason: reason.to_owned(), message: "x".to_owned() };
        let failure = refused(&refusal("NotRunning"));
        assert_eq!((failure.code, failure.reason.as_str()), (409, "NotRunning"));
        let failure = refused(&refusal("SomethingNew"));
        assert_eq!((failure.code, failure.reason.as_str()), (502, "AgentFailed"));
    }
}
