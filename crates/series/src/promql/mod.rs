//! PromQL: [`parse()`] a query, [`evaluate`] it over a [`Querier`], write the answer as the HTTP API does.
//!
//! A range query is not evaluated step by step. Each series is read once, a window slides over it, and every
//! operator works on whole columns of values; which series belong together is found once a query and not
//! once a step.

mod ast;
mod check;
mod eval;
mod format;
mod functions;
mod lexer;
mod parse;
mod print;
mod token;
mod tree;
mod value;

#[cfg(test)]
mod tests;

pub use ast::{
    Aggregate, At, Binary, Call, Expr, Extension, Kind, Length, LengthOp, Matching, Moved,
    RangeSelector, Selector, Side, Subquery,
};
pub use eval::{Answer, Error, Options, Query, evaluate};
pub use format::{format_value, format_value_plainly};
pub use functions::{FUNCTIONS, Function, More, function};
pub use parse::{ParseError, parse, parse_selector};
pub use print::{duration as format_duration, format};
pub use token::{Aggregation, Op, Place};
pub use tree::to_json as tree_json;
pub use value::{Point, Points, Value, error_json};

#[expect(unused_imports, reason = "the documentation names it")]
use crate::query::Querier;

/// A duration as PromQL writes it, in seconds: `1h30m`.
pub fn duration(text: &str) -> Result<f64, String> {
    if text.is_empty() {
        return Err("empty duration string".to_owned());
    }
    parse::read_duration(text)
}
