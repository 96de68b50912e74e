//! Memory, storage and data, in bytes.

use std::fmt;
use std::str::FromStr;

use super::decimal::Decimal;
use super::suffix::{self, WithBinary};
use super::{Error, Words, in_json};

const WORDS: Words = Words {
    what: "an amount of bytes",
    allowed: "bytes with a suffix such as 512Mi (binary) or 200M (decimal)",
};

/// An amount of memory, storage or data: `200Mi`, `2G`, `1e9`, and the sloppy `200Mb`, `512MB`,
/// `200MiB`. Parts of a byte are rounded up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(u64);

in_json!(Bytes, "bytes");

impl Bytes {
    pub const ZERO: Bytes = Bytes(0);

    pub fn new(bytes: u64) -> Bytes {
        Bytes(bytes)
    }

    pub fn get(self) -> u64 {
        self.0
    }
}

impl FromStr for Bytes {
    type Err = Error;

    fn from_str(text: &str) -> Result<Bytes, Error> {
        let trimmed = text.trim();
        let (number, written_unit) =
            Decimal::read(trimmed).map_err(|fault| WORDS.fault(text, fault))?;
        // In a count of bytes a `b` can only mean bytes: nobody orders memory in bits.
        let unit = written_unit.trim();
        let unit = unit.strip_suffix(['B', 'b']).unwrap_or(unit);
        let written = &trimmed[..trimmed.len() - written_unit.len()];
        let Some(scale) = suffix::scale(unit) else {
            let meant = suffix::in_right_case(unit).map(|unit| format!("{written}{unit}"));
            return Err(WORDS.unknown_unit(text, written_unit.trim(), meant));
        };
        if number.is_part_of_one(scale) {
            let meant = (unit == "m").then(|| format!("{written}M"));
            return Err(WORDS.error(text, "it is less than one byte", meant));
        }
        Ok(Bytes(number.whole(scale).ok_or_else(|| WORDS.too_large(text))?))
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&suffix::exact(self.0, WithBinary::Yes))
    }
}
