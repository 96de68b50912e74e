//! All that readers see: the current objects, the recent events, and who waits for which keys.
//! Plain data without IO. The writer thread applies what has become durable; `Store` and `Watch`
//! read. Start at [`State::apply`].

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use tokio::sync::watch;

use crate::object::{Event, Kind, Object};
use crate::{At, Batch, Error, Page, Result};

/// What the bookkeeping of one event costs beside the bytes that it keeps alive.
const EVENT_OVERHEAD_BYTES: usize = 256;
/// A watcher gets its backlog in pieces, so that thousands that come back at once do not each
/// hold a copy of the whole history.
const EVENTS_PER_BATCH_MAX: usize = 256;

#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) revision: u64,
    /// Events up to and including this revision are gone.
    pub(crate) compacted: u64,
    pub(crate) objects: BTreeMap<Arc<str>, Arc<Object>>,
    /// `compacted + 1 ..= revision`, without a gap: the place of an event follows from its revision.
    pub(crate) events: VecDeque<Event>,
    history_bytes: usize,
    /// By prefix. There are far fewer prefixes than watchers.
    topics: BTreeMap<Arc<str>, Topic>,
    pub(crate) closed: bool,
}

/// The watchers of one prefix. They share an index of the events that concern them, so that a
/// commit costs nothing to watchers of other keys, and a quiet prefix never falls behind.
#[derive(Debug)]
struct Topic {
    watchers: usize,
    /// Revisions of the events still in the ring whose key has the prefix; ascending.
    revisions: VecDeque<u64>,
    /// A watcher whose cursor is before this has missed an event.
    lost: u64,
    waker: Arc<watch::Sender<u64>>,
}

/// How much history to keep.
#[derive(Debug, Clone, Copy)]
pub(crate) struct History {
    pub(crate) events_max: usize,
    pub(crate) bytes_max: usize,
}

/// What [`State::apply`] leaves to do once the lock is released.
#[derive(Debug, Default)]
pub(crate) struct Aftermath {
    pub(crate) revision: u64,
    pub(crate) wakers: Vec<Arc<watch::Sender<u64>>>,
    /// Only to be dropped; freeing memory is no work for a time when readers wait.
    pub(crate) _forgotten: Vec<Event>,
}

impl Aftermath {
    pub(crate) fn wake(&self) {
        for waker in &self.wakers {
            waker.send_replace(self.revision);
        }
    }
}

impl State {
    /// No objects yet, and no history before `compacted`.
    pub(crate) fn at(compacted: u64) -> State {
        State { revision: compacted, compacted, ..State::default() }
    }

    /// Makes durable events visible and forgets those up to `compacted`.
    pub(crate) fn apply(&mut self, events: Vec<Event>, compacted: u64) -> Aftermath {
        let mut wakers: BTreeMap<Arc<str>, Arc<watch::Sender<u64>>> = BTreeMap::new();
        for event in events {
            assert_eq!(event.revision(), self.revision + 1, "the log must have no gap");
            self.revision += 1;
            for (prefix, topic) in &mut self.topics {
                if event.key().starts_with(&**prefix) {
                    topic.revisions.push_back(self.revision);
                    wakers.entry(prefix.clone()).or_insert_with(|| topic.waker.clone());
                }
            }
            self.history_bytes += cost(&event);
            match event.kind {
                Kind::Created | Kind::Updated => {
                    self.objects.insert(event.object.key.clone(), event.object.clone());
                }
                Kind::Deleted => {
                    self.objects.remove(event.key());
                }
            }
            self.events.push_back(event);
        }
        let forgotten = self.forget(compacted);
        let wakers = wakers.into_values().collect();
        Aftermath { revision: self.revision, wakers, _forgotten: forgotten }
    }

