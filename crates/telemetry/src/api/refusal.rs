//! What the API of Prometheus says when it does not answer: a kind, a sentence and a status code.

use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use tombolo_series::promql;

/// A refusal, in the words of Prometheus.
#[derive(Debug)]
pub struct Refusal {
    code: StatusCode,
    kind: &'static str,
    problem: String,
}

impl Refusal {
    fn new(code: StatusCode, kind: &'static str, problem: impl Into<String>) -> Self {
        Self { code, kind, problem: problem.into() }
    }

    pub(super) fn bad_data(problem: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad_data", problem)
    }

    pub(super) fn parameter(name: &str, problem: impl std::fmt::Display) -> Self {
        Self::bad_data(format!("invalid parameter {name:?}: {problem}"))
    }

    pub(super) fn execution(problem: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "execution", problem)
    }

    pub(super) fn timeout(problem: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "timeout", problem)
    }

    pub(super) fn internal(problem: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", problem)
    }

    pub(super) fn not_found(problem: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", problem)
    }

    pub(super) fn forbidden(problem: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "forbidden", problem)
    }

    pub(super) fn body_too_large(problem: impl Into<String>) -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "bad_data", problem)
    }
}

/// An answer as JSON that is written already.
pub(super) fn json(body: String) -> Response {
    let mut response = body.into_response();
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut response = json(promql::error_json(self.kind, &self.problem));
        *response.status_mut() = self.code;
        response
    }
}
