//! The one place where the loops get their time from.

use std::future::Future;

use k8s_openapi::jiff::Timestamp;
use tokio::time::Instant;

use tombolo_plan::Monotonic;

/// Counts from the moment it was made. Built on tokio's clock, so that a test can stop time.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    started: Instant,
}

impl Clock {
    #[expect(clippy::disallowed_methods, reason = "the one home of monotonic time")]
    pub fn start() -> Clock {
        Clock { started: Instant::now() }
    }

    pub fn now(&self) -> Monotonic {
        Monotonic::from_start(self.started.elapsed())
    }

    pub fn sleep_until(&self, then: Monotonic) -> impl Future<Output = ()> + use<> {
        tokio::time::sleep_until(self.started + then.since_start())
    }
}

/// The time of day, for people to read in conditions and Events. Nothing is decided by it.
#[expect(clippy::disallowed_methods, reason = "the one home of the time of day")]
pub fn time_of_day() -> Timestamp {
    Timestamp::now()
}
