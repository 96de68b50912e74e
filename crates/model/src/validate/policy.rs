//! Rules of policies, whether they stand alone or inside an App.

use serde_json::Value;

use super::Findings;
use super::meaning::check_exactly_one;
use super::scaling;
use crate::invalid::{Problem, below, shown};
use crate::suggest;

/// Longer operators first, so that `>=` is not read as `>`.
const COMPARISONS: &[&str] = &[">=", "<=", "==", "!=", ">", "<"];

pub(super) fn policy(object: &Value, findings: &mut Findings) {
    let spec = &object["spec"];
    check(spec, "spec", findings);
    check_subject(&spec["subject"], findings);
}

/// Ways to say what is watched.
const CONDITIONS: &[&str] =
    &["expr", "template", "security", "link", "placement", "device", "telemetryLost", "nodeUsage"];

/// Checks what is watched and what is done about it, below `path`.
pub(super) fn check(policy: &Value, path: &str, findings: &mut Findings) {
    if policy.get("scaling").is_some() {
        scaling::check(policy, path, findings);
    } else if policy.get("condition").is_none() {
        findings.add(format!("{path}.condition"), Problem::Required, "is required");
    } else {
        check_condition(&policy["condition"], &format!("{path}.condition"), findings);
    }
    check_remediation(&policy["remediation"], &format!("{path}.remediation"), findings);
}

fn check_subject(subject: &Value, findings: &mut Findings) {
    let Some(fields) = subject.as_object() else { return };
    if fields.is_empty() {
        let message = "must name an app, a site, a node or labels; \"*\" stands for any";
        findings.add("spec.subject", Problem::Required, message);
    }
    for part in ["component", "instance"] {
        if subject.get(part).is_some() && subject.get("app").is_none() {
            let message = format!("is required when {part} is given");
            findings.add("spec.subject.app", Problem::Required, message);
        }
    }
    for (field, value) in fields {
        let Some(text) = value.as_str() else { continue };
        if text.len() > 1 && text.starts_with('/') && !text.ends_with('/') {
            let message = format!(
                "{} begins a regular expression and does not end it; end it with '/'",
                shown(text)
            );
            findings.add(below("spec.subject", field), Problem::Invalid, message);
        }
    }
}

fn check_condition(condition: &Value, path: &str, findings: &mut Findings) {
    check_exactly_one(condition, path, CONDITIONS, findings);
    let measures = condition.get("expr").is_some() || condition.get("template").is_some();
    let built_in = CONDITIONS.iter().skip(2).find(|field| condition.get(**field).is_some());
    if let (Some(built_in), false) = (built_in, measures) {
        for field in ["violatedIf", "thresholds"] {
            if condition.get(field).is_some() {
                let message =
                    format!("not together with {built_in}, which says itself when it is violated");
                findings.add(format!("{path}.{field}"), Problem::Forbidden, message);
            }
        }
        if condition.get("prediction").is_some() && *built_in != "link" && *built_in != "nodeUsage"
        {
            let message = format!("not together with {built_in}, which has no trend");
            findings.add(format!("{path}.prediction"), Problem::Forbidden, message);
        }
    }
    check_limits(condition, "link", &["latencyMax", "bandwidthMin"], path, findings);
    let usage = ["cpuPercentMax", "memoryPercentMax", "memoryFreeMin"];
    check_limits(condition, "nodeUsage", &usage, path, findings);
    if let Some(text) = condition["violatedIf"].as_str()
        && !is_comparison(text)
    {
        let message = format!(
            "{} is not a comparison: write an operator (>, >=, <, <=, ==, !=) and a number or a \
             {{{{variable}}}}, such as \"> 0.8\"",
            shown(text)
        );
        findings.add(format!("{path}.violatedIf"), Problem::Invalid, message);
    }
    check_thresholds(condition, path, findings);
}

/// Something built in says at least one limit.
fn check_limits(
    condition: &Value,
    field: &str,
    limits: &[&str],
    path: &str,
    findings: &mut Findings,
) {
    let Some(fields) = condition.get(field).and_then(Value::as_object) else { return };
    if !limits.iter().any(|limit| fields.contains_key(*limit)) {
        let message = format!("must say {}", suggest::one_of(limits.iter().copied()));
        findings.add(format!("{path}.{field}"), Problem::Required, message);
    }
}

/// Critical lies behind warning, in the direction in which it gets worse.
fn check_thresholds(condition: &Value, path: &str, findings: &mut Findings) {
    let thresholds = &condition["thresholds"];
    let operator = condition["violatedIf"]
        .as_str()
        .and_then(|text| COMPARISONS.iter().find(|operator| text.trim().starts_with(**operator)));
    let (Some(warning), Some(critical)) =
        (thresholds["warning"].as_f64(), thresholds["critical"].as_f64())
    else {
        return;
    };
    let (wrong, worse) = match operator {
        Some(&">" | &">=") => (critical < warning, "more"),
        Some(&"<" | &"<=") => (critical > warning, "less"),
        _ => return,
    };
    if wrong {
        let operator = operator.copied().unwrap_or_default();
        let message = format!(
            "is {critical}, but warning is {warning} and violatedIf has {operator:?}: the critical \
             value must be {worse} than that of the warning"
        );
        findings.add(format!("{path}.thresholds.critical"), Problem::Invalid, message);
    }
}

fn is_comparison(text: &str) -> bool {
    let trimmed = text.trim();
    let Some(operand) = COMPARISONS.iter().find_map(|operator| trimmed.strip_prefix(operator))
    else {
        return false;
    };
    let operand = operand.trim();
    let variable = operand.strip_prefix("{{").and_then(|rest| rest.strip_suffix("}}"));
    match variable {
        Some(name) => !name.trim().is_empty(),
        None => operand.parse::<f64>().is_ok_and(f64::is_finite),
    }
}

fn check_remediation(remediation: &Value, path: &str, findings: &mut Findings) {
    let action = remediation["action"].as_str();
    for companion in ["patch", "webhook"] {
        if action == Some(companion) && remediation.get(companion).is_none() {
            let message = format!("is required with the action {companion:?}");
            findings.add(format!("{path}.{companion}"), Problem::Required, message);
        }
    }
    if remediation.get("patch").is_some() && action.is_some_and(|action| action != "patch") {
        let message = "only with the action \"patch\"";
        findings.add(format!("{path}.patch"), Problem::Forbidden, message);
    }
    let (least, most) = (&remediation["replicasMin"], &remediation["replicasMax"]);
    if let (Some(least), Some(most)) = (least.as_u64(), most.as_u64())
        && least > most
    {
        let message = format!("is {least}, more than replicasMax, which is {most}");
        findings.add(format!("{path}.replicasMin"), Problem::Invalid, message);
    }
}
