//! The wall clock, read in one place.

use jiff::Timestamp;

/// As `metadata` writes it: whole seconds in UTC.
pub(crate) fn now() -> String {
    format(Timestamp::now())
}

pub(crate) fn timestamp() -> Timestamp {
    Timestamp::now()
}

pub(crate) fn now_seconds() -> i64 {
    Timestamp::now().as_second()
}

fn format(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
