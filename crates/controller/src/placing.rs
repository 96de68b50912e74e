//! The loop that gives Apps their places and keeps the Assignments that carry them out. What it
//! decides is in [`tombolo_plan::placing`]; here it looks and acts. Run by [`crate::harness`].

mod act;
#[cfg(test)]
mod cost;

use std::sync::Mutex;
use std::time::Duration;

use futures::stream::{self, StreamExt as _};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use tombolo_placement::select::Limits;
use tombolo_plan::Monotonic;
use tombolo_plan::placing::{Doubt, Memory, Observed, Plan, Steps, plan};
use tombolo_plan::supervision::{Pace, Report};

use crate::clock::{self, Clock};
use crate::harness::{Context, Loop};
use crate::mirror::Source;
use crate::report::{Bounds, carry_out};
use crate::world::World;

/// More actions would hold up the next look; a large App must still come into being in one look, and so
/// must some hundred that are applied together. As many Apps at once share the commits of the store.
const BOUNDS: Bounds = Bounds { actions_max: 2048, at_once: 32 };
/// A search takes what it has found by then.
const SEARCH_TIME_MAX: Duration = Duration::from_secs(2);

pub(crate) struct Placing {
    context: Context,
    memory: Memory,
}

impl Loop for Placing {
    const NAME: &'static str = "placing";
    const PACE: Pace = Pace {
        gap_min: Duration::from_millis(50),
        gap_factor: 1,
        look_every: Duration::from_secs(60),
        retry_after: Duration::from_secs(2),
    };

    fn reads(world: &World) -> Vec<&dyn Source> {
        world.observed_sources()
    }

    fn start(context: Context) -> Placing {
        // Explanations must not go on with what an earlier life of the loop remembered.
        context.world.remember(Memory::default());
        Placing { context, memory: Memory::default() }
    }

    async fn look(&mut self, _now: Monotonic) -> Result<Report, kube::Error> {
        let observed = self.context.world.observed();
        let (observed, plan) = decide(observed, self.memory.clone(), self.context.clock).await;
        self.memory = plan.memory.clone();
        // Before the loop acts: a client may see what it writes and ask why at once.
        self.context.world.remember(self.memory.clone());
        for note in &plan.notes {
            tracing::debug!(note, "about the plan");
        }
        let wake_at = plan.wake_at;
        let report = self.act(&observed, plan).await;
        self.context.world.remember(self.memory.clone());
        Ok(Report { wake_at, ..report })
    }
}

impl Placing {
    async fn act(&mut self, observed: &Observed, plan: Plan) -> Report {
        let Context { client, teller, .. } = &self.context;
        let (begun, deferred) = begun(&plan.steps);
        let mut report = Report { deferred, ..Report::default() };
        let work = plan.steps.into_iter().take(begun);
        let work =
            work.map(|steps| act::apply(client, teller, &observed.apps[steps.app], steps.actions));
        let mut work = stream::iter(work).buffered(BOUNDS.at_once);
        while let Some((done, failed)) = work.next().await {
            report.done += done;
            report.failed.extend(failed);
        }
        drop(work);
        let release = |one| act::release(client, teller, one);
        let released = carry_out(plan.releases, BOUNDS, release).await;
        // What is written is remembered: the agent may have answered before anybody looks again.
        let memory = Mutex::new(&mut self.memory);
        let doubted = carry_out(plan.doubts, BOUNDS, async |one: Doubt| {
            act::doubt(client, &one).await?;
            if let Ok(mut memory) = memory.lock() {
                memory.note_written(&one);
            }
            Ok(())
        });
        let doubted = doubted.await;
        for other in [released, doubted] {
            report.done += other.done;
            report.failed.extend(other.failed);
            report.deferred += other.deferred;
        }
        report
    }
}

/// How many Apps are begun in one look, and how many actions are left for the next. An App is begun
/// only if all of it fits: it comes into being in one look or not yet. The first always is.
fn begun(steps: &[Steps]) -> (usize, usize) {
    let mut left = BOUNDS.actions_max;
    let mut begun = 0;
    for each in steps {
        if each.actions.len() > left && begun > 0 {
            break;
        }
        left = left.saturating_sub(each.actions.len());
        begun += 1;
    }
    (begun, steps[begun..].iter().map(|steps| steps.actions.len()).sum())
}

/// A search may take long; other loops must not wait for it. A panic of the planner is one of the
/// loop, and the harness deals with it.
async fn decide(observed: Observed, memory: Memory, clock: Clock) -> (Observed, Plan) {
    let decision = tokio::task::spawn_blocking(move || {
        let started = clock.now();
        let stop = || clock.now().since(started) > SEARCH_TIME_MAX;
        let limits = Limits { stop: &stop, ..Limits::default() };
        let time_of_day = Time(clock::time_of_day());
        let plan = plan(&observed, &memory, started, &time_of_day, &limits);
        (observed, plan)
    });
    match decision.await {
        Ok(decided) => decided,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

#[cfg(test)]
mod tests {
    use tombolo_plan::placing::{Action, Verb};

    use super::*;

    /// How many Apps with so many actions each are begun, and how many actions wait.
    #[track_caller]
    fn check(actions: &[usize], expected: (usize, usize)) {
        let verb = || Verb::Delete { name: String::new(), uid: String::new() };
        let action = || Action { verb: verb(), why: String::new() };
        let actions = actions.iter().enumerate();
        let steps = actions
            .map(|(app, count)| Steps { app, actions: (0..*count).map(|_| action()).collect() });
        assert_eq!(begun(&steps.collect::<Vec<_>>()), expected);
    }

    #[test]
    fn an_app_comes_into_being_in_one_look_or_not_yet() {
        check(&[], (0, 0));
        check(&[2000, 48, 1], (2, 1));
        check(&[2000, 49, 1], (1, 50));
        check(&[5000, 1], (1, 1));
    }
}
