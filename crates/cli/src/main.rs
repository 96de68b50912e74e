//! The `tombolo` binary: parse, run, and end with a documented exit code.
//!
//! Start reading at [`args`] for what can be typed, then at the file of the command in
//! [`commands`] (the shell, which talks to a server) or [`programs`] (the servers themselves).

mod args;
mod catalogue;
mod commands;
mod connection;
mod failure;
mod files;
mod follow;
mod kubeconfig;
mod moment;
mod output;
mod places;
mod programs;
mod schemas;
mod shell;
mod target;
mod terminal;
mod vault;
mod websocket;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser as _};
use clap_complete::CompleteEnv;
use tracing::level_filters::LevelFilter;

use crate::{
    args::{Arguments, Command},
    failure::{Exit, Failure},
    shell::Shell,
};

fn main() -> ExitCode {
    // Beside each process that an agent runs there is one of these; it must stay small, so it gets
    // neither a runtime nor a log. No one types it.
    let mut words = std::env::args_os().skip(1);
    match words.next() {
        Some(word) if word == "supervise" => {
            let mut words = words.peekable();
            // One for all containers of an agent, which have no supervisors.
            return match words.next_if(|word| word == "guard") {
                Some(_) => tombolo_driver_docker::guard::main(words),
                None => tombolo_driver_process::supervise::main(words),
            };
        }
        // The parts of the sample application, which an agent starts as it would any program.
        Some(word) if word == tombolo_demo::parts::WORD => {
            return tombolo_demo::parts::main(words);
        }
        Some(_) | None => (),
    }
    // A script of `tombolo completion` asks what could be typed next; nothing else happens then.
    CompleteEnv::with_factory(Arguments::command).var(commands::COMPLETION_VARIABLE).complete();
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return told_by_clap(&error),
    };
    // The shell says by itself what goes wrong; a program that runs for days must log it.
    let usual = match &arguments.command {
        Command::Program(program) => program.usual_log(),
        Command::Shell(_) => LevelFilter::OFF,
    };
    output::log_to_stderr(arguments.globals.verbose, usual);
    // Fails only if a provider is there already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();

    match run(arguments) {
        Ok(exit) => exit.into(),
        Err(failure) => {
            output::tell(&failure);
            failure.exit.into()
        }
    }
}

fn run(arguments: Arguments) -> Result<Exit, Failure> {
    match arguments.command {
        Command::Program(program) => programs::run(program, &arguments.globals),
        Command::Shell(command) => {
            let mut shell = Shell::new(arguments.globals);
            let exit = shell::runtime()?.block_on(commands::run(&mut shell, command))?;
            shell.out.flush()?;
            Ok(exit)
        }
    }
}

/// Help and version go to stdout and are a success; everything else is a usage error.
fn told_by_clap(error: &clap::Error) -> ExitCode {
    // A closed pipe behind `tombolo --help | head` is nobody's failure.
    let _ = error.print();
    match error.use_stderr() {
        true => Exit::Usage.into(),
        false => Exit::Ok.into(),
    }
}
