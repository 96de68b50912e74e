//! Selectors: the last value before each step, and the samples of a window before each step.

use super::{ABSENT, Error, Evaluator, Grid, Line, failed, is_absent};
use crate::labels::Labels;
use crate::promql::ast::{Expr, Extension, Moved, RangeSelector, Selector, Subquery};
use crate::sample::{Sample, Span};

/// A selector at the moments that it looks at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Aim {
    pub(super) offset_ms: i64,
    /// With `@` it is the same moment at every step.
    pub(super) at_ms: Option<i64>,
}

impl Aim {
    pub(super) fn moment(&self, number: usize, grid: &Grid) -> i64 {
        self.at_ms.unwrap_or_else(|| grid.at(number)).saturating_sub(self.offset_ms)
    }

    /// From the first to the last moment.
    fn span(&self, grid: &Grid) -> Span {
        let (first, last) = (self.moment(0, grid), self.moment(grid.count - 1, grid));
        Span::new(first.min(last), first.max(last))
    }
}

/// The samples of one series, for windows that slide over them.
pub(super) struct Range<'a> {
    pub(super) labels: &'a Labels,
    pub(super) drop_name: bool,
    /// Without those that only say that the series has ended.
    pub(super) samples: &'a [Sample],
    pub(super) aim: Aim,
    pub(super) range_ms: i64,
    pub(super) extension: Extension,
    lookback_ms: i64,
}

impl Range<'_> {
    /// After the first moment, up to the second.
    pub(super) fn window(&self, number: usize, grid: &Grid) -> (i64, i64) {
        let to = self.aim.moment(number, grid);
        (to.saturating_sub(self.range_ms), to)
    }

    /// Calls back with the samples of each step that has any, and where the window lies.
    pub(super) fn slide(
        &self,
        grid: &Grid,
        mut look: impl FnMut(usize, &[Sample], (i64, i64)) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let (mut first, mut last) = (0, 0);
        for number in 0..grid.count {
            let window = self.window(number, grid);
            let (from, to) = self.seen(window);
            // Windows of `@` stay, all others move on.
            while last < self.samples.len() && self.samples[last].at_ms <= to {
                last += 1;
            }
            while first < last && self.samples[first].at_ms <= from {
                first += 1;
            }
            if first < last {
                look(number, &self.samples[first..last], window)?;
            }
        }
        Ok(())
    }

    /// The window and what the selector looks at beyond it.
    fn seen(&self, (from, to): (i64, i64)) -> (i64, i64) {
        match self.extension {
            Extension::None => (from, to),
            Extension::Anchored => (from - self.lookback_ms, to),
            Extension::Smoothed => (from - self.lookback_ms, to + self.lookback_ms),
        }
    }

    /// The samples of the window, with values at its edges if the selector asks for them.
    pub(super) fn extended(&self, from: i64, to: i64) -> Vec<Sample> {
        let (seen_from, seen_to) = self.seen((from, to));
        let first = self.samples.partition_point(|sample| sample.at_ms <= seen_from);
        let last = self.samples.partition_point(|sample| sample.at_ms <= seen_to);
        let seen = &self.samples[first..last.max(first)];
        if self.extension == Extension::None {
            return seen.to_vec();
        }
        super::rates::extend(seen, from, to, self.extension == Extension::Smoothed)
    }
}

