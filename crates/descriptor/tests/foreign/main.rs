//! The formats of CODECO, CHARITY and ACCORDION: our own samples in `examples/formats/`, and, where the
//! folder with the projects' documents is there, every example that they have published.

#![expect(clippy::unwrap_used, reason = "a test may")]

mod ceaml;
mod charity;
mod codeco;
#[path = "../projects/print.rs"]
mod print;
#[path = "../projects/mod.rs"]
mod projects;
mod served;

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use expect_test::expect_file;
use tombolo_descriptor::{Lines, NoFiles, Reading, Severity, Source, read};
use tombolo_model::App;

/// Reads a text as it would be read from a file.
fn reading(text: &str) -> Reading {
    read(Source { name: "test.yaml", text }, None, &NoFiles)
}

/// The reading of a text that has no errors.
#[track_caller]
fn clean(text: &str) -> Reading {
    let reading = reading(text);
    let errors: Vec<_> = reading
        .diagnostics
        .iter()
        .filter(|diagnostic| diagnostic.severity == Severity::Error)
        .collect();
    assert!(errors.is_empty(), "{errors:#?}");
    reading
}

/// The only App of a text that has no errors.
#[track_caller]
fn only_app(text: &str) -> App {
    let mut apps = clean(text).apps;
    assert_eq!(apps.len(), 1);
    apps.remove(0)
}

/// Every diagnostic as `line: code: message`.
fn diagnostics(text: &str, reading: &Reading) -> Vec<String> {
    let lines = Lines::new(text);
    let told = reading.diagnostics.iter().map(|diagnostic| {
        let line = lines.position(diagnostic.span.start).line;
        format!("{line}: {}: {}", diagnostic.code, diagnostic.message)
    });
    told.collect()
}

/// Whether a note speaks of exactly this place.
fn is_noted(reading: &Reading, path: &str) -> bool {
    reading.notes.iter().any(|note| note.path == path)
}

/// What becomes of a sample, all of it, in `expected/`.
#[track_caller]
fn check_example(name: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/formats").join(name);
    let text = fs::read_to_string(path).unwrap();
    let reading = clean(&text);
    let lines = Lines::new(&text);
    let mut shown = String::new();
    for app in &reading.apps {
        writeln!(shown, "{}", serde_json::to_string_pretty(app).unwrap()).unwrap();
    }
    for other in &reading.others {
        writeln!(shown, "{}", serde_json::to_string_pretty(other).unwrap()).unwrap();
    }
    for note in &reading.notes {
        let line = lines.position(note.span.start).line;
        let kind = note.kind.as_str();
        writeln!(shown, "{line}: {kind}: {}: {}", note.path, note.message).unwrap();
    }
    for told in diagnostics(&text, &reading) {
        writeln!(shown, "{told}").unwrap();
    }
    let expected = format!("{}/tests/foreign/expected/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    expect_file![expected].assert_eq(&shown);
}

/// What a value may be that should be another.
const OTHERS: &[&str] = &["~", "x", "-1", "[]", "[1]", "{}", "{a: 1}", "{get_input: LEVEL}"];

/// Every line is taken away, and then its value becomes something else. Readers may complain.
#[test]
fn no_change_of_a_line_makes_a_reader_panic() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/complete");
    let names = [
        "codeco.yaml",
        "codeco.older.yaml",
        "charity-orchestration.yaml",
        "charity-tosca.yaml",
        "ceaml.yaml",
    ];
    for name in names {
        let text = fs::read_to_string(folder.join(name)).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        for (index, line) in lines.iter().enumerate() {
            let key = line.split_inclusive(": ").next().unwrap_or_default();
            let value = OTHERS[index % OTHERS.len()];
            let other = format!("{}: {value}", key.trim_end().trim_end_matches(':'));
            for instead in ["", &other] {
                let mut changed = lines.clone();
                changed[index] = instead;
                let _ = reading(&changed.join("\n"));
            }
        }
    }
}

#[test]
fn every_sample_becomes_what_it_says() {
    check_example("codeco-app.yaml");
    check_example("charity-orchestration.yaml");
    check_example("charity-blueprint.yaml");
    check_example("accordion-ceaml.yaml");
}
