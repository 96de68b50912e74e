//! Supervised processes of a Linux host that outlive the agent. [`open`] gives the driver; the
//! agent of a site with the engine `host` holds it. [`supervise::main`] is the other half, a small
//! process beside each instance.
//!
//! The driver keeps nothing in memory that counts: every look reads the folders of the instances
//! (`folder`) and the kernel's word on their processes (`procfs`). Killing the agent changes
//! nothing; [`open`] finds everything again, under the same process numbers.
//!
//! Files of a component are put below its working directory as if that were `/`; the folder is in
//! `TOMBOLO_DIR`. To read on, see `start`, then [`supervise`].

mod cgroup;
mod confine;
mod cut;
mod exec;
mod files;
mod folder;
mod launch;
mod listeners;
mod logfile;
mod logs;
mod look;
mod manner;
mod port;
mod procfs;
mod program;
mod spool;
mod start;
pub mod supervise;
mod supervisor;
mod terminal;
mod users;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::net::SocketAddr;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use futures::stream::{self, BoxStream, StreamExt};
use tokio::runtime::Handle;
use tokio::sync::{OwnedMutexGuard, watch};
use tokio::task::AbortHandle;
use tombolo_driver::{
    BoxedConnection, CheckOutcome, Confinement, Deadline, DeadlineRecord, Driver, Error,
    ExecRequest, ExecSession, Instance, InstanceId, LOOPBACK, LogRequest, LogStream, Probe, Result,
    Spec, State, Usage, dial,
};
use tombolo_model::Engine;

use crate::cgroup::Groups;
use crate::confine::Abilities;
pub use crate::cut::cut;
pub use crate::folder::is_file_at;
use crate::folder::{Folder, StopRecord};
pub use crate::launch::LogLimits;
use crate::listeners::Listeners;
use crate::users::Users;

/// How long a start, or the end after a kill, may take before the caller is told that it does.
const PATIENCE: Duration = Duration::from_secs(15);
/// How long a folder is waited for that another agent has.
const LOCK_WITHIN: Duration = Duration::from_secs(1);
/// Between two looks whether a supervisor is gone.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// How a driver is set up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The program, and its first arguments, that calls [`supervise::main`] with the rest.
    pub supervisor: Vec<OsString>,
    pub log: LogLimits,
    /// The numbers of users that instances may run as, if the agent is root.
    pub users: Range<u32>,
}

impl Default for Options {
    /// This very program, as `tombolo supervise`.
    fn default() -> Options {
        let own = std::env::current_exe().ok().filter(|path| path.exists());
        // After an upgrade the file that we were started from is gone, and still can be executed.
        let program = own.unwrap_or_else(|| PathBuf::from("/proc/self/exe"));
        Options {
            supervisor: vec![program.into(), "supervise".into()],
            log: LogLimits::default(),
            users: users::RANGE_DEFAULT,
        }
    }
}

/// How far programs can be confined on this machine, by this user. `folder` is an empty one, on which
/// it is tried; nothing is left in it.
pub fn confinement(options: &Options, folder: &Path) -> std::io::Result<Confinement> {
    Ok(manner::told(&supervisor::try_abilities(&options.supervisor, folder)?))
}

/// Opens the driver whose instances are in `folder`, and takes on whatever runs there. Call it
/// inside a tokio runtime. Fails if another driver has the folder.
pub fn open(folder: &Path, options: Options) -> Result<ProcessDriver> {
    let doing = |error| Error::io(format!("open {}", folder.display()), error);
    folder::make_folder(folder, 0o711).map_err(doing)?;
    let folder = folder.canonicalize().map_err(doing)?;
    Folder::new(&folder).make_lock().map_err(doing)?;
    let lock = lock(&folder).map_err(doing)?.ok_or_else(|| Error::Invalid {
        what: format!("{} is in use by another agent", folder.display()),
    })?;
    let inner = Inner {
        groups: Groups::of(&folder),
        boot_id: procfs::boot_id(),
        folder,
        options,
        changed: watch::Sender::new(0),
        busy: Mutex::default(),
        watched: Mutex::default(),
        runtime: Handle::current(),
        abilities: OnceLock::new(),
        users: Mutex::new(None),
        listeners: Mutex::default(),
        lock,
    };
    let driver = ProcessDriver { inner: Arc::new(inner) };
    driver.inner.clear_remains();
    driver.inner.look();
    Ok(driver)
}

