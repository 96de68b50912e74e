//! Running a client as a person would, and what it said. Made by [`crate::Tombolo`].

use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;

/// No command of a test takes that long; one that does hangs.
const COMMAND_DURATION_MAX: Duration = Duration::from_secs(90);

/// What a command said and how it ended.
#[derive(Clone, Debug)]
pub struct Ran {
    /// As it was typed.
    pub line: String,
    /// `None` if a signal ended it.
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Ran {
    /// Its output, if it succeeded.
    #[track_caller]
    pub fn ok(self) -> String {
        assert!(self.code == Some(0), "failed: {self:#?}");
        self.stdout
    }

    /// What it complained of, if it failed.
    #[track_caller]
    pub fn failed(self) -> String {
        assert!(self.code != Some(0), "succeeded, but should not have: {self:#?}");
        self.stderr
    }

    /// Its output as JSON, if it succeeded.
    #[track_caller]
    pub fn json(self) -> serde_json::Value {
        let text = self.ok();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error} in: {text}"))
    }
}

/// A command that goes on until it is dropped, such as a watch.
#[derive(Debug)]
pub struct Running {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Running {
    /// The next line with `text` in it; panics if none comes.
    pub async fn line_with(&mut self, text: &str) -> String {
        let mut seen = Vec::new();
        loop {
            let line = timeout(COMMAND_DURATION_MAX, self.lines.next_line()).await;
            match line {
                Ok(Ok(Some(line))) if line.contains(text) => return line,
                Ok(Ok(Some(line))) => seen.push(line),
                Ok(other) => panic!("it ended ({other:?}) without {text:?}, after {seen:#?}"),
                Err(_) => panic!("no line with {text:?} came, only {seen:#?}"),
            }
        }
    }

    /// Ends it as Ctrl-C would.
    pub fn interrupt(&self) {
        let pid = self.child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        kill_process(pid.expect("it is running"), Signal::INT).expect("a child can be signalled");
    }

    /// Ends it at once.
    pub async fn kill(&mut self) {
        self.child.kill().await.expect("a child can be killed");
    }

    /// Waits for its end.
    pub async fn end(mut self) -> Option<i32> {
        let status = timeout(COMMAND_DURATION_MAX, self.child.wait()).await;
        status.expect("a command ends").expect("a child can be waited for").code()
    }
}

/// Runs `command` with `input` on its stdin.
pub(crate) async fn run(mut command: Command, input: &str) -> Ran {
    let line = format!("{:?}", command.as_std());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().unwrap_or_else(|error| panic!("cannot start {line}: {error}"));
    let mut stdin = child.stdin.take().expect("stdin is piped");
    let writes = async {
        // A command that does not read its input closes it, and that is no failure.
        drop(stdin.write_all(input.as_bytes()).await);
        drop(stdin);
    };
    // At the same time: a command may write before it has read everything.
    let work = async { tokio::join!(writes, child.wait_with_output()).1 };
    let output = match timeout(COMMAND_DURATION_MAX, work).await {
        Ok(output) => output.expect("a child can be waited for"),
        Err(_) => panic!("{line} did not end"),
    };
    Ran {
        line,
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Starts `command` and lets it run.
pub(crate) fn start(mut command: Command) -> Running {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit()).kill_on_drop(true);
    let mut child = command.spawn().unwrap_or_else(|error| panic!("cannot start: {error}"));
    let stdout = child.stdout.take().expect("stdout is piped");
    Running { child, lines: BufReader::new(stdout).lines() }
}
