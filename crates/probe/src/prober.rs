//! Probes one peer: a few packets for the delay, or a train of them for the bandwidth.

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::net::UdpSocket;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tombolo_network::bandwidth::{Arrival, Rate, rate};
use tombolo_network::stamp::{Answer, ErrorEstimate, Mode, Request, Timestamp};
use tombolo_network::window::{PATIENCE, Taken};
use tombolo_network::{Summary, Window};

use crate::clock::time_of_day;
use crate::reflector::is_of_a_peer;

/// What a window of one prober spans. Longer than the slowest pace at which agents probe.
const WINDOW: Duration = Duration::from_secs(15 * 60);
const PACKET_MOST: usize = 2048;
/// Octets of a packet of a train before UDP, IP and the link put theirs around it: fits a link that takes 1,500.
const TRAIN_PACKET: usize = 1400;
/// What UDP and IPv4 put around it, and IPv6.
const AROUND_V4: u32 = 28;
const AROUND_V6: u32 = 48;
/// A link in between takes frames, with fourteen octets of its own.
const FRAME: u32 = 14;
/// Trains are sessions of their own, or their packets would be taken for lost probes.
const OF_TRAINS: u16 = 1 << 15;
/// Packets of a train at most; the reflector answers no more at once.
const TRAIN_MOST: u32 = 1_000;

/// What a peer did with the probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Echo {
    Answered,
    /// Its system says that nobody listens there.
    Refused,
    Silent,
}

/// What some probes of the delay brought.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Delays {
    pub echo: Echo,
    /// Of the whole window, these probes included.
    pub summary: Summary,
    /// Of the latest of these probes that was answered.
    pub latest: Option<Duration>,
    /// How many packets got lost on the way there, as far as the reflector counts; the rest were lost on the way back.
    pub lost_there: Option<u32>,
}

/// What a train brought. Bits are counted as a link does, with the heads of IP and of the frame.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Train {
    pub echo: Echo,
    pub there: Option<Rate>,
    /// Of the way back, if it is narrower than the way there: answers come no faster than the train arrived.
    pub back: Option<Rate>,
    /// Sent and received on the wire.
    pub octets: u64,
}

#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    #[error("cannot open a socket to {peer}")]
    Open { peer: SocketAddr, source: io::Error },
    #[error("the socket to {peer} has failed")]
    Socket { peer: SocketAddr, source: io::Error },
}

/// A socket to one peer, and what it has brought so far.
#[derive(Debug)]
pub struct Prober {
    socket: UdpSocket,
    peer: SocketAddr,
    mode: Mode,
    session: u16,
    started: Instant,
    window: Window,
    counted: Counted,
    latest: Option<Duration>,
    trains: u32,
}

/// What the numbers of answers say: a reflector that counts gives each a number of its own.
#[derive(Debug, Default)]
struct Counted {
    /// Its number and ours, of the first answer and of the latest.
    first: Option<(u32, u32)>,
    latest: (u32, u32),
    /// Whether it ever gave a number that is not ours.
    counts: bool,
}

impl Prober {
    /// `session` tells several senders of one machine apart.
    pub async fn open(peer: SocketAddr, mode: Mode, session: u16) -> Result<Prober, ProbeError> {
        let any: SocketAddr = match peer {
            SocketAddr::V4(_) => ([0, 0, 0, 0], 0).into(),
            SocketAddr::V6(_) => ([0; 16], 0).into(),
        };
        let bound = UdpSocket::bind(any).await;
        let socket = bound.map_err(|source| ProbeError::Open { peer, source })?;
        Prober::over(socket, peer, mode, session).await
    }

