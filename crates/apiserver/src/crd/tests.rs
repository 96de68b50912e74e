//! Definitions: what is accepted, what is refused and with which words.

use std::sync::Arc;

use expect_test::{Expect, expect};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{established_status, kinds, validate_update};
use crate::builtin::builtin_kinds;
use crate::kinds::Kind;

fn widget() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.org"},
        "spec": {
            "group": "example.org",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"]},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "metadata": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 10}}},
                    "spec": {"type": "object", "properties": {
                        "colour": {"type": "string"}, "replicas": {"type": "integer"}}},
                }}},
            }],
        },
    })
}

/// As the registry holds them.
fn shared(kinds: Vec<Kind>) -> Vec<Arc<Kind>> {
    kinds.into_iter().map(Arc::new).collect()
}

/// Sets fields of the widget definition by JSON pointer and shows what is wrong then.
#[track_caller]
fn check(changes: &[(&str, Value)], expect: Expect) {
    let mut crd = widget();
    for (pointer, value) in changes {
        let (parent, name) = pointer.rsplit_once('/').expect("a pointer");
        crd.pointer_mut(parent).expect("the parent is there")[name] = value.clone();
    }
    let found: String = match kinds(&crd) {
        Ok(_) => "ok\n".to_owned(),
        Err(findings) => findings
            .iter()
            .map(|found| format!("{} ({:?}): {}\n", found.field, found.problem, found.message))
            .collect(),
    };
    expect.assert_eq(&found);
}

#[test]
fn a_definition_becomes_a_kind_with_what_is_usual_filled_in() {
    let kinds = kinds(&widget()).expect("it is valid");
    let [kind] = kinds.as_slice() else { panic!("{kinds:?}") };
    assert_eq!(kind.singular, "widget");
    assert_eq!(kind.list_kind, "WidgetList");
    assert_eq!(kind.storage_version, "v1");
    assert_eq!(kind.columns.len(), 1);
    assert_eq!(kind.columns[0].name, "Age");
    assert!(!kind.status_subresource);
    let name = &kind.schema["properties"]["metadata"]["properties"]["name"];
    assert_eq!(name["maxLength"], 10);
    assert!(kind.compiled.properties["metadata"].properties.contains_key("managedFields"));
}

#[test]
fn our_own_definitions_become_kinds() {
    for crd in tombolo_model::schema::crds() {
        let crd = serde_json::to_value(crd).expect("it is JSON");
        match kinds(&crd) {
            Ok(kinds) => assert_eq!(kinds.len(), 1, "{}", crd["metadata"]["name"]),
            Err(findings) => panic!("{}: {findings:#?}", crd["metadata"]["name"]),
        }
    }
}

