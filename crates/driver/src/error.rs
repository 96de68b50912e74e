//! What can go wrong in an engine, cut by what the agent and its user can do about it. Every driver
//! returns it; the agent makes conditions and Events of it. Each error has a row in the table of
//! reasons, which has its word, its sentence and what helps.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tombolo_model::component::Protocol;
use tombolo_model::{Engine, Privilege, Reason};

use crate::InstanceId;

pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What is behind an error. Shared, because an [`Error`] is kept in the state of an instance and
/// told more than once.
pub type Cause = Arc<dyn std::error::Error + Send + Sync>;

#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    Unreachable {
        engine: Engine,
        address: String,
        #[source]
        source: Cause,
    },
    NoSuchImage {
        image: String,
    },
    ImageOutOfReach {
        image: String,
        #[source]
        source: Cause,
    },
    ImageDenied {
        image: String,
    },
    PortTaken {
        port: u16,
        protocol: Protocol,
        holder: Option<String>,
    },
    CommandNotFound {
        command: String,
        looked_in: Vec<String>,
    },
    /// The same inside a container: nothing of the machine helps.
    CommandNotInImage {
        command: String,
    },
    NotExecutable {
        command: String,
        #[source]
        source: Cause,
    },
    NoSuchFolder {
        path: String,
    },
    NoSuchUser {
        user: String,
    },
    NotPermitted {
        doing: String,
        #[source]
        source: Cause,
    },
    NotAllowed {
        privilege: Privilege,
    },
    CannotConfine {
        why: String,
    },
    DiskFull {
        doing: String,
    },
    Exhausted {
        doing: String,
        #[source]
        source: Cause,
    },
    NoSuchEntry {
        what: String,
    },
    Invalid {
        what: String,
    },
    Unsupported {
        engine: Engine,
        what: String,
    },
    NoSuchInstance {
        id: InstanceId,
    },
    NotRunning {
        id: InstanceId,
    },
    NoSuchPort {
        port: u16,
        /// The ports that it has.
        has: Vec<u16>,
    },
    /// It runs, and nothing listens on the port.
    Refused {
        port: u16,
        why: String,
    },
    TimedOut {
        doing: String,
        after: Duration,
    },
    Failed {
        doing: String,
        #[source]
        source: Cause,
    },
}

/// The sentence of its row.
impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.reason().says(&self.blanks()))
    }
}

/// Errors are compared by what they say: their causes cannot be.
impl PartialEq for Error {
    fn eq(&self, other: &Error) -> bool {
        self.reason() == other.reason() && self.to_string() == other.to_string()
    }
}

impl Error {
    /// Whether the same call may succeed later without anyone changing what is asked for. Every variant
    /// is named, so that a new variant must be thought about here.
    pub fn retryable(&self) -> bool {
        match self {
            Error::Unreachable { .. }
            | Error::NoSuchImage { .. } // It may be pushed, or loaded by hand.
            | Error::ImageOutOfReach { .. }
            | Error::ImageDenied { .. } // Rights may be given.
            | Error::PortTaken { .. }
            | Error::CommandNotFound { .. } // It may be installed.
            | Error::CommandNotInImage { .. } // The tag may come to name another image.
            | Error::NotExecutable { .. }
            | Error::NoSuchFolder { .. }
            | Error::NoSuchUser { .. }
            | Error::NotPermitted { .. }
            | Error::NotAllowed { .. } // The site may allow it later.
            | Error::CannotConfine { .. }
            | Error::DiskFull { .. }
            | Error::Exhausted { .. }
            | Error::NoSuchEntry { .. } // It may be written after the App.
            | Error::NotRunning { .. }
            | Error::Refused { .. } // It may not listen yet.
            | Error::TimedOut { .. }
            | Error::Failed { .. } => true,
            Error::Invalid { .. }
            | Error::Unsupported { .. }
            | Error::NoSuchInstance { .. }
            | Error::NoSuchPort { .. } => false,
        }
    }

