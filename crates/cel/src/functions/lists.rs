//! Lists, and lists taken as sets.

use std::cmp::Ordering;

use super::{Row, arguments, failed};
use crate::budget::Budget;
use crate::error::EvalError;
use crate::value::{Evaluated, List, Value, compare, equal};

pub(super) const ROWS: &[Row] = &[
    ("_+_", "list(A), list(A)", "list(A)", join),
    ("@in", "A, list(A)", "bool", is_in),
    ("@in", "A, map(A, B)", "bool", is_in),
    ("isSorted", "list(int) . ", "bool", is_sorted),
    ("isSorted", "list(uint) . ", "bool", is_sorted),
    ("isSorted", "list(double) . ", "bool", is_sorted),
    ("isSorted", "list(bool) . ", "bool", is_sorted),
    ("isSorted", "list(string) . ", "bool", is_sorted),
    ("isSorted", "list(bytes) . ", "bool", is_sorted),
    ("isSorted", "list(duration) . ", "bool", is_sorted),
    ("isSorted", "list(timestamp) . ", "bool", is_sorted),
    ("sum", "list(int) . ", "int", |v, b| sum(v, b, Value::Int(0))),
    ("sum", "list(uint) . ", "uint", |v, b| sum(v, b, Value::Uint(0))),
    ("sum", "list(double) . ", "double", |v, b| sum(v, b, Value::Double(0.0))),
    ("sum", "list(duration) . ", "duration", |v, b| {
        sum(v, b, Value::Duration(jiff::SignedDuration::ZERO))
    }),
    ("min", "list(int) . ", "int", |v, b| extreme(v, b, Ordering::Less)),
    ("min", "list(uint) . ", "uint", |v, b| extreme(v, b, Ordering::Less)),
    ("min", "list(double) . ", "double", |v, b| extreme(v, b, Ordering::Less)),
    ("min", "list(bool) . ", "bool", |v, b| extreme(v, b, Ordering::Less)),
    ("min", "list(string) . ", "string", |v, b| extreme(v, b, Ordering::Less)),
    ("min", "list(bytes) . ", "bytes", |v, b| extreme(v, b, Ordering::Less)),
    ("min", "list(duration) . ", "duration", |v, b| extreme(v, b, Ordering::Less)),
    ("min", "list(timestamp) . ", "timestamp", |v, b| extreme(v, b, Ordering::Less)),
    ("max", "list(int) . ", "int", |v, b| extreme(v, b, Ordering::Greater)),
    ("max", "list(uint) . ", "uint", |v, b| extreme(v, b, Ordering::Greater)),
    ("max", "list(double) . ", "double", |v, b| extreme(v, b, Ordering::Greater)),
    ("max", "list(bool) . ", "bool", |v, b| extreme(v, b, Ordering::Greater)),
    ("max", "list(string) . ", "string", |v, b| extreme(v, b, Ordering::Greater)),
    ("max", "list(bytes) . ", "bytes", |v, b| extreme(v, b, Ordering::Greater)),
    ("max", "list(duration) . ", "duration", |v, b| extreme(v, b, Ordering::Greater)),
    ("max", "list(timestamp) . ", "timestamp", |v, b| extreme(v, b, Ordering::Greater)),
    ("indexOf", "list(A) . A", "int", |v, b| index_of(v, b, |found| found.next())),
    ("lastIndexOf", "list(A) . A", "int", |v, b| index_of(v, b, |found| found.last())),
    ("sets.contains", "list(A), list(A)", "bool", every),
    ("sets.equivalent", "list(A), list(A)", "bool", equivalent),
    ("sets.intersects", "list(A), list(A)", "bool", intersects),
];

fn lists<'a, 'b>(values: &'b [Value<'a>]) -> Result<(&'b List<'a>, &'b List<'a>), EvalError> {
    match values {
        [Value::List(one), Value::List(other)] => Ok((one, other)),
        _ => Err(EvalError::failed("unexpected arguments")),
    }
}

