//! How far an Assignment is, as one of a few phases, and what that means for the four conditions
//! that people and programs wait for.

use std::time::Duration;

use tombolo_model::ConditionStatus;

use super::{FAILURES_MAX, Problem};

/// The reason of all conditions when an update has failed and the revision before it serves.
pub const ROLLED_BACK: &str = "RolledBack";

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Components that should come first are not up.
    Waiting {
        missing: Vec<String>,
    },
    Starting {
        doing: String,
    },
    /// It runs and has not answered its check yet.
    Checking,
    Running,
    /// It runs, and its last checks failed.
    Failing(String),
    /// Its checks failed too often: it is being restarted.
    Unwell(Problem),
    Restarting,
    /// The old revision serves, whatever becomes of the new one.
    Updating {
        new: Box<Phase>,
    },
    /// It cannot be started while something of the machine is in the way, and is tried all the time.
    Hindered(Problem),
    BackingOff {
        problem: Problem,
        failures: u32,
        wait: Duration,
    },
    /// It cannot be tried before something changes.
    Blocked(Problem),
    /// The wanted revision failed; the one before it is back.
    RolledBack {
        problem: Problem,
        now: Box<Phase>,
    },
    Stopped,
    /// Taken down because the controller is out of reach, as the App asked for.
    CutOff,
}

/// What one condition says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fact {
    pub status: ConditionStatus,
    pub reason: String,
    pub message: String,
}

/// The conditions of an Assignment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    pub applied: Fact,
    pub progressing: Fact,
    pub available: Fact,
    pub degraded: Fact,
}

impl Phase {
    /// An instance is up and serves.
    pub fn available(&self) -> bool {
        match self {
            Phase::Running | Phase::Updating { .. } | Phase::Failing(_) => true,
            Phase::RolledBack { now, .. } => now.available(),
            Phase::Waiting { .. }
            | Phase::Starting { .. }
            | Phase::Checking
            | Phase::Unwell(_)
            | Phase::Restarting
            | Phase::BackingOff { .. }
            | Phase::Hindered(_)
            | Phase::Blocked(_)
            | Phase::Stopped
            | Phase::CutOff => false,
        }
    }

    pub fn facts(&self) -> Facts {
        let (reason, message) = self.words();
        let fact = |is: bool| Fact {
            status: if is { ConditionStatus::True } else { ConditionStatus::False },
            reason: reason.clone(),
            message: message.clone(),
        };
        Facts {
            applied: fact(self.applied()),
            progressing: fact(self.progressing()),
            available: fact(self.available()),
            degraded: fact(self.degraded()),
        }
    }

    /// The engine has taken over what is wanted now.
    fn applied(&self) -> bool {
        match self {
            Phase::Waiting { .. }
            | Phase::Blocked(_)
            | Phase::RolledBack { .. }
            | Phase::Updating { .. }
            | Phase::Hindered(_)
            | Phase::CutOff => false,
            Phase::Starting { .. }
            | Phase::Checking
            | Phase::Running
            | Phase::Failing(_)
            | Phase::Unwell(_)
            | Phase::Restarting
            | Phase::BackingOff { .. }
            | Phase::Stopped => true,
        }
    }

    fn progressing(&self) -> bool {
        match self {
            Phase::Waiting { .. }
            | Phase::Starting { .. }
            | Phase::Checking
            | Phase::Restarting
            | Phase::Unwell(_)
            | Phase::Hindered(_)
            | Phase::BackingOff { .. } => true,
            Phase::RolledBack { now, .. } => now.progressing(),
            Phase::Updating { new } => matches!(**new, Phase::Running) || new.progressing(),
            Phase::Running
            | Phase::Failing(_)
            | Phase::Blocked(_)
            | Phase::Stopped
            | Phase::CutOff => false,
        }
    }

    fn degraded(&self) -> bool {
        match self {
            Phase::Failing(_)
            | Phase::Unwell(_)
            | Phase::Blocked(_)
            | Phase::RolledBack { .. }
            | Phase::BackingOff { .. }
            | Phase::Hindered(_)
            | Phase::CutOff => true,
            Phase::Updating { new } => new.degraded(),
            Phase::Waiting { .. }
            | Phase::Starting { .. }
            | Phase::Checking
            | Phase::Running
            | Phase::Restarting
            | Phase::Stopped => false,
        }
    }

    /// A word for programs and a sentence for people.
    fn words(&self) -> (String, String) {
        let words = |reason: &str, message: &str| (reason.to_owned(), message.to_owned());
        match self {
            Phase::Waiting { missing } => {
                let missing = missing.join(", ");
                ("Waiting".to_owned(), format!("waits for {missing} to come up first"))
            }
            Phase::Starting { doing } => words("Starting", doing),
            Phase::Checking => words("Checking", "it runs and has not answered its check yet"),
            Phase::Running => words("Running", "it is up"),
            Phase::Failing(message) => ("CheckFails".to_owned(), message.clone()),
            Phase::Unwell(problem) => {
                (problem.reason.clone(), format!("restarted: {}", problem.message))
            }
            Phase::Restarting => words("Restarting", "it is being started again"),
            Phase::Updating { new } if new.degraded() => {
                let (reason, message) = new.words();
                (reason, format!("the update fails, the old one serves: {message}"))
            }
            Phase::Updating { new } => {
                let (_, message) = new.words();
                let message = format!("the old one serves until the new one is well: {message}");
                ("Updating".to_owned(), message)
            }
            Phase::Hindered(problem) => {
                let message = format!("{}; it is tried again every second", problem.message);
                (problem.reason.clone(), message)
            }
            Phase::BackingOff { problem, failures, wait } => {
                let seconds = wait.as_secs().max(1);
                let often = match failures {
                    1 => "once".to_owned(),
                    more => format!("{more} times in a row"),
                };
                let message = format!(
                    "{}; it failed {often} and waits {seconds} s before the next start",
                    problem.message
                );
                let crashes = *failures >= FAILURES_MAX;
                let reason = if crashes { "CrashLoop" } else { problem.reason.as_str() };
                (reason.to_owned(), message)
            }
            Phase::Blocked(problem) => (problem.reason.clone(), problem.message.clone()),
            Phase::RolledBack { problem, .. } => {
                let message = format!("went back to the last good revision: {}", problem.message);
                (ROLLED_BACK.to_owned(), message)
            }
            Phase::Stopped => words("Stopped", "it was asked to stop"),
            Phase::CutOff => words("CutOff", "taken down: the controller is out of reach"),
        }
    }
}
