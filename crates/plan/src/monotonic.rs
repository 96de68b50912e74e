//! Time as the loops count it: how long this process has run.
//!
//! Made by `tombolo_controller::clock`, or by a test out of thin air.

use std::fmt;
use std::ops::Add;
use std::time::Duration;

/// An instant on a clock that nobody can set. It starts at zero with the process, so it says
/// nothing about the time of day and means nothing to another process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Monotonic(Duration);

impl Monotonic {
    pub const fn from_start(elapsed: Duration) -> Monotonic {
        Monotonic(elapsed)
    }

    pub const fn since_start(self) -> Duration {
        self.0
    }

    /// How long ago `earlier` was; nothing if it is still to come.
    pub fn since(self, earlier: Monotonic) -> Duration {
        self.0.saturating_sub(earlier.0)
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
        write!(out, "{:?}", self.0)
    }
}
