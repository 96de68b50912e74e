//! How often the heart of an agent beats, and what follows from it. Called by `tombolo_agent::heartbeat`
//! and by all who wait for an answer; start at [`Pace`].

use std::time::Duration;

/// Almost all that an idle agent says are heartbeats: with one every 12 s it says less than 0.5 kbit/s.
const EVERY_DEFAULT: Duration = Duration::from_secs(12);
/// More often is a load and tells no more; less often, and nobody learns of a loss within the hour.
pub const EVERY_MIN: Duration = Duration::from_secs(1);
pub const EVERY_MAX: Duration = Duration::from_secs(15 * 60);
/// Three Leases last for so many beats: two may be lost, and the next be late by a third.
const BEATS_A_THREE_LEASES: u64 = 10;

/// How often the heart beats, and what follows from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    every: Duration,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace { every: EVERY_DEFAULT }
    }
}

impl Pace {
    /// Within what is sensible.
    pub fn every(every: Duration) -> Pace {
        Pace { every: every.clamp(EVERY_MIN, EVERY_MAX) }
    }

    pub fn beat(self) -> Duration {
        self.every
    }

    /// An agent that was not answered for so long counts as cut off: so many beats in vain are no accident.
    pub fn silent_after(self) -> Duration {
        self.every * 3
    }

    /// What the Lease says about its own length.
    pub fn lease_seconds(self) -> u64 {
        (self.every.as_secs() * BEATS_A_THREE_LEASES).div_ceil(3)
    }

    /// Longer than this, and the next beat is due.
    pub fn answer_timeout(self) -> Duration {
        self.every * 4 / 5
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_outlasts_the_beats_that_may_be_lost() {
        for seconds in [0, 1, 2, 10, 3600] {
            let pace = Pace::every(Duration::from_secs(seconds));
            let lease = Duration::from_secs(pace.lease_seconds());
            assert!(lease > pace.silent_after(), "{seconds}");
            assert!(pace.answer_timeout() < pace.beat(), "{seconds}");
            assert!((EVERY_MIN..=EVERY_MAX).contains(&pace.beat()), "{seconds}");
        }
        assert_eq!(Pace::default().lease_seconds(), 40);
    }
}