/// The lock of the whole folder. A process that the last agent was just starting may hold it for a
/// moment longer than the agent itself.
fn lock(folder: &Path) -> std::io::Result<Option<File>> {
    let deadline = Instant::now() + LOCK_WITHIN;
    loop {
        match Folder::new(folder).lock()? {
            None if Instant::now() < deadline => std::thread::sleep(LOOK_AGAIN),
            lock => return Ok(lock),
        }
    }
}

/// Processes of this machine as an engine. Dropping it leaves everything running.
#[derive(Debug)]
pub struct ProcessDriver {
    inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    folder: PathBuf,
    options: Options,
    groups: Groups,
    boot_id: String,
    changed: watch::Sender<u64>,
    /// Who starts, stops or removes an instance holds its lock: two at once would be in each
    /// other's way.
    busy: Mutex<BTreeMap<InstanceId, Arc<tokio::sync::Mutex<()>>>>,
    /// The tasks that wait for the end of a supervisor.
    watched: Mutex<BTreeMap<InstanceId, (u32, AbortHandle)>>,
    runtime: Handle,
    /// What the machine can do to confine instances; found out when it is first asked for.
    abilities: OnceLock<Abilities>,
    /// The users that instances run as; opened when the first instance needs a user.
    users: Mutex<Option<Users>>,
    /// Whose the sockets are that take connections from elsewhere.
    listeners: Mutex<Listeners>,
    lock: File,
}

impl Drop for ProcessDriver {
    fn drop(&mut self) {
        let watched = self.inner.watched.lock().unwrap_or_else(PoisonError::into_inner);
        watched.values().for_each(|(_, task)| task.abort());
    }
}

impl Inner {
    fn folder(&self, id: &InstanceId) -> Folder {
        Folder::new(self.folder.join(id.to_string()))
    }

    fn ids(&self) -> Vec<InstanceId> {
        self.try_ids().unwrap_or_default()
    }

    fn try_ids(&self) -> std::io::Result<Vec<InstanceId>> {
        let entries = fs::read_dir(&self.folder)?.collect::<std::io::Result<Vec<_>>>()?;
        let ids = entries.into_iter().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let mut ids: Vec<InstanceId> = ids.collect();
        ids.sort_unstable();
        Ok(ids)
    }

