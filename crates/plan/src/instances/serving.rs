//! Which of the instances of an Assignment others are sent to, and which its status speaks of. Called by
//! `tombolo_agent::converge`; start at [`takes_callers`].

use std::collections::BTreeSet;

use super::{Health, Id, Phase};

/// Whether callers are sent to an instance that runs. `good` is the revision of its Assignment that was
/// well last, `running` are all that run here. During an update callers are sent to the revision that is
/// known to be well, and to it alone.
pub fn takes_callers(
    id: &Id,
    good: Option<u64>,
    running: &BTreeSet<&Id>,
    health: Option<&Health>,
) -> bool {
    let good = good.map(|revision| Id { assignment: id.assignment.clone(), revision });
    let stands_beside_it = good.is_some_and(|good| good != *id && running.contains(&good));
    match health {
        _ if stands_beside_it => false,
        Some(Health::Failing(_) | Health::Unwell(_)) => false,
        Some(Health::Well | Health::Unknown) | None => true,
    }
}

/// The instance that a status speaks of, of those that the Assignment has: the wanted one if it runs, or
/// else another that does. During an update the old one serves, and it is the one that others are to find.
pub fn spoken_of(
    all: &BTreeSet<&Id>,
    running: &BTreeSet<&Id>,
    target: &Id,
    phase: &Phase,
) -> Option<Id> {
    let updating = matches!(phase, Phase::Updating { .. });
    let rank = |id: &&&Id| (!running.contains(**id), (**id == target) == updating);
    all.iter().min_by_key(rank).map(|id| (*id).clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(revision: u64) -> Id {
        Id { assignment: "a".to_owned(), revision }
    }

    #[test]
    fn callers_go_to_what_is_well_as_far_as_is_known() {
        let failing = || Some(Health::Failing("no answer".to_owned()));
        // The revision asked about, the good one, those that run, its health.
        let rows = [
            (1, None, vec![1], None, true),
            (1, None, vec![1], Some(Health::Unknown), true),
            (1, Some(1), vec![1], failing(), false),
            (2, Some(1), vec![1, 2], Some(Health::Well), false),
            (1, Some(1), vec![1, 2], Some(Health::Well), true),
            (2, Some(1), vec![2], Some(Health::Well), true),
        ];
        for (revision, good, running, health, expected) in rows {
            let running: Vec<Id> = running.into_iter().map(id).collect();
            let running: BTreeSet<&Id> = running.iter().collect();
            let found = takes_callers(&id(revision), good, &running, health.as_ref());
            assert_eq!(found, expected, "{revision} {good:?} {running:?} {health:?}");
        }
    }

    #[test]
    fn a_status_speaks_of_the_wanted_one_and_during_an_update_of_the_one_that_serves() {
        let updating = || Phase::Updating { new: Box::new(Phase::Running) };
        // All revisions, those that run, the phase; the wanted one is 2.
        let rows = [
            (vec![2], vec![2], Phase::Running, Some(2)),
            (vec![1, 2], vec![1, 2], Phase::Running, Some(2)),
            (vec![1, 2], vec![1], Phase::Restarting, Some(1)),
            (vec![1, 2], vec![1, 2], updating(), Some(1)),
            (vec![1, 2], vec![2], updating(), Some(2)),
            (vec![1, 2], vec![], Phase::Restarting, Some(2)),
            (vec![], vec![], Phase::Running, None),
        ];
        for (all, running, phase, expected) in rows {
            let all: Vec<Id> = all.into_iter().map(id).collect();
            let running: Vec<Id> = running.into_iter().map(id).collect();
            let found = spoken_of(&all.iter().collect(), &running.iter().collect(), &id(2), &phase);
            assert_eq!(found.map(|id| id.revision), expected, "{all:?} {running:?} {phase:?}");
        }
    }
}
