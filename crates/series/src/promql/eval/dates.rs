//! The calendar of a time in seconds since 1970, in UTC.

/// A second in UTC.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    /// Since 1970.
    day: i64,
    second: i64,
}

impl Moment {
    pub(super) fn of_seconds(at: i64) -> Self {
        Self { day: at.div_euclid(DAY), second: at.rem_euclid(DAY) }
    }

    /// What is no whole number of 64 bits becomes the second after the last one, as it does on the
    /// processors on which Prometheus mostly runs.
    pub(super) fn of_value(value: f64) -> Self {
        const END: f64 = 9_223_372_036_854_775_808.0;
        if (-END..END).contains(&value) {
            return Self::of_seconds(value as i64);
        }
        let last = Self::of_seconds(i64::MAX);
        Self { second: last.second + 1, ..last }
    }
}

const DAY: i64 = 86_400;

type Date = fn(Moment) -> f64;

pub(super) const DATES: &[(&str, Date)] = &[
    ("day_of_month", |at| f64::from(civil(at.day).2)),
    ("day_of_week", |at| (at.day + 4).rem_euclid(7) as f64),
    ("day_of_year", |at| (at.day - days_before(civil(at.day).0, 1) + 1) as f64),
    ("days_in_month", |at| {
        let (year, month, _) = civil(at.day);
        let (next_year, next) = if month == 12 { (year + 1, 1) } else { (year, month + 1) };
        (days_before(next_year, next) - days_before(year, month)) as f64
    }),
    ("hour", |at| (at.second / 3600) as f64),
    ("minute", |at| (at.second % 3600 / 60) as f64),
    ("month", |at| f64::from(civil(at.day).1)),
    ("year", |at| civil(at.day).0 as f64),
];

/// Year, month and day of a number of days since 1970 (Howard Hinnant's `civil_from_days`).
fn civil(day: i64) -> (i64, u8, u8) {
    let shifted = day + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * of_year + 2) / 153;
    let day = (of_year - (153 * shifted_month + 2) / 5 + 1) as u8;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 } as u8;
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// How many days since 1970 lie before a month.
fn days_before(year: i64, month: u8) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let shifted = i64::from(if month > 2 { month - 3 } else { month + 9 });
    let of_year = (153 * shifted + 2) / 5;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_of_a_leap_year_are_known() {
        // 2024-02-29 was a Thursday.
        let at = days_before(2024, 2) * 86_400 + 28 * 86_400;
        let moment = Moment::of_seconds(at);
        assert_eq!(civil(moment.day), (2024, 2, 29));
        let found: Vec<f64> = DATES.iter().map(|(_, date)| date(moment)).collect();
        assert_eq!(found, [29.0, 4.0, 60.0, 29.0, 0.0, 0.0, 2.0, 2024.0]);
        assert_eq!(civil(-1), (1969, 12, 31));
    }
}
