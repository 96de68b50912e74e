//! The supervisor: one small process beside each instance, which stays when the agent goes. It is
//! `tombolo supervise`, never typed by people: [`main`] is called by the `cli` before anything else,
//! and the driver starts it.
//!
//! It starts the instance as its child, writes down what that says and how it ends, and ends it when
//! told to, with all that it started. It has no thread, no tokio and nothing to decide: the driver
//! hands it a `Launch` on its standard input, holds its lock for it on its standard output, and
//! reads its `Answer` on its standard error. From then on they speak through the `Folder`.
//!
//! What it reads from are pipes with a name, which the instance holds open for reading too. So an
//! instance whose supervisor is killed can go on writing, and a new supervisor (`adopt`) reads on;
//! only the exit code is lost then, because the kernel tells it to a parent alone.
//!
//! To read on, see `tend` for the loop and `end` for what comes after it.

mod end;
mod exec;
mod program;
mod tend;

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::SystemTime;

use rustix::fs::OFlags;
use rustix::process::{getpid, set_child_subreaper, setsid};

use crate::cgroup;
use crate::confine;
use crate::folder::{Folder, InstanceRecord, RunRecord};
use crate::launch::{Answer, LAUNCH_BYTES_MAX, Launch, Step};
use crate::logfile::Writer;
use crate::procfs::{self, ProcessKey};

use self::tend::{Parentage, Tended};

/// The variable by which everything that an instance starts is known again. It holds the path of the
/// instance's folder: ids alone could be the same for two agents of one machine.
pub(crate) const MARK: &str = "TOMBOLO_INSTANCE";

/// The word for the process that will be the program of the instance.
const BECOME: &str = "become";
/// The words that make a supervisor of this program, before the folder of an instance.
pub(crate) const SUPERVISES: [&[u8]; 2] = [b"run", b"adopt"];
/// An answer is a line.
const ANSWER_BYTES_MAX: u64 = 64 * 1024;

/// Runs as a supervisor until the instance has ended. The arguments are those after `supervise`; the
/// driver alone knows them.
pub fn main(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<OsString> = arguments.collect();
    let answer = match arguments.as_slice() {
        [word, folder] if word == "run" => run(Path::new(folder), &ways_here(arguments.len())),
        [word, folder] if word == "adopt" => adopt(Path::new(folder)),
        [word, rest @ ..] if word == "exec" => return exec::main(rest),
        [word] if word == BECOME => return program::main(),
        [word, folder] if word == "abilities" => {
            let told = confine::tell(Path::new(folder));
            return if told.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
        }
        _ => Err(Answer::failed(Step::Read, &io::Error::from(io::ErrorKind::InvalidInput))),
    };
    match answer {
        Ok(tended) => {
            tell(&Answer::Runs);
            tended.until_it_ends();
            ExitCode::SUCCESS
        }
        Err(Answer::Ended) => {
            tell(&Answer::Ended);
            ExitCode::SUCCESS
        }
        Err(answer) => {
            tell(&answer);
            ExitCode::FAILURE
        }
    }
}

/// The arguments with which this program was told to be a supervisor, without the last ones.
fn ways_here(last: usize) -> Vec<OsString> {
    let all: Vec<OsString> = std::env::args_os().skip(1).collect();
    let count = all.len().saturating_sub(last);
    all.into_iter().take(count).collect()
}

/// Starts an instance. `way` are the arguments that make a supervisor of this program.
fn run(path: &Path, way: &[OsString]) -> Result<Tended, Answer> {
    let step = |step: Step| move |error: io::Error| Answer::failed(step, &error);
    let launch = read_launch().map_err(step(Step::Read))?;
    let folder = Folder::new(path);
    let missing = || Answer::failed(Step::Prepare, &io::Error::from(io::ErrorKind::NotFound));
    let mut record = folder.instance().ok_or_else(missing)?;
    stand_alone().map_err(step(Step::Prepare))?;
    folder.reserve_exit().map_err(step(Step::Prepare))?;
    let pipes = Pipes::open(&folder).map_err(step(Step::Prepare))?;
    let pid = spawn(&launch, &folder, &mut record, way)?;
    let Some(main) = ProcessKey::of(pid) else {
        return Err(Answer::failed(Step::Execute, &io::Error::from(io::ErrorKind::NotFound)));
    };
    // The environment goes before the long wait begins.
    drop(launch);
    let tended =
        Tended::new(folder, record, main, Parentage::Ours, pipes).map_err(step(Step::Prepare))?;
    if let Err(error) = tended.record(SystemTime::now()) {
        tended.kill_everything();
        return Err(Answer::failed(Step::Record, &error));
    }
    Ok(tended)
}

/// Goes on for a supervisor that was killed.
fn adopt(path: &Path) -> Result<Tended, Answer> {
    let step = |step: Step| move |error: io::Error| Answer::failed(step, &error);
    let folder = Folder::new(path);
    let missing = || Answer::failed(Step::Read, &io::Error::from(io::ErrorKind::NotFound));
    let record = folder.instance().ok_or_else(missing)?;
    let run = folder.run().ok_or_else(missing)?;
    stand_alone().map_err(step(Step::Prepare))?;
    let pipes = Pipes::open(&folder).map_err(step(Step::Prepare))?;
    let tended = Tended::new(folder, record, run.main, Parentage::Adopted, pipes)
        .map_err(step(Step::Prepare))?;
    if !run.main.alive() {
        tended.until_it_ends();
        return Err(Answer::Ended);
    }
    tended.record(run.since).map_err(step(Step::Record))?;
    Ok(tended)
}

