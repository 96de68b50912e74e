//! What a policy would have done: recorded samples through the very same [`Machine`] and [`Scaler`] that work
//! live. Start at [`run`] and [`run_scaling`].
//!
//! What a step would have changed nobody has recorded, so it is modelled, and the report says how
//! ([`MODEL`], [`MODEL_SCALING`]).

mod columns;
mod plot;
mod scaling;

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tombolo_model::policy::Action;
use tombolo_series::{Labels, Querier, Span};

use crate::look::{Look, Seen};
use crate::{Act, Change, ChangeKind, Machine, Problem, Rule, Source};
use columns::Columns;

pub use scaling::{MODEL_SCALING, ScalingReport, SupplyPoint, run_scaling};

/// How a step changes what was recorded.
pub const MODEL: &str = "scale-up and scale-down share the recorded value among the instances (value * before / \
    after), scale-out and scale-in scale it by a core (value * cores before / after); every other step ends \
    the violation that it answers 60 s later, until the recorded value holds by itself again";

/// After a step that moves or restarts, a violation is over in so long, by the model.
const RELIEF_MS: i64 = 60_000;

/// Cores of an instance of which nothing is known, by the model.
const CORES: f64 = 2.0;

/// Firings, steps and points of one report; more are counted and not listed.
const LISTED_MAX: usize = 10_000;

/// From when to when, and from how many instances on.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    pub span: Span,
    pub replicas: u32,
}

/// A violation, from its firing to its end.
#[derive(Clone, Debug, PartialEq)]
pub struct Firing {
    pub labels: Labels,
    pub from_ms: i64,
    /// Nothing when it lasts to the end of the recording.
    pub to_ms: Option<i64>,
    pub value: f64,
    pub limit: Option<f64>,
    pub level: Option<&'static str>,
}

/// What a policy would have seen and done.
#[derive(Clone, Debug, Default)]
pub struct Report {
    pub policy: String,
    pub expression: String,
    pub span: Option<Span>,
    pub looks: usize,
    pub subjects: usize,
    /// As recorded.
    pub firings: Vec<Firing>,
    pub predicted: usize,
    /// Looks at which nothing was measured.
    pub blind_looks: usize,
    pub violated_ms: i64,
    /// With the steps, by the model.
    pub acts: Vec<Act>,
    pub held: usize,
    pub cannot_be_met: usize,
    pub violated_after_ms: i64,
    pub failure: Option<String>,
    /// For a plot: the recorded values of the worst subject, and how many were violated.
    pub plot: Vec<(i64, f64, usize)>,
    /// Whether small values are the bad ones.
    pub is_below: bool,
}

/// Sends what is recorded through the machine of a rule: once as it was, and once with what the steps would
/// have changed.
pub fn run(rule: &Rule, store: &dyn Querier, window: Window) -> Result<Report, Problem> {
    let Source::Query { text, .. } = &rule.source else {
        let message = "is about a fact that no samples tell, so there is nothing to test it with";
        return Err(Problem::new("condition", message));
    };
    let span = window.span;
    let mut report = Report {
        policy: rule.name.clone(),
        expression: rule.alert().unwrap_or_else(|| text.clone()),
        span: Some(span),
        is_below: rule.condition.is_below(),
        ..Report::default()
    };
    let mut recorded = Recorded::default();
    let mut watched = Machine::new(Rule { action: Action::None, ..rule.clone() }, None);
    let mut acting = Machine::new(rule.clone(), None);
    let mut model = Modelled { replicas: f64::from(window.replicas.max(1)), ..Modelled::default() };
    model.base = model.replicas;
    let columns = Columns::new(rule, store, span);
    for look in columns {
        report.looks += 1;
        report.blind_looks += usize::from(look.seen.is_empty());
        report.failure = report.failure.take().or_else(|| look.failure.clone());
        let stepped = watched.step(&look);
        recorded.take(&stepped.changes, &mut report);
        let violated = violated(&watched);
        report.violated_ms += violated as i64 * rule.interval_ms;
        report.plot(&look, rule, violated);
        let modelled = model.change(rule, look);
        let stepped = acting.step(&modelled);
        report.held += stepped.held.len();
        report.cannot_be_met += count(&stepped.changes, ChangeKind::CannotBeMet);
        report.violated_after_ms += self::violated(&acting) as i64 * rule.interval_ms;
        for act in stepped.acts {
            model.act(&act);
            if report.acts.len() < LISTED_MAX {
                report.acts.push(act);
            }
        }
    }
    recorded.finish(&mut report);
    report.subjects = watched.tracks().len();
    Ok(report)
}

fn violated(machine: &Machine) -> usize {
    machine.tracks().iter().filter(|track| track.phase == crate::Phase::Violated).count()
}

fn count(changes: &[Change], kind: ChangeKind) -> usize {
    changes.iter().filter(|change| change.kind == kind).count()
}

/// Firings that have not ended yet.
#[derive(Default)]
struct Recorded(BTreeMap<Labels, Firing>);

