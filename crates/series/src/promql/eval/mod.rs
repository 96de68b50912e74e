//! The evaluation of a tree. Start at [`evaluate`], then `Evaluator::eval`.
//!
//! A value at a step that is not there is written as [`ABSENT`], the bits that say "stale" in a sample:
//! no calculation makes them.

mod aggregate;
mod binary;
mod classic;
mod dates;
mod info;
mod labelling;
mod lengths;
mod numbers;
mod order;
mod rates;
mod select;
mod vectors;
mod windows;

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};

use super::ast::{At, Call, Expr, Kind};
use super::parse::position;
use super::token::Place;
use super::value::{Point, Points, Value};
use crate::labels::Labels;
use crate::query::{Budget, Querier, ReadError};
use crate::sample::{STALE_BITS, Sample};

/// No value at this step.
pub(super) const ABSENT: f64 = f64::from_bits(STALE_BITS);

#[inline]
pub(super) fn is_absent(value: f64) -> bool {
    value.to_bits() == STALE_BITS
}

/// More steps than this are refused, as Prometheus refuses them.
const STEPS_MAX: i64 = 11_000;

/// Subqueries may need more.
const SUBQUERY_STEPS_MAX: i64 = 10_000_000;

/// When, and what it may cost.
#[derive(Clone, Copy, Debug)]
pub struct Query {
    pub start_ms: i64,
    pub end_ms: i64,
    /// Nothing for a query of one moment.
    pub step_ms: Option<i64>,
}

impl Query {
    pub fn instant(at_ms: i64) -> Self {
        Self { start_ms: at_ms, end_ms: at_ms, step_ms: None }
    }

    pub fn range(start_ms: i64, end_ms: i64, step_ms: i64) -> Self {
        Self { start_ms, end_ms, step_ms: Some(step_ms) }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How old the last sample of a series may be to count.
    pub lookback_ms: i64,
    /// The step of a subquery that names none.
    pub subquery_step_ms: i64,
    /// Drop the name of the metric at the end and not at each operation.
    pub delayed_name_removal: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { lookback_ms: 5 * 60_000, subquery_step_ms: 60_000, delayed_name_removal: false }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The query makes no sense with these data, or at all.
    #[error("{0}")]
    Evaluation(String),
    #[error(transparent)]
    Read(#[from] ReadError),
}

pub(super) fn failed<T>(problem: impl Into<String>) -> Result<T, Error> {
    Err(Error::Evaluation(problem.into()))
}

/// What a query gives, and what its author should know of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    pub value: Value,
    pub warnings: Vec<String>,
    pub infos: Vec<String>,
}

/// The moments of an evaluation.
#[derive(Clone, Copy, Debug)]
struct Grid {
    start_ms: i64,
    step_ms: i64,
    count: usize,
}

impl Grid {
    fn at(&self, number: usize) -> i64 {
        self.start_ms + self.step_ms * number as i64
    }

    fn first(&self) -> Self {
        Self { count: 1, ..*self }
    }
}

/// One series of values, a place for each step.
#[derive(Clone, Debug)]
struct Line {
    labels: Labels,
    /// The name is to be dropped at the end.
    drop_name: bool,
    values: Vec<f64>,
}

struct Evaluator<'a> {
    text: &'a str,
    querier: &'a dyn Querier,
    budget: &'a Budget<'a>,
    options: Options,
    query: Query,
    /// A query of one moment keeps the order of its result.
    warnings: RefCell<BTreeSet<String>>,
    infos: RefCell<BTreeSet<String>>,
}

/// Evaluates what [`super::parse()`] made of `text`, which is wanted for the places in messages.
pub fn evaluate(
    text: &str,
    expr: &Expr,
    query: Query,
    options: Options,
    querier: &dyn Querier,
    budget: &Budget<'_>,
) -> Result<Answer, Error> {
    let step_ms = query.step_ms.unwrap_or(1);
    if step_ms <= 0 {
        return failed("zero or negative query resolution step widths are not accepted");
    }
    let steps = query.end_ms.checked_sub(query.start_ms).map(|span| span / step_ms);
    let steps = match steps {
        Some(steps) if steps < 0 => return failed("end timestamp must not be before start time"),
        Some(steps) if steps <= STEPS_MAX => steps,
        Some(_) | None => {
            return failed("exceeded maximum resolution of 11,000 points per timeseries");
        }
    };
    let evaluator = Evaluator {
        text,
        querier,
        budget,
        options,
        query,
        warnings: RefCell::default(),
        infos: RefCell::default(),
    };
    let grid = Grid { start_ms: query.start_ms, step_ms, count: steps as usize + 1 };
    let value = evaluator.whole(expr, &grid)?;
    let told = |notes: RefCell<BTreeSet<String>>| notes.into_inner().into_iter().collect();
    let mut warnings: Vec<String> = told(evaluator.warnings);
    warnings.extend(budget.damage());
    Ok(Answer { value, warnings, infos: told(evaluator.infos) })
}

