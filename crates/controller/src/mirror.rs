//! A copy of all objects of one kind, kept current by one watch for all loops of the process. Each
//! version of an object is read once and shared. Made by [`crate::world`]; loops read it with
//! [`Mirror::all`].

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use futures::StreamExt as _;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::api::Api;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, watcher};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use tokio::sync::Notify;

use tombolo_model::Shared;

/// What the watch has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seeing {
    /// The first list is not complete: half a world would look like an empty one.
    NotYet,
    Current,
    /// The watch has failed and has shown nothing since: what it showed before may be old.
    Stale,
}

/// Namespace and name.
type Key = (String, String);

/// Cheap to clone; all clones are the same copy.
#[derive(Debug)]
pub(crate) struct Mirror<K> {
    inner: Arc<Inner<K>>,
}

#[derive(Debug)]
struct Inner<K> {
    kind: String,
    when_unknown: WhenUnknown,
    contents: RwLock<Contents<K>>,
    /// The loops that a change wakes.
    readers: Mutex<Vec<Arc<Notify>>>,
}

#[derive(Debug)]
struct Contents<K> {
    objects: BTreeMap<Key, Shared<K>>,
    seeing: Seeing,
}

/// What it means that the API does not know the kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WhenUnknown {
    /// It will: the API is being set up. To call it empty would take down everything that runs.
    Wait,
    /// There are none.
    Empty,
}

/// A mirror, whatever its kind: what the harness needs to know of it.
pub(crate) trait Source: Send + Sync {
    fn kind(&self) -> &str;
    fn seeing(&self) -> Seeing;
    fn len(&self) -> usize;
    /// Wakes `reader` with every change from now on.
    fn wake(&self, reader: &Arc<Notify>);
}

impl<K> Clone for Mirror<K> {
    fn clone(&self) -> Mirror<K> {
        Mirror { inner: Arc::clone(&self.inner) }
    }
}

impl<K> Mirror<K> {
    pub(crate) fn new(kind: &str) -> Mirror<K> {
        Mirror::with(kind, WhenUnknown::Wait)
    }

    /// Of a kind that a cluster may not have installed.
    pub(crate) fn optional(kind: &str) -> Mirror<K> {
        Mirror::with(kind, WhenUnknown::Empty)
    }

    fn with(kind: &str, when_unknown: WhenUnknown) -> Mirror<K> {
        let contents = Contents { objects: BTreeMap::new(), seeing: Seeing::NotYet };
        let (kind, contents, readers) = (kind.to_owned(), contents.into(), Mutex::default());
        Mirror { inner: Arc::new(Inner { kind, when_unknown, contents, readers }) }
    }

    /// Everything as it is, by namespace and name, so that the same world is always seen in the
    /// same order.
    pub(crate) fn all(&self) -> Vec<Shared<K>> {
        self.read(|contents| contents.objects.values().cloned().collect())
    }

    fn read<T>(&self, read: impl FnOnce(&Contents<K>) -> T) -> T {
        read(&self.inner.contents.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn write(&self, write: impl FnOnce(&mut Contents<K>)) {
        write(&mut self.inner.contents.write().unwrap_or_else(PoisonError::into_inner));
    }

    fn tell(&self) {
        let readers = self.inner.readers.lock().unwrap_or_else(PoisonError::into_inner);
        readers.iter().for_each(|reader| reader.notify_one());
    }
}

impl<K: Send + Sync> Source for Mirror<K> {
    fn kind(&self) -> &str {
        &self.inner.kind
    }

    fn seeing(&self) -> Seeing {
        self.read(|contents| contents.seeing)
    }

    fn len(&self) -> usize {
        self.read(|contents| contents.objects.len())
    }

    fn wake(&self, reader: &Arc<Notify>) {
        let mut readers = self.inner.readers.lock().unwrap_or_else(PoisonError::into_inner);
        readers.push(Arc::clone(reader));
    }
}

impl<K> Mirror<K>
where
    K: Resource + Clone + std::fmt::Debug + DeserializeOwned + Send + Sync + 'static,
    K::DynamicType: Clone + Send + Sync,
{
    /// Keeps the copy current while it is polled; never ends. An API that is away ends nothing: the
    /// watch starts again, after a pause that grows.
    pub(crate) fn keep(&self, api: Api<Lenient<K>>) -> impl Future<Output = ()> + Send + use<K> {
        let mirror = self.clone();
        async move {
            let events = watcher(api, watcher::Config::default()).default_backoff();
            let mut events = pin!(events);
            // A list is complete or does not count: objects of a broken one must not show.
            let mut listed: BTreeMap<Key, Shared<K>> = BTreeMap::new();
            while let Some(event) = events.next().await {
                match event {
                    Ok(watcher::Event::Init) => listed.clear(),
                    Ok(watcher::Event::InitApply(object)) => {
                        let key = object.key();
                        listed.extend(mirror.typed(object).map(|object| (key, object)));
                    }
                    Ok(watcher::Event::InitDone) => {
                        let objects = std::mem::take(&mut listed);
                        mirror.write(|contents| contents.objects = objects);
                        mirror.seen();
                    }
                    Ok(watcher::Event::Apply(object)) => mirror.put(object),
                    Ok(watcher::Event::Delete(object)) => {
                        let key = object.key();
                        mirror.write(|contents| drop(contents.objects.remove(&key)));
                        mirror.seen();
                    }
                    Err(error) => mirror.missed(&error),
                }
            }
        }
    }

    pub(crate) fn put(&self, object: Lenient<K>) {
        let key = object.key();
        match self.typed(object) {
            Some(object) => self.write(|contents| drop(contents.objects.insert(key, object))),
            None => self.write(|contents| drop(contents.objects.remove(&key))),
        }
        self.seen();
    }

    pub(crate) fn seen(&self) {
        self.write(|contents| contents.seeing = Seeing::Current);
        self.tell();
    }

    fn missed(&self, error: &watcher::Error) {
        if self.inner.when_unknown == WhenUnknown::Empty && is_unknown_kind(error) {
            self.write(|contents| contents.objects.clear());
            return self.seen();
        }
        tracing::warn!(kind = self.kind(), %error, "a watch failed; it starts again");
        self.write(|contents| match contents.seeing {
            Seeing::NotYet => (),
            Seeing::Current | Seeing::Stale => contents.seeing = Seeing::Stale,
        });
        self.tell();
    }

    /// An object that does not have the form of its kind is told and left out.
    fn typed(&self, object: Lenient<K>) -> Option<Shared<K>> {
        match object.0 {
            Ok(object) => Some(object.into()),
            Err(Malformed { metadata, error }) => {
                let name = metadata.name.as_deref();
                tracing::warn!(kind = self.kind(), name, error, "an object does not have its form");
                None
            }
        }
    }
}

fn is_unknown_kind(error: &watcher::Error) -> bool {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status)) => status.code == 404,
        watcher::Error::InitialListFailed(_)
        | watcher::Error::WatchStartFailed(_)
        | watcher::Error::WatchError(_)
        | watcher::Error::WatchFailed(_)
        | watcher::Error::NoResourceVersion => false,
    }
}

