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
pub const LASTS: Duration = Duration::from_secs(300);
/// When the holder says again that it has it: two renewals may be lost.
pub const RENEW_AFTER: Duration = Duration::from_secs(100);

/// What was seen of claims, and since when. Clocks of other machines are not believed: only that
/// what they wrote has changed.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    seen: BTreeMap<String, (Written, Monotonic)>,
}

/// What the holder wrote: its name, and until when it claims to have it.
type Written = (Option<String>, Option<String>);

/// What a claim is worth by our own clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claim {
    Free,
    /// Since when, by our clock, nobody has renewed it.
    Standing {
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
        Claim::Free | Claim::Lapsed { .. } => Decision::Write,
        Claim::Standing { by, since } if by == node => match now.since(since) >= RENEW_AFTER {
            true => Decision::Write,
            false => Decision::Wait(since + RENEW_AFTER),
        },
        Claim::Standing { since, .. } => Decision::Leave(Some(since + LASTS)),
    }
}

impl Memory {
    /// Who has it, by what was seen so far.
    pub fn look(&mut self, assignment: &Assignment, now: Monotonic) -> Claim {
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
            None => Claim::Free,
            Some(by) if now.since(since) >= LASTS => Claim::Lapsed { by },
            Some(by) => Claim::Standing { by, since },
        }
    }

    pub fn retain(&mut self, known: impl Fn(&str) -> bool) {
        self.seen.retain(|uid, _| known(uid));
    }
}

#[cfg(test)]
mod tests;
