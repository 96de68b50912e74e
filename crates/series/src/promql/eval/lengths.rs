//! What durations come to, once the step and the range of the query are known.

use super::{Error, Evaluator, failed};
use crate::promql::ast::{Length, LengthOp, Moved};

impl Evaluator<'_> {
    pub(super) fn positive_ms(&self, length: &Length) -> Result<i64, Error> {
        let seconds = self.seconds(length)?;
        if seconds <= 0.0 {
            return failed("duration must be greater than 0");
        }
        milliseconds(seconds)
    }

    pub(super) fn offset_ms(&self, moved: &Moved) -> Result<i64, Error> {
        moved.offset.as_ref().map_or(Ok(0), |offset| milliseconds(self.seconds(offset)?))
    }

    fn seconds(&self, length: &Length) -> Result<f64, Error> {
        Ok(match length {
            Length::Seconds(seconds) => *seconds,
            Length::Step => self.query.step_ms.unwrap_or(0) as f64 / 1000.0,
            Length::Range => (self.query.end_ms - self.query.start_ms) as f64 / 1000.0,
            Length::Negative(inner) => -self.seconds(inner)?,
            Length::Both(op, sides, _) => {
                let (left, right) = (self.seconds(&sides.0)?, self.seconds(&sides.1)?);
                match op {
                    LengthOp::Add => left + right,
                    LengthOp::Sub => left - right,
                    LengthOp::Mul => left * right,
                    LengthOp::Div if right == 0.0 => return failed("division by zero"),
                    LengthOp::Div => left / right,
                    LengthOp::Mod if right == 0.0 => return failed("modulo by zero"),
                    LengthOp::Mod => left % right,
                    LengthOp::Pow => left.powf(right),
                    LengthOp::Min => left.min(right),
                    LengthOp::Max => left.max(right),
                }
            }
        })
    }
}

fn milliseconds(seconds: f64) -> Result<i64, Error> {
    if !seconds.is_finite() {
        return failed("duration is NaN or infinite");
    }
    if seconds.abs() > crate::promql::parse::SECONDS_MAX {
        return failed("duration is out of range");
    }
    // Written in nanoseconds by those who define the language, and cut to milliseconds.
    Ok(((seconds * 1e9).round() / 1e6).trunc() as i64)
}
