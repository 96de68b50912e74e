//! `sort` and its kin: they order the answer to a query of one moment.

use std::cmp::Ordering;

use super::{Error, Evaluator, Grid, Line};
use crate::promql::ast::{Call, Expr};

impl Evaluator<'_> {
    pub(super) fn sort(&self, call: &Call, grid: &Grid) -> Result<Vec<Line>, Error> {
        let mut lines = self.eval(&call.arguments[0], grid)?;
        if grid.count > 1 {
            let text =
                "sort is ineffective for range queries since results are always ordered by labels";
            self.warn(call.place, text);
            return Ok(lines);
        }
        let name = call.function.name;
        let by: Vec<&str> = call.arguments[1..]
            .iter()
            .filter_map(|argument| match argument.bare() {
                Expr::Text { value, .. } => Some(value.as_str()),
                _ => None,
            })
            .collect();
        match name {
            "sort" => lines.sort_by(|a, b| by_value(a, b, f64::total_cmp)),
            "sort_desc" => lines.sort_by(|a, b| by_value(a, b, |a, b| b.total_cmp(a))),
            "sort_by_label" => lines.sort_by(|a, b| by_labels(a, b, &by)),
            _ => lines.sort_by(|a, b| by_labels(b, a, &by)),
        }
        Ok(lines)
    }
}

/// NaN comes last, whichever way the others go; 0 and -0 are equal.
fn by_value(a: &Line, b: &Line, order: impl Fn(&f64, &f64) -> Ordering) -> Ordering {
    let (a, b) = (a.values[0], b.values[0]);
    match (a.is_nan(), b.is_nan()) {
        (false, false) => order(&(a + 0.0), &(b + 0.0)),
        (a, b) => a.cmp(&b),
    }
}

fn by_labels(a: &Line, b: &Line, names: &[&str]) -> Ordering {
    for name in names {
        let (a, b) = (a.labels.get(name), b.labels.get(name));
        if a != b {
            return if naturally_before(a, b) { Ordering::Less } else { Ordering::Greater };
        }
    }
    a.labels.cmp(&b.labels)
}

/// `node2` comes before `node10`.
fn naturally_before(a: &str, b: &str) -> bool {
    let (a, b) = (pieces(a), pieces(b));
    for (number, piece) in a.iter().enumerate() {
        let Some(other) = b.get(number) else { return false };
        let (x, y) = (piece.parse::<u64>(), other.parse::<u64>());
        match (x, y) {
            (Ok(x), Ok(y)) => {
                // Equal numbers: the shorter text decides at the end.
                if x == y {
                    if number == a.len() - 1 {
                        return if number == b.len() - 1 { piece < other } else { true };
                    }
                    if number == b.len() - 1 {
                        return false;
                    }
                    continue;
                }
                return x < y;
            }
            _ => {
                if piece == other {
                    if number == a.len() - 1 {
                        return true;
                    }
                    if number == b.len() - 1 {
                        return false;
                    }
                    continue;
                }
                return piece < other;
            }
        }
    }
    false
}

/// Runs of digits, and runs of anything else.
fn pieces(text: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let digit = first.is_ascii_digit();
        let end = rest.find(|c: char| c.is_ascii_digit() != digit).unwrap_or(rest.len());
        let (piece, tail) = rest.split_at(end);
        pieces.push(piece);
        rest = tail;
    }
    pieces
}
