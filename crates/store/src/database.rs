//! The tables in redb: what is written in one transaction, and how all of it is read and checked
//! when the store is opened. Only the writer thread calls this, and `Store::open`.
//!
//! Commits are two-phase. With redb's cheaper single phase, a crash may leave the last commit
//! half written, and opening falls back to the one before; a damaged page of an acknowledged
//! commit looks just the same and would be rolled back without a word. In two phases the pages
//! are synced before the header points at them, so that redb reports any damage to them instead.
//! The price is a second sync per group, not per write. `slots` covers the one bit that is left.
//!
//! Quick repair stays off: it would write redb's allocator state with every commit to save a
//! walk over the file after a crash, and we walk over the whole file anyway to verify it.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use redb::{ReadableDatabase, ReadableTable, ReadableTableMetadata, TableDefinition};

use crate::disk::{Backend, Disk, Unfinished};
use crate::memory::State;
use crate::object::{Event, Kind, Object};
use crate::sealing::{self, Sealing, Step};
use crate::trouble::{Trouble, guarded};
use crate::{Error, Result, record, slots};

/// By revision; see `record` for the value.
const VERSIONS: TableDefinition<u64, &[u8]> = TableDefinition::new("versions");
const META: TableDefinition<&str, u64> = TableDefinition::new("meta");
/// By revision; see `record` for the value.
const AUDIT: TableDefinition<u64, &[u8]> = TableDefinition::new("audit");

const FORMAT: u64 = 1;
/// In `META`: the fingerprint of the key; see [`Step`].
const SEALED_WITH: &str = "sealed-with";
const FILE_NAME: &str = "store.redb";
/// Reads come from memory, so that redb's cache serves only the pages that a commit touches.
const CACHE_BYTES: usize = 8 * 1024 * 1024;

/// One transaction.
#[derive(Debug)]
pub(crate) struct Group<'a> {
    pub(crate) events: &'a [Event],
    pub(crate) notes: &'a [(u64, Bytes)],
    pub(crate) revision: u64,
    pub(crate) compacted: u64,
    /// Versions that no readable revision needs any more.
    pub(crate) drops: &'a [u64],
    /// How many of the oldest notes go.
    pub(crate) notes_dropped: u64,
}

/// What an open finds.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) state: State,
    /// Versions that could be dropped already; see [`Group::drops`].
    pub(crate) drops: VecDeque<u64>,
    pub(crate) notes: u64,
}

impl Loaded {
    /// What the writer keeps of a load; the state goes to the readers.
    pub(crate) fn split(self) -> (State, (VecDeque<u64>, u64)) {
        (self.state, (self.drops, self.notes))
    }
}

#[derive(Debug)]
pub(crate) struct Database {
    redb: redb::Database,
    sealing: Option<Sealing>,
}

impl Database {
    /// Opens and verifies the file, or creates it. One from before the sealing is written anew.
    pub(crate) fn open(
        dir: &Path,
        disk: &Arc<Disk>,
        sealing: Option<&Sealing>,
    ) -> Result<Database> {
        let database = Database::open_as_it_is(dir, disk, sealing)?;
        let found = database.sealed_with().map_err(|t| t.into_error(dir, "open the store"))?;
        match sealing::step(found, sealing.map(|sealing| sealing.key.fingerprint())) {
            Step::Nothing => Ok(database),
            Step::NoKey => Err(Error::NoKey { dir: dir.into() }),
            Step::OtherKey => Err(Error::OtherKey { dir: dir.into() }),
            Step::Reseal => {
                let resealed = guarded(|| database.reseal(dir, disk));
                drop(database);
                resealed.map_err(|trouble| trouble.into_error(dir, "seal the store"))?;
                tracing::info!("what is secret in the store is sealed now");
                Database::open_as_it_is(dir, disk, sealing)
            }
        }
    }

