//! What an engine must be able to do for an agent: the trait [`Driver`] and the plain types of its
//! calls. `driver-process`, `driver-docker` and their like implement it; the agent holds them as
//! `Arc<dyn Driver>`; [`fake::Fake`] is an engine in memory for tests and simulations.
//!
//! A driver looks and acts, and decides nothing. Whether and when to restart, with which pause,
//! what comes first: that is the agent's plan. A driver keeps no memory that the engine does not
//! keep: whatever [`Driver::list`] says is read from the engine, so that an agent which was killed
//! finds everything again.

mod connection;
mod deadline;
mod error;
pub mod fake;
mod instance;
mod machines;
mod secret;
mod session;
mod spec;

use std::fmt;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use tombolo_model::Engine;

pub use connection::{BoxedConnection, CONNECT_TIMEOUT, Connection, dial};
pub use deadline::DeadlineRecord;
pub use error::{Cause, Error, Result};
pub use instance::{Exit, Instance, InstanceId, Part, PublishedPort, Running, State, Usage};
pub use machines::Machines;
pub use secret::Secret;
pub use session::{
    CheckOutcome, ExecRequest, ExecSession, LINE_BYTES_MAX, LogLine, LogRequest, LogStream, Output,
    Source, TerminalSize,
};
pub use spec::{
    Absent, Container, Deadline, Entry, FilePlaced, LOOPBACK, Origin, Port, Process,
    STOP_GRACE_DEFAULT, Spec, Workload,
};

/// An engine that runs workloads. Every call may be made again after it failed or was cut short,
/// and after the agent was killed in the middle of it.
pub trait Driver: Send + Sync + fmt::Debug {
    fn engine(&self) -> Engine;

    /// Whether the engine is there, and what it is.
    fn probe(&self) -> BoxFuture<'_, Result<Probe>>;

    /// Everything in the engine that is ours, by id, whether or not anyone still wants it. It is
    /// asked at every look, so it must be cheap; what is dear to measure is in
    /// [`Driver::usage`].
    fn list(&self) -> BoxFuture<'_, Result<Vec<Instance>>>;

    /// What the running instances use, by id. Instances that ended in the meantime are left out.
    fn usage(&self) -> BoxFuture<'_, Result<Vec<(InstanceId, Usage)>>>;

    /// Starts the instance `spec.id`. If it is starting or running already, this does nothing; if
    /// it has ended, it is started again and its restarts are counted, its exit kept as the last
    /// one. Returns when it runs, or when it is on its way and the rest takes long (an image is
    /// pulled): then [`State::Starting`] says how far it is, and [`State::Failed`] how it ended.
    fn start(&self, spec: &Spec) -> BoxFuture<'_, Result<()>>;

    /// Asks the instance to end, and kills it with all that it started when `grace` has passed.
    /// Returns when this is under way: [`State::Stopping`], then [`State::Exited`]. Called again,
    /// the shorter grace counts. Does nothing if it has ended or never was.
    fn stop<'a>(&'a self, id: &'a InstanceId, grace: Duration) -> BoxFuture<'a, Result<()>>;

    /// Ends the instance at this time, also if the agent is dead or frozen by then; nothing lets it
    /// run without end again. The agent puts the time off whenever the controller answers. An engine
    /// that has nobody who outlives the agent does nothing here: the agent's own count is all there is
    /// then, and the engine's documents say so.
    fn end_at<'a>(
        &'a self,
        _id: &'a InstanceId,
        _deadline: Option<Deadline>,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async { Ok(()) })
    }

    /// The agent is about to say good-bye to the controller, which counts from then on: no deadline
    /// is further away than its rule says.
    fn part(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async { Ok(()) })
    }

    /// Kills whatever is left of the instance and forgets it: files, logs, networks. Named volumes
    /// are kept until [`Driver::clear`]. Does nothing if there is none.
    fn remove<'a>(&'a self, id: &'a InstanceId) -> BoxFuture<'a, Result<()>>;

    /// Takes away what outlives instances and is ours: named volumes, with what is in them. For an
    /// uninstall, when all instances are removed. Says how many volumes there were; an engine that
    /// keeps nothing has none.
    fn clear(&self) -> BoxFuture<'_, Result<usize>> {
        Box::pin(async { Ok(0) })
    }

    /// What the instance wrote, oldest first.
    fn logs<'a>(
        &'a self,
        id: &'a InstanceId,
        request: LogRequest,
    ) -> BoxFuture<'a, Result<LogStream>>;

    /// Runs a command inside the instance, for a person. Ends the command when the session is
    /// dropped.
    fn exec<'a>(
        &'a self,
        id: &'a InstanceId,
        request: ExecRequest,
    ) -> BoxFuture<'a, Result<ExecSession>>;

    /// Runs a command inside the instance, for a health check. A command that takes longer than
    /// `timeout` is killed, and that is [`CheckOutcome::TimedOut`] and no error.
    fn check_exec<'a>(
        &'a self,
        id: &'a InstanceId,
        command: &'a [String],
        timeout: Duration,
    ) -> BoxFuture<'a, Result<CheckOutcome>>;

    /// A connection to a port that the instance listens on, wherever the engine is and whoever else may
    /// reach that port. [`Error::NoSuchPort`] if the instance has no such port, [`Error::Refused`] if
    /// nothing listens there within [`CONNECT_TIMEOUT`].
    fn connect<'a>(
        &'a self,
        id: &'a InstanceId,
        port: u16,
    ) -> BoxFuture<'a, Result<BoxedConnection>>;

    /// Comes when something may have changed. It may wake too often, and it may miss something: it says
    /// when to look, never what there is to see.
    fn events(&self) -> BoxStream<'static, ()>;
}

/// What there is of an engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// The engine's version as it says it itself.
    pub version: String,
    /// Where it is reached: a socket, a folder.
    pub address: String,
    /// What it cannot do here and why, a sentence each: `no memory limits: …`.
    pub notes: Vec<String>,
    /// For an engine that confines programs itself, how far it can; nothing while nobody could try.
    pub confinement: Option<Confinement>,
}

/// How far an engine can keep programs apart from the machine and from each other. Each field is why
/// something is missing, and nothing where it is not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Confinement {
    /// Programs would run as the agent's own user, with all that it has: they are refused unless the
    /// site allows that by name.
    pub apart: Option<String>,
    /// Programs see the machine's own files, as far as their users may.
    pub view: Option<String>,
    /// Programs can make every system call.
    pub calls: Option<String>,
    /// Programs can send signals to the agent.
    pub signals: Option<String>,
    /// All programs together could take the memory and the processes of the machine.
    pub together: Option<String>,
}
