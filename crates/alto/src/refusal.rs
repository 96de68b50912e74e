//! Why a request is not answered, as RFC 7285 has it (8.5.2). The status is always 400.

use serde_json::{Map, Value, json};

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    Syntax,
    MissingField,
    InvalidFieldType,
    InvalidFieldValue,
}

impl Code {
    pub fn name(self) -> &'static str {
        match self {
            Code::Syntax => "E_SYNTAX",
            Code::MissingField => "E_MISSING_FIELD",
            Code::InvalidFieldType => "E_INVALID_FIELD_TYPE",
            Code::InvalidFieldValue => "E_INVALID_FIELD_VALUE",
        }
    }
}

/// A request that is not answered, and where it is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub code: Code,
    /// The path of the field, with slashes.
    pub field: Option<String>,
    /// What stood there, as text.
    pub value: Option<String>,
    /// What the parser said.
    pub syntax: Option<String>,
}

impl Refusal {
    pub(crate) fn syntax(error: &serde_json::Error) -> Refusal {
        let syntax = Some(error.to_string());
        Refusal { code: Code::Syntax, field: None, value: None, syntax }
    }

    pub(crate) fn missing(field: &str) -> Refusal {
        let field = Some(field.to_owned());
        Refusal { code: Code::MissingField, field, value: None, syntax: None }
    }

    pub(crate) fn kind(field: &str) -> Refusal {
        Refusal { code: Code::InvalidFieldType, ..Refusal::missing(field) }
    }

    pub(crate) fn value(field: &str, value: &Value) -> Refusal {
        let value = match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        Refusal { code: Code::InvalidFieldValue, value: Some(value), ..Refusal::missing(field) }
    }

    /// The document to send, with the status 400.
    pub fn document(&self) -> Value {
        let mut meta = Map::from_iter([("code".to_owned(), json!(self.code.name()))]);
        let more = [("field", &self.field), ("value", &self.value), ("syntax-error", &self.syntax)];
        for (name, text) in more {
            if let Some(text) = text {
                meta.insert(name.to_owned(), json!(text));
            }
        }
        json!({ "meta": meta })
    }
}
