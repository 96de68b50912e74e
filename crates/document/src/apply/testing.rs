//! What the tests of this module share: one schema with every way to share a value, and a short
//! way to tell who did what to an object.

use std::fmt::Write as _;
use std::sync::LazyLock;

use serde_json::{Value, json};

use crate::schema::Schema;

use super::{ApplyError, Manager, OnConflict, apply, decode, update};

pub(super) static SCHEMA: LazyLock<Schema> = LazyLock::new(|| {
    let component = json!({
        "type": "object",
        "required": ["name"],
        "properties": {
            "name": {"type": "string"},
            "image": {"type": "string"},
            "replicas": {"type": "integer"},
            "ports": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["port", "protocol"],
                "items": {
                    "type": "object",
                    "required": ["port"],
                    "properties": {
                        "port": {"type": "integer"},
                        "protocol": {"type": "string", "default": "TCP"},
                        "hint": {"type": "string"},
                    },
                },
            },
        },
    });
    let spec = json!({
        "type": "object",
        "properties": {
            "replicas": {"type": "integer"},
            "image": {"type": "string"},
            "mode": {"type": "string", "nullable": true},
            "command": {"type": "array", "items": {"type": "string"}},
            "tags": {
                "type": "array",
                "x-kubernetes-list-type": "set",
                "items": {"type": "string"},
            },
            "settings": {"type": "object", "additionalProperties": {"type": "string"}},
            "probe": {
                "type": "object",
                "properties": {"path": {"type": "string"}, "period": {"type": "integer"}},
            },
            "origin": {
                "type": "object",
                "x-kubernetes-map-type": "atomic",
                "properties": {"host": {"type": "string"}, "port": {"type": "integer"}},
            },
            "components": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
                "items": component,
            },
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        },
    });
    let status = json!({"type": "object", "properties": {"ready": {"type": "integer"}}});
    Schema::compile(&json!({
        "type": "object",
        "properties": {"spec": spec, "status": status},
    }))
    .expect("the schema of the tests is structural")
});

/// An object with this `spec`; with these top-level fields if there is an `@` before them.
pub(super) fn object(text: &str) -> Value {
    let mut object = json!({
        "apiVersion": "tombolo.dev/v1alpha1", "kind": "Thing", "metadata": {"name": "thing"},
    });
    let parts = match text.strip_prefix('@') {
        Some(parts) => serde_json::from_str(parts).expect("JSON after @"),
        None => json!({"spec": serde_json::from_str::<Value>(text).expect("JSON of a spec")}),
    };
    // Not a merge: a null is meant.
    for (name, value) in parts.as_object().expect("an object") {
        match (name.as_str(), value) {
            ("metadata", Value::Object(fields)) => {
                for (name, value) in fields {
                    object["metadata"][name] = value.clone();
                }
            }
            (_, value) => object[name] = value.clone(),
        }
    }
    object
}

/// What became of the object, after each of these happened: `alice applies {…}`, `alice forces
/// {…}`, `alice updates {…}` (a merge patch, or the object if there is none yet), and
/// `alice/status updates {…}` through a subresource.
pub(super) fn story(steps: &[&str]) -> (Option<Value>, Vec<ApplyError>) {
    let mut live = None;
    let mut errors = Vec::new();
    for (place, step) in steps.iter().enumerate() {
        let now = format!("2026-01-01T00:00:{:02}Z", place + 1);
        let (who, rest) = step.split_once(' ').expect("who");
        let (verb, text) = rest.split_once(' ').expect("does what");
        let (who, api_version) = who.split_once('@').unwrap_or((who, "tombolo.dev/v1alpha1"));
        let (name, subresource) = who.split_once('/').unwrap_or((who, ""));
        let manager = Manager { name, subresource, api_version };
        let on_conflict = match verb {
            "updates" => {
                live = Some(updated(live.as_ref(), text, &manager, &now));
                continue;
            }
            "applies" => OnConflict::Fail,
            "forces" => OnConflict::TakeOver,
            other => panic!("nobody {other}"),
        };
        let applied = object(text);
        match apply(live.as_ref(), &applied, &SCHEMA, &manager, on_conflict, &now) {
            Ok(new) => live = Some(new),
            Err(error) => errors.push(error),
        }
    }
    (live, errors)
}

fn updated(live: Option<&Value>, text: &str, manager: &Manager<'_>, now: &str) -> Value {
    let new = match live {
        None => object(text),
        Some(live) => {
            let mut new = live.clone();
            match text.strip_prefix('@') {
                Some(parts) => {
                    json_patch::merge(&mut new, &serde_json::from_str(parts).expect("JSON"));
                }
                None => json_patch::merge(
                    &mut new["spec"],
                    &serde_json::from_str(text).expect("JSON of a spec"),
                ),
            }
            new
        }
    };
    let mut new = new;
    update(live, &mut new, &SCHEMA, manager, now);
    new
}

/// The object without what is the same in all of them, and then a line for each owner and place.
pub(super) fn show(object: &Value) -> String {
    let mut text = String::new();
    let mut bare = object.clone();
    let fields = bare.as_object_mut().expect("an object");
    fields.remove("apiVersion");
    fields.remove("kind");
    let metadata = fields["metadata"].as_object_mut().expect("metadata");
    metadata.remove("name");
    let entries = metadata.remove("managedFields").unwrap_or_default();
    if metadata.is_empty() {
        fields.remove("metadata");
    }
    for (name, value) in fields {
        writeln!(text, "{name} {value}").unwrap();
    }
    for entry in decode(&entries).expect("managed fields") {
        let time = entry.time.as_deref().map_or("", |time| &time[17..19]);
        let door = match entry.subresource.as_str() {
            "" => String::new(),
            subresource => format!("/{subresource}"),
        };
        let version = match entry.api_version.as_str() {
            "tombolo.dev/v1alpha1" => String::new(),
            other => format!("@{other}"),
        };
        let operation = entry.operation.name();
        let (manager, paths) = (&entry.manager, entry.fields.paths().join(" "));
        writeln!(text, "{manager}{door}{version} {operation} at {time}: {paths}").unwrap();
    }
    text
}
