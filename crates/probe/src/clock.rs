//! The two clocks: the time of day for packets, and one that nobody can set for everything else.

use std::time::{Duration, SystemTime};

use tombolo_network::stamp::Timestamp;

/// The time of day, as packets have it. A clock before 1970 is one that was never set.
pub(crate) fn time_of_day() -> Timestamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    Timestamp::of_day(since.unwrap_or(Duration::ZERO))
}
