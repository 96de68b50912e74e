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
        diagnostic.path = String::new();
        diagnostic.mend = None;
        reader.diagnose(diagnostic);
    }
}

/// A finding of the model as a diagnostic; a "did you mean" becomes the mend.
pub(crate) fn from_invalid(invalid: &Invalid, span: Span) -> Diagnostic {
    let (message, meant) = split_suggestion(&invalid.message);
    let Said { message, expected } = match invalid.problem {
        Problem::Required => missing(&invalid.field, &message),
        Problem::Invalid
        | Problem::NotSupported
        | Problem::Duplicate
        | Problem::TypeInvalid
        | Problem::TooLong
        | Problem::TooMany
        | Problem::Forbidden
        | Problem::Unknown => split_expected(&message),
    };
    let mut diagnostic = Diagnostic::error(code(invalid.problem), span, message);
    diagnostic.path = invalid.field.clone();
    diagnostic.expected = expected;
    if let Some(meant) = meant {
        diagnostic.mended_by(span, meant);
    }
    diagnostic
}

/// What is wrong, and what would be right.
struct Said {
    message: String,
    expected: Option<String>,
}

fn missing(field: &str, message: &str) -> Said {
    let key = field.rsplit(['.', '[']).next().unwrap_or(field).trim_end_matches(']');
    let about = message.strip_prefix("is required (").and_then(|rest| rest.strip_suffix(')'));
    match about {
        Some(about) => {
            let mut letters = about.chars();
            let first = letters.next().map(char::to_lowercase).into_iter().flatten();
            let expected = first.chain(letters).collect();
            Said { message: format!("{key:?} is missing"), expected: Some(expected) }
        }
        None if message.starts_with("is required") => {
            let rest = message["is required".len()..].trim_start();
            let message = format!("{key:?} is missing {rest}").trim_end().to_owned();
            Said { message, expected: None }
        }
        None => Said { message: message.to_owned(), expected: None },
    }
}

/// The model says both in one clause; people find the second more easily on a line of its own.
fn split_expected(message: &str) -> Said {
    let said = |message: &str, expected: &str| Said {
        message: message.to_owned(),
        expected: Some(expected.to_owned()),
    };
    if let Some((expected, found)) =
        message.strip_prefix("expected ").and_then(|rest| rest.split_once(", found "))
    {
        // How to write it is shown by the mend.
        let found = found.split_once("; write ").map_or(found, |(found, _)| found);
        return said(&format!("found {found}"), expected);
    }
    if let Some((found, expected)) = message.split_once(", must be ") {
        let number = found.strip_prefix("is ").map(|number| format!("{number} is out of range"));
        return said(&number.unwrap_or_else(|| found.to_owned()), expected);
    }
    for middle in ["; write ", "; there is "] {
        if let Some((found, expected)) = message.split_once(middle) {
            return said(found, expected);
        }
    }
    let shown = message.split_once("; \"").filter(|(_, rest)| rest.ends_with("\" would do"));
    match shown.map_or(message, |(found, _)| found).split_once("is not a name: ") {
        Some((name, expected)) => said(&format!("{name}is not a name"), expected),
        None => Said { message: message.to_owned(), expected: None },
    }
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
