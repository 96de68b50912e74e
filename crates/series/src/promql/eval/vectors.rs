//! Functions of a vector: of each value by itself, of all series of a step, or of the moment.

use super::dates::{DATES, Moment};
use super::{ABSENT, Error, Evaluator, Grid, Line, failed, is_absent, scalar};
use crate::labels::{Labels, NAME};
use crate::matcher::Op;
use crate::promql::ast::{Call, Expr};

type Change = fn(f64) -> f64;

/// Of each value by itself.
const CHANGES: &[(&str, Change)] = &[
    ("abs", f64::abs),
    ("acos", f64::acos),
    ("acosh", f64::acosh),
    ("asin", f64::asin),
    ("asinh", f64::asinh),
    ("atan", f64::atan),
    ("atanh", f64::atanh),
    ("ceil", f64::ceil),
    ("cos", f64::cos),
    ("cosh", f64::cosh),
    ("deg", |value| value * 180.0 / std::f64::consts::PI),
    ("exp", f64::exp),
    ("floor", f64::floor),
    ("ln", f64::ln),
    ("log10", f64::log10),
    ("log2", f64::log2),
    ("rad", |value| value * std::f64::consts::PI / 180.0),
    ("sgn", |value| {
        if value < 0.0 {
            -1.0
        } else if value > 0.0 {
            1.0
        } else {
            value
        }
    }),
    ("sin", f64::sin),
    ("sinh", f64::sinh),
    ("sqrt", f64::sqrt),
    ("tan", f64::tan),
    ("tanh", f64::tanh),
];

impl Evaluator<'_> {
    pub(super) fn vector_call(&self, call: &Call, grid: &Grid) -> Result<Vec<Line>, Error> {
        let (name, arguments) = (call.function.name, &call.arguments);
        if let Some((_, change)) = CHANGES.iter().find(|(known, _)| *known == name) {
            return self.map(self.eval(&arguments[0], grid)?, change);
        }
        if let Some((_, date)) = DATES.iter().find(|(known, _)| *known == name) {
            return match arguments.first() {
                Some(argument) => {
                    self.map(self.eval(argument, grid)?, |value| date(Moment::of_value(value)))
                }
                None => {
                    let moments = (0..grid.count)
                        .map(|n| date(Moment::of_seconds(grid.at(n).div_euclid(1000))));
                    Ok(vec![scalar(moments.collect())])
                }
            };
        }
        match name {
            "time" => {
                let moments = (0..grid.count).map(|number| grid.at(number) as f64 / 1000.0);
                Ok(vec![scalar(moments.collect())])
            }
            "pi" => Ok(self.constant(std::f64::consts::PI, grid)),
            "start" => Ok(self.constant(self.query.start_ms as f64 / 1000.0, grid)),
            "end" => Ok(self.constant(self.query.end_ms as f64 / 1000.0, grid)),
            "range" => {
                Ok(self.constant((self.query.end_ms - self.query.start_ms) as f64 / 1000.0, grid))
            }
            "step" => {
                let step_ms = if self.query.start_ms == self.query.end_ms {
                    None
                } else {
                    self.query.step_ms
                };
                Ok(self.constant(step_ms.unwrap_or(0) as f64 / 1000.0, grid))
            }
            "vector" => Ok(vec![scalar(self.eval_scalar(&arguments[0], grid)?)]),
            "scalar" => Ok(vec![scalar(only(&self.eval(&arguments[0], grid)?, grid))]),
            "max_of" => self.pair(arguments, grid, larger),
            "min_of" => self.pair(arguments, grid, smaller),
            "timestamp" => self.timestamp(&arguments[0], grid),
            "start_timestamp" | "histogram_avg" | "histogram_count" | "histogram_sum"
            | "histogram_stddev" | "histogram_stdvar" => {
                // Only native histograms, and samples that say since when they count, have these.
                self.eval(&arguments[0], grid)?;
                Ok(Vec::new())
            }
            "absent" => {
                let lines = self.eval(&arguments[0], grid)?;
                Ok(self.absent(lines, &arguments[0], grid))
            }
            "clamp" | "clamp_max" | "clamp_min" => self.clamp(call, grid),
            "round" => self.round(call, grid),
            "sort" | "sort_desc" | "sort_by_label" | "sort_by_label_desc" => self.sort(call, grid),
            "label_replace" => self.label_replace(call, grid),
            "label_join" => self.label_join(call, grid),
            "histogram_quantile" => self.histogram_quantile(call, grid),
            "histogram_quantiles" => self.histogram_quantiles(call, grid),
            "histogram_fraction" => self.histogram_fraction(call, grid),
            "info" => self.info(call, grid),
            _ => failed(format!("the function {name} is not known here")),
        }
    }

    fn constant(&self, value: f64, grid: &Grid) -> Vec<Line> {
        vec![scalar(vec![value; grid.count])]
    }

    fn pair(
        &self,
        of: &[Expr],
        grid: &Grid,
        choose: fn(f64, f64) -> f64,
    ) -> Result<Vec<Line>, Error> {
        let (a, b) = (self.eval_scalar(&of[0], grid)?, self.eval_scalar(&of[1], grid)?);
        Ok(vec![scalar(a.iter().zip(&b).map(|(a, b)| choose(*a, *b)).collect())])
    }

    /// When the samples were taken, if they come straight from a selector.
    fn timestamp(&self, argument: &Expr, grid: &Grid) -> Result<Vec<Line>, Error> {
        if let Expr::Vector(selector) = argument.bare()
            && selector.extension == crate::promql::ast::Extension::None
        {
            let lines = self.select_with(selector, grid, |sample| sample.at_ms as f64 / 1000.0)?;
            return self.unnamed(lines);
        }
        let mut lines = self.eval(argument, grid)?;
        for line in &mut lines {
            let present =
                line.values.iter_mut().enumerate().filter(|(_, value)| !is_absent(**value));
            present.for_each(|(number, value)| *value = grid.at(number) as f64 / 1000.0);
        }
        self.unnamed(lines)
    }

    /// 1 where no line has a value, with the labels that the selector asks for.
    pub(super) fn absent(&self, lines: Vec<Line>, of: &Expr, grid: &Grid) -> Vec<Line> {
        let missing = |number: usize| lines.iter().all(|line| is_absent(line.values[number]));
        let values: Vec<f64> =
            (0..grid.count).map(|number| if missing(number) { 1.0 } else { ABSENT }).collect();
        if values.iter().all(|value| is_absent(*value)) {
            return Vec::new();
        }
        vec![Line { labels: asked_labels(of), drop_name: false, values }]
    }

    fn clamp(&self, call: &Call, grid: &Grid) -> Result<Vec<Line>, Error> {
        let mut lines = self.eval(&call.arguments[0], grid)?;
        let first = self.eval_scalar(&call.arguments[1], grid)?;
        let open = |value: f64| vec![value; grid.count];
        let (least, most) = match call.function.name {
            "clamp_min" => (first, open(f64::INFINITY)),
            "clamp_max" => (open(f64::NEG_INFINITY), first),
            _ => (first, self.eval_scalar(&call.arguments[2], grid)?),
        };
        for line in &mut lines {
            for (number, value) in line.values.iter_mut().enumerate() {
                if is_absent(*value) {
                    continue;
                }
                let (least, most) = (least[number], most[number]);
                *value = if most < least { ABSENT } else { larger(least, smaller(most, *value)) };
            }
        }
        self.unnamed(lines)
    }

    fn round(&self, call: &Call, grid: &Grid) -> Result<Vec<Line>, Error> {
        let mut lines = self.eval(&call.arguments[0], grid)?;
        let nearest = match call.arguments.get(1) {
            Some(argument) => self.eval_scalar(argument, grid)?,
            None => vec![1.0; grid.count],
        };
        for line in &mut lines {
            for (value, nearest) in line.values.iter_mut().zip(&nearest) {
                if !is_absent(*value) {
                    // To multiply by the inverse is more exact than to divide.
                    let inverse = 1.0 / nearest;
                    *value = (*value * inverse + 0.5).floor() / inverse;
                }
            }
        }
        self.unnamed(lines)
    }
}

