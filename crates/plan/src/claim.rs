//! Who of a site runs an Assignment that names no node. Exactly one agent writes itself into its
//! status: the write names the version that it read, so that of two only one succeeds. The holder
//! renews; when a claim has not been renewed for its whole length, by the clock of whoever
//! watches it, another takes it over. Called by `tombolo_agent::converge` for an agent of ours, start
//! at [`decide`]; and by the facade for deployment managers of others, start at [`Memory::look`].

use std::collections::BTreeMap;
use std::time::Duration;

use tombolo_model::Assignment;

use crate::Monotonic;

/// How long a claim lasts without a renewal. ICOS waits as long for a job's owner.
pub const HOLD: Duration = Duration::from_secs(300);
/// When the holder says again that it has it: two renewals may be lost.
pub const RENEW_AFTER: Duration = Duration::from_secs(100);

/// What was seen of claims, and since when. Clocks of other machines are not believed: only that
/// what they wrote has changed.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    seen: BTreeMap<String, (Claim, Monotonic)>,
}

/// Who holds it, and until when by the holder's own words.
type Claim = (Option<String>, Option<String>);

/// Who has an Assignment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hold {
    Free,
    /// Since when, by our clock, nobody has renewed it.
    Held {
        by: String,
        since: Monotonic,
    },
    /// It was not renewed for its whole length: whoever comes may have it.
    Lapsed {
        by: String,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Write our name, or the same name again.
    Write,
    /// Nothing to do before this.
    Wait(Monotonic),
    /// It names a node, or belongs to another whose claim holds until then.
    Leave(Option<Monotonic>),
}

pub fn decide(
    assignment: &Assignment,
    node: &str,
    memory: &mut Memory,
    now: Monotonic,
) -> Decision {
    if assignment.spec.node.is_some() {
        let uid = assignment.metadata.uid.as_deref().unwrap_or_default();
        memory.seen.remove(uid);
        return Decision::Leave(None);
    }
    match memory.look(assignment, now) {
        Hold::Free | Hold::Lapsed { .. } => Decision::Write,
        Hold::Held { by, since } if by == node => match now.since(since) >= RENEW_AFTER {
            true => Decision::Write,
            false => Decision::Wait(since + RENEW_AFTER),
        },
        Hold::Held { since, .. } => Decision::Leave(Some(since + HOLD)),
    }
}

impl Memory {
    /// Who has it, by what was seen so far.
    pub fn look(&mut self, assignment: &Assignment, now: Monotonic) -> Hold {
        let uid = assignment.metadata.uid.clone().unwrap_or_default();
        let status = assignment.status.as_ref();
        let holder = status.and_then(|status| status.agent.clone());
        let until = status.and_then(|status| status.held_until.as_ref());
        let claim = (holder.clone(), until.map(|until| until.0.to_string()));
        let known = self.seen.entry(uid).or_insert_with(|| (claim.clone(), now));
        if known.0 != claim {
            *known = (claim, now);
        }
        let since = known.1;
        match holder {
            None => Hold::Free,
            Some(by) if now.since(since) >= HOLD => Hold::Lapsed { by },
            Some(by) => Hold::Held { by, since },
        }
    }

    pub fn retain(&mut self, known: impl Fn(&str) -> bool) {
        self.seen.retain(|uid, _| known(uid));
    }
}

#[cfg(test)]
mod tests;
