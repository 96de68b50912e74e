//! Samples that last: [`Store`]. What it has acknowledged is on the disk.
//!
//! A batch goes to one writing thread ([`writer`]): into the head in memory, into the log, the log is
//! synced once for all batches that wait, and then each is answered. Another thread keeps house
//! ([`keeper`]): it cuts the head into blocks of two hours, copies the head into a checkpoint when the log
//! grows long, merges blocks and forgets old ones, and looks for damage. A start reads the last checkpoint
//! and the log since then ([`replay`]), which is bounded by how long the log may grow.
//!
//! There is no clock here: how old a sample is, is told by the newest one, and whoever writes says what
//! time it is.

mod blocks;
mod keeper;
mod log;
mod plan;
mod replay;
mod writer;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::thread::JoinHandle;

use tombolo_series::{
    Head, HeadConfig, Labels, Matcher, Querier, Selected, Span, Tally, TooManySeries, union,
};

use crate::wire::{Metadata, Series};
use blocks::{Blocks, FileBytes};

/// What a store keeps, and how much.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    pub head: HeadConfig,
    /// Blocks that ended so long before the newest sample are forgotten.
    pub retention_ms: i64,
    /// The oldest blocks are forgotten when all files together are larger.
    pub bytes_max: u64,
    /// A checkpoint is written when the log since the last one is larger, and twice as large as that was.
    /// It bounds what a start has to read.
    pub log_bytes_max: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            head: HeadConfig::default(),
            retention_ms: 15 * 24 * 3600 * 1000,
            bytes_max: 4 << 30,
            log_bytes_max: 64 << 20,
        }
    }
}

/// A sample may be so much later than the clock of whoever writes it down. One that is a year ahead would
/// make all others old.
pub const AHEAD_MS_MAX: i64 = 10 * 60 * 1000;

/// Batches that wait for the writing thread. More would only wait longer, in memory.
const QUEUE: usize = 64;

/// Descriptions of metrics that are kept: a bound for who invents names.
const METADATA_MAX: usize = 20_000;

/// Of what went wrong so many sentences are kept, the newest.
const NOTICES_MAX: usize = 100;

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("cannot use the folder {}", path.display())]
    Folder {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("another process has the samples in {}", path.display())]
    Locked { path: PathBuf },
}

/// Why a batch is not on the disk.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    #[error("the store has too much to write: try again")]
    Busy,
    #[error("the samples cannot be written to the disk: {0}")]
    Disk(String),
}

/// What a sender brings.
#[derive(Debug)]
pub struct Batch {
    /// Whose series these are, for the bound on their number.
    pub source: String,
    pub series: Vec<Series>,
    pub metadata: Vec<Metadata>,
    /// What time it is.
    pub now_ms: i64,
}

/// What became of a batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    pub tally: Tally,
    /// Samples of a time that has not come.
    pub ahead: u64,
    /// Samples of series that their source may not have.
    pub beyond: u64,
    pub refusal: Option<TooManySeries>,
    /// The first series of which a sample was not taken.
    pub first: Option<Labels>,
}

/// How much there is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    pub series: usize,
    pub blocks: usize,
    pub block_bytes: u64,
    pub log_bytes: u64,
    pub samples_taken: u64,
    pub span: Option<Span>,
}

type Answer = Box<dyn FnOnce(Result<Written, WriteError>) + Send>;

/// What the writing thread is told.
enum Job {
    Write(Batch, Answer),
    /// Begin a new segment, and say its number and epoch: all before it is in the head.
    Rotate(SyncSender<Option<(u64, u64)>>),
    Stop,
}

/// What both threads and all askers share.
#[derive(Debug)]
struct Inner {
    config: Config,
    log_folder: PathBuf,
    quarantine: PathBuf,
    head: RwLock<Head>,
    blocks: Blocks,
    metadata: RwLock<BTreeMap<String, Metadata>>,
    notices: Mutex<Vec<String>>,
    /// The times of the oldest and the newest sample in the head, as far as they were looked at.
    oldest_ms: AtomicI64,
    newest_ms: AtomicI64,
    log_bytes: AtomicU64,
    samples_taken: AtomicU64,
}

impl Inner {
    fn head(&self) -> RwLockReadGuard<'_, Head> {
        self.head.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn head_mut(&self) -> RwLockWriteGuard<'_, Head> {
        self.head.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// For the log of the program, and for whoever asks what was lost.
    fn tell(&self, notice: String) {
        tracing::warn!("{notice}");
        let mut notices = self.notices.lock().unwrap_or_else(PoisonError::into_inner);
        if notices.len() == NOTICES_MAX {
            notices.remove(0);
        }
        notices.push(notice);
    }

