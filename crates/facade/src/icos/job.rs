//! Apps and Assignments in the words of the ICOS job manager: a group of jobs, and a job. Pure; used
//! by the shell's API and by the job manager's. Start at [`job`].
//!
//! Nothing of a job is stored as such. What is to be done about an Assignment ([`Type`]) and how far
//! that is ([`State`]) are read from its generation, its conditions and whether it is being deleted.

use kube::ResourceExt as _;
use serde_json::{Value, json};
use tombolo_model::app::AppPhase;
use tombolo_model::condition::{APPLIED, AVAILABLE, DEGRADED, PROGRESSING, find, is_true};
use tombolo_model::{App, Assignment, Condition, ConditionStatus, Engine, Reason};

use super::manifest;

/// What a job wants, by the numbers of the job manager. There it can also be 8, a replacement; here
/// that is a new job and the end of an old one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    Create = 5,
    Delete = 6,
    Update = 7,
}

/// How far a job is, by the numbers of the job manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Created = 1,
    Progressing = 2,
    Finished = 3,
    Degraded = 4,
}

impl Type {
    pub(crate) fn of(assignment: &Assignment) -> Type {
        let metadata = &assignment.metadata;
        if metadata.deletion_timestamp.is_some() {
            return Type::Delete;
        }
        let seen = assignment.status.as_ref().and_then(|status| status.observed_generation);
        match (seen, metadata.generation) {
            (Some(seen), Some(generation)) if seen < generation => Type::Update,
            (_, _) => Type::Create,
        }
    }

    /// Why a job is under way, as its condition says it.
    pub(crate) fn under_way(self) -> Reason {
        match self {
            Type::Create => Reason::Deploying,
            Type::Delete => Reason::Undeploying,
            Type::Update => Reason::Updating,
        }
    }
}

impl State {
    pub(crate) fn of(assignment: &Assignment) -> State {
        let status = assignment.status.as_ref();
        let conditions = status.map(|status| status.conditions.as_slice()).unwrap_or_default();
        // A change and a deletion count the generation up: what was begun before is another job.
        let generation = assignment.metadata.generation;
        let begun = find(conditions, PROGRESSING).is_some_and(|progressing| {
            progressing.status == ConditionStatus::True
                && progressing.observed_generation == generation
        });
        match (Type::of(assignment), begun) {
            (Type::Create, _) => of_conditions(conditions),
            (Type::Update | Type::Delete, true) => State::Progressing,
            (Type::Update | Type::Delete, false) => State::Created,
        }
    }

    /// Both the numbers and the words are in use.
    pub(crate) fn read(value: &Value) -> Option<State> {
        let all = [State::Created, State::Progressing, State::Finished, State::Degraded];
        let same = |state: &State| match value {
            Value::Number(number) => number.as_u64() == Some(*state as u64),
            Value::String(text) => {
                let name = format!("{state:?}");
                let text = text.strip_prefix("Job").unwrap_or(text);
                text.eq_ignore_ascii_case(&name)
            }
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => false,
        };
        all.into_iter().find(same)
    }
}

fn of_conditions(conditions: &[Condition]) -> State {
    let settled = |kind: &str| {
        find(conditions, kind).is_some_and(|found| found.status == ConditionStatus::False)
    };
    let holds = |kind: &str| is_true(conditions, kind);
    match () {
        () if holds(DEGRADED) => State::Degraded,
        () if holds(AVAILABLE) => State::Finished,
        () if holds(APPLIED) && settled(PROGRESSING) => State::Finished,
        () if holds(PROGRESSING) || holds(APPLIED) => State::Progressing,
        () => State::Created,
    }
}

/// An App and its Assignments as a group of jobs.
pub(crate) fn group(app: &App, assignments: &[Assignment]) -> Value {
    let metadata = &app.metadata;
    let jobs: Vec<Value> = assignments
        .iter()
        .filter(|assignment| belongs(assignment, app))
        .map(|assignment| job(assignment, Some(app)))
        .collect();
    let status = app.status.clone().unwrap_or_default();
    json!({
        "id": metadata.uid,
        "ID": metadata.uid,
        "appName": metadata.name,
        "appDescription": app.spec.description.clone().unwrap_or_default(),
        "namespace": metadata.namespace,
        "created_at": metadata.creation_timestamp,
        "status": status.phase.unwrap_or(AppPhase::Pending).as_str(),
        "message": status.message,
        "jobs": jobs,
    })
}

