//! The folder in which an agent keeps when its containers are to end without it, and which engine has
//! them. The driver writes it, the [`guard`](crate::guard) reads it, and an uninstall looks whether
//! there ever was a container.
//!
//! | file | says |
//! |---|---|
//! | `engine.json` | the socket of the engine and our name there; from the first container on |
//! | `guard.lock` | held by the guard for as long as it lives |
//! | `deadlines/ID` | when the instance is to end; there for as long as it may run |

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::fs::FlockOperation;
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};
use tombolo_driver::{Deadline, DeadlineRecord, InstanceId};

use crate::tag;

/// Nothing in the folder comes near it.
const FILE_BYTES_MAX: u64 = 64 * 1024;
const ENGINE: &str = "engine.json";
/// A boot's id has so many characters.
const BOOT_ID_CHARS: usize = 36;

/// Where the deadlines are kept, and the program that keeps them while the agent cannot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guarded {
    pub folder: PathBuf,
    /// The program, and its first arguments, that calls [`crate::guard::main`] with the rest.
    pub guard: Vec<OsString>,
}

/// The engine that has, or had, containers of the agent's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Used {
    pub socket: PathBuf,
    pub agent: String,
}

impl Used {
    /// Nothing if the agent whose folder this is never had a container.
    pub fn read(folder: &Path) -> Option<Used> {
        let mut text = String::new();
        let file = File::open(folder.join(ENGINE)).ok()?;
        file.take(FILE_BYTES_MAX).read_to_string(&mut text).ok()?;
        let value: Value = serde_json::from_str(&text).ok()?;
        let text = |name: &str| Some(value[name].as_str()?.to_owned());
        Some(Used { socket: text("socket")?.into(), agent: text("agent")? })
    }

    /// What finds all that is ours, in the words of `docker ps --filter`.
    pub fn filter(&self) -> String {
        tag::of_agent(&self.agent)
    }

    fn write(&self, folder: &Path) -> io::Result<()> {
        let text = json!({"socket": self.socket.to_str(), "agent": self.agent}).to_string();
        let draft = folder.join("engine.json.new");
        fs::write(&draft, text)?;
        fs::rename(draft, folder.join(ENGINE))
    }
}

/// The driver's side.
#[derive(Debug)]
pub(crate) struct Deadlines {
    guarded: Guarded,
    used: Used,
    /// It is written down in the folder that we have an engine.
    noted: AtomicBool,
    /// The guard that we started, if it was us.
    child: Mutex<Option<Child>>,
}

impl Deadlines {
    pub(crate) fn new(guarded: Guarded, used: Used) -> Deadlines {
        Deadlines { guarded, used, noted: AtomicBool::new(false), child: Mutex::default() }
    }

    fn records(&self) -> Records {
        Records::of(&self.guarded.folder)
    }

