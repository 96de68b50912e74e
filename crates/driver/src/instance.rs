//! What a driver says of the instances in its engine. Read by the agent's plan and by the status
//! that the agent writes; start with [`Instance`].

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use tombolo_model::Reason;
use tombolo_model::component::{Protocol, Reach};

use crate::{Error, Origin};

/// The longest uid: Kubernetes' own have 36 characters, a foreign one may be longer.
const UID_CHARS_MAX: usize = 63;

/// One instance, by the Assignment that wants it and by what of it. Two revisions of one Assignment
/// are two instances and may run side by side while one replaces the other.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct InstanceId {
    assignment: String,
    revision: u64,
}

impl InstanceId {
    /// `assignment` is the uid of the Assignment; `revision` any number that changes when what is to
    /// run changes, and not otherwise: a digest of it, or the generation. Only letters, digits and
    /// `-` make a uid, because engines use it in names of files and containers.
    pub fn new(assignment: &str, revision: u64) -> Result<InstanceId, Error> {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        let length_fits = (1..=UID_CHARS_MAX).contains(&assignment.len());
        if !length_fits || assignment.starts_with('-') || !assignment.bytes().all(fits) {
            return Err(Error::Invalid {
                what: format!("{assignment:?} is not the uid of an Assignment"),
            });
        }
        Ok(InstanceId { assignment: assignment.to_owned(), revision })
    }

    pub fn assignment(&self) -> &str {
        &self.assignment
    }

    pub fn revision(&self) -> u64 {
        self.revision
    }
}

/// `UID.REVISION`, which [`InstanceId::from_str`] reads again; the revision in hexadecimal. It does
/// as the name of a file, of a container and of a cgroup.
impl fmt::Display for InstanceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:x}", self.assignment, self.revision)
    }
}

impl FromStr for InstanceId {
    type Err = Error;

    fn from_str(text: &str) -> Result<InstanceId, Error> {
        let parts = text.rsplit_once('.').and_then(|(assignment, revision)| {
            Some((assignment, u64::from_str_radix(revision, 16).ok()?))
        });
        let id = parts.map(|(assignment, revision)| InstanceId::new(assignment, revision));
        match id {
            // Only the way in which we write it: `a.01` and `a.1` must not be one instance.
            Some(Ok(id)) if id.to_string() == text => Ok(id),
            Some(_) | None => Err(Error::Invalid { what: format!("{text:?} is no instance's id") }),
        }
    }
}

impl TryFrom<String> for InstanceId {
    type Error = Error;

    fn try_from(text: String) -> Result<InstanceId, Error> {
        text.parse()
    }
}

impl From<InstanceId> for String {
    fn from(id: InstanceId) -> String {
        id.to_string()
    }
}

/// One instance as it is in the engine.
#[derive(Clone, Debug, PartialEq)]
pub struct Instance {
    pub id: InstanceId,
    /// Who wanted it, as the engine has it written down.
    pub origin: Origin,
    pub state: State,
    /// How often it was started again after it had ended.
    pub restarts: u32,
    /// How it ended before it was started again.
    pub last_exit: Option<Exit>,
    /// What could not be had and did not keep it from running, a sentence each.
    pub notes: Vec<String>,
    /// What it consists of, if that is more than one thing: the services of a compose project.
    pub parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum State {
    /// On its way. `doing` is a clause for people: `pulling example/web:1, 40 %`.
    Starting {
        doing: String,
    },
    Running(Running),
    /// Asked to end, and not yet gone.
    Stopping(Running),
    Exited(Exit),
    /// It could not be started, and this is why.
    Failed(Error),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Running {
    /// The engine's own name for it: a process number, a container's id.
    pub name: String,
    /// The main process, where the engine tells it.
    pub pid: Option<u32>,
    pub since: SystemTime,
    /// Addresses of its own; none if it shares the node's.
    pub addresses: Vec<String>,
    pub ports: Vec<PublishedPort>,
}

/// A port that an instance listens on, and the port of the node that leads there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PublishedPort {
    pub port: u16,
    pub protocol: Protocol,
    /// `None` if it is reached at the instance's own address only.
    pub published: Option<u16>,
    /// The address of the node on which that port is open; `None` if it is open on all.
    #[serde(default)]
    pub on: Option<IpAddr>,
}

impl PublishedPort {
    pub fn reach(&self) -> Reach {
        match (self.published, self.on) {
            (None, _) => Reach::Loopback,
            (Some(_), None) => Reach::Public,
            (Some(_), Some(on)) if on.is_loopback() => Reach::Loopback,
            (Some(_), Some(_)) => Reach::Node,
        }
    }
}

/// How an instance ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Exit {
    /// `None` if a signal ended it, or if nobody was there to see it.
    pub code: Option<i32>,
    pub signal: Option<i32>,
    pub at: SystemTime,
    /// A reason that [is an end](Reason::is_an_end).
    #[serde(deserialize_with = "known_or_lost")]
    pub reason: Reason,
    /// A sentence for people, when there is more to say than code and signal do.
    pub message: Option<String>,
    /// The last lines that it wrote.
    pub log: Vec<String>,
}

/// An agent that was set back to an older release may find the word of a newer agent.
fn known_or_lost<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Reason, D::Error> {
    let word = String::deserialize(from)?;
    Ok(Reason::of(&word).unwrap_or(Reason::Lost))
}

/// One of several things that an instance consists of.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    pub name: String,
    pub state: State,
}

/// What an instance uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Processor time since it was started; the caller makes a rate of it.
    pub cpu_micros: u64,
    pub memory_bytes: u64,
    pub processes: u32,
    /// `None` where the engine does not count it by instance.
    pub received_bytes: Option<u64>,
    pub sent_bytes: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_read_as_it_was_written() {
        let id = InstanceId::new("7b0c7a9e-41f5-4d1c-9c5e-0d7f3c5be9a1", 0xfeed).unwrap();
        assert_eq!(id.to_string(), "7b0c7a9e-41f5-4d1c-9c5e-0d7f3c5be9a1.feed");
        assert_eq!(id.to_string().parse::<InstanceId>().unwrap(), id);
    }

    #[test]
    fn what_could_leave_its_folder_is_no_id() {
        for text in ["", ".1", "a", "a.", "a.01", "a.G", "../a.1", "a/b.1", "-a.1", "a.b.1", "a.+1"]
        {
            let error = text.parse::<InstanceId>().unwrap_err();
            assert_eq!(error.reason(), "Invalid", "{text}");
        }
        assert!(InstanceId::new(&"a".repeat(64), 1).is_err());
    }
}
