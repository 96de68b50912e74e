//! What flows while a call is open: lines of a log, and the input and output of a command. The agent
//! passes it on to the person who asked, through its own connection to the controller.

use std::fmt;
use std::pin::Pin;
use std::time::SystemTime;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use tokio::io::AsyncWrite;
use tokio::sync::mpsc;

use crate::{Exit, Result};

/// A longer line of a log is handed on in pieces of this size: nobody has to hold more.
pub const LINE_BYTES_MAX: usize = 16 * 1024;

/// Which lines of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogRequest {
    /// Only lines from this time on.
    pub since: Option<SystemTime>,
    /// Only the last so many of them.
    pub tail: Option<usize>,
    /// Go on with new lines as they come, until the instance is removed.
    pub follow: bool,
    /// Only this part of the instance.
    pub part: Option<String>,
}

/// Lines as they come. It holds few lines at a time: a slow reader slows down the reading of the
/// log, and never the instance.
pub type LogStream = BoxStream<'static, Result<LogLine>>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// When it was written, as far as the engine knows.
    pub at: Option<SystemTime>,
    pub source: Source,
    /// The part of the instance that wrote it, if that has several.
    pub part: Option<String>,
    /// Without its end of line, [`LINE_BYTES_MAX`] at most. Any bytes, not only text.
    pub text: Bytes,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    Stdout,
    Stderr,
}

/// A command to run inside an instance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExecRequest {
    pub command: Vec<String>,
    /// With a terminal of this size; its output is all [`Source::Stdout`].
    pub terminal: Option<TerminalSize>,
    /// The part of the instance; the first when left out.
    pub part: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TerminalSize {
    pub columns: u16,
    pub rows: u16,
}

/// A command that runs inside an instance. Dropping it ends the command.
pub struct ExecSession {
    /// What is written here the command reads; shut down, it reads the end.
    pub input: Pin<Box<dyn AsyncWrite + Send>>,
    /// Ends when the command has ended and all is read.
    pub output: BoxStream<'static, Result<Output>>,
    /// New sizes of the terminal; if the command has no terminal they go nowhere.
    pub resize: mpsc::Sender<TerminalSize>,
    pub exit: BoxFuture<'static, Result<Exit>>,
}

impl fmt::Debug for ExecSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExecSession").finish_non_exhaustive()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    pub source: Source,
    pub bytes: Bytes,
}

/// How a command that checks on an instance came out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckOutcome {
    /// It ended with this code; 0 is well. `output` is the end of what it wrote.
    Ended {
        code: i32,
        output: String,
    },
    TimedOut,
}
