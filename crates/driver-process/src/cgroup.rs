//! The cgroups of an instance: limits on processor, memory and processes, what it uses, and who
//! belongs to it.
//! Used by the driver to make and read them, by the supervisor to enter, empty and remove them.
//!
//! The group that holds all instances of a driver is bounded too ([`together`]), so that they never take the
//! whole machine. Without the right to make any, instances run without limits, and a note says so. Where the kernel
//! allows it, groups lie below the agent's own, so that its limits hold for what it runs.

mod limits;
mod mounts;
mod together;

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use self::mounts::{Hierarchy, Version};
use self::together::Together;

pub(crate) use self::limits::Limits;

/// Half a second in all: who is still there then is stuck.
const REMOVALS_MAX: usize = 100;
const REMOVE_AGAIN: Duration = Duration::from_millis(5);

/// Where the groups of one driver are, in each hierarchy that is of use.
#[derive(Debug)]
pub(crate) struct Groups {
    hierarchies: Vec<Hierarchy>,
    /// The group that holds all instances of one driver.
    name: String,
}

impl Groups {
    /// The groups of the driver whose folder this is.
    pub(crate) fn of(folder: &Path) -> Groups {
        let mut hasher = DefaultHasher::new();
        folder.hash(&mut hasher);
        let name = format!("tombolo-{:016x}", hasher.finish());
        Groups { hierarchies: mounts::find(), name }
    }

    /// Makes the groups of one instance and sets its limits. Gives their folders, and a sentence for
    /// each limit that could not be set.
    pub(crate) fn make(&self, instance: &str, limits: Limits) -> (Vec<PathBuf>, Vec<String>) {
        let mut made = Vec::new();
        let mut trouble = None;
        for hierarchy in &self.hierarchies {
            match self.make_in(hierarchy, instance) {
                Ok(folder) => made.push(folder),
                Err(error) => {
                    tracing::debug!(%error, mount = %hierarchy.mount.display(), "no cgroup");
                    trouble = Some(error);
                }
            }
        }
        let unbounded = self.bound_all(&made);
        if !unbounded.is_empty() {
            tracing::debug!(?unbounded, "all instances together");
        }
        let notes = limits.set(&made, trouble.as_ref());
        (made, notes)
    }

    /// Bounds what all instances may take together; what cannot be bounded. Again at each start: the group
    /// goes with its last instance.
    fn bound_all(&self, made: &[PathBuf]) -> Vec<&'static str> {
        let parents: Vec<PathBuf> =
            made.iter().filter_map(|folder| folder.parent()).map(Path::to_owned).collect();
        Together::of_machine(&self.hierarchies).set(&parents)
    }

    /// Why all instances together could take the whole machine; nothing if they cannot.
    pub(crate) fn unbounded(&self) -> Option<String> {
        let (folders, _) = self.make("probe", Limits::SMALLEST);
        let unbounded = self.bound_all(&folders);
        remove(&folders);
        let what = unbounded.join(", ");
        (!unbounded.is_empty()).then(|| format!("cgroups cannot be used for all together: {what}"))
    }

    /// The groups that there are of one instance, without any record of it.
    pub(crate) fn find(&self, instance: &str) -> Vec<PathBuf> {
        let own = self.hierarchies.iter().map(Hierarchy::own);
        let mounts = self.hierarchies.iter().map(|hierarchy| hierarchy.mount.clone());
        let found = own.chain(mounts).map(|parent| parent.join(&self.name).join(instance));
        found.filter(|folder| folder.is_dir()).collect()
    }

    /// What limits cannot be had, a sentence each.
    pub(crate) fn notes(&self) -> Vec<String> {
        let (folders, notes) = self.make("probe", Limits::SMALLEST);
        remove(&folders);
        notes
    }

    fn make_in(&self, hierarchy: &Hierarchy, instance: &str) -> io::Result<PathBuf> {
        let parent = match hierarchy.version {
            Version::One => hierarchy.own().join(&self.name),
            Version::Two => unified_parent(hierarchy)?.join(&self.name),
        };
        let folder = parent.join(instance);
        // An old group still counts what the last run used.
        _ = fs::remove_dir(&folder);
        fs::create_dir_all(&folder)?;
        if hierarchy.version == Version::Two {
            enable_controllers(&parent)?;
        }
        Ok(folder)
    }
}

/// The group below which ours go. In a unified hierarchy a group hands controllers down only if no
/// process is in it, but for the top. So root's go to the top, as other engines' do; anybody else's, and
/// root's in a container, below the agent's own group, where it steps aside into one of its own if
/// all of the group is its.
fn unified_parent(hierarchy: &Hierarchy) -> io::Result<PathBuf> {
    let own = hierarchy.own();
    for candidate in [&hierarchy.mount, &own] {
        if may_write(candidate) && enable_controllers(candidate).is_ok() {
            return Ok(candidate.clone());
        }
    }
    let aside = own.join("tombolo-agent");
    fs::create_dir_all(&aside)?;
    fs::write(aside.join("cgroup.procs"), std::process::id().to_string())?;
    enable_controllers(&own)?;
    Ok(own)
}

/// Controllers that were handed down before say nothing of who may make groups.
fn may_write(folder: &Path) -> bool {
    rustix::fs::access(folder, rustix::fs::Access::WRITE_OK).is_ok()
}

