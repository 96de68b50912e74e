//! The chores of the workspace: [`ci`] runs the checks, [`tidy`] is one of them. Called by
//! `cargo xtask` and by the test of this crate, so that `cargo test` alone tidies too.

pub mod ci;
pub mod tidy;

use std::path::{Path, PathBuf};

/// The folder of the workspace. Asked when it runs: a target folder that several checkouts share
/// may hold a binary that was built in another one.
pub fn root() -> PathBuf {
    let folder = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo runs this");
    Path::new(&folder).join("..").canonicalize().expect("xtask lies in the root")
}
