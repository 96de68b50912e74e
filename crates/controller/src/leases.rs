//! The loop that tells who is alive. What it decides is in [`tombolo_plan::leases`]; here it
//! looks, acts and sleeps. Called by `tombolo up` and `tombolo controller`; start at [`run`].

mod act;
mod look;

use std::future::Future;
use std::time::Duration;

use futures::StreamExt;
use kube::Client;

use tombolo_plan::Monotonic;
use tombolo_plan::leases::{Action, LOOK_EVERY, Memory, plan};

use crate::clock::Clock;

use look::World;

/// More would hold up the next look, and with it whoever comes back in the meantime.
const ACTIONS_PER_ACTIVATION_MAX: usize = 64;

/// A thousand renewals a second must not become a thousand looks.
const LOOK_GAP_MIN: Duration = Duration::from_millis(200);

/// After a look that took long, this many times as long is waited, so that the loop never takes more
/// than a twentieth of a core.
const LOOK_GAP_FACTOR: u32 = 19;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot list the leases")]
    Look(#[source] kube::Error),
    #[error("cannot write the status of {subject}")]
    Status {
        subject: String,
        #[source]
        source: kube::Error,
    },
    #[error("the status of {subject} is written, but not its event")]
    Event {
        subject: String,
        #[source]
        source: kube::Error,
    },
}

/// What one activation came to.
#[derive(Debug, Default)]
pub struct Report {
    pub done: Vec<Action>,
    /// Tried once. If it still is needed, the next activation plans it again.
    pub failed: Vec<(Action, Error)>,
    /// How many actions are left for the next activation.
    pub deferred: usize,
    pub wake_at: Monotonic,
}

/// Runs until `shutdown` is ready. An API that is away ends nothing: the loop waits for it.
pub async fn run(client: Client, clock: Clock, shutdown: impl Future<Output = ()>) {
    let (mut world, mut changes) = World::watch(&client);
    let mut memory = Memory::default();
    let mut looked_at = clock.now();
    let mut earliest = looked_at;
    let mut wake_at = looked_at + LOOK_EVERY;
    let mut shutdown = std::pin::pin!(shutdown);
    loop {
        tokio::select! {
            biased;
            () = &mut shutdown => return,
            () = clock.sleep_until(wake_at) => (),
            Some(change) = changes.next() => {
                world.note(change);
                wake_at = wake_at.min(earliest);
                continue;
            }
        }
        looked_at = clock.now();
        wake_at = match activate(&client, &world, &mut memory, looked_at).await {
            Ok(report) => finish(&report, looked_at),
            Err(error) => {
                tracing::warn!(error = chain(&error), "cannot look; nobody is judged");
                looked_at + LOOK_EVERY
            }
        };
        let took = clock.now().since(looked_at);
        earliest = clock.now() + LOOK_GAP_MIN.max(took * LOOK_GAP_FACTOR);
        wake_at = wake_at.max(earliest);
    }
}

/// Looks, decides, acts; once. Takes no hint of what changed, and does not retry.
async fn activate(
    client: &Client,
    world: &World,
    memory: &mut Memory,
    now: Monotonic,
) -> Result<Report, Error> {
    let Some(look) = world.look().await? else {
        return Ok(Report { wake_at: now + LOOK_EVERY, ..Report::default() });
    };
    let plan = plan(&look.observed, memory, now);
    *memory = plan.memory;

    let mut report = Report { wake_at: plan.wake_at, ..Report::default() };
    report.deferred = plan.actions.len().saturating_sub(ACTIONS_PER_ACTIVATION_MAX);
    for action in plan.actions.into_iter().take(ACTIONS_PER_ACTIVATION_MAX) {
        tracing::info!(%action, "applying");
        match act::apply(client, &action, &look.origins[&action.subject]).await {
            Ok(()) => report.done.push(action),
            Err(error) => report.failed.push((action, error)),
        }
    }
    Ok(report)
}

/// Tells the log what went wrong and says when to look again.
fn finish(report: &Report, now: Monotonic) -> Monotonic {
    for (action, error) in &report.failed {
        tracing::warn!(%action, error = chain(error), "failed; the next look decides again");
    }
    match report.deferred {
        0 => report.wake_at,
        deferred => {
            tracing::info!(deferred, "more to do than one activation takes");
            now
        }
    }
}

fn chain(error: &Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
