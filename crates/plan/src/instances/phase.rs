//! How far an Assignment is, as one of a few phases, and what that means for the four conditions
//! that people and programs wait for.

use std::time::Duration;

use tombolo_model::{ConditionStatus, Reason};

use super::{FAILURES_MAX, Problem};

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
    pub reason: Reason,
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
        let fact = |is: bool, message: &str| Fact {
            status: if is { ConditionStatus::True } else { ConditionStatus::False },
            reason,
            message: message.to_owned(),
        };
        let advised = match self.help() {
            "" => message.clone(),
            help => format!("{message}. {help}"),
        };
        Facts {
            applied: fact(self.applied(), &message),
            progressing: fact(self.progressing(), &message),
            available: fact(self.available(), &message),
            degraded: fact(self.degraded(), &advised),
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

    /// What can be done about what is wrong; empty if nothing is, or nothing can be done.
    fn help(&self) -> &str {
        match self {
            Phase::Unwell(problem)
            | Phase::Hindered(problem)
            | Phase::BackingOff { problem, .. }
            | Phase::Blocked(problem)
            | Phase::RolledBack { problem, .. } => &problem.help,
            Phase::Updating { new } => new.help(),
            Phase::Waiting { .. }
            | Phase::Starting { .. }
            | Phase::Checking
            | Phase::Running
            | Phase::Failing(_)
            | Phase::Restarting
            | Phase::Stopped
            | Phase::CutOff => "",
        }
    }

    /// A word for programs and a sentence for people.
    fn words(&self) -> (Reason, String) {
        let plain = |reason: Reason| (reason, reason.says(&[]));
        let with = |reason: Reason, blank, value| (reason, reason.says(&[(blank, value)]));
        match self {
            Phase::Waiting { missing } => with(Reason::Waiting, "missing", missing.join(", ")),
            Phase::Starting { doing } => with(Reason::Starting, "doing", doing.clone()),
            Phase::Checking => plain(Reason::Checking),
            Phase::Running => plain(Reason::Running),
            Phase::Failing(answer) => with(Reason::CheckFails, "answer", answer.clone()),
            Phase::Unwell(problem) => (problem.reason, format!("restarted: {}", problem.message)),
            Phase::Restarting => plain(Reason::Restarting),
            Phase::Updating { new } if new.degraded() => {
                let (reason, message) = new.words();
                (reason, format!("the update fails, the old one serves: {message}"))
            }
            Phase::Updating { new } => with(Reason::Updating, "new", new.words().1),
            Phase::Hindered(problem) => {
                (problem.reason, format!("{}; it is tried again every second", problem.message))
            }
            Phase::BackingOff { problem, failures, wait } => {
                let often = match failures {
                    1 => "once".to_owned(),
                    more => format!("{more} times in a row"),
                };
                let message = Reason::CrashLoop.says(&[
                    ("problem", problem.message.clone()),
                    ("often", often),
                    ("seconds", wait.as_secs().max(1).to_string()),
                ]);
                // What cannot even start does not crash: the engine's own word says more.
                let crashes = *failures >= FAILURES_MAX && problem.reason.is_an_end();
                (if crashes { Reason::CrashLoop } else { problem.reason }, message)
            }
            Phase::Blocked(problem) => (problem.reason, problem.message.clone()),
            Phase::RolledBack { problem, .. } => {
                with(Reason::RolledBack, "problem", problem.message.clone())
            }
            Phase::Stopped => plain(Reason::Stopped),
            Phase::CutOff => plain(Reason::CutOff),
        }
    }
}
