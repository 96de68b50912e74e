//! Who asks: a loop in this process, the holder of a bearer token or of a client certificate, or
//! nobody that we know.

use std::collections::BTreeMap;

use http::request::Parts;
use tombolo_identity::{AccessToken, Subject, Token, token};

use crate::server::{Api, bearer, peer};
use crate::status::Failure;
use crate::{encode, time};

/// Whom the door has found a request to be of; among its extensions, so that nobody looks again.
#[derive(Clone, Debug)]
pub(crate) struct Authenticated(pub Subject);

pub(crate) fn subject(api: &Api, parts: &Parts) -> Result<Subject, Failure> {
    // Only code of this process can put a subject into a request.
    if let Some(subject) = parts.extensions.get::<Subject>() {
        return Ok(subject.clone());
    }
    if let Some(Authenticated(subject)) = parts.extensions.get() {
        return Ok(subject.clone());
    }
    // To run it as the caller instead would do more than was asked for.
    if parts.headers.keys().any(|name| name.as_str().starts_with("impersonate-")) {
        return Err(Failure::forbidden(
            "acting as somebody else (--as) is not possible here; use a token of theirs",
        ));
    }
    if let Some(text) = bearer(&parts.headers) {
        return by_token(api, text);
    }
    Ok(peer(parts).and_then(|peer| peer.subject.clone()).unwrap_or_else(Subject::anonymous))
}

/// The key of the certificate by which the sender is known.
pub(crate) fn key(parts: &Parts) -> Option<String> {
    peer(parts).and_then(|peer| peer.key.clone())
}

/// Tokens are looked up in the store each time, so that a revoked one is worth nothing at once.
pub(crate) fn by_token(api: &Api, text: &str) -> Result<Subject, Failure> {
    let refused = |problem: &dyn std::fmt::Display| Failure::unauthorized(problem.to_string());
    let token = Token::parse(text).map_err(|problem| refused(&problem))?;
    if token.hash() == api.admin {
        return Ok(Subject::first_admin());
    }
    let name = token.hash().secret_name();
    let stored = api
        .store
        .get(&format!("/secrets/{}/{name}", token::SYSTEM_NAMESPACE))
        .ok_or_else(|| refused(&token::Refused::Unknown))?;
    let secret = encode::parse(&stored);
    if secret["type"] != token::ACCESS_TOKEN_TYPE {
        return Err(refused(&token::Refused::Unknown));
    }
    let data: BTreeMap<String, String> =
        serde_json::from_value(secret["data"].clone()).unwrap_or_default();
    let record = AccessToken::from_data(&data).map_err(|problem| refused(&problem))?;
    token::check(&token, &record, time::timestamp()).map_err(|problem| refused(&problem))
}
