//! Finds what the projects have published. The folder is no part of this repository, so whoever has
//! it not skips, and says so.

use std::fs;
use std::path::{Path, PathBuf};

/// The text of a file of the folder; nothing, and a word about it, if it is not there.
pub(crate) fn file(path: &str) -> Option<String> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let found: Option<PathBuf> =
        here.ancestors().map(|folder| folder.join("shared").join(path)).find(|path| path.exists());
    if found.is_none() {
        println!("skipped: there is no folder with {path}");
    }
    found.map(|path| fs::read_to_string(path).unwrap())
}

/// The part of a document from the line that begins with `from` up to the line that begins with
/// `to`, without either the fences or the first blank lines.
pub(crate) fn cut(text: &str, from: &str, to: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let start = lines.iter().position(|line| line.starts_with(from)).unwrap();
    let length = lines[start..].iter().position(|line| line.starts_with(to)).unwrap();
    let part = &lines[start..start + length];
    part.iter().filter(|line| !line.starts_with("```")).map(|line| format!("{line}\n")).collect()
}
