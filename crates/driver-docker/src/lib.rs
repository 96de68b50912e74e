//! Containers of a Docker engine that outlive the agent. [`open`] gives the driver; the agent of a
//! site with the engine `docker` holds it.
//!
//! The engine keeps all that counts, in labels and names of containers (`tag`). Every run of an
//! instance is a container of its own, and the one before it is kept for its exit and its log. An
//! engine that goes away is [`Error::Unreachable`] and found again by the next call; `watch` follows
//! its events. To read on, see `draft`, then `start` and `look`.

mod connection;
mod draft;
mod error;
mod exec;
mod list;
mod logs;
mod look;
mod start;
mod tag;
mod watch;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bollard::query_parameters::{RenameContainerOptions, StopContainerOptions};
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream, StreamExt};
use tokio::sync::{OwnedMutexGuard, watch as latest};
use tokio::task::AbortHandle;
use tombolo_driver::{
    CheckOutcome, Driver, Error, ExecRequest, ExecSession, Instance, InstanceId, LogRequest,
    LogStream, Probe, Result, Spec, State, Usage,
};
use tombolo_model::Engine;

use crate::connection::Connection;
use crate::look::Doing;

/// How long a start may take before the caller is told that it is on its way.
const PATIENCE: Duration = Duration::from_secs(30);
/// The same where an image must be pulled: most that fail do so within this.
const PULL_PATIENCE: Duration = Duration::from_secs(2);
/// The engine's answer to a stop comes after the grace; this much later it is not waited for.
const STOP_SLACK: Duration = Duration::from_secs(60);

/// How a driver is set up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    pub socket: PathBuf,
    pub log: LogLimits,
}

impl Default for Options {
    fn default() -> Options {
        Options { socket: PathBuf::from("/var/run/docker.sock"), log: LogLimits::default() }
    }
}

/// How much of a container's log the engine keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogLimits {
    pub file_bytes_max: u64,
    pub files_max: u32,
}

impl Default for LogLimits {
    /// 30 MB for each container: an edge device has little room.
    fn default() -> LogLimits {
        LogLimits { file_bytes_max: 10_000_000, files_max: 3 }
    }
}

/// Opens the driver; the engine need not be there yet. Call it inside a tokio runtime.
pub fn open(options: Options) -> DockerDriver {
    let inner = Arc::new(Inner {
        connection: Connection::new(options.socket.clone()),
        options,
        changed: latest::Sender::new(0),
        seen: Mutex::default(),
        doing: Mutex::default(),
        busy: Mutex::default(),
        tasks: Mutex::default(),
    });
    let watching = tokio::spawn(watch::watch(Arc::clone(&inner)));
    inner.keep(watching.abort_handle());
    DockerDriver { inner }
}

/// A Docker engine. Dropping it leaves everything running.
#[derive(Debug)]
pub struct DockerDriver {
    inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    connection: Connection,
    options: Options,
    changed: latest::Sender<u64>,
    seen: Mutex<list::Cache>,
    /// Starts under way, and those that failed before there was a container to tell of it.
    doing: Mutex<BTreeMap<InstanceId, Doing>>,
    /// Who starts, stops or removes an instance holds its lock.
    busy: Mutex<BTreeMap<InstanceId, Arc<tokio::sync::Mutex<()>>>>,
    tasks: Mutex<Vec<AbortHandle>>,
}

impl Drop for DockerDriver {
    fn drop(&mut self) {
        held(&self.inner.tasks).iter().for_each(AbortHandle::abort);
    }
}

