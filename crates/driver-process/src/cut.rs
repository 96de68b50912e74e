//! The end of all instances of a folder at once, as a loss of power would bring it: nobody is asked,
//! nothing is written down, and what lies in the folders stays. Called for `tombolo down --site`, to
//! see what a continuum does without one of its sites; the driver itself never does this. What it does
//! is the same for one instance whose folder somebody has deleted ([`end_strays`]).

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Signal;
use tombolo_driver::InstanceId;

use crate::folder::Folder;
use crate::supervise::{MARK, SUPERVISES};
use crate::{cgroup, procfs};

/// Who is not gone after so many rounds is stuck in the kernel.
const ROUNDS_MAX: usize = 400;
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Kills all instances of the driver whose folder this is, with their supervisors. The agent must be
/// gone before, or it starts them again. Says how many there were.
pub fn cut(folder: &Path) -> io::Result<usize> {
    // Marks name folders by the path that the driver had after resolving links.
    let folder = match folder.canonicalize() {
        Ok(folder) => folder,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(error),
    };
    let entries = fs::read_dir(&folder)?.flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<InstanceId>().ok());
    let instances: Vec<Folder> = ids.map(|id| Folder::new(folder.join(id.to_string()))).collect();
    // The supervisors first: a supervisor that sees its instance end would write it down.
    for run in instances.iter().filter_map(Folder::run) {
        if run.boot_id == procfs::boot_id() && run.supervisor.alive() {
            cgroup::send(run.supervisor.pid, Signal::KILL);
        }
    }
    let cgroups = |one: &Folder| one.instance().map(|record| record.cgroups).unwrap_or_default();
    let ended = instances.iter().filter(|instance| end(instance, &cgroups(instance))).count();
    Ok(ended)
}

/// Kills what still runs for an instance of which no folder is left, and would run beside the instance
/// that is about to be started: its supervisors, then its processes. `cgroups` are the groups by its
/// name.
pub(crate) fn end_strays(folder: &Folder, cgroups: &[PathBuf]) -> bool {
    let path = folder.path().as_os_str().as_encoded_bytes();
    let supervises = |pid: &u32| {
        procfs::arguments(*pid).is_some_and(|words| match words.as_slice() {
            [.., word, last] => SUPERVISES.contains(&word.as_slice()) && last == path,
            [] | [_] => false,
        })
    };
    let supervisors: Vec<u32> = procfs::all().into_iter().filter(supervises).collect();
    supervisors.iter().for_each(|pid| cgroup::send(*pid, Signal::KILL));
    end(folder, cgroups) || !supervisors.is_empty()
}

/// Kills the processes of one instance; whether there were any.
fn end(folder: &Folder, cgroups: &[PathBuf]) -> bool {
    let mark = format!("{MARK}={}", folder.path().display()).into_bytes();
    let marked =
        |pid: &u32| procfs::environment(*pid).is_some_and(|entries| entries.contains(&mark));
    let lives = |pid: &u32| procfs::stat(*pid).is_some_and(|stat| !matches!(stat.state, 'Z' | 'X'));
    let left = || -> Vec<u32> {
        let grouped = cgroup::members(cgroups).into_iter();
        grouped.chain(procfs::all().into_iter().filter(marked)).filter(lives).collect()
    };
    let found = left();
    for _ in 0..ROUNDS_MAX {
        cgroup::kill(cgroups);
        let left = left();
        if left.is_empty() {
            break;
        }
        left.into_iter().for_each(|pid| cgroup::send(pid, Signal::KILL));
        std::thread::sleep(LOOK_AGAIN);
    }
    cgroup::remove(cgroups);
    !found.is_empty()
}
