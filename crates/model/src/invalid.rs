//! What can be wrong with an object, field by field. Made by [`crate::validate`] and by every
//! other reader of objects; the API server turns it into the causes of a `Status`.

use std::fmt;

/// One thing that is wrong with an object, at a path such as `spec.components[0].name`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    pub field: String,
    pub problem: Problem,
    /// What was found, what is allowed, and the nearest right name if there is one.
    pub message: String,
}

impl Invalid {
    pub fn new(field: impl Into<String>, problem: Problem, message: impl Into<String>) -> Invalid {
        Invalid { field: field.into(), problem, message: message.into() }
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.field.as_str() {
            "" => f.write_str(&self.message),
            field => write!(f, "{field}: {}", self.message),
        }
    }
}

/// More of a wrong value would drown the message, and an answer could outgrow its request.
const SHOWN_CHARS_MAX: usize = 80;

/// How messages quote what was found: cut to a readable length.
pub(crate) fn shown(text: &str) -> String {
    format!("{:?}", cut(text))
}

/// The path of an entry `key` below `path`. A key of a map is data and may hold anything, so one
/// that is no plain word goes in brackets.
pub(crate) fn below(path: &str, key: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == '-';
    match (path, key.chars().all(plain)) {
        ("", _) => cut(key),
        (path, true) => format!("{path}.{}", cut(key)),
        (path, false) => format!("{path}[{}]", cut(key)),
    }
}

/// A text of bounded length, with a mark where it was cut.
pub(crate) fn cut(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// The reasons that Kubernetes knows for a `StatusCause`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problem {
    Required,
    Invalid,
    NotSupported,
    Duplicate,
    TypeInvalid,
    TooLong,
    TooMany,
    Forbidden,
    Unknown,
}

impl Problem {
    pub fn reason(self) -> &'static str {
        match self {
            Problem::Required => "FieldValueRequired",
            Problem::Invalid => "FieldValueInvalid",
            Problem::NotSupported => "FieldValueNotSupported",
            Problem::Duplicate => "FieldValueDuplicate",
            Problem::TypeInvalid => "FieldValueTypeInvalid",
            Problem::TooLong => "FieldValueTooLong",
            Problem::TooMany => "FieldValueTooMany",
            Problem::Forbidden => "FieldValueForbidden",
            Problem::Unknown => "FieldValueUnknown",
        }
    }
}
