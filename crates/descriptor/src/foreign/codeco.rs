//! The status of a CodecoApp in CODECO's shape. Called by the loop that keeps an App for it.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use tombolo_model::needs::Resources;
use tombolo_model::{App, AppPhase, Assignment, Bytes, Cpu};

use super::{Observed, is_available, phase, trouble};

/// The status of the CodecoApp whose App is the first of `observed.apps`: `Warning` until there is
/// one.
pub fn status(observed: &Observed<'_>) -> Value {
    let Some(app) = observed.apps.first() else {
        return json!({"status": "Warning", "errorMsg": "no App has been made of it yet"});
    };
    let assignments = observed.assignments_of(app);
    let (word, trouble) = verdict(app);
    let mut status = Map::new();
    status.insert("status".to_owned(), json!(word));
    if let Some(trouble) = trouble {
        status.insert("errorMsg".to_owned(), json!(trouble));
    }
    status.insert("nodeMetrics".to_owned(), json!(node_metrics(&assignments, observed)));
    status.insert("appMetrics".to_owned(), app_metrics(&assignments, observed));
    Value::Object(status)
}

/// The status of a CodecoApp that cannot be read, and why.
pub fn refused(why: &str) -> Value {
    json!({"status": "Error", "errorMsg": why})
}

fn verdict(app: &App) -> (&'static str, Option<String>) {
    let trouble = app.status.as_ref().and_then(trouble);
    match phase(app) {
        AppPhase::Running | AppPhase::Stopped => ("OK", None),
        AppPhase::Pending | AppPhase::Placing | AppPhase::Deploying | AppPhase::Degraded => {
            ("Warning", trouble)
        }
        AppPhase::Unplaceable => ("Error", trouble),
    }
}

/// One entry for each node that has an instance. CODECO means the application's share of the node.
fn node_metrics(assignments: &[&Assignment], observed: &Observed<'_>) -> Vec<Value> {
    let mut by_node: BTreeMap<&str, Vec<&Assignment>> = BTreeMap::new();
    for assignment in assignments {
        if let Some(node) = &assignment.spec.node {
            by_node.entry(node).or_default().push(assignment);
        }
    }
    by_node
        .into_iter()
        .map(|(name, assignments)| {
            let used = used(&assignments, observed);
            let node =
                observed.nodes.iter().find(|node| node.metadata.name.as_deref() == Some(name));
            let failures = node.and_then(|node| node.status.as_ref()?.failures.as_ref());
            let watts = observed.usage.node_watts.get(name);
            entry([
                ("nodeName", Some(name.to_owned())),
                ("avgNodeCpu", used.cpu.map(|cpu| cpu.to_string())),
                ("avgNodeMemory", used.memory.map(|memory| memory.to_string())),
                ("avgNodeFailure", failures.map(|failures| failures.node.to_string())),
                ("avgNodeEnergy", watts.map(f64::to_string)),
            ])
        })
        .collect()
}

fn app_metrics(assignments: &[&Assignment], observed: &Observed<'_>) -> Value {
    let used = used(assignments, observed);
    let services: Vec<Value> = assignments.iter().map(|one| service(one, observed)).collect();
    let mut metrics = entry([
        ("avgAppCpu", used.cpu.map(|cpu| cpu.to_string())),
        ("avgAppMemory", used.memory.map(|memory| memory.to_string())),
    ]);
    metrics["numPods"] = json!(assignments.iter().filter(|one| is_available(one)).count());
    metrics["serviceMetrics"] = json!(services);
    metrics
}

fn service(assignment: &Assignment, observed: &Observed<'_>) -> Value {
    let used = used(&[assignment], observed);
    let instance = assignment.status.as_ref().and_then(|status| status.instance.clone());
    entry([
        ("serviceName", Some(assignment.spec.component.clone())),
        ("nodeName", assignment.spec.node.clone()),
        ("podName", instance.or_else(|| assignment.metadata.name.clone())),
        ("clusterName", Some(assignment.spec.site.clone())),
        ("avgServiceCpu", used.cpu.map(|cpu| cpu.to_string())),
        ("avgServiceMemory", used.memory.map(|memory| memory.to_string())),
    ])
}

/// The sum of what was measured; nothing where nothing was.
fn used(assignments: &[&Assignment], observed: &Observed<'_>) -> Resources {
    let mut sum = Resources::default();
    for assignment in assignments {
        let name = assignment.metadata.name.as_deref().unwrap_or_default();
        let Some(one) = observed.usage.instances.get(name) else { continue };
        if let Some(cpu) = one.cpu {
            let before = sum.cpu.unwrap_or(Cpu::ZERO).millis();
            sum.cpu = Some(Cpu::from_millis(before.saturating_add(cpu.millis())));
        }
        if let Some(memory) = one.memory {
            let before = sum.memory.unwrap_or(Bytes::ZERO).get();
            sum.memory = Some(Bytes::new(before.saturating_add(memory.get())));
        }
    }
    sum
}

/// CODECO writes all its figures as texts and leaves out what it does not know.
fn entry<const N: usize>(fields: [(&str, Option<String>); N]) -> Value {
    let known =
        fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), json!(value?))));
    Value::Object(known.collect())
}
