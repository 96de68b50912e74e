//! Numbers and durations, and arithmetic with durations.

use super::super::ast::{Length, LengthOp};
use super::super::token::{Kind, Op, Place, Word};
use super::{Fault, Parser, fault};

/// As many seconds as fit into 63 bits of nanoseconds.
pub(in crate::promql) const SECONDS_MAX: f64 = 9_223_372_036.854_776;

impl Parser<'_> {
    /// A number, or a duration in seconds.
    pub(super) fn number(&mut self) -> Result<(f64, Place), Fault> {
        let (word, place) = (self.word(), self.place());
        let read = match self.kind() {
            Kind::Number => read_number(word)
                .ok_or_else(|| format!("error parsing number: parsing {word:?}: invalid syntax")),
            Kind::Duration => read_duration(word),
            _ => return self.unexpected("", ""),
        };
        match read {
            Ok(value) => {
                self.step();
                Ok((value, place))
            }
            Err(problem) => fault(place, problem),
        }
    }

    fn literal(&mut self) -> Result<Length, Fault> {
        let (value, place) = self.number()?;
        if value.abs() > SECONDS_MAX {
            return fault(place, "duration out of range");
        }
        Ok(Length::Seconds(value))
    }

    pub(super) fn positive_length(&mut self, context: &str) -> Result<Length, Fault> {
        let start = self.place();
        let length = self.length(0, context)?;
        if let Length::Seconds(seconds) = length
            && (seconds <= 0.0 || seconds.is_nan())
        {
            let place = Place { start: start.start, end: self.end() };
            return fault(place, "duration must be greater than 0");
        }
        Ok(length)
    }

    /// After `offset` a sign belongs to what follows it, and an operator does not: `a offset -2 ^ 2` is
    /// `(a offset -2) ^ 2`. Only parentheses make a calculation of it.
    pub(super) fn offset(&mut self) -> Result<Length, Fault> {
        const WANTED: &str = "number, duration, step(), or range()";
        let sign = match self.kind() {
            Kind::Op(op @ (Op::Add | Op::Sub)) => Some(*op),
            _ => None,
        };
        if sign.is_some() {
            self.step();
        }
        let length = match self.kind() {
            Kind::LeftParen if sign.is_none() => self.length(0, "offset")?,
            Kind::Number | Kind::Duration | Kind::LeftParen | Kind::Word(_) => {
                self.length_operand("offset")?
            }
            _ => return self.unexpected("offset", WANTED),
        };
        Ok(if sign == Some(Op::Sub) { length.negated() } else { length })
    }

    fn length(&mut self, least: u8, context: &str) -> Result<Length, Fault> {
        self.depth += 1;
        if self.depth > super::DEPTH_MAX {
            return fault(
                self.place(),
                format!("expressions nest deeper than {}", super::DEPTH_MAX),
            );
        }
        let start = self.place();
        let mut left = self.length_operand(context)?;
        while let Kind::Op(sign) = *self.kind() {
            let op = match sign {
                Op::Add => LengthOp::Add,
                Op::Sub => LengthOp::Sub,
                Op::Mul => LengthOp::Mul,
                Op::Div => LengthOp::Div,
                Op::Mod => LengthOp::Mod,
                Op::Pow => LengthOp::Pow,
                _ => break,
            };
            let strength = sign.strength();
            if strength < least {
                break;
            }
            let place = self.step();
            self.count_operator()?;
            let right =
                self.length(if op == LengthOp::Pow { strength } else { strength + 1 }, context)?;
            if matches!(right, Length::Seconds(seconds) if seconds == 0.0) {
                match op {
                    LengthOp::Div => return fault(place, "division by zero"),
                    LengthOp::Mod => return fault(place, "modulo by zero"),
                    _ => {}
                }
            }
            let place = Place { start: start.start, end: self.end() };
            left = Length::Both(op, Box::new((left, right)), place);
        }
        self.depth -= 1;
        Ok(left)
    }

    fn length_operand(&mut self, context: &str) -> Result<Length, Fault> {
        match *self.kind() {
            Kind::Number | Kind::Duration => self.literal(),
            Kind::Op(op @ (Op::Add | Op::Sub)) => {
                self.step();
                let length = self.length(Op::Pow.strength(), context)?;
                Ok(if op == Op::Sub { length.negated() } else { length })
            }
            Kind::LeftParen => {
                self.step();
                let length = self.length(0, context)?;
                self.close(context)?;
                // In parentheses it is a calculation, and is not judged before it is made.
                Ok(match length {
                    Length::Seconds(_) => length.negated().wrapped_negated(),
                    other => other,
                })
            }
            Kind::Word(word @ (Word::Step | Word::Range)) => {
                self.step();
                self.open(context)?;
                self.close(context)?;
                Ok(if word == Word::Step { Length::Step } else { Length::Range })
            }
            Kind::Word(word @ (Word::MinOf | Word::MaxOf)) => {
                let start = self.step();
                self.open(context)?;
                let first = self.length(0, context)?;
                if !self.take(&Kind::Comma) {
                    return self.unexpected(context, "\",\"");
                }
                let second = self.length(0, context)?;
                self.close(context)?;
                let op = if word == Word::MinOf { LengthOp::Min } else { LengthOp::Max };
                let place = Place { start: start.start, end: self.end() };
                Ok(Length::Both(op, Box::new((first, second)), place))
            }
            _ => self.unexpected(context, "number, duration, step(), or range()"),
        }
    }

    fn open(&mut self, context: &str) -> Result<(), Fault> {
        if self.take(&Kind::LeftParen) { Ok(()) } else { self.unexpected(context, "\"(\"") }
    }

    fn close(&mut self, context: &str) -> Result<(), Fault> {
        if self.take(&Kind::RightParen) { Ok(()) } else { self.unexpected(context, "\")\"") }
    }
}

