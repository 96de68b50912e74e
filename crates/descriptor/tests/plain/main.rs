//! Compose files, plain Kubernetes manifests and EdgeNet's selective deployments: our samples in
//! `examples/formats/` and small texts, field by field, and what the projects' documents have of them.

#![expect(clippy::unwrap_used, reason = "a test may")]

mod complete;
mod compose;
mod edgenet;
mod kubernetes;
#[path = "../projects/print.rs"]
mod print;
#[path = "../projects/mod.rs"]
mod projects;
mod published;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use expect_test::Expect;
use tombolo_descriptor::{
    Colour, Files, Options, Reading, Severity, Source, Together, read, render, render_notes,
};
use tombolo_model::component::Component;

fn example(name: &str) -> String {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/formats");
    fs::read_to_string(examples.join(name)).unwrap()
}

fn files(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
    entries.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect()
}

/// The reading of a text without errors.
#[track_caller]
fn clean(text: &str, files: &dyn Files) -> Reading {
    let reading = read(Source { name: "test.yaml", text }, None, files);
    let source = Source { name: "test.yaml", text };
    let shown = render(source, &reading.diagnostics, Colour::Never);
    let failed = reading.diagnostics.iter().any(|one| one.severity == Severity::Error);
    assert!(!failed, "{shown}");
    reading
}

/// The reading of several texts as one, without errors.
#[track_caller]
fn together(texts: &[(&str, &str)], options: &Options, files: &dyn Files) -> Reading {
    let sources: Vec<Source<'_>> = texts.iter().map(|(name, text)| Source { name, text }).collect();
    let together = Together::new(&sources);
    let reading = together.read(options, files);
    let apart = together.apart(&reading);
    let shown = apart.iter().map(|(source, own)| render(*source, &own.diagnostics, Colour::Never));
    assert!(!reading.has_errors(), "{}", shown.collect::<String>());
    reading
}

/// A component of the only App.
#[track_caller]
fn component(reading: &Reading, name: &str) -> Component {
    let [app] = reading.apps.as_slice() else { panic!("{} Apps", reading.apps.len()) };
    let found = app.spec.components.iter().find(|component| component.name == name);
    found.unwrap_or_else(|| panic!("no component {name}")).clone()
}

#[track_caller]
fn check_notes(text: &str, reading: &Reading, expected: Expect) {
    let source = Source { name: "test.yaml", text };
    expected.assert_eq(&render_notes(source, &reading.notes, Colour::Never));
}