    fn look_at_span(&self) {
        if let Some(span) = self.head().span() {
            self.oldest_ms.store(span.from_ms, Ordering::Relaxed);
            self.newest_ms.fetch_max(span.to_ms, Ordering::Relaxed);
        } else {
            self.oldest_ms.store(i64::MAX, Ordering::Relaxed);
        }
    }

    /// Of all samples. Nothing when there are none.
    fn newest(&self) -> Option<i64> {
        let head = self.newest_ms.load(Ordering::Relaxed);
        self.blocks.newest_ms().into_iter().chain((head > i64::MIN).then_some(head)).max()
    }

    fn metadata_mut(&self) -> RwLockWriteGuard<'_, BTreeMap<String, Metadata>> {
        self.metadata.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes a description; whether it is news.
fn keep_metadata(known: &mut BTreeMap<String, Metadata>, told: &Metadata) -> bool {
    let says_nothing = *told == Metadata { metric: told.metric.clone(), ..Metadata::default() };
    if told.metric.is_empty() || says_nothing || known.get(&told.metric) == Some(told) {
        return false;
    }
    if known.len() >= METADATA_MAX && !known.contains_key(&told.metric) {
        return false;
    }
    known.insert(told.metric.clone(), told.clone());
    true
}

/// Samples on a disk. Ends its threads when the last clone goes.
#[derive(Clone, Debug)]
pub struct Store {
    inner: Arc<Inner>,
    threads: Arc<Threads>,
}

#[derive(Debug)]
struct Threads {
    writer: SyncSender<Job>,
    keeper: SyncSender<keeper::Word>,
    handles: Mutex<Vec<JoinHandle<()>>>,
    _lock: File,
}

impl Store {
    /// Opens what is in the folder, or begins with nothing.
    pub fn open(folder: &Path, config: Config) -> Result<Self, OpenError> {
        let fail = |source| OpenError::Folder { path: folder.to_owned(), source };
        let of = |name: &str| folder.join(name);
        for name in ["log", "blocks", "quarantine"] {
            fs::create_dir_all(of(name)).map_err(fail)?;
        }
        let lock = File::create(of("lock")).map_err(fail)?;
        if lock.try_lock().is_err() {
            return Err(OpenError::Locked { path: folder.to_owned() });
        }
        let inner = Arc::new(Inner {
            config,
            log_folder: of("log"),
            quarantine: of("quarantine"),
            head: RwLock::new(Head::new(config.head)),
            blocks: Blocks::open(&of("blocks"), &of("quarantine")).map_err(fail)?,
            metadata: RwLock::default(),
            notices: Mutex::default(),
            oldest_ms: AtomicI64::new(i64::MAX),
            newest_ms: AtomicI64::new(i64::MIN),
            log_bytes: AtomicU64::new(0),
            samples_taken: AtomicU64::new(0),
        });
        let next = replay::run(&inner).map_err(fail)?;
        inner.look_at_span();
        let (writer, jobs) = sync_channel(QUEUE);
        let (keeper, words) = sync_channel(QUEUE);
        let handles = vec![
            start("samples", writer::Writer::new(Arc::clone(&inner), next, keeper.clone()), jobs),
            start("samples-keeper", keeper::Keeper::new(Arc::clone(&inner), writer.clone()), words),
        ];
        let handles = Mutex::new(handles.into_iter().collect::<io::Result<_>>().map_err(fail)?);
        let threads = Arc::new(Threads { writer, keeper, handles, _lock: lock });
        Ok(Self { inner, threads })
    }

    /// Takes a batch; the answer comes from another thread, once it is on the disk.
    pub fn write(
        &self,
        batch: Batch,
        answer: impl FnOnce(Result<Written, WriteError>) + Send + 'static,
    ) {
        match self.threads.writer.try_send(Job::Write(batch, Box::new(answer))) {
            Ok(()) => {}
            Err(TrySendError::Full(job) | TrySendError::Disconnected(job)) => {
                if let Job::Write(_, answer) = job {
                    answer(Err(WriteError::Busy));
                }
            }
        }
    }

    /// The same for threads that may wait.
    pub fn write_and_wait(&self, batch: Batch) -> Result<Written, WriteError> {
        let (sender, receiver) = sync_channel(1);
        let answer: Answer = Box::new(move |written| drop(sender.send(written)));
        let sent = self.threads.writer.send(Job::Write(batch, answer));
        sent.map_err(|_| WriteError::Busy)?;
        receiver.recv().map_err(|_| WriteError::Busy)?
    }

