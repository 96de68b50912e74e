//! Revisioned objects, durable and watched, over redb.
//!
//! One global revision counts the writes. An object is a key and bytes; the bytes carry the
//! revision of their last change. Writers are many and go through one thread that commits
//! whatever waits as one group ([`Store::commit`]); nothing is answered or shown before it is
//! durable. Readers never touch the disk: the current objects and the recent events are in
//! memory ([`Store::get`], [`Store::list`], [`Store::watch`]).
//!
//! `apiserver` is the main caller. To read the code, start at [`Store`], then `writer` (how a
//! write becomes durable), `memory` (what readers see) and `database` (what lies on disk).

mod amend;
mod backup;
pub mod bench;
mod checksum;
mod command;
mod database;
mod disk;
mod error;
mod group;
mod header;
mod memory;
mod object;
mod record;
mod sealing;
mod slots;
mod trouble;
mod watch;
mod writer;

#[cfg(test)]
mod tests;

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::thread::JoinHandle;

use bytes::Bytes;
use tokio::sync::oneshot;

pub use crate::amend::{Amend, Amendment, Objects};
pub use crate::backup::{Summary, verify_backup};
use crate::command::{Call, Command, Reply};
use crate::database::Database;
use crate::disk::Disk;
pub use crate::error::{Error, Result};
use crate::memory::State;
use crate::object::within;
pub use crate::object::{
    CALL_BYTES_MAX, Change, Draft, Event, Expect, KEY_BYTES_MAX, Kind, NOTE_BYTES_MAX, Object,
    VALUE_BYTES_MAX, WRITES_PER_CALL_MAX, Write,
};
pub use crate::sealing::Sealing;
pub use crate::watch::Watch;
use crate::writer::Writer;

/// More than any screen shows; a longer record is read in pieces.
const AUDIT_ROWS_MAX: usize = 10_000;

#[derive(Debug, Clone)]
pub struct Options {
    /// How many past writes can be watched or listed at.
    pub history_events_max: usize,
    /// How many bytes of past versions those may keep in memory.
    pub history_bytes_max: usize,
    /// How many notes the audit record keeps; the oldest go.
    pub audit_notes_max: u64,
    /// How many calls may wait to be written. More are turned away at once.
    pub queue_calls_max: usize,
    pub queue_bytes_max: usize,
    /// What lies on disk sealed. A store that was ever sealed opens with the same key only.
    pub sealing: Option<Sealing>,
    /// Answers before the commit instead of after it. For the crash test, which must find it.
    #[cfg(feature = "planted-bugs")]
    pub acknowledge_before_durable: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            history_events_max: 65_536,
            // With three thousand nodes whose agents beat, two minutes.
            history_bytes_max: 32 * 1024 * 1024,
            audit_notes_max: 1_000_000,
            queue_calls_max: 4_096,
            queue_bytes_max: 64 * 1024 * 1024,
            sealing: None,
            #[cfg(feature = "planted-bugs")]
            acknowledge_before_durable: false,
        }
    }
}

/// Which state to list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum At {
    Latest,
    Revision(u64),
}

/// A part of a list, in the order of the keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// The state that was listed. The next page must ask for the same.
    pub revision: u64,
    pub objects: Vec<Arc<Object>>,
    pub more: bool,
    /// How many objects come after this page.
    pub remaining: usize,
}

/// Events for a watcher, in the order of their revisions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    pub events: Vec<Event>,
    /// The watcher now has everything that matches up to here.
    pub revision: u64,
}

/// One object together with the revision of the whole store at which it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    pub revision: u64,
    pub object: Option<Arc<Object>>,
}

/// A handle on an open store. Clones share it; it is closed when the last one is dropped.
#[derive(Debug, Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    shared: Arc<Shared>,
    options: Options,
    /// `None` only while this is dropped.
    queue: Option<SyncSender<Command>>,
    thread: Option<JoinHandle<()>>,
    /// Held for as long as the store is open; the last to go.
    _lock: Lock,
}

/// What the handles, the watches and the writer thread have in common.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    state: RwLock<State>,
    queued_bytes: AtomicUsize,
    /// What the writer has found to be damaged; it writes no more then.
    damage: OnceLock<Error>,
}

