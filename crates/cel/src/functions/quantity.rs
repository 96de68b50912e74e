//! Amounts as Kubernetes writes them: `1Gi`, `500m`, `1e3`.

use std::cmp::Ordering;

use super::{Row, arguments, failed};
use crate::budget::Budget;
use crate::error::EvalError;
use crate::value::{Evaluated, Value};

pub(super) const ROWS: &[Row] = &[
    ("quantity", "string", "quantity", to_quantity),
    ("isQuantity", "string", "bool", is_quantity),
    ("sign", "quantity . ", "int", |v, _| {
        one(v, |q| Ok(Value::Int(i64::try_from(q.0.signum()).unwrap_or(0))))
    }),
    ("isInteger", "quantity . ", "bool", |v, _| one(v, |q| Ok(Value::Bool(q.whole().is_some())))),
    ("asInteger", "quantity . ", "int", |v, _| one(v, as_integer)),
    ("asApproximateFloat", "quantity . ", "double", |v, _| one(v, as_double)),
    ("isGreaterThan", "quantity . quantity", "bool", |v, _| two(v, |a, b| Ok(Value::Bool(a > b)))),
    ("isLessThan", "quantity . quantity", "bool", |v, _| two(v, |a, b| Ok(Value::Bool(a < b)))),
    ("compareTo", "quantity . quantity", "int", |v, _| {
        two(v, |a, b| Ok(Value::Int(order(a.cmp(&b)))))
    }),
    ("add", "quantity . quantity", "quantity", |v, _| two(v, |a, b| made(a.0.checked_add(b.0)))),
    ("sub", "quantity . quantity", "quantity", |v, _| two(v, |a, b| made(a.0.checked_sub(b.0)))),
    ("add", "quantity . int", "quantity", |v, _| with_int(v, i128::checked_add)),
    ("sub", "quantity . int", "quantity", |v, _| with_int(v, i128::checked_sub)),
];

/// In billionths: what is smaller is rounded up, away from nothing, as Kubernetes does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Quantity(i128);

const UNIT: i128 = 1_000_000_000;

impl Quantity {
    fn parse(text: &str) -> Option<Quantity> {
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        let end =
            unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
        let (digits, suffix) = unsigned.split_at(end);
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return None;
        }
        let (multiplier, power) = suffix_of(suffix)?;
        // All digits as one number, and where the point is.
        let all: i128 = format!("0{whole}{fraction}").parse().ok()?;
        let power = power.checked_sub(i32::try_from(fraction.len()).ok()?)?.checked_add(9)?;
        let scaled = all.checked_mul(multiplier)?;
        let amount = match u32::try_from(power) {
            Ok(power) => scaled.checked_mul(10_i128.checked_pow(power)?)?,
            Err(_) => match 10_i128.checked_pow(power.unsigned_abs()) {
                Some(divisor) => scaled / divisor + i128::from(scaled % divisor != 0),
                None => i128::from(scaled != 0),
            },
        };
        Some(Quantity(if text.starts_with('-') { -amount } else { amount }))
    }

    fn whole(self) -> Option<i64> {
        (self.0 % UNIT == 0).then(|| i64::try_from(self.0 / UNIT).ok()).flatten()
    }
}

fn suffix_of(suffix: &str) -> Option<(i128, i32)> {
    const POWERS: &[(&str, i32)] = &[
        ("n", -9),
        ("u", -6),
        ("m", -3),
        ("", 0),
        ("k", 3),
        ("M", 6),
        ("G", 9),
        ("T", 12),
        ("P", 15),
        ("E", 18),
    ];
    const BINARY: &[(&str, u32)] =
        &[("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40), ("Pi", 50), ("Ei", 60)];
    if let Some((_, power)) = POWERS.iter().find(|(name, _)| *name == suffix) {
        return Some((1, *power));
    }
    if let Some((_, bits)) = BINARY.iter().find(|(name, _)| *name == suffix) {
        return Some((1_i128 << bits, 0));
    }
    let exponent = suffix.strip_prefix(['e', 'E'])?;
    Some((1, exponent.parse().ok()?))
}

fn order(order: Ordering) -> i64 {
    match order {
        Ordering::Less => -1,
        Ordering::Equal => 0,
        Ordering::Greater => 1,
    }
}

fn made<'a>(amount: Option<i128>) -> Evaluated<'a> {
    amount
        .map(|amount| Value::Quantity(Quantity(amount)))
        .ok_or_else(|| EvalError::failed("quantity overflow"))
}

fn to_quantity<'a>(values: &[Value<'a>], budget: &mut Budget) -> Evaluated<'a> {
    arguments!(values, [Value::String(text)]);
    budget.spend_on_bytes(text.len())?;
    match Quantity::parse(text) {
        Some(quantity) => Ok(Value::Quantity(quantity)),
        None => failed(
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
    }
}

fn is_quantity<'a>(values: &[Value<'a>], budget: &mut Budget) -> Evaluated<'a> {
    arguments!(values, [Value::String(text)]);
    budget.spend_on_bytes(text.len())?;
    Ok(Value::Bool(Quantity::parse(text).is_some()))
}

fn one<'a>(values: &[Value<'a>], run: fn(Quantity) -> Evaluated<'a>) -> Evaluated<'a> {
    arguments!(values, [Value::Quantity(quantity)]);
    run(*quantity)
}

fn two<'a>(values: &[Value<'a>], run: fn(Quantity, Quantity) -> Evaluated<'a>) -> Evaluated<'a> {
    arguments!(values, [Value::Quantity(one), Value::Quantity(other)]);
    run(*one, *other)
}

fn with_int<'a>(values: &[Value<'a>], run: fn(i128, i128) -> Option<i128>) -> Evaluated<'a> {
    arguments!(values, [Value::Quantity(one), Value::Int(other)]);
    made(run(one.0, i128::from(*other) * UNIT))
}

fn as_integer<'a>(quantity: Quantity) -> Evaluated<'a> {
    match quantity.whole() {
        Some(whole) => Ok(Value::Int(whole)),
        None => failed("cannot convert value to integer"),
    }
}

#[expect(clippy::cast_precision_loss, reason = "approximate is what it is called")]
fn as_double<'a>(quantity: Quantity) -> Evaluated<'a> {
    Ok(Value::Double(quantity.0 as f64 / UNIT as f64))
}
