//! The bodies of the first tests are what kubectl sent, byte for byte.

use expect_test::{Expect, expect};
use proptest::prelude::*;
use serde_json::json;

use super::*;

#[track_caller]
fn check(body: &[u8], expect: Expect) {
    expect.assert_eq(&match decode(body) {
        Ok(object) => object.to_string(),
        Err(error) => error.to_string(),
    });
}

#[test]
fn reads_what_kubectl_auth_sends() {
    check(
        b"k8s\x00\n2\n\x17authorization.k8s.io/v1\x12\x17SelfSubjectAccessReview\x12G\n\x10\n\x00\x12\x00\x1a\x00\"\x00*\x002\x008\x00B\x00\x12)\n'\n\x07default\x12\x03get\x1a\x0btombolo.dev\"\x00*\x04apps2\x00:\x00\x1a\x08\x08\x00\x12\x00\x1a\x00 \x00\x1a\x00\"\x00",
        expect![[r#"{"apiVersion":"authorization.k8s.io/v1","kind":"SelfSubjectAccessReview","spec":{"resourceAttributes":{"group":"tombolo.dev","namespace":"default","resource":"apps","verb":"get"}}}"#]],
    );
    check(
        b"k8s\x00\n1\n\x17authorization.k8s.io/v1\x12\x16SelfSubjectRulesReview\x12#\n\x10\n\x00\x12\x00\x1a\x00\"\x00*\x002\x008\x00B\x00\x12\t\n\x07default\x1a\x04\x18\x00\"\x00\x1a\x00\"\x00",
        expect![[r#"{"apiVersion":"authorization.k8s.io/v1","kind":"SelfSubjectRulesReview","spec":{"namespace":"default"}}"#]],
    );
    check(
        b"k8s\x00\n-\n\x18authentication.k8s.io/v1\x12\x11SelfSubjectReview\x12\x1a\n\x10\n\x00\x12\x00\x1a\x00\"\x00*\x002\x008\x00B\x00\x12\x06\n\x04\n\x00\x12\x00\x1a\x00\"\x00",
        expect![[r#"{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}"#]],
    );
}

#[test]
fn reads_what_kubectl_create_sends() {
    check(
        b"k8s\x00\n\x0f\n\x02v1\x12\tConfigMap\x12\x1b\n\x11\n\x01x\x12\x00\x1a\x00\"\x00*\x002\x008\x00B\x00\x12\x06\n\x01a\x12\x01b\x1a\x00\"\x00",
        expect![[r#"{"apiVersion":"v1","data":{"a":"b"},"kind":"ConfigMap","metadata":{"name":"x"}}"#]],
    );
    check(
        b"k8s\x00\n\x0f\n\x02v1\x12\tNamespace\x12\x19\n\x11\n\x01y\x12\x00\x1a\x00\"\x00*\x002\x008\x00B\x00\x12\x00\x1a\x02\n\x00\x1a\x00\"\x00",
        expect![[r#"{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"y"}}"#]],
    );
    check(
        b"k8s\x00\n\x0c\n\x02v1\x12\x06Secret\x12\x1d\n\x11\n\x01s\x12\x00\x1a\x00\"\x00*\x002\x008\x00B\x00\x12\x06\n\x01a\x12\x01b\x1a\x00\x1a\x00\"\x00",
        expect![[r#"{"apiVersion":"v1","data":{"a":"Yg=="},"kind":"Secret","metadata":{"name":"s"}}"#]],
    );
}

/// A field of a message, as a client writes it.
fn bytes(number: u8, content: &[u8]) -> Vec<u8> {
    let length = u8::try_from(content.len()).unwrap();
    assert!(length < 128, "one byte of length is enough for these tests");
    [&[number << 3 | 2, length], content].concat()
}

fn number(number: u8, value: u8) -> Vec<u8> {
    vec![number << 3, value]
}

fn body(api_version: &str, kind: &str, object: &[u8]) -> Vec<u8> {
    let type_meta = [bytes(1, api_version.as_bytes()), bytes(2, kind.as_bytes())].concat();
    [b"k8s\0".to_vec(), bytes(1, &type_meta), bytes(2, object)].concat()
}

#[test]
fn reads_times_owners_and_pointers_to_nothing() {
    let owner = [bytes(1, b"App"), bytes(3, b"web"), number(6, 0)].concat();
    let time = [number(1, 100), number(2, 0)].concat();
    let metadata =
        [bytes(1, b"lock"), bytes(8, &time), bytes(13, &owner), bytes(14, b"a"), bytes(14, b"b")];
    // 1,500 nanoseconds are a microsecond and a half.
    let micro_time = [&number(1, 100)[..], &[2 << 3, 0xdc, 0x0b]].concat();
    let spec = [bytes(1, b""), number(5, 0), bytes(4, &micro_time)].concat();
    let lease = [bytes(1, &metadata.concat()), bytes(2, &spec)].concat();
    check(
        &body("coordination.k8s.io/v1", "Lease", &lease),
        expect![[
            r#"{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"creationTimestamp":"1970-01-01T00:01:40Z","finalizers":["a","b"],"name":"lock","ownerReferences":[{"controller":false,"kind":"App","name":"web"}]},"spec":{"holderIdentity":"","leaseTransitions":0,"renewTime":"1970-01-01T00:01:40.000001Z"}}"#
        ]],
    );
}

#[test]
fn reads_negative_numbers_lists_and_json() {
    let negative = [[1 << 3].as_slice(), &[0xff; 9], &[1]].concat();
    check(
        &body("apps/v1", "DeleteOptions", &[negative, bytes(5, b"All")].concat()),
        expect![[
            r#"{"apiVersion":"apps/v1","dryRun":["All"],"gracePeriodSeconds":-1,"kind":"DeleteOptions"}"#
        ]],
    );
    let entry = bytes(7, &bytes(1, br#"{"f:data":{}}"#));
    // Field numbers from 16 on take two bytes: this is 17.
    let managed = [&[0x8a, 0x01, u8::try_from(entry.len()).unwrap()], entry.as_slice()].concat();
    check(
        &body("v1", "ConfigMap", &bytes(1, &managed)),
        expect![[
            r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"managedFields":[{"fieldsV1":{"f:data":{}}}]}}"#
        ]],
    );
    let extra = bytes(5, &[bytes(1, b"scopes"), bytes(2, &bytes(1, b"all"))].concat());
    check(
        &body("authorization.k8s.io/v1", "SubjectAccessReview", &bytes(2, &extra)),
        expect![[
            r#"{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","spec":{"extra":{"scopes":["all"]}}}"#
        ]],
    );
}

#[test]
fn refuses_what_it_would_read_wrongly() {
    check(
        b"{}",
        expect![
            "the body is not in the protobuf form of Kubernetes: it does not begin with k8s and a zero byte"
        ],
    );
    check(b"k8s\0", expect!["  cannot be read as protobuf; send it as application/json"]);
    check(
        &body("apps/v1", "Deployment", b""),
        expect!["apps/v1 Deployment cannot be read as protobuf; send it as application/json"],
    );
    check(
        &body("v1", "ConfigMap", &bytes(9, b"x")),
        expect!["field 9 of ConfigMap is not known in protobuf; send it as application/json"],
    );
    check(
        &body("v1", "ConfigMap", &number(1, 1)),
        expect!["the protobuf body is damaged: a field is not of the type that it should be"],
    );
    check(
        &body("v1", "ConfigMap", &[0x0a, 0x7f, 1]),
        expect!["the protobuf body is damaged: it ends too early"],
    );
    check(
        &body("v1", "ConfigMap", &[0x0a; 12]),
        expect!["the protobuf body is damaged: it ends too early"],
    );
    check(
        &body("v1", "ConfigMap", &[0xff; 12]),
        expect!["the protobuf body is damaged: a number has more than 64 bits"],
    );
    check(
        &body("v1", "ConfigMap", &[0x0b]),
        expect!["the protobuf body is damaged: it has a field of an unknown wire type"],
    );
    check(
        &body("v1", "ConfigMap", &bytes(1, &bytes(1, &[0xff]))),
        expect!["the protobuf body is damaged: a text is not UTF-8"],
    );
}

/// What is written comes back as it was, field for field.
#[track_caller]
fn check_both_ways(object: &Value) {
    let bytes = encode::object(object).expect("the kind can be written");
    assert_eq!(decode(&bytes).expect("what was written is read"), *object);
}

#[test]
fn writes_what_it_reads() {
    let metadata = json!({
        "name": "a", "namespace": "b", "uid": "u", "resourceVersion": "12", "generation": 3,
        "creationTimestamp": "2026-01-02T03:04:05Z", "labels": {"x": "y"}, "annotations": {"k": ""},
        "ownerReferences": [{"apiVersion": "v1", "kind": "K", "name": "n", "uid": "o",
            "controller": true, "blockOwnerDeletion": false}],
        "finalizers": ["a/b"], "deletionTimestamp": "2026-01-02T03:04:06Z",
        "deletionGracePeriodSeconds": 0,
        "managedFields": [{"manager": "m", "operation": "Apply", "apiVersion": "v1",
            "time": "2026-01-02T03:04:05Z", "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {}}}],
    });
    check_both_ways(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata,
        "data": {"a": "b", "empty": ""}, "binaryData": {"c": "AAEC"}, "immutable": false}));
    check_both_ways(&json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata,
        "type": "Opaque", "data": {"a": "aGk="}}));
    check_both_ways(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata,
        "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active", "conditions": [
            {"type": "T", "status": "True", "lastTransitionTime": "2026-01-02T03:04:05Z",
                "reason": "R", "message": "M"}]}}));
    check_both_ways(&json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": metadata, "spec": {"holderIdentity": "", "leaseDurationSeconds": 15,
            "acquireTime": "2026-01-02T03:04:05.678901Z", "leaseTransitions": 0}}));
    let said = json!({"metadata": metadata, "type": "Normal", "reason": "R", "action": "A",
        "eventTime": "2026-01-02T03:04:05.678901Z", "reportingInstance": "i",
        "series": {"count": 3, "lastObservedTime": "2026-01-02T03:04:05.678901Z"}});
    let with = |more: Value| {
        let mut event = said.clone();
        event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        event
    };
    check_both_ways(&with(json!({"apiVersion": "v1", "kind": "Event", "message": "m", "count": 2,
        "involvedObject": {"kind": "K", "name": "n", "fieldPath": "spec"},
        "source": {"component": "c"}, "reportingComponent": "r"})));
    check_both_ways(&with(json!({"apiVersion": "events.k8s.io/v1", "kind": "Event", "note": "m",
        "regarding": {"kind": "K", "name": "n"}, "deprecatedCount": 2, "reportingController": "r"})));
    check_both_ways(
        &json!({"apiVersion": "v1", "kind": "Status", "status": "Failure", "code": 409,
        "message": "no", "reason": "Conflict", "metadata": {"continue": "t"},
        "details": {"name": "n", "kind": "k", "retryAfterSeconds": 1,
            "causes": [{"reason": "r", "message": "m", "field": "f"}]}}),
    );
}

#[test]
fn a_definition_comes_back_as_it_was() {
    let schema = json!({
        "type": "object", "description": "d", "required": ["spec"],
        "properties": {
            "empty": {}, "any": {"x-kubernetes-preserve-unknown-fields": true},
            "spec": {"type": "object", "properties": {
                "list": {"type": "array", "items": {"type": "string", "maxLength": 0}, "minItems": 1,
                    "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"]},
                "map": {"type": "object", "additionalProperties": {"type": "integer"}},
                "open": {"type": "object", "additionalProperties": true},
                "shut": {"type": "object", "additionalProperties": false},
                "number": {"type": "number", "minimum": -1.5, "maximum": 10, "multipleOf": 0.5,
                    "exclusiveMaximum": true},
                "choice": {"enum": ["a", 1, null, {"b": []}], "default": {"c": [1]}, "nullable": true},
                "either": {"x-kubernetes-int-or-string": true, "not": {},
                    "anyOf": [{"type": "integer"}, {"type": "string"}]},
            }, "x-kubernetes-validations": [{"rule": "self.a > 1", "message": "m", "reason":
                "FieldValueInvalid", "fieldPath": ".a", "optionalOldSelf": false}]},
        },
    });
    check_both_ways(&json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "conversion": {"strategy": "None"},
            "names": {"plural": "things", "kind": "Thing", "shortNames": ["th"]},
            "versions": [{"name": "v1", "served": true, "storage": false, "deprecated": true,
                "schema": {"openAPIV3Schema": schema},
                "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.replicas",
                    "statusReplicasPath": ".status.replicas"}},
                "selectableFields": [{"jsonPath": ".spec.a"}],
                "additionalPrinterColumns": [{"name": "A", "type": "integer", "priority": 1,
                    "jsonPath": ".spec.a"}]}]},
        "status": {"storedVersions": ["v1"], "acceptedNames": {"plural": "things", "kind": "Thing"},
            "conditions": [{"type": "Established", "status": "True",
                "lastTransitionTime": "2026-01-02T03:04:05Z"}]},
    }));
}

