//! The store against a model that keeps every state there ever was. Random calls in random order;
//! after each of them both must agree.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod fixture;

use std::collections::BTreeMap;

use proptest::prelude::*;
use tombolo_store::{Amend, At, Error, Event, Expect, Kind, Options, Store, Watch, Write};

use fixture::{block_on, draft, finished, text};

const HISTORY: usize = 12;
const PREFIXES: [&str; 4] = ["", "a/", "b/", "b/2"];

#[derive(Debug, Clone)]
enum Step {
    Commit(Vec<(usize, Want, bool)>),
    List { prefix: usize, back: u64, limit: usize },
    Watch { prefix: usize, back: u64 },
    Drain(usize),
    Compact { back: u64 },
    Backup,
    Restore,
    Restart,
}

#[derive(Debug, Clone, Copy)]
enum Want {
    Absent,
    Found,
    Wrong,
    Any,
}

type Contents = BTreeMap<String, (u64, String)>;

#[derive(Default)]
struct Model {
    now: Contents,
    /// The state after each revision that was ever reached.
    states: BTreeMap<u64, Contents>,
    events: Vec<(u64, Kind, String, String)>,
    revision: u64,
    compacted: u64,
    backup: Option<(Vec<u8>, Contents, u64)>,
    counter: u64,
}

struct Watched {
    watch: Watch,
    prefix: &'static str,
    cursor: u64,
}

struct World {
    dir: tempfile::TempDir,
    store: Option<Store>,
    model: Model,
    watches: Vec<Watched>,
}

fn key(index: usize) -> String {
    ["a/1", "a/2", "b/1", "b/2", "b/22", "c"][index].to_owned()
}

fn options() -> Options {
    Options { history_events_max: HISTORY, ..Options::default() }
}

impl World {
    fn new() -> World {
        let dir = fixture::fast_dir();
        let store = Some(Store::open(dir.path(), options()).unwrap());
        let mut model = Model::default();
        model.states.insert(0, Contents::new());
        World { dir, store, model, watches: Vec::new() }
    }

    fn store(&self) -> &Store {
        self.store.as_ref().unwrap()
    }

    fn run(&mut self, step: Step) {
        match step {
            Step::Commit(writes) => self.commit(&writes),
            Step::List { prefix, back, limit } => self.list(PREFIXES[prefix], back, limit),
            Step::Watch { prefix, back } => self.watch(PREFIXES[prefix], back),
            Step::Drain(index) => self.drain(index),
            Step::Compact { back } => self.compact(back),
            Step::Backup => self.backup(),
            Step::Restore => self.restore(),
            Step::Restart => {
                self.watches.clear();
                self.store = None;
                self.store = Some(Store::open(self.dir.path(), options()).unwrap());
            }
        }
        self.agree();
    }

    fn commit(&mut self, writes: &[(usize, Want, bool)]) {
        let mut contents = self.model.now.clone();
        let mut events = Vec::new();
        let mut granted = true;
        let mut calls = Vec::new();
        for (index, want, put) in writes {
            let key = key(*index);
            self.model.counter += 1;
            let value = format!("value {}", self.model.counter);
            let found = contents.get(&key).map(|(revision, _)| *revision);
            let expect = match want {
                Want::Absent => Expect::Absent,
                Want::Found => Expect::Revision(found.unwrap_or(1)),
                Want::Wrong => Expect::Revision(found.unwrap_or(0) + 1),
                Want::Any => Expect::Any,
            };
            let revision = self.model.revision + events.len() as u64 + 1;
            granted &= match (expect, found) {
                (Expect::Absent, None) => *put,
                (Expect::Absent, Some(_)) | (Expect::Revision(_), None) => false,
                (Expect::Revision(expected), Some(found)) => expected == found,
                (Expect::Any, found) => *put || found.is_some(),
            };
            let kind = match (put, found) {
                (true, None) => Kind::Created,
                (true, Some(_)) => Kind::Updated,
                (false, _) => Kind::Deleted,
            };
            if *put {
                contents.insert(key.clone(), (revision, value.clone()));
                calls.push(Write::put(&*key, expect, draft(&value)));
            } else {
                contents.remove(&key);
                calls.push(Write::delete(&*key, expect, draft(&value)));
            }
            events.push((revision, kind, key, value));
        }
        let result = block_on(self.store().commit(calls));
        assert_eq!(result.is_ok(), granted, "{result:?}");
        let Ok(objects) = result else { return };
        for (object, (revision, _, key, value)) in objects.iter().zip(&events) {
            assert_eq!((object.revision, &*object.key), (*revision, key.as_str()));
            assert_eq!(text(object), finished(value, *revision));
        }
        let mut at = self.model.now.clone();
        for (revision, kind, key, value) in events {
            match kind {
                Kind::Created | Kind::Updated => {
                    at.insert(key.clone(), (revision, value.clone()));
                }
                Kind::Deleted => {
                    at.remove(&key);
                }
            }
            self.model.states.insert(revision, at.clone());
            self.model.revision = revision;
            self.model.events.push((revision, kind, key, value));
        }
        self.model.now = contents;
    }

