//! Answers on the wire: objects, documents and failures as HTTP responses.

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::header::{CONTENT_TYPE, ETAG, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, StatusCode};
use serde_json::Value;
use tombolo_document::protobuf;

use crate::accept::Representation;
use crate::status::Failure;
use crate::{encode, openapi};

/// More than this a client would not show.
const WARNINGS_MAX: usize = 20;
const WARNING_CHARACTERS_MAX: usize = 400;

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: StatusCode,
    pub(crate) body: Bytes,
    pub(crate) content_type: &'static str,
    pub(crate) warnings: Vec<String>,
}

impl Answer {
    pub(crate) fn json(body: Bytes) -> Answer {
        Answer {
            code: StatusCode::OK,
            body,
            content_type: "application/json",
            warnings: Vec::new(),
        }
    }

    pub(crate) fn value(value: &Value) -> Answer {
        Answer::json(encode::to_bytes(value))
    }

    /// In protobuf if the client wants it, else in JSON; of an object or a Status.
    pub(crate) fn in_form(form: Representation, value: &Value) -> Answer {
        let binary = (form == Representation::Protobuf).then(|| protobuf::encode::object(value));
        match binary.flatten() {
            Some(bytes) => {
                Answer { content_type: protobuf::MEDIA_TYPE, ..Answer::json(bytes.into()) }
            }
            None => Answer::value(value),
        }
    }

    pub(crate) fn text(body: impl Into<Bytes>) -> Answer {
        Answer { content_type: "text/plain; charset=utf-8", ..Answer::json(body.into()) }
    }

    #[must_use]
    pub(crate) fn with_code(mut self, code: StatusCode) -> Answer {
        self.code = code;
        self
    }

    #[must_use]
    pub(crate) fn with_warnings(mut self, warnings: Vec<String>) -> Answer {
        self.warnings = warnings;
        self
    }
}

impl IntoResponse for Answer {
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::from(self.body));
        *response.status_mut() = self.code;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(self.content_type));
        for warning in self.warnings.iter().take(WARNINGS_MAX) {
            warn(headers, warning);
        }
        response
    }
}

pub(crate) fn warn(headers: &mut HeaderMap, sentence: &str) {
    if let Ok(value) = HeaderValue::from_str(&warning_header(sentence)) {
        headers.append("warning", value);
    }
}

/// A document that rarely changes: the client may keep it as long as its tag stays the same.
pub(crate) fn cached(
    body: Bytes,
    content_type: &'static str,
    if_none_match: Option<&str>,
) -> Response {
    let tag = format!("\"{}\"", openapi::hash(&body));
    let unchanged = if_none_match.is_some_and(|known| known.contains(&tag));
    let mut answer = Answer { content_type, ..Answer::json(body) };
    if unchanged {
        answer = Answer { body: Bytes::new(), code: StatusCode::NOT_MODIFIED, ..answer };
    }
    let mut response = answer.into_response();
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        response.headers_mut().insert(ETAG, tag);
    }
    response
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        self.response(Representation::Json)
    }
}

impl Failure {
    pub(crate) fn response(self, form: Representation) -> Response {
        let code = StatusCode::from_u16(self.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let answer = Answer::in_form(form, &self.to_json());
        let mut response = answer.with_code(code).into_response();
        if let Some(seconds) = self.retry_after_seconds() {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.code == 401 {
            let challenge = HeaderValue::from_static("Bearer realm=\"tombolo\"");
            response.headers_mut().insert("www-authenticate", challenge);
        }
        response
    }
}

/// `299 - "text"`, as RFC 7234 has it; what a header cannot carry becomes a blank.
fn warning_header(text: &str) -> String {
    let clean: String = text
        .chars()
        .take(WARNING_CHARACTERS_MAX)
        .map(|character| if character.is_ascii_graphic() { character } else { ' ' })
        .collect();
    format!("299 - \"{}\"", clean.replace('\\', "\\\\").replace('"', "\\\""))
}
