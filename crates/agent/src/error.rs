//! What can go wrong for an agent, cut by what can be done about it.

use std::path::PathBuf;

use tombolo_model::Reason;
use tombolo_plan::agent::link::Failure;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot {doing} {}", path.display())]
    File {
        doing: &'static str,
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("{} is not what it should be: {problem}", path.display())]
    Malformed { path: PathBuf, problem: String },
    #[error("{} is in use by another agent", path.display())]
    InUse { path: PathBuf },
    #[error(
        "{} was deleted or moved away while the agent had it: nothing more is started, so that \
         nothing runs twice; what runs from there ends by itself",
        path.display()
    )]
    FolderGone { path: PathBuf },
    #[error(
        "{folder} is the folder of the agent of {remit}, and this agent stands for another kind"
    )]
    StandsForOther { folder: PathBuf, remit: String },
    #[error(
        "there is nothing to join with: {} holds no certificate, and no join file was given; \
         `tombolo token create --site SITE -o FILE` makes one",
        folder.display()
    )]
    NothingToJoinWith { folder: PathBuf },
    /// The server has understood and said no; asking again will not help.
    #[error("{message}")]
    Refused { message: String, code: u16 },
    /// Another agent lives with our identity.
    #[error("{message}")]
    Quarantined { message: String },
    #[error("cannot reach a controller")]
    Unreachable {
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    #[error("the answer of the controller cannot be used: {problem}")]
    Answer { problem: String },
    #[error("cannot open an engine")]
    Engine(#[from] tombolo_driver::Error),
    #[error(transparent)]
    Identity(#[from] tombolo_identity::Error),
}

impl Error {
    /// What it means for the link to the server. Every variant is named, so that a new one must be
    /// thought about here.
    pub fn failure(&self) -> Failure {
        match self {
            Error::Unreachable { .. } => Failure::Unreachable,
            Error::Answer { .. } => Failure::Answered,
            Error::Refused { code: 401, .. } => Failure::NotTaken,
            Error::Refused { .. } => Failure::Refused,
            Error::Quarantined { .. } => Failure::Quarantined,
            Error::File { .. }
            | Error::Malformed { .. }
            | Error::InUse { .. }
            | Error::FolderGone { .. }
            | Error::NothingToJoinWith { .. }
            | Error::StandsForOther { .. }
            | Error::Engine(_)
            | Error::Identity(_) => Failure::OurOwn,
        }
    }

    /// Whether the next try may go better.
    pub fn retryable(&self) -> bool {
        self.failure().may_pass()
    }

    /// What a failed heartbeat means. Only a certificate that is not taken any more is a refusal:
    /// whatever else is wrong on the server may be mended there while the agent goes on.
    pub(crate) fn of_heartbeat(error: kube::Error) -> Error {
        match error {
            kube::Error::Api(status)
                if status.code != 401 && Reason::Quarantined != &*status.reason =>
            {
                Error::Answer { problem: status.message }
            }
            other => Error::of_request(other),
        }
    }

    /// What a failed joining or renewal means. What the server says no to stays no; all else may
    /// pass.
    pub(crate) fn of_request(error: kube::Error) -> Error {
        match error {
            kube::Error::Api(status) if Reason::Quarantined == &*status.reason => {
                Error::Quarantined { message: status.message }
            }
            kube::Error::Api(status) if matches!(status.code, 400 | 401 | 403 | 409 | 501) => {
                Error::Refused { message: status.message, code: status.code }
            }
            other => Error::Unreachable { source: Box::new(other) },
        }
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    #[test]
    fn a_server_that_answers_a_heartbeat_is_there() {
        let answered = |code: u16, reason: &str| {
            let status = Status { code, reason: reason.to_owned(), ..Status::default() };
            Error::of_heartbeat(kube::Error::Api(Box::new(status)))
        };
        for code in [400, 403, 409, 429, 500, 503] {
            assert!(matches!(answered(code, "Other"), Error::Answer { .. }), "{code}");
        }
        assert!(matches!(answered(401, "Unauthorized"), Error::Refused { code: 401, .. }));
        assert!(matches!(answered(409, "Quarantined"), Error::Quarantined { .. }));
        let cut = kube::Error::Service("cut".into());
        assert!(matches!(Error::of_heartbeat(cut), Error::Unreachable { .. }));
    }
}
