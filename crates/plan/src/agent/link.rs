//! How an agent keeps its link to the server: when its certificate is renewed, when its heart beats next,
//! and what follows when either fails. Called by `tombolo_agent::run`; start at [`Link::renewal`] and
//! [`Link::failed`].
//!
//! A certificate is renewed at two thirds of its life, so that a third is left for whatever is in the way;
//! a little earlier by the node's name, so that a thousand nodes that joined together do not come together
//! again. One that has expired is renewed too: the server takes it, if the node still stands.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

/// A copy of an agent stays quiet, and asks now and then whether it still counts as one.
const QUARANTINE_PAUSE: Duration = Duration::from_secs(5 * 60);
/// An agent whose certificate is refused, and not renewed either, keeps its workloads running and asks
/// the server again after this pause.
const REFUSAL_PAUSE: Duration = Duration::from_secs(60);
/// After a heartbeat in vain: a link that is back is noticed after this, and not after a whole beat.
const TRY_AGAIN: Duration = Duration::from_secs(3);
/// The next heartbeat, when there is something to tell.
const SOON: Duration = Duration::from_secs(1);
/// No wait for a renewal is longer, so that a clock that is set right is noticed.
const LOOK_AGAIN: Duration = Duration::from_secs(60 * 60);
/// The earliest renewal is so many hundredths of the life before two thirds.
const SPREAD_PERCENT: u64 = 10;
/// After a failed try to join or to renew. Doubled each time, up to the most.
const RETRY_FIRST: Duration = Duration::from_secs(5);
const RETRY_MOST: Duration = Duration::from_secs(5 * 60);
/// After so many failures in a row our own clock may be what is wrong: the server says that the
/// certificate has expired by not talking to us, and a renewal finds out.
const DOUBTFUL: u32 = 2;
/// And again after so many: a renewal in vain takes longer than a heartbeat, and a link that is back
/// should be noticed soon.
const DOUBTFUL_EVERY: u32 = 8;

/// The certificate in use.
#[derive(Clone, Copy, Debug)]
pub struct Certificate<'a> {
    /// Of the node or site that it names.
    pub name: &'a str,
    pub begins: Timestamp,
    pub expires: Timestamp,
    pub labels: Labels,
}

/// Whether the server knows the labels with which the agent was started. They go along with a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Labels {
    Known,
    New,
}

/// Whether a certificate is renewed now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewal {
    NotNow { look_again: Duration },
    Now(Asked),
}

/// Why a renewal is asked for, and when again if it comes to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    pub again: Duration,
    for_labels_only: bool,
    expired: bool,
}

/// How a heartbeat, a renewal or a try to join failed, cut by what follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The server did not answer.
    Unreachable,
    /// The server is there, and cannot do it now.
    Answered,
    /// The server does not take the certificate (401).
    NotTaken,
    /// The server has understood and says no.
    Refused,
    /// Another agent lives with our identity.
    Quarantined,
    /// Something of our own, which the server cannot mend.
    OurOwn,
}

impl Failure {
    /// Whether the next try may go better although nobody has changed anything.
    pub fn may_pass(self) -> bool {
        match self {
            Failure::Unreachable | Failure::Answered => true,
            Failure::NotTaken | Failure::Refused | Failure::Quarantined | Failure::OurOwn => false,
        }
    }
}

/// What follows from a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewed {
    /// The certificate holds, new or old: the heart goes on beating, and the renewal is looked at again
    /// after this.
    GoOn(Duration),
    /// The same, and the new labels are given up until the next start.
    GiveUpLabels(Duration),
    /// There is no use in a heartbeat: see [`Link::failed`].
    Failed,
}

/// What follows from a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Look at the certificate and beat again after this.
    Again {
        after: Duration,
    },
    /// Join anew, as another start would, see [`Link::joined`].
    Join,
    /// Dial the next address, and in any case another connection: one that was cut without a word would be
    /// waited on for minutes.
    Dial {
        after: Duration,
    },
    /// Every address was tried in vain: ask the lighthouses for more, see [`Link::told`].
    AskLighthouses,
    End,
}

/// What the agent can do when it is refused or out of reach.
#[derive(Clone, Copy, Debug)]
pub struct Means {
    /// How many addresses of controllers it knows.
    pub addresses: usize,
    pub join_file: JoinFile,
    pub beat: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinFile {
    None,
    Given,
}

/// Whether a heartbeat has found something that the next one should tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    None,
    Some,
}

/// When the heart beats again after a beat that was answered. `look_again` is when the certificate wants
/// to be looked at.
pub fn next_beat(beat: Duration, look_again: Duration, news: News) -> Duration {
    match news {
        News::Some => beat.min(SOON),
        News::None => beat.min(look_again),
    }
}

/// How long to wait after so many failures in a row.
pub fn retry(failures: u32) -> Duration {
    RETRY_FIRST.saturating_mul(1 << failures.min(10)).min(RETRY_MOST)
}

/// What went wrong since the server last took a heartbeat, and which address is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Link {
    failures: u32,
    /// A certificate was not taken that is young by our own clock.
    refused: bool,
    /// The server has renewed the certificate since, or has said that it does not: neither is asked for
    /// again because of the same refusal.
    renewal_answered: bool,
    turn: usize,
}

