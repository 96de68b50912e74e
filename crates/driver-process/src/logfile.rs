//! The log of an instance on disk: numbered files, each line with its time and its source. The
//! supervisor writes with [`Writer`]; `logs` reads. What is on its way from a pipe to the log is in a
//! [`Spool`], so that a supervisor that is killed loses none of it.
//!
//! A line is `MILLISECONDS o|e TEXT`. A new file gets the next number and the oldest goes, so that
//! no name ever means another file, and a reader who follows only has to look for the next number.

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use tombolo_driver::{LINE_BYTES_MAX, LogLine, Source};

use crate::launch::LogLimits;
use crate::spool::{self, Mark, Spool};

/// The last lines that are kept for the record of an exit: what a person reads first.
const TAIL_LINES: usize = 20;
/// Enough of a line to know it again.
const TAIL_LINE_BYTES: usize = 256;

/// Writes what an instance says, a line at a time, in bounded room.
#[derive(Debug)]
pub(crate) struct Writer {
    folder: PathBuf,
    limits: LogLimits,
    number: u64,
    file: Option<File>,
    written_bytes: u64,
    /// The file with this number has all that it may.
    full: bool,
    /// What came after the last end of line, for each source.
    partial: [Vec<u8>; 2],
    tail: VecDeque<String>,
    /// Lines that could not be written, since the last that could.
    lost: u64,
    /// The last write broke off in the middle of a line.
    torn: bool,
    /// By source. There is none where a full disk has no room for it.
    spools: [Option<Spool>; 2],
}

/// The pipes of an instance.
const SOURCES: [Source; 2] = [Source::Stdout, Source::Stderr];

impl Writer {
    /// Goes on where the last run left off: a program that restarts often keeps what it wrote.
    pub(crate) fn new(folder: PathBuf, limits: LogLimits) -> Writer {
        let number = numbers(&folder).last().copied().unwrap_or(1);
        let length = fs::metadata(path(&folder, number)).map_or(0, |metadata| metadata.len());
        Writer {
            folder,
            limits,
            number,
            file: None,
            written_bytes: length,
            full: false,
            partial: [Vec::new(), Vec::new()],
            tail: VecDeque::new(),
            lost: 0,
            torn: false,
            spools: [None, None],
        }
    }

    /// For a new run, with spools at these paths, by source.
    pub(crate) fn begin(folder: PathBuf, limits: LogLimits, spools: [PathBuf; 2]) -> Writer {
        let spools = spools.map(|path| Spool::create(&path).ok());
        Writer { spools, ..Writer::new(folder, limits) }
    }

    /// For a supervisor that was killed: what it took from the pipes and did not write is written.
    pub(crate) fn adopt(
        folder: PathBuf,
        limits: LogLimits,
        spools: [PathBuf; 2],
        now: SystemTime,
    ) -> Writer {
        let opened = spools.map(|path| Spool::open(&path).ok());
        for mark in opened.iter().flatten().filter_map(|(_, mark)| *mark) {
            cut(&folder, mark);
        }
        let spools = opened.map(|opened| opened.map(|(spool, _)| spool));
        let mut writer = Writer { spools, ..Writer::new(folder, limits) };
        for source in SOURCES {
            let spool = writer.spools[index(source)].as_ref();
            let bytes = spool.and_then(|spool| spool.unsettled().ok()).unwrap_or_default();
            writer.take(source, &bytes, now);
        }
        writer
    }

    /// Takes from a pipe what there is, at most a buffer full. Says whether there was anything.
    pub(crate) fn take_from(
        &mut self,
        source: Source,
        pipe: impl AsFd,
        buffer: &mut [u8],
        now: SystemTime,
    ) -> bool {
        let count = match &mut self.spools[index(source)] {
            Some(spool) => spool.take(pipe, buffer),
            None => spool::read(pipe, buffer),
        };
        self.take(source, &buffer[..count], now);
        count > 0
    }

    /// Takes what the instance wrote. A full disk loses lines and never holds up the instance.
    pub(crate) fn take(&mut self, source: Source, bytes: &[u8], now: SystemTime) {
        let mut out = Vec::new();
        let mut lines = 0;
        let mut partial = std::mem::take(&mut self.partial[index(source)]);
        for byte in bytes {
            if *byte != b'\n' {
                partial.push(*byte);
            }
            if *byte == b'\n' || partial.len() == LINE_BYTES_MAX {
                self.line(source, &partial, now, &mut out);
                lines += 1;
                partial.clear();
            }
        }
        // A long line must not keep its room for ever.
        partial.shrink_to(1024);
        self.partial[index(source)] = partial;
        self.write(source, &out, lines, now);
    }

