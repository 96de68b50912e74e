//! Looks over a time, a piece at a time: a query of a range gives what as many queries of a moment would.

use tombolo_series::promql::{Expr, Options, Query, Value, evaluate};
use tombolo_series::{Budget, Labels, Querier, Sample, Span};

use crate::look::{Look, Seen};
use crate::{Rule, Source};

/// Steps of one query: a few hours at 15 s, so that little is held at once.
const STEPS: i64 = 2_000;

/// The looks of a rule, in order.
pub(super) struct Columns<'a> {
    rule: &'a Rule,
    store: &'a dyn Querier,
    span: Span,
    next_ms: i64,
    end_ms: i64,
    seen: Vec<Column>,
    ahead: Vec<Column>,
    failure: Option<String>,
}

struct Column {
    labels: Labels,
    samples: Vec<Sample>,
    at: usize,
}

impl Column {
    fn take(&mut self, at_ms: i64) -> Option<Seen> {
        let sample = self.samples.get(self.at).filter(|sample| sample.at_ms == at_ms)?;
        self.at += 1;
        Some(Seen { labels: self.labels.clone(), value: sample.value })
    }
}

impl<'a> Columns<'a> {
    pub(super) fn new(rule: &'a Rule, store: &'a dyn Querier, span: Span) -> Self {
        let next_ms = span.from_ms;
        let (seen, ahead) = (Vec::new(), Vec::new());
        Self { rule, store, span, next_ms, end_ms: next_ms - 1, seen, ahead, failure: None }
    }

    /// The next piece of the time.
    fn fill(&mut self) {
        let step = self.rule.interval_ms;
        let last = self.next_ms + (STEPS - 1) * step;
        let end = last.min(self.next_ms + (self.span.to_ms - self.next_ms) / step * step);
        self.end_ms = end;
        self.failure = None;
        let query = Query::range(self.next_ms, end, step);
        let Source::Query { text, expr } = &self.rule.source else { return };
        self.seen = self.ask(text, expr, query);
        self.ahead = match &self.rule.trend {
            Some(trend) => self.ask(&trend.text, &trend.expr, query),
            None => Vec::new(),
        };
    }

    fn ask(&mut self, text: &str, expr: &Expr, query: Query) -> Vec<Column> {
        let budget = Budget::new(u64::MAX, u64::MAX);
        let column = |labels: Labels, samples| Column { labels, samples, at: 0 };
        match evaluate(text, expr, query, Options::default(), self.store, &budget) {
            Ok(answer) => match answer.value {
                Value::Matrix(all) => all
                    .into_iter()
                    .map(|points| column(points.labels.without_name(), points.samples))
                    .collect(),
                Value::Scalar(_) | Value::Text { .. } | Value::Vector(_) => Vec::new(),
            },
            Err(error) => {
                self.failure = Some(error.to_string());
                Vec::new()
            }
        }
    }
}

impl Iterator for Columns<'_> {
    type Item = Look;

    fn next(&mut self) -> Option<Look> {
        if self.next_ms > self.span.to_ms {
            return None;
        }
        if self.next_ms > self.end_ms {
            self.fill();
        }
        let at_ms = self.next_ms;
        self.next_ms += self.rule.interval_ms;
        Some(Look {
            at_ms,
            seen: self.seen.iter_mut().filter_map(|column| column.take(at_ms)).collect(),
            ahead: self.ahead.iter_mut().filter_map(|column| column.take(at_ms)).collect(),
            failure: self.failure.clone(),
        })
    }
}
