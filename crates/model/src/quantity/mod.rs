//! Amounts as people write them in files: processor time, bytes, durations, bit rates, levels,
//! architectures. A value that exists is valid; reading one says what was found, what is allowed
//! and what was probably meant. Start with [`Cpu`]; the others are made like it.

mod arch;
mod bitrate;
mod bytes;
mod cpu;
mod decimal;
mod duration;
mod level;
mod suffix;

use std::fmt;
use std::str::FromStr;

use serde_json::Value;

use crate::invalid::shown;

pub use arch::Arch;
pub use bitrate::BitRate;
pub use bytes::Bytes;
pub use cpu::Cpu;
pub use duration::Duration;
pub use level::{LEVEL_HIGH, LEVEL_LOW, LEVEL_MEDIUM, Level};

/// Why a text is not the quantity that it should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{found} is not {what}{why}; write {allowed}{suggestion}")]
pub struct Error {
    /// What was read, quoted and cut to a readable length.
    pub found: String,
    /// `an amount of memory`.
    what: &'static str,
    /// `: unknown unit "Q"`, or nothing.
    why: String,
    /// `bytes with a suffix such as 512Mi or 2G`.
    allowed: &'static str,
    /// ` (did you mean "512Mi"?)`, or nothing.
    suggestion: String,
}

/// What a quantity calls itself in messages.
#[derive(Clone, Copy, Debug)]
struct Words {
    what: &'static str,
    allowed: &'static str,
}

impl Words {
    fn error(self, found: &str, why: impl fmt::Display, meant: Option<String>) -> Error {
        let why = why.to_string();
        Error {
            found: shown(found),
            what: self.what,
            why: if why.is_empty() { why } else { format!(": {why}") },
            allowed: self.allowed,
            suggestion: match meant {
                Some(meant) => format!(" (did you mean {meant:?}?)"),
                None => String::new(),
            },
        }
    }

    fn fault(self, found: &str, fault: decimal::Fault) -> Error {
        let why = match fault {
            decimal::Fault::Missing if found.is_empty() => "it is empty",
            decimal::Fault::Missing => "it does not begin with a number",
            decimal::Fault::TooLong => "it is too long",
            decimal::Fault::Negative => "it is negative",
            decimal::Fault::TooPrecise => "it has too many digits",
        };
        self.error(found, why, None)
    }

    fn too_large(self, found: &str) -> Error {
        self.error(found, "it is too large", None)
    }

    fn unknown_unit(self, found: &str, unit: &str, meant: Option<String>) -> Error {
        let unit = shown(unit);
        self.error(found, format_args!("unknown unit {unit}"), meant)
    }
}

/// Reads a quantity from a field of an object, where numbers and strings both may stand.
pub fn from_json<Q: FromStr<Err = Error>>(value: &Value) -> Result<Q, Error> {
    match value {
        Value::String(text) => text.parse(),
        Value::Number(number) => number.to_string().parse(),
        Value::Null => "null".parse(),
        Value::Bool(value) => value.to_string().parse(),
        Value::Array(_) => "[…]".parse(),
        Value::Object(_) => "{…}".parse(),
    }
}

/// Gives a quantity its place in JSON: read from a number or a string, written as a string, and
/// in the schema a field without a type whose `format` names the reader to use.
macro_rules! in_json {
    ($quantity:ident, $format:literal) => {
        in_json!($quantity, $format, {
            "x-kubernetes-preserve-unknown-fields": true,
            "format": $format,
        });
    };
    ($quantity:ident, $format:literal, $schema:tt) => {
        impl serde::Serialize for $quantity {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $quantity {
            fn deserialize<D: serde::Deserializer<'de>>(reader: D) -> Result<$quantity, D::Error> {
                reader.deserialize_any($crate::quantity::Reader(std::marker::PhantomData))
            }
        }

        impl schemars::JsonSchema for $quantity {
            fn inline_schema() -> bool {
                true
            }
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($quantity).into()
            }
            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!($schema)
            }
        }
    };
}
use in_json;

struct Reader<Q>(std::marker::PhantomData<Q>);

impl<Q: FromStr<Err = Error>> serde::de::Visitor<'_> for Reader<Q> {
    type Value = Q;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a quantity (a number or a string)")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Q, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<Q, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<Q, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<Q, E> {
        // With an exponent: the shortest text that means this very number, however large.
        self.visit_str(&format!("{number:e}"))
    }
}

#[cfg(test)]
mod tests;