    /// Also takes over how far the store has compacted by itself, which it may do within bounds.
    fn agree(&mut self) {
        let compacted = self.store().compacted();
        assert_eq!(self.store().revision(), self.model.revision);
        assert!(compacted >= self.model.compacted && compacted <= self.model.revision);
        assert!(self.model.revision - compacted <= HISTORY as u64 + 3);
        self.model.compacted = compacted;
        for index in 0..6 {
            let found = self.store().get(&key(index)).map(|o| (o.revision, text(&o).to_owned()));
            let expected = self.model.now.get(&key(index));
            let expected =
                expected.map(|(revision, value)| (*revision, finished(value, *revision)));
            assert_eq!(found, expected);
        }
    }

    fn list(&self, prefix: &str, back: u64, limit: usize) {
        let revision = self.model.revision.saturating_sub(back);
        let at = if back == 0 { At::Latest } else { At::Revision(revision) };
        if revision < self.model.compacted {
            let oldest = self.model.compacted;
            let result = self.store().list(prefix, at, None, limit);
            assert!(matches!(result, Err(Error::Compacted { oldest: o }) if o == oldest));
            return;
        }
        let expected: Vec<_> = self.model.states[&revision]
            .iter()
            .filter(|(key, _)| key.starts_with(prefix))
            .map(|(key, (revision, value))| (key.clone(), finished(value, *revision)))
            .collect();
        let mut found = Vec::new();
        let mut after: Option<String> = None;
        loop {
            let page = self.store().list(prefix, at, after.as_deref(), limit).unwrap();
            assert_eq!(page.revision, revision);
            assert!(page.objects.len() <= limit);
            found.extend(page.objects.iter().map(|o| (o.key.to_string(), text(o).to_owned())));
            assert_eq!(page.remaining, expected.len() - found.len());
            assert_eq!(page.more, page.remaining > 0);
            after = page.objects.last().map(|object| object.key.to_string());
            if !page.more {
                break;
            }
        }
        assert_eq!(found, expected);
    }

    fn watch(&mut self, prefix: &'static str, back: u64) {
        let after = self.model.revision.saturating_sub(back);
        match self.store().watch(prefix, after) {
            Ok(watch) => {
                assert!(after >= self.model.compacted);
                self.watches.push(Watched { watch, prefix, cursor: after });
            }
            Err(Error::Compacted { .. }) => assert!(after < self.model.compacted),
            Err(error) => panic!("{error}"),
        }
    }

