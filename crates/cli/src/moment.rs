//! Times as people read and type them: ages in tables, durations in options, and the clocks.

use std::time::{Duration, Instant};

use jiff::Timestamp;

pub(crate) fn now() -> Timestamp {
    Timestamp::now()
}

/// For how long something takes; the time of day may jump.
pub(crate) fn monotonic() -> Instant {
    Instant::now()
}

/// How long ago `then` was, in at most two units; `<unknown>` if it is not a timestamp.
pub(crate) fn age(then: &str, now: Timestamp) -> String {
    let Ok(then) = then.parse::<Timestamp>() else {
        return "<unknown>".to_owned();
    };
    let seconds = now.as_second().saturating_sub(then.as_second()).max(0);
    span(u64::try_from(seconds).unwrap_or_default())
}

/// A length of time, in at most two units.
pub(crate) fn span(seconds: u64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match () {
        () if seconds < 120 => format!("{seconds}s"),
        () if minutes < 10 => two(minutes, "m", seconds % 60, "s"),
        () if minutes < 180 => format!("{minutes}m"),
        () if hours < 8 => two(hours, "h", minutes % 60, "m"),
        () if hours < 48 => format!("{hours}h"),
        () if days < 8 => two(days, "d", hours % 24, "h"),
        () if days < 730 => format!("{days}d"),
        () => two(days / 365, "y", days % 365, "d"),
    }
}

fn two(large: u64, large_unit: &str, small: u64, small_unit: &str) -> String {
    match small {
        0 => format!("{large}{large_unit}"),
        _ => format!("{large}{large_unit}{small}{small_unit}"),
    }
}

/// A year is more than anybody waits, and far from overflowing anything.
const DURATION_MAX: Duration = Duration::from_secs(366 * 86_400);

/// `30s`, `5m`, `1h30m`, `250ms`, as in the files. For clap.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let duration = text.parse::<tombolo_model::Duration>().map_err(|error| error.to_string())?;
    match duration.to_std() {
        duration if duration <= DURATION_MAX => Ok(duration),
        _ => Err("longer than a year".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_age(seconds: i64, expected: &str) {
        let then = Timestamp::from_second(1_000_000).expect("a valid time");
        let now = Timestamp::from_second(1_000_000 + seconds).expect("a valid time");
        assert_eq!(age(&then.to_string(), now), expected);
    }

    #[test]
    fn an_age_has_at_most_two_units() {
        check_age(0, "0s");
        check_age(119, "119s");
        check_age(120, "2m");
        check_age(330, "5m30s");
        check_age(7_300, "121m");
        check_age(4 * 3600 + 120, "4h2m");
        check_age(30 * 3600, "30h");
        check_age(3 * 86_400 + 7200, "3d2h");
        check_age(100 * 86_400, "100d");
        check_age(800 * 86_400, "2y70d");
    }

    #[test]
    fn the_future_is_now_and_nonsense_is_unknown() {
        check_age(-50, "0s");
        assert_eq!(age("yesterday", Timestamp::UNIX_EPOCH), "<unknown>");
    }

    #[track_caller]
    fn check_duration(text: &str, expected: Option<u64>) {
        let milliseconds = parse_duration(text).ok().map(|duration| duration.as_millis());
        assert_eq!(milliseconds, expected.map(u128::from), "{text}");
    }

    #[test]
    fn durations_are_typed_with_units() {
        check_duration("30s", Some(30_000));
        check_duration("1h30m", Some(5_400_000));
        check_duration("250ms", Some(250));
        for wrong in ["", "s", "5x", "-5s", "45", "5s3", "99999999999s", "999999d", "m5"] {
            check_duration(wrong, None);
        }
    }
}
