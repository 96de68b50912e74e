//! Who owns which field after a write, and what an apply makes of the live object. The handlers
//! call [`update`] for create, update and the other patches, and [`apply`] for an apply patch.
//!
//! A kind with a status subresource has two writers that must not see each other's half: before
//! either call the handler puts the live half into the new object (or drops it from the applied
//! one), so that nobody comes to own what the request cannot write.

use serde_json::{Map, Value};

use crate::schema::Schema;
use tombolo_model::Invalid;

use super::conflict::{self, Conflict};
use super::entry::{self, Entry, Operation};
use super::extract::{self, Comparison};
use super::fields::FieldSet;
use super::{last_applied, merge, reconcile};

/// Who owns what was in an object before anything kept track, once somebody applies to it.
pub const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// Who writes, and through which door.
#[derive(Clone, Copy, Debug)]
pub struct Manager<'a> {
    pub name: &'a str,
    /// Empty for the object itself.
    pub subresource: &'a str,
    /// Of the request: `tombolo.dev/v1alpha1`.
    pub api_version: &'a str,
}

/// What to do when a field that is applied belongs to somebody who wants another value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnConflict {
    Fail,
    /// `force=true`: the applier becomes the only owner.
    TakeOver,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    #[error("{}", conflict::message(conflicts))]
    Conflicts { conflicts: Vec<Conflict> },
    #[error("an applied object must not have metadata.managedFields")]
    HasManagedFields,
    #[error("an applied object must be a JSON object")]
    NotAnObject,
    #[error("the applied object cannot be merged: {}", first_of(problems))]
    Unmergeable { problems: Vec<Invalid> },
}

/// Records in `new` what the write of it makes of the owners: what it adds or changes is now its
/// manager's alone, and what it removes is nobody's. `live` is None for a create.
///
/// A client may rewrite the entries by sending its own. `[{}]` clears them all; then nothing is
/// tracked before somebody applies, as half an account would let that apply overwrite the other
/// half unasked. Entries that cannot be read count as not sent.
pub fn update(
    live: Option<&Value>,
    new: &mut Value,
    schema: &Schema,
    manager: &Manager<'_>,
    now: &str,
) {
    let sent = take_managed_fields(new);
    let mut entries = entries_of_write(live, sent, manager);
    reconcile::with_schema(&mut entries, schema);
    if entries.is_empty() && live.is_some_and(|live| !extract::fields(live, schema).is_empty()) {
        return;
    }
    let nothing = Value::Object(Map::new());
    let comparison = extract::compare(live.unwrap_or(&nothing), new, schema);
    take(&mut entries, &comparison);
    let written = comparison.added.union(&comparison.modified);
    if !written.is_empty() {
        let mut own = manager.entry(Operation::Update, written, now);
        if let Some(place) = entries.iter().position(|entry| entry.author() == own.author()) {
            own.fields = own.fields.union(&entries.swap_remove(place).fields);
        }
        entries.push(own);
    }
    put_managed_fields(new, entries);
}

/// The object that comes of applying `applied` to `live` (None: it does not exist yet), with its
/// managed fields. Equal to `live`, to the last byte, when the apply changes nothing.
pub fn apply(
    live: Option<&Value>,
    applied: &Value,
    schema: &Schema,
    manager: &Manager<'_>,
    on_conflict: OnConflict,
    now: &str,
) -> Result<Value, ApplyError> {
    check(applied, schema)?;
    let applied = merge::without_nulls(applied, schema);
    let nothing = Value::Object(Map::new());
    let mut bare = live.unwrap_or(&nothing).clone();
    let stored = take_managed_fields(&mut bare);
    let mut entries = entry::decode(stored.as_ref().unwrap_or(&Value::Null)).unwrap_or_default();
    reconcile::with_schema(&mut entries, schema);
    if entries.is_empty() {
        let fields = extract::compare(&nothing, &bare, schema).added;
        let before = Manager { name: BEFORE_FIRST_APPLY, subresource: "", ..*manager };
        entries.push(before.entry(Operation::Update, fields, now));
    }

    let mut own = manager.entry(Operation::Apply, extract::fields(&applied, schema), now);
    let last = entries
        .iter()
        .position(|entry| entry.author() == own.author())
        .map(|place| entries.swap_remove(place));
    let mut new = merge::merge(&bare, &applied, schema);
    if let Some(last) = &last {
        let kept = entries.iter().fold(own.fields.clone(), |all, entry| all.union(&entry.fields));
        new = merge::prune(&new, &last.fields, &kept, schema);
    }

    let comparison = extract::compare(&bare, &new, schema);
    let written = comparison.added.union(&comparison.modified);
    match on_conflict {
        OnConflict::TakeOver => (),
        OnConflict::Fail => refuse(&entries, &written, &bare, schema, manager)?,
    }
    take(&mut entries, &comparison);
    // The time tells of the last change; an apply that changes nothing is none.
    if let Some(last) = last
        && last.fields == own.fields
        && last.api_version == own.api_version
        && bare == new
    {
        own.time = last.time;
    }
    entries.push(own);
    put_managed_fields(&mut new, entries);
    Ok(new)
}

