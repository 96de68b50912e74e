//! What a reflector answers, and how it counts.

use std::collections::BTreeMap;
use std::time::Duration;

use super::clock::{ErrorEstimate, Timestamp};
use super::options;
use super::packet::{Answer, Mode, Refusal, Request};

/// What the reflector saw of a request beside its octets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sight {
    /// When it came, and when the answer goes, on the clock of the reflector.
    pub received: Timestamp,
    pub sent: Timestamp,
    /// 255 where the system does not say.
    pub hops_left: u8,
    /// The number of the answer in its session; that of the request where nobody counts.
    pub sequence: Option<u32>,
}

/// Makes the request in `packet` its answer, as long as it was.
pub fn reflect(mode: &Mode, packet: &mut [u8], sight: &Sight) -> Result<Request, Refusal> {
    let request = Request::decode(mode, packet)?;
    let answer = Answer {
        sequence: sight.sequence.unwrap_or(request.sequence),
        sent: sight.sent,
        error: ErrorEstimate::UNKNOWN,
        session: request.session,
        received: sight.received,
        request,
        hops_left: sight.hops_left,
    };
    let fixed = mode.length();
    packet[..fixed].fill(0);
    answer.write(mode, packet);
    options::judge(mode, request.sequence, packet);
    mode.seal(packet);
    Ok(request)
}

/// Counts the answers of each session, so that a sender can tell on which way its packets get lost. Bounded:
/// who has been silent for the longest time is forgotten for a new one, and is counted from the start again.
#[derive(Clone, Debug)]
pub struct Sessions<P> {
    most: usize,
    counts: BTreeMap<(P, u16), Count>,
}

#[derive(Clone, Debug)]
struct Count {
    next: u32,
    heard: Duration,
}

impl<P: Ord + Clone> Sessions<P> {
    pub fn new(most: usize) -> Sessions<P> {
        Sessions { most: most.max(1), counts: BTreeMap::new() }
    }

    /// The number of the next answer to this peer.
    pub fn count(&mut self, peer: P, session: u16, now: Duration) -> u32 {
        let key = (peer, session);
        if !self.counts.contains_key(&key) && self.counts.len() >= self.most {
            let silent = self.counts.iter().min_by_key(|(_, count)| count.heard);
            if let Some(key) = silent.map(|(key, _)| key.clone()) {
                self.counts.remove(&key);
            }
        }
        let count = self.counts.entry(key).or_insert(Count { next: 0, heard: now });
        let number = count.next;
        *count = Count { next: number.wrapping_add(1), heard: now };
        number
    }
}
