//! The schemas of the kinds: for an API server ([`crds`]), for an editor ([`json_schema`]) and for
//! our own checks ([`internal`]). All come from the Rust types and their comments.

use std::sync::OnceLock;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps,
};
use kube::CustomResourceExt;
use serde_json::{Map, Value, json};

use crate::{App, Assignment, JoinToken, Link, Node, Policy, Probing, Site, keys};

type Definition = fn() -> CustomResourceDefinition;

/// The kinds in the order in which people meet them.
const KINDS: &[(&str, Definition)] = &[
    ("App", App::crd),
    ("Assignment", Assignment::crd),
    ("Site", Site::crd),
    ("Node", Node::crd),
    ("Link", Link::crd),
    ("Probing", Probing::crd),
    ("Policy", Policy::crd),
    ("JoinToken", JoinToken::crd),
];

/// Formats that a Kubernetes API server knows. The others are ours: they name the reader that
/// [`crate::validate`] uses for a field, and stay at home.
const KUBERNETES_FORMATS: &[&str] = &["int32", "int64", "double", "float", "date-time"];

/// Each made when it is asked for: to make one takes as long as to read a large App.
static INTERNAL: [OnceLock<Value>; KINDS.len()] = [const { OnceLock::new() }; KINDS.len()];

/// The kinds of this crate.
pub fn kind_names() -> impl Iterator<Item = &'static str> {
    KINDS.iter().map(|(kind, _)| *kind)
}

/// The CustomResourceDefinitions, fit for a real Kubernetes API server: structural schemas, status
/// subresources, printer columns, selectable fields. Use these, not `App::crd()`: that one still
/// has constructs in it that such a server does not take.
pub fn crds() -> Vec<CustomResourceDefinition> {
    KINDS.iter().map(|(kind, crd)| with_schema(crd(), kind)).collect()
}

/// The schema of a kind as our own checks use it: structural, every node with a description, and
/// with our own formats (`cpu`, `label`, …) on the fields that need more than a schema can say.
pub fn internal(kind: &str) -> Option<&'static Value> {
    let index = KINDS.iter().position(|(name, _)| *name == kind)?;
    let (_, crd) = KINDS[index];
    Some(INTERNAL[index].get_or_init(|| {
        let mut schema = schema_of(&crd());
        for_each_node(&mut schema, &mut tidy);
        schema
    }))
}

/// A JSON Schema (draft 2020-12) of a kind for editors: unknown fields are errors, and every field
/// has its description.
pub fn json_schema(kind: &str) -> Option<Value> {
    let mut schema = internal(kind)?.clone();
    for_each_node(&mut schema, &mut for_editors);
    let root = schema.as_object_mut()?;
    root.insert("$schema".into(), "https://json-schema.org/draft/2020-12/schema".into());
    root.insert("title".into(), kind.into());
    root.insert("required".into(), json!(["apiVersion", "kind", "metadata", "spec"]));
    let properties = root.get_mut("properties")?.as_object_mut()?;
    properties.insert("apiVersion".into(), json!({"const": keys::API_VERSION}));
    properties.insert("kind".into(), json!({"const": kind}));
    let name = json!({"type": "string", "description": "Name of the object."});
    let metadata = json!({"type": "object", "properties": {"name": name}});
    properties.insert("metadata".into(), metadata);
    Some(schema)
}

fn with_schema(mut crd: CustomResourceDefinition, kind: &str) -> CustomResourceDefinition {
    let mut schema = internal(kind).expect("it is one of the kinds").clone();
    for_each_node(&mut schema, &mut |node| {
        let format = node.get("format").and_then(Value::as_str);
        if format.is_some_and(|format| !KUBERNETES_FORMATS.contains(&format)) {
            node.remove("format");
        }
        drop_defaults(node);
    });
    let props: JSONSchemaProps =
        serde_json::from_value(schema).expect("it came from this very type");
    for version in &mut crd.spec.versions {
        if let Some(validation) = &mut version.schema {
            validation.open_api_v3_schema = Some(props.clone());
        }
    }
    crd
}

