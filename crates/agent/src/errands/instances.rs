//! Which instance of an Assignment is meant: it may have two while one replaces the other, and none
//! while nothing runs. Called by the errands; start at [`serving`].

use std::sync::Arc;
use std::time::SystemTime;

use tombolo_driver::{Driver, Instance, State};
use tombolo_model::Reason;
use tombolo_model::errand::Refusal;

use crate::converge::Drivers;
use crate::observe;

/// An instance and the engine that has it.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) driver: Arc<dyn Driver>,
    pub(super) instance: Instance,
}

/// All instances of an Assignment, the one that serves first.
pub(super) async fn all(drivers: &Drivers, assignment: &str) -> Vec<Found> {
    let look = observe::look(drivers, &mut observe::Unanswered::default()).await;
    let ours = look.instances.into_iter().filter(|(id, _)| id.assignment == assignment);
    let mut found: Vec<Found> = ours
        .filter_map(|(_, (engine, instance))| {
            Some(Found { driver: Arc::clone(drivers.get(&engine)?), instance })
        })
        .collect();
    found.sort_by_key(|one| std::cmp::Reverse(rank(&one.instance.state)));
    found
}

pub(super) async fn serving(drivers: &Drivers, assignment: &str) -> Result<Found, Refusal> {
    let first = all(drivers, assignment).await.into_iter().next();
    first.ok_or_else(|| {
        Refusal::new(Reason::NotRunning, "there is no instance of it on its node, or not yet")
    })
}

/// The greatest serves: an instance that runs comes before one that does not, and of two the younger.
fn rank(state: &State) -> (u8, Option<SystemTime>) {
    match state {
        State::Running(running) => (4, Some(running.since)),
        State::Stopping(running) => (3, Some(running.since)),
        State::Starting { .. } => (2, None),
        State::Exited(exit) => (1, Some(exit.at)),
        State::Failed(_) => (0, None),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tombolo_driver::{Exit, Running};

    use super::*;

    #[test]
    fn the_youngest_that_runs_serves_and_then_the_last_that_ended() {
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let running = |seconds| Running {
            name: "1".to_owned(),
            pid: None,
            since: at(seconds),
            addresses: Vec::new(),
            ports: Vec::new(),
        };
        let exited = |seconds| {
            State::Exited(Exit {
                code: Some(0),
                signal: None,
                at: at(seconds),
                reason: Reason::Completed,
                message: None,
                log: Vec::new(),
            })
        };
        let states = [
            exited(9),
            exited(1),
            State::Starting { doing: String::new() },
            State::Running(running(5)),
            State::Running(running(6)),
            State::Stopping(running(7)),
        ];
        let mut order: Vec<usize> = (0..states.len()).collect();
        order.sort_by_key(|one| std::cmp::Reverse(rank(&states[*one])));
        assert_eq!(order, [4, 3, 5, 2, 0, 1]);
    }
}