    /// Its row in the table of reasons.
    pub fn reason(&self) -> Reason {
        match self {
            Error::Unreachable { .. } => Reason::EngineUnreachable,
            Error::NoSuchImage { .. } => Reason::NoSuchImage,
            Error::ImageOutOfReach { .. } => Reason::ImageOutOfReach,
            Error::ImageDenied { .. } => Reason::ImageDenied,
            Error::PortTaken { .. } => Reason::PortTaken,
            Error::CommandNotFound { .. } => Reason::CommandNotFound,
            Error::CommandNotInImage { .. } => Reason::CommandNotInImage,
            Error::NotExecutable { .. } => Reason::NotExecutable,
            Error::NoSuchFolder { .. } => Reason::NoSuchFolder,
            Error::NoSuchUser { .. } => Reason::NoSuchUser,
            Error::NotPermitted { .. } => Reason::NotPermitted,
            Error::NotAllowed { .. } => Reason::NotAllowed,
            Error::CannotConfine { .. } => Reason::CannotConfine,
            Error::DiskFull { .. } => Reason::DiskFull,
            Error::Exhausted { .. } => Reason::Exhausted,
            Error::NoSuchEntry { .. } => Reason::NoSuchEntry,
            Error::Invalid { .. } => Reason::Invalid,
            Error::Unsupported { .. } => Reason::Unsupported,
            Error::NoSuchInstance { .. } => Reason::NoSuchInstance,
            Error::NotRunning { .. } => Reason::NotRunning,
            Error::NoSuchPort { .. } => Reason::NoSuchPort,
            Error::Refused { .. } => Reason::ConnectionRefused,
            Error::TimedOut { .. } => Reason::TimedOut,
            Error::Failed { .. } => Reason::Failed,
        }
    }

    /// What a person can do about it, in a sentence.
    pub fn help(&self) -> String {
        self.reason().advises(&self.blanks())
    }

    /// What fills the blanks of its sentence and its help.
    fn blanks(&self) -> Vec<(&'static str, String)> {
        match self {
            Error::Unreachable { engine, address, .. } => {
                vec![("engine", engine.to_string()), ("address", address.clone())]
            }
            Error::NoSuchImage { image }
            | Error::ImageOutOfReach { image, .. }
            | Error::ImageDenied { image } => vec![("image", image.clone())],
            Error::PortTaken { port, protocol, holder } => vec![
                ("port", port.to_string()),
                ("protocol", protocol.to_string()),
                ("by", holder.as_ref().map(|holder| format!(" by {holder}")).unwrap_or_default()),
            ],
            Error::CommandNotFound { command, looked_in } => {
                let within = match looked_in.is_empty() {
                    true => String::new(),
                    false => format!(" in {}", looked_in.join(":")),
                };
                vec![("command", format!("{command:?}")), ("within", within)]
            }
            Error::CommandNotInImage { command } | Error::NotExecutable { command, .. } => {
                vec![("command", format!("{command:?}"))]
            }
            Error::NoSuchFolder { path } => vec![("path", format!("{path:?}"))],
            Error::NoSuchUser { user } => vec![("user", format!("{user:?}"))],
            Error::NotPermitted { doing, .. }
            | Error::DiskFull { doing }
            | Error::Exhausted { doing, .. }
            | Error::Failed { doing, .. } => vec![("doing", doing.clone())],
            Error::NotAllowed { privilege } => vec![
                ("what", privilege.described().to_owned()),
                ("privilege", privilege.to_string()),
            ],
            Error::CannotConfine { why } => vec![("why", why.clone())],
            Error::NoSuchEntry { what } | Error::Invalid { what } => vec![("what", what.clone())],
            Error::Unsupported { engine, what } => {
                vec![("engine", engine.to_string()), ("what", what.clone())]
            }
            Error::NoSuchInstance { id } | Error::NotRunning { id } => vec![("id", id.to_string())],
            Error::NoSuchPort { port, has } => {
                let has: Vec<String> = has.iter().map(ToString::to_string).collect();
                let has = match has.is_empty() {
                    true => "it has none".to_owned(),
                    false => format!("it has {}", has.join(", ")),
                };
                vec![("port", port.to_string()), ("has", has)]
            }
            Error::Refused { port, why } => {
                vec![("port", port.to_string()), ("why", why.clone())]
            }
            Error::TimedOut { doing, after } => {
                vec![("doing", doing.clone()), ("after", format!("{after:?}"))]
            }
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

#[cfg(test)]
mod tests;
