//! What a supervisor has taken from a pipe and not yet written to the log. The log's `Writer` holds one
//! for each pipe.
//!
//! A supervisor may be killed at any moment, also between reading a pipe and writing what it read. What
//! it held in memory would be lost then. So `splice` moves the bytes from the pipe into this file inside
//! the kernel: they are in one of the two at every moment. From there they are written to the log as a
//! database does with its redo log: the file says how long the log was before a write ([`Mark`]), and in
//! the same stroke that the write is done and how far. A supervisor that adopts the instance cuts the log
//! back to an open mark and writes again, so that no line is lost and none is there twice.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::pipe::{SpliceFlags, splice};

/// Three numbers: how many bytes are settled, and the mark. They are written at once, and a write so
/// short is never cut in two by a kill.
const HEADER_BYTES: u64 = 24;
/// What is settled goes when it is this much: less would rewrite the file more often.
const SETTLED_BYTES_MAX: u64 = 64 * 1024;
/// Where a full disk keeps the file from being rewritten, it grows no further than this.
const LENGTH_MAX: u64 = 1024 * 1024;

/// The end of the log before a write: the number of its last file, and that file's length. Files are
/// numbered from 1; 0 stands for no mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) number: u64,
    pub(crate) length: u64,
}

#[derive(Debug)]
pub(crate) struct Spool {
    path: PathBuf,
    file: File,
    /// Bytes after the header.
    length: u64,
    /// So many of them are in the log.
    settled: u64,
}

impl Spool {
    /// Empty, for a new run.
    pub(crate) fn create(path: &Path) -> io::Result<Spool> {
        let file = open(OpenOptions::new().truncate(true), path)?;
        let spool = Spool { path: path.to_owned(), file, length: 0, settled: 0 };
        spool.write_header(None)?;
        Ok(spool)
    }

    /// As the last supervisor left it, and its mark if it was killed while it wrote.
    pub(crate) fn open(path: &Path) -> io::Result<(Spool, Option<Mark>)> {
        let file = open(&mut OpenOptions::new(), path)?;
        let size = file.metadata()?.len();
        if size < HEADER_BYTES {
            return Ok((Spool::create(path)?, None));
        }
        let mut header = [0; 24];
        file.read_exact_at(&mut header, 0)?;
        let number = |index: usize| {
            let bytes = header[index * 8..][..8].try_into().expect("eight bytes of 24");
            u64::from_le_bytes(bytes)
        };
        let length = size - HEADER_BYTES;
        let mark = Some(Mark { number: number(1), length: number(2) });
        let spool = Spool { path: path.to_owned(), file, length, settled: number(0).min(length) };
        Ok((spool, mark.filter(|mark| mark.number != 0)))
    }

    /// What was taken and is not in the log.
    pub(crate) fn unsettled(&self) -> io::Result<Vec<u8>> {
        let count = usize::try_from(self.length - self.settled).map_err(io::Error::other)?;
        let mut bytes = vec![0; count];
        self.file.read_exact_at(&mut bytes, HEADER_BYTES + self.settled)?;
        Ok(bytes)
    }

    /// Takes from the pipe what there is, at most a buffer full. Says how much.
    pub(crate) fn take(&mut self, pipe: impl AsFd, buffer: &mut [u8]) -> usize {
        while self.length < LENGTH_MAX {
            let start = HEADER_BYTES + self.length;
            let mut end = start;
            let flags = SpliceFlags::NONBLOCK;
            match splice(&pipe, None, &self.file, Some(&mut end), buffer.len(), flags) {
                Ok(count) => {
                    self.length += count as u64;
                    // A disk that takes bytes and does not give them back loses them, as a full one
                    // does.
                    let read = self.file.read_exact_at(&mut buffer[..count], start);
                    return read.map_or(0, |()| count);
                }
                Err(rustix::io::Errno::INTR) => (),
                Err(rustix::io::Errno::AGAIN) => return 0,
                Err(_) => break,
            }
        }
        // The disk is full. An instance that writes must not wait for it, so from here on a kill
        // loses what is read.
        self.settled = self.length;
        read(pipe, buffer)
    }

    /// What follows is written to the log, whose end is at the mark now.
    pub(crate) fn begin(&self, mark: Mark) {
        // A header that cannot be written is of a disk that cannot be read either.
        _ = self.write_header(Some(mark));
    }

    /// All that was taken is in the log, but for so many bytes at the end: the begin of a line.
    pub(crate) fn settle(&mut self, rest: usize) {
        // The rest may hold bytes that never were in the file.
        self.settled = self.length.saturating_sub(rest as u64).max(self.settled);
        _ = self.write_header(None);
        if self.settled >= SETTLED_BYTES_MAX {
            // One that fails is tried again after the next write.
            _ = self.shorten();
        }
    }

    /// Drops what is settled: the rest goes to a new file, which takes the place of the old file.
    fn shorten(&mut self) -> io::Result<()> {
        let rest = self.unsettled()?;
        let new = self.path.with_extension("new");
        let mut spool = Spool::create(&new)?;
        spool.file.write_all_at(&rest, HEADER_BYTES)?;
        fs::rename(&new, &self.path)?;
        spool.length = rest.len() as u64;
        spool.path.clone_from(&self.path);
        *self = spool;
        Ok(())
    }

    fn write_header(&self, mark: Option<Mark>) -> io::Result<()> {
        let mark = mark.unwrap_or(Mark { number: 0, length: 0 });
        let numbers = [self.settled, mark.number, mark.length];
        self.file.write_all_at(&numbers.map(u64::to_le_bytes).concat(), 0)
    }

    /// There is nothing in it any more that anybody needs.
    pub(crate) fn remove(self) {
        _ = fs::remove_file(&self.path);
    }
}

/// Reads a pipe that does not block. Says how much; nothing if there is nothing.
pub(crate) fn read(pipe: impl AsFd, buffer: &mut [u8]) -> usize {
    loop {
        match rustix::io::read(&pipe, &mut *buffer) {
            Ok(count) => return count,
            Err(rustix::io::Errno::INTR) => (),
            Err(_) => return 0,
        }
    }
}

fn open(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    options.read(true).write(true).create(true).mode(0o600).open(path)
}

#[cfg(test)]
mod tests;
