//! The file below redb, and the room it takes. `database` opens it; `writer` asks [`Disk`] about
//! the room.
//!
//! Three things differ from redb's own file backend. A failed sync ends the process: after it
//! nobody knows what the disk holds, and the next sync would report success. Blocks are allocated
//! before they are written, so that a full disk shows as an error of a write, which can be undone,
//! and not of a sync, which cannot. And a ballast file keeps some room for the time when the disk
//! is full, because deleting needs room too.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::FallocateFlags;

use crate::error::is_full;

/// Room for some thousand deletes, also when each of them must copy a few pages of 4 KiB.
const BALLAST_BYTES: u64 = 16 * 1024 * 1024;
/// What must be free beside the ballast before writing goes on. Without it, the room that the
/// ballast itself gave back would end the emergency, and the next write would begin it again.
pub(crate) const MARGIN_BYTES: u64 = 4 * 1024 * 1024;
/// Blocks are allocated in pieces of this size: few system calls, and little is taken ahead.
const CHUNK_BYTES: u64 = 1024 * 1024;

/// The room on the disk that holds the store. Shared by the file backend and the writer.
#[derive(Debug)]
pub(crate) struct Disk {
    ballast: PathBuf,
    /// Whether an allocation or a write has failed for want of room since this was last asked.
    full: AtomicBool,
    /// How often anything was made durable, not counting that the file grew.
    syncs: AtomicU64,
    grown: AtomicBool,
    /// How many bytes may still be allocated. Tests set it; otherwise the file system decides.
    room: AtomicU64,
    /// The chunks of the store's file that certainly have blocks, each asked for once.
    allocated: Mutex<BTreeSet<u64>>,
    /// Everything that was done to the file, for the test that cuts the power.
    #[cfg(test)]
    pub(crate) recorded: Mutex<Vec<Recorded>>,
    /// From here on every write of a page is said to be done, and half of it is.
    #[cfg(test)]
    pub(crate) lies: AtomicBool,
}

#[cfg(test)]
#[derive(Debug)]
pub(crate) enum Recorded {
    Write {
        offset: u64,
        data: Vec<u8>,
    },
    SetLen(u64),
    Sync,
    /// The test itself puts this in: a caller was told that this revision is durable.
    Acknowledged(u64),
}

impl Disk {
    pub(crate) fn new(dir: &Path) -> Disk {
        Disk {
            ballast: dir.join("reserve"),
            full: AtomicBool::new(false),
            syncs: AtomicU64::new(0),
            grown: AtomicBool::new(false),
            room: AtomicU64::new(u64::MAX),
            allocated: Mutex::new(BTreeSet::new()),
            #[cfg(test)]
            recorded: Mutex::new(Vec::new()),
            #[cfg(test)]
            lies: AtomicBool::new(false),
        }
    }

    /// Whether the disk ran full since the last call.
    pub(crate) fn ran_full(&self) -> bool {
        self.full.swap(false, Ordering::Relaxed)
    }

    /// Changes with every step that can have made a commit durable. redb syncs also when the file
    /// grows, which comes before it writes the header of a commit, so that this does not count.
    pub(crate) fn syncs(&self) -> u64 {
        self.syncs.load(Ordering::Relaxed)
    }

    /// Puts the ballast in place. Does nothing if it is there already.
    pub(crate) fn take_ballast(&self) -> io::Result<()> {
        let file =
            OpenOptions::new().write(true).create(true).truncate(false).open(&self.ballast)?;
        let present = file.metadata()?.len();
        if present == BALLAST_BYTES {
            return Ok(());
        }
        let wanted = BALLAST_BYTES + MARGIN_BYTES;
        let taken = self.take_room(wanted).and_then(|()| {
            allocate(&file, FallocateFlags::empty(), 0, wanted)
                .inspect_err(|_| self.give_room(wanted))
        });
        if let Err(error) = taken {
            // Half a ballast would keep others from the room that is left.
            file.set_len(0)?;
            return Err(error);
        }
        self.give_room(MARGIN_BYTES);
        // Where blocks cannot be allocated ahead, the length alone keeps no room, and does no harm.
        file.set_len(BALLAST_BYTES)
    }

