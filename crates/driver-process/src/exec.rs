//! Commands inside an instance, for people and for health checks: in its working directory, with its
//! environment, as its user, in its cgroups, confined as it is. The environment is read from the
//! running process, so that nobody has to keep its secrets for this.

use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::BytesMut;
use futures::stream::{self, BoxStream, StreamExt};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};
use tokio::sync::mpsc;
use tombolo_driver::{
    CheckOutcome, Error, ExecRequest, ExecSession, Exit, InstanceId, Output, Result, Source,
};
use tombolo_model::Reason;

use crate::Inner;
use crate::terminal::Terminal;

/// What is kept of the output of a check: the end of it says what is wrong.
const CHECK_OUTPUT_BYTES: usize = 4 * 1024;
/// As much as is handed on at once.
const CHUNK_BYTES: usize = 16 * 1024;
/// What our part of the command answers when the command itself was not there.
const CODE_NOT_FOUND: i32 = 127;

pub(crate) fn exec(
    inner: &Arc<Inner>,
    id: &InstanceId,
    request: &ExecRequest,
) -> Result<ExecSession> {
    match request.terminal {
        Some(size) => {
            let terminal = Terminal::open(size)?;
            let mut command = command(inner, id, &request.command, Some(terminal.path()))?;
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            let child = spawn(&mut command)?;
            terminal.session(|| exit_of(child))
        }
        None => {
            let mut command = command(inner, id, &request.command, None)?;
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
            let mut child = spawn(&mut command)?;
            let outputs = stream::select(
                chunks(child.stdout.take(), Source::Stdout),
                chunks(child.stderr.take(), Source::Stderr),
            );
            let input = child.stdin.take();
            let lost = || Error::Invalid { what: "a command must have its streams".to_owned() };
            // There is no terminal whose size could change.
            let (resize, _) = mpsc::channel(1);
            Ok(ExecSession {
                input: Box::pin(input.ok_or_else(lost)?),
                output: outputs.boxed(),
                resize,
                exit: Box::pin(exit_of(child)),
            })
        }
    }
}

pub(crate) async fn check(
    inner: &Arc<Inner>,
    id: &InstanceId,
    words: &[String],
    timeout: Duration,
) -> Result<CheckOutcome> {
    let mut command = command(inner, id, words, None)?;
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = spawn(&mut command)?;
    let outputs =
        [chunks(child.stdout.take(), Source::Stdout), chunks(child.stderr.take(), Source::Stderr)];
    let exit = exit_of(child);
    let ended = tokio::time::timeout(timeout, async {
        let (output, exit) = futures::join!(end_of(stream::select_all(outputs)), exit);
        exit.map(|exit| (output, exit))
    });
    // Dropping the future kills the command.
    let Ok(ended) = ended.await else { return Ok(CheckOutcome::TimedOut) };
    let (output, exit) = ended?;
    if exit.code == Some(CODE_NOT_FOUND) && output.is_empty() {
        let command = words.first().cloned().unwrap_or_default();
        return Err(Error::CommandNotFound { command, looked_in: Vec::new() });
    }
    let code = exit.code.or(exit.signal.map(|signal| 128 + signal)).unwrap_or(-1);
    Ok(CheckOutcome::Ended { code, output })
}

/// Our own program, which will become the command inside the instance.
fn command(
    inner: &Arc<Inner>,
    id: &InstanceId,
    words: &[String],
    terminal: Option<&str>,
) -> Result<Command> {
    let folder = inner.folder(id);
    folder.instance().ok_or_else(|| Error::NoSuchInstance { id: id.clone() })?;
    let run = folder.run().filter(|run| run.boot_id == inner.boot_id && run.main.alive());
    run.ok_or_else(|| Error::NotRunning { id: id.clone() })?;
    if words.is_empty() {
        return Err(Error::Invalid { what: "the command is empty".to_owned() });
    }
    let mut start = inner.options.supervisor.iter();
    let program = start.next().ok_or_else(|| Error::NotRunning { id: id.clone() })?;
    let mut command = Command::new(program);
    command.args(start).arg("exec").arg(folder.path());
    command.args(terminal.iter().flat_map(|path| ["--terminal", path]));
    // Nothing of the agent's environment, nor of the instance's: see `supervise::exec`.
    command.arg("--").args(words).env_clear();
    command.kill_on_drop(true);
    Ok(command)
}

fn spawn(command: &mut Command) -> Result<Child> {
    command.spawn().map_err(|error| Error::io("start a command", error))
}

/// Waits for a command. Dropped before, also before it was ever asked, it kills the command and all
/// that this started.
fn exit_of(mut child: Child) -> impl Future<Output = Result<Exit>> + Send + 'static {
    let mut group = KilledWhenDropped(child.id());
    async move {
        let status = child.wait().await.map_err(|error| Error::io("wait for a command", error))?;
        // Its number may be somebody else's from now on.
        group.spare();
        Ok(exit(status))
    }
}

/// Our part of the command leads a session and a group of its own.
struct KilledWhenDropped(Option<u32>);

impl KilledWhenDropped {
    fn spare(&mut self) {
        self.0 = None;
    }
}

impl Drop for KilledWhenDropped {
    fn drop(&mut self) {
        let pid = self.0.and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
        if let Some(pid) = pid {
            _ = kill_process_group(pid, Signal::KILL);
        }
    }
}

fn exit(status: ExitStatus) -> Exit {
    let signal = std::os::unix::process::ExitStatusExt::signal(&status);
    let reason = match (status.code(), signal) {
        (Some(0), _) => Reason::Completed,
        (Some(_), _) => Reason::Error,
        (None, _) => Reason::Killed,
    };
    Exit {
        code: status.code(),
        signal,
        at: SystemTime::now(),
        reason,
        message: None,
        log: Vec::new(),
    }
}

/// What comes out of a stream, piece by piece, until it ends.
pub(crate) fn chunks(
    stream: Option<impl AsyncRead + Send + Unpin + 'static>,
    source: Source,
) -> BoxStream<'static, Result<Output>> {
    stream::unfold((stream, source), async |(stream, source)| {
        let mut stream = stream?;
        let mut bytes = BytesMut::with_capacity(CHUNK_BYTES);
        match stream.read_buf(&mut bytes).await {
            Ok(0) => None,
            Ok(_) => Some((Ok(Output { source, bytes: bytes.freeze() }), (Some(stream), source))),
            // A terminal whose other end is closed says it with an error.
            Err(_) => None,
        }
    })
    .boxed()
}

/// The end of what a command writes.
async fn end_of(mut outputs: impl futures::Stream<Item = Result<Output>> + Unpin) -> String {
    let mut kept = Vec::new();
    while let Some(output) = outputs.next().await {
        if let Ok(output) = output {
            kept.extend_from_slice(&output.bytes);
        }
        let surplus = kept.len().saturating_sub(CHECK_OUTPUT_BYTES);
        kept.drain(..surplus);
    }
    String::from_utf8_lossy(&kept).into_owned()
}
