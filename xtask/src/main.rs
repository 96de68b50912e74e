//! `cargo xtask CHORE`: what CI does, on a laptop. Start reading at [`CHORES`].

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program for the terminal")]

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, bail};

use xtask::{ci, tidy};

struct Chore {
    name: &'static str,
    help: &'static str,
    run: fn(&Path) -> Result<()>,
}

const CHORES: &[Chore] = &[
    Chore { name: "ci", help: "everything that CI does, cheapest first", run: ci::everything },
    Chore { name: "lint", help: "formatting, tidy and clippy", run: ci::lint },
    Chore { name: "tidy", help: "what the compiler cannot see", run: tidy_up },
];

fn main() -> ExitCode {
    let wanted = std::env::args().nth(1);
    let Some(chore) = CHORES.iter().find(|chore| Some(chore.name) == wanted.as_deref()) else {
        eprintln!("usage: cargo xtask CHORE\n");
        for chore in CHORES {
            eprintln!("  {:6} {}", chore.name, chore.help);
        }
        return ExitCode::from(2);
    };
    match (chore.run)(&xtask::root()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}: {error:#}", chore.name);
            ExitCode::FAILURE
        }
    }
}

fn tidy_up(root: &Path) -> Result<()> {
    let findings = tidy::check(root)?;
    for finding in &findings {
        println!("{finding}");
    }
    match findings.len() {
        0 => Ok(()),
        count => bail!("{count} findings"),
    }
}