/// Hands down those controllers that the group has. To have none is no error: the group still says
/// who belongs to an instance.
fn enable_controllers(folder: &Path) -> io::Result<()> {
    let offered = fs::read_to_string(folder.join("cgroup.controllers"))?;
    let enabled = fs::read_to_string(folder.join("cgroup.subtree_control"))?;
    let is_in = |list: &str, name: &str| list.split_ascii_whitespace().any(|word| word == name);
    for controller in ["cpu", "memory", "pids"] {
        if is_in(&offered, controller) && !is_in(&enabled, controller) {
            fs::write(folder.join("cgroup.subtree_control"), format!("+{controller}"))?;
        }
    }
    Ok(())
}

/// Puts a process into the groups; what it starts from then on is born there. Gives the groups it was
/// in, for [`enter`] to go back.
pub(crate) fn enter(folders: &[PathBuf], pid: u32) -> io::Result<()> {
    for folder in folders {
        fs::write(folder.join("cgroup.procs"), pid.to_string())?;
    }
    Ok(())
}

/// The groups that this process is in now, of those hierarchies in which `folders` are.
pub(crate) fn own(folders: &[PathBuf]) -> Vec<PathBuf> {
    let hierarchies = mounts::find();
    let holding = |folder: &PathBuf| {
        hierarchies.iter().find(|hierarchy| folder.starts_with(&hierarchy.mount))
    };
    folders.iter().filter_map(holding).map(Hierarchy::own).collect()
}

/// Everybody in the groups.
pub(crate) fn members(folders: &[PathBuf]) -> Vec<u32> {
    let mut pids: Vec<u32> = folders
        .iter()
        .filter_map(|folder| fs::read_to_string(folder.join("cgroup.procs")).ok())
        .flat_map(|text| text.lines().filter_map(|line| line.parse().ok()).collect::<Vec<u32>>())
        .collect();
    pids.sort_unstable();
    pids.dedup();
    pids
}

/// Kills everybody in the groups, as far as one round goes.
pub(crate) fn kill(folders: &[PathBuf]) {
    for folder in folders {
        // Only newer kernels have it, and they kill also processes that are forked in this moment.
        _ = fs::write(folder.join("cgroup.kill"), "1");
    }
    for pid in members(folders) {
        send(pid, Signal::KILL);
    }
}

/// Sends a signal to a process that may be gone.
pub(crate) fn send(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        _ = kill_process(pid, signal);
    }
}

/// Whether the groups bound how many processes there are in them.
pub(crate) fn counts_processes(folders: &[PathBuf]) -> bool {
    let bounded = |folder: &PathBuf| {
        fs::read_to_string(folder.join("pids.max")).is_ok_and(|text| text.trim() != "max")
    };
    folders.iter().any(bounded)
}

/// How often the kernel has killed somebody in the groups for want of memory.
pub(crate) fn memory_kills(folders: &[PathBuf]) -> u64 {
    let count = |folder: &PathBuf| {
        field(&folder.join("memory.events"), "oom_kill")
            .or_else(|| field(&folder.join("memory.oom_control"), "oom_kill"))
    };
    folders.iter().filter_map(count).sum()
}

/// The processor time in microseconds and the memory in bytes that the groups have used, as far as
/// they count it.
pub(crate) fn used(folders: &[PathBuf]) -> (Option<u64>, Option<u64>) {
    let number = |path: PathBuf| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let cpu = |folder: &PathBuf| {
        field(&folder.join("cpu.stat"), "usage_usec")
            .or_else(|| Some(number(folder.join("cpuacct.usage"))? / 1000))
    };
    let memory = |folder: &PathBuf| {
        number(folder.join("memory.current"))
            .or_else(|| number(folder.join("memory.usage_in_bytes")))
    };
    (folders.iter().find_map(cpu), folders.iter().find_map(memory))
}

/// Removes empty groups, and those above them once these are empty too. The kernel takes a moment to
/// find a group empty whose last process has just ended.
pub(crate) fn remove(folders: &[PathBuf]) {
    for folder in folders {
        for _ in 0..REMOVALS_MAX {
            match fs::remove_dir(folder) {
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                    std::thread::sleep(REMOVE_AGAIN);
                }
                Ok(()) | Err(_) => break,
            }
        }
        if let Some(parent) = folder.parent() {
            // Other groups may be in it; the last to go removes it.
            _ = fs::remove_dir(parent);
        }
    }
}

fn field(path: &Path, name: &str) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_controllers_that_are_offered_and_not_yet_handed_down_are() {
        let group = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(group.path().join(name), text).unwrap();
        let check = |offered: &str, enabled: &str, expected: &str| {
            write("cgroup.controllers", offered);
            write("cgroup.subtree_control", enabled);
            enable_controllers(group.path()).unwrap();
            let written = fs::read_to_string(group.path().join("cgroup.subtree_control")).unwrap();
            assert_eq!(written, expected, "{offered} / {enabled}");
        };
        check("cpuset cpu io memory pids", "memory pids", "+cpu");
        check("cpu memory pids", "cpu memory", "+pids");
        check("cpu memory", "cpu", "+memory");
        check("hugetlb", "", "");
    }
}
