//! The status of a LowLevelOrchestration: its clusters and applications one by one, in the words of
//! its spec. CHARITY publishes no status of its own, so ours mirrors the spec. Called by the loop
//! that keeps an App for each of its applications.

use serde_json::{Map, Value, json};
use tombolo_model::{App, AppPhase, Assignment, Site};

use super::{Observed, is_available, is_ready, phase, trouble};

/// The status of the orchestration `object`, whose Apps are `observed.apps`.
pub fn status(object: &Value, observed: &Observed<'_>) -> Value {
    let apps: Vec<Value> = observed.apps.iter().map(|app| app_status(app, observed)).collect();
    let up = observed.apps.iter().filter(|app| phase(app) == AppPhase::Running).count();
    let clusters: Vec<Value> = entries(&object["spec"]["clusters"])
        .filter_map(|cluster| cluster["name"].as_str())
        .map(|cluster| cluster_status(object, cluster, observed.sites))
        .collect();
    json!({
        "phase": worst(observed.apps).as_str(),
        "ready": format!("{up}/{}", observed.apps.len()),
        "clusters": clusters,
        "apps": apps,
    })
}

/// The status of an orchestration that cannot be read, and why.
pub fn refused(why: &str) -> Value {
    json!({"phase": "Error", "message": why})
}

/// How far the one is that is least far.
fn worst(apps: &[&App]) -> AppPhase {
    let phases = apps.iter().map(|app| phase(app));
    phases.max_by_key(|phase| badness(*phase)).unwrap_or(AppPhase::Running)
}

fn badness(phase: AppPhase) -> u8 {
    match phase {
        AppPhase::Stopped => 0,
        AppPhase::Running => 1,
        AppPhase::Deploying => 2,
        AppPhase::Placing => 3,
        AppPhase::Pending => 4,
        AppPhase::Degraded => 5,
        AppPhase::Unplaceable => 6,
    }
}

fn app_status(app: &App, observed: &Observed<'_>) -> Value {
    let assignments = observed.assignments_of(app);
    let mut status = Map::new();
    status.insert("name".to_owned(), json!(app.metadata.name));
    status.insert("phase".to_owned(), json!(phase(app).as_str()));
    if let Some(trouble) = app.status.as_ref().and_then(trouble) {
        status.insert("message".to_owned(), json!(trouble));
    }
    let components: Vec<Value> =
        assignments.iter().map(|assignment| component_status(app, assignment)).collect();
    status.insert("components".to_owned(), json!(components));
    Value::Object(status)
}

fn component_status(app: &App, assignment: &Assignment) -> Value {
    let spec = &assignment.spec;
    let endpoints: Vec<&str> = app
        .status
        .iter()
        .flat_map(|status| &status.endpoints)
        .filter(|endpoint| endpoint.component == spec.component)
        .map(|endpoint| endpoint.url.as_str())
        .collect();
    let mut status = json!({
        "name": spec.component,
        "cluster": spec.site,
        "ready": is_available(assignment),
    });
    if let Some(node) = &spec.node {
        status["node"] = json!(node);
    }
    if !endpoints.is_empty() {
        status["endpoints"] = json!(endpoints);
    }
    status
}

/// CHARITY calls a cluster by its own name in `clusters` and by the orchestration's and its own in
/// `apps`; a site of either name is the cluster.
fn cluster_status(object: &Value, cluster: &str, sites: &[&Site]) -> Value {
    let orchestration = object["metadata"]["name"].as_str().unwrap_or_default();
    let long = format!("{orchestration}-{cluster}");
    let site = sites
        .iter()
        .find(|site| [Some(cluster), Some(long.as_str())].contains(&site.metadata.name.as_deref()));
    match site {
        Some(site) => json!({
            "name": cluster, "site": site.metadata.name, "ready": is_ready(site),
        }),
        None => json!({
            "name": cluster,
            "ready": false,
            "message": format!("no site is named {cluster} or {long}; let the cluster join as one"),
        }),
    }
}

fn entries(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}
