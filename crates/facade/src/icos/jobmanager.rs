//! `/jobmanager`: jobs and groups of jobs, from which ICOS deployment managers pull their work. A group
//! is an App, a job an Assignment; their ids are the uids. Start at [`router`].
//!
//! Taking a job is one write of the Assignment's status that names the version it was read at, so
//! that of two who try one succeeds. The taker is also put among those who hold the Assignment: when it
//! is deleted, it stays as a job to undeploy until the taker says that nothing is left.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{Path, Query, State as Shared};
use axum::http::StatusCode;
use axum::routing::{get, patch, post, put};
use axum::{Extension, Json, Router};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Client, ResourceExt as _};
use serde::Deserialize;
use serde_json::{Value, json};
use tombolo_gate::Caller;
use tombolo_identity::Role;
use tombolo_model::keys::FINALIZER_ASSIGNMENT;
use tombolo_model::{App, Assignment, AssignmentStatus, Engine, Node};

use super::claims::{Asker, Claims, Served, claimed, is_listed};
use super::deployment::READ_EACH_MAX;
use super::index::Index;
use super::job::{self, State, Type};
use super::told::Told;
use super::{deployment, group, incompliance};
use crate::clock::Clock;
use crate::refusal::Refusal;

type Answer = Result<Json<Value>, Refusal>;

/// Who we are in managedFields.
const FIELD_MANAGER: &str = "tombolo-icos";
/// How often a write is tried against others who write the same object.
const ATTEMPTS_MAX: usize = 8;
const OWNER_CHARS_MAX: usize = 253;

pub(super) fn router(clock: Clock) -> Router {
    let jobs = || get(list).put(update);
    let job = || get(show).put(update_named).delete(delete);
    let status = || put(report);
    let status_of = || get(resource).put(report_named);
    let executable = || get(executable);
    Router::new()
        .route("/jobmanager", get(|| async { "" }))
        .route("/jobmanager/", get(|| async { "" }))
        .route("/jobmanager/healthz", get(|| async { "" }))
        // With and without the slash: clients of ICOS send both.
        .route("/jobmanager/jobs", jobs())
        .route("/jobmanager/jobs/", jobs())
        .route("/jobmanager/jobs/{id}", job())
        .route("/jobmanager/jobs/{id}/", job())
        .route("/jobmanager/jobs/executable/{orchestrator}", executable())
        .route("/jobmanager/jobs/executable/{orchestrator}/", executable())
        .route("/jobmanager/jobs/executable/{orchestrator}/{owner}", get(executable_of))
        .route("/jobmanager/jobs/promote/{id}", patch(promote))
        .route("/jobmanager/policies/incompliance", post(incompliance::tell))
        .route("/jobmanager/policies/incompliance/", post(incompliance::tell))
        // The path that the published job manager gives as its callback.
        .route("/jobmanager/policies/incompliance/create", post(incompliance::tell))
        .route("/jobmanager/status", status())
        .route("/jobmanager/status/", status())
        .route("/jobmanager/status/{id}", status_of())
        .route("/jobmanager/resources/status", status())
        .route("/jobmanager/resources/status/", status())
        .route("/jobmanager/resources/status/{id}", status_of())
        .with_state(Arc::new(Claims::new(clock)))
        .merge(group::router())
}

async fn list(Extension(caller): Extension<Caller>) -> Answer {
    let apps = apps(&caller).await?;
    let shown = |one: &Assignment| {
        let app = apps.iter().find(|app| job::belongs(one, app));
        job::job(one, app)
    };
    Ok(Json(assignments(&caller).await?.iter().map(shown).collect()))
}

async fn show(
    Extension(caller): Extension<Caller>,
    Extension(index): Extension<Index>,
    Path(id): Path<String>,
) -> Answer {
    let assignment = find(&caller, &index, &id).await?;
    Ok(Json(job::job(&assignment, app_of(&caller, &assignment).await?.as_ref())))
}

/// Ours go by uid; a resource may also go by the number that its deployment manager gave it.
async fn resource(
    Extension(caller): Extension<Caller>,
    Extension(index): Extension<Index>,
    Path(id): Path<String>,
) -> Answer {
    Ok(Json(job::resource(&find(&caller, &index, &id).await?)))
}

#[derive(Debug, Deserialize)]
struct ExecutableQuery {
    #[serde(default)]
    icos_agent_id: String,
}

async fn executable(
    shared: Shared<Arc<Claims>>,
    extension: Extension<Caller>,
    index: Extension<Index>,
    Path(orchestrator): Path<String>,
    Query(query): Query<ExecutableQuery>,
) -> Answer {
    executable_of(shared, extension, index, Path((orchestrator, query.icos_agent_id))).await
}

