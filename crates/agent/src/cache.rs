//! What the agent was told, on its own disk: with it everything is started again on a machine that
//! comes up while the controller is away. Read once at the start, written when it has changed;
//! called by [`crate::work`].
//!
//! Secrets are sealed with a key that is made of the agent's own and of the machine's id, so that
//! a copy of this file alone, or on another machine, is of no use.

mod seal;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read as _;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tombolo_identity::Remit;
use tombolo_model::Assignment;
use tombolo_model::phrase::with_causes;
use tombolo_plan::agent::restored::RESTORE_LEAP;

use crate::Error;
use crate::credentials::{Folder, Written};
use crate::desired::{self, Entries};
use crate::orders::{Good, Orders};

const FILE: &str = "assignments.json";
/// A thousand large Assignments fit; more would not be ours.
const BYTES_MAX: u64 = 256 * 1024 * 1024;

/// The file and what is in it.
#[derive(Debug)]
pub struct Cache {
    folder: Arc<Folder>,
    machine: String,
    saved: Option<Kept>,
    /// Tells the key of the seal from others: an agent that joins anew has another key.
    sealed_with: Option<Vec<u8>>,
}

/// What is kept. What changes without anything to be done about it is left out: statuses, versions.
#[derive(Clone, Debug, PartialEq)]
struct Kept {
    newest: u64,
    assignments: BTreeMap<String, Assignment>,
    good: BTreeMap<String, Good>,
    entries: Entries,
    forgotten: BTreeSet<String>,
}

#[derive(Serialize, Deserialize)]
struct Document {
    /// Which machine this was written on. On another it is a copy, which runs nothing.
    machine: String,
    #[serde(flatten, with = "Written")]
    remit: Remit,
    newest: u64,
    assignments: BTreeMap<String, Assignment>,
    good: BTreeMap<String, Good>,
    #[serde(default)]
    forgotten: BTreeSet<String>,
    sealed: String,
}

/// As JSON, keys of maps are text: a list of pairs takes any.
type Pairs = Vec<(desired::Source, BTreeMap<String, Vec<u8>>)>;

#[derive(Default, Serialize, Deserialize)]
struct Secrets {
    entries: Pairs,
    good: BTreeMap<String, Pairs>,
}

impl Cache {
    /// With what an earlier start left. A file that cannot be used is told and left aside: the
    /// server says it all again.
    pub fn open(folder: Arc<Folder>, machine: &str, remit: &Remit) -> (Cache, Orders) {
        let mut cache =
            Cache { folder, machine: machine.to_owned(), saved: None, sealed_with: None };
        let kept = match cache.read(remit) {
            Ok(kept) => kept,
            Err(error) => {
                tracing::warn!(error = with_causes(&error), "nothing is known from before");
                None
            }
        };
        let orders = kept.clone().map(Orders::from).unwrap_or_default();
        cache.saved = kept;
        cache.sealed_with = cache.key_print();
        (cache, orders)
    }

    fn key_print(&self) -> Option<Vec<u8>> {
        let key = self.folder.key().ok()?;
        Some(ring::digest::digest(&ring::digest::SHA256, key.as_bytes()).as_ref().to_vec())
    }

    /// What would have to be written; nothing if the file says it already.
    pub fn changed(&mut self, orders: &Orders, remit: &Remit) -> Option<Draft> {
        let kept = Kept::of(orders, remit);
        // The version alone is worth no write to a flash card; it goes with the next.
        let same = self.saved.as_ref().is_some_and(|saved| {
            saved.assignments == kept.assignments
                && saved.good == kept.good
                && saved.entries == kept.entries
                && saved.forgotten == kept.forgotten
                // A restore counts once.
                && kept.newest.abs_diff(saved.newest) < RESTORE_LEAP
        });
        let key = self.key_print();
        if same && key == self.sealed_with {
            return None;
        }
        self.saved = Some(kept.clone());
        self.sealed_with = key;
        let (folder, machine) = (Arc::clone(&self.folder), self.machine.clone());
        Some(Draft { folder, machine, remit: remit.clone(), kept })
    }

    /// The last draft did not reach the disk: the next look tries again.
    pub fn failed(&mut self) {
        self.saved = None;
    }

