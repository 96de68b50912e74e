//! What one field says about another: references between components, alternatives of which exactly
//! one is meant, rules that need a companion. Wrong types are [`super::structure`]'s and passed
//! over here in silence.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Findings, policy};
use crate::invalid::{Problem, shown};
use crate::suggest;

/// Instances of one App, of all its components together; as many as one component may have.
const INSTANCES_MAX: u64 = 10_000;
const WAYS: &[&str] = &["container", "process", "manifests", "compose"];

pub(super) fn app(object: &Value, findings: &mut Findings) {
    let spec = &object["spec"];
    check_weights(&spec["weights"], findings);
    check_disconnect(&spec["disconnect"], "spec.disconnect", findings);
    let components: BTreeSet<&str> =
        entries(&spec["components"]).filter_map(|component| component["name"].as_str()).collect();
    check_instances(spec, findings);
    for (index, component) in entries(&spec["components"]).enumerate() {
        let path = format!("spec.components[{index}]");
        check_component(component, &path, findings);
        check_references(component, &path, &components, findings);
    }
    for (index, policy) in entries(&spec["policies"]).enumerate() {
        let path = format!("spec.policies[{index}]");
        policy::check(policy, &path, findings);
        check_known(&policy["components"], &format!("{path}.components"), &components, findings);
    }
}

/// Every look of the placing loop is at all of them, while other Apps wait.
fn check_instances(spec: &Value, findings: &mut Findings) {
    let of = |component: &Value| match component["onEach"]["values"].as_array() {
        Some(values) => values.len() as u64,
        None => component["replicas"].as_u64().unwrap_or(1),
    };
    let all = entries(&spec["components"]).map(of).fold(0, u64::saturating_add);
    if all > INSTANCES_MAX {
        let message = format!("have {all} instances together, and {INSTANCES_MAX} are the most");
        findings.add("spec.components", Problem::Invalid, message);
    }
}

pub(super) fn assignment(object: &Value, findings: &mut Findings) {
    let spec = &object["spec"];
    check_disconnect(&spec["disconnect"], "spec.disconnect", findings);
    check_health(&spec["health"], "spec.health", findings);
    check_run(&spec["run"], "spec.run", findings);
    let (Some(way), Some(engine)) = (only_way(&spec["run"]), spec["engine"].as_str()) else {
        return;
    };
    let engines: &[&str] = match way {
        "container" => &["docker", "kubernetes"],
        "process" => &["host"],
        "manifests" => &["kubernetes"],
        "compose" => &["docker"],
        _ => return,
    };
    if !engines.contains(&engine) {
        let message = format!(
            "{} cannot run a {way}; {} can",
            shown(engine),
            suggest::one_of(engines.iter().copied())
        );
        findings.add("spec.engine", Problem::Invalid, message);
    }
}

pub(super) fn site(object: &Value, findings: &mut Findings) {
    check_location(&object["spec"]["location"], "spec.location", findings);
}

pub(super) fn node(object: &Value, findings: &mut Findings) {
    check_location(&object["spec"]["location"], "spec.location", findings);
}

pub(super) fn link(object: &Value, findings: &mut Findings) {
    let ends: Vec<&Value> = entries(&object["spec"]["ends"]).collect();
    let [first, second] = ends.as_slice() else { return };
    if first["kind"] == second["kind"] && first["name"] == second["name"] {
        let name = shown(second["name"].as_str().unwrap_or_default());
        let message = format!("both ends are {name}; a link has two different ends");
        findings.add("spec.ends[1]", Problem::Invalid, message);
    }
}

fn check_component(component: &Value, path: &str, findings: &mut Findings) {
    if component.get("onEach").is_some() && component.get("replicas").is_some() {
        let message = "not together with replicas: there is one instance for each value";
        findings.add(format!("{path}.onEach"), Problem::Forbidden, message);
    }
    for (index, run) in entries(&component["run"]).enumerate() {
        check_run(run, &format!("{path}.run[{index}]"), findings);
    }
    let rules = entries(&component["needs"]["labelRules"]).enumerate();
    rules.for_each(|(k, rule)| {
        check_label_rule(rule, &format!("{path}.needs.labelRules[{k}]"), findings);
    });
    for (index, wish) in entries(&component["prefers"]).enumerate() {
        for (k, rule) in entries(&wish["labels"]).enumerate() {
            check_label_rule(rule, &format!("{path}.prefers[{index}].labels[{k}]"), findings);
        }
    }
    check_health(&component["health"], &format!("{path}.health"), findings);
    check_disconnect(&component["disconnect"], &format!("{path}.disconnect"), findings);
}