    /// What is left of a last line without an end, and the last lines of all.
    pub(crate) fn finish(&mut self, now: SystemTime) -> Vec<String> {
        for source in SOURCES {
            if !self.partial[index(source)].is_empty() {
                self.take(source, b"\n", now);
            }
        }
        self.spools.iter_mut().filter_map(Option::take).for_each(Spool::remove);
        self.tail.drain(..).collect()
    }

    fn line(&mut self, source: Source, text: &[u8], now: SystemTime, out: &mut Vec<u8>) {
        out.extend_from_slice(&head(source, now));
        out.extend_from_slice(text);
        out.push(b'\n');
        if self.tail.len() == TAIL_LINES {
            self.tail.pop_front();
        }
        self.tail.push_back(readable(text));
    }

    fn write(&mut self, source: Source, lines: &[u8], count: u64, now: SystemTime) {
        if lines.is_empty() {
            return;
        }
        let mut bytes = Vec::new();
        if self.torn {
            bytes.push(b'\n');
        }
        if self.lost > 0 {
            bytes.extend_from_slice(&head(Source::Stderr, now));
            let lost = format!("[tombolo] {} lines are lost: the disk was full\n", self.lost);
            bytes.extend_from_slice(lost.as_bytes());
        }
        bytes.extend_from_slice(lines);
        match self.append(source, &bytes) {
            Ok(()) => (self.lost, self.torn) = (0, false),
            Err(_) => (self.lost, self.torn) = (self.lost + count, true),
        }
        if let Some(spool) = &mut self.spools[index(source)] {
            spool.settle(self.partial[index(source)].len());
        }
    }

    fn append(&mut self, source: Source, bytes: &[u8]) -> io::Result<()> {
        if self.written_bytes >= self.limits.file_bytes_max {
            self.file = None;
            self.full = true;
        }
        let file = match &mut self.file {
            Some(file) => file,
            None => {
                let number = self.number + u64::from(self.full);
                let file = open(&self.folder, number)?;
                self.written_bytes = file.metadata()?.len();
                self.number = number;
                self.full = false;
                self.drop_oldest();
                self.file.insert(file)
            }
        };
        if let Some(spool) = &self.spools[index(source)] {
            spool.begin(Mark { number: self.number, length: self.written_bytes });
        }
        file.write_all(bytes)?;
        self.written_bytes += bytes.len() as u64;
        Ok(())
    }

    fn drop_oldest(&self) {
        let numbers = numbers(&self.folder);
        let surplus = numbers.len().saturating_sub(self.limits.files_max.max(1));
        for number in &numbers[..surplus] {
            // A file that cannot be removed is tried again with the next file.
            _ = fs::remove_file(path(&self.folder, *number));
        }
    }
}

/// The numbers of the files that are there, oldest first.
pub(crate) fn numbers(folder: &Path) -> Vec<u64> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let number = |name: &str| name.strip_suffix(".log")?.parse().ok();
    let mut numbers: Vec<u64> =
        entries.flatten().filter_map(|entry| number(entry.file_name().to_str()?)).collect();
    numbers.sort_unstable();
    numbers
}

pub(crate) fn path(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{number:010}.log"))
}

/// A line as it was written; nothing if it is torn.
pub(crate) fn read_line(line: &[u8]) -> Option<LogLine> {
    let blank = line.iter().position(|byte| *byte == b' ')?;
    let millis: u64 = str::from_utf8(&line[..blank]).ok()?.parse().ok()?;
    let (source, text) = match line.get(blank + 1..)? {
        [b'o', b' ', text @ ..] => (Source::Stdout, text),
        [b'e', b' ', text @ ..] => (Source::Stderr, text),
        _ => return None,
    };
    let at = SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(millis));
    Some(LogLine { at, source, part: None, text: Bytes::copy_from_slice(text) })
}

/// Back to the mark. The write after it may have been done whole, in part or not at all.
fn cut(folder: &Path, mark: Mark) {
    let file = OpenOptions::new().write(true).open(path(folder, mark.number));
    let longer = |file: &File| file.metadata().is_ok_and(|found| found.len() > mark.length);
    if let Some(file) = file.ok().filter(longer) {
        _ = file.set_len(mark.length);
    }
}

fn open(folder: &Path, number: u64) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(0o600).open(path(folder, number))
}

fn head(source: Source, now: SystemTime) -> Vec<u8> {
    let millis = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_millis();
    let letter = match source {
        Source::Stdout => 'o',
        Source::Stderr => 'e',
    };
    format!("{millis} {letter} ").into_bytes()
}

fn index(source: Source) -> usize {
    match source {
        Source::Stdout => 0,
        Source::Stderr => 1,
    }
}

/// A line for people: text, without what would move a terminal's cursor, and not too long.
fn readable(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(&line[..line.len().min(TAIL_LINE_BYTES)]);
    let mut text: String =
        text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
    text.truncate(text.floor_char_boundary(TAIL_LINE_BYTES));
    text.trim_end().to_owned()
}

#[cfg(test)]
mod tests;
