//! Runs the checks, one after the other, and says what was left out. Called by `cargo xtask ci`.

#![expect(clippy::print_stdout, reason = "tells the terminal which step runs")]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

/// One command. The cheapest come first, so that a slip is known within seconds.
struct Step {
    name: &'static str,
    command: &'static [&'static str],
    /// A command that must work for the step to be possible, and what is lost without.
    needs: Option<(&'static [&'static str], &'static str)>,
}

const LINT: &[Step] = &[
    Step {
        name: "format",
        command: &["cargo", "fmt", "--all", "--check"],
        needs: Some((
            &["cargo", "fmt", "--version"],
            "rustfmt is not installed: formatting is not checked",
        )),
    },
    Step {
        name: "tidy",
        command: &["cargo", "run", "--quiet", "--package", "xtask", "--", "tidy"],
        needs: None,
    },
    Step {
        name: "clippy",
        command: &[
            "cargo",
            "clippy",
            "--workspace",
            "--all-targets",
            "--locked",
            "--",
            "-D",
            "warnings",
        ],
        needs: Some((
            &["cargo", "clippy", "--version"],
            "clippy is not installed: lints are not checked",
        )),
    },
];

const PROOF: &[Step] = &[
    // The tests with real clients start the real binary; `run` tells them where it is. Built with the
    // tests, because `cargo build` would build it, and much of what it stands on, with other features.
    Step {
        name: "build",
        command: &["cargo", "test", "--workspace", "--locked", "--no-run"],
        needs: None,
    },
    Step {
        name: "tests",
        command: &["cargo", "test", "--workspace", "--locked", "--no-fail-fast"],
        needs: None,
    },
    // A store that answers too early is built on purpose; its crash test must find that out.
    Step {
        name: "planted bug",
        command: &[
            "cargo",
            "test",
            "--package",
            "tombolo-store",
            "--features",
            "planted-bugs",
            "--test",
            "torture",
            "--locked",
        ],
        needs: Some((
            &["strace", "-V"],
            "strace is not installed: whether the crash test finds a planted bug is not checked",
        )),
    },
    Step {
        name: "deny",
        command: &["cargo", "deny", "--workspace", "check", "bans", "licenses", "sources"],
        needs: Some((
            &["cargo", "deny", "--version"],
            "cargo-deny is not installed: licences and duplicates are not checked",
        )),
    },
    Step {
        name: "advisories",
        command: &["cargo", "deny", "--workspace", "check", "advisories"],
        needs: Some((
            &["cargo", "deny", "fetch", "db"],
            "the advisory database cannot be fetched: known vulnerabilities are not checked",
        )),
    },
];

pub fn lint(root: &Path) -> Result<()> {
    run_all(root, LINT)
}

pub fn everything(root: &Path) -> Result<()> {
    run_all(root, LINT)?;
    run_all(root, PROOF)
}

fn run_all(root: &Path, steps: &[Step]) -> Result<()> {
    for step in steps {
        match step.needs {
            Some((probe, loss)) if !works(root, probe) => {
                println!("SKIPPED {}: {loss}", step.name);
                note_skip(step.name, loss)?;
            }
            Some(_) | None => run(root, step)?,
        }
    }
    Ok(())
}

fn run(root: &Path, step: &Step) -> Result<()> {
    println!("==> {}: {}", step.name, step.command.join(" "));
    let started = std::time::Instant::now();
    let status = Command::new(step.command[0])
        .args(&step.command[1..])
        .current_dir(root)
        .env("TOMBOLO_BINARY", binary(root))
        .status()
        .with_context(|| format!("cannot start {}", step.command[0]))?;
    let took = Duration::from_secs(started.elapsed().as_secs());
    if !status.success() {
        bail!("{} failed after {took:?}", step.name);
    }
    println!("==> {}: passed in {took:?}", step.name);
    Ok(())
}

fn binary(root: &Path) -> PathBuf {
    let target = std::env::var("CARGO_TARGET_DIR").unwrap_or_else(|_| "target".to_owned());
    root.join(target).join("debug/tombolo")
}

fn works(root: &Path, probe: &[&str]) -> bool {
    Command::new(probe[0])
        .args(&probe[1..])
        .current_dir(root)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// `scripts/test.sh` names a file in which everything that was skipped is collected.
fn note_skip(name: &str, reason: &str) -> Result<()> {
    use std::io::Write;
    let Ok(path) = std::env::var("TOMBOLO_SKIPS") else { return Ok(()) };
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(&path)?;
    writeln!(file, "SKIPPED {name}: {reason}").with_context(|| format!("cannot write {path}"))
}
