//! Arithmetic, comparisons, and conversions between types.

use std::cmp::Ordering;

use super::{Row, arguments, failed};
use crate::budget::Budget;
use crate::error::EvalError;
use crate::value::{Evaluated, Value, compare};

pub(super) const ROWS: &[Row] = &[
    ("_+_", "int, int", "int", |values, _| whole(values, i64::checked_add)),
    ("_-_", "int, int", "int", |values, _| whole(values, i64::checked_sub)),
    ("_*_", "int, int", "int", |values, _| whole(values, i64::checked_mul)),
    ("_/_", "int, int", "int", |values, _| divided(values, "division", i64::checked_div)),
    ("_%_", "int, int", "int", |values, _| divided(values, "modulus", i64::checked_rem)),
    ("_+_", "uint, uint", "uint", |values, _| natural(values, u64::checked_add)),
    ("_-_", "uint, uint", "uint", |values, _| natural(values, u64::checked_sub)),
    ("_*_", "uint, uint", "uint", |values, _| natural(values, u64::checked_mul)),
    ("_/_", "uint, uint", "uint", |values, _| parted(values, "division", u64::checked_div)),
    ("_%_", "uint, uint", "uint", |values, _| parted(values, "modulus", u64::checked_rem)),
    ("_+_", "double, double", "double", |values, _| double(values, |a, b| a + b)),
    ("_-_", "double, double", "double", |values, _| double(values, |a, b| a - b)),
    ("_*_", "double, double", "double", |values, _| double(values, |a, b| a * b)),
    ("_/_", "double, double", "double", |values, _| double(values, |a, b| a / b)),
    ("-_", "int", "int", negative),
    ("-_", "double", "double", negative),
    ("!_", "bool", "bool", not),
    ("_<_", "bool, bool", "bool", less),
    ("_<_", "int, int", "bool", less),
    ("_<_", "int, uint", "bool", less),
    ("_<_", "int, double", "bool", less),
    ("_<_", "uint, uint", "bool", less),
    ("_<_", "uint, int", "bool", less),
    ("_<_", "uint, double", "bool", less),
    ("_<_", "double, double", "bool", less),
    ("_<_", "double, int", "bool", less),
    ("_<_", "double, uint", "bool", less),
    ("_<_", "string, string", "bool", less),
    ("_<_", "bytes, bytes", "bool", less),
    ("_<_", "timestamp, timestamp", "bool", less),
    ("_<_", "duration, duration", "bool", less),
    ("int", "int", "int", to_int),
    ("int", "uint", "int", to_int),
    ("int", "double", "int", to_int),
    ("int", "string", "int", to_int),
    ("int", "timestamp", "int", to_int),
    ("uint", "uint", "uint", to_uint),
    ("uint", "int", "uint", to_uint),
    ("uint", "double", "uint", to_uint),
    ("uint", "string", "uint", to_uint),
    ("double", "double", "double", to_double),
    ("double", "int", "double", to_double),
    ("double", "uint", "double", to_double),
    ("double", "string", "double", to_double),
    ("bool", "bool", "bool", to_bool),
    ("bool", "string", "bool", to_bool),
    ("dyn", "A", "dyn", |values, _| Ok(values[0].clone())),
    ("type", "A", "type", |values, _| Ok(Value::Type(values[0].type_name()))),
    ("optional.of", "A", "optional(A)", |values, _| Ok(Value::some(values[0].clone()))),
    ("optional.none", "", "optional(A)", |_, _| Ok(Value::Optional(None))),
    ("optional.ofNonZeroValue", "A", "optional(A)", of_non_zero),
    ("hasValue", "optional(A) . ", "bool", has_value),
    ("value", "optional(A) . ", "A", value),
    ("or", "optional(A) . optional(A)", "optional(A)", or),
    ("orValue", "optional(A) . A", "A", or_value),
];

fn whole<'a>(values: &[Value<'a>], run: fn(i64, i64) -> Option<i64>) -> Evaluated<'a> {
    arguments!(values, [Value::Int(one), Value::Int(other)]);
    run(*one, *other).map(Value::Int).ok_or_else(|| EvalError::failed("integer overflow"))
}

fn divided<'a>(
    values: &[Value<'a>],
    what: &str,
    run: fn(i64, i64) -> Option<i64>,
) -> Evaluated<'a> {
    match values {
        [_, Value::Int(0)] => failed(format!("{what} by zero")),
        _ => whole(values, run),
    }
}

fn natural<'a>(values: &[Value<'a>], run: fn(u64, u64) -> Option<u64>) -> Evaluated<'a> {
    arguments!(values, [Value::Uint(one), Value::Uint(other)]);
    run(*one, *other).map(Value::Uint).ok_or_else(|| EvalError::failed("unsigned integer overflow"))
}

fn parted<'a>(values: &[Value<'a>], what: &str, run: fn(u64, u64) -> Option<u64>) -> Evaluated<'a> {
    match values {
        [_, Value::Uint(0)] => failed(format!("{what} by zero")),
        _ => natural(values, run),
    }
}

fn double<'a>(values: &[Value<'a>], run: fn(f64, f64) -> f64) -> Evaluated<'a> {
    arguments!(values, [Value::Double(one), Value::Double(other)]);
    Ok(Value::Double(run(*one, *other)))
}

fn negative<'a>(values: &[Value<'a>], _: &mut Budget) -> Evaluated<'a> {
    match values {
        [Value::Int(number)] => match number.checked_neg() {
            Some(number) => Ok(Value::Int(number)),
            None => failed("integer overflow"),
        },
        [Value::Double(number)] => Ok(Value::Double(-number)),
        _ => failed("unexpected arguments"),
    }
}

