//! Texts and bytes, regular expressions, and `format`. Places are counted in letters, not bytes.

use std::fmt::Write as _;
use std::rc::Rc;

use regex::Regex;

use super::{Row, arguments, failed};
use crate::budget::Budget;
use crate::error::EvalError;
use crate::value::{Evaluated, List, Map, Value};

pub(super) const ROWS: &[Row] = &[
    ("size", "string", "int", size),
    ("size", "bytes", "int", size),
    ("size", "list(A)", "int", size),
    ("size", "map(A, B)", "int", size),
    ("size", "string . ", "int", size),
    ("size", "bytes . ", "int", size),
    ("size", "list(A) . ", "int", size),
    ("size", "map(A, B) . ", "int", size),
    ("_+_", "string, string", "string", join_two),
    ("_+_", "bytes, bytes", "bytes", join_two),
    ("contains", "string . string", "bool", |v, b| test(v, b, |text, part| text.contains(part))),
    ("startsWith", "string . string", "bool", |v, b| {
        test(v, b, |text, part| text.starts_with(part))
    }),
    ("endsWith", "string . string", "bool", |v, b| test(v, b, |text, part| text.ends_with(part))),
    ("matches", "string . string", "bool", matches),
    ("matches", "string, string", "bool", matches),
    ("find", "string . string", "string", find),
    ("findAll", "string . string", "list(string)", find_all),
    ("findAll", "string . string, int", "list(string)", find_all),
    ("charAt", "string . int", "string", char_at),
    ("indexOf", "string . string", "int", |v, b| index_of(v, b, Side::First)),
    ("indexOf", "string . string, int", "int", |v, b| index_of(v, b, Side::First)),
    ("lastIndexOf", "string . string", "int", |v, b| index_of(v, b, Side::Last)),
    ("lastIndexOf", "string . string, int", "int", |v, b| index_of(v, b, Side::Last)),
    ("substring", "string . int", "string", substring),
    ("substring", "string . int, int", "string", substring),
    ("lowerAscii", "string . ", "string", |v, b| changed(v, b, str::to_ascii_lowercase)),
    ("upperAscii", "string . ", "string", |v, b| changed(v, b, str::to_ascii_uppercase)),
    ("trim", "string . ", "string", |v, b| changed(v, b, |text| text.trim().to_owned())),
    ("reverse", "string . ", "string", |v, b| changed(v, b, |text| text.chars().rev().collect())),
    ("replace", "string . string, string", "string", replace),
    ("replace", "string . string, string, int", "string", replace),
    ("split", "string . string", "list(string)", split),
    ("split", "string . string, int", "list(string)", split),
    ("join", "list(string) . ", "string", join),
    ("join", "list(string) . string", "string", join),
    ("strings.quote", "string", "string", |v, b| changed(v, b, quoted)),
    ("format", "string . list(dyn)", "string", format),
    ("string", "string", "string", to_string),
    ("string", "int", "string", to_string),
    ("string", "uint", "string", to_string),
    ("string", "double", "string", to_string),
    ("string", "bool", "string", to_string),
    ("string", "bytes", "string", to_string),
    ("string", "timestamp", "string", to_string),
    ("string", "duration", "string", to_string),
    ("string", "ip", "string", to_string),
    ("string", "cidr", "string", to_string),
    ("bytes", "string", "bytes", to_bytes),
    ("bytes", "bytes", "bytes", to_bytes),
];

#[derive(Clone, Copy, PartialEq)]
enum Side {
    First,
    Last,
}

fn size<'a>(values: &[Value<'a>], budget: &mut Budget) -> Evaluated<'a> {
    let size = match &values[0] {
        Value::String(text) => {
            budget.spend_on_bytes(text.len())?;
            text.chars().count()
        }
        Value::Bytes(bytes) => bytes.len(),
        Value::List(list) => list.len(),
        Value::Map(map) => map.len(),
        _ => return failed("unexpected arguments"),
    };
    Ok(Value::Int(i64::try_from(size).unwrap_or(i64::MAX)))
}

