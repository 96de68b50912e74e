//! What an agent does next: which instances to start, stop and forget, so that its engine comes to
//! run what is assigned to it. Called by `tombolo_agent::converge`; start reading at [`plan`].
//!
//! An instance is one revision of one Assignment. While an Assignment changes there are two of
//! them: the old one stays until the new one is well, and takes over again if the new one fails.
//! The module knows no engine and no API: what it needs to see is in [`Observed`], what it wants
//! done is in [`Plan`], and what it has to remember between two looks is in [`Memory`].

pub mod deadline;
mod one;
mod phase;
pub mod serving;
pub mod under_way;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use tombolo_model::Reason;

use crate::Monotonic;

use one::One;
pub use phase::{Fact, Facts, Phase};

/// An instance without a health check counts as well once it has run this long: most programs that
/// cannot run say so at once.
pub const SETTLED_AFTER: Duration = Duration::from_secs(2);
/// The first restart comes at once, the second after this, each next one after twice as long. After a
/// start that failed none comes sooner than this.
pub const BACKOFF_MIN: Duration = Duration::from_secs(1);
pub const BACKOFF_MAX: Duration = Duration::from_secs(300);
/// While something of the machine is in the way. A try costs next to nothing, and once the way is
/// free nobody should wait.
pub const HINDERED_PAUSE: Duration = Duration::from_secs(1);
/// An instance that ran well this long has its failures forgotten.
pub const FORGIVEN_AFTER: Duration = Duration::from_secs(600);
/// So many failures in a row are a crash loop, and the end of an update.
pub const FAILURES_MAX: u32 = 3;
/// After an engine did not answer.
pub const SILENT_AGAIN: Duration = Duration::from_secs(1);
/// Longer than this nobody waits for a component that should come first: a late start is better
/// than none, and callers try again anyway.
pub const WAIT_MAX: Duration = Duration::from_secs(60);

/// One revision of one Assignment.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Id {
    /// The uid of the Assignment.
    pub assignment: String,
    pub revision: u64,
}

/// What the agent was told to run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Desired {
    /// By the uid of the Assignment.
    pub wanted: BTreeMap<String, Wanted>,
    pub authority: Authority,
    /// Since when nothing was heard from the controller.
    pub cut_off_since: Option<Monotonic>,
    /// Nothing was heard since the agent started, or nothing was listed since a silence: nobody knows
    /// what was decided meanwhile.
    pub unheard: bool,
    /// An engine on which something is to run did not answer. There may be no event to wait for: perhaps
    /// one question got lost.
    pub misses_an_engine: bool,
}

/// How sure the agent is that it was told everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Authority {
    /// The controller has just listed all Assignments.
    Fresh,
    /// They come from the disk, or from a controller that may have forgotten some: what is not
    /// among them is kept and told, never stopped.
    #[default]
    Doubtful,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Changes when what is to run changes, and not otherwise.
    pub revision: u64,
    pub app: String,
    pub component: String,
    /// Components that should be up before it starts.
    pub after: Vec<Before>,
    /// Two revisions cannot run side by side: it holds state or a port that is there once.
    pub exclusive: bool,
    pub stopped: bool,
    pub checked: bool,
    pub grace: Duration,
    /// It is taken down when the controller is out of reach for this long.
    pub stop_when_cut_off: Option<Duration>,
    /// Why it cannot even be tried: a Secret that is missing, an engine that cannot run it.
    pub blocked: Option<Problem>,
    /// An earlier revision that the agent still knows how to start.
    pub fallback: Option<u64>,
}

/// A component that should come first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Before {
    pub component: String,
    /// It has instances elsewhere, and they were up when the Assignment was written.
    pub up_elsewhere: bool,
}

/// Why something does not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub reason: Reason,
    /// A clause.
    pub message: String,
    /// What can be done about it, in a sentence; empty if there is nothing to do.
    pub help: String,
}

impl Problem {
    /// Of a reason whose help has no blanks.
    pub fn new(reason: Reason, message: impl Into<String>) -> Problem {
        Problem { reason, message: message.into(), help: reason.advises(&[]) }
    }
}

