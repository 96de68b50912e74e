//! The patches, operation by operation, and random ones against their bounds.

use expect_test::{Expect, expect};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{
    OPERATIONS_MAX, PatchError, RESULT_DEPTH_MAX, json_patch, merge_patch, strategic_merge_patch,
};

type Patch = fn(&Value, &[u8]) -> Result<Value, PatchError>;

#[track_caller]
fn check(patch: Patch, document: &str, text: &str, expect: Expect) {
    let document = serde_json::from_str(document).unwrap();
    expect.assert_eq(&match patch(&document, text.as_bytes()) {
        Ok(patched) => patched.to_string(),
        Err(error) => match std::error::Error::source(&error) {
            None => error.to_string(),
            Some(source) => format!("{error}: {source}"),
        },
    });
}

#[test]
fn does_each_operation_of_a_json_patch() {
    check(
        json_patch,
        r#"{"a": 1, "list": [1, 2], "b": {"c": 3}}"#,
        r#"[{"op": "test", "path": "/a", "value": 1},
            {"op": "add", "path": "/list/-", "value": 3},
            {"op": "add", "path": "/list/0", "value": 0},
            {"op": "replace", "path": "/a", "value": 5},
            {"op": "copy", "from": "/b", "path": "/d"},
            {"op": "move", "from": "/b/c", "path": "/e~1f"},
            {"op": "remove", "path": "/list/1"}]"#,
        expect![[r#"{"a":5,"b":{},"d":{"c":3},"e/f":3,"list":[0,2,3]}"#]],
    );
}

#[test]
fn a_test_for_null_holds_where_there_is_nothing() {
    let patch = r#"[{"op": "test", "path": "/metadata/finalizers", "value": null},
                    {"op": "add", "path": "/metadata/finalizers", "value": ["a"]}]"#;
    let expect = expect![[r#"{"metadata":{"finalizers":["a"]}}"#]];
    check(json_patch, r#"{"metadata": {}}"#, patch, expect);
    check(
        json_patch,
        r#"{"metadata": {"finalizers": ["b"]}}"#,
        patch,
        expect![[
            r#"operation 0 of the patch: the value at "/metadata/finalizers" is not the one it tests for"#
        ]],
    );
}

#[test]
fn says_which_operation_failed_and_why() {
    let document = r#"{"a": 1, "list": [1]}"#;
    check(
        json_patch,
        document,
        r#"[{"op": "remove", "path": "/b"}]"#,
        expect![[r#"operation 0 of the patch, remove "/b": there is no such place"#]],
    );
    check(
        json_patch,
        document,
        r#"[{"op": "add", "path": "/c", "value": 1}, {"op": "add", "path": "/x/y", "value": 1}]"#,
        expect![[r#"operation 1 of the patch, add "/x/y": there is no such place"#]],
    );
    check(
        json_patch,
        document,
        r#"[{"op": "add", "path": "/list/5", "value": 1}]"#,
        expect![[r#"operation 0 of the patch, add "/list/5": there is no such place"#]],
    );
    check(
        json_patch,
        document,
        r#"[{"op": "test", "path": "/a", "value": 2}]"#,
        expect![[r#"operation 0 of the patch: the value at "/a" is not the one it tests for"#]],
    );
    check(
        json_patch,
        document,
        r#"[{"op": "copy", "from": "/x", "path": "/y"}]"#,
        expect![[r#"operation 0 of the patch, copy "/y": there is nothing at "/x""#]],
    );
    check(
        json_patch,
        document,
        r#"[{"op": "move", "from": "/list", "path": "/list/0"}]"#,
        expect![[
            r#"operation 0 of the patch, move "/list/0": cannot move the value inside itself"#
        ]],
    );
}

#[test]
fn says_what_is_wrong_with_a_json_patch() {
    let document = r#"{"a": 1, "list": [1]}"#;
    check(
        json_patch,
        document,
        r#"[{"op": "jump", "path": "/a"}]"#,
        expect![
            "operation 0 of the patch is not valid: unknown variant `jump`, expected one of `add`, `remove`, `replace`, `move`, `copy`, `test`"
        ],
    );
    check(
        json_patch,
        document,
        r#"[{"op": "add", "path": "a", "value": 1}]"#,
        expect![
            "operation 0 of the patch is not valid: json pointer failed to parse; does not start with a slash ('/') and is not empty"
        ],
    );
    check(
        json_patch,
        document,
        r#"[{"op": "add", "path": "/a"}]"#,
        expect!["operation 0 of the patch is not valid: missing field `value`"],
    );
    check(
        json_patch,
        document,
        r#"{"op": "add"}"#,
        expect!["the patch must be a JSON list of operations, not an object"],
    );
    check(
        json_patch,
        document,
        "[",
        expect!["the patch is not valid JSON: EOF while parsing a list at line 1 column 1"],
    );
}

#[test]
fn bounds_the_operations_of_a_json_patch() {
    let patch = |count| {
        let operations = vec![json!({"op": "test", "path": "/a", "value": 1}); count];
        json_patch(&json!({"a": 1}), Value::from(operations).to_string().as_bytes())
    };
    assert!(patch(OPERATIONS_MAX).is_ok());
    assert!(matches!(patch(OPERATIONS_MAX + 1), Err(PatchError::TooManyOperations { .. })));
}

#[test]
fn stops_a_patch_that_doubles_the_document() {
    let operations =
        (0..40).map(|place| json!({"op": "copy", "from": "/a", "path": format!("/a/{place}")}));
    let patch = Value::from(operations.collect::<Vec<_>>()).to_string();
    let patched = json_patch(&json!({"a": {"text": "0123456789"}}), patch.as_bytes());
    assert!(matches!(patched, Err(PatchError::TooLarge)), "{patched:?}");
}

#[test]
fn stops_a_patch_that_nests_too_deep() {
    let operations = |count: usize| {
        let operations = (0..count)
            .map(|place| json!({"op": "add", "path": "/a".repeat(place + 1), "value": {}}));
        Value::from(operations.collect::<Vec<_>>()).to_string()
    };
    assert!(json_patch(&json!({}), operations(RESULT_DEPTH_MAX - 1).as_bytes()).is_ok());
    let patched = json_patch(&json!({}), operations(RESULT_DEPTH_MAX + 2).as_bytes());
    assert!(matches!(patched, Err(PatchError::TooDeep)), "{patched:?}");
    let moves = (0..200).map(|_| {
        json!([{"op": "move", "from": "/a", "path": "/b"}, {"op": "add", "path": "/a", "value": {}},
               {"op": "move", "from": "/b", "path": "/a/b"}])
    });
    let moves = moves.flat_map(|moves| moves.as_array().unwrap().clone()).collect::<Vec<_>>();
    let patched = json_patch(&json!({"a": {}}), Value::from(moves).to_string().as_bytes());
    assert!(matches!(patched, Err(PatchError::TooDeep)), "{patched:?}");
}

#[test]
fn stops_a_patch_that_shifts_a_long_list_again_and_again() {
    let operations = vec![json!({"op": "add", "path": "/list/0", "value": 0}); OPERATIONS_MAX];
    let patch = Value::from(operations).to_string();
    let patched = json_patch(&json!({"list": vec![0; 100_000]}), patch.as_bytes());
    assert!(matches!(patched, Err(PatchError::TooMuchMoved)), "{patched:?}");
}

#[test]
fn merges_and_null_removes() {
    check(
        merge_patch,
        r#"{"a": {"b": 1, "c": 2}, "list": [1, 2]}"#,
        r#"{"a": {"b": null, "d": {"e": null, "f": 1}}, "list": [3]}"#,
        expect![[r#"{"a":{"c":2,"d":{"f":1}},"list":[3]}"#]],
    );
    check(
        merge_patch,
        r#"{"a": 1}"#,
        r#"[1]"#,
        expect!["the patch must be a JSON object, not a list"],
    );
    check(
        merge_patch,
        r#"{"a": 1}"#,
        r#"{"a":"#,
        expect!["the patch is not valid JSON: EOF while parsing a value at line 1 column 5"],
    );
}

#[test]
fn merges_maps_and_replaces_lists_strategically() {
    check(
        strategic_merge_patch,
        r#"{"data": {"a": "1", "b": "2"}, "spec": {"finalizers": ["x"]}}"#,
        r#"{"data": {"a": null, "c": "3"}, "spec": {"finalizers": ["y"]}, "new": {"n": null, "m": 1}}"#,
        expect![[r#"{"data":{"b":"2","c":"3"},"new":{"m":1},"spec":{"finalizers":["y"]}}"#]],
    );
}

#[test]
fn merges_owner_references_by_uid() {
    let document = r#"{"metadata": {"ownerReferences": [{"uid": "1", "name": "a"}, {"uid": "2", "name": "b"}]}}"#;
    check(
        strategic_merge_patch,
        document,
        r#"{"metadata": {"ownerReferences": [{"uid": "2", "controller": true}, {"uid": "3"}]}}"#,
        expect![[
            r#"{"metadata":{"ownerReferences":[{"name":"a","uid":"1"},{"controller":true,"name":"b","uid":"2"},{"uid":"3"}]}}"#
        ]],
    );
    check(
        strategic_merge_patch,
        document,
        r#"{"metadata": {"ownerReferences": [{"$patch": "delete", "uid": "1"}, {"$patch": "delete", "uid": "9"}]}}"#,
        expect![[r#"{"metadata":{"ownerReferences":[{"name":"b","uid":"2"}]}}"#]],
    );
    check(
        strategic_merge_patch,
        document,
        r#"{"metadata": {"ownerReferences": [{"$patch": "replace"}, {"uid": "7"}]}}"#,
        expect![[r#"{"metadata":{"ownerReferences":[{"uid":"7"}]}}"#]],
    );
    check(
        strategic_merge_patch,
        document,
        r#"{"metadata": {"ownerReferences": [{"$patch": "replace", "uid": "1", "kind": "k"}]}}"#,
        expect![[
            r#"{"metadata":{"ownerReferences":[{"kind":"k","uid":"1"},{"name":"b","uid":"2"}]}}"#
        ]],
    );
    check(
        strategic_merge_patch,
        document,
        r#"{"metadata": {"$setElementOrder/ownerReferences": [{"uid": "3"}, {"uid": "2"}, {"uid": "1"}],
            "ownerReferences": [{"uid": "3"}]}}"#,
        expect![[
            r#"{"metadata":{"ownerReferences":[{"uid":"3"},{"name":"b","uid":"2"},{"name":"a","uid":"1"}]}}"#
        ]],
    );
    check(
        strategic_merge_patch,
        document,
        r#"{"metadata": {"ownerReferences": [{"name": "c"}]}}"#,
        expect!["metadata.ownerReferences: each item must have uid"],
    );
    check(
        strategic_merge_patch,
        document,
        r#"{"metadata": {"ownerReferences": ["c"]}}"#,
        expect!["metadata.ownerReferences: the items of this list must be objects"],
    );
}

#[test]
fn merges_finalizers_as_a_set() {
    let document = r#"{"metadata": {"finalizers": ["a", "b", "c"]}}"#;
    check(
        strategic_merge_patch,
        document,
        r#"{"metadata": {"finalizers": ["b", "d"]}}"#,
        expect![[r#"{"metadata":{"finalizers":["a","b","c","d"]}}"#]],
    );
    check(
        strategic_merge_patch,
        document,
        r#"{"metadata": {"$deleteFromPrimitiveList/finalizers": ["b", "x"]}}"#,
        expect![[r#"{"metadata":{"finalizers":["a","c"]}}"#]],
    );
    check(
        strategic_merge_patch,
        document,
        r#"{"metadata": {"$setElementOrder/finalizers": ["d", "c", "a"],
            "$deleteFromPrimitiveList/finalizers": ["x"], "finalizers": ["d"]}}"#,
        expect![[r#"{"metadata":{"finalizers":["d","b","c","a"]}}"#]],
    );
    check(
        strategic_merge_patch,
        document,
        r#"{"metadata": {"finalizers": [{"a": 1}]}}"#,
        expect!["metadata.finalizers: the items of this list must be plain values"],
    );
    check(
        strategic_merge_patch,
        document,
        r#"{"metadata": {"finalizers": null}}"#,
        expect![[r#"{"metadata":{}}"#]],
    );
}

#[test]
fn follows_the_directives_of_maps() {
    let document = r#"{"data": {"a": "1", "b": "2"}}"#;
    check(
        strategic_merge_patch,
        document,
        r#"{"data": {"$patch": "replace", "c": "3", "d": null}}"#,
        expect![[r#"{"data":{"c":"3"}}"#]],
    );
    check(
        strategic_merge_patch,
        document,
        r#"{"data": {"$patch": "delete"}}"#,
        expect![[r#"{"data":{}}"#]],
    );
    check(
        strategic_merge_patch,
        document,
        r#"{"data": {"$patch": "merge", "c": "3"}}"#,
        expect![[r#"{"data":{"a":"1","b":"2","c":"3"}}"#]],
    );
    check(
        strategic_merge_patch,
        document,
        r#"{"data": {"$retainKeys": ["b", "c"], "c": "3"}}"#,
        expect![[r#"{"data":{"b":"2","c":"3"}}"#]],
    );
    check(
        strategic_merge_patch,
        document,
        r#"{"new": {"$retainKeys": ["x"], "x": {"$patch": "merge"}}}"#,
        expect![[r#"{"data":{"a":"1","b":"2"},"new":{"x":{}}}"#]],
    );
}

#[test]
fn refuses_directives_that_make_no_sense() {
    let document = r#"{"data": {"a": "1"}}"#;
    check(
        strategic_merge_patch,
        document,
        r#"{"data": {"$patch": "shuffle"}}"#,
        expect![[r#"data: $patch must be merge, replace or delete, not "shuffle""#]],
    );
    check(
        strategic_merge_patch,
        document,
        r#"{"$patch": 3}"#,
        expect!["patch: $patch must be merge, replace or delete, not 3"],
    );
    check(
        strategic_merge_patch,
        document,
        r#"{"data": {"$retainKeys": ["b"], "c": "3"}}"#,
        expect!["data: c is patched, but $retainKeys lacks it"],
    );
    check(
        strategic_merge_patch,
        document,
        r#"{"data": {"$retainKeys": "b"}}"#,
        expect!["data: $retainKeys must be a list, not a string"],
    );
    check(
        strategic_merge_patch,
        document,
        r#"{"data": {"$frobnicate": 1}}"#,
        expect!["data: $frobnicate is no directive"],
    );
    check(
        strategic_merge_patch,
        document,
        r#"{"metadata": {"$setElementOrder/finalizers": 1}}"#,
        expect!["metadata: $setElementOrder/finalizers must be a list, not a number"],
    );
    check(
        strategic_merge_patch,
        document,
        r#""text""#,
        expect!["the patch must be a JSON object, not a string"],
    );
    check(
        strategic_merge_patch,
        "[]",
        "{}",
        expect!["the patch must be for a JSON object, not a list"],
    );
}

/// Any JSON, with the words of patches among its strings and keys.
fn any_json() -> impl Strategy<Value = Value> {
    let words = || {
        prop::sample::select(vec![
            "op",
            "path",
            "from",
            "value",
            "add",
            "remove",
            "replace",
            "move",
            "copy",
            "test",
            "/a",
            "/a/0",
            "/a/-",
            "",
            "a",
            "metadata",
            "ownerReferences",
            "finalizers",
            "uid",
            "$patch",
            "delete",
            "merge",
            "$retainKeys",
            "$setElementOrder/finalizers",
            "$deleteFromPrimitiveList/finalizers",
            "$setElementOrder/ownerReferences",
        ])
    };
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<i8>().prop_map(Value::from),
        words().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(words().prop_map(str::to_owned), inner, 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

fn any_operations() -> impl Strategy<Value = Value> {
    let path = || prop::sample::select(vec!["", "/a", "/a/0", "/a/-", "/a/a", "/metadata", "/x/y"]);
    let name = prop::sample::select(vec!["add", "remove", "replace", "move", "copy", "test"]);
    let operation = (name, path(), path(), any_json()).prop_map(
        |(op, path, from, value)| json!({"op": op, "path": path, "from": from, "value": value}),
    );
    prop::collection::vec(operation, 0..8).prop_map(Value::from)
}

proptest! {
    #[test]
    fn takes_any_patch_without_panic(document in any_json(), patch in any_json(), operations in any_operations()) {
        let text = patch.to_string();
        let _ = json_patch(&document, operations.to_string().as_bytes());
        let _ = json_patch(&document, text.as_bytes());
        let _ = merge_patch(&document, text.as_bytes());
        let _ = strategic_merge_patch(&document, text.as_bytes());
    }

    #[test]
    fn patching_strategically_twice_changes_nothing_the_second_time(
        document in any_json(), patch in any_json(),
    ) {
        if let Ok(first) = strategic_merge_patch(&document, patch.to_string().as_bytes()) {
            let second = strategic_merge_patch(&first, patch.to_string().as_bytes()).unwrap();
            prop_assert_eq!(second, first);
        }
    }
}
