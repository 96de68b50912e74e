//! Values as what changed in their bits since the one before (Gorilla): for floats that are no short decimals.

use super::bits::{BitReader, BitWriter};
use crate::sample::Sample;

/// The part of a word that is written: leading zeros, and the length after them.
#[derive(Clone, Copy)]
struct Window {
    leading: u32,
    length: u32,
}

impl Window {
    const NONE: Window = Window { leading: 64, length: 0 };

    /// Five bits hold the leading zeros, so that more than 31 count as 31.
    fn around(word: u64) -> Self {
        let leading = word.leading_zeros().min(31);
        Self { leading, length: 64 - leading - word.trailing_zeros() }
    }

    fn holds(self, word: u64) -> bool {
        self.length > 0
            && word.leading_zeros() >= self.leading
            && word.trailing_zeros() >= 64 - self.leading - self.length
    }
}

/// How many bits [`write`] would take.
pub(super) fn bits(samples: &[Sample]) -> usize {
    let mut window = Window::NONE;
    let mut total = 64;
    for pair in samples.windows(2) {
        let word = pair[0].value.to_bits() ^ pair[1].value.to_bits();
        total += if word == 0 {
            1
        } else if window.holds(word) {
            2 + window.length as usize
        } else {
            window = Window::around(word);
            13 + window.length as usize
        };
    }
    total
}

/// All values but the first.
pub(super) fn write(writer: &mut BitWriter, samples: &[Sample]) {
    let mut window = Window::NONE;
    for pair in samples.windows(2) {
        let word = pair[0].value.to_bits() ^ pair[1].value.to_bits();
        if word == 0 {
            writer.write(0, 1);
            continue;
        }
        if window.holds(word) {
            writer.write(0b10, 2);
        } else {
            window = Window::around(word);
            writer.write(0b11, 2);
            writer.write(u64::from(window.leading), 5);
            // 64 does not fit, and 0 does not occur.
            writer.write(u64::from(window.length - 1), 6);
        }
        writer.write(word >> (64 - window.leading - window.length), window.length);
    }
}

/// The first sample has its value already.
pub(super) fn read(reader: &mut BitReader<'_>, samples: &mut [Sample]) -> Option<()> {
    let mut window = Window::NONE;
    let mut word = samples.first()?.value.to_bits();
    for sample in &mut samples[1..] {
        if reader.read(1)? == 1 {
            if reader.read(1)? == 1 {
                let leading = reader.read(5)? as u32;
                let length = reader.read(6)? as u32 + 1;
                window = Window { leading, length };
            }
            if window.length == 0 || window.leading + window.length > 64 {
                return None;
            }
            word ^= reader.read(window.length)? << (64 - window.leading - window.length);
        }
        sample.value = f64::from_bits(word);
    }
    Some(())
}
