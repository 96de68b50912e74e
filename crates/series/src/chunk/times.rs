//! The times of a chunk: differences of differences (Gorilla), or nothing at all when every step is the same.

use super::Broken;
use super::bits::{
    BitReader, BitWriter, put_uvarint, put_varint, take_uvarint, take_varint, unzigzag, zigzag,
};
use crate::sample::Sample;

/// How the times of a chunk are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Plan {
    /// First time and step say all.
    Regular,
    /// A difference of differences for each sample after the second.
    Irregular,
}

pub(super) fn plan(samples: &[Sample]) -> Plan {
    let mut steps = samples.windows(2).map(|pair| pair[1].at_ms.wrapping_sub(pair[0].at_ms));
    let first = steps.next().unwrap_or(1);
    assert!(
        samples.windows(2).all(|pair| pair[0].at_ms < pair[1].at_ms),
        "samples of a chunk are in order"
    );
    if steps.all(|step| step == first) { Plan::Regular } else { Plan::Irregular }
}

impl Plan {
    pub(super) fn code(self) -> u8 {
        match self {
            Plan::Regular => 0,
            Plan::Irregular => 1,
        }
    }

    pub(super) fn from_code(code: u8) -> Option<Self> {
        match code {
            0 => Some(Plan::Regular),
            1 => Some(Plan::Irregular),
            _ => None,
        }
    }

    pub(super) fn write_head(self, out: &mut Vec<u8>, samples: &[Sample]) {
        put_varint(out, samples[0].at_ms);
        if let [first, second, ..] = samples {
            put_uvarint(out, second.at_ms.wrapping_sub(first.at_ms) as u64);
        }
    }

    pub(super) fn write_bits(self, writer: &mut BitWriter, samples: &[Sample]) {
        if self == Plan::Regular {
            return;
        }
        for three in samples.windows(3) {
            let before = three[1].at_ms.wrapping_sub(three[0].at_ms);
            let step = three[2].at_ms.wrapping_sub(three[1].at_ms);
            let change = zigzag(step.wrapping_sub(before));
            // Classes for the jitter of a scrape, for one that was late, for a gap, and for the rest.
            match change {
                0 => writer.write(0, 1),
                1..=0x3f => writer.write(0b10 << 6 | change, 8),
                0x40..=0xfff => writer.write(0b110 << 12 | change, 15),
                0x1000..=0xf_ffff => writer.write(0b1110 << 20 | change, 24),
                _ => {
                    writer.write(0b1111, 4);
                    writer.write(change, 64);
                }
            }
        }
    }
}

/// Reads the times.
#[derive(Debug)]
pub(super) struct Clock {
    plan: Plan,
    first: i64,
    step: i64,
}

impl Clock {
    pub(super) fn read_head(plan: Plan, bytes: &mut &[u8], count: usize) -> Option<Self> {
        let first = take_varint(bytes)?;
        let step = if count > 1 { take_uvarint(bytes)? as i64 } else { 1 };
        Some(Self { plan, first, step })
    }

    /// Appends `count` samples that all have this value.
    pub(super) fn read(
        &self,
        reader: &mut BitReader<'_>,
        count: usize,
        value: f64,
        out: &mut Vec<Sample>,
    ) -> Result<(), Broken> {
        const ORDER: Broken = Broken("its times are not in order");
        out.reserve(count);
        let (mut at_ms, mut step) = (self.first, self.step);
        out.push(Sample { at_ms, value });
        for number in 1..count {
            if number > 1 && self.plan == Plan::Irregular {
                let change = read_change(reader).ok_or(Broken("it ends too early"))?;
                step = step.wrapping_add(change);
            }
            let next = at_ms.wrapping_add(step);
            if next <= at_ms {
                return Err(ORDER);
            }
            at_ms = next;
            out.push(Sample { at_ms, value });
        }
        Ok(())
    }
}

#[inline]
fn read_change(reader: &mut BitReader<'_>) -> Option<i64> {
    let (prefix, bits) = match reader.peek().leading_ones() {
        0 => (1, 0),
        1 => (2, 6),
        2 => (3, 12),
        3 => (4, 20),
        _ => (4, 64),
    };
    reader.skip(prefix)?;
    reader.read(bits).map(unzigzag)
}
