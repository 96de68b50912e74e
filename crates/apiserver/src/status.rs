//! Errors as the protocol says them: a `Status` object with a code, a reason and causes.

use serde_json::{Value, json};
pub use tombolo_model::{Invalid, Problem};

use crate::kinds::Kind;

/// What a request came to when it failed.
#[derive(Clone, Debug)]
pub struct Failure {
    pub code: u16,
    /// `NotFound`, `Conflict`, `Invalid`, …
    pub reason: &'static str,
    pub message: String,
    pub details: Option<Value>,
    /// Where a list that cannot go on as it began may go on all the same.
    pub continue_: Option<String>,
}

impl Failure {
    pub fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Failure {
        Failure { code, reason, message: message.into(), details: None, continue_: None }
    }

    pub fn bad_request(message: impl Into<String>) -> Failure {
        Failure::new(400, "BadRequest", message)
    }

    pub fn unauthorized(message: impl Into<String>) -> Failure {
        Failure::new(401, "Unauthorized", message)
    }

    pub fn forbidden(message: impl Into<String>) -> Failure {
        Failure::new(403, "Forbidden", message)
    }

    pub fn no_such_path() -> Failure {
        Failure::new(404, "NotFound", "the server could not find the requested resource")
    }

    pub fn not_found(kind: &Kind, name: &str) -> Failure {
        let message = format!("{} {name:?} not found", kind.qualified());
        Failure::new(404, "NotFound", message).about(kind, name, None)
    }

    pub fn already_exists(kind: &Kind, name: &str) -> Failure {
        let message = format!("{} {name:?} already exists", kind.qualified());
        Failure::new(409, "AlreadyExists", message).about(kind, name, None)
    }

    pub fn conflict(kind: &Kind, name: &str, why: &str) -> Failure {
        let message =
            format!("Operation cannot be fulfilled on {} {name:?}: {why}", kind.qualified());
        Failure::new(409, "Conflict", message).about(kind, name, None)
    }

    /// The object was changed since the client read it.
    pub fn stale(kind: &Kind, name: &str) -> Failure {
        let why = "the object has been modified; please apply your changes to the latest version \
                   and try again";
        Failure::conflict(kind, name, why)
    }

    pub fn invalid(kind: &Kind, name: &str, errors: &[Invalid]) -> Failure {
        let list: Vec<String> = errors.iter().map(sentence).collect();
        let message = match list.as_slice() {
            [one] => format!("{} {name:?} is invalid: {one}", kind.kind),
            many => format!("{} {name:?} is invalid: [{}]", kind.kind, many.join(", ")),
        };
        Failure::new(422, "Invalid", message).about(kind, name, Some(causes(errors)))
    }

    /// Unknown or doubled fields under strict field validation.
    pub fn strict(kind: &Kind, name: &str, errors: &[Invalid]) -> Failure {
        let list: Vec<String> = errors.iter().map(strict_words).collect();
        let message = format!("{} {name:?}: strict decoding error: {}", kind.kind, list.join(", "));
        Failure::new(400, "BadRequest", message).about(kind, name, Some(causes(errors)))
    }

    /// A parameter of a request that is understood and not allowed.
    pub fn invalid_options(options: &str, errors: &[Invalid]) -> Failure {
        let list: Vec<String> = errors.iter().map(sentence).collect();
        let message = format!("{options}.meta.k8s.io \"\" is invalid: {}", list.join(", "));
        let mut failure = Failure::new(422, "Invalid", message);
        failure.details =
            Some(json!({"group": "meta.k8s.io", "kind": options, "causes": causes(errors)}));
        failure
    }

    pub fn expired(message: impl Into<String>) -> Failure {
        Failure::new(410, "Expired", message)
    }

    pub fn unsupported_media(found: &str, allowed: &str) -> Failure {
        let message = format!("the body of the request is {found:?}; accepted are {allowed}");
        Failure::new(415, "UnsupportedMediaType", message)
    }

    pub fn too_many(message: impl Into<String>, retry_after_seconds: u32) -> Failure {
        let mut failure = Failure::new(429, "TooManyRequests", message);
        failure.details = Some(json!({"retryAfterSeconds": retry_after_seconds}));
        failure
    }

    pub fn internal(message: impl Into<String>) -> Failure {
        Failure::new(500, "InternalError", message)
    }

    #[must_use]
    pub fn about(mut self, kind: &Kind, name: &str, causes: Option<Value>) -> Failure {
        let mut details = json!({"name": name, "group": kind.group, "kind": kind.plural});
        if let Some(causes) = causes {
            details["causes"] = causes;
            details["kind"] = json!(kind.kind);
        }
        self.details = Some(details);
        self
    }

    pub fn retry_after_seconds(&self) -> Option<u64> {
        self.details.as_ref()?.get("retryAfterSeconds")?.as_u64()
    }

    pub fn to_json(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "reason": self.reason, "code": self.code,
        });
        if let Some(token) = &self.continue_ {
            status["metadata"]["continue"] = json!(token);
        }
        if let Some(details) = &self.details {
            status["details"] = details.clone();
        }
        status
    }
}

fn causes(errors: &[Invalid]) -> Value {
    let rows = errors.iter().map(|error| {
        json!({
            "reason": error.problem.reason(), "message": words(error), "field": error.field,
        })
    });
    Value::Array(rows.collect())
}

fn sentence(error: &Invalid) -> String {
    match error.field.as_str() {
        "" => words(error),
        field => format!("{field}: {}", words(error)),
    }
}

/// Tools look for the words of Kubernetes, so that these come first; ours follow.
fn words(error: &Invalid) -> String {
    let message = error.message.as_str();
    let first = match error.problem {
        Problem::Required => "Required value",
        Problem::Invalid | Problem::TypeInvalid => "Invalid value",
        Problem::NotSupported => "Unsupported value",
        Problem::Duplicate => "Duplicate value",
        Problem::TooLong => "Too long",
        Problem::TooMany => "Too many",
        Problem::Forbidden => "Forbidden",
        Problem::Unknown => return message.to_owned(),
    };
    match message {
        "" | "a value is required" => first.to_owned(),
        _ => format!("{first}: {message}"),
    }
}

/// The same for a field that is unknown, or that stands twice in a body.
pub(crate) fn strict_words(error: &Invalid) -> String {
    let (field, message) = (&error.field, error.message.as_str());
    match error.problem {
        Problem::Unknown => match message.strip_prefix("unknown field") {
            Some(rest) => format!("unknown field {field:?}{rest}"),
            None => format!("unknown field {field:?}: {message}"),
        },
        Problem::Duplicate => format!("duplicate field {field:?}: {message}"),
        _ => sentence(error),
    }
}
