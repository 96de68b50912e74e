//! A Kubernetes-style API in memory, as a service that a `kube::Client` talks to: it lists, watches,
//! creates, patches and deletes, and can be told to refuse. It has no socket, no thread and no file, so
//! that a test can stop time. Start at [`Fake::client`].

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};

use axum::body::{Body, to_bytes};
use futures::channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use futures::stream::{self, StreamExt as _};
use http::header::CONTENT_TYPE;
use http::{Method, Request, Response, StatusCode};
use kube::Client;
use serde_json::{Value, json};
use tower::service_fn;

const BODY_BYTES_MAX: usize = 1 << 20;

/// Cheap to clone; all clones are the same API.
#[derive(Clone, Default)]
pub(crate) struct Fake(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    revision: u64,
    objects: BTreeMap<Key, Value>,
    /// All that happened, for watches that begin in the past.
    history: Vec<(u64, Key, String)>,
    watches: Vec<(Collection, UnboundedSender<String>)>,
    refusals: Vec<Refusal>,
    refused: Vec<String>,
    /// Whose next deletion comes too late: another object has its name by then.
    remade: Option<String>,
    /// How each deletion was answered, in order.
    deletions: Vec<u16>,
    /// The next patch to a path with this in it comes too late: somebody else has written the object.
    overtaken: Option<String>,
    /// How each patch to such a path was answered, in order.
    patches: Vec<u16>,
    /// Objects of this kind cannot be watched, only listed.
    unwatched: Option<String>,
    /// Requests to paths with this in them are never answered.
    hanging: Option<String>,
    /// How many requests wait for an answer that never comes.
    waiting: usize,
}

struct Refusal {
    method: Method,
    path_holds: String,
    times: usize,
}

/// `/apis/tombolo.dev/v1alpha1`, `apps`, and a namespace if only that is meant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Collection {
    version: String,
    plural: String,
    namespace: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    version: String,
    plural: String,
    namespace: String,
    name: String,
}

struct Refused(StatusCode, &'static str);

impl fmt::Debug for Fake {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Fake")
    }
}

impl Fake {
    pub(crate) fn client(&self) -> Client {
        let fake = self.clone();
        let service = service_fn(move |request: Request<kube::client::Body>| {
            let fake = fake.clone();
            async move {
                let (parts, body) = request.into_parts();
                let body = to_bytes(Body::new(body), BODY_BYTES_MAX).await.unwrap();
                if fake.hangs(parts.uri.path()) {
                    std::future::pending::<()>().await;
                }
                let query = parts.uri.query().unwrap_or_default();
                let answer = fake.answer(&parts.method, parts.uri.path(), query, &body);
                Ok::<_, Infallible>(answer.unwrap_or_else(refusal))
            }
        });
        Client::new(service, "default")
    }

    /// Writes an object as somebody else would: `path` is that of the object.
    pub(crate) fn put(&self, path: &str, object: Value) {
        let (collection, name, _) = parse(path);
        let key = key(&collection, name.as_deref().unwrap());
        self.lock().write(key, object);
    }

    pub(crate) fn get(&self, path: &str) -> Option<Value> {
        let (collection, name, _) = parse(path);
        self.lock().objects.get(&key(&collection, name.as_deref().unwrap())).cloned()
    }

    /// All objects of a kind.
    pub(crate) fn all(&self, plural: &str) -> Vec<Value> {
        let state = self.lock();
        let of_kind = state.objects.iter().filter(|(key, _)| key.plural == plural);
        of_kind.map(|(_, object)| object.clone()).collect()
    }

    /// Answers the next requests of this kind with 500.
    pub(crate) fn refuse(&self, method: Method, path_holds: &str, times: usize) {
        let path_holds = path_holds.to_owned();
        self.lock().refusals.push(Refusal { method, path_holds, times });
    }

    /// Answers no request any more whose path has this in it.
    pub(crate) fn hang(&self, path_holds: &str) {
        self.lock().hanging = Some(path_holds.to_owned());
    }

