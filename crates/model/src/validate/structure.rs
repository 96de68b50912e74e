//! An object against its schema: types, unknown and missing fields, ranges, lengths, duplicates.
//! What a schema cannot say about a field its format says, see [`super::formats`].

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::at::At;
use super::{Findings, formats};
use crate::invalid::{Problem, cut, shown};
use crate::suggest;

/// Checks `spec` and `status`; the rest of an object is [`super::metadata`]'s.
pub(super) fn check_root(object: &Map<String, Value>, schema: &Value, findings: &mut Findings) {
    for part in ["spec", "status"] {
        let part_schema = &schema["properties"][part];
        match object.get(part) {
            // Clients that know no status send it as null.
            Some(Value::Null) if part == "status" => (),
            Some(value) => check(value, part_schema, At::Path(part), findings),
            None if part == "spec" => findings.add(part, Problem::Required, required(part_schema)),
            None => (),
        }
    }
}

/// How a message names a value.
pub(super) fn describe(value: &Value) -> String {
    match value {
        Value::Null => "nothing (null)".to_owned(),
        Value::Bool(value) => format!("{value}"),
        Value::Number(number) => format!("the number {number}"),
        Value::String(text) => format!("the string {}", shown(text)),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    }
}

fn check(value: &Value, schema: &Value, at: At<'_>, findings: &mut Findings) {
    let format = schema.get("format").and_then(Value::as_str);
    if let Some(quantity) = format.and_then(formats::quantity) {
        if let Err(message) = quantity(value) {
            findings.add(at, Problem::Invalid, message);
        }
        return;
    }
    let Some(wanted) = schema.get("type").and_then(Value::as_str) else { return };
    if !is_of_type(value, wanted) {
        findings.add(at, Problem::TypeInvalid, wrong_type(value, wanted));
        return;
    }
    match value {
        Value::Object(object) => check_object(object, schema, at, findings),
        Value::Array(items) => check_list(items, schema, at, findings),
        Value::String(text) => check_text(text, schema, at, findings),
        Value::Number(number) => {
            check_range(number.as_f64().unwrap_or(f64::NAN), schema, at, findings);
        }
        Value::Bool(_) | Value::Null => (),
    }
    if let Some(rule) = format.and_then(formats::rule) {
        rule(value, at, findings);
    }
}

fn check_object(object: &Map<String, Value>, schema: &Value, at: At<'_>, findings: &mut Findings) {
    if let Some(Value::Object(properties)) = schema.get("properties") {
        for (key, value) in object {
            let field = at.key(key);
            match properties.get(key) {
                Some(property) => check(value, property, field, findings),
                // Looking for the nearest name is dear, and a hostile object has many wrong ones.
                None if findings.is_full() => findings.leave_out(),
                None => findings.add(field, Problem::Unknown, unknown(key, properties)),
            }
        }
        let required_keys = schema.get("required").and_then(Value::as_array);
        for key in required_keys.into_iter().flatten().filter_map(Value::as_str) {
            if !object.contains_key(key) {
                let message = required(&properties[key]);
                findings.add(at.key(key), Problem::Required, message);
            }
        }
    }
    if let Some(each @ Value::Object(_)) = schema.get("additionalProperties") {
        for (key, value) in object {
            check(value, each, at.key(key), findings);
        }
    }
}

fn check_list(items: &[Value], schema: &Value, at: At<'_>, findings: &mut Findings) {
    let least = schema.get("minItems").and_then(Value::as_u64).unwrap_or(0);
    let most = schema.get("maxItems").and_then(Value::as_u64).unwrap_or(u64::MAX);
    let count = items.len() as u64;
    if count < least {
        let message = match (least, count) {
            (1, _) => "must not be empty".to_owned(),
            (_, _) => format!("must have {least} entries, found {count}"),
        };
        findings.add(at, Problem::Invalid, message);
    }
    if count > most {
        let message = format!("must have at most {most} entries, found {count}");
        findings.add(at, Problem::TooMany, message);
        return;
    }
    for (index, item) in items.iter().enumerate() {
        check(item, &schema["items"], at.index(index), findings);
    }
    check_duplicates(items, schema, at, findings);
}

