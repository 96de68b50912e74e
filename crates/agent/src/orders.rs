//! What the agent was told to run, by the server or, while that is away, by its own disk. Changed by
//! [`Orders::note`] with the news of [`crate::feed`]; read by [`crate::converge`].

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde::{Deserialize, Serialize};
use tombolo_identity::Remit;
use tombolo_model::Assignment;
use tombolo_plan::agent::restored::{self, Listed};
use tombolo_plan::instances::Authority;

use crate::desired::{self, Entries, Source, Wishes};

/// As many as are deleted while one write to the server is under way, many times over.
const GONE_MAX: usize = 1024;

/// What comes from the server.
#[derive(Debug)]
pub enum News {
    /// All Assignments of the site that this node may see. `version` is the server's newest.
    Listed {
        assignments: Vec<Assignment>,
        version: Option<u64>,
    },
    Applied(Box<Assignment>),
    Gone(Box<Assignment>),
    /// Answers about Secrets and ConfigMaps.
    Answered(Entries),
}

/// A revision that was well, with all that is needed to start it again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Good {
    pub revision: u64,
    pub assignment: Assignment,
    /// Its Secrets as they were. Goes to the disk sealed only.
    #[serde(skip)]
    pub entries: Entries,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Orders {
    /// The Assignments that are for this node, and those of the site that name no node, by uid.
    pub assignments: BTreeMap<String, Assignment>,
    pub entries: Entries,
    pub good: BTreeMap<String, Good>,
    /// The newest version that a server has ever told.
    pub newest: u64,
    pub authority: Authority,
    /// Assignments that a server has forgotten, because it was set back to a backup. They are kept:
    /// nobody has said that they are to end.
    pub forgotten: BTreeSet<String>,
    /// Assignments that were deleted or given to another node, the newest last, with the version at which
    /// that was.
    pub(crate) gone: VecDeque<(String, Option<u64>)>,
}

impl Orders {
    pub fn note(&mut self, news: News) {
        match news {
            News::Listed { assignments, version } => self.listed(assignments, version),
            News::Applied(assignment) => {
                self.saw(version(&assignment));
                self.put(*assignment);
            }
            News::Gone(assignment) => {
                let version = version(&assignment);
                self.saw(version);
                if let Some(uid) = assignment.metadata.uid {
                    self.assignments.remove(&uid);
                    self.forgotten.remove(&uid);
                    self.gone.push_back((uid, version));
                    let surplus = self.gone.len().saturating_sub(GONE_MAX);
                    self.gone.drain(..surplus);
                }
            }
            News::Answered(entries) => self.entries.extend(entries),
        }
    }

    /// What a server that was set back to a backup does not know may still be wanted.
    fn listed(&mut self, assignments: Vec<Assignment>, version: Option<u64>) {
        let listed = restored::judge(self.newest, version);
        if listed != Listed::Continues {
            tracing::warn!(
                version,
                newest = self.newest,
                "the server was set back; what it does not know goes on running"
            );
            let wanted = self.assignments.iter().filter(|(_, found)| !desired::is_deleting(found));
            self.forgotten.extend(wanted.map(|(uid, _)| uid.clone()));
        }
        self.authority = match listed {
            Listed::Continues | Listed::Leapt => Authority::Fresh,
            Listed::Behind => Authority::Doubtful,
        };
        let mut listed = BTreeSet::new();
        self.newest = self.newest.max(version.unwrap_or(0));
        for assignment in assignments {
            let Some(uid) = assignment.metadata.uid.clone() else { continue };
            // A server that was set back may know again what it once deleted.
            self.gone.retain(|(gone, _)| *gone != uid);
            self.replace(assignment);
            listed.insert(uid);
        }
        let forgotten = &self.forgotten;
        self.assignments.retain(|uid, _| listed.contains(uid) || forgotten.contains(uid));
        for uid in &self.forgotten {
            // The server does not know them, so nothing about them can be written.
            if let Some(assignment) = self.assignments.get_mut(uid) {
                assignment.metadata.resource_version = None;
            }
        }
    }