    fn read(&self, remit: &Remit) -> Result<Option<Kept>, Error> {
        let path = self.folder.path().join(FILE);
        let fail = |source| Error::File { doing: "read", path: path.clone(), source };
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(fail(source)),
        };
        let mut text = String::new();
        file.take(BYTES_MAX).read_to_string(&mut text).map_err(fail)?;
        let malformed =
            |problem: String| Error::Malformed { path: self.folder.path().join(FILE), problem };
        let document: Document =
            serde_json::from_str(&text).map_err(|error| malformed(error.to_string()))?;
        if document.machine != self.machine {
            return Err(malformed("it was written on another machine".to_owned()));
        }
        if document.remit != *remit {
            return Err(malformed("it was written for another node".to_owned()));
        }
        let key = seal::Key::new(&self.folder.key()?, &self.machine);
        // With a new key the old seal cannot be opened; the server hands the Secrets out again.
        let opened = key.open(&document.sealed).and_then(|text| serde_json::from_slice(&text).ok());
        Ok(Some(Kept::from_parts(document, opened.unwrap_or_default())))
    }
}

/// A state on its way to the disk.
#[derive(Debug)]
pub struct Draft {
    folder: Arc<Folder>,
    machine: String,
    remit: Remit,
    kept: Kept,
}

impl Draft {
    /// Returns when it is on the disk. Blocks.
    pub fn write(self) -> Result<(), Error> {
        let key = seal::Key::new(&self.folder.key()?, &self.machine);
        let good = self.kept.good.iter();
        let secrets = Secrets {
            good: good.map(|(uid, good)| (uid.clone(), pairs(&good.entries))).collect(),
            entries: pairs(&self.kept.entries),
        };
        let plain = serde_json::to_vec(&secrets).expect("plain fields can be written");
        let document = Document {
            machine: self.machine,
            remit: self.remit,
            newest: self.kept.newest,
            assignments: self.kept.assignments,
            good: self.kept.good,
            forgotten: self.kept.forgotten,
            sealed: key.seal(plain)?,
        };
        let text = serde_json::to_string(&document).expect("plain fields can be written");
        self.folder.write(FILE, &text)
    }
}

impl Kept {
    fn of(orders: &Orders, remit: &Remit) -> Kept {
        let ours = orders.assignments.iter().filter(|(_, found)| desired::is_ours(found, remit));
        Kept {
            newest: orders.newest,
            assignments: ours.map(|(uid, found)| (uid.clone(), bare(found))).collect(),
            good: orders.good.clone(),
            entries: orders.entries.clone(),
            forgotten: orders.forgotten.clone(),
        }
    }

    fn from_parts(document: Document, secrets: Secrets) -> Kept {
        let mut sealed = secrets.good;
        let good = document.good.into_iter().map(|(uid, good)| {
            let entries = sealed.remove(&uid).unwrap_or_default().into_iter().collect();
            (uid, Good { entries, ..good })
        });
        Kept {
            newest: document.newest,
            good: good.collect(),
            assignments: document.assignments,
            forgotten: document.forgotten,
            entries: secrets.entries.into_iter().collect(),
        }
    }
}

impl From<Kept> for Orders {
    fn from(kept: Kept) -> Orders {
        let Kept { newest, assignments, good, entries, forgotten } = kept;
        Orders { newest, assignments, good, entries, forgotten, ..Orders::default() }
    }
}

/// Without what changes while nothing is to be done. The claim of an Assignment without a node
/// stays: it says that it is ours.
pub(crate) fn bare(assignment: &Assignment) -> Assignment {
    let mut bare = assignment.clone();
    bare.metadata.managed_fields = None;
    bare.metadata.resource_version = None;
    bare.status = assignment.status.as_ref().filter(|_| bare.spec.node.is_none()).map(|status| {
        tombolo_model::AssignmentStatus { agent: status.agent.clone(), ..Default::default() }
    });
    bare
}

fn pairs(entries: &Entries) -> Pairs {
    entries.iter().map(|(source, values)| (source.clone(), values.clone())).collect()
}

#[cfg(test)]
mod tests;
