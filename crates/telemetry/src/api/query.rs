//! `query`, `query_range`, `query_exemplars`, `format_query` and `parse_query`.

use std::future::{Ready, ready};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use serde_json::json;
use tombolo_series::promql::{self, Answer, Expr, Kind, Options, Query, Value};
use tombolo_series::{Budget, Querier, ReadError, Union};

use super::form::{Form, duration, timeout};
use super::refusal::{Refusal, json};
use super::{Asker, Service};

/// As many steps as Prometheus allows.
const STEPS_MAX: i64 = 11_000;

/// What the evaluation says of a length that is calculated and comes to nothing.
const NO_LENGTH: &str = "duration must be greater than 0";

pub(super) async fn instant(
    State(service): State<Service>,
    Extension(asker): Extension<Asker>,
    form: Form,
) -> Result<Response, Refusal> {
    let at_ms = form.time("time")?.unwrap_or_else(|| service.now_ms());
    let asked = Asked::read(&form, &service)?;
    asked.answer(Query::instant(at_ms), &service, &asker).await
}

pub(super) async fn range(
    State(service): State<Service>,
    Extension(asker): Extension<Asker>,
    form: Form,
) -> Result<Response, Refusal> {
    let (start, end) = (form.wanted_time("start")?, form.wanted_time("end")?);
    if end < start {
        return Err(Refusal::parameter("end", "end timestamp must not be before start time"));
    }
    let step = duration(form.get("step")).map_err(|problem| Refusal::parameter("step", problem))?;
    if step <= 0 {
        return Err(Refusal::parameter(
            "step",
            "zero or negative query resolution step widths are not accepted. Try a positive integer",
        ));
    }
    if end.saturating_sub(start) / step > STEPS_MAX {
        return Err(Refusal::bad_data(
            "exceeded maximum resolution of 11,000 points per timeseries. Try decreasing the query \
             resolution (?step=XX)",
        ));
    }
    let asked = Asked::read(&form, &service)?;
    if !matches!(asked.expr.kind(), Kind::Scalar | Kind::Vector) {
        let kind = asked.expr.kind().name();
        return Err(Refusal::parameter(
            "query",
            format!(
                "invalid expression type {kind:?} for range query, must be Scalar or instant Vector"
            ),
        ));
    }
    asked.answer(Query::range(start, end, step), &service, &asker).await
}

