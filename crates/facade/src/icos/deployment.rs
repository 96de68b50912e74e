//! `/api/v3/deployment`: deployments of the ICOS shell are Apps. The id of a deployment is the uid
//! of its App.

use axum::body::Bytes;
use axum::extract::{Path, Query};
use axum::http::StatusCode;
use axum::{Extension, Json};
use futures::future::try_join_all;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams,
};
use kube::core::GroupVersionKind;
use kube::{Api, Client, ResourceExt};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tombolo_descriptor::{NoFiles, Reading, Source, report};
use tombolo_gate::{Caller, Log};
use tombolo_model::errand::LogOptions;
use tombolo_model::{App, Assignment};

use super::index::{Address, Index};
use super::{job, logs};
use crate::refusal::Refusal;

type Answer = Result<Json<Value>, Refusal>;

/// Who we are in managedFields.
const FIELD_MANAGER: &str = "tombolo-icos";
/// Of each instance. More is for `tombolo logs`, which follows. Bounds in bytes are in [`super::logs`].
const LOG_LINES_DEFAULT: u32 = 100;
const LOG_LINES_MAX: u32 = 10_000;
/// A node that is gone holds up its own answer for seconds; this many wait together.
const LOGS_AT_ONCE: usize = 8;
/// More objects than this are listed together instead of read one by one.
pub(super) const READ_EACH_MAX: usize = 256;
const READ_AT_ONCE: usize = 16;
pub(super) const NAMESPACE_DEFAULT: &str = "default";

pub(crate) async fn list(Extension(caller): Extension<Caller>) -> Answer {
    let apps = apps(&caller.client).await?;
    let assignments = assignments(&caller.client).await?;
    Ok(Json(apps.iter().map(|app| job::group(app, &assignments)).collect()))
}

pub(crate) async fn show(
    Extension(caller): Extension<Caller>,
    Extension(index): Extension<Index>,
    Path(id): Path<String>,
) -> Answer {
    let app = find(&caller.client, &index, &id).await?;
    Ok(Json(job::group(&app, &own(&caller.client, &index, &app).await?)))
}

/// The body is a descriptor of any format, or JSON with the descriptor as `content`.
pub(crate) async fn create(
    Extension(caller): Extension<Caller>,
    body: Bytes,
) -> Result<(StatusCode, Json<Value>), Refusal> {
    bring(&caller, read(&body)?).await
}

/// Deploys what is not there yet.
pub(super) async fn bring(
    caller: &Caller,
    reading: Reading,
) -> Result<(StatusCode, Json<Value>), Refusal> {
    for app in &reading.apps {
        if exists(&caller.client, app).await? {
            let name = app.name_any();
            let message = format!("there is a deployment {name:?} already; PUT changes it");
            return Err(Refusal::new(StatusCode::CONFLICT, message));
        }
    }
    let written = write(&caller.client, &reading).await?;
    Ok((StatusCode::CREATED, Json(written)))
}

pub(crate) async fn replace(
    Extension(caller): Extension<Caller>,
    Extension(index): Extension<Index>,
    Path(id): Path<String>,
    body: Bytes,
) -> Answer {
    let old = find(&caller.client, &index, &id).await?;
    let reading = read(&body)?;
    let same =
        |app: &App| app.metadata.name == old.metadata.name && namespace(app) == namespace(&old);
    if !reading.apps.iter().all(same) {
        let message = format!(
            "the descriptor must be that of {:?} in namespace {:?}, whose id this is",
            old.name_any(),
            namespace(&old)
        );
        return Err(Refusal::new(StatusCode::CONFLICT, message));
    }
    Ok(Json(write(&caller.client, &reading).await?))
}

pub(crate) async fn delete(
    Extension(caller): Extension<Caller>,
    Extension(index): Extension<Index>,
    Path(id): Path<String>,
) -> Answer {
    let app = find(&caller.client, &index, &id).await?;
    let api: Api<App> = Api::namespaced(caller.client.clone(), &namespace(&app));
    let params = DeleteParams::default().preconditions(kube::api::Preconditions {
        uid: app.metadata.uid.clone(),
        resource_version: None,
    });
    api.delete(&app.name_any(), &params).await?;
    Ok(Json(job::group(&app, &[])))
}

