//! The placement problem as plain numbers, and the search for its best answer.
//!
//! This crate knows items, nodes and zones, and no documents: `placement` makes Apps and Nodes into a
//! [`Problem`] and turns the [`Selection`] back into words. Start reading at [`problem`], then at
//! [`select()`]; `docs/solver.md` names the algorithms and gives the reason for every constant.

pub mod problem;
pub mod sample;
pub mod select;

pub use problem::Problem;
pub use select::{Dice, Limits, Outcome, Selection, select};
