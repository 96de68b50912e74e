//! A deadline as it is kept in a file by what ends an instance without the agent: the supervisor of a
//! process, the guard of containers.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Deadline;

/// Written when the instance is not to outlive the agent's link to the controller for long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeadlineRecord {
    /// When it is asked to end, in milliseconds since the boot.
    pub end_at_ms: u64,
    pub after_ms: u64,
    pub grace_ms: u64,
}

impl DeadlineRecord {
    pub fn of(deadline: Deadline) -> DeadlineRecord {
        let Deadline { at, after, grace } = deadline;
        DeadlineRecord { end_at_ms: ms(at), after_ms: ms(after), grace_ms: ms(grace) }
    }

    /// The same, if the last word of the controller was at `now`; never later than before.
    pub fn parted(self, now: Duration) -> DeadlineRecord {
        let end_at_ms = self.end_at_ms.min(ms(now).saturating_add(self.after_ms));
        DeadlineRecord { end_at_ms, ..self }
    }

    /// When an instance that was asked in time is killed, in milliseconds since the boot.
    pub fn kill_at_ms(self) -> u64 {
        self.end_at_ms.saturating_add(self.grace_ms)
    }
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_good_bye_brings_a_deadline_nearer_and_never_puts_it_off() {
        let record = DeadlineRecord { end_at_ms: 36_000, after_ms: 10_000, grace_ms: 500 };
        assert_eq!(record.parted(Duration::from_secs(1)).end_at_ms, 11_000);
        assert_eq!(record.parted(Duration::from_secs(30)), record);
        assert_eq!(record.kill_at_ms(), 36_500);
    }
}
