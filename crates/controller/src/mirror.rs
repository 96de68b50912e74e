//! Copies of some kinds of objects, kept current by watches: what a loop looks at. Used by every
//! loop; start at [`Mirrors::watch`].

use std::sync::Arc;

use futures::stream::{BoxStream, SelectAll, StreamExt};
use kube::api::{Api, ApiResource, DynamicObject};
use kube::runtime::WatchStreamExt;
use kube::runtime::reflector::store::{Store, Writer};
use kube::runtime::watcher::{self, watcher};
use kube::{Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;

use crate::typed::Typed;

/// The kinds are numbered in the order in which they were given.
pub(crate) struct Mirrors {
    mirrors: Vec<Mirror>,
}

struct Mirror {
    kind: String,
    store: Store<DynamicObject>,
    listed: bool,
}

/// That something was seen, or could not be.
pub(crate) struct Change {
    index: usize,
    event: Result<Progress, watcher::Error>,
}

pub(crate) enum Progress {
    Listing,
    Changed,
}

impl Mirrors {
    /// Starts the watches, over all namespaces. The stream must be polled for the copies to stay
    /// current; each change goes to [`Mirrors::note`].
    pub(crate) fn watch(
        client: &Client,
        resources: &[ApiResource],
    ) -> (Mirrors, SelectAll<BoxStream<'static, Change>>) {
        let mut mirrors = Vec::new();
        let mut changes = SelectAll::new();
        for (index, resource) in resources.iter().enumerate() {
            let api = Api::all_with(client.clone(), resource);
            let (store, progress) = mirror(api, resource.clone());
            changes.push(progress.map(move |event| Change { index, event }).boxed());
            mirrors.push(Mirror { kind: resource.kind.clone(), store, listed: false });
        }
        (Mirrors { mirrors }, changes)
    }

    /// Whether the change is worth a look.
    pub(crate) fn note(&mut self, change: Change) -> bool {
        let mirror = &mut self.mirrors[change.index];
        match change.event {
            Ok(Progress::Listing) => false,
            Ok(Progress::Changed) => {
                mirror.listed = true;
                true
            }
            Err(error) => {
                tracing::warn!(kind = mirror.kind, %error, "a watch failed; it starts again");
                false
            }
        }
    }

    /// Whether everything has been listed once: half a world would look like an empty one.
    pub(crate) fn all_listed(&self) -> bool {
        self.mirrors.iter().all(|mirror| mirror.listed)
    }

    /// The objects of a kind as they are, by namespace and name.
    pub(crate) fn objects(&self, index: usize) -> Vec<Arc<DynamicObject>> {
        let mut objects = self.mirrors[index].store.state();
        objects.sort_by_cached_key(|object| (object.namespace(), object.name_any()));
        objects
    }

    /// Brings the objects of a kind by their type up to date.
    pub(crate) fn refresh<K: DeserializeOwned>(&self, index: usize, typed: &mut Typed<K>) {
        let mirror = &self.mirrors[index];
        typed.refresh(&mirror.kind, mirror.store.state());
    }
}

/// One kind: its copy, and a stream that keeps it current while it is polled.
pub(crate) fn mirror<K>(
    api: Api<K>,
    dynamic_type: K::DynamicType,
) -> (Store<K>, impl futures::Stream<Item = Result<Progress, watcher::Error>>)
where
    K: Resource + Clone + DeserializeOwned + std::fmt::Debug + Send + Sync + 'static,
    K::DynamicType: Eq + std::hash::Hash + Clone + Send + Sync,
{
    let writer = Writer::new(dynamic_type);
    let store = writer.as_reader();
    let events = watcher(api, watcher::Config::default())
        .default_backoff()
        // Half the size of an object, and nobody here reads it.
        .modify(|object| object.managed_fields_mut().clear())
        .reflect(writer);
    let progress = events.map(|event| {
        event.map(|event| match event {
            watcher::Event::Init | watcher::Event::InitApply(_) => Progress::Listing,
            watcher::Event::InitDone | watcher::Event::Apply(_) | watcher::Event::Delete(_) => {
                Progress::Changed
            }
        })
    });
    (store, progress)
}
