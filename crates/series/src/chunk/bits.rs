//! Bits one after the other, most significant first, and whole numbers of variable length before them.

/// Writes bits.
#[derive(Debug, Default)]
pub(super) struct BitWriter {
    bytes: Vec<u8>,
    /// Bits that do not yet fill a word, at its upper end.
    pending: u64,
    used: u32,
}

impl BitWriter {
    /// Continues after bytes that are whole already.
    pub(super) fn after(bytes: Vec<u8>) -> Self {
        Self { bytes, pending: 0, used: 0 }
    }

    /// The lowest `count` bits of `value`.
    pub(super) fn write(&mut self, value: u64, count: u32) {
        debug_assert!(count <= 64);
        if count == 0 {
            return;
        }
        let value = if count == 64 { value } else { value & ((1 << count) - 1) };
        let room = 64 - self.used;
        if count < room {
            self.pending |= value << (room - count);
            self.used += count;
            return;
        }
        let left = count - room;
        self.bytes.extend_from_slice(&(self.pending | (value >> left)).to_be_bytes());
        self.pending = if left == 0 { 0 } else { value << (64 - left) };
        self.used = left;
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        let whole = self.used.div_ceil(8) as usize;
        self.bytes.extend_from_slice(&self.pending.to_be_bytes()[..whole]);
        self.bytes
    }
}

/// Reads bits, and never beyond the end.
#[derive(Clone, Debug)]
pub(super) struct BitReader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> BitReader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// At least the next 57 bits, at the upper end; zeros beyond the end.
    #[inline]
    pub(super) fn peek(&self) -> u64 {
        let byte = self.at / 8;
        let word = match self.bytes.get(byte..byte + 8) {
            Some(bytes) => {
                let mut word = [0; 8];
                word.copy_from_slice(bytes);
                u64::from_be_bytes(word)
            }
            None => self.peek_near_end(byte),
        };
        word << (self.at % 8)
    }

    #[cold]
    fn peek_near_end(&self, byte: usize) -> u64 {
        let mut word = [0; 8];
        if let Some(rest) = self.bytes.get(byte..) {
            word[..rest.len()].copy_from_slice(rest);
        }
        u64::from_be_bytes(word)
    }

    #[inline]
    pub(super) fn skip(&mut self, count: u32) -> Option<()> {
        self.at += count as usize;
        (self.at <= self.bytes.len() * 8).then_some(())
    }

    #[inline]
    pub(super) fn read(&mut self, count: u32) -> Option<u64> {
        if count == 0 {
            return Some(0);
        }
        if count > 56 {
            let high = self.read(count - 32)?;
            return Some((high << 32) | self.read(32)?);
        }
        let value = self.peek() >> (64 - count);
        self.skip(count)?;
        Some(value)
    }
}

/// Whole numbers, seven bits a byte (LEB128).
pub(crate) fn put_uvarint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

pub(crate) fn put_varint(out: &mut Vec<u8>, value: i64) {
    put_uvarint(out, zigzag(value));
}

/// Takes a number off the front.
pub(crate) fn take_uvarint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let low = u64::from(byte & 0x7f);
        if shift == 63 && low > 1 {
            return None;
        }
        value |= low << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

pub(crate) fn take_varint(bytes: &mut &[u8]) -> Option<i64> {
    take_uvarint(bytes).map(unzigzag)
}

/// Small numbers of either sign become small numbers.
pub(crate) fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

pub(crate) fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn bits_come_back(values in prop::collection::vec((any::<u64>(), 0_u32..=64), 0..200)) {
            let mut writer = BitWriter::default();
            for (value, count) in &values {
                writer.write(*value, *count);
            }
            let bytes = writer.finish();
            let mut reader = BitReader::new(&bytes);
            for (value, count) in &values {
                let kept = if *count == 64 { *value } else { value & ((1 << count) - 1) };
                prop_assert_eq!(reader.read(*count), Some(kept));
            }
            prop_assert!(reader.read(8).is_none());
        }

        #[test]
        fn numbers_come_back(unsigned in any::<u64>(), signed in any::<i64>()) {
            let mut bytes = Vec::new();
            put_uvarint(&mut bytes, unsigned);
            put_varint(&mut bytes, signed);
            let mut rest = bytes.as_slice();
            prop_assert_eq!(take_uvarint(&mut rest), Some(unsigned));
            prop_assert_eq!(take_varint(&mut rest), Some(signed));
            prop_assert!(rest.is_empty());
        }
    }
}
