//! What can go wrong in the store, cut by what the caller can do about it. Everything that this
//! crate offers returns it; `apiserver` turns it into status codes.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Cheap to clone, because one failed group commit is the answer to many callers.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    #[error("{key} was changed by someone else: it is at revision {found}")]
    Conflict { key: Arc<str>, found: u64 },
    #[error("{key} exists already")]
    AlreadyExists { key: Arc<str> },
    #[error("{key} does not exist")]
    NotFound { key: Arc<str> },
    #[error("revision is compacted away: the oldest that can be read is {oldest}")]
    Compacted { oldest: u64 },
    #[error("revision is in the future: the newest is {current}")]
    Future { current: u64 },
    #[error("{what} is {size}, and at most {max} is allowed")]
    TooLarge { what: &'static str, size: usize, max: usize },
    #[error("draft of {key} is malformed: {what}")]
    Malformed { key: Arc<str>, what: &'static str },
    #[error("disk is full: only deletes are accepted until there is room again")]
    Full,
    #[error("too many writes are waiting")]
    Overloaded,
    #[error("store is closed")]
    Closed,
    #[error("{} is in use by another process", dir.display())]
    Locked { dir: PathBuf },
    #[error(
        "store in {} is damaged ({what}); restore it from a backup: tombolo restore --data {} FILE",
        dir.display(), dir.display()
    )]
    Corrupt { dir: PathBuf, what: String },
    #[error("store in {} has format {found}, and this version reads format {known}", dir.display())]
    UnknownFormat { dir: PathBuf, found: u64, known: u64 },
    #[error("store in {} has sealed what is secret, and its key is not there", dir.display())]
    NoKey { dir: PathBuf },
    #[error("store in {} has sealed what is secret with another key than this", dir.display())]
    OtherKey { dir: PathBuf },
    #[error("backup is unusable ({what}); nothing was changed")]
    BadBackup { what: String },
    #[error("{why}")]
    RestoreRefused { why: String },
    #[error("cannot {doing}")]
    Io {
        doing: String,
        #[source]
        source: Arc<io::Error>,
    },
}

impl Error {
    /// Whether the same call may succeed later without the caller changing anything.
    /// Every variant is named, so that a new one must be thought about here.
    pub fn retryable(&self) -> bool {
        match self {
            Error::Full | Error::Overloaded | Error::Locked { .. } | Error::Io { .. } => true,
            Error::Conflict { .. }
            | Error::AlreadyExists { .. }
            | Error::NotFound { .. }
            | Error::Compacted { .. }
            | Error::Future { .. }
            | Error::TooLarge { .. }
            | Error::Malformed { .. }
            | Error::Closed
            | Error::Corrupt { .. }
            | Error::UnknownFormat { .. }
            | Error::NoKey { .. }
            | Error::OtherKey { .. }
            | Error::BadBackup { .. }
            | Error::RestoreRefused { .. } => false,
        }
    }

    pub(crate) fn io(doing: impl Into<String>, source: io::Error) -> Error {
        Error::Io { doing: doing.into(), source: Arc::new(source) }
    }

    pub(crate) fn corrupt(dir: &Path, what: impl Into<String>) -> Error {
        Error::Corrupt { dir: dir.to_path_buf(), what: what.into() }
    }
}

/// Whether the disk, or our share of it, has no room left.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}
