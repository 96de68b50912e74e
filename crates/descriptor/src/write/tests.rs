//! What the emitter writes, and that it reads back.

use expect_test::{Expect, expect};
use proptest::prelude::*;
use serde_json::{Value, json};
use tombolo_yaml::Limits;

use super::emit::{Style, document};
use super::{Target, write};
use crate::{NoFiles, Source, read};

#[track_caller]
fn check(value: &Value, expected: Expect) {
    expected.assert_eq(&document(value, Style::Block));
}

#[test]
fn quotes_only_what_somebody_could_take_for_something_else() {
    check(
        &json!({
            "plain": ["web", "500m", "256Mi", "http://a:80/b", "a b", "1.4-alpine", "it's"],
            "quoted": ["yes", "No", "null", "~", "1e3", "0x1F", "012", "1.5", "12:30", "2030-01-31"],
            "odd": ["", " a", "a ", "a: b", "a #b", "- a", "#a", "*a", "a,b", "\t", "ü"],
        }),
        expect![[r##"
            odd: ["", " a", "a ", "a: b", "a #b", "- a", "#a", "*a", "a,b", "\t", "ü"]
            plain: [web, 500m, 256Mi, http://a:80/b, a b, 1.4-alpine, it's]
            quoted: ["yes", "No", "null", "~", "1e3", "0x1F", "012", "1.5", "12:30", "2030-01-31"]
        "##]],
    );
}

#[test]
fn writes_several_lines_as_a_block() {
    check(
        &json!({
            "a": "one\ntwo\n", "b": "one\ntwo", "c": "one\n\ntwo\n\n", "d": "  one\ntwo\n",
            "list": ["x\ny\n"], "e": "tab\n\there",
        }),
        expect![[r#"
            a: |
              one
              two
            b: |-
              one
              two
            c: |+
              one

              two

            d: |2
                one
              two
            e: "tab\n\there"
            list:
            - |
              x
              y
        "#]],
    );
}

#[test]
fn puts_the_keys_where_people_look_for_them() {
    check(
        &json!({
            "spec": {"template": {"spec": {}}, "replicas": 2, "selector": {"a": "b"}},
            "metadata": {"labels": {"x": "y"}, "name": "web"}, "kind": "Deployment",
            "apiVersion": "apps/v1",
        }),
        expect![[r#"
            apiVersion: apps/v1
            kind: Deployment
            metadata:
              name: web
              labels:
                x: "y"
            spec:
              replicas: 2
              selector:
                a: b
              template:
                spec: {}
        "#]],
    );
}

#[test]
fn a_format_that_cannot_be_written_is_named() {
    assert_eq!("codeco".parse(), Ok(Target::Codeco));
    expect![[r#""kubernets" cannot be written; there is "native", "icos", "codeco", "compose" or "kubernetes" (did you mean "kubernetes"?)"#]].assert_eq(&"kubernets".parse::<Target>().unwrap_err());
}

#[test]
fn knows_which_ways_to_run_a_format_has() {
    let ways = [
        ("container: {image: 'a:1'}", "native icos codeco compose kubernetes"),
        ("process: {command: [a]}", "native"),
        (
            "manifests: [{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{name: a, image: 'a:1'}]}}]",
            "native icos kubernetes",
        ),
        ("compose: {services: {a: {image: 'a:1'}}}", "native icos compose"),
    ];
    for (way, expected) in ways {
        let text = format!(
            "apiVersion: tombolo.dev/v1alpha1\nkind: App\nmetadata: {{name: a}}\n\
             spec: {{components: [{{name: a, run: [{{{way}}}]}}]}}\n"
        );
        let reading = read(Source { name: "a", text: &text }, None, &NoFiles);
        assert_eq!(reading.diagnostics, vec![], "for {way}");
        let app = &reading.apps[0];
        let mut known = Vec::new();
        for target in Target::ALL {
            let written = write(app, *target).text;
            let back = read(Source { name: "a", text: &written }, None, &NoFiles);
            let reads_back = !back.has_errors() && !back.apps.is_empty();
            let runs = target.runs(&app.spec.components[0]);
            assert_eq!(runs, reads_back, "{target} for {way}: {:?}\n{written}", back.diagnostics);
            known.extend(runs.then_some(target.as_str()));
        }
        assert_eq!(known.join(" "), expected, "for {way}");
    }
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "\\PC{0,12}",
        "[ -~\n\t]{0,16}",
        "(?s).{0,8}",
        "[a-z0-9.:+eExX_-]{0,6}",
        "[ \n]{0,5}"
    ]
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_filter("finite", |number| number.is_finite()).prop_map(Value::from),
        text().prop_map(Value::from),
    ];
    // "<<" is a merge key, and "-x" a list entry whose blank is missing: both have a meaning.
    let key = text().prop_filter("a key", |key| key != "<<" && !key.starts_with('-')).boxed();
    leaf.prop_recursive(5, 48, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map(key.clone(), inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn what_is_written_reads_back(value in value(), short in any::<bool>()) {
        let style = if short { Style::Short } else { Style::Block };
        // As files are: a mapping at the top.
        let whole = json!({ "top": value });
        let text = document(&whole, style);
        let (documents, problems) = tombolo_yaml::documents(&text, &Limits::default());
        prop_assert!(problems.is_empty(), "{problems:?} in\n{text}");
        prop_assert_eq!(documents.len(), 1, "in\n{}", text);
        prop_assert_eq!(documents[0].to_json(), whole, "in\n{}", text);
    }
}

/// A component that a format cannot run is left out, and nothing of what is written refers to it.
#[test]
fn what_is_written_names_nobody_who_is_not_there() {
    let app = json!({"apiVersion": "tombolo.dev/v1alpha1", "kind": "App", "metadata": {"name": "shop"},
        "spec": {"components": [
            {"name": "web", "run": [{"container": {"image": "web:1", "env": {"DB": "db:5432"}}}],
                "connects": [{"to": "db", "port": 5432}, {"to": "my-cache"}]},
            {"name": "db", "run": [{"process": {"command": ["db"]}}]},
            {"name": "my-cache",
                "run": [{"compose": {"services": {"my_cache": {"image": "cache:1"}}}}]}],
            "policies": [{"name": "p", "components": ["db"], "condition": {"security": "high"}}]}});
    let app: tombolo_model::App = serde_json::from_value(app).unwrap();
    for target in Target::ALL {
        let written = write(&app, *target);
        let source = Source { name: "written.yaml", text: &written.text };
        let reading = read(source, None, &NoFiles);
        let errors =
            reading.diagnostics.iter().filter(|one| one.severity == crate::Severity::Error);
        let errors: Vec<&str> = errors.map(|one| one.message.as_str()).collect();
        assert_eq!(errors, [] as [&str; 0], "as {target}:\n{}", written.text);
    }
}
