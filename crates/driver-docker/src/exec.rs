//! Commands inside an instance, for people and for health checks. The engine starts them and has no
//! call that ends them: where the container's processes are of this machine, we end them by number.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bollard::Docker;
use bollard::container::LogOutput;
use bollard::exec::{CreateExecOptions, ResizeExecOptions, StartExecOptions, StartExecResults};
use bollard::models::ExecInspectResponse;
use futures::stream::{self, BoxStream, Stream, StreamExt};
use rustix::process::{Pid, Signal, kill_process};
use tokio::sync::mpsc;
use tombolo_driver::{
    CheckOutcome, Error, ExecRequest, ExecSession, Exit, InstanceId, Output, Result, Source,
    TerminalSize,
};
use tombolo_model::Reason;

use crate::{Inner, error};

/// What is kept of the output of a check: enough for a person to see what is wrong.
const CHECK_OUTPUT_BYTES: usize = 4096;
/// Between two questions whether a command has ended, which double up to the second.
const ASK_AGAIN_MIN: Duration = Duration::from_millis(5);
const ASK_AGAIN_MAX: Duration = Duration::from_millis(200);

/// A command that was started. Dropped before it ended, it is killed.
struct Command {
    inner: Arc<Inner>,
    docker: Docker,
    exec: String,
    container: String,
    ended: bool,
}

pub(crate) async fn exec(
    inner: &Arc<Inner>,
    id: &InstanceId,
    request: ExecRequest,
) -> Result<ExecSession> {
    let terminal = request.terminal;
    let what = What { words: &request.command, part: request.part.as_deref(), terminal };
    let (command, started) = start(inner, id, &what, true).await?;
    let StartExecResults::Attached { output, input } = started else { return Err(detached()) };
    let output = begun(&command, output).await?;
    let (resize, mut sizes) = mpsc::channel::<TerminalSize>(1);
    let (docker, exec) = (command.docker.clone(), command.exec.clone());
    if terminal.is_some() {
        tokio::spawn(async move {
            while let Some(size) = sizes.recv().await {
                // A command that has ended has no terminal any more.
                _ = docker.resize_exec(&exec, dimensions(size)).await;
            }
        });
    }
    let connection = Arc::clone(inner);
    let output = output.map(move |output| match output {
        Ok(output) => Ok(piece(output)),
        Err(error) => Err(connection.connection.failed("read what the command writes", error)),
    });
    Ok(ExecSession { input, output: output.boxed(), resize, exit: Box::pin(exit_of(command)) })
}

type Pieces = BoxStream<'static, std::result::Result<LogOutput, bollard::errors::Error>>;

/// Waits until the command has a process. The engine answers before it tries, and writes why it could
/// not where the command's output is expected: that is an error and no output.
async fn begun(
    command: &Command,
    output: impl Stream<Item = std::result::Result<LogOutput, bollard::errors::Error>> + Send + 'static,
) -> Result<Pieces> {
    let mut pause = ASK_AGAIN_MIN;
    let code = loop {
        let inspected = command.inspect().await?;
        let has_ended = inspected.running != Some(true) && inspected.exit_code.is_some();
        if has_ended || inspected.pid.is_some_and(|pid| pid != 0) {
            break inspected.exit_code.filter(|_| has_ended);
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(ASK_AGAIN_MAX);
    };
    if !matches!(code, Some(126 | 127)) {
        return Ok(output.boxed());
    }
    let pieces: Vec<_> = output.collect().await;
    let said: Vec<u8> = pieces.iter().flatten().flat_map(|piece| piece.as_ref().to_vec()).collect();
    match refused(&String::from_utf8_lossy(&said)) {
        Some(error) => Err(error),
        None => Ok(stream::iter(pieces).boxed()),
    }
}

/// Why the engine could not start a command, if this is what it has written.
fn refused(output: &str) -> Option<Error> {
    if !output.contains("OCI runtime exec failed") {
        return None;
    }
    match error::meaning("start a command", output) {
        Error::CommandNotInImage { command } => {
            Some(Error::CommandNotFound { command, looked_in: Vec::new() })
        }
        found @ Error::NotExecutable { .. } => Some(found),
        _ => None,
    }
}

pub(crate) async fn check(
    inner: &Arc<Inner>,
    id: &InstanceId,
    words: &[String],
    timeout: Duration,
) -> Result<CheckOutcome> {
    let ended = tokio::time::timeout(timeout, async {
        let what = What { words, part: None, terminal: None };
        let (command, started) = start(inner, id, &what, false).await?;
        let StartExecResults::Attached { mut output, input } = started else {
            return Err(detached());
        };
        let mut kept = Vec::new();
        while let Some(Ok(piece)) = output.next().await {
            kept.extend_from_slice(piece.as_ref());
            let surplus = kept.len().saturating_sub(CHECK_OUTPUT_BYTES);
            kept.drain(..surplus);
        }
        drop(input);
        Ok((kept, exit_of(command).await?))
    });
    // Dropping the future kills the command.
    let Ok(ended) = ended.await else { return Ok(CheckOutcome::TimedOut) };
    let (output, exit) = ended?;
    let output = String::from_utf8_lossy(&output).into_owned();
    let code = exit.code.unwrap_or(-1);
    match refused(&output).filter(|_| matches!(code, 126 | 127)) {
        Some(error) => Err(error),
        None => Ok(CheckOutcome::Ended { code, output }),
    }
}

/// A command, and where it is to run.
struct What<'a> {
    words: &'a [String],
    part: Option<&'a str>,
    terminal: Option<TerminalSize>,
}

