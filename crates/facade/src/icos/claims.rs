//! Who may take a job, and who has it: the rules of the job manager over the claim that an Assignment
//! carries in its status, the same that agents of ours write. Called by [`super::jobmanager`]; start
//! at [`Claims::executable`].
//!
//! Of its own this has a memory of when a claim was last seen to change, because the clocks of those
//! who write claims are not believed. It is lost with the process, and then every claim gets its full
//! time again.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use tombolo_model::condition::{DEGRADED, Finding, PROGRESSING, find, set};
use tombolo_model::{Assignment, AssignmentStatus, ConditionStatus, Node, Reason};
use tombolo_plan::claim::{Claim, LASTS, Memory, RENEW_AFTER};

use super::job::{State, Type};
use crate::clock::{Clock, time_of_day};

pub(crate) struct Claims {
    memory: Mutex<Memory>,
    clock: Clock,
    /// The time of day when the clock stood at zero.
    started_at: Timestamp,
}

/// Who asks for jobs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asker<'a> {
    /// As it calls itself.
    pub(crate) owner: &'a str,
    /// The node, if it is an agent of ours that asks.
    pub(crate) node: Option<&'a str>,
}

/// Why a job cannot be taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// By the agent of its node, which needs nobody to tell it.
    ByNode {
        node: String,
    },
    By {
        owner: String,
    },
    /// There is nothing to do about it.
    Done,
    /// A change of something that nobody has deployed.
    NotYours,
}

impl Claims {
    pub(crate) fn new(clock: Clock) -> Claims {
        let started_at = time_of_day() - clock().since_start();
        Claims { memory: Mutex::default(), clock, started_at }
    }

    /// For people to read, and different whenever the clock is: a renewal is known by it.
    pub(crate) fn time(&self) -> Timestamp {
        self.started_at + (self.clock)().since_start()
    }

    /// Whether the asker may take the job: what is new and nobody's; what was begun and its owner
    /// has not been heard of for [`LASTS`]; and what is to change about its own.
    pub(crate) fn executable(
        &self,
        assignment: &Assignment,
        asker: Asker<'_>,
        served: &Served,
    ) -> Result<(), Taken> {
        let claim = self.claim(assignment);
        judge(assignment, &claim, asker, served)
    }

    pub(crate) fn claim(&self, assignment: &Assignment) -> Claim {
        let now = (self.clock)();
        self.memory().look(assignment, now)
    }

    /// Whether what the owner has told is worth a write: it says something new, or its claim wants to
    /// be renewed.
    pub(crate) fn is_news(&self, assignment: &Assignment, told: &AssignmentStatus) -> bool {
        let known = assignment.status.as_ref();
        let until = known.and_then(|status| status.held_until.clone());
        let same = AssignmentStatus { held_until: until, ..told.clone() };
        let now = (self.clock)();
        match self.memory().look(assignment, now) {
            Claim::Standing { since, .. } if now.since(since) < RENEW_AFTER => known != Some(&same),
            Claim::Free | Claim::Standing { .. } | Claim::Lapsed { .. } => true,
        }
    }

    /// Forgets what is not there any more.
    pub(crate) fn retain(&self, is_there: impl Fn(&str) -> bool) {
        self.memory().retain(is_there);
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Which nodes have an agent of ours. What names one of those is run by it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Served {
    nodes: BTreeMap<String, bool>,
}

impl Served {
    pub(crate) fn new(nodes: &[Node]) -> Served {
        let row = |node: &Node| {
            let described = node.status.as_ref().and_then(|status| status.agent_version.as_ref());
            (node.metadata.name.clone().unwrap_or_default(), described.is_some())
        };
        Served { nodes: nodes.iter().map(row).collect() }
    }

    fn has_agent(&self, node: &str) -> bool {
        self.nodes.get(node).copied().unwrap_or(false)
    }
}

fn judge(
    assignment: &Assignment,
    claim: &Claim,
    asker: Asker<'_>,
    served: &Served,
) -> Result<(), Taken> {
    if let Some(node) = &assignment.spec.node {
        let is_own = asker.node.is_some_and(|own| own == node);
        if !is_own && (asker.node.is_some() || served.has_agent(node)) {
            return Err(Taken::ByNode { node: node.clone() });
        }
    }
    let is_own = matches!(claim, Claim::Standing { by, .. } if by == asker.owner);
    match (Type::of(assignment), State::of(assignment), claim) {
        (_, State::Finished, _) => Err(Taken::Done),
        (_, _, Claim::Lapsed { .. }) => Ok(()),
        (Type::Create, State::Created, Claim::Free) => Ok(()),
        // A promotion whose answer was lost is asked for again.
        (_, _, Claim::Standing { .. }) if is_own => Ok(()),
        (_, _, Claim::Standing { by, .. }) => Err(Taken::By { owner: by.clone() }),
        (_, _, Claim::Free) => Err(Taken::NotYours),
    }
}

/// Whether it is listed for the asker: what it has promoted already is not.
pub(crate) fn is_listed(assignment: &Assignment, claim: &Claim, owner: &str) -> bool {
    let is_own = matches!(claim, Claim::Standing { by, .. } if by == owner);
    !(is_own && State::of(assignment) != State::Created)
}

/// The status with the claim of `owner` in it, for as long as claims last.
pub(crate) fn claimed(assignment: &Assignment, owner: &str, now: Timestamp) -> AssignmentStatus {
    let mut status = assignment.status.clone().unwrap_or_default();
    status.agent = Some(owner.to_owned());
    status.held_until = Some(held_until(now));
    let kind = Type::of(assignment);
    let generation = assignment.metadata.generation;
    let message = format!("{owner} has taken the job");
    let progressing = Finding {
        kind: PROGRESSING,
        status: ConditionStatus::True,
        reason: kind.under_way(),
        message: &message,
        observed_generation: generation,
    };
    let at = Time(now);
    set(&mut status.conditions, progressing, &at);
    if find(&status.conditions, DEGRADED).is_some() {
        let again = Finding {
            kind: DEGRADED,
            status: ConditionStatus::False,
            reason: Reason::TriedAgain,
            ..progressing
        };
        set(&mut status.conditions, again, &at);
    }
    status
}

pub(crate) fn held_until(now: Timestamp) -> Time {
    Time(now + LASTS)
}

impl fmt::Display for Taken {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Taken::ByNode { node } => {
                write!(formatter, "node {node:?} has an agent, which runs it by itself")
            }
            Taken::By { owner } => {
                let seconds = LASTS.as_secs();
                write!(
                    formatter,
                    "{owner:?} has it; another can take it when {owner:?} has said nothing for \
                     {seconds} s"
                )
            }
            Taken::Done => write!(formatter, "it is done"),
            Taken::NotYours => {
                write!(formatter, "it changes something that nobody has said to have deployed")
            }
        }
    }
}

impl fmt::Debug for Claims {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Claims").finish_non_exhaustive()
    }
}
