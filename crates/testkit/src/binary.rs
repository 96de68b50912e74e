//! Where the binary under test is. Called by [`crate::Tombolo`].

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The `tombolo` binary, of this profile. `cargo xtask ci` has built it and says where it is;
/// otherwise it is built here, once for each test program.
pub fn path() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| given().unwrap_or_else(build))
}

fn given() -> Option<PathBuf> {
    std::env::var("TOMBOLO_BINARY").ok().map(PathBuf::from)
}

fn build() -> PathBuf {
    let test = std::env::current_exe().expect("a test has a path");
    let profile = test.ancestors().nth(2).expect("a test lies in TARGET/PROFILE/deps");
    let target = profile.parent().expect("a profile lies in the target folder");
    let mut command = Command::new(env!("CARGO"));
    command.args(["build", "--quiet", "--package", "tombolo-cli", "--target-dir"]).arg(target);
    if profile.ends_with("release") {
        command.arg("--release");
    }
    let status = command.current_dir(env!("CARGO_MANIFEST_DIR")).status().expect("cargo starts");
    assert!(status.success(), "cannot build the binary under test");
    profile.join("tombolo")
}
