//! Which controllers can be asked: those whose registration was renewed within the last minute.
//! Called by the apiserver at `/tombolo/controllers`; start reading at [`look`].
//!
//! A registration is a Lease. As in [`crate::leases`], no time that is written in it is read: it
//! is alive while it changes, by our own [`Monotonic`] clock.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::Monotonic;

/// A registration that is not renewed for so long is over.
pub const REGISTRATION_LIFE: Duration = Duration::from_secs(60);

/// How often a controller renews: two renewals may be lost.
pub const RENEW_EVERY: Duration = Duration::from_secs(20);

/// One registration as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registration {
    /// Any number that differs after each renewal. It is compared and never read.
    pub version: u64,
    pub addresses: Vec<String>,
}

/// What one look leaves for the next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    heard: BTreeMap<String, (u64, Monotonic)>,
}

/// A controller that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Controller {
    pub name: String,
    pub addresses: Vec<String>,
    /// How long its registration still lasts.
    pub lasts: Duration,
}

/// Who is there, by name, and what to remember. A process that has just started has heard nobody
/// and gives everyone whose registration it finds a full life: it cannot know better.
pub fn look(
    registered: &BTreeMap<String, Registration>,
    memory: &Memory,
    now: Monotonic,
) -> (Vec<Controller>, Memory) {
    let mut heard = BTreeMap::new();
    let mut controllers = Vec::new();
    for (name, registration) in registered {
        let at = match memory.heard.get(name) {
            Some((version, at)) if *version == registration.version => *at,
            Some(_) | None => now,
        };
        heard.insert(name.clone(), (registration.version, at));
        let lasts = REGISTRATION_LIFE.saturating_sub(now.since(at));
        if !lasts.is_zero() {
            let addresses = registration.addresses.clone();
            controllers.push(Controller { name: name.clone(), addresses, lasts });
        }
    }
    (controllers, Memory { heard })
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    /// Looks at the given seconds; each look is `SECOND NAME@VERSION…`.
    #[track_caller]
    fn check(looks: &[&str], expect: Expect) {
        let mut memory = Memory::default();
        let mut text = String::new();
        for line in looks {
            let mut words = line.split_whitespace();
            let second: u64 = words.next().unwrap().parse().unwrap();
            let registered = words
                .map(|word| {
                    let (name, version) = word.split_once('@').unwrap();
                    let version = version.parse().unwrap();
                    let addresses = vec![format!("https://{name}")];
                    (name.to_owned(), Registration { version, addresses })
                })
                .collect();
            let now = Monotonic::from_start(Duration::from_secs(second));
            let (controllers, next) = look(&registered, &memory, now);
            memory = next;
            let there: Vec<String> = controllers
                .iter()
                .map(|controller| format!("{} {}s", controller.name, controller.lasts.as_secs()))
                .collect();
            text.push_str(&format!("{second}: {}\n", there.join(", ")));
        }
        expect.assert_eq(&text);
    }

    #[test]
    fn a_controller_is_there_for_a_minute_after_each_renewal() {
        check(
            &["0 a@1 b@1", "20 a@2 b@1", "59 a@2 b@1", "60 a@2 b@1", "79 a@2 b@1", "80 a@2 b@1"],
            expect![[r"
                0: a 60s, b 60s
                20: a 60s, b 40s
                59: a 21s, b 1s
                60: a 20s
                79: a 1s
                80: 
            "]],
        );
    }

    #[test]
    fn one_that_was_gone_comes_back_with_its_next_renewal() {
        check(
            &["0 a@1", "100 a@1", "110 a@2", "111 a@2"],
            expect![[r"
            0: a 60s
            100: 
            110: a 60s
            111: a 59s
        "]],
        );
    }

    #[test]
    fn one_that_is_deleted_is_forgotten() {
        check(
            &["0 a@1", "1", "2 a@1"],
            expect![[r"
            0: a 60s
            1: 
            2: a 60s
        "]],
        );
    }
}
