//! When two values are the same, and which of two numbers is greater; for `validate.rs`.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use serde_json::{Number, Value};

pub(super) fn numbers_in_order(low: &Number, high: &Number) -> bool {
    compare(low, high) != Ordering::Greater
}

/// Exact between integers, which a detour over floats would not be.
pub(super) fn compare(left: &Number, right: &Number) -> Ordering {
    match (integer(left), integer(right)) {
        (Some(left), Some(right)) => left.cmp(&right),
        _ => left.as_f64().partial_cmp(&right.as_f64()).unwrap_or(Ordering::Equal),
    }
}

fn integer(number: &Number) -> Option<i128> {
    number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from))
}

pub(super) fn is_multiple(number: &Number, step: &Number) -> bool {
    match (integer(number), integer(step)) {
        (Some(_), Some(0)) => false,
        (Some(number), Some(step)) => number % step == 0,
        _ => match (number.as_f64(), step.as_f64()) {
            (Some(number), Some(step)) if step > 0.0 => {
                // 0.3 / 0.1 is not quite 3 in floats.
                let times = number / step;
                (times - times.round()).abs() < 1e-9 * times.abs().max(1.0)
            }
            _ => false,
        },
    }
}

pub(super) fn equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => compare(left, right) == Ordering::Equal,
        _ => left == right,
    }
}

/// The values of the keys; an item that lacks one is told apart from an item that has it.
pub(super) fn identity(item: &Value, keys: &[String]) -> String {
    let values = keys.iter().map(|key| match item.get(key) {
        Some(value) => canonical(value),
        None => String::new(),
    });
    values.collect::<Vec<_>>().join(",")
}

/// Equal values have equal texts, whatever the order of their keys.
pub(super) fn canonical(value: &Value) -> String {
    match value {
        Value::Object(object) => {
            let entries: BTreeMap<&String, String> =
                object.iter().map(|(key, value)| (key, canonical(value))).collect();
            format!("{entries:?}")
        }
        Value::Array(items) => format!("{:?}", items.iter().map(canonical).collect::<Vec<_>>()),
        Value::Number(number) => match (integer(number), number.as_f64()) {
            (None, Some(float)) => format!("{float}"),
            _ => number.to_string(),
        },
        Value::Null | Value::Bool(_) | Value::String(_) => value.to_string(),
    }
}
