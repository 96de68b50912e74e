//! What the driver hands to a supervisor, and what that answers. It goes through pipes and never
//! through a file or an argument, because the environment may hold secrets.

use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::confine::Confinement;

/// Bounds what a supervisor reads: the kernel takes no larger environment, and JSON makes at most
/// four letters of a byte.
pub(crate) const LAUNCH_BYTES_MAX: u64 = 32 * 1024 * 1024;

/// Everything a supervisor needs to start an instance. There is no `Debug`, on purpose.
#[derive(Serialize, Deserialize)]
pub(crate) struct Launch {
    pub(crate) program: PathBuf,
    pub(crate) arguments: Vec<String>,
    pub(crate) env: Vec<(String, Vec<u8>)>,
    pub(crate) workdir: PathBuf,
    /// User and group to run as; the agent's own when left out.
    pub(crate) user: Option<(u32, u32)>,
    /// Nothing for an instance with all rights.
    pub(crate) confinement: Option<Confinement>,
}

/// How much of what an instance writes is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogLimits {
    pub file_bytes_max: u64,
    pub files_max: usize,
}

impl Default for LogLimits {
    /// 8 MiB an instance: a hundred instances do not fill the disk of a small machine.
    fn default() -> LogLimits {
        LogLimits { file_bytes_max: 2 * 1024 * 1024, files_max: 4 }
    }
}

/// What a supervisor answers, once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Answer {
    Runs,
    /// There was nothing left to adopt; how it ended is written down.
    Ended,
    /// `step` could not be done, and nothing was left behind.
    Failed {
        step: Step,
        errno: Option<i32>,
        message: String,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Step {
    Read,
    Prepare,
    Confine,
    EnterWorkdir,
    Execute,
    Record,
}

impl Answer {
    pub(crate) fn failed(step: Step, error: &io::Error) -> Answer {
        Answer::Failed { step, errno: error.raw_os_error(), message: error.to_string() }
    }
}