/// What the engine holds, by id.
pub type Observed = BTreeMap<Id, Seen>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    Starting {
        doing: String,
    },
    Running(Health),
    Stopping,
    /// `at` differs between two ends; it is compared and never read.
    Exited {
        at: u64,
        ordered: bool,
        problem: Problem,
    },
    /// It could not be started. `at` as above.
    Failed {
        at: u64,
        retry: Retry,
        problem: Problem,
    },
}

/// What comes of trying the same start again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// Nothing, before somebody changes what is wanted.
    Never,
    /// It may help, and has its price: the pauses grow.
    Later,
    /// It helps as soon as what is in the way is gone, and costs next to nothing.
    Soon,
}

/// What its checks say of a running instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// It has no check, or none has been answered yet.
    Unknown,
    Well,
    /// Some checks failed, and not enough of them yet.
    Failing(String),
    Unwell(String),
}

/// What one look leaves for the next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    instances: BTreeMap<Id, Past>,
    assignments: BTreeMap<String, Course>,
    /// Of an agent that has not looked yet: what it finds running was well before it came.
    anew: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Past {
    failures: u32,
    /// The end that was counted last.
    counted: Option<u64>,
    /// An order to stop it because it was not well, whose end is still to be counted.
    condemned: Option<Problem>,
    running_since: Option<Monotonic>,
    /// This run has been well: until a check says otherwise, it is.
    proved: bool,
    retry_at: Option<Monotonic>,
    last: Option<Problem>,
    /// It could not be started, and will be as soon as something is out of the way.
    hindered: bool,
}

/// What is remembered of an Assignment beyond its instances.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Course {
    /// The revision that was well last.
    good: Option<u64>,
    /// The revision that failed and was given up for the good one.
    refused: Option<(u64, Problem)>,
    waiting_since: Option<Monotonic>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    pub actions: Vec<Action>,
    /// How far each wanted Assignment is, by uid.
    pub phases: BTreeMap<String, Phase>,
    /// Instances that nobody wants and that are kept all the same, because nobody said so.
    pub strays: Vec<Id>,
    pub memory: Memory,
    /// When to look again if nothing changes before.
    pub wake_at: Option<Monotonic>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Action {
    pub id: Id,
    pub verb: Verb,
    pub why: Why,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    Start,
    Stop { grace: Duration },
    Remove,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    Missing,
    Outdated,
    Ended(Problem),
    RolledBack(Problem),
    Unassigned,
    StopAsked,
    Unwell(String),
    Replaced,
    CutOff(Duration),
    Gone,
}

impl Memory {
    /// A memory that knows nothing but which revisions were well: all that is kept over a restart.
    pub fn of_good(good: BTreeMap<String, u64>) -> Memory {
        let course = |good| Course { good: Some(good), ..Course::default() };
        let assignments = good.into_iter().map(|(uid, good)| (uid, course(good))).collect();
        Memory { assignments, anew: true, ..Memory::default() }
    }

    pub fn good(&self) -> BTreeMap<String, u64> {
        let good = |(uid, course): (&String, &Course)| Some((uid.clone(), course.good?));
        self.assignments.iter().filter_map(good).collect()
    }
}

/// Decides what to do next. Actions of one plan may be carried out in any order; carrying them out
/// and planning again at the same time gives none.
pub fn plan(desired: &Desired, observed: &Observed, memory: &Memory, now: Monotonic) -> Plan {
    let mut plan = Plan { memory: remember(desired, observed, memory, now), ..Plan::default() };
    let up = components_up(desired, observed);
    for (uid, wanted) in &desired.wanted {
        let mut one = One { uid, wanted, observed, now, plan: &mut plan };
        let phase = one.decide(desired, &up);
        plan.phases.insert(uid.clone(), phase);
    }
    for (id, seen) in observed {
        if desired.wanted.contains_key(&id.assignment) {
            continue;
        }
        match desired.authority {
            Authority::Fresh => plan.end(id, seen, STRAY_GRACE, Why::Unassigned),
            Authority::Doubtful => plan.strays.push(id.clone()),
        }
    }
    if desired.misses_an_engine {
        plan.wake(now + SILENT_AGAIN);
    }
    plan
}

