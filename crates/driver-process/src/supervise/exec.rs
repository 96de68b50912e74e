//! A command inside an instance: enters its cgroups, takes a terminal if there is one, and becomes
//! the command. The driver starts it with the environment and the streams of the command in place,
//! so that nothing secret is among the arguments.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use rustix::process::setsid;
use tombolo_driver::Error;

use crate::{cgroup, program};

/// What a shell answers when a command is not there, and when it may not be executed.
const CODE_NOT_FOUND: u8 = 127;
const CODE_NOT_EXECUTABLE: u8 = 126;

/// `--group FOLDER …  --terminal PATH --workdir PATH --user UID:GID -- COMMAND …`, all of them
/// optional but the command.
pub(super) fn main(arguments: &[OsString]) -> ExitCode {
    let Some(error) = become_command(arguments) else { return ExitCode::FAILURE };
    match error.kind() {
        io::ErrorKind::NotFound => ExitCode::from(CODE_NOT_FOUND),
        io::ErrorKind::PermissionDenied => ExitCode::from(CODE_NOT_EXECUTABLE),
        _ => ExitCode::FAILURE,
    }
}

/// Returns only if it could not be done.
fn become_command(arguments: &[OsString]) -> Option<io::Error> {
    let mut groups = Vec::new();
    let mut terminal = None;
    let mut workdir = None;
    let mut user = None;
    let mut rest = arguments;
    let command = loop {
        match rest {
            [word, command @ ..] if word == "--" => break command,
            [word, value, after @ ..] => {
                match word.to_str()? {
                    "--group" => groups.push(PathBuf::from(value)),
                    "--terminal" => terminal = Some(PathBuf::from(value)),
                    "--workdir" => workdir = Some(PathBuf::from(value)),
                    "--user" => user = value.to_str()?.split_once(':'),
                    _ => return None,
                }
                rest = after;
            }
            [] | [_] => return None,
        }
    };
    // Outside of the groups there are no limits; a command for a person may still run.
    _ = cgroup::enter(&groups, std::process::id());
    _ = setsid();
    if let Some(terminal) = terminal {
        // Who leads a session and opens a terminal is controlled by it.
        let opened = OpenOptions::new().read(true).write(true).open(terminal);
        let taken = opened.and_then(|terminal| {
            rustix::stdio::dup2_stdin(&terminal)?;
            rustix::stdio::dup2_stdout(&terminal)?;
            rustix::stdio::dup2_stderr(&terminal)?;
            Ok(())
        });
        if let Err(error) = taken {
            return Some(error);
        }
    }
    if let Some(workdir) = workdir {
        _ = std::env::set_current_dir(workdir);
    }
    let (program, arguments) = command.split_first()?;
    let mut command = Command::new(program);
    command.args(arguments);
    if let Some((user, group)) = user {
        command.uid(user.parse().ok()?).gid(group.parse().ok()?);
    }
    let error = command.exec();
    // A folder of the path that may not be read hides that the command is in none of them.
    let path = std::env::var("PATH").unwrap_or_default();
    match program::find(&program.to_string_lossy(), Path::new("."), &path) {
        Err(Error::CommandNotFound { .. }) => Some(io::Error::from(io::ErrorKind::NotFound)),
        Ok(_) | Err(_) => Some(error),
    }
}
