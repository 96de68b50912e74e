//! How every loop of this process fares, for those who ask: `tombolo loops`, `/readyz`, tests. Kept by
//! the [`crate::harness`].

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use tokio::sync::Notify;

use tombolo_plan::Monotonic;
use tombolo_plan::supervision::{Record, State};

use crate::clock::Clock;
use crate::event::Teller;
use crate::mirror::Seeing;
use crate::world::World;

/// Cheap to clone; all clones are the same board.
#[derive(Clone, Debug)]
pub struct Board {
    clock: Clock,
    records: Arc<Mutex<BTreeMap<&'static str, Record>>>,
    world: Arc<Mutex<Option<World>>>,
    died: Arc<Notify>,
    teller: Teller,
}

impl Board {
    pub fn new(clock: Clock) -> Board {
        Board {
            clock,
            records: Arc::default(),
            world: Arc::default(),
            died: Arc::default(),
            teller: Teller::default(),
        }
    }

    pub(crate) fn teller(&self) -> &Teller {
        &self.teller
    }

    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// Every loop and every copy of the API's objects, as `tombolo loops -o json` prints them.
    pub fn as_json(&self) -> Value {
        let now = self.clock.now();
        let loops: Vec<Value> =
            self.lock().iter().map(|(name, record)| shown(name, record, now)).collect();
        let world = self.world();
        let sources = world.as_ref().map(World::sources).unwrap_or_default();
        let mirrors = sources.iter().map(|source| {
            let state = match source.seeing() {
                Seeing::NotYet => "Listing",
                Seeing::Current => "Current",
                Seeing::Stale => "Stale",
            };
            json!({"kind": source.kind(), "objects": source.len(), "state": state})
        });
        json!({"loops": loops, "mirrors": mirrors.collect::<Vec<_>>()})
    }

    /// The loops by name. Says no more than that, because anybody may ask for the health of a server.
    pub fn states(&self) -> Vec<(&'static str, State)> {
        let now = self.clock.now();
        self.lock().iter().map(|(name, record)| (*name, record.state(now))).collect()
    }

    /// The record of a loop as it is.
    pub fn record(&self, name: &str) -> Option<Record> {
        self.lock().get(name).cloned()
    }

    pub(crate) fn records(&self) -> BTreeMap<&'static str, Record> {
        self.lock().clone()
    }

    /// Gives when it starts again.
    pub(crate) fn note_death(&self, name: &'static str, why: String, now: Monotonic) -> Monotonic {
        let until = self.change(name, |record| record.note_death(why, now));
        self.died.notify_one();
        until
    }

    /// Comes when a loop has died since this was last asked.
    pub(crate) async fn death(&self) {
        self.died.notified().await;
    }

    /// What the loops see; nothing where none run.
    pub(crate) fn world(&self) -> Option<World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn show(&self, world: &World) {
        *self.world.lock().unwrap_or_else(PoisonError::into_inner) = Some(world.clone());
    }

    pub(crate) fn change<T>(&self, name: &'static str, change: impl FnOnce(&mut Record) -> T) -> T {
        let mut records = self.lock();
        change(records.entry(name).or_insert_with(|| Record::new(self.clock.now())))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<&'static str, Record>> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn shown(name: &str, record: &Record, now: Monotonic) -> Value {
    let ago = |then: Monotonic| now.since(then).as_secs();
    let last = record.last.as_ref().map(|last| {
        json!({"secondsAgo": ago(last.ended), "tookMilliseconds": last.took.as_millis(),
            "done": last.done, "failed": last.failed, "deferred": last.deferred})
    });
    let error =
        record.error.as_ref().map(|told| json!({"secondsAgo": ago(told.at), "message": told.text}));
    let state = record.state(now);
    json!({"name": name, "state": state.as_str(), "well": state.is_well(), "looks": record.looks,
        "restarts": record.restarts, "lastLook": last, "lastError": error})
}
