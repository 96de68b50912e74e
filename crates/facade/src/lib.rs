//! The REST APIs that other projects published, on the same port as the resource API. A facade
//! translates a request into reads and writes of resources and their answers back; it keeps
//! nothing of its own but since when it has seen a claim unchanged and where the jobs are, and acts with the rights of whoever calls it.
//!
//! One folder a project, one file an API. [`router`] is merged in by the programs that serve, behind
//! the door of the API (`tombolo_apiserver::Api::serving`).

mod accordion;
mod alto;
mod clock;
pub mod icos;
mod refusal;
#[cfg(test)]
mod testing;

use axum::Router;

pub use clock::Clock;
pub use icos::index::Index;

/// All facades. Jobs are found with the index; somebody has to keep it.
pub fn router(index: Index) -> Router {
    router_by(clock::start(), index)
}

/// All facades, by a clock of the caller: a test's, which need not wait.
pub fn router_by(clock: Clock, index: Index) -> Router {
    icos::router(clock, index).merge(accordion::router()).merge(alto::router())
}
