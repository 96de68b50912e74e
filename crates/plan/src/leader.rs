//! Which of several controllers runs the loops: the one whose name is in a Lease. Called by
//! `tombolo_controller::leader`; start reading at [`decide`].
//!
//! As everywhere, the times in the Lease are not read. A Lease that has not changed for its whole
//! length, by the clock of the controller that watches it, is free. Its holder stops well before that: it has to
//! have stopped when another begins.

use std::time::Duration;

use crate::Monotonic;

/// A Lease that was not renewed for so long may be taken.
pub const LASTS: Duration = Duration::from_secs(15);
/// The holder renews this often.
pub const RENEW_EVERY: Duration = Duration::from_secs(4);
/// A holder that could not renew for so long stops, whatever it is doing.
pub const STOP_AFTER: Duration = Duration::from_secs(10);

/// The Lease as it was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// `None` if nobody holds it.
    pub holder: Option<String>,
    /// Differs after each write.
    pub version: String,
}

/// What was seen last, and since when it has been so.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    seen: Option<(Seen, Monotonic)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Make the Lease, with our name.
    Create,
    /// Write our name into it, if it still has this version.
    Take { version: String, why: Why },
    /// Another has it; look again then.
    Wait { holder: String, until: Monotonic },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    Free,
    Ours,
    Lapsed,
}

/// Decides about the Lease. `lease` is `None` if there is none.
pub fn decide(lease: Option<&Seen>, me: &str, memory: &mut Memory, now: Monotonic) -> Decision {
    let Some(lease) = lease else {
        memory.seen = None;
        return Decision::Create;
    };
    let since = match &memory.seen {
        Some((known, since)) if known == lease => *since,
        Some(_) | None => {
            memory.seen = Some((lease.clone(), now));
            now
        }
    };
    let version = lease.version.clone();
    match lease.holder.as_deref() {
        None => Decision::Take { version, why: Why::Free },
        Some(holder) if holder == me => Decision::Take { version, why: Why::Ours },
        Some(_) if now.since(since) >= LASTS => Decision::Take { version, why: Why::Lapsed },
        Some(holder) => Decision::Wait {
            holder: holder.to_owned(),
            until: (since + LASTS).min(now + RENEW_EVERY),
        },
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(seconds: u64) -> Monotonic {
        Monotonic::from_start(Duration::from_secs(seconds))
    }

    fn seen(holder: &str, version: u64) -> Seen {
        let holder = Some(holder.to_owned()).filter(|holder| !holder.is_empty());
        Seen { holder, version: version.to_string() }
    }

    #[test]
    fn a_free_lease_is_taken_and_anothers_only_when_it_has_lapsed() {
        let mut memory = Memory::default();
        let mut decide =
            |lease: Option<Seen>, second| decide(lease.as_ref(), "me", &mut memory, at(second));
        assert_eq!(decide(None, 0), Decision::Create);
        let take = |version: &str, why| Decision::Take { version: version.to_owned(), why };
        assert_eq!(decide(Some(seen("", 1)), 0), take("1", Why::Free));
        assert_eq!(decide(Some(seen("me", 2)), 0), take("2", Why::Ours));
        let wait = |until| Decision::Wait { holder: "you".to_owned(), until: at(until) };
        assert_eq!(decide(Some(seen("you", 3)), 100), wait(104));
        assert_eq!(decide(Some(seen("you", 3)), 112), wait(115));
        assert_eq!(decide(Some(seen("you", 4)), 114), wait(118), "it was renewed");
        assert_eq!(decide(Some(seen("you", 4)), 129), take("4", Why::Lapsed));
    }

    /// Two that look whenever they like, over an API that loses their words. Whoever has written its
    /// name leads until it has not been able to write for [`STOP_AFTER`].
    #[derive(Default)]
    struct One {
        memory: Memory,
        wrote_at: Option<Monotonic>,
    }

    proptest! {
        #[test]
        fn there_are_never_two_leaders(
            turns in prop::collection::vec((0usize..2, 0u64..6, any::<bool>()), 1..200),
        ) {
            let names = ["a", "b"];
            let mut ones = [One::default(), One::default()];
            let (mut lease, mut version, mut now) = (None::<Seen>, 0, at(0));
            for (who, pause, heard) in turns {
                now = now + Duration::from_secs(pause);
                if !heard {
                    continue;
                }
                match decide(lease.as_ref(), names[who], &mut ones[who].memory, now) {
                    Decision::Wait { .. } => (),
                    Decision::Create | Decision::Take { .. } => {
                        version += 1;
                        lease = Some(seen(names[who], version));
                        ones[who].wrote_at = Some(now);
                    }
                }
                let leads = |one: &&One| {
                    one.wrote_at.is_some_and(|wrote| now.since(wrote) < STOP_AFTER)
                };
                prop_assert!(ones.iter().filter(leads).count() <= 1);
            }
        }
    }
}