async fn executable_of(
    Shared(claims): Shared<Arc<Claims>>,
    Extension(caller): Extension<Caller>,
    Extension(index): Extension<Index>,
    Path((orchestrator, owner)): Path<(String, String)>,
) -> Answer {
    check_owner(&owner)?;
    let engine = job::engine(&orchestrator).ok_or_else(|| {
        let message = format!("{orchestrator:?} is none of ocm, nuvla, docker, host");
        Refusal::new(StatusCode::BAD_REQUEST, message)
    })?;
    let assignments = unfinished(&caller, &index, engine).await?;
    claims.retain(|uid| index.has_job(uid).unwrap_or(true));
    if assignments.is_empty() {
        return Ok(Json(json!([])));
    }
    let served = served(&caller).await?;
    let asker = Asker { owner: &owner, node: node_of(&caller) };
    let mut jobs = Vec::new();
    for one in assignments.iter().filter(|one| one.spec.engine == engine) {
        let free = claims.executable(one, asker, &served).is_ok();
        if free && is_listed(one, &claims.claim(one), &owner) {
            let mut job = job::job(one, app_of(&caller, one).await?.as_ref());
            // The asker looks for its own name.
            job["orchestrator"] = json!(orchestrator);
            job["targets"]["orchestrator"] = json!(orchestrator);
            jobs.push(job);
        }
    }
    Ok(Json(Value::Array(jobs)))
}

#[derive(Debug, Deserialize)]
struct Promotion {
    owner_id: String,
}