pub(crate) fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Inner {
    pub(crate) fn wake(&self) {
        self.changed.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// Says how far a start is.
    pub(crate) fn say(&self, spec: &Spec, doing: &str) {
        self.note(spec, State::Starting { doing: doing.to_owned() });
    }

    fn note(&self, spec: &Spec, state: State) {
        let doing = Doing { origin: spec.origin.clone(), state };
        held(&self.doing).insert(spec.id.clone(), doing);
        self.wake();
    }

    /// Tasks end with the driver.
    fn keep(&self, task: AbortHandle) {
        let mut tasks = held(&self.tasks);
        tasks.retain(|task| !task.is_finished());
        tasks.push(task);
    }

    async fn hold(&self, id: &InstanceId) -> OwnedMutexGuard<()> {
        let lock = {
            let mut busy = held(&self.busy);
            // Only locks that somebody holds are worth keeping.
            busy.retain(|_, lock| Arc::strong_count(lock) > 1);
            busy.entry(id.clone()).or_default().clone()
        };
        lock.lock_owned().await
    }

    async fn start(self: &Arc<Inner>, spec: Spec) -> Result<()> {
        let starting = |doing: &Doing| matches!(doing.state, State::Starting { .. });
        if held(&self.doing).get(&spec.id).is_some_and(starting) {
            return Ok(());
        }
        let lock = self.hold(&spec.id).await;
        let docker = self.connection.docker().await?;
        let seen = list::seen(self, Some(&spec.id)).await?;
        let Some(start) = start::decide(&spec, self, &seen)? else { return Ok(()) };
        let at_hand = start::has_images(&docker, self, &start).await?;
        self.say(&spec, "starting");
        let inner = Arc::clone(self);
        let task = tokio::spawn(async move {
            // Held until it is done, even if whoever asked waits no longer.
            let _lock = lock;
            let started = start::start(&docker, &inner, &spec, start).await;
            match &started {
                Ok(()) => _ = held(&inner.doing).remove(&spec.id),
                Err(error) => inner.note(&spec, State::Failed(error.clone())),
            }
            inner.wake();
            started
        });
        self.keep(task.abort_handle());
        let patience = if at_hand { PATIENCE } else { PULL_PATIENCE };
        match tokio::time::timeout(patience, task).await {
            Ok(Ok(started)) => started,
            Ok(Err(error)) => {
                Err(Error::Failed { doing: "finish".to_owned(), source: Arc::new(error) })
            }
            // It is on its way, and the list says how far.
            Err(_) => Ok(()),
        }
    }

    async fn stop(self: &Arc<Inner>, id: &InstanceId, grace: Duration) -> Result<()> {
        let docker = self.connection.docker().await?;
        for seen in list::seen(self, Some(id)).await? {
            let stopping = match look::state(&seen) {
                State::Running(_) => false,
                State::Stopping(_) => true,
                State::Starting { .. } | State::Exited(_) | State::Failed(_) => continue,
            };
            if !stopping {
                let options = RenameContainerOptions { name: tag::stopping_name(&seen.name) };
                match docker.rename_container(&seen.container, options).await {
                    Ok(()) => (),
                    Err(error) if error::status(&error) == Some(404) => continue,
                    Err(error) => return Err(self.connection.failed("stop it", error)),
                }
            }
            // Whole seconds are all that the engine knows.
            let seconds = grace.as_millis().div_ceil(1000);
            let seconds = i32::try_from(seconds).unwrap_or(i32::MAX);
            let patient = docker.clone().with_timeout(grace.saturating_add(STOP_SLACK));
            let inner = Arc::clone(self);
            // The engine goes on with it when we are gone.
            let task = tokio::spawn(async move {
                let options = StopContainerOptions { signal: None, t: Some(seconds) };
                if let Err(error) = patient.stop_container(&seen.container, Some(options)).await {
                    tracing::warn!(container = seen.name, %error, "cannot stop it");
                }
                inner.wake();
            });
            self.keep(task.abort_handle());
        }
        Ok(())
    }

    async fn remove(&self, id: &InstanceId) -> Result<()> {
        let docker = self.connection.docker().await?;
        for seen in list::seen(self, Some(id)).await? {
            start::remove_container(&docker, self, &seen.container).await?;
        }
        held(&self.doing).remove(id);
        self.wake();
        Ok(())
    }

    /// The container in which the instance runs.
    pub(crate) async fn running(
        &self,
        id: &InstanceId,
    ) -> Result<(String, tombolo_driver::Running)> {
        let mut seen = list::seen(self, Some(id)).await?;
        seen.sort_by_key(|seen| seen.tag.run);
        let last = seen.last().ok_or_else(|| Error::NoSuchInstance { id: id.clone() })?;
        match look::state(last) {
            State::Running(running) | State::Stopping(running) => {
                Ok((last.container.clone(), running))
            }
            State::Starting { .. } | State::Exited(_) | State::Failed(_) => {
                Err(Error::NotRunning { id: id.clone() })
            }
        }
    }

    async fn connect(&self, id: &InstanceId, port: u16) -> Result<SocketAddr> {
        let (_, running) = self.running(id).await?;
        let published = running.ports.iter().find(|one| one.port == port);
        if let Some(published) = published.and_then(|one| one.published) {
            return Ok(SocketAddr::from(([127, 0, 0, 1], published)));
        }
        let own = running.addresses.iter().find_map(|address| address.parse().ok());
        let unreachable = || Error::Invalid { what: format!("port {port} of {id} has no address") };
        Ok(SocketAddr::new(own.ok_or_else(unreachable)?, port))
    }

    async fn probe(&self) -> Result<Probe> {
        let docker = self.connection.docker().await?;
        let info = docker.info().await;
        let info =
            info.map_err(|error| self.connection.failed("ask the engine what it is", error))?;
        let mut notes = Vec::new();
        if info.memory_limit == Some(false) {
            notes.push("There are no memory limits: the kernel has none for docker.".to_owned());
        }
        if info.cpu_cfs_quota == Some(false) {
            notes.push("There are no cpu limits: the kernel has none for docker.".to_owned());
        }
        let version = info.server_version.unwrap_or_default();
        Ok(Probe { version, address: self.connection.address(), notes })
    }
}

impl Driver for DockerDriver {
    fn engine(&self) -> Engine {
        Engine::Docker
    }

    fn probe(&self) -> BoxFuture<'_, Result<Probe>> {
        Box::pin(self.inner.probe())
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<Instance>>> {
        Box::pin(async {
            let seen = list::seen(&self.inner, None).await?;
            Ok(look::instances(&seen, &held(&self.inner.doing)))
        })
    }

    fn usage(&self) -> BoxFuture<'_, Result<Vec<(InstanceId, Usage)>>> {
        Box::pin(list::usage(&self.inner))
    }

    fn start(&self, spec: &Spec) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.inner.start(spec.clone()))
    }

    fn stop<'a>(&'a self, id: &'a InstanceId, grace: Duration) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let _held = self.inner.hold(id).await;
            self.inner.stop(id, grace).await
        })
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
        Box::pin(logs::read(&self.inner, id, request))
    }

    fn exec<'a>(
        &'a self,
        id: &'a InstanceId,
        request: ExecRequest,
    ) -> BoxFuture<'a, Result<ExecSession>> {
        Box::pin(exec::exec(&self.inner, id, request))
    }

    fn check_exec<'a>(
        &'a self,
        id: &'a InstanceId,
        command: &'a [String],
        timeout: Duration,
    ) -> BoxFuture<'a, Result<CheckOutcome>> {
        Box::pin(exec::check(&self.inner, id, command, timeout))
    }

    fn connect<'a>(&'a self, id: &'a InstanceId, port: u16) -> BoxFuture<'a, Result<SocketAddr>> {
        Box::pin(self.inner.connect(id, port))
    }

    fn events(&self) -> BoxStream<'static, ()> {
        stream::unfold(self.inner.changed.subscribe(), async |mut changed| {
            changed.changed().await.ok()?;
            Some(((), changed))
        })
        .boxed()
    }
}
