//! Our scaler and HPA's algorithm on the same loads: the same target, tolerance and bounds, and instances that
//! take half a minute to serve.

use std::collections::VecDeque;

use serde_json::{Value, json};
use tombolo_model::scaling::Scaling;
use tombolo_policy::elasticity::{Point, measure};
use tombolo_policy::scale::hpa::Hpa;
use tombolo_policy::scale::{Measured, Reading, Scaler, Spec, sum_metric};

use super::traces::Trace;
use crate::numbers::rounded;

const EVERY_MS: i64 = 15_000;

/// Looks until a new instance serves.
const START_LOOKS: usize = 2;

/// The tolerance of both: a load within it is served.
const TOLERANCE: f64 = 0.1;

const REPLICAS_MAX: u32 = 1000;

/// What one of them made of a load.
#[derive(Default)]
struct Outcome {
    under_looks: usize,
    strictly_under_looks: usize,
    instance_hours: f64,
    acts: usize,
    points: Vec<Point>,
}

pub(super) fn run(traces: &[Trace]) -> Value {
    let mut rows = Vec::new();
    let mut sums = [[0.0; 3]; 2];
    for trace in traces {
        let mut hpa = Hpa::new(1, REPLICAS_MAX);
        let theirs = follow(&trace.load, |number, load, count, ready| {
            let ratio = load / f64::from(ready.max(1));
            hpa.step(count, ready, &[Some(ratio)], number as i64 * EVERY_MS)
        });
        let scaling = Scaling { replicas_max: REPLICAS_MAX, ..Scaling::default() };
        let spec = Spec { metrics: vec![sum_metric(1.0)], ..Spec::bounds(&scaling) };
        let mut scaler = Scaler::new(spec, None);
        let ours = follow(&trace.load, |number, load, count, _| {
            let at_ms = number as i64 * EVERY_MS;
            let reading =
                Reading { at_ms, metrics: vec![Measured::of(&[load])], steps: Vec::new() };
            scaler.step(count, &reading).replicas
        });
        for (sum, outcome) in sums.iter_mut().zip([&ours, &theirs]) {
            sum[0] += outcome.under_looks as f64;
            sum[1] += outcome.instance_hours;
            sum[2] += outcome.acts as f64;
        }
        rows.push(json!({
            "trace": trace.name,
            "published": trace.published,
            "ours": ours.to_json(),
            "hpa": theirs.to_json(),
        }));
    }
    let [ours, theirs] = sums;
    let ratio = |at: usize| rounded(ours[at] / theirs[at].max(f64::MIN_POSITIVE));
    json!({
        "traces": rows,
        "ours_of_hpa": {
            "time_under": ratio(0), "instance_hours": ratio(1), "acts": ratio(2),
        },
        "goals": {"time_under": "< 1", "instance_hours": "<= 1", "acts": "<= 0.5"},
    })
}

/// Sends a load through a scaler, which is given how many there are and how many serve.
fn follow(load: &[f64], mut decide: impl FnMut(usize, f64, u32, u32) -> u32) -> Outcome {
    let mut outcome = Outcome::default();
    let mut count = load.first().map_or(1, |load| whole(load.ceil()).max(1));
    // When those that are starting will serve.
    let mut starting: VecDeque<(usize, u32)> = VecDeque::new();
    for (number, load) in load.iter().enumerate() {
        while starting.front().is_some_and(|(at, _)| *at <= number) {
            starting.pop_front();
        }
        let ready = count - starting.iter().map(|(_, more)| more).sum::<u32>();
        let serves = f64::from(ready);
        outcome.under_looks += usize::from(*load > serves * (1.0 + TOLERANCE));
        outcome.strictly_under_looks += usize::from(*load > serves);
        outcome.instance_hours += f64::from(count) * EVERY_MS as f64 / 3.6e6;
        let demand = whole(load.ceil()).max(1);
        outcome.points.push(Point { demand, supply: ready });
        let wanted = decide(number, *load, count, ready).clamp(1, REPLICAS_MAX);
        if wanted > count {
            starting.push_back((number + START_LOOKS, wanted - count));
        }
        let mut fewer = count.saturating_sub(wanted);
        // Those that do not serve yet go first.
        while let Some((_, more)) = starting.back_mut().filter(|_| fewer > 0) {
            let gone = fewer.min(*more);
            *more -= gone;
            fewer -= gone;
            if *more == 0 {
                starting.pop_back();
            }
        }
        outcome.acts += usize::from(wanted != count);
        count = wanted;
    }
    outcome
}

impl Outcome {
    fn to_json(&self) -> Value {
        let elasticity = measure(&self.points);
        let percent =
            |looks: usize| rounded(100.0 * looks as f64 / self.points.len().max(1) as f64);
        json!({
            "percent_of_time_under": percent(self.under_looks),
            "percent_of_time_over_target": percent(self.strictly_under_looks),
            "instance_hours": rounded(self.instance_hours),
            "acts": self.acts,
            "under_accuracy_percent": rounded(elasticity.under_accuracy),
            "over_accuracy_percent": rounded(elasticity.over_accuracy),
            "instability_percent": rounded(elasticity.instability),
        })
    }
}

#[expect(clippy::cast_sign_loss, clippy::cast_possible_truncation, reason = "clamped")]
fn whole(value: f64) -> u32 {
    value.clamp(0.0, 1e6) as u32
}