/// Nobody says how long a stray may take.
const STRAY_GRACE: Duration = Duration::from_secs(10);

/// Brings the memory up to what is seen: who runs since when, whose end is counted.
fn remember(desired: &Desired, observed: &Observed, memory: &Memory, now: Monotonic) -> Memory {
    let instances = observed
        .iter()
        .map(|(id, seen)| {
            let good = memory.assignments.get(&id.assignment).and_then(|course| course.good);
            let found =
                || Past { proved: memory.anew && good == Some(id.revision), ..Past::default() };
            let past = memory.instances.get(id).cloned().unwrap_or_else(found);
            (id.clone(), past.after(seen, now))
        })
        .collect();
    let assignments = desired
        .wanted
        .iter()
        .map(|(uid, wanted)| {
            let mut course = memory.assignments.get(uid).cloned().unwrap_or_default();
            // A new revision is a new chance.
            course.refused = course.refused.filter(|(refused, _)| *refused == wanted.revision);
            (uid.clone(), course)
        })
        .collect();
    Memory { instances, assignments, anew: false }
}

impl Past {
    fn after(mut self, seen: &Seen, now: Monotonic) -> Past {
        match seen {
            Seen::Running(health) => {
                let since = *self.running_since.get_or_insert(now);
                let ill = matches!(health, Health::Unwell(_) | Health::Failing(_));
                // What was in the way was not its fault.
                if self.hindered || (!ill && now.since(since) >= FORGIVEN_AFTER) {
                    (self.failures, self.last, self.hindered) = (0, None, false);
                }
                self
            }
            Seen::Starting { .. } | Seen::Stopping => {
                Past { running_since: None, proved: false, ..self }
            }
            Seen::Exited { at, .. } | Seen::Failed { at, .. } if self.counted == Some(*at) => self,
            Seen::Exited { at, ordered: true, .. } if self.condemned.is_none() => Past {
                counted: Some(*at),
                running_since: None,
                proved: false,
                retry_at: None,
                ..self
            },
            Seen::Exited { at, problem, .. } | Seen::Failed { at, problem, .. } => {
                let problem = self.condemned.unwrap_or_else(|| problem.clone());
                let failures = self.failures.saturating_add(1);
                let hindered = matches!(seen, Seen::Failed { retry: Retry::Soon, .. });
                let pause = match seen {
                    Seen::Failed { retry: Retry::Soon, .. } => {
                        backoff(failures).min(HINDERED_PAUSE)
                    }
                    // At once it would fail again, and in the meantime nobody would read why.
                    Seen::Failed { .. } => backoff(failures).max(BACKOFF_MIN),
                    Seen::Exited { .. }
                    | Seen::Starting { .. }
                    | Seen::Running(_)
                    | Seen::Stopping => backoff(failures),
                };
                Past {
                    failures,
                    counted: Some(*at),
                    condemned: None,
                    running_since: None,
                    proved: false,
                    retry_at: Some(now + pause),
                    last: Some(problem),
                    hindered,
                }
            }
        }
    }
}

/// Nothing before the first restart, then 1 s, 2 s, 4 s and so on.
fn backoff(failures: u32) -> Duration {
    match failures {
        0 | 1 => Duration::ZERO,
        more => BACKOFF_MIN.saturating_mul(1 << (more - 2).min(16)).min(BACKOFF_MAX),
    }
}

