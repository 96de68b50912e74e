//! One heap for a server. Called by [`super::run`] before anything else of a server happens.
//!
//! Usually glibc gives each thread a heap of its own, up to eight for each core. What one thread
//! allocates and another frees then leaves holes that nobody fills: of a server with thousands of
//! objects a quarter of the memory was holes. Small pieces come from a store of each thread in any
//! case, so that threads seldom wait for each other.
//!
//! The only way to say so without unsafe code is an environment variable that glibc reads when a
//! process starts, so the process starts itself anew and stays the same process. Workloads do not
//! inherit the variable: they are given an environment of their own.

use std::os::unix::process::CommandExt as _;
use std::process::Command;

const HEAPS_ALLOWED: &str = "MALLOC_ARENA_MAX";
const HEAPS_MAX: &str = "1";

/// Starts this process anew with one heap, unless it was started so or somebody has chosen otherwise.
/// Where that is not possible it goes on as it is: it only takes more memory.
pub(super) fn keep_one() {
    if std::env::var_os(HEAPS_ALLOWED).is_some() {
        return;
    }
    let Ok(program) = std::env::current_exe() else { return };
    let mut words = std::env::args_os();
    let mut again = Command::new(program);
    if let Some(name) = words.next() {
        again.arg0(name);
    }
    // Comes back only with an error.
    let error = again.args(words).env(HEAPS_ALLOWED, HEAPS_MAX).exec();
    tracing::debug!(%error, "cannot start anew with one heap");
}
