//! What the driver does to instances, each by its folder and its supervisor. Called by the methods of
//! [`crate::ProcessDriver`]; start at [`Inner::list`].

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{OwnedMutexGuard, watch};
use tokio::task::AbortHandle;
use tombolo_driver::{Deadline, DeadlineRecord, Error, Instance, InstanceId, Result, State};
use tombolo_model::Engine;

use crate::cgroup::{self, Groups};
use crate::confine::Abilities;
use crate::folder::{self, Folder, StopRecord};
use crate::listeners::Listeners;
use crate::users::Users;
use crate::{LOOK_AGAIN, Options, PATIENCE, look, procfs, supervisor};

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) folder: PathBuf,
    pub(crate) options: Options,
    pub(crate) groups: Groups,
    pub(crate) boot_id: String,
    pub(crate) changed: watch::Sender<u64>,
    /// Who starts, stops or removes an instance holds its lock: two at once would be in each
    /// other's way.
    pub(crate) busy: Mutex<BTreeMap<InstanceId, Arc<tokio::sync::Mutex<()>>>>,
    /// The tasks that wait for the end of a supervisor.
    pub(crate) watched: Mutex<BTreeMap<InstanceId, (u32, AbortHandle)>>,
    pub(crate) runtime: Handle,
    /// What the machine can do to confine instances; found out when it is first asked for.
    pub(crate) abilities: OnceLock<Abilities>,
    /// The users that instances run as; opened when the first instance needs a user.
    pub(crate) users: Mutex<Option<Users>>,
    /// Whose the sockets are that take connections from elsewhere.
    pub(crate) listeners: Mutex<Listeners>,
    pub(crate) lock: File,
}

impl Inner {
    pub(crate) fn folder(&self, id: &InstanceId) -> Folder {
        Folder::new(self.folder.join(id.to_string()))
    }

    pub(crate) fn ids(&self) -> Vec<InstanceId> {
        self.try_ids().unwrap_or_default()
    }

    pub(crate) fn try_ids(&self) -> std::io::Result<Vec<InstanceId>> {
        let entries = fs::read_dir(&self.folder)?.collect::<std::io::Result<Vec<_>>>()?;
        let ids = entries.into_iter().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let mut ids: Vec<InstanceId> = ids.collect();
        ids.sort_unstable();
        Ok(ids)
    }

    /// An empty folder in place of the one that we have locked would look as if nothing ran, and
    /// everything would be started a second time.
    pub(crate) fn check_whole(&self) -> Result<()> {
        if Folder::new(&self.folder).is_locked_by(&self.lock) {
            return Ok(());
        }
        let why = "the folder was deleted or moved away while the agent had it";
        Err(Error::Unreachable {
            engine: Engine::Host,
            address: self.folder.display().to_string(),
            source: Arc::new(std::io::Error::new(std::io::ErrorKind::NotFound, why)),
        })
    }

    pub(crate) fn list(self: &Arc<Inner>) -> Result<Vec<Instance>> {
        self.check_whole()?;
        let ids = self.try_ids().map_err(|error| Error::io("list the instances", error))?;
        let mut found: Vec<Instance> = ids.iter().filter_map(|id| self.look_at(id)).collect();
        // What went during the look was not seen.
        self.check_whole()?;
        let mut listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        listeners.note(&mut found, &|id| look::members(&self.folder(id)));
        Ok(found)
    }

    /// Takes on what runs already: supervisors that were killed are replaced, and all are watched.
    pub(crate) fn take_on(self: &Arc<Inner>) {
        for id in self.ids() {
            self.look_at(&id);
        }
    }

    pub(crate) fn look_at(self: &Arc<Inner>, id: &InstanceId) -> Option<Instance> {
        let folder = self.folder(id);
        if let Err(error) = self.replace_supervisor(id, &folder) {
            tracing::warn!(%id, %error, "cannot replace its supervisor");
        }
        self.watch(id, &folder);
        look::look(&folder, &self.boot_id)
    }

    /// What a loss of power, or an agent killed while removing, left of an instance.
    pub(crate) fn clear_remains(&self) {
        for id in self.ids() {
            let folder = self.folder(&id);
            if folder.instance().is_none() && !matches!(folder.lock(), Ok(None)) {
                _ = folder.remove();
            }
        }
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let going = |name: &OsString| name.as_encoded_bytes().starts_with(folder::GOING.as_bytes());
        for name in entries.map(|entry| entry.file_name()).filter(going) {
            _ = fs::remove_dir_all(self.folder.join(name));
        }
    }

