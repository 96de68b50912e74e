//! An engine in memory. It keeps state as a real one does, does nothing by itself, and can be told
//! what happens to it: [`Fake::exits`], [`Fake::fails`], [`Fake::unreachable`]. Used by the tests
//! of whoever holds a [`Driver`], and by simulations.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream, StreamExt};
use tokio::sync::{mpsc, watch};
use tombolo_model::{Engine, Reason};

use crate::{
    BoxedConnection, CheckOutcome, Driver, Error, ExecRequest, ExecSession, Exit, Instance,
    InstanceId, LOOPBACK, LogLine, LogRequest, LogStream, Output, Probe, PublishedPort, Result,
    Running, Source, Spec, State, TerminalSize, Usage, Workload, dial,
};

/// Starts well, runs until it is told otherwise, and stops at once. Cheap to clone: all clones are
/// one engine, as all drivers of one machine are.
#[derive(Clone, Debug)]
pub struct Fake {
    engine: Engine,
    world: Arc<Mutex<World>>,
    changed: Arc<watch::Sender<u64>>,
}

#[derive(Debug, Default)]
struct World {
    instances: BTreeMap<InstanceId, Kept>,
    /// Fails every call while it is there.
    unreachable: bool,
    /// Does not answer when it is asked what there is.
    hangs: bool,
    /// Says only after this what there was when it was asked.
    slow: Option<Duration>,
    /// Fails the next starts of the Assignment with this uid.
    failures: BTreeMap<String, Vec<Error>>,
    /// Commands whose check does not come out well, with their outcome.
    checks: BTreeMap<Vec<String>, CheckOutcome>,
    /// An asked-for end takes until [`Fake::exits`] for these Assignments.
    stubborn: Vec<String>,
    /// Everything that was asked of it and changed something, oldest first.
    done: Vec<String>,
    pid_last: u32,
    now: Option<SystemTime>,
}

#[derive(Clone, Debug)]
struct Kept {
    instance: Instance,
    spec: Spec,
    log: Vec<LogLine>,
}

impl Fake {
    pub fn new(engine: Engine) -> Fake {
        Fake { engine, world: Arc::default(), changed: Arc::new(watch::Sender::new(0)) }
    }

    /// The time that it writes into states; otherwise the machine's.
    pub fn set_time(&self, now: SystemTime) {
        self.world().now = Some(now);
    }

    /// From now on every call fails, until [`Fake::reachable`]. What runs goes on.
    pub fn unreachable(&self) {
        self.world().unreachable = true;
        self.wake();
    }

    pub fn reachable(&self) {
        self.world().unreachable = false;
        self.wake();
    }

    /// From now on it takes questions for what there is and answers none.
    pub fn hangs(&self) {
        self.world().hangs = true;
    }

    /// New questions are answered again; questions from before never are.
    pub fn answers(&self) {
        self.world().hangs = false;
    }

    /// From now on it takes this long to say what there was when it was asked.
    pub fn answers_after(&self, time: Duration) {
        self.world().slow = Some(time);
    }

    /// The next start of an instance of this Assignment fails. Called twice, the next two do.
    pub fn fails(&self, assignment: &str, error: Error) {
        self.world().failures.entry(assignment.to_owned()).or_default().push(error);
    }

    /// A start that was on its way comes to nothing, after its caller was told that it is on its way.
    pub fn fails_late(&self, id: &InstanceId, error: Error) {
        if let Some(kept) = self.world().instances.get_mut(id) {
            kept.instance.state = State::Failed(error);
        }
    }

    /// The instance ends by itself. A stubborn instance that was asked to end does so now.
    pub fn exits(&self, id: &InstanceId, code: i32) {
        self.ends(id, Some(code), None, if code == 0 { Reason::Completed } else { Reason::Error });
    }

    /// Somebody kills the instance.
    pub fn killed(&self, id: &InstanceId) {
        self.ends(id, None, Some(9), Reason::Killed);
    }

