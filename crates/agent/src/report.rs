//! What the agent says of an Assignment: its status, and the Events that people want to read.
//! Plain; called by [`crate::converge`], start at [`status`].

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use tombolo_driver::{Exit, Instance, PublishedPort as Published, State};
use tombolo_model::assignment::{Exit as ExitTold, PublishedPort};
use tombolo_model::component::Reach;
use tombolo_model::condition::{self, Condition, Finding, find, is_true};
pub use tombolo_model::event::Tone;
use tombolo_model::{Assignment, AssignmentStatus, Reason};
use tombolo_plan::instances::{Fact, Phase};

use crate::observe;

/// The status holds no more (`maxItems` of its schema).
const LOG_LINES_MAX: usize = 20;
const LOG_LINE_CHARS_MAX: usize = 1000;

/// What was seen of one Assignment.
#[derive(Clone, Copy, Debug)]
pub struct Sight<'a> {
    pub phase: &'a Phase,
    /// The instance that serves, or should.
    pub instance: Option<&'a Instance>,
    /// Where this machine is reached; nothing if the engine has many.
    pub address: Option<&'a str>,
}

/// An Event to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    pub tone: Tone,
    pub reason: Reason,
    pub message: String,
}

/// The status as it should be now. Times move only when something flips, so that looking again at
/// what has not changed gives the same status.
pub fn status(assignment: &Assignment, sight: &Sight<'_>, now: &Time) -> AssignmentStatus {
    let generation = assignment.metadata.generation;
    let mut status = assignment.status.clone().unwrap_or_default();
    status.observed_generation = generation;
    let facts = sight.phase.facts();
    let mut set = |kind: &str, fact: &Fact, more: &str| {
        let message = format!("{}{more}", fact.message);
        let finding = Finding {
            kind,
            status: fact.status,
            reason: fact.reason,
            message: &message,
            observed_generation: generation,
        };
        condition::set(&mut status.conditions, finding, now);
    };
    let notes = sight.instance.map(|instance| instance.notes.join("; ")).unwrap_or_default();
    let notes = if notes.is_empty() { notes } else { format!("; {notes}") };
    set(condition::APPLIED, &facts.applied, &notes);
    set(condition::PROGRESSING, &facts.progressing, "");
    set(condition::AVAILABLE, &facts.available, "");
    set(condition::DEGRADED, &facts.degraded, "");
    describe(&mut status, sight);
    status
}

/// What the engine says of the instance.
fn describe(status: &mut AssignmentStatus, sight: &Sight<'_>) {
    let running = sight.instance.and_then(|instance| match &instance.state {
        State::Running(running) | State::Stopping(running) => Some(running),
        State::Starting { .. } | State::Exited(_) | State::Failed(_) => None,
    });
    status.instance = running.map(|running| running.name.clone());
    status.started_at =
        running.and_then(|running| jiff::Timestamp::try_from(running.since).ok()).map(seconds);
    let ports = running.map(|running| running.ports.as_slice()).unwrap_or_default();
    status.ports = ports.iter().map(|one| port(one, sight.address)).collect();
    // Where a port of the machine leads in, the machine is what others reach; a container's own
    // address is good on this machine only.
    let open = status.ports.iter().any(|port| port.reach > Some(Reach::Loopback));
    status.addresses = match (running, sight.address) {
        (Some(running), Some(address)) if running.addresses.is_empty() || open => {
            vec![address.to_owned()]
        }
        (Some(running), _) => running.addresses.clone(),
        (None, _) => Vec::new(),
    };
    if let Some(instance) = sight.instance {
        status.restarts = instance.restarts;
        let ended = match &instance.state {
            State::Exited(exit) => Some(exit),
            State::Starting { .. } | State::Running(_) | State::Stopping(_) | State::Failed(_) => {
                instance.last_exit.as_ref()
            }
        };
        if let Some(exit) = ended {
            status.last_exit = Some(told(exit));
        }
    }
}

/// A port as the server is told. A machine that others reach at its loopback address shares it with
/// them: what is open there is open to them.
pub(crate) fn port(port: &Published, address: Option<&str>) -> PublishedPort {
    let on = port.on.map(|on| on.to_string());
    let reach = port.published.map(|_| match on.is_some() && on.as_deref() == address {
        true => Reach::Node,
        false => port.reach(),
    });
    PublishedPort { port: port.port, protocol: port.protocol, published: port.published, reach, on }
}

fn told(exit: &Exit) -> ExitTold {
    let skipped = exit.log.len().saturating_sub(LOG_LINES_MAX);
    let line = |line: &String| line.chars().take(LOG_LINE_CHARS_MAX).collect();
    let how = match &exit.message {
        Some(message) => message.clone(),
        None => observe::sentence(&Exit { log: Vec::new(), ..exit.clone() }),
    };
    ExitTold {
        code: exit.code,
        signal: exit.signal,
        reason: Some(format!("{}: {how}", exit.reason)),
        at: jiff::Timestamp::try_from(exit.at).ok().map(seconds),
        log: exit.log.iter().skip(skipped).map(line).collect(),
    }
}

/// A status has times to the second: it must be the same after it was written and read.
fn seconds(at: jiff::Timestamp) -> Time {
    Time(jiff::Timestamp::from_second(at.as_second()).unwrap_or(at))
}

/// What has happened between two statuses, as people would tell it.
pub fn news(before: &AssignmentStatus, after: &AssignmentStatus) -> Vec<Told> {
    let mut news = Vec::new();
    if after.restarts > before.restarts {
        let why = after.last_exit.as_ref().and_then(|exit| exit.reason.clone());
        let why = why.unwrap_or_else(|| "it had ended".to_owned());
        news.push(Told {
            tone: Tone::Warning,
            reason: Reason::Restarted,
            message: Reason::Restarted
                .says(&[("number", after.restarts.to_string()), ("why", why)]),
        });
    }
    let reason =
        |status: &AssignmentStatus| condition::reason(&status.conditions, condition::AVAILABLE);
    let (was, Some(is)) = (reason(before), reason(after)) else { return news };
    if was == Some(is) {
        return news;
    }
    // What was up when the link was cut has not been started since.
    let up = |status: &AssignmentStatus| {
        is_true(&status.conditions, condition::AVAILABLE)
            || reason(status) == Some(Reason::NodeSilent)
    };
    let degraded = is_true(&after.conditions, condition::DEGRADED);
    match (is, degraded) {
        (Reason::Running, _) if !up(before) || before.instance != after.instance => {
            let message = match &after.instance {
                Some(instance) => Reason::Started.says(&[("instance", instance.clone())]),
                None => Reason::Running.says(&[]),
            };
            news.push(Told { tone: Tone::Normal, reason: Reason::Started, message });
        }
        (Reason::Updating | Reason::Stopped, _) => {
            let message = message(after, condition::AVAILABLE);
            news.push(Told { tone: Tone::Normal, reason: is, message });
        }
        (_, true) => {
            let message = message(after, condition::DEGRADED);
            news.push(Told { tone: Tone::Warning, reason: is, message });
        }
        (_, false) => (),
    }
    news
}

fn message(status: &AssignmentStatus, kind: &str) -> String {
    find(&status.conditions, kind)
        .map(|found: &Condition| found.message.clone())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests;
