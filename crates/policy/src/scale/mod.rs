//! How many instances there should be: [`Scaler`]. It grows ahead of a trend, by as much as is needed, and
//! shrinks once what it would save has added up to more than a change is worth: a large surplus goes soon, a
//! small one late. Beside that it keeps to what HPA's users know: a target, a tolerance, windows and rates.
//! [`hpa`] is the peer.

pub mod hpa;
mod rules;
mod wanted;

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tombolo_model::scaling::{Scaling, TargetKind};
use tombolo_series::promql::{Expr, parse};

use crate::compile::{bound_expression, millis};
use crate::{Context, Problem, Watched};

pub(crate) use hpa::whole;
pub(crate) use wanted::needed;

pub use rules::{Amount, Changed, Rate, Rules};

/// Looks that make a trend, and those of them whose middle change it must not exceed.
const TREND_LOOKS: usize = 8;
const LATEST_LOOKS: usize = 4;

/// How far the trend is followed to see whether more are needed, and how far to see how many.
const SOON_MS: f64 = 7_500.0;
const THEN_MS: f64 = 150_000.0;

/// The share of the tolerance that is used when it grows, and when it shrinks: nothing is held ready for what
/// the tolerance allows anyway.
const USED_UP: f64 = 0.9;
const USED_DOWN: f64 = 0.3;

/// The window that is looked back over before it shrinks, where a policy says nothing.
const WINDOW_MS: i64 = 30_000;

/// What a change is worth before it shrinks: surplus² / instances, for each 15 s. The four numbers above and
/// this one are where, over loads of many shapes, fewer changes began to cost instances.
const WORTH: f64 = 18.0;
const LOOK_MS: f64 = 15_000.0;

const IDLE_MS: i64 = 300_000;
const STEP_COOLDOWN_MS: i64 = 60_000;

/// Needs of the past that are remembered.
const NEEDS_MAX: usize = 512;

/// A scaling that can be followed.
#[derive(Clone, Debug)]
pub struct Spec {
    pub replicas_min: u32,
    pub replicas_max: u32,
    pub metrics: Vec<Metric>,
    pub steps: Vec<Step>,
    pub tolerance: f64,
    pub up: Rules,
    pub down: Rules,
    pub idle_ms: i64,
}

#[derive(Clone, Debug)]
pub struct Metric {
    pub text: String,
    pub expr: Arc<Expr>,
    pub target: f64,
    pub kind: TargetKind,
}

#[derive(Clone, Debug)]
pub struct Step {
    pub text: String,
    pub expr: Arc<Expr>,
    pub limit: Limit,
    pub change: i64,
    pub cooldown_ms: i64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Limit {
    Above(f64),
    Below(f64),
}

/// A metric whose sum should be `target` for each instance, for whoever measures it without a query.
pub fn sum_metric(target: f64) -> Metric {
    let text = "vector(0)".to_owned();
    let expr = parse(&text).expect("it is PromQL");
    Metric { text, expr: Arc::new(expr), target, kind: TargetKind::PerInstance }
}

/// The values of one expression at a moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    pub sum: f64,
    pub mean: f64,
    pub least: f64,
    pub most: f64,
}

impl Measured {
    /// Nothing of no values, or of one that is no number.
    pub fn of(values: &[f64]) -> Option<Self> {
        if values.is_empty() || values.iter().any(|value| value.is_nan()) {
            return None;
        }
        let sum: f64 = values.iter().sum();
        Some(Self {
            sum,
            mean: sum / values.len() as f64,
            least: values.iter().copied().fold(f64::INFINITY, f64::min),
            most: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        })
    }

    /// Each value so many times as large.
    pub(crate) fn times(self, factor: f64) -> Self {
        Self {
            sum: self.sum * factor,
            mean: self.mean * factor,
            least: self.least * factor,
            most: self.most * factor,
        }
    }
}

/// What is measured for a scaling at a moment: its metrics, then its steps.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reading {
    pub at_ms: i64,
    pub metrics: Vec<Option<Measured>>,
    pub steps: Vec<Option<Measured>>,
}

/// How many, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    pub replicas: u32,
    pub reason: String,
}

/// What a scaler must not forget over a restart.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Remembered {
    /// When, and how many instances were needed, in parts of one.
    needs: Vec<(i64, f64)>,
    /// What has been wasted since something was too much.
    wasted: f64,
    changes: Vec<Changed>,
    /// When each step was last used.
    used: Vec<Option<i64>>,
    idle_since: Option<i64>,
    last_ms: Option<i64>,
}

#[derive(Clone, Debug)]
pub struct Scaler {
    spec: Spec,
    memory: Remembered,
}

