//! Where jobs and groups are: by their ids, by their App, and those that may wait for somebody to take
//! them. Kept by two watches, so that nobody who names a job by its id reads all others for it. Start at
//! [`Index`].
//!
//! It only tells where to look: what is answered is read from the API with the rights of whoever asks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError, RwLock};

use futures::StreamExt as _;
use kube::api::Api;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, watcher};
use kube::{Client, ResourceExt as _};
use tombolo_model::{App, Assignment, Engine};

use super::job::State;

/// Where an object is: its namespace and its name.
pub(crate) type Address = (String, String);

/// Cheap to clone; all clones are the same. One that nobody keeps knows nothing, and says so.
#[derive(Clone, Debug, Default)]
pub struct Index(Arc<RwLock<Contents>>);

#[derive(Debug, Default)]
struct Contents {
    jobs: Table,
    groups: Table,
}

/// What is known of one kind.
#[derive(Debug, Default)]
struct Table {
    /// Whether the first list is complete.
    is_complete: bool,
    entries: BTreeMap<Address, Entry>,
    by_id: BTreeMap<String, BTreeSet<Address>>,
    /// By the App they belong to; only of jobs.
    by_app: BTreeMap<Address, BTreeSet<Address>>,
    /// By engine: jobs about which there may be something to do.
    unfinished: BTreeMap<Engine, BTreeSet<Address>>,
}

/// What leads to an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Entry {
    /// Its uid, and the number that a deployment manager has given it.
    ids: Vec<String>,
    app: Option<Address>,
    unfinished_on: Option<Engine>,
}

impl Index {
    /// Keeps it current while this is polled; never ends.
    pub async fn keep(&self, client: &Client) {
        let (jobs, groups) =
            (Api::<Assignment>::all(client.clone()), Api::<App>::all(client.clone()));
        let tell_of_jobs = |event| self.write(|all| &mut all.jobs, event);
        let tell_of_groups = |event| self.write(|all| &mut all.groups, event);
        tokio::join!(follow(jobs, tell_of_jobs), follow(groups, tell_of_groups));
    }

    /// How many jobs it has seen.
    pub fn jobs_known(&self) -> usize {
        self.read(|all| all.jobs.entries.len())
    }

    /// Where the jobs with this id are; one, if nobody has given a number twice.
    pub(crate) fn jobs(&self, id: &str) -> Vec<Address> {
        self.read(|all| all.jobs.with_id(id))
    }

    pub(crate) fn groups(&self, id: &str) -> Vec<Address> {
        self.read(|all| all.groups.with_id(id))
    }

    /// Where the jobs of an App are; nothing while not all are known.
    pub(crate) fn jobs_of(&self, namespace: &str, app: &str) -> Option<Vec<Address>> {
        let app = (namespace.to_owned(), app.to_owned());
        self.complete(|jobs| places(jobs.by_app.get(&app)))
    }

    /// Where the jobs are that somebody may have to take; nothing while not all are known.
    pub(crate) fn unfinished(&self, engine: Engine) -> Option<Vec<Address>> {
        self.complete(|jobs| places(jobs.unfinished.get(&engine)))
    }

    /// Whether a job of that uid is there; nothing while not all are known.
    pub(crate) fn has_job(&self, uid: &str) -> Option<bool> {
        self.complete(|jobs| jobs.by_id.contains_key(uid))
    }

    fn complete<T>(&self, read: impl FnOnce(&Table) -> T) -> Option<T> {
        self.read(|all| all.jobs.is_complete.then(|| read(&all.jobs)))
    }