    pub(crate) fn hang_no_more(&self) {
        self.lock().hanging = None;
    }

    /// Just before the next deletion of the object at `path`, somebody deletes it and makes another under
    /// the same name.
    pub(crate) fn remake_before_deletion(&self, path: &str) {
        self.lock().remade = Some(path.to_owned());
    }

    pub(crate) fn deletions(&self) -> Vec<u16> {
        self.lock().deletions.clone()
    }

    /// Just before the next patch to a path with this in it, somebody else writes the object.
    pub(crate) fn overtake(&self, path_holds: &str) {
        let mut state = self.lock();
        state.patches.clear();
        state.overtaken = Some(path_holds.to_owned());
    }

    /// How the patches since [`Fake::overtake`] were answered, the first of them and all after it.
    pub(crate) fn patches(&self) -> Vec<u16> {
        self.lock().patches.clone()
    }

    /// Ends all watches of a kind and refuses new ones.
    pub(crate) fn break_watches(&self, plural: &str) {
        let mut state = self.lock();
        state.unwatched = Some(plural.to_owned());
        state.watches.retain(|(collection, _)| collection.plural != plural);
    }

    fn hangs(&self, path: &str) -> bool {
        let mut state = self.lock();
        let hangs = state.hanging.as_ref().is_some_and(|part| path.contains(part));
        state.waiting += usize::from(hangs);
        hangs
    }

    /// How many requests were not answered.
    pub(crate) fn waiting(&self) -> usize {
        self.lock().waiting
    }

