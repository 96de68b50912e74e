//! The folder of one instance, and what is written in it. The folder is all the memory there is:
//! driver and supervisor speak through it, and an agent that starts reads everything from it.
//!
//! | file | by | says |
//! |---|---|---|
//! | `instance.json` | driver | whose it is, its ports, its restarts, its last exit |
//! | `run.json` | supervisor | which processes they are |
//! | `stop.json` | driver | that it is to end, and until when |
//! | `deadline.json` | driver | when it is to end if the driver does not put that off |
//! | `exit.json` | supervisor | how it ended; the supervisor has nothing left to do |
//! | `lock` | both | held for as long as a supervisor lives, or one is started |
//! | `out`, `err`, `control` | | pipes with a name: they outlive whoever reads them |
//! | `alive` | | a pipe that the supervisor holds open; whoever reads it sees the end of it |
//! | `out.spool`, `err.spool` | supervisor | what it took from the pipes and has not yet written to the log |
//! | `log/` | supervisor | what the instance wrote |
//! | `work/` | instance | its working directory |
//! | `tmp/` | instance | its `/tmp`; empty at every start |
//! | `root/` | | an empty folder, on which its view of the file system is built |

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::FlockOperation;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tombolo_driver::{DeadlineRecord, Exit, InstanceId, Origin, PublishedPort};

use crate::confine::Confinement;
use crate::launch::LogLimits;
use crate::logfile;
use crate::procfs::ProcessKey;

/// No record comes near it; a file that is longer is not ours.
const RECORD_BYTES_MAX: u64 = 1024 * 1024;

/// The room that is kept for the record of an exit, so that a full disk cannot hide that something
/// ended.
const EXIT_BYTES: usize = 32 * 1024;

/// How the names of folders begin that are about to be removed.
pub(crate) const GOING: &str = "removed-";

/// How a line of the control pipe begins that holds a [`DeadlineRecord`].
pub(crate) const PUT_OFF: &str = "put off to ";

#[derive(Clone, Debug)]
pub(crate) struct Folder {
    path: PathBuf,
}

/// Written before the start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct InstanceRecord {
    pub(crate) id: InstanceId,
    pub(crate) origin: Origin,
    pub(crate) ports: Vec<PublishedPort>,
    pub(crate) restarts: u32,
    pub(crate) last_exit: Option<Exit>,
    pub(crate) notes: Vec<String>,
    /// The folders of its cgroups.
    pub(crate) cgroups: Vec<PathBuf>,
    pub(crate) user: Option<(u32, u32)>,
    /// Nothing for an instance with all rights, and for instances that were started by an agent that knew
    /// no confinement.
    #[serde(default)]
    pub(crate) confinement: Option<Confinement>,
    /// Where it was started.
    #[serde(default)]
    pub(crate) workdir: PathBuf,
    pub(crate) log: LogLimits,
}

/// Written once it runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct RunRecord {
    pub(crate) boot_id: String,
    pub(crate) supervisor: ProcessKey,
    pub(crate) main: ProcessKey,
    pub(crate) since: SystemTime,
}

/// Written when it is asked to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StopRecord {
    /// When it is killed, in milliseconds since the boot: no clock that somebody sets can put it
    /// off.
    pub(crate) kill_at_ms: u64,
}

/// A deadline that the disk has no room for, from a line of the control pipe.
pub(crate) fn read_put_off(line: &str) -> Option<DeadlineRecord> {
    let mut numbers = line.strip_prefix(PUT_OFF)?.split(' ').map(str::parse);
    let mut next = || numbers.next()?.ok();
    Some(DeadlineRecord { end_at_ms: next()?, after_ms: next()?, grace_ms: next()? })
}

impl Folder {
    pub(crate) fn new(path: impl Into<PathBuf>) -> Folder {
        Folder { path: path.into() }
    }

