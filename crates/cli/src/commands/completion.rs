//! `tombolo completion`: a script for the user's shell.

use clap::CommandFactory as _;

use crate::{
    args::{Arguments, CompletionArgs},
    failure::{Exit, Failure},
    shell::Shell,
};

pub(super) fn run(shell: &mut Shell, args: &CompletionArgs) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Arguments::command(), "tombolo", &mut script);
    shell.out.bytes(&script)?;
    Ok(Exit::Ok)
}
