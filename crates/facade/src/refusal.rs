//! What a facade answers when it cannot do what it was asked: a status code and a sentence.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

#[derive(Debug)]
pub(crate) struct Refusal {
    code: StatusCode,
    message: String,
    details: Option<Value>,
}

impl Refusal {
    pub(crate) fn new(code: StatusCode, message: impl Into<String>) -> Refusal {
        Refusal { code, message: message.into(), details: None }
    }

    pub(crate) fn not_found(message: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::NOT_FOUND, message)
    }

    pub(crate) fn code(&self) -> StatusCode {
        self.code
    }

    /// The same, where another API has another code for it.
    pub(crate) fn with_code(self, code: StatusCode) -> Refusal {
        Refusal { code, ..self }
    }

    pub(crate) fn with(self, details: Value) -> Refusal {
        Refusal { details: Some(details), ..self }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut body = json!({"error": self.message});
        if let Some(details) = self.details {
            body["details"] = details;
        }
        (self.code, Json(body)).into_response()
    }
}

/// What the resource API said is said on; what we know of an error of our own stays in our log.
impl From<kube::Error> for Refusal {
    fn from(error: kube::Error) -> Refusal {
        match error {
            kube::Error::Api(status) => {
                let code = StatusCode::from_u16(status.code);
                Refusal::new(code.unwrap_or(StatusCode::BAD_GATEWAY), status.message.clone())
            }
            other => {
                tracing::error!(error = %other, "a facade could not reach the API");
                Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "the server failed; see its log")
            }
        }
    }
}
