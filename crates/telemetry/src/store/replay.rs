//! A start: the last checkpoint and the log since then go back into the head. One record is in memory at a
//! time, and there are no more of them than the log may grow to.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::atomic::Ordering;

use tombolo_series::SeriesId;

use super::log::{self, Entry, Files, Piece, Read, checkpoint_path, segment_path};
use super::{Inner, keep_metadata};

/// Returns the number of the next segment.
pub(super) fn run(inner: &Inner) -> io::Result<u64> {
    let folder = &inner.log_folder;
    let files = Files::of(folder)?;
    for path in &files.unfinished {
        fs::remove_file(path)?;
    }
    let begin = files.checkpoints.last().copied();
    let mut replay = Replay { inner, epoch: None, ids: HashMap::new() };
    if let Some(number) = begin {
        replay.file(&checkpoint_path(folder, number))?;
    }
    let mut bytes = 0;
    for number in &files.segments {
        let path = segment_path(folder, *number);
        if begin.is_some_and(|begin| *number < begin) {
            // The checkpoint has it; the crash came before it was removed.
            fs::remove_file(path)?;
            continue;
        }
        bytes += fs::metadata(&path)?.len();
        replay.file(&path)?;
    }
    inner.log_bytes.store(bytes, Ordering::Relaxed);
    let last = files.segments.last().max(files.checkpoints.last()).copied();
    Ok(last.map_or(1, |last| last + 1))
}

struct Replay<'a> {
    inner: &'a Inner,
    epoch: Option<u64>,
    /// Numbers in the log to series in the head.
    ids: HashMap<u32, SeriesId>,
}

/// What could not be taken back.
#[derive(Debug, Default)]
struct Lost {
    samples: u64,
    records: u64,
}

impl Replay<'_> {
    fn file(&mut self, path: &Path) -> io::Result<()> {
        let mut lost = Lost::default();
        let read = log::read(path, |piece| match piece {
            Piece::Epoch(epoch) => {
                // Numbers of another epoch mean nothing in this one.
                if self.epoch.replace(epoch) != Some(epoch) {
                    self.ids.clear();
                }
            }
            Piece::Record(payload) => self.record(payload, &mut lost),
        })?;
        if read.damaged > 0 || lost.samples > 0 || lost.records > 0 {
            self.set_aside(path, &read, &lost);
        }
        Ok(())
    }

    fn record(&mut self, payload: &[u8], lost: &mut Lost) {
        let mut head = self.inner.head_mut();
        let ids = &mut self.ids;
        let whole = log::entries(payload, |entry| match entry {
            Entry::Series { id, source, labels } => {
                if let Ok(series) = head.resolve(source, &labels) {
                    ids.insert(id, series);
                }
            }
            Entry::Sample { id, sample } => match ids.get(&id) {
                Some(series) => {
                    head.append(*series, sample);
                }
                None => lost.samples += 1,
            },
            Entry::Metadata(told) => {
                keep_metadata(&mut self.inner.metadata_mut(), &told);
            }
            Entry::Chunk { id, bytes } => {
                let adopted = ids.get(&id).map(|series| head.adopt(*series, bytes));
                lost.records += u64::from(!matches!(adopted, Some(Ok(()))));
            }
        });
        lost.records += u64::from(whole.is_none());
    }

    /// Names what is damaged, and keeps a copy of the file, which goes with the next checkpoint.
    fn set_aside(&self, path: &Path, read: &Read, lost: &Lost) {
        let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
        self.inner.tell(format!(
            "the log of samples {name} is damaged: {} bytes are not readable, {} records and {} samples \
             that depend on others are lost; the rest is there",
            read.damaged, lost.records, lost.samples
        ));
        if let Some(name) = path.file_name()
            && let Err(error) = fs::copy(path, self.inner.quarantine.join(name))
        {
            self.inner.tell(format!("a damaged log cannot be copied into quarantine: {error}"));
        }
    }
}