impl Length {
    fn negated(self) -> Self {
        match self {
            Length::Seconds(seconds) => Length::Seconds(-seconds),
            other => Length::Negative(Box::new(other)),
        }
    }

    fn wrapped_negated(self) -> Self {
        Length::Negative(Box::new(self))
    }

    pub(super) fn is_zero(&self) -> bool {
        matches!(self, Length::Seconds(seconds) if *seconds == 0.0)
    }
}

/// A number as Go's parser of literals reads it: `0x1f`, `017`, `1_000`, `1e3`, `Inf`.
fn read_number(word: &str) -> Option<f64> {
    let lower = word.to_ascii_lowercase();
    match lower.as_str() {
        "inf" => return Some(f64::INFINITY),
        "nan" => return Some(f64::NAN),
        _ => {}
    }
    let (radix, digits) = match lower.as_bytes() {
        [b'0', b'x', ..] => (16, &lower[2..]),
        [b'0', b'0'..=b'9' | b'_', ..] => (8, &lower[1..]),
        _ => (10, lower.as_str()),
    };
    let tidy = !digits.contains("__")
        && !digits.ends_with('_')
        && (radix != 10 || !digits.starts_with('_'));
    let plain = digits.replace('_', "");
    if tidy && !plain.contains('+') {
        if let Ok(whole) = i64::from_str_radix(&plain, radix) {
            return Some(whole as f64);
        }
        if radix == 16 {
            return u128::from_str_radix(&plain, 16).ok().map(|whole| whole as f64);
        }
    }
    if lower.contains('_') { None } else { lower.parse().ok() }
}

/// `1y2w3d4h5m6s7ms`, each at most once and in this order.
pub(in crate::promql) fn read_duration(word: &str) -> Result<f64, String> {
    const UNITS: [(&str, u64); 7] = [
        ("y", 31_536_000_000),
        ("w", 604_800_000),
        ("d", 86_400_000),
        ("h", 3_600_000),
        ("m", 60_000),
        ("s", 1000),
        ("ms", 1),
    ];
    let invalid = || format!("not a valid duration string: {word:?}");
    let (mut rest, mut total_ms, mut next_unit) = (word, 0_u64, 0);
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, tail) = rest.split_at(digits);
        let letters = tail.bytes().take_while(u8::is_ascii_alphabetic).count();
        let (unit, tail) = tail.split_at(letters);
        let place =
            UNITS.iter().position(|(name, _)| *name == unit).filter(|place| *place >= next_unit);
        let place = place.filter(|_| digits > 0).ok_or_else(invalid)?;
        let ms = number.parse::<u64>().ok().and_then(|n| n.checked_mul(UNITS[place].1));
        total_ms = ms
            .and_then(|ms| total_ms.checked_add(ms))
            .filter(|ms| *ms <= 9_223_372_036_854)
            .ok_or("duration out of range")?;
        (rest, next_unit) = (tail, place + 1);
    }
    Ok(total_ms as f64 / 1000.0)
}
