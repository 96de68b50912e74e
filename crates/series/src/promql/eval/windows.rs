//! Functions of a range of samples. Each series is read once; [`Window`] is what a function sees of it.

use super::numbers::{Mean, Sum, quantile, regression};
use super::rates::{Rate, rate};
use super::{ABSENT, Error, Evaluator, Grid, Line, SAME_LABELS, failed, is_absent};
use crate::labels::NAME;
use crate::promql::ast::{Call, Expr, Extension, Kind};
use crate::promql::token::Place;
use crate::sample::Sample;

/// The samples that lie in a window, at least one.
pub(super) struct Window<'a> {
    pub(super) samples: &'a [Sample],
    /// Exclusive.
    pub(super) from_ms: i64,
    pub(super) to_ms: i64,
    pub(super) extension: Extension,
    /// The moment that is evaluated, which `offset` does not move.
    at_ms: i64,
    /// The arguments that are numbers.
    numbers: &'a [f64],
}

impl Window<'_> {
    pub(super) fn range_s(&self) -> f64 {
        (self.to_ms - self.from_ms) as f64 / 1000.0
    }

    fn values(&self) -> impl Iterator<Item = f64> {
        self.samples.iter().map(|sample| sample.value)
    }

    /// For `anchored` from the last sample before the window on; nothing when none lies inside.
    fn since_anchor(&self) -> &[Sample] {
        if self.extension != Extension::Anchored {
            return self.samples;
        }
        let inside = self.samples.partition_point(|sample| sample.at_ms <= self.from_ms);
        if inside == self.samples.len() { &[] } else { &self.samples[inside.saturating_sub(1)..] }
    }
}