fn join_two<'a>(values: &[Value<'a>], budget: &mut Budget) -> Evaluated<'a> {
    match values {
        [Value::String(one), Value::String(other)] => {
            budget.make(one.len() + other.len())?;
            Ok(Value::text([&**one, &**other].concat()))
        }
        [Value::Bytes(one), Value::Bytes(other)] => {
            budget.make(one.len() + other.len())?;
            Ok(Value::Bytes([&**one, &**other].concat().into()))
        }
        _ => failed("unexpected arguments"),
    }
}

fn test<'a>(
    values: &[Value<'a>],
    budget: &mut Budget,
    test: fn(&str, &str) -> bool,
) -> Evaluated<'a> {
    arguments!(values, [Value::String(text), Value::String(part)]);
    budget.spend_on_bytes(text.len() + part.len())?;
    Ok(Value::Bool(test(text, part)))
}

/// A regular expression goes over a text once; how much it does at each letter grows with its own length.
fn regex(text: &str, pattern: &str, budget: &mut Budget) -> Result<Rc<Regex>, EvalError> {
    budget.spend(text.len().div_ceil(10).saturating_mul(pattern.len().div_ceil(4).max(1)))?;
    budget.regex(pattern)
}

fn matches<'a>(values: &[Value<'a>], budget: &mut Budget) -> Evaluated<'a> {
    arguments!(values, [Value::String(text), Value::String(pattern)]);
    Ok(Value::Bool(regex(text, pattern, budget)?.is_match(text)))
}

fn find<'a>(values: &[Value<'a>], budget: &mut Budget) -> Evaluated<'a> {
    arguments!(values, [Value::String(text), Value::String(pattern)]);
    let regex = regex(text, pattern, budget)?;
    let found = regex.find(text).map_or("", |found| found.as_str());
    budget.make(found.len())?;
    Ok(Value::text(found))
}

fn find_all<'a>(values: &[Value<'a>], budget: &mut Budget) -> Evaluated<'a> {
    let (text, pattern, most) = match values {
        [Value::String(text), Value::String(pattern)] => (text, pattern, -1),
        [Value::String(text), Value::String(pattern), Value::Int(most)] => (text, pattern, *most),
        _ => return failed("unexpected arguments"),
    };
    let regex = regex(text, pattern, budget)?;
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let mut all = Vec::new();
    for found in regex.find_iter(text).take(most) {
        budget.make(found.len() + size_of::<Value<'_>>())?;
        all.push(Value::text(found.as_str()));
    }
    Ok(Value::list(all))
}

fn letters(text: &str, budget: &mut Budget) -> Result<Vec<char>, EvalError> {
    budget.make(text.len() * size_of::<char>())?;
    Ok(text.chars().collect())
}

/// A place in a text, or at its end.
fn place(index: i64, length: usize) -> Result<usize, EvalError> {
    let found = usize::try_from(index).ok().filter(|index| *index <= length);
    found.ok_or_else(|| EvalError::failed(format!("index out of range: {index}")))
}

fn char_at<'a>(values: &[Value<'a>], budget: &mut Budget) -> Evaluated<'a> {
    arguments!(values, [Value::String(text), Value::Int(index)]);
    let letters = letters(text, budget)?;
    let place = place(*index, letters.len())?;
    Ok(Value::text(letters.get(place).map(char::to_string).unwrap_or_default()))
}

fn index_of<'a>(values: &[Value<'a>], budget: &mut Budget, side: Side) -> Evaluated<'a> {
    let (text, part, from) = match values {
        [Value::String(text), Value::String(part)] => (text, part, None),
        [Value::String(text), Value::String(part), Value::Int(from)] => (text, part, Some(*from)),
        _ => return failed("unexpected arguments"),
    };
    let (text, part) = (letters(text, budget)?, letters(part, budget)?);
    budget.spend((text.len() / 10).saturating_mul(part.len().max(1)))?;
    let from = from.map(|from| place(from, text.len())).transpose()?;
    let last = text.len().checked_sub(part.len());
    let found = last.and_then(|last| match side {
        Side::First => (from.unwrap_or(0)..=last).find(|at| text[*at..].starts_with(&part)),
        Side::Last => {
            (0..=last.min(from.unwrap_or(last))).rev().find(|at| text[*at..].starts_with(&part))
        }
    });
    Ok(Value::Int(found.map_or(-1, |at| i64::try_from(at).unwrap_or(i64::MAX))))
}

