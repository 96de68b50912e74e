//! What every source file owes its reader.

use std::collections::BTreeSet;
use std::path::Path;

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

/// One row a reason.
const REASONS: &str = "crates/model/src/reason/table.rs";

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

/// A row of the table of reasons that nobody tells is a promise that nobody keeps.
pub(super) fn tell_every_reason(tree: &Tree) -> Result<Vec<Finding>> {
    let is_table = |file: &&File| file.path.ends_with(REASONS);
    let Some(table) = tree.with_ending("rs").find(is_table) else { return Ok(Vec::new()) };
    let about = table.path.parent().unwrap_or(Path::new("")).to_owned();
    let telling = tree.with_ending("rs").filter(|file| {
        !file.is_test() && !file.path.starts_with(&about) && !file.path.ends_with("reason.rs")
    });
    let told: BTreeSet<&str> = telling.flat_map(reasons_in).collect();
    let rows = table.lines().filter_map(|(number, line)| {
        let word = line.strip_prefix("    ")?.strip_suffix(" {")?;
        let begins_large = word.starts_with(|letter: char| letter.is_ascii_uppercase());
        (begins_large && word.chars().all(char::is_alphanumeric)).then_some((number, word))
    });
    Ok(rows
        .filter(|(_, word)| !told.contains(word))
        .map(|(number, word)| Finding::new(&table.path, number, format!("nobody tells {word}")))
        .collect())
}

/// The words after `Reason::` in the code of a file.
fn reasons_in(file: &File) -> impl Iterator<Item = &str> {
    file.lines_without_tests().flat_map(|(_, line)| {
        let code = line.split("//").next().unwrap_or_default();
        code.split("Reason::").skip(1).map(|rest| {
            let end = rest.find(|letter: char| !letter.is_alphanumeric()).unwrap_or(rest.len());
            &rest[..end]
        })
    })
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
    fn a_reason_that_nobody_tells_is_found() {
        let file = |path: &str, text: &str| File { path: path.into(), text: text.to_owned() };
        let table = "reasons! {\n    Moved {\n        on: \"App\",\n    }\n    Lost {\n    }\n}\n";
        let told = "//! a\nlet why = Reason::Moved;\n// Reason::Lost\n";
        let tested = "#[cfg(test)]\nlet why = Reason::Lost;\n";
        let files = vec![
            file("crates/model/src/reason/table.rs", table),
            file("crates/model/src/reason.rs", "Reason::Lost\n"),
            file("crates/plan/src/a.rs", told),
            file("crates/plan/src/b.rs", tested),
        ];
        let findings = tell_every_reason(&Tree { root: PathBuf::new(), files }).unwrap();
        let lines: Vec<usize> = findings.iter().map(|finding| finding.line).collect();
        assert_eq!(lines, [5]);
    }

    #[test]
    fn an_empty_name_is_found() {
        check(have_telling_names, "crates/plan/src/utils.rs", "", &[0]);
        check(have_telling_names, "crates/plan/src/utils/a.rs", "", &[0]);
        check(have_telling_names, "crates/plan/src/leases.rs", "", &[]);
    }
}