/// Exemplars are not stored. The query is still read, so that a wrong one is told so.
pub(super) fn exemplars(form: Form) -> Ready<Answered> {
    let answer = || {
        let (start, end) = (form.wanted_time("start")?, form.wanted_time("end")?);
        if end < start {
            return Err(Refusal::bad_data("end timestamp must not be before start timestamp"));
        }
        read(&form)?;
        Ok(json(r#"{"status":"success","data":[]}"#.to_owned()))
    };
    ready(answer())
}

pub(super) fn format(form: Form) -> Ready<Answered> {
    let formatted = read(&form).map(|expr| promql::format(&expr));
    ready(formatted.map(|text| json(json!({"status": "success", "data": text}).to_string())))
}

pub(super) fn parse(form: Form) -> Ready<Answered> {
    let tree = read(&form).map(|expr| promql::tree_json(&expr));
    ready(tree.map(|tree| json(format!(r#"{{"status":"success","data":{tree}}}"#))))
}

type Answered = Result<Response, Refusal>;

fn read(form: &Form) -> Result<Expr, Refusal> {
    promql::parse(form.get("query")).map_err(|error| Refusal::parameter("query", error))
}

/// A query that was understood.
struct Asked {
    text: String,
    expr: Expr,
    options: Options,
    limit: usize,
    time_max: Duration,
}

impl Asked {
    fn read(form: &Form, service: &Service) -> Result<Self, Refusal> {
        let limit = form.limit("limit")?;
        let usual = service.bounds().query_time_max;
        let time_max = match form.get("timeout") {
            "" => usual,
            text => timeout(text).map_err(|problem| Refusal::parameter("timeout", problem))?,
        };
        let mut options = Options::default();
        if !form.get("lookback_delta").is_empty() {
            let lookback_ms = duration(form.get("lookback_delta"));
            options.lookback_ms = lookback_ms.map_err(|problem| {
                Refusal::bad_data(format!("error parsing lookback delta duration: {problem}"))
            })?;
        }
        let expr = read(form)?;
        let text = form.get("query").to_owned();
        Ok(Self { text, expr, options, limit, time_max: time_max.min(usual) })
    }

    async fn answer(
        self,
        query: Query,
        service: &Service,
        asker: &Asker,
    ) -> Result<Response, Refusal> {
        let late = || Refusal::timeout("query timed out in expression evaluation");
        if self.time_max.is_zero() {
            return Err(late());
        }
        let asked = querier(service, asker).await?;
        let deadline = tokio::time::Instant::now() + self.time_max;
        let turn = tokio::time::timeout_at(deadline, service.turn()).await;
        let turn = turn.map_err(|_| Refusal::timeout("query timed out in query queue"))??;
        // Whoever goes away drops this future, and the evaluation ends at its next look.
        let stop = StopOnDrop(Arc::new(AtomicBool::new(false)));
        let flag = Arc::clone(&stop.0);
        let (samples_max, steps_max) = (service.bounds().samples_max, service.bounds().steps_max);
        let answer_bytes_max = service.bounds().answer_bytes_max;
        let (limit, shared) = (self.limit, Arc::clone(&service.shared));
        let evaluation = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            let budget = Budget::new(samples_max, steps_max).tolerant().until(&flag);
            let nothing = Union(Vec::new());
            let querier: &dyn Querier = match &asked {
                Some(asked) => &**asked,
                None => &nothing,
            };
            let (text, expr) = (&self.text, &self.expr);
            let answer = promql::evaluate(text, expr, query, self.options, querier, &budget);
            if matches!(answer, Err(promql::Error::Read(ReadError::Cancelled))) {
                shared.cancelled.fetch_add(1, Ordering::Relaxed);
            }
            answer.map(|mut answer| {
                shorten(&mut answer, limit);
                answer.to_json_within(answer_bytes_max)
            })
        });
        let ended = tokio::time::timeout_at(deadline, evaluation).await.map_err(|_| late())?;
        let ended = ended.map_err(|_| Refusal::internal("the evaluation of the query stumbled"))?;
        let answer = ended.map_err(|error| match error {
            // A length that is calculated belongs to the form of the query, for Prometheus.
            promql::Error::Evaluation(problem) if problem == NO_LENGTH => {
                Refusal::parameter("query", problem)
            }
            promql::Error::Evaluation(problem) => Refusal::execution(problem),
            promql::Error::Read(ReadError::Cancelled) => late(),
            promql::Error::Read(
                error @ (ReadError::TooManySamples { .. }
                | ReadError::TooManySteps { .. }
                | ReadError::Damaged { .. }),
            ) => Refusal::execution(error.to_string()),
        })?;
        answer.map(json).ok_or_else(|| {
            Refusal::execution(format!(
                "the answer would be longer than {answer_bytes_max} bytes; aggregate, or ask for less time"
            ))
        })
    }
}

/// What the asker may see; nothing if that is nothing.
pub(super) async fn querier(
    service: &Service,
    asker: &Asker,
) -> Result<Option<Box<dyn Querier + Send>>, Refusal> {
    let store = service.store().await?;
    Ok(asker.sees.enforced().map(|enforced| Box::new(store.asked(enforced)) as _))
}

struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn shorten(answer: &mut Answer, limit: usize) {
    let count = match &mut answer.value {
        Value::Vector(points) => {
            let count = points.len();
            points.truncate(limit);
            count
        }
        Value::Matrix(series) => {
            let count = series.len();
            series.truncate(limit);
            count
        }
        Value::Scalar(_) | Value::Text { .. } => 0,
    };
    if count > limit {
        answer.warnings.push("results truncated due to limit".to_owned());
    }
}
