//! Every function of PromQL: what it takes and gives. What it does stands in `eval`.

use super::ast::Kind::{self, Matrix, Scalar, Text, Vector};

#[derive(Debug, PartialEq, Eq)]
pub struct Function {
    pub name: &'static str,
    pub takes: &'static [Kind],
    pub more: More,
    pub gives: Kind,
}

/// How many arguments it takes besides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum More {
    None,
    /// The last one may be left out, or come up to so many times.
    UpTo(usize),
    /// The last one may be left out, or come any number of times.
    Any,
}

/// The function of this name.
pub fn function(name: &str) -> Option<&'static Function> {
    let place = FUNCTIONS.binary_search_by(|function| function.name.cmp(name)).ok()?;
    Some(&FUNCTIONS[place])
}

const fn row(name: &'static str, takes: &'static [Kind], more: More, gives: Kind) -> Function {
    Function { name, takes, more, gives }
}

/// In the order of their names.
pub const FUNCTIONS: &[Function] = &[
    row("abs", &[Vector], More::None, Vector),
    row("absent", &[Vector], More::None, Vector),
    row("absent_over_time", &[Matrix], More::None, Vector),
    row("acos", &[Vector], More::None, Vector),
    row("acosh", &[Vector], More::None, Vector),
    row("asin", &[Vector], More::None, Vector),
    row("asinh", &[Vector], More::None, Vector),
    row("atan", &[Vector], More::None, Vector),
    row("atanh", &[Vector], More::None, Vector),
    row("avg_over_time", &[Matrix], More::None, Vector),
    row("ceil", &[Vector], More::None, Vector),
    row("changes", &[Matrix], More::None, Vector),
    row("clamp", &[Vector, Scalar, Scalar], More::None, Vector),
    row("clamp_max", &[Vector, Scalar], More::None, Vector),
    row("clamp_min", &[Vector, Scalar], More::None, Vector),
    row("cos", &[Vector], More::None, Vector),
    row("cosh", &[Vector], More::None, Vector),
    row("count_over_time", &[Matrix], More::None, Vector),
    row("day_of_month", &[Vector], More::UpTo(1), Vector),
    row("day_of_week", &[Vector], More::UpTo(1), Vector),
    row("day_of_year", &[Vector], More::UpTo(1), Vector),
    row("days_in_month", &[Vector], More::UpTo(1), Vector),
    row("deg", &[Vector], More::None, Vector),
    row("delta", &[Matrix], More::None, Vector),
    row("deriv", &[Matrix], More::None, Vector),
    row("double_exponential_smoothing", &[Matrix, Scalar, Scalar], More::None, Vector),
    row("end", &[], More::None, Scalar),
    row("exp", &[Vector], More::None, Vector),
    row("first_over_time", &[Matrix], More::None, Vector),
    row("floor", &[Vector], More::None, Vector),
    row("histogram_avg", &[Vector], More::None, Vector),
    row("histogram_count", &[Vector], More::None, Vector),
    row("histogram_fraction", &[Scalar, Scalar, Vector], More::None, Vector),
    row("histogram_quantile", &[Scalar, Vector], More::None, Vector),
    row("histogram_quantiles", &[Vector, Text, Scalar, Scalar], More::UpTo(9), Vector),
    row("histogram_stddev", &[Vector], More::None, Vector),
    row("histogram_stdvar", &[Vector], More::None, Vector),
    row("histogram_sum", &[Vector], More::None, Vector),
    row("hour", &[Vector], More::UpTo(1), Vector),
    row("idelta", &[Matrix], More::None, Vector),
    row("increase", &[Matrix], More::None, Vector),
    row("info", &[Vector, Vector], More::UpTo(1), Vector),
    row("irate", &[Matrix], More::None, Vector),
    row("label_join", &[Vector, Text, Text, Text], More::Any, Vector),
    row("label_replace", &[Vector, Text, Text, Text, Text], More::None, Vector),
    row("last_over_time", &[Matrix], More::None, Vector),
    row("ln", &[Vector], More::None, Vector),
    row("log10", &[Vector], More::None, Vector),
    row("log2", &[Vector], More::None, Vector),
    row("mad_over_time", &[Matrix], More::None, Vector),
    row("max_of", &[Scalar, Scalar], More::None, Scalar),
    row("max_over_time", &[Matrix], More::None, Vector),
    row("min_of", &[Scalar, Scalar], More::None, Scalar),
    row("min_over_time", &[Matrix], More::None, Vector),
    row("minute", &[Vector], More::UpTo(1), Vector),
    row("month", &[Vector], More::UpTo(1), Vector),
    row("pi", &[], More::None, Scalar),
    row("predict_linear", &[Matrix, Scalar], More::None, Vector),
    row("present_over_time", &[Matrix], More::None, Vector),
    row("quantile_over_time", &[Scalar, Matrix], More::None, Vector),
    row("rad", &[Vector], More::None, Vector),
    row("range", &[], More::None, Scalar),
    row("rate", &[Matrix], More::None, Vector),
    row("resets", &[Matrix], More::None, Vector),
    row("round", &[Vector, Scalar], More::UpTo(1), Vector),
    row("scalar", &[Vector], More::None, Scalar),
    row("sgn", &[Vector], More::None, Vector),
    row("sin", &[Vector], More::None, Vector),
    row("sinh", &[Vector], More::None, Vector),
    row("sort", &[Vector], More::None, Vector),
    row("sort_by_label", &[Vector, Text], More::Any, Vector),
    row("sort_by_label_desc", &[Vector, Text], More::Any, Vector),
    row("sort_desc", &[Vector], More::None, Vector),
    row("sqrt", &[Vector], More::None, Vector),
    row("start", &[], More::None, Scalar),
    row("start_timestamp", &[Vector], More::None, Vector),
    row("stddev_over_time", &[Matrix], More::None, Vector),
    row("stdvar_over_time", &[Matrix], More::None, Vector),
    row("step", &[], More::None, Scalar),
    row("sum_over_time", &[Matrix], More::None, Vector),
    row("tan", &[Vector], More::None, Vector),
    row("tanh", &[Vector], More::None, Vector),
    row("time", &[], More::None, Scalar),
    row("timestamp", &[Vector], More::None, Vector),
    row("ts_of_first_over_time", &[Matrix], More::None, Vector),
    row("ts_of_last_over_time", &[Matrix], More::None, Vector),
    row("ts_of_max_over_time", &[Matrix], More::None, Vector),
    row("ts_of_min_over_time", &[Matrix], More::None, Vector),
    row("vector", &[Scalar], More::None, Vector),
    row("year", &[Vector], More::UpTo(1), Vector),
];
