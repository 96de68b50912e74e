//! The loop that tells who is alive. What it decides is in [`tombolo_plan::leases`]; here it
//! looks, acts and sleeps. Called by `tombolo up` and `tombolo controller`; start at [`run`].

mod act;
mod look;

use std::future::Future;
use std::time::Duration;

use futures::stream::{self, StreamExt as _};
use kube::Client;

use tombolo_plan::Monotonic;
use tombolo_plan::leases::{Action, LOOK_EVERY, Memory, plan};

use crate::clock::Clock;
use crate::cycle::{self, Cycle, Pace};

use look::{Change, World};

/// More would hold up the next look, and with it whoever comes back in the meantime.
const ACTIONS_PER_ACTIVATION_MAX: usize = 256;
/// More would leave others no room in the store's next commit.
const ACTIONS_AT_ONCE_MAX: usize = 32;

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
    #[error("cannot ask {node} about its siblings")]
    Ask {
        node: String,
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

/// A thousand renewals a second must not become a thousand looks, and the loop never takes more than
/// a fifth of a core. A look that takes long mostly waits for the disk; longer pauses would keep a
/// thousand machines that join at once waiting for minutes.
const PACE: Pace =
    Pace { gap_min: Duration::from_millis(200), gap_factor: 4, first_within: LOOK_EVERY };

struct Leases {
    client: Client,
    world: World,
    memory: Memory,
}

/// Runs until `shutdown` is ready. An API that is away ends nothing: the loop waits for it.
pub async fn run(client: Client, clock: Clock, shutdown: impl Future<Output = ()>) {
    let (world, changes) = World::watch(&client);
    let leases = Leases { client, world, memory: Memory::default() };
    cycle::run(leases, changes, PACE, clock, shutdown).await;
}

impl Cycle for Leases {
    type Change = Change;

    fn note(&mut self, change: Change) -> bool {
        self.world.note(change);
        true
    }

    async fn activate(&mut self, now: Monotonic) -> Monotonic {
        match activate(&self.client, &self.world, &mut self.memory, now).await {
            Ok(report) => finish(&report, now),
            Err(error) => {
                tracing::warn!(error = chain(&error), "cannot look; nobody is judged");
                now + LOOK_EVERY
            }
        }
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
    // Each is about another object; together they share the commits of the store.
    let actions = plan.actions.into_iter().take(ACTIONS_PER_ACTIVATION_MAX).map(async |action| {
        tracing::info!(%action, "applying");
        let applied = act::apply(client, &action, &look.origins[&action.subject]).await;
        (action, applied)
    });
    let mut actions = stream::iter(actions).buffered(ACTIONS_AT_ONCE_MAX);
    while let Some((action, applied)) = actions.next().await {
        match applied {
            Ok(()) => report.done.push(action),
            Err(error) => report.failed.push((action, error)),
        }
    }
    drop(actions);
    for ask in plan.asks.iter().take(ACTIONS_PER_ACTIVATION_MAX) {
        tracing::info!(%ask, "applying");
        if let Err(error) = act::ask(client, ask).await {
            tracing::warn!(%ask, error = chain(&error), "failed; the next look decides again");
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
