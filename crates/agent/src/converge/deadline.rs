//! Tells the engines when instances are to end that must not outlive the link to the controller for long;
//! `tombolo_plan::instances::deadline` decides what they are told.

use std::collections::BTreeMap;

use tombolo_driver::{Deadline, State};
use tombolo_model::phrase::with_causes;
use tombolo_plan::instances::Wanted;
use tombolo_plan::instances::deadline::{self, Heard, Stage};

use crate::desired::Job;
use crate::observe::Look;

use super::{Converge, Now};

/// With which deadline an instance is begun.
pub(super) fn of(wanted: &Wanted, now: &Now) -> Option<Deadline> {
    deadline::of(wanted, heard(now)).map(as_told)
}

fn heard(now: &Now) -> Heard {
    Heard { since_boot: now.heard_since_boot, silent_after: now.silent_after }
}

fn as_told(deadline: deadline::Deadline) -> Deadline {
    let deadline::Deadline { at, after, grace } = deadline;
    Deadline { at, after, grace }
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
            let (Some(job), Some(driver)) = (jobs.get(&id.assignment), self.drivers.get(engine))
            else {
                continue;
            };
            let stage = match &instance.state {
                State::Running(_) if self.under_way.is_busy(id) => Stage::Busy,
                State::Running(_) => Stage::Running,
                State::Starting { .. } => Stage::Starting,
                State::Stopping(_) | State::Exited(_) | State::Failed(_) => Stage::Over,
            };
            let told = self.deadlines.get(id).copied();
            let Some(news) = deadline::keep(&job.wanted, heard(now), (*engine, stage), told) else {
                continue;
            };
            match driver.end_at(&instance.id, news.map(as_told)).await {
                Ok(()) => _ = self.deadlines.insert(id.clone(), news),
                Err(error) => {
                    let error = with_causes(&error);
                    tracing::warn!(id = %instance.id, error, "cannot put off its deadline");
                }
            }
        }
    }
}