type Function = fn(&Window<'_>) -> f64;

/// In the order of their names.
const FUNCTIONS: &[(&str, Function)] = &[
    ("absent_over_time", |_| 1.0),
    ("avg_over_time", |window| {
        let mut mean = Mean::default();
        window.values().for_each(|value| mean.add(value));
        mean.total()
    }),
    ("changes", |window| {
        let changed = |a: f64, b: f64| a != b && !(a.is_nan() && b.is_nan());
        count_pairs(window.since_anchor(), changed)
    }),
    ("count_over_time", |window| window.samples.len() as f64),
    ("delta", |window| rate(window, Rate { counter: false, per_second: false })),
    ("deriv", |window| match window.samples {
        [first, _, ..] => regression(window.samples, first.at_ms).0,
        _ => ABSENT,
    }),
    ("double_exponential_smoothing", smooth),
    ("first_over_time", |window| window.samples[0].value),
    ("idelta", |window| match window.samples {
        [.., before, last] => last.value - before.value,
        _ => ABSENT,
    }),
    ("increase", |window| rate(window, Rate { counter: true, per_second: false })),
    ("irate", |window| match window.samples {
        [.., before, last] => {
            let growth =
                if last.value < before.value { last.value } else { last.value - before.value };
            growth / ((last.at_ms - before.at_ms) as f64 / 1000.0)
        }
        _ => ABSENT,
    }),
    ("last_over_time", |window| window.samples[window.samples.len() - 1].value),
    ("mad_over_time", |window| {
        let mut values: Vec<f64> = window.values().collect();
        if values.iter().any(|value| value.is_nan()) {
            return f64::NAN;
        }
        let median = quantile(0.5, &mut values);
        values.iter_mut().for_each(|value| *value = (*value - median).abs());
        quantile(0.5, &mut values)
    }),
    ("max_over_time", |window| best(window, |new, best| new > best).value),
    ("min_over_time", |window| best(window, |new, best| new < best).value),
    ("predict_linear", |window| {
        if window.samples.len() < 2 {
            return ABSENT;
        }
        let (slope, now) = regression(window.samples, window.at_ms);
        slope * window.numbers[0] + now
    }),
    ("present_over_time", |_| 1.0),
    ("quantile_over_time", |window| {
        let mut values: Vec<f64> = window.values().collect();
        quantile(window.numbers[0], &mut values)
    }),
    ("rate", |window| rate(window, Rate { counter: true, per_second: true })),
    ("resets", |window| count_pairs(window.since_anchor(), |before, after| after < before)),
    ("stddev_over_time", |window| variance(window).sqrt()),
    ("stdvar_over_time", variance),
    ("sum_over_time", |window| {
        let mut sum = Sum::default();
        window.values().for_each(|value| sum.add(value));
        sum.total()
    }),
    ("ts_of_first_over_time", |window| window.samples[0].at_ms as f64 / 1000.0),
    ("ts_of_last_over_time", |window| {
        window.samples[window.samples.len() - 1].at_ms as f64 / 1000.0
    }),
    ("ts_of_max_over_time", |window| best(window, |new, best| new >= best).at_ms as f64 / 1000.0),
    ("ts_of_min_over_time", |window| best(window, |new, best| new <= best).at_ms as f64 / 1000.0),
];

fn count_pairs(samples: &[Sample], counts: impl Fn(f64, f64) -> bool) -> f64 {
    if samples.is_empty() {
        return ABSENT;
    }
    samples.windows(2).filter(|pair| counts(pair[0].value, pair[1].value)).count() as f64
}

/// The sample that beats all others. Anything beats NaN.
fn best(window: &Window<'_>, beats: impl Fn(f64, f64) -> bool) -> Sample {
    let mut best = window.samples[0];
    for sample in window.samples {
        if beats(sample.value, best.value) || best.value.is_nan() {
            best = *sample;
        }
    }
    best
}

/// Welford's variance, with what is rounded off.
fn variance(window: &Window<'_>) -> f64 {
    let (mut mean, mut squares, mut count) = (Sum::default(), Sum::default(), 0.0);
    for value in window.values() {
        count += 1.0;
        let off = value - (mean.value + mean.lost);
        mean.add(off / count);
        squares.add(off * (value - (mean.value + mean.lost)));
    }
    (squares.value + squares.lost) / count
}

/// Holt's double exponential smoothing (1957). The evaluator has checked both factors.
fn smooth(window: &Window<'_>) -> f64 {
    let [first, second, ..] = window.samples else { return ABSENT };
    let (level_factor, trend_factor) = (window.numbers[0], window.numbers[1]);
    let (mut before, mut level) = (0.0, first.value);
    let mut trend = second.value - first.value;
    for (number, sample) in window.samples[1..].iter().enumerate() {
        if number > 0 {
            trend = trend_factor * (level - before) + (1.0 - trend_factor) * trend;
        }
        let next = level_factor * sample.value + (1.0 - level_factor) * (level + trend);
        (before, level) = (level, next);
    }
    level
}

const ANCHORED: [&str; 5] = ["changes", "delta", "increase", "rate", "resets"];
const SMOOTHED: [&str; 3] = ["delta", "increase", "rate"];

impl Evaluator<'_> {
    /// A call with a range among its arguments.
    pub(super) fn over_time(&self, call: &Call, grid: &Grid) -> Result<Vec<Line>, Error> {
        let name = call.function.name;
        let is_range = |argument: &&Expr| argument.kind() == Kind::Matrix;
        let Some(range) = call.arguments.iter().find(is_range) else {
            return failed("a range of samples is wanted");
        };
        let others = call.arguments.iter().filter(|argument| !is_range(argument));
        let numbers = others.map(|argument| self.eval_scalar(argument, grid));
        let numbers: Vec<Vec<f64>> = numbers.collect::<Result<_, _>>()?;
        if let Expr::Matrix(matrix) = range.bare() {
            self.check_extension(name, matrix.selector.extension)?;
        }
        let place = FUNCTIONS.binary_search_by_key(&name, |(name, _)| *name);
        let Ok(place) = place else { return failed(format!("{name} is no function of a range")) };
        let function = FUNCTIONS[place].1;
        // What a moment moves, and not what it calculates, keeps its name.
        let keeps_name = matches!(name, "last_over_time" | "first_over_time");
        let mut lines = Vec::new();
        self.each_range(range, grid, |series| {
            let mut values = vec![ABSENT; grid.count];
            let mut at_step = vec![0.0; numbers.len()];
            let mut any = false;
            series.slide(grid, |number, samples, (from_ms, to_ms)| {
                for (value, all) in at_step.iter_mut().zip(&numbers) {
                    *value = all[number];
                }
                self.check_numbers(name, &at_step, range.place())?;
                let (at_ms, extension) = (grid.at(number), series.extension);
                let numbers = at_step.as_slice();
                values[number] =
                    function(&Window { samples, from_ms, to_ms, extension, at_ms, numbers });
                any |= !is_absent(values[number]);
                Ok(())
            })?;
            if any {
                let mut line =
                    Line { labels: series.labels.clone(), drop_name: series.drop_name, values };
                self.hint_at_counter(name, &line, range.place());
                if !keeps_name || line.drop_name {
                    self.drop_name(&mut line);
                }
                lines.push(line);
            }
            Ok(())
        })?;
        if name == "absent_over_time" {
            return Ok(self.absent(lines, range, grid));
        }
        self.refuse_twins(lines)
    }

    /// Here the same labels are refused even where the series do not overlap.
    fn refuse_twins(&self, lines: Vec<Line>) -> Result<Vec<Line>, Error> {
        let mut seen = std::collections::HashSet::with_capacity(lines.len());
        if !self.options.delayed_name_removal && !lines.iter().all(|line| seen.insert(&line.labels))
        {
            return failed(SAME_LABELS);
        }
        Ok(lines)
    }

    fn check_extension(&self, name: &str, extension: Extension) -> Result<(), Error> {
        let (word, allowed): (_, &[&str]) = match extension {
            Extension::None => return Ok(()),
            Extension::Anchored => ("anchored", &ANCHORED),
            Extension::Smoothed => ("smoothed", &SMOOTHED),
        };
        if allowed.contains(&name) {
            return Ok(());
        }
        failed(format!(
            "{word} modifier can only be used with: {} - not with {name}",
            allowed.join(", ")
        ))
    }

    fn check_numbers(&self, name: &str, numbers: &[f64], place: Place) -> Result<(), Error> {
        match (name, numbers) {
            ("double_exponential_smoothing", [level, trend]) => {
                for (what, factor) in [("smoothing", level), ("trend", trend)] {
                    if *factor <= 0.0 || *factor >= 1.0 {
                        let short = if what == "trend" { "tf" } else { "sf" };
                        return failed(format!(
                            "invalid {what} factor. Expected: 0 < {short} < 1, got: {factor:.6}"
                        ));
                    }
                }
            }
            ("quantile_over_time", [q]) => self.check_quantile(*q, place),
            _ => {}
        }
        Ok(())
    }

    pub(super) fn check_quantile(&self, q: f64, place: Place) {
        if q.is_nan() || !(0.0..=1.0).contains(&q) {
            let got = crate::promql::format::format_short(q);
            self.warn(place, &format!("quantile value should be between 0 and 1, got {got}"));
        }
    }

    fn hint_at_counter(&self, function: &str, line: &Line, place: Place) {
        let name = line.labels.get(NAME);
        let counted = ["_total", "_sum", "_count", "_bucket"].iter().any(|end| name.ends_with(end));
        if matches!(function, "rate" | "increase") && !name.is_empty() && !counted {
            let text =
                "metric might not be a counter, name does not end in _total/_sum/_count/_bucket";
            self.inform(place, &format!("{text}: {name:?}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::FUNCTIONS;

    #[test]
    fn functions_are_found_by_name() {
        assert!(FUNCTIONS.is_sorted_by_key(|(name, _)| *name));
    }
}
