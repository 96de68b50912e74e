//! Blocks on the disk: [`BlockFile`], which is opened when somebody asks for it, and [`Blocks`], the list
//! of those that there are. A block that cannot be read goes into quarantine under its name.

use std::borrow::Cow;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use tombolo_series::chunk::Broken;
use tombolo_series::{Block, Sealed, Span, Storage};

use super::log::sync_folder;

/// So many series of blocks are kept open, which is some hundred bytes each. Beyond it those go that
/// were asked for the longest time ago.
const OPEN_SERIES_MAX: usize = 100_000;

/// A file from which a block reads what it is asked for.
#[derive(Debug)]
pub(super) struct FileBytes {
    file: File,
    length: usize,
    name: String,
}

impl FileBytes {
    fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let length = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
        Ok(Self { file, length, name: name_of(path) })
    }
}

impl Storage for FileBytes {
    fn length(&self) -> usize {
        self.length
    }

    fn bytes(&self, offset: usize, length: usize) -> Result<Cow<'_, [u8]>, Broken> {
        let end = offset.checked_add(length).filter(|end| *end <= self.length);
        end.ok_or(Broken("it ends too early"))?;
        let mut bytes = vec![0; length];
        let read = self.file.read_exact_at(&mut bytes, offset as u64);
        read.map_err(|_| Broken("the disk does not give it back"))?;
        Ok(Cow::Owned(bytes))
    }

    fn name(&self) -> &str {
        &self.name
    }
}

fn name_of(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// A block as a file. Its name says its span, so that it is opened only when that is wanted.
#[derive(Debug)]
pub(super) struct BlockFile {
    pub(super) path: PathBuf,
    pub(super) span: Span,
    pub(super) bytes: u64,
    number: u64,
    used: AtomicU64,
    open: Mutex<Option<Arc<Block<FileBytes>>>>,
}

impl BlockFile {
    fn of(path: PathBuf, bytes: u64) -> Option<Self> {
        let mut words = path.file_stem()?.to_str()?.split('_');
        let mut word = || words.next()?.parse::<i64>().ok();
        let span = Span::new(word()?, word()?);
        let number = u64::try_from(word()?).ok()?;
        let is_block = path.extension()? == "block";
        let (used, open) = (AtomicU64::new(0), Mutex::default());
        is_block.then_some(Self { path, span, bytes, number, used, open })
    }

    pub(super) fn name(&self) -> String {
        name_of(&self.path)
    }

    /// The block, read if it is not.
    pub(super) fn block(&self) -> Result<Arc<Block<FileBytes>>, Unreadable> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(block) = &*open {
            return Ok(Arc::clone(block));
        }
        let file = FileBytes::open(&self.path)?;
        let block = Arc::new(Block::open(file)?);
        *open = Some(Arc::clone(&block));
        Ok(block)
    }
}

