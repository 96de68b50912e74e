//! What may stand behind a packet: types, lengths and values (RFC 8972).
//!
//! We send one, to make a packet longer. A reflector echoes all, tells which it does not know, and stops at
//! the first that does not fit.

use super::mac::{CODE, Key};
use super::packet::Mode;

const HEAD: usize = 4;
const FLAG_UNKNOWN: u8 = 0x80;
const FLAG_MALFORMED: u8 = 0x40;
const FLAG_FORGED: u8 = 0x20;
const FLAGS: u8 = FLAG_UNKNOWN | FLAG_MALFORMED | FLAG_FORGED;
const TYPE_PADDING: u8 = 1;
const TYPE_CODE: u8 = 8;

/// One option as received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extension<'a> {
    pub flags: u8,
    pub kind: u8,
    pub value: &'a [u8],
}

impl Extension<'_> {
    /// Whether the reflector says that it does not know this one.
    pub fn is_unknown(&self) -> bool {
        self.flags & FLAG_UNKNOWN != 0
    }

    /// Whether the reflector says that it cannot believe this one.
    pub fn is_forged(&self) -> bool {
        self.flags & FLAG_FORGED != 0
    }
}

/// The options behind a packet, one after the other, up to the first that does not fit.
#[derive(Clone, Debug)]
pub struct Extensions<'a> {
    rest: &'a [u8],
}

impl<'a> Extensions<'a> {
    /// Of a whole packet. One too short has none.
    pub fn of(mode: &Mode, packet: &'a [u8]) -> Extensions<'a> {
        Extensions { rest: packet.get(mode.length()..).unwrap_or_default() }
    }
}

impl<'a> Iterator for Extensions<'a> {
    type Item = Extension<'a>;

    fn next(&mut self) -> Option<Extension<'a>> {
        let (&[flags, kind, high, low], rest) = self.rest.split_first_chunk::<HEAD>()?;
        let length = usize::from(u16::from_be_bytes([high, low]));
        let Some((value, rest)) = rest.split_at_checked(length) else {
            self.rest = &[];
            return None;
        };
        self.rest = rest;
        Some(Extension { flags, kind, value })
    }
}

/// Makes a packet `length` octets long. What is missing to the head of an option is left out. Who has a secret
/// signs the option as well, or nobody would believe it.
pub(super) fn fill_up(packet: &mut Vec<u8>, mode: &Mode, length: usize) {
    let code = match mode {
        Mode::Open => 0,
        Mode::Authenticated(_) => HEAD + CODE,
    };
    let Some(filling) = length.checked_sub(packet.len() + code + HEAD) else { return };
    let Ok(octets) = u16::try_from(filling) else { return };
    let from = packet.len();
    packet.extend([FLAG_UNKNOWN, TYPE_PADDING]);
    packet.extend(octets.to_be_bytes());
    packet.resize(packet.len() + filling, 0);
    if let Mode::Authenticated(key) = mode {
        packet.extend([FLAG_UNKNOWN, TYPE_CODE, 0, 16]);
        let signed = packet.len() - HEAD;
        let code = key.code(&[&packet[..4], &packet[from..signed]]);
        packet.extend(code);
    }
}

/// Marks, in an answer that still has the options of its request, which of them count. `sequence` is that
/// of the request, for its code.
pub(super) fn judge(mode: &Mode, sequence: u32, answer: &mut [u8]) {
    let fixed = mode.length();
    let places = places(&answer[fixed..]);
    let believed = match mode {
        Mode::Open => true,
        Mode::Authenticated(key) => is_signed(key, sequence, &answer[fixed..], &places),
    };
    let mut known_end = fixed;
    for place in &places {
        let head = fixed + place.from;
        known_end = head + HEAD + place.length;
        let kind = answer[head + 1];
        let is_known =
            matches!((mode, kind), (_, TYPE_PADDING) | (Mode::Authenticated(_), TYPE_CODE));
        answer[head] &= !FLAGS;
        if !is_known {
            answer[head] |= FLAG_UNKNOWN;
        }
        if !believed {
            answer[head] |= FLAG_FORGED;
        }
    }
    if answer.len() - known_end >= HEAD {
        answer[known_end] = answer[known_end] & !FLAGS | FLAG_MALFORMED;
    }
    if let (Mode::Authenticated(key), true, Some(last)) = (mode, believed, places.last()) {
        let (signed, code) = answer.split_at_mut(fixed + last.from + HEAD);
        let options = &signed[fixed..fixed + last.from];
        code[..CODE].copy_from_slice(&key.code(&[&signed[..4], options]));
    }
}

struct Place {
    from: usize,
    length: usize,
}

fn places(options: &[u8]) -> Vec<Place> {
    let mut from = 0;
    let places = Extensions { rest: options }.map(|option| {
        let place = Place { from, length: option.value.len() };
        from += HEAD + option.value.len();
        place
    });
    places.collect()
}

/// Whether the last option is a code over all others and the number of the packet; without options there is
/// nothing to believe.
fn is_signed(key: &Key, sequence: u32, options: &[u8], places: &[Place]) -> bool {
    let Some(last) = places.last() else { return true };
    let value = &options[last.from + HEAD..last.from + HEAD + last.length];
    options[last.from + 1] == TYPE_CODE
        && key.holds(&[&sequence.to_be_bytes(), &options[..last.from]], value)
}
