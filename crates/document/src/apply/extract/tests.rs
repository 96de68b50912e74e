//! What of an object belongs to one manager, by schema.

use expect_test::{Expect, expect};

use crate::apply::testing::{SCHEMA, object};

use super::{compare, fields};

#[track_caller]
fn check(text: &str, expect: Expect) {
    expect.assert_eq(&fields(&object(text), &SCHEMA).to_string());
}

/// `+` is added, `~` modified and `-` removed.
#[track_caller]
fn check_comparison(old: &str, new: &str, expect: Expect) {
    let comparison = compare(&object(old), &object(new), &SCHEMA);
    let mut shown = String::new();
    for (sign, set) in
        [("+", comparison.added), ("~", comparison.modified), ("-", comparison.removed)]
    {
        for path in set.paths() {
            shown.push_str(&format!("{sign} {path}\n"));
        }
    }
    expect.assert_eq(&shown);
}

#[test]
fn owns_leaves_and_items_but_not_the_branches_that_the_schema_names() {
    check(
        r#"{"replicas": 1, "probe": {"path": "/"}, "components": [{"name": "web", "replicas": 2}]}"#,
        expect![[r#"
            .spec.components[name="web"]
            .spec.components[name="web"].name
            .spec.components[name="web"].replicas
            .spec.probe.path
            .spec.replicas
        "#]],
    );
}

#[test]
fn owns_atomic_lists_and_maps_as_one() {
    check(
        r#"{"command": ["a", "b"], "origin": {"host": "h", "port": 1}}"#,
        expect![[r#"
            .spec.command
            .spec.origin
        "#]],
    );
}

#[test]
fn owns_the_values_of_a_set_one_by_one() {
    check(
        r#"{"tags": ["a", "b"]}"#,
        expect![[r#"
            .spec.tags[="a"]
            .spec.tags[="b"]
        "#]],
    );
}

#[test]
fn owns_the_keys_that_only_the_object_names() {
    check(
        r#"{"settings": {"a": "1"}, "free": {"x": {"y": 1, "list": [{"z": 1}]}, "e": {}}}"#,
        expect![[r#"
            .spec.free.e
            .spec.free.x
            .spec.free.x.list
            .spec.free.x.y
            .spec.settings.a
        "#]],
    );
}

#[test]
fn owns_what_is_empty_or_null_as_one() {
    check(
        r#"{"settings": {}, "tags": [], "components": [], "mode": null}"#,
        expect![[r#"
            .spec.components
            .spec.mode
            .spec.settings
            .spec.tags
        "#]],
    );
}

#[test]
fn fills_a_missing_key_with_its_default() {
    check(
        r#"{"components": [{"name": "web", "ports": [{"port": 80}, {"port": 80, "protocol": "UDP"}]}]}"#,
        expect![[r#"
            .spec.components[name="web"]
            .spec.components[name="web"].name
            .spec.components[name="web"].ports[port=80,protocol="TCP"]
            .spec.components[name="web"].ports[port=80,protocol="TCP"].port
            .spec.components[name="web"].ports[port=80,protocol="UDP"]
            .spec.components[name="web"].ports[port=80,protocol="UDP"].port
            .spec.components[name="web"].ports[port=80,protocol="UDP"].protocol
        "#]],
    );
}

#[test]
fn goes_by_place_where_a_stored_item_lacks_its_key_and_as_one_where_items_repeat() {
    check(
        r#"{"components": [{"image": "a"}, 3], "tags": ["a", "a", "b"]}"#,
        expect![[r#"
            .spec.components[0]
            .spec.components[0].image
            .spec.components[1]
            .spec.tags[="a"]
            .spec.tags[="b"]
        "#]],
    );
}

#[test]
fn leaves_out_identity_and_bookkeeping() {
    check(
        r#"@{"metadata": {"namespace": "n", "uid": "u", "resourceVersion": "1", "generation": 1,
            "creationTimestamp": "t", "managedFields": [], "generateName": "g", "selfLink": "s",
            "deletionTimestamp": "t", "labels": {"app": "a"}, "finalizers": ["f/f"],
            "ownerReferences": [{"uid": "1", "name": "n"}], "annotations": {"b": "c"}}}"#,
        expect![[r#"
            .metadata.annotations.b
            .metadata.finalizers[="f/f"]
            .metadata.labels.app
            .metadata.ownerReferences[uid="1"]
        "#]],
    );
}

#[test]
fn tells_what_was_added_modified_and_removed() {
    check_comparison(
        r#"{"replicas": 1, "image": "a", "mode": "x"}"#,
        r#"{"replicas": 2, "image": "a", "command": []}"#,
        expect![[r#"
            + .spec.command
            ~ .spec.replicas
            - .spec.mode
        "#]],
    );
    check_comparison(
        r#"{"components": [{"name": "a", "replicas": 1}, {"name": "b", "image": "x"}]}"#,
        r#"{"components": [{"name": "c"}, {"name": "a", "replicas": 2}]}"#,
        expect![[r#"
            + .spec.components[name="c"]
            + .spec.components[name="c"].name
            ~ .spec.components[name="a"].replicas
            - .spec.components[name="b"]
            - .spec.components[name="b"].image
            - .spec.components[name="b"].name
        "#]],
    );
    check_comparison(
        r#"{"tags": ["a", "b"]}"#,
        r#"{"tags": ["c", "b"]}"#,
        expect![[r#"
            + .spec.tags[="c"]
            - .spec.tags[="a"]
        "#]],
    );
}

#[test]
fn names_a_new_branch_with_all_that_is_in_it() {
    check_comparison(
        r#"{}"#,
        r#"{"probe": {"path": "/"}, "settings": {"a": "b"}}"#,
        expect![[r#"
            + .spec.probe
            + .spec.probe.path
            + .spec.settings
            + .spec.settings.a
        "#]],
    );
    check_comparison(
        r#"@{}"#,
        r#"{"replicas": 1}"#,
        expect![[r#"
            + .spec
            + .spec.replicas
        "#]],
    );
    check_comparison(
        r#"{"probe": {"path": "/"}}"#,
        r#"{}"#,
        expect![[r#"
            - .spec.probe
            - .spec.probe.path
        "#]],
    );
}

#[test]
fn sees_no_difference_in_order_or_in_the_spelling_of_numbers() {
    check_comparison(
        r#"{"tags": ["a", "b"], "components": [{"name": "a"}, {"name": "b"}], "replicas": 1}"#,
        r#"{"tags": ["b", "a"], "components": [{"name": "b"}, {"name": "a"}], "replicas": 1.0}"#,
        expect![[r#""#]],
    );
    check_comparison(
        r#"{"command": ["a", "b"]}"#,
        r#"{"command": ["b", "a"]}"#,
        expect![[r#"
            ~ .spec.command
        "#]],
    );
}

#[test]
fn takes_filling_and_emptying_for_changes_of_the_content() {
    check_comparison(
        r#"{"settings": {}}"#,
        r#"{"settings": {"a": "b"}}"#,
        expect![[r#"
            + .spec.settings.a
        "#]],
    );
    check_comparison(
        r#"{"settings": {"a": "b"}}"#,
        r#"{"settings": {}}"#,
        expect![[r#"
            - .spec.settings.a
        "#]],
    );
    check_comparison(
        r#"{"settings": {"a": "b"}}"#,
        r#"{"settings": "no map"}"#,
        expect![[r#"
            ~ .spec.settings
            - .spec.settings.a
        "#]],
    );
    check_comparison(
        r#"{"tags": ["a"]}"#,
        r#"{"tags": []}"#,
        expect![[r#"
            - .spec.tags[="a"]
        "#]],
    );
    check_comparison(
        r#"{"tags": ["a"]}"#,
        r#"{"tags": ["a", "a"]}"#,
        expect![[r#"
            ~ .spec.tags[="a"]
        "#]],
    );
}