    /// An empty folder in place of the one that we have locked would look as if nothing ran, and
    /// everything would be started a second time.
    fn check_whole(&self) -> Result<()> {
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

    fn list(self: &Arc<Inner>) -> Result<Vec<Instance>> {
        self.check_whole()?;
        let ids = self.try_ids().map_err(|error| Error::io("list the instances", error))?;
        let found = ids.iter().filter_map(|id| self.look_at(id)).collect();
        // What went during the look was not seen.
        self.check_whole()?;
        Ok(found)
    }

    /// Everything there is; supervisors that were killed are replaced on the way.
    fn look(self: &Arc<Inner>) -> Vec<Instance> {
        let mut all: Vec<Instance> = self.ids().iter().filter_map(|id| self.look_at(id)).collect();
        let mut listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        let members = |id: &InstanceId| look::members(&self.folder(id));
        listeners.note(&mut all, &members);
        all
    }

    fn look_at(self: &Arc<Inner>, id: &InstanceId) -> Option<Instance> {
        let folder = self.folder(id);
        if let Err(error) = self.replace_supervisor(id, &folder) {
            tracing::warn!(%id, %error, "cannot replace its supervisor");
        }
        self.watch(id, &folder);
        look::look(&folder, &self.boot_id)
    }

    /// What a loss of power, or an agent killed while removing, left of an instance.
    fn clear_remains(&self) {
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

    fn wake(&self) {
        self.changed.send_modify(|count| *count = count.wrapping_add(1));
    }

    async fn hold(&self, id: &InstanceId) -> OwnedMutexGuard<()> {
        let lock = {
            let mut busy = self.busy.lock().unwrap_or_else(PoisonError::into_inner);
            // Only locks that somebody holds are worth keeping.
            busy.retain(|_, lock| Arc::strong_count(lock) > 1);
            busy.entry(id.clone()).or_default().clone()
        };
        lock.lock_owned().await
    }

    fn stop(&self, id: &InstanceId, grace: Duration) -> Result<()> {
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

    fn end_at(&self, id: &InstanceId, deadline: Option<Deadline>) -> Result<()> {
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

    fn part(&self) -> Result<()> {
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
    async fn remove(self: &Arc<Inner>, id: &InstanceId) -> Result<()> {
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

impl Driver for ProcessDriver {
    fn engine(&self) -> Engine {
        Engine::Host
    }

    fn probe(&self) -> BoxFuture<'_, Result<Probe>> {
        self.blocking(|inner| {
            let confinement = inner.abilities().map(manner::told);
            let gaps = match &confinement {
                Ok(confinement) => manner::gaps(confinement),
                Err(error) => {
                    vec![format!("whether processes can be confined is unknown: {error}")]
                }
            };
            let confinement = confinement.ok();
            Ok(Probe {
                version: rustix::system::uname().release().to_string_lossy().into_owned(),
                address: inner.folder.display().to_string(),
                notes: [inner.groups.notes(), gaps].concat(),
                confinement,
            })
        })
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<Instance>>> {
        self.blocking(Inner::list)
    }

    fn usage(&self) -> BoxFuture<'_, Result<Vec<(InstanceId, Usage)>>> {
        self.blocking(|inner| {
            let ids = inner.ids();
            let used = |id: InstanceId| Some((id.clone(), look::usage(&inner.folder(&id))?));
            Ok(ids.into_iter().filter_map(used).collect())
        })
    }

    fn start(&self, spec: &Spec) -> BoxFuture<'_, Result<()>> {
        let spec = spec.clone();
        Box::pin(async move {
            let held = self.inner.hold(&spec.id).await;
            let doing = format!("starting {}", spec.id);
            let started = self.blocking(move |inner| {
                // Held until it is done, even if the caller waits no longer.
                let _held = held;
                inner.check_whole()?;
                start::start(inner, &spec)
            });
            let waited = |_| Error::TimedOut { doing, after: PATIENCE };
            tokio::time::timeout(PATIENCE, started).await.map_err(waited)?
        })
    }

    fn stop<'a>(&'a self, id: &'a InstanceId, grace: Duration) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let _held = self.inner.hold(id).await;
            self.inner.stop(id, grace)
        })
    }

    fn end_at<'a>(
        &'a self,
        id: &'a InstanceId,
        deadline: Option<Deadline>,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let _held = self.inner.hold(id).await;
            self.inner.end_at(id, deadline)
        })
    }

    fn part(&self) -> BoxFuture<'_, Result<()>> {
        self.blocking(|inner| inner.part())
    }

    fn remove<'a>(&'a self, id: &'a InstanceId) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let _held = self.inner.hold(id).await;
            self.inner.remove(id).await
        })
    }

    fn logs<'a>(
        &'a self,
        id: &'a InstanceId,
        request: LogRequest,
    ) -> BoxFuture<'a, Result<LogStream>> {
        Box::pin(async move { logs::read(&self.inner.folder(id), id, request) })
    }

    fn exec<'a>(
        &'a self,
        id: &'a InstanceId,
        request: ExecRequest,
    ) -> BoxFuture<'a, Result<ExecSession>> {
        Box::pin(async move { exec::exec(&self.inner, id, &request) })
    }

    fn check_exec<'a>(
        &'a self,
        id: &'a InstanceId,
        command: &'a [String],
        timeout: Duration,
    ) -> BoxFuture<'a, Result<CheckOutcome>> {
        Box::pin(exec::check(&self.inner, id, command, timeout))
    }

    fn connect<'a>(
        &'a self,
        id: &'a InstanceId,
        port: u16,
    ) -> BoxFuture<'a, Result<BoxedConnection>> {
        Box::pin(async move {
            let record = self.inner.folder(id).instance();
            let record = record.ok_or_else(|| Error::NoSuchInstance { id: id.clone() })?;
            let known = record.ports.iter().find(|known| known.port == port);
            let known = known.and_then(|known| Some((known.published?, known.on)));
            let Some((number, on)) = known else {
                let has = record.ports.iter().map(|known| known.port).collect();
                return Err(Error::NoSuchPort { port, has });
            };
            // A program may listen on the address that it was told, or on all.
            let at: Vec<SocketAddr> = std::iter::once(LOOPBACK)
                .chain(on.filter(|on| *on != LOOPBACK))
                .map(|address| SocketAddr::new(address, number))
                .collect();
            dial(&at, port).await
        })
    }

    fn events(&self) -> BoxStream<'static, ()> {
        stream::unfold(self.inner.changed.subscribe(), async |mut changed| {
            changed.changed().await.ok()?;
            Some(((), changed))
        })
        .boxed()
    }
}

impl ProcessDriver {
    /// Files and processes are looked at where waiting harms nobody.
    fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Arc<Inner>) -> Result<T> + Send + 'static,
    ) -> BoxFuture<'_, Result<T>> {
        let inner = Arc::clone(&self.inner);
        Box::pin(async move {
            let done = tokio::task::spawn_blocking(move || work(&inner)).await;
            done.unwrap_or_else(|error| {
                Err(Error::Failed { doing: "finish".to_owned(), source: Arc::new(error) })
            })
        })
    }
}
