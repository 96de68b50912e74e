//! What the status of an App says: how far it is, in words, numbers and conditions; and what of it
//! is news.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use tombolo_model::app::{Endpoint, Placement, Unplaced};
use tombolo_model::component::{Expose, Protocol};
use tombolo_model::condition::{self, AVAILABLE, DEGRADED, Finding, PLACED, READY};
use tombolo_model::phrase::first_few;
use tombolo_model::{AppPhase, AppStatus, ConditionStatus, Reason};
use tombolo_placement::ask;

use super::News;
use super::cause;
use super::current::View;
use super::verdict::Verdict;
use crate::reach;

/// A person reads this much.
const MESSAGE_CHARS_MAX: usize = 1024;
/// Instances named in one sentence; more are counted.
const NAMED_MAX: usize = 4;
/// Addresses of one App.
const ENDPOINTS_MAX: usize = 256;

/// `outdated` are the instances that are not yet what the App says, by their number among the
/// placements.
pub(super) fn status(
    view: &View<'_>,
    verdict: &Verdict,
    outdated: &BTreeSet<usize>,
    time_of_day: &Time,
) -> AppStatus {
    let app = view.app;
    let generation = app.metadata.generation;
    let before = app.status.clone().unwrap_or_default();
    let wanted: usize = app.spec.components.iter().map(ask::instances).sum();
    let wanted = if app.spec.stopped { 0 } else { wanted };
    let up = verdict.placements.iter().filter(|at| view.serves(at)).count();
    let updating = updating(view, verdict, outdated);
    let failed = rolled_back(view, verdict);
    let is_current = updating.is_empty() && failed.is_none();
    let cause = cause::first(view, &verdict.placements);
    let missed = up < wanted || !updating.is_empty();
    let cause = cause.filter(|_| !app.spec.stopped && !verdict.lacks() && missed);
    let (phase, message) = match (phase(view, verdict, (up, wanted), before.phase), &failed) {
        (AppPhase::Deploying | AppPhase::Degraded, _) if let Some((at, cause)) = cause => {
            (AppPhase::Degraded, clipped(&format!("{}: {}", place(at), cause.message)))
        }
        (AppPhase::Running, Some(failed)) => (AppPhase::Degraded, clipped(failed)),
        (AppPhase::Running, None) if let Some((at, cause)) = cause => {
            (AppPhase::Degraded, clipped(&format!("{}: {}", place(at), cause.message)))
        }
        (AppPhase::Running, None) if !updating.is_empty() => {
            (AppPhase::Deploying, clipped(&format!("updating {}", some_of(&updating))))
        }
        (phase, _) => (phase, message(view, verdict, phase)),
    };
    let mut conditions = before.conditions;
    // As long as some wait for their turn to move, what was changed last is not all answered.
    let answered = condition::find(&conditions, PLACED).filter(|_| verdict.waits);
    let answered = answered.map_or(generation, |placed| placed.observed_generation);
    let mut set = |kind: &str, holds: bool, reason: Reason| {
        let status = if holds { ConditionStatus::True } else { ConditionStatus::False };
        let message = message.as_str();
        let observed_generation = if kind == PLACED { answered } else { generation };
        let finding = Finding { kind, status, reason, message, observed_generation };
        condition::set(&mut conditions, finding, time_of_day);
    };
    let is_placed = !verdict.lacks() && verdict.placements.len() == wanted && !app.spec.stopped;
    let placed_reason = match (is_placed, app.spec.stopped) {
        (true, _) => Reason::Placed,
        (false, true) => Reason::Stopped,
        (false, false) if verdict.gave_up() => Reason::PlaceNotFound,
        (false, false) => Reason::Unplaceable,
    };
    set(PLACED, is_placed, placed_reason);
    let serves = is_placed && up == wanted;
    let phase_reason = reason(phase);
    set(AVAILABLE, serves, phase_reason);
    let ready_reason = if failed.is_some() { Reason::RolledBack } else { phase_reason };
    set(READY, serves && is_current, ready_reason);
    let degraded_reason = cause.map_or(ready_reason, |(_, cause)| cause.reason);
    set(DEGRADED, phase == AppPhase::Degraded, degraded_reason);
    AppStatus {
        observed_generation: generation,
        phase: Some(phase),
        message: Some(message),
        ready: Some(format!("{up}/{wanted}")),
        placements: verdict.placements.clone(),
        unplaced: verdict.unplaced.clone(),
        endpoints: endpoints(view, &verdict.placements),
        conditions,
        remembered: None,
    }
}

/// The reason of an App's conditions that says no more than its phase.
fn reason(phase: AppPhase) -> Reason {
    match phase {
        // A status is only written after a look, so that no condition says Pending.
        AppPhase::Pending | AppPhase::Deploying => Reason::Deploying,
        AppPhase::Placing => Reason::Placing,
        AppPhase::Running => Reason::Running,
        AppPhase::Degraded => Reason::Degraded,
        AppPhase::Unplaceable => Reason::Unplaceable,
        AppPhase::Stopped => Reason::Stopped,
    }
}