/// The greater one; NaN when either is.
fn larger(a: f64, b: f64) -> f64 {
    if a.is_infinite() && a > 0.0 || b.is_infinite() && b > 0.0 {
        return f64::INFINITY;
    }
    if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) }
}

/// The smaller one; NaN when either is.
fn smaller(a: f64, b: f64) -> f64 {
    -larger(-a, -b)
}

/// The value of each step that has exactly one.
fn only(lines: &[Line], grid: &Grid) -> Vec<f64> {
    let value = |number: usize| {
        let mut present =
            lines.iter().map(|line| line.values[number]).filter(|value| !is_absent(*value));
        match (present.next(), present.next()) {
            (Some(value), None) => value,
            _ => f64::NAN,
        }
    };
    (0..grid.count).map(value).collect()
}

/// The labels that a selector asks for by `=`, and by nothing else.
fn asked_labels(expr: &Expr) -> Labels {
    let matchers = match expr {
        Expr::Vector(selector) => &selector.matchers,
        Expr::Matrix(matrix) => &matrix.selector.matchers,
        _ => return Labels::empty(),
    };
    let mut labels = Labels::empty();
    let mut seen: Vec<&str> = Vec::new();
    for matcher in matchers.iter().filter(|matcher| *matcher.name != *NAME) {
        if matcher.op == Op::Equal && !seen.contains(&&*matcher.name) {
            labels = labels.with(&matcher.name, &matcher.value);
            seen.push(&matcher.name);
        } else {
            labels = labels.with(&matcher.name, "");
        }
    }
    labels
}
