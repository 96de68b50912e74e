//! Rules of the part of a policy that keeps the number of instances.

use serde_json::Value;

use super::Findings;
use super::meaning::{check_exactly_one, entries};
use crate::invalid::Problem;

/// Checks `scaling` of the policy below `path`.
pub(super) fn check(policy: &Value, path: &str, findings: &mut Findings) {
    for field in ["condition", "remediation"] {
        if policy.get(field).is_some() {
            let message = "not together with scaling, which says what is watched and what is done";
            findings.add(format!("{path}.{field}"), Problem::Forbidden, message);
        }
    }
    let scaling = &policy["scaling"];
    let path = format!("{path}.scaling");
    let least = scaling["replicasMin"].as_u64().unwrap_or(1);
    if let Some(most) = scaling["replicasMax"].as_u64()
        && least > most
    {
        let message = format!("is {least}, more than replicasMax, which is {most}");
        findings.add(format!("{path}.replicasMin"), Problem::Invalid, message);
    }
    if entries(&scaling["metrics"]).next().is_none() && entries(&scaling["steps"]).next().is_none()
    {
        findings.add(path.clone(), Problem::Required, "must have metrics or steps");
    }
    for (index, metric) in entries(&scaling["metrics"]).enumerate() {
        if metric["target"].as_f64().is_some_and(|target| target <= 0.0) {
            let message = "must be above 0: the number of instances is divided by it";
            findings.add(format!("{path}.metrics[{index}].target"), Problem::Invalid, message);
        }
    }
    for direction in ["up", "down"] {
        for (index, rate) in entries(&scaling[direction]["rates"]).enumerate() {
            let place = format!("{path}.{direction}.rates[{index}]");
            check_exactly_one(rate, &place, &["replicas", "percent"], findings);
        }
    }
    check_steps(scaling, &path, findings);
}

fn check_steps(scaling: &Value, path: &str, findings: &mut Findings) {
    let steps: Vec<&Value> = entries(&scaling["steps"]).collect();
    for (index, step) in steps.iter().enumerate() {
        let place = format!("{path}.steps[{index}]");
        check_exactly_one(step, &place, &["above", "below"], findings);
        if step["change"] == 0 {
            let message = "is 0: a step changes something";
            findings.add(format!("{place}.change"), Problem::Invalid, message);
        }
        let more = |step: &Value| Some((step["above"].as_f64()?, step["change"].as_i64()? > 0));
        let fewer = |step: &Value| Some((step["below"].as_f64()?, step["change"].as_i64()? < 0));
        let Some((below, true)) = fewer(step) else { continue };
        for other in steps.iter().filter(|other| other["expr"] == step["expr"]) {
            let Some((above, true)) = more(other) else { continue };
            if below > above {
                let message = format!(
                    "is {below}, and another step adds instances above {above}: between them the two \
                     would undo each other"
                );
                findings.add(format!("{place}.below"), Problem::Invalid, message);
            }
        }
    }
}
