//! Answers the packets of whoever probes. One for each agent.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::net::UdpSocket;
use tombolo_network::stamp::{Mode, Sessions, Sight, reflect};

use crate::clock::time_of_day;

/// Senders that are counted apart; each is some hundred bytes.
const SESSIONS_MOST: usize = 4096;
/// Octets of a packet. Larger ones arrive in pieces and measure nothing.
const PACKET_MOST: usize = 2048;
/// Answers a second, and at once: two full trains at a gigabit. Who sends more is not probing.
const ANSWERS_A_SECOND: f64 = 20_000.0;
const ANSWERS_AT_ONCE: f64 = 4_000.0;
/// The system does not say through this socket how far a packet could have gone.
const HOPS_UNKNOWN: u8 = 255;

/// How a reflector fares.
#[derive(Debug, Default)]
pub struct Counts {
    answered: AtomicU64,
    refused: AtomicU64,
}

impl Counts {
    pub fn answered(&self) -> u64 {
        self.answered.load(Ordering::Relaxed)
    }

    /// Packets that were none, had no right code, or were too many.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }
}

/// A socket that sends back what it gets, with the times at which it did.
#[derive(Debug)]
pub struct Reflector {
    socket: UdpSocket,
    mode: Mode,
    counts: Arc<Counts>,
}

impl Reflector {
    pub async fn bind(address: SocketAddr, mode: Mode) -> io::Result<Reflector> {
        Ok(Reflector::new(UdpSocket::bind(address).await?, mode))
    }

    pub fn new(socket: UdpSocket, mode: Mode) -> Reflector {
        Reflector { socket, mode, counts: Arc::default() }
    }

    pub fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    pub fn counts(&self) -> Arc<Counts> {
        Arc::clone(&self.counts)
    }

    /// Answers until the socket fails. An answer that cannot be sent is one that was lost.
    pub async fn run(self) -> io::Result<()> {
        let started = Instant::now();
        let mut sessions = Sessions::new(SESSIONS_MOST);
        let mut pace = Pace { left: ANSWERS_AT_ONCE, at: Duration::ZERO };
        let mut buffer = [0; PACKET_MOST];
        loop {
            let (length, peer) = match self.socket.recv_from(&mut buffer).await {
                Ok(received) => received,
                Err(error) if is_of_a_peer(&error) => continue,
                Err(error) => return Err(error),
            };
            let received = time_of_day();
            let now = started.elapsed();
            // What fills the buffer was longer, and has lost its end.
            let fits = length < PACKET_MOST && pace.allows(now);
            let packet = &mut buffer[..length];
            if fits && self.answer(packet, peer, received, &mut sessions, now) {
                self.counts.answered.fetch_add(1, Ordering::Relaxed);
                let _ = self.socket.send_to(packet, peer).await;
            } else {
                self.counts.refused.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    fn answer(
        &self,
        packet: &mut [u8],
        peer: SocketAddr,
        received: tombolo_network::stamp::Timestamp,
        sessions: &mut Sessions<SocketAddr>,
        now: Duration,
    ) -> bool {
        let Ok(request) = tombolo_network::stamp::Request::decode(&self.mode, packet) else {
            return false;
        };
        let sequence = Some(sessions.count(peer, request.session, now));
        let sent = time_of_day();
        let sight = Sight { received, sent, hops_left: HOPS_UNKNOWN, sequence };
        reflect(&self.mode, packet, &sight).is_ok()
    }
}

/// Whether the system tells us what became of an earlier answer, and not that the socket is broken.
pub(crate) fn is_of_a_peer(error: &io::Error) -> bool {
    use io::ErrorKind::{
        ConnectionRefused, ConnectionReset, HostUnreachable, Interrupted, NetworkDown,
        NetworkUnreachable,
    };
    let kind = error.kind();
    matches!(kind, ConnectionRefused | ConnectionReset | HostUnreachable | NetworkUnreachable)
        || matches!(kind, NetworkDown | Interrupted)
}

struct Pace {
    left: f64,
    at: Duration,
}

impl Pace {
    fn allows(&mut self, now: Duration) -> bool {
        let earned = now.saturating_sub(self.at).as_secs_f64() * ANSWERS_A_SECOND;
        self.left = (self.left + earned).min(ANSWERS_AT_ONCE);
        self.at = now;
        let allows = self.left >= 1.0;
        if allows {
            self.left -= 1.0;
        }
        allows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_answered_at_the_pace_of_the_reflector() {
        let mut pace = Pace { left: ANSWERS_AT_ONCE, at: Duration::ZERO };
        let allowed = (0..100_000u64).filter(|n| pace.allows(Duration::from_micros(n * 10)));
        // A second long: what was there at once, and what a second brings.
        let allowed = allowed.count();
        assert!((23_900..=24_001).contains(&allowed), "{allowed}");
    }
}