impl Spec {
    /// The scaling of a policy; what is wrong with it is told with its place.
    pub fn compile(policy: &Watched, context: &Context) -> Result<Self, Vec<Problem>> {
        let Some(scaling) = &policy.scaling else {
            return Err(vec![Problem::new("scaling", "is required")]);
        };
        let mut problems = Vec::new();
        let mut read = |path: String, text: &str| {
            let bound = bound_expression(&path, text, policy, context);
            bound.map_err(|problem| problems.push(problem)).ok()
        };
        let metrics = scaling.metrics.iter().enumerate().filter_map(|(number, metric)| {
            let (text, expr) = read(format!("scaling.metrics[{number}].expr"), &metric.expr)?;
            let kind = metric.kind.unwrap_or(TargetKind::PerInstance);
            Some(Metric { text, expr, target: metric.target, kind })
        });
        let metrics: Vec<Metric> = metrics.collect();
        let steps = scaling.steps.iter().enumerate().filter_map(|(number, step)| {
            let (text, expr) = read(format!("scaling.steps[{number}].expr"), &step.expr)?;
            let limit = match (step.above, step.below) {
                (Some(above), _) => Limit::Above(above),
                (None, below) => Limit::Below(below.unwrap_or(f64::NEG_INFINITY)),
            };
            let cooldown_ms = step.cooldown.map_or(STEP_COOLDOWN_MS, millis);
            Some(Step { text, expr, limit, change: i64::from(step.change), cooldown_ms })
        });
        let steps: Vec<Step> = steps.collect();
        match problems.is_empty() {
            true => Ok(Self { metrics, steps, ..Self::bounds(scaling) }),
            false => Err(problems),
        }
    }

    /// All of a scaling but its expressions.
    pub fn bounds(scaling: &Scaling) -> Self {
        Self {
            replicas_min: scaling.replicas_min.unwrap_or(1),
            replicas_max: scaling.replicas_max,
            metrics: Vec::new(),
            steps: Vec::new(),
            tolerance: scaling.tolerance.unwrap_or(0.1),
            up: Rules::usual_up(0).said(scaling.up.as_ref()),
            down: Rules::usual_down(WINDOW_MS).said(scaling.down.as_ref()),
            idle_ms: scaling.idle_for.map_or(IDLE_MS, millis),
        }
    }
}

impl Scaler {
    pub fn new(spec: Spec, memory: Option<Remembered>) -> Self {
        let mut memory = memory.unwrap_or_default();
        memory.used.resize(spec.steps.len(), None);
        Self { spec, memory }
    }

    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    pub fn memory(&self) -> &Remembered {
        &self.memory
    }

    /// One look. `current` is how many there should be so far.
    pub fn step(&mut self, current: u32, reading: &Reading) -> Decision {
        let now = self.memory.last_ms.map_or(reading.at_ms, |last| reading.at_ms.max(last));
        let passed_ms = self.memory.last_ms.map_or(LOOK_MS, |last| (now - last) as f64);
        self.memory.last_ms = Some(now);
        let (least, most) = (self.spec.replicas_min, self.spec.replicas_max);
        if current > most || (current < least.max(1) && current != 0) || (current == 0 && least > 0)
        {
            let replicas = current.clamp(least, most);
            return self.decided(current, replicas, now, "outside of its bounds".to_owned());
        }
        let (wanted, reason) = self.wanted(current, reading, now, passed_ms.min(4.0 * LOOK_MS));
        let limited = self.limited(current, wanted.clamp(least, most), now);
        let reason = match limited == wanted {
            true => reason,
            false => format!("{reason}; {wanted} is not within its bounds and rates"),
        };
        self.decided(current, limited, now, reason)
    }

    fn limited(&mut self, current: u32, wanted: u32, now: i64) -> u32 {
        let longest = self.spec.up.longest_ms().max(self.spec.down.longest_ms());
        self.memory.changes.retain(|change| change.at_ms > now - longest);
        let changes = &self.memory.changes;
        if wanted > current {
            wanted.min(self.spec.up.up_limit(current, changes, now))
        } else if wanted < current {
            wanted.max(self.spec.down.down_limit(current, changes, now))
        } else {
            wanted
        }
    }

    fn decided(&mut self, current: u32, replicas: u32, now: i64, reason: String) -> Decision {
        if replicas != current {
            let by = i64::from(replicas) - i64::from(current);
            self.memory.changes.push(Changed { at_ms: now, by });
            self.memory.wasted = 0.0;
        }
        Decision { replicas, reason }
    }
}

#[cfg(test)]
mod tests;
