//! What an agent writes about its Assignments, and when: to the server, one write for each at a time, and
//! to its own disk. Called by `tombolo_agent::converge`, start at [`decide`], and by
//! `tombolo_agent::work`, start at [`Writes::choose`].

use std::collections::BTreeMap;
use std::time::Duration;

use tombolo_model::Assignment;
use tombolo_model::keys::FINALIZER_ASSIGNMENT;

use crate::Monotonic;

/// More at once would be a load of its own for the server when a thousand agents come back.
pub const WRITES_AT_ONCE_MAX: usize = 8;
/// After a write that the server did not answer, for the same Assignment.
const WRITE_AGAIN: Duration = Duration::from_secs(1);
/// After a write that lost a race: the watch is about to bring what it lost against.
const RACE_AGAIN: Duration = Duration::from_millis(100);
/// After a write about an Assignment that the server does not know: the next list says what it is.
const UNKNOWN_AGAIN: Duration = Duration::from_secs(30);
/// A full disk is not helped by asking it all the time.
const SAVE_AGAIN: Duration = Duration::from_secs(1);

/// How much of an Assignment is left in the engines here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    Nothing,
    Something,
    /// Its engine is silent.
    NotKnown,
}

/// How far the status of an Assignment can be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ripe {
    Yes,
    /// Something that it names has been asked for and not been answered.
    NotYet,
    /// Its claim is written with this look, and its status with the next.
    ClaimFirst,
}

/// What there is to write about an Assignment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tell {
    Nothing,
    Status,
    /// Nothing of it is left here: take our finalizer away, so that it can go.
    LetGo,
}

pub fn decide(assignment: &Assignment, ripe: Ripe, left: Left) -> Tell {
    let metadata = &assignment.metadata;
    // One from our own disk, or one that a server has forgotten: there is nothing to write to.
    if metadata.resource_version.is_none() || ripe != Ripe::Yes {
        return Tell::Nothing;
    }
    if metadata.deletion_timestamp.is_none() || left != Left::Nothing {
        return Tell::Status;
    }
    let ours = |finalizer: &String| finalizer == FINALIZER_ASSIGNMENT;
    match metadata.finalizers.iter().flatten().any(ours) {
        true => Tell::LetGo,
        false => Tell::Nothing,
    }
}

/// The writes that are under way, or came to nothing a moment ago, by the uid of their Assignment.
#[derive(Clone, Debug, Default)]
pub struct Writes {
    /// Nothing for one under way; else before when it is not tried again.
    resting: BTreeMap<String, Option<Monotonic>>,
}

/// What came of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The server has answered with the Assignment as it is now.
    Written,
    /// Our finalizer is gone; the watch says what became of the rest.
    LetGo,
    /// The Assignment has changed meanwhile.
    Raced,
    /// The server does not know it.
    Unknown,
    /// The server did not answer.
    Unheard,
}

impl Writes {
    /// Which of the writes that are wanted, by the uids of their Assignments, begin now.
    pub fn choose(&mut self, wanted: &[&str], now: Monotonic) -> Vec<usize> {
        self.resting.retain(|_, until| until.is_none_or(|until| until > now));
        let mut under_way = self.resting.values().filter(|until| until.is_none()).count();
        let mut chosen = Vec::new();
        for (at, uid) in wanted.iter().enumerate() {
            if under_way < WRITES_AT_ONCE_MAX && !self.resting.contains_key(*uid) {
                self.resting.insert((*uid).to_owned(), None);
                under_way += 1;
                chosen.push(at);
            }
        }
        chosen
    }

    pub fn ended(&mut self, uid: String, outcome: Outcome, now: Monotonic) {
        let pause = match outcome {
            Outcome::Written => {
                self.resting.remove(&uid);
                return;
            }
            Outcome::Raced => RACE_AGAIN,
            Outcome::LetGo | Outcome::Unheard => WRITE_AGAIN,
            Outcome::Unknown => UNKNOWN_AGAIN,
        };
        self.resting.insert(uid, Some(now + pause));
    }

    /// A write has ended without saying which it was.
    pub fn lost_count(&mut self) {
        self.resting.clear();
    }

    /// When a write that rests may be tried again.
    pub fn wake_at(&self) -> Option<Monotonic> {
        self.resting.values().flatten().min().copied()
    }
}

/// Writes to the disk: one at a time, and the next has all that changed meanwhile.
#[derive(Clone, Copy, Debug, Default)]
pub struct Saves {
    not_before: Option<Monotonic>,
}

impl Saves {
    /// Whether a write may begin while none is under way.
    pub fn may_begin(&self, now: Monotonic) -> bool {
        self.not_before.is_none_or(|at| now >= at)
    }

    pub fn succeeded(&mut self) {
        self.not_before = None;
    }

    pub fn failed(&mut self, now: Monotonic) {
        self.not_before = Some(now + SAVE_AGAIN);
    }

