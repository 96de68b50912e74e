//! Fields that a schema does not know: finds them, or drops them.

use serde_json::Value;
use tombolo_model::suggest::nearest;

use tombolo_model::{Invalid, Problem};

use super::findings::Findings;
use super::{Path, Schema, Type};

/// More names than this do not help in a message.
const NAMES_SHOWN_MAX: usize = 12;

/// Of the metadata of an embedded object, which no schema describes.
const METADATA_FIELDS: [&str; 15] = [
    "name",
    "generateName",
    "namespace",
    "selfLink",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
    "managedFields",
];

impl Schema {
    /// Each field that [`Schema::prune`] would drop, with the name that was probably meant.
    pub fn unknown_fields(&self, value: &Value) -> Vec<Invalid> {
        self.unknown_fields_at(value, &Path::ROOT)
    }

    pub fn unknown_fields_at(&self, value: &Value, path: &Path<'_>) -> Vec<Invalid> {
        let mut findings = Findings::default();
        self.find_unknown(value, path, &mut findings);
        findings.into_vec()
    }

    /// Drops each field that the schema does not know. Values of the wrong type stay as they are:
    /// validation tells of them.
    pub fn prune(&self, value: &mut Value) {
        match value {
            Value::Object(object) if self.takes_objects() => {
                object.retain(|key, _| self.knows(key));
                if self.embedded_resource
                    && let Some(Value::Object(metadata)) = object.get_mut("metadata")
                {
                    metadata.retain(|key, _| METADATA_FIELDS.contains(&key.as_str()));
                }
                for (key, value) in object.iter_mut() {
                    if let Some(schema) = self.field(key) {
                        schema.prune(value);
                    }
                }
            }
            Value::Array(items) => {
                if let Some(schema) = &self.items {
                    items.iter_mut().for_each(|item| schema.prune(item));
                }
            }
            Value::Object(_)
            | Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_) => (),
        }
    }

    fn find_unknown(&self, value: &Value, path: &Path<'_>, findings: &mut Findings) {
        if findings.is_full() {
            return;
        }
        match value {
            Value::Object(object) if self.takes_objects() => {
                for (key, value) in object {
                    let path = path.field(key);
                    match self.field(key) {
                        Some(schema) => schema.find_unknown(value, &path, findings),
                        None if self.knows(key) => (),
                        None => findings.push(&path, Problem::Unknown, self.unknown_message(key)),
                    }
                }
            }
            Value::Array(items) => {
                let Some(schema) = &self.items else { return };
                for (index, item) in items.iter().enumerate() {
                    schema.find_unknown(item, &path.index(index), findings);
                }
            }
            Value::Object(_)
            | Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_) => (),
        }
    }

    fn takes_objects(&self) -> bool {
        self.type_ == Some(Type::Object) || self.preserve_unknown
    }

    fn unknown_message(&self, key: &str) -> String {
        let names = || self.properties.keys().map(String::as_str);
        if let Some(name) = nearest(key, names()) {
            return format!("unknown field; did you mean {name:?}?");
        }
        match self.properties.len() {
            0 => "unknown field; no fields are known here".to_owned(),
            1..=NAMES_SHOWN_MAX => {
                format!("unknown field; known here: {}", names().collect::<Vec<_>>().join(", "))
            }
            _ => "unknown field".to_owned(),
        }
    }
}
