//! Schemas: what they let through, fill in, leave out and say.

use expect_test::{Expect, expect};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::{Path, Schema};
use tombolo_model::Invalid;

/// Findings as lines: `path (Problem): message`.
fn lines(findings: &[Invalid]) -> String {
    findings
        .iter()
        .map(|Invalid { field, problem, message }| format!("{field} ({problem:?}): {message}\n"))
        .collect()
}

fn yaml(text: &str) -> Value {
    serde_saphyr::from_str(text).expect("the test's YAML is right")
}

/// Compiles a schema that is wrong.
#[track_caller]
fn check_compile(schema: &str, expect: Expect) {
    let found = match Schema::compile(&yaml(schema)) {
        Ok(_) => "ok\n".to_owned(),
        Err(findings) => lines(&findings),
    };
    expect.assert_eq(&found);
}

/// Validates `value`, after its unknown fields were looked for, as the property `spec`.
#[track_caller]
fn check_value(schema: &str, value: &str, expect: Expect) {
    let schema = Schema::compile(&yaml(schema)).expect("the test's schema is right");
    let value = yaml(&format!("value: {value}"))["value"].take();
    let mut findings = schema.unknown_fields_at(&value, &Path::Text("spec"));
    findings.extend(schema.validate(&value, &Path::Text("spec")));
    expect.assert_eq(&lines(&findings));
}

#[track_caller]
fn check_defaults(schema: &str, value: Value, expected: Value) {
    let schema = Schema::compile(&yaml(schema)).expect("the test's schema is right");
    let mut filled = value;
    schema.fill_defaults(&mut filled);
    assert_eq!(filled, expected);
}

