//! What is written must hold on the reader's machine: links lead somewhere, and nothing speaks of
//! the machine on which it was written.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use anyhow::Result;

use super::Finding;
use super::tree::{File, Tree};

/// In two halves, so that this file does not find itself.
const MACHINE_PATHS: &[(&str, &str)] = &[("/wo", "rk/"), ("/ro", "ot/")];

/// Settings that lead a package tool to a mirror.
const MIRROR_SETTINGS: &[(&str, &str)] = &[
    ("index", "-url"),
    ("PIP_INDEX", "_URL"),
    ("GOPROXY", "="),
    ("replace", "-with"),
    ("[source", "."),
    ("[regis", "tries"),
    ("find", "-links"),
];

/// Where every locked crate comes from.
const REGISTRY: &str = "source = \"registry+https://github.com/rust-lang/crates.io-index\"";

pub(super) fn name_no_machine(tree: &Tree) -> Result<Vec<Finding>> {
    Ok(find_all(tree, MACHINE_PATHS, "a path of the machine on which it was written"))
}

pub(super) fn name_no_registry(tree: &Tree) -> Result<Vec<Finding>> {
    let mut findings = find_all(tree, MIRROR_SETTINGS, "leads a package tool to a mirror");
    for file in tree.files.iter().filter(|file| file.path.ends_with("Cargo.lock")) {
        let strange = file
            .lines()
            .filter(|(_, line)| line.starts_with("source = ") && *line != REGISTRY)
            .map(|(number, line)| Finding::new(&file.path, number, format!("unexpected {line}")));
        findings.extend(strange);
    }
    Ok(findings)
}

fn find_all(tree: &Tree, words: &[(&str, &str)], problem: &str) -> Vec<Finding> {
    let words: Vec<String> = words.iter().map(|(left, right)| format!("{left}{right}")).collect();
    let mut findings = Vec::new();
    for file in &tree.files {
        for (number, line) in file.lines() {
            for word in words.iter().filter(|word| stands_alone(line, word)) {
                findings.push(Finding::new(&file.path, number, format!("`{word}`: {problem}")));
            }
        }
    }
    findings
}

/// Whether `word` begins in `line` where a path or a setting would, and not inside a longer one.
fn stands_alone(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(start, _)| {
        let before = line[..start].chars().next_back();
        !before.is_some_and(|letter| letter.is_alphanumeric() || "._-}".contains(letter))
    })
}

pub(super) fn link_to_what_exists(tree: &Tree) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for file in tree.with_ending("md") {
        for (number, line) in file.lines() {
            for target in links(line) {
                if !leads_somewhere(tree, file, target) {
                    let problem = format!("the link to `{target}` leads nowhere");
                    findings.push(Finding::new(&file.path, number, problem));
                }
            }
        }
    }
    Ok(findings)
}

fn links(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| rest.split(')').next())
}

fn leads_somewhere(tree: &Tree, file: &File, target: &str) -> bool {
    let path = target.split('#').next().unwrap_or_default();
    let outside = target.contains("://") || target.starts_with("mailto:");
    if outside || path.is_empty() {
        return true;
    }
    let folder = file.path.parent().unwrap_or(Path::new(""));
    let wanted = normal(&folder.join(path));
    tree.files.iter().any(|other| other.path.starts_with(&wanted))
}

/// Without `.` and `..`.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => (),
            Component::ParentDir => drop(normal.pop()),
            Component::Normal(_) | Component::RootDir | Component::Prefix(_) => normal.push(part),
        }
    }
    normal
}

/// ARCHITECTURE.md has a line for each crate, and the glossary and the way in exist.
pub(super) fn list_every_crate(tree: &Tree) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for path in ["README.md", "ARCHITECTURE.md", "STYLE.md", "CONTRIBUTING.md", "docs/glossary.md"]
    {
        if !tree.files.iter().any(|file| file.path == Path::new(path)) {
            findings.push(Finding::new(path, 0, "is missing"));
        }
    }
    let map = tree.files.iter().find(|file| file.path == Path::new("ARCHITECTURE.md"));
    let map = map.map(|file| file.text.as_str()).unwrap_or_default();
    for manifest in tree.files.iter().filter(|file| file.path.ends_with("Cargo.toml")) {
        let folder = manifest.path.parent().unwrap_or(Path::new("")).display().to_string();
        if folder.starts_with("crates/") && !map.contains(&format!("`{folder}`")) {
            let problem = format!("does not list `{folder}`");
            findings.push(Finding::new("ARCHITECTURE.md", 0, problem));
        }
    }
    Ok(findings)
}

/// Pages whose claims stand on the tests that they name.
const PROVEN_PAGES: &[&str] = &["docs/security.md"];
/// Names of tests are sentences; names of settings and fields have fewer parts.
const TEST_NAME_PARTS_MIN: usize = 4;

