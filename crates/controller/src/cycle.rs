//! Wakes a loop: when something that it watches has changed, when its time has come, and never too
//! often. Every loop goes through here; start at [`run`].

use std::future::Future;
use std::time::Duration;

use futures::stream::{Stream, StreamExt};

use tombolo_plan::Monotonic;

use crate::clock::Clock;

/// What a loop does between two pauses.
pub(crate) trait Cycle {
    /// Something that it watches.
    type Change;

    /// Takes a change in. Whether it is worth a look.
    fn note(&mut self, change: Self::Change) -> bool;

    /// Looks, decides, acts; once. Takes no hint of what changed, and does not retry. When to look
    /// again if nothing changes before.
    fn activate(&mut self, now: Monotonic) -> impl Future<Output = Monotonic> + Send;
}

/// How often a loop may look.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// Many changes come together; one look is enough for all of them.
    pub(crate) gap_min: Duration,
    /// After a look that took long, this many times as long is waited.
    pub(crate) gap_factor: u32,
    /// The first look comes by then, even if nothing was seen.
    pub(crate) first_within: Duration,
}

/// Runs until `shutdown` is ready. An API that is away ends nothing: the loop waits for it.
pub(crate) async fn run<C: Cycle>(
    mut cycle: C,
    mut changes: impl Stream<Item = C::Change> + Unpin,
    pace: Pace,
    clock: Clock,
    shutdown: impl Future<Output = ()>,
) {
    let mut earliest = clock.now();
    let mut wake_at = clock.now() + pace.first_within;
    let mut shutdown = std::pin::pin!(shutdown);
    loop {
        tokio::select! {
            biased;
            () = &mut shutdown => return,
            () = clock.sleep_until(wake_at) => (),
            Some(change) = changes.next() => {
                if cycle.note(change) {
                    wake_at = wake_at.min(earliest);
                }
                continue;
            }
        }
        let looked_at = clock.now();
        let next = cycle.activate(looked_at).await;
        let took = clock.now().since(looked_at);
        earliest = clock.now() + pace.gap_min.max(took * pace.gap_factor);
        wake_at = next.max(earliest);
    }
}
