//! What can go wrong in an engine, cut by what the agent and its user can do about it. Every driver
//! returns it; the agent makes conditions and Events of it.

use std::sync::Arc;
use std::time::Duration;

use tombolo_model::Engine;
use tombolo_model::component::Protocol;

use crate::InstanceId;

pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What is behind an error. Shared, because an [`Error`] is kept in the state of an instance and
/// told more than once.
pub type Cause = Arc<dyn std::error::Error + Send + Sync>;

#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot reach the {engine} engine at {address}")]
    Unreachable {
        engine: Engine,
        address: String,
        #[source]
        source: Cause,
    },
    #[error("image {image} does not exist, neither here nor in its registry")]
    NoSuchImage { image: String },
    #[error("image {image} is not on this machine and its registry cannot be reached")]
    ImageOutOfReach {
        image: String,
        #[source]
        source: Cause,
    },
    #[error("registry does not hand out image {image} to us")]
    ImageDenied { image: String },
    #[error("{protocol} port {port} of this machine is taken{}", by(holder))]
    PortTaken { port: u16, protocol: Protocol, holder: Option<String> },
    #[error("command {command:?} was not found{}", within(looked_in))]
    CommandNotFound { command: String, looked_in: Vec<String> },
    #[error("command {command:?} may not be executed")]
    NotExecutable {
        command: String,
        #[source]
        source: Cause,
    },
    #[error("working directory {path:?} does not exist")]
    NoSuchFolder { path: String },
    #[error("user {user:?} does not exist on this machine")]
    NoSuchUser { user: String },
    #[error("not permitted to {doing}")]
    NotPermitted {
        doing: String,
        #[source]
        source: Cause,
    },
    #[error("disk is full: cannot {doing}")]
    DiskFull { doing: String },
    #[error("machine has no memory or processes left: cannot {doing}")]
    Exhausted {
        doing: String,
        #[source]
        source: Cause,
    },
    #[error("there is no {what}")]
    NoSuchEntry { what: String },
    #[error("{what}")]
    Invalid { what: String },
    #[error("the {engine} engine cannot {what}")]
    Unsupported { engine: Engine, what: String },
    #[error("there is no instance {id}")]
    NoSuchInstance { id: InstanceId },
    #[error("instance {id} is not running")]
    NotRunning { id: InstanceId },
    #[error("{doing} took longer than {after:?}")]
    TimedOut { doing: String, after: Duration },
    #[error("cannot {doing}")]
    Failed {
        doing: String,
        #[source]
        source: Cause,
    },
}

/// Errors are compared by what they say: their causes cannot be.
impl PartialEq for Error {
    fn eq(&self, other: &Error) -> bool {
        self.reason() == other.reason() && self.to_string() == other.to_string()
    }
}

impl Error {
    /// Whether the same call may succeed later without anyone changing what is asked for.
    /// Every variant is named, so that a new one must be thought about here.
    pub fn retryable(&self) -> bool {
        match self {
            Error::Unreachable { .. }
            | Error::NoSuchImage { .. } // It may be pushed, or loaded by hand.
            | Error::ImageOutOfReach { .. }
            | Error::ImageDenied { .. } // Rights may be given.
            | Error::PortTaken { .. }
            | Error::CommandNotFound { .. } // It may be installed.
            | Error::NotExecutable { .. }
            | Error::NoSuchFolder { .. }
            | Error::NoSuchUser { .. }
            | Error::NotPermitted { .. }
            | Error::DiskFull { .. }
            | Error::Exhausted { .. }
            | Error::NoSuchEntry { .. } // It may be written after the App.
            | Error::NotRunning { .. }
            | Error::TimedOut { .. }
            | Error::Failed { .. } => true,
            Error::Invalid { .. } | Error::Unsupported { .. } | Error::NoSuchInstance { .. } => false,
        }
    }

    /// Whether it is over as soon as something on the machine changes, such as a port that becomes free.
    pub fn is_of_the_machine(&self) -> bool {
        match self {
            Error::PortTaken { .. }
            | Error::CommandNotFound { .. }
            | Error::NotExecutable { .. }
            | Error::NoSuchFolder { .. }
            | Error::NoSuchUser { .. }
            | Error::NotPermitted { .. }
            | Error::DiskFull { .. }
            | Error::Exhausted { .. } => true,
            Error::Unreachable { .. }
            | Error::NoSuchImage { .. }
            | Error::ImageOutOfReach { .. }
            | Error::ImageDenied { .. }
            | Error::NoSuchEntry { .. }
            | Error::Invalid { .. }
            | Error::Unsupported { .. }
            | Error::NoSuchInstance { .. }
            | Error::NotRunning { .. }
            | Error::TimedOut { .. }
            | Error::Failed { .. } => false,
        }
    }