#[test]
fn versions_that_are_not_served_make_no_kind() {
    let mut second = widget()["spec"]["versions"][0].clone();
    second["name"] = json!("v2");
    second["storage"] = json!(false);
    second["deprecated"] = json!(true);
    second["subresources"] = json!({"status": {}, "scale": {
        "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}});
    second["selectableFields"] = json!([{"jsonPath": ".spec.colour"}]);
    let mut crd = widget();
    crd["spec"]["versions"][0]["served"] = json!(false);
    crd["spec"]["versions"].as_array_mut().expect("a list").push(second);
    let kinds = kinds(&crd).expect("it is valid");
    let [kind] = kinds.as_slice() else { panic!("{kinds:?}") };
    assert_eq!((kind.version.as_str(), kind.storage_version.as_str()), ("v2", "v1"));
    assert!(kind.status_subresource && kind.scale.is_some());
    assert_eq!(kind.selectable_fields, ["spec.colour"]);
    assert_eq!(kind.deprecation.as_deref(), Some("example.org/v2 Widget is deprecated"));
}

#[test]
fn names_are_checked() {
    check(
        &[
            ("/metadata/name", json!("widget.example.org")),
            ("/spec/names/singular", json!("Wid get")),
            ("/spec/names/listKind", json!("Widget")),
            ("/spec/names/shortNames", json!(["ok", "1x"])),
            ("/spec/versions/0/name", json!("V1")),
        ],
        expect![[r#"
            spec.names.singular (Invalid): "Wid get" is not a name of at most 63 lower-case letters, digits and hyphens that begins with a letter and ends with a letter or digit
            spec.names.shortNames[1] (Invalid): "1x" is not a name of at most 63 lower-case letters, digits and hyphens that begins with a letter and ends with a letter or digit
            spec.names.listKind (Invalid): the kind of a list cannot be the kind itself
            metadata.name (Invalid): "widget.example.org" is not the plural and the group, which are "widgets.example.org"
            spec.versions[0].name (Invalid): "V1" is not a name of at most 63 lower-case letters, digits and hyphens that begins with a letter and ends with a letter or digit
        "#]],
    );
    check(
        &[("/spec/group", json!("example"))],
        expect![[r#"
        spec.group (Invalid): "example" is not a domain with at least one dot, such as example.org
        metadata.name (Invalid): "widgets.example.org" is not the plural and the group, which are "widgets.example"
    "#]],
    );
    check(
        &[("/spec/names/plural", json!(3)), ("/spec/scope", json!("Namespace"))],
        expect![[r#"
        spec.names.plural (TypeInvalid): expected a string, found the number 3
        spec.scope (NotSupported): "Namespace" is not supported, use one of "Cluster", "Namespaced" (did you mean "Namespaced"?)
    "#]],
    );
}

#[test]
fn groups_of_kubernetes_need_an_approval() {
    let group = ("/spec/group", json!("x.k8s.io"));
    let name = ("/metadata/name", json!("widgets.x.k8s.io"));
    check(
        &[group.clone(), name.clone()],
        expect![[r#"
        metadata.annotations[api-approved.kubernetes.io] (Required): the group "x.k8s.io" is reserved: give the address of its review, or a text that begins with "unapproved"
    "#]],
    );
    let annotations = json!({"api-approved.kubernetes.io": "unapproved, for a test"});
    check(
        &[group, name, ("/metadata/annotations", annotations)],
        expect![[r#"
            ok
        "#]],
    );
}

#[test]
fn exactly_one_version_is_stored_and_each_has_a_schema() {
    check(
        &[("/spec/versions/0/storage", json!(false))],
        expect![[r#"
        spec.versions (Invalid): one version must have storage: true
    "#]],
    );
    check(
        &[("/spec/versions/0/schema", json!({}))],
        expect![[r#"
        spec.versions[0].schema.openAPIV3Schema (Required): a schema is required for each version
    "#]],
    );
    check(
        &[("/spec/versions", json!([]))],
        expect![[r#"
        spec.versions (Invalid): one version must have storage: true
    "#]],
    );
    let version = widget()["spec"]["versions"][0].clone();
    check(
        &[("/spec/versions", json!([version, version]))],
        expect![[r#"
        spec.versions[1].name (Duplicate): "v1" is the name of an earlier version too
        spec.versions (Invalid): 2 versions have storage: true, exactly one must
    "#]],
    );
}

#[test]
fn the_schema_is_told_apart_by_its_path() {
    let root = "/spec/versions/0/schema/openAPIV3Schema";
    check(
        &[(&format!("{root}/properties/spec/type"), Value::Null)],
        expect![[r#"
        spec.versions[0].schema.openAPIV3Schema.properties[spec].type (Required): a type is required: object, array, string, integer, number or boolean
    "#]],
    );
    check(
        &[(
            &format!("{root}/properties/metadata/properties"),
            json!({"labels": {"type": "object"}, "name": {"type": "string"}}),
        )],
        expect![[r#"
            spec.versions[0].schema.openAPIV3Schema.properties[metadata].properties[labels] (Forbidden): not allowed: of the metadata only name and generateName may be restricted
        "#]],
    );
    check(
        &[(root, json!({"type": "object", "additionalProperties": true}))],
        expect![[r#"
        spec.versions[0].schema.openAPIV3Schema.additionalProperties (Forbidden): the whole object has named properties: give them, or set x-kubernetes-preserve-unknown-fields
    "#]],
    );
}

#[test]
fn paths_of_columns_scale_and_selectors_are_checked() {
    check(
        &[
            (
                "/spec/versions/0/additionalPrinterColumns",
                json!([
                    {"name": "A", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"},
                    {"name": "B", "type": "string", "jsonPath": "spec"},
                    {"name": "C", "type": "string", "jsonPath": ".spec[0"},
                ]),
            ),
            (
                "/spec/versions/0/subresources",
                json!({"scale": {"specReplicasPath": ".replicas", "statusReplicasPath": ".status.a[0]"}}),
            ),
            (
                "/spec/versions/0/selectableFields",
                json!([{"jsonPath": ".spec.colour"}, {"jsonPath": ".spec.color"}, {"jsonPath": ".metadata.name"},
                       {"jsonPath": "x"}, {"jsonPath": ".spec.colour"}]),
            ),
        ],
        expect![[r#"
            spec.versions[0].additionalPrinterColumns[1].jsonPath (Invalid): "spec" must begin with a dot, such as .spec.replicas
            spec.versions[0].additionalPrinterColumns[2].jsonPath (Invalid): the path ".spec[0" is wrong at character 8: expected `]`, but the path ends here
            spec.versions[0].subresources.scale.specReplicasPath (Invalid): ".replicas" is not a path of plain fields that begins with .spec.
            spec.versions[0].subresources.scale.statusReplicasPath (Invalid): ".status.a[0]" is not a path of plain fields that begins with .status.
            spec.versions[0].selectableFields[1].jsonPath (Invalid): ".spec.color" is not a string, an integer or a boolean of the schema
            spec.versions[0].selectableFields[2].jsonPath (Invalid): fields of the metadata cannot be added: the name and the namespace are selectable anyway
            spec.versions[0].selectableFields[3].jsonPath (Invalid): "x" is not a path of plain fields such as .spec.colour
            spec.versions[0].selectableFields[4].jsonPath (Duplicate): ".spec.colour" is there twice
        "#]],
    );
}

#[test]
fn what_is_not_supported_is_said() {
    check(
        &[
            ("/spec/conversion", json!({"strategy": "Webhook"})),
            ("/spec/preserveUnknownFields", json!(true)),
            ("/status", json!({"storedVersions": ["v0"]})),
        ],
        expect![[r#"
            spec.preserveUnknownFields (Invalid): true is not allowed: set x-kubernetes-preserve-unknown-fields in the schema
            spec.conversion.strategy (NotSupported): "Webhook" is not supported here: the only way of conversion is "None"
            status.storedVersions[0] (Invalid): "v0" is not a version of the spec, yet objects may be stored in it
        "#]],
    );
}

#[test]
fn a_served_kind_keeps_its_scope_and_names() {
    let old = widget();
    let mut served = widget();
    served["status"] = established_status(&old, &[], "2026-01-01T00:00:00Z");
    let mut new = widget();
    new["spec"]["scope"] = json!("Cluster");
    new["spec"]["names"]["kind"] = json!("Gadget");
    assert_eq!(validate_update(&old, &new), []);
    let fields: Vec<String> =
        validate_update(&served, &new).into_iter().map(|found| found.field).collect();
    assert_eq!(fields, ["spec.scope", "spec.names.kind"]);
}

#[test]
fn a_definition_without_conflicts_is_established_and_keeps_its_times() {
    let mut crd = widget();
    crd["status"] = established_status(&crd, &shared(builtin_kinds()), "2026-01-01T00:00:00Z");
    expect![[r#"
        {
          "acceptedNames": {
            "kind": "Widget",
            "plural": "widgets",
            "shortNames": [
              "wd"
            ]
          },
          "conditions": [
            {
              "lastTransitionTime": "2026-01-01T00:00:00Z",
              "message": "no conflicts found",
              "reason": "NoConflicts",
              "status": "True",
              "type": "NamesAccepted"
            },
            {
              "lastTransitionTime": "2026-01-01T00:00:00Z",
              "message": "the names are accepted and the kind is served",
              "reason": "InitialNamesAccepted",
              "status": "True",
              "type": "Established"
            }
          ],
          "storedVersions": [
            "v1"
          ]
        }"#]]
    .assert_eq(&serde_json::to_string_pretty(&crd["status"]).expect("it is JSON"));
    crd["spec"]["versions"][0]["name"] = json!("v2");
    let later =
        established_status(&crd, &shared(kinds(&widget()).expect("valid")), "2026-02-02T00:00:00Z");
    assert_eq!(later["conditions"], crd["status"]["conditions"]);
    assert_eq!(later["storedVersions"], json!(["v1", "v2"]));
}

#[test]
fn a_name_that_another_kind_has_is_not_accepted() {
    let others = shared(kinds(&widget()).expect("it is valid"));
    let mut crd = widget();
    crd["spec"]["names"] = json!({"plural": "gadgets", "singular": "widget", "kind": "Widget", "listKind": "GadgetList", "shortNames": ["wd", "gd"]});
    let status = established_status(&crd, &others, "2026-01-01T00:00:00Z");
    assert_eq!(
        status["acceptedNames"],
        json!({"plural": "gadgets", "listKind": "GadgetList", "shortNames": ["gd"]})
    );
    expect![[r#"
        [
          {
            "lastTransitionTime": "2026-01-01T00:00:00Z",
            "message": "\"widget\" (singular) is already in use by widgets of the same group",
            "reason": "SingularConflict",
            "status": "False",
            "type": "NamesAccepted"
          },
          {
            "lastTransitionTime": "2026-01-01T00:00:00Z",
            "message": "not all names are accepted",
            "reason": "NotAccepted",
            "status": "False",
            "type": "Established"
          }
        ]"#]]
    .assert_eq(&serde_json::to_string_pretty(&status["conditions"]).expect("it is JSON"));
}

proptest! {
    #[test]
    fn any_part_of_a_definition_may_be_wrong(place in 0usize..12, value in prop_oneof![
        Just(json!(null)), Just(json!(1)), Just(json!("x")), Just(json!([])), Just(json!({})), Just(json!([{}, 1])),
    ]) {
        let places = [
            "/metadata", "/metadata/name", "/spec", "/spec/group", "/spec/names", "/spec/names/kind", "/spec/versions",
            "/spec/versions/0", "/spec/versions/0/schema", "/spec/versions/0/schema/openAPIV3Schema",
            "/spec/versions/0/name", "/spec/names/shortNames",
        ];
        let mut crd = widget();
        *crd.pointer_mut(places[place]).expect("it is there") = value;
        let _ = kinds(&crd);
        let _ = super::validate(&crd);
        let _ = established_status(&crd, &shared(builtin_kinds()), "2026-01-01T00:00:00Z");
    }
}
