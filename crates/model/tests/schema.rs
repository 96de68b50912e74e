//! The schemas hold what a Kubernetes API server asks of them, and say something about every field.

#![expect(clippy::unwrap_used, reason = "a test may fail where it stands")]

use serde_json::{Map, Value};
use tombolo_model::{crds, json_schema, kind_names};

/// The schema of each kind, as an API server gets it.
fn schemas() -> Vec<(String, Value)> {
    let named = crds().into_iter().map(|crd| {
        let schema = crd.spec.versions[0].schema.clone().unwrap().open_api_v3_schema.unwrap();
        (crd.spec.names.kind, serde_json::to_value(schema).unwrap())
    });
    named.collect()
}

/// Calls `visit` on every node with its path.
fn walk(path: &str, node: &Value, visit: &mut impl FnMut(&str, &Map<String, Value>)) {
    let node = node.as_object().unwrap_or_else(|| panic!("{path} is not an object: {node}"));
    visit(path, node);
    for (key, property) in node.get("properties").and_then(Value::as_object).into_iter().flatten() {
        walk(&format!("{path}.{key}"), property, visit);
    }
    if let Some(items) = node.get("items") {
        walk(&format!("{path}[]"), items, visit);
    }
    if let Some(each @ Value::Object(_)) = node.get("additionalProperties") {
        walk(&format!("{path}{{}}"), each, visit);
    }
}

#[test]
fn every_schema_is_structural() {
    const ALLOWED: &[&str] = &[
        "type",
        "description",
        "properties",
        "required",
        "items",
        "additionalProperties",
        "enum",
        "default",
        "format",
        "minimum",
        "maximum",
        "minItems",
        "maxItems",
        "minLength",
        "maxLength",
        "x-kubernetes-list-type",
        "x-kubernetes-list-map-keys",
        "x-kubernetes-map-type",
        "x-kubernetes-preserve-unknown-fields",
    ];
    const FORMATS: &[&str] = &["int32", "int64", "double", "date-time"];
    for (kind, schema) in schemas() {
        walk(&kind, &schema, &mut |path, node| {
            for key in node.keys() {
                assert!(ALLOWED.contains(&key.as_str()), "{path} has {key}");
            }
            let open = node.get("x-kubernetes-preserve-unknown-fields") == Some(&true.into());
            let kind = node.get("type").and_then(Value::as_str);
            assert!(kind.is_some() || open, "{path} has no type: {node:?}");
            let has = |key| node.contains_key(key);
            assert!(!(has("properties") && has("additionalProperties")), "{path} has both");
            assert_eq!(kind == Some("array"), has("items"), "{path}: items belong to arrays");
            assert!(
                !has("properties") || kind == Some("object"),
                "{path}: properties need an object"
            );
            for word in node.get("enum").and_then(Value::as_array).into_iter().flatten() {
                assert!(word.is_string(), "{path} may be {word}");
            }
            if let Some(format) = node.get("format") {
                assert!(FORMATS.contains(&format.as_str().unwrap()), "{path} has format {format}");
            }
        });
    }
}

#[test]
fn every_key_of_a_list_is_required_or_has_a_default() {
    for (kind, schema) in schemas() {
        walk(&kind, &schema, &mut |path, node| {
            let Some(keys) = node.get("x-kubernetes-list-map-keys").and_then(Value::as_array)
            else {
                assert_ne!(node.get("x-kubernetes-list-type"), Some(&"map".into()), "{path}");
                return;
            };
            let items = &node["items"];
            let required = items["required"].as_array().cloned().unwrap_or_default();
            for key in keys {
                let property = &items["properties"][key.as_str().unwrap()];
                assert!(property["type"].is_string(), "{path}: key {key} is not there");
                assert!(
                    required.contains(key) || !property["default"].is_null(),
                    "{path}: {key} may be absent"
                );
            }
        });
    }
}

