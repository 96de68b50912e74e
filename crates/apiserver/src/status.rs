//! Errors as the protocol says them: a `Status` object with a code, a reason and causes.

use serde_json::{Value, json};

/// One thing that is wrong with an object, at a path such as `spec.components[0].name`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    pub field: String,
    pub problem: Problem,
    /// What was found, what is allowed, and the nearest right name if there is one.
    pub message: String,
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

/// What a request came to when it failed.
#[derive(Clone, Debug)]
pub struct Failure {
    pub code: u16,
    /// `NotFound`, `Conflict`, `Invalid`, …
    pub reason: &'static str,
    pub message: String,
    pub details: Option<Value>,
}

impl Failure {
    pub fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Failure {
        Failure { code, reason, message: message.into(), details: None }
    }

    pub fn to_json(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "reason": self.reason, "code": self.code,
        });
        if let Some(details) = &self.details {
            status["details"] = details.clone();
        }
        status
    }
}
