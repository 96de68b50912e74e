//! A command inside an instance: enters its cgroups, takes a terminal if there is one, is confined as
//! the instance is, and becomes the command. The driver starts it with the streams of the command in
//! place. The environment is read from the running instance: nothing secret is among the arguments,
//! and nothing of the instance's touches this process before it is confined.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, pidfd_open, setsid};
use tombolo_driver::Error;

use crate::folder::{Folder, InstanceRecord, RunRecord};
use crate::{cgroup, confine, procfs, program};

use super::MARK;

/// How often, and after which pause, the environment of an instance is read that shows none.
const READS_MAX: usize = 20;
const READ_AGAIN: Duration = Duration::from_millis(1);

/// What a shell answers when a command is not there, and when it may not be executed.
const CODE_NOT_FOUND: u8 = 127;
const CODE_NOT_EXECUTABLE: u8 = 126;

/// `FOLDER [--terminal PATH] -- COMMAND …`: the folder is the instance's.
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
    let (folder, terminal, words) = match arguments {
        [folder, dashes, words @ ..] if dashes == "--" => (folder, None, words),
        [folder, option, terminal, dashes, words @ ..]
            if option == "--terminal" && dashes == "--" =>
        {
            (folder, Some(Path::new(terminal)), words)
        }
        _ => return None,
    };
    let (program, arguments) = words.split_first()?;
    let folder = Folder::new(folder);
    let (record, run) = (folder.instance()?, folder.run()?);
    let env = environment(&folder, &run);
    // Outside of the groups there are no limits; a command for a person may still run.
    _ = cgroup::enter(&record.cgroups, std::process::id());
    _ = setsid();
    if let Some(Err(error)) = terminal.map(|terminal| take_terminal(terminal, record.user)) {
        return Some(error);
    }
    if let Err(error) = enter(&record, &run) {
        tell(&error);
        return Some(error);
    }
    // The record of an instance that an older agent has started does not say where.
    let workdir = Some(record.workdir).filter(|path| path.is_absolute());
    _ = std::env::set_current_dir(workdir.unwrap_or_else(|| folder.work()));
    let path = env.iter().find(|(name, _)| name == "PATH").map(|(_, path)| path.clone());
    let mut command = Command::new(program);
    command.args(arguments).env_clear().envs(env);
    if let Some((user, group)) = record.user {
        command.uid(user).gid(group);
    }
    let error = command.exec();
    // A folder of the path that may not be read hides that the command is in none of them.
    let path = path.unwrap_or_default();
    match program::find(&program.to_string_lossy(), Path::new("."), &path.to_string_lossy()) {
        Err(Error::CommandNotFound { .. }) => Some(io::Error::from(io::ErrorKind::NotFound)),
        Ok(_) | Err(_) => Some(error),
    }
}

/// Who leads a session and opens a terminal is controlled by it.
fn take_terminal(terminal: &Path, user: Option<(u32, u32)>) -> io::Result<()> {
    if let Some((user, group)) = user {
        chown(terminal, Some(user), Some(group))?;
    }
    let terminal = OpenOptions::new().read(true).write(true).open(terminal)?;
    rustix::stdio::dup2_stdin(&terminal)?;
    rustix::stdio::dup2_stdout(&terminal)?;
    rustix::stdio::dup2_stderr(&terminal)?;
    Ok(())
}

/// Is confined as the instance is.
fn enter(record: &InstanceRecord, run: &RunRecord) -> io::Result<()> {
    let Some(confinement) = &record.confinement else { return Ok(()) };
    let gone = || io::Error::from(io::ErrorKind::NotFound);
    let pid = i32::try_from(run.main.pid).ok().and_then(Pid::from_raw).ok_or_else(gone)?;
    let process = pidfd_open(pid, PidfdFlags::empty())?;
    // The number may have been given to somebody else before it was opened.
    if !run.main.alive() {
        return Err(gone());
    }
    confine::join(confinement, process)
}

fn tell(error: &io::Error) {
    use std::io::Write as _;
    _ = writeln!(io::stderr(), "cannot enter the instance: {error}");
}

/// The environment that the instance was started with; the least that does, where we may not see it.
fn environment(folder: &Folder, run: &RunRecord) -> Vec<(OsString, OsString)> {
    let mark = format!("{MARK}={}", folder.path().display()).into_bytes();
    let mut entries = Vec::new();
    // While a process becomes another program, the kernel shows none.
    for _ in 0..READS_MAX {
        entries = procfs::environment(run.main.pid).unwrap_or_default();
        if entries.contains(&mark) {
            break;
        }
        std::thread::sleep(READ_AGAIN);
    }
    let mut env: Vec<(OsString, OsString)> = entries
        .into_iter()
        .filter_map(|entry| {
            let equals = entry.iter().position(|byte| *byte == b'=')?;
            let name = OsString::from_vec(entry[..equals].to_vec());
            Some((name, OsString::from_vec(entry[equals + 1..].to_vec())))
        })
        .collect();
    if !env.iter().any(|(name, _)| name == "PATH") {
        env.push(("PATH".into(), program::PATH_DEFAULT.into()));
    }
    env.push((MARK.into(), folder.path().into()));
    env
}