    pub(crate) fn refused(&self) -> Vec<String> {
        self.lock().refused.clone()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    fn answer(
        &self,
        method: &Method,
        path: &str,
        query: &str,
        body: &[u8],
    ) -> Result<Response<Body>, Refused> {
        let mut state = self.lock();
        state.refuse(method, path)?;
        let (collection, name, _subresource) = parse(path);
        match (method.as_str(), name) {
            ("GET", None) if query.contains("watch=") => state.watch(collection, query),
            ("GET", None) => Ok(as_json(&state.list(&collection))),
            ("GET", Some(name)) => found(state.objects.get(&key(&collection, &name))),
            ("POST", None) => state.create(&collection, body),
            ("PATCH", Some(name)) => {
                let key = key(&collection, &name);
                let is_meant = state.overtaken.as_ref().is_some_and(|part| path.contains(part));
                if is_meant && state.patches.is_empty() {
                    state.touch(&key);
                }
                let answer = state.patch(key, body, query.contains("force=true"));
                if is_meant {
                    let code = answer.as_ref().map_or_else(|refused| refused.0, Response::status);
                    state.patches.push(code.as_u16());
                }
                answer
            }
            ("DELETE", Some(name)) => {
                state.remake(path);
                let answer = state.delete(&key(&collection, &name), body);
                let code = answer.as_ref().map_or_else(|refused| refused.0, Response::status);
                state.deletions.push(code.as_u16());
                answer
            }
            (_, _) => Err(Refused(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed")),
        }
    }
}

impl State {
    fn refuse(&mut self, method: &Method, path: &str) -> Result<(), Refused> {
        let hit = |one: &&mut Refusal| {
            one.times > 0 && one.method == *method && path.contains(&one.path_holds)
        };
        let Some(refusal) = self.refusals.iter_mut().find(hit) else { return Ok(()) };
        refusal.times -= 1;
        self.refused.push(format!("{method} {path}"));
        Err(Refused(StatusCode::INTERNAL_SERVER_ERROR, "InternalError"))
    }

    fn list(&self, collection: &Collection) -> Value {
        let items = self.objects.iter().filter(|(key, _)| collection.holds(key));
        let items: Vec<&Value> = items.map(|(_, object)| object).collect();
        json!({"apiVersion": "v1", "kind": "List", "items": items,
            "metadata": {"resourceVersion": self.revision.to_string()}})
    }

    fn watch(&mut self, collection: Collection, query: &str) -> Result<Response<Body>, Refused> {
        if self.unwatched.as_ref() == Some(&collection.plural) {
            return Err(Refused(StatusCode::INTERNAL_SERVER_ERROR, "InternalError"));
        }
        let after = query.split('&').find_map(|pair| pair.strip_prefix("resourceVersion="));
        let after: u64 = after.and_then(|text| text.parse().ok()).unwrap_or(0);
        let past = self.history.iter();
        let past = past.filter(|(revision, key, _)| *revision > after && collection.holds(key));
        let past: Vec<String> = past.map(|(_, _, line)| line.clone()).collect();
        let (sender, receiver): (_, UnboundedReceiver<String>) = unbounded();
        self.watches.push((collection, sender));
        let lines = stream::iter(past).chain(receiver).map(Ok::<_, Infallible>);
        Ok(Response::new(Body::from_stream(lines)))
    }

    fn create(&mut self, collection: &Collection, body: &[u8]) -> Result<Response<Body>, Refused> {
        let mut object: Value = serde_json::from_slice(body).unwrap();
        let metadata = &mut object["metadata"];
        if metadata["name"].is_null() {
            let prefix = metadata["generateName"].as_str().unwrap_or_default();
            metadata["name"] = json!(format!("{prefix}{}", self.revision));
        }
        let key = key(collection, metadata["name"].as_str().unwrap_or_default());
        if self.objects.contains_key(&key) {
            return Err(Refused(StatusCode::CONFLICT, "AlreadyExists"));
        }
        Ok(as_json(&self.write(key, object)))
    }

    /// Every form of patch: a JSON patch is a list, and all others are merged. One that is forced is an
    /// apply, which makes what is not there.
    fn patch(&mut self, key: Key, body: &[u8], is_apply: bool) -> Result<Response<Body>, Refused> {
        let patch: Value = serde_json::from_slice(body).unwrap();
        let known = self.objects.get(&key).cloned();
        let mut object = known.or_else(|| is_apply.then(|| json!({}))).ok_or(NOT_FOUND)?;
        if patch.is_array() {
            let patch: json_patch::Patch = serde_json::from_value(patch).unwrap();
            json_patch::patch(&mut object, &patch).map_err(|_| CONFLICT)?;
        } else {
            let named = &patch["metadata"]["resourceVersion"];
            if !named.is_null() && *named != object["metadata"]["resourceVersion"] {
                return Err(CONFLICT);
            }
            json_patch::merge(&mut object, &patch);
        }
        Ok(as_json(&self.write(key, object)))
    }

    fn touch(&mut self, key: &Key) {
        if let Some(mut object) = self.objects.get(key).cloned() {
            object["metadata"]["annotations"]["theirs"] = json!("written");
            self.write(key.clone(), object);
        }
    }

    fn remake(&mut self, path: &str) {
        if self.remade.take_if(|remade| remade == path).is_none() {
            return;
        }
        let (collection, name, _) = parse(path);
        let key = key(&collection, name.as_deref().unwrap());
        let mut object = self.objects.get(&key).cloned().unwrap();
        self.remove(&key);
        object["metadata"]["uid"] = Value::Null;
        self.write(key, object);
    }

    /// The preconditions count, and whoever holds a finalizer keeps the object.
    fn delete(&mut self, key: &Key, body: &[u8]) -> Result<Response<Body>, Refused> {
        let mut object = self.objects.get(key).cloned().ok_or(NOT_FOUND)?;
        let options: Value = serde_json::from_slice(body).unwrap_or_default();
        for field in ["uid", "resourceVersion"] {
            let wanted = &options["preconditions"][field];
            if !wanted.is_null() && *wanted != object["metadata"][field] {
                return Err(CONFLICT);
            }
        }
        object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        Ok(as_json(&self.write(key.clone(), object)))
    }

    fn remove(&mut self, key: &Key) {
        self.revision += 1;
        if let Some(mut object) = self.objects.remove(key) {
            object["metadata"]["resourceVersion"] = json!(self.revision.to_string());
            self.tell("DELETED", key, &object);
        }
    }

    fn write(&mut self, key: Key, mut object: Value) -> Value {
        self.revision += 1;
        let known = self.objects.get(&key);
        let metadata = &mut object["metadata"];
        metadata["name"] = json!(key.name);
        if !key.namespace.is_empty() {
            metadata["namespace"] = json!(key.namespace);
        }
        if metadata["uid"].is_null() {
            let known = known.map(|known| known["metadata"]["uid"].clone());
            metadata["uid"] = known.unwrap_or_else(|| json!(format!("uid-{}", self.revision)));
        }
        metadata["resourceVersion"] = json!(self.revision.to_string());
        let generation = known.and_then(|known| known["metadata"]["generation"].as_i64());
        let changed = known.is_none_or(|known| known["spec"] != object["spec"]);
        let generation = generation.unwrap_or(0) + i64::from(changed);
        object["metadata"]["generation"] = json!(generation);
        let held = object["metadata"]["finalizers"].as_array().is_some_and(|all| !all.is_empty());
        if object["metadata"]["deletionTimestamp"].is_string() && !held {
            self.remove(&key);
            return object;
        }
        self.tell(if known.is_some() { "MODIFIED" } else { "ADDED" }, &key, &object);
        self.objects.insert(key, object.clone());
        object
    }

    fn tell(&mut self, what: &str, key: &Key, object: &Value) {
        let line = format!("{}\n", json!({"type": what, "object": object}));
        self.watches.retain(|(collection, watch)| {
            !collection.holds(key) || watch.unbounded_send(line.clone()).is_ok()
        });
        self.history.push((self.revision, key.clone(), line));
    }
}

const NOT_FOUND: Refused = Refused(StatusCode::NOT_FOUND, "NotFound");
const CONFLICT: Refused = Refused(StatusCode::CONFLICT, "Conflict");

impl Collection {
    fn holds(&self, key: &Key) -> bool {
        let here = self.namespace.as_ref().is_none_or(|namespace| *namespace == key.namespace);
        here && self.version == key.version && self.plural == key.plural
    }
}

fn key(collection: &Collection, name: &str) -> Key {
    Key {
        version: collection.version.clone(),
        plural: collection.plural.clone(),
        namespace: collection.namespace.clone().unwrap_or_default(),
        name: name.to_owned(),
    }
}

/// The collection, and name and subresource if there are any.
fn parse(path: &str) -> (Collection, Option<String>, Option<String>) {
    let segments: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let (version, rest) = segments.split_at(if segments[0] == "api" { 2 } else { 3 });
    let (namespace, rest) = match rest {
        ["namespaces", _] | ["namespaces", _, "status"] => (None, rest),
        ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (Some(*namespace), rest),
        rest => (None, rest),
    };
    let collection = Collection {
        version: version.join("/"),
        plural: rest[0].to_owned(),
        namespace: namespace.map(str::to_owned),
    };
    let part = |at: usize| rest.get(at).map(|part| (*part).to_owned());
    (collection, part(1), part(2))
}

fn found(object: Option<&Value>) -> Result<Response<Body>, Refused> {
    object.map(as_json).ok_or(NOT_FOUND)
}

fn as_json(value: &Value) -> Response<Body> {
    let body = Body::from(value.to_string());
    Response::builder().header(CONTENT_TYPE, "application/json").body(body).unwrap()
}

fn refusal(Refused(code, reason): Refused) -> Response<Body> {
    let status = json!({"apiVersion": "v1", "kind": "Status", "status": "Failure",
        "message": format!("refused: {reason}"), "reason": reason, "code": code.as_u16()});
    let mut answer = as_json(&status);
    *answer.status_mut() = code;
    answer
}
