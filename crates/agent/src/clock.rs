//! The one place where the agent gets its time of day from. Certificates end by it; nothing else is
//! decided by it.

use jiff::Timestamp;

pub fn time_of_day() -> Timestamp {
    Timestamp::now()
}
