//! What the model finds wrong with an App, shown at the place of the text that it comes from.
//! Called for the Apps of every format once they are read.

use tombolo_model::invalid::{Invalid, Problem};
use tombolo_model::{App, validate};
use tombolo_yaml::Span;

use crate::Diagnostic;
use crate::reader::Reader;

/// What the model says about a list without entries.
const EMPTY: &str = "must not be empty";

/// Checks an App that was made from a foreign text.
pub(crate) fn check(number: usize, app: &App, reader: &mut Reader<'_>) {
    let Ok(value) = serde_json::to_value(app) else { return };
    for invalid in validate::app(&value) {
        // A part that could not be read is missing in the App; that it is wrong was told.
        if matches!(invalid.problem, Problem::Required) && reader.has_errors() {
            continue;
        }
        if invalid.message == EMPTY && reader.has_errors() {
            continue;
        }
        let span = reader.origin_of(number, &invalid.field).unwrap_or_default();
        let mut diagnostic = from_invalid(&invalid, span);
        diagnostic.message = match invalid.field.as_str() {
            "" => diagnostic.message,
            field => format!("{} (as {field} of the App)", diagnostic.message),
        };
        // The path is the App's, not the text's, and a replacement would be as well.
        diagnostic.mend = None;
        reader.diagnose(diagnostic);
    }
}

/// A finding of the model as a diagnostic; a "did you mean" becomes the mend.
pub(crate) fn from_invalid(invalid: &Invalid, span: Span) -> Diagnostic {
    let (message, meant) = split_suggestion(&invalid.message);
    let mut diagnostic = Diagnostic::error(code(invalid.problem), span, message);
    diagnostic.path = invalid.field.clone();
    if let Some(meant) = meant {
        diagnostic.mended_by(span, meant);
    }
    diagnostic
}

/// The message without its ` (did you mean "x"?)`, and the x.
pub(crate) fn split_suggestion(message: &str) -> (String, Option<String>) {
    const BEGIN: &str = " (did you mean \"";
    const END: &str = "\"?)";
    let Some((before, rest)) = message.rsplit_once(BEGIN) else {
        return (message.to_owned(), None);
    };
    match rest.strip_suffix(END) {
        Some(meant) => (before.to_owned(), Some(meant.replace("\\\"", "\"").replace("\\\\", "\\"))),
        None => (message.to_owned(), None),
    }
}

fn code(problem: Problem) -> &'static str {
    match problem {
        Problem::Required => "missing-field",
        Problem::Invalid => "invalid-value",
        Problem::NotSupported => "unknown-word",
        Problem::Duplicate => "duplicate",
        Problem::TypeInvalid => "wrong-kind",
        Problem::TooLong => "too-long",
        Problem::TooMany => "too-many",
        Problem::Forbidden => "not-together",
        Problem::Unknown => "unknown-field",
    }
}
