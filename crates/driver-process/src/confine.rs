//! How an instance is kept from the machine and from other instances: a user of its own or a user
//! namespace, a view of the file system that shows only what it may see, no privileges, fewer system
//! calls. [`enter`] does it to the calling process, which then becomes the program; it is called by
//! `supervise` alone, in a process that has one thread and nothing else to do.
//!
//! What is decided where: the driver chooses a [`Confinement`] (`manner`), writes it into the record of
//! the instance, and a command that enters the instance later (`exec`) finds it there.

mod abilities;
mod calls;
mod scopes;
mod view;

use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;

use rustix::process::{Resource, Rlimit, getegid, geteuid, setrlimit};
use rustix::thread::{
    CapabilitySet, ThreadNameSpaceType, UnshareFlags, capability_is_in_bounding_set,
    clear_ambient_capability_set, move_into_thread_name_spaces,
    remove_capability_from_bounding_set, set_no_new_privs,
};
use serde::{Deserialize, Serialize};

pub(crate) use self::abilities::{Abilities, tell};
pub(crate) use self::view::View;

/// As many open files as programs of the field ask for; a thousand instances that open them all are
/// stopped by the memory of their groups.
const OPEN_FILES_MAX: u64 = 65_536;
/// The kernel ends a workload before it ends us when the machine runs out of memory.
const OOM_SCORE: &str = "500";
/// The highest number that a capability can have.
const CAPABILITIES_MAX: u32 = 63;

/// All that an instance is confined by, as decided before its start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Confinement {
    pub(crate) manner: Manner,
    /// What it sees of the file system; the machine's own if left out.
    pub(crate) view: Option<View>,
    /// For all processes of its user together; only where no cgroup counts them.
    pub(crate) processes_max: Option<u64>,
    /// No single file may be larger.
    pub(crate) file_bytes_max: u64,
}

/// What keeps an instance apart from us and from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Manner {
    /// It runs as another user than the agent, who is root.
    OwnUser,
    /// It runs as the agent's user, in a user namespace of its own.
    UserNamespace,
    /// It runs as the agent's user and shares everything with it. The site allows that by name.
    Shared,
}

/// Confines the calling process for good. Still to be done by the caller: to become the user.
pub(crate) fn enter(confinement: &Confinement) -> io::Result<()> {
    _ = fs::write("/proc/self/oom_score_adj", OOM_SCORE);
    limit(confinement)?;
    match (&confinement.view, confinement.manner) {
        (Some(view), manner) => {
            separate(manner)?;
            view::build(view, manner)?;
        }
        (None, Manner::OwnUser | Manner::Shared) => (),
        (None, Manner::UserNamespace) => separate(confinement.manner)?,
    }
    forsake(confinement.manner)
}

/// Confines the calling process like an instance that is confined already: for a command inside it.
pub(crate) fn join(confinement: &Confinement, process: impl AsFd) -> io::Result<()> {
    _ = fs::write("/proc/self/oom_score_adj", OOM_SCORE);
    limit(confinement)?;
    let mut spaces = ThreadNameSpaceType::empty();
    if confinement.view.is_some() {
        spaces |= ThreadNameSpaceType::MOUNT | ThreadNameSpaceType::INTER_PROCESS_COMMUNICATION;
    }
    if confinement.manner == Manner::UserNamespace {
        spaces |= ThreadNameSpaceType::USER;
    }
    if !spaces.is_empty() {
        let moved = move_into_thread_name_spaces(process.as_fd(), spaces);
        moved.map_err(|errno| said("enter its namespaces", errno.into()))?;
    }
    forsake(confinement.manner)
}

fn limit(confinement: &Confinement) -> io::Result<()> {
    let open_files = rustix::process::getrlimit(Resource::Nofile);
    let at_most = |now: Option<u64>, most: u64| Some(now.map_or(most, |now| now.min(most)));
    let limits = [
        (Resource::Core, Some(0), Some(0)),
        (
            Resource::Nofile,
            at_most(open_files.current, OPEN_FILES_MAX),
            at_most(open_files.maximum, OPEN_FILES_MAX),
        ),
        (Resource::Fsize, Some(confinement.file_bytes_max), Some(confinement.file_bytes_max)),
        (Resource::Nproc, confinement.processes_max, confinement.processes_max),
    ];
    for (resource, current, maximum) in limits {
        if current.is_none() {
            continue;
        }
        // A limit that is lower already stays: only root could raise it, and nobody should.
        let now = rustix::process::getrlimit(resource);
        let lower = |wanted: Option<u64>, now: Option<u64>| match (wanted, now) {
            (Some(wanted), Some(now)) => Some(wanted.min(now)),
            (wanted, None) => wanted,
            (None, now) => now,
        };
        let limit =
            Rlimit { current: lower(current, now.current), maximum: lower(maximum, now.maximum) };
        setrlimit(resource, limit).map_err(|errno| said("set a limit", errno.into()))?;
    }
    Ok(())
}

/// Leaves the namespaces of the machine.
#[expect(deprecated, reason = "its successor is unsafe for the sake of a flag that we do not use")]
fn separate(manner: Manner) -> io::Result<()> {
    let apart = UnshareFlags::NEWNS | UnshareFlags::NEWIPC;
    let flags = match manner {
        Manner::OwnUser | Manner::Shared => apart,
        Manner::UserNamespace => apart | UnshareFlags::NEWUSER,
    };
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    rustix::thread::unshare(flags).map_err(|errno| said("make namespaces", errno.into()))?;
    if manner == Manner::UserNamespace {
        // Its own number stands for itself, and every other number for nobody.
        for (file, text) in [
            ("setgroups", "deny".to_owned()),
            ("uid_map", format!("{user} {user} 1")),
            ("gid_map", format!("{group} {group} 1")),
        ] {
            let written = fs::write(PathBuf::from("/proc/self").join(file), text);
            written.map_err(|error| said(&format!("write {file}"), error))?;
        }
    }
    Ok(())
}

/// Gives up everything that could be gained back: capabilities, privileges of programs, system calls.
fn forsake(manner: Manner) -> io::Result<()> {
    for number in 0..=CAPABILITIES_MAX {
        let capability = CapabilitySet::from_bits_retain(1 << number);
        if matches!(capability_is_in_bounding_set(capability), Ok(true)) {
            // An agent without privileges cannot, and has nothing to give up: no program gains any.
            _ = remove_capability_from_bounding_set(capability);
        }
    }
    _ = clear_ambient_capability_set();
    set_no_new_privs(true).map_err(|errno| said("give up new privileges", errno.into()))?;
    scopes::narrow(manner)?;
    calls::refuse(manner)
}

/// An error that says what could not be done. The number of the kernel's error alone would not.
fn said(doing: &str, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("cannot {doing}: {error}"))
}