fn check_label_rule(rule: &Value, path: &str, findings: &mut Findings) {
    let values = entries(&rule["values"]).count();
    let message = match rule["operator"].as_str() {
        Some("In" | "NotIn") if values == 0 => "is required with In and NotIn",
        Some("Exists" | "DoesNotExist") if values > 0 => "not with Exists and DoesNotExist",
        Some("Gt" | "Lt") => {
            let value = rule["values"][0].as_str();
            match value.is_some_and(|value| values == 1 && value.parse::<i64>().is_ok()) {
                true => return,
                false => "Gt and Lt need one whole number",
            }
        }
        _ => return,
    };
    findings.add(format!("{path}.values"), Problem::Invalid, message);
}

fn check_references(
    component: &Value,
    path: &str,
    components: &BTreeSet<&str>,
    findings: &mut Findings,
) {
    for (index, connection) in entries(&component["connects"]).enumerate() {
        // A component of another App may come and go; only its own are known here.
        if connection.get("app").is_some() {
            continue;
        }
        if let Some(to) = connection["to"].as_str() {
            check_name(to, &format!("{path}.connects[{index}].to"), components, findings);
        }
    }
    let affinity = &component["affinity"];
    check_known(&affinity["with"], &format!("{path}.affinity.with"), components, findings);
    check_known(&affinity["apart"], &format!("{path}.affinity.apart"), components, findings);
    for (index, wish) in entries(&component["prefers"]).enumerate() {
        let path = format!("{path}.prefers[{index}]");
        check_exactly_one(wish, &path, &["labels", "with", "apart", "spread"], findings);
        check_known(&wish["with"], &format!("{path}.with"), components, findings);
        check_known(&wish["apart"], &format!("{path}.apart"), components, findings);
    }
    let apart: BTreeSet<&str> = entries(&affinity["apart"]).filter_map(Value::as_str).collect();
    for (index, name) in entries(&affinity["with"]).enumerate() {
        if name.as_str().is_some_and(|name| apart.contains(name)) {
            let name = shown(name.as_str().unwrap_or_default());
            let message = format!("{name} is also in apart; it cannot be both near and away");
            findings.add(format!("{path}.affinity.with[{index}]"), Problem::Invalid, message);
        }
    }
}

fn check_known(names: &Value, path: &str, components: &BTreeSet<&str>, findings: &mut Findings) {
    for (index, name) in entries(names).enumerate() {
        if let Some(name) = name.as_str() {
            check_name(name, &format!("{path}[{index}]"), components, findings);
        }
    }
}

fn check_name(name: &str, path: &str, components: &BTreeSet<&str>, findings: &mut Findings) {
    if components.contains(name) {
        return;
    }
    // As for unknown fields: to look through all names for each of many wrong ones takes forever.
    if findings.is_full() {
        return findings.leave_out();
    }
    let message = match suggest::nearest(name, components.iter().copied()) {
        Some(meant) => format!("no component is named {} (did you mean {meant:?}?)", shown(name)),
        None => format!(
            "no component is named {}; there is {}",
            shown(name),
            suggest::one_of(components.iter().copied().take(16))
        ),
    };
    findings.add(path, Problem::Invalid, message);
}

