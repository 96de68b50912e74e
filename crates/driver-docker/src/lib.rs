//! Containers of a Docker engine that outlive the agent. [`open`] gives the driver; the agent of a
//! machine with such an engine holds it.
//!
//! The engine keeps all that counts, in labels and names of containers (`tag`). Every run of an
//! instance is a container of its own, and the one before it is kept for its exit and its log. An
//! engine that goes away is [`Error::Unreachable`] and found again by the next call; `watch` follows
//! its events.
//!
//! One task attends to each instance for as long as there is something to do for it (`attendant`): it
//! starts, stops and removes the instance, one order after the other, and nobody else does. So no order
//! needs a lock. Three things are shared: what is being done (`board`), what is known of containers
//! (`cache`) and the networks (`network`); none of them is locked while a task waits for the engine, but
//! for the networks, which are made and removed by one task at a time.
//!
//! To read on, see `draft`, then `attendant`, `start`, `stop` and `look`; [`guard`] for what ends a
//! container while the agent cannot.

mod attendant;
mod beyond;
mod board;
mod cache;
mod compose;
mod connection;
mod deadlines;
mod draft;
mod error;
mod examine;
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

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::{self, BoxStream, StreamExt};
use tokio::sync::{oneshot, watch as latest};
use tokio::task::AbortHandle;
use tombolo_driver::{
    BoxedConnection, CheckOutcome, Deadline, Driver, Error, ExecRequest, ExecSession, Instance,
    InstanceId, LogRequest, LogStream, Probe, Result, Running, Spec, State, Usage, dial,
};
use tombolo_model::Engine;

use crate::attendant::{Answer, Order};
use crate::board::Board;
use crate::connection::Connection;
use crate::deadlines::Deadlines;
pub use crate::deadlines::{Guarded, Used};
pub use crate::examine::security_options;
use crate::look::Doing;
use crate::network::Networks;

/// Where a Docker engine listens unless it is told otherwise.
pub const SOCKET_DEFAULT: &str = "/var/run/docker.sock";

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
        board: Board::default(),
        networks: Networks::default(),
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
    /// What is being done, and by whom.
    board: Board,
    networks: Networks,
}

impl Drop for DockerDriver {
    fn drop(&mut self) {
        self.watching.abort();
        self.inner.board.close();
    }
}

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Inner {
    pub(crate) fn wake(&self) {
        self.changed.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// Says how far a start is.
    pub(crate) fn say(&self, spec: &Spec, doing: &str) {
        let state = State::Starting { doing: doing.to_owned() };
        self.board.say(&spec.id, Doing { origin: spec.origin.clone(), state });
        self.wake();
    }

    /// What is there, with what is under way. A look during which something began or ended is no
    /// picture of either: it is taken again.
    async fn list(self: &Arc<Inner>) -> Result<Vec<Instance>> {
        let mut before = self.board.under_way();
        for _ in 0..LOOKS_MAX {
            let seen = list::seen(self, None).await?;
            self.board.show(self, &seen);
            let after = self.board.under_way();
            if before.changes == after.changes {
                return Ok(look::instances(&seen, &after.by_id));
            }
            before = after;
        }
        let seen = list::seen(self, None).await?;
        let mut under_way = self.board.under_way();
        // What was under way a moment ago may not show as what it has become.
        let still = before.by_id.into_iter();
        let still = still.filter(|(_, doing)| matches!(doing.state, State::Starting { .. }));
        for (id, doing) in still {
            under_way.by_id.entry(id).or_insert(doing);
        }
        Ok(look::instances(&seen, &under_way.by_id))
    }

    /// Lets the attendant of an instance do something, and waits for its answer.
    async fn order(
        self: &Arc<Inner>,
        id: &InstanceId,
        order: impl FnOnce(Answer) -> Order,
    ) -> Result<()> {
        let (answer, answered) = oneshot::channel();
        self.board.order(self, id, order(answer)).await;
        answered.await.unwrap_or_else(|lost| {
            Err(Error::Failed { doing: "finish".to_owned(), source: Arc::new(lost) })
        })
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

    /// Removes the volumes that are ours, and whatever network is left.
    async fn clear(self: &Arc<Inner>) -> Result<usize> {
        let docker = self.connection.docker().await?;
        network::sweep(&docker, self).await?;
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
            // Instances of an older agent, which did not write such a note.
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
        let spec = spec.clone();
        Box::pin(async move {
            spec.check_allowed()?;
            let id = spec.id.clone();
            self.inner.order(&id, |answer| Order::Start { spec: Box::new(spec), answer }).await
        })
    }

    fn stop<'a>(&'a self, id: &'a InstanceId, grace: Duration) -> BoxFuture<'a, Result<()>> {
        Box::pin(self.inner.order(id, move |answer| Order::Stop { grace, answer }))
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
        Box::pin(self.inner.order(id, |answer| Order::Remove { answer }))
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
