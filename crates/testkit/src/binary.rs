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
    // Cargo tells a test about the package of the test. A build script that reads such a variable would
    // run again here, and again at the next build of somebody's shell, with all that depends on it.
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if ["CARGO_MANIFEST_", "CARGO_PKG_", "CARGO_CRATE_"].iter().any(|own| text.starts_with(own))
        {
            command.env_remove(&name);
        }
    }
    let status = command.current_dir(env!("CARGO_MANIFEST_DIR")).status().expect("cargo starts");
    assert!(status.success(), "cannot build the binary under test");
    profile.join("tombolo")
}
