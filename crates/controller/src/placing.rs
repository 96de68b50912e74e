//! The loop that gives Apps their places and keeps the Assignments that carry them out. What it
//! decides is in [`tombolo_plan::placing`]; here it looks and acts. Run by [`crate::harness`].

mod act;
#[cfg(test)]
mod cost;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use futures::stream::{self, StreamExt as _};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use tombolo_placement::select::Limits;
use tombolo_plan::Monotonic;
use tombolo_plan::placing::{Doubt, Memory, Observed, Offer, Plan, Steps, offers, plan};
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

/// How often a plan of everything is made in the background, to offer what it would gain. It takes a processor for up
/// to [`OFFER_TIME_MAX`].
const OFFER_EVERY: Duration = Duration::from_secs(600);
const OFFER_TIME_MAX: Duration = Duration::from_secs(5);

pub(crate) struct Placing {
    context: Context,
    memory: Memory,
    offering: Offering,
}

/// The plan of everything that is being made in the background, if one is.
#[derive(Default)]
struct Offering {
    under_way: Option<tokio::task::JoinHandle<(Observed, Vec<Offer>)>>,
    /// When the last was begun, or the loop.
    begun_at: Monotonic,
    /// By uid of the App: the moves that it was told of last. The same is not told again.
    told: BTreeMap<String, String>,
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
        let offering = Offering { begun_at: context.clock.now(), ..Offering::default() };
        Placing { context, memory: Memory::default(), offering }
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
        let is_still = plan.steps.is_empty();
        let report = self.act(&observed, plan).await;
        self.context.world.remember(self.memory.clone());
        self.tell_offers().await;
        let clock = self.context.clock;
        if is_still && self.offering.is_due(clock.now()) {
            let work = offer(observed, self.memory.clone(), clock);
            self.offering.under_way = Some(tokio::task::spawn_blocking(work));
            self.offering.begun_at = clock.now();
        }
        Ok(Report { wake_at, ..report })
    }
}

impl Placing {
    /// Tells what the plan in the background has found, when it is there.
    async fn tell_offers(&mut self) {
        let is_there = |work: &mut tokio::task::JoinHandle<_>| work.is_finished();
        let Some(work) = self.offering.under_way.take_if(is_there) else { return };
        let (observed, offers) = match work.await {
            Ok(found) => found,
            Err(error) => return tracing::error!(%error, "planning everything failed"),
        };
        for (app, offer) in self.offering.fresh(&observed, offers) {
            let Context { client, teller, .. } = &self.context;
            act::tell(client, teller, &observed.apps[app], &[offer.news]).await;
        }
    }

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

impl Offering {
    fn is_due(&self, now: Monotonic) -> bool {
        self.under_way.is_none() && now.since(self.begun_at) >= OFFER_EVERY
    }

    /// Those that have not been told yet. What is not offered any more may be told again one day.
    fn fresh(&mut self, observed: &Observed, offers: Vec<Offer>) -> Vec<(usize, Offer)> {
        let before = std::mem::take(&mut self.told);
        let mut fresh = Vec::new();
        for offer in offers {
            let uid = observed.apps[offer.app].metadata.uid.clone().unwrap_or_default();
            if before.get(&uid) != Some(&offer.moves) {
                fresh.push((offer.app, offer.clone()));
            }
            self.told.insert(uid, offer.moves);
        }
        fresh
    }
}

/// The plan of everything, as work for another thread.
fn offer(
    observed: Observed,
    memory: Memory,
    clock: Clock,
) -> impl FnOnce() -> (Observed, Vec<Offer>) {
    move || {
        let started = clock.now();
        let stop = || clock.now().since(started) > OFFER_TIME_MAX;
        let limits = Limits { stop: &stop, ..Limits::default() };
        let offers = offers(&observed, &memory, started, &limits);
        (observed, offers)
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
    fn an_offer_is_told_once_as_long_as_it_stands() {
        let news = || tombolo_plan::placing::News {
            bad: false,
            reason: tombolo_model::Reason::BetterPlaces,
            message: String::new(),
        };
        let offer = |moves: &str| vec![Offer { app: 0, moves: moves.to_owned(), news: news() }];
        let observed = Observed {
            apps: vec![tombolo_model::App::new("shop", Default::default()).into()],
            ..Observed::default()
        };
        let mut offering = Offering::default();
        assert_eq!(offering.fresh(&observed, offer("a to b")).len(), 1);
        assert_eq!(offering.fresh(&observed, offer("a to b")).len(), 0, "the same");
        assert_eq!(offering.fresh(&observed, offer("a to c")).len(), 1, "another");
        assert_eq!(offering.fresh(&observed, Vec::new()).len(), 0);
        assert_eq!(offering.fresh(&observed, offer("a to c")).len(), 1, "it stands again");

        let begun = Monotonic::default();
        offering.begun_at = begun;
        assert!(!offering.is_due(begun + OFFER_EVERY / 2));
        assert!(offering.is_due(begun + OFFER_EVERY));
    }

    #[test]
    fn an_app_comes_into_being_in_one_look_or_not_yet() {
        check(&[], (0, 0));
        check(&[2000, 48, 1], (2, 1));
        check(&[2000, 49, 1], (1, 50));
        check(&[5000, 1], (1, 1));
    }
}