#[test]
fn a_list_is_its_head_and_its_items() {
    let map =
        |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    let items = [encode::item(&map("a")), encode::item(&map("b"))].concat();
    let meta = json!({"resourceVersion": "7", "remainingItemCount": 0});
    let head = encode::list_head("v1", "ConfigMapList", &meta, items.len());
    let found: Vec<String> = Entries(&[head, items].concat()[MAGIC.len()..])
        .map(|entry| match entry.expect("it is whole") {
            (number, Wire::Bytes(bytes)) => format!("{number}: {}", String::from_utf8_lossy(bytes)),
            (number, other) => format!("{number}: {other:?}"),
        })
        .collect();
    assert_eq!(
        found,
        [
            "1: \n\u{2}v1\u{12}\rConfigMapList",
            "2: \n\u{5}\u{12}\u{1}7 \0\u{12}\u{5}\n\u{3}\n\u{1}a\u{12}\u{5}\n\u{3}\n\u{1}b",
        ]
    );
}

#[test]
fn a_schema_of_any_depth_is_refused_and_not_followed() {
    let mut schema = Vec::new();
    for _ in 0..DEPTH_MAX {
        // Field 28 is `not`; its key takes two bytes, and so may its length.
        let mut deeper = vec![0xe2, 0x01];
        let length = schema.len();
        deeper.extend([
            u8::try_from(length & 0x7f).unwrap() | 0x80,
            u8::try_from(length >> 7).unwrap(),
        ]);
        deeper.extend(schema);
        schema = deeper;
    }
    let wrap = |number: u8, inner: Vec<u8>| {
        let length = inner.len();
        let low = u8::try_from(length & 0x7f).unwrap() | 0x80;
        [vec![number << 3 | 2, low, u8::try_from(length >> 7).unwrap()], inner].concat()
    };
    let definition = wrap(2, wrap(7, wrap(4, wrap(1, schema))));
    let type_meta =
        [bytes(1, b"apiextensions.k8s.io/v1"), bytes(2, b"CustomResourceDefinition")].concat();
    let body = [b"k8s\0".to_vec(), bytes(1, &type_meta), wrap(2, definition)].concat();
    check(&body, expect!["the protobuf body is damaged: it is too deep"]);
}

proptest! {
    #[test]
    fn never_panics_on_any_bytes(any: Vec<u8>, object: Vec<u8>, kind in 0..5_usize) {
        let _ = decode(&any);
        let kinds = [("v1", "Event"), ("v1", "Secret"), ("coordination.k8s.io/v1", "Lease"), ("v1", "Namespace"),
            ("apiextensions.k8s.io/v1", "CustomResourceDefinition")];
        let (api_version, kind) = kinds[kind];
        let object = &object[..object.len().min(120)];
        let _ = decode(&body(api_version, kind, object));
    }
}
