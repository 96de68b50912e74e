//! Programs that a test needs and a machine may not have. A test that cannot run says so: on its
//! output, and in the list at the end of `make test`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// kubectl, if there is one; otherwise `test` is noted as skipped.
pub fn kubectl(test: &str) -> Option<PathBuf> {
    find(test, "kubectl", PathBuf::from("kubectl"), &["version", "--client"])
}

/// A Python with the official client of Kubernetes, if there is one; otherwise `test` is noted as
/// skipped. `scripts/install-test-tools.sh` makes one.
pub fn python(test: &str) -> Option<PathBuf> {
    let python = variable("TOMBOLO_TEST_PYTHON").map(PathBuf::from).or_else(python_in_cache)?;
    find(test, "a Python with the kubernetes client", python, &["-c", "import kubernetes"])
}

/// A program of the path, or one that `scripts/install-test-tools.sh` has fetched; otherwise `test`
/// is noted as skipped.
pub fn program(test: &str, name: &str) -> Option<PathBuf> {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let fetched = cache().map(|cache| cache.join("bin"));
    let found = std::env::split_paths(&paths).chain(fetched).map(|path| path.join(name));
    let found = found.into_iter().find(|path| path.is_file());
    if found.is_none() {
        skip(test, &format!("this machine has no {name}"));
    }
    found
}

/// A file of the projects whose formats are read, which are not part of this repository; without
/// it, `test` is noted as skipped.
pub fn shared(test: &str, path: &str) -> Option<PathBuf> {
    let above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let mut above = above.map(|folder| folder.join("shared"));
    let folder = variable("TOMBOLO_SHARED")
        .map(PathBuf::from)
        .or_else(|| above.find(|folder| folder.join("FORMATS.md").is_file()));
    let found = folder.map(|folder| folder.join(path)).filter(|file| file.is_file());
    if found.is_none() {
        skip(test, &format!("{path} is not there (set TOMBOLO_SHARED to the folder that has it)"));
    }
    found
}

/// Notes that `test` did not run, and why.
#[expect(clippy::print_stdout, reason = "whoever runs the test shall see it")]
pub fn skip(test: &str, reason: &str) {
    println!("SKIPPED {test}: {reason}");
    let Some(path) = variable("TOMBOLO_SKIPS") else { return };
    let file = std::fs::OpenOptions::new().create(true).append(true).open(&path);
    let line = format!("SKIPPED {test}: {reason}\n");
    file.and_then(|mut file| file.write_all(line.as_bytes()))
        .unwrap_or_else(|error| panic!("cannot note a skip in {path}: {error}"));
}

fn find(test: &str, what: &str, program: PathBuf, probe: &[&str]) -> Option<PathBuf> {
    let mut command = Command::new(&program);
    command.args(probe).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if command.status().is_ok_and(|status| status.success()) {
        return Some(program);
    }
    skip(test, &format!("this machine has no {what}"));
    None
}

fn python_in_cache() -> Option<PathBuf> {
    Some(cache()?.join("venv/bin/python"))
}

/// What the tests have fetched.
fn cache() -> Option<PathBuf> {
    let cache = variable("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(variable("HOME")?).join(".cache")))?;
    Some(cache.join("tombolo"))
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
