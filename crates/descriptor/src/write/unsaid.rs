//! What is left of an App when a writer has taken out all that it wrote, as notes.

use serde_json::Value;
use tombolo_model::App;

/// A part of an App that a format has no place for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsaid {
    /// The place in the App: `spec.components[0].needs.security`.
    pub path: String,
    pub message: String,
}

/// Values that are told of as one, whatever is in them.
const WHOLE: &[&str] = &[
    "compose",
    "condition",
    "disconnect",
    "manifests",
    "near",
    "onEach",
    "patch",
    "process",
    "remediation",
    "users",
    "weights",
];

const WAYS: &[&str] = &[".compose", ".manifests", ".process"];

/// Notes on everything that is still there. Names that were written are left as empty texts.
pub(super) fn notes(rest: &App, format: &str) -> Vec<Unsaid> {
    let mut notes = Vec::new();
    let spec = serde_json::to_value(&rest.spec).unwrap_or_default();
    walk(&spec, "spec", "spec", &mut notes, format);
    let metadata = &rest.metadata;
    let empty = |map: &Option<std::collections::BTreeMap<String, String>>| {
        map.as_ref().is_none_or(|map| map.is_empty())
    };
    let mut tell = |path: &str| notes.push(note(path, format));
    if metadata.namespace.is_some() {
        tell("metadata.namespace");
    }
    if !empty(&metadata.labels) {
        tell("metadata.labels");
    }
    if !empty(&metadata.annotations) {
        tell("metadata.annotations");
    }
    notes
}

pub(super) fn note(path: &str, format: &str) -> Unsaid {
    // A component may have several ways to run, and a format takes one.
    let is_way = WAYS.iter().any(|way| path.ends_with(way));
    let message = match is_way && path.contains(".run[") {
        true => format!("this way to run is left out of {format}"),
        false => format!("{format} has no way to say this"),
    };
    Unsaid { path: path.to_owned(), message }
}

fn walk(value: &Value, key: &str, path: &str, notes: &mut Vec<Unsaid>, format: &str) {
    if is_nothing(value, key) {
        return;
    }
    match value {
        Value::Object(map) if !WHOLE.contains(&key) => {
            for (key, value) in map {
                walk(value, key, &format!("{path}.{key}"), notes, format);
            }
        }
        Value::Array(items) if items.iter().any(Value::is_object) && !WHOLE.contains(&key) => {
            for (index, item) in items.iter().enumerate() {
                walk(item, "", &format!("{path}[{index}]"), notes, format);
            }
        }
        _ => notes.push(note(path, format)),
    }
}

fn is_nothing(value: &Value, key: &str) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty() || (key == "protocol" && text == "tcp"),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
        // A port of its own that was written; nobody listens on 0.
        Value::Number(number) => key == "port" && number.as_u64() == Some(0),
        Value::Bool(true) => false,
    }
}
