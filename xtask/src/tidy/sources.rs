//! What every source file owes its reader.

use anyhow::Result;

use super::Finding;
use super::dependencies::{folder, pure_packages};
use super::tree::{File, Tree};

/// STYLE: 400 lines fit a sitting, and 800 are the end. Tests at the end of a file do not count.
const LINES_MAX: usize = 800;

/// What a pure crate must not name, and where it is to be had instead.
const WORLDLY: &[&str] = &[
    "std::env",
    "std::fs",
    "std::net",
    "std::process",
    "std::thread",
    "SystemTime",
    "Instant::now",
    "Timestamp::now",
];

/// Names that say nothing of what is inside.
const EMPTY_NAMES: &[&str] =
    &["common", "helper", "helpers", "manager", "misc", "shared", "util", "utils"];

pub(super) fn pure_crates_touch_no_world(tree: &Tree) -> Result<Vec<Finding>> {
    let folders: Vec<_> = pure_packages().map(|package| folder(package).join("src")).collect();
    let pure = tree
        .with_ending("rs")
        .filter(|file| folders.iter().any(|folder| file.path.starts_with(folder)))
        .filter(|file| !file.is_test());
    Ok(pure.flat_map(worldly_lines).collect())
}

fn worldly_lines(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, line) in file.lines_without_tests() {
        let code = line.split("//").next().unwrap_or_default();
        for word in WORLDLY.iter().filter(|word| code.contains(**word)) {
            let problem = format!("{word} in a pure crate: let the caller pass the value in");
            findings.push(Finding::new(&file.path, number, problem));
        }
    }
    findings
}

pub(super) fn open_with_what_they_are(tree: &Tree) -> Result<Vec<Finding>> {
    let silent = tree.with_ending("rs").filter(|file| !file.text.starts_with("//!"));
    Ok(silent
        .map(|file| {
            Finding::new(&file.path, 1, "does not open with `//!`: what is it, who calls it?")
        })
        .collect())
}

pub(super) fn fit_a_sitting(tree: &Tree) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for file in tree.with_ending("rs") {
        let lines = match file.is_test() {
            true => file.lines().count(),
            false => file.lines_without_tests().count(),
        };
        if lines > LINES_MAX {
            let problem = format!("{lines} lines; {LINES_MAX} are the end");
            findings.push(Finding::new(&file.path, lines, problem));
        }
    }
    Ok(findings)
}

pub(super) fn have_telling_names(tree: &Tree) -> Result<Vec<Finding>> {
    let nameless = tree.with_ending("rs").filter(|file| {
        file.path
            .with_extension("")
            .components()
            .any(|part| EMPTY_NAMES.iter().any(|name| part.as_os_str() == *name))
    });
    Ok(nameless
        .map(|file| Finding::new(&file.path, 0, "the name says nothing of what is inside"))
        .collect())
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::super::Rule;
    use super::*;

    fn tree(path: &str, text: &str) -> Tree {
        let file = File { path: PathBuf::from(path), text: text.to_owned() };
        Tree { root: PathBuf::new(), files: vec![file] }
    }

    #[track_caller]
    fn check(rule: Rule, path: &str, text: &str, lines: &[usize]) {
        let findings = rule(&tree(path, text)).unwrap();
        assert_eq!(findings.iter().map(|finding| finding.line).collect::<Vec<_>>(), lines);
    }

    #[test]
    fn a_pure_crate_that_reads_a_clock_is_found() {
        let rule = pure_crates_touch_no_world;
        check(rule, "crates/plan/src/a.rs", "//! a\nlet now = Instant::now();\n", &[2]);
        check(rule, "crates/plan/src/a.rs", "//! no Instant::now here\n", &[]);
        check(rule, "crates/plan/src/a.rs", "#[cfg(test)]\nuse std::fs;\n", &[]);
        check(rule, "crates/store/src/a.rs", "use std::fs;\n", &[]);
    }

    #[test]
    fn a_file_that_does_not_say_what_it_is_is_found() {
        check(open_with_what_they_are, "a.rs", "use std::fs;\n", &[1]);
        check(open_with_what_they_are, "a.rs", "//! A file.\n", &[]);
    }

    #[test]
    fn a_file_too_long_to_read_is_found() {
        check(fit_a_sitting, "a.rs", &"x\n".repeat(801), &[801]);
        check(fit_a_sitting, "a.rs", &"x\n".repeat(800), &[]);
        let with_tests = "x\n".repeat(700) + "#[cfg(test)]\n" + &"x\n".repeat(700);
        check(fit_a_sitting, "a.rs", &with_tests, &[]);
    }

    #[test]
    fn an_empty_name_is_found() {
        check(have_telling_names, "crates/plan/src/utils.rs", "", &[0]);
        check(have_telling_names, "crates/plan/src/utils/a.rs", "", &[0]);
        check(have_telling_names, "crates/plan/src/leases.rs", "", &[]);
    }
}