    /// Over a socket that is bound already.
    pub async fn over(
        socket: UdpSocket,
        peer: SocketAddr,
        mode: Mode,
        session: u16,
    ) -> Result<Prober, ProbeError> {
        // Connected, so that only the peer is heard, and that the system tells us when nobody listens.
        let connected = socket.connect(peer).await;
        connected.map_err(|source| ProbeError::Open { peer, source })?;
        let started = Instant::now();
        let window = Window::new(WINDOW);
        let counted = Counted::default();
        Ok(Prober {
            socket,
            peer,
            mode,
            session,
            started,
            window,
            counted,
            latest: None,
            trains: 0,
        })
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    /// Sends so many packets, one each `every`, and waits for the answers for as long as they are worth.
    pub async fn delays(&mut self, probes: u32, every: Duration) -> Result<Delays, ProbeError> {
        let mut ticks = interval(every.max(Duration::from_millis(1)));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut buffer = [0; PACKET_MOST];
        let (mut left, mut open, mut echo) = (probes, 0u32, Echo::Silent);
        let mut until = None;
        self.latest = None;
        while left > 0 || open > 0 {
            let now = self.now();
            if left == 0 && until.is_some_and(|until| now >= until) {
                break;
            }
            let wait = until.map_or(PATIENCE, |until: Duration| until.saturating_sub(now));
            tokio::select! {
                biased;
                received = self.socket.recv(&mut buffer) => match received {
                    Ok(length) => {
                        let now = self.now();
                        if self.take(&buffer[..length], now) {
                            open = open.saturating_sub(1);
                            echo = Echo::Answered;
                        }
                    }
                    Err(error) => self.note(error, &mut echo)?,
                },
                _ = ticks.tick(), if left > 0 => {
                    left -= 1;
                    open += 1;
                    self.send(&mut echo).await?;
                    until = Some(self.now() + PATIENCE);
                }
                () = tokio::time::sleep(wait), if left == 0 => {}
            }
        }
        let now = self.now();
        let summary = self.window.summary(now);
        let lost_there = self.counted.lost_there();
        Ok(Delays { echo, summary, latest: self.latest, lost_there })
    }

    async fn send(&mut self, echo: &mut Echo) -> Result<(), ProbeError> {
        let sent = time_of_day();
        let error = ErrorEstimate::UNKNOWN;
        let session = self.session;
        // As late as possible, so that what happens here does not count.
        let now = self.now();
        let sequence = self.window.send(now);
        let packet = Request { sequence, sent, error, session }.encode(&self.mode, 0);
        match self.socket.send(&packet).await {
            Ok(_) => Ok(()),
            Err(error) => self.note(error, echo),
        }
    }

    /// What the system says of the peer is part of the answer; anything else is a broken socket.
    fn note(&self, source: io::Error, echo: &mut Echo) -> Result<(), ProbeError> {
        if !is_of_a_peer(&source) {
            return Err(ProbeError::Socket { peer: self.peer, source });
        }
        if source.kind() == io::ErrorKind::ConnectionRefused && *echo == Echo::Silent {
            *echo = Echo::Refused;
        }
        Ok(())
    }

    /// Whether this is an answer that somebody waits for.
    fn take(&mut self, packet: &[u8], now: Duration) -> bool {
        let Ok(answer) = Answer::decode(&self.mode, packet) else { return false };
        if answer.session != self.session && answer.session != 0 {
            return false;
        }
        let taken = self.window.answered(answer.request.sequence, answer.held(), now);
        let Taken::Delay(delay) = taken else { return false };
        self.latest = Some(delay);
        self.counted.take(answer.sequence, answer.request.sequence);
        true
    }

    /// Sends a train, as fast as the machine can, and reads at which times it arrived there and came back.
    pub async fn train(&mut self, packets: u32) -> Result<Train, ProbeError> {
        let packets = packets.min(TRAIN_MOST);
        let around = match self.peer {
            SocketAddr::V4(_) => AROUND_V4,
            SocketAddr::V6(_) => AROUND_V6,
        };
        let length = u32::try_from(TRAIN_PACKET).unwrap_or(u32::MAX) + around + FRAME;
        // A number of its own for each train: what is left of an earlier one must not be taken for this.
        self.trains = self.trains.wrapping_add(1);
        let first = self.trains << 12;
        let mut echo = Echo::Silent;
        let mut sent = 0;
        for index in 0..packets {
            let request = Request {
                sequence: first.wrapping_add(index),
                sent: time_of_day(),
                error: ErrorEstimate::UNKNOWN,
                session: self.session ^ OF_TRAINS,
            };
            match self.socket.send(&request.encode(&self.mode, TRAIN_PACKET)).await {
                Ok(_) => sent += 1,
                Err(error) => self.note(error, &mut echo)?,
            }
        }
        let arrived = self.collect(first, packets, &mut echo).await?;
        let octets = u64::from(length) * (sent + arrived.back.len() as u64);
        Ok(Train {
            echo,
            there: rate(&arrived.there, packets, length),
            back: rate(&arrived.back, packets, length),
            octets,
        })
    }

    async fn collect(
        &mut self,
        first: u32,
        packets: u32,
        echo: &mut Echo,
    ) -> Result<Arrived, ProbeError> {
        let mut arrived = Arrived::default();
        let mut buffer = [0; PACKET_MOST];
        let wanted = usize::try_from(packets).unwrap_or(usize::MAX);
        while arrived.back.len() < wanted {
            let received = match timeout(PATIENCE, self.socket.recv(&mut buffer)).await {
                Err(_) => break,
                Ok(Ok(length)) => &buffer[..length],
                Ok(Err(error)) => {
                    self.note(error, echo)?;
                    continue;
                }
            };
            let at = self.now();
            let Ok(answer) = Answer::decode(&self.mode, received) else { continue };
            let index = answer.request.sequence.wrapping_sub(first);
            if index < packets && answer.session != self.session {
                *echo = Echo::Answered;
                arrived.take(index, at, answer.received);
            }
        }
        Ok(arrived)
    }
}

#[derive(Default)]
struct Arrived {
    /// By the clock of the reflector, since the first that arrived.
    there: Vec<Arrival>,
    back: Vec<Arrival>,
    first: Option<Timestamp>,
}

impl Arrived {
    fn take(&mut self, index: u32, at: Duration, received: Timestamp) {
        let first = *self.first.get_or_insert(received);
        self.back.push(Arrival { index, at });
        // Before the first: overtaken, or a clock that was set.
        self.there.extend(received.since(first).map(|at| Arrival { index, at }));
    }
}

impl Counted {
    fn take(&mut self, own: u32, ours: u32) {
        self.counts |= own != ours;
        self.first.get_or_insert((own, ours));
        // What was overtaken says less than what is known.
        if ours.wrapping_sub(self.latest.1) < 1 << 31 || self.first == Some((own, ours)) {
            self.latest = (own, ours);
        }
    }

    /// What the reflector did not count, up to the latest answer, did not reach it.
    fn lost_there(&self) -> Option<u32> {
        let (own, ours) = self.first.filter(|_| self.counts)?;
        let (sent, counted) = (self.latest.1.wrapping_sub(ours), self.latest.0.wrapping_sub(own));
        Some(sent.saturating_sub(counted))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(numbers: &[(u32, u32)], lost_there: Option<u32>) {
        let mut counted = Counted::default();
        for (own, ours) in numbers {
            counted.take(*own, *ours);
        }
        assert_eq!(counted.lost_there(), lost_there);
    }

    #[test]
    fn the_numbers_of_a_reflector_that_counts_tell_on_which_way_packets_got_lost() {
        // All arrived there; the answer to the third was lost.
        check(&[(0, 1), (1, 2), (3, 4)], Some(0));
        // The third never arrived.
        check(&[(0, 1), (1, 2), (2, 4)], Some(1));
        check(&[(0, 1), (2, 4), (1, 2)], Some(1));
        check(&[(u32::MAX, 1), (0, 2)], Some(0));
    }

    #[test]
    fn one_that_only_repeats_tells_nothing() {
        check(&[(1, 1), (2, 2), (4, 4)], None);
        check(&[], None);
    }
}
