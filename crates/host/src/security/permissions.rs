//! Whether permissions are as tight as they should be. Called by the tables that look at files.

use super::facts::Facts;
use super::{Outcome, listed};
use crate::root::{Entry, Seen};

/// Bits with which others could change something.
pub(super) const OTHERS_WRITE: u32 = 0o022;
/// Bits of a folder with which others could list it or change what is in it. Passing through is no more
/// than knowing a name.
pub(super) const OTHERS_LIST: u32 = 0o066;
/// Bits with which anyone but the owner could do anything.
pub(super) const OTHERS_ANY: u32 = 0o077;

/// Passes if none of the paths has a forbidden bit and all belong to root. Paths that are not
/// there are left out.
pub(super) fn of_root(facts: &Facts, paths: &[&str], forbidden: u32) -> Outcome {
    tight(paths.iter().map(|path| (*path, facts.entry(path))), forbidden, Owner::Root)
}

/// Whose things should be.
#[derive(Clone, Copy, Debug)]
pub(super) enum Owner {
    Root,
    Anyone,
}

pub(super) fn tight<'a>(
    entries: impl Iterator<Item = (&'a str, Seen<Entry>)>,
    forbidden: u32,
    owner: Owner,
) -> Outcome {
    let (mut problems, mut hidden, mut fine) = (Vec::new(), Vec::new(), 0);
    for (path, entry) in entries {
        match entry {
            Seen::Absent => (),
            Seen::Unreadable => hidden.push(path.to_owned()),
            Seen::Present(entry) => match problem(path, entry, forbidden, owner) {
                Some(problem) => problems.push(problem),
                None => fine += 1,
            },
        }
    }
    if problems.is_empty() && !hidden.is_empty() {
        return Outcome::unknown(format!("cannot look at {}", listed(&hidden)));
    }
    if problems.is_empty() && fine == 0 {
        return Outcome::not_applicable("there is no such file");
    }
    Outcome::of_problems(&problems, format!("{fine} looked at"))
}

fn problem(path: &str, entry: Entry, forbidden: u32, owner: Owner) -> Option<String> {
    let loose = entry.mode & forbidden;
    if loose != 0 {
        return Some(format!("{path} has mode {:04o}", entry.mode));
    }
    match owner {
        Owner::Root if entry.user != 0 => Some(format!("{path} belongs to user {}", entry.user)),
        Owner::Root | Owner::Anyone => None,
    }
}