fn check_duplicates(items: &[Value], schema: &Value, at: At<'_>, findings: &mut Findings) {
    let keys: Vec<&str> = match schema.get("x-kubernetes-list-type").and_then(Value::as_str) {
        Some("set") => Vec::new(),
        Some("map") => match schema.get("x-kubernetes-list-map-keys") {
            Some(Value::Array(keys)) => keys.iter().filter_map(Value::as_str).collect(),
            Some(_) | None => return,
        },
        Some(_) | None => return,
    };
    let mut seen = BTreeSet::new();
    for (index, item) in items.iter().enumerate() {
        let identity = match keys.is_empty() {
            true => item.to_string(),
            false => {
                let parts = keys.iter().map(|key| match item.get(key) {
                    Some(value) => value.to_string(),
                    None => schema["items"]["properties"][key]["default"].to_string(),
                });
                parts.collect::<Vec<_>>().join(" ")
            }
        };
        let Some(identity) = seen.replace(identity) else { continue };
        // Entries without their key are already reported as such.
        if keys.first().is_some_and(|key| item.get(key).is_none()) {
            continue;
        }
        let entry = at.index(index);
        let field = match keys.as_slice() {
            [key] => entry.key(key),
            _ => entry,
        };
        let message = format!("{} is there twice", cut(&identity));
        findings.add(field, Problem::Duplicate, message);
    }
}

fn check_text(text: &str, schema: &Value, at: At<'_>, findings: &mut Findings) {
    if let Some(Value::Array(words)) = schema.get("enum") {
        let words: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
        if !words.contains(&text) {
            let allowed = suggest::one_of(words.iter().copied());
            let meant = suggest::did_you_mean(text, words.iter().copied());
            let message = format!("found {}, must be {allowed}{meant}", shown(text));
            findings.add(at, Problem::NotSupported, message);
        }
    }
    let count = text.chars().count() as u64;
    if count < schema.get("minLength").and_then(Value::as_u64).unwrap_or(0) {
        findings.add(at, Problem::Invalid, "must not be empty");
    }
    if let Some(most) = schema.get("maxLength").and_then(Value::as_u64)
        && count > most
    {
        let message = format!("is {count} characters long, {most} at most");
        findings.add(at, Problem::TooLong, message);
    }
}

fn check_range(number: f64, schema: &Value, at: At<'_>, findings: &mut Findings) {
    let least = schema.get("minimum").and_then(Value::as_f64);
    let most = schema.get("maximum").and_then(Value::as_f64);
    let too_small = least.is_some_and(|least| number < least);
    let too_large = most.is_some_and(|most| number > most);
    if !too_small && !too_large {
        return;
    }
    let message = match (least, most) {
        (Some(least), Some(most)) => format!("is {number}, must be from {least} to {most}"),
        (Some(least), None) => format!("is {number}, must be {least} or more"),
        (None, most) => format!("is {number}, must be {} or less", most.unwrap_or_default()),
    };
    findings.add(at, Problem::Invalid, message);
}

fn is_of_type(value: &Value, wanted: &str) -> bool {
    match (value, wanted) {
        (Value::Object(_), "object")
        | (Value::Array(_), "array")
        | (Value::String(_), "string")
        | (Value::Bool(_), "boolean")
        | (Value::Number(_), "number") => true,
        (Value::Number(number), "integer") => number.is_i64() || number.is_u64(),
        (_, _) => false,
    }
}

fn wrong_type(value: &Value, wanted: &str) -> String {
    let expected = match wanted {
        "object" => "an object",
        "array" => "a list",
        "string" => "a string",
        "boolean" => "true or false",
        "integer" => "a whole number",
        "number" => "a number",
        other => other,
    };
    let mend = match (value, wanted) {
        (Value::Number(_) | Value::Bool(_), "string") => format!("; write \"{value}\" in quotes"),
        (Value::String(text), "integer" | "number") if text.parse::<f64>().is_ok() => {
            format!("; write {text} without quotes")
        }
        (Value::String(text), "boolean") if matches!(text.as_str(), "true" | "false") => {
            format!("; write {text} without quotes")
        }
        (Value::Null, _) => "; give one or leave the field out".to_owned(),
        (Value::Object(_) | Value::String(_), "array") => {
            "; begin each entry with \"- \"".to_owned()
        }
        (_, _) => String::new(),
    };
    format!("expected {expected}, found {}{mend}", describe(value))
}

fn required(schema: &Value) -> String {
    let description = schema.get("description").and_then(Value::as_str).unwrap_or_default();
    let sentence = description.split(". ").next().unwrap_or_default().trim_end_matches('.');
    match sentence {
        "" => "is required".to_owned(),
        sentence => format!("is required ({sentence})"),
    }
}

fn unknown(key: &str, properties: &Map<String, Value>) -> String {
    let known = || properties.keys().map(String::as_str);
    match suggest::nearest(key, known()) {
        Some(meant) => format!("unknown field {} (did you mean {meant:?}?)", shown(key)),
        None => format!("unknown field {}; there is {}", shown(key), suggest::one_of(known())),
    }
}
