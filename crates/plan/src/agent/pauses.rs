//! How long the tasks of an agent rest before they ask again. Called by the task that each function is
//! named after; to read on, see [`Redial`].

use std::time::Duration;

/// How one kind of connection is dialled again after it has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Manner {
    /// After the first failure; doubled with each further one, up to the most.
    first: Duration,
    most: Duration,
    /// After a refusal: each further try costs a handshake and will be refused as well.
    refused: Duration,
    /// A connection that lasted so long was a good one, and the failures before it are forgotten.
    good_after: Duration,
    /// What becomes of them when another way to the server takes the place of the old one.
    replaced: Before,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Before {
    Counts,
    Forgotten,
}

/// The list and watch of Assignments.
pub const FEED: Manner = Manner {
    first: Duration::from_millis(250),
    most: Duration::from_secs(10),
    refused: Duration::from_secs(10),
    // A good one is known by its list, see [`Redial::was_good`].
    good_after: Duration::MAX,
    // An old way that was cut without a word said nothing about the new one.
    replaced: Before::Forgotten,
};

/// The connection on which errands arrive.
pub const ERRANDS: Manner = Manner {
    first: Duration::from_millis(250),
    most: Duration::from_secs(10),
    refused: Duration::from_secs(2 * 60),
    good_after: Duration::from_secs(10),
    // Each try is a handshake, and while the server is away the way is replaced all the time.
    replaced: Before::Counts,
};

/// How a connection came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The server does not serve it, or not to us.
    Refused,
    /// It broke, or was never there.
    Broken,
    /// A younger certificate or another address took its place: the old one would be refused in a while.
    Replaced,
}

/// The pauses of one connection that is dialled again and again.
#[derive(Clone, Copy, Debug)]
pub struct Redial {
    manner: Manner,
    pause: Duration,
}

impl Redial {
    pub fn new(manner: Manner) -> Redial {
        Redial { manner, pause: manner.first }
    }

    /// The server has answered as it should: what failed before does not count any more.
    pub fn was_good(&mut self) {
        self.pause = self.manner.first;
    }

    /// How long to wait before the next try. `lasted` is how long the connection stood.
    pub fn after(&mut self, ended: Ended, lasted: Duration) -> Duration {
        let anew = ended == Ended::Replaced && self.manner.replaced == Before::Forgotten;
        if anew || lasted >= self.manner.good_after {
            self.was_good();
        } else if ended == Ended::Refused {
            self.pause = self.manner.refused;
        }
        let pause = self.pause;
        let most = match ended {
            Ended::Refused => self.manner.refused,
            Ended::Broken | Ended::Replaced => self.manner.most,
        };
        self.pause = pause.saturating_mul(2).min(most);
        pause
    }
}

/// Half of a pause to all of it, so that a thousand agents do not come back to a server at one moment.
/// `chance` is any number, each as likely as the next.
pub fn jittered(pause: Duration, chance: u32) -> Duration {
    pause.mul_f64(0.5 + 0.5 * f64::from(chance) / f64::from(u32::MAX))
}

/// Whether everything that was asked for is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    All,
    NotAll,
}

/// Before Secrets and ConfigMaps are asked for anew: they seldom change, and every question is traffic.
/// For a missing one somebody waits, who may be about to write it.
pub fn entries(found: Found) -> Duration {
    match found {
        Found::All => Duration::from_secs(5 * 60),
        Found::NotAll => Duration::from_secs(3),
    }
}

/// What came of a look that is told to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// There was nothing to tell, or it is told.
    All,
    /// The same, and a person may say any moment what is to become of what the server has forgotten.
    AskingPeople,
    /// Something was begun whose result is told by the next look.
    Begun,
    Failed,
}

/// Before the machine is looked at again.
pub fn node(told: Told) -> Duration {
    match told {
        Told::All => Duration::from_secs(10 * 60),
        Told::AskingPeople => Duration::from_secs(15),
        Told::Begun | Told::Failed => Duration::from_secs(10),
    }
}

/// Before the machines of a site are compared with its Nodes again: an event may have been missed, or a
/// person has written on a Node.
pub fn machines(told: Told) -> Duration {
    match told {
        Told::All | Told::AskingPeople => Duration::from_secs(60),
        Told::Begun | Told::Failed => Duration::from_secs(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `b` is broken, `x` refused, `r` replaced, each after no time; `+` is a good answer, and `B` and `X`
    /// end what stood for an hour.
    #[track_caller]
    fn check(manner: Manner, ends: &str, expected_ms: &[u128]) {
        let mut redial = Redial::new(manner);
        let mut pauses = Vec::new();
        for end in ends.chars() {
            let hour = Duration::from_secs(3600);
            let (ended, lasted) = match end {
                '+' => {
                    redial.was_good();
                    continue;
                }
                'b' => (Ended::Broken, Duration::ZERO),
                'B' => (Ended::Broken, hour),
                'x' => (Ended::Refused, Duration::ZERO),
                'X' => (Ended::Refused, hour),
                'r' => (Ended::Replaced, Duration::ZERO),
                other => panic!("{other}"),
            };
            pauses.push(redial.after(ended, lasted).as_millis());
        }
        assert_eq!(pauses, expected_ms, "{ends}");
    }

    #[test]
    fn pauses_grow_while_it_fails_and_are_short_after_a_good_connection() {
        let grown = [250, 500, 1000, 2000, 4000, 8000, 10_000, 10_000];
        check(ERRANDS, "bbbbbbbb", &grown);
        check(FEED, "bbbbbbbb", &grown);
        check(ERRANDS, "bbbBb", &[250, 500, 1000, 250, 500]);
        check(FEED, "bbb+bb", &[250, 500, 1000, 250, 500]);
        check(FEED, "bbB", &[250, 500, 1000]);
        check(ERRANDS, "bbrb", &[250, 500, 1000, 2000]);
        check(FEED, "bbrb", &[250, 500, 250, 500]);
    }

    #[test]
    fn who_is_refused_asks_seldom_and_comes_back_in_short_steps() {
        check(ERRANDS, "xxb", &[120_000, 120_000, 120_000]);
        check(ERRANDS, "xbb", &[120_000, 120_000, 10_000]);
        check(ERRANDS, "bX", &[250, 250]);
    }

    #[test]
    fn pauses_differ_and_are_never_longer_than_meant() {
        let pause = Duration::from_secs(10);
        assert_eq!(jittered(pause, 0), pause / 2);
        assert_eq!(jittered(pause, u32::MAX), pause);
        assert!(jittered(pause, u32::MAX / 2) < pause * 8 / 10);
    }

    #[test]
    fn what_is_missing_or_went_wrong_is_asked_for_again_soon() {
        assert!(entries(Found::NotAll) < entries(Found::All));
        assert!(node(Told::Failed) < node(Told::AskingPeople));
        assert!(node(Told::AskingPeople) < node(Told::All));
        assert!(machines(Told::Failed) < machines(Told::All));
        assert_eq!(machines(Told::Begun), machines(Told::Failed));
    }
}
