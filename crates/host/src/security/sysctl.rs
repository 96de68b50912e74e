//! Settings of the kernel against the values that they should have. Called by the tables of the
//! kernel and the network.

use std::ops::RangeInclusive;

use super::facts::Facts;
use super::{Outcome, listed};
use crate::root::Seen;

/// Passes if every setting that the kernel has lies in its range.
pub(super) fn within(facts: &Facts, wanted: &[(&str, RangeInclusive<i64>)]) -> Outcome {
    let (mut problems, mut hidden, mut fine) = (Vec::new(), Vec::new(), Vec::new());
    for (key, range) in wanted {
        match facts.sysctl(key) {
            Seen::Absent => (),
            Seen::Unreadable => hidden.push((*key).to_owned()),
            Seen::Present(text) => match text.parse::<i64>() {
                Ok(value) if range.contains(&value) => fine.push(format!("{key} = {value}")),
                Ok(value) => problems.push(format!("{key} = {value}")),
                Err(_) => hidden.push((*key).to_owned()),
            },
        }
    }
    if !problems.is_empty() {
        return Outcome::fail(listed(&problems));
    }
    if !hidden.is_empty() {
        return Outcome::unknown(format!("cannot read {}", listed(&hidden)));
    }
    if fine.is_empty() {
        return Outcome::not_applicable("this kernel has no such setting");
    }
    Outcome::pass(listed(&fine))
}
