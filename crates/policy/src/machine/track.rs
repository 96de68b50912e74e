//! One subject of a policy over time.

use serde::{Deserialize, Serialize};
use tombolo_series::Labels;

use super::{Change, ChangeKind};
use crate::Rule;
use crate::compile::Verdict;

/// How a subject is doing, the worst last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    Enforced,
    /// There are no values.
    Unknown,
    Predicted,
    Pending,
    Violated,
}

/// What is known of one subject.
#[derive(Clone, Debug, PartialEq)]
pub struct Track {
    pub labels: Labels,
    pub phase: Phase,
    /// Since when it is in this phase.
    pub since_ms: i64,
    pub seen_ms: i64,
    pub value: f64,
    pub limit: Option<f64>,
    pub level: Option<&'static str>,
    /// When it was last seen to be violated.
    pub bad_ms: Option<i64>,
    /// When a step was last taken for it, and how many since it was last calm.
    pub acted_ms: Option<i64>,
    pub tries: u32,
    /// Whether it was said that nothing helps.
    pub gave_up: bool,
}

impl Track {
    pub(super) fn new(labels: Labels, now: i64) -> Self {
        Self {
            labels,
            phase: Phase::Unknown,
            since_ms: now,
            seen_ms: now,
            value: f64::NAN,
            limit: None,
            level: None,
            bad_ms: None,
            acted_ms: None,
            tries: 0,
            gave_up: false,
        }
    }

    pub(super) fn see(
        &mut self,
        rule: &Rule,
        value: f64,
        verdict: Verdict,
        now: i64,
        changes: &mut Vec<Change>,
    ) {
        self.seen_ms = now;
        self.value = value;
        self.limit = verdict.limit;
        self.level = verdict.level;
        if !verdict.violated {
            self.hold(rule, now, changes);
            return;
        }
        self.bad_ms = Some(now);
        if !matches!(self.phase, Phase::Pending | Phase::Violated) {
            self.enter(Phase::Pending, now);
            if rule.for_ms > 0 {
                changes.push(self.change(ChangeKind::Pending, now));
            }
        }
        if self.phase == Phase::Pending && now - self.since_ms >= rule.for_ms {
            self.enter(Phase::Violated, now);
            changes.push(self.change(ChangeKind::Firing, now));
        }
    }

    /// It is as it should be.
    pub(super) fn hold(&mut self, rule: &Rule, now: i64, changes: &mut Vec<Change>) {
        match self.phase {
            Phase::Violated => {
                let kept = self.bad_ms.is_some_and(|bad| now - bad < rule.keep_ms);
                if !kept {
                    let after_ms = now - self.since_ms;
                    changes.push(self.change(ChangeKind::Resolved { after_ms }, now));
                    self.enter(Phase::Enforced, now);
                }
            }
            Phase::Pending | Phase::Unknown => self.enter(Phase::Enforced, now),
            Phase::Enforced | Phase::Predicted => (),
        }
        if self.is_calm(rule, now) {
            self.tries = 0;
            self.gave_up = false;
        }
    }

    /// There is no value of it.
    pub(super) fn lose(&mut self, now: i64, changes: &mut Vec<Change>) {
        match self.phase {
            Phase::Unknown => (),
            Phase::Enforced | Phase::Predicted | Phase::Pending | Phase::Violated => {
                changes.push(self.change(ChangeKind::Lost, now));
                self.enter(Phase::Unknown, now);
            }
        }
    }

    pub(super) fn look_ahead(
        &mut self,
        leads: bool,
        value: f64,
        verdict: Verdict,
        now: i64,
        changes: &mut Vec<Change>,
    ) {
        match (self.phase, leads) {
            (Phase::Enforced, true) => {
                self.enter(Phase::Predicted, now);
                let change = self.change(ChangeKind::Predicted, now);
                changes.push(Change { value, limit: verdict.limit, ..change });
            }
            (Phase::Predicted, false) => self.enter(Phase::Enforced, now),
            (_, _) => (),
        }
    }

    /// Nobody looked for long: whether it lasted meanwhile is not known.
    pub(super) fn was_unwatched(&mut self, now: i64) {
        if self.phase == Phase::Pending {
            self.since_ms = now;
        }
    }

    /// Long enough without a violation for the next one to count as another: four times the pause that
    /// the steps so far have led to.
    pub(super) fn is_calm(&self, rule: &Rule, now: i64) -> bool {
        let quiet = self.bad_ms.is_none_or(|bad| now - bad >= 4 * self.pause_ms(rule));
        quiet && self.phase != Phase::Violated
    }

    /// How long to wait after a step: twice as long after each that has not brought calm.
    pub(super) fn pause_ms(&self, rule: &Rule) -> i64 {
        let doublings = self.tries.saturating_sub(1).min(16);
        let longest = PAUSE_MS_MAX.max(rule.cooldown_ms);
        rule.cooldown_ms.saturating_mul(1 << doublings).min(longest)
    }

    fn enter(&mut self, phase: Phase, now: i64) {
        self.phase = phase;
        self.since_ms = now;
    }

    pub(super) fn change(&self, kind: ChangeKind, now: i64) -> Change {
        Change {
            at_ms: now,
            labels: self.labels.clone(),
            kind,
            value: self.value,
            limit: self.limit,
            level: self.level,
        }
    }
}

/// Steps that do not help are tried no more seldom than this.
const PAUSE_MS_MAX: i64 = 3_600_000;