fn substring<'a>(values: &[Value<'a>], budget: &mut Budget) -> Evaluated<'a> {
    let (text, from, to) = match values {
        [Value::String(text), Value::Int(from)] => (text, from, None),
        [Value::String(text), Value::Int(from), Value::Int(to)] => (text, from, Some(*to)),
        _ => return failed("unexpected arguments"),
    };
    let letters = letters(text, budget)?;
    let from = place(*from, letters.len())?;
    let to = to.map_or(Ok(letters.len()), |to| place(to, letters.len()))?;
    if from > to {
        return failed(format!("invalid substring range. start: {from}, end: {to}"));
    }
    Ok(Value::text(letters[from..to].iter().collect::<String>()))
}

fn changed<'a>(
    values: &[Value<'a>],
    budget: &mut Budget,
    change: fn(&str) -> String,
) -> Evaluated<'a> {
    arguments!(values, [Value::String(text)]);
    budget.make(text.len())?;
    Ok(Value::text(change(text)))
}

fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '\u{7}' => quoted.push_str("\\a"),
            '\u{8}' => quoted.push_str("\\b"),
            '\u{c}' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\u{b}' => quoted.push_str("\\v"),
            '\\' => quoted.push_str("\\\\"),
            '"' => quoted.push_str("\\\""),
            letter => quoted.push(letter),
        }
    }
    quoted.push('"');
    quoted
}

fn replace<'a>(values: &[Value<'a>], budget: &mut Budget) -> Evaluated<'a> {
    let (text, old, new, most) = match values {
        [Value::String(text), Value::String(old), Value::String(new)] => (text, old, new, -1),
        [Value::String(text), Value::String(old), Value::String(new), Value::Int(most)] => {
            (text, old, new, *most)
        }
        _ => return failed("unexpected arguments"),
    };
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    // Between any two letters there is nothing to be replaced, if nothing is what is looked for.
    let places = if old.is_empty() { text.len() + 1 } else { text.len() / old.len() };
    budget.make(text.len().saturating_add(places.min(most).saturating_mul(new.len())))?;
    Ok(Value::text(text.replacen(&**old, new, most)))
}

fn split<'a>(values: &[Value<'a>], budget: &mut Budget) -> Evaluated<'a> {
    let (text, by, most) = match values {
        [Value::String(text), Value::String(by)] => (text, by, -1),
        [Value::String(text), Value::String(by), Value::Int(most)] => (text, by, *most),
        _ => return failed("unexpected arguments"),
    };
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let parts = if by.is_empty() { text.len() } else { text.len() / by.len() + 1 };
    budget.make(text.len() + parts.min(most).saturating_mul(size_of::<Value<'_>>()))?;
    let parts: Vec<Value<'_>> = match (most, by.is_empty()) {
        (0, _) => Vec::new(),
        (_, true) => letter_by_letter(text, most),
        (_, false) => text.splitn(most, &**by).map(Value::text).collect(),
    };
    Ok(Value::list(parts))
}

fn letter_by_letter<'a>(text: &str, most: usize) -> Vec<Value<'a>> {
    let mut rest = text.chars();
    let mut parts = Vec::new();
    while parts.len() + 1 < most
        && let Some(letter) = rest.next()
    {
        parts.push(Value::text(letter.to_string()));
    }
    if !rest.as_str().is_empty() {
        parts.push(Value::text(rest.as_str()));
    }
    parts
}

fn join<'a>(values: &[Value<'a>], budget: &mut Budget) -> Evaluated<'a> {
    let (list, by) = match values {
        [Value::List(list)] => (list, ""),
        [Value::List(list), Value::String(by)] => (list, &**by),
        _ => return failed("unexpected arguments"),
    };
    let mut joined = String::new();
    for (index, part) in list.values(budget)?.iter().enumerate() {
        let Value::String(part) = part else {
            return failed("no such overload: join of other than texts");
        };
        budget.make(part.len() + by.len())?;
        if index > 0 {
            joined.push_str(by);
        }
        joined.push_str(part);
    }
    Ok(Value::text(joined))
}

