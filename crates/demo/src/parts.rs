//! The parts of the sample application `factory-vision`: camera → detector → store ← dashboard. They
//! are ordinary programs that happen to be in this binary, so that `tombolo up --demo` needs no other;
//! the `cli` calls [`main`] for the word that nobody types, and `examples/factory-vision.yaml` has them.
//!
//! Each is told by its environment where the one that it calls is, as any program under an agent is.
//! One that cannot reach it for a while ends, to be started again with the new address. Start reading
//! at [`camera`], and follow the picture.

mod belt;
mod camera;
mod dashboard;
mod detector;
mod peer;
mod store;
mod web;

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::process::ExitCode;

use serde::{Deserialize, Serialize};

/// `tombolo demo-part camera`.
pub const WORD: &str = "demo-part";

/// Where a part runs, as its agent told it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Place {
    site: String,
    node: String,
}

impl Place {
    fn own() -> Place {
        let told = |name| std::env::var(name).unwrap_or_default();
        Place { site: told("TOMBOLO_SITE"), node: told("TOMBOLO_NODE") }
    }
}

/// Runs a part until it is ended, or cannot go on. The words are those after [`WORD`]: which part, and
/// where it listens.
pub fn main(words: impl Iterator<Item = OsString>) -> ExitCode {
    let words: Vec<String> = words.map(|word| word.to_string_lossy().into_owned()).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let ended = match words.as_slice() {
        ["camera"] => camera::run(),
        ["detector", listen] => detector::run(listen),
        ["store", listen] => store::run(listen),
        ["dashboard", listen] => dashboard::run(listen),
        _ => Err("expected camera, or detector, store or dashboard with ADDRESS:PORT".to_owned()),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            say(&problem);
            ExitCode::FAILURE
        }
    }
}

/// A line for the log.
fn say(line: &str) {
    // If nobody reads it any more there is nobody to tell.
    let _ = writeln!(io::stdout(), "{line}");
}
