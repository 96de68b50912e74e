//! What can go wrong with keys, certificates and the files that hold them.

use std::path::PathBuf;

use jiff::Timestamp;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file system said no. The doing is a verb: `read`, `write`, `make`.
    #[error("cannot {doing} {}{}", path.display(), advice(source))]
    File {
        doing: &'static str,
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("{} is not what it should be: {problem}", path.display())]
    Malformed { path: PathBuf, problem: String },
    #[error(
        "the key {} does not belong to the certificate {}: put back the pair that belongs together \
         from a backup",
        key.display(), certificate.display()
    )]
    Mismatch { certificate: PathBuf, key: PathBuf },
    #[error(
        "the certificate {} is there but its key {} is not: put the key back from a backup, or move \
         the certificate away to begin with a new authority (every client must then be given the \
         new one)",
        certificate.display(), key.display()
    )]
    KeyMissing { certificate: PathBuf, key: PathBuf },
    #[error(
        "the authority {} expired at {expired}: move it and ca.key away and start again to make a \
         new one (every client must then be given it), or set the clock right if it is wrong",
        path.display()
    )]
    AuthorityExpired { path: PathBuf, expired: Timestamp },
    /// A name that cannot go into a certificate, or would be taken for someone else.
    #[error("{name:?} cannot be the name of a {what}: {problem}")]
    Name { what: &'static str, name: String, problem: &'static str },
    /// A signing request or certificate from outside that we refuse.
    #[error("the {what} is refused: {problem}")]
    Refused { what: &'static str, problem: String },
    #[error("cannot {doing}")]
    Cryptography {
        doing: &'static str,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl Error {
    /// Whether the sender of a request is at fault, and not this machine. Every variant is named, so that
    /// a new variant must be thought about here.
    pub fn is_of_the_request(&self) -> bool {
        match self {
            Error::Name { .. } | Error::Refused { .. } => true,
            Error::File { .. }
            | Error::Malformed { .. }
            | Error::Mismatch { .. }
            | Error::KeyMissing { .. }
            | Error::AuthorityExpired { .. }
            | Error::Cryptography { .. } => false,
        }
    }

    pub(crate) fn cryptography<E>(doing: &'static str) -> impl FnOnce(E) -> Error
    where
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        move |source| Error::Cryptography { doing, source: source.into() }
    }
}

fn advice(source: &std::io::Error) -> &'static str {
    match source.kind() {
        std::io::ErrorKind::PermissionDenied => {
            ": it belongs to another user; run as that user, or choose another folder with --data"
        }
        std::io::ErrorKind::StorageFull => ": the disk is full; free some space and start again",
        std::io::ErrorKind::ReadOnlyFilesystem => {
            ": the file system is read-only; choose another folder with --data"
        }
        _ => "",
    }
}