/// An object, or its name if it does not have the form of its kind: a malformed object that a
/// stranger's server let in must not hide all others.
#[derive(Clone, Debug)]
pub(crate) struct Lenient<K>(Result<K, Malformed>);

#[derive(Clone, Debug)]
struct Malformed {
    metadata: Box<ObjectMeta>,
    error: String,
}

#[derive(Deserialize)]
struct Named {
    #[serde(default)]
    metadata: ObjectMeta,
}

impl<'de, K: DeserializeOwned> Deserialize<'de> for Lenient<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Lenient<K>, D::Error> {
        let mut value = Value::deserialize(deserializer)?;
        // Half the size of an object, and no loop reads it.
        if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("managedFields");
        }
        let error = match K::deserialize(&value) {
            Ok(object) => return Ok(Lenient(Ok(object))),
            Err(error) => error.to_string(),
        };
        let named = Named::deserialize(&value).map_err(serde::de::Error::custom)?;
        Ok(Lenient(Err(Malformed { metadata: Box::new(named.metadata), error })))
    }
}

impl<K: Resource> Lenient<K> {
    fn key(&self) -> Key {
        let metadata = self.meta();
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        (text(&metadata.namespace), text(&metadata.name))
    }
}

impl<K: Resource> Resource for Lenient<K> {
    type DynamicType = K::DynamicType;
    type Scope = K::Scope;

    fn kind(dynamic: &Self::DynamicType) -> Cow<'_, str> {
        K::kind(dynamic)
    }

    fn group(dynamic: &Self::DynamicType) -> Cow<'_, str> {
        K::group(dynamic)
    }

    fn version(dynamic: &Self::DynamicType) -> Cow<'_, str> {
        K::version(dynamic)
    }

    fn plural(dynamic: &Self::DynamicType) -> Cow<'_, str> {
        K::plural(dynamic)
    }

    fn meta(&self) -> &ObjectMeta {
        self.0.as_ref().map_or_else(|malformed| &*malformed.metadata, K::meta)
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        self.0.as_mut().map_or_else(|malformed| &mut *malformed.metadata, K::meta_mut)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tombolo_model::Node;

    use super::*;

    fn node(name: &str, site: &Value) -> Lenient<Node> {
        let made = json!({"apiVersion": "tombolo.dev/v1alpha1", "kind": "Node",
            "metadata": {"name": name, "managedFields": [{"manager": "x"}]},
            "spec": {"site": site}});
        serde_json::from_value(made).unwrap()
    }

    fn shown(mirror: &Mirror<Node>) -> Vec<String> {
        let name = |node: &Shared<Node>| node.metadata.name.clone().unwrap();
        mirror.all().iter().map(name).collect()
    }

    #[test]
    fn a_malformed_object_hides_no_other() {
        let mirror = Mirror::<Node>::new("Node");
        for name in ["c", "a", "b"] {
            mirror.put(node(name, &json!("here")));
        }
        assert_eq!(shown(&mirror), ["a", "b", "c"]);
        mirror.put(node("b", &json!(7)));
        assert_eq!(shown(&mirror), ["a", "c"], "what it said before is no longer so");
    }

    #[test]
    fn nobody_keeps_the_history_of_fields() {
        assert_eq!(node("a", &json!("here")).meta().managed_fields, None);
    }
}
