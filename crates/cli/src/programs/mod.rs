//! The programs: what runs until it is told to stop, or measures. One file each.
//!
//! Unlike the shell they make their own runtime, with as many threads as there are cores.

mod agent;
mod bench;
mod beside;
mod controller;
mod down;
mod lighthouse;
mod loops;
mod up;

use clap::Subcommand;
use tracing::level_filters::LevelFilter;

use crate::args::Globals;
use crate::failure::{Exit, Failure};

#[derive(Debug, Subcommand)]
pub(crate) enum Program {
    Up(up::UpCommand),
    Down(down::DownArgs),
    Controller(controller::ControllerArgs),
    Agent(Box<agent::AgentArgs>),
    Lighthouse(lighthouse::LighthouseArgs),
    Bench(bench::BenchArgs),
}

impl Program {
    /// What is logged without `-v`. A demo speaks for itself, and what goes wrong when it ends is told.
    pub(crate) fn usual_log(&self) -> LevelFilter {
        match self {
            Program::Up(args) if args.is_demo() => LevelFilter::ERROR,
            Program::Down(_) => LevelFilter::ERROR,
            Program::Up(_)
            | Program::Controller(_)
            | Program::Agent(_)
            | Program::Lighthouse(_)
            | Program::Bench(_) => LevelFilter::WARN,
        }
    }
}

pub(crate) fn run(program: Program, globals: &Globals) -> Result<Exit, Failure> {
    match program {
        Program::Up(args) => up::run(args),
        Program::Down(args) => down::run(&args),
        Program::Controller(args) => controller::run(args, globals),
        Program::Agent(args) => agent::run(*args),
        Program::Lighthouse(args) => lighthouse::run(args),
        Program::Bench(args) => bench::run(args),
    }
}
