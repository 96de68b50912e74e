//! How often a link failed: a count of thirty days, as a Link has it, and the moving mean that CODECO asks for.

use std::collections::BTreeMap;

/// How many days count.
pub const DAYS: u32 = 30;
/// How much the last day weighs in the mean. CODECO says "exponential moving average" and no more; with three tenths a
/// bad day is half forgotten after two more.
const WEIGHT: f64 = 0.3;

/// Failures by day. Which day is day 0 is the caller's affair, as long as it stays the same.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Failures {
    by_day: BTreeMap<u32, u32>,
    latest: u32,
}

impl Failures {
    /// From what was written down, as pairs of day and count.
    pub fn of(days: impl IntoIterator<Item = (u32, u32)>) -> Failures {
        let by_day: BTreeMap<u32, u32> = days.into_iter().collect();
        let latest = by_day.last_key_value().map_or(0, |(day, _)| *day);
        Failures { by_day, latest }
    }

    /// To write down.
    pub fn days(&self) -> impl Iterator<Item = (u32, u32)> {
        self.by_day.iter().map(|(day, count)| (*day, *count))
    }

    /// One more today. A calendar that is set back does not make it older than what is known.
    pub fn add(&mut self, day: u32) {
        self.latest = self.latest.max(day);
        let count = self.by_day.entry(self.latest).or_default();
        *count = count.saturating_add(1);
        let gone = self.latest.saturating_sub(DAYS - 1);
        self.by_day.retain(|day, _| *day >= gone);
    }

    /// Within the thirty days that end today.
    pub fn count(&self, day: u32) -> u32 {
        let from = day.max(self.latest).saturating_sub(DAYS - 1);
        self.by_day.range(from..).fold(0, |sum, (_, count)| sum.saturating_add(*count))
    }

    /// Failures a day, of which each earlier day weighs less.
    pub fn mean(&self, day: u32) -> f64 {
        let today = day.max(self.latest);
        let from = today.saturating_sub(DAYS - 1);
        let days = self.by_day.range(from..=today);
        days.map(|(day, count)| {
            let ago = i32::try_from(today - day).unwrap_or(i32::MAX);
            WEIGHT * (1.0 - WEIGHT).powi(ago) * f64::from(*count)
        })
        .sum()
    }
}
