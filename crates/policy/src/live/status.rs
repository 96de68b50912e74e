//! What a policy's status says: written when something of weight has changed, and not with each look.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::Value;
use tombolo_model::Reason;
use tombolo_model::condition::{
    self, ACHIEVABLE, Condition, ConditionStatus, Finding, HOLDS, VALID,
};
use tombolo_model::policy::{PolicyPhase, PolicyStatus, PolicySuggestion, StepState, Violation};

use super::watch::{Kind, Watch, time};
use crate::{Machine, Phase, Track, target};

/// Violations that a status lists, the longest first.
const LISTED_MAX: usize = 64;

/// Values in a status are brought up to date so often while something is violated. More would write for nobody.
const REFRESH_MS: i64 = 300_000;

impl Watch {
    /// The status as it should be; nothing if what is written says it.
    pub fn status(&self, now_ms: i64) -> Option<PolicyStatus> {
        let wanted = self.whole_status(now_ms);
        let Some(before) = &self.written else { return Some(wanted) };
        let is_old = now_ms - self.written_ms > REFRESH_MS && !wanted.violations.is_empty();
        (is_old || weight(before) != weight(&wanted)).then_some(wanted)
    }

    fn whole_status(&self, now_ms: i64) -> PolicyStatus {
        let before = self.written.clone().unwrap_or_default();
        let mut status = PolicyStatus {
            observed_generation: self.generation,
            conditions: before.conditions,
            steps: self.steps.clone(),
            remediated_at: before.remediated_at,
            ..PolicyStatus::default()
        };
        let taken = self
            .steps
            .iter()
            .rev()
            .find(|step| matches!(step.state, StepState::Decided | StepState::Taken));
        status.remediated_at = taken.map(|step| step.at.clone()).or(status.remediated_at);
        match &self.kind {
            Kind::Rule(machine) => of_rule(machine, &mut status),
            Kind::Scaling(following) => {
                let blind = following.seen.as_ref().is_none_or(|seen| seen.blind);
                let phase = if blind { PolicyPhase::Unknown } else { PolicyPhase::Enforced };
                status.phase = Some(phase);
                // What it remembers changes with each look, and matters after a step.
                let is_news = before.steps != status.steps;
                let memory = || serde_json::to_value(following.scaler.memory()).ok();
                status.memory = if is_news { memory() } else { before.memory };
            }
            Kind::Suspended(_) => status.phase = Some(PolicyPhase::Inactive),
            Kind::Broken(_) => status.phase = Some(PolicyPhase::Unknown),
        }
        self.conditions(&mut status, &time(now_ms));
        status
    }

    fn conditions(&self, status: &mut PolicyStatus, now: &Time) {
        let generation = self.generation;
        let mut set = |kind: &str, yes: ConditionStatus, reason: Reason, message: String| {
            let finding = Finding {
                kind,
                status: yes,
                reason,
                message: &message,
                observed_generation: generation,
            };
            condition::set(&mut status.conditions, finding, now);
        };
        match &self.kind {
            Kind::Broken(why) => {
                let message = Reason::PolicyInvalid.says(&[("why", why.clone())]);
                set(VALID, ConditionStatus::False, Reason::PolicyInvalid, message);
            }
            Kind::Rule(_) | Kind::Scaling(_) | Kind::Suspended(_) => {
                let message = Reason::PolicyValid.says(&[]);
                set(VALID, ConditionStatus::True, Reason::PolicyValid, message);
            }
        }
        let (yes, reason, message) = self.holds(status.phase, &status.violations);
        set(HOLDS, yes, reason, message);
        match self.helpless.iter().next() {
            None => {
                let message = Reason::PolicyAchievable.says(&[]);
                set(ACHIEVABLE, ConditionStatus::True, Reason::PolicyAchievable, message);
            }
            Some((subject, why)) => {
                let fills = [
                    ("policy", self.name.clone()),
                    ("subject", subject.clone()),
                    ("why", why.clone()),
                ];
                let message = Reason::PolicyHelpless.says(&fills);
                set(ACHIEVABLE, ConditionStatus::False, Reason::PolicyHelpless, message);
            }
        }
    }