fn check_run(run: &Value, path: &str, findings: &mut Findings) {
    if !run.is_object() {
        return;
    }
    check_exactly_one(run, path, WAYS, findings);
    if let Some(image) = run["container"]["image"].as_str()
        && image.contains(char::is_whitespace)
    {
        let message = format!("{} has a blank in it, no image is named so", shown(image));
        findings.add(format!("{path}.container.image"), Problem::Invalid, message);
    }
    for (index, volume) in entries(&run["container"]["volumes"]).enumerate() {
        if volume.get("name").is_some() && volume.get("hostPath").is_some() {
            let message = "not together with name: a volume is kept by Tombolo or by the host";
            let field = format!("{path}.container.volumes[{index}].hostPath");
            findings.add(field, Problem::Forbidden, message);
        }
    }
    for way in ["container", "process"] {
        for (index, file) in entries(&run[way]["files"]).enumerate() {
            let path = format!("{path}.{way}.files[{index}]");
            check_exactly_one(file, &path, &["content", "secret", "config"], findings);
        }
    }
    for (index, manifest) in entries(&run["manifests"]).enumerate() {
        for field in ["apiVersion", "kind"] {
            if !manifest[field].is_string() {
                let field = format!("{path}.manifests[{index}].{field}");
                findings.add(field, Problem::Required, "is required in a Kubernetes object");
            }
        }
        if !manifest["metadata"]["name"].is_string() {
            let field = format!("{path}.manifests[{index}].metadata.name");
            findings.add(field, Problem::Required, "is required in a Kubernetes object");
        }
    }
    if let Some(compose) = run.get("compose")
        && compose["services"].as_object().is_none_or(|services| services.is_empty())
    {
        let message = "is required (the services of a compose project, at least one)";
        findings.add(format!("{path}.compose.services"), Problem::Required, message);
    }
}

fn only_way(run: &Value) -> Option<&'static str> {
    let mut given = WAYS.iter().filter(|way| run.get(way).is_some());
    match (given.next(), given.next()) {
        (Some(way), None) => Some(way),
        (_, _) => None,
    }
}

/// Of several alternatives exactly one must be given.
pub(super) fn check_exactly_one(
    value: &Value,
    path: &str,
    alternatives: &[&str],
    findings: &mut Findings,
) {
    if !value.is_object() {
        return;
    }
    let given: Vec<&str> =
        alternatives.iter().copied().filter(|name| value.get(name).is_some()).collect();
    let allowed = || suggest::one_of(alternatives.iter().copied());
    match given.as_slice() {
        [_] => (),
        [] => {
            let message = format!("exactly one of {} is required", allowed());
            findings.add(path, Problem::Required, message);
        }
        [first, others @ ..] => {
            for other in others {
                let message = format!("not together with {first}: exactly one of {}", allowed());
                findings.add(format!("{path}.{other}"), Problem::Forbidden, message);
            }
        }
    }
}

fn check_health(health: &Value, path: &str, findings: &mut Findings) {
    check_exactly_one(health, path, &["http", "tcp", "exec"], findings);
}

fn check_disconnect(rule: &Value, path: &str, findings: &mut Findings) {
    let after = rule.get("after").is_some();
    match (rule["action"].as_str(), after) {
        (Some(action @ ("replace" | "stop")), false) => {
            let message = format!("is required with {action:?} (how long to wait, such as 5m)");
            findings.add(format!("{path}.after"), Problem::Required, message);
        }
        (Some("keep"), true) => {
            let message = "not together with \"keep\", which waits without end";
            findings.add(format!("{path}.after"), Problem::Forbidden, message);
        }
        (Some(_) | None, _) => (),
    }
    if rule.get("onReturn").is_some() && rule["action"].as_str().is_some_and(|a| a != "replace") {
        let message = "only with \"replace\": otherwise there are no two instances to choose from";
        findings.add(format!("{path}.onReturn"), Problem::Forbidden, message);
    }
}

fn check_weights(weights: &Value, findings: &mut Findings) {
    let Some(weights) = weights.as_object() else { return };
    let all_zero = weights.values().all(|weight| weight.as_f64() == Some(0.0));
    if all_zero && !weights.is_empty() {
        let message = "all weights are 0; at least one must be more";
        findings.add("spec.weights", Problem::Invalid, message);
    }
}

fn check_location(location: &Value, path: &str, findings: &mut Findings) {
    for (given, other) in [("latitude", "longitude"), ("longitude", "latitude")] {
        if location.get(given).is_some() && location.get(other).is_none() {
            let message = format!("is required when {given} is given");
            findings.add(format!("{path}.{other}"), Problem::Required, message);
        }
    }
}

/// The entries of a list; none if it is not a list.
pub(super) fn entries(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}
