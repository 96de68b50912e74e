//! Conditions: single facts about an object, each true, false or unknown, and since when. Written
//! by loops and agents; `wait --for=condition=Ready` reads them.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::named::named;
use crate::reason::Reason;

/// Of Sites, Nodes and Apps: it can do its job.
pub const READY: &str = "Ready";
/// Of an App: every instance has a place.
pub const PLACED: &str = "Placed";
/// Of an Assignment: the engine has taken over what was assigned.
pub const APPLIED: &str = "Applied";
/// Of an Assignment: it is on its way from one state to another.
pub const PROGRESSING: &str = "Progressing";
/// Of an Assignment or App: it is up and serves.
pub const AVAILABLE: &str = "Available";
/// Of an Assignment or App: it is not what it should be.
pub const DEGRADED: &str = "Degraded";

/// Of a Node: two machines use its identity, so that one has copied the other's data folder.
pub const CLONED: &str = "Cloned";

/// Of a Node whose site has one agent for all: what that agent says of this machine. False makes the
/// Node not Ready.
pub const UP: &str = "Up";

/// Of a Node: its agent cannot write to its disk.
pub const DISK_PRESSURE: &str = "DiskPressure";
/// Of a Node: its agent can keep the programs of workloads apart from itself and from each other.
pub const CONFINING: &str = "Confining";

/// Of a Policy: what it asks for is so.
pub const HOLDS: &str = "Holds";
/// Of a Policy: it can be watched.
pub const VALID: &str = "Valid";
/// Of a Policy: what it does about violations helps.
pub const ACHIEVABLE: &str = "Achievable";
/// Of a Link: nothing that was measured contradicts what its spec says.
pub const AS_DECLARED: &str = "AsDeclared";
/// Of a Node: what it says of the delays to its peers agrees with what they say.
pub const TRUTHFUL: &str = "Truthful";

/// Of the namespace tombolo-system: no loop of the controller is dead or late.
pub const LOOPS_WELL: &str = "LoopsWell";

/// One fact about an object: true, false or unknown, since when and why.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// What the fact is about, such as `Ready`.
    #[serde(rename = "type")]
    #[schemars(length(min = 1, max = 316))]
    pub kind: String,
    /// Whether it is so.
    pub status: ConditionStatus,
    /// Why, in one word for programs.
    #[schemars(length(max = 1024))]
    pub reason: String,
    /// Why, in a sentence for people.
    #[schemars(length(max = 32768))]
    pub message: String,
    /// Since when it has been so.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub last_transition_time: Time,
    /// The generation of the spec that was looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

named! {
    /// True, false, or not known.
    pub enum ConditionStatus {
        True = "True",
        False = "False",
        Unknown = "Unknown",
    }
}

/// What a loop has found out; it becomes a [`Condition`] when it is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finding<'a> {
    pub kind: &'a str,
    pub status: ConditionStatus,
    pub reason: Reason,
    pub message: &'a str,
    pub observed_generation: Option<i64>,
}

/// Whether a set changed anything that is worth a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Changed {
    No,
    Yes,
}

/// Puts a finding among the conditions. The time of transition moves only when the status flips,
/// so that looking again at a settled object changes nothing.
pub fn set(conditions: &mut Vec<Condition>, finding: Finding<'_>, now: &Time) -> Changed {
    put(conditions, finding.at(now.clone()))
}

/// The same for a whole condition: an outside program may have told it, with a word of its own.
pub fn put(conditions: &mut Vec<Condition>, mut next: Condition) -> Changed {
    let Some(known) = conditions.iter_mut().find(|known| known.kind == next.kind) else {
        conditions.push(next);
        return Changed::Yes;
    };
    if known.status == next.status {
        next.last_transition_time = known.last_transition_time.clone();
    }
    if *known == next {
        return Changed::No;
    }
    *known = next;
    Changed::Yes
}

/// The condition of a kind, if it was ever set.
pub fn find<'a>(conditions: &'a [Condition], kind: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.kind == kind)
}

/// Why a condition is as it is, if it is there and its word is one of ours.
pub fn reason(conditions: &[Condition], kind: &str) -> Option<Reason> {
    find(conditions, kind).and_then(|condition| Reason::of(&condition.reason))
}

/// Whether a condition is there and true.
pub fn is_true(conditions: &[Condition], kind: &str) -> bool {
    find(conditions, kind).is_some_and(|condition| condition.status == ConditionStatus::True)
}

impl Finding<'_> {
    fn at(self, time: Time) -> Condition {
        Condition {
            kind: self.kind.to_owned(),
            status: self.status,
            reason: self.reason.word().to_owned(),
            message: self.message.to_owned(),
            last_transition_time: time,
            observed_generation: self.observed_generation,
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::jiff::Timestamp;

    use super::*;

    fn at(second: i64) -> Time {
        Time(Timestamp::from_second(second).unwrap())
    }

    fn ready(status: ConditionStatus, message: &str) -> Finding<'_> {
        Finding {
            kind: READY,
            status,
            reason: Reason::Heartbeat,
            message,
            observed_generation: Some(1),
        }
    }

    #[test]
    fn the_transition_time_moves_only_when_the_status_flips() {
        let mut conditions = Vec::new();
        assert_eq!(set(&mut conditions, ready(ConditionStatus::True, "a"), &at(1)), Changed::Yes);
        assert_eq!(set(&mut conditions, ready(ConditionStatus::True, "b"), &at(2)), Changed::Yes);
        assert_eq!(conditions[0].last_transition_time, at(1));
        assert_eq!(conditions[0].message, "b");
        assert_eq!(set(&mut conditions, ready(ConditionStatus::False, "b"), &at(3)), Changed::Yes);
        assert_eq!(conditions[0].last_transition_time, at(3));
        assert_eq!(conditions.len(), 1);
    }

    #[test]
    fn setting_what_is_already_so_changes_nothing() {
        let mut conditions = Vec::new();
        set(&mut conditions, ready(ConditionStatus::True, "a"), &at(1));
        assert_eq!(set(&mut conditions, ready(ConditionStatus::True, "a"), &at(9)), Changed::No);
        assert!(is_true(&conditions, READY));
        assert!(!is_true(&conditions, DEGRADED));
    }
}
