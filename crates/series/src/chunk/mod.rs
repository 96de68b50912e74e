//! Samples of one series, compressed: [`encode`] and [`decode`].
//!
//! A chunk is one byte that says how, the number of samples, and two streams of bits: the times as
//! differences of differences (Gorilla, Pelkonen et al., VLDB 2015), and the values in whichever of three
//! ways is the shortest for this chunk: one value for all, XOR with the one before (Gorilla), or decimal
//! integers as differences from their average step (the idea of VictoriaMetrics), in Rice's code.

mod bits;
mod decimal;
mod times;
mod xor;

use crate::sample::Sample;

use bits::{BitReader, BitWriter};
pub(crate) use bits::{put_uvarint, put_varint, take_uvarint, take_varint};

/// More would make a reader decode much that it does not need; a chunk of 240 spans an hour at 15 s.
pub const CHUNK_SAMPLES_MAX: usize = 4096;

const CONSTANT: u8 = 0;
const XOR: u8 = 1;
const DECIMAL: u8 = 2;

/// Bytes that are no chunk, or no longer the chunk that they were.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a chunk is not readable: {0}")]
pub struct Broken(pub &'static str);

/// Samples must be in order, each later than the one before, and at most [`CHUNK_SAMPLES_MAX`].
///
/// # Panics
/// When they are not: who calls has ordered them.
pub fn encode(samples: &[Sample]) -> Vec<u8> {
    assert!(samples.len() <= CHUNK_SAMPLES_MAX, "a chunk holds at most {CHUNK_SAMPLES_MAX}");
    let mut out = Vec::with_capacity(16 + samples.len());
    let plan = times::plan(samples);
    let values = choose(samples);
    let kind = match values {
        Values::Constant => CONSTANT,
        Values::Xor => XOR,
        Values::Decimal(_) => DECIMAL,
    };
    out.push(kind | (plan.code() << 4));
    put_uvarint(&mut out, samples.len() as u64);
    let Some(first) = samples.first() else { return out };
    plan.write_head(&mut out, samples);
    match &values {
        Values::Constant | Values::Xor => {
            out.extend_from_slice(&first.value.to_bits().to_be_bytes())
        }
        Values::Decimal(decimal) => decimal.write_head(&mut out),
    }
    let mut writer = BitWriter::after(out);
    plan.write_bits(&mut writer, samples);
    match &values {
        Values::Constant => {}
        Values::Xor => xor::write(&mut writer, samples),
        Values::Decimal(decimal) => decimal.write_bits(&mut writer),
    }
    writer.finish()
}

enum Values {
    Constant,
    Xor,
    Decimal(decimal::Decimal),
}

/// The shortest of what is possible.
fn choose(samples: &[Sample]) -> Values {
    let Some(first) = samples.first() else { return Values::Constant };
    if samples.iter().all(|sample| sample.value.to_bits() == first.value.to_bits()) {
        return Values::Constant;
    }
    match decimal::Decimal::of(samples) {
        Some(decimal) if decimal.bits() <= xor::bits(samples) => Values::Decimal(decimal),
        Some(_) | None => Values::Xor,
    }
}

/// Appends the samples to `out`. Whatever the bytes are, this ends: with an error, or with at most
/// [`CHUNK_SAMPLES_MAX`] samples in order.
pub fn decode(mut bytes: &[u8], out: &mut Vec<Sample>) -> Result<(), Broken> {
    let start = out.len();
    let result = decode_into(&mut bytes, out);
    if result.is_err() {
        out.truncate(start);
    }
    result
}

fn decode_into(bytes: &mut &[u8], out: &mut Vec<Sample>) -> Result<(), Broken> {
    const SHORT: Broken = Broken("it ends too early");
    let (head, rest) = bytes.split_first().ok_or(SHORT)?;
    *bytes = rest;
    let count = take_uvarint(bytes).ok_or(SHORT)? as usize;
    if count > CHUNK_SAMPLES_MAX {
        return Err(Broken("it claims too many samples"));
    }
    if count == 0 {
        return Ok(());
    }
    let start = out.len();
    let plan =
        times::Plan::from_code(head >> 4).ok_or(Broken("its times are of an unknown kind"))?;
    let clock = times::Clock::read_head(plan, bytes, count).ok_or(SHORT)?;
    match head & 0x0f {
        kind @ (CONSTANT | XOR) => {
            let (first, rest) = bytes.split_first_chunk::<8>().ok_or(SHORT)?;
            let first = f64::from_bits(u64::from_be_bytes(*first));
            let mut reader = BitReader::new(rest);
            clock.read(&mut reader, count, first, out)?;
            if kind == XOR {
                xor::read(&mut reader, &mut out[start..]).ok_or(SHORT)?;
            }
            Ok(())
        }
        DECIMAL => {
            let head =
                decimal::Head::read(bytes, count).ok_or(Broken("its numbers have no head"))?;
            let mut reader = BitReader::new(bytes);
            clock.read(&mut reader, count, 0.0, out)?;
            head.read_values(&mut reader, &mut out[start..]).ok_or(SHORT)
        }
        _ => Err(Broken("its values are of an unknown kind")),
    }
}

#[cfg(test)]
mod tests;
