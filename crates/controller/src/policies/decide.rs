//! The decision of one look: off the reactor, because queries and rehearsals take a processor.

use std::cell::RefCell;
use std::time::Duration;

use tombolo_model::policy::Policy;
use tombolo_model::{AppId, Shared};
use tombolo_placement::select::Limits;
use tombolo_plan::Monotonic;
use tombolo_plan::rehearsal::Rehearsal;
use tombolo_policy::live::{Answered, Answers, Fleet, Key, Proposal, Told, World};
use tombolo_policy::look::Engine;

use crate::harness::Context;

/// What was found by then is what a rehearsal has found.
const SEARCH_TIME_MAX: Duration = Duration::from_secs(2);

pub(super) struct Decided {
    pub(super) fleet: Fleet,
    pub(super) told: Told,
}

/// A panic here is one of the loop, and the harness deals with it.
pub(super) async fn decide(
    fleet: Fleet,
    context: &Context,
    policies: Vec<Shared<Policy>>,
    now: Monotonic,
    now_ms: i64,
) -> Decided {
    let (world, clock) = (context.world.clone(), context.clock);
    let decision = tokio::task::spawn_blocking(move || {
        let observed = world.observed();
        let rehearsal = RefCell::new(Rehearsal::of(observed.clone(), world.memory(), now));
        let holds = |app: &AppId, component: &str, node: &str| {
            rehearsal.borrow().holds((app, component, node))
        };
        let seen = World::new(&observed.apps, &observed.nodes, &observed.links, &holds);
        let mut fleet = fleet;
        fleet.sync(&policies, &seen, now_ms);
        let answers = measured(&fleet, world.engine(), now_ms);
        let answered =
            policies.iter().filter_map(|policy| Some((key(policy), Answered::of(policy)?)));
        let answered = answered.collect();
        let started = clock.now();
        let stop = || clock.now().since(started) > SEARCH_TIME_MAX;
        let limits = Limits { stop: &stop, ..Limits::default() };
        let mut rehearse = |proposal: &Proposal| {
            let mut rehearsal = rehearsal.borrow_mut();
            match (&proposal.leaves, &proposal.app) {
                (Some((app, component, node)), _) => {
                    rehearsal.leave((app, component.as_str(), node.as_str()), &limits)
                }
                (None, Some(app)) => rehearsal.change(app.clone(), &limits),
                (None, None) => Ok(String::new()),
            }
        };
        let told = fleet.take(answers, answered, &seen, now_ms, &mut rehearse);
        Decided { fleet, told }
    });
    match decision.await {
        Ok(decided) => decided,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

fn key(policy: &Policy) -> Key {
    let part = |part: &Option<String>| part.clone().unwrap_or_default();
    (part(&policy.metadata.namespace), part(&policy.metadata.name))
}

/// What those whose time has come want to know.
fn measured(fleet: &Fleet, engine: &dyn Engine, now_ms: i64) -> Vec<(Key, Answers)> {
    let due = fleet.due(now_ms);
    let each = due.into_iter().filter_map(|key| {
        let watch = fleet.get(&key)?;
        let questions = watch.questions();
        let answers = questions.iter().map(|question| engine.ask(&key.0, question, now_ms));
        let answers = answers.collect();
        Some((key, answers))
    });
    each.collect()
}
