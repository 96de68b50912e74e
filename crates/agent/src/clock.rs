//! The one place where the agent gets its time from. Certificates end by the time of day, and people
//! read it; everything else is decided by the clock that nobody can set.

use std::future::Future;

use jiff::Timestamp;
use tokio::time::Instant;
use tombolo_plan::Monotonic;

pub fn time_of_day() -> Timestamp {
    Timestamp::now()
}

/// Counts from the moment it was made. Built on tokio's clock, so that a test can stop time.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    started: Instant,
}

impl Clock {
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
