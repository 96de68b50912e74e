//! Time as the loops count it: how long this process has run.
//!
//! Made by `tombolo_controller::clock`, or by a test out of thin air.

use std::fmt;
use std::ops::Add;
use std::time::Duration;

/// How far before the start of the process an instant can lie. More than anything that is waited for.
const REACH: Duration = Duration::from_secs(400 * 24 * 60 * 60);

/// An instant on a clock that nobody can set. It says nothing about the time of day and means nothing to
/// another process. It may lie before the start of this one: what an earlier process has left as "so long
/// ago" is counted back from now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Monotonic(
    /// Since [`REACH`] before the start.
    Duration,
);

impl Default for Monotonic {
    /// The start of the process.
    fn default() -> Monotonic {
        Monotonic::from_start(Duration::ZERO)
    }
}

impl Monotonic {
    pub const fn from_start(elapsed: Duration) -> Monotonic {
        Monotonic(REACH.saturating_add(elapsed))
    }

    /// Nothing for what was before the start.
    pub const fn since_start(self) -> Duration {
        self.0.saturating_sub(REACH)
    }

    /// Whole seconds, for those who only compare and subtract.
    pub const fn as_secs(self) -> u64 {
        self.0.as_secs()
    }

    /// How long ago `earlier` was; nothing if it is still to come.
    pub fn since(self, earlier: Monotonic) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    /// The instant that was so long ago at this one.
    pub fn before(self, by: Duration) -> Monotonic {
        Monotonic(self.0.saturating_sub(by))
    }
}

impl Add<Duration> for Monotonic {
    type Output = Monotonic;

    fn add(self, later: Duration) -> Monotonic {
        Monotonic(self.0.saturating_add(later))
    }
}

impl fmt::Display for Monotonic {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:?}", self.since_start())
    }
}
