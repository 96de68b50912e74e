//! The files of the workspace, read once for all rules.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// Folders that hold nothing of ours; `.git` is a file in a second work tree.
const SKIPPED: &[&str] = &["target", ".git", "node_modules", "corpus", "artifacts"];

/// A workspace with more is not one that we made.
const FILES_MAX: usize = 20_000;

pub(super) struct Tree {
    pub(super) root: PathBuf,
    /// Text files in the order of their paths.
    pub(super) files: Vec<File>,
}

pub(super) struct File {
    /// From the root.
    pub(super) path: PathBuf,
    pub(super) text: String,
}

impl Tree {
    pub(super) fn read(root: &Path) -> Result<Tree> {
        let mut files = Vec::new();
        let mut folders = vec![root.to_owned()];
        while let Some(folder) = folders.pop() {
            let entries =
                folder.read_dir().with_context(|| format!("cannot list {}", folder.display()))?;
            for entry in entries {
                let entry = entry?;
                let skipped = SKIPPED.iter().any(|name| entry.file_name() == *name);
                let kind = entry.file_type()?;
                if kind.is_dir() && !skipped {
                    folders.push(entry.path());
                } else if kind.is_file() && !skipped {
                    files.extend(read_file(root, &entry.path())?);
                }
            }
            if files.len() > FILES_MAX {
                bail!("{} holds more than {FILES_MAX} files", root.display());
            }
        }
        files.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(Tree { root: root.to_owned(), files })
    }

    pub(super) fn with_ending(&self, ending: &str) -> impl Iterator<Item = &File> {
        self.files.iter().filter(move |file| file.path.extension().is_some_and(|it| it == ending))
    }
}

impl File {
    /// Lines with their numbers, from 1.
    pub(super) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(index, line)| (index + 1, line))
    }

    /// The lines before the tests that a file carries at its end.
    pub(super) fn lines_without_tests(&self) -> impl Iterator<Item = (usize, &str)> {
        self.lines().take_while(|(_, line)| *line != "#[cfg(test)]")
    }

    /// Whether the whole file is tests.
    pub(super) fn is_test(&self) -> bool {
        self.path.ends_with("tests.rs")
            || self.path.components().any(|part| part.as_os_str() == "tests")
    }
}

/// `None` for what is not text.
fn read_file(root: &Path, path: &Path) -> Result<Option<File>> {
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let relative = path.strip_prefix(root).expect("found below the root").to_owned();
    Ok(String::from_utf8(bytes).ok().map(|text| File { path: relative, text }))
}