pub(crate) async fn start(
    caller: Extension<Caller>,
    index: Extension<Index>,
    id: Path<String>,
) -> Answer {
    set_stopped(caller, index, id, false).await
}

pub(crate) async fn stop(
    caller: Extension<Caller>,
    index: Extension<Index>,
    id: Path<String>,
) -> Answer {
    set_stopped(caller, index, id, true).await
}

async fn set_stopped(
    Extension(caller): Extension<Caller>,
    Extension(index): Extension<Index>,
    Path(id): Path<String>,
    stopped: bool,
) -> Answer {
    let app = find(&caller.client, &index, &id).await?;
    let api: Api<App> = Api::namespaced(caller.client.clone(), &namespace(&app));
    let patch = Patch::Merge(json!({"spec": {"stopped": stopped}}));
    let app = api.patch(&app.name_any(), &PatchParams::default(), &patch).await?;
    Ok(Json(job::group(&app, &own(&caller.client, &index, &app).await?)))
}

#[derive(Debug, Deserialize)]
pub(crate) struct LogsQuery {
    component: Option<String>,
    tail: Option<u32>,
}

/// The last lines of every instance, each after its name. One that cannot be asked has a line that says
/// why.
pub(crate) async fn logs(
    Extension(caller): Extension<Caller>,
    Extension(index): Extension<Index>,
    Path(id): Path<String>,
    Query(query): Query<LogsQuery>,
) -> Result<String, Refusal> {
    let app = find(&caller.client, &index, &id).await?;
    let mut own = own(&caller.client, &index, &app).await?;
    own.retain(|one| query.component.as_ref().is_none_or(|name| *name == one.spec.component));
    own.sort_by_key(|one| (one.spec.component.clone(), one.spec.replica, one.name_any()));
    let not_asked = own.len().saturating_sub(logs::INSTANCES_MAX);
    own.truncate(logs::INSTANCES_MAX);
    let bytes_max = logs::bytes_max_each(own.len());
    let tail_lines = Some(query.tail.unwrap_or(LOG_LINES_DEFAULT).min(LOG_LINES_MAX));
    let options = LogOptions { tail_lines, ..LogOptions::default() };
    let mut asked = Vec::new();
    for some in own.chunks(LOGS_AT_ONCE) {
        let some = some.iter().map(|one| log(&caller, one, &options, bytes_max));
        asked.extend(try_join_all(some).await?);
    }
    Ok(logs::compose(&asked, not_asked, bytes_max))
}

async fn log(
    caller: &Caller,
    one: &Assignment,
    options: &LogOptions,
    bytes_max: usize,
) -> Result<(String, Log), Refusal> {
    let namespace = one.namespace().unwrap_or_default();
    let log = match caller.log(&namespace, &one.name_any(), options, bytes_max).await {
        Ok(log) => log,
        Err(kube::Error::Api(status)) if status.code != 403 => {
            Log { text: format!("({})", status.message), is_whole: true }
        }
        Err(error) => return Err(error.into()),
    };
    Ok((format!("{}/{}", one.spec.component, one.spec.replica), log))
}

/// ICOS answers 405 where a descriptor cannot be used, and its clients know it so.
pub(super) fn read(body: &[u8]) -> Result<Reading, Refusal> {
    let invalid = |message: String| Refusal::new(StatusCode::METHOD_NOT_ALLOWED, message);
    let text = std::str::from_utf8(body).map_err(|_| invalid("not UTF-8 text".to_owned()))?;
    let content = serde_json::from_str::<Value>(text).ok();
    let content = content.as_ref().and_then(|body| body["content"].as_str()).unwrap_or(text);
    let source = Source { name: "descriptor", text: content };
    let reading = tombolo_descriptor::read(source, None, &NoFiles);
    if reading.has_errors() || reading.apps.is_empty() {
        let first = reading.diagnostics.first().map(|found| found.message.clone());
        let message = first.unwrap_or_else(|| "there is no application in it".to_owned());
        return Err(invalid(message).with(report(source, &reading)));
    }
    Ok(reading)
}

async fn exists(client: &Client, app: &App) -> Result<bool, Refusal> {
    let api: Api<App> = Api::namespaced(client.clone(), &namespace(app));
    Ok(api.get_opt(&app.name_any()).await?.is_some())
}

