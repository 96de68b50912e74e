//! Lengths of time, in microseconds.

use std::fmt;
use std::str::FromStr;

use super::decimal::{Decimal, Scale};
use super::{Error, Words, in_json};

const WORDS: Words = Words {
    what: "a duration",
    allowed: "a number with a unit (us, ms, s, m, h, d), such as 20ms, 5s or 1h30m",
};

/// Names of a unit, its microseconds as a whole number and a power of ten.
const UNITS: &[(&[&str], u64, i32)] = &[
    (&["ns"], 1, -3),
    (&["us", "µs", "μs"], 1, 0),
    (&["ms", "msec", "millisecond", "milliseconds"], 1, 3),
    (&["s", "sec", "secs", "second", "seconds"], 1, 6),
    (&["m", "min", "mins", "minute", "minutes"], 60, 6),
    (&["h", "hr", "hour", "hours"], 3600, 6),
    (&["d", "day", "days"], 86_400, 6),
    (&["w", "week", "weeks"], 604_800, 6),
];

/// The units of the written form, largest first.
const WRITTEN: &[(&str, u64)] =
    &[("h", 3_600_000_000), ("m", 60_000_000), ("s", 1_000_000), ("ms", 1_000), ("us", 1)];

/// A length of time: `20ms`, `5s`, `1h30m`, `1.5s`. A number without a unit is refused, for some
/// would read it as seconds and some as milliseconds. Parts of a microsecond are rounded up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Duration(u64);

in_json!(Duration, "duration", { "type": "string", "format": "duration" });

impl Duration {
    pub const ZERO: Duration = Duration(0);

    pub fn from_micros(micros: u64) -> Duration {
        Duration(micros)
    }

    pub fn from_millis(millis: u64) -> Duration {
        Duration(millis.saturating_mul(1_000))
    }

    pub fn from_secs(seconds: u64) -> Duration {
        Duration(seconds.saturating_mul(1_000_000))
    }

    pub fn micros(self) -> u64 {
        self.0
    }

    pub fn to_std(self) -> std::time::Duration {
        std::time::Duration::from_micros(self.0)
    }
}

impl FromStr for Duration {
    type Err = Error;

    fn from_str(text: &str) -> Result<Duration, Error> {
        let mut rest = text.trim();
        if rest == "0" || rest == "0e0" {
            return Ok(Duration::ZERO);
        }
        let mut total: u64 = 0;
        loop {
            let (number, after) = Decimal::read(rest).map_err(|fault| WORDS.fault(text, fault))?;
            let after = after.trim_start();
            let letters = after.find(|letter: char| !letter.is_alphabetic()).unwrap_or(after.len());
            let (unit, after) = after.split_at(letters);
            let part = in_micros(number, unit).map_err(|reason| match reason {
                Reason::NoUnit => {
                    let meant = (rest.len() == text.len()).then(|| format!("{text}ms"));
                    WORDS.error(text, "it has no unit", meant)
                }
                Reason::UnknownUnit => WORDS.unknown_unit(text, unit, None),
                Reason::TooLarge => WORDS.too_large(text),
            })?;
            total = total.checked_add(part).ok_or_else(|| WORDS.too_large(text))?;
            rest = after.trim_start();
            if rest.is_empty() {
                return Ok(Duration(total));
            }
        }
    }
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 {
            return f.write_str("0s");
        }
        let mut rest = self.0;
        for (unit, micros) in WRITTEN {
            if rest >= *micros {
                write!(f, "{}{unit}", rest / micros)?;
                rest %= micros;
            }
        }
        Ok(())
    }
}

enum Reason {
    NoUnit,
    UnknownUnit,
    TooLarge,
}

fn in_micros(number: Decimal, unit: &str) -> Result<u64, Reason> {
    if unit.is_empty() {
        return Err(Reason::NoUnit);
    }
    let found = UNITS.iter().find(|(names, _, _)| names.contains(&unit));
    let (_, factor, ten) = found.ok_or(Reason::UnknownUnit)?;
    number.times(*factor).and_then(|n| n.whole(Scale { ten: *ten, two: 0 })).ok_or(Reason::TooLarge)
}