    /// The machine is switched off and on again: nothing runs, everything is remembered.
    pub fn reboots(&self) {
        let ids: Vec<InstanceId> = self.world().instances.keys().cloned().collect();
        for id in ids {
            self.ends(&id, None, None, Reason::Rebooted);
        }
    }

    /// Instances of this Assignment do not end when they are asked to.
    pub fn stubborn(&self, assignment: &str) {
        self.world().stubborn.push(assignment.to_owned());
    }

    /// What [`Driver::check_exec`] answers to this command; without it, that all is well.
    pub fn check(&self, command: &[&str], outcome: CheckOutcome) {
        let command = command.iter().map(|word| (*word).to_owned()).collect();
        self.world().checks.insert(command, outcome);
    }

    /// The instance writes a line.
    pub fn writes(&self, id: &InstanceId, text: &str) {
        let mut world = self.world();
        let at = Some(world.now());
        if let Some(kept) = world.instances.get_mut(id) {
            let text = Bytes::copy_from_slice(text.as_bytes());
            kept.log.push(LogLine { at, source: Source::Stdout, part: None, text });
        }
        drop(world);
        self.wake();
    }

    /// What was done so far, oldest first: `start u-1.1`, `stop u-1.1`, `remove u-1.1`. Calls that
    /// changed nothing are not in it.
    pub fn done(&self) -> Vec<String> {
        self.world().done.clone()
    }

    /// What the instance was last started with.
    pub fn spec(&self, id: &InstanceId) -> Option<Spec> {
        self.world().instances.get(id).map(|kept| kept.spec.clone())
    }

    fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self) {
        self.changed.send_modify(|count| *count += 1);
    }

    fn ends(&self, id: &InstanceId, code: Option<i32>, signal: Option<i32>, reason: Reason) {
        let mut world = self.world();
        let at = world.now();
        if let Some(kept) = world.instances.get_mut(id)
            && let State::Running(_) | State::Stopping(_) | State::Starting { .. } =
                kept.instance.state
        {
            let exit = kept.exit(code, signal, reason, at);
            kept.instance.state = State::Exited(exit);
        }
        drop(world);
        self.wake();
    }

    /// What one call does to the state, unless the engine is out of reach.
    fn act<T>(&self, act: impl FnOnce(&mut World) -> Result<T>) -> Result<T> {
        let mut world = self.world();
        if world.unreachable {
            return Err(Error::Unreachable {
                engine: self.engine,
                address: "memory".to_owned(),
                source: Arc::new(std::io::Error::from(std::io::ErrorKind::ConnectionRefused)),
            });
        }
        let before = world.done.len();
        let result = act(&mut world);
        let changed = world.done.len() > before;
        drop(world);
        if changed {
            self.wake();
        }
        result
    }
}

impl World {
    fn now(&self) -> SystemTime {
        self.now.unwrap_or_else(SystemTime::now)
    }

    fn running(&mut self, spec: &Spec) -> Running {
        self.pid_last += 1;
        let published = |port: &crate::Port| match &spec.workload {
            Workload::Process(_) => Some(port.published.unwrap_or(port.port)),
            Workload::Container(_) | Workload::Compose(_) | Workload::Manifests(_) => {
                port.published
            }
        };
        Running {
            name: self.pid_last.to_string(),
            pid: Some(self.pid_last),
            since: self.now(),
            addresses: Vec::new(),
            ports: spec
                .ports
                .iter()
                .map(|port| PublishedPort {
                    port: port.port,
                    protocol: port.protocol,
                    published: published(port),
                    on: spec.opens_on(port.reach),
                })
                .collect(),
        }
    }

