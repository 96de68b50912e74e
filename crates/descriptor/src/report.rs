//! A reading as JSON, for editors and scripts: every diagnostic and note with its place, counted
//! from 1 as people do, and in bytes. Called by `tombolo validate -o json`.

use serde_json::{Value, json};
use tombolo_yaml::{Lines, Mend, Severity, Span};

use crate::{Diagnostic, Note, Reading, Source};

/// What became of one text.
pub fn report(source: Source<'_>, reading: &Reading) -> Value {
    let lines = Lines::new(source.text);
    let diagnostics = reading.diagnostics.iter().map(|found| diagnostic(found, &lines));
    let notes = reading.notes.iter().map(|found| note(found, &lines));
    json!({
        "file": source.name,
        "format": reading.format.map(|format| format.as_str()),
        "valid": !reading.has_errors(),
        "apps": reading.apps.iter().map(|app| &app.metadata.name).collect::<Vec<_>>(),
        "diagnostics": diagnostics.collect::<Vec<_>>(),
        "notes": notes.collect::<Vec<_>>(),
    })
}

fn diagnostic(found: &Diagnostic, lines: &Lines<'_>) -> Value {
    let Diagnostic { severity, code, path, span, message, expected, mend, related } = found;
    let related = related
        .iter()
        .map(|(span, message)| json!({"message": message, "range": range(*span, lines)}));
    let mend = mend.as_ref().map(|Mend { span, replacement }| {
        json!({"replacement": replacement, "range": range(*span, lines)})
    });
    json!({
        "severity": match severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        },
        "code": code,
        "path": path,
        "message": message,
        "expected": expected,
        "mend": mend,
        "range": range(*span, lines),
        "related": related.collect::<Vec<_>>(),
    })
}

fn note(found: &Note, lines: &Lines<'_>) -> Value {
    let Note { path, span, kind, message } = found;
    json!({
        "kind": kind.as_str(),
        "path": path,
        "message": message,
        "range": range(*span, lines),
    })
}

fn range(span: Span, lines: &Lines<'_>) -> Value {
    let place = |byte: u32| {
        let at = lines.position(byte);
        json!({"line": at.line, "column": at.column, "offset": byte})
    };
    json!({"start": place(span.start), "end": place(span.end)})
}
