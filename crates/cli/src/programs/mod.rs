//! The programs: what runs until it is told to stop, or measures. One file each.
//!
//! Unlike the shell they make their own runtime, with as many threads as there are cores.

mod agent;
mod bench;
mod beside;
mod controller;
mod lighthouse;
mod up;

use clap::Subcommand;

use crate::args::Globals;
use crate::failure::{Exit, Failure};

#[derive(Debug, Subcommand)]
pub(crate) enum Program {
    Up(up::UpCommand),
    Controller(controller::ControllerArgs),
    Agent(Box<agent::AgentArgs>),
    Lighthouse(lighthouse::LighthouseArgs),
    Bench(bench::BenchArgs),
}

pub(crate) fn run(program: Program, globals: &Globals) -> Result<Exit, Failure> {
    match program {
        Program::Up(args) => up::run(args),
        Program::Controller(args) => controller::run(args, globals),
        Program::Agent(args) => agent::run(*args),
        Program::Lighthouse(args) => lighthouse::run(args),
        Program::Bench(args) => bench::run(args),
    }
}