    pub(crate) fn release_ballast(&self) -> io::Result<()> {
        match OpenOptions::new().write(true).open(&self.ballast) {
            Ok(file) => {
                if file.metadata()?.len() == BALLAST_BYTES {
                    self.give_room(BALLAST_BYTES);
                }
                file.set_len(0)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn take_room(&self, bytes: u64) -> io::Result<()> {
        let taken = self.room.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |room| {
            if room == u64::MAX { Some(room) } else { room.checked_sub(bytes) }
        });
        match taken {
            Ok(_) => Ok(()),
            Err(_) => Err(io::Error::from(io::ErrorKind::StorageFull)),
        }
    }

    fn give_room(&self, bytes: u64) {
        let give = |room: u64| Some(room.saturating_add(bytes));
        let given = self.room.fetch_update(Ordering::Relaxed, Ordering::Relaxed, give);
        given.expect("the closure never refuses");
    }

    #[cfg(test)]
    pub(crate) fn set_room(&self, bytes: u64) {
        self.room.store(bytes, Ordering::Relaxed);
    }

    #[cfg(test)]
    pub(crate) fn record(&self, recorded: Recorded) {
        self.recorded.lock().unwrap().push(recorded);
    }

    /// Half of a page if this disk lies. The header it keeps: without it nothing would be there to read.
    #[cfg(test)]
    fn what_is_really_written<'a>(&self, offset: u64, data: &'a [u8]) -> &'a [u8] {
        let lies = offset > 0 && self.lies.load(Ordering::Relaxed);
        if lies { &data[..data.len() / 2] } else { data }
    }

    fn noted<T>(&self, result: io::Result<T>) -> io::Result<T> {
        if let Err(error) = &result
            && is_full(error)
        {
            self.full.store(true, Ordering::Relaxed);
        }
        result
    }
}

/// One open file, as redb wants it. The directory has a lock of its own, so that redb's locks
/// are not needed.
#[derive(Debug)]
pub(crate) struct Backend {
    file: File,
    disk: Arc<Disk>,
}

impl Backend {
    pub(crate) fn new(file: File, disk: Arc<Disk>) -> Backend {
        Backend { file, disk }
    }

    fn reserve(&self, offset: u64, length: u64) -> io::Result<()> {
        let mut allocated = self.disk.allocated.lock().unwrap_or_else(PoisonError::into_inner);
        for chunk in offset / CHUNK_BYTES..(offset + length).div_ceil(CHUNK_BYTES) {
            if !allocated.contains(&chunk) {
                self.disk.take_room(CHUNK_BYTES)?;
                allocate(&self.file, FallocateFlags::KEEP_SIZE, chunk * CHUNK_BYTES, CHUNK_BYTES)?;
                allocated.insert(chunk);
            }
        }
        Ok(())
    }
}

impl redb::StorageBackend for Backend {
    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(out, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut allocated = self.disk.allocated.lock().unwrap_or_else(PoisonError::into_inner);
        let gone = allocated.split_off(&len.div_ceil(CHUNK_BYTES));
        self.disk.give_room(CHUNK_BYTES * gone.len() as u64);
        #[cfg(test)]
        self.disk.record(Recorded::SetLen(len));
        self.disk.grown.store(true, Ordering::Relaxed);
        self.disk.noted(self.file.set_len(len))
    }

    fn sync_data(&self) -> io::Result<()> {
        if let Err(error) = self.file.sync_data() {
            // Nothing that was written since the last sync can be trusted, and no later sync
            // would say so. What has been acknowledged is on disk: a restart finds it.
            tracing::error!(%error, "syncing the store failed; stopping");
            std::process::abort();
        }
        #[cfg(test)]
        self.disk.record(Recorded::Sync);
        if !self.disk.grown.swap(false, Ordering::Relaxed) {
            self.disk.syncs.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.disk.noted(self.reserve(offset, data.len() as u64))?;
        self.disk.grown.store(false, Ordering::Relaxed);
        #[cfg(test)]
        self.disk.record(Recorded::Write { offset, data: data.to_vec() });
        #[cfg(test)]
        let data = self.disk.what_is_really_written(offset, data);
        self.disk.noted(self.file.write_all_at(data, offset))
    }
}

/// A file that is still being made. It counts only when it gets its name, and is synced before it gets
/// it; redb's nine syncs on the way there would only make the first start slower.
#[derive(Debug)]
pub(crate) struct Unfinished(pub(crate) Backend);

impl redb::StorageBackend for Unfinished {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write(offset, data)
    }
}

fn allocate(file: &File, mode: FallocateFlags, offset: u64, length: u64) -> io::Result<()> {
    loop {
        return match rustix::fs::fallocate(file, mode, offset, length) {
            Ok(()) => Ok(()),
            Err(rustix::io::Errno::INTR) => continue,
            // Not every file system can. Writing still reports a full disk on most of them.
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => Ok(()),
            Err(errno) => Err(errno.into()),
        };
    }
}