#[derive(Debug, thiserror::Error)]
pub(super) enum Unreadable {
    #[error(transparent)]
    Disk(#[from] io::Error),
    #[error(transparent)]
    Broken(#[from] Broken),
}

/// All blocks of a folder, in the order of time.
#[derive(Debug)]
pub(super) struct Blocks {
    folder: PathBuf,
    quarantine: PathBuf,
    list: RwLock<Vec<Arc<BlockFile>>>,
    next: AtomicU64,
    clock: AtomicU64,
}

impl Blocks {
    pub(super) fn open(folder: &Path, quarantine: &Path) -> io::Result<Self> {
        let mut list = Vec::new();
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let path = entry.path();
            if path.extension().is_some_and(|extension| extension == "new") {
                fs::remove_file(path)?;
                continue;
            }
            list.extend(BlockFile::of(path, entry.metadata()?.len()).map(Arc::new));
        }
        list.sort_by_key(|block| (block.span.from_ms, block.number));
        let next = list.iter().map(|block| block.number + 1).max().unwrap_or_default();
        Ok(Self {
            folder: folder.to_owned(),
            quarantine: quarantine.to_owned(),
            list: RwLock::new(list),
            next: AtomicU64::new(next),
            clock: AtomicU64::new(0),
        })
    }

    pub(super) fn all(&self) -> Vec<Arc<BlockFile>> {
        self.list.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.all().iter().map(|block| block.bytes).sum()
    }

    pub(super) fn newest_ms(&self) -> Option<i64> {
        self.all().iter().map(|block| block.span.to_ms).max()
    }

    /// The blocks that may have something in the span, opened. Those that cannot be go into quarantine,
    /// and are told of.
    pub(super) fn near(
        &self,
        span: Span,
        mut tell: impl FnMut(String),
    ) -> Vec<Arc<Block<FileBytes>>> {
        let now = self.clock.fetch_add(1, Ordering::Relaxed);
        let mut opened = Vec::new();
        for file in self.all().iter().filter(|file| file.span.meets(span)) {
            file.used.store(now, Ordering::Relaxed);
            match file.block() {
                Ok(block) => opened.push(block),
                // It was removed by retention or compaction since the list was looked at, and what it
                // had is elsewhere or old.
                Err(Unreadable::Disk(error)) if error.kind() == io::ErrorKind::NotFound => {}
                Err(why) => {
                    tell(format!("block {} is not readable: {why}", file.name()));
                    self.set_aside(file, &mut tell);
                }
            }
        }
        self.close_some();
        opened
    }

    /// Forgets the indexes that nobody has asked for lately.
    fn close_some(&self) {
        let mut open: Vec<(u64, usize, Arc<BlockFile>)> = Vec::new();
        for file in self.all() {
            let held = file.open.lock().unwrap_or_else(PoisonError::into_inner);
            let series = held.as_ref().map(|block| block.series_count());
            drop(held);
            open.extend(series.map(|series| (file.used.load(Ordering::Relaxed), series, file)));
        }
        open.sort_by_key(|(used, ..)| std::cmp::Reverse(*used));
        let mut total = 0;
        for (number, (_, series, file)) in open.iter().enumerate() {
            total += series;
            if total > OPEN_SERIES_MAX && number > 0 {
                *file.open.lock().unwrap_or_else(PoisonError::into_inner) = None;
            }
        }
    }

    /// Makes a block last, and only then shows it.
    pub(super) fn add(&self, sealed: &Sealed) -> io::Result<()> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let Span { from_ms, to_ms } = sealed.span;
        let path = self.folder.join(format!("{from_ms}_{to_ms}_{number:08}.block"));
        let new = path.with_extension("new");
        let mut file = File::create(&new)?;
        file.write_all(&sealed.bytes)?;
        file.sync_all()?;
        fs::rename(&new, &path)?;
        sync_folder(&self.folder)?;
        let bytes = sealed.bytes.len() as u64;
        let block = BlockFile::of(path, bytes).expect("its name was just made");
        let mut list = self.list.write().unwrap_or_else(PoisonError::into_inner);
        list.push(Arc::new(block));
        list.sort_by_key(|block| (block.span.from_ms, block.number));
        Ok(())
    }

    pub(super) fn remove(&self, file: &BlockFile) -> io::Result<()> {
        self.hide(file);
        match fs::remove_file(&file.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            result => result,
        }
    }

    /// Into quarantine: it is served no more, and stays for whoever wants to look at it.
    pub(super) fn set_aside(&self, file: &BlockFile, mut tell: impl FnMut(String)) {
        self.hide(file);
        let target = self.quarantine.join(file.name());
        match fs::rename(&file.path, &target) {
            Ok(()) => tell(format!("block {} is in quarantine: {}", file.name(), target.display())),
            Err(error) => tell(format!("block {} cannot be set aside: {error}", file.name())),
        }
    }

    fn hide(&self, file: &BlockFile) {
        let mut list = self.list.write().unwrap_or_else(PoisonError::into_inner);
        list.retain(|other| other.number != file.number);
    }
}
