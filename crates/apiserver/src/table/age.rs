//! Ages in the words of kubectl: two units at most, and the smaller one only while it matters.

use jiff::Timestamp;

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
const YEAR: i64 = 365 * DAY;

/// A clock that is this far behind the one that wrote the time is no reason to complain.
const SKEW_SECONDS_MAX: i64 = 1;

/// One row a magnitude: below `until` seconds, so many of `unit`, then so many of `rest`.
struct Magnitude {
    until: i64,
    unit: (i64, char),
    rest: Option<(i64, char)>,
}

const MAGNITUDES: &[Magnitude] = &[
    Magnitude { until: 2 * MINUTE, unit: (1, 's'), rest: None },
    Magnitude { until: 10 * MINUTE, unit: (MINUTE, 'm'), rest: Some((1, 's')) },
    Magnitude { until: 3 * HOUR, unit: (MINUTE, 'm'), rest: None },
    Magnitude { until: 8 * HOUR, unit: (HOUR, 'h'), rest: Some((MINUTE, 'm')) },
    Magnitude { until: 2 * DAY, unit: (HOUR, 'h'), rest: None },
    Magnitude { until: 8 * DAY, unit: (DAY, 'd'), rest: Some((HOUR, 'h')) },
    Magnitude { until: 2 * YEAR, unit: (DAY, 'd'), rest: None },
    Magnitude { until: 8 * YEAR, unit: (YEAR, 'y'), rest: Some((DAY, 'd')) },
    Magnitude { until: i64::MAX, unit: (YEAR, 'y'), rest: None },
];

/// How long before `now` it was `then`: `5m`, `3d4h`. `<invalid>` for the future.
pub fn age(then: Timestamp, now: Timestamp) -> String {
    let seconds = now.as_second().saturating_sub(then.as_second());
    if seconds < -SKEW_SECONDS_MAX {
        return "<invalid>".to_owned();
    }
    let seconds = seconds.max(0);
    let magnitude = MAGNITUDES
        .iter()
        .find(|magnitude| seconds < magnitude.until)
        .expect("the last row takes every number of seconds between two timestamps");
    let (unit, sign) = magnitude.unit;
    let whole = format!("{}{sign}", seconds / unit);
    match magnitude.rest.map(|(rest, sign)| (seconds % unit / rest, sign)) {
        None | Some((0, _)) => whole,
        Some((rest, sign)) => format!("{whole}{rest}{sign}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_two_units_only_while_the_smaller_matters() {
        let then: Timestamp = "2020-01-01T00:00:00Z".parse().unwrap();
        for (seconds, expected) in [
            (-3600, "<invalid>"),
            (-2, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (125, "2m5s"),
            (599, "9m59s"),
            (600, "10m"),
            (659, "10m"),
            (3 * HOUR - 1, "179m"),
            (3 * HOUR, "3h"),
            (3 * HOUR + 5 * MINUTE, "3h5m"),
            (8 * HOUR + 5 * MINUTE, "8h"),
            (47 * HOUR, "47h"),
            (48 * HOUR, "2d"),
            (76 * HOUR, "3d4h"),
            (8 * DAY + HOUR, "8d"),
            (700 * DAY, "700d"),
            (2 * YEAR, "2y"),
            (3 * YEAR + 9 * DAY, "3y9d"),
            (9 * YEAR + 9 * DAY, "9y"),
        ] {
            let now = Timestamp::from_second(then.as_second() + seconds).unwrap();
            assert_eq!(age(then, now), expected, "{seconds} s");
        }
        assert_eq!(age(Timestamp::MIN, Timestamp::MAX), "20012y");
    }
}
