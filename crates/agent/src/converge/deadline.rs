//! When instances are to end that must not outlive the link to the controller for long. Whoever
//! supervises them keeps that time, also while the agent is dead or frozen; here it is put off after
//! every heartbeat that the controller has answered.

use std::collections::BTreeMap;

use tombolo_driver::{Deadline, State};
use tombolo_model::Engine;
use tombolo_model::phrase::with_causes;
use tombolo_plan::instances::Wanted;

use crate::desired::Job;
use crate::observe::Look;

use super::{Converge, Now};

/// Nothing if it may go on without end, or if nobody knows when the controller was heard.
pub(super) fn of(wanted: &Wanted, now: &Now) -> Option<Deadline> {
    let after = wanted.stop_when_cut_off?;
    let heard = now.heard_since_boot?;
    // A rule that is shorter than the time between two heartbeats would end it in between.
    let at = heard.saturating_add(after.max(now.silent_after));
    Some(Deadline { at, after, grace: wanted.grace })
}

/// Whether the deadline of an instance in this state is put off. A process is begun with one, and is
/// there at once; a container may wait long for its image, and must not be over before it begins.
fn has_deadline(engine: Engine, state: &State, is_busy: bool) -> bool {
    match state {
        State::Running(_) => !is_busy,
        State::Starting { .. } => engine != Engine::Host,
        State::Stopping(_) | State::Exited(_) | State::Failed(_) => false,
    }
}

impl Converge {
    /// Whether something here has a deadline that has to be put off.
    pub fn has_deadlines(&self) -> bool {
        self.has_deadlines
    }

    /// Tells the engines what has changed. What fails is told again at the next look.
    pub(super) async fn keep_deadlines(
        &mut self,
        look: &Look,
        jobs: &BTreeMap<String, Job>,
        now: &Now,
    ) {
        self.has_deadlines = jobs.values().any(|job| job.wanted.stop_when_cut_off.is_some());
        self.deadlines.retain(|id, _| look.instances.contains_key(id));
        for (id, (engine, instance)) in &look.instances {
            let runs = has_deadline(*engine, &instance.state, self.busy.contains_key(id));
            let (Some(job), Some(driver)) = (jobs.get(&id.assignment), self.drivers.get(engine))
            else {
                continue;
            };
            let unknown = job.wanted.stop_when_cut_off.is_some() && now.heard_since_boot.is_none();
            let deadline = of(&job.wanted, now);
            // What an earlier agent has told the engine counts until the controller is heard.
            if !runs || unknown || self.deadlines.get(id) == Some(&deadline) {
                continue;
            }
            match driver.end_at(&instance.id, deadline).await {
                Ok(()) => _ = self.deadlines.insert(id.clone(), deadline),
                Err(error) => {
                    let error = with_causes(&error);
                    tracing::warn!(id = %instance.id, error, "cannot put off its deadline");
                }
            }
        }
    }
}
