//! Classic histograms: buckets that are series of their own, told apart by their label `le`.

use std::collections::HashMap;

use super::{ABSENT, Error, Evaluator, Grid, Line, failed, is_absent};
use crate::labels::{Labels, NAME};
use crate::promql::ast::{Call, Expr};
use crate::promql::format::format_open_metrics;

const LE: &str = "le";

/// Counts that differ by less do so because floats are not exact.
const TOLERANCE: f64 = 1e-12;

/// The buckets of one histogram, by their upper bound.
struct Histogram {
    labels: Labels,
    drop_name: bool,
    buckets: Vec<(f64, Vec<f64>)>,
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    upper: f64,
    /// Of this bucket and all before it.
    count: f64,
}

impl Evaluator<'_> {
    pub(super) fn histogram_quantile(&self, call: &Call, grid: &Grid) -> Result<Vec<Line>, Error> {
        let q = self.eval_scalar(&call.arguments[0], grid)?;
        q.iter().for_each(|q| self.check_quantile(*q, call.arguments[0].place()));
        let histograms = self.histograms(&call.arguments[1], grid)?;
        let lines = histograms.iter().map(|histogram| {
            self.column(histogram, &call.arguments[1], grid, |number, buckets| {
                quantile(q[number], buckets)
            })
        });
        self.unnamed(lines.collect())
    }

    pub(super) fn histogram_quantiles(&self, call: &Call, grid: &Grid) -> Result<Vec<Line>, Error> {
        let Expr::Text { value: label, .. } = call.arguments[1].bare() else {
            return failed("histogram_quantiles wants the name of a label");
        };
        let histograms = self.histograms(&call.arguments[0], grid)?;
        let mut lines = Vec::new();
        for argument in &call.arguments[2..] {
            let q = self.eval_scalar(argument, grid)?;
            q.iter().for_each(|q| self.check_quantile(*q, argument.place()));
            for histogram in &histograms {
                let line = self.column(histogram, &call.arguments[0], grid, |number, buckets| {
                    quantile(q[number], buckets)
                });
                // Each quantile has a series of its own, also where it changes from step to step.
                let mut of_value: Vec<(u64, Line)> = Vec::new();
                for (number, value) in line.values.iter().enumerate() {
                    if is_absent(*value) {
                        continue;
                    }
                    let bits = q[number].to_bits();
                    let known = of_value.iter().position(|(known, _)| *known == bits);
                    let place = known.unwrap_or_else(|| {
                        let labels = line.labels.with(label, &format_open_metrics(q[number]));
                        of_value.push((
                            bits,
                            Line { labels, values: vec![ABSENT; grid.count], ..line },
                        ));
                        of_value.len() - 1
                    });
                    of_value[place].1.values[number] = *value;
                }
                lines.extend(of_value.into_iter().map(|(_, line)| line));
            }
        }
        self.unnamed(lines)
    }

    pub(super) fn histogram_fraction(&self, call: &Call, grid: &Grid) -> Result<Vec<Line>, Error> {
        let lower = self.eval_scalar(&call.arguments[0], grid)?;
        let upper = self.eval_scalar(&call.arguments[1], grid)?;
        let histograms = self.histograms(&call.arguments[2], grid)?;
        let lines = histograms.iter().map(|histogram| {
            self.column(histogram, &call.arguments[2], grid, |number, buckets| {
                (fraction(lower[number], upper[number], buckets), None)
            })
        });
        self.unnamed(lines.collect())
    }

    fn histograms(&self, argument: &Expr, grid: &Grid) -> Result<Vec<Histogram>, Error> {
        let mut places: HashMap<Labels, usize> = HashMap::new();
        let mut histograms: Vec<Histogram> = Vec::new();
        for line in self.eval(argument, grid)? {
            let le = line.labels.get(LE);
            let Some(upper) = read_bound(le) else {
                let text =
                    format!("bucket label \"le\" is missing or has a malformed value of {le:?}");
                let name = line.labels.get(NAME);
                let named = if self.options.delayed_name_removal && !name.is_empty() {
                    format!(" for metric name {name:?}")
                } else {
                    String::new()
                };
                self.warn(argument.place(), &format!("{text}{named}"));
                continue;
            };
            let labels = line.labels.without(|name| name == LE);
            let place = *places.entry(labels).or_insert_with_key(|labels| {
                let (labels, buckets) = (labels.clone(), Vec::new());
                histograms.push(Histogram { labels, drop_name: line.drop_name, buckets });
                histograms.len() - 1
            });
            histograms[place].buckets.push((upper, line.values));
        }
        for histogram in &mut histograms {
            histogram.buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
        }
        Ok(histograms)
    }

    /// Calculates each step from the buckets that are there.
    fn column(
        &self,
        histogram: &Histogram,
        argument: &Expr,
        grid: &Grid,
        calculate: impl Fn(usize, &mut Vec<Bucket>) -> (f64, Option<Forced>),
    ) -> Line {
        let mut values = vec![ABSENT; grid.count];
        let mut buckets = Vec::with_capacity(histogram.buckets.len());
        let mut forced = false;
        for (number, value) in values.iter_mut().enumerate() {
            buckets.clear();
            let column = histogram.buckets.iter().map(|(upper, counts)| (*upper, counts[number]));
            let there = column.filter(|(_, count)| !is_absent(*count));
            buckets.extend(there.map(|(upper, count)| Bucket { upper, count }));
            if !buckets.is_empty() {
                let (result, mended) = calculate(number, &mut buckets);
                *value = result;
                forced |= mended.is_some();
            }
        }
        if forced {
            let text = "input to histogram_quantile needed to be fixed for monotonicity";
            self.inform(argument.place(), text);
        }
        Line { labels: histogram.labels.clone(), drop_name: histogram.drop_name, values }
    }
}

