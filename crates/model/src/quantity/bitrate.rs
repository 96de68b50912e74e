//! How much a link carries, in bits a second.

use std::fmt;
use std::str::FromStr;

use super::decimal::{Decimal, Scale};
use super::suffix::{self, WithBinary};
use super::{Error, Words, in_json};

const WORDS: Words =
    Words { what: "a bit rate", allowed: "bits a second with a unit such as 10Mbps or 1Gbit/s" };

/// Endings of a rate, and the power of two that turns them into bits; longer endings first.
const ENDINGS: &[(&str, u32)] = &[
    ("bytes/s", 3),
    ("byte/s", 3),
    ("bits/s", 0),
    ("bit/s", 0),
    ("bits", 0),
    ("bit", 0),
    ("bps", 0),
    ("Bps", 3),
    ("b/s", 0),
    ("B/s", 3),
    ("b", 0),
    ("B", 3),
    ("", 0),
];

/// A bit rate: `10Mbps`, `1G`, `10 Mbit/s`, `2.5MB/s` (bytes), or a plain number of bits a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BitRate(u64);

in_json!(BitRate, "bitrate");

impl BitRate {
    pub const ZERO: BitRate = BitRate(0);

    pub fn from_bps(bits_per_second: u64) -> BitRate {
        BitRate(bits_per_second)
    }

    pub fn bps(self) -> u64 {
        self.0
    }
}

impl FromStr for BitRate {
    type Err = Error;

    fn from_str(text: &str) -> Result<BitRate, Error> {
        let trimmed = text.trim();
        let (number, written_unit) =
            Decimal::read(trimmed).map_err(|fault| WORDS.fault(text, fault))?;
        let written = &trimmed[..trimmed.len() - written_unit.len()];
        let unit = written_unit.trim();
        let Some((prefix, ending, two)) = split_ending(unit) else {
            return Err(WORDS.unknown_unit(text, unit, meant(written, unit)));
        };
        let Some(scale) = suffix::scale(prefix) else {
            return Err(WORDS.unknown_unit(text, unit, meant(written, unit)));
        };
        let scale = Scale { ten: scale.ten, two: scale.two + two };
        // A thousandth of a bit is meant by nobody who also writes the word bit.
        if number.is_part_of_one(scale) || (prefix == "m" && !ending.is_empty()) {
            let meant = (prefix == "m").then(|| format!("{written}M{ending}"));
            return Err(WORDS.error(text, "\"m\" means thousandths", meant));
        }
        Ok(BitRate(number.whole(scale).ok_or_else(|| WORDS.too_large(text))?))
    }
}

impl fmt::Display for BitRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}bps", suffix::exact(self.0, WithBinary::No))
    }
}

fn split_ending(unit: &str) -> Option<(&str, &'static str, u32)> {
    ENDINGS
        .iter()
        .find_map(|(ending, two)| Some((unit.strip_suffix(ending)?.trim_end(), *ending, *two)))
}

/// `10mbps` and `10MBPS` mean `10Mbps`.
fn meant(written: &str, unit: &str) -> Option<String> {
    let lower = unit.to_lowercase();
    let prefix = ["bps", "bit/s", "b/s"].iter().find_map(|ending| lower.strip_suffix(ending))?;
    Some(format!("{written}{}bps", suffix::in_right_case(prefix)?))
}
