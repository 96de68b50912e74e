//! Versions as semver.org has them.

use std::cmp::Ordering;
use std::rc::Rc;

use super::{Row, arguments, failed};
use crate::budget::Budget;
use crate::value::{Evaluated, Value};

pub(super) const ROWS: &[Row] = &[
    ("semver", "string", "semver", to_semver),
    ("semver", "string, bool", "semver", to_semver),
    ("isSemver", "string", "bool", is_semver),
    ("isSemver", "string, bool", "bool", is_semver),
    ("isGreaterThan", "semver . semver", "bool", |v, _| two(v, |order| Value::Bool(order.is_gt()))),
    ("isLessThan", "semver . semver", "bool", |v, _| two(v, |order| Value::Bool(order.is_lt()))),
    ("compareTo", "semver . semver", "int", |v, _| two(v, |order| Value::Int(order as i64))),
    ("major", "semver . ", "int", |v, _| part(v, 0)),
    ("minor", "semver . ", "int", |v, _| part(v, 1)),
    ("patch", "semver . ", "int", |v, _| part(v, 2)),
];

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Semver {
    numbers: [i64; 3],
    before: Vec<Identifier>,
}

/// Numbers come before words.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Identifier {
    Number(u64),
    Word(String),
}

impl Semver {
    fn parse(text: &str) -> Option<Semver> {
        let (rest, build) =
            text.split_once('+').map_or((text, None), |(rest, build)| (rest, Some(build)));
        let (numbers, before) =
            rest.split_once('-').map_or((rest, None), |(numbers, before)| (numbers, Some(before)));
        let numbers: Vec<i64> = numbers.split('.').map(whole).collect::<Option<_>>()?;
        let before = before.map_or(Some(Vec::new()), identifiers)?;
        let fits = build.is_none_or(|build| build.split('.').all(is_word));
        if !fits {
            return None;
        }
        Some(Semver { numbers: numbers.try_into().ok()?, before })
    }
}

/// `v1.2` as `1.2.0`, and `01.02.3` as `1.2.3`.
fn normalised(text: &str) -> String {
    let text = text.strip_prefix('v').unwrap_or(text);
    let end = text.find(['-', '+']).unwrap_or(text.len());
    let (numbers, rest) = text.split_at(end);
    let mut numbers: Vec<&str> = numbers
        .split('.')
        .map(|number| match number.trim_start_matches('0') {
            "" if !number.is_empty() => "0",
            trimmed => trimmed,
        })
        .collect();
    while numbers.len() < 3 {
        numbers.push("0");
    }
    format!("{}{rest}", numbers.join("."))
}

fn whole(text: &str) -> Option<i64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    (digits && (text == "0" || !text.starts_with('0'))).then(|| text.parse().ok()).flatten()
}

fn identifiers(text: &str) -> Option<Vec<Identifier>> {
    let one = |text: &str| match text.bytes().all(|byte| byte.is_ascii_digit()) && !text.is_empty()
    {
        true => whole(text).and_then(|number| u64::try_from(number).ok()).map(Identifier::Number),
        false => is_word(text).then(|| Identifier::Word(text.to_owned())),
    };
    text.split('.').map(one).collect()
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

impl Ord for Semver {
    fn cmp(&self, other: &Semver) -> Ordering {
        // A version before a release comes before the release.
        let before = match (self.before.is_empty(), other.before.is_empty()) {
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            _ => self.before.cmp(&other.before),
        };
        self.numbers.cmp(&other.numbers).then(before)
    }
}

impl PartialOrd for Semver {
    fn partial_cmp(&self, other: &Semver) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

fn read(values: &[Value<'_>]) -> Option<Semver> {
    match values {
        [Value::String(text)] | [Value::String(text), Value::Bool(false)] => Semver::parse(text),
        [Value::String(text), Value::Bool(true)] => Semver::parse(&normalised(text)),
        _ => None,
    }
}

fn spend(values: &[Value<'_>], budget: &mut Budget) -> Result<(), crate::error::EvalError> {
    match values.first() {
        Some(Value::String(text)) => budget.make(text.len()),
        _ => Ok(()),
    }
}

fn to_semver<'a>(values: &[Value<'a>], budget: &mut Budget) -> Evaluated<'a> {
    spend(values, budget)?;
    match read(values) {
        Some(semver) => Ok(Value::Semver(Rc::new(semver))),
        None => failed("this is not a semantic version"),
    }
}

fn is_semver<'a>(values: &[Value<'a>], budget: &mut Budget) -> Evaluated<'a> {
    spend(values, budget)?;
    Ok(Value::Bool(read(values).is_some()))
}

fn two<'a>(values: &[Value<'a>], run: fn(Ordering) -> Value<'a>) -> Evaluated<'a> {
    arguments!(values, [Value::Semver(one), Value::Semver(other)]);
    Ok(run(one.cmp(other)))
}

fn part<'a>(values: &[Value<'a>], index: usize) -> Evaluated<'a> {
    arguments!(values, [Value::Semver(semver)]);
    Ok(Value::Int(semver.numbers[index]))
}
