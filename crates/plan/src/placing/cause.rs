//! Why an App is not up, or not as it was changed: of all its instances that fail, the one whose trouble comes first. What the
//! user made is the App, so it is told there, and not only on the Assignment. Called by
//! [`super::status`].

use std::collections::BTreeSet;

use tombolo_model::app::Placement;
use tombolo_model::condition::{self, DEGRADED};
use tombolo_model::{ConditionStatus, Reason};

use super::current::{View, is_updating};

/// What stands in the way of one instance, as its agent says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cause<'o> {
    /// Where a deployment manager of others has a word of its own, it is told in the message only.
    pub reason: Reason,
    /// What failed and what can be done.
    pub message: &'o str,
}

/// The first cause: a component that calls another one that fails too may only fail because of it,
/// so it is passed over. Where they all call each other, the first in the order of placements counts.
pub(super) fn first<'o, 'p>(
    view: &View<'o>,
    placements: &'p [Placement],
) -> Option<(&'p Placement, Cause<'o>)> {
    let failing: Vec<(&Placement, Cause<'o>)> = placements
        .iter()
        .filter(|at| !view.serves(at) || view.assignment(at).is_some_and(is_updating))
        .filter_map(|at| Some((at, of_instance(view, at)?)))
        .collect();
    let broken: BTreeSet<&str> = failing.iter().map(|(at, _)| at.component.as_str()).collect();
    let follows = |at: &Placement| {
        let connects =
            view.component(&at.component).map_or(&[][..], |component| &component.connects);
        let within = connects.iter().filter(|connection| connection.app.is_none());
        within
            .into_iter()
            .any(|connection| connection.to != at.component && broken.contains(&*connection.to))
    };
    let root = failing.iter().find(|(at, _)| !follows(at));
    root.or_else(|| failing.first()).copied()
}

/// Nobody knows what became of an instance on a silent node, so nothing is said of it.
fn of_instance<'o>(view: &View<'o>, at: &Placement) -> Option<Cause<'o>> {
    if view.is_kept_waiting(at) {
        return None;
    }
    let status = view.assignment(at)?.status.as_ref()?;
    let degraded = condition::find(&status.conditions, DEGRADED)?;
    (degraded.status == ConditionStatus::True)
        .then(|| Reason::of(&degraded.reason).unwrap_or(Reason::JobDegraded))
        .map(|reason| Cause { reason, message: &degraded.message })
}
