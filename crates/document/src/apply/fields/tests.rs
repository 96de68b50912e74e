//! Sets of fields: their algebra, and how they read and print.

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::{DEPTH_MAX, FieldSet};

fn set(fields: &Value) -> FieldSet {
    FieldSet::from_fields_v1(fields).unwrap()
}

/// Reads, shows the paths and what is written again.
#[track_caller]
fn check(fields: &Value, expect: Expect) {
    let shown = match FieldSet::from_fields_v1(fields) {
        Ok(set) => format!("{set}{}\n", set.to_fields_v1()),
        Err(error) => match std::error::Error::source(&error) {
            None => format!("{error}\n"),
            Some(source) => format!("{error}: {source}\n"),
        },
    };
    expect.assert_eq(&shown);
}

#[test]
fn reads_every_kind_of_step_and_writes_it_the_same() {
    check(
        &json!({
            "f:metadata": {"f:labels": {".": {}, "f:app": {}}, "f:finalizers": {"v:\"a\"": {}}},
            "f:spec": {
                "f:components": {
                    "k:{\"name\":\"web\"}": {".": {}, "f:replicas": {}, "f:name": {}},
                    "k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}},
                },
                "f:list": {"i:3": {"f:x": {}}},
            },
        }),
        expect![[r#"
            .metadata.finalizers[="a"]
            .metadata.labels
            .metadata.labels.app
            .spec.components[name="web"]
            .spec.components[name="web"].name
            .spec.components[name="web"].replicas
            .spec.components[port=80,protocol="TCP"]
            .spec.list[3].x
            {"f:metadata":{"f:finalizers":{"v:\"a\"":{}},"f:labels":{".":{},"f:app":{}}},"f:spec":{"f:components":{"k:{\"name\":\"web\"}":{".":{},"f:name":{},"f:replicas":{}},"k:{\"port\":80,\"protocol\":\"TCP\"}":{}},"f:list":{"i:3":{"f:x":{}}}}}
        "#]],
    );
}

#[test]
fn writes_one_form_for_all_the_ways_to_say_the_same() {
    check(
        &json!({"f:a": {".": {}}, "f:b": null, "v:1.0": {}, "v:1": {"f:x": {}}}),
        expect![[r#"
            .a
            .b
            [=1]
            [=1].x
            {"f:a":{},"f:b":{},"v:1":{".":{},"f:x":{}}}
        "#]],
    );
    check(
        &json!({"k:{\"protocol\": \"TCP\", \"port\": 80.0}": {}, "v:{\"b\":1,\"a\":[2.0,null]}": {}}),
        expect![[r#"
            [port=80,protocol="TCP"]
            [={"a":[2,null],"b":1}]
            {"k:{\"port\":80,\"protocol\":\"TCP\"}":{},"v:{\"a\":[2,null],\"b\":1}":{}}
        "#]],
    );
}

#[test]
fn passes_over_steps_of_a_kind_that_it_does_not_know() {
    check(
        &json!({"f:a": {}, "z:later": {"f:b": {}}}),
        expect![[r#"
            .a
            {"f:a":{}}
        "#]],
    );
}

#[test]
fn says_what_is_wrong_and_where() {
    check(
        &json!([]),
        expect![[r#"
            fieldsV1 at "": expected an object, found a list
        "#]],
    );
    check(
        &json!({"f:a": {"f:b": 3}}),
        expect![[r#"
            fieldsV1 at "f:a/f:b": expected an object, found a number
        "#]],
    );
    check(
        &json!({"f:a": {"spec": {}}}),
        expect![[r#"
            fieldsV1 at "f:a": "spec" does not begin with f:, k:, v: or i:
        "#]],
    );
    check(
        &json!({"f:a": {"k:[1]": {}}}),
        expect![[r#"
            fieldsV1 at "f:a": "k:[1]": after k: there must be a JSON object
        "#]],
    );
    check(
        &json!({"v:": {}}),
        expect![[r#"
            fieldsV1 at "": "v:": after v: there must be a JSON value
        "#]],
    );
    check(
        &json!({"i:x": {}}),
        expect![[r#"
            fieldsV1 at "": "i:x": after i: there must be a whole number
        "#]],
    );
    check(
        &json!({"": {}}),
        expect![[r#"
            fieldsV1 at "": "" does not begin with f:, k:, v: or i:
        "#]],
    );
}

#[test]
fn goes_no_deeper_than_it_may() {
    let nested = |levels: usize| (0..levels).fold(json!({}), |below, _| json!({"f:a": below}));
    assert_eq!(set(&nested(DEPTH_MAX)).paths().len(), 1);
    assert_eq!(FieldSet::from_fields_v1(&nested(DEPTH_MAX + 1)), Err(super::FieldsError::TooDeep));
}

#[test]
fn adds_takes_away_and_intersects_place_by_place() {
    let left = set(&json!({"f:a": {".": {}, "f:b": {}, "f:c": {}}, "f:d": {}}));
    let right = set(&json!({"f:a": {".": {}, "f:c": {}}, "f:e": {"f:f": {}}}));
    let show = |set: FieldSet| set.paths().join(" ");
    expect![".a .a.b .a.c .d .e.f"].assert_eq(&show(left.union(&right)));
    expect![".a.b .d"].assert_eq(&show(left.difference(&right)));
    expect![".d"].assert_eq(&show(left.difference_with_below(&right)));
    expect![".a .a.c"].assert_eq(&show(left.intersection(&right)));
}

#[test]
fn leaves_no_trace_of_what_is_taken_away() {
    let all = set(&json!({"f:a": {"f:b": {"f:c": {}}}}));
    assert!(all.difference(&all).is_empty());
    assert_eq!(all.difference(&all), FieldSet::default());
    assert_eq!(all.intersection(&set(&json!({"f:a": {}}))), FieldSet::default());
}

#[test]
fn contains_a_place_but_not_the_way_to_it() {
    use crate::apply::PathElement;
    let set = FieldSet::from([&["spec", "replicas"] as &[&str]]);
    let path = ["spec", "replicas"].map(PathElement::field);
    assert!(set.contains(&path));
    assert!(!set.contains(&path[..1]));
    assert!(!set.contains(&[]));
}
