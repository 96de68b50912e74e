//! What all objects have in common: apiVersion, kind, metadata, and nothing beside spec and status.

use serde_json::{Map, Value};

use super::at::At;
use super::structure::describe;
use super::{Findings, formats};
use crate::invalid::{Problem, below, shown};
use crate::{keys, names, suggest};

const ROOT_FIELDS: &[&str] = &["apiVersion", "kind", "metadata", "spec", "status"];
const METADATA_FIELDS: &[&str] = &[
    "annotations",
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "finalizers",
    "generateName",
    "generation",
    "labels",
    "managedFields",
    "name",
    "namespace",
    "ownerReferences",
    "resourceVersion",
    "selfLink",
    "uid",
];

pub(super) fn check(kind: &str, object: &Map<String, Value>, findings: &mut Findings) {
    check_constant(object, "apiVersion", keys::API_VERSION, findings);
    check_constant(object, "kind", kind, findings);
    check_fields(object, "", ROOT_FIELDS, findings);
    match object.get("metadata") {
        Some(Value::Object(metadata)) => check_metadata(kind, metadata, findings),
        Some(other) => {
            let message = format!("expected an object, found {}", describe(other));
            findings.add("metadata", Problem::TypeInvalid, message);
        }
        None => {
            findings.add("metadata.name", Problem::Required, "is required (Name of the object)")
        }
    }
}

fn check_metadata(kind: &str, metadata: &Map<String, Value>, findings: &mut Findings) {
    check_fields(metadata, "metadata", METADATA_FIELDS, findings);
    match metadata.get("name") {
        Some(Value::String(name)) => {
            // The name of an App becomes part of host names, those of the others do not.
            let rule = if kind == "App" { names::label } else { names::subdomain };
            if let Err(message) = rule(name) {
                findings.add("metadata.name", Problem::Invalid, message);
            }
        }
        Some(other) => {
            let message = format!("expected a string, found {}", describe(other));
            findings.add("metadata.name", Problem::TypeInvalid, message);
        }
        None if metadata.contains_key("generateName") => (),
        None => {
            findings.add("metadata.name", Problem::Required, "is required (Name of the object)")
        }
    }
    match metadata.get("namespace") {
        // Go clients write an empty one where they mean none.
        Some(Value::String(namespace)) if namespace.is_empty() => (),
        Some(Value::String(namespace)) => {
            if let Err(message) = names::label(namespace) {
                findings.add("metadata.namespace", Problem::Invalid, message);
            }
        }
        Some(Value::Null) | None => (),
        Some(other) => {
            let message = format!("expected a string, found {}", describe(other));
            findings.add("metadata.namespace", Problem::TypeInvalid, message);
        }
    }
    for map in ["labels", "annotations"] {
        check_text_map(metadata, map, findings);
    }
    if let Some(labels) = metadata.get("labels") {
        formats::label_map(labels, At::Path("metadata.labels"), findings);
    }
}

fn check_text_map(metadata: &Map<String, Value>, map: &str, findings: &mut Findings) {
    let path = format!("metadata.{map}");
    match metadata.get(map) {
        Some(Value::Object(entries)) => {
            for (key, value) in entries.iter().filter(|(_, value)| !value.is_string()) {
                let message = format!("expected a string, found {}", describe(value));
                findings.add(below(&path, key), Problem::TypeInvalid, message);
            }
        }
        Some(Value::Null) | None => (),
        Some(other) => {
            let message = format!("expected an object, found {}", describe(other));
            findings.add(path, Problem::TypeInvalid, message);
        }
    }
}

fn check_constant(
    object: &Map<String, Value>,
    field: &str,
    expected: &str,
    findings: &mut Findings,
) {
    match object.get(field) {
        Some(Value::String(found)) if found == expected => (),
        Some(found) => {
            let message = format!("expected {expected:?}, found {}", describe(found));
            findings.add(field, Problem::NotSupported, message);
        }
        None => {
            let message = format!("is required (it is {expected:?})");
            findings.add(field, Problem::Required, message);
        }
    }
}

fn check_fields(
    object: &Map<String, Value>,
    path: &str,
    known: &[&'static str],
    findings: &mut Findings,
) {
    for key in object.keys().filter(|key| !known.contains(&key.as_str())) {
        let meant = suggest::did_you_mean(key, known.iter().copied());
        let message = format!("unknown field {}{meant}", shown(key));
        findings.add(below(path, key), Problem::Unknown, message);
    }
}
