//! What the parts of an ICOS continuum ask of each other over HTTP.

mod deployment;
mod job;
mod matchmake;

use axum::Router;
use axum::routing::{any, get, post};

pub(crate) fn router() -> Router {
    let all = || get(deployment::list).post(deployment::create);
    let one = || get(deployment::show).put(deployment::replace).delete(deployment::delete);
    Router::new()
        .route("/api/v3/healthcheck", get(|| async { "" }))
        // With and without the slash: clients of ICOS send both.
        .route("/api/v3/deployment", all())
        .route("/api/v3/deployment/", all())
        .route("/api/v3/deployment/{id}", one())
        .route("/api/v3/deployment/{id}/", one())
        .route("/api/v3/deployment/{id}/start", any(deployment::start))
        .route("/api/v3/deployment/{id}/stop", any(deployment::stop))
        .route("/matchmake", post(matchmake::propose))
}
