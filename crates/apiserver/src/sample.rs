//! A few kinds for the tests of discovery and OpenAPI.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::kinds::{Kind, Scale, Scope};
use tombolo_document::schema::Schema;

/// A namespaced kind of ours with everything, a core kind, and a user's kind in two versions.
pub(crate) fn kinds() -> Vec<Kind> {
    let app = Kind {
        short_names: vec!["ap".to_owned()],
        categories: vec!["all".to_owned()],
        status_subresource: true,
        scale: Some(Scale {
            spec_replicas_path: ".spec.replicas".to_owned(),
            status_replicas_path: ".status.replicas".to_owned(),
            label_selector_path: None,
        }),
        ..kind("tombolo.dev", "v1alpha1", "App", "apps", Scope::Namespaced, app_schema())
    };
    let node = kind("tombolo.dev", "v1alpha1", "Node", "nodes", Scope::Cluster, open_schema());
    let namespace = kind("", "v1", "Namespace", "namespaces", Scope::Cluster, open_schema());
    let config_map = kind("", "v1", "ConfigMap", "configmaps", Scope::Namespaced, open_schema());
    let old = kind("example.com", "v1beta1", "Gadget", "gadgets", Scope::Namespaced, open_schema());
    let new = kind("example.com", "v1", "Gadget", "gadgets", Scope::Namespaced, open_schema());
    vec![app, node, namespace, config_map, old, new]
}

pub(crate) fn kind(
    group: &str,
    version: &str,
    kind: &str,
    plural: &str,
    scope: Scope,
    schema: Value,
) -> Kind {
    Kind {
        group: group.to_owned(),
        version: version.to_owned(),
        kind: kind.to_owned(),
        list_kind: format!("{kind}List"),
        plural: plural.to_owned(),
        singular: kind.to_lowercase(),
        short_names: Vec::new(),
        categories: Vec::new(),
        scope,
        compiled: Arc::new(Schema::compile(&schema).unwrap()),
        storage_schema: Arc::new(Schema::compile(&schema).unwrap()),
        defined_at: 0,
        schema,
        rules: Arc::default(),
        status_subresource: false,
        scale: None,
        columns: Vec::new(),
        selectable_fields: Vec::new(),
        storage_version: version.to_owned(),
        deprecation: None,
        view: None,
    }
}

fn app_schema() -> Value {
    json!({
        "description": "An application.",
        "type": "object", "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": {
                "description": "What is wanted.",
                "type": "object", "required": ["components"],
                "properties": {
                    "replicas": {"type": "integer", "format": "int32", "nullable": true, "minimum": 0},
                    "components": {
                        "description": "The parts that run.",
                        "type": "array",
                        "items": {
                            "type": "object", "required": ["name"],
                            "properties": {
                                "name": {"type": "string", "description": "A name of its own."},
                                "port": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]},
                                "pull": {"type": "string", "enum": ["Always", "Never"]},
                                "env": {"type": "object", "additionalProperties": {"type": "string"}},
                            },
                        },
                    },
                },
            },
            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        },
    })
}

fn open_schema() -> Value {
    json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

/// A document in as few lines as can be read: what fits on a line is on one.
pub(crate) fn outline(document: &Value) -> String {
    let mut lines = String::new();
    write_outline(document, "", &mut lines);
    lines
}

fn write_outline(value: &Value, indent: &str, lines: &mut String) {
    const LINE_CHARS_MAX: usize = 120;
    let deeper = format!("{indent}  ");
    let entries: Vec<(String, &Value)> = match value {
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| (format!("{name}: "), value)).collect()
        }
        Value::Array(elements) => elements.iter().map(|value| ("- ".to_owned(), value)).collect(),
        scalar => vec![(String::new(), scalar)],
    };
    for (label, value) in entries {
        let text = value.to_string().replace('"', "");
        if text.len() <= LINE_CHARS_MAX || !(value.is_object() || value.is_array()) {
            lines.push_str(&format!("{indent}{label}{text}\n"));
        } else {
            lines.push_str(&format!("{indent}{}\n", label.trim_end()));
            write_outline(value, &deeper, lines);
        }
    }
}