/// A test that is renamed or removed takes its claim along, or is named anew: a page that promises must not
/// point to a proof that is gone.
pub(super) fn name_tests_that_exist(tree: &Tree) -> Result<Vec<Finding>> {
    let tests: BTreeSet<&str> =
        tree.with_ending("rs").flat_map(|file| tests_of(&file.text)).collect();
    let mut findings = Vec::new();
    for file in tree
        .files
        .iter()
        .filter(|file| PROVEN_PAGES.iter().any(|page| file.path == Path::new(page)))
    {
        for (number, line) in file.lines() {
            let named = line.split('`').skip(1).step_by(2);
            for name in named.filter(|name| is_test_name(name) && !tests.contains(name)) {
                let problem = format!("there is no test `{name}`");
                findings.push(Finding::new(&file.path, number, problem));
            }
        }
    }
    Ok(findings)
}

fn is_test_name(word: &str) -> bool {
    let is_plain = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit();
    let mut parts = word.split('_');
    parts.clone().count() >= TEST_NAME_PARTS_MIN
        && parts.all(|part| !part.is_empty() && part.chars().all(is_plain))
}

/// The names of functions right below an attribute that makes them tests.
fn tests_of(source: &str) -> impl Iterator<Item = &str> {
    let is_attribute = |line: &str| line.starts_with("#[") || line.starts_with("//");
    let mut is_test = false;
    source.lines().map(str::trim).filter_map(move |line| {
        if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
            is_test = true;
            return None;
        }
        if is_attribute(line) || !is_test {
            return None;
        }
        is_test = line.is_empty();
        let name = line.trim_start_matches("async ").strip_prefix("fn ")?;
        name.split('(').next()
    })
}

#[cfg(test)]
mod tests {
    use super::super::Rule;
    use super::*;

    fn tree(files: &[(&str, &str)]) -> Tree {
        let files = files
            .iter()
            .map(|(path, text)| File { path: PathBuf::from(path), text: (*text).to_owned() })
            .collect();
        Tree { root: PathBuf::new(), files }
    }

    #[track_caller]
    fn check(rule: Rule, files: &[(&str, &str)], expected: &[&str]) {
        let findings = rule(&tree(files)).unwrap();
        let lines: Vec<String> = findings.iter().map(Finding::to_string).collect();
        assert_eq!(lines, expected);
    }

    #[test]
    fn a_link_that_leads_nowhere_is_found() {
        let page =
            "[a](glossary.md#site) [b](../README.md) [c](gone.md) [d](https://a.b/c) [e](adr)";
        check(
            link_to_what_exists,
            &[
                ("README.md", ""),
                ("docs/a.md", page),
                ("docs/adr/1.md", ""),
                ("docs/glossary.md", ""),
            ],
            &["docs/a.md:1: the link to `gone.md` leads nowhere"],
        );
    }

    #[test]
    fn a_path_of_the_writers_machine_is_found() {
        let text = format!("cd /ro{0}/some\ncd $DIR/ro{0}/some\n", "ot");
        let expected =
            format!("a.md:1: `/ro{}/`: a path of the machine on which it was written", "ot");
        check(name_no_machine, &[("a.md", &text)], &[&expected]);
    }

    #[test]
    fn a_crate_from_elsewhere_is_found() {
        let lock = "source = \"registry+https://mirror.example/index\"\n";
        let expected = format!("Cargo.lock:1: unexpected {}", lock.trim_end());
        check(name_no_registry, &[("Cargo.lock", lock)], &[&expected]);
        check(name_no_registry, &[("Cargo.lock", REGISTRY)], &[]);
    }

    #[test]
    fn a_test_that_is_named_and_gone_is_found() {
        let source = "fn not_a_test_at_all() {}\n#[tokio::test(flavor = \"multi_thread\")]\n\
                      #[ignore]\nasync fn this_one_is_there() {}\n    #[test]\n    \
                      fn so_is_this_one() {}\n";
        let page = "| `this_one_is_there`, `so_is_this_one` |\n| `oom_score_adj` | \
                    `not_a_test_at_all`, `one_that_was_renamed` |\n";
        let files = [("crates/a/src/lib.rs", source), ("docs/security.md", page)];
        check(
            name_tests_that_exist,
            &files,
            &[
                "docs/security.md:2: there is no test `not_a_test_at_all`",
                "docs/security.md:2: there is no test `one_that_was_renamed`",
            ],
        );
        let elsewhere = [("crates/a/src/lib.rs", source), ("docs/other.md", page)];
        check(name_tests_that_exist, &elsewhere, &[]);
    }

    #[test]
    fn a_crate_that_is_not_on_the_map_is_found() {
        let written = ["README.md", "STYLE.md", "CONTRIBUTING.md", "docs/glossary.md"];
        let mut files: Vec<(&str, &str)> = written.iter().map(|path| (*path, "")).collect();
        files.push(("ARCHITECTURE.md", "`crates/plan`"));
        files.push(("crates/plan/Cargo.toml", ""));
        files.push(("crates/new/Cargo.toml", ""));
        check(list_every_crate, &files, &["ARCHITECTURE.md:0: does not list `crates/new`"]);
    }
}