impl Manager<'_> {
    fn entry(&self, operation: Operation, fields: FieldSet, now: &str) -> Entry {
        Entry {
            manager: self.name.to_owned(),
            operation,
            api_version: self.api_version.to_owned(),
            time: Some(now.to_owned()),
            subresource: self.subresource.to_owned(),
            fields,
        }
    }
}

fn check(applied: &Value, schema: &Schema) -> Result<(), ApplyError> {
    if !applied.is_object() {
        return Err(ApplyError::NotAnObject);
    }
    match applied.pointer("/metadata/managedFields") {
        None | Some(Value::Null) => (),
        Some(_) => return Err(ApplyError::HasManagedFields),
    }
    let problems = merge::check(applied, schema);
    match problems.is_empty() {
        true => Ok(()),
        false => Err(ApplyError::Unmergeable { problems }),
    }
}

/// Fails if somebody else owns what is written. Managers whose names the applier shares are
/// somebody else too: who updates a field by hand means it.
fn refuse(
    entries: &[Entry],
    written: &FieldSet,
    live: &Value,
    schema: &Schema,
    manager: &Manager<'_>,
) -> Result<(), ApplyError> {
    let owned = |written: &FieldSet| {
        let mut conflicts = Vec::new();
        for entry in entries {
            let paths = entry.fields.intersection(written).paths();
            conflicts.extend(paths.into_iter().map(|path| Conflict::new(entry, path)));
        }
        conflicts.sort_by(|left, right| {
            (&left.manager, &left.subresource, left.operation, &left.api_version).cmp(&(
                &right.manager,
                &right.subresource,
                right.operation,
                &right.api_version,
            ))
        });
        conflicts
    };
    let mut conflicts = owned(written);
    if !conflicts.is_empty() {
        let handed_over = last_applied::handed_over(live, schema, manager);
        conflicts = owned(&written.difference(&handed_over));
    }
    match conflicts.is_empty() {
        true => Ok(()),
        false => Err(ApplyError::Conflicts { conflicts }),
    }
}

/// Takes from everybody what was written or removed.
fn take(entries: &mut Vec<Entry>, comparison: &Comparison) {
    for entry in entries.iter_mut() {
        entry.fields = entry
            .fields
            .difference(&comparison.added)
            .difference(&comparison.modified)
            .difference_with_below(&comparison.removed);
    }
    entries.retain(|entry| !entry.fields.is_empty());
}

/// The entries that a write starts from. Whoever does not know of managed fields and sends none
/// does not mean to clear them; and through a subresource they cannot be written.
fn entries_of_write(
    live: Option<&Value>,
    sent: Option<Value>,
    manager: &Manager<'_>,
) -> Vec<Entry> {
    let stored = || {
        let stored = live.and_then(|live| live.pointer("/metadata/managedFields"));
        entry::decode(stored.unwrap_or(&Value::Null)).unwrap_or_default()
    };
    let Some(sent) = sent.filter(|_| manager.subresource.is_empty()) else { return stored() };
    if is_reset(&sent) {
        return Vec::new();
    }
    match entry::decode(&sent) {
        Ok(entries) if !entries.is_empty() => entries,
        Ok(_) | Err(_) => stored(),
    }
}

/// One entry that says nothing. An empty list is what a client sends that dropped a field it does
/// not know, and clears nothing.
fn is_reset(sent: &Value) -> bool {
    match sent.as_array().map(Vec::as_slice) {
        Some([Value::Object(entry)]) => entry.is_empty(),
        Some(_) | None => false,
    }
}

fn take_managed_fields(object: &mut Value) -> Option<Value> {
    object.get_mut("metadata")?.as_object_mut()?.remove("managedFields")
}

fn put_managed_fields(object: &mut Value, mut entries: Vec<Entry>) {
    entry::cap(&mut entries);
    entries.retain(|entry| !entry.fields.is_empty());
    if entries.is_empty() {
        return;
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("managedFields".to_owned(), entry::encode(entries));
    }
}

fn first_of(problems: &[Invalid]) -> String {
    match problems {
        [] => String::new(),
        [only] => format!("{}: {}", only.field, only.message),
        [first, rest @ ..] => {
            format!("{}: {}, and {} more", first.field, first.message, rest.len())
        }
    }
}

#[cfg(test)]
mod tests;
