//! What the parts of an ICOS continuum ask of each other over HTTP.

mod claims;
mod controller;
mod deployment;
mod group;
mod incompliance;
pub(crate) mod index;
mod job;
mod jobmanager;
mod logs;
mod manifest;
mod matchmake;
mod resource;
mod told;
pub mod topology;

use axum::routing::{any, get, post};
use axum::{Extension, Router};

use crate::clock::Clock;
use index::Index;

pub(crate) fn router(clock: Clock, index: Index) -> Router {
    let all = || get(deployment::list).post(deployment::create);
    let one = || get(deployment::show).put(deployment::replace).delete(deployment::delete);
    let controllers = || get(controller::list).post(controller::register);
    Router::new()
        .route("/api/v3/healthcheck", get(|| async { "" }))
        // With and without the slash: clients of ICOS send both.
        .route("/api/v3/controller", controllers())
        .route("/api/v3/controller/", controllers())
        .route("/api/v3/deployment", all())
        .route("/api/v3/deployment/", all())
        .route("/api/v3/deployment/{id}", one())
        .route("/api/v3/deployment/{id}/", one())
        .route("/api/v3/deployment/{id}/start", any(deployment::start))
        .route("/api/v3/deployment/{id}/stop", any(deployment::stop))
        .route("/api/v3/deployment/{id}/logs", get(deployment::logs))
        .route("/api/v3/resource", get(resource::list))
        .route("/api/v3/resource/", get(resource::list))
        .route("/api/v3/resource/{id}", get(resource::show))
        .route("/matchmake", post(matchmake::propose))
        .merge(jobmanager::router(clock))
        .layer(Extension(index))
}
