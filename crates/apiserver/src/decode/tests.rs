//! Bodies in, values or refusals out.

use expect_test::{Expect, expect};
use proptest::prelude::*;
use serde_json::json;

use super::{DEPTH_MAX, NODES_MAX, json as decode_json, yaml, yaml_documents};

#[track_caller]
fn check_json(text: &str, expect: Expect) {
    let found = match decode_json(text.as_bytes()) {
        Ok(decoded) => {
            let duplicates: Vec<String> = decoded
                .duplicates
                .iter()
                .map(|duplicate| format!("\n{}: {}", duplicate.field, duplicate.message))
                .collect();
            format!("{}{}", decoded.value, duplicates.concat())
        }
        Err(error) => error.to_string(),
    };
    expect.assert_eq(&found);
}

#[track_caller]
fn check_yaml(text: &str, expect: Expect) {
    let found = match yaml(text.as_bytes()) {
        Ok(decoded) => decoded.value.to_string(),
        Err(error) => error.to_string(),
    };
    expect.assert_eq(&found);
}

#[test]
fn a_key_that_is_there_twice_is_told_with_its_path() {
    check_json(
        r#"{"spec": {"list": [{"a": 1, "a": 2, "b": 3}]}, "spec": 1}"#,
        expect![[r#"
            {"spec":1}
            spec.list[0].a: the field is there more than once; the last one counts
            spec: the field is there more than once; the last one counts"#]],
    );
}

#[test]
fn an_error_says_where_it_is() {
    check_json("{\"a\":\n  tru}", expect!["line 2 column 6: expected ident"]);
    check_json("{\"a\": 1} x", expect!["line 1 column 10: trailing characters"]);
    check_json("", expect!["line 1 column 0: EOF while parsing a value"]);
    check_json("{\"a\": 1e999}", expect!["line 1 column 11: number out of range"]);
    check_yaml(
        "a: 1\nb: [",
        expect![[r#"line 2 column 4: a list in brackets does not end; expected "]""#]],
    );
    check_yaml(
        "a: 1\na: 2",
        expect![[
            r#"line 2: key "a" already set in map (the second is at column 1); remove or rename one of the two"#
        ]],
    );
    check_yaml("a: 1\n---\nb: 2", expect!["expected one document, found 2"]);
    check_yaml("# nothing", expect!["the document is empty"]);
}

#[test]
fn yaml_reads_as_people_mean_it() {
    check_yaml(
        "a: no\nb: 1.5\nc: 0x10\nd: '1'\ne: ~\nf: true\n1: x\nt: 2026-01-01\nbase: &b {x: 1}\nmore: {<<: *b, y: 2}",
        expect![[
            r#"{"1":"x","a":"no","b":1.5,"base":{"x":1},"c":16,"d":"1","e":null,"f":true,"more":{"x":1,"y":2},"t":"2026-01-01"}"#
        ]],
    );
    check_yaml("{\"a\": 1, \"a\": 2}", expect![[r#"{"a":2}"#]]);
    // JSON has no way to write it; a field that wants a number refuses the text.
    check_yaml("a: .inf", expect![[r#"{"a":".inf"}"#]]);
    let documents = yaml_documents("a: 1\n---\n---\nb: 2\n").expect("it is right");
    assert_eq!(documents, [json!({"a": 1}), json!({"b": 2})]);
}

#[test]
fn depth_and_size_are_bounded() {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert!(decode_json(nested(DEPTH_MAX).as_bytes()).is_ok());
    check_json(&nested(DEPTH_MAX + 1), expect!["line 1 column 102: nested deeper than 100 levels"]);
    assert!(decode_json(nested(100_000).as_bytes()).is_err());
    assert!(yaml(nested(100_000).as_bytes()).is_err());
    check_json(
        &format!("[{}1]", "1,".repeat(NODES_MAX)),
        expect!["line 1 column 999999: more than 500000 values"],
    );
}

#[test]
fn an_alias_bomb_does_not_grow() {
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..12 {
        let before = format!("*a{}, ", level - 1).repeat(10);
        bomb.push_str(&format!("a{level}: &a{level} [{before}]\n"));
    }
    let error = yaml(bomb.as_bytes()).expect_err("it is a bomb");
    assert!(error.position.is_some(), "{error}");
}

proptest! {
    #[test]
    fn any_bytes_may_come(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode_json(&bytes);
        let _ = yaml(&bytes);
    }

    #[test]
    fn any_text_that_looks_right_may_come(text in "[\\[\\]{}:,\"&*a-c0-9 .\n!|>-]{0,80}") {
        let _ = decode_json(text.as_bytes());
        let _ = yaml(text.as_bytes());
    }
}
