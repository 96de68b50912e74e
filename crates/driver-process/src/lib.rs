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
mod inner;
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

use std::ffi::OsString;
use std::fs::File;
use std::net::SocketAddr;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use futures::stream::{self, BoxStream, StreamExt};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tombolo_driver::{
    BoxedConnection, CheckOutcome, Confinement, Deadline, Driver, Error, ExecRequest, ExecSession,
    Instance, InstanceId, LOOPBACK, LogRequest, LogStream, Probe, Result, Spec, Usage, dial,
};
use tombolo_model::Engine;

use crate::cgroup::Groups;
pub use crate::cut::cut;
use crate::folder::Folder;
pub use crate::folder::is_file_at;
use crate::inner::Inner;
pub use crate::launch::LogLimits;

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
    let abilities = supervisor::try_abilities(&options.supervisor, folder)?;
    Ok(manner::told(&abilities, Groups::of(folder).unbounded()))
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
    driver.inner.take_on();
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

impl Drop for ProcessDriver {
    fn drop(&mut self) {
        let watched = self.inner.watched.lock().unwrap_or_else(PoisonError::into_inner);
        watched.values().for_each(|(_, task)| task.abort());
    }
}

impl Driver for ProcessDriver {
    fn engine(&self) -> Engine {
        Engine::Host
    }

    fn probe(&self) -> BoxFuture<'_, Result<Probe>> {
        self.blocking(|inner| {
            let confinement =
                inner.abilities().map(|found| manner::told(found, inner.groups.unbounded()));
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