#[test]
fn a_node_without_a_type_is_not_structural() {
    check_compile(
        "{properties: {a: {}}}",
        expect![[r#"
        properties[a].type (Required): a type is required: object, array, string, integer, number or boolean
        type (Required): a type is required: object, array, string, integer, number or boolean
    "#]],
    );
    check_compile(
        "{type: objekt}",
        expect![[r#"
        type (NotSupported): "objekt" is not a type: use object, array, string, integer, number or boolean
    "#]],
    );
    check_compile(
        "{x-kubernetes-int-or-string: true}",
        expect![[r#"
        ok
    "#]],
    );
    check_compile(
        "{x-kubernetes-preserve-unknown-fields: true}",
        expect![[r#"
        ok
    "#]],
    );
    check_compile(
        "{x-kubernetes-int-or-string: true, type: string}",
        expect![[r#"
        type (Forbidden): an x-kubernetes-int-or-string has no other type
    "#]],
    );
}

#[test]
fn a_schema_is_told_of_every_keyword_that_it_may_not_use() {
    check_compile(
        "{type: object, $ref: '#/x', additionalProperties: false, uniqueItems: true, propertis: {}, x-mine: 1}",
        expect![[r#"
            $ref (Forbidden): not allowed: write the schema out in its place: references are not followed
            propertis (Unknown): unknown keyword (did you mean "properties"?)
            additionalProperties (Forbidden): false is not allowed: leave the keyword out, fields that the schema does not name are unknown anyway
            uniqueItems (Forbidden): true is not allowed, because it compares each item with each other: use x-kubernetes-list-type: set
        "#]],
    );
    check_compile(
        "{type: string, minLength: x, nullable: 3, required: [1]}",
        expect![[r#"
        nullable (TypeInvalid): expected true or false, found the number 3
        required[0] (TypeInvalid): expected a string, found the number 1
        minLength (TypeInvalid): expected a whole number that is not negative, found the string "x"
    "#]],
    );
}

#[test]
fn a_schema_is_an_object() {
    check_compile(
        "{type: array, items: 3}",
        expect![[r#"
            items (TypeInvalid): a schema is an object, found the number 3
        "#]],
    );
}

#[test]
fn shape_keywords_must_fit_the_type() {
    check_compile(
        "{type: array}",
        expect![[r#"
        items (Required): a schema for the items is required, because the type is array
    "#]],
    );
    check_compile(
        "{type: string, items: {type: string}, properties: {a: {type: string}}, x-kubernetes-list-type: set, x-kubernetes-map-type: atomic}",
        expect![[r#"
            items (Forbidden): only the type array has items
            properties (Forbidden): only the type object has properties
            x-kubernetes-list-type (Forbidden): only the type array has a list type
            x-kubernetes-map-type (Forbidden): only the type object has a map type
        "#]],
    );
    check_compile(
        "{type: object, properties: {a: {type: string}}, additionalProperties: {type: string}}",
        expect![[r#"
            additionalProperties (Forbidden): an object has either named properties or additional ones, not both
        "#]],
    );
    check_compile(
        "{type: object, x-kubernetes-embedded-resource: true}",
        expect![[r#"
        properties (Required): properties, or x-kubernetes-preserve-unknown-fields: true, are required for an embedded resource
    "#]],
    );
}

#[test]
fn the_keys_of_a_list_map_are_declared_scalars_that_are_always_there() {
    let list = |keys: &str| {
        format!(
            "{{type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: {keys}, items: \
             {{type: object, required: [name], properties: {{name: {{type: string}}, port: {{type: integer}}, \
             proto: {{type: string, default: TCP}}, deep: {{type: object}}}}}}}}"
        )
    };
    check_compile(
        &list("[name, proto]"),
        expect![[r#"
        ok
    "#]],
    );
    check_compile(
        &list("[]"),
        expect![[r#"
        x-kubernetes-list-map-keys (Required): the list type map needs at least one key that tells its items apart
    "#]],
    );
    check_compile(
        &list("[nmae, port, name, name, deep]"),
        expect![[r#"
            x-kubernetes-list-map-keys[0] (Invalid): "nmae" is not a property of the items (did you mean "name"?)
            x-kubernetes-list-map-keys[1] (Invalid): "port" must be required or have a default
            x-kubernetes-list-map-keys[3] (Duplicate): "name" is there twice
            x-kubernetes-list-map-keys[4] (Invalid): "deep" cannot be a key: a key is a scalar
            x-kubernetes-list-map-keys[4] (Invalid): "deep" must be required or have a default
        "#]],
    );
    check_compile(
        "{type: array, x-kubernetes-list-type: set, items: {type: object}}",
        expect![[r#"
            items (Invalid): the items of a set are scalars, or atomic objects or lists
        "#]],
    );
}

#[test]
fn branches_restrict_a_value_and_do_not_shape_it() {
    check_compile(
        "{type: object, properties: {a: {type: string}}, anyOf: [{properties: {a: {type: string, minLength: 1}, b: {}}, description: x}]}",
        expect![[r#"
            anyOf[0].description (Forbidden): not allowed inside allOf, anyOf, oneOf and not: these restrict a value, its shape is said outside of them
            anyOf[0].properties[a].type (Forbidden): not allowed here: the type is said outside of allOf, anyOf, oneOf and not, except for an x-kubernetes-int-or-string
            anyOf[0].properties[b] (Required): restricts a property that the schema outside does not have
        "#]],
    );
    check_compile(
        "{x-kubernetes-int-or-string: true, anyOf: [{type: integer}, {type: string}]}",
        expect![[r#"
            ok
        "#]],
    );
}

#[test]
fn defaults_patterns_and_ranges_are_checked_when_the_schema_comes() {
    check_compile(
        "{type: object, properties: {a: {type: integer, minimum: 3, default: 1}, b: {type: object, default: {c: 1}}}}",
        expect![[r#"
            properties[a].default (Invalid): 1 is too small: it must be at least 3
            properties[b].default.c (Unknown): unknown field; no fields are known here
        "#]],
    );
    check_compile(
        "{type: string, pattern: '(?=a)', minLength: 3, maxLength: 2}",
        expect![[r#"
            pattern (Invalid): "(?=a)" is not a regular expression: look-around, including look-ahead and look-behind, is not supported
            maxLength (Invalid): 2 is less than the minLength of 3
        "#]],
    );
    check_compile(
        "{type: string, pattern: '(a{1000}){1000}'}",
        expect![[r#"
            pattern (Invalid): "(a{1000}){1000}" is not a regular expression: Compiled regex exceeds size limit of 1048576 bytes
        "#]],
    );
}

#[test]
fn a_schema_that_is_too_deep_is_refused() {
    let mut schema = json!({"type": "string"});
    for _ in 0..80 {
        schema = json!({"type": "object", "properties": {"a": schema}});
    }
    let findings = Schema::compile(&schema).expect_err("it is too deep");
    assert_eq!(findings.len(), 1, "{findings:?}");
    expect!["the schema is nested deeper than 64 levels"].assert_eq(&findings[0].message);
}

const COMPONENT: &str = "
type: object
required: [name, ports]
properties:
  name: {type: string, minLength: 2, maxLength: 5, pattern: '^[a-z]+$'}
  scale: {type: integer, format: int32, minimum: 1, maximum: 10, exclusiveMaximum: true}
  share: {type: number, multipleOf: 0.1}
  mode: {type: string, enum: [Fast, Slow]}
  port: {x-kubernetes-int-or-string: true}
  note: {type: string, nullable: true}
  when: {type: string, format: date-time}
  labels: {type: object, maxProperties: 1, additionalProperties: {type: string}}
  ports:
    type: array
    minItems: 1
    x-kubernetes-list-type: map
    x-kubernetes-list-map-keys: [number]
    items:
      type: object
      required: [number]
      properties: {number: {type: integer}}
  tags: {type: array, maxItems: 3, x-kubernetes-list-type: set, items: {type: string}}
";

#[test]
fn everything_wrong_is_told_at_once_with_its_path() {
    check_value(
        COMPONENT,
        "{name: A, scale: 10, share: 0.25, mode: fats, port: true, note: 1, when: today, labels: {a/b: 1, c: d},
          ports: [{number: 1}, {number: x}, {number: 1}, {nmuber: 3}], tags: [a, b, a, c], scael: 3}",
        expect![[r#"
            spec.ports[3].nmuber (Unknown): unknown field; did you mean "number"?
            spec.scael (Unknown): unknown field; did you mean "scale"?
            spec.labels (TooMany): has 2 entries, at most 1 allowed
            spec.labels[a/b] (TypeInvalid): expected a string, found the number 1
            spec.mode (NotSupported): "fats" is not supported, use one of "Fast", "Slow" (did you mean "Fast"?)
            spec.name (Invalid): has 1 character, at least 2 needed
            spec.name (Invalid): "A" does not match the pattern "^[a-z]+$"
            spec.note (TypeInvalid): expected a string, found the number 1
            spec.port (TypeInvalid): expected an integer or a string, found the boolean true
            spec.ports[1].number (TypeInvalid): expected an integer, found the string "x"
            spec.ports[3].number (Required): a value is required
            spec.ports[2] (Duplicate): has the same number as item 0: no two items may share it
            spec.scale (Invalid): 10 is too large: it must be less than 10
            spec.share (Invalid): 0.25 is not a multiple of 0.1
            spec.tags (TooMany): has 4 items, at most 3 allowed
            spec.tags[2] (Duplicate): is the same as item 0: each value may be there only once
            spec.when (Invalid): "today" is not a time such as 2030-01-31T12:00:00Z (format date-time)
        "#]],
    );
    check_value(
        COMPONENT,
        "{}",
        expect![[r#"
        spec.name (Required): a value is required
        spec.ports (Required): a value is required
    "#]],
    );
    check_value(
        COMPONENT,
        "[1]",
        expect![[r#"
        spec (TypeInvalid): expected an object, found a list of 1 item
    "#]],
    );
}

#[test]
fn what_is_right_passes() {
    check_value(
        COMPONENT,
        "{name: äb, scale: 9.0, share: 0.3, mode: Slow, port: http, note: null, when: '2026-01-01T00:00:00.123456Z',
          labels: {a/b: c}, ports: [{number: 1}, {number: 2}], tags: [a, b]}",
        expect![[r#"
            spec.name (Invalid): "äb" does not match the pattern "^[a-z]+$"
        "#]],
    );
    check_value(COMPONENT, "{name: ab, ports: [{number: 1}], port: 80}", expect![[""]]);
}

#[test]
fn lengths_are_counted_in_characters() {
    check_value("{type: string, maxLength: 2}", "öö", expect![[""]]);
    check_value(
        "{type: string, maxLength: 2}",
        "ööö",
        expect![[r#"
        spec (TooLong): has 3 characters, at most 2 allowed
    "#]],
    );
}

#[test]
fn the_nearest_form_tells_what_it_misses() {
    let schema = "
type: object
properties: {image: {type: string}, command: {type: string}, wasm: {type: string}}
oneOf:
  - {required: [image]}
  - {required: [command, wasm]}
not: {required: [image, wasm]}
";
    check_value(schema, "{image: a}", expect![[""]]);
    check_value(
        schema,
        "{}",
        expect![[r#"
        spec (Invalid): none of the 2 forms (oneOf) fits; for the nearest, spec.image: a value is required
    "#]],
    );
    check_value(
        schema,
        "{image: a, command: b, wasm: c}",
        expect![[r#"
        spec (Invalid): 2 of the 2 forms (oneOf) fit, exactly one must
        spec (Invalid): an object is of a form that is not allowed (not)
    "#]],
    );
}

#[test]
fn findings_are_bounded() {
    let schema = Schema::compile(&json!({"type": "array", "items": {"type": "string"}}));
    let value = Value::Array(vec![json!(1); 1000]);
    let findings = schema.expect("the schema is right").validate(&value, &Path::ROOT);
    assert_eq!(findings.len(), super::FINDINGS_MAX);
}

#[test]
fn embedded_resources_are_whole_objects() {
    let schema =
        "{type: object, x-kubernetes-embedded-resource: true, properties: {spec: {type: object}}}";
    check_value(
        schema,
        "{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {}}",
        expect![[""]],
    );
    check_value(
        schema,
        "{kind: 3, metadata: x, other: 1}",
        expect![[r#"
        spec.other (Unknown): unknown field; known here: spec
        spec.apiVersion (Required): a value is required
        spec.kind (TypeInvalid): expected a string, found the number 3
        spec.metadata (TypeInvalid): expected an object, found the string "x"
    "#]],
    );
}

#[test]
fn formats_are_checked_and_unknown_ones_are_not() {
    let rows: [(&str, &[Value], &[Value]); 13] = [
        (
            "date-time",
            &[json!("2026-01-01T00:00:00+01:00")],
            &[json!("2026-01-01"), json!("2026-01-01 00:00:00Z")],
        ),
        ("date", &[json!("2026-02-28")], &[json!("2026-02-30"), json!("20260228")]),
        (
            "duration",
            &[json!("1h30m"), json!("100ms"), json!("0"), json!("PT5S")],
            &[json!("soon")],
        ),
        ("int32", &[json!(2147483647), json!(-1)], &[json!(2147483648u64), json!(1e10)]),
        ("int64", &[json!(i64::MAX)], &[json!(u64::MAX), json!(1e19)]),
        ("byte", &[json!("aGk="), json!("")], &[json!("a"), json!("%%")]),
        ("uuid", &[json!("7f8d8f5e-3f0a-4d0a-9f43-0f7f3a4d1a11")], &[json!("7f8d")]),
        ("ipv4", &[json!("10.0.0.1")], &[json!("10.0.0.256"), json!("::1")]),
        ("ipv6", &[json!("::1")], &[json!("10.0.0.1")]),
        (
            "cidr",
            &[json!("10.0.0.0/8"), json!("fd00::/64")],
            &[json!("10.0.0.0/33"), json!("10.0.0.0")],
        ),
        ("hostname", &[json!("a.example.org")], &[json!("-a"), json!("a_b"), json!("")]),
        (
            "uri",
            &[json!("https://example.org/a?b"), json!("/a")],
            &[json!("a b"), json!("example")],
        ),
        ("mine", &[json!("anything"), json!(3)], &[]),
    ];
    for (format, right, wrong) in rows {
        for value in right {
            assert_eq!(super::format::mismatch(format, value), None, "{format}: {value}");
        }
        for value in wrong {
            assert!(super::format::mismatch(format, value).is_some(), "{format}: {value}");
        }
    }
}

#[test]
fn defaults_fill_what_is_absent_and_what_is_null_without_leave() {
    let schema = "
type: object
properties:
  size: {type: integer, default: 3}
  note: {type: string, nullable: true, default: hi}
  free: {type: string}
  deep: {type: object, default: {}, properties: {inner: {type: string, default: x}}}
  list: {type: array, items: {type: object, properties: {p: {type: string, default: TCP}}}}
  map: {type: object, additionalProperties: {type: integer, default: 7}}
";
    check_defaults(schema, json!({}), json!({"size": 3, "note": "hi", "deep": {"inner": "x"}}));
    check_defaults(
        schema,
        json!({"size": null, "note": null, "free": null, "list": [{}, {"p": "UDP"}, null], "map": {"a": null, "b": 1}}),
        json!({"size": 3, "note": null, "deep": {"inner": "x"},
               "list": [{"p": "TCP"}, {"p": "UDP"}, null], "map": {"a": 7, "b": 1}}),
    );
}

#[test]
fn pruning_drops_what_the_schema_does_not_know_and_nothing_else() {
    let schema = Schema::compile(&yaml(
        "{type: object, properties: {a: {type: string}, open: {type: object, x-kubernetes-preserve-unknown-fields: true, \
         properties: {shut: {type: object, properties: {x: {type: string}}}}}, \
         list: {type: array, items: {type: object, properties: {y: {type: string}}}}, any: {type: object, additionalProperties: true}}}",
    ))
    .expect("the schema is right");
    let mut value = json!({
        "a": {"wrong": "type"}, "b": 1, "open": {"free": {"z": 1}, "shut": {"x": "", "q": 1}},
        "list": [{"y": "", "z": 1}, 3], "any": {"k": {"v": 1}},
    });
    schema.prune(&mut value);
    assert_eq!(
        value,
        json!({
            "a": {"wrong": "type"}, "open": {"free": {"z": 1}, "shut": {"x": ""}},
            "list": [{"y": ""}, 3], "any": {"k": {"v": 1}},
        })
    );
    assert_eq!(schema.unknown_fields(&value), []);
}

#[test]
fn expressions_are_kept_and_reported() {
    let schema = |rule: &str| {
        let text = format!(
            "{{type: object, properties: {{a: {{type: array, items: {{type: string{rule}}}}}}}}}"
        );
        Schema::compile(&yaml(&text)).expect("the schema is right")
    };
    assert!(!schema("").has_expressions());
    assert!(schema(", x-kubernetes-validations: [{rule: 'true'}]").has_expressions());
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(|float| json!(float)),
        "[a-c]{0,3}|.{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 64, 6, |inner| {
        let key = prop_oneof![
            "name|scale|share|mode|port|note|when|labels|ports|tags|number",
            "type|properties|items|additionalProperties|enum|anyOf|not|default|required|pattern",
            "[a-d]",
        ];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::Array),
            prop::collection::btree_map(key, inner, 0..6)
                .prop_map(|map| Value::Object(Map::from_iter(map))),
        ]
    })
}

proptest! {
    #[test]
    fn pruning_twice_is_pruning_once(mut value in any_json()) {
        let schema = Schema::compile(&yaml(COMPONENT)).expect("the schema is right");
        schema.prune(&mut value);
        let once = value.clone();
        schema.prune(&mut value);
        prop_assert_eq!(&value, &once);
        prop_assert_eq!(schema.unknown_fields(&value), vec![]);
    }

    #[test]
    fn filling_in_twice_is_filling_in_once(mut value in any_json()) {
        let schema = Schema::compile(&yaml(COMPONENT)).expect("the schema is right");
        schema.fill_defaults(&mut value);
        let once = value.clone();
        schema.fill_defaults(&mut value);
        prop_assert_eq!(&value, &once);
        prop_assert!(schema.validate(&value, &Path::ROOT).len() <= super::FINDINGS_MAX);
    }

    #[test]
    fn any_json_may_come_as_a_schema_and_then_as_a_value(schema in any_json(), mut value in any_json()) {
        if let Ok(schema) = Schema::compile(&schema) {
            schema.fill_defaults(&mut value);
            schema.prune(&mut value);
            schema.validate(&value, &Path::ROOT);
        }
    }
}