    fn open_as_it_is(dir: &Path, disk: &Arc<Disk>, sealing: Option<&Sealing>) -> Result<Database> {
        let path = dir.join(FILE_NAME);
        let missing =
            !path.try_exists().map_err(|error| Error::io("look for the store's file", error))?;
        if missing {
            create(dir, disk, sealing)
                .map_err(|trouble| trouble.into_error(dir, "create the store"))?;
        }
        let open = || {
            let file = OpenOptions::new().read(true).write(true).open(&path)?;
            slots::settle(&file)?;
            guarded(|| verified(Backend::new(file, disk.clone())))
        };
        let redb = open().map_err(|trouble| trouble.into_error(dir, "open the store"))?;
        let database = Database { redb, sealing: sealing.cloned() };
        let format = database.meta("format").map_err(|t| t.into_error(dir, "open the store"))?;
        if format != FORMAT {
            return Err(Error::UnknownFormat { dir: dir.into(), found: format, known: FORMAT });
        }
        Ok(database)
    }

    pub(crate) fn is_there(dir: &Path) -> bool {
        dir.join(FILE_NAME).exists()
    }

    /// Tells the store's file from another under its name; nothing if there is none.
    pub(crate) fn inode(dir: &Path) -> io::Result<Option<u64>> {
        match std::fs::metadata(dir.join(FILE_NAME)) {
            Ok(found) => Ok(Some(found.ino())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Puts a damaged file aside, so that the next open starts empty. Returns its new name.
    pub(crate) fn set_aside(dir: &Path) -> io::Result<std::path::PathBuf> {
        let aside = (1_u32..)
            .map(|number| dir.join(format!("{FILE_NAME}.damaged-{number}")))
            .find(|path| !path.exists())
            .expect("there are more numbers than files");
        std::fs::rename(dir.join(FILE_NAME), &aside)?;
        File::open(dir)?.sync_all()?;
        Ok(aside)
    }

    pub(crate) fn write(&self, group: &Group<'_>) -> Result<(), Trouble> {
        let mut transaction = self.redb.begin_write()?;
        transaction.set_two_phase_commit(true);
        {
            let mut versions = transaction.open_table(VERSIONS)?;
            let mut bytes = Vec::new();
            for event in group.events {
                let previous = event.previous.as_ref().map_or(0, |object| object.revision);
                bytes.clear();
                let sealing = self.sealing.as_ref();
                record::encode(event.kind, previous, &event.object, sealing, &mut bytes)?;
                versions.insert(event.revision(), bytes.as_slice())?;
            }
            for revision in group.drops {
                versions.remove(revision)?;
            }
            let mut audit = transaction.open_table(AUDIT)?;
            for (revision, note) in group.notes {
                audit.insert(revision, record::encode_note(*revision, note).as_slice())?;
            }
            for _ in 0..group.notes_dropped {
                audit.pop_first()?;
            }
            let mut meta = transaction.open_table(META)?;
            meta.insert("revision", group.revision)?;
            meta.insert("compacted", group.compacted)?;
        }
        transaction.commit()?;
        Ok(())
    }

    /// Replaces all objects in one transaction, and forgets all history. The audit record stays.
    pub(crate) fn replace(&self, objects: &[Arc<Object>], revision: u64) -> Result<(), Trouble> {
        let mut transaction = self.redb.begin_write()?;
        transaction.set_two_phase_commit(true);
        transaction.delete_table(VERSIONS)?;
        {
            let mut versions = transaction.open_table(VERSIONS)?;
            let mut bytes = Vec::new();
            for object in objects {
                bytes.clear();
                let sealing = self.sealing.as_ref();
                record::encode(Kind::Created, 0, object, sealing, &mut bytes)?;
                versions.insert(object.revision, bytes.as_slice())?;
            }
            let mut meta = transaction.open_table(META)?;
            meta.insert("revision", revision)?;
            meta.insert("compacted", revision)?;
        }
        transaction.commit()?;
        Ok(())
    }

    pub(crate) fn audit(&self, after: u64, limit: usize) -> Result<Vec<(u64, Bytes)>, Trouble> {
        let audit = self.redb.begin_read()?.open_table(AUDIT)?;
        let mut notes = Vec::new();
        for row in audit.range(after.saturating_add(1)..)?.take(limit) {
            let (revision, bytes) = row?;
            let revision = revision.value();
            let note = record::decode_note(revision, bytes.value())
                .map_err(|what| Trouble::Damaged(format!("note {revision}: {what}")))?;
            notes.push((revision, note));
        }
        Ok(notes)
    }

    pub(crate) fn revision(&self) -> Result<u64, Trouble> {
        self.meta("revision")
    }

    /// Gives free pages back to the file system.
    pub(crate) fn shrink(&mut self) -> Result<(), Trouble> {
        self.redb.compact()?;
        Ok(())
    }

    fn meta(&self, name: &str) -> Result<u64, Trouble> {
        let found = self.find_meta(name)?;
        found.ok_or_else(|| Trouble::Damaged(format!("it has no {name}")))
    }

    fn find_meta(&self, name: &str) -> Result<Option<u64>, Trouble> {
        let meta = self.redb.begin_read()?.open_table(META)?;
        Ok(meta.get(name)?.map(|value| value.value()))
    }

    /// The fingerprint of the key that its secrets are sealed with.
    fn sealed_with(&self) -> Result<Option<u64>, Trouble> {
        self.find_meta(SEALED_WITH)
    }

    /// Writes everything to a new file that takes the place of this one. In the same file, the pages
    /// that have become free would go on holding what they held.
    fn reseal(&self, dir: &Path, disk: &Arc<Disk>) -> Result<(), Trouble> {
        create_with(dir, disk, self.sealing.as_ref(), |transaction| {
            let from = self.redb.begin_read()?;
            let mut bytes = Vec::new();
            let mut versions = transaction.open_table(VERSIONS)?;
            for row in from.open_table(VERSIONS)?.iter()? {
                let (revision, plain) = row?;
                let record = record::decode(plain.value(), None).map_err(|what| {
                    Trouble::Damaged(format!("version {}: {what}", revision.value()))
                })?;
                bytes.clear();
                let sealing = self.sealing.as_ref();
                record::encode(record.kind, record.previous, &record.object, sealing, &mut bytes)?;
                versions.insert(revision.value(), bytes.as_slice())?;
            }
            let mut audit = transaction.open_table(AUDIT)?;
            for row in from.open_table(AUDIT)?.iter()? {
                let (revision, note) = row?;
                audit.insert(revision.value(), note.value())?;
            }
            let mut meta = transaction.open_table(META)?;
            for name in ["revision", "compacted"] {
                meta.insert(name, self.meta(name)?)?;
            }
            Ok(())
        })
    }

    /// Reads everything into memory and checks it.
    pub(crate) fn load(&self) -> Result<Loaded, Trouble> {
        let revision = self.meta("revision")?;
        let transaction = self.redb.begin_read()?;
        let sealing = self.sealing.as_ref();
        let mut loading = Loading::new(revision, self.meta("compacted")?);
        for row in transaction.open_table(VERSIONS)?.iter()? {
            let (key, bytes) = row?;
            loading
                .add(key.value(), bytes.value(), sealing)
                .map_err(|what| Trouble::Damaged(format!("version {}: {what}", key.value())))?;
        }
        let notes = transaction.open_table(AUDIT)?.len()?;
        if loading.state.revision != revision {
            let what = format!("versions after {} are missing", loading.state.revision);
            return Err(Trouble::Damaged(what));
        }
        Ok(Loaded { state: loading.state, drops: loading.drops, notes })
    }
}

/// Opens redb over bytes that may be damaged, and verifies every checksum in them.
pub(crate) fn verified(backend: impl redb::StorageBackend) -> Result<redb::Database, Trouble> {
    let repaired = Arc::new(AtomicBool::new(false));
    let mut redb = redb::Builder::new()
        .set_cache_size(CACHE_BYTES)
        .set_repair_callback({
            let repaired = repaired.clone();
            move |_| repaired.store(true, Ordering::Relaxed)
        })
        .create_with_backend(backend)?;
    // A repair has verified everything already. `false` below means that only redb's account
    // of free pages was wrong; every page in use has passed.
    if !repaired.load(Ordering::Relaxed) && !redb.check_integrity()? {
        tracing::warn!("the store's account of free pages was wrong and has been rebuilt");
    }
    Ok(redb)
}

/// Makes an empty store under another name first, so that a file with the right name is always
/// complete: an empty one is then damage, and not a beginning.
fn create(dir: &Path, disk: &Arc<Disk>, sealing: Option<&Sealing>) -> Result<(), Trouble> {
    create_with(dir, disk, sealing, |_| Ok(()))
}

/// The same with what `fill` puts into it.
fn create_with(
    dir: &Path,
    disk: &Arc<Disk>,
    sealing: Option<&Sealing>,
    fill: impl FnOnce(&redb::WriteTransaction) -> Result<(), Trouble>,
) -> Result<(), Trouble> {
    let unfinished = dir.join("store.redb.new");
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&unfinished)?;
    let backend = Unfinished(Backend::new(file.try_clone()?, disk.clone()));
    let redb = redb::Builder::new().set_cache_size(CACHE_BYTES).create_with_backend(backend)?;
    let mut transaction = redb.begin_write()?;
    transaction.set_two_phase_commit(true);
    {
        transaction.open_table(VERSIONS)?;
        transaction.open_table(AUDIT)?;
        let mut meta = transaction.open_table(META)?;
        meta.insert("format", FORMAT)?;
        meta.insert("revision", 0)?;
        meta.insert("compacted", 0)?;
        if let Some(sealing) = sealing {
            meta.insert(SEALED_WITH, sealing.key.fingerprint())?;
        }
    }
    fill(&transaction)?;
    transaction.commit()?;
    drop(redb);
    file.sync_all()?;
    std::fs::rename(&unfinished, dir.join(FILE_NAME))?;
    File::open(dir)?.sync_all()?;
    Ok(())
}

/// The state while the log is read, oldest version first.
struct Loading {
    state: State,
    drops: VecDeque<u64>,
    revision: u64,
}

impl Loading {
    fn new(revision: u64, compacted: u64) -> Loading {
        Loading { state: State::at(compacted), drops: VecDeque::new(), revision }
    }

    fn add(
        &mut self,
        revision: u64,
        bytes: &[u8],
        sealing: Option<&Sealing>,
    ) -> Result<(), &'static str> {
        let record = record::decode(bytes, sealing)?;
        if record.object.revision != revision {
            return Err("it lies at the place of another");
        }
        if revision > self.revision {
            return Err("it is newer than the newest revision");
        }
        if revision <= self.state.compacted { self.add_old(record) } else { self.add_event(record) }
    }

    /// A version from before the horizon: either current at the horizon, or not dropped yet.
    fn add_old(&mut self, record: record::Record) -> Result<(), &'static str> {
        let object = Arc::new(record.object);
        match record.kind {
            Kind::Created | Kind::Updated => {
                let before = self.state.objects.insert(object.key.clone(), object);
                self.drops.extend(before.map(|object| object.revision));
            }
            Kind::Deleted => {
                let before = self.state.objects.remove(&object.key);
                self.drops.extend(before.map(|object| object.revision));
                self.drops.push_back(object.revision);
            }
        }
        Ok(())
    }

    fn add_event(&mut self, record: record::Record) -> Result<(), &'static str> {
        if record.object.revision != self.state.revision + 1 {
            return Err("the one before it is missing");
        }
        let previous = self.state.objects.get(&record.object.key).cloned();
        if previous.as_ref().map_or(0, |object| object.revision) != record.previous {
            return Err("the version that it follows is missing");
        }
        if previous.is_none() != (record.kind == Kind::Created) {
            return Err("its kind does not fit the version before it");
        }
        let event = Event { kind: record.kind, object: Arc::new(record.object), previous };
        let compacted = self.state.compacted;
        self.state.apply(vec![event], compacted);
        Ok(())
    }
}
