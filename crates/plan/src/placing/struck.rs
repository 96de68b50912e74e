//! Components that a policy wants to leave a node, as the statuses of Policies say: a strike for each step that moves
//! something. The pair of component and node is shut out for a while, and weighs less and less after that.

use tombolo_model::policy::{Action, Policy, PolicyStep, StepState};
use tombolo_model::{AppId, Shared};
use tombolo_placement::Strike;
use tombolo_placement::reschedule::{EXCLUDED_SECONDS, HALF_LIFE_SECONDS};
use tombolo_placement::running::Verdict;

/// By then a strike weighs less than any move costs.
const FORGOTTEN_SECONDS: u64 = EXCLUDED_SECONDS + 5 * HALF_LIFE_SECONDS;

/// A component that violated a policy on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Struck {
    pub app: AppId,
    pub component: String,
    pub node: String,
    pub seconds_ago: u64,
}

impl Struck {
    /// By the clock of the plan.
    pub(super) fn strike(&self, now: u64) -> Strike {
        Strike {
            app: self.app.clone(),
            component: self.component.clone(),
            node: self.node.clone(),
            at: now.saturating_sub(self.seconds_ago),
            verdict: Verdict::Exclude,
        }
    }
}

/// What policies have decided, as it counts at a time of day. A step from the future is one of a clock that was set
/// back: it counts as fresh.
pub fn struck(policies: &[Shared<Policy>], now_ms: i64) -> Vec<Struck> {
    let mut all = Vec::new();
    for policy in policies {
        let Some(status) = &policy.status else { continue };
        for step in status.steps.iter().filter(|step| moves(step)) {
            let passed_ms = now_ms.saturating_sub(step.at.0.as_millisecond()).max(0);
            let seconds_ago = passed_ms.unsigned_abs() / 1000;
            let (Some(app), Some(component), Some(node)) = (&step.app, &step.component, &step.node)
            else {
                continue;
            };
            if seconds_ago < FORGOTTEN_SECONDS {
                let namespace = policy.metadata.namespace.as_deref().unwrap_or_default();
                all.push(Struck {
                    app: AppId::new(namespace, app),
                    component: component.clone(),
                    node: node.clone(),
                    seconds_ago,
                });
            }
        }
    }
    all
}

fn moves(step: &PolicyStep) -> bool {
    let counts = matches!(step.state, StepState::Decided | StepState::Taken);
    counts && matches!(step.action, Action::Migrate | Action::Redeploy | Action::Reallocation)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn policy(steps: &Value) -> Shared<Policy> {
        let made: Policy = serde_json::from_value(json!({
            "apiVersion": "tombolo.dev/v1alpha1", "kind": "Policy",
            "metadata": {"name": "quick", "namespace": "ns"},
            "spec": {"subject": {"app": "shop"}, "condition": {"expr": "late"}},
            "status": {"steps": steps},
        }))
        .unwrap();
        made.into()
    }

    fn step(action: &str, state: &str, at: &str) -> Value {
        json!({"id": "1", "at": at, "action": action, "state": state, "subject": "app/shop/web",
            "app": "shop", "component": "web", "node": "n1"})
    }

    /// How long ago those are that count at noon.
    #[track_caller]
    fn check(steps: &Value, expected: &[u64]) {
        let noon = 1_767_268_800_000;
        let found = struck(&[policy(steps)], noon);
        assert_eq!(found.iter().map(|one| one.seconds_ago).collect::<Vec<_>>(), expected);
        assert!(found.iter().all(|one| one.app == AppId::new("ns", "shop") && one.node == "n1"));
    }

    #[test]
    fn a_step_that_moves_something_is_held_against_the_node_for_a_while() {
        check(&json!([step("migrate", "decided", "2026-01-01T11:59:00Z")]), &[60]);
        check(&json!([step("redeploy", "taken", "2026-01-01T11:30:00Z")]), &[1800]);
        check(&json!([step("migrate", "taken", "2026-01-01T10:59:59Z")]), &[]);
    }

    #[test]
    fn what_was_refused_or_moves_nothing_is_held_against_nobody() {
        check(&json!([step("migrate", "refused", "2026-01-01T11:59:00Z")]), &[]);
        check(&json!([step("migrate", "dropped", "2026-01-01T11:59:00Z")]), &[]);
        check(&json!([step("scale-up", "taken", "2026-01-01T11:59:00Z")]), &[]);
    }

    #[test]
    fn a_step_of_the_future_counts_as_fresh() {
        check(&json!([step("migrate", "taken", "2027-01-01T00:00:00Z")]), &[0]);
    }
}
