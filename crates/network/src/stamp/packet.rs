//! The packets themselves: fields at fixed places, in two layouts.

use super::clock::{ErrorEstimate, Timestamp};
use super::mac::{CODE, Key};
use super::options;

/// Whether packets carry a code that only who knows the secret can make.
#[derive(Clone, Debug)]
pub enum Mode {
    Open,
    Authenticated(Key),
}

/// Why a packet is thrown away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("the packet has {found} octets and needs {least}")]
    Short { found: usize, least: usize },
    #[error("the code of the packet is not of the secret that was agreed upon")]
    Code,
    #[error("the packet says nothing of the error of its clock")]
    Estimate,
}

/// What a sender writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    pub sequence: u32,
    pub sent: Timestamp,
    pub error: ErrorEstimate,
    /// Which of several sessions between the same ends it is (RFC 8972); 0 if nobody asks.
    pub session: u16,
}

/// What a reflector writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// That of the request, or the reflector's own count.
    pub sequence: u32,
    pub sent: Timestamp,
    pub error: ErrorEstimate,
    pub session: u16,
    /// When the request came.
    pub received: Timestamp,
    /// What the request said.
    pub request: Request,
    /// How many more hops the request could have gone.
    pub hops_left: u8,
}

/// Where the fields of a layout begin.
struct Layout {
    length: usize,
    sent: usize,
    error: usize,
    session: usize,
    received: usize,
    request_sequence: usize,
    request_sent: usize,
    request_error: usize,
    hops_left: usize,
}

const OPEN: Layout = Layout {
    length: 44,
    sent: 4,
    error: 12,
    session: 14,
    received: 16,
    request_sequence: 24,
    request_sent: 28,
    request_error: 36,
    hops_left: 40,
};

const AUTHENTICATED: Layout = Layout {
    length: 112,
    sent: 16,
    error: 24,
    session: 26,
    received: 32,
    request_sequence: 48,
    request_sent: 64,
    request_error: 72,
    hops_left: 80,
};

impl Mode {
    fn layout(&self) -> &'static Layout {
        match self {
            Mode::Open => &OPEN,
            Mode::Authenticated(_) => &AUTHENTICATED,
        }
    }

    /// Octets of a packet without options.
    pub fn length(&self) -> usize {
        self.layout().length
    }

    /// Cuts a packet into its fixed part and its options, if its code is right.
    pub(super) fn open<'a>(&self, packet: &'a [u8]) -> Result<(&'a [u8], &'a [u8]), Refusal> {
        let least = self.length();
        if packet.len() < least {
            return Err(Refusal::Short { found: packet.len(), least });
        }
        let (fixed, rest) = packet.split_at(least);
        if let Mode::Authenticated(key) = self {
            let (signed, code) = fixed.split_at(least - CODE);
            if !key.holds(&[signed], code) {
                return Err(Refusal::Code);
            }
        }
        Ok((fixed, rest))
    }

    /// Puts the code at the end of the fixed part.
    pub(super) fn seal(&self, packet: &mut [u8]) {
        if let Mode::Authenticated(key) = self {
            let (signed, code) = packet[..AUTHENTICATED.length].split_at_mut(112 - CODE);
            code.copy_from_slice(&key.code(&[signed]));
        }
    }
}

impl Request {
    /// The packet, filled up to `length` octets with an option for that purpose. Less than a packet
    /// needs gives a packet without.
    pub fn encode(&self, mode: &Mode, length: usize) -> Vec<u8> {
        let layout = mode.layout();
        let mut packet = vec![0; layout.length];
        put_u32(&mut packet, 0, self.sequence);
        put_stamp(&mut packet, layout.sent, self.sent);
        put_u16(&mut packet, layout.error, self.error.bits());
        put_u16(&mut packet, layout.session, self.session);
        mode.seal(&mut packet);
        options::fill_up(&mut packet, mode, length);
        packet
    }

    pub fn decode(mode: &Mode, packet: &[u8]) -> Result<Request, Refusal> {
        let (fixed, _) = mode.open(packet)?;
        let layout = mode.layout();
        let request = Request {
            session: u16_at(fixed, layout.session),
            ..Request::at(fixed, 0, layout.sent, layout.error)
        };
        if request.error.multiplier == 0 {
            return Err(Refusal::Estimate);
        }
        Ok(request)
    }

    /// What stands at three places of a packet, of a session that is not said there.
    fn at(packet: &[u8], sequence: usize, sent: usize, error: usize) -> Request {
        let error = ErrorEstimate::of_bits(u16_at(packet, error));
        let sent = Timestamp { bits: u64_at(packet, sent), format: error.format };
        Request { sequence: u32_at(packet, sequence), sent, error, session: 0 }
    }
}

impl Answer {
    /// The packet, without options. Its request may differ in nothing but what the layout has no place for.
    pub fn encode(&self, mode: &Mode) -> Vec<u8> {
        let mut packet = vec![0; mode.length()];
        self.write(mode, &mut packet);
        mode.seal(&mut packet);
        packet
    }

    pub(super) fn write(&self, mode: &Mode, packet: &mut [u8]) {
        let layout = mode.layout();
        put_u32(packet, 0, self.sequence);
        put_stamp(packet, layout.sent, self.sent);
        put_u16(packet, layout.error, self.error.bits());
        put_u16(packet, layout.session, self.session);
        put_stamp(packet, layout.received, self.received);
        put_u32(packet, layout.request_sequence, self.request.sequence);
        put_stamp(packet, layout.request_sent, self.request.sent);
        put_u16(packet, layout.request_error, self.request.error.bits());
        packet[layout.hops_left] = self.hops_left;
    }

    pub fn decode(mode: &Mode, packet: &[u8]) -> Result<Answer, Refusal> {
        let (fixed, _) = mode.open(packet)?;
        let layout = mode.layout();
        let own = Request::at(fixed, 0, layout.sent, layout.error);
        let session = u16_at(fixed, layout.session);
        let received = Timestamp { bits: u64_at(fixed, layout.received), format: own.error.format };
        let places = (layout.request_sequence, layout.request_sent, layout.request_error);
        let request = Request { session, ..Request::at(fixed, places.0, places.1, places.2) };
        let hops_left = fixed[layout.hops_left];
        let Request { sequence, sent, error, .. } = own;
        Ok(Answer { sequence, sent, error, session, received, request, hops_left })
    }

    /// For how long the reflector had the request, if its clock went forward meanwhile. Both times are its
    /// own, so that its clock need not be right.
    pub fn held(&self) -> Option<std::time::Duration> {
        self.sent.since(self.received)
    }
}

fn put_u16(packet: &mut [u8], at: usize, value: u16) {
    packet[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

fn put_u32(packet: &mut [u8], at: usize, value: u32) {
    packet[at..at + 4].copy_from_slice(&value.to_be_bytes());
}

fn put_stamp(packet: &mut [u8], at: usize, stamp: Timestamp) {
    packet[at..at + 8].copy_from_slice(&stamp.bits.to_be_bytes());
}

fn octets<const N: usize>(packet: &[u8], at: usize) -> [u8; N] {
    let mut octets = [0; N];
    octets.copy_from_slice(&packet[at..at + N]);
    octets
}

fn u16_at(packet: &[u8], at: usize) -> u16 {
    u16::from_be_bytes(octets(packet, at))
}

fn u32_at(packet: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(octets(packet, at))
}

fn u64_at(packet: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(octets(packet, at))
}
