//! What both comparisons need: where a real Prometheus is, and a word for what was skipped.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Says that a test did not run, and why; the runner of all tests lists it at the end.
pub(crate) fn skip(test: &str, reason: &str) {
    println!("SKIPPED {test}: {reason}");
    let Ok(path) = std::env::var("TOMBOLO_SKIPS") else { return };
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
    writeln!(file, "SKIPPED {test}: {reason}").unwrap();
}

/// What `scripts/prometheus.sh` says to a word.
pub(crate) fn prometheus(word: &str) -> Option<PathBuf> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/prometheus.sh");
    let output = Command::new(script).arg(word).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| PathBuf::from(text.trim()))
}
