//! Brings the engines of this node to what is assigned to it: looks, lets
//! [`tombolo_plan::instances`] decide, acts. Called by [`crate::work`], which wakes it and writes what
//! it has to tell; start at [`Converge::activate`].
//!
//! One activation lists, decides and begins: whatever takes long (a start, a stop) has a task of its
//! own, and until that is done the plan sees it as under way.

mod deadline;
mod look;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tombolo_driver::{Driver, Error, InstanceId, Spec};
use tombolo_identity::Remit;
use tombolo_model::phrase::with_causes;
use tombolo_model::{Assignment, Engine};
use tombolo_plan::Monotonic;
use tombolo_plan::agent::telling::{self, Ripe, Tell};
use tombolo_plan::claim::{self, Decision};
use tombolo_plan::instances::under_way::UnderWay;
use tombolo_plan::instances::{
    self, Action, Authority, Desired, Id, Memory, Observed, Phase, Verb,
};
use tombolo_plan::supervision::is_round;

use crate::cache::bare;
use crate::desired::{self, Job};
use crate::health::Checks;
use crate::nearby::Nearby;
use crate::observe::{self, Look, Unanswered};
use crate::orders::{Good, Orders};
use crate::peer_files::PeerFiles;
use crate::report::{self, Sight};
use crate::tell::{What, Write};

/// A driver that has not answered by then is tried again.
const ACTION_TIMEOUT: Duration = Duration::from_secs(120);
pub type Drivers = BTreeMap<Engine, Arc<dyn Driver>>;

#[derive(Debug)]
pub struct Converge {
    remit: Remit,
    drivers: Drivers,
    engines: BTreeSet<Engine>,
    pub orders: Orders,
    memory: Memory,
    claims: claim::Memory,
    checks: Checks,
    unanswered: Unanswered,
    /// Only an agent with a folder keeps them.
    peer_files: Option<PeerFiles>,
    actions: JoinSet<Done>,
    /// Actions that came to their end since the last look.
    ended: Vec<Done>,
    under_way: UnderWay,
    /// When each instance is to end without the agent, as its engine was last told.
    deadlines: BTreeMap<Id, Option<instances::deadline::Deadline>>,
    has_deadlines: bool,
    lost_host: bool,
}

/// An action that came to its end.
#[derive(Debug)]
pub struct Done {
    id: Id,
    engine: Engine,
    verb: Verb,
    result: Result<(), Error>,
}

/// What the look needs to know of the world outside.
#[derive(Clone, Debug)]
pub struct Now {
    pub clock: Monotonic,
    /// For people to read.
    pub time: Timestamp,
    pub cut_off_since: Option<Monotonic>,
    /// No heartbeat was answered since the agent started, or since a silence nothing was listed.
    pub unheard: bool,
    /// When the last heartbeat was sent that was answered.
    pub heard_since_boot: Option<Duration>,
    /// Nobody counts as cut off before this.
    pub silent_after: Duration,
    /// Where this machine is reached; nothing for an agent of many machines, whose engine knows.
    pub address: Option<String>,
    /// The same, if the machine itself has this address: what others are to reach is open on this address
    /// alone.
    pub own_address: Option<IpAddr>,
}

/// What one activation came to.
#[derive(Debug, Default)]
pub struct Report {
    pub begun: Vec<Action>,
    /// How many are left for the next activation.
    pub deferred: usize,
    /// What the server should be told. Whatever still is to be told is in the next report too.
    pub writes: Vec<Write>,
    pub strays: Vec<Id>,
    /// Ports of what runs here that are open beyond this machine; nothing if an engine did not say.
    pub open_ports: Option<u32>,
    pub wake_at: Option<Monotonic>,
}

impl Converge {
    /// Begins with these orders, which may come from the disk.
    pub fn new(remit: Remit, drivers: Drivers, orders: Orders) -> Converge {
        let good = orders.good.iter().map(|(uid, good)| (uid.clone(), good.revision)).collect();
        Converge {
            engines: drivers.keys().copied().collect(),
            memory: Memory::of_good(good),
            remit,
            drivers,
            orders,
            claims: claim::Memory::default(),
            checks: Checks::new(),
            unanswered: Unanswered::default(),
            peer_files: None,
            actions: JoinSet::new(),
            ended: Vec::new(),
            under_way: UnderWay::default(),
            deadlines: BTreeMap::new(),
            has_deadlines: false,
            lost_host: false,
        }
    }

    /// Keeps files below this folder in which instances find where their peers are.
    pub fn with_peer_files(mut self, folder: PathBuf) -> Converge {
        self.peer_files = Some(PeerFiles::new(folder));
        self
    }

    /// Comes when the health of something has changed.
    pub fn health_changed(&self) -> Arc<Notify> {
        self.checks.changed()
    }

    /// Comes when an action has ended; never if there is none.
    pub async fn next_done(&mut self) {
        let done = match self.actions.join_next().await {
            Some(Ok(done)) => done,
            Some(Err(error)) => {
                tracing::error!(%error, "an action has failed badly");
                self.under_way.lost_count();
                self.drivers.keys().for_each(|engine| self.unanswered.outdate(*engine));
                return;
            }
            None => std::future::pending().await,
        };
        self.unanswered.outdate(done.engine);
        self.ended.push(done);
    }

