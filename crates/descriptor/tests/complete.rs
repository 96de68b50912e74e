//! Notes are complete: each file in `tests/complete` has every key that a format knows, and each of
//! its values must be in the App or in the notes. The name of a file is that of its format.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use serde_json::Value;
use tombolo_descriptor::{Colour, Format, NoFiles, Source, forgotten, read, render};
use tombolo_model::schema;

fn files() -> Vec<(Format, String)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/complete");
    let mut paths: Vec<PathBuf> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let read = |path: PathBuf| {
        let stem = path.file_stem().unwrap().to_str().unwrap();
        // Several files of one format are told apart after a dot: `icos.old.yaml`.
        let word = stem.split('.').next().unwrap();
        (word.parse().unwrap(), fs::read_to_string(&path).unwrap())
    };
    paths.into_iter().map(read).collect()
}

#[test]
fn every_complete_file_is_recognised_and_without_fault() {
    for (format, text) in files() {
        let source = Source { name: "complete.yaml", text: &text };
        let reading = read(source, None, &NoFiles);
        assert_eq!(reading.format, Some(format));
        let shown = render(source, &reading.diagnostics, Colour::Never);
        assert!(reading.diagnostics.is_empty(), "{format}:\n{shown}");
        assert!(!reading.apps.is_empty(), "{format} gave no App");
    }
}

#[test]
fn no_value_is_lost_in_silence() {
    for (format, text) in files() {
        let lost = forgotten(&text, format, &NoFiles);
        assert!(lost.is_empty(), "{format} forgets {lost:#?}");
    }
}

/// The file for our own format has every field of the schema, so that a new field must come here.
#[test]
fn the_native_file_has_every_field_of_an_app() {
    let (_, text) = files().into_iter().find(|(format, _)| *format == Format::Native).unwrap();
    let (documents, _) = tombolo_yaml::documents(&text, &tombolo_yaml::Limits::default());
    let object = documents[0].to_json();
    let mut missing = BTreeSet::new();
    check(
        &[&object["spec"]],
        &schema::internal("App").unwrap()["properties"]["spec"],
        "spec",
        &mut missing,
    );
    assert!(missing.is_empty(), "the file has no {missing:#?}");
}

/// Looks for each property of the schema in at least one of the values at its place.
fn check(values: &[&Value], schema: &Value, path: &str, missing: &mut BTreeSet<String>) {
    if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
        for (key, property) in properties {
            let found: Vec<&Value> = values.iter().filter_map(|value| value.get(key)).collect();
            let path = format!("{path}.{key}");
            match found.is_empty() {
                true => drop(missing.insert(path)),
                false => check(&found, property, &path, missing),
            }
        }
    }
    if let Some(items) = schema.get("items") {
        let found: Vec<&Value> =
            values.iter().filter_map(|value| value.as_array()).flatten().collect();
        check(&found, items, &format!("{path}[]"), missing);
    }
}
