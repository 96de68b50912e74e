//! Containers of a Docker engine that outlive the agent. [`open`] gives the driver; the agent of a
//! machine with such an engine holds it.
//!
//! The engine keeps all that counts, in labels and names of containers (`tag`). Every run of an
//! instance is a container of its own, and the one before it is kept for its exit and its log. An
//! engine that goes away is [`Error::Unreachable`] and found again by the next call; `watch` follows
//! its events. To read on, see `draft`, then `start`, `stop` and `look`; [`guard`] for what ends a
//! container while the agent cannot.

mod beyond;
mod cache;
mod compose;
mod connection;
mod deadlines;
mod draft;
mod error;
mod exec;
pub mod guard;
mod image;
mod list;
mod logs;
mod look;
mod network;
mod start;
mod stop;
mod tag;
mod volume;
mod watch;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::{self, BoxStream, StreamExt};
use tokio::sync::{OwnedMutexGuard, RwLock, watch as latest};
use tokio::task::AbortHandle;
use tombolo_driver::{
    BoxedConnection, CheckOutcome, Deadline, Driver, Error, ExecRequest, ExecSession, Instance,
    InstanceId, LogRequest, LogStream, Probe, Result, Running, Spec, State, Usage, dial,
};
use tombolo_model::Engine;

use crate::connection::Connection;
use crate::deadlines::Deadlines;
pub use crate::deadlines::{Guarded, Used};
use crate::look::Doing;

/// Where a Docker engine listens unless it is told otherwise.
pub const SOCKET_DEFAULT: &str = "/var/run/docker.sock";

/// How long a start may take before the caller is told that it is on its way.
const PATIENCE: Duration = Duration::from_secs(30);
/// The same where an image must be pulled: most that fail do so within this.
const PULL_PATIENCE: Duration = Duration::from_secs(1);
/// So often a look begins anew because something was started during it.
const LOOKS_MAX: usize = 3;

/// How a driver is set up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    pub socket: PathBuf,
    /// Who this is, to the engine: what other agents run there is left alone. The same after a
    /// restart and after an installation anew, and no other agent's.
    pub agent: String,
    pub log: LogLimits,
    /// Without it nobody ends a container while the agent is dead or frozen.
    pub guarded: Option<Guarded>,
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
        deadlines: options.guarded.clone().map(|guarded| {
            let used = Used { socket: options.socket.clone(), agent: options.agent.clone() };
            Deadlines::new(guarded, used)
        }),
        options,
        changed: latest::Sender::new(0),
        cache: Mutex::default(),
        doing: Mutex::default(),
        starts: Mutex::default(),
        stops: Mutex::default(),
        busy: Mutex::default(),
        networks: RwLock::default(),
        making: tokio::sync::Mutex::default(),
    });
    let watching = tokio::spawn(watch::watch(Arc::clone(&inner))).abort_handle();
    DockerDriver { inner, watching }
}

/// A Docker engine. Dropping it leaves everything running.
#[derive(Debug)]
pub struct DockerDriver {
    inner: Arc<Inner>,
    watching: AbortHandle,
}

#[derive(Debug)]
pub(crate) struct Inner {
    connection: Connection,
    deadlines: Option<Deadlines>,
    options: Options,
    changed: latest::Sender<u64>,
    cache: Mutex<cache::Cache>,
    doing: Mutex<UnderWay>,
    /// Tasks that start an instance.
    starts: Mutex<BTreeMap<InstanceId, AbortHandle>>,
    /// Tasks that wait for the end of a container.
    stops: Mutex<BTreeMap<String, AbortHandle>>,
    /// Who starts, stops or removes an instance holds its lock.
    busy: Mutex<BTreeMap<InstanceId, Arc<tokio::sync::Mutex<()>>>>,
    /// Read by whoever needs them, written by whoever takes some away.
    networks: RwLock<()>,
    /// Held while one is made, and while some are taken away.
    making: tokio::sync::Mutex<()>,
}

/// Starts under way, and those that failed before there was a container to tell of it.
#[derive(Clone, Debug, Default)]
struct UnderWay {
    by_id: BTreeMap<InstanceId, Doing>,
    /// Counts beginnings and ends, not the words in between.
    changes: u64,
}

impl Drop for DockerDriver {
    fn drop(&mut self) {
        self.watching.abort();
        held(&self.inner.starts).values().for_each(AbortHandle::abort);
        held(&self.inner.stops).values().for_each(AbortHandle::abort);
    }
}

pub(crate) fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A start that is under way until this is dropped, however it ends.
struct Starting {
    inner: Arc<Inner>,
    id: InstanceId,
    _lock: OwnedMutexGuard<()>,
}