fn read_launch() -> io::Result<Launch> {
    let mut bytes = Vec::new();
    io::stdin().take(LAUNCH_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(serde_json::from_slice(&bytes)?)
}

/// Leaves the agent's session, so that no terminal's hang-up comes here, and takes in the orphans of
/// the instance, so that they can be found.
fn stand_alone() -> io::Result<()> {
    match setsid() {
        // A process that leads a group already has been started as its leader.
        Ok(_) | Err(rustix::io::Errno::PERM) => (),
        Err(errno) => return Err(errno.into()),
    }
    set_child_subreaper(Some(getpid()))?;
    Ok(())
}

/// Starts the child inside the cgroups of the instance, and leaves them again: the supervisor must
/// not be counted, nor killed, with it.
fn spawn(
    launch: &Launch,
    folder: &Folder,
    record: &mut InstanceRecord,
    way: &[OsString],
) -> Result<u32, Answer> {
    let prepared = |error: io::Error| Answer::failed(Step::Prepare, &error);
    let (channel, other_end) = UnixStream::pair().map_err(prepared)?;
    // This very program, also if its file was replaced since.
    let mut command = Command::new("/proc/self/exe");
    command.args(way).arg(BECOME).env_clear().process_group(0).stdin(OwnedFd::from(other_end));
    command.stdout(open_pipe(&folder.out(), OFlags::empty()).map_err(prepared)?);
    command.stderr(open_pipe(&folder.err(), OFlags::empty()).map_err(prepared)?);
    let own = std::process::id();
    let before = cgroup::own(&record.cgroups);
    if let Err(error) = cgroup::enter(&record.cgroups, own) {
        record.notes.push(format!("there are no limits: its cgroup cannot be entered: {error}"));
        folder.write_instance(record).map_err(prepared)?;
    }
    let spawned = command.spawn().map_err(|error| Answer::failed(Step::Execute, &error));
    // Staying inside would be counted as the instance's, and is better than ending.
    _ = cgroup::enter(&before, own);
    // It holds the other end of the channel, which only the child may.
    drop(command);
    let mut child = spawned?;
    match hand_over(launch, channel) {
        Ok(()) => Ok(child.id()),
        Err(answer) => {
            _ = child.kill();
            _ = child.wait();
            Err(answer)
        }
    }
}

/// Tells the child what to be, and waits until it is.
fn hand_over(launch: &Launch, mut channel: UnixStream) -> Result<(), Answer> {
    let prepared = |error: io::Error| Answer::failed(Step::Prepare, &error);
    let bytes = serde_json::to_vec(launch).map_err(|error| prepared(error.into()))?;
    // A program that ended without reading says why in its answer, or by saying nothing.
    _ = channel.write_all(&bytes);
    channel.shutdown(std::net::Shutdown::Write).map_err(prepared)?;
    let mut answer = Vec::new();
    channel.take(ANSWER_BYTES_MAX).read_to_end(&mut answer).map_err(prepared)?;
    match answer.is_empty() {
        true => Ok(()),
        false => Err(serde_json::from_slice(&answer).map_err(|error| prepared(error.into()))?),
    }
}

/// Answers, and lets go of all that the agent holds the other end of. The lock stays.
fn tell(answer: &Answer) {
    let bytes = serde_json::to_vec(answer).unwrap_or_default();
    // An agent that is gone by now finds out from the folder.
    _ = io::stderr().write_all(&bytes);
    if let Ok(null) = File::options().read(true).write(true).open("/dev/null") {
        _ = rustix::stdio::dup2_stderr(&null);
        _ = rustix::stdio::dup2_stdin(&null);
    }
}

/// Our ends of the pipes.
#[derive(Debug)]
struct Pipes {
    out: OwnedFd,
    err: OwnedFd,
    control: OwnedFd,
    /// Never written to: the driver sees that it is closed.
    _alive: OwnedFd,
}

impl Pipes {
    fn open(folder: &Folder) -> io::Result<Pipes> {
        let open = |path: &Path| open_pipe(path, OFlags::NONBLOCK);
        Ok(Pipes {
            out: open(&folder.out())?,
            err: open(&folder.err())?,
            control: open(&folder.control())?,
            _alive: open(&folder.alive())?,
        })
    }
}

/// Opened for reading and writing: so opening never waits for another end, and reading never ends for
/// want of another end.
fn open_pipe(path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let flags = i32::try_from(flags.bits()).unwrap_or(0);
    Ok(OpenOptions::new().read(true).write(true).custom_flags(flags).open(path)?.into())
}

impl Tended {
    /// Writes down which processes they are.
    fn record(&self, since: SystemTime) -> io::Result<()> {
        let own = ProcessKey::of(std::process::id());
        let supervisor = own.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        self.folder.write_run(&RunRecord {
            boot_id: procfs::boot_id(),
            supervisor,
            main: self.main,
            since,
        })
    }

    fn new(
        folder: Folder,
        record: InstanceRecord,
        main: ProcessKey,
        parentage: Parentage,
        pipes: Pipes,
    ) -> io::Result<Tended> {
        let lock = File::from(io::stdout().as_fd().try_clone_to_owned()?);
        let log = match parentage {
            Parentage::Ours => Writer::begin(folder.log(), record.log, folder.spools()),
            Parentage::Adopted => {
                Writer::adopt(folder.log(), record.log, folder.spools(), SystemTime::now())
            }
        };
        Ok(Tended {
            folder,
            lock,
            record,
            main,
            parentage,
            pipes,
            log,
            stopping: None,
            told: false,
            put_off: None,
            deadline: None,
            cut_off: false,
        })
    }
}
