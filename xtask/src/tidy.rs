//! What the compiler cannot see: which crate may know which, what the pure ones must not touch,
//! and what every file owes its reader. Start reading at [`RULES`].

mod dependencies;
mod documents;
mod sources;
mod tree;

use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::Result;

use tree::Tree;

/// Something to mend, with the place to go to.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    pub path: PathBuf,
    /// Counted from 1; 0 if it is about the whole file.
    pub line: usize,
    pub problem: String,
}

type Rule = fn(&Tree) -> Result<Vec<Finding>>;

const RULES: &[Rule] = &[
    dependencies::point_down,
    dependencies::pure_crates_reach_no_world,
    dependencies::strangers_stay_strangers,
    sources::pure_crates_touch_no_world,
    sources::open_with_what_they_are,
    sources::fit_a_sitting,
    sources::have_telling_names,
    sources::tell_every_reason,
    documents::name_no_machine,
    documents::name_no_registry,
    documents::link_to_what_exists,
    documents::list_every_crate,
    documents::name_tests_that_exist,
];

/// Applies every rule to the workspace at `root`.
pub fn check(root: &Path) -> Result<Vec<Finding>> {
    let tree = Tree::read(root)?;
    let mut findings = Vec::new();
    for rule in RULES {
        findings.extend(rule(&tree)?);
    }
    findings.sort();
    Ok(findings)
}

impl Finding {
    fn new(path: impl Into<PathBuf>, line: usize, problem: impl Into<String>) -> Finding {
        Finding { path: path.into(), line, problem: problem.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}: {}", self.path.display(), self.line, self.problem)
    }
}