    fn read<T>(&self, read: impl FnOnce(&Contents) -> T) -> T {
        read(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn write(&self, table: impl FnOnce(&mut Contents) -> &mut Table, event: Event) {
        table(&mut self.0.write().unwrap_or_else(PoisonError::into_inner)).apply(event);
    }
}

/// What a watch has shown.
#[derive(Debug)]
enum Event {
    All(BTreeMap<Address, Entry>),
    Put(Address, Entry),
    Gone(Address),
}

/// What is known of an object of either kind.
trait Indexed {
    fn entry(&self) -> Entry;
}

impl Indexed for App {
    fn entry(&self) -> Entry {
        Entry { ids: self.uid().into_iter().collect(), ..Entry::default() }
    }
}

impl Indexed for Assignment {
    fn entry(&self) -> Entry {
        let number = self.status.as_ref().and_then(|status| status.instance.clone());
        let is_finished = State::of(self) == State::Finished;
        Entry {
            ids: self.uid().into_iter().chain(number).collect(),
            app: Some((self.namespace().unwrap_or_default(), self.spec.app.clone())),
            unfinished_on: (!is_finished).then_some(self.spec.engine),
        }
    }
}

/// A watch that fails starts again by itself; meanwhile what is known may be old.
async fn follow<K>(api: Api<K>, mut tell: impl FnMut(Event))
where
    K: kube::Resource<DynamicType = ()> + Indexed + Clone + std::fmt::Debug + Send + 'static,
    K: serde::de::DeserializeOwned,
{
    let place = |object: &K| (object.namespace().unwrap_or_default(), object.name_any());
    let events = watcher(api, watcher::Config::default()).default_backoff();
    let mut events = std::pin::pin!(events);
    let mut listed = BTreeMap::new();
    while let Some(event) = events.next().await {
        match event {
            Ok(watcher::Event::Init) => listed.clear(),
            Ok(watcher::Event::InitApply(object)) => {
                listed.insert(place(&object), object.entry());
            }
            Ok(watcher::Event::InitDone) => tell(Event::All(std::mem::take(&mut listed))),
            Ok(watcher::Event::Apply(object)) => tell(Event::Put(place(&object), object.entry())),
            Ok(watcher::Event::Delete(object)) => tell(Event::Gone(place(&object))),
            Err(error) => tracing::debug!(%error, "a watch failed; it starts again"),
        }
    }
}

impl Table {
    fn apply(&mut self, event: Event) {
        match event {
            Event::All(entries) => {
                *self = Table { is_complete: true, ..Table::default() };
                entries.into_iter().for_each(|(place, entry)| self.put(place, entry));
            }
            Event::Put(place, entry) => {
                self.remove(&place);
                self.put(place, entry);
            }
            Event::Gone(place) => self.remove(&place),
        }
    }

    fn put(&mut self, place: Address, entry: Entry) {
        for id in &entry.ids {
            self.by_id.entry(id.clone()).or_default().insert(place.clone());
        }
        if let Some(app) = &entry.app {
            self.by_app.entry(app.clone()).or_default().insert(place.clone());
        }
        if let Some(engine) = entry.unfinished_on {
            self.unfinished.entry(engine).or_default().insert(place.clone());
        }
        self.entries.insert(place, entry);
    }

    fn remove(&mut self, place: &Address) {
        let Some(entry) = self.entries.remove(place) else { return };
        for id in &entry.ids {
            leave(&mut self.by_id, id, place);
        }
        if let Some(app) = &entry.app {
            leave(&mut self.by_app, app, place);
        }
        if let Some(engine) = &entry.unfinished_on {
            leave(&mut self.unfinished, engine, place);
        }
    }

    fn with_id(&self, id: &str) -> Vec<Address> {
        places(self.by_id.get(id))
    }
}

fn leave<K: Ord + Clone>(index: &mut BTreeMap<K, BTreeSet<Address>>, key: &K, place: &Address) {
    if let Some(those) = index.get_mut(key) {
        those.remove(place);
        if those.is_empty() {
            index.remove(key);
        }
    }
}

fn places(found: Option<&BTreeSet<Address>>) -> Vec<Address> {
    found.into_iter().flatten().cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(name: &str) -> Address {
        ("default".to_owned(), name.to_owned())
    }

    fn entry(ids: &[&str], unfinished_on: Option<Engine>) -> Entry {
        let ids = ids.iter().map(|id| (*id).to_owned()).collect();
        Entry { ids, app: Some(place("shop")), unfinished_on }
    }

    #[test]
    fn what_changed_or_went_is_found_by_its_old_ids_no_more() {
        let mut table = Table::default();
        table.apply(Event::Put(place("a"), entry(&["1", "x"], Some(Engine::Host))));
        table.apply(Event::Put(place("b"), entry(&["2", "x"], None)));
        assert_eq!(table.with_id("x"), [place("a"), place("b")]);
        table.apply(Event::Put(place("a"), entry(&["1", "y"], None)));
        assert_eq!((table.with_id("x"), table.with_id("y")), (vec![place("b")], vec![place("a")]));
        assert!(table.unfinished.is_empty());
        table.apply(Event::Gone(place("a")));
        table.apply(Event::Gone(place("a")));
        assert_eq!(
            (table.with_id("1"), places(table.by_app.get(&place("shop")))),
            (vec![], vec![place("b")])
        );
        table.apply(Event::All(BTreeMap::from([(place("c"), entry(&["3"], None))])));
        assert_eq!((table.with_id("2"), table.with_id("3")), (vec![], vec![place("c")]));
        assert!(table.is_complete);
    }
}
