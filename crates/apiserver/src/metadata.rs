//! What the metadata of any object must keep to beyond its schema. Pure; [`crate::admit`] calls it for every
//! write.

use serde_json::Value;
use tombolo_model::names;

use crate::kinds::Kind;
use crate::object::{FOREGROUND, NAMESPACE_FINALIZER, ORPHAN, text};
use crate::status::{Invalid, Problem};

/// Annotations may hold whole manifests, but not be a place to store files.
const ANNOTATIONS_BYTES_MAX: usize = 256 * 1024;

/// As long as a name; the server cuts it for the name that it makes.
const GENERATE_NAME_CHARS_MAX: usize = 253;

pub(crate) fn problems(kind: &Kind, object: &Value) -> Vec<Invalid> {
    let metadata = &object["metadata"];
    let mut problems = Vec::new();
    if text(object, "generateName").len() > GENERATE_NAME_CHARS_MAX {
        let message = format!("must be no more than {GENERATE_NAME_CHARS_MAX} characters");
        problems.push(Invalid::new("metadata.generateName", Problem::Invalid, message));
    }
    labels(metadata, &mut problems);
    annotations(metadata, &mut problems);
    owners(metadata, &mut problems);
    finalizers(kind, metadata, &mut problems);
    problems
}

fn labels(metadata: &Value, problems: &mut Vec<Invalid>) {
    for (key, value) in metadata["labels"].as_object().into_iter().flatten() {
        let value = value.as_str().unwrap_or_default();
        if let Err(message) = names::qualified(key).and_then(|()| names::label_value(value)) {
            let field = format!("metadata.labels[{key}]");
            problems.push(Invalid::new(field, Problem::Invalid, message));
        }
    }
}

fn annotations(metadata: &Value, problems: &mut Vec<Invalid>) {
    let mut size = 0;
    for (key, value) in metadata["annotations"].as_object().into_iter().flatten() {
        size += key.len() + value.as_str().unwrap_or_default().len();
        // Capitals are allowed, also in the domain.
        if names::qualified(&key.to_ascii_lowercase()).is_err() {
            let message = names::qualified(key).err().unwrap_or_default();
            problems.push(Invalid::new("metadata.annotations", Problem::Invalid, message));
        }
    }
    if size > ANNOTATIONS_BYTES_MAX {
        let message = format!(
            "may not be more than {ANNOTATIONS_BYTES_MAX} bytes; the annotations have {size}"
        );
        problems.push(Invalid::new("metadata.annotations", Problem::TooLong, message));
    }
}

fn owners(metadata: &Value, problems: &mut Vec<Invalid>) {
    const FIELD: &str = "metadata.ownerReferences";
    let mut controller: Option<String> = None;
    for owner in metadata["ownerReferences"].as_array().into_iter().flatten() {
        let of = |field: &str| owner[field].as_str().unwrap_or_default();
        for field in ["apiVersion", "kind", "name", "uid"] {
            let what = if field == "apiVersion" { "version must" } else { "must" };
            if of(field).is_empty() {
                let message = format!("\"\": {what} not be empty");
                problems.push(Invalid::new(format!("{FIELD}.{field}"), Problem::Invalid, message));
            }
        }
        if of("apiVersion") == "v1" && of("kind") == "Event" {
            let message = "v1 Event is disallowed from being an owner: events do not last";
            problems.push(Invalid::new(FIELD, Problem::Invalid, message));
        }
        if owner["controller"] != true {
            continue;
        }
        let name = format!("{}/{}", of("kind"), of("name"));
        match &controller {
            Some(first) => {
                let message = format!(
                    "Only one reference can have Controller set to true. Found \"true\" in \
                     references for {first} and {name}"
                );
                problems.push(Invalid::new(FIELD, Problem::Invalid, message));
            }
            None => controller = Some(name),
        }
    }
}

fn finalizers(kind: &Kind, metadata: &Value, problems: &mut Vec<Invalid>) {
    const FIELD: &str = "metadata.finalizers";
    let standard = [NAMESPACE_FINALIZER, ORPHAN, FOREGROUND];
    // Kubernetes asks for the domain in its core kinds alone; a user's kind may have what it has.
    let is_core = kind.group.is_empty() || kind.group == "coordination.k8s.io";
    let list = metadata["finalizers"].as_array();
    for name in list.into_iter().flatten().filter_map(Value::as_str) {
        if let Err(message) = names::qualified(name) {
            problems.push(Invalid::new(FIELD, Problem::Invalid, message));
        } else if is_core && !name.contains('/') && !standard.contains(&name) {
            let message = format!(
                "{name:?}: name is neither a standard finalizer name nor is it fully qualified; \
                 put a domain before it, such as example.org/{name}"
            );
            problems.push(Invalid::new(FIELD, Problem::Invalid, message));
        }
    }
    let has = |name: &str| list.is_some_and(|list| list.iter().any(|found| found == name));
    if has(ORPHAN) && has(FOREGROUND) {
        let message = format!("finalizer {ORPHAN} and {FOREGROUND} cannot be both set");
        problems.push(Invalid::new(FIELD, Problem::Invalid, message));
    }
}
