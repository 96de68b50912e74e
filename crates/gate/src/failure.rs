//! Refusals of the gate on the wire, as the Kubernetes protocol says them: a `Status` object with a
//! code and a reason.

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, StatusCode};
use serde_json::{Value, json};

/// What a request came to when it failed.
#[derive(Clone, Debug)]
pub struct Failure {
    pub code: u16,
    /// `NotFound`, `Conflict`, …
    pub reason: String,
    pub message: String,
    pub retry_after_seconds: Option<u32>,
}

impl Failure {
    pub(crate) fn new(code: u16, reason: impl Into<String>, message: impl Into<String>) -> Failure {
        let (reason, message) = (reason.into(), message.into());
        Failure { code, reason, message, retry_after_seconds: None }
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Failure {
        Failure::new(400, "BadRequest", message)
    }

    pub(crate) fn unauthorized(message: impl Into<String>) -> Failure {
        Failure::new(401, "Unauthorized", message)
    }

    pub(crate) fn forbidden(message: impl Into<String>) -> Failure {
        Failure::new(403, "Forbidden", message)
    }

    pub(crate) fn too_many(message: impl Into<String>, retry_after_seconds: u32) -> Failure {
        let retry_after_seconds = Some(retry_after_seconds);
        Failure { retry_after_seconds, ..Failure::new(429, "TooManyRequests", message) }
    }

    /// What is known about it stays in our log.
    pub(crate) fn internal(why: &dyn std::fmt::Display) -> Failure {
        tracing::error!(%why, "the gate could not answer");
        Failure::new(500, "InternalError", "the server could not do this; its log says why")
    }

    fn to_json(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "reason": self.reason, "code": self.code,
        });
        if let Some(seconds) = self.retry_after_seconds {
            status["details"] = json!({"retryAfterSeconds": seconds});
        }
        status
    }
}

/// What the API said goes on to the client that asked.
impl From<kube::Error> for Failure {
    fn from(error: kube::Error) -> Failure {
        let kube::Error::Api(status) = error else { return Failure::internal(&error) };
        let mut failure = Failure::new(status.code, status.reason, status.message);
        let wait = status.details.map_or(0, |details| details.retry_after_seconds);
        failure.retry_after_seconds = (wait > 0).then_some(wait);
        failure
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let code = StatusCode::from_u16(self.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = answer(code, &self.to_json());
        let headers = response.headers_mut();
        if let Some(seconds) = self.retry_after_seconds {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.code == 401 {
            let challenge = HeaderValue::from_static("Bearer realm=\"tombolo\"");
            headers.insert(WWW_AUTHENTICATE, challenge);
        }
        response
    }
}

/// A document as an answer.
pub(crate) fn answer(code: StatusCode, value: &Value) -> Response {
    let mut response = Response::new(Body::from(value.to_string()));
    *response.status_mut() = code;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
