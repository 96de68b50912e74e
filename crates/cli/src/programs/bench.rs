//! `tombolo bench`: the numbers of the README. Called by `programs::run`.

use clap::Args;

use crate::failure::{Exit, Failure};

/// Measure, and print one JSON line for each number.
#[derive(Args, Debug)]
pub(crate) struct BenchArgs {
    /// What to measure: store, watch or api.
    pub(crate) name: String,
}

pub(crate) fn run(args: BenchArgs) -> Result<Exit, Failure> {
    Err(Failure::failed(format!("this build has no benchmark `{}`", args.name)))
}
