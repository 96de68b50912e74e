//! Apps and Assignments in the words of the ICOS job manager: a group of jobs, and a job. Pure; used
//! by the shell's API and by the job manager's.

use serde_json::{Value, json};
use tombolo_model::app::AppPhase;
use tombolo_model::condition::{APPLIED, AVAILABLE, DEGRADED, PROGRESSING};
use tombolo_model::run::Way;
use tombolo_model::{App, Assignment, Condition, ConditionStatus, Engine};

/// A job that makes a deployment: the only kind that stands for something that lasts.
const CREATE_DEPLOYMENT: u8 = 5;

/// How far a job is, by the numbers of the job manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Created = 1,
    Progressing = 2,
    Finished = 3,
    Degraded = 4,
}

/// An App and its Assignments as a group of jobs.
pub(crate) fn group(app: &App, assignments: &[Assignment]) -> Value {
    let metadata = &app.metadata;
    let jobs: Vec<Value> = assignments
        .iter()
        .filter(|assignment| belongs(assignment, app))
        .map(|assignment| job(assignment, app))
        .collect();
    let status = app.status.clone().unwrap_or_default();
    json!({
        "id": metadata.uid,
        "appName": metadata.name,
        "appDescription": app.spec.description.clone().unwrap_or_default(),
        "namespace": metadata.namespace,
        "created_at": metadata.creation_timestamp,
        "status": status.phase.unwrap_or(AppPhase::Pending).as_str(),
        "message": status.message,
        "jobs": jobs,
    })
}

fn belongs(assignment: &Assignment, app: &App) -> bool {
    Some(&assignment.spec.app) == app.metadata.name.as_ref()
        && assignment.metadata.namespace == app.metadata.namespace
}

/// An Assignment as a job.
pub(crate) fn job(assignment: &Assignment, app: &App) -> Value {
    let (metadata, spec) = (&assignment.metadata, &assignment.spec);
    let status = assignment.status.clone().unwrap_or_default();
    let orchestrator = orchestrator(spec.engine);
    json!({
        "ID": metadata.uid,
        "created_at": metadata.creation_timestamp,
        "job_group_id": app.metadata.uid,
        "job_group_name": app.metadata.name,
        "job_group_description": app.spec.description.clone().unwrap_or_default(),
        "owner_id": status.agent.clone().unwrap_or_default(),
        "type": CREATE_DEPLOYMENT,
        "state": state(&status.conditions) as u8,
        "manifests": manifests(assignment),
        "targets": {
            "cluster_name": spec.site, "node_name": spec.node, "orchestrator": orchestrator,
        },
        "orchestrator": orchestrator,
        "namespace": metadata.namespace,
        "resource": {
            "job_id": metadata.uid,
            "resource_uuid": metadata.uid,
            "resource_name": format!("{}-{}", spec.component, spec.replica),
            "conditions": status.conditions,
        },
    })
}

/// ICOS knows two orchestrators by name; the others go by what they are.
pub(super) fn orchestrator(engine: Engine) -> &'static str {
    match engine {
        Engine::Kubernetes => "ocm",
        Engine::Docker => "docker",
        Engine::Host => "host",
    }
}

fn state(conditions: &[Condition]) -> State {
    let holds = |kind: &str| {
        conditions.iter().any(|found| found.kind == kind && found.status == ConditionStatus::True)
    };
    match () {
        () if holds(DEGRADED) => State::Degraded,
        () if holds(AVAILABLE) => State::Finished,
        () if holds(PROGRESSING) || holds(APPLIED) => State::Progressing,
        () => State::Created,
    }
}

/// What is to run, as texts: JSON is YAML too.
fn manifests(assignment: &Assignment) -> Vec<Value> {
    let texts: Vec<String> = match assignment.spec.run.way() {
        Some(Way::Manifests(manifests)) => {
            manifests.iter().map(|manifest| manifest.to_string()).collect()
        }
        Some(Way::Compose(project)) => vec![project.to_string()],
        Some(Way::Container(_) | Way::Process(_)) | None => {
            vec![serde_json::to_string(&assignment.spec.run).unwrap_or_default()]
        }
    };
    texts.into_iter().map(|text| json!({"yamlString": text})).collect()
}
