//! Which of redb's two commits to believe. `database` asks before it opens a file.
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

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, PoisonError};

use crate::database::verified;
use crate::trouble::{Trouble, guarded};

/// The places of redb's file format 3 that are needed here.
const FLAGS_AT: u64 = 9;
const PRIMARY_FLAG: u8 = 1;
const SLOTS_AT: [u64; 2] = [64, 192];
const TRANSACTION_IN_SLOT: u64 = 104;
const HEADER_BYTES: u64 = 320;
const BLOCK_BYTES: usize = 4096;

/// Corrects the bit if the newer commit is complete.
pub(crate) fn settle(file: &File) -> Result<(), Trouble> {
    if file.metadata()?.len() < HEADER_BYTES {
        return Err(Trouble::Damaged("its file is shorter than a header".to_owned()));
    }
    let mut flags = [0];
    file.read_exact_at(&mut flags, FLAGS_AT)?;
    let [flags] = flags;
    let primary = usize::from(flags & PRIMARY_FLAG);
    let counting = transaction(file, SLOTS_AT[primary])?;
    let other = transaction(file, SLOTS_AT[primary ^ 1])?;
    if other <= counting {
        return Ok(());
    }
    // Were the counting commit's slot damaged, its number could be wrong, and the other not newer.
    check_header(file)?;
    if check_commit(file, flags ^ PRIMARY_FLAG).is_ok() {
        tracing::warn!(transaction = other, "completing a commit that was cut off");
        file.write_all_at(&[flags ^ PRIMARY_FLAG], FLAGS_AT)?;
        file.sync_data()?;
    }
    Ok(())
}

fn transaction(file: &File, slot: u64) -> io::Result<u64> {
    let mut number = [0; 8];
    file.read_exact_at(&mut number, slot + TRANSACTION_IN_SLOT)?;
    Ok(u64::from_le_bytes(number))
}

/// Lets redb check the slot that counts, which it does before it looks at any page.
fn check_header(file: &File) -> Result<(), Trouble> {
    let copy = Copy { pages: Pages::Hidden, ..Copy::new(file.try_clone()?)? };
    match guarded(|| verified(copy).map(drop)) {
        Ok(()) => Ok(()),
        Err(Trouble::Io(error)) if error.kind() == HIDDEN => Ok(()),
        Err(trouble) => Err(trouble),
    }
}

/// Opens and verifies a copy as if the file had these flags.
fn check_commit(file: &File, flags: u8) -> Result<(), Trouble> {
    let copy = Copy::new(file.try_clone()?)?;
    redb::StorageBackend::write(&copy, FLAGS_AT, &[flags])?;
    guarded(|| verified(copy).map(drop))
}

/// How a copy answers a look at a page that it hides. Nothing else here ends so.
const HIDDEN: io::ErrorKind = io::ErrorKind::ConnectionRefused;

/// A file whose changes stay in memory.
#[derive(Debug)]
struct Copy {
    file: File,
    pages: Pages,
    changes: Mutex<Changes>,
}

/// Whether what follows the header can be read.
#[derive(Debug)]
enum Pages {
    Shown,
    Hidden,
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
        Ok(Copy { file, pages: Pages::Shown, changes: Mutex::new(changes) })
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
        if matches!(self.pages, Pages::Hidden) && offset >= HEADER_BYTES {
            return Err(HIDDEN.into());
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