    fn start(&mut self, spec: &Spec) -> Result<()> {
        let earlier = self.instances.get(&spec.id).map(|kept| &kept.instance);
        let (restarts, last_exit) = match earlier {
            None => (0, None),
            Some(instance) => match &instance.state {
                State::Starting { .. } | State::Running(_) | State::Stopping(_) => return Ok(()),
                State::Exited(exit) => (instance.restarts + 1, Some(exit.clone())),
                State::Failed(_) => (instance.restarts, instance.last_exit.clone()),
            },
        };
        let failures = self.failures.get_mut(spec.id.assignment());
        if let Some(failures) = failures.filter(|failures| !failures.is_empty()) {
            return Err(failures.remove(0));
        }
        self.done.push(format!("start {}", spec.id));
        let instance = Instance {
            id: spec.id.clone(),
            origin: spec.origin.clone(),
            state: State::Running(self.running(spec)),
            restarts,
            last_exit,
            notes: Vec::new(),
            parts: Vec::new(),
        };
        let log = self.instances.remove(&spec.id).map(|kept| kept.log).unwrap_or_default();
        self.instances.insert(spec.id.clone(), Kept { instance, spec: spec.clone(), log });
        Ok(())
    }

    fn stop(&mut self, id: &InstanceId) {
        let at = self.now();
        let stubborn = self.stubborn.iter().any(|uid| uid == id.assignment());
        let Some(kept) = self.instances.get_mut(id) else { return };
        let next = match &kept.instance.state {
            State::Running(running) if stubborn => State::Stopping(running.clone()),
            State::Running(_) | State::Starting { .. } => {
                State::Exited(kept.exit(None, Some(15), Reason::Stopped, at))
            }
            State::Stopping(_) | State::Exited(_) | State::Failed(_) => return,
        };
        kept.instance.state = next;
        self.done.push(format!("stop {id}"));
    }

    /// The grace has passed.
    fn stop_stopping(&mut self, id: &InstanceId) {
        let at = self.now();
        if let Some(kept) = self.instances.get_mut(id)
            && let State::Stopping(_) = kept.instance.state
        {
            kept.instance.state = State::Exited(kept.exit(None, Some(9), Reason::Stopped, at));
            self.done.push(format!("kill {id}"));
        }
    }

    fn live(&self, id: &InstanceId) -> Result<&Kept> {
        let kept = self.kept(id)?;
        match kept.instance.state {
            State::Running(_) | State::Stopping(_) => Ok(kept),
            State::Starting { .. } | State::Exited(_) | State::Failed(_) => {
                Err(Error::NotRunning { id: id.clone() })
            }
        }
    }

    fn kept(&self, id: &InstanceId) -> Result<&Kept> {
        self.instances.get(id).ok_or_else(|| Error::NoSuchInstance { id: id.clone() })
    }
}

impl Kept {
    fn exit(&self, code: Option<i32>, signal: Option<i32>, reason: Reason, at: SystemTime) -> Exit {
        let text = |line: &LogLine| String::from_utf8_lossy(&line.text).into_owned();
        let log = self.log.iter().map(text).collect();
        Exit { code, signal, at, reason, message: None, log }
    }

    fn lines(&self, request: &LogRequest) -> Vec<Result<LogLine>> {
        let new_enough = |line: &&LogLine| request.since.is_none_or(|since| line.at >= Some(since));
        let lines: Vec<&LogLine> = self.log.iter().filter(new_enough).collect();
        let skipped = lines.len().saturating_sub(request.tail.unwrap_or(usize::MAX));
        lines.into_iter().skip(skipped).cloned().map(Ok).collect()
    }
}

impl Driver for Fake {
    fn engine(&self) -> Engine {
        self.engine
    }

    fn probe(&self) -> BoxFuture<'_, Result<Probe>> {
        let probe = Probe {
            version: "fake".to_owned(),
            address: "memory".to_owned(),
            notes: Vec::new(),
            confinement: None,
        };
        ready(self.act(|_| Ok(probe)))
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<Instance>>> {
        let instances = |world: &mut World| {
            Ok(world.instances.values().map(|kept| kept.instance.clone()).collect())
        };
        if self.world().hangs {
            return Box::pin(std::future::pending());
        }
        let slow = self.world().slow;
        let listed = self.act(instances);
        match slow {
            Some(time) => Box::pin(async move {
                tokio::time::sleep(time).await;
                listed
            }),
            None => ready(listed),
        }
    }

