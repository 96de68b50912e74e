//! The REST APIs that other projects published, on the same port as the resource API. A facade
//! translates a request into reads and writes of resources and their answers back; it keeps
//! nothing of its own, and acts with the rights of whoever calls it.
//!
//! One folder a project, one file an API. [`router`] is merged in by the programs that serve, behind
//! `tombolo_apiserver::Api::guarded`.

mod icos;
mod refusal;

use axum::Router;

/// All facades.
pub fn router() -> Router {
    Router::new().merge(icos::router())
}