    fn holds(
        &self,
        phase: Option<PolicyPhase>,
        violations: &[Violation],
    ) -> (ConditionStatus, Reason, String) {
        use ConditionStatus::{False, True, Unknown};
        let policy = ("policy", self.name.clone());
        match phase {
            Some(PolicyPhase::Enforced) => {
                (True, Reason::PolicyHolds, Reason::PolicyHolds.says(&[]))
            }
            Some(PolicyPhase::Pending) => {
                (True, Reason::PolicyPending, Reason::PolicyPending.says(&[]))
            }
            Some(PolicyPhase::Predicted) => {
                let fills =
                    [policy, ("subject", "a subject".to_owned()), ("figures", String::new())];
                (True, Reason::PolicyPredicted, Reason::PolicyPredicted.says(&fills))
            }
            Some(PolicyPhase::Violated) => {
                let first = violations.first();
                let subject = first.map_or("a subject", |one| one.subject.as_str()).to_owned();
                let figures = first.map(|one| figures(one.value, one.threshold));
                let fills =
                    [policy, ("subject", subject), ("figures", figures.unwrap_or_default())];
                (False, Reason::PolicyViolated, Reason::PolicyViolated.says(&fills))
            }
            Some(PolicyPhase::Inactive) => {
                let why = match &self.kind {
                    Kind::Suspended(why) => (*why).to_owned(),
                    _ => "it was for once, and has acted".to_owned(),
                };
                let message = Reason::PolicyInactive.says(&[("why", why)]);
                (Unknown, Reason::PolicyInactive, message)
            }
            Some(PolicyPhase::Unknown) | None => {
                let failure = match &self.kind {
                    Kind::Rule(machine) => machine.failure(),
                    Kind::Scaling(_) | Kind::Suspended(_) | Kind::Broken(_) => None,
                };
                let why = failure.map(|why| format!(": {why}")).unwrap_or_default();
                let message = Reason::PolicyUnknown.says(&[("why", why)]);
                (Unknown, Reason::PolicyUnknown, message)
            }
        }
    }

    /// The status was written, and the object has this version now.
    pub fn wrote(&mut self, status: PolicyStatus, version: Option<String>, now_ms: i64) {
        self.written = Some(status);
        self.version = version;
        self.written_ms = now_ms;
    }
}

/// `: 0.9, the limit is 0.8`, or nothing.
pub fn figures(value: Option<f64>, limit: Option<f64>) -> String {
    let round = |value: f64| (value * 1e4).round() / 1e4;
    match (value.filter(|value| value.is_finite()), limit) {
        (Some(value), Some(limit)) => format!(": {}, the limit is {}", round(value), round(limit)),
        (Some(value), None) => format!(": {}", round(value)),
        (None, _) => String::new(),
    }
}

fn of_rule(machine: &Machine, status: &mut PolicyStatus) {
    let rule = machine.rule();
    status.phase = Some(machine.phase());
    status.rendered = rule.alert();
    status.memory = serde_json::to_value(machine.memory()).ok();
    let mut violated: Vec<&Track> =
        machine.tracks().iter().filter(|track| track.phase == Phase::Violated).collect();
    violated.sort_by(|a, b| (a.since_ms, &a.labels).cmp(&(b.since_ms, &b.labels)));
    let finite = |value: f64| Some(value).filter(|value| value.is_finite());
    let violation = |track: &&Track| Violation {
        subject: target(&track.labels, &rule.subject, &rule.vocabulary).to_string(),
        value: finite(track.value),
        threshold: track.limit.and_then(finite),
        since: Some(time(track.since_ms)),
        message: Some(format!(
            "it does not hold{}",
            figures(finite(track.value), track.limit.and_then(finite))
        )),
    };
    status.violations = violated.iter().take(LISTED_MAX).map(violation).collect();
    let suggestions = machine.suggestions().iter().map(|one| PolicySuggestion {
        id: one.id.clone(),
        action: one.action,
        subject: target(&one.labels, &rule.subject, &rule.vocabulary).to_string(),
        value: finite(one.value),
        threshold: one.limit.and_then(finite),
        expires: time(one.until_ms),
    });
    status.suggestions = suggestions.take(LISTED_MAX).collect();
}

/// What a write is worth: everything but values that come and go with each look.
fn weight(status: &PolicyStatus) -> PolicyStatus {
    let mut weight = status.clone();
    weight.memory = None::<Value>;
    for violation in &mut weight.violations {
        violation.value = None;
        violation.message = None;
    }
    let plain = |one: &mut Condition| {
        if one.kind == HOLDS {
            one.message = String::new();
        }
    };
    weight.conditions.iter_mut().for_each(plain);
    weight
}
