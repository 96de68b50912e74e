//! The loop that gives Apps their places and keeps the Assignments that carry them out. What it
//! decides is in [`tombolo_plan::placing`]; here it looks, acts and sleeps. Called by `tombolo up`
//! and `tombolo controller`; start at [`run`].

mod act;

use std::future::Future;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Client;
use kube::api::ApiResource;

use tombolo_model::{App, Assignment, Link, Node, Site};
use tombolo_placement::select::Limits;
use tombolo_plan::Monotonic;
use tombolo_plan::placing::{Memory, Observed, Plan, plan};

use crate::clock::{self, Clock};
use crate::mirror::Mirrors;

/// More would hold up the next look; a large App must still come into being in one.
const ACTIONS_PER_ACTIVATION_MAX: usize = 1024;
/// Many changes come together; one look is enough for all of them.
const LOOK_GAP_MIN: Duration = Duration::from_millis(50);
/// After a look that took long, this many times as long is waited.
const LOOK_GAP_FACTOR: u32 = 2;
/// What nobody told of is found by looking now and then.
const LOOK_EVERY: Duration = Duration::from_secs(60);
/// What a failed action left is looked at again after this.
const RETRY_AFTER: Duration = Duration::from_secs(2);
/// A search takes what it has found by then.
const SEARCH_TIME_MAX: Duration = Duration::from_secs(2);

/// Runs until `shutdown` is ready.
pub async fn run(client: Client, clock: Clock, shutdown: impl Future<Output = ()>) {
    let (mut mirrors, mut changes) = Mirrors::watch(&client, &watched());
    let mut memory = Memory::default();
    let mut earliest = clock.now();
    let mut wake_at = clock.now() + LOOK_EVERY;
    let mut shutdown = std::pin::pin!(shutdown);
    loop {
        tokio::select! {
            biased;
            () = &mut shutdown => return,
            () = clock.sleep_until(wake_at) => (),
            Some(change) = changes.next() => {
                if mirrors.note(change) {
                    wake_at = wake_at.min(earliest);
                }
                continue;
            }
        }
        let looked_at = clock.now();
        let next = activate(&client, &mirrors, &mut memory, clock).await;
        let took = clock.now().since(looked_at);
        earliest = clock.now() + LOOK_GAP_MIN.max(took * LOOK_GAP_FACTOR);
        wake_at = next.max(earliest);
    }
}

/// Looks, decides, acts; once. When to look again if nothing changes before.
async fn activate(
    client: &Client,
    mirrors: &Mirrors,
    memory: &mut Memory,
    clock: Clock,
) -> Monotonic {
    if !mirrors.all_listed() {
        return clock.now() + LOOK_EVERY;
    }
    let Some((observed, plan)) = decide(look(mirrors), memory.clone(), clock).await else {
        return clock.now() + RETRY_AFTER;
    };
    *memory = plan.memory;
    for note in &plan.notes {
        tracing::debug!(note, "about the plan");
    }
    let mut left = ACTIONS_PER_ACTIVATION_MAX;
    let mut all_done = true;
    for steps in &plan.steps {
        let app = &observed.apps[steps.app];
        // An App is begun only if all of it fits: it comes into being in one look or not yet.
        if steps.actions.len() > left && left < ACTIONS_PER_ACTIVATION_MAX {
            all_done = false;
            break;
        }
        left = left.saturating_sub(steps.actions.len());
        all_done &= act::apply(client, app, &steps.actions).await;
    }
    let calm = if all_done { LOOK_EVERY } else { RETRY_AFTER };
    let usual = clock.now() + calm;
    plan.wake_at.map_or(usual, |at| at.min(usual))
}

/// A search may take long; other loops must not wait for it.
async fn decide(observed: Observed, memory: Memory, clock: Clock) -> Option<(Observed, Plan)> {
    let decision = tokio::task::spawn_blocking(move || {
        let started = clock.now();
        let stop = || clock.now().since(started) > SEARCH_TIME_MAX;
        let limits = Limits { stop: &stop, ..Limits::default() };
        let time_of_day = Time(clock::time_of_day());
        let plan = plan(&observed, &memory, started, &time_of_day, &limits);
        (observed, plan)
    });
    let decided = decision.await;
    decided.inspect_err(|error| tracing::error!(%error, "a plan could not be made")).ok()
}

fn watched() -> [ApiResource; 5] {
    [
        ApiResource::erase::<App>(&()),
        ApiResource::erase::<Assignment>(&()),
        ApiResource::erase::<Site>(&()),
        ApiResource::erase::<Node>(&()),
        ApiResource::erase::<Link>(&()),
    ]
}

fn look(mirrors: &Mirrors) -> Observed {
    Observed {
        apps: mirrors.typed(0),
        assignments: mirrors.typed(1),
        sites: mirrors.typed(2),
        nodes: mirrors.typed(3),
        links: mirrors.typed(4),
    }
}
