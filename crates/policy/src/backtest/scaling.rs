//! The back-test of a scaling: how its supply would have followed the recorded demand.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tombolo_series::promql::Value as Answer;
use tombolo_series::promql::{Expr, Options, Query, evaluate};
use tombolo_series::{Budget, Querier};

use super::Window;
use crate::Problem;
use crate::elasticity::{Elasticity, Point, measure};
use crate::scale::{Measured, Reading, Scaler, Spec};
use tombolo_model::scaling::TargetKind;

/// How the recorded load is shared, by the model.
pub const MODEL_SCALING: &str = "the recorded load is what it was with the number of instances at the beginning, \
    and is shared evenly among those that there would have been; an instance serves from the next look on";

const STEPS: i64 = 2_000;
const INTERVAL_MS: i64 = 15_000;

/// One look: what was wanted, and what there was.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SupplyPoint {
    pub at_ms: i64,
    /// Instances that would have met the target, in parts of one.
    pub need: f64,
    pub demand: u32,
    pub supply: u32,
}

#[derive(Clone, Debug, Default)]
pub struct ScalingReport {
    pub policy: String,
    pub points: Vec<SupplyPoint>,
    /// When, from how many to how many, and why.
    pub acts: Vec<(i64, u32, u32, String)>,
    pub instance_hours: f64,
    pub elasticity: Elasticity,
    pub blind_looks: usize,
    pub failure: Option<String>,
}

/// Sends what is recorded through a scaler.
pub fn run_scaling(
    name: &str,
    spec: &Spec,
    store: &dyn Querier,
    window: Window,
) -> Result<ScalingReport, Problem> {
    let mut report = ScalingReport { policy: name.to_owned(), ..ScalingReport::default() };
    let mut scaler = Scaler::new(spec.clone(), None);
    let base = window.replicas;
    let mut supply = base;
    let mut from = window.span.from_ms;
    while from <= window.span.to_ms {
        let end = (from + (STEPS - 1) * INTERVAL_MS)
            .min(from + (window.span.to_ms - from) / INTERVAL_MS * INTERVAL_MS);
        let query = Query::range(from, end, INTERVAL_MS);
        let mut ask = |text: &str, expr: &Expr| match values(text, expr, store, query) {
            Ok(values) => values,
            Err(problem) => {
                report.failure.get_or_insert(problem);
                BTreeMap::new()
            }
        };
        let metrics: Vec<_> = spec.metrics.iter().map(|one| ask(&one.text, &one.expr)).collect();
        let steps: Vec<_> = spec.steps.iter().map(|one| ask(&one.text, &one.expr)).collect();
        for number in 0..=(end - from) / INTERVAL_MS {
            let at_ms = from + number * INTERVAL_MS;
            let pick = |all: &[BTreeMap<i64, Vec<f64>>], shares: &dyn Fn(usize) -> f64| {
                let of = |(number, values): (usize, &BTreeMap<i64, Vec<f64>>)| {
                    Measured::of(values.get(&at_ms)?).map(|one| one.times(shares(number)))
                };
                all.iter().enumerate().map(of).collect::<Vec<Option<Measured>>>()
            };
            let ratio = f64::from(base.max(1)) / f64::from(supply.max(1));
            let share = |number: usize| match spec.metrics[number].kind {
                TargetKind::PerInstance => 1.0,
                TargetKind::Average | TargetKind::Total => ratio,
            };
            let reading =
                Reading { at_ms, metrics: pick(&metrics, &share), steps: pick(&steps, &|_| ratio) };
            report.take(spec, &mut scaler, &mut supply, &reading);
        }
        from = end + INTERVAL_MS;
    }
    let points: Vec<Point> = report
        .points
        .iter()
        .map(|point| Point { demand: point.demand, supply: point.supply })
        .collect();
    report.elasticity = measure(&points);
    Ok(report)
}

impl ScalingReport {
    fn take(&mut self, spec: &Spec, scaler: &mut Scaler, supply: &mut u32, reading: &Reading) {
        let need = crate::scale::needed(spec, reading, *supply);
        self.blind_looks += usize::from(need.is_none());
        if let Some(need) = need {
            let demand = crate::scale::whole(need.ceil());
            let demand = demand.clamp(spec.replicas_min, spec.replicas_max);
            self.points.push(SupplyPoint { at_ms: reading.at_ms, need, demand, supply: *supply });
        }
        self.instance_hours += f64::from(*supply) * INTERVAL_MS as f64 / 3.6e6;
        let decision = scaler.step(*supply, reading);
        if decision.replicas != *supply {
            self.acts.push((reading.at_ms, *supply, decision.replicas, decision.reason));
            *supply = decision.replicas;
        }
    }

    pub fn to_json(&self) -> Value {
        let acts: Vec<Value> = self
            .acts
            .iter()
            .map(|(at_ms, from, to, reason)| {
                json!({"atMs": at_ms, "from": from, "to": to, "reason": reason})
            })
            .collect();
        let elasticity = &self.elasticity;
        json!({
            "policy": self.policy,
            "looks": self.points.len(),
            "blindLooks": self.blind_looks,
            "acts": acts,
            "instanceHours": self.instance_hours,
            "elasticity": {
                "underAccuracyPercent": elasticity.under_accuracy,
                "overAccuracyPercent": elasticity.over_accuracy,
                "underTimeSharePercent": elasticity.under_time_share,
                "overTimeSharePercent": elasticity.over_time_share,
                "instabilityPercent": elasticity.instability,
            },
            "model": MODEL_SCALING,
            "failure": self.failure,
        })
    }
}

/// The values of an expression by time.
fn values(
    text: &str,
    expr: &Expr,
    store: &dyn Querier,
    query: Query,
) -> Result<BTreeMap<i64, Vec<f64>>, String> {
    let budget = Budget::new(u64::MAX, u64::MAX);
    let answer = evaluate(text, expr, query, Options::default(), store, &budget);
    let mut by_time: BTreeMap<i64, Vec<f64>> = BTreeMap::new();
    if let Answer::Matrix(all) = answer.map_err(|error| error.to_string())?.value {
        for sample in all.iter().flat_map(|points| &points.samples) {
            by_time.entry(sample.at_ms).or_default().push(sample.value);
        }
    }
    Ok(by_time)
}
