//! The thread that takes batches: into the head, into the log, one sync for all that wait, the answers.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender};

use tombolo_series::{Head, Outcome, Sample, SeriesId};

use super::log::{Record, Segment, segment_path, sync_folder};
use super::{
    AHEAD_MS_MAX, Answer, Batch, Inner, Job, Work, WriteError, Written, keep_metadata, keeper, plan,
};

/// Batches are taken together until they have so many bytes: then those that wait want their answer.
const GROUP_BYTES: usize = 4 << 20;

pub(super) struct Writer {
    inner: Arc<Inner>,
    /// The number of the next segment.
    next: u64,
    segment: Option<Open>,
    /// Which series the segments of this epoch know, by their numbers.
    known: Vec<bool>,
    keeper: SyncSender<keeper::Word>,
    /// Frames of the group that is under way; kept, so that it need not grow again.
    frames: Vec<u8>,
    accepted: Vec<Sample>,
    /// When the keeper was asked to cut, the newest sample; it is not asked again at once.
    asked_ms: i64,
}

/// A segment that is written to. Segments of one epoch share the numbers of series.
struct Open {
    segment: Segment,
    epoch: u64,
}

impl Work<Job> for Writer {
    fn work(mut self, jobs: &Receiver<Job>) {
        while let Ok(job) = jobs.recv() {
            match job {
                Job::Write(batch, answer) => {
                    if self.group(batch, answer, jobs) {
                        return;
                    }
                }
                Job::Rotate(reply) => {
                    let _ = reply.send(self.rotate());
                }
                Job::Stop => return,
            }
        }
    }
}

impl Writer {
    pub(super) fn new(inner: Arc<Inner>, next: u64, keeper: SyncSender<keeper::Word>) -> Self {
        Self {
            inner,
            next,
            segment: None,
            known: Vec::new(),
            keeper,
            frames: Vec::new(),
            accepted: Vec::new(),
            asked_ms: i64::MIN,
        }
    }

    /// Takes this batch and those that wait behind it. Whether it is to stop.
    fn group(&mut self, batch: Batch, answer: Answer, jobs: &Receiver<Job>) -> bool {
        let mut answers = Vec::new();
        let mut later = None;
        self.frames.clear();
        let mut next = Some((batch, answer));
        while let Some((batch, answer)) = next.take() {
            answers.push((self.take(&batch), answer));
            if self.frames.len() > GROUP_BYTES {
                break;
            }
            match jobs.try_recv() {
                Ok(Job::Write(batch, answer)) => next = Some((batch, answer)),
                Ok(other) => later = Some(other),
                Err(_) => {}
            }
        }
        let result = self.make_last();
        for (written, answer) in answers {
            answer(result.clone().map(|()| written));
        }
        self.ask_keeper();
        match later {
            Some(Job::Rotate(reply)) => {
                let _ = reply.send(self.rotate());
                false
            }
            Some(Job::Stop) => true,
            Some(Job::Write(..)) | None => false,
        }
    }

    /// Into the head, and as frames of the log what the head has taken.
    fn take(&mut self, batch: &Batch) -> Written {
        let mut written = Written::default();
        let (mut new_series, mut samples) = (Record::series(), Record::samples());
        let inner = Arc::clone(&self.inner);
        let newest = inner.newest().unwrap_or(i64::MIN);
        let oldest_ms = newest.saturating_sub(inner.config.retention_ms);
        let span = oldest_ms..=batch.now_ms.saturating_add(AHEAD_MS_MAX);
        let mut head = inner.head_mut();
        for series in &batch.series {
            let count = series.samples.len() as u64;
            let id = match head.resolve(&batch.source, &series.labels) {
                Ok(id) => id,
                Err(refusal) => {
                    written.beyond += count;
                    written.first.get_or_insert_with(|| series.labels.clone());
                    written.refusal.get_or_insert(refusal);
                    continue;
                }
            };
            let before = written.not_taken();
            self.append(&mut head, id, &series.samples, &span, &mut written);
            if written.not_taken() > before {
                written.first.get_or_insert_with(|| series.labels.clone());
            }
            if self.accepted.is_empty() {
                continue;
            }
            if !self.is_known(id) {
                new_series.add_series(id.number(), &batch.source, &series.labels);
            }
            samples.add_samples(id.number(), &self.accepted);
        }
        drop(head);
        let mut metadata = Record::metadata();
        if !batch.metadata.is_empty() {
            let mut known = inner.metadata_mut();
            let news = batch.metadata.iter().filter(|told| keep_metadata(&mut known, told));
            news.for_each(|told| metadata.add_metadata(told));
        }
        for record in [new_series, samples, metadata] {
            record.frame(&mut self.frames);
        }
        let taken = written.tally.taken + written.tally.taken_late;
        inner.samples_taken.fetch_add(taken, Ordering::Relaxed);
        written
    }

