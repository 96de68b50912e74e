//! What the agent was told to run, by the server or, while that is away, by its own disk. Changed by
//! [`Held::note`] with the news of [`crate::feed`]; read by [`crate::converge`].

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde::{Deserialize, Serialize};
use tombolo_model::Assignment;
use tombolo_plan::instances::Authority;

use crate::desired::{self, Entries, Place, Source};

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
pub struct Held {
    /// Those that are for this node, and those of the site that are for any, by uid.
    pub assignments: BTreeMap<String, Assignment>,
    pub entries: Entries,
    pub good: BTreeMap<String, Good>,
    /// The newest version that a server has ever told.
    pub newest: u64,
    pub authority: Authority,
    /// Those that were deleted or given to another node, the newest last, and the version at which.
    pub(crate) gone: VecDeque<(String, Option<u64>)>,
}

impl Held {
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
                    self.gone.push_back((uid, version));
                    let surplus = self.gone.len().saturating_sub(GONE_MAX);
                    self.gone.drain(..surplus);
                }
            }
            News::Answered(entries) => self.entries.extend(entries),
        }
    }

    /// A server whose newest version is older than one that was seen before has been set back to a
    /// backup: what it does not know may still be wanted.
    fn listed(&mut self, assignments: Vec<Assignment>, version: Option<u64>) {
        let set_back = version.is_some_and(|version| version < self.newest);
        if set_back {
            tracing::warn!(
                version,
                newest = self.newest,
                "the server has forgotten something; what it does not know goes on running"
            );
            self.authority = Authority::Doubtful;
        } else {
            self.authority = Authority::Fresh;
            self.assignments.clear();
        }
        self.saw(version);
        for assignment in assignments {
            // A server that was set back may know again what it once deleted.
            self.gone.retain(|(gone, _)| Some(gone) != assignment.metadata.uid.as_ref());
            self.replace(assignment);
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
            self.assignments.insert(uid, assignment);
        }
    }

    fn saw(&mut self, version: Option<u64>) {
        self.newest = self.newest.max(version.unwrap_or(0));
    }

    /// Every Secret and ConfigMap that is named by what runs here.
    pub fn sources(&self, place: &Place) -> BTreeSet<Source> {
        let ours = self.assignments.values().filter(|found| desired::is_ours(found, place));
        ours.flat_map(desired::sources).collect()
    }

    /// Forgets what nobody names any more. A Secret is not kept longer than it is needed.
    pub fn tidy(&mut self, place: &Place) {
        let sources = self.sources(place);
        self.entries.retain(|source, _| sources.contains(source));
        let known = &self.assignments;
        self.good.retain(|uid, _| known.contains_key(uid));
    }
}

fn version(assignment: &Assignment) -> Option<u64> {
    assignment.metadata.resource_version.as_ref()?.parse().ok()
}

#[cfg(test)]
mod tests;
