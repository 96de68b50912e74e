//! The values that go in and out of the store. Callers build [`Write`]s; they get [`Object`]s
//! and [`Event`]s back.

use std::sync::Arc;

use bytes::Bytes;

use crate::{Error, Result};

/// Longer keys than any path of group, kind, namespace and name that Kubernetes allows.
pub const KEY_BYTES_MAX: usize = 1024;
/// What one request body of the API may hold, and a little for the fields that the server adds.
pub const VALUE_BYTES_MAX: usize = 3 * 1024 * 1024;
/// A note says who did what; it is not a place for objects.
pub const NOTE_BYTES_MAX: usize = 64 * 1024;
/// A call is one transaction and holds up all others while it is written.
pub const WRITES_PER_CALL_MAX: usize = 1024;
/// As above; large enough for a few objects of the largest size.
pub const CALL_BYTES_MAX: usize = 16 * 1024 * 1024;

/// One version of one object, finished: its bytes carry its revision.
#[derive(Debug, PartialEq, Eq)]
pub struct Object {
    pub key: Arc<str>,
    pub revision: u64,
    pub bytes: Bytes,
    /// Where in `bytes` the revision stands, so that a restore can write another one.
    pub(crate) revision_at: u32,
}

impl Object {
    /// The object as a draft again: the same bytes without the revision.
    pub fn draft(&self) -> Draft {
        let at = self.revision_at as usize;
        let digits = decimal_digits(self.revision);
        let mut bytes = Vec::with_capacity(self.bytes.len() - digits);
        bytes.extend_from_slice(&self.bytes[..at]);
        bytes.extend_from_slice(&self.bytes[at + digits..]);
        Draft { bytes, revision_at: at }
    }
}

/// Bytes of an object with a gap: the store writes the decimal revision in front of the byte at
/// `revision_at` when it commits, so that readers get finished bytes and nobody parses them again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draft {
    pub bytes: Vec<u8>,
    pub revision_at: usize,
}

impl Draft {
    /// Must have passed [`Write::check`].
    pub(crate) fn stamp(&self, key: Arc<str>, revision: u64) -> Object {
        let digits = revision.to_string();
        let mut bytes = Vec::with_capacity(self.bytes.len() + digits.len());
        bytes.extend_from_slice(&self.bytes[..self.revision_at]);
        bytes.extend_from_slice(digits.as_bytes());
        bytes.extend_from_slice(&self.bytes[self.revision_at..]);
        let revision_at = u32::try_from(self.revision_at).expect("a draft is at most a few MiB");
        Object { key, revision, bytes: Bytes::from(bytes), revision_at }
    }
}

/// What must hold for a write to happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// No object has this key.
    Absent,
    /// The object is at exactly this revision.
    Revision(u64),
    Any,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    Put(Draft),
    /// The draft is the last state of the object, stamped with the revision of its deletion.
    Delete(Draft),
}

impl Change {
    pub(crate) fn draft(&self) -> &Draft {
        match self {
            Change::Put(draft) | Change::Delete(draft) => draft,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    pub key: Arc<str>,
    pub expect: Expect,
    pub change: Change,
    /// Goes into the audit record under the revision of this write.
    pub note: Option<Bytes>,
}

impl Write {
    pub fn put(key: impl Into<Arc<str>>, expect: Expect, draft: Draft) -> Write {
        Write { key: key.into(), expect, change: Change::Put(draft), note: None }
    }

    pub fn delete(key: impl Into<Arc<str>>, expect: Expect, last_state: Draft) -> Write {
        Write { key: key.into(), expect, change: Change::Delete(last_state), note: None }
    }

    pub(crate) fn check(&self) -> Result<()> {
        let draft = self.change.draft();
        within("length of the key in bytes", self.key.len(), KEY_BYTES_MAX)?;
        within("length of the object in bytes", draft.bytes.len(), VALUE_BYTES_MAX)?;
        within(
            "length of the note in bytes",
            self.note.as_ref().map_or(0, Bytes::len),
            NOTE_BYTES_MAX,
        )?;
        if self.key.is_empty() {
            return Err(Error::Malformed { key: self.key.clone(), what: "its key is empty" });
        }
        if draft.revision_at > draft.bytes.len() {
            let what = "the place of its revision lies behind its end";
            return Err(Error::Malformed { key: self.key.clone(), what });
        }
        Ok(())
    }

    pub(crate) fn len(&self) -> usize {
        self.key.len() + self.change.draft().bytes.len() + self.note.as_ref().map_or(0, Bytes::len)
    }
}

pub(crate) fn within(what: &'static str, size: usize, max: usize) -> Result<()> {
    if size > max { Err(Error::TooLarge { what, size, max }) } else { Ok(()) }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Created,
    Updated,
    Deleted,
}

/// One write, as watchers see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    pub kind: Kind,
    /// For a deletion the last state, stamped with the revision of the deletion.
    pub object: Arc<Object>,
    /// What the key held before; `None` exactly when it was created.
    pub previous: Option<Arc<Object>>,
}

impl Event {
    pub fn revision(&self) -> u64 {
        self.object.revision
    }

    pub fn key(&self) -> &str {
        &self.object.key
    }
}

pub(crate) fn decimal_digits(number: u64) -> usize {
    number.checked_ilog10().map_or(1, |log| log as usize + 1)
}