fn join<'a>(values: &[Value<'a>], budget: &mut Budget) -> Evaluated<'a> {
    let (one, other) = lists(values)?;
    budget.make((one.len() + other.len()) * size_of::<Value<'_>>())?;
    let mut all = one.values(budget)?;
    all.extend(other.values(budget)?);
    Ok(Value::list(all))
}

fn is_in<'a>(values: &[Value<'a>], budget: &mut Budget) -> Evaluated<'a> {
    match values {
        [value, Value::List(list)] => Ok(Value::Bool(has(list, value, budget)?)),
        [key, Value::Map(map)] => Ok(Value::Bool(map.get(key, budget)?.is_some())),
        _ => failed("unexpected arguments"),
    }
}

fn has(list: &List<'_>, value: &Value<'_>, budget: &mut Budget) -> Result<bool, EvalError> {
    for index in 0..list.len() {
        if let Some(found) = list.get(index)
            && equal(&found?, value, budget)?
        {
            return Ok(true);
        }
    }
    Ok(false)
}

fn is_sorted<'a>(values: &[Value<'a>], budget: &mut Budget) -> Evaluated<'a> {
    arguments!(values, [Value::List(list)]);
    let values = list.values(budget)?;
    let in_order = |pair: &[Value<'_>]| compare(&pair[0], &pair[1]).is_some_and(Ordering::is_le);
    Ok(Value::Bool(values.windows(2).all(in_order)))
}

fn sum<'a>(values: &[Value<'a>], budget: &mut Budget, zero: Value<'a>) -> Evaluated<'a> {
    arguments!(values, [Value::List(list)]);
    let add = super::overloads("_+_", false);
    list.values(budget)?.into_iter().try_fold(zero, |sum, value| {
        let pair = [sum, value];
        let fits = |types: &[crate::types::Type]| {
            types.iter().zip(&pair).all(|(type_, value)| value.fits(type_))
        };
        match add.iter().find(|overload| fits(&overload.arguments)) {
            Some(overload) => (overload.run)(&pair, budget),
            None => failed("no such overload: sum"),
        }
    })
}

fn extreme<'a>(values: &[Value<'a>], budget: &mut Budget, wanted: Ordering) -> Evaluated<'a> {
    arguments!(values, [Value::List(list)]);
    let better = |best: Value<'a>, value: Value<'a>| match compare(&value, &best) {
        Some(order) if order == wanted => value,
        _ => best,
    };
    let name = if wanted == Ordering::Less { "min" } else { "max" };
    let found = list.values(budget)?.into_iter().reduce(better);
    found.ok_or_else(|| EvalError::failed(format!("{name} called on empty list")))
}

fn index_of<'a>(
    values: &[Value<'a>],
    budget: &mut Budget,
    pick: fn(&mut std::vec::IntoIter<usize>) -> Option<usize>,
) -> Evaluated<'a> {
    arguments!(values, [Value::List(list), wanted]);
    let mut places = Vec::new();
    for (index, value) in list.values(budget)?.iter().enumerate() {
        if equal(value, wanted, budget)? {
            places.push(index);
        }
    }
    let found = pick(&mut places.into_iter());
    Ok(Value::Int(found.map_or(-1, |index| i64::try_from(index).unwrap_or(i64::MAX))))
}

fn is_subset(one: &List<'_>, other: &List<'_>, budget: &mut Budget) -> Result<bool, EvalError> {
    for value in one.values(budget)? {
        if !has(other, &value, budget)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn every<'a>(values: &[Value<'a>], budget: &mut Budget) -> Evaluated<'a> {
    let (one, other) = lists(values)?;
    Ok(Value::Bool(is_subset(other, one, budget)?))
}

fn equivalent<'a>(values: &[Value<'a>], budget: &mut Budget) -> Evaluated<'a> {
    let (one, other) = lists(values)?;
    Ok(Value::Bool(is_subset(one, other, budget)? && is_subset(other, one, budget)?))
}

fn intersects<'a>(values: &[Value<'a>], budget: &mut Budget) -> Evaluated<'a> {
    let (one, other) = lists(values)?;
    for value in one.values(budget)? {
        if has(other, &value, budget)? {
            return Ok(Value::Bool(true));
        }
    }
    Ok(Value::Bool(false))
}