/// The components of each App that have an instance here which is up. One that nobody checks counts
/// as soon as it runs: whoever calls it tries again anyway, and a start must not take seconds more.
fn components_up<'a>(desired: &'a Desired, observed: &Observed) -> BTreeSet<(&'a str, &'a str)> {
    let here = |(id, seen): (&Id, &Seen)| {
        let wanted = desired.wanted.get(&id.assignment)?;
        let up = match seen {
            Seen::Running(Health::Well) => true,
            Seen::Running(Health::Unknown) => !wanted.checked,
            Seen::Running(Health::Failing(_) | Health::Unwell(_)) => false,
            Seen::Starting { .. } | Seen::Stopping => false,
            Seen::Exited { .. } | Seen::Failed { .. } => false,
        };
        up.then_some((wanted.app.as_str(), wanted.component.as_str()))
    };
    observed.iter().filter_map(here).collect()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wellness {
    Well,
    /// It may still become well; without a check, at this time at the latest.
    Undecided(Option<Monotonic>),
    Not,
}

fn is_well(seen: &Seen, past: Option<&Past>, checked: bool, now: Monotonic) -> Wellness {
    let since = past.and_then(|past| past.running_since).unwrap_or(now);
    match (seen, checked) {
        (Seen::Running(Health::Well), true) => Wellness::Well,
        (Seen::Running(Health::Unwell(_)), _) => Wellness::Not,
        (Seen::Running(_), true) | (Seen::Starting { .. }, _) => Wellness::Undecided(None),
        (Seen::Running(_), false) if now.since(since) >= SETTLED_AFTER => Wellness::Well,
        (Seen::Running(_), false) => Wellness::Undecided(Some(since + SETTLED_AFTER)),
        (Seen::Stopping | Seen::Exited { .. } | Seen::Failed { .. }, _) => Wellness::Not,
    }
}

fn of_assignment<'a>(
    observed: &'a Observed,
    uid: &'a str,
) -> impl Iterator<Item = (&'a Id, &'a Seen)> {
    let first = Id { assignment: uid.to_owned(), revision: 0 };
    observed.range(first..).take_while(move |(id, _)| id.assignment == uid)
}

fn unknown_end() -> Problem {
    Problem::new(Reason::Ended, Reason::Ended.says(&[]))
}

impl Seen {
    fn alive(&self) -> bool {
        match self {
            Seen::Starting { .. } | Seen::Running(_) | Seen::Stopping => true,
            Seen::Exited { .. } | Seen::Failed { .. } => false,
        }
    }
}

impl Plan {
    /// Stops what runs, forgets what has ended.
    fn end(&mut self, id: &Id, seen: &Seen, grace: Duration, why: Why) {
        let (verb, why) = match seen {
            Seen::Starting { .. } | Seen::Running(_) => (Verb::Stop { grace }, why),
            Seen::Stopping => return,
            // A condemned instance is counted when it has ended, and then started again.
            Seen::Exited { .. } | Seen::Failed { .. } => (Verb::Remove, Why::Gone),
        };
        self.actions.push(Action { id: id.clone(), verb, why });
    }

    fn wake(&mut self, at: Monotonic) {
        self.wake_at = Some(self.wake_at.map_or(at, |earlier| earlier.min(at)));
    }
}

impl fmt::Display for Action {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = match self.verb {
            Verb::Start => "start",
            Verb::Stop { .. } => "stop",
            Verb::Remove => "remove",
        };
        write!(out, "{verb} {}@{:x}: {}", self.id.assignment, self.id.revision, self.why)
    }
}

impl fmt::Display for Why {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::Missing => write!(out, "it is assigned and not there"),
            Why::Outdated => write!(out, "what is to run has changed"),
            Why::Ended(problem) => write!(out, "{}", problem.message),
            Why::RolledBack(problem) => {
                write!(
                    out,
                    "the new revision failed, the last good one returns: {}",
                    problem.message
                )
            }
            Why::Unassigned => write!(out, "it is no longer assigned"),
            Why::StopAsked => write!(out, "it is to be stopped"),
            Why::Unwell(message) => write!(out, "its check fails: {message}"),
            Why::Replaced => write!(out, "the new revision is well"),
            Why::CutOff(silent) => {
                write!(out, "the controller has been out of reach for {} s", silent.as_secs())
            }
            Why::Gone => write!(out, "it has ended and is not needed"),
        }
    }
}

#[cfg(test)]
mod tests;
