//! When the next message may go: [`Pace`]. Chance comes in as a number from 0 to 1.

use std::time::Duration;

/// The first pause after a failure.
const RETRY_FIRST: Duration = Duration::from_secs(1);

/// How often is read and sent, and how much of the link it may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    pub read_every: Duration,
    pub send_every: Duration,
    /// What messages may take of the link, on average. What has waited is sent within that as well.
    pub bytes_per_second: u64,
}

impl Pace {
    /// From the first sending to the second. All agents of a site may start at once; from then on they
    /// send at different times.
    pub fn second_after(&self, chance: f64) -> Duration {
        self.send_every.mul_f64(0.5 + 0.5 * chance.clamp(0.0, 1.0))
    }

    /// How long nothing is sent after a message of `bytes` that took so long. At least as long as it took:
    /// on a slow link half of the time belongs to heartbeats and errands.
    pub fn rest(&self, bytes: u64, took: Duration) -> Duration {
        let due = Duration::from_secs_f64(bytes as f64 / self.bytes_per_second.max(1) as f64);
        due.saturating_sub(took).max(took)
    }

    /// How long to wait after so many failures in a row: twice as long each time, up to the pause between two
    /// sendings, and never the same for all agents.
    pub fn retry(&self, failures: u32, chance: f64) -> Duration {
        let doubled = RETRY_FIRST.saturating_mul(1 << failures.saturating_sub(1).min(16));
        doubled.min(self.send_every).mul_f64(0.5 + 0.5 * chance.clamp(0.0, 1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACE: Pace = Pace {
        read_every: Duration::from_secs(15),
        send_every: Duration::from_secs(60),
        bytes_per_second: 1000,
    };

    #[test]
    fn a_message_is_followed_by_as_much_rest_as_the_budget_asks_for() {
        let rest = |bytes, ms| PACE.rest(bytes, Duration::from_millis(ms)).as_millis();
        assert_eq!(rest(5000, 100), 4900);
        assert_eq!(rest(5000, 4000), 4000, "a slow link has at least half of the time for others");
        assert_eq!(rest(0, 0), 0);
    }

    #[test]
    fn a_server_that_is_away_is_asked_less_and_less_often() {
        let retry = |failures| PACE.retry(failures, 1.0).as_secs();
        assert_eq!([1, 2, 3, 7, 60, u32::MAX].map(retry), [1, 2, 4, 60, 60, 60]);
        assert_eq!(PACE.retry(2, 0.0), Duration::from_secs(1));
    }

    #[test]
    fn agents_that_start_at_once_spread_by_their_second_sending() {
        assert_eq!(PACE.second_after(0.0), Duration::from_secs(30));
        assert_eq!(PACE.second_after(1.0), Duration::from_secs(60));
    }
}