    fn drain(&mut self, index: usize) {
        if self.watches.is_empty() {
            return;
        }
        let index = index % self.watches.len();
        let Watched { watch, prefix, cursor } = &mut self.watches[index];
        let model = &self.model;
        let matching = |from: u64, to: u64| {
            let matches = move |event: &&(u64, Kind, String, String)| {
                event.0 > from && event.0 <= to && event.2.starts_with(*prefix)
            };
            model.events.iter().filter(matches).cloned().collect::<Vec<_>>()
        };
        match watch.now() {
            Ok(batch) => {
                let found: Vec<_> = batch.events.iter().map(described).collect();
                let expected: Vec<_> = matching(*cursor, model.revision)
                    .into_iter()
                    .map(|(revision, kind, key, value)| (kind, key, finished(&value, revision)))
                    .collect();
                assert_eq!(found, expected);
                assert_eq!(batch.revision, model.revision);
                *cursor = batch.revision;
            }
            Err(Error::Compacted { .. }) => {
                // Never without need: something that it wanted is really gone.
                let restored = !model.states.contains_key(&(model.compacted.saturating_sub(1)))
                    && model.compacted > 1_000_000_000;
                assert!(restored || !matching(*cursor, model.compacted).is_empty());
                self.watches.remove(index);
            }
            Err(error) => panic!("{error}"),
        }
    }

    fn compact(&mut self, back: u64) {
        let revision = self.model.revision.saturating_sub(back);
        let result = block_on(self.store().compact(revision));
        assert_eq!(result.is_ok(), revision >= self.model.compacted, "{result:?}");
        if result.is_ok() {
            assert_eq!(self.store().compacted(), revision);
        }
    }

    fn backup(&mut self) {
        let mut bytes = Vec::new();
        let summary = self.store().backup(&mut bytes).unwrap();
        assert_eq!(summary.revision, self.model.revision);
        assert_eq!(tombolo_store::verify_backup(&*bytes).unwrap(), summary);
        self.model.backup = Some((bytes, self.model.now.clone(), self.model.revision));
    }

    fn restore(&mut self) {
        let Some((bytes, contents, _)) = self.model.backup.clone() else { return };
        let revision =
            block_on(self.store().restore(std::io::Cursor::new(bytes), Amend::nothing())).unwrap();
        assert!(revision >= self.model.revision + 1_000_000_000);
        assert_eq!(self.store().compacted(), revision);
        let mut now = Contents::new();
        for (key, (_, value)) in contents {
            let object = self.store().get(&key).unwrap();
            assert!(object.revision > self.model.revision && object.revision <= revision);
            now.insert(key, (object.revision, value));
        }
        self.model.revision = revision;
        self.model.compacted = revision;
        self.model.now = now;
        self.model.states.insert(revision, self.model.now.clone());
        // Every watch ends with an error, whatever it follows.
        for watched in &mut self.watches {
            assert!(matches!(watched.watch.now(), Err(Error::Compacted { .. })));
        }
        self.watches.clear();
    }
}

fn described(event: &Event) -> (Kind, String, String) {
    (event.kind, event.key().to_owned(), text(&event.object).to_owned())
}

fn step() -> impl Strategy<Value = Step> {
    let want = prop_oneof![
        2 => Just(Want::Absent),
        4 => Just(Want::Found),
        1 => Just(Want::Wrong),
        3 => Just(Want::Any),
    ];
    let write = (0..6_usize, want, prop::bool::weighted(0.7));
    prop_oneof![
        10 => prop::collection::vec(write, 1..4).prop_map(Step::Commit),
        4 => (0..4_usize, 0..16_u64, 1..5_usize)
            .prop_map(|(prefix, back, limit)| Step::List { prefix, back, limit }),
        2 => (0..4_usize, 0..16_u64).prop_map(|(prefix, back)| Step::Watch { prefix, back }),
        4 => (0..8_usize).prop_map(Step::Drain),
        1 => (0..16_u64).prop_map(|back| Step::Compact { back }),
        1 => Just(Step::Backup),
        1 => Just(Step::Restore),
        1 => Just(Step::Restart),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn agrees_with_a_model_that_forgets_nothing(steps in prop::collection::vec(step(), 1..60)) {
        let mut world = World::new();
        for step in steps {
            world.run(step);
        }
        world.run(Step::Restart);
        world.list("", 0, 3);
    }
}
