//! The loops of a server as its health and its administrators see them. Called by `up`.

use axum::routing::get;
use axum::{Json, Router};
use tombolo_apiserver::health::LoopHealth;
use tombolo_controller::Board;
use tombolo_plan::supervision::State;

/// How each loop fares, in a word.
pub(super) fn health(board: Board) -> impl Fn() -> Vec<LoopHealth> + Send + Sync {
    move || {
        let health = |(name, state): (&'static str, State)| LoopHealth {
            name,
            state: state.as_str(),
            is_well: state.is_well(),
        };
        board.states().into_iter().map(health).collect()
    }
}

/// `/tombolo/loops`: with their last reports and errors, for those who have signed in.
pub(super) fn route(board: Board) -> Router {
    Router::new().route("/tombolo/loops", get(async move || Json(board.as_json())))
}
