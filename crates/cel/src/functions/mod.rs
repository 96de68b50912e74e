//! Every function that a rule may call: a row each, with the types that it takes and gives. The checker reads the
//! types, the evaluator calls the function; neither knows one of them by name.

mod lists;
mod names;
mod net;
mod numbers;
mod quantity;
mod semver;
mod strings;
mod time;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use crate::budget::Budget;
use crate::error::EvalError;
use crate::types::Type;
use crate::value::{Evaluated, Value};

pub(crate) use names::Format;
pub(crate) use net::{Cidr, Url};
pub(crate) use quantity::Quantity;
pub(crate) use semver::Semver;
pub(crate) use time::{parse_duration, parse_timestamp};

pub(crate) type Run = for<'a> fn(&[Value<'a>], &mut Budget) -> Evaluated<'a>;

/// The name, the types that it takes (before the dot what it is called of), the type that it gives.
pub(crate) type Row = (&'static str, &'static str, &'static str, Run);

#[derive(Debug)]
pub(crate) struct Overload {
    /// Of a member, what it is called of comes first.
    pub(crate) arguments: Vec<Type>,
    pub(crate) result: Type,
    pub(crate) run: Run,
}

/// The functions of one name: those that are called of something, and the others.
#[derive(Debug, Default)]
struct Named {
    members: Vec<Overload>,
    others: Vec<Overload>,
}

static FUNCTIONS: LazyLock<BTreeMap<&'static str, Named>> = LazyLock::new(|| {
    let tables = [
        numbers::ROWS,
        strings::ROWS,
        time::ROWS,
        lists::ROWS,
        net::ROWS,
        quantity::ROWS,
        semver::ROWS,
        names::ROWS,
    ];
    let mut functions: BTreeMap<&'static str, Named> = BTreeMap::new();
    for (name, takes, gives, run) in tables.into_iter().flatten() {
        let (receiver, rest) = match takes.split_once(" . ") {
            Some((receiver, rest)) => (Some(receiver), rest),
            None => (None, *takes),
        };
        let arguments = receiver.into_iter().chain(list_of(rest)).map(type_of).collect();
        let overload = Overload { arguments, result: type_of(gives), run: *run };
        let named = functions.entry(name).or_default();
        let overloads = if receiver.is_some() { &mut named.members } else { &mut named.others };
        overloads.push(overload);
    }
    functions
});

pub(crate) fn overloads(name: &str, is_member: bool) -> &'static [Overload] {
    let functions: &'static BTreeMap<&'static str, Named> = &FUNCTIONS;
    match functions.get(name) {
        Some(named) if is_member => &named.members,
        Some(named) => &named.others,
        None => &[],
    }
}

/// Whether `sets.contains` and its like is a function, and no field of something called `sets`.
pub(crate) fn is_qualified(space: &str, name: &str) -> bool {
    const SPACES: &[&str] = &["sets", "strings", "optional", "format", "ip"];
    SPACES.contains(&space) && !overloads(&format!("{space}.{name}"), false).is_empty()
}

/// The names of types as values.
pub(crate) fn type_value(name: &str) -> Option<&'static str> {
    const NAMES: &[(&str, &str)] = &[
        ("bool", "bool"),
        ("int", "int"),
        ("uint", "uint"),
        ("double", "double"),
        ("string", "string"),
        ("bytes", "bytes"),
        ("list", "list"),
        ("map", "map"),
        ("type", "type"),
        ("null_type", "null_type"),
    ];
    NAMES.iter().find(|(known, _)| *known == name).map(|(_, type_)| *type_)
}

/// The types between commas that are in no brackets.
fn list_of(text: &'static str) -> Vec<&'static str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0, 0);
    for (at, letter) in text.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(text[start..at].trim());
                start = at + 1;
            }
            _ => (),
        }
    }
    let last = text[start..].trim();
    if !last.is_empty() {
        parts.push(last);
    }
    parts
}

fn type_of(text: &'static str) -> Type {
    let inner = |prefix: &str| text.strip_prefix(prefix)?.strip_suffix(')');
    if let Some(of) = inner("list(") {
        return Type::list(type_of(of));
    }
    if let Some(of) = inner("optional(") {
        return Type::optional(type_of(of));
    }
    if let Some(of) = inner("map(") {
        let parts = list_of(of);
        return Type::map(type_of(parts[0]), type_of(parts[1]));
    }
    match text {
        "bool" => Type::Bool,
        "int" => Type::Int,
        "uint" => Type::Uint,
        "double" => Type::Double,
        "string" => Type::String,
        "bytes" => Type::Bytes,
        "timestamp" => Type::Timestamp,
        "duration" => Type::Duration,
        "quantity" => Type::Quantity,
        "url" => Type::Url,
        "ip" => Type::Ip,
        "cidr" => Type::Cidr,
        "format" => Type::Format,
        "semver" => Type::Semver,
        "type" => Type::Type,
        "dyn" => Type::Dyn,
        "A" => Type::Param(0),
        "B" => Type::Param(1),
        other => unreachable!("the tables name no type {other}"),
    }
}

pub(crate) fn failed<'a>(message: impl Into<String>) -> Evaluated<'a> {
    Err(EvalError::failed(message))
}

/// The evaluator has looked at the types of the arguments.
macro_rules! arguments {
    ($values:expr, [$($pattern:pat),* $(,)?]) => {
        let [$($pattern),*] = $values else {
            return Err(crate::error::EvalError::NoOverload("unexpected arguments".to_owned()));
        };
    };
}
pub(crate) use arguments;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_of_the_tables_can_be_read() {
        assert!(FUNCTIONS.len() > 100, "{} functions", FUNCTIONS.len());
        assert_eq!(overloads("size", true).len(), 4);
        assert!(overloads("sizes", true).is_empty());
    }
}