    /// From now on there may be containers of ours.
    pub(crate) fn note_use(&self) -> io::Result<()> {
        if self.noted.load(Ordering::Relaxed) {
            return Ok(());
        }
        if Used::read(&self.guarded.folder).as_ref() != Some(&self.used) {
            make_folder(&self.guarded.folder)?;
            self.used.write(&self.guarded.folder)?;
        }
        self.noted.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Returns when the deadline is kept also without this agent.
    pub(crate) fn put(&self, id: &InstanceId, deadline: Option<Deadline>) -> io::Result<()> {
        let Some(deadline) = deadline else { return self.forget(id) };
        self.note_use()?;
        self.records().put(id, DeadlineRecord::of(deadline))?;
        // In this order: a guard that is about to end looks once more after it has let go of its lock.
        self.see_to_the_guard()
    }

    pub(crate) fn forget(&self, id: &InstanceId) -> io::Result<()> {
        self.records().forget(id)
    }

    /// The agent says good-bye.
    pub(crate) fn part(&self) -> io::Result<()> {
        let (records, now) = (self.records(), since_boot());
        let mut parted = Ok(());
        for id in records.ids().unwrap_or_default() {
            if let Some(Ok(record)) = records.read(&id) {
                parted = parted.and(records.put(&id, record.parted(now)));
            }
        }
        parted
    }

    /// Nothing of ours is in the engine any more.
    pub(crate) fn clear(&self) -> io::Result<()> {
        self.noted.store(false, Ordering::Relaxed);
        match fs::remove_dir_all(&self.guarded.folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    fn see_to_the_guard(&self) -> io::Result<()> {
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(guard) = child.as_mut()
            && guard.try_wait()?.is_none()
        {
            return Ok(());
        }
        // An earlier agent may have started a guard.
        if lock(&self.guarded.folder)?.is_none() {
            return Ok(());
        }
        let mut words = self.guarded.guard.iter();
        let program = words.next().ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        let mut guard = Command::new(program);
        guard.args(words).arg(&self.guarded.folder).env_clear().current_dir("/");
        guard.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        *child = Some(guard.spawn()?);
        Ok(())
    }
}

/// The records, as the driver writes and the guard reads them.
#[derive(Debug)]
pub(crate) struct Records {
    folder: PathBuf,
    boot_id: String,
}

impl Records {
    pub(crate) fn of(folder: &Path) -> Records {
        let boot_id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        Records { folder: folder.join("deadlines"), boot_id: boot_id.trim().to_owned() }
    }

    pub(crate) fn ids(&self) -> io::Result<Vec<InstanceId>> {
        let entries = fs::read_dir(&self.folder)?.collect::<io::Result<Vec<_>>>()?;
        Ok(entries.iter().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect())
    }

    /// Something to read from whenever a record is written or forgotten.
    pub(crate) fn changes(&self) -> io::Result<OwnedFd> {
        let changes = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        let written = WatchFlags::CREATE | WatchFlags::MODIFY;
        let gone = WatchFlags::DELETE | WatchFlags::DELETE_SELF | WatchFlags::MOVE_SELF;
        inotify::add_watch(&changes, &self.folder, written | gone)?;
        Ok(changes)
    }

    /// In the place of what was there, so that a full disk keeps no deadline from being put off.
    fn put(&self, id: &InstanceId, record: DeadlineRecord) -> io::Result<()> {
        make_folder(&self.folder)?;
        let path = self.folder.join(id.to_string());
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(false).mode(0o600).open(&path)?;
        let written = file.write_all_at(written(&self.boot_id, record).as_bytes(), 0);
        if written.is_err() && self.read(id).is_none_or(|read| read.is_err()) {
            // Half a record would say nothing, for ever.
            _ = fs::remove_file(&path);
        }
        written
    }

    /// Nothing where there is no record; an error where it cannot be read, because it is just being
    /// written. A record from before the last boot is over: nothing that it speaks of runs any more.
    pub(crate) fn read(&self, id: &InstanceId) -> Option<Result<DeadlineRecord, Unread>> {
        let mut text = String::new();
        let file = match File::open(self.folder.join(id.to_string())) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(_) => return Some(Err(Unread)),
        };
        match file.take(FILE_BYTES_MAX).read_to_string(&mut text) {
            Ok(_) => read(&text, &self.boot_id).transpose(),
            Err(_) => Some(Err(Unread)),
        }
    }

    fn forget(&self, id: &InstanceId) -> io::Result<()> {
        match fs::remove_file(self.folder.join(id.to_string())) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            Ok(()) | Err(_) => Ok(()),
        }
    }
}

/// A record that says nothing at this moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unread;

/// Always of the same length, and twice: who reads it while it is written sees that the two differ.
fn written(boot_id: &str, record: DeadlineRecord) -> String {
    let DeadlineRecord { end_at_ms, after_ms, grace_ms } = record;
    let line = format!("{boot_id:BOOT_ID_CHARS$} {end_at_ms:020} {after_ms:020} {grace_ms:020}\n");
    line.repeat(2)
}

fn read(text: &str, boot_id: &str) -> Result<Option<DeadlineRecord>, Unread> {
    let (one, two) = text.split_at_checked(text.len() / 2).ok_or(Unread)?;
    if one != two {
        return Err(Unread);
    }
    let words: Vec<&str> = one.split_ascii_whitespace().collect();
    let [boot, end_at, after, grace] = words.as_slice() else { return Err(Unread) };
    let number = |word: &str| word.parse().map_err(|_| Unread);
    let record = DeadlineRecord {
        end_at_ms: number(end_at)?,
        after_ms: number(after)?,
        grace_ms: number(grace)?,
    };
    Ok((*boot == boot_id).then_some(record))
}

/// The lock of the guard, if nobody has it.
pub(crate) fn lock(folder: &Path) -> io::Result<Option<File>> {
    let mut options = OpenOptions::new();
    let options = options.write(true).create(true).truncate(false).mode(0o600);
    let file = options.open(folder.join("guard.lock"))?;
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file)),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

/// How long the machine has been up, asleep or awake. Nobody can set it.
pub(crate) fn since_boot() -> Duration {
    let time = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Not what it lies in: an agent whose folder was deleted begins nothing anew.
fn make_folder(path: &Path) -> io::Result<()> {
    match fs::DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOOT: &str = "6f3b1c1e-0c2d-4b7e-9d51-2f1f6f6a7b10";

    #[test]
    fn a_record_is_read_as_it_was_written_and_never_by_halves() {
        let record = DeadlineRecord { end_at_ms: 36_000, after_ms: 10_000, grace_ms: u64::MAX };
        let other = DeadlineRecord { end_at_ms: 46_000, ..record };
        let (text, next) = (written(BOOT, record), written(BOOT, other));
        assert_eq!((text.len(), next.len()), (200, 200), "it fits in the place of the one before");
        assert_eq!(read(&text, BOOT), Ok(Some(record)));
        assert_eq!(read(&text, "another boot"), Ok(None), "nothing of it runs any more");
        for cut in 0..text.len() {
            let torn = format!("{}{}", &next[..cut], &text[cut..]);
            let read = read(&torn, BOOT);
            assert!([Err(Unread), Ok(Some(record)), Ok(Some(other))].contains(&read), "{torn}");
            assert!(cut == 0 || super::read(&text[..cut], BOOT).is_err() || cut == 100, "{cut}");
        }
    }

    #[test]
    fn a_deadline_is_put_off_brought_nearer_and_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let records = Records::of(folder.path());
        let id: InstanceId = "u-1.2a".parse().unwrap();
        assert_eq!(records.read(&id), None);
        let record = DeadlineRecord { end_at_ms: 3, after_ms: 2, grace_ms: 1 };
        records.put(&id, record).unwrap();
        let later = DeadlineRecord { end_at_ms: 30, ..record };
        records.put(&id, later).unwrap();
        assert_eq!(records.read(&id), Some(Ok(later)));
        assert_eq!(records.ids().unwrap(), std::slice::from_ref(&id));
        records.forget(&id).unwrap();
        records.forget(&id).unwrap();
        assert_eq!(records.ids().unwrap(), []);
    }

    #[test]
    fn an_engine_that_was_used_is_known_by_its_socket_and_our_name_there() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(Used::read(folder.path()), None);
        let used = Used { socket: "/run/d.sock".into(), agent: "north/crane@1f".to_owned() };
        used.write(folder.path()).unwrap();
        assert_eq!(Used::read(folder.path()), Some(used.clone()));
        assert_eq!(used.filter(), "label=tombolo.dev/agent=north/crane@1f");
    }
}