fn phase(
    view: &View<'_>,
    verdict: &Verdict,
    (up, wanted): (usize, usize),
    before: Option<AppPhase>,
) -> AppPhase {
    let lacks = verdict.lacks();
    match () {
        () if view.app.spec.stopped => AppPhase::Stopped,
        // Only a proof makes it unplaceable: where the search gave up, it goes on.
        () if verdict.gave_up() && !verdict.had_a_place() => AppPhase::Placing,
        () if lacks && !verdict.had_a_place() => AppPhase::Unplaceable,
        () if lacks => AppPhase::Degraded,
        () if up == wanted => AppPhase::Running,
        () if matches!(before, Some(AppPhase::Running | AppPhase::Degraded)) => AppPhase::Degraded,
        () => AppPhase::Deploying,
    }
}

fn message(view: &View<'_>, verdict: &Verdict, phase: AppPhase) -> String {
    let stays = if verdict.placements.is_empty() { "" } else { "what runs stays as it is; " };
    let text = match phase {
        AppPhase::Stopped if view.own.is_empty() => Reason::Stopped.says(&[]),
        AppPhase::Stopped => "stopped on request; its instances are going down".to_owned(),
        AppPhase::Running => "all instances are up".to_owned(),
        AppPhase::Pending
        | AppPhase::Placing
        | AppPhase::Deploying
        | AppPhase::Degraded
        | AppPhase::Unplaceable => {
            if !verdict.refused.is_empty() {
                format!("{stays}{}", verdict.refused.join("; "))
            } else if !verdict.unplaced.is_empty() {
                format!("{stays}{}", conflict(&verdict.unplaced))
            } else {
                waiting(view, &verdict.placements)
            }
        }
    };
    clipped(&text)
}

fn clipped(text: &str) -> String {
    text.chars().take(MESSAGE_CHARS_MAX).collect()
}

/// Instances that are on their way to what the App says now. One that was given it counts until its
/// agent has carried it out; a change of its surroundings alone is none, so that what was ready
/// before stays so.
fn updating(view: &View<'_>, verdict: &Verdict, outdated: &BTreeSet<usize>) -> Vec<String> {
    let before = view.app.status.iter().flat_map(|status| &status.conditions);
    let was_ready = before
        .into_iter()
        .any(|known| known.kind == READY && known.status == ConditionStatus::True);
    let done = |at: &Placement| view.assignment(at).is_some_and(|own| view.is_done(own));
    let placements = verdict.placements.iter().enumerate();
    let on_their_way =
        placements.filter(|(number, at)| outdated.contains(number) || !was_ready && !done(at));
    on_their_way.map(|(_, at)| place(at)).collect()
}

/// What became of an update that failed: what the first says, and who else.
fn rolled_back(view: &View<'_>, verdict: &Verdict) -> Option<String> {
    let failed = verdict.placements.iter().filter_map(|at| Some((at, view.rolled_back(at)?)));
    let failed: Vec<(&Placement, &str)> = failed.collect();
    let (first, why) = failed.first()?;
    let mut text = format!("{} {why}", place(first));
    let others: Vec<String> = failed[1..].iter().map(|(at, _)| place(at)).collect();
    if !others.is_empty() {
        text.push_str(&format!("; {} did so too", some_of(&others)));
    }
    Some(text)
}

/// The first trouble in full, the others by name.
fn conflict(unplaced: &[Unplaced]) -> String {
    let Some(first) = unplaced.first() else { return String::new() };
    let (has, also) = match (first.gave_up_after, unplaced.len()) {
        (None, ..=2) => ("has no place", "has no place either"),
        (None, _) => ("has no place", "have no place either"),
        (Some(_), ..=2) => ("waits for a place", "waits for one too"),
        (Some(_), _) => ("waits for a place", "wait for one too"),
    };
    let mut text = format!("{}/{} {has}: ", first.component, first.replica);
    text.push_str(&first.reasons.join("; "));
    if let Some(suggestion) = &first.suggestion {
        text.push_str(&format!("; {suggestion}"));
    }
    let others: Vec<String> =
        unplaced[1..].iter().map(|one| format!("{}/{}", one.component, one.replica)).collect();
    if !others.is_empty() {
        text.push_str(&format!("; {} {also}", some_of(&others)));
    }
    text
}

fn waiting(view: &View<'_>, placements: &[Placement]) -> String {
    let waits = placements.iter().filter(|at| !view.serves(at));
    let (mut first, mut names) = (None, Vec::new());
    for at in waits {
        first = first.or_else(|| view.unheard(at));
        names.push(place(at));
    }
    let text = format!("waiting for {}", some_of(&names));
    let Some(ready) = first else { return text };
    let help = Reason::of(&ready.reason).map(|reason| reason.advises(&[]));
    let help = help.filter(|help| !help.is_empty());
    let help = help.map(|help| format!(". {help}")).unwrap_or_default();
    format!("{text}; the node is not ready: {}{help}", ready.message)
}