fn to_string<'a>(values: &[Value<'a>], budget: &mut Budget) -> Evaluated<'a> {
    Ok(match &values[0] {
        Value::String(text) => Value::String(text.clone()),
        Value::Bytes(bytes) => {
            budget.make(bytes.len())?;
            match std::str::from_utf8(bytes) {
                Ok(text) => Value::text(text),
                Err(_) => return failed("invalid UTF-8 in bytes, cannot convert to string"),
            }
        }
        other => Value::text(shown(other, budget)?),
    })
}

fn to_bytes<'a>(values: &[Value<'a>], budget: &mut Budget) -> Evaluated<'a> {
    Ok(match &values[0] {
        Value::String(text) => {
            budget.make(text.len())?;
            Value::Bytes(text.as_bytes().into())
        }
        other => other.clone(),
    })
}

/// A value as a text: what `string` gives, and `%s`.
fn shown(value: &Value<'_>, budget: &mut Budget) -> Result<String, EvalError> {
    budget.spend(1)?;
    let text = match value {
        Value::Null => "null".to_owned(),
        Value::Bool(truth) => truth.to_string(),
        Value::Int(number) => number.to_string(),
        Value::Uint(number) => number.to_string(),
        Value::Double(number) => shown_double(*number),
        Value::String(text) => (**text).to_owned(),
        Value::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::Timestamp(time) => time.to_string(),
        Value::Duration(duration) => {
            let seconds = duration.as_nanos() / 1_000_000_000;
            let rest = (duration.as_nanos() % 1_000_000_000).abs();
            let rest = format!("{rest:09}");
            let rest = rest.trim_end_matches('0');
            let sign = if duration.is_negative() && seconds == 0 { "-" } else { "" };
            match rest {
                "" => format!("{seconds}s"),
                rest => format!("{sign}{seconds}.{rest}s"),
            }
        }
        Value::List(list) => shown_list(list, budget)?,
        Value::Map(map) => shown_map(map, budget)?,
        Value::Type(name) => (*name).to_owned(),
        Value::Ip(ip) => ip.to_string(),
        Value::Cidr(cidr) => cidr.to_string(),
        Value::Optional(_)
        | Value::Quantity(_)
        | Value::Url(_)
        | Value::Format(_)
        | Value::Semver(_) => {
            let name = value.type_name();
            return Err(EvalError::failed(format!("no such overload: a {name} has no text")));
        }
    };
    budget.make(text.len())?;
    Ok(text)
}

fn shown_double(number: f64) -> String {
    match number {
        number if number.is_nan() => "NaN".to_owned(),
        number if number.is_infinite() => if number > 0.0 { "+Inf" } else { "-Inf" }.to_owned(),
        number => number.to_string(),
    }
}

fn shown_list(list: &List<'_>, budget: &mut Budget) -> Result<String, EvalError> {
    let values = list.values(budget)?;
    let parts: Vec<String> =
        values.iter().map(|value| shown(value, budget)).collect::<Result<_, _>>()?;
    Ok(format!("[{}]", parts.join(", ")))
}

fn shown_map(map: &Map<'_>, budget: &mut Budget) -> Result<String, EvalError> {
    let mut parts = Vec::new();
    for key in map.keys() {
        let value = map.get(&key, budget)?.unwrap_or(Value::Null);
        parts.push(format!("{}: {}", shown(&key, budget)?, shown(&value, budget)?));
    }
    parts.sort();
    Ok(format!("{{{}}}", parts.join(", ")))
}

