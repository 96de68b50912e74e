//! The core kinds, as documents.

use expect_test::expect;
use serde_json::Value;

use super::{DOCUMENTS, METADATA, builtin_kinds, document, object_schema};
use crate::table::Columns;
use tombolo_document::schema::{Additional, Path, Schema};

#[test]
fn every_embedded_document_is_structural_and_fits_its_own_kind() {
    let definition = &super::definition_kind().compiled;
    for text in DOCUMENTS {
        let document = document(text);
        assert_eq!(definition.unknown_fields(&document), [], "{}", document["metadata"]["name"]);
        // Events have more selectable fields than a user may ask for.
        let findings = definition.validate(&document, &Path::ROOT);
        let others: Vec<_> =
            findings.iter().filter(|f| !f.field.ends_with("selectableFields")).collect();
        assert!(others.is_empty(), "{others:?}");
        for version in document["spec"]["versions"].as_array().expect("versions") {
            let schema = &version["schema"]["openAPIV3Schema"];
            Schema::compile(schema).unwrap_or_else(|findings| panic!("{findings:?}"));
        }
    }
    Schema::compile(object_schema()).unwrap_or_else(|findings| panic!("{findings:?}"));
    assert!(METADATA.starts_with('#'));
}

#[test]
fn each_document_makes_one_kind() {
    let lines: Vec<String> = builtin_kinds()
        .iter()
        .map(|kind| {
            let columns: Vec<&str> =
                kind.columns.iter().filter(|c| c.priority == 0).map(|c| c.name.as_str()).collect();
            format!(
                "{}/{} {} {:?} {} [{}]\n",
                kind.group,
                kind.version,
                kind.kind,
                kind.scope,
                kind.plural,
                columns.join(", ")
            )
        })
        .collect();
    expect![[r#"
        /v1 ConfigMap Namespaced configmaps [Data, Age]
        apiextensions.k8s.io/v1 CustomResourceDefinition Cluster customresourcedefinitions [Created At]
        /v1 Event Namespaced events [Last Seen, Type, Reason, Object, Message]
        events.k8s.io/v1 Event Namespaced events [Last Seen, Type, Reason, Object, Message]
        coordination.k8s.io/v1 Lease Namespaced leases [Holder, Age]
        /v1 Namespace Cluster namespaces [Status, Age]
        /v1 Secret Namespaced secrets [Type, Data, Age]
    "#]].assert_eq(&lines.concat());
}

#[test]
fn every_column_can_be_shown() {
    for kind in builtin_kinds() {
        if let Err(error) = Columns::of(&kind) {
            panic!("{}: {error}", kind.kind);
        }
    }
}

#[test]
fn every_field_has_a_description() {
    fn look(schema: &Schema, path: &str, missing: &mut Vec<String>) {
        for (name, property) in &schema.properties {
            let path = format!("{path}.{name}");
            if property.description.is_empty() {
                missing.push(path.clone());
            }
            look(property, &path, missing);
        }
        if let Some(items) = &schema.items {
            look(items, path, missing);
        }
        if let Additional::Each(each) = &schema.additional {
            look(each, path, missing);
        }
    }
    let mut missing = Vec::new();
    for kind in builtin_kinds() {
        if kind.compiled.description.is_empty() {
            missing.push(kind.kind.clone());
        }
        look(&kind.compiled, &kind.kind, &mut missing);
    }
    assert_eq!(missing, Vec::<String>::new());
}

#[test]
fn what_clients_send_of_metadata_is_accepted() {
    let kinds = builtin_kinds();
    let secret = kinds.iter().find(|kind| kind.kind == "Secret").expect("it is built in");
    let mut object = crate::decode::json(
        br#"{"apiVersion": "v1", "kind": "Secret", "type": null, "data": {"a": "aGk="},
             "metadata": {"name": "a", "creationTimestamp": null, "labels": {"x/y": "z"},
                "finalizers": ["a/b"], "managedFields": [{"manager": "kubectl", "fieldsV1": {"f:data": {}}}],
                "ownerReferences": [{"apiVersion": "v1", "kind": "A", "name": "b", "uid": "c"}]}}"#,
    )
    .expect("it is JSON")
    .value;
    assert_eq!(secret.compiled.unknown_fields(&object), []);
    secret.compiled.fill_defaults(&mut object);
    assert_eq!(secret.compiled.validate(&object, &Path::ROOT), []);
    assert_eq!(object["type"], "Opaque");
    assert_eq!(object["metadata"].get("creationTimestamp"), None::<&Value>);
}
