//! How a process is confined: what it asks for, what its site allows and what the machine can do, in;
//! a user and a [`Confinement`], or why it may not run, out. Called by `start`; start at [`choose`].

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use tombolo_driver::{Error, Process, Result};
use tombolo_model::Privilege;
use tombolo_model::needs::Resources;
use tombolo_model::privilege::{SHOWN, is_shown};

use crate::confine::{Abilities, Confinement, Manner, View};

/// Threads count too. Enough for any server, and too few to hold up a machine.
pub(crate) const PROCESSES_MAX: u64 = 1024;
/// No single file is larger, unless the component asks for more room than that.
const FILE_BYTES_MAX: u64 = 16 << 30;

/// Which user a process is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    /// The user of its App.
    OfItsApp,
    /// A user of the machine, whom it names.
    Named,
    /// The user that the agent runs as.
    TheAgents,
}

/// How it is to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    pub(crate) who: Who,
    /// Nothing for a process with all rights.
    pub(crate) manner: Option<Manner>,
    pub(crate) view: bool,
}

pub(crate) fn choose(
    process: &Process,
    allow: &BTreeSet<Privilege>,
    abilities: &Abilities,
) -> Result<Choice> {
    if process.privileged {
        let who = if process.user.is_some() { Who::Named } else { Who::TheAgents };
        return Ok(Choice { who, manner: None, view: false });
    }
    let view = abilities.no_view.is_none();
    let shared = Choice { who: Who::TheAgents, manner: Some(Manner::Shared), view: false };
    match (abilities.own_users, &process.user) {
        (true, None) => Ok(Choice { who: Who::OfItsApp, manner: Some(Manner::OwnUser), view }),
        (true, Some(_)) => Ok(Choice { who: Who::Named, manner: Some(Manner::OwnUser), view }),
        (false, user) => {
            let who = if user.is_some() { Who::Named } else { Who::TheAgents };
            match &abilities.no_view {
                None => Ok(Choice { who, manner: Some(Manner::UserNamespace), view }),
                Some(_) if allow.contains(&Privilege::UnconfinedProcess) => {
                    Ok(Choice { who, ..shared })
                }
                Some(why) => Err(Error::CannotConfine { why: why.clone() }),
            }
        }
    }
}

/// How far instances are confined on this machine, as the driver tells it.
/// `together` is why all of them could take the whole machine.
pub(crate) fn told(abilities: &Abilities, together: Option<String>) -> tombolo_driver::Confinement {
    let signals = "the agent is not root, and the kernel is older than 6.12";
    tombolo_driver::Confinement {
        apart: abilities.no_view.clone().filter(|_| !abilities.own_users),
        view: abilities.no_view.clone(),
        calls: abilities.no_filter.clone(),
        signals: (!abilities.own_users && !abilities.signals_stay).then(|| signals.to_owned()),
        together,
    }
}

/// What is missing of it, a sentence each.
pub(crate) fn gaps(confinement: &tombolo_driver::Confinement) -> Vec<String> {
    let rows = [
        ("processes cannot be confined, and are refused", &confinement.apart),
        ("processes see the machine's own files, as far as their users may", &confinement.view),
        ("system calls of processes are not filtered", &confinement.calls),
        ("processes can send signals to the agent and to each other", &confinement.signals),
        ("all processes together could take the machine from the agent", &confinement.together),
    ];
    let told =
        rows.into_iter().filter_map(|(what, why)| Some(format!("{what}: {}", why.as_ref()?)));
    told.collect()
}

/// Folders of an instance that its view is made of.
#[derive(Debug)]
pub(crate) struct Folders<'a> {
    pub(crate) root: PathBuf,
    pub(crate) tmp: PathBuf,
    pub(crate) work: PathBuf,
    pub(crate) workdir: &'a Path,
    pub(crate) program: &'a Path,
    /// What the agent lets it read.
    pub(crate) shown: &'a [PathBuf],
    /// The agent's own, in which the others are.
    pub(crate) ours: &'a Path,
}

/// An instance that shares the agent's user could read the agent's folder, if that lies in a folder
/// which every program sees. A user of its own may not read it anyhow.
fn hides(manner: Manner, ours: &Path) -> Vec<PathBuf> {
    let is_seen = SHOWN.iter().any(|shown| ours.starts_with(shown));
    match manner {
        Manner::UserNamespace if is_seen => vec![ours.to_owned()],
        Manner::UserNamespace | Manner::OwnUser | Manner::Shared => Vec::new(),
    }
}

pub(crate) fn confinement(
    choice: Choice,
    folders: &Folders<'_>,
    resources: &Resources,
    counted: bool,
) -> Option<Confinement> {
    let manner = choice.manner?;
    let view = choice.view.then(|| {
        let mut writes = vec![folders.work.clone()];
        // What every program sees stays as it is.
        if folders.workdir != folders.work && !folders.workdir.to_str().is_some_and(is_shown) {
            writes.push(folders.workdir.to_owned());
        }
        let program = Some(folders.program.to_owned());
        let is_there = |path: &PathBuf| writes.iter().any(|folder| path.starts_with(folder));
        let reads = program.into_iter().filter(|program| !is_there(program));
        let reads = reads.chain(folders.shown.iter().cloned()).collect();
        let hides = hides(manner, folders.ours);
        View { at: folders.root.clone(), tmp: folders.tmp.clone(), reads, writes, hides }
    });
    let asked = resources.storage.map_or(0, |bytes| bytes.get());
    Some(Confinement {
        manner,
        view,
        processes_max: (!counted).then_some(PROCESSES_MAX),
        file_bytes_max: FILE_BYTES_MAX.max(asked),
    })
}