fn format<'a>(values: &[Value<'a>], budget: &mut Budget) -> Evaluated<'a> {
    arguments!(values, [Value::String(template), Value::List(list)]);
    budget.make(template.len())?;
    let values = list.values(budget)?;
    let mut values = values.iter();
    let mut result = String::new();
    let mut rest: &str = template;
    while let Some(at) = rest.find('%') {
        result.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('%') {
            result.push('%');
            rest = after;
            continue;
        }
        let digits = rest.strip_prefix('.').map(|digits| {
            let length = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
            (digits[..length].parse::<usize>().unwrap_or(0), length + 1)
        });
        let (precision, length) =
            digits.map_or((None, 0), |(digits, length)| (Some(digits), length));
        rest = &rest[length..];
        let Some(verb) = rest.chars().next() else {
            return failed("unexpected end of format string");
        };
        rest = &rest[verb.len_utf8()..];
        let Some(value) = values.next() else {
            return failed("index out of range: the format string has more verbs than arguments");
        };
        if precision.is_some_and(|precision| precision > 1000) {
            return failed("precision too high in format string");
        }
        let text = formatted(verb, precision, value, budget)?;
        budget.make(text.len())?;
        result.push_str(&text);
    }
    result.push_str(rest);
    Ok(Value::text(result))
}

fn formatted(
    verb: char,
    precision: Option<usize>,
    value: &Value<'_>,
    budget: &mut Budget,
) -> Result<String, EvalError> {
    let wrong = || {
        let name = value.type_name();
        EvalError::failed(format!("error during formatting: %{verb} takes no {name}"))
    };
    #[expect(clippy::cast_precision_loss, reason = "a double is what the verb shows")]
    let double = || match value {
        Value::Double(number) => Ok(*number),
        Value::Int(number) => Ok(*number as f64),
        Value::Uint(number) => Ok(*number as f64),
        _ => Err(wrong()),
    };
    match (verb, value) {
        ('s', value) => shown(value, budget),
        ('d', Value::Int(number)) => Ok(number.to_string()),
        ('d', Value::Uint(number)) => Ok(number.to_string()),
        ('f', _) => Ok(format!("{:.*}", precision.unwrap_or(6), double()?)),
        ('e', _) => Ok(exponent(precision.unwrap_or(6), double()?)),
        ('b', Value::Bool(truth)) => Ok(u8::from(*truth).to_string()),
        ('b', value) => radix(value, |number| format!("{number:b}")).ok_or_else(wrong),
        ('o', value) => radix(value, |number| format!("{number:o}")).ok_or_else(wrong),
        ('x' | 'X', Value::String(text)) => Ok(hex(text.as_bytes(), verb)),
        ('x' | 'X', Value::Bytes(bytes)) => Ok(hex(bytes, verb)),
        ('x', value) => radix(value, |number| format!("{number:x}")).ok_or_else(wrong),
        ('X', value) => radix(value, |number| format!("{number:X}")).ok_or_else(wrong),
        (verb, _) if !"dfeboxXs".contains(verb) => {
            Err(EvalError::failed(format!("unrecognized formatting clause \"{verb}\"")))
        }
        (_, _) => Err(wrong()),
    }
}

fn radix(value: &Value<'_>, write: fn(u64) -> String) -> Option<String> {
    match value {
        Value::Int(number) if *number < 0 => Some(format!("-{}", write(number.unsigned_abs()))),
        Value::Int(number) => Some(write(number.unsigned_abs())),
        Value::Uint(number) => Some(write(*number)),
        _ => None,
    }
}

fn hex(bytes: &[u8], verb: char) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = match verb {
            'x' => write!(text, "{byte:02x}"),
            _ => write!(text, "{byte:02X}"),
        };
        text
    })
}

/// `1.052000×10⁰³`, as the version of the library that Kubernetes has writes it.
fn exponent(precision: usize, number: f64) -> String {
    let text = format!("{number:.precision$e}");
    let Some((mantissa, exponent)) = text.split_once('e') else { return text };
    let (sign, digits) = match exponent.strip_prefix('-') {
        Some(digits) => ("⁻", digits),
        None => ("", exponent),
    };
    let raised =
        |digit: char| digit.to_digit(10).and_then(|digit| "⁰¹²³⁴⁵⁶⁷⁸⁹".chars().nth(digit as usize));
    let digits: String = format!("{digits:0>2}").chars().filter_map(raised).collect();
    format!("{mantissa}×10{sign}{digits}")
}