impl Evaluator<'_> {
    pub(super) fn aim(&self, moved: &Moved) -> Result<Aim, Error> {
        Ok(Aim { offset_ms: self.offset_ms(moved)?, at_ms: moved.at.map(|at| self.at_ms(at)) })
    }

    pub(super) fn select_lines(
        &self,
        selector: &Selector,
        grid: &Grid,
    ) -> Result<Vec<Line>, Error> {
        match selector.extension {
            Extension::Smoothed => self.select_smoothed(selector, grid),
            Extension::None | Extension::Anchored => {
                self.select_with(selector, grid, |sample| sample.value)
            }
        }
    }

    /// What `pick` makes of the last sample before each step.
    pub(super) fn select_with(
        &self,
        selector: &Selector,
        grid: &Grid,
        pick: impl Fn(&Sample) -> f64,
    ) -> Result<Vec<Line>, Error> {
        let (aim, lookback) = (self.aim(&selector.moved)?, self.options.lookback_ms);
        let moments = aim.span(grid);
        let span = Span::new(moments.from_ms.saturating_sub(lookback - 1), moments.to_ms);
        let (mut samples, mut lines) = (Vec::new(), Vec::new());
        for series in self.querier.select(&selector.matchers, span) {
            series.read(span, self.budget, &mut samples)?;
            let mut values = vec![ABSENT; grid.count];
            let (mut next, mut any) = (0, false);
            for (number, value) in values.iter_mut().enumerate() {
                let moment = aim.moment(number, grid);
                while next < samples.len() && samples[next].at_ms <= moment {
                    next += 1;
                }
                let Some(sample) = next.checked_sub(1).map(|last| &samples[last]) else { continue };
                if sample.at_ms > moment - lookback && !sample.is_stale() {
                    *value = pick(sample);
                    any = true;
                }
            }
            if any {
                lines.push(Line { labels: series.labels, drop_name: false, values });
            }
        }
        Ok(lines)
    }

    /// Between the samples on either side of each step.
    fn select_smoothed(&self, selector: &Selector, grid: &Grid) -> Result<Vec<Line>, Error> {
        let (aim, lookback) = (self.aim(&selector.moved)?, self.options.lookback_ms);
        let moments = aim.span(grid);
        let span = Span::new(moments.from_ms - lookback + 1, moments.to_ms + lookback);
        let (mut samples, mut lines) = (Vec::new(), Vec::new());
        for series in self.querier.select(&selector.matchers, span) {
            series.read(span, self.budget, &mut samples)?;
            samples.retain(|sample| !sample.is_stale());
            let mut values = vec![ABSENT; grid.count];
            for (number, value) in values.iter_mut().enumerate() {
                let moment = aim.moment(number, grid);
                let next = samples.partition_point(|sample| sample.at_ms < moment);
                let near = |sample: &&Sample| (sample.at_ms - moment).abs() <= lookback;
                let after = samples.get(next).filter(near);
                let before = next.checked_sub(1).map(|last| &samples[last]);
                let before = before.filter(|sample| sample.at_ms > moment - lookback);
                *value = match (before, after) {
                    (_, Some(after)) if after.at_ms == moment => after.value,
                    (Some(before), Some(after)) => {
                        super::rates::interpolate(before, after, moment, false)
                    }
                    (Some(before), None) => before.value,
                    (None, _) => ABSENT,
                };
            }
            if values.iter().any(|value| !is_absent(*value)) {
                lines.push(Line { labels: series.labels, drop_name: false, values });
            }
        }
        Ok(lines)
    }

    /// Calls back with each series of a range selector or a subquery.
    pub(super) fn each_range(
        &self,
        expr: &Expr,
        grid: &Grid,
        look: impl FnMut(&Range<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        match expr.bare() {
            Expr::Matrix(matrix) => self.each_of_matrix(matrix, grid, look),
            Expr::Subquery(subquery) => self.each_of_subquery(subquery, grid, look),
            _ => failed("a range of samples is wanted"),
        }
    }

    fn each_of_matrix(
        &self,
        matrix: &RangeSelector,
        grid: &Grid,
        mut look: impl FnMut(&Range<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let (aim, lookback_ms) = (self.aim(&matrix.selector.moved)?, self.options.lookback_ms);
        let range_ms = self.positive_ms(&matrix.range)?;
        let moments = aim.span(grid);
        let extension = matrix.selector.extension;
        let (before, after) = match extension {
            Extension::None => (0, 0),
            Extension::Anchored => (lookback_ms, 0),
            Extension::Smoothed => (lookback_ms, lookback_ms),
        };
        let from =
            moments.from_ms.saturating_sub(range_ms.saturating_add(before)).saturating_add(1);
        let span = Span::new(from, moments.to_ms.saturating_add(after));
        let mut samples = Vec::new();
        for series in self.querier.select(&matrix.selector.matchers, span) {
            series.read(span, self.budget, &mut samples)?;
            samples.retain(|sample| !sample.is_stale());
            self.budget.take_steps(grid.count as u64)?;
            let (labels, samples) = (&series.labels, samples.as_slice());
            let drop_name = false;
            look(&Range { labels, drop_name, samples, aim, range_ms, extension, lookback_ms })?;
        }
        Ok(())
    }

    fn each_of_subquery(
        &self,
        subquery: &Subquery,
        grid: &Grid,
        mut look: impl FnMut(&Range<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let aim = self.aim(&subquery.moved)?;
        let range_ms = self.positive_ms(&subquery.range)?;
        let step_ms = match &subquery.step {
            Some(step) => self.positive_ms(step)?.max(1),
            None => self.options.subquery_step_ms,
        };
        let moments = aim.span(grid);
        // Steps of a subquery lie on multiples of its step, whenever it is asked.
        let after = moments.from_ms.saturating_sub(range_ms);
        let mut start_ms = step_ms * (after / step_ms);
        if start_ms <= after {
            start_ms += step_ms;
        }
        if start_ms > moments.to_ms {
            return Ok(());
        }
        let steps = (moments.to_ms - start_ms) / step_ms;
        if steps > SUBQUERY_STEPS_MAX {
            return failed("a subquery of this range and step has too many steps");
        }
        let inner = Grid { start_ms, step_ms, count: steps as usize + 1 };
        let mut samples: Vec<Sample> = Vec::new();
        for line in self.eval(&subquery.expr, &inner)? {
            samples.clear();
            let present = line.values.iter().enumerate().filter(|(_, value)| !is_absent(**value));
            samples.extend(present.map(|(number, value)| Sample::new(inner.at(number), *value)));
            let (labels, drop_name, samples) = (&line.labels, line.drop_name, samples.as_slice());
            let (extension, lookback_ms) = (Extension::None, self.options.lookback_ms);
            look(&Range { labels, drop_name, samples, aim, range_ms, extension, lookback_ms })?;
        }
        Ok(())
    }
}

use super::SUBQUERY_STEPS_MAX;
