//! Files of the projects whose APIs are spoken here, for tests. They are not part of this repository.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// The text of such a file. Where it is not at hand, `test` is noted as skipped.
pub(crate) fn sample(test: &str, path: &str) -> Option<String> {
    let found = folder().and_then(|folder| fs::read_to_string(folder.join(path)).ok());
    if found.is_none() {
        skip(test, &format!("{path} is not there (set TOMBOLO_SHARED to the folder that has it)"));
    }
    found
}

/// `TOMBOLO_SHARED`, or a folder `shared` beside the workspace or above it.
fn folder() -> Option<PathBuf> {
    if let Ok(folder) = std::env::var("TOMBOLO_SHARED") {
        return Some(PathBuf::from(folder));
    }
    let above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    above.map(|folder| folder.join("shared")).find(|folder| folder.join("FORMATS.md").is_file())
}

fn skip(test: &str, reason: &str) {
    println!("SKIPPED {test}: {reason}");
    let Ok(path) = std::env::var("TOMBOLO_SKIPS") else { return };
    let file = OpenOptions::new().create(true).append(true).open(&path);
    file.and_then(|mut file| writeln!(file, "SKIPPED {test}: {reason}"))
        .unwrap_or_else(|error| panic!("cannot note a skip in {path}: {error}"));
}
