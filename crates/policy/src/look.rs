//! One look at what is measured: the values of a rule at a moment, asked of a store of samples.

use std::sync::Arc;

use tombolo_series::promql::{self, Options, Query, Value, evaluate};
use tombolo_series::{Budget, Labels, Querier};

use crate::{Rule, Source};

/// What one subject shows.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    /// Without the name of the metric.
    pub labels: Labels,
    pub value: f64,
}

/// What is seen at a moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Look {
    pub at_ms: i64,
    pub seen: Vec<Seen>,
    /// What the trend says will be seen; empty where a rule looks at no trend.
    pub ahead: Vec<Seen>,
    /// Why nothing could be seen, when that failed.
    pub failure: Option<String>,
}

/// A query of more samples than this is a mistake of its author; the others shall still be asked.
const SAMPLES_MAX: u64 = 5_000_000;
const STEPS_MAX: u64 = 50_000_000;

/// The values of a rule at a moment. Of a rule that is about a fact there are none here.
pub fn at(rule: &Rule, store: &dyn Querier, at_ms: i64) -> Look {
    let mut look = Look { at_ms, ..Look::default() };
    let Source::Query { text, expr } = &rule.source else { return look };
    match instant(text, expr, store, at_ms) {
        Ok(seen) => look.seen = seen,
        Err(error) => look.failure = Some(error.to_string()),
    }
    if let Some(trend) = &rule.trend {
        match instant(&trend.text, &trend.expr, store, at_ms) {
            Ok(ahead) => look.ahead = ahead,
            Err(error) => look.failure = look.failure.or(Some(error.to_string())),
        }
    }
    look
}

/// Something that is asked about what was measured, in PromQL.
#[derive(Clone, Debug)]
pub struct Question {
    pub text: String,
    pub expr: Arc<promql::Expr>,
}

/// Whoever answers questions about what was measured: our own store in this process, or a Prometheus elsewhere.
pub trait Engine: Send + Sync {
    /// What is seen at a moment by those of a namespace. May block; asked on a thread that may wait.
    fn ask(&self, namespace: &str, question: &Question, at_ms: i64) -> Result<Vec<Seen>, String>;
}

/// What a query gives at a moment.
pub fn instant(
    text: &str,
    expr: &promql::Expr,
    store: &dyn Querier,
    at_ms: i64,
) -> Result<Vec<Seen>, promql::Error> {
    let budget = Budget::new(SAMPLES_MAX, STEPS_MAX);
    let answer = evaluate(text, expr, Query::instant(at_ms), Options::default(), store, &budget)?;
    Ok(match answer.value {
        Value::Vector(points) => points
            .into_iter()
            .map(|point| Seen { labels: point.labels.without_name(), value: point.sample.value })
            .collect(),
        Value::Scalar(sample) => vec![Seen { labels: Labels::empty(), value: sample.value }],
        Value::Text { .. } | Value::Matrix(_) => Vec::new(),
    })
}
