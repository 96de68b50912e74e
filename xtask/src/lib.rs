//! The chores of the workspace: [`ci`] runs the checks, [`tidy`] is one of them. Called by
//! `cargo xtask` and by the test of this crate, so that `cargo test` alone tidies too.

pub mod ci;
pub mod tidy;

use std::path::{Path, PathBuf};

/// The folder of the workspace.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().expect("xtask lies in the root")
}