    /// The word for it in conditions and Events. Programs read it: it never changes.
    pub fn reason(&self) -> &'static str {
        match self {
            Error::Unreachable { .. } => "EngineUnreachable",
            Error::NoSuchImage { .. } => "NoSuchImage",
            Error::ImageOutOfReach { .. } => "ImageOutOfReach",
            Error::ImageDenied { .. } => "ImageDenied",
            Error::PortTaken { .. } => "PortTaken",
            Error::CommandNotFound { .. } => "CommandNotFound",
            Error::NotExecutable { .. } => "NotExecutable",
            Error::NoSuchFolder { .. } => "NoSuchFolder",
            Error::NoSuchUser { .. } => "NoSuchUser",
            Error::NotPermitted { .. } => "NotPermitted",
            Error::DiskFull { .. } => "DiskFull",
            Error::Exhausted { .. } => "Exhausted",
            Error::NoSuchEntry { .. } => "NoSuchEntry",
            Error::Invalid { .. } => "Invalid",
            Error::Unsupported { .. } => "Unsupported",
            Error::NoSuchInstance { .. } => "NoSuchInstance",
            Error::NotRunning { .. } => "NotRunning",
            Error::TimedOut { .. } => "TimedOut",
            Error::Failed { .. } => "Failed",
        }
    }

    /// What a person can do about it, in a sentence.
    pub fn help(&self) -> String {
        match self {
            Error::Unreachable { engine, address, .. } => format!(
                "Start the {engine} engine, or tell the agent where it is; it looked at {address}."
            ),
            Error::NoSuchImage { image } => {
                format!("Check the name and the tag of {image}, or push it to its registry.")
            }
            Error::ImageOutOfReach { image, .. } => format!(
                "It starts by itself once the registry is reached; or load {image} on this machine \
                 by hand."
            ),
            Error::ImageDenied { image } => {
                format!("Give this machine the right to pull {image}, or use a public image.")
            }
            Error::PortTaken { port, .. } => format!(
                "End what listens on port {port}, choose another port, or let the component take \
                 any free one."
            ),
            Error::CommandNotFound { command, .. } => format!(
                "Install {command:?} on this machine, write its whole path, or choose a node that \
                 has it."
            ),
            Error::NotExecutable { command, .. } => {
                format!("Make {command:?} an executable file for the user that runs it.")
            }
            Error::NoSuchFolder { path } => {
                format!("Make the folder {path:?}, or leave the working directory out.")
            }
            Error::NoSuchUser { user } => {
                format!("Add the user {user:?} to this machine, or leave it out.")
            }
            Error::NotPermitted { .. } => {
                "Run the agent as root, or leave out what needs it.".to_owned()
            }
            Error::DiskFull { .. } => {
                "Free some room; it goes on by itself as soon as there is any.".to_owned()
            }
            Error::Exhausted { .. } => {
                "Stop something on this machine, or give its components less.".to_owned()
            }
            Error::NoSuchEntry { .. } => {
                "Write the Secret or ConfigMap, in the namespace of the App.".to_owned()
            }
            Error::Invalid { .. } => "Change what the component asks for.".to_owned(),
            Error::Unsupported { .. } => {
                "Leave it out, or choose a site with another engine.".to_owned()
            }
            Error::NoSuchInstance { .. } => "It may have been removed; look again.".to_owned(),
            Error::NotRunning { .. } => "Wait until it runs, and try again.".to_owned(),
            Error::TimedOut { .. } => "The machine may be busy; it is tried again.".to_owned(),
            Error::Failed { .. } => "The cause says more; it is tried again.".to_owned(),
        }
    }

    /// An error of the file system or of a system call, as what it means to the caller.
    pub fn io(doing: impl Into<String>, source: std::io::Error) -> Error {
        let doing = doing.into();
        match source.kind() {
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
                Error::DiskFull { doing }
            }
            std::io::ErrorKind::PermissionDenied | std::io::ErrorKind::ReadOnlyFilesystem => {
                Error::NotPermitted { doing, source: Arc::new(source) }
            }
            std::io::ErrorKind::OutOfMemory | std::io::ErrorKind::WouldBlock => {
                Error::Exhausted { doing, source: Arc::new(source) }
            }
            _ => Error::Failed { doing, source: Arc::new(source) },
        }
    }
}

fn by(holder: &Option<String>) -> String {
    holder.as_ref().map(|holder| format!(" by {holder}")).unwrap_or_default()
}

fn within(looked_in: &[String]) -> String {
    if looked_in.is_empty() { String::new() } else { format!(" in {}", looked_in.join(":")) }
}
