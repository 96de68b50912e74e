//! The REST APIs that other projects published, on the same port as the resource API. A facade
//! translates a request into reads and writes of resources and their answers back; it keeps
//! nothing of its own but since when it has seen a claim unchanged, and acts with the rights of whoever calls it.
//!
//! One folder a project, one file an API. [`router`] is merged in by the programs that serve, behind
//! the door of the API (`tombolo_apiserver::Api::serving`).

mod accordion;
mod clock;
pub mod icos;
mod refusal;
#[cfg(test)]
mod testing;

use axum::Router;

pub use clock::Clock;

/// All facades.
pub fn router() -> Router {
    router_by(clock::start())
}

/// All facades, by a clock of the caller: a test's, which need not wait.
pub fn router_by(clock: Clock) -> Router {
    icos::router(clock).merge(accordion::router())
}