    /// What may be asked of it, with conditions that hold for whatever is asked.
    pub fn asked(&self, enforced: Vec<Matcher>) -> Asked {
        Asked { inner: Arc::clone(&self.inner), enforced }
    }

    /// Kind, help and unit, by the name of the metric.
    pub fn metadata(&self) -> BTreeMap<String, Metadata> {
        self.inner.metadata.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What went wrong and was lost since the start, in sentences.
    pub fn notices(&self) -> Vec<String> {
        self.inner.notices.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn statistics(&self) -> Statistics {
        let inner = &self.inner;
        Statistics {
            series: inner.head().series_count(),
            blocks: inner.blocks.all().len(),
            block_bytes: inner.blocks.bytes(),
            log_bytes: inner.log_bytes.load(Ordering::Relaxed),
            samples_taken: inner.samples_taken.load(Ordering::Relaxed),
            span: inner.head().span(),
        }
    }

    /// For each label how many series have which value, of the head.
    pub fn cardinality(&self) -> Vec<(String, Vec<(String, usize)>)> {
        let head = self.inner.head();
        let counted = head.cardinality().into_iter().map(|(name, values)| {
            let values = values.into_iter().map(|(value, count)| (value.to_owned(), count));
            (name.to_owned(), values.collect())
        });
        counted.collect()
    }

    /// Does now what the keeping thread does from time to time, and comes back when it is done.
    pub fn keep_house(&self) {
        let (done, until_done) = sync_channel(1);
        if self.threads.keeper.send(keeper::Word::Now(done)).is_ok() {
            let _ = until_done.recv();
        }
    }
}

/// What a thread of the store does until it is told to stop.
trait Work<W>: Send + 'static {
    fn work(self, words: &Receiver<W>);
}

fn start<W: Send + 'static>(
    name: &str,
    work: impl Work<W>,
    words: Receiver<W>,
) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name(name.to_owned()).spawn(move || work.work(&words))
}

impl Drop for Threads {
    fn drop(&mut self) {
        // The keeper first: it asks the writer for new segments.
        let _ = self.keeper.send(keeper::Word::Stop);
        let mut handles = self.handles.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(keeper) = handles.pop() {
            let _ = keeper.join();
        }
        let _ = self.writer.send(Job::Stop);
        if let Some(writer) = handles.pop() {
            let _ = writer.join();
        }
    }
}

/// A store as a [`Querier`], with conditions that hold for everything that is asked: no query can see past
/// them, however it is written.
#[derive(Debug)]
pub struct Asked {
    inner: Arc<Inner>,
    enforced: Vec<Matcher>,
}

impl Asked {
    fn all(&self, matchers: &[Matcher]) -> Vec<Matcher> {
        self.enforced.iter().chain(matchers).cloned().collect()
    }

    fn blocks(&self, span: Span) -> Vec<Arc<tombolo_series::Block<FileBytes>>> {
        self.inner.blocks.near(span, |notice| self.inner.tell(notice))
    }

    /// In order, each once.
    fn words(&self, of: impl Fn(&Labels) -> Vec<String>) -> Vec<String> {
        let labels = self.select_labels(&[], Span::ALL);
        labels.iter().flat_map(of).collect::<std::collections::BTreeSet<_>>().into_iter().collect()
    }
}

impl Querier for Asked {
    fn select(&self, matchers: &[Matcher], span: Span) -> Vec<Selected<'_>> {
        let matchers = self.all(matchers);
        // The head first: what is cut from it meanwhile is found in its block, and nothing is missed.
        let head = self.inner.head().select_shared(&matchers, span);
        let blocks = self.blocks(span);
        let of_blocks = blocks.iter().flat_map(|block| block.selected(&matchers, span));
        union(of_blocks.chain(head))
    }

    fn select_labels(&self, matchers: &[Matcher], span: Span) -> Vec<Labels> {
        let matchers = self.all(matchers);
        let mut labels = self.inner.head().select_labels(&matchers, span);
        for block in self.blocks(span) {
            labels.extend(block.select_labels(&matchers, span));
        }
        labels.sort_unstable();
        labels.dedup();
        labels
    }

    fn label_names(&self) -> Vec<String> {
        self.words(|labels| labels.iter().map(|(name, _)| name.to_owned()).collect())
    }

    fn label_values(&self, name: &str) -> Vec<String> {
        let value = |labels: &Labels| Some(labels.get(name).to_owned()).filter(|v| !v.is_empty());
        self.words(|labels| value(labels).into_iter().collect())
    }
}

#[cfg(test)]
mod tests;