impl Shared {
    /// A panic elsewhere does not leave the state half changed in a way that reading could show:
    /// the writer closes the store first.
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn dequeued(&self, bytes: usize) {
        self.queued_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Store {
    /// Opens the store in `dir`, or creates both. Reads and verifies everything that is there,
    /// so it blocks for a moment; `Corrupt` says what is damaged and what to do.
    pub fn open(dir: impl AsRef<Path>, options: Options) -> Result<Store> {
        let dir = dir.as_ref();
        let disk = Arc::new(Disk::new(dir));
        Store::open_on(dir, options, disk)
    }

    pub(crate) fn open_on(dir: &Path, options: Options, disk: Arc<Disk>) -> Result<Store> {
        let lock = lock(dir)?;
        Store::open_locked(dir, options, disk, lock)
    }

    fn open_locked(dir: &Path, options: Options, disk: Arc<Disk>, lock: Lock) -> Result<Store> {
        let database = Database::open(dir, &disk, options.sealing.as_ref())?;
        let loaded = trouble::guarded(|| database.load());
        let loaded = loaded.map_err(|trouble| trouble.into_error(dir, "read the store"))?;
        let (state, loaded) = loaded.split();
        let shared = Arc::new(Shared { state: RwLock::new(state), ..Shared::default() });
        let writer =
            Writer::new(dir.into(), options.clone(), shared.clone(), disk, database, loaded);
        let (queue, receiver) = sync_channel(options.queue_calls_max);
        let thread = std::thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn(move || writer.run(&receiver))
            .map_err(|error| Error::io("start the writer thread", error))?;
        let inner =
            Inner { shared, options, queue: Some(queue), thread: Some(thread), _lock: lock };
        Ok(Store { inner: Arc::new(inner) })
    }

    /// Writes all or nothing, in one transaction, and returns the objects with their new
    /// revisions, in the order of the writes, once they are durable. A caller that stops waiting
    /// does not stop the write.
    pub async fn commit(&self, writes: Vec<Write>) -> Result<Vec<Arc<Object>>> {
        within("number of writes", writes.len(), WRITES_PER_CALL_MAX)?;
        writes.iter().try_for_each(Write::check)?;
        let bytes = writes.iter().map(Write::len).sum();
        within("length of the call in bytes", bytes, CALL_BYTES_MAX)?;
        if writes.is_empty() {
            return Ok(Vec::new());
        }
        let queued_bytes = &self.inner.shared.queued_bytes;
        let queued = queued_bytes.fetch_add(bytes, Ordering::Relaxed);
        // An empty queue takes any call, so that no call is turned away for ever.
        let sent = if queued > 0 && queued + bytes > self.inner.options.queue_bytes_max {
            Err(Error::Overloaded)
        } else {
            self.send(|reply| Command::Commit(Call { writes, bytes, reply }))
        };
        match sent {
            Ok(answer) => answer.await.map_err(|_| Error::Closed)?,
            Err(error) => {
                queued_bytes.fetch_sub(bytes, Ordering::Relaxed);
                Err(error)
            }
        }
    }

    pub fn get(&self, key: &str) -> Option<Arc<Object>> {
        self.inner.shared.read().objects.get(key).cloned()
    }

    /// Like [`Store::get`], together with the revision at which it is true.
    pub fn read(&self, key: &str) -> Reading {
        let state = self.inner.shared.read();
        Reading { revision: state.revision, object: state.objects.get(key).cloned() }
    }

    /// Whether the writer has ended, so that nothing can be written any more.
    pub fn is_closed(&self) -> bool {
        self.inner.shared.read().closed
    }

    /// The damage to its file that was found while it was open. Reading goes on, from memory; every
    /// write is answered with this, until a backup is restored.
    pub fn damage(&self) -> Option<Error> {
        self.inner.shared.damage.get().cloned()
    }

    /// The newest revision.
    pub fn revision(&self) -> u64 {
        self.inner.shared.read().revision
    }

    /// The oldest revision that can be listed, and that a watch can start after.
    pub fn compacted(&self) -> u64 {
        self.inner.shared.read().compacted
    }

    /// The objects whose keys start with `prefix` and are greater than `after`.
    pub fn list(&self, prefix: &str, at: At, after: Option<&str>, limit: usize) -> Result<Page> {
        self.inner.shared.read().list(prefix, at, after, limit, usize::MAX)
    }

    /// Like [`Store::list`], but tells only whether there is more, not how much: a page of a large
    /// collection costs no more than that of a small one.
    pub fn scan(&self, prefix: &str, at: At, after: Option<&str>, limit: usize) -> Result<Page> {
        self.inner.shared.read().list(prefix, at, after, limit, 1)
    }

    /// Follows the objects whose keys start with `prefix`, from the first write after `revision`.
    pub fn watch(&self, prefix: &str, after: u64) -> Result<Watch> {
        Watch::start(self.inner.shared.clone(), prefix, after)
    }

    /// Forgets the history up to `revision`; that state can still be listed.
    pub async fn compact(&self, revision: u64) -> Result<()> {
        self.send(|reply| Command::Compact { revision, reply })?.await.map_err(|_| Error::Closed)?
    }

    /// The notes of the writes after a revision, oldest first.
    pub async fn audit(&self, after: u64, limit: usize) -> Result<Vec<(u64, Bytes)>> {
        let limit = limit.min(AUDIT_ROWS_MAX);
        self.send(|reply| Command::Audit { after, limit, reply })?
            .await
            .map_err(|_| Error::Closed)?
    }

    /// Writes the objects of one revision, while writing goes on. The format is documented in
    /// `backup.rs`. Blocks.
    pub fn backup(&self, writer: impl io::Write) -> Result<Summary> {
        let (revision, objects) = {
            let state = self.inner.shared.read();
            (state.revision, state.objects.values().cloned().collect::<Vec<_>>())
        };
        backup::write(revision, &objects, writer)
            .map_err(|error| Error::io("write the backup", error))
    }

    /// Replaces all objects by those of a backup as `amend` has them, in one transaction, and
    /// returns the new revision. Revisions keep growing, every watch ends, and no older revision
    /// can be read. A damaged backup is refused before anything changes.
    pub async fn restore(
        &self,
        reader: impl io::Read + Send + 'static,
        amend: Amend,
    ) -> Result<u64> {
        let backup = tokio::task::spawn_blocking(move || backup::read(reader))
            .await
            .map_err(|_| Error::Closed)??;
        let answer = self.send(|reply| Command::Restore { backup, amend, reply })?;
        answer.await.map_err(|_| Error::Closed)?
    }

    fn send<T>(
        &self,
        command: impl FnOnce(Reply<T>) -> Command,
    ) -> Result<oneshot::Receiver<Result<T>>> {
        let (reply, answer) = oneshot::channel();
        let queue = self.inner.queue.as_ref().expect("it is there until the drop");
        match queue.try_send(command(reply)) {
            Ok(()) => Ok(answer),
            Err(TrySendError::Full(_)) => Err(Error::Overloaded),
            Err(TrySendError::Disconnected(_)) => Err(Error::Closed),
        }
    }
}

/// Restores a backup into a directory that no process uses, also if the store there is damaged;
/// the damaged file is put aside, and its audit record is lost with it. Returns the new revision.
/// Blocks, and must not be called from async code.
pub fn restore_offline(
    dir: impl AsRef<Path>,
    options: Options,
    reader: impl io::Read,
    mut amend: Amend,
) -> Result<u64> {
    let dir = dir.as_ref();
    let backup = backup::read(reader)?;
    // A refusal must leave the folder as it is: without a store, or with the damaged one.
    if !Database::is_there(dir) {
        amend = amend.decided_for_nothing(&backup.objects)?;
    }
    let store = match Store::open(dir, options.clone()) {
        Err(Error::Corrupt { what, .. }) => {
            amend = amend.decided_for_nothing(&backup.objects)?;
            let lock = lock(dir)?;
            let aside = Database::set_aside(dir)
                .map_err(|error| Error::io("put the damaged store aside", error))?;
            tracing::warn!(what, aside = %aside.display(), "the damaged store was put aside");
            Store::open_locked(dir, options, Arc::new(Disk::new(dir)), lock)?
        }
        opened => opened?,
    };
    let answer = store.send(|reply| Command::Restore { backup, amend, reply })?;
    answer.blocking_recv().map_err(|_| Error::Closed)?
}

/// The file `lock`, which others may look at, and the folder itself: a file can be removed and made anew.
type Lock = [File; 2];

fn lock(dir: &Path) -> Result<Lock> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .map_err(|error| Error::io(format!("create {}", dir.display()), error))?;
    let path = dir.join("lock");
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&path)
        .map_err(|error| Error::io(format!("open {}", path.display()), error))?;
    let folder =
        File::open(dir).map_err(|error| Error::io(format!("open {}", dir.display()), error))?;
    let lock = [file, folder];
    for one in &lock {
        match one.try_lock() {
            Ok(()) => (),
            Err(TryLockError::WouldBlock) => return Err(Error::Locked { dir: dir.into() }),
            Err(TryLockError::Error(error)) => {
                return Err(Error::io(format!("lock {}", path.display()), error));
            }
        }
    }
    Ok(lock)
}

impl Drop for Inner {
    fn drop(&mut self) {
        // The thread ends when the queue does. Waiting for it means that the store can be opened
        // again as soon as the last handle is gone.
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}
