//! What the loop remembers of nodes, as the status of each App keeps it, so that it outlives the
//! process: written by [`record`], read again by [`recall`].
//!
//! No clock of one process means anything to the next, and the time of day may be set. So a status says
//! for how long something had been so when it was written, and the next process goes on counting from
//! there: the time in which nobody looked does not count, and nothing is replaced too early. The
//! lengths are rounded down to a few steps, so that the status of an App is not written again and again
//! because time passes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tombolo_model::app::{Failure, Remembered, Silence};
use tombolo_model::{AppId, AppStatus};

use super::current::View;
use super::rule::patience;
use super::strikes::{FORGOTTEN_AFTER, Failing, Troubles};
use super::{Memory, Observed};
use crate::Monotonic;

/// Shorter silences are not written down. Less would write the status of every App with an instance on
/// a node that only misses a few heartbeats.
const SILENCE_MIN: Duration = Duration::from_secs(60);
/// Failures are written down anew as they get older by this. Less would be forgotten more exactly, and
/// cost more writes: there are four in the hour after which a failure weighs nothing.
const FAILURE_STEP: Duration = Duration::from_secs(900);
/// Silent nodes of one App. Those beyond it are given all their time anew when the server restarts.
const SILENT_MAX: usize = 64;
/// Nodes on which one component has failed: after two it counts as broken itself, wherever it runs.
const FAILURES_PER_COMPONENT_MAX: usize = 2;
/// Failures of one App.
const FAILURES_MAX: usize = 64;

/// What the status of an App shall say; nothing where nothing is to be remembered.
pub(super) fn record(view: &View<'_>, memory: &Memory, now: Monotonic) -> Option<Remembered> {
    let silent = silent(view, memory, now);
    let failures = failures(&AppId::of(view.app), &memory.troubles, now);
    let is_empty = silent.is_empty() && failures.is_empty();
    (!is_empty).then_some(Remembered { silent, failures })
}

/// Of the nodes that have something of the App.
fn silent(view: &View<'_>, memory: &Memory, now: Monotonic) -> Vec<Silence> {
    let assigned = view.own.values().filter_map(|own| own.spec.node.as_deref());
    let placed = view.current.values().filter_map(|at| at.node.as_deref());
    let nodes: BTreeSet<&str> = assigned.chain(placed).collect();
    let turns: BTreeSet<Duration> =
        view.app.spec.components.iter().filter_map(|one| patience(view.app, one)).collect();
    let known = nodes.into_iter().filter_map(|node| {
        let length = silence_step(memory.silence(node, now)?, &turns)?;
        Some(Silence { node: node.to_owned(), seconds: seconds(length) })
    });
    known.take(SILENT_MAX).collect()
}

/// A minute, two, four and so on; and when a rule of the App gives an instance up, so that one that was
/// given up stays given up.
fn silence_step(silence: Duration, turns: &BTreeSet<Duration>) -> Option<Duration> {
    let turn = turns.range(..=silence).next_back().copied();
    let minutes = silence.as_secs() / SILENCE_MIN.as_secs();
    let doubled = minutes.checked_ilog2().map(|log| SILENCE_MIN.saturating_mul(1 << log.min(30)));
    turn.max(doubled).filter(|step| !step.is_zero())
}

/// The last ones of each component.
fn failures(app: &AppId, troubles: &Troubles, now: Monotonic) -> Vec<Failure> {
    let own = troubles.iter().filter(|((of, _), _)| of == app);
    let each = own.flat_map(|((_, component), nodes)| {
        let mut lasting: Vec<(Duration, &String)> = nodes
            .iter()
            .filter(|(_, failing)| failing.lasts())
            .map(|(node, failing)| (failure_step(now.since(failing.last)), node))
            .collect();
        lasting.sort();
        lasting.truncate(FAILURES_PER_COMPONENT_MAX);
        lasting.into_iter().map(|(ago, node)| Failure {
            component: component.clone(),
            node: node.clone(),
            seconds_ago: seconds(ago),
        })
    });
    each.take(FAILURES_MAX).collect()
}

fn failure_step(ago: Duration) -> Duration {
    let steps = ago.min(FORGOTTEN_AFTER).as_secs() / FAILURE_STEP.as_secs();
    Duration::from_secs(steps * FAILURE_STEP.as_secs())
}

fn seconds(length: Duration) -> u32 {
    u32::try_from(length.as_secs()).unwrap_or(u32::MAX)
}

/// What an earlier process has left, as if it had been seen until `now`. Of a node that several Apps
/// speak of, the longest silence is the last that was seen.
pub(super) fn recall(observed: &Observed, now: Monotonic) -> Memory {
    let mut silent: BTreeMap<String, Monotonic> = BTreeMap::new();
    let mut troubles = Troubles::new();
    for app in &observed.apps {
        let remembered =
            app.status.as_ref().and_then(|status: &AppStatus| status.remembered.as_ref());
        let Some(remembered) = remembered else { continue };
        for Silence { node, seconds } in &remembered.silent {
            let since = now.before(Duration::from_secs((*seconds).into()));
            let known = silent.entry(node.clone()).or_insert(since);
            *known = since.min(*known);
        }
        for Failure { component, node, seconds_ago } in &remembered.failures {
            let last = now.before(Duration::from_secs((*seconds_ago).into()));
            let part = (AppId::of(app), component.clone());
            troubles.entry(part).or_default().insert(node.clone(), Failing::lasting_until(last));
        }
    }
    Memory { silent, troubles, ..Memory::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silence_is_written_down_a_few_times_and_when_a_rule_is_due() {
        let turns = BTreeSet::from([Duration::from_secs(300)]);
        let step = |silence| silence_step(Duration::from_secs(silence), &turns).map(seconds);
        let steps = [0, 59, 60, 119, 120, 240, 299, 300, 479, 480, 86_400].map(step);
        let some = |all: [u32; 9]| all.map(Some);
        assert_eq!(steps[..2], [None, None]);
        assert_eq!(steps[2..], some([60, 60, 120, 240, 240, 300, 300, 480, 61_440]));
    }

    #[test]
    fn a_rule_without_patience_needs_no_memory() {
        let turns = BTreeSet::from([Duration::ZERO]);
        assert_eq!(silence_step(Duration::from_secs(5), &turns), None);
    }

    #[test]
    fn a_failure_gets_older_in_quarters_of_an_hour_until_it_weighs_nothing() {
        let steps = [0, 899, 900, 3599, 3600, 10_000];
        let steps = steps.map(|ago| seconds(failure_step(Duration::from_secs(ago))));
        assert_eq!(steps, [0, 0, 900, 2700, 3600, 3600]);
    }
}
