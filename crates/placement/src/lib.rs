//! Where every component runs: from applications and the continuum as measured to one node and one
//! engine for each replica, with the reasons.
//!
//! Nothing here does anything, and nothing here knows the time: a deadline comes in as a closure.
//! Start reading at [`plan()`], the whole of it. On the way it makes a [`Continuum`] into a
//! [`Problem`], the optimisation problem as plain numbers, which [`select()`] of the crate `solver`
//! solves; [`explain`] turns the numbers back into words.

mod affinity;
pub mod ask;
pub mod bench;
mod bits;
mod check;
pub mod compile;
pub mod continuum;
pub mod explain;
mod filter;
pub mod instance;
pub mod paths;
pub mod plan;
pub mod reschedule;
pub mod running;
mod score;
#[cfg(test)]
mod testing;
pub mod topology;
pub mod what_if;
mod words;

pub use compile::{Compiled, Options, Scope, compile};
pub use continuum::Continuum;
pub use plan::{Plan, plan};
pub use running::{Hold, Running, Strike, Verdict};
pub use tombolo_solver::{Problem, problem, select};
