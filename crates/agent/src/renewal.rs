//! When to renew a certificate. Plain: the certificate's life, the node's name, the time, and how the
//! last heartbeats went come in ([`due`] and [`Doubt`]).
//!
//! At two thirds of its life, so that a third is left for whatever is in the way; a little earlier
//! by the node's name, so that a thousand nodes that joined together do not come together again.
//! One that has expired is renewed too: the server takes it, if the node still stands.

use std::time::Duration;

use jiff::Timestamp;
use tombolo_identity::tls::Lifetime;

/// The earliest renewal is so many hundredths of the life before two thirds.
const SPREAD_PERCENT: u64 = 10;
/// After a failed try. Doubled each time, up to the most.
const RETRY_FIRST: Duration = Duration::from_secs(5);
const RETRY_MOST: Duration = Duration::from_secs(5 * 60);

/// After so many failures in a row our own clock may be what is wrong: the server says that the
/// certificate has expired by not talking to us, and a renewal finds out.
const DOUBTFUL: u32 = 2;
/// And again after so many: a renewal in vain takes longer than a heartbeat, and a link that is back
/// should be noticed soon.
const DOUBTFUL_EVERY: u32 = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    Now,
    /// Look again after this.
    In(Duration),
}

pub fn due(lifetime: &Lifetime, node: &str, now: Timestamp) -> Due {
    let life = since(lifetime.begins, lifetime.expires);
    let early = life * u32::try_from(share(node) * SPREAD_PERCENT / 100).unwrap_or(0) / 100;
    let at = life * 2 / 3 - early;
    // A clock that was set back to before the beginning says nothing: wait the whole time.
    match at.checked_sub(since(lifetime.begins, now)) {
        Some(rest) if !rest.is_zero() => Due::In(rest),
        Some(_) | None => Due::Now,
    }
}

/// How long to wait after so many failures in a row.
pub fn retry(failures: u32) -> Duration {
    RETRY_FIRST.saturating_mul(1 << failures.min(10)).min(RETRY_MOST)
}

/// What went wrong since the server last took a heartbeat, and so whether a certificate may be no good
/// that is young by our own clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Doubt {
    failures: u32,
    refused: bool,
    renewal_answered: bool,
}

/// How a heartbeat, or the renewal before it, failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The server does not take the certificate (401).
    Refused,
    Other,
}

/// What follows from a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The clock of the server may have been set, and then any certificate from before looks expired
    /// to it. A renewal needs no certificate that holds, so it comes before everything else.
    RenewAtOnce,
    /// The same, but the last renewal was not answered.
    RenewSoon,
    /// A renewal does not help, or is not what is missing.
    Rest,
}

impl Doubt {
    pub fn failed(&mut self, failure: Failure) -> Next {
        self.failures += 1;
        if failure == Failure::Other || self.renewal_answered {
            return Next::Rest;
        }
        match std::mem::replace(&mut self.refused, true) {
            false => Next::RenewAtOnce,
            true => Next::RenewSoon,
        }
    }

    /// The server has renewed the certificate, or has said that it does not: neither is asked for
    /// again because of the same refusal.
    pub fn renewal_was_answered(&mut self) {
        self.renewal_answered = true;
    }

    /// Whether a certificate is renewed that is young by our own clock.
    pub fn renews(self) -> bool {
        let failures = self.failures;
        (self.refused && !self.renewal_answered)
            || failures == DOUBTFUL
            || (failures > 0 && failures.is_multiple_of(DOUBTFUL_EVERY))
    }

    pub fn failures(self) -> u32 {
        self.failures
    }
}

fn since(earlier: Timestamp, later: Timestamp) -> Duration {
    Duration::try_from(later.duration_since(earlier)).unwrap_or(Duration::ZERO)
}

