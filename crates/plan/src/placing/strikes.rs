//! Components that fail on a node through no fault of their own, as far as that can be told: the
//! engine is away, the disk is full, the program is not there, it crashes again and again. The pair
//! of component and node is held against the node in the next plan, less and less so.
//!
//! A component that fails on a second node too is broken itself: then nothing is held against either
//! node, and the component stays where it is. So a broken program moves once and not for ever.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tombolo_model::condition::{self, DEGRADED};
use tombolo_model::{AppId, Assignment, Reason, Shared};
use tombolo_placement::Strike;
use tombolo_placement::running::Verdict;

use crate::Monotonic;

/// An instance that recovers within this has not failed: its engine was restarted, a file was written.
pub(super) const STRIKE_AFTER: Duration = Duration::from_secs(60);
/// Two failures that are further apart have nothing to do with each other.
const CALM: Duration = Duration::from_secs(600);
/// By then a strike weighs nothing any more.
pub(super) const FORGOTTEN_AFTER: Duration = Duration::from_secs(3600);

/// A component of an App, by the App's id.
pub(super) type Part = (AppId, String);

/// Since when and until when a component failed on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Failing {
    first: Monotonic,
    pub(super) last: Monotonic,
}

/// By component and node.
pub(super) type Troubles = BTreeMap<Part, BTreeMap<String, Failing>>;

/// Brings what is remembered up to what is seen.
pub(super) fn remember<'a>(
    before: &Troubles,
    assignments: &'a [Shared<Assignment>],
    silent: &BTreeSet<&str>,
    now: Monotonic,
) -> Troubles {
    let mut troubles = before.clone();
    let heard = |assignment: &&'a Shared<Assignment>| {
        !silent.contains(assignment.spec.node.as_deref().unwrap_or_default())
    };
    for assignment in assignments.iter().filter(heard).filter(|one| fails(one)) {
        let spec = &assignment.spec;
        let Some(node) = spec.node.clone() else { continue };
        let part = (AppId::owning(assignment), spec.component.clone());
        let trouble = troubles.entry(part).or_default().entry(node);
        let trouble = trouble.or_insert(Failing { first: now, last: now });
        if now.since(trouble.last) > CALM {
            trouble.first = now;
        }
        trouble.last = now;
    }
    // While a component still fails on one node, none of its nodes is forgotten: it would move in circles.
    troubles
        .retain(|_, nodes| nodes.values().any(|trouble| now.since(trouble.last) < FORGOTTEN_AFTER));
    troubles
}

/// Whether it fails for a reason for which another node may do better. State stays where it is,
/// whatever fails. So does a revision that was rolled back: it serves, and elsewhere there would be
/// none to go back to.
fn fails(assignment: &Assignment) -> bool {
    let conditions = assignment.status.as_ref().map_or(&[][..], |status| &status.conditions);
    let is_of_the_place = |reason: Reason| reason.blames().is_of_the_place();
    assignment.spec.fence.is_none()
        && assignment.metadata.deletion_timestamp.is_none()
        && condition::is_true(conditions, DEGRADED)
        && condition::reason(conditions, DEGRADED).is_some_and(is_of_the_place)
}

pub(super) fn strikes(troubles: &Troubles) -> Vec<Strike> {
    let mut strikes = Vec::new();
    for ((app, component), nodes) in troubles {
        let mut lasting = nodes.iter().filter(|(_, trouble)| trouble.lasts());
        if let (Some((node, trouble)), None) = (lasting.next(), lasting.next()) {
            strikes.push(Strike {
                app: app.clone(),
                component: component.clone(),
                node: node.clone(),
                at: seconds(trouble.last),
                verdict: Verdict::Penalise,
            });
        }
    }
    strikes
}

/// A day later than the clock of the process: what was before it began has a time of its own, too.
pub(super) fn seconds(at: Monotonic) -> u64 {
    at.as_secs().saturating_add(24 * 3600)
}

/// When the next trouble has lasted long enough to count.
pub(super) fn wake_at(troubles: &Troubles, now: Monotonic) -> Option<Monotonic> {
    let fresh = troubles.values().flat_map(BTreeMap::values);
    let fresh = fresh.filter(|trouble| trouble.last == now && !trouble.lasts());
    fresh.map(|trouble| trouble.first + STRIKE_AFTER).filter(|at| *at > now).min()
}

impl Failing {
    /// A failure that has lasted long enough to count, by the word of an earlier process.
    pub(super) fn lasting_until(last: Monotonic) -> Failing {
        Failing { first: last.before(STRIKE_AFTER), last }
    }

    pub(super) fn lasts(&self) -> bool {
        self.last.since(self.first) >= STRIKE_AFTER
    }
}
