//! Tests that cannot run everywhere: they say why, and pass.

use std::fs;
use std::io::Write as _;

/// Whether files written here belong to root, as the checks want theirs to. Without that, `test` is
/// noted as skipped.
pub(crate) fn unless_root(test: &str) -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        skip(test, "only root can write files that belong to root");
    }
    !root
}

fn skip(test: &str, reason: &str) {
    println!("SKIPPED {test}: {reason}");
    let Ok(path) = std::env::var("TOMBOLO_SKIPS") else { return };
    let file = fs::OpenOptions::new().create(true).append(true).open(&path);
    file.and_then(|mut file| writeln!(file, "SKIPPED {test}: {reason}"))
        .unwrap_or_else(|error| panic!("cannot note a skip in {path}: {error}"));
}