/// Writes what was read and answers with the first deployment; a descriptor mostly has one.
async fn write(client: &Client, reading: &Reading) -> Result<Value, Refusal> {
    for app in &reading.apps {
        bring_namespace(client, &namespace(app)).await?;
    }
    for other in &reading.others {
        apply(client, other).await?;
    }
    let mut groups = Vec::new();
    for app in &reading.apps {
        let api: Api<App> = Api::namespaced(client.clone(), &namespace(app));
        let params = PatchParams::apply(FIELD_MANAGER).force();
        let written = api.patch(&app.name_any(), &params, &Patch::Apply(app)).await?;
        groups.push(job::group(&written, &[]));
    }
    let mut answer = groups.remove(0);
    answer["notes"] = reading.notes.iter().map(|note| json!(note.message)).collect();
    if !groups.is_empty() {
        answer["others"] = Value::Array(groups);
    }
    Ok(answer)
}

/// In ICOS a namespace comes into being by being named.
async fn bring_namespace(client: &Client, name: &str) -> Result<(), Refusal> {
    let api: Api<Namespace> = Api::all(client.clone());
    if api.get_opt(name).await?.is_none() {
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some(name.to_owned());
        api.create(&PostParams::default(), &namespace).await?;
    }
    Ok(())
}

async fn apply(client: &Client, object: &Value) -> Result<(), Refusal> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (version, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
    let (group, version) = version.split_once('/').unwrap_or(("", &version));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, &kind));
    let namespace = object["metadata"]["namespace"].as_str().unwrap_or(NAMESPACE_DEFAULT);
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
    let params = PatchParams::apply(FIELD_MANAGER).force();
    let name = text(&object["metadata"]["name"]);
    api.patch(&name, &params, &Patch::Apply(object)).await?;
    Ok(())
}

pub(super) async fn apps(client: &Client) -> Result<Vec<App>, Refusal> {
    let api: Api<App> = Api::all(client.clone());
    Ok(api.list(&ListParams::default()).await?.items)
}

async fn assignments(client: &Client) -> Result<Vec<Assignment>, Refusal> {
    let api: Api<Assignment> = Api::all(client.clone());
    Ok(api.list(&ListParams::default()).await?.items)
}

/// The jobs of an App.
pub(super) async fn own(
    client: &Client,
    index: &Index,
    app: &App,
) -> Result<Vec<Assignment>, Refusal> {
    let places = index.jobs_of(&namespace(app), &app.name_any());
    let mut own = match places.filter(|places| places.len() <= READ_EACH_MAX) {
        Some(places) => read_each(client, &places).await?,
        None => assignments(client).await?,
    };
    own.retain(|one| job::belongs(one, app));
    Ok(own)
}

/// What is at these places, with the rights of the client. What has gone meanwhile is left out.
pub(super) async fn read_each<K>(client: &Client, places: &[Address]) -> Result<Vec<K>, Refusal>
where
    K: kube::Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    K: Clone + std::fmt::Debug + DeserializeOwned,
{
    let mut read = Vec::new();
    for some in places.chunks(READ_AT_ONCE) {
        let some: Vec<_> =
            some.iter().cloned().map(|place| read_one(client.clone(), place)).collect();
        read.extend(try_join_all(some).await?.into_iter().flatten());
    }
    Ok(read)
}

async fn read_one<K>(client: Client, (namespace, name): Address) -> Result<Option<K>, kube::Error>
where
    K: kube::Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    K: Clone + std::fmt::Debug + DeserializeOwned,
{
    let api: Api<K> = Api::namespaced(client, &namespace);
    api.get_opt(&name).await
}

/// By the index; one that is too new for it is looked for among all.
pub(super) async fn find(client: &Client, index: &Index, id: &str) -> Result<App, Refusal> {
    let known: Vec<App> = read_each(client, &index.groups(id)).await?;
    if let Some(app) = known.into_iter().find(|app| app.metadata.uid.as_deref() == Some(id)) {
        return Ok(app);
    }
    let found = apps(client).await?.into_iter().find(|app| app.metadata.uid.as_deref() == Some(id));
    found.ok_or_else(|| Refusal::not_found(format!("there is no deployment {id:?}")))
}

pub(super) fn namespace(app: &App) -> String {
    app.namespace().unwrap_or_else(|| NAMESPACE_DEFAULT.to_owned())
}
