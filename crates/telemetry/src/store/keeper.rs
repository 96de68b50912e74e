//! The thread that keeps house: cuts the head, writes checkpoints, merges and forgets blocks, looks for
//! damage. What is to be done is said by [`super::plan`].

use std::fs;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use tombolo_series::{Block, BlockWriter, Budget, Querier, Span, merge_within};

use super::blocks::{BlockFile, FileBytes};
use super::log::{Files, Record, Segment, checkpoint_path, segment_path, sync_folder};
use super::plan::{self, Held};
use super::{Inner, Job, Work};

/// How long it sleeps when nobody wakes it.
const PAUSE: Duration = Duration::from_secs(60);

/// So many series are copied or sealed in one go; writers wait meanwhile.
const SERIES_AT_ONCE: usize = 256;

/// A record of a checkpoint is finished when it is so long.
const RECORD_BYTES: usize = 1 << 20;

#[derive(Debug)]
pub(super) enum Word {
    /// There may be something to do.
    Look,
    /// Do everything that can be done, and say when it is done.
    Now(SyncSender<()>),
    Stop,
}

pub(super) struct Keeper {
    inner: Arc<Inner>,
    writer: SyncSender<Job>,
    /// How large the last checkpoint was.
    checkpoint_bytes: u64,
    /// The numbers of the blocks whose every byte was read and found right.
    sound: Vec<String>,
}

