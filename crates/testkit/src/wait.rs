//! Waiting for the world, with an end. Called by the tests and by [`crate::Tombolo`].

use std::future::Future;
use std::time::Duration;

use tokio::time::{Instant, sleep};

/// Long, because a test machine may be busy: a passing test never waits for it.
const DEADLINE: Duration = Duration::from_secs(60);

const PAUSE: Duration = Duration::from_millis(20);

/// Asks again and again until there is an answer, and panics if there is none in a minute.
#[track_caller]
pub fn eventually<T>(
    what: &str,
    mut ask: impl AsyncFnMut() -> Option<T>,
) -> impl Future<Output = T> {
    let caller = std::panic::Location::caller();
    async move {
        let started = Instant::now();
        loop {
            if let Some(answer) = ask().await {
                return answer;
            }
            assert!(
                started.elapsed() < DEADLINE,
                "{caller}: in a minute it never came true: {what}"
            );
            sleep(PAUSE).await;
        }
    }
}