impl Recorded {
    fn take(&mut self, changes: &[Change], report: &mut Report) {
        for change in changes {
            match change.kind {
                ChangeKind::Firing => {
                    let firing = Firing {
                        labels: change.labels.clone(),
                        from_ms: change.at_ms,
                        to_ms: None,
                        value: change.value,
                        limit: change.limit,
                        level: change.level,
                    };
                    self.0.insert(change.labels.clone(), firing);
                }
                ChangeKind::Resolved { .. } | ChangeKind::Lost => {
                    if let Some(firing) = self.0.remove(&change.labels) {
                        report.fired(Firing { to_ms: Some(change.at_ms), ..firing });
                    }
                }
                ChangeKind::Predicted => report.predicted += 1,
                ChangeKind::Pending | ChangeKind::CannotBeMet => (),
            }
        }
    }

    fn finish(self, report: &mut Report) {
        self.0.into_values().for_each(|firing| report.fired(firing));
        report.firings.sort_by(|a, b| (a.from_ms, &a.labels).cmp(&(b.from_ms, &b.labels)));
    }
}

/// What the steps so far have changed.
#[derive(Default)]
struct Modelled {
    base: f64,
    replicas: f64,
    cores: f64,
    /// Subjects whose violation a step ends, and from when.
    relieved: BTreeMap<Labels, i64>,
}

impl Modelled {
    fn act(&mut self, act: &Act) {
        match act.action {
            Action::ScaleUp => self.replicas += 1.0,
            Action::ScaleDown => self.replicas = (self.replicas - 1.0).max(1.0),
            Action::ScaleOut => self.cores += 1.0,
            Action::ScaleIn => self.cores = (self.cores - 1.0).max(1.0 - CORES),
            Action::None | Action::Notify | Action::Webhook => (),
            Action::Migrate
            | Action::Redeploy
            | Action::Reallocation
            | Action::Patch
            | Action::Restart
            | Action::Quarantine => {
                self.relieved.insert(act.labels.clone(), act.at_ms + RELIEF_MS);
            }
        }
    }

    fn change(&mut self, rule: &Rule, mut look: Look) -> Look {
        let shared = self.base / self.replicas * CORES / (CORES + self.cores);
        for seen in &mut look.seen {
            let is_bad = rule.condition.judge(seen.value).violated;
            if !is_bad {
                self.relieved.remove(&seen.labels);
            }
            seen.value *= shared;
        }
        look.ahead.iter_mut().for_each(|seen| seen.value *= shared);
        if !self.relieved.is_empty() {
            let now = look.at_ms;
            let relieved =
                |seen: &Seen| self.relieved.get(&seen.labels).is_some_and(|at| now >= *at);
            look.seen.iter_mut().filter(|seen| relieved(seen)).for_each(|seen| {
                seen.value = rule.condition.well();
            });
        }
        look
    }
}

impl Report {
    fn fired(&mut self, firing: Firing) {
        if self.firings.len() < LISTED_MAX {
            self.firings.push(firing);
        }
    }

    fn plot(&mut self, look: &Look, rule: &Rule, violated: usize) {
        let values = look.seen.iter().map(|seen| seen.value).filter(|value| !value.is_nan());
        let worst = match rule.condition.is_below() {
            true => values.reduce(f64::min),
            false => values.reduce(f64::max),
        };
        self.plot.push((look.at_ms, worst.unwrap_or(f64::NAN), violated));
    }

    pub fn to_json(&self) -> Value {
        let labels = |labels: &Labels| -> Value {
            labels.iter().map(|(name, value)| (name.to_owned(), Value::from(value))).collect()
        };
        let firings: Vec<Value> = self
            .firings
            .iter()
            .map(|firing| {
                json!({
                    "labels": labels(&firing.labels), "fromMs": firing.from_ms, "toMs": firing.to_ms,
                    "value": firing.value, "limit": firing.limit, "level": firing.level,
                })
            })
            .collect();
        let acts: Vec<Value> = self
            .acts
            .iter()
            .map(|act| {
                json!({
                    "atMs": act.at_ms, "labels": labels(&act.labels), "action": act.action,
                    "target": act.target.to_string(), "value": act.value, "limit": act.limit,
                    "early": act.early, "tries": act.tries, "mode": act.mode, "reason": act.reason,
                })
            })
            .collect();
        json!({
            "policy": self.policy,
            "expression": self.expression,
            "fromMs": self.span.map(|span| span.from_ms),
            "toMs": self.span.map(|span| span.to_ms),
            "looks": self.looks,
            "blindLooks": self.blind_looks,
            "subjects": self.subjects,
            "firings": firings,
            "predicted": self.predicted,
            "violatedSeconds": self.violated_ms / 1000,
            "acts": acts,
            "held": self.held,
            "cannotBeMet": self.cannot_be_met,
            "violatedSecondsAfter": self.violated_after_ms / 1000,
            "model": MODEL,
            "failure": self.failure,
        })
    }
}
