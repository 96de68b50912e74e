//! Exact decimal numbers as people write them, and their scaling to whole units. Used by the
//! quantities only; no floating point, so that `0.1` is a tenth and nothing else.

/// Longer text is no number that anybody wrote.
const TEXT_BYTES_MAX: usize = 64;
/// As many digits as can be multiplied by the largest suffix without leaving 128 bits.
const DIGITS_MAX: usize = 20;
/// Past what a 64-bit float can say.
const EXPONENT_MAX: i32 = 400;

/// `digits × 10^exponent`, never negative.
#[derive(Clone, Copy, Debug)]
pub(super) struct Decimal {
    digits: u128,
    exponent: i32,
}

/// A factor `10^ten × 2^two`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    pub(super) ten: i32,
    pub(super) two: u32,
}

/// Why a text does not begin with a number that we take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    Missing,
    TooLong,
    Negative,
    TooPrecise,
}

impl Decimal {
    /// Reads the number at the start of `text`; the rest is the unit.
    pub(super) fn read(text: &str) -> Result<(Decimal, &str), Fault> {
        if text.len() > TEXT_BYTES_MAX {
            return Err(Fault::TooLong);
        }
        if text.starts_with('-') {
            return Err(Fault::Negative);
        }
        let text = text.strip_prefix('+').unwrap_or(text);
        let (whole, rest) = split_digits(text);
        let (fraction, rest) = match rest.strip_prefix('.') {
            Some(after) => split_digits(after),
            None => ("", rest),
        };
        if whole.is_empty() && fraction.is_empty() {
            return Err(Fault::Missing);
        }
        let (written_exponent, rest) = read_exponent(rest)?;
        let digits = format!("{whole}{fraction}");
        let significant = digits.trim_start_matches('0').trim_end_matches('0');
        if significant.len() > DIGITS_MAX {
            return Err(Fault::TooPrecise);
        }
        // Both lengths are bounded by the text's.
        let dropped = digits.len() - digits.trim_end_matches('0').len();
        let shift =
            i32::try_from(dropped).unwrap_or(0) - i32::try_from(fraction.len()).unwrap_or(0);
        let digits = significant.parse().unwrap_or(0);
        Ok((Decimal { digits, exponent: written_exponent + shift }, rest))
    }

    /// The number times a whole factor; nothing when that is out of reach.
    pub(super) fn times(self, factor: u64) -> Option<Decimal> {
        let digits = self.digits.checked_mul(u128::from(factor))?;
        Some(Decimal { digits, exponent: self.exponent })
    }

    /// The number times the scale in whole units, rounded up as Kubernetes rounds; nothing when
    /// it does not fit.
    pub(super) fn whole(self, scale: Scale) -> Option<u64> {
        if self.digits == 0 {
            return Some(0);
        }
        let scaled = self.digits.checked_mul(1u128.checked_shl(scale.two)?)?;
        let exponent = self.exponent.checked_add(scale.ten)?;
        let power = 10u128.checked_pow(exponent.unsigned_abs());
        let units = match (exponent >= 0, power) {
            (true, power) => scaled.checked_mul(power?)?,
            (false, Some(power)) => scaled.div_ceil(power),
            // Less than any part of a unit that could be told from none.
            (false, None) => 1,
        };
        u64::try_from(units).ok()
    }

    /// Whether the number times the scale is more than nothing and less than one unit.
    pub(super) fn is_part_of_one(self, scale: Scale) -> bool {
        let exponent = self.exponent.saturating_add(scale.ten);
        let Some(scaled) = self.digits.checked_mul(1u128.checked_shl(scale.two).unwrap_or(0))
        else {
            return false;
        };
        match (exponent < 0, 10u128.checked_pow(exponent.unsigned_abs())) {
            (true, Some(power)) => scaled > 0 && scaled < power,
            (true, None) => scaled > 0,
            (false, _) => false,
        }
    }
}

fn split_digits(text: &str) -> (&str, &str) {
    let end = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    text.split_at(end)
}

/// `e3`, `E-3`. An `E` without digits is the suffix exa and stays.
fn read_exponent(text: &str) -> Result<(i32, &str), Fault> {
    let Some(after) = text.strip_prefix(['e', 'E']) else {
        return Ok((0, text));
    };
    let (negative, unsigned) = match after.strip_prefix('-') {
        Some(unsigned) => (true, unsigned),
        None => (false, after.strip_prefix('+').unwrap_or(after)),
    };
    let (digits, rest) = split_digits(unsigned);
    if digits.is_empty() {
        return Ok((0, text));
    }
    let exponent: i32 = digits.parse().map_err(|_| Fault::TooPrecise)?;
    if exponent > EXPONENT_MAX {
        return Err(Fault::TooPrecise);
    }
    Ok((if negative { -exponent } else { exponent }, rest))
}
