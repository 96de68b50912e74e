//! `rate`, `increase`, `delta`, and what they make of the edges of a window.

use super::ABSENT;
use super::windows::Window;
use crate::promql::ast::Extension;
use crate::sample::Sample;

/// What a rate is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rate {
    /// Falls only when it begins anew.
    pub(super) counter: bool,
    pub(super) per_second: bool,
}

pub(super) fn rate(window: &Window<'_>, rate: Rate) -> f64 {
    match window.extension {
        Extension::None => extrapolated(window, rate),
        Extension::Anchored | Extension::Smoothed => exact(window, rate),
    }
}

/// The growth between the first and the last sample, carried on to the edges of the window where the
/// series most likely went on.
fn extrapolated(window: &Window<'_>, rate: Rate) -> f64 {
    let [first, .., last] = window.samples else { return ABSENT };
    let mut growth = last.value - first.value;
    if rate.counter {
        for pair in window.samples.windows(2) {
            if pair[1].value < pair[0].value {
                growth += pair[0].value;
            }
        }
    }
    let seconds = |ms: i64| ms as f64 / 1000.0;
    let sampled = seconds(last.at_ms - first.at_ms);
    let mean_step = sampled / (window.samples.len() - 1) as f64;
    // Where a sample is missing that should have come, the series began or ended: about half a step off.
    let near = mean_step * 1.1;
    let mut to_start = seconds(first.at_ms - window.from_ms);
    let mut to_end = seconds(window.to_ms - last.at_ms);
    if to_start >= near {
        to_start = mean_step / 2.0;
    }
    if rate.counter {
        // A counter was never below zero.
        let mut to_zero = to_start;
        if growth > 0.0 && first.value >= 0.0 {
            to_zero = sampled * (first.value / growth);
        }
        if to_zero < to_start {
            to_start = to_zero;
        }
    }
    if to_end >= near {
        to_end = mean_step / 2.0;
    }
    let mut factor = 1.0;
    if sampled != 0.0 {
        factor = (sampled + to_start + to_end) / sampled;
    }
    if rate.per_second {
        factor /= window.range_s();
    }
    growth * factor
}

/// With `anchored` or `smoothed` the values at the edges are known, and nothing is carried on.
fn exact(window: &Window<'_>, rate: Rate) -> f64 {
    let (samples, from, to) = (window.samples, window.from_ms, window.to_ms);
    let smoothed = window.extension == Extension::Smoothed;
    let (mut first, mut last) = ends(samples, from, to, smoothed);
    if samples[last].at_ms <= from || smoothed && samples[first].at_ms > to {
        return ABSENT;
    }
    let left = left_value(samples, first, from, smoothed, rate.counter);
    let right = right_value(samples, last, to, smoothed, rate.counter);
    let mut growth = right - left;
    if rate.counter {
        // The edges have taken care of the resets that lie across them.
        first += usize::from(samples[first].at_ms <= from);
        let end = last + usize::from(samples[last].at_ms < to);
        last = end.max(first);
        let (mut before, mut lost) = (left, 0.0);
        for sample in &samples[first..last] {
            if sample.value < before {
                lost += before;
            }
            before = sample.value;
        }
        if right < before {
            lost += before;
        }
        growth += lost;
    }
    if rate.per_second { growth / window.range_s() } else { growth }
}

/// The last sample before the window (or the first one), and the first after it (or the last one).
fn ends(samples: &[Sample], from: i64, to: i64, smoothed: bool) -> (usize, usize) {
    let end = samples.len() - 1;
    let first = samples[..end].partition_point(|sample| sample.at_ms <= from).saturating_sub(1);
    let last =
        if smoothed { samples[..end].partition_point(|sample| sample.at_ms < to) } else { end };
    (first, last)
}

fn left_value(samples: &[Sample], first: usize, from: i64, smoothed: bool, counter: bool) -> f64 {
    match samples.get(first + 1) {
        Some(next) if smoothed && samples[first].at_ms < from => {
            interpolate(&samples[first], next, from, counter)
        }
        Some(_) | None => samples[first].value,
    }
}

fn right_value(samples: &[Sample], last: usize, to: i64, smoothed: bool, counter: bool) -> f64 {
    if smoothed && last > 0 && samples[last].at_ms > to {
        return interpolate(&samples[last - 1], &samples[last], to, counter);
    }
    samples[last].value
}

/// On the line between two samples; a counter that began anew began at zero.
pub(super) fn interpolate(a: &Sample, b: &Sample, at_ms: i64, counter: bool) -> f64 {
    let start = if counter && b.value < a.value { 0.0 } else { a.value };
    start + (b.value - start) * (at_ms - a.at_ms) as f64 / (b.at_ms - a.at_ms) as f64
}

/// The samples of a window with values at its edges.
pub(super) fn extend(samples: &[Sample], from: i64, to: i64, smoothed: bool) -> Vec<Sample> {
    if samples.is_empty() {
        return Vec::new();
    }
    let (first, last) = ends(samples, from, to, smoothed);
    if samples[last].at_ms <= from {
        return Vec::new();
    }
    let left = left_value(samples, first, from, smoothed, false);
    let right = right_value(samples, last, to, smoothed, false);
    let inside = samples.iter().filter(|sample| sample.at_ms > from && sample.at_ms < to);
    let mut out = vec![Sample::new(from, left)];
    out.extend(inside.copied());
    out.push(Sample::new(to, right));
    out
}