    fn usage(&self) -> BoxFuture<'_, Result<Vec<(InstanceId, Usage)>>> {
        let usage = Usage { memory_bytes: 1 << 20, processes: 1, ..Usage::default() };
        ready(self.act(|world| {
            let ids = world.instances.keys().filter(|id| world.live(id).is_ok());
            Ok(ids.map(|id| (id.clone(), usage)).collect())
        }))
    }

    fn start(&self, spec: &Spec) -> BoxFuture<'_, Result<()>> {
        ready(self.act(|world| world.start(spec)))
    }

    fn stop<'a>(&'a self, id: &'a InstanceId, grace: Duration) -> BoxFuture<'a, Result<()>> {
        ready(self.act(|world| {
            world.stop(id);
            if grace.is_zero() {
                world.stubborn.retain(|uid| uid != id.assignment());
                world.stop_stopping(id);
            }
            Ok(())
        }))
    }

    fn remove<'a>(&'a self, id: &'a InstanceId) -> BoxFuture<'a, Result<()>> {
        ready(self.act(|world| {
            if world.instances.remove(id).is_some() {
                world.done.push(format!("remove {id}"));
            }
            Ok(())
        }))
    }

    /// Does not follow: what is there is all that comes.
    fn logs<'a>(
        &'a self,
        id: &'a InstanceId,
        request: LogRequest,
    ) -> BoxFuture<'a, Result<LogStream>> {
        let lines = self.act(|world| Ok(world.kept(id)?.lines(&request)));
        ready(lines.map(|lines| stream::iter(lines).boxed()))
    }

    /// The command writes itself and ends well.
    fn exec<'a>(
        &'a self,
        id: &'a InstanceId,
        request: ExecRequest,
    ) -> BoxFuture<'a, Result<ExecSession>> {
        ready(self.act(|world| {
            let exit = world.live(id)?.exit(Some(0), None, Reason::Completed, world.now());
            let bytes = Bytes::from(request.command.join(" "));
            let (resize, _) = mpsc::channel::<TerminalSize>(1);
            Ok(ExecSession {
                input: Box::pin(tokio::io::sink()),
                output: stream::iter([Ok(Output { source: Source::Stdout, bytes })]).boxed(),
                resize,
                exit: ready(Ok(exit)),
            })
        }))
    }

    fn check_exec<'a>(
        &'a self,
        id: &'a InstanceId,
        command: &'a [String],
        _timeout: Duration,
    ) -> BoxFuture<'a, Result<CheckOutcome>> {
        let well = CheckOutcome::Ended { code: 0, output: String::new() };
        ready(self.act(|world| {
            world.live(id)?;
            Ok(world.checks.get(command).cloned().unwrap_or(well))
        }))
    }

    fn connect<'a>(
        &'a self,
        id: &'a InstanceId,
        port: u16,
    ) -> BoxFuture<'a, Result<BoxedConnection>> {
        let known = self.act(|world| {
            let kept = world.live(id)?;
            let has: Vec<u16> = kept.spec.ports.iter().map(|listened| listened.port).collect();
            match has.contains(&port) {
                true => Ok(()),
                false => Err(Error::NoSuchPort { port, has }),
            }
        });
        // What a program of the tests listens on, it listens on for real.
        let address = SocketAddr::new(LOOPBACK, port);
        Box::pin(async move {
            known?;
            dial(&[address], port).await
        })
    }

    fn events(&self) -> BoxStream<'static, ()> {
        let changed = self.changed.subscribe();
        stream::unfold(changed, async |mut changed| {
            changed.changed().await.ok()?;
            Some(((), changed))
        })
        .boxed()
    }
}

fn ready<'a, T: Send + 'a>(result: Result<T>) -> BoxFuture<'a, Result<T>> {
    Box::pin(std::future::ready(result))
}

#[cfg(test)]
mod tests;
