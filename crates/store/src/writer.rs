//! The one thread that writes. Takes what waits in the queue as one group, commits it durably,
//! and only then shows it to readers and answers the callers: many writers, one pair of syncs.
//! `Store` sends [`Command`]s. Start at [`Writer::run`].

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::amend::Amend;
use crate::backup::Backup;
use crate::command::{Call, Command};
use crate::database::{Database, Group};
use crate::disk::Disk;
use crate::group::{self, Plan};
use crate::memory::History;
use crate::object::{Kind, Object};
use crate::trouble::{Trouble, guarded};
use crate::{Error, Options, Result, Shared};

/// More would let the first caller of a group wait for the bytes of too many others.
const GROUP_CALLS_MAX: usize = 1024;
const GROUP_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Dropping old versions must not make a commit long. What is left over goes with the next one.
const DROPS_PER_COMMIT_MAX: usize = 1024;
/// How often a full disk is looked at again.
const FULL_RETRY: Duration = Duration::from_secs(1);
/// When the disk is full, the history makes room: this much is left of it.
const HISTORY_WHEN_FULL: History = History { events_max: 256, bytes_max: 1024 * 1024 };
/// Restored revisions lie above everything that the lost store can have handed out.
const RESTORE_LEAP: u64 = 1_000_000_000;
/// The longest wait for more company; see [`Writer::gather`].
const GATHER_MAX: Duration = Duration::from_millis(1);

#[derive(Debug)]
pub(crate) struct Writer {
    dir: PathBuf,
    options: Options,
    shared: Arc<Shared>,
    disk: Arc<Disk>,
    /// `None` after an error, until it can be opened again.
    database: Option<Database>,
    /// Of the file that is open.
    inode: Option<u64>,
    drops: VecDeque<u64>,
    notes: u64,
    full: Option<FullDisk>,
    last_group: LastGroup,
}

#[derive(Debug)]
struct FullDisk {
    retry_at: Instant,
    /// What deletes have freed inside the file since it was last shrunk.
    freed_bytes: u64,
}

#[derive(Debug, Default)]
struct LastGroup {
    calls: usize,
    took: Duration,
}

impl Writer {
    pub(crate) fn new(
        dir: PathBuf,
        options: Options,
        shared: Arc<Shared>,
        disk: Arc<Disk>,
        database: Database,
        loaded: (VecDeque<u64>, u64),
    ) -> Writer {
        let (drops, notes) = loaded;
        let mut writer = Writer {
            inode: Database::inode(&dir).unwrap_or_default(),
            dir,
            options,
            shared,
            disk,
            database: Some(database),
            drops,
            notes,
            full: None,
            last_group: LastGroup::default(),
        };
        if let Err(error) = writer.disk.take_ballast() {
            tracing::warn!(%error, "no room for the reserve; only deletes are accepted");
            writer.full = Some(FullDisk { retry_at: Instant::now(), freed_bytes: 0 });
        }
        writer
    }

    /// Returns when every `Store` is gone.
    pub(crate) fn run(mut self, queue: &Receiver<Command>) {
        let shared = self.shared.clone();
        // Also when this thread panics: waiting watchers must not wait for ever.
        let _close = CloseOnDrop(&shared);
        let mut next = queue.recv().ok();
        while let Some(command) = next.take() {
            match command {
                Command::Commit(first) => {
                    let (calls, other) = self.gather(first, queue);
                    next = other;
                    self.run_group(calls);
                }
                Command::Compact { revision, reply } => {
                    drop(reply.send(self.compact(revision)));
                }
                Command::Restore { backup, amend, reply } => {
                    drop(reply.send(self.restore(&backup, amend)));
                }
                Command::Audit { after, limit, reply } => {
                    drop(reply.send(self.audit(after, limit)));
                }
            }
            next = next.or_else(|| queue.recv().ok());
        }
    }

