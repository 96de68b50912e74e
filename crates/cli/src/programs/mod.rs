//! The programs: what runs until it is told to stop, or measures. One file each.
//!
//! Unlike the shell they make their own runtime, with as many threads as there are cores.

mod agent;
mod bench;
mod beside;
mod controller;
mod down;
mod explanations;
mod heap;
mod kept;
mod lighthouse;
mod loops;
mod metrics;
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

    /// Whether it keeps all objects in its memory.
    fn is_server(&self) -> bool {
        match self {
            Program::Up(_) | Program::Controller(_) | Program::Lighthouse(_) => true,
            Program::Down(_) | Program::Agent(_) | Program::Bench(_) => false,
        }
    }
}

pub(crate) fn run(program: Program, globals: &Globals) -> Result<Exit, Failure> {
    if program.is_server() {
        heap::keep_one();
    }
    match program {
        Program::Up(args) => up::run(args),
        Program::Down(args) => down::run(&args),
        Program::Controller(args) => controller::run(args, globals),
        Program::Agent(args) => agent::run(*args),
        Program::Lighthouse(args) => lighthouse::run(args),
        Program::Bench(args) => bench::run(args),
    }
}