/// 0 to 99, the same for a name at every start (FNV-1a).
fn share(node: &str) -> u64 {
    let hash = node.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    hash % 100
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A certificate that holds from midnight for 25 hours, as the authority backdates it.
    fn check(node: &str, now: &str) -> Due {
        let lifetime = Lifetime {
            begins: "2026-06-01T00:00:00Z".parse().unwrap(),
            expires: "2026-06-02T01:00:00Z".parse().unwrap(),
        };
        due(&lifetime, node, now.parse().unwrap())
    }

    #[test]
    fn renews_at_two_thirds_of_the_life_and_a_little_before() {
        for node in ["n1", "n2", "gateway", ""] {
            let Due::In(wait) = check(node, "2026-06-01T01:00:00Z") else { panic!("{node}") };
            let hours = wait.as_secs_f64() / 3600.0;
            assert!((13.0..15.7).contains(&hours), "{node}: {hours}");
            assert_eq!(check(node, "2026-06-01T16:40:00Z"), Due::Now);
        }
    }

    #[test]
    fn nodes_that_joined_together_do_not_come_together() {
        let waits: std::collections::BTreeSet<_> = (0..100)
            .map(|number| match check(&format!("node-{number}"), "2026-06-01T01:00:00Z") {
                Due::In(wait) => wait,
                Due::Now => Duration::ZERO,
            })
            .collect();
        assert!(waits.len() >= 8, "{waits:?}");
    }

    #[test]
    fn an_expired_certificate_is_renewed_at_once_however_old() {
        assert_eq!(check("n1", "2026-06-02T02:00:00Z"), Due::Now);
        assert_eq!(check("n1", "2031-06-02T02:00:00Z"), Due::Now);
    }

    #[test]
    fn a_clock_before_the_beginning_does_not_renew_without_end() {
        assert!(matches!(check("n1", "1970-01-01T00:00:00Z"), Due::In(_)));
    }

    #[test]
    fn tries_again_later_and_later() {
        assert_eq!(retry(0), RETRY_FIRST);
        assert_eq!(retry(1), RETRY_FIRST * 2);
        assert_eq!(retry(u32::MAX), RETRY_MOST);
    }
    /// `beat` and `renewal` fail with this answer; `renewed` is a renewal that was answered well.
    fn follow(steps: &[&str]) -> Vec<String> {
        let mut doubt = Doubt::default();
        let steps = steps.iter().map(|step| {
            let next = match *step {
                "beat 401" => doubt.failed(Failure::Refused),
                "no answer" => doubt.failed(Failure::Other),
                "renewed" => {
                    doubt.renewal_was_answered();
                    return format!("{step}: renews {}", doubt.renews());
                }
                "renewal 401" => {
                    doubt.renewal_was_answered();
                    doubt.failed(Failure::Refused)
                }
                other => panic!("{other}"),
            };
            format!("{step}: {next:?}, renews {}", doubt.renews())
        });
        steps.collect()
    }

    #[test]
    fn the_first_refusal_renews_at_once_and_a_refused_renewal_rests() {
        let expected = ["beat 401: RenewAtOnce, renews true", "renewal 401: Rest, renews true"];
        assert_eq!(follow(&["beat 401", "renewal 401"]), expected, "the second failure is a doubt");
        let expected = [
            "beat 401: RenewAtOnce, renews true",
            "renewed: renews false",
            "beat 401: Rest, renews true",
            "beat 401: Rest, renews false",
        ];
        assert_eq!(follow(&["beat 401", "renewed", "beat 401", "beat 401"]), expected);
    }

    #[test]
    fn a_renewal_that_nobody_answers_is_tried_again_soon() {
        let expected = [
            "beat 401: RenewAtOnce, renews true",
            "beat 401: RenewSoon, renews true",
            "beat 401: RenewSoon, renews true",
            "renewed: renews false",
        ];
        assert_eq!(follow(&["beat 401", "beat 401", "beat 401", "renewed"]), expected);
    }

    #[test]
    fn silence_is_a_doubt_now_and_then() {
        let doubts = |count: usize| {
            let last = follow(&vec!["no answer"; count]).pop();
            last.is_some_and(|line| line == "no answer: Rest, renews true")
        };
        let doubtful: Vec<usize> = (0..20).filter(|count| doubts(*count)).collect();
        assert_eq!(doubtful, [2, 8, 16]);
    }
}
