//! The OpenAPI documents, from which kubectl takes `explain` and learns what a patch can do.
//!
//! `/openapi/v3` is an [`index`] of one [`document`] for each group and version; `/openapi/v2` is
//! everything in [`v2`], or the same as [`v2_binary`]. Start reading at [`document`]. The handlers build them when the kinds
//! change and keep the bytes; [`hash`] of the bytes names a version of a document for ever.

mod binary;
mod meta;
mod routes;
mod swagger;

use std::{borrow::Borrow, collections::BTreeMap};

use serde_json::{Map, Value, json};

pub use binary::{V2_BINARY_TYPE, v2_binary, wants_v2_binary};
pub use swagger::v2;

use crate::{
    discovery::{self, REVIEWS, Review},
    kinds::Kind,
    openapi::routes::Route,
};

/// `/openapi/v3`: where each document is. Takes each path, as [`documents`] has it, and the bytes
/// that are served for it.
pub fn index<'a>(documents: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Value {
    let mut paths = Map::new();
    for (path, bytes) in documents {
        let address = format!("/openapi/v3/{path}?hash={}", hash(bytes));
        paths.insert(path.to_owned(), json!({"serverRelativeURL": address}));
    }
    json!({"paths": paths})
}

/// Every document of `/openapi/v3`, by its path below that: `api/v1`, `apis/GROUP/VERSION`.
pub fn documents(kinds: &[impl Borrow<Kind>]) -> BTreeMap<String, Value> {
    let mut documents = BTreeMap::new();
    for (group, version) in discovery::group_versions(kinds) {
        let path = match group.as_str() {
            "" => format!("api/{version}"),
            group => format!("apis/{group}/{version}"),
        };
        if let Some(document) = document(kinds, &group, &version) {
            documents.insert(path, document);
        }
    }
    documents
}

/// The document of one group and version, if it is served.
pub fn document(kinds: &[impl Borrow<Kind>], group: &str, version: &str) -> Option<Value> {
    let kinds: Vec<&Kind> = kinds
        .iter()
        .map(Borrow::borrow)
        .filter(|kind| kind.group == group && kind.version == version)
        .collect();
    let reviews: Vec<&Review> = REVIEWS
        .iter()
        .filter(|review| review.group == group && review.version == version)
        .collect();
    if kinds.is_empty() && reviews.is_empty() {
        return None;
    }
    let mut paths: BTreeMap<String, Map<String, Value>> = BTreeMap::new();
    for route in routes_of(&kinds, &reviews) {
        paths
            .entry(route.path.clone())
            .or_default()
            .insert(route.method.to_owned(), operation(&route));
    }
    Some(json!({
        "openapi": "3.0.0",
        "info": {"title": "Tombolo", "version": env!("CARGO_PKG_VERSION")},
        "paths": paths,
        "components": {"schemas": components(&kinds, &reviews)},
    }))
}

/// Of the bytes of a document: FNV-1a, for it needs to be stable and quick, not secret.
pub fn hash(bytes: &[u8]) -> String {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in bytes {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    format!("{hash:016X}")
}

fn routes_of(kinds: &[&Kind], reviews: &[&Review]) -> Vec<Route> {
    let kinds = kinds.iter().flat_map(|kind| routes::of_kind(kind));
    kinds.chain(reviews.iter().map(|review| routes::of_review(review))).collect()
}

/// The schemas by name: every kind, its list, and what they all refer to.
fn components(kinds: &[&Kind], reviews: &[&Review]) -> BTreeMap<String, Value> {
    let mut components = meta::components();
    for kind in kinds {
        let name = component_name(&kind.group, &kind.version, &kind.kind);
        components.insert(component_name(&kind.group, &kind.version, &kind.list_kind), list(kind));
        components.insert(name, schema(kind));
        if kind.scale.is_some() {
            components.insert(meta::SCALE.to_owned(), meta::scale());
        }
    }
    for review in reviews {
        let name = component_name(review.group, review.version, review.kind);
        components.insert(name, meta::review(review));
    }
    components
}

/// `dev.tombolo.v1alpha1.App`: the group backwards, so that names sort by their owners.
fn component_name(group: &str, version: &str, kind: &str) -> String {
    if group.is_empty() {
        return format!("io.k8s.api.core.{version}.{kind}");
    }
    let mut parts: Vec<&str> = group.split('.').rev().collect();
    parts.extend([version, kind]);
    parts.join(".")
}

fn reference(component: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{component}")})
}

fn group_version_kind(group: &str, version: &str, kind: &str) -> Value {
    json!({"group": group, "version": version, "kind": kind})
}

/// The schema of the kind with the fields that every object has in their shared form.
fn schema(kind: &Kind) -> Value {
    let mut schema = match &kind.schema {
        Value::Object(schema) => schema.clone(),
        // Only `true` and `false` are schemas beside objects; neither says anything to a reader.
        _ => Map::new(),
    };
    schema.insert("type".to_owned(), json!("object"));
    let mut properties = match schema.remove("properties") {
        Some(Value::Object(properties)) => properties,
        _ => Map::new(),
    };
    for (name, property) in meta::type_properties() {
        properties.insert(name, property);
    }
    properties.insert(
        "metadata".to_owned(),
        json!({
            "description": "What every object has: its name, labels, owners and history.",
            "allOf": [reference(meta::OBJECT_META)],
        }),
    );
    schema.insert("properties".to_owned(), Value::Object(properties));
    schema.insert(
        "x-kubernetes-group-version-kind".to_owned(),
        json!([group_version_kind(&kind.group, &kind.version, &kind.kind)]),
    );
    Value::Object(schema)
}

fn list(kind: &Kind) -> Value {
    let mut properties = Map::from_iter(meta::type_properties());
    properties.insert(
        "metadata".to_owned(),
        json!({
            "description": "The revision of the list, and how to go on reading it.",
            "allOf": [reference(meta::LIST_META)],
        }),
    );
    properties.insert(
        "items".to_owned(),
        json!({
            "description": format!("The objects of the kind {}.", kind.kind), "type": "array",
            "items": reference(&component_name(&kind.group, &kind.version, &kind.kind)),
        }),
    );
    json!({
        "description": format!("A list of objects of the kind {}.", kind.kind),
        "type": "object", "required": ["items"], "properties": properties,
        "x-kubernetes-group-version-kind":
            [group_version_kind(&kind.group, &kind.version, &kind.list_kind)],
    })
}

/// A route in the form of OpenAPI v3.
fn operation(route: &Route) -> Value {
    let parameters: Vec<Value> = route
        .parameters()
        .map(|parameter| {
            json!({
                "name": parameter.name, "in": parameter.place.word(),
                "required": parameter.place.required(),
                "description": parameter.description, "schema": {"type": parameter.type_},
            })
        })
        .collect();
    let content = |types: &[&str], component: &str| {
        let media = types
            .iter()
            .map(|type_| ((*type_).to_owned(), json!({"schema": reference(component)})));
        Value::Object(Map::from_iter(media))
    };
    let mut responses = Map::new();
    responses.insert(
        route.success.to_string(),
        json!({"description": "It worked.", "content": content(&["application/json"], &route.answer)}),
    );
    let mut operation = json!({
        "operationId": route.id, "description": route.description, "parameters": parameters,
        "responses": responses, "x-kubernetes-action": route.action,
        "x-kubernetes-group-version-kind": route.group_version_kind,
    });
    if let Some(body) = &route.body {
        operation["requestBody"] =
            json!({"required": body.required, "content": content(body.types, &body.component)});
    }
    operation
}

#[cfg(test)]
mod tests;