    fn note_what_ended(&mut self, now: Monotonic) {
        for Done { id, engine, verb, result } in self.ended.drain(..) {
            let said = result.as_ref().err().map(|error| with_causes(error));
            let result =
                result.map_err(|error| (observe::retry(engine, &error), desired::problem(&error)));
            self.under_way.ended(&id, verb, result, now);
            let failures = self.under_way.failures(&id);
            // What is tried again every second is in the log once, then at the tenth time, the hundredth.
            let is_news = verb != Verb::Start || failures <= 1 || is_round(failures);
            if let Some(error) = said.filter(|_| is_news) {
                let action = format!("{verb:?} {}@{:x}", id.assignment, id.revision);
                tracing::warn!(action, error, failures, "failed; the next look decides");
            }
        }
    }

    /// Looks, decides, acts; once. Takes no hint of what changed, and does not retry.
    pub async fn activate(&mut self, now: &Now) -> Report {
        self.note_what_ended(now.clock);
        let look = observe::look(&self.drivers, &mut self.unanswered).await;
        self.lost_host = matches!(look.silent.get(&Engine::Host), Some(Error::Unreachable { .. }));
        let nearby = self.nearby(&look, now);
        self.tell_peers(&look, &nearby);
        let jobs = self.jobs(&look, &nearby);
        let observed = self.observed(&look, now);
        let desired = Desired {
            wanted: jobs.iter().map(|(uid, job)| (uid.clone(), job.wanted.clone())).collect(),
            authority: self.orders.authority,
            cut_off_since: now.cut_off_since,
            // A list is a word, too.
            unheard: now.unheard && self.orders.authority == Authority::Doubtful,
            misses_an_engine: self.misses_an_engine(&look),
        };
        let plan = instances::plan(&desired, &observed, &self.memory, now.clock);
        self.memory = plan.memory;
        self.keep_deadlines(&look, &jobs, now).await;
        self.remember_good(&jobs);
        self.check_on(&look);
        let mut report = Report {
            strays: plan.strays,
            open_ports: look.open_ports(),
            wake_at: [plan.wake_at, self.under_way.wake_at()].into_iter().flatten().min(),
            ..Report::default()
        };
        self.write_claims(now, &mut report);
        self.write_statuses(&look, &observed, &jobs, &plan.phases, now, &mut report);
        for action in plan.actions {
            if !self.under_way.has_room() {
                report.deferred += 1;
                continue;
            }
            let spec = self.spec(&action.id, &jobs, &nearby, now);
            self.begin(action, spec, &look, &mut report);
        }
        report
    }

    /// Whether an engine is silent on which something is to run here.
    fn misses_an_engine(&self, look: &Look) -> bool {
        let mut ours =
            self.orders.assignments.values().filter(|found| desired::is_ours(found, &self.remit));
        ours.any(|assignment| look.silent.contains_key(&assignment.spec.engine))
    }

    /// Whether the engine for processes has lost its folder: nobody else can be out of reach there.
    pub fn lost_host(&self) -> bool {
        self.lost_host
    }

    /// Starts an action, if there is an engine for it and an order to start it with.
    fn begin(&mut self, action: Action, spec: Option<Spec>, look: &Look, report: &mut Report) {
        let id = &action.id;
        let found = look.instances.get(id).map(|(engine, _)| *engine);
        let engine =
            found.or_else(|| Some(self.orders.assignments.get(&id.assignment)?.spec.engine));
        let driver = engine.and_then(|engine| self.drivers.get(&engine)).cloned();
        let instance = InstanceId::new(&id.assignment, id.revision);
        let (Some(driver), Ok(instance)) = (driver, instance) else {
            tracing::error!(%action, "there is no engine for it");
            return;
        };
        if action.verb == Verb::Start && spec.is_none() {
            tracing::error!(%action, "nobody knows how to start it");
            return;
        }
        tracing::info!(%action, "applying");
        self.under_way.begin(&action);
        let (id, verb) = (id.clone(), action.verb);
        self.actions.spawn(async move {
            let result = apply(&*driver, &instance, verb, spec).await;
            Done { id, engine: driver.engine(), verb, result }
        });
        report.begun.push(action);
    }

    /// The driver's order for a revision: the one that is wanted, or one that was well before.
    fn spec(
        &self,
        id: &Id,
        jobs: &BTreeMap<String, Job>,
        nearby: &Nearby,
        now: &Now,
    ) -> Option<Spec> {
        let job = jobs.get(&id.assignment);
        let wanted = job.and_then(|job| job.spec.as_ref().ok());
        let wanted = wanted.filter(|spec| spec.id.revision() == id.revision).cloned();
        let spec = wanted.or_else(|| self.spec_of_good(id, nearby))?;
        let deadline = job.and_then(|job| deadline::of(&job.wanted, now));
        Some(Spec { deadline, ..spec })
    }