fn place(at: &Placement) -> String {
    let node = at.node.as_deref().unwrap_or(&at.site);
    format!("{}/{} on {node}", at.component, at.replica)
}

fn some_of(names: &[String]) -> String {
    first_few(names, NAMED_MAX)
}

/// Every address of every exposed port under which other machines reach it.
fn endpoints(view: &View<'_>, placements: &[Placement]) -> Vec<Endpoint> {
    let mut endpoints = Vec::new();
    for at in placements.iter().filter(|at| at.ready) {
        let Some(assignment) = view.assignment(at) else { continue };
        let Some(component) = view.component(&at.component) else { continue };
        let Some(status) = &assignment.status else { continue };
        for expose in &component.expose {
            for (host, port) in reach::from_elsewhere(status, expose.port, expose.protocol) {
                endpoints.push(Endpoint {
                    component: at.component.clone(),
                    port: expose.port,
                    protocol: expose.protocol,
                    url: url(expose, &host, port),
                    public: expose.public,
                });
            }
        }
    }
    endpoints.truncate(ENDPOINTS_MAX);
    endpoints
}

fn url(expose: &Expose, host: &str, port: u16) -> String {
    let scheme = match expose.protocol {
        Protocol::Tcp => "tcp",
        Protocol::Udp => "udp",
        Protocol::Http => "http",
        Protocol::Https => "https",
    };
    format!("{scheme}://{host}:{port}")
}

/// What people should hear of: what is new in the placements, and what no longer has any.
pub(super) fn news(view: &View<'_>, verdict: &Verdict, status: &AppStatus) -> Vec<News> {
    let before = view.app.status.as_ref();
    let was = |at: &Placement| {
        let placements = before.iter().flat_map(|status| &status.placements);
        placements
            .into_iter()
            .find(|known| known.component == at.component && known.replica == at.replica)
    };
    let mut news = Vec::new();
    if view.app.spec.stopped {
        let count = before.map_or(0, |status| status.placements.len());
        if count > 0 {
            let message = format!("stopped on request, {count} instances go down");
            news.push(News { bad: false, reason: Reason::Stopped, message });
        }
        return news;
    }
    let fresh = verdict.placements.iter().filter(|at| was(at).is_none() && !at.ready);
    let fresh: Vec<String> = fresh.map(place).collect();
    if !fresh.is_empty() {
        news.push(News { bad: false, reason: Reason::Placed, message: some_of(&fresh) });
    }
    for at in &verdict.placements {
        let Some(from) = was(at).filter(|known| known.node != at.node) else { continue };
        if from.instead_of.is_some() && from.instead_of == at.node {
            let before = from.node.as_deref().unwrap_or(&from.site);
            let why = "its node has returned, and the rule says that the original stays";
            let message = format!("{} (before on {before}): {why}", place(at));
            news.push(News { bad: false, reason: Reason::Returned, message });
            continue;
        }
        let from = from.node.as_deref().unwrap_or(&from.site);
        let why = at.decision.as_ref().and_then(|decision| decision.reason.as_deref());
        let why = why.unwrap_or("its node is gone or has been silent for too long");
        let message = format!("{} (before on {from}): {why}", place(at));
        news.push(News { bad: false, reason: Reason::Moved, message });
    }
    let told = |one: &Unplaced| {
        let known = before.iter().flat_map(|status| &status.unplaced);
        known.into_iter().any(|k| {
            k.component == one.component
                && k.replica == one.replica
                && k.gave_up_after.is_some() == one.gave_up_after.is_some()
        })
    };
    let is_new = !verdict.unplaced.iter().all(told);
    let refused = verdict.refused.join("; ");
    let was_told = before.is_some_and(|before| before.message == status.message);
    if is_new {
        let message = conflict(&verdict.unplaced);
        let reason = if verdict.gave_up() { Reason::PlaceNotFound } else { Reason::Unplaceable };
        news.push(News { bad: true, reason, message });
    } else if !refused.is_empty() && !was_told {
        news.push(News { bad: true, reason: Reason::Unplaceable, message: refused });
    }
    let conditions = before.map(|status| status.conditions.as_slice()).unwrap_or_default();
    let was_told = condition::reason(conditions, READY) == Some(Reason::RolledBack);
    if let Some(message) = rolled_back(view, verdict).filter(|_| !was_told) {
        news.push(News { bad: true, reason: Reason::RolledBack, message });
    }
    // Told once for each time that it goes wrong: a retry is no news. That it is down may be known before the
    // cause is, which is news then.
    let was_told = condition::is_true(conditions, DEGRADED)
        && condition::reason(conditions, DEGRADED) != Some(Reason::Degraded);
    let cause = cause::first(view, &verdict.placements).filter(|_| !verdict.lacks());
    if let Some((at, cause)) = cause.filter(|_| !was_told) {
        let message = clipped(&format!("{}: {}", place(at), cause.message));
        news.push(News { bad: true, reason: cause.reason, message });
    }
    news
}
