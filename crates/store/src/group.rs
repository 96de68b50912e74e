//! Decides which of the waiting calls are granted and what they write. Values in, a plan out; the
//! writer thread acts on it.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use crate::amend::Amendment;
use crate::command::Call;
use crate::memory::State;
use crate::object::{Change, Draft, Event, Expect, Kind, Object, Write};
use crate::{Error, Result};

#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(crate) events: Vec<Event>,
    pub(crate) notes: Vec<(u64, Bytes)>,
    /// One for each call, in their order.
    pub(crate) results: Vec<Result<Vec<Arc<Object>>>>,
    /// What deletes will free on disk, sooner or later.
    pub(crate) freed_bytes: u64,
}

/// What the calls of the group before this one leave behind; keys that are not in it are as in
/// the state.
type Overlay = BTreeMap<Arc<str>, Option<Arc<Object>>>;

/// Each call is granted as a whole or refused as a whole; a refused one leaves no trace and
/// consumes no revision.
pub(crate) fn plan(state: &State, calls: &[Call], full: bool) -> Plan {
    let mut plan = Plan::default();
    let mut overlay = Overlay::new();
    for call in calls {
        let revision = state.revision + plan.events.len() as u64;
        let result = if full && takes_room(call) {
            Err(Error::Full)
        } else {
            grant(state, &overlay, &call.writes, revision)
        };
        let result = result.map(|(events, changes)| {
            let objects = events.iter().map(|event| event.object.clone()).collect();
            let notes = events.iter().zip(&call.writes).filter_map(|(event, write)| {
                write.note.clone().map(|note| (event.revision(), note))
            });
            plan.notes.extend(notes);
            plan.freed_bytes += events.iter().map(freed).sum::<u64>();
            plan.events.extend(events);
            overlay.extend(changes);
            objects
        });
        plan.results.push(result);
    }
    plan
}

/// Gives every object a revision of its own, in the order of their old ones; what the amendment
/// puts comes last. Returns the last revision.
pub(crate) fn restamp(
    objects: &[Object],
    amendment: &Amendment,
    base: u64,
) -> (Vec<Arc<Object>>, u64) {
    let taken = |object: &&Object| {
        !amendment.left_out.contains(&object.key) && !amendment.put.contains_key(&object.key)
    };
    let mut ordered: Vec<&Object> = objects.iter().filter(taken).collect();
    ordered.sort_by_key(|object| object.revision);
    let kept = ordered.into_iter().map(|object| (object.key.clone(), object.draft()));
    let put = amendment.put.iter().map(|(key, draft)| (key.clone(), draft.clone()));
    let stamp =
        |((key, draft), revision): ((Arc<str>, Draft), u64)| Arc::new(draft.stamp(key, revision));
    let stamped: Vec<_> = kept.chain(put).zip(base + 1..).map(stamp).collect();
    let revision = base + stamped.len() as u64;
    (stamped, revision)
}

/// Whether a full disk must refuse the call.
pub(crate) fn takes_room(call: &Call) -> bool {
    call.writes.iter().any(puts)
}

fn puts(write: &Write) -> bool {
    match write.change {
        Change::Put(_) => true,
        Change::Delete(_) => false,
    }
}

fn freed(event: &Event) -> u64 {
    match event.kind {
        Kind::Created | Kind::Updated => 0,
        Kind::Deleted => event.object.bytes.len() as u64,
    }
}

fn grant(
    state: &State,
    overlay: &Overlay,
    writes: &[Write],
    revision: u64,
) -> Result<(Vec<Event>, Overlay)> {
    let mut changes = Overlay::new();
    let mut events = Vec::with_capacity(writes.len());
    for (write, revision) in writes.iter().zip(revision + 1..) {
        let found = match changes.get(&write.key).or_else(|| overlay.get(&write.key)) {
            Some(object) => object.as_ref(),
            None => state.objects.get(&write.key),
        };
        check(write, found)?;
        // The key of the object that is there is used again, so that there is one copy of it.
        let key = found.map_or_else(|| write.key.clone(), |object| object.key.clone());
        let previous = found.cloned();
        let object = Arc::new(write.change.draft().stamp(key.clone(), revision));
        let (kind, after) = match (&write.change, &previous) {
            (Change::Put(_), None) => (Kind::Created, Some(object.clone())),
            (Change::Put(_), Some(_)) => (Kind::Updated, Some(object.clone())),
            (Change::Delete(_), _) => (Kind::Deleted, None),
        };
        changes.insert(key, after);
        events.push(Event { kind, object, previous });
    }
    Ok((events, changes))
}

fn check(write: &Write, found: Option<&Arc<Object>>) -> Result<()> {
    let key = write.key.clone();
    match (write.expect, found) {
        (Expect::Absent, Some(_)) => Err(Error::AlreadyExists { key }),
        (Expect::Revision(_), None) => Err(Error::NotFound { key }),
        (Expect::Revision(expected), Some(object)) if object.revision != expected => {
            Err(Error::Conflict { key, found: object.revision })
        }
        (Expect::Absent | Expect::Any, None) if !puts(write) => Err(Error::NotFound { key }),
        (Expect::Absent | Expect::Any, None) | (Expect::Revision(_) | Expect::Any, Some(_)) => {
            Ok(())
        }
    }
}