impl Drop for Starting {
    fn drop(&mut self) {
        let starting = |doing: &Doing| matches!(doing.state, State::Starting { .. });
        let mut doing = held(&self.inner.doing);
        if doing.by_id.get(&self.id).is_some_and(starting) {
            doing.by_id.remove(&self.id);
        }
        doing.changes += 1;
        drop(doing);
        held(&self.inner.starts).remove(&self.id);
        self.inner.wake();
    }
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
        held(&self.doing).by_id.insert(spec.id.clone(), doing);
        self.wake();
    }

    /// Nothing is being done for it, or in vain, any more.
    fn forget(&self, id: &InstanceId) {
        held(&self.doing).by_id.remove(id);
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

    /// What is there, with what is under way. A look during which something began or ended is no
    /// picture of either: it is taken again.
    async fn list(self: &Arc<Inner>) -> Result<Vec<Instance>> {
        let mut before = held(&self.doing).clone();
        for _ in 0..LOOKS_MAX {
            let seen = list::seen(self, None).await?;
            let after = held(&self.doing).clone();
            if before.changes == after.changes {
                return Ok(look::instances(&seen, &after.by_id));
            }
            before = after;
        }
        let seen = list::seen(self, None).await?;
        let mut under_way = held(&self.doing).clone();
        // What was under way a moment ago may not show as what it has become.
        let still = before.by_id.into_iter();
        let still = still.filter(|(_, doing)| matches!(doing.state, State::Starting { .. }));
        for (id, doing) in still {
            under_way.by_id.entry(id).or_insert(doing);
        }
        Ok(look::instances(&seen, &under_way.by_id))
    }

    async fn start(self: &Arc<Inner>, spec: Spec) -> Result<()> {
        spec.check_allowed()?;
        if held(&self.starts).contains_key(&spec.id) {
            return Ok(());
        }
        let lock = self.hold(&spec.id).await;
        let docker = self.connection.docker().await?;
        let seen = list::seen(self, Some(&spec.id)).await?;
        let Some(start) = start::decide(&spec, self, &seen)? else {
            self.forget(&spec.id);
            return Ok(());
        };
        self.note_use()?;
        self.keep_deadline(&spec.id, spec.deadline)?;
        let at_hand = start.has_images(&docker, self).await?;
        // Held until it is done, even if whoever asked waits no longer.
        let starting = Starting { inner: Arc::clone(self), id: spec.id.clone(), _lock: lock };
        self.say(&spec, "starting");
        held(&self.doing).changes += 1;
        let id = spec.id.clone();
        let (begin, begun) = tokio::sync::oneshot::channel::<()>();
        let task = tokio::spawn(async move {
            let starting = starting;
            // Not before it is known under its id: whoever stops it must find it.
            _ = begun.await;
            let inner = &starting.inner;
            let started = start::start(&docker, inner, &spec, start).await;
            match &started {
                Ok(()) => inner.forget(&spec.id),
                Err(error) => inner.note(&spec, State::Failed(error.clone())),
            }
            started
        });
        held(&self.starts).insert(id, task.abort_handle());
        _ = begin.send(());
        let patience = if at_hand { PATIENCE } else { PULL_PATIENCE };
        match tokio::time::timeout(patience, task).await {
            Ok(Ok(started)) => started,
            // Somebody wants it to end before it has begun.
            Ok(Err(error)) if error.is_cancelled() => Ok(()),
            Ok(Err(error)) => {
                Err(Error::Failed { doing: "finish".to_owned(), source: Arc::new(error) })
            }
            // It is on its way, and the list says how far.
            Err(_) => Ok(()),
        }
    }

    /// An uninstall is to know of the containers also when their engine is gone.
    fn note_use(&self) -> Result<()> {
        let noted = self.deadlines.as_ref().map_or(Ok(()), Deadlines::note_use);
        noted.map_err(|error| Error::io("note which engine is used", error))
    }

    /// Sees to it that the instance ends at this time, whatever becomes of this agent.
    fn keep_deadline(&self, id: &InstanceId, deadline: Option<Deadline>) -> Result<()> {
        let Some(deadlines) = &self.deadlines else { return Ok(()) };
        deadlines
            .put(id, deadline)
            .map_err(|error| Error::io(format!("note when {id} is to end"), error))
    }

    /// A start that is under way ends here: nobody waits for an image that nobody wants.
    fn give_up_starting(&self, id: &InstanceId) {
        let task = held(&self.starts).get(id).cloned();
        if let Some(task) = task {
            task.abort();
        }
    }

    async fn stop(self: &Arc<Inner>, id: &InstanceId, grace: Duration) -> Result<()> {
        self.give_up_starting(id);
        let _lock = self.hold(id).await;
        stop::stop(self, id, grace).await
    }

    async fn remove(self: &Arc<Inner>, id: &InstanceId) -> Result<()> {
        self.give_up_starting(id);
        let _lock = self.hold(id).await;
        let docker = self.connection.docker().await?;
        for seen in list::seen(self, Some(id)).await? {
            start::remove_container(&docker, self, &seen.container).await?;
        }
        self.forget(id);
        self.keep_deadline(id, None)?;
        // One after the other: of two that are removed at once, the later one finds nobody left.
        let one_at_a_time = self.making.lock().await;
        network::sweep(&docker, self, &list::seen(self, None).await?).await;
        drop(one_at_a_time);
        self.wake();
        Ok(())
    }

    /// Removes the volumes that are ours, and whatever network is left.
    async fn clear(self: &Arc<Inner>) -> Result<usize> {
        let docker = self.connection.docker().await?;
        let one_at_a_time = self.making.lock().await;
        network::sweep(&docker, self, &list::seen(self, None).await?).await;
        drop(one_at_a_time);
        let cleared = volume::clear(&docker, self).await?;
        let forgotten = self.deadlines.as_ref().map_or(Ok(()), Deadlines::clear);
        forgotten.map_err(|error| Error::io("forget the engine", error))?;
        Ok(cleared)
    }

    /// The container in which the instance runs, or the named part of it.
    pub(crate) async fn running(
        self: &Arc<Inner>,
        id: &InstanceId,
        part: Option<&str>,
    ) -> Result<(String, Running)> {
        let seen = list::seen(self, Some(id)).await?;
        let parts = look::newest(seen.iter().map(|seen| &**seen));
        if parts.is_empty() {
            return Err(Error::NoSuchInstance { id: id.clone() });
        }
        let wanted = |seen: &&&look::Seen| part.is_none() || seen.tag.part.as_deref() == part;
        let mut candidates = parts.iter().filter(wanted).peekable();
        if candidates.peek().is_none() {
            let part = part.unwrap_or_default();
            return Err(Error::Invalid { what: format!("{id} has no part {part:?}") });
        }
        let running = candidates.find_map(|seen| match look::state(seen) {
            State::Running(running) | State::Stopping(running) => {
                Some((seen.container.clone(), running))
            }
            State::Starting { .. } | State::Exited(_) | State::Failed(_) => None,
        });
        running.ok_or_else(|| Error::NotRunning { id: id.clone() })
    }

    async fn connect(self: &Arc<Inner>, id: &InstanceId, port: u16) -> Result<BoxedConnection> {
        // Says why, if none of its parts runs.
        let (_, first) = self.running(id, None).await?;
        let seen = list::seen(self, Some(id)).await?;
        let parts = look::newest(seen.iter().map(|seen| &**seen)).into_iter();
        let listening = parts.filter_map(|seen| match look::state(seen) {
            State::Running(running) | State::Stopping(running) => Some(running),
            State::Starting { .. } | State::Exited(_) | State::Failed(_) => None,
        });
        let mut listening =
            listening.filter(|running| running.ports.iter().any(|one| one.port == port));
        let running = listening.next().unwrap_or(first);
        let addresses = look::doors(&running, port);
        if addresses.is_empty() {
            let has = running.ports.iter().map(|one| one.port).collect();
            return Err(Error::NoSuchPort { port, has });
        }
        dial(&addresses, port).await
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
        let address = self.connection.address();
        Ok(Probe { version, address, notes, confinement: None })
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
        Box::pin(async move {
            let instances = self.inner.list().await?;
            // Those of an agent from before there was such a note.
            if !instances.is_empty()
                && let Err(error) = self.inner.note_use()
            {
                tracing::debug!(%error, "it is noted at the next look");
            }
            Ok(instances)
        })
    }

    fn usage(&self) -> BoxFuture<'_, Result<Vec<(InstanceId, Usage)>>> {
        Box::pin(list::usage(&self.inner))
    }

    fn start(&self, spec: &Spec) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.inner.start(spec.clone()))
    }

    fn stop<'a>(&'a self, id: &'a InstanceId, grace: Duration) -> BoxFuture<'a, Result<()>> {
        Box::pin(self.inner.stop(id, grace))
    }

    fn end_at<'a>(
        &'a self,
        id: &'a InstanceId,
        deadline: Option<Deadline>,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move { self.inner.keep_deadline(id, deadline) })
    }

    fn part(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            let parted = self.inner.deadlines.as_ref().map_or(Ok(()), Deadlines::part);
            parted.map_err(|error| Error::io("note the good-bye", error))
        })
    }

    fn remove<'a>(&'a self, id: &'a InstanceId) -> BoxFuture<'a, Result<()>> {
        Box::pin(self.inner.remove(id))
    }

    fn clear(&self) -> BoxFuture<'_, Result<usize>> {
        Box::pin(self.inner.clear())
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

    fn connect<'a>(
        &'a self,
        id: &'a InstanceId,
        port: u16,
    ) -> BoxFuture<'a, Result<BoxedConnection>> {
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
