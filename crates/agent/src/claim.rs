//! Who of a site runs an Assignment that names no node. Exactly one agent writes itself into its
//! status: the write names the version that it read, so that of two only one succeeds. The holder
//! renews; when a claim has not been renewed for its whole length, by the clock of whoever
//! watches it, another takes it over. Plain; called by [`crate::converge`], start at [`decide`].

use std::collections::BTreeMap;
use std::time::Duration;

use tombolo_model::Assignment;
use tombolo_plan::Monotonic;

/// How long a claim lasts without a renewal. ICOS waits as long for a job's owner.
pub const HOLD: Duration = Duration::from_secs(300);
/// Two renewals may be lost.
const RENEW_AFTER: Duration = Duration::from_secs(100);

/// What was seen of claims, and since when. Clocks of other machines are not believed: only that
/// what they wrote has changed.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    seen: BTreeMap<String, (Claim, Monotonic)>,
}

/// Who holds it, and until when by the holder's own words.
type Claim = (Option<String>, Option<String>);

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
    let uid = assignment.metadata.uid.clone().unwrap_or_default();
    if assignment.spec.node.is_some() {
        memory.seen.remove(&uid);
        return Decision::Leave(None);
    }
    let status = assignment.status.as_ref();
    let holder = status.and_then(|status| status.agent.clone());
    let until = status.and_then(|status| status.held_until.as_ref());
    let claim = (holder.clone(), until.map(|until| until.0.to_string()));
    let known = memory.seen.entry(uid).or_insert_with(|| (claim.clone(), now));
    if known.0 != claim {
        *known = (claim, now);
    }
    let since = known.1;
    match holder.as_deref() {
        None => Decision::Write,
        Some(holder) if holder == node => match now.since(since) >= RENEW_AFTER {
            true => Decision::Write,
            false => Decision::Wait(since + RENEW_AFTER),
        },
        Some(_) if now.since(since) >= HOLD => Decision::Write,
        Some(_) => Decision::Leave(Some(since + HOLD)),
    }
}

impl Memory {
    pub fn retain(&mut self, known: impl Fn(&str) -> bool) {
        self.seen.retain(|uid, _| known(uid));
    }
}

#[cfg(test)]
mod tests;