    pub(crate) fn wake(&self) {
        self.changed.send_modify(|count| *count = count.wrapping_add(1));
    }

    pub(crate) async fn hold(&self, id: &InstanceId) -> OwnedMutexGuard<()> {
        let lock = {
            let mut busy = self.busy.lock().unwrap_or_else(PoisonError::into_inner);
            // Only locks that somebody holds are worth keeping.
            busy.retain(|_, lock| Arc::strong_count(lock) > 1);
            busy.entry(id.clone()).or_default().clone()
        };
        lock.lock_owned().await
    }

    pub(crate) fn stop(&self, id: &InstanceId, grace: Duration) -> Result<()> {
        let folder = self.folder(id);
        match look::look(&folder, &self.boot_id).map(|instance| instance.state) {
            Some(State::Starting { .. } | State::Running(_) | State::Stopping(_)) => (),
            Some(State::Exited(_) | State::Failed(_)) | None => return Ok(()),
        }
        let at = procfs::since_boot().saturating_add(grace).as_millis();
        let wanted = u64::try_from(at).unwrap_or(u64::MAX);
        let kill_at_ms = folder.stop().map_or(wanted, |stop| stop.kill_at_ms.min(wanted));
        let stop = StopRecord { kill_at_ms };
        // Either way will do: a full disk keeps nothing from being stopped, and a supervisor that was
        // just killed nothing from being stopped by the next.
        match (folder.write_stop(stop), supervisor::tell(&folder, stop)) {
            (Ok(()), _) | (_, Ok(())) => Ok(()),
            (Err(error), Err(_)) => Err(Error::io(format!("stop {id}"), error)),
        }
    }

    pub(crate) fn end_at(&self, id: &InstanceId, deadline: Option<Deadline>) -> Result<()> {
        let folder = self.folder(id);
        if folder.instance().is_none() {
            return Ok(());
        }
        let (before, after) = (folder.deadline(), deadline.map(DeadlineRecord::of));
        if before != after {
            let written = folder.write_deadline(after);
            let doing = |error| Error::io(format!("note when {id} is to end"), error);
            match (written, after) {
                (Ok(()), _) => (),
                (Err(_), Some(after)) => supervisor::put_off(&folder, after).map_err(doing)?,
                (Err(error), None) => return Err(doing(error)),
            }
        }
        let end = |record: Option<DeadlineRecord>| record.map_or(u64::MAX, |it| it.end_at_ms);
        if end(after) < end(before) {
            // One that is gone reads the file when it is replaced.
            _ = supervisor::wake(&folder);
        }
        Ok(())
    }

    pub(crate) fn part(&self) -> Result<()> {
        let mut failed = Ok(());
        for folder in self.ids().iter().map(|id| self.folder(id)) {
            let Some(record) = folder.deadline() else { continue };
            let written = folder.write_deadline(Some(record.parted(procfs::since_boot())));
            failed = failed.and(written.map_err(|error| Error::io("note the good-bye", error)));
            _ = supervisor::wake(&folder);
        }
        failed
    }

    /// Waits until nobody holds the lock of the instance, then removes all of it.
    pub(crate) async fn remove(self: &Arc<Inner>, id: &InstanceId) -> Result<()> {
        let folder = self.folder(id);
        if !folder.path().exists() {
            return Ok(());
        }
        self.look_at(id);
        self.stop(id, Duration::ZERO)?;
        let doing = |error| Error::io(format!("remove {id}"), error);
        let lock = tokio::time::timeout(PATIENCE, async {
            loop {
                match folder.lock() {
                    Ok(Some(lock)) => return Ok(lock),
                    Ok(None) => tokio::time::sleep(LOOK_AGAIN).await,
                    Err(error) => return Err(error),
                }
            }
        });
        let waited = || Error::TimedOut { doing: format!("ending {id}"), after: PATIENCE };
        let lock = lock.await.map_err(|_| waited())?.map_err(doing)?;
        if let Some(record) = folder.instance() {
            cgroup::remove(&record.cgroups);
        }
        folder.remove().map_err(doing)?;
        drop(lock);
        self.wake();
        Ok(())
    }
}