/// Counts fell from one bucket to the next, and were lifted.
struct Forced;

fn read_bound(le: &str) -> Option<f64> {
    match le {
        "+Inf" | "Inf" => Some(f64::INFINITY),
        "-Inf" => Some(f64::NEG_INFINITY),
        _ => le.parse().ok(),
    }
}

/// Adds up buckets that have the same bound under different names.
fn coalesce(buckets: &mut Vec<Bucket>) {
    buckets.dedup_by(|next, kept| {
        let same = next.upper.total_cmp(&kept.upper).is_eq();
        if same {
            kept.count += next.count;
        }
        same
    });
}

fn is_complete(buckets: &[Bucket]) -> bool {
    buckets.last().is_some_and(|last| last.upper == f64::INFINITY)
}

fn quantile(q: f64, buckets: &mut Vec<Bucket>) -> (f64, Option<Forced>) {
    if q.is_nan() {
        return (f64::NAN, None);
    }
    if q < 0.0 {
        return (f64::NEG_INFINITY, None);
    }
    if q > 1.0 {
        return (f64::INFINITY, None);
    }
    if !is_complete(buckets) {
        return (f64::NAN, None);
    }
    coalesce(buckets);
    let forced = lift(buckets);
    let last = buckets.len() - 1;
    if last == 0 || buckets[last].count == 0.0 {
        return (f64::NAN, forced);
    }
    let mut rank = q * buckets[last].count;
    let place = search(last, |place| buckets[place].count >= rank);
    if place == last {
        return (buckets[last - 1].upper, forced);
    }
    if place == 0 && buckets[0].upper <= 0.0 {
        return (buckets[0].upper, forced);
    }
    let (mut start, mut count) = (0.0, buckets[place].count);
    if place > 0 {
        start = buckets[place - 1].upper;
        count -= buckets[place - 1].count;
        rank -= buckets[place - 1].count;
    }
    (start + (buckets[place].upper - start) * (rank / count), forced)
}

/// The first place below `end` that is so, by halves; NaN among the counts leads where it leads.
fn search(end: usize, is_so: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, end);
    while low < high {
        let middle = usize::midpoint(low, high);
        if is_so(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    low
}

/// Counts must not fall from one bucket to the next: those that do are lifted to the one before.
#[expect(clippy::float_cmp, reason = "equal counts are what most buckets have")]
fn lift(buckets: &mut [Bucket]) -> Option<Forced> {
    let mut before = buckets[0].count;
    let mut forced = None;
    for bucket in &mut buckets[1..] {
        if bucket.count == before {
            continue;
        }
        if nearly(before, bucket.count) {
            bucket.count = before;
        } else if bucket.count < before {
            bucket.count = before;
            forced = Some(Forced);
        } else {
            before = bucket.count;
        }
    }
    forced
}

fn nearly(a: f64, b: f64) -> bool {
    if a.is_nan() || b.is_nan() {
        return a.is_nan() && b.is_nan();
    }
    let (sum, difference) = (a.abs() + b.abs(), (a - b).abs());
    if a == 0.0 || b == 0.0 || sum < f64::MIN_POSITIVE {
        return difference < TOLERANCE * f64::MIN_POSITIVE;
    }
    difference / sum.min(f64::MAX) < TOLERANCE
}

/// Which part of all observations lies between two bounds.
fn fraction(lower: f64, upper: f64, buckets: &mut Vec<Bucket>) -> f64 {
    if !is_complete(buckets) {
        return f64::NAN;
    }
    coalesce(buckets);
    let count = buckets[buckets.len() - 1].count;
    if count == 0.0 || lower.is_nan() || upper.is_nan() {
        return f64::NAN;
    }
    if lower >= upper {
        return 0.0;
    }
    let rank = |value: f64| rank_of(value, buckets).filter(|rank| *rank <= count).unwrap_or(count);
    (rank(upper) - rank(lower)) / count
}

/// How many observations lie below a value. None: beyond all buckets.
fn rank_of(value: f64, buckets: &[Bucket]) -> Option<f64> {
    let mut start = if buckets[0].upper <= 0.0 { f64::NEG_INFINITY } else { 0.0 };
    let mut rank = 0.0;
    for bucket in buckets {
        if start >= value {
            return Some(rank);
        }
        if bucket.upper > value {
            if start == f64::NEG_INFINITY {
                return Some(bucket.count);
            }
            return Some(rank + (bucket.count - rank) * (value - start) / (bucket.upper - start));
        }
        rank = bucket.count;
        start = bucket.upper;
    }
    None
}
