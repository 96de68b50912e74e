//! Reading the log of an instance, from its files on disk. A thread reads ahead by a few lines and waits
//! for the reader to take them; following, it looks for more a few times a second.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use futures::stream::{self, StreamExt};
use tokio::sync::mpsc;
use tombolo_driver::{Error, InstanceId, LogLine, LogRequest, LogStream, Result};

use crate::folder::Folder;
use crate::logfile;

/// Lines that are read ahead.
const AHEAD: usize = 64;
/// How often a follower looks for more: often enough for the eye.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

pub(crate) fn read(folder: &Folder, id: &InstanceId, request: LogRequest) -> Result<LogStream> {
    if folder.instance().is_none() {
        return Err(Error::NoSuchInstance { id: id.clone() });
    }
    let (sender, receiver) = mpsc::channel(AHEAD);
    let mut reader = Reader::new(folder.log());
    tokio::task::spawn_blocking(move || reader.send(&request, &sender));
    let lines = stream::unfold(receiver, async |mut receiver| {
        let line = receiver.recv().await?;
        Some((Ok(line), receiver))
    });
    Ok(lines.boxed())
}

/// The last lines, for people.
pub(crate) fn tail(folder: &Folder, lines: usize) -> Vec<String> {
    let mut reader = Reader::new(folder.log());
    let kept = reader.last(lines, None);
    kept.iter().map(|line| String::from_utf8_lossy(&line.text).into_owned()).collect()
}

/// Goes through the files, oldest first, and on to the next as it comes.
struct Reader {
    folder: PathBuf,
    number: u64,
    file: Option<BufReader<File>>,
    /// A line whose end is not yet written.
    partial: Vec<u8>,
}

impl Reader {
    fn new(folder: PathBuf) -> Reader {
        Reader { folder, number: 0, file: None, partial: Vec::new() }
    }

    fn send(&mut self, request: &LogRequest, sender: &mpsc::Sender<LogLine>) {
        if let Some(tail) = request.tail {
            for line in self.last(tail, request.since) {
                if sender.blocking_send(line).is_err() {
                    return;
                }
            }
        }
        loop {
            while let Some(line) = self.next() {
                if new_enough(&line, request.since) && sender.blocking_send(line).is_err() {
                    return;
                }
            }
            if !request.follow || sender.is_closed() || !self.folder.exists() {
                return;
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    /// The last lines of all that there are now; the reader stands behind them.
    fn last(&mut self, count: usize, since: Option<SystemTime>) -> VecDeque<LogLine> {
        let mut kept = VecDeque::new();
        while let Some(line) = self.next() {
            if !new_enough(&line, since) {
                continue;
            }
            kept.push_back(line);
            if kept.len() > count {
                kept.pop_front();
            }
        }
        kept
    }

    /// The next whole line; nothing if there is none yet. Torn lines are passed over.
    fn next(&mut self) -> Option<LogLine> {
        loop {
            if self.file.is_none() {
                self.open_next()?;
            }
            let file = self.file.as_mut()?;
            // A file that cannot be read any more is passed over like a file that is read to its end.
            let count = file.read_until(b'\n', &mut self.partial).unwrap_or(0);
            if count == 0 {
                // This file grows until the next file is there.
                self.open_next()?;
                self.partial.clear();
                continue;
            }
            if self.partial.last() != Some(&b'\n') {
                continue;
            }
            self.partial.pop();
            let line = logfile::read_line(&self.partial);
            self.partial.clear();
            if line.is_some() {
                return line;
            }
        }
    }

    fn open_next(&mut self) -> Option<()> {
        let numbers = logfile::numbers(&self.folder);
        let next = numbers.into_iter().find(|number| *number > self.number)?;
        let file = File::open(logfile::path(&self.folder, next)).ok()?;
        self.number = next;
        self.file = Some(BufReader::new(file));
        Some(())
    }
}

fn new_enough(line: &LogLine, since: Option<SystemTime>) -> bool {
    since.is_none_or(|since| line.at >= Some(since))
}