impl Work<Word> for Keeper {
    fn work(mut self, words: &Receiver<Word>) {
        loop {
            match words.recv_timeout(PAUSE) {
                Ok(Word::Look) => {
                    // Who has looked has looked for all who asked meanwhile.
                    let mut other = words.try_recv();
                    while let Ok(Word::Look) = other {
                        other = words.try_recv();
                    }
                    self.look();
                    match other {
                        Ok(Word::Now(done)) => self.everything(&done),
                        Ok(Word::Stop) => return,
                        Ok(Word::Look) | Err(_) => {}
                    }
                }
                Err(RecvTimeoutError::Timeout) => {
                    self.look();
                    self.examine_one();
                }
                Ok(Word::Now(done)) => self.everything(&done),
                Ok(Word::Stop) | Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }
}

impl Keeper {
    pub(super) fn new(inner: Arc<Inner>, writer: SyncSender<Job>) -> Self {
        Self { inner, writer, checkpoint_bytes: 0, sound: Vec::new() }
    }

    fn everything(&mut self, done: &SyncSender<()>) {
        self.look();
        while self.examine_one() {}
        let _ = done.send(());
    }

    fn look(&mut self) {
        let cut = self.cut().unwrap_or_else(|error| {
            self.inner.head_mut().reopen();
            self.inner.tell(format!("a block of samples cannot be written: {error}"));
            false
        });
        let most = self.inner.config.log_bytes_max.max(2 * self.checkpoint_bytes);
        let long = self.inner.log_bytes.load(Ordering::Relaxed) > most;
        if cut || long {
            let written = self.checkpoint();
            written.unwrap_or_else(|error| {
                self.inner.tell(format!("a checkpoint of the samples cannot be written: {error}"));
            });
        }
        self.merge_and_forget().unwrap_or_else(|error| {
            self.inner.tell(format!("blocks of samples cannot be tidied up: {error}"));
        });
    }

    /// Makes blocks of what is old. Whether there was anything.
    fn cut(&mut self) -> io::Result<bool> {
        self.inner.look_at_span();
        let span = self.inner.head().span();
        let windows = span.map(plan::cut).unwrap_or_default();
        let Some(last) = windows.last() else { return Ok(false) };
        let end = last.to_ms + 1;
        self.inner.head_mut().close_before(end);
        let ids = self.inner.head().in_order();
        for window in windows {
            let mut block = BlockWriter::default();
            for some in ids.chunks(SERIES_AT_ONCE) {
                let head = self.inner.head();
                some.iter().for_each(|id| head.seal_series(*id, window, &mut block));
            }
            if let Some(sealed) = block.finish() {
                self.inner.blocks.add(&sealed)?;
            }
        }
        self.inner.head_mut().forget(end);
        self.inner.look_at_span();
        Ok(true)
    }

    /// Copies the head, so that the log before can go.
    fn checkpoint(&mut self) -> io::Result<()> {
        let (reply, number) = sync_channel(1);
        if self.writer.send(Job::Rotate(reply)).is_err() {
            return Ok(());
        }
        // Series keep their numbers from the checkpoint to the segments that follow it.
        let Ok(Some((number, epoch))) = number.recv() else { return Ok(()) };
        let path = checkpoint_path(&self.inner.log_folder, number);
        let new = path.with_extension("new");
        match fs::remove_file(&new) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let mut segment = Segment::create(&new, epoch)?;
        self.copy_head(&mut segment)?;
        segment.sync()?;
        self.checkpoint_bytes = segment.bytes;
        fs::rename(&new, &path)?;
        sync_folder(&self.inner.log_folder)?;
        let files = Files::of(&self.inner.log_folder)?;
        for old in files.segments.iter().filter(|old| **old < number) {
            fs::remove_file(segment_path(&self.inner.log_folder, *old))?;
        }
        for old in files.checkpoints.iter().filter(|old| **old < number) {
            fs::remove_file(checkpoint_path(&self.inner.log_folder, *old))?;
        }
        Ok(())
    }

    fn copy_head(&self, segment: &mut Segment) -> io::Result<()> {
        let ids = self.inner.head().in_order();
        let (mut series, mut chunks) = (Record::series(), Record::chunks());
        let mut frames = Vec::new();
        for some in ids.chunks(SERIES_AT_ONCE) {
            let head = self.inner.head();
            for id in some {
                let Some(dumped) = head.dump(*id) else { continue };
                series.add_series(id.number(), dumped.source, dumped.labels);
                chunks.add_chunks(id.number(), &dumped.chunks);
            }
            drop(head);
            if series.len() + chunks.len() > RECORD_BYTES {
                for record in [&mut series, &mut chunks] {
                    record.frame(&mut frames);
                }
                (series, chunks) = (Record::series(), Record::chunks());
                segment.append(&frames)?;
                frames.clear();
            }
        }
        let mut metadata = Record::metadata();
        let known = self.inner.metadata.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        known.values().for_each(|told| metadata.add_metadata(told));
        drop(known);
        for record in [series, chunks, metadata] {
            record.frame(&mut frames);
        }
        segment.append(&frames)
    }

    fn merge_and_forget(&mut self) -> io::Result<()> {
        let config = self.inner.config;
        loop {
            let files = self.inner.blocks.all();
            let held: Vec<Held> = files.iter().map(|file| held(file)).collect();
            let newest = self.inner.newest().unwrap_or(i64::MIN);
            let log = self.inner.log_bytes.load(Ordering::Relaxed) + self.checkpoint_bytes;
            let old = plan::forget(&held, newest, config.retention_ms, log, config.bytes_max);
            for place in &old {
                self.inner.blocks.remove(&files[*place])?;
            }
            if !old.is_empty() {
                continue;
            }
            let Some(group) = plan::merge(&held, config.retention_ms) else { return Ok(()) };
            let files: Vec<_> = group.into_iter().map(|place| Arc::clone(&files[place])).collect();
            self.replace(&files)?;
        }
    }

    /// One block in place of several, with all that can still be read of them.
    fn replace(&mut self, files: &[Arc<BlockFile>]) -> io::Result<()> {
        let mut opened: Vec<Arc<Block<FileBytes>>> = Vec::new();
        for file in files {
            match file.block() {
                Ok(block) => opened.push(block),
                Err(why) => {
                    self.inner.tell(format!("block {} is not readable: {why}", file.name()));
                    self.inner.blocks.set_aside(file, |notice| self.inner.tell(notice));
                    return Ok(());
                }
            }
        }
        let queriers: Vec<&dyn Querier> = opened.iter().map(|block| &**block as _).collect();
        let budget = Budget::new(u64::MAX, u64::MAX).tolerant();
        let merged = merge_within(&queriers, Span::ALL, &budget).map_err(io::Error::other)?;
        if let Some(sealed) = merged {
            self.inner.blocks.add(&sealed)?;
        }
        let damage = budget.damage();
        for file in files {
            let about = file.name();
            let mine: Vec<&String> = damage.iter().filter(|note| note.contains(&about)).collect();
            if mine.is_empty() {
                self.inner.blocks.remove(file)?;
            } else {
                mine.into_iter().for_each(|note| self.inner.tell(note.clone()));
                self.inner.blocks.set_aside(file, |notice| self.inner.tell(notice));
            }
        }
        Ok(())
    }

    /// Reads a block that was not read yet from its first byte to its last. What is damaged goes into
    /// quarantine, and what is not stays in a block of its own. Whether there was one to read.
    fn examine_one(&mut self) -> bool {
        let files = self.inner.blocks.all();
        self.sound.retain(|name| files.iter().any(|file| file.name() == *name));
        let next = files.into_iter().find(|file| !self.sound.contains(&file.name()));
        let Some(file) = next else { return false };
        self.sound.push(file.name());
        match file.block() {
            Ok(block) if block.damaged().is_empty() => {}
            Ok(_) | Err(_) => self.replace(&[file]).unwrap_or_else(|error| {
                self.inner.tell(format!("a damaged block cannot be replaced: {error}"));
            }),
        }
        true
    }
}

fn held(file: &BlockFile) -> Held {
    Held { span: file.span, bytes: file.bytes }
}
