//! Processor time, in thousandths of a core.

use std::fmt;
use std::str::FromStr;

use super::decimal::{Decimal, Scale};
use super::{Error, Words, in_json, suffix};

const WORDS: Words = Words {
    what: "an amount of cpu",
    allowed: "cores such as 0.5 or 2, or thousandths of a core such as 500m",
};

/// What people write after a number of cores.
const CORES: &[&str] = &["vcpus", "vcpu", "cpus", "cpu", "cores", "core"];

/// Processor time: `0.5`, `"2"`, `"500m"`. Parts of a thousandth are rounded up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cpu(u64);

in_json!(Cpu, "cpu");

impl Cpu {
    pub const ZERO: Cpu = Cpu(0);

    pub fn from_millis(millis: u64) -> Cpu {
        Cpu(millis)
    }

    pub fn millis(self) -> u64 {
        self.0
    }
}

impl FromStr for Cpu {
    type Err = Error;

    fn from_str(text: &str) -> Result<Cpu, Error> {
        let trimmed = text.trim();
        let (number, written_unit) =
            Decimal::read(trimmed).map_err(|fault| WORDS.fault(text, fault))?;
        let written = &trimmed[..trimmed.len() - written_unit.len()];
        let unit = without_cores(written_unit.trim());
        let Some(scale) = suffix::scale(unit) else {
            let meant = match unit {
                "millis" | "milli" | "mi" | "mC" => Some("m"),
                other => suffix::in_right_case(other),
            };
            return Err(WORDS.unknown_unit(
                text,
                unit,
                meant.map(|unit| format!("{written}{unit}")),
            ));
        };
        let millis = number.whole(Scale { ten: scale.ten + 3, two: scale.two });
        Ok(Cpu(millis.ok_or_else(|| WORDS.too_large(text))?))
    }
}

impl fmt::Display for Cpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.is_multiple_of(1000) {
            true => write!(f, "{}", self.0 / 1000),
            false => write!(f, "{}m", self.0),
        }
    }
}

fn without_cores(unit: &str) -> &str {
    CORES.iter().find_map(|word| unit.strip_suffix(word)).map_or(unit, str::trim_end)
}
