//! Values as integers of a power of ten: `0.25 0.5 1.75` is `25 50 175` hundredths. Counters and most
//! gauges are short decimals, and their differences are far smaller than the changes in their bits.
//!
//! Each integer is written as its difference from the one before, less the average difference (or less
//! the difference before that), in Rice's code (Rice 1979) with the parameter that suits the chunk. Where most
//! differences are zero, each has a bit of its own that says so.

use super::bits::{
    BitReader, BitWriter, put_uvarint, put_varint, take_uvarint, take_varint, unzigzag, zigzag,
};
use crate::sample::Sample;

/// Powers of ten by which a float is divided exactly as one would write it.
const POWERS: [f64; 13] = [1.0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12];

/// Beyond this a float has no integer of its own.
const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;

/// Quotients from here on are followed by all 64 bits instead.
const QUOTIENT_MAX: u32 = 16;

/// Parameters beyond this are not worth a try: such values are escaped or written as XOR.
const RICE_MAX: u32 = 40;

const SECOND_ORDER: u8 = 1;
const SPARSE: u8 = 2;

/// How differences are written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    power: u8,
    flags: u8,
    rice: u32,
    first: i64,
    /// What every difference is less by.
    average: i64,
}

/// A chunk of decimals, ready to be written.
#[derive(Debug)]
pub(super) struct Decimal {
    head: Head,
    /// Bits of values that are no decimals (NaN, infinities, the end of a series), and where.
    exceptions: Vec<(usize, u64)>,
    differences: Vec<u64>,
    bits: usize,
}

impl Decimal {
    /// None when the values are no decimals with at most twelve places.
    pub(super) fn of(samples: &[Sample]) -> Option<Self> {
        let (power, exceptions) = power_of(samples)?;
        let scale = POWERS[usize::from(power)];
        let mut next_exception = exceptions.iter().map(|(at, _)| *at).peekable();
        let mut last = 0;
        let mut wholes = Vec::with_capacity(samples.len());
        for (number, sample) in samples.iter().enumerate() {
            if next_exception.next_if_eq(&number).is_none() {
                last = (sample.value * scale).round() as i64;
            }
            wholes.push(last);
        }
        Some(Self::shortest(power, exceptions, &wholes))
    }

    fn shortest(power: u8, exceptions: Vec<(usize, u64)>, wholes: &[i64]) -> Self {
        let steps = wholes.len() as i64 - 1;
        let span = wholes[wholes.len() - 1].wrapping_sub(wholes[0]);
        let average = span.checked_div(steps).unwrap_or(0);
        let head = Head { power, flags: 0, rice: 0, first: wholes[0], average };
        let mut best: Option<Self> = None;
        for (flags, average) in [(0, average), (0, 0), (SECOND_ORDER, 0)] {
            let head = Head { flags, average, ..head };
            let differences: Vec<u64> = head.differences(wholes);
            let (sparse, rice, bits) = cheapest(&differences);
            if best.as_ref().is_none_or(|best| bits < best.bits) {
                let head = Head { flags: flags | sparse, rice, ..head };
                best = Some(Self { head, exceptions: Vec::new(), differences, bits });
            }
            if average == 0 && flags == 0 && bits <= wholes.len() {
                break;
            }
        }
        let best =
            best.unwrap_or(Self { head, exceptions: Vec::new(), differences: Vec::new(), bits: 0 });
        let bits = best.bits + 80 * exceptions.len() + 80;
        Self { exceptions, bits, ..best }
    }

    pub(super) fn bits(&self) -> usize {
        self.bits
    }

    pub(super) fn write_head(&self, out: &mut Vec<u8>) {
        out.push(self.head.power | (self.head.flags << 4));
        out.push(self.head.rice as u8);
        put_varint(out, self.head.first);
        put_varint(out, self.head.average);
        put_uvarint(out, self.exceptions.len() as u64);
        for (at, bits) in &self.exceptions {
            put_uvarint(out, *at as u64);
            out.extend_from_slice(&bits.to_be_bytes());
        }
    }

    pub(super) fn write_bits(&self, writer: &mut BitWriter) {
        let rice = self.head.rice;
        for difference in &self.differences {
            let value = if self.head.flags & SPARSE == 0 {
                *difference
            } else if *difference == 0 {
                writer.write(0, 1);
                continue;
            } else {
                writer.write(1, 1);
                difference - 1
            };
            let quotient = value >> rice;
            if quotient >= u64::from(QUOTIENT_MAX) {
                writer.write((1 << QUOTIENT_MAX) - 1, QUOTIENT_MAX);
                writer.write(value, 64);
            } else {
                // So many ones, and a zero.
                writer.write((2 << quotient) - 2, quotient as u32 + 1);
                writer.write(value, rice);
            }
        }
    }
}

/// The least power of ten that makes all values whole, and the values that none makes.
fn power_of(samples: &[Sample]) -> Option<(u8, Vec<(usize, u64)>)> {
    let mut power = 0;
    let mut exceptions = Vec::new();
    // More exceptions than this cost more than they save.
    let exceptions_max = 1 + samples.len() / 16;
    for (number, sample) in samples.iter().enumerate() {
        match power_from(power, sample.value) {
            Some(needed) => power = needed,
            None if exceptions.len() < exceptions_max => {
                exceptions.push((number, sample.value.to_bits()));
            }
            None => return None,
        }
    }
    // What was whole with fewer places may have too many digits with more.
    let scale = POWERS[power];
    let mut known = exceptions.iter().map(|(at, _)| *at).peekable();
    for (number, sample) in samples.iter().enumerate() {
        if known.next_if_eq(&number).is_none() && !is_whole(sample.value, scale) {
            return None;
        }
    }
    Some((power as u8, exceptions))
}