    /// An older copy never replaces a newer one, and nothing what is gone: the answer to a write may
    /// overtake the watch, or be overtaken by it.
    fn put(&mut self, assignment: Assignment) {
        let Some(uid) = &assignment.metadata.uid else { return };
        let is_of_before = |(gone, at): &(String, Option<u64>)| {
            gone == uid && (at.is_none() || version(&assignment) <= *at)
        };
        if self.gone.iter().any(is_of_before) {
            return;
        }
        let known = self.assignments.get(uid).and_then(version);
        if known.is_none_or(|known| version(&assignment).is_none_or(|new| new >= known)) {
            self.replace(assignment);
        }
    }

    fn replace(&mut self, mut assignment: Assignment) {
        assignment.metadata.managed_fields = None;
        if let Some(uid) = assignment.metadata.uid.clone() {
            self.forgotten.remove(&uid);
            self.assignments.insert(uid, assignment);
        }
    }

    fn saw(&mut self, version: Option<u64>) {
        self.newest = restored::newest_after(self.newest, version);
    }

    /// Every Secret and ConfigMap that is named by what runs here and that the server can be asked for,
    /// with the entries that are needed: it hands out none for what it does not know.
    pub fn wishes(&self, remit: &Remit) -> Wishes {
        let known = |found: &&Assignment| !self.is_forgotten(found);
        let mut wishes = Wishes::new();
        for (source, key) in self.ours(remit).filter(known).flat_map(desired::entries_named) {
            wishes.entry(source).or_default().insert(key);
        }
        wishes
    }

    /// Forgets what nobody names any more: a Secret is not kept longer than it is needed. What was
    /// forgotten by a server ends when that assigns the same instance anew.
    pub fn tidy(&mut self, remit: &Remit) {
        let known = self.ours(remit).filter(|found| !self.is_forgotten(found));
        let known: BTreeSet<_> = known.map(instance_of).collect();
        let (forgotten, assignments) = (&mut self.forgotten, &mut self.assignments);
        forgotten.retain(|uid| {
            let is_new =
                assignments.get(uid).is_none_or(|found| known.contains(&instance_of(found)));
            if is_new {
                assignments.remove(uid);
            }
            !is_new
        });
        let sources: BTreeSet<Source> = self.ours(remit).flat_map(desired::sources).collect();
        self.entries.retain(|source, _| sources.contains(source));
        let known = &self.assignments;
        self.good.retain(|uid, _| known.contains_key(uid));
    }

    /// Nobody wants what was forgotten any more: somebody has said so.
    pub fn end_forgotten(&mut self) {
        for uid in std::mem::take(&mut self.forgotten) {
            self.assignments.remove(&uid);
        }
    }

    /// What runs here and no server knows, by namespace and name.
    pub fn forgotten_here(&self, remit: &Remit) -> Vec<String> {
        let here = self.ours(remit).filter(|found| self.is_forgotten(found));
        let name = |found: &Assignment| {
            let metadata = &found.metadata;
            let part = |part: &Option<String>| part.clone().unwrap_or_default();
            format!("{}/{}", part(&metadata.namespace), part(&metadata.name))
        };
        here.map(name).collect()
    }

    fn is_forgotten(&self, assignment: &Assignment) -> bool {
        assignment.metadata.uid.as_ref().is_some_and(|uid| self.forgotten.contains(uid))
    }

    fn ours<'a>(&'a self, remit: &'a Remit) -> impl Iterator<Item = &'a Assignment> {
        self.assignments.values().filter(|found| desired::is_ours(found, remit))
    }
}

/// Which instance of which App it is, whatever its Assignment is called.
fn instance_of(assignment: &Assignment) -> (Option<String>, String, String, u32) {
    let (spec, namespace) = (&assignment.spec, assignment.metadata.namespace.clone());
    (namespace, spec.app.clone(), spec.component.clone(), spec.replica)
}

fn version(assignment: &Assignment) -> Option<u64> {
    assignment.metadata.resource_version.as_ref()?.parse().ok()
}

#[cfg(test)]
mod tests;
