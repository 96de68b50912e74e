//! From a CustomResourceDefinition (apiextensions v1) to the [`Kind`]s that are served.
//!
//! The handlers of definitions call, in this order: [`fill_names`] after decoding, [`validate`]
//! beside the generic validation, [`validate_update`] when there was one before, and
//! [`established_status`] for the status; the registry calls [`kinds`]. Start at [`kinds`].

mod check;
mod names;
mod status;

use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::builtin;
use crate::kinds::{Column, Kind, Scale, Scope};
use crate::status::Invalid;
use crate::view;
use tombolo_document::schema::{Path, Schema};

pub use check::{validate, validate_rules, validate_update};
pub use status::{established_status, is_established};

/// One kind for each served version, or everything that is wrong with the definition.
pub fn kinds(crd: &Value) -> Result<Vec<Kind>, Vec<Invalid>> {
    let mut crd = crd.clone();
    let definition = &builtin::definition_kind().compiled;
    definition.fill_defaults(&mut crd);
    fill_names(&mut crd);
    let mut findings = definition.validate(&crd, &Path::ROOT);
    if findings.is_empty() {
        findings = validate(&crd);
    }
    match findings.is_empty() {
        true => Ok(build(&crd)),
        false => Err(findings),
    }
}

/// Fills in the names that follow from others: the singular and the kind of a list.
pub fn fill_names(crd: &mut Value) {
    let Some(spec) = crd.get_mut("spec").and_then(Value::as_object_mut) else { return };
    if let Some(names) = spec.get_mut("names").and_then(Value::as_object_mut)
        && let Some(kind) = names.get("kind").and_then(Value::as_str).map(str::to_owned)
    {
        fill_name(names, "singular", kind.to_lowercase());
        fill_name(names, "listKind", format!("{kind}List"));
    }
    spec.entry("conversion").or_insert_with(|| json!({"strategy": "None"}));
}

fn fill_name(names: &mut Map<String, Value>, name: &str, value: String) {
    let empty = names.get(name).is_none_or(|name| name.as_str() == Some(""));
    if empty {
        names.insert(name.to_owned(), Value::String(value));
    }
}

/// Makes the kinds of a definition that is known to be valid. What it lacks nevertheless is left
/// empty, and a version whose schema does not compile is left out.
pub(crate) fn build(crd: &Value) -> Vec<Kind> {
    let spec = &crd["spec"];
    let versions = list(&spec["versions"]);
    let Some(storage) = versions.iter().find(|version| version["storage"] == true) else {
        return Vec::new();
    };
    let Some((_, storage_schema)) = compiled(storage) else { return Vec::new() };
    let defined_at = text(&crd["metadata"], "resourceVersion").parse().unwrap_or(0);
    let storage = Storage { version: text(storage, "name"), schema: storage_schema, defined_at };
    versions
        .iter()
        .filter(|version| version["served"] == true)
        .filter_map(|version| build_version(spec, version, &storage))
        .collect()
}

/// What all versions of a kind share.
struct Storage<'a> {
    version: &'a str,
    schema: Arc<Schema>,
    defined_at: u64,
}

fn compiled(version: &Value) -> Option<(Value, Arc<Schema>)> {
    let schema = whole_schema(&version["schema"]["openAPIV3Schema"]);
    let compiled = Arc::new(Schema::compile(&schema).ok()?);
    Some((schema, compiled))
}

fn build_version(spec: &Value, version: &Value, storage: &Storage<'_>) -> Option<Kind> {
    let names = &spec["names"];
    let (schema, compiled) = match text(version, "name") == storage.version {
        true => (whole_schema(&version["schema"]["openAPIV3Schema"]), storage.schema.clone()),
        false => compiled(version)?,
    };
    Some(Kind {
        group: text(spec, "group").to_owned(),
        version: text(version, "name").to_owned(),
        kind: text(names, "kind").to_owned(),
        list_kind: text(names, "listKind").to_owned(),
        plural: text(names, "plural").to_owned(),
        singular: text(names, "singular").to_owned(),
        short_names: texts(&names["shortNames"]),
        categories: texts(&names["categories"]),
        scope: match text(spec, "scope") {
            "Cluster" => Scope::Cluster,
            _ => Scope::Namespaced,
        },
        schema,
        compiled,
        rules: Arc::default(),
        status_subresource: version["subresources"]["status"].is_object(),
        scale: scale(&version["subresources"]["scale"]),
        columns: columns(&version["additionalPrinterColumns"]),
        selectable_fields: list(&version["selectableFields"])
            .iter()
            .map(|field| text(field, "jsonPath").trim_start_matches('.').to_owned())
            .collect(),
        storage_version: storage.version.to_owned(),
        storage_schema: storage.schema.clone(),
        defined_at: storage.defined_at,
        deprecation: deprecation(spec, version),
        view: view::of(text(spec, "group"), text(names, "kind")),
    })
}

/// The user's schema with `apiVersion`, `kind` and `metadata` filled in. What the user says of the
/// name or its beginning is kept.
fn whole_schema(schema: &Value) -> Value {
    let mut schema = schema.clone();
    let shared = &builtin::object_schema()["properties"];
    let theirs = schema["properties"]["metadata"]["properties"].take();
    for name in ["apiVersion", "kind", "metadata"] {
        schema["properties"][name] = shared[name].clone();
    }
    for name in check::METADATA_RESTRICTED {
        let ours = schema["properties"]["metadata"]["properties"][name].as_object_mut();
        if let (Some(ours), Some(theirs)) = (ours, theirs[name].as_object()) {
            ours.extend(theirs.clone());
        }
    }
    schema
}

fn scale(scale: &Value) -> Option<Scale> {
    scale.as_object()?;
    Some(Scale {
        spec_replicas_path: text(scale, "specReplicasPath").to_owned(),
        status_replicas_path: text(scale, "statusReplicasPath").to_owned(),
        label_selector_path: scale["labelSelectorPath"].as_str().map(str::to_owned),
    })
}

fn columns(columns: &Value) -> Vec<Column> {
    let columns: Vec<Column> = list(columns).iter().map(column).collect();
    match columns.is_empty() {
        true => vec![age_column()],
        false => columns,
    }
}

fn column(column: &Value) -> Column {
    Column {
        name: text(column, "name").to_owned(),
        type_: text(column, "type").to_owned(),
        format: text(column, "format").to_owned(),
        description: text(column, "description").to_owned(),
        priority: column["priority"].as_i64().and_then(|n| i32::try_from(n).ok()).unwrap_or(0),
        json_path: text(column, "jsonPath").to_owned(),
    }
}

fn age_column() -> Column {
    Column {
        name: "Age".to_owned(),
        type_: "date".to_owned(),
        format: String::new(),
        description: "The time since its creation.".to_owned(),
        priority: 0,
        json_path: ".metadata.creationTimestamp".to_owned(),
    }
}

fn deprecation(spec: &Value, version: &Value) -> Option<String> {
    if version["deprecated"] != true {
        return None;
    }
    let own = version["deprecationWarning"].as_str().map(str::to_owned);
    Some(own.unwrap_or_else(|| {
        let (group, version) = (text(spec, "group"), text(version, "name"));
        format!("{group}/{version} {} is deprecated", text(&spec["names"], "kind"))
    }))
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}

fn texts(value: &Value) -> Vec<String> {
    list(value).iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

#[cfg(test)]
mod tests;