    /// Makes the folder and the folders inside it; does nothing where they are.
    pub(crate) fn make(&self) -> io::Result<()> {
        // The user that the instance runs as must get through to `work`, and see nothing else.
        // Not what it lies in: where that was deleted, nothing is begun anew.
        match fs::DirBuilder::new().mode(0o711).create(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            Ok(()) | Err(_) => (),
        }
        make_folder(&self.path, 0o711)?;
        self.make_lock()?;
        make_folder(&self.work(), 0o700)?;
        make_folder(&self.log(), 0o700)?;
        make_folder(&self.root(), 0o700)?;
        // What the last run left there is nobody's any more.
        match fs::remove_dir_all(self.tmp()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => (),
        }
        make_folder(&self.tmp(), 0o700)?;
        for pipe in [self.out(), self.err(), self.control(), self.alive()] {
            let mode = rustix::fs::Mode::from_raw_mode(0o600);
            match rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, mode) {
                Ok(()) | Err(rustix::io::Errno::EXIST) => (),
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }

    pub(crate) fn make_lock(&self) -> io::Result<()> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(0o600);
        options.open(self.path.join("lock")).map(drop)
    }

    /// Removes all of it. To every reader it is gone at once, and not piece by piece.
    pub(crate) fn remove(&self) -> io::Result<()> {
        let Some(name) = self.path.file_name() else { return Ok(()) };
        let mut going = OsString::from(GOING);
        going.push(name);
        let going = self.path.with_file_name(going);
        fs::rename(&self.path, &going)?;
        fs::remove_dir_all(&going)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.path.join("work")
    }

    pub(crate) fn tmp(&self) -> PathBuf {
        self.path.join("tmp")
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.path.join("root")
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.path.join("log")
    }

    pub(crate) fn out(&self) -> PathBuf {
        self.path.join("out")
    }

    pub(crate) fn err(&self) -> PathBuf {
        self.path.join("err")
    }

    /// By source, as the log's writer has them.
    pub(crate) fn spools(&self) -> [PathBuf; 2] {
        [self.path.join("out.spool"), self.path.join("err.spool")]
    }

    pub(crate) fn control(&self) -> PathBuf {
        self.path.join("control")
    }

    pub(crate) fn alive(&self) -> PathBuf {
        self.path.join("alive")
    }

    pub(crate) fn instance(&self) -> Option<InstanceRecord> {
        read(&self.path.join("instance.json"))
    }

    pub(crate) fn write_instance(&self, record: &InstanceRecord) -> io::Result<()> {
        self.write("instance.json", record)
    }

    pub(crate) fn run(&self) -> Option<RunRecord> {
        read(&self.path.join("run.json"))
    }

    pub(crate) fn write_run(&self, record: &RunRecord) -> io::Result<()> {
        self.write("run.json", record)
    }

    pub(crate) fn stop(&self) -> Option<StopRecord> {
        read(&self.path.join("stop.json"))
    }

    pub(crate) fn write_stop(&self, record: StopRecord) -> io::Result<()> {
        self.write("stop.json", &record)
    }

    pub(crate) fn deadline(&self) -> Option<DeadlineRecord> {
        read(&self.path.join("deadline.json"))
    }

    pub(crate) fn write_deadline(&self, record: Option<DeadlineRecord>) -> io::Result<()> {
        match record {
            Some(record) => self.write("deadline.json", &record),
            None => self.forget("deadline.json"),
        }
    }

    pub(crate) fn exit(&self) -> Option<Exit> {
        read(&self.path.join("exit.json"))
    }

    /// When the last was heard of it. The same at every look, unlike any guess of when it ended.
    pub(crate) fn last_sign(&self) -> SystemTime {
        let changed = |path: PathBuf| fs::metadata(path).and_then(|found| found.modified()).ok();
        let newest = logfile::numbers(&self.log()).last().copied();
        let written = newest.and_then(|number| changed(logfile::path(&self.log(), number)));
        let run = changed(self.path.join("run.json"));
        written.max(run).unwrap_or(SystemTime::UNIX_EPOCH)
    }

