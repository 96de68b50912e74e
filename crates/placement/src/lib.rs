//! Where every component runs: from applications and the continuum as measured to one node and one
//! engine for each replica, with the reasons.
//!
//! Nothing here does anything, and nothing here knows the time: a deadline comes in as a closure.
//! Start reading at [`problem`], the optimisation problem as plain numbers, and at [`select()`],
//! which solves it.

pub mod problem;
pub mod sample;
pub mod select;

pub use problem::Problem;
pub use select::select;