    fn forget(&mut self, compacted: u64) -> Vec<Event> {
        let mut forgotten = Vec::new();
        while self.compacted < compacted {
            let event = self.events.pop_front().expect("the horizon is never in the future");
            self.compacted = event.revision();
            self.history_bytes -= cost(&event);
            for topic in self.topics.values_mut() {
                if topic.revisions.front() == Some(&self.compacted) {
                    topic.revisions.pop_front();
                    topic.lost = self.compacted;
                }
            }
            forgotten.push(event);
        }
        forgotten
    }

    /// Replaces everything; used by a restore. No older revision can be read afterwards, and
    /// every watch ends.
    pub(crate) fn replace(
        &mut self,
        objects: BTreeMap<Arc<str>, Arc<Object>>,
        revision: u64,
    ) -> Aftermath {
        assert!(revision > self.revision, "revisions only grow");
        self.objects = objects;
        self.revision = revision;
        self.compacted = revision;
        self.history_bytes = 0;
        for topic in self.topics.values_mut() {
            topic.revisions.clear();
            topic.lost = revision;
        }
        let wakers = self.topics.values().map(|topic| topic.waker.clone()).collect();
        Aftermath { revision, wakers, _forgotten: std::mem::take(&mut self.events).into() }
    }

    pub(crate) fn close(&mut self) -> Aftermath {
        self.closed = true;
        let wakers = self.topics.values().map(|topic| topic.waker.clone()).collect();
        Aftermath { revision: self.revision, wakers, _forgotten: Vec::new() }
    }

    /// The horizon that keeps the history within its bounds once `coming` is applied.
    pub(crate) fn horizon(&self, coming: &[Event], history: History) -> u64 {
        let mut count = self.events.len() + coming.len();
        let mut bytes = self.history_bytes + coming.iter().map(cost).sum::<usize>();
        let mut horizon = self.compacted;
        for event in &self.events {
            if count <= history.events_max && bytes <= history.bytes_max {
                break;
            }
            count -= 1;
            bytes -= cost(event);
            horizon = event.revision();
        }
        horizon
    }

    /// The events after `compacted` up to and including `revision`.
    pub(crate) fn events_until(&self, revision: u64) -> impl Iterator<Item = &Event> {
        self.events.iter().take_while(move |event| event.revision() <= revision)
    }

    /// Counts at most `rest_max` of the objects that come after the page.
    pub(crate) fn list(
        &self,
        prefix: &str,
        at: At,
        after: Option<&str>,
        limit: usize,
        rest_max: usize,
    ) -> Result<Page> {
        let revision = match at {
            At::Latest => self.revision,
            At::Revision(revision) => revision,
        };
        self.readable(revision)?;
        let start = match after {
            Some(after) if after >= prefix => Bound::Excluded(after),
            Some(_) | None => Bound::Included(prefix),
        };
        let current = self
            .objects
            .range::<str, _>((start, Bound::Unbounded))
            .take_while(|(key, _)| key.starts_with(prefix));
        let mut page = Page { revision, objects: Vec::new(), more: false, remaining: 0 };
        let take = |page: &mut Page, object: &Arc<Object>| {
            if page.objects.len() < limit {
                page.objects.push(object.clone());
            } else {
                page.remaining += 1;
            }
        };
        let mut undone = self.undone(prefix, start, revision).into_iter().peekable();
        for (key, object) in current {
            if page.remaining >= rest_max {
                break;
            }
            while let Some((_, before)) = undone.next_if(|(other, _)| *other < &**key) {
                before.iter().for_each(|object| take(&mut page, object));
            }
            match undone.next_if(|(other, _)| *other == &**key) {
                Some((_, before)) => before.iter().for_each(|object| take(&mut page, object)),
                None => take(&mut page, object),
            }
        }
        if page.remaining < rest_max {
            undone.for_each(|(_, before)| before.iter().for_each(|object| take(&mut page, object)));
        }
        page.remaining = page.remaining.min(rest_max);
        page.more = page.remaining > 0;
        Ok(page)
    }

