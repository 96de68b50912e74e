//! What a field must be beyond its type, by the `format` that its schema gives it. One row a
//! format; the schema walk in [`super::structure`] looks them up.

use std::str::FromStr;

use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use super::Findings;
use super::at::At;
use super::structure::describe;
use crate::invalid::{Problem, shown};
use crate::names;
use crate::quantity::{self, Arch, BitRate, Bytes, Cpu, Duration, Level};

/// Checks a whole value, which may be a number or a string.
pub(super) type Quantity = fn(&Value) -> Result<(), String>;
/// Checks a value whose type is already right.
pub(super) type Rule = fn(&Value, At<'_>, &mut Findings);

const QUANTITIES: &[(&str, Quantity)] = &[
    ("cpu", reads_as::<Cpu>),
    ("bytes", reads_as::<Bytes>),
    ("duration", reads_as::<Duration>),
    ("bitrate", reads_as::<BitRate>),
    ("level", reads_as::<Level>),
    ("arch", reads_as::<Arch>),
    ("scalar", is_scalar),
];

const RULES: &[(&str, Rule)] = &[
    ("label", |value, at, findings| text(value, at, findings, names::label)),
    ("name", |value, at, findings| text(value, at, findings, names::subdomain)),
    ("names", |value, at, findings| texts(value, at, findings, names::subdomain)),
    ("key", |value, at, findings| text(value, at, findings, names::qualified)),
    ("keys", |value, at, findings| texts(value, at, findings, names::qualified)),
    ("key-map", |value, at, findings| map_keys(value, at, findings, names::qualified)),
    ("label-value", |value, at, findings| text(value, at, findings, names::label_value)),
    ("label-values", |value, at, findings| texts(value, at, findings, names::label_value)),
    ("label-map", label_map),
    ("env-map", |value, at, findings| {
        map_keys(value, at, findings, names::environment_variable);
    }),
    ("path", |value, at, findings| text(value, at, findings, names::absolute_path)),
    ("url", |value, at, findings| text(value, at, findings, is_web_address)),
    ("sha256", |value, at, findings| text(value, at, findings, is_sha256)),
    ("date-time", |value, at, findings| text(value, at, findings, is_time)),
];

pub(super) fn quantity(format: &str) -> Option<Quantity> {
    QUANTITIES.iter().find(|(name, _)| *name == format).map(|(_, quantity)| *quantity)
}

pub(super) fn rule(format: &str) -> Option<Rule> {
    RULES.iter().find(|(name, _)| *name == format).map(|(_, rule)| *rule)
}

fn reads_as<Q: FromStr<Err = quantity::Error>>(value: &Value) -> Result<(), String> {
    quantity::from_json::<Q>(value).map(|_| ()).map_err(|error| error.to_string())
}

fn is_scalar(value: &Value) -> Result<(), String> {
    match value {
        Value::String(_) | Value::Number(_) | Value::Bool(_) => Ok(()),
        Value::Null | Value::Array(_) | Value::Object(_) => {
            Err(format!("expected a number or a string, found {}", describe(value)))
        }
    }
}

fn text(value: &Value, at: At<'_>, findings: &mut Findings, rule: fn(&str) -> Result<(), String>) {
    if let Some(Err(message)) = value.as_str().map(rule) {
        findings.add(at, Problem::Invalid, message);
    }
}

fn texts(value: &Value, at: At<'_>, findings: &mut Findings, rule: fn(&str) -> Result<(), String>) {
    for (index, item) in value.as_array().into_iter().flatten().enumerate() {
        text(item, at.index(index), findings, rule);
    }
}

fn map_keys(
    value: &Value,
    at: At<'_>,
    findings: &mut Findings,
    rule: fn(&str) -> Result<(), String>,
) {
    for key in value.as_object().into_iter().flat_map(|object| object.keys()) {
        if let Err(message) = rule(key) {
            findings.add(at.key(key), Problem::Invalid, message);
        }
    }
}

pub(super) fn label_map(value: &Value, at: At<'_>, findings: &mut Findings) {
    map_keys(value, at, findings, names::qualified);
    for (key, value) in value.as_object().into_iter().flatten() {
        text(value, at.key(key), findings, names::label_value);
    }
}

fn is_web_address(address: &str) -> Result<(), String> {
    let rest = address.strip_prefix("https://").or_else(|| address.strip_prefix("http://"));
    match rest {
        Some(rest) if !rest.is_empty() && !rest.starts_with('/') && !rest.contains(' ') => Ok(()),
        Some(_) | None => Err(format!(
            "{} is not a web address: write it with http:// or https:// and a host",
            shown(address)
        )),
    }
}

fn is_sha256(hash: &str) -> Result<(), String> {
    match hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        true => Ok(()),
        // Not shown: it may be the secret itself, put here by mistake.
        false => Err(format!("is no SHA-256: 64 hexadecimal digits, found {} bytes", hash.len())),
    }
}

fn is_time(time: &str) -> Result<(), String> {
    match time.parse::<Timestamp>() {
        Ok(_) => Ok(()),
        Err(_) => Err(format!("{} is not a time: write it like 2030-01-31T12:00:00Z", shown(time))),
    }
}