/// An API server would write defaults into the object. Then it no longer is what was applied, and
/// inside a list every further apply would see a difference that nobody made. What is left out
/// means the default to whoever reads it; the descriptions name it. Only the keys of a list keep
/// theirs: Kubernetes takes no key that may be absent.
fn drop_defaults(node: &mut Map<String, Value>) {
    node.remove("default");
    if let Some(kept) = node.remove(KEPT) {
        node.insert("default".into(), kept);
    }
    let keys = node.get("x-kubernetes-list-map-keys").and_then(Value::as_array).cloned();
    for key in keys.iter().flatten().filter_map(Value::as_str) {
        let property = node.get_mut("items").and_then(|items| items["properties"].get_mut(key));
        if let Some(property) = property.and_then(Value::as_object_mut)
            && let Some(default) = property.remove("default")
        {
            property.insert(KEPT.into(), default);
        }
    }
}

/// Where a list leaves the default of a key until that node's turn comes.
const KEPT: &str = "x-kept-default";

fn schema_of(crd: &CustomResourceDefinition) -> Value {
    let schema = crd.spec.versions.iter().find_map(|version| version.schema.as_ref());
    let props = schema.and_then(|schema| schema.open_api_v3_schema.as_ref());
    serde_json::to_value(props).expect("a schema is plain data")
}

/// Calls `change` on every node of a schema, parents first, so that what a parent takes over from
/// a child is seen as well.
fn for_each_node(schema: &mut Value, change: &mut impl FnMut(&mut Map<String, Value>)) {
    let Value::Object(node) = schema else { return };
    change(node);
    for (key, child) in node.iter_mut() {
        match key.as_str() {
            "items" | "additionalProperties" => for_each_node(child, change),
            "properties" => {
                let Value::Object(properties) = child else { continue };
                for property in properties.values_mut() {
                    for_each_node(property, change);
                }
            }
            _ => (),
        }
    }
}

/// Takes out what the derive macros write and a structural schema must not have or we do not mean.
fn tidy(node: &mut Map<String, Value>) {
    take_over_optional(node);
    // A field that may be left out need not accept `null` as well.
    node.remove("nullable");
    // The kind's name, which the definition says already.
    node.remove("title");
    if let Some(Value::Array(words)) = node.get_mut("enum") {
        words.retain(|word| !word.is_null());
    }
    if node.get("default").is_some_and(Value::is_null) {
        node.remove("default");
    }
    let format = node.get("format").and_then(Value::as_str);
    if format.is_some_and(|format| format.starts_with("uint") || format == "int8") {
        node.remove("format");
    }
    if let Some(Value::String(description)) = node.get_mut("description") {
        *description = description.split_whitespace().collect::<Vec<_>>().join(" ");
    }
}

/// `anyOf: [X, null]` is what an optional X without a type becomes; it is to be X.
fn take_over_optional(node: &mut Map<String, Value>) {
    let Some(Value::Array(choices)) = node.get("anyOf") else { return };
    let meant: Vec<&Value> = choices.iter().filter(|choice| !is_null(choice)).collect();
    let [Value::Object(meant)] = meant.as_slice() else { return };
    let meant = meant.clone();
    node.remove("anyOf");
    for (key, value) in meant {
        node.entry(key).or_insert(value);
    }
}

fn is_null(schema: &Value) -> bool {
    schema.get("enum") == Some(&json!([null])) || schema.get("type") == Some(&json!("null"))
}

fn for_editors(node: &mut Map<String, Value>) {
    let open = node.remove("x-kubernetes-preserve-unknown-fields") == Some(Value::Bool(true));
    node.retain(|key, _| !key.starts_with("x-kubernetes-"));
    if open && !node.contains_key("type") {
        node.insert("type".into(), json!(["number", "string"]));
    }
    if node.contains_key("properties") && !open {
        node.insert("additionalProperties".into(), false.into());
    }
    if node.get("format").is_some_and(|format| format != "date-time") {
        node.remove("format");
    }
}
