//! `format.dns1123Label().validate(text)`: the forms of names that Kubernetes has.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use super::time::parse_timestamp;
use super::{Row, arguments};
use crate::budget::Budget;
use crate::value::{Evaluated, Value};

#[derive(Debug)]
pub(crate) struct Format {
    pub(crate) name: &'static str,
    /// What is wrong with a text.
    problem: fn(&str) -> Option<String>,
}

macro_rules! formats {
    ($($name:literal: $problem:expr;)*) => {
        const FORMATS: &[Format] = &[$(Format { name: $name, problem: $problem }),*];

        pub(super) const ROWS: &[Row] = &[
            $((concat!("format.", $name), "", "format", |_, _| Ok(named($name))),)*
            ("format.named", "string", "optional(format)", by_name),
            ("validate", "format . string", "optional(list(string))", validate),
        ];
    };
}

formats! {
    "dns1123Label": |text| label(text, 63, Start::LetterOrDigit);
    "dns1123Subdomain": subdomain;
    "dns1035Label": |text| label(text, 63, Start::Letter);
    "dns1123LabelPrefix": |text| label(&unfinished(text), 63, Start::LetterOrDigit);
    "dns1123SubdomainPrefix": |text| subdomain(&unfinished(text));
    "dns1035LabelPrefix": |text| label(&unfinished(text), 63, Start::Letter);
    "qualifiedName": qualified;
    "labelValue": |text| if text.is_empty() { None } else { word(text, 63) };
    "uri": |text| match super::net::is_uri(text) {
        true => None,
        false => Some("parse: invalid URI for request".to_owned()),
    };
    "uuid": |text| unless(is_uuid(text), "does not match the UUID format");
    "byte": |text| unless(BASE64_STANDARD.decode(text).is_ok(), "invalid base64");
    "date": |text| unless(text.len() == 10 && parse_timestamp(text).is_ok(), "invalid date");
    "datetime": |text| unless(text.len() > 10 && parse_timestamp(text).is_ok(), "invalid datetime");
}

#[derive(Clone, Copy, PartialEq)]
enum Start {
    Letter,
    LetterOrDigit,
}

fn named<'a>(name: &str) -> Value<'a> {
    let found = FORMATS.iter().find(|format| format.name == name);
    found.map_or(Value::Null, Value::Format)
}

fn by_name<'a>(values: &[Value<'a>], _: &mut Budget) -> Evaluated<'a> {
    arguments!(values, [Value::String(name)]);
    let found = FORMATS.iter().find(|format| *format.name == **name);
    Ok(found.map_or(Value::Optional(None), |format| Value::some(Value::Format(format))))
}

fn validate<'a>(values: &[Value<'a>], budget: &mut Budget) -> Evaluated<'a> {
    arguments!(values, [Value::Format(format), Value::String(text)]);
    budget.make(text.len())?;
    Ok(match (format.problem)(text) {
        None => Value::Optional(None),
        Some(problem) => Value::some(Value::list(vec![Value::text(problem)])),
    })
}

fn unless(fits: bool, problem: &str) -> Option<String> {
    (!fits).then(|| problem.to_owned())
}

/// A prefix may end with a dash, which a name may not: it is looked at as if something else stood there.
fn unfinished(text: &str) -> String {
    let mut text = text.to_owned();
    if text.len() > 1 && text.is_ascii() && text.ends_with('-') {
        text.truncate(text.len() - 2);
        text.push('a');
    }
    text
}

fn label(text: &str, most: usize, start: Start) -> Option<String> {
    let small = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = text.as_bytes();
    if bytes.len() > most {
        return Some(format!("must be no more than {most} characters"));
    }
    let begins = bytes.first().is_some_and(|first| match start {
        Start::Letter => first.is_ascii_lowercase(),
        Start::LetterOrDigit => small(*first),
    });
    let ends = bytes.last().is_some_and(|last| small(*last));
    let fits = begins && ends && bytes.iter().all(|byte| small(*byte) || *byte == b'-');
    unless(
        fits,
        match start {
            Start::Letter => {
                "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an \
             alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex \
             used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
            }
            Start::LetterOrDigit => {
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must \
             start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for \
             validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
            }
        },
    )
}

fn subdomain(text: &str) -> Option<String> {
    if text.len() > 253 {
        return Some("must be no more than 253 characters".to_owned());
    }
    let fits = text.split('.').all(|part| label(part, 253, Start::LetterOrDigit).is_none());
    unless(
        fits,
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and \
         must start and end with an alphanumeric character",
    )
}

fn word(text: &str, most: usize) -> Option<String> {
    let bytes = text.as_bytes();
    if bytes.len() > most {
        return Some(format!("must be no more than {most} characters"));
    }
    let ends = [bytes.first(), bytes.last()];
    let fits = ends.iter().all(|end| end.is_some_and(u8::is_ascii_alphanumeric))
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte));
    unless(
        fits,
        "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
         alphanumeric character",
    )
}

fn qualified(text: &str) -> Option<String> {
    match text.split_once('/') {
        Some(("", _)) => Some("prefix part must be non-empty".to_owned()),
        Some((prefix, name)) => subdomain(prefix).or_else(|| word(name, 63)),
        None => word(text, 63),
    }
}

fn is_uuid(text: &str) -> bool {
    const DASHES: [usize; 4] = [8, 13, 18, 23];
    let plain = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let fits = |(at, byte): (usize, u8)| match DASHES.contains(&at) {
        true => byte == b'-',
        false => byte.is_ascii_hexdigit(),
    };
    plain || (text.len() == 36 && text.bytes().enumerate().all(fits))
}