async fn promote(
    Shared(claims): Shared<Arc<Claims>>,
    Extension(caller): Extension<Caller>,
    Extension(index): Extension<Index>,
    Path(id): Path<String>,
    body: Bytes,
) -> Result<StatusCode, Refusal> {
    let promotion: Promotion = serde_json::from_slice(&body).map_err(|error| {
        Refusal::new(StatusCode::BAD_REQUEST, format!("expected {{\"owner_id\": …}}: {error}"))
    })?;
    check_owner(&promotion.owner_id)?;
    let served = served(&caller).await?;
    let asker = Asker { owner: &promotion.owner_id, node: node_of(&caller) };
    let taken = change(&caller, &index, &id, |assignment| {
        claims.executable(assignment, asker, &served).map_err(|taken| {
            Refusal::new(StatusCode::CONFLICT, format!("the job cannot be taken: {taken}"))
        })?;
        Ok(Some(claimed(assignment, asker.owner, claims.time())))
    });
    put_finalizer(&caller, &taken.await?).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn update(
    shared: Shared<Arc<Claims>>,
    caller: Extension<Caller>,
    index: Extension<Index>,
    body: Bytes,
) -> Answer {
    tell(&shared, (&caller, &index), None, &body, |assignment| job::job(assignment, None)).await
}

async fn update_named(
    shared: Shared<Arc<Claims>>,
    caller: Extension<Caller>,
    index: Extension<Index>,
    Path(id): Path<String>,
    body: Bytes,
) -> Answer {
    tell(&shared, (&caller, &index), Some(id), &body, |assignment| job::job(assignment, None)).await
}

async fn report(
    shared: Shared<Arc<Claims>>,
    caller: Extension<Caller>,
    index: Extension<Index>,
    body: Bytes,
) -> Answer {
    tell(&shared, (&caller, &index), None, &body, job::resource).await
}

async fn report_named(
    shared: Shared<Arc<Claims>>,
    caller: Extension<Caller>,
    index: Extension<Index>,
    Path(id): Path<String>,
    body: Bytes,
) -> Answer {
    tell(&shared, (&caller, &index), Some(id), &body, job::resource).await
}

/// Writes what was told, and lets go of what is undeployed.
async fn tell(
    claims: &Claims,
    (caller, index): (&Caller, &Index),
    id: Option<String>,
    body: &[u8],
    shown: impl Fn(&Assignment) -> Value,
) -> Answer {
    let told = Told::read(body)?;
    let id = id.or_else(|| told.job.clone()).or_else(|| told.resource.clone());
    let id = id.ok_or_else(|| Refusal::new(StatusCode::BAD_REQUEST, "Job UUID is required"))?;
    let written = change(caller, index, &id, |assignment| {
        check_teller(assignment, &told)?;
        let status = told.apply(assignment, claims.time());
        Ok(claims.is_news(assignment, &status).then_some(status))
    });
    let written = written.await?;
    if Type::of(&written) != Type::Delete || !told.is_gone() {
        return Ok(Json(shown(&written)));
    }
    let mut answer = shown(&written);
    let_go(caller, &written).await?;
    if answer["state"].is_number() {
        answer["state"] = json!(State::Finished as u8);
    }
    Ok(Json(answer))
}

/// One whose job was taken over meanwhile must hear of it, and must not speak for it any more.
fn check_teller(assignment: &Assignment, told: &Told) -> Result<(), Refusal> {
    let holder = assignment.status.as_ref().and_then(|status| status.agent.as_ref());
    match (holder, &told.owner) {
        (Some(holder), Some(owner)) if holder != owner => Err(Refusal::new(
            StatusCode::CONFLICT,
            format!("{holder:?} has the job now; {owner:?} should undeploy what it has of it"),
        )),
        (_, _) => Ok(()),
    }
}

/// Of a job that is to be undeployed: it is. Any other comes back while its group wants it, so that
/// only those who may delete Assignments can do this.
async fn delete(
    Extension(caller): Extension<Caller>,
    Extension(index): Extension<Index>,
    Path(id): Path<String>,
) -> Answer {
    let assignment = find(&caller, &index, &id).await?;
    if Type::of(&assignment) == Type::Delete {
        let_go(&caller, &assignment).await?;
        return Ok(Json(json!(id)));
    }
    let params = DeleteParams::default().preconditions(Preconditions {
        uid: assignment.metadata.uid.clone(),
        resource_version: None,
    });
    api(&caller.client, &assignment).delete(&assignment.name_any(), &params).await?;
    Ok(Json(json!(id)))
}

/// Reads, decides and writes the status until nobody else has written in between.
async fn change(
    caller: &Caller,
    index: &Index,
    id: &str,
    decide: impl Fn(&Assignment) -> Result<Option<AssignmentStatus>, Refusal>,
) -> Result<Assignment, Refusal> {
    let mut assignment = find(caller, index, id).await?;
    let name = assignment.name_any();
    let api = api(&caller.client, &assignment);
    for _ in 0..ATTEMPTS_MAX {
        let Some(status) = decide(&assignment)? else { return Ok(assignment) };
        let params =
            PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
        assignment.status = Some(status);
        match api.replace_status(&name, &params, &assignment).await {
            Ok(written) => return Ok(written),
            Err(kube::Error::Api(status)) if status.code == 409 => (),
            Err(error) => return Err(error.into()),
        }
        assignment = api.get(&name).await?;
        if assignment.metadata.uid.as_deref() != Some(id) && !names(&assignment, id) {
            return Err(missing(id));
        }
    }
    let message = format!("job {id} is being written by others; try again");
    Err(Refusal::new(StatusCode::CONFLICT, message))
}

/// From now on a deletion waits for whoever has taken it.
async fn put_finalizer(caller: &Caller, assignment: &Assignment) -> Result<(), Refusal> {
    set_holders(caller, assignment, |live| {
        let is_held = live.finalizers().iter().any(|holder| holder == FINALIZER_ASSIGNMENT);
        if is_held || live.metadata.deletion_timestamp.is_some() {
            return None;
        }
        let ours = FINALIZER_ASSIGNMENT.to_owned();
        Some(live.finalizers().iter().cloned().chain([ours]).collect())
    })
    .await
}

async fn let_go(caller: &Caller, assignment: &Assignment) -> Result<(), Refusal> {
    set_holders(caller, assignment, |live| {
        let holders = live.finalizers();
        let others = holders.iter().filter(|holder| *holder != FINALIZER_ASSIGNMENT);
        let others: Vec<String> = others.cloned().collect();
        (others.len() < holders.len()).then_some(others)
    })
    .await
}

/// Writes the finalizers that `decide` wants, if any, until nobody else has written in between.
async fn set_holders(
    caller: &Caller,
    assignment: &Assignment,
    decide: impl Fn(&Assignment) -> Option<Vec<String>>,
) -> Result<(), Refusal> {
    let api = api(&caller.client, assignment);
    let (name, uid) = (assignment.name_any(), &assignment.metadata.uid);
    let params =
        PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
    let mut live = assignment.clone();
    for _ in 0..ATTEMPTS_MAX {
        let Some(holders) = decide(&live) else { return Ok(()) };
        let patch = json!({"metadata": {
            "uid": uid, "resourceVersion": live.resource_version(), "finalizers": holders,
        }});
        match api.patch(&name, &params, &Patch::Merge(patch)).await {
            Ok(_) => return Ok(()),
            Err(kube::Error::Api(status)) if status.code == 409 || status.code == 404 => (),
            Err(error) => return Err(error.into()),
        }
        match api.get_opt(&name).await? {
            Some(again) if again.metadata.uid == *uid => live = again,
            // Gone already, which is as good.
            Some(_) | None => return Ok(()),
        }
    }
    let message = format!("{name} is being written by others; try again");
    Err(Refusal::new(StatusCode::CONFLICT, message))
}

/// All that the caller may see.
pub(super) async fn assignments(caller: &Caller) -> Result<Vec<Assignment>, Refusal> {
    let api: Api<Assignment> = Api::all(caller.client.clone());
    let params = match &caller.subject().role {
        Role::Agent(remit) => ListParams::default().fields(&format!("spec.site={}", remit.site())),
        Role::Anonymous | Role::Guest | Role::User | Role::Manager | Role::Admin | Role::System => {
            ListParams::default()
        }
    };
    Ok(api.list(&params).await?.items)
}

/// Those that somebody may have to take. An agent is told of its site alone, as ever.
async fn unfinished(
    caller: &Caller,
    index: &Index,
    engine: Engine,
) -> Result<Vec<Assignment>, Refusal> {
    let places = index.unfinished(engine).filter(|_| node_of(caller).is_none());
    match places.filter(|places| places.len() <= READ_EACH_MAX) {
        Some(places) => deployment::read_each(&caller.client, &places).await,
        None => assignments(caller).await,
    }
}

/// By the index; one that is too new for it is looked for among all. An agent is told of its site alone.
async fn find(caller: &Caller, index: &Index, id: &str) -> Result<Assignment, Refusal> {
    if !job::is_uuid(id) {
        return Err(Refusal::new(StatusCode::BAD_REQUEST, format!("{id:?} is not a job's UUID")));
    }
    if node_of(caller).is_none() {
        let known = deployment::read_each(&caller.client, &index.jobs(id)).await?;
        if let Some(found) = known.into_iter().find(|one| names(one, id)) {
            return Ok(found);
        }
    }
    let found = assignments(caller).await?.into_iter().find(|one| names(one, id));
    found.ok_or_else(|| missing(id))
}

fn names(assignment: &Assignment, id: &str) -> bool {
    let instance = assignment.status.as_ref().and_then(|status| status.instance.as_deref());
    assignment.metadata.uid.as_deref() == Some(id) || instance == Some(id)
}

fn missing(id: &str) -> Refusal {
    Refusal::not_found(format!("there is no job {id:?}"))
}

/// An agent may not see Apps.
async fn apps(caller: &Caller) -> Result<Vec<App>, Refusal> {
    match node_of(caller) {
        Some(_) => Ok(Vec::new()),
        None => deployment::apps(&caller.client).await,
    }
}

/// None if it is gone, and for an agent, who may not see it.
async fn app_of(caller: &Caller, assignment: &Assignment) -> Result<Option<App>, Refusal> {
    if node_of(caller).is_some() {
        return Ok(None);
    }
    let namespace = assignment.namespace().unwrap_or_default();
    let api: Api<App> = Api::namespaced(caller.client.clone(), &namespace);
    Ok(api.get_opt(&assignment.spec.app).await?)
}

async fn served(caller: &Caller) -> Result<Served, Refusal> {
    if node_of(caller).is_some() {
        return Ok(Served::default());
    }
    let api: Api<Node> = Api::all(caller.client.clone());
    Ok(Served::new(&api.list(&ListParams::default()).await?.items))
}

/// The node of an agent of ours.
fn node_of(caller: &Caller) -> Option<&str> {
    match &caller.subject().role {
        Role::Agent(remit) => Some(remit.name()),
        Role::Anonymous | Role::Guest | Role::User | Role::Manager | Role::Admin | Role::System => {
            None
        }
    }
}

fn check_owner(owner: &str) -> Result<(), Refusal> {
    let fits = |letter: char| letter.is_ascii_graphic();
    let fitting = (1..=OWNER_CHARS_MAX).contains(&owner.len()) && owner.chars().all(fits);
    if fitting {
        return Ok(());
    }
    let message = format!("the owner's id is 1 to {OWNER_CHARS_MAX} letters, digits and signs");
    Err(Refusal::new(StatusCode::BAD_REQUEST, message))
}

fn api(client: &Client, assignment: &Assignment) -> Api<Assignment> {
    let namespace = assignment.namespace().unwrap_or_default();
    Api::namespaced(client.clone(), &namespace)
}