fn power_from(least: usize, value: f64) -> Option<usize> {
    (least..POWERS.len()).find(|power| is_whole(value, POWERS[*power]))
}

#[inline]
fn is_whole(value: f64, scale: f64) -> bool {
    let whole = (value * scale).round();
    whole.abs() < WHOLE_MAX && (whole as i64 as f64 / scale).to_bits() == value.to_bits()
}

/// Whether zeros get a bit of their own, the best parameter, and how many bits that takes.
fn cheapest(differences: &[u64]) -> (u8, u32, usize) {
    let nonzero = differences.iter().filter(|d| **d != 0).count();
    let sum: u128 = differences.iter().map(|d| u128::from(*d)).sum();
    let mut best = (0, 0, usize::MAX);
    for (flags, count, less) in [(0, differences.len(), 0), (SPARSE, nonzero, 1)] {
        if flags == SPARSE && nonzero * 4 > differences.len() * 3 {
            continue;
        }
        // The mean of a geometric distribution gives its best parameter, more or less.
        let mean = sum / (count.max(1) as u128);
        let about = (128 - mean.leading_zeros()).saturating_sub(1).min(RICE_MAX);
        for rice in about.saturating_sub(1)..=(about + 1).min(RICE_MAX) {
            let mut bits = if flags == SPARSE { differences.len() } else { 0 };
            for difference in differences {
                if flags == SPARSE && *difference == 0 {
                    continue;
                }
                bits += rice_bits(difference - less, rice);
            }
            if bits < best.2 {
                best = (flags, rice, bits);
            }
        }
    }
    best
}

#[inline]
fn rice_bits(value: u64, rice: u32) -> usize {
    let quotient = value >> rice;
    if quotient >= u64::from(QUOTIENT_MAX) {
        QUOTIENT_MAX as usize + 64
    } else {
        quotient as usize + 1 + rice as usize
    }
}

impl Head {
    fn differences(&self, wholes: &[i64]) -> Vec<u64> {
        let mut before = self.average;
        let second = self.flags & SECOND_ORDER != 0;
        wholes
            .windows(2)
            .map(|pair| {
                let step = pair[1].wrapping_sub(pair[0]);
                let difference = step.wrapping_sub(before);
                if second {
                    before = step;
                }
                zigzag(difference)
            })
            .collect()
    }

    /// With the exceptions, which follow it.
    pub(super) fn read<'a>(bytes: &mut &'a [u8], count: usize) -> Option<Exceptional<'a>> {
        let (&[first, rice], rest) = bytes.split_first_chunk::<2>()?;
        *bytes = rest;
        let (power, flags) = (first & 0x0f, first >> 4);
        if usize::from(power) >= POWERS.len() || flags > 3 || u32::from(rice) > RICE_MAX {
            return None;
        }
        let first = take_varint(bytes)?;
        let average = take_varint(bytes)?;
        let exceptions = take_uvarint(bytes)? as usize;
        if exceptions > count {
            return None;
        }
        let head = Self { power, flags, rice: u32::from(rice), first, average };
        let listed = *bytes;
        for _ in 0..exceptions {
            take_uvarint(bytes)?;
            *bytes = bytes.get(8..)?;
        }
        Some(Exceptional { head, exceptions, listed })
    }
}

/// A head, and where its exceptions are listed.
#[derive(Debug)]
pub(super) struct Exceptional<'a> {
    head: Head,
    exceptions: usize,
    listed: &'a [u8],
}

impl Exceptional<'_> {
    pub(super) fn read_values(
        &self,
        reader: &mut BitReader<'_>,
        samples: &mut [Sample],
    ) -> Option<()> {
        let head = self.head;
        let scale = POWERS[usize::from(head.power)];
        let (sparse, second) = (head.flags & SPARSE != 0, head.flags & SECOND_ORDER != 0);
        let mut whole = head.first;
        let mut before = head.average;
        let (first, rest) = samples.split_first_mut()?;
        first.value = whole as f64 / scale;
        for sample in rest {
            let difference = if sparse {
                let set = reader.read(1)?;
                if set == 0 { 0 } else { read_rice(reader, head.rice)?.checked_add(1)? }
            } else {
                read_rice(reader, head.rice)?
            };
            let step = unzigzag(difference).wrapping_add(before);
            if second {
                before = step;
            }
            whole = whole.wrapping_add(step);
            sample.value = whole as f64 / scale;
        }
        let mut listed = self.listed;
        for _ in 0..self.exceptions {
            let at = take_uvarint(&mut listed)? as usize;
            let (bits, rest) = listed.split_first_chunk::<8>()?;
            listed = rest;
            samples.get_mut(at)?.value = f64::from_bits(u64::from_be_bytes(*bits));
        }
        Some(())
    }
}

#[inline]
fn read_rice(reader: &mut BitReader<'_>, rice: u32) -> Option<u64> {
    let quotient = reader.peek().leading_ones();
    if quotient >= QUOTIENT_MAX {
        reader.skip(QUOTIENT_MAX)?;
        return reader.read(64);
    }
    reader.skip(quotient + 1)?;
    Some((u64::from(quotient) << rice) | reader.read(rice)?)
}