    /// What the keys that have changed since `revision` held then.
    fn undone<'a>(
        &'a self,
        prefix: &str,
        start: Bound<&str>,
        revision: u64,
    ) -> BTreeMap<&'a str, Option<&'a Arc<Object>>> {
        let newer = self.events.iter().rev().take_while(|event| event.revision() > revision);
        let mut undone = BTreeMap::new();
        for event in newer {
            let key = event.key();
            let started = match start {
                Bound::Excluded(after) => key > after,
                Bound::Included(_) | Bound::Unbounded => true,
            };
            if started && key.starts_with(prefix) {
                undone.insert(key, event.previous.as_ref());
            }
        }
        undone
    }

    /// Whether the state and all that came after `revision` is still known.
    pub(crate) fn readable(&self, revision: u64) -> Result<()> {
        if revision < self.compacted {
            return Err(Error::Compacted { oldest: self.compacted });
        }
        if revision > self.revision {
            return Err(Error::Future { current: self.revision });
        }
        Ok(())
    }

    pub(crate) fn subscribe(&mut self, prefix: &str) -> (Arc<str>, watch::Receiver<u64>) {
        if let Some((prefix, _)) = self.topics.get_key_value(prefix) {
            let prefix = prefix.clone();
            let topic = self.topics.get_mut(&prefix).expect("found a line ago");
            topic.watchers += 1;
            return (prefix, topic.waker.subscribe());
        }
        let prefix: Arc<str> = Arc::from(prefix);
        let matching = self.events.iter().filter(|event| event.key().starts_with(&*prefix));
        let (waker, receiver) = watch::channel(self.revision);
        let topic = Topic {
            watchers: 1,
            revisions: matching.map(Event::revision).collect(),
            lost: self.compacted,
            waker: Arc::new(waker),
        };
        self.topics.insert(prefix.clone(), topic);
        (prefix, receiver)
    }

    pub(crate) fn unsubscribe(&mut self, prefix: &str) {
        let topic = self.topics.get_mut(prefix).expect("a watch holds on to its topic");
        topic.watchers -= 1;
        if topic.watchers == 0 {
            self.topics.remove(prefix);
        }
    }

    /// The next events of a watcher that has seen everything up to `cursor`.
    pub(crate) fn batch(&self, prefix: &str, cursor: u64) -> Result<Batch> {
        if self.closed {
            return Err(Error::Closed);
        }
        let topic = self.topics.get(prefix).expect("a watch holds on to its topic");
        if cursor < topic.lost {
            return Err(Error::Compacted { oldest: self.compacted });
        }
        let first = topic.revisions.partition_point(|revision| *revision <= cursor);
        let events: Vec<Event> = topic
            .revisions
            .range(first..)
            .take(EVENTS_PER_BATCH_MAX)
            .map(|revision| self.event(*revision).clone())
            .collect();
        let revision = match events.last() {
            Some(last) if first + events.len() < topic.revisions.len() => last.revision(),
            Some(_) | None => self.revision,
        };
        Ok(Batch { events, revision })
    }

    fn event(&self, revision: u64) -> &Event {
        let place = usize::try_from(revision - self.compacted - 1).expect("the ring is in memory");
        &self.events[place]
    }
}

/// What an event keeps in memory that would be gone without it.
fn cost(event: &Event) -> usize {
    let last_state = match event.kind {
        Kind::Created | Kind::Updated => 0,
        Kind::Deleted => event.object.bytes.len(),
    };
    EVENT_OVERHEAD_BYTES
        + last_state
        + event.previous.as_ref().map_or(0, |previous| previous.bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_that_nobody_watches_any_more_costs_nothing() {
        let mut state = State::at(0);
        let (prefix, _receiver) = state.subscribe("/apps/");
        state.subscribe("/apps/");
        state.unsubscribe(&prefix);
        assert_eq!(state.topics.len(), 1, "one still watches");
        state.unsubscribe(&prefix);
        assert!(state.topics.is_empty());
    }
}