    /// The samples that the head takes are in `accepted` afterwards.
    fn append(
        &mut self,
        head: &mut Head,
        id: SeriesId,
        samples: &[Sample],
        span: &std::ops::RangeInclusive<i64>,
        written: &mut Written,
    ) {
        self.accepted.clear();
        let (mut oldest, mut newest) = (i64::MAX, i64::MIN);
        for sample in samples {
            if sample.at_ms > *span.end() {
                written.ahead += 1;
                continue;
            }
            let outcome = match sample.at_ms < *span.start() {
                true => Outcome::TooOld,
                false => head.append(id, *sample),
            };
            written.tally.count(outcome);
            if matches!(outcome, Outcome::Taken | Outcome::TakenLate) {
                self.accepted.push(*sample);
                oldest = oldest.min(sample.at_ms);
                newest = newest.max(sample.at_ms);
            }
        }
        if newest > i64::MIN {
            self.inner.oldest_ms.fetch_min(oldest, Ordering::Relaxed);
            self.inner.newest_ms.fetch_max(newest, Ordering::Relaxed);
        }
    }

    /// Whether the log knows the series; from now on it does.
    fn is_known(&mut self, id: SeriesId) -> bool {
        let place = id.number() as usize;
        if self.known.len() <= place {
            self.known.resize(place + 1024, false);
        }
        std::mem::replace(&mut self.known[place], true)
    }

    /// Writes the group to the disk. After a failure nobody knows what the segment holds: another one is
    /// begun, which knows no series.
    fn make_last(&mut self) -> Result<(), WriteError> {
        if self.frames.is_empty() {
            return Ok(());
        }
        let frames = std::mem::take(&mut self.frames);
        let result = self.open_segment().and_then(|open| {
            open.segment.append(&frames)?;
            open.segment.sync()
        });
        self.inner.log_bytes.fetch_add(frames.len() as u64, Ordering::Relaxed);
        self.frames = frames;
        result.map_err(|error| {
            self.segment = None;
            self.known.clear();
            self.inner.tell(format!("samples cannot be written: {error}"));
            WriteError::Disk(error.to_string())
        })
    }

    fn open_segment(&mut self) -> std::io::Result<&mut Open> {
        if self.segment.is_none() {
            // What was resolved for this group is written down in it as well: the epoch is new.
            let epoch = self.next;
            let segment = Segment::create(&self.path(), epoch)?;
            self.next += 1;
            sync_folder(&self.inner.log_folder)?;
            self.segment = Some(Open { segment, epoch });
        }
        Ok(self.segment.as_mut().expect("it was just made"))
    }

    fn path(&self) -> PathBuf {
        segment_path(&self.inner.log_folder, self.next)
    }

    /// Goes on in another segment of the same epoch. Nothing if that cannot be made.
    fn rotate(&mut self) -> Option<(u64, u64)> {
        let number = self.next;
        let epoch = self.segment.as_ref().map_or(number, |open| open.epoch);
        let made = Segment::create(&self.path(), epoch);
        self.next += 1;
        let synced = made.and_then(|segment| {
            sync_folder(&self.inner.log_folder)?;
            Ok(segment)
        });
        match synced {
            Ok(segment) => {
                self.segment = Some(Open { segment, epoch });
                self.inner.log_bytes.store(0, Ordering::Relaxed);
                Some((number, epoch))
            }
            Err(error) => {
                self.inner.tell(format!("the log of the samples cannot go on: {error}"));
                None
            }
        }
    }

    /// When the log is long or the head has much.
    fn ask_keeper(&mut self) {
        let newest = self.inner.newest_ms.load(Ordering::Relaxed);
        let oldest = self.inner.oldest_ms.load(Ordering::Relaxed);
        let long = self.inner.log_bytes.load(Ordering::Relaxed) > self.inner.config.log_bytes_max;
        let much = newest.saturating_sub(oldest) >= plan::BLOCK_MS + plan::BLOCK_MS / 2;
        let again = newest.saturating_sub(self.asked_ms) >= plan::BLOCK_MS / 8;
        if long || (much && again) {
            self.asked_ms = newest;
            // If it is busy it comes round by itself.
            let _ = self.keeper.try_send(keeper::Word::Look);
        }
    }
}

impl Written {
    /// Samples that are not in the store, and were not before.
    pub fn not_taken(&self) -> u64 {
        self.tally.conflicts + self.tally.too_old + self.ahead + self.beyond
    }
}