async fn start(
    inner: &Arc<Inner>,
    id: &InstanceId,
    what: &What<'_>,
    attach_stdin: bool,
) -> Result<(Command, StartExecResults)> {
    let What { words, part, terminal } = *what;
    if words.is_empty() {
        return Err(Error::Invalid { what: "the command is empty".to_owned() });
    }
    let (container, _) = inner.running(id, part).await?;
    let docker = inner.connection.docker().await?;
    let failed = |error| {
        let error = inner.connection.failed("start a command", error);
        error::inside(id, &error).unwrap_or(error)
    };
    let options = CreateExecOptions {
        attach_stdin: Some(attach_stdin),
        attach_stdout: Some(true),
        attach_stderr: Some(true),
        tty: Some(terminal.is_some()),
        cmd: Some(words.to_vec()),
        ..CreateExecOptions::default()
    };
    let exec = docker.create_exec(&container, options).await.map_err(failed)?.id;
    let inner = Arc::clone(inner);
    let command = Command { inner, docker, exec, container, ended: false };
    let tty = terminal.is_some();
    let options = StartExecOptions { detach: false, tty, output_capacity: None };
    let started = command.docker.start_exec(&command.exec, Some(options)).await.map_err(failed)?;
    if let Some(size) = terminal {
        _ = command.docker.resize_exec(&command.exec, dimensions(size)).await;
    }
    Ok((command, started))
}

fn dimensions(size: TerminalSize) -> ResizeExecOptions {
    ResizeExecOptions { height: size.rows, width: size.columns }
}

fn detached() -> Error {
    Error::Invalid { what: "a command must have its streams".to_owned() }
}

fn piece(output: LogOutput) -> Output {
    let source = match &output {
        LogOutput::StdErr { .. } => Source::Stderr,
        LogOutput::StdOut { .. } | LogOutput::StdIn { .. } | LogOutput::Console { .. } => {
            Source::Stdout
        }
    };
    Output { source, bytes: output.into_bytes() }
}

async fn exit_of(mut command: Command) -> Result<Exit> {
    let mut pause = ASK_AGAIN_MIN;
    loop {
        let inspected = command.inspect().await?;
        let code = inspected.exit_code.and_then(|code| i32::try_from(code).ok());
        if inspected.running != Some(true) && code.is_some() {
            command.ended = true;
            let reason = if code == Some(0) { Reason::Completed } else { Reason::Error };
            let at = SystemTime::now();
            return Ok(Exit { code, signal: None, at, reason, message: None, log: Vec::new() });
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(ASK_AGAIN_MAX);
    }
}

impl Command {
    async fn inspect(&self) -> Result<ExecInspectResponse> {
        let inspected = self.docker.inspect_exec(&self.exec).await;
        inspected.map_err(|error| self.inner.connection.failed("wait for a command", error))
    }
}

impl Drop for Command {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        let (docker, exec, container) = (
            self.docker.clone(),
            std::mem::take(&mut self.exec),
            std::mem::take(&mut self.container),
        );
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(async move {
            let Ok(inspected) = docker.inspect_exec(&exec).await else { return };
            let pid = inspected.pid.filter(|_| inspected.running == Some(true));
            if let Some(pid) = pid.and_then(|pid| i32::try_from(pid).ok()) {
                kill(pid, &container);
            }
        });
    }
}

/// Only a process that is in the container by this kernel's word: the engine may count its processes
/// in a namespace that is not ours, where the number is somebody else's.
fn kill(pid: i32, container: &str) {
    let groups = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    if let Some(pid) = Pid::from_raw(pid).filter(|_| groups.contains(container)) {
        _ = kill_process(pid, Signal::KILL);
    }
}
