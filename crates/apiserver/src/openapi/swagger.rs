//! OpenAPI v2 (Swagger), in one document, for clients that know nothing newer. The Go clients want
//! it as protobuf: see `binary`.

use std::{borrow::Borrow, collections::BTreeMap};

use serde_json::{Map, Value, json};

use super::{Route, components, routes_of};
use crate::{
    discovery::{REVIEWS, Review},
    kinds::Kind,
};

/// What v2 has no words for.
const LEFT_OUT: &[&str] = &["nullable", "anyOf", "oneOf", "not"];

/// `/openapi/v2`.
pub fn v2(kinds: &[impl Borrow<Kind>]) -> Value {
    let kinds: Vec<&Kind> = kinds.iter().map(Borrow::borrow).collect();
    let reviews: Vec<&Review> = REVIEWS.iter().collect();
    let mut paths: BTreeMap<String, Map<String, Value>> = BTreeMap::new();
    for route in routes_of(&kinds, &reviews) {
        paths
            .entry(route.path.clone())
            .or_default()
            .insert(route.method.to_owned(), operation(&route));
    }
    let definitions: BTreeMap<String, Value> = components(&kinds, &reviews)
        .into_iter()
        .map(|(name, schema)| (name, definition(plain(schema))))
        .collect();
    json!({
        "swagger": "2.0",
        "info": {"title": "Tombolo", "version": env!("CARGO_PKG_VERSION")},
        "paths": paths, "definitions": definitions,
    })
}

/// An object that may have any fields is an object and no more, as Kubernetes has it in v2: its clients would
/// refuse fields that a list of some does not name.
fn plain(mut schema: Value) -> Value {
    let open = schema.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true));
    if let Some(fields) = schema.as_object_mut().filter(|_| open) {
        fields
            .retain(|name, _| matches!(name.as_str(), "type" | "x-kubernetes-group-version-kind"));
    }
    schema
}

fn operation(route: &Route) -> Value {
    let mut parameters: Vec<Value> = route
        .parameters()
        .map(|parameter| {
            json!({
                "name": parameter.name, "in": parameter.place.word(),
                "required": parameter.place.required(),
                "description": parameter.description, "type": parameter.type_,
            })
        })
        .collect();
    let mut operation = json!({
        "operationId": route.id, "description": route.description,
        "produces": ["application/json", "application/yaml"],
        "x-kubernetes-action": route.action,
        "x-kubernetes-group-version-kind": route.group_version_kind,
    });
    if let Some(body) = &route.body {
        parameters.push(json!({
            "name": "body", "in": "body", "required": body.required,
            "schema": reference(&body.component),
        }));
        operation["consumes"] = json!(body.types);
    }
    let mut responses = Map::new();
    responses.insert(
        route.success.to_string(),
        json!({"description": "It worked.", "schema": reference(&route.answer)}),
    );
    operation["responses"] = Value::Object(responses);
    operation["parameters"] = Value::Array(parameters);
    operation
}

fn reference(component: &str) -> Value {
    json!({"$ref": format!("#/definitions/{component}")})
}

/// A schema of v3 in the words of v2. As deep as the schema, whose depth the registration of a
/// kind bounds.
fn definition(schema: Value) -> Value {
    match schema {
        Value::Object(fields) => {
            let mut translated = Map::new();
            for (name, value) in fields {
                if name == "allOf"
                    && let Some(single) = single_reference(&value)
                {
                    translated.insert("$ref".to_owned(), single);
                } else if name == "properties" {
                    // Here the names are those of fields, not of schema keywords.
                    translated.insert(name, properties(value));
                } else if !LEFT_OUT.contains(&name.as_str()) {
                    translated.insert(name, definition(value));
                }
            }
            if let Some(Value::String(target)) = translated.get_mut("$ref") {
                *target = target.replace("#/components/schemas/", "#/definitions/");
            }
            Value::Object(translated)
        }
        Value::Array(elements) => elements.into_iter().map(definition).collect(),
        other @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => other,
    }
}

fn properties(properties: Value) -> Value {
    match properties {
        Value::Object(fields) => {
            fields.into_iter().map(|(name, schema)| (name, definition(schema))).collect()
        }
        other => other,
    }
}

fn single_reference(all_of: &Value) -> Option<Value> {
    let [single] = all_of.as_array()?.as_slice() else { return None };
    single.get("$ref").cloned()
}