fn not<'a>(values: &[Value<'a>], _: &mut Budget) -> Evaluated<'a> {
    arguments!(values, [Value::Bool(truth)]);
    Ok(Value::Bool(!truth))
}

/// The other three comparisons are this one with its sides or its answer turned round.
fn less<'a>(values: &[Value<'a>], budget: &mut Budget) -> Evaluated<'a> {
    arguments!(values, [one, other]);
    if let (Value::String(one), Value::String(other)) = (one, other) {
        budget.spend_on_bytes(one.len().min(other.len()))?;
    }
    match compare(one, other) {
        Some(order) => Ok(Value::Bool(order == Ordering::Less)),
        // Only what is no number is in no order, and then nothing is true of it.
        None => failed("NaN values cannot be ordered"),
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the range is looked at first")]
fn to_int<'a>(values: &[Value<'a>], _: &mut Budget) -> Evaluated<'a> {
    const RANGE: std::ops::Range<f64> = -9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0;
    match values {
        [Value::Int(number)] => Ok(Value::Int(*number)),
        [Value::Uint(number)] => match i64::try_from(*number) {
            Ok(number) => Ok(Value::Int(number)),
            Err(_) => failed("integer overflow"),
        },
        [Value::Double(number)] => match RANGE.contains(number) {
            true => Ok(Value::Int(*number as i64)),
            false => failed("integer overflow"),
        },
        [Value::Timestamp(time)] => Ok(Value::Int(time.as_second())),
        [Value::String(text)] => match text.parse() {
            Ok(number) => Ok(Value::Int(number)),
            Err(_) => failed("type conversion error from 'string' to 'int'"),
        },
        _ => failed("unexpected arguments"),
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the range is looked at first"
)]
fn to_uint<'a>(values: &[Value<'a>], _: &mut Budget) -> Evaluated<'a> {
    const RANGE: std::ops::Range<f64> = 0.0..18_446_744_073_709_551_616.0;
    match values {
        [Value::Uint(number)] => Ok(Value::Uint(*number)),
        [Value::Int(number)] => match u64::try_from(*number) {
            Ok(number) => Ok(Value::Uint(number)),
            Err(_) => failed("unsigned integer overflow"),
        },
        [Value::Double(number)] => match RANGE.contains(number) {
            true => Ok(Value::Uint(*number as u64)),
            false => failed("unsigned integer overflow"),
        },
        [Value::String(text)] => match text.parse() {
            Ok(number) => Ok(Value::Uint(number)),
            Err(_) => failed("type conversion error from 'string' to 'uint'"),
        },
        _ => failed("unexpected arguments"),
    }
}

#[expect(clippy::cast_precision_loss, reason = "a double is what is asked for")]
fn to_double<'a>(values: &[Value<'a>], _: &mut Budget) -> Evaluated<'a> {
    match values {
        [Value::Double(number)] => Ok(Value::Double(*number)),
        [Value::Int(number)] => Ok(Value::Double(*number as f64)),
        [Value::Uint(number)] => Ok(Value::Double(*number as f64)),
        [Value::String(text)] => match text.parse() {
            Ok(number) => Ok(Value::Double(number)),
            Err(_) => failed("type conversion error from 'string' to 'double'"),
        },
        _ => failed("unexpected arguments"),
    }
}

fn to_bool<'a>(values: &[Value<'a>], _: &mut Budget) -> Evaluated<'a> {
    match values {
        [Value::Bool(truth)] => Ok(Value::Bool(*truth)),
        [Value::String(text)] => match &**text {
            "true" | "TRUE" | "True" | "t" | "1" => Ok(Value::Bool(true)),
            "false" | "FALSE" | "False" | "f" | "0" => Ok(Value::Bool(false)),
            _ => failed("type conversion error from 'string' to 'bool'"),
        },
        _ => failed("unexpected arguments"),
    }
}

fn of_non_zero<'a>(values: &[Value<'a>], _: &mut Budget) -> Evaluated<'a> {
    let is_zero = match &values[0] {
        Value::Null | Value::Bool(false) | Value::Int(0) | Value::Uint(0) => true,
        Value::Double(number) => *number == 0.0,
        Value::String(text) => text.is_empty(),
        Value::Bytes(bytes) => bytes.is_empty(),
        Value::List(list) => list.len() == 0,
        Value::Map(map) => map.len() == 0,
        Value::Duration(duration) => duration.is_zero(),
        // The first moment that there is, which typed languages take for none.
        Value::Timestamp(time) => time.as_nanosecond() == -62_135_596_800_000_000_000,
        _ => false,
    };
    Ok(if is_zero { Value::Optional(None) } else { Value::some(values[0].clone()) })
}

fn has_value<'a>(values: &[Value<'a>], _: &mut Budget) -> Evaluated<'a> {
    arguments!(values, [Value::Optional(found)]);
    Ok(Value::Bool(found.is_some()))
}

fn value<'a>(values: &[Value<'a>], _: &mut Budget) -> Evaluated<'a> {
    arguments!(values, [Value::Optional(found)]);
    match found {
        Some(found) => Ok((**found).clone()),
        None => failed("optional.none() dereference"),
    }
}

fn or<'a>(values: &[Value<'a>], _: &mut Budget) -> Evaluated<'a> {
    arguments!(values, [Value::Optional(found), other]);
    Ok(if found.is_some() { values[0].clone() } else { other.clone() })
}

fn or_value<'a>(values: &[Value<'a>], _: &mut Budget) -> Evaluated<'a> {
    arguments!(values, [Value::Optional(found), other]);
    Ok(found.as_ref().map_or_else(|| other.clone(), |found| (**found).clone()))
}