impl Link {
    /// Which of so many addresses is used.
    pub fn address(&self, count: usize) -> usize {
        self.turn % count.max(1)
    }

    pub fn renewal(&self, certificate: &Certificate<'_>, now: Timestamp) -> Renewal {
        let rest = rest(certificate, now);
        let wanted = self.doubts_the_certificate() || certificate.labels == Labels::New;
        if let Some(rest) = rest.filter(|_| !wanted) {
            return Renewal::NotNow { look_again: rest.min(LOOK_AGAIN) };
        }
        Renewal::Now(Asked {
            again: retry(self.failures),
            for_labels_only: rest.is_some() && !self.doubts_the_certificate(),
            expired: certificate.expires <= now,
        })
    }

    pub fn renewed(&mut self, asked: Asked, result: Result<(), Failure>) -> Renewed {
        let Err(failure) = result else {
            self.renewal_answered = true;
            return Renewed::GoOn(asked.again);
        };
        self.renewal_answered |= !failure.may_pass();
        let refused = matches!(failure, Failure::Refused | Failure::NotTaken);
        match failure.may_pass() {
            true if !asked.expired => Renewed::GoOn(asked.again),
            false if refused && asked.for_labels_only => Renewed::GiveUpLabels(asked.again),
            true | false => Renewed::Failed,
        }
    }

    /// The server has taken a heartbeat.
    pub fn beaten(&mut self) {
        *self = Link { turn: self.turn, ..Link::default() };
    }

    /// A heartbeat, or the renewal before it, has failed.
    pub fn failed(&mut self, failure: Failure, means: Means) -> Next {
        self.failures += 1;
        if failure == Failure::NotTaken && !self.renewal_answered {
            // The clock of the server may have been set, and then any certificate from before looks
            // expired to it. A renewal needs no certificate that holds, so it comes before all else.
            return match std::mem::replace(&mut self.refused, true) {
                false => Next::Again { after: Duration::ZERO },
                // The last renewal was not answered.
                true => Next::Again { after: TRY_AGAIN },
            };
        }
        let pause = means.beat.min(TRY_AGAIN);
        match failure {
            Failure::Quarantined => Next::Again { after: QUARANTINE_PAUSE },
            Failure::NotTaken | Failure::Refused => match means.join_file {
                JoinFile::None => Next::Again { after: REFUSAL_PAUSE },
                JoinFile::Given => Next::Join,
            },
            // What is under way on the connection goes on, and a server with too much to do is not asked
            // for everything anew.
            Failure::Answered if means.addresses <= 1 => Next::Again { after: pause },
            Failure::Answered | Failure::Unreachable => match self.has_tried_all(means.addresses) {
                true => Next::AskLighthouses,
                false => self.dial_next(pause),
            },
            Failure::OurOwn => Next::End,
        }
    }

    /// What the lighthouses said.
    pub fn told(&mut self, addresses: Addresses, means: Means) -> Next {
        match addresses {
            // They come first in the list.
            Addresses::New => {
                self.turn = 0;
                Next::Dial { after: Duration::ZERO }
            }
            Addresses::Same => self.dial_next(means.beat.min(TRY_AGAIN)),
        }
    }

    /// What came of joining anew: with a certificate that was just made the heart beats at once.
    pub fn joined(&self, joined: Joined) -> Next {
        match joined {
            Joined::Yes => Next::Again { after: Duration::ZERO },
            Joined::No => Next::Again { after: REFUSAL_PAUSE },
        }
    }

    /// Whether a certificate is renewed that is young by our own clock.
    fn doubts_the_certificate(&self) -> bool {
        let failures = self.failures;
        (self.refused && !self.renewal_answered)
            || failures == DOUBTFUL
            || (failures > 0 && failures.is_multiple_of(DOUBTFUL_EVERY))
    }

    /// Whether no address is left that was not tried since the last time this was so.
    fn has_tried_all(&self, count: usize) -> bool {
        self.address(count) + 1 >= count
    }

    fn dial_next(&mut self, after: Duration) -> Next {
        self.turn = self.turn.wrapping_add(1);
        Next::Dial { after }
    }
}

/// Whether the lighthouses knew an address that the agent did not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Addresses {
    Same,
    New,
}

/// Whether a try to join anew has succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Joined {
    No,
    Yes,
}

/// How long it still is until the certificate is renewed; nothing if it is time.
fn rest(certificate: &Certificate<'_>, now: Timestamp) -> Option<Duration> {
    let life = since(certificate.begins, certificate.expires);
    let early = share(certificate.name) * SPREAD_PERCENT / 100;
    let at = life * 2 / 3 - life * u32::try_from(early).unwrap_or(0) / 100;
    // A clock that was set back to before the beginning says nothing: wait the whole time.
    at.checked_sub(since(certificate.begins, now)).filter(|rest| !rest.is_zero())
}

fn since(earlier: Timestamp, later: Timestamp) -> Duration {
    Duration::try_from(later.duration_since(earlier)).unwrap_or(Duration::ZERO)
}

/// 0 to 99, the same for a name at every start (FNV-1a).
fn share(name: &str) -> u64 {
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    hash % 100
}

#[cfg(test)]
mod tests;
