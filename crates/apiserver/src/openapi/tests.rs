//! Tests of both versions over the same sample kinds.

use expect_test::{Expect, expect};

use super::*;
use crate::sample;

fn app_document() -> Value {
    document(&sample::kinds(), "tombolo.dev", "v1alpha1").unwrap()
}

#[track_caller]
fn check(document: &Value, pointer: &str, expect: Expect) {
    let part = document.pointer(pointer).unwrap_or_else(|| panic!("nothing at {pointer}"));
    expect.assert_eq(&sample::outline(part));
}

#[test]
fn names_every_operation_of_every_kind() {
    let document = app_document();
    let mut lines = String::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let parameters: Vec<&str> = operation["parameters"]
                .as_array()
                .unwrap()
                .iter()
                .filter_map(|parameter| parameter["name"].as_str())
                .collect();
            let id = operation["operationId"].as_str().unwrap();
            lines += &format!("{method} {path} {id} ({})\n", parameters.join(" "));
        }
    }
    expect![[r#"
        get /apis/tombolo.dev/v1alpha1/apps listTomboloDevV1alpha1AppForAllNamespaces (labelSelector fieldSelector limit continue resourceVersion resourceVersionMatch timeoutSeconds watch allowWatchBookmarks sendInitialEvents)
        delete /apis/tombolo.dev/v1alpha1/namespaces/{namespace}/apps deleteCollectionTomboloDevV1alpha1App (namespace labelSelector fieldSelector limit continue resourceVersion resourceVersionMatch timeoutSeconds dryRun gracePeriodSeconds propagationPolicy)
        get /apis/tombolo.dev/v1alpha1/namespaces/{namespace}/apps listTomboloDevV1alpha1App (namespace labelSelector fieldSelector limit continue resourceVersion resourceVersionMatch timeoutSeconds watch allowWatchBookmarks sendInitialEvents)
        post /apis/tombolo.dev/v1alpha1/namespaces/{namespace}/apps createTomboloDevV1alpha1App (namespace dryRun fieldManager fieldValidation)
        delete /apis/tombolo.dev/v1alpha1/namespaces/{namespace}/apps/{name} deleteTomboloDevV1alpha1App (namespace name dryRun gracePeriodSeconds propagationPolicy)
        get /apis/tombolo.dev/v1alpha1/namespaces/{namespace}/apps/{name} readTomboloDevV1alpha1App (namespace name resourceVersion)
        patch /apis/tombolo.dev/v1alpha1/namespaces/{namespace}/apps/{name} patchTomboloDevV1alpha1App (namespace name dryRun fieldManager fieldValidation force)
        put /apis/tombolo.dev/v1alpha1/namespaces/{namespace}/apps/{name} replaceTomboloDevV1alpha1App (namespace name dryRun fieldManager fieldValidation)
        get /apis/tombolo.dev/v1alpha1/namespaces/{namespace}/apps/{name}/scale readTomboloDevV1alpha1AppScale (namespace name resourceVersion)
        patch /apis/tombolo.dev/v1alpha1/namespaces/{namespace}/apps/{name}/scale patchTomboloDevV1alpha1AppScale (namespace name dryRun fieldManager fieldValidation force)
        put /apis/tombolo.dev/v1alpha1/namespaces/{namespace}/apps/{name}/scale replaceTomboloDevV1alpha1AppScale (namespace name dryRun fieldManager fieldValidation)
        get /apis/tombolo.dev/v1alpha1/namespaces/{namespace}/apps/{name}/status readTomboloDevV1alpha1AppStatus (namespace name resourceVersion)
        patch /apis/tombolo.dev/v1alpha1/namespaces/{namespace}/apps/{name}/status patchTomboloDevV1alpha1AppStatus (namespace name dryRun fieldManager fieldValidation force)
        put /apis/tombolo.dev/v1alpha1/namespaces/{namespace}/apps/{name}/status replaceTomboloDevV1alpha1AppStatus (namespace name dryRun fieldManager fieldValidation)
        delete /apis/tombolo.dev/v1alpha1/nodes deleteCollectionTomboloDevV1alpha1Node (labelSelector fieldSelector limit continue resourceVersion resourceVersionMatch timeoutSeconds dryRun gracePeriodSeconds propagationPolicy)
        get /apis/tombolo.dev/v1alpha1/nodes listTomboloDevV1alpha1Node (labelSelector fieldSelector limit continue resourceVersion resourceVersionMatch timeoutSeconds watch allowWatchBookmarks sendInitialEvents)
        post /apis/tombolo.dev/v1alpha1/nodes createTomboloDevV1alpha1Node (dryRun fieldManager fieldValidation)
        delete /apis/tombolo.dev/v1alpha1/nodes/{name} deleteTomboloDevV1alpha1Node (name dryRun gracePeriodSeconds propagationPolicy)
        get /apis/tombolo.dev/v1alpha1/nodes/{name} readTomboloDevV1alpha1Node (name resourceVersion)
        patch /apis/tombolo.dev/v1alpha1/nodes/{name} patchTomboloDevV1alpha1Node (name dryRun fieldManager fieldValidation force)
        put /apis/tombolo.dev/v1alpha1/nodes/{name} replaceTomboloDevV1alpha1Node (name dryRun fieldManager fieldValidation)
    "#]].assert_eq(&lines);
}

/// kubectl decides by this whether the server validates fields itself.
#[test]
fn every_patch_of_a_kind_takes_field_validation_and_dry_run() {
    let document = app_document();
    let mut patches = 0;
    for methods in document["paths"].as_object().unwrap().values() {
        let Some(patch) = methods.get("patch") else { continue };
        patches += 1;
        let takes = |name: &str| {
            patch["parameters"]
                .as_array()
                .unwrap()
                .iter()
                .any(|parameter| parameter["name"] == name && parameter["in"] == "query")
        };
        assert!(takes("fieldValidation") && takes("dryRun") && takes("force"), "{patch}");
    }
    assert_eq!(patches, 4, "App, its status, its scale; Node");
}

#[test]
fn puts_the_shared_metadata_into_the_schema_of_a_kind() {
    check(
        &app_document(),
        "/components/schemas/dev.tombolo.v1alpha1.App",
        expect![[r#"
        description: An application.
        properties:
          apiVersion: {description:APIVersion defines the group and the version in which the object is written.,type:string}
          kind: {description:What the object is, in CamelCase.,type:string}
          metadata:
            allOf: [{$ref:#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta}]
            description: What every object has: its name, labels, owners and history.
          spec:
            description: What is wanted.
            properties:
              components:
                description: The parts that run.
                items:
                  properties:
                    env: {additionalProperties:{type:string},type:object}
                    name: {description:A name of its own.,type:string}
                    port: {anyOf:[{type:integer},{type:string}],x-kubernetes-int-or-string:true}
                    pull: {enum:[Always,Never],type:string}
                  required: [name]
                  type: object
                type: array
              replicas: {format:int32,minimum:0,nullable:true,type:integer}
            required: [components]
            type: object
          status: {type:object,x-kubernetes-preserve-unknown-fields:true}
        required: [spec]
        type: object
        x-kubernetes-group-version-kind: [{group:tombolo.dev,kind:App,version:v1alpha1}]
    "#]],
    );
    check(
        &app_document(),
        "/components/schemas/dev.tombolo.v1alpha1.AppList",
        expect![[r#"
        description: A list of objects of the kind App.
        properties:
          apiVersion: {description:APIVersion defines the group and the version in which the object is written.,type:string}
          items: {description:The objects of the kind App.,items:{$ref:#/components/schemas/dev.tombolo.v1alpha1.App},type:array}
          kind: {description:What the object is, in CamelCase.,type:string}
          metadata:
            allOf: [{$ref:#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta}]
            description: The revision of the list, and how to go on reading it.
        required: [items]
        type: object
        x-kubernetes-group-version-kind: [{group:tombolo.dev,kind:AppList,version:v1alpha1}]
    "#]],
    );
}

#[test]
fn describes_an_operation() {
    check(
        &app_document(),
        "/paths/~1apis~1tombolo.dev~1v1alpha1~1nodes/post",
        expect![[r#"
        description: Creates objects of the kind Node.
        operationId: createTomboloDevV1alpha1Node
        parameters:
          -
            description: With All, everything is checked and nothing is changed.
            in: query
            name: dryRun
            required: false
            schema: {type:string}
          - {description:Who is to own the fields that are set.,in:query,name:fieldManager,required:false,schema:{type:string}}
          -
            description: Unknown and repeated fields: Strict refuses, Warn warns, Ignore drops them.
            in: query
            name: fieldValidation
            required: false
            schema: {type:string}
        requestBody:
          content:
            application/json: {schema:{$ref:#/components/schemas/dev.tombolo.v1alpha1.Node}}
            application/yaml: {schema:{$ref:#/components/schemas/dev.tombolo.v1alpha1.Node}}
          required: true
        responses: {201:{content:{application/json:{schema:{$ref:#/components/schemas/dev.tombolo.v1alpha1.Node}}},description:It worked.}}
        x-kubernetes-action: post
        x-kubernetes-group-version-kind: {group:tombolo.dev,kind:Node,version:v1alpha1}
    "#]],
    );
}

#[test]
fn has_a_document_for_every_group_and_version() {
    let documents = documents(&sample::kinds());
    let paths: Vec<&str> = documents.keys().map(String::as_str).collect();
    expect![[r#"
        api/v1
        apis/authentication.k8s.io/v1
        apis/authorization.k8s.io/v1
        apis/example.com/v1
        apis/example.com/v1beta1
        apis/tombolo.dev/v1alpha1"#]]
    .assert_eq(&paths.join("\n"));
    assert_eq!(document(&sample::kinds(), "tombolo.dev", "v2"), None);
}

#[test]
fn every_reference_leads_somewhere() {
    for (path, document) in documents(&sample::kinds()) {
        check_references(&document, &document, &path);
    }
    let document = v2(&sample::kinds());
    check_references(&document, &document, "v2");
}

#[track_caller]
fn check_references(root: &Value, part: &Value, place: &str) {
    match part {
        Value::Object(fields) => {
            if let Some(Value::String(target)) = fields.get("$ref") {
                let pointer = target.strip_prefix('#').unwrap();
                assert!(root.pointer(pointer).is_some(), "{target} in {place}");
            }
            fields.values().for_each(|value| check_references(root, value, place));
        }
        Value::Array(elements) => {
            elements.iter().for_each(|value| check_references(root, value, place));
        }
        _ => (),
    }
}

#[test]
fn the_index_changes_with_the_bytes_and_only_then() {
    let served = [("api/v1", b"one".as_slice()), ("apis/tombolo.dev/v1alpha1", b"two".as_slice())];
    expect![[r#"
        {
          "paths": {
            "api/v1": {
              "serverRelativeURL": "/openapi/v3/api/v1?hash=1A08AA1921CA5CAF"
            },
            "apis/tombolo.dev/v1alpha1": {
              "serverRelativeURL": "/openapi/v3/apis/tombolo.dev/v1alpha1?hash=5714D319447C9709"
            }
          }
        }"#]]
    .assert_eq(&serde_json::to_string_pretty(&index(served)).unwrap());
    assert_ne!(hash(b"one"), hash(b"two"));
    assert_eq!(hash(b""), "CBF29CE484222325");
}

#[test]
fn writes_v2_without_what_v2_does_not_know() {
    let document = v2(&sample::kinds());
    check(
        &document,
        "/definitions/dev.tombolo.v1alpha1.App",
        expect![[r#"
        description: An application.
        properties:
          apiVersion: {description:APIVersion defines the group and the version in which the object is written.,type:string}
          kind: {description:What the object is, in CamelCase.,type:string}
          metadata:
            $ref: #/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta
            description: What every object has: its name, labels, owners and history.
          spec:
            description: What is wanted.
            properties:
              components:
                description: The parts that run.
                items:
                  properties:
                    env: {additionalProperties:{type:string},type:object}
                    name: {description:A name of its own.,type:string}
                    port: {x-kubernetes-int-or-string:true}
                    pull: {enum:[Always,Never],type:string}
                  required: [name]
                  type: object
                type: array
              replicas: {format:int32,minimum:0,type:integer}
            required: [components]
            type: object
          status: {type:object,x-kubernetes-preserve-unknown-fields:true}
        required: [spec]
        type: object
        x-kubernetes-group-version-kind: [{group:tombolo.dev,kind:App,version:v1alpha1}]
    "#]],
    );
    check(
        &document,
        "/paths/~1apis~1tombolo.dev~1v1alpha1~1nodes/post",
        expect![[r#"
        consumes: [application/json,application/yaml]
        description: Creates objects of the kind Node.
        operationId: createTomboloDevV1alpha1Node
        parameters:
          - {description:With All, everything is checked and nothing is changed.,in:query,name:dryRun,required:false,type:string}
          - {description:Who is to own the fields that are set.,in:query,name:fieldManager,required:false,type:string}
          -
            description: Unknown and repeated fields: Strict refuses, Warn warns, Ignore drops them.
            in: query
            name: fieldValidation
            required: false
            type: string
          - {in:body,name:body,required:true,schema:{$ref:#/definitions/dev.tombolo.v1alpha1.Node}}
        produces: [application/json,application/yaml]
        responses: {201:{description:It worked.,schema:{$ref:#/definitions/dev.tombolo.v1alpha1.Node}}}
        x-kubernetes-action: post
        x-kubernetes-group-version-kind: {group:tombolo.dev,kind:Node,version:v1alpha1}
    "#]],
    );
}

#[test]
fn keeps_a_field_whose_name_is_a_word_of_schemas() {
    let mut kinds = sample::kinds();
    kinds[0].schema = json!({"type": "object", "properties": {"not": {"type": "string"}}});
    let document = v2(&kinds);
    check(
        &document,
        "/definitions/dev.tombolo.v1alpha1.App/properties/not",
        expect![[r#"
        type: string
    "#]],
    );
}

#[test]
fn asks_for_the_binary_form_in_both_spellings() {
    assert!(wants_v2_binary(Some(V2_BINARY_TYPE)));
    assert!(wants_v2_binary(Some("application/com.github.proto-openapi.spec.v2@v1.0+protobuf")));
    assert!(!wants_v2_binary(Some("application/json, */*")));
    assert!(!wants_v2_binary(None));
}

/// Kept short by hand: kubectl reads the whole of it in the tests of the server.
#[test]
fn writes_the_binary_form_field_by_field() {
    let document = json!({
        "swagger": "2.0", "info": {"title": "T", "version": "1"},
        "paths": {"/a": {"patch": {
            "operationId": "o", "parameters": [{"name": "q", "in": "query", "type": "string"}],
            "responses": {"200": {"description": "d", "schema": {"$ref": "r"}}},
        }}},
        "definitions": {"D": {"type": "object", "minLength": 200, "minimum": 1, "x-y": [1]}},
    });
    let escaped: String =
        v2_binary(&document).iter().map(|byte| byte.escape_ascii().to_string()).collect();
    expect![[r#"\n\x032.0\x12\x06\n\x01T\x12\x011B>\x12<\n\x02/a\x126B4*\x01oB\x18\n\x16\x12\x14\x1a\x12\x12\x05query\"\x01q2\x06stringJ\x15\n\x13\n\x03200\x12\x0c\n\n\n\x01d\x12\x05\n\x03\n\x01rJ-\n+\n\x01D\x12&I\x00\x00\x00\x00\x00\x00\xf0?`\xc8\x01\xb2\x01\x08\n\x06object\xfa\x01\x0c\n\x03x-y\x12\x05\x12\x03[1]"#]].assert_eq(&escaped);
}
