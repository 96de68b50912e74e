//! What the parts of an ICOS continuum ask of each other over HTTP.

use axum::Router;
use axum::routing::get;

pub(crate) fn router() -> Router {
    Router::new().route("/api/v3/healthcheck", get(|| async { "" }))
}
