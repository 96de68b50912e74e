//! Which of redb's two commits to believe. `database` asks before it opens a file; `header` says
//! first what the bytes mean.
//!
//! redb keeps the last two commits in its header and says with one bit which of them counts. We
//! commit in two phases (see `database`), and redb then takes that bit at its word. The bit has
//! no checksum: were it flipped on disk, the last acknowledged commit would silently be gone.
//!
//! So if the commit that does not count is the newer one, there are two explanations. Either the
//! process was killed between the phases, and the newer commit was never acknowledged; or the bit
//! is wrong, and the newer commit is complete. Taking the newer one whenever it is complete is
//! right in both: an unacknowledged write may be kept. Completeness is tried on a copy that lies
//! in memory, because redb writes when it opens.
//!
//! What is left: the bit and a page of the newest commit damaged at once, in a file that was not closed in
//! order. That cannot be told from a power cut between the phases.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, PoisonError};

use crate::database::verified;
use crate::header::{self, FLAGS_AT, HEADER_BYTES, PRIMARY_FLAG};
use crate::trouble::{Trouble, guarded};

const BLOCK_BYTES: usize = 4096;

/// Puts the header right where that can be done with certainty, and then the bit, if the newer
/// commit is complete.
pub(crate) fn settle(file: &File) -> Result<(), Trouble> {
    let length = file.metadata()?.len();
    if length < HEADER_BYTES as u64 {
        return Err(Trouble::Damaged("its file is shorter than a header".to_owned()));
    }
    let mut found = [0; HEADER_BYTES];
    file.read_exact_at(&mut found, 0)?;
    let header = header::read(&found, length).map_err(Trouble::Damaged)?;
    if header.bytes != found {
        let wrong = found.iter().zip(&header.bytes).filter(|(found, right)| found != right).count();
        tracing::warn!(
            bytes = wrong,
            "the header of the store was damaged and is put right; the disk may be failing"
        );
        file.write_all_at(&header.bytes, 0)?;
        file.sync_data()?;
    }
    let Some(newer) = header.newer() else { return Ok(()) };
    let flags = header.flags() ^ PRIMARY_FLAG;
    match check_commit(file, flags) {
        Ok(()) => {
            tracing::warn!(transaction = newer, "completing a commit that was cut off");
            file.write_all_at(&[flags], FLAGS_AT as u64)?;
            Ok(file.sync_data()?)
        }
        // Nothing was under way, so that this commit was complete and acknowledged.
        Err(trouble) if header.was_closed() => Err(trouble),
        Err(_) => Ok(()),
    }
}

/// Opens and verifies a copy as if the file had these flags.
fn check_commit(file: &File, flags: u8) -> Result<(), Trouble> {
    let copy = Copy::new(file.try_clone()?)?;
    redb::StorageBackend::write(&copy, FLAGS_AT as u64, &[flags])?;
    guarded(|| verified(copy).map(drop))
}

/// A file whose changes stay in memory.
#[derive(Debug)]
struct Copy {
    file: File,
    changes: Mutex<Changes>,
}

#[derive(Debug)]
struct Changes {
    len: u64,
    /// Below this the file still shows where no block is.
    file_len: u64,
    blocks: BTreeMap<u64, Box<[u8]>>,
}

impl Copy {
    fn new(file: File) -> io::Result<Copy> {
        let len = file.metadata()?.len();
        let changes = Changes { len, file_len: len, blocks: BTreeMap::new() };
        Ok(Copy { file, changes: Mutex::new(changes) })
    }

    fn load(&self, changes: &Changes, block: u64, out: &mut [u8]) -> io::Result<()> {
        if let Some(data) = changes.blocks.get(&block) {
            out.copy_from_slice(data);
            return Ok(());
        }
        out.fill(0);
        let start = block * BLOCK_BYTES as u64;
        let there = changes.file_len.saturating_sub(start).min(BLOCK_BYTES as u64);
        let there = usize::try_from(there).expect("at most a block");
        self.file.read_exact_at(&mut out[..there], start)
    }
}

/// The parts of blocks that a range touches: block, offset in it, length.
fn parts(offset: u64, length: usize) -> impl Iterator<Item = (u64, usize, usize)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        if done == length {
            return None;
        }
        let at = offset + done as u64;
        let within = usize::try_from(at % BLOCK_BYTES as u64).expect("less than a block");
        let size = (BLOCK_BYTES - within).min(length - done);
        done += size;
        Some((at / BLOCK_BYTES as u64, within, size))
    })
}

impl redb::StorageBackend for Copy {
    fn len(&self) -> io::Result<u64> {
        Ok(self.changes.lock().unwrap_or_else(PoisonError::into_inner).len)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        if offset + out.len() as u64 > changes.len {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut buffer = vec![0; BLOCK_BYTES];
        let mut done = 0;
        for (block, within, size) in parts(offset, out.len()) {
            self.load(&changes, block, &mut buffer)?;
            out[done..done + size].copy_from_slice(&buffer[within..within + size]);
            done += size;
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        changes.len = len;
        changes.file_len = changes.file_len.min(len);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        let mut done = 0;
        for (block, within, size) in parts(offset, data.len()) {
            let mut buffer = vec![0; BLOCK_BYTES];
            self.load(&changes, block, &mut buffer)?;
            buffer[within..within + size].copy_from_slice(&data[done..done + size]);
            changes.blocks.insert(block, buffer.into());
            done += size;
        }
        Ok(())
    }
}