    /// Takes what waits. The writers of the last group are likely to come again at once, but a
    /// moment after their answers; starting with the first of them would let the others wait for
    /// a whole commit. So wait for as many as there were, for a fraction of what a commit takes.
    fn gather(&self, first: Call, queue: &Receiver<Command>) -> (Vec<Call>, Option<Command>) {
        let patience = (self.last_group.took / 4).min(GATHER_MAX);
        let deadline = Instant::now() + patience;
        let mut bytes = first.bytes;
        let mut calls = vec![first];
        while calls.len() < GROUP_CALLS_MAX && bytes < GROUP_BYTES_MAX {
            let command = match queue.try_recv() {
                Ok(command) => command,
                Err(TryRecvError::Disconnected) => break,
                Err(TryRecvError::Empty) if calls.len() >= self.last_group.calls => break,
                Err(TryRecvError::Empty) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    match queue.recv_timeout(left) {
                        Ok(command) => command,
                        Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
                    }
                }
            };
            match command {
                Command::Commit(call) => {
                    bytes += call.bytes;
                    calls.push(call);
                }
                other => return (calls, Some(other)),
            }
        }
        (calls, None)
    }

    fn run_group(&mut self, calls: Vec<Call>) {
        let started = Instant::now();
        let bytes = calls.iter().map(|call| call.bytes).sum();
        self.shared.dequeued(bytes);
        #[cfg(feature = "planted-bugs")]
        if self.options.acknowledge_before_durable {
            return self.run_group_with_the_planted_bug(calls);
        }
        self.look_for_room();
        let mut calls = calls;
        let mut outcome = self.commit_group(&calls);
        if matches!(outcome, Err(Error::Full)) && self.full.is_none() {
            self.enter_emergency();
            // Whoever needs room is told at once; deletes wait for the file to be opened again.
            for call in calls.extract_if(.., |call| group::takes_room(call)) {
                drop(call.reply.send(Err(Error::Full)));
            }
            outcome = self.commit_group(&calls);
        }
        self.last_group = LastGroup { calls: calls.len(), took: started.elapsed() };
        match outcome {
            Ok(results) => {
                for (call, result) in calls.into_iter().zip(results) {
                    // A caller that went away does not undo its write.
                    drop(call.reply.send(result));
                }
            }
            Err(error) => {
                for call in calls {
                    drop(call.reply.send(Err(error.clone())));
                }
            }
        }
    }

    /// Everything or nothing of the calls that can be granted, durably. The inner results are
    /// what each caller gets.
    fn commit_group(&mut self, calls: &[Call]) -> Result<Vec<Result<Vec<Arc<Object>>>>> {
        // Before a refusal for another reason, a full disk above all, that would hide it.
        if let Some(damage) = self.shared.damage.get() {
            return Err(damage.clone());
        }
        let plan = group::plan(&self.shared.read(), calls, self.full.is_some());
        if plan.events.is_empty() {
            return Ok(plan.results);
        }
        self.ensure_open()?;
        let horizon = self.shared.read().horizon(&plan.events, self.history());
        let results = self.write(plan, horizon)?;
        Ok(results)
    }

    fn history(&self) -> History {
        let wanted = History {
            events_max: self.options.history_events_max,
            bytes_max: self.options.history_bytes_max,
        };
        match self.full {
            Some(_) => History {
                events_max: wanted.events_max.min(HISTORY_WHEN_FULL.events_max),
                bytes_max: wanted.bytes_max.min(HISTORY_WHEN_FULL.bytes_max),
            },
            None => wanted,
        }
    }

    /// Writes a plan, forgets up to `horizon`, and makes both visible.
    fn write(&mut self, plan: Plan, horizon: u64) -> Result<Vec<Result<Vec<Arc<Object>>>>> {
        let (revision, drops) = {
            let state = self.shared.read();
            let revision = state.revision + plan.events.len() as u64;
            let mut drops = self.drops.clone();
            for event in state.events_until(horizon) {
                drops.extend(event.previous.as_ref().map(|previous| previous.revision));
                if event.kind == Kind::Deleted {
                    drops.push_back(event.revision());
                }
            }
            (revision, drops)
        };
        let mut drops: Vec<u64> = drops.into();
        let later = drops.split_off(drops.len().min(DROPS_PER_COMMIT_MAX));
        let notes_dropped = (self.notes + plan.notes.len() as u64)
            .saturating_sub(self.options.audit_notes_max)
            .min(DROPS_PER_COMMIT_MAX as u64);
        self.write_durably(&Group {
            events: &plan.events,
            notes: &plan.notes,
            revision,
            compacted: horizon,
            drops: &drops,
            notes_dropped,
        })?;
        self.still_there()?;
        self.drops = later.into();
        self.notes = self.notes + plan.notes.len() as u64 - notes_dropped;
        if let Some(full) = &mut self.full {
            full.freed_bytes += plan.freed_bytes;
        }
        let aftermath = self.shared.write().apply(plan.events, horizon);
        aftermath.wake();
        Ok(plan.results)
    }

    /// What is written to a file that somebody has removed is gone with this process, and no write says so.
    fn still_there(&self) -> Result<()> {
        let Ok(found) = Database::inode(&self.dir) else { return Ok(()) };
        if found == self.inode {
            return Ok(());
        }
        let what = "its file was removed or replaced while the server had it open";
        let error = Error::corrupt(&self.dir, what.to_owned());
        tracing::error!(%error, "nothing is written any more");
        Err(self.shared.damage.get_or_init(|| error).clone())
    }

    fn write_durably(&mut self, group: &Group<'_>) -> Result<()> {
        let before = self.disk.syncs();
        let database = self.database.as_ref().ok_or(Error::Closed)?;
        // A disk that lies shows as a page that makes no sense, on which redb may panic.
        let written = guarded(|| database.write(group));
        self.settle(written, before, group.revision, "write")
    }

    /// Decides what has become of a transaction that would have led to `revision`. After an
    /// error redb must be opened again. Unless it was certainly too early for that, this shows
    /// whether the transaction is durable all the same.
    fn settle(
        &mut self,
        written: Result<(), Trouble>,
        syncs_before: u64,
        revision: u64,
        doing: &str,
    ) -> Result<()> {
        let Err(trouble) = written else { return Ok(()) };
        let error = match trouble {
            Trouble::Io(_) if self.disk.ran_full() => Error::Full,
            trouble => trouble.into_error(&self.dir, doing),
        };
        tracing::warn!(%error, "a commit failed; the store's file will be opened again");
        let too_early = self.disk.syncs() == syncs_before;
        self.close();
        if too_early && !matches!(error, Error::Corrupt { .. }) {
            return Err(error);
        }
        self.ensure_open()?;
        let found = self.database.as_ref().ok_or(Error::Closed)?.revision();
        let found = found.map_err(|trouble| trouble.into_error(&self.dir, "read"))?;
        if found == revision && revision != self.shared.read().revision {
            return Ok(());
        }
        Err(error)
    }

    fn ensure_open(&mut self) -> Result<()> {
        if let Some(damage) = self.shared.damage.get() {
            return Err(damage.clone());
        }
        if self.database.is_some() {
            return Ok(());
        }
        match Database::open(&self.dir, &self.disk, self.options.sealing.as_ref()) {
            Ok(database) => {
                self.database = Some(database);
                self.inode = Database::inode(&self.dir).unwrap_or_default();
                Ok(())
            }
            Err(error @ Error::Corrupt { .. }) => {
                tracing::error!(%error, "nothing is written any more");
                Err(self.shared.damage.get_or_init(|| error).clone())
            }
            Err(error) => Err(error),
        }
    }

    fn enter_emergency(&mut self) {
        tracing::warn!("the disk is full; only deletes are accepted until there is room again");
        if let Err(error) = self.disk.release_ballast() {
            tracing::warn!(%error, "the reserve cannot be released");
        }
        self.full = Some(FullDisk { retry_at: Instant::now() + FULL_RETRY, freed_bytes: 0 });
    }

    /// Ends the emergency once the ballast fits again.
    fn look_for_room(&mut self) {
        let Some(full) = &mut self.full else { return };
        if Instant::now() < full.retry_at {
            return;
        }
        full.retry_at = Instant::now() + FULL_RETRY;
        // Deletes free pages inside the file; the disk sees that room only once the file shrinks.
        // However little the last ones freed: nothing else may come that would add to it.
        if full.freed_bytes > 0 {
            full.freed_bytes = 0;
            self.shrink();
        }
        if self.disk.take_ballast().is_ok() {
            tracing::info!("there is room on the disk again");
            self.full = None;
        }
    }

    fn shrink(&mut self) {
        let Some(database) = &mut self.database else { return };
        if let Err(trouble) = guarded(|| database.shrink()) {
            tracing::warn!(?trouble, "the store's file cannot be shrunk");
            self.close();
        }
    }

    fn compact(&mut self, revision: u64) -> Result<()> {
        self.ensure_open()?;
        self.shared.read().readable(revision)?;
        if revision == self.shared.read().compacted {
            return Ok(());
        }
        self.write(Plan::default(), revision).map(drop)
    }

    fn restore(&mut self, backup: &Backup, amend: Amend) -> Result<u64> {
        self.ensure_open()?;
        let amendment = amend.decide(&self.shared.read().objects, &backup.objects)?;
        let base = self.shared.read().revision.max(backup.revision) + RESTORE_LEAP;
        let (objects, revision) = group::restamp(&backup.objects, &amendment, base);
        let before = self.disk.syncs();
        let database = self.database.as_ref().ok_or(Error::Closed)?;
        let written = guarded(|| database.replace(&objects, revision));
        self.settle(written, before, revision, "restore")?;
        self.drops.clear();
        let objects = objects.into_iter().map(|object| (object.key.clone(), object)).collect();
        let aftermath = self.shared.write().replace(objects, revision);
        aftermath.wake();
        Ok(revision)
    }

    fn audit(&mut self, after: u64, limit: usize) -> Result<Vec<(u64, Bytes)>> {
        self.ensure_open()?;
        let database = self.database.as_ref().ok_or(Error::Closed)?;
        let notes = guarded(|| database.audit(after, limit));
        notes.map_err(|trouble| {
            if matches!(trouble, Trouble::Damaged(_)) {
                // The next open says whether the file has it or only this look at it.
                self.close();
            }
            trouble.into_error(&self.dir, "read notes")
        })
    }

    /// redb writes once more when it closes, over pages that may make no sense.
    fn close(&mut self) {
        let database = self.database.take();
        if guarded(|| {
            drop(database);
            Ok(())
        })
        .is_err()
        {
            tracing::warn!("the store's file was not closed in order");
        }
    }

    /// For the crash test, which must find this.
    #[cfg(feature = "planted-bugs")]
    fn run_group_with_the_planted_bug(&mut self, calls: Vec<Call>) {
        let plan = group::plan(&self.shared.read(), &calls, false);
        for (call, result) in calls.into_iter().zip(plan.results.clone()) {
            drop(call.reply.send(result));
        }
        let horizon = self.shared.read().compacted;
        drop(self.write(plan, horizon));
    }
}

struct CloseOnDrop<'a>(&'a Shared);

impl Drop for CloseOnDrop<'_> {
    fn drop(&mut self) {
        let aftermath = self.0.write().close();
        aftermath.wake();
    }
}