    /// Takes the room that [`Folder::write_exit`] will need.
    pub(crate) fn reserve_exit(&self) -> io::Result<()> {
        // It need not be durable: file systems set the room aside when they take the bytes.
        create(&self.reserve())?.write_all(&vec![b' '; EXIT_BYTES])
    }

    /// Makes the exit known, durably, in the room that was kept for it.
    pub(crate) fn write_exit(&self, exit: &Exit) -> io::Result<()> {
        let bytes = serde_json::to_vec(exit)?;
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(self.reserve())?;
        file.write_all(&bytes)?;
        file.set_len(bytes.len() as u64)?;
        file.sync_all()?;
        fs::rename(self.reserve(), self.path.join("exit.json"))?;
        File::open(&self.path)?.sync_all()
    }

    /// Forgets the last run, so that the next one can begin.
    pub(crate) fn clear_run(&self) -> io::Result<()> {
        for name in ["stop.json", "deadline.json", "run.json", "exit.json"] {
            self.forget(name)?;
        }
        Ok(())
    }

    fn forget(&self, name: &str) -> io::Result<()> {
        match fs::remove_file(self.path.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// The lock, unless a supervisor holds it. Whoever has the file has the lock, and a child that
    /// inherits it has it on. Where there is no folder there is no lock: looking for it must not make
    /// one while the folder is removed.
    pub(crate) fn lock(&self) -> io::Result<Option<File>> {
        let file = File::options().read(true).write(true).open(self.path.join("lock"))?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(file)),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Whether `lock` is still the lock of this folder. It is not when somebody has deleted the folder or
    /// moved it away, whatever has been made in its place since.
    pub(crate) fn is_locked_by(&self, lock: &File) -> bool {
        is_file_at(lock, &self.path.join("lock"))
    }

    fn reserve(&self) -> PathBuf {
        self.path.join("exit.reserve")
    }

    /// All of it or nothing. It is not made durable: after a loss of power none of it counts, for
    /// nothing that it speaks of runs any more.
    fn write(&self, name: &str, record: &impl Serialize) -> io::Result<()> {
        let path = self.path.join(name);
        let partial = self.path.join(format!("{name}.new"));
        let written = create(&partial)
            .and_then(|mut file| file.write_all(&serde_json::to_vec(record)?))
            .and_then(|()| fs::rename(&partial, &path));
        if written.is_err() {
            // Half a record would keep room that a full disk needs.
            _ = fs::remove_file(&partial);
        }
        written
    }
}

/// Whether an open file is still the file that its path names. A file system that does not answer says
/// nothing.
pub fn is_file_at(file: &File, path: &Path) -> bool {
    let Ok(held) = file.metadata() else { return true };
    match fs::metadata(path) {
        Ok(found) => (held.dev(), held.ino()) == (found.dev(), found.ino()),
        Err(error) => {
            let gone = [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory];
            held.nlink() > 0 && !gone.contains(&error.kind())
        }
    }
}

/// Makes one folder, with this mode whatever the umask; its parents with what the umask gives.
pub(crate) fn make_folder(path: &Path, mode: u32) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(mode).create(path)?;
    fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode))
}

pub(crate) fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)
}

/// A record, unless there is none or it is damaged, which comes to the same: after a loss of power
/// a file may be empty.
fn read<T: DeserializeOwned>(path: &Path) -> Option<T> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(RECORD_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    serde_json::from_slice(&bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_line_puts_a_deadline_off() {
        let record = DeadlineRecord { end_at_ms: 3, after_ms: 2, grace_ms: 1 };
        assert_eq!(read_put_off(&format!("{PUT_OFF}3 2 1")), Some(record));
        for line in ["", "3", "3 2 1", "put off to ", "put off to 3 2", "put off to 3 2 x"] {
            assert_eq!(read_put_off(line), None, "{line:?}");
        }
    }
}
