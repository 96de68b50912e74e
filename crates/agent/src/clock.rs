//! The one place where the agent gets its time from. Certificates end by the time of day, and people
//! read it; everything else is decided by the clock that nobody can set.

use std::future::Future;
use std::time::Duration;

use jiff::Timestamp;
use rustix::time::{ClockId, clock_gettime};
use tokio::time::Instant;
use tombolo_plan::Monotonic;

pub fn time_of_day() -> Timestamp {
    Timestamp::now()
}

/// When the controller was last heard: when the question was sent that it has answered, so that it
/// cannot have waited for us from an earlier time than that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heard {
    pub clock: Monotonic,
    /// Asleep or awake; means the same to other processes of the machine.
    pub since_boot: Duration,
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

    /// For when what is asked now is answered.
    pub fn asked(&self) -> Heard {
        let time = clock_gettime(ClockId::Boottime);
        let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
        let since_boot = Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0));
        Heard { clock: self.now(), since_boot }
    }

    pub fn sleep_until(&self, then: Monotonic) -> impl Future<Output = ()> + use<> {
        tokio::time::sleep_until(self.started + then.since_start())
    }
}