    pub fn wake_at(&self) -> Option<Monotonic> {
        self.not_before
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use k8s_openapi::jiff::Timestamp;
    use serde_json::json;

    use super::*;

    fn at(millis: u64) -> Monotonic {
        Monotonic::from_start(Duration::from_millis(millis))
    }

    /// `known` has a version, `ours` our finalizer, `theirs` another's; `deleting` is being deleted.
    fn assignment(words: &str) -> Assignment {
        let mut assignment: Assignment = serde_json::from_value(json!({
            "apiVersion": "tombolo.dev/v1alpha1", "kind": "Assignment", "metadata": {"name": "web"},
            "spec": {"app": "shop", "component": "web", "replica": 0, "site": "north",
                "engine": "host", "run": {"process": {"command": ["web"]}}},
        }))
        .unwrap();
        let metadata = &mut assignment.metadata;
        for word in words.split_whitespace() {
            match word {
                "known" => metadata.resource_version = Some("1".to_owned()),
                "deleting" => metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH)),
                "ours" => metadata.finalizers = Some(vec![FINALIZER_ASSIGNMENT.to_owned()]),
                "theirs" => metadata.finalizers = Some(vec!["example.com/theirs".to_owned()]),
                other => panic!("{other}"),
            }
        }
        assignment
    }

    #[test]
    fn it_is_let_go_when_it_is_known_that_nothing_is_left() {
        let rows = [
            ("known", Ripe::Yes, Left::Something, Tell::Status),
            ("known ours", Ripe::Yes, Left::Nothing, Tell::Status),
            ("known ours deleting", Ripe::Yes, Left::Something, Tell::Status),
            ("known ours deleting", Ripe::Yes, Left::NotKnown, Tell::Status),
            ("known ours deleting", Ripe::Yes, Left::Nothing, Tell::LetGo),
            ("known theirs deleting", Ripe::Yes, Left::Nothing, Tell::Nothing),
            ("ours deleting", Ripe::Yes, Left::Nothing, Tell::Nothing),
            ("known", Ripe::NotYet, Left::Something, Tell::Nothing),
            ("known", Ripe::ClaimFirst, Left::Something, Tell::Nothing),
            ("known ours deleting", Ripe::ClaimFirst, Left::Nothing, Tell::Nothing),
        ];
        for (words, ripe, left, expected) in rows {
            assert_eq!(
                decide(&assignment(words), ripe, left),
                expected,
                "{words} {ripe:?} {left:?}"
            );
        }
    }

    #[test]
    fn one_write_for_each_and_so_many_at_once() {
        let mut writes = Writes::default();
        assert_eq!(writes.choose(&["a", "b", "a"], at(0)), [0, 1]);
        assert_eq!(writes.choose(&["a", "c"], at(1)), [1]);
        writes.ended("a".to_owned(), Outcome::Written, at(2));
        assert_eq!(writes.choose(&["a"], at(2)), [0]);
        let many: Vec<String> = (0..20).map(|number| format!("u{number}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(writes.choose(&many, at(3)).len(), WRITES_AT_ONCE_MAX - 3);
        writes.lost_count();
        assert_eq!(writes.choose(&many, at(4)).len(), WRITES_AT_ONCE_MAX);
    }

    #[test]
    fn what_was_in_vain_rests_by_its_reason() {
        let rows = [
            (Outcome::Raced, 100),
            (Outcome::LetGo, 1_000),
            (Outcome::Unheard, 1_000),
            (Outcome::Unknown, 30_000),
        ];
        for (outcome, pause) in rows {
            let mut writes = Writes::default();
            assert_eq!(writes.choose(&["a"], at(0)), [0]);
            writes.ended("a".to_owned(), outcome, at(10));
            assert_eq!(writes.wake_at(), Some(at(10 + pause)), "{outcome:?}");
            assert_eq!(writes.choose(&["a"], at(9 + pause)), [0; 0], "{outcome:?}");
            assert_eq!(writes.choose(&["a"], at(10 + pause)), [0], "{outcome:?}");
            assert_eq!(writes.wake_at(), None);
        }
    }

    #[test]
    fn what_rests_takes_no_room_from_others() {
        let mut writes = Writes::default();
        let many: Vec<String> =
            (0..WRITES_AT_ONCE_MAX).map(|number| format!("u{number}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(writes.choose(&many, at(0)).len(), WRITES_AT_ONCE_MAX);
        for uid in &many {
            writes.ended((*uid).to_owned(), Outcome::Unheard, at(1));
        }
        assert_eq!(writes.choose(&["other"], at(2)), [0]);
    }

    #[test]
    fn a_disk_that_refuses_is_asked_again_after_a_while() {
        let mut saves = Saves::default();
        assert!(saves.may_begin(at(0)));
        saves.failed(at(0));
        assert!(!saves.may_begin(at(999)) && saves.may_begin(at(1000)));
        assert_eq!(saves.wake_at(), Some(at(1000)));
        saves.succeeded();
        assert!(saves.may_begin(at(999)));
    }
}