pub(crate) fn belongs(assignment: &Assignment, app: &App) -> bool {
    Some(&assignment.spec.app) == app.metadata.name.as_ref()
        && assignment.metadata.namespace == app.metadata.namespace
}

/// An Assignment as a job. Without its App, which an agent may not see and which may be gone already,
/// the group is what the Assignment says of it.
pub(crate) fn job(assignment: &Assignment, app: Option<&App>) -> Value {
    let (metadata, spec) = (&assignment.metadata, &assignment.spec);
    let status = assignment.status.clone().unwrap_or_default();
    let orchestrator = orchestrator(spec.engine);
    let owner = assignment.owner_references().iter().find(|owner| owner.kind == "App");
    let group = app.and_then(|app| app.uid()).or_else(|| owner.map(|owner| owner.uid.clone()));
    let description = app.and_then(|app| app.spec.description.clone()).unwrap_or_default();
    json!({
        // The published client reads the one, the published schema has the other.
        "ID": metadata.uid,
        "id": metadata.uid,
        "created_at": metadata.creation_timestamp,
        "updated_at": updated_at(assignment),
        "job_group_id": group,
        "job_group_name": spec.app,
        "job_group_description": description,
        "owner_id": status.agent.clone().unwrap_or_default(),
        "type": Type::of(assignment) as u8,
        "sub_type": "",
        "state": State::of(assignment) as u8,
        "manifests": manifest::texts(assignment)
            .into_iter()
            .map(|text| json!({"yamlString": text}))
            .collect::<Vec<_>>(),
        "targets": {
            "cluster_name": spec.site,
            "node_name": spec.node.clone().unwrap_or_default(),
            "orchestrator": orchestrator,
        },
        "orchestrator": orchestrator,
        "namespace": metadata.namespace,
        "resource": resource(assignment),
    })
}

/// What has become of a job.
pub(crate) fn resource(assignment: &Assignment) -> Value {
    let (metadata, spec) = (&assignment.metadata, &assignment.spec);
    let status = assignment.status.clone().unwrap_or_default();
    // Whoever runs it may have a number of its own for it.
    let own = status.instance.filter(|instance| is_uuid(instance));
    json!({
        "id": metadata.uid,
        "job_id": metadata.uid,
        "resource_uuid": own.or_else(|| metadata.uid.clone()),
        "resource_name": format!("{}-{}", spec.component, spec.replica),
        "conditions": status.conditions,
    })
}

/// When it was last heard of.
fn updated_at(assignment: &Assignment) -> Value {
    let status = assignment.status.as_ref();
    let changes = status.into_iter().flat_map(|status| &status.conditions);
    let last = changes.map(|condition| &condition.last_transition_time.0).max();
    let made = assignment.metadata.creation_timestamp.as_ref().map(|made| &made.0);
    last.max(made).map_or(Value::Null, |at| json!(at.to_string()))
}

/// Eight, four, four, four and twelve hexadecimal digits.
pub(crate) fn is_uuid(text: &str) -> bool {
    let lengths = text.split('-').map(str::len);
    lengths.eq([8, 4, 4, 4, 12]) && text.chars().all(|c| c == '-' || c.is_ascii_hexdigit())
}

/// ICOS knows two orchestrators by name; the others go by what they are.
pub(crate) fn orchestrator(engine: Engine) -> &'static str {
    match engine {
        Engine::Kubernetes => "ocm",
        Engine::Docker => "docker",
        Engine::Host => "host",
    }
}

/// The engine whose jobs an orchestrator takes. Nuvla runs containers on Docker.
pub(crate) fn engine(orchestrator: &str) -> Option<Engine> {
    match orchestrator {
        "ocm" | "kubernetes" => Some(Engine::Kubernetes),
        "nuvla" | "docker" => Some(Engine::Docker),
        "host" => Some(Engine::Host),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
