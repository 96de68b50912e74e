//! The last step before the program of an instance: a process of ours that confines itself and then
//! is the program. Started by the supervisor, which hands it a `Launch` through a socket on its
//! standard input; nothing of the instance's own, its environment least of all, touches this process
//! before it is confined. What goes wrong is told through the same socket; the kernel closes it
//! without a word when the program begins.

use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use crate::launch::{Answer, LAUNCH_BYTES_MAX, Launch, Step};
use crate::{confine, program};

pub(super) fn main() -> ExitCode {
    let Ok(mut channel) = take_channel() else { return ExitCode::FAILURE };
    let answer = become_program(&mut channel);
    _ = channel.write_all(&serde_json::to_vec(&answer).unwrap_or_default());
    ExitCode::FAILURE
}

/// The socket, under a number that the program will not have.
fn take_channel() -> io::Result<UnixStream> {
    let channel = rustix::io::fcntl_dupfd_cloexec(io::stdin().as_fd(), 3)?;
    rustix::stdio::dup2_stdin(std::fs::File::open("/dev/null")?)?;
    Ok(channel.into())
}

/// Returns only if it could not be done.
fn become_program(channel: &mut UnixStream) -> Answer {
    let launch = match read_launch(channel) {
        Ok(launch) => launch,
        Err(error) => return Answer::failed(Step::Read, &error),
    };
    if let Err(error) = program::check_format(&launch.program) {
        return Answer::failed(Step::Execute, &error);
    }
    if let Some(confinement) = &launch.confinement
        && let Err(error) = confine::enter(confinement)
    {
        return Answer::failed(Step::Confine, &error);
    }
    if let Err(error) = std::env::set_current_dir(&launch.workdir) {
        return Answer::failed(Step::EnterWorkdir, &error);
    }
    let mut command = Command::new(&launch.program);
    command.args(&launch.arguments).env_clear();
    for (name, value) in &launch.env {
        command.env(name, <std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(value));
    }
    if let Some((user, group)) = launch.user {
        command.uid(user).gid(group);
    }
    Answer::failed(Step::Execute, &command.exec())
}

fn read_launch(channel: &mut UnixStream) -> io::Result<Launch> {
    let mut bytes = Vec::new();
    channel.take(LAUNCH_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(serde_json::from_slice(&bytes)?)
}