#[test]
fn only_scalars_are_in_sets() {
    for (kind, schema) in schemas() {
        walk(&kind, &schema, &mut |path, node| {
            if node.get("x-kubernetes-list-type") == Some(&"set".into()) {
                let kind = node["items"]["type"].as_str();
                assert!(matches!(kind, Some("string" | "integer")), "{path} is a set of {kind:?}");
            }
        });
    }
}

#[test]
fn every_field_is_explained() {
    for (kind, schema) in schemas() {
        walk(&kind, &schema, &mut |path, node| {
            let text = node.get("description").and_then(Value::as_str).unwrap_or_default();
            // Entries of lists and maps are explained where the list is.
            if path.ends_with("[]") || path.ends_with("{}") {
                return;
            }
            assert!(text.len() > 4 && text.ends_with('.'), "{path} is not explained: {text:?}");
            assert!(!text.contains('\n'), "{path}: {text:?}");
        });
    }
}

#[test]
fn the_fields_that_columns_and_selectors_name_exist() {
    for crd in crds() {
        let version = serde_json::to_value(&crd.spec.versions[0]).unwrap();
        let kind = &crd.spec.names.kind;
        let schema = &version["schema"]["openAPIV3Schema"];
        let columns = version["additionalPrinterColumns"].as_array().unwrap().iter();
        let selectable = version["selectableFields"].as_array().into_iter().flatten();
        for path in columns.chain(selectable).map(|column| column["jsonPath"].as_str().unwrap()) {
            if path.starts_with(".metadata.") {
                continue;
            }
            let mut node = schema;
            for part in without_filters(path).trim_start_matches('.').split('.') {
                let name = part.trim_end_matches("[]");
                node = &node["properties"][name];
                if part.ends_with("[]") {
                    node = &node["items"];
                }
                assert!(node.is_object(), "{kind}: {path} stops at {part}");
            }
            assert!(node.is_object(), "{kind}: {path} leads nowhere");
        }
    }
}

/// `a[?(@.type=="x.y")].b` is `a[].b`: what a filter compares with may hold dots.
fn without_filters(path: &str) -> String {
    let mut plain = String::new();
    let mut rest = path;
    while let Some((before, filter)) = rest.split_once('[') {
        let (_, after) = filter.split_once(']').expect("a bracket that ends");
        plain.push_str(before);
        plain.push_str("[]");
        rest = after;
    }
    plain + rest
}

#[test]
fn every_kind_has_a_status_a_category_and_columns() {
    for crd in crds() {
        let version = &crd.spec.versions[0];
        assert!(version.subresources.as_ref().unwrap().status.is_some());
        let categories = crd.spec.names.categories.clone().unwrap_or_default();
        // `kubectl get all` shows what somebody has made, in the namespace where it is.
        let expected: &[&str] = match crd.spec.names.kind.as_str() {
            "App" | "Assignment" => &["tombolo", "all"],
            _ => &["tombolo"],
        };
        assert_eq!(categories, expected);
        assert!(version.additional_printer_columns.as_ref().unwrap().len() > 3);
    }
    let names: Vec<String> = crds().into_iter().map(|crd| crd.spec.names.kind).collect();
    assert_eq!(names, kind_names().collect::<Vec<_>>());
}

#[test]
fn the_schema_for_editors_refuses_unknown_fields_and_takes_numbers_as_quantities() {
    for kind in kind_names() {
        let schema = json_schema(kind).unwrap();
        assert_eq!(schema["additionalProperties"], false);
        assert_eq!(schema["properties"]["spec"]["additionalProperties"], false);
        assert_eq!(schema["properties"]["kind"]["const"], kind);
        assert!(!schema.to_string().contains("x-kubernetes"), "{kind}");
    }
    let app = json_schema("App").unwrap();
    let component = &app["properties"]["spec"]["properties"]["components"]["items"];
    let cpu = &component["properties"]["needs"]["properties"]["cpu"];
    assert_eq!(cpu["type"], serde_json::json!(["number", "string"]));
    assert!(json_schema("Pod").is_none());
}