impl Evaluator<'_> {
    fn whole(&self, expr: &Expr, grid: &Grid) -> Result<Value, Error> {
        let bare = expr.bare();
        if self.query.step_ms.is_some() && !matches!(expr.kind(), Kind::Scalar | Kind::Vector) {
            let kind = expr.kind().name();
            return failed(format!(
                "invalid expression type {kind:?} for range query, must be Scalar or instant Vector"
            ));
        }
        match bare {
            Expr::Text { value, .. } => {
                return Ok(Value::Text { at_ms: grid.start_ms, text: value.clone() });
            }
            Expr::Matrix(_) | Expr::Subquery(_) => return self.matrix(bare, grid),
            _ => {}
        }
        let mut lines = self.eval(expr, grid)?;
        if self.options.delayed_name_removal {
            for line in &mut lines {
                if line.drop_name {
                    line.labels = line.labels.without_name();
                }
            }
            lines = merge(lines)?;
        }
        if self.query.step_ms.is_some() {
            lines.sort_by(|a, b| a.labels.cmp(&b.labels));
            let points = lines.into_iter().map(|line| points_of(line, grid));
            return Ok(Value::Matrix(points.filter(|points| !points.samples.is_empty()).collect()));
        }
        let at_ms = grid.start_ms;
        if expr.kind() == Kind::Scalar {
            let value = lines.first().map_or(f64::NAN, |line| line.values[0]);
            return Ok(Value::Scalar(Sample::new(at_ms, value)));
        }
        let present = lines.into_iter().filter(|line| !is_absent(line.values[0]));
        let points = present
            .map(|line| Point { sample: Sample::new(at_ms, line.values[0]), labels: line.labels });
        Ok(Value::Vector(points.collect()))
    }

    /// A range of samples as the whole answer.
    fn matrix(&self, expr: &Expr, grid: &Grid) -> Result<Value, Error> {
        let mut series = Vec::new();
        self.each_range(expr, grid, |range| {
            let (from, to) = range.window(0, grid);
            let samples = range.extended(from, to);
            if !samples.is_empty() {
                let labels = if range.drop_name {
                    range.labels.without_name()
                } else {
                    range.labels.clone()
                };
                series.push(Points { labels, samples });
            }
            Ok(())
        })?;
        series.sort_by(|a, b| a.labels.cmp(&b.labels));
        Ok(Value::Matrix(series))
    }

    /// The values of a scalar or a vector at every step.
    fn eval(&self, expr: &Expr, grid: &Grid) -> Result<Vec<Line>, Error> {
        if grid.count > 1 && self.is_invariant(expr) {
            // It is the same at every step: once is enough.
            let mut lines = self.eval(expr, &grid.first())?;
            self.budget.take_steps((lines.len() * grid.count) as u64)?;
            for line in &mut lines {
                line.values.resize(grid.count, line.values[0]);
            }
            return Ok(lines);
        }
        let lines = match expr {
            Expr::Number { value, .. } => vec![scalar(vec![*value; grid.count])],
            Expr::Text { .. } => return failed("a text is no vector"),
            Expr::Vector(selector) => self.select_lines(selector, grid)?,
            Expr::Matrix(_) | Expr::Subquery(_) => return failed("a range is no vector"),
            Expr::Aggregate(aggregate) => self.aggregate(aggregate, grid)?,
            Expr::Binary(binary) => self.binary(binary, grid)?,
            Expr::Call(call) => self.call(call, grid)?,
            Expr::Paren { expr, .. } => self.eval(expr, grid)?,
            Expr::Negative { expr, negate, .. } => {
                let mut lines = self.eval(expr, grid)?;
                if *negate {
                    lines = self.map(lines, |value| -value)?;
                }
                lines
            }
        };
        self.budget.take_steps((lines.len() * grid.count) as u64)?;
        Ok(lines)
    }

    fn eval_scalar(&self, expr: &Expr, grid: &Grid) -> Result<Vec<f64>, Error> {
        let line = self.eval(expr, grid)?.into_iter().next();
        Ok(line.map_or_else(|| vec![f64::NAN; grid.count], |line| line.values))
    }

    fn call(&self, call: &Call, grid: &Grid) -> Result<Vec<Line>, Error> {
        if call.arguments.iter().any(|argument| argument.kind() == Kind::Matrix) {
            return self.over_time(call, grid);
        }
        self.vector_call(call, grid)
    }

    /// Whether the value is the same at every step.
    fn is_invariant(&self, expr: &Expr) -> bool {
        const BY_TIME: [&str; 10] = [
            "days_in_month",
            "day_of_month",
            "day_of_week",
            "day_of_year",
            "hour",
            "minute",
            "month",
            "predict_linear",
            "time",
            "year",
        ];
        match expr {
            Expr::Number { .. } | Expr::Text { .. } => true,
            Expr::Vector(selector) => selector.moved.at.is_some(),
            Expr::Matrix(matrix) => matrix.selector.moved.at.is_some(),
            Expr::Subquery(subquery) => subquery.moved.at.is_some(),
            Expr::Aggregate(aggregate) => {
                let of = &aggregate.parameter;
                self.is_invariant(&aggregate.expr)
                    && of.as_ref().is_none_or(|parameter| self.is_invariant(parameter))
            }
            Expr::Binary(binary) => {
                self.is_invariant(&binary.left) && self.is_invariant(&binary.right)
            }
            Expr::Paren { expr, .. } | Expr::Negative { expr, .. } => self.is_invariant(expr),
            Expr::Call(call) => {
                let name = call.function.name;
                if name == "timestamp" {
                    return matches!(&call.arguments[0].bare(), Expr::Vector(s) if s.moved.at.is_some());
                }
                name != "info"
                    && !BY_TIME.contains(&name)
                    && call.arguments.iter().all(|argument| self.is_invariant(argument))
            }
        }
    }

    /// Where `@` points to.
    fn at_ms(&self, at: At) -> i64 {
        match at {
            At::Time { ms } => ms,
            At::Start => self.query.start_ms,
            At::End => self.query.end_ms,
        }
    }

    /// Each value anew, and the name gone.
    fn map(&self, mut lines: Vec<Line>, change: impl Fn(f64) -> f64) -> Result<Vec<Line>, Error> {
        for line in &mut lines {
            for value in &mut line.values {
                if !is_absent(*value) {
                    *value = change(*value);
                }
            }
        }
        self.unnamed(lines)
    }

    /// Without the name of the metric, now or later.
    fn unnamed(&self, mut lines: Vec<Line>) -> Result<Vec<Line>, Error> {
        for line in &mut lines {
            self.drop_name(line);
        }
        self.distinct(lines)
    }

    fn drop_name(&self, line: &mut Line) {
        line.drop_name = true;
        if !self.options.delayed_name_removal {
            line.labels = line.labels.without_name();
        }
    }

    /// Lines whose labels became the same are one line, where they do not overlap.
    fn distinct(&self, lines: Vec<Line>) -> Result<Vec<Line>, Error> {
        if self.options.delayed_name_removal { Ok(lines) } else { merge(lines) }
    }

    fn warn(&self, place: Place, text: &str) {
        self.warnings.borrow_mut().insert(self.note("PromQL warning", place, text));
    }

    fn inform(&self, place: Place, text: &str) {
        self.infos.borrow_mut().insert(self.note("PromQL info", place, text));
    }

    fn note(&self, level: &str, place: Place, text: &str) -> String {
        let (line, column) = position(self.text, place.start);
        format!("{level}: {text} ({line}:{column})")
    }
}

fn scalar(values: Vec<f64>) -> Line {
    Line { labels: Labels::empty(), drop_name: false, values }
}

const SAME_LABELS: &str = "vector cannot contain metrics with the same labelset";

fn merge(lines: Vec<Line>) -> Result<Vec<Line>, Error> {
    let mut places: HashMap<Labels, usize> = HashMap::with_capacity(lines.len());
    let mut merged: Vec<Line> = Vec::with_capacity(lines.len());
    for line in lines {
        if let Some(place) = places.get(&line.labels) {
            let there = &mut merged[*place];
            for (value, more) in there.values.iter_mut().zip(&line.values) {
                if is_absent(*value) {
                    *value = *more;
                } else if !is_absent(*more) {
                    return failed(SAME_LABELS);
                }
            }
        } else {
            places.insert(line.labels.clone(), merged.len());
            merged.push(line);
        }
    }
    Ok(merged)
}

fn points_of(line: Line, grid: &Grid) -> Points {
    let values = line.values.iter().enumerate().filter(|(_, value)| !is_absent(**value));
    let samples = values.map(|(number, value)| Sample::new(grid.at(number), *value)).collect();
    Points { labels: line.labels, samples }
}