    /// The order for a revision that was well before.
    fn spec_of_good(&self, id: &Id, nearby: &Nearby) -> Option<Spec> {
        let good = self.orders.good.get(&id.assignment)?;
        let known = good.revision == id.revision;
        let resolve =
            || desired::resolve(&good.assignment, id.revision, &self.remit, &good.entries, nearby);
        known.then(resolve)?.ok()
    }

    fn remember_good(&mut self, jobs: &BTreeMap<String, Job>) {
        for (uid, revision) in self.memory.good() {
            let same = self.orders.good.get(&uid).is_some_and(|good| good.revision == revision);
            let current = jobs.get(&uid).is_some_and(|job| job.wanted.revision == revision);
            let Some(assignment) = self.orders.assignments.get(&uid) else { continue };
            if same || !current {
                continue;
            }
            let named = desired::sources(assignment);
            let entries = self.orders.entries.iter().filter(|(source, _)| named.contains(source));
            let entries = entries.map(|(source, values)| (source.clone(), values.clone()));
            let good = Good { revision, assignment: bare(assignment), entries: entries.collect() };
            self.orders.good.insert(uid, good);
        }
    }

    /// Takes what nobody has, and keeps what is ours.
    fn write_claims(&mut self, now: &Now, report: &mut Report) {
        if self.orders.authority == Authority::Doubtful {
            return;
        }
        let assignments = &self.orders.assignments;
        self.claims.retain(|uid| assignments.contains_key(uid));
        // A claim cannot be written on an Assignment that the server has forgotten.
        let known = |found: &&Assignment| found.metadata.resource_version.is_some();
        for assignment in assignments.values().filter(known) {
            let holder = self.remit.name();
            match claim::decide(assignment, holder, &mut self.claims, now.clock) {
                Decision::Leave(None) => (),
                Decision::Wait(at) | Decision::Leave(Some(at)) => report.wake(at),
                Decision::Write => {
                    let mut status = assignment.status.clone().unwrap_or_default();
                    status.agent = Some(holder.to_owned());
                    status.held_until = Some(Time(now.time + claim::LASTS));
                    let what = What::Status { status: Box::new(status), news: Vec::new() };
                    report.writes.push(Write { assignment: assignment.clone(), what });
                }
            }
        }
    }

    fn write_statuses(
        &self,
        look: &Look,
        observed: &Observed,
        jobs: &BTreeMap<String, Job>,
        phases: &BTreeMap<String, Phase>,
        now: &Now,
        report: &mut Report,
    ) {
        let claimed: BTreeSet<Option<String>> =
            report.writes.iter().map(|write| write.assignment.metadata.uid.clone()).collect();
        for (uid, job) in jobs {
            let (Some(assignment), Some(phase)) =
                (self.orders.assignments.get(uid), phases.get(uid))
            else {
                continue;
            };
            let ripe = match (claimed.contains(&assignment.metadata.uid), job.unanswered) {
                (true, _) => Ripe::ClaimFirst,
                (false, true) => Ripe::NotYet,
                (false, false) => Ripe::Yes,
            };
            match telling::decide(assignment, ripe, look::left(look, observed, assignment)) {
                Tell::Nothing => continue,
                Tell::LetGo => {
                    let assignment = assignment.clone();
                    report.writes.push(Write { assignment, what: What::LetGo });
                    continue;
                }
                Tell::Status => (),
            }
            let target = Id { assignment: uid.clone(), revision: job.wanted.revision };
            let instance = look::serving(look, &target, phase);
            let sight = Sight { phase, instance, address: now.address.as_deref() };
            report.writes.extend(self.write(assignment, &sight, now));
        }
    }

    /// Nothing, if the server knows it all.
    fn write(&self, assignment: &Assignment, sight: &Sight<'_>, now: &Now) -> Option<Write> {
        let before = assignment.status.clone().unwrap_or_default();
        let mut after = report::status(assignment, sight, &Time(now.time));
        if let Some(node) = &assignment.spec.node {
            after.agent = Some(node.clone());
        }
        if assignment.status.as_ref() == Some(&after) {
            return None;
        }
        let news = report::news(&before, &after);
        let what = What::Status { status: Box::new(after), news };
        Some(Write { assignment: assignment.clone(), what })
    }
}

impl Report {
    fn wake(&mut self, at: Monotonic) {
        self.wake_at = Some(self.wake_at.map_or(at, |earlier| earlier.min(at)));
    }
}

async fn apply(
    driver: &dyn Driver,
    id: &InstanceId,
    verb: Verb,
    spec: Option<Spec>,
) -> Result<(), Error> {
    let applied = async {
        match (verb, spec) {
            (Verb::Start, Some(spec)) => driver.start(&spec).await,
            (Verb::Start, None) => Ok(()),
            (Verb::Stop { grace }, _) => driver.stop(id, grace).await,
            (Verb::Remove, _) => driver.remove(id).await,
        }
    };
    let late = |_| Error::TimedOut { doing: format!("{verb:?} {id}"), after: ACTION_TIMEOUT };
    tokio::time::timeout(ACTION_TIMEOUT, applied).await.map_err(late)?
}

#[cfg(test)]
mod tests;
