//! What all instances of one driver may take together, so that however many there are, and however few of
//! them name a limit, the machine and the agent go on. Set on the group that holds them all.

use std::fs;
use std::path::{Path, PathBuf};

use super::limits::{memory_settings, process_settings, set_one, share_settings};
use super::mounts::Hierarchy;

/// Half of what the kernel gives a group that says nothing: whoever does not belong to a workload gets twice
/// as much of the processor when there is not enough for all.
const SHARE_PERCENT: u64 = 50;
/// Of the memory, what is left to the system, the engine and the agent: an eighth, but no less than this, which a small
/// system and an agent need, and no more than that, which they do not.
const MEMORY_LEFT_MIN: u64 = 128 << 20;
const MEMORY_LEFT_MAX: u64 = 1 << 30;

/// What there is on the machine, or in the group above ours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Together {
    memory_bytes: Option<u64>,
    processes: Option<u64>,
}

impl Together {
    pub(super) fn of_machine(hierarchies: &[Hierarchy]) -> Together {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let kernel = ["/proc/sys/kernel/pid_max", "/proc/sys/kernel/threads-max"];
        let (mut memory, mut processes) = (Vec::new(), Vec::new());
        memory.extend(memory_of(&read("/proc/meminfo")));
        processes.extend(kernel.iter().filter_map(|path| number(Path::new(path))));
        for folder in hierarchies.iter().flat_map(above) {
            let files = ["memory.max", "memory.limit_in_bytes"];
            memory.extend(files.iter().filter_map(|file| number(&folder.join(file))));
            processes.extend(number(&folder.join("pids.max")));
        }
        Together::of(memory.into_iter().min(), processes.into_iter().min())
    }

    /// Of so much in all, the part that is for workloads.
    fn of(memory: Option<u64>, processes: Option<u64>) -> Together {
        let left = |all: u64| (all / 8).clamp(MEMORY_LEFT_MIN, MEMORY_LEFT_MAX).min(all / 2);
        Together {
            memory_bytes: memory.map(|all| all - left(all)),
            processes: processes.map(|all| all - all / 4),
        }
    }

    /// Sets the bounds in whichever of the groups can; the names of those that none can.
    pub(super) fn set(self, groups: &[PathBuf]) -> Vec<&'static str> {
        let bounds = [
            ("memory", self.memory_bytes.map(memory_settings)),
            ("processes", self.processes.map(process_settings)),
            ("share of the processor", Some(share_settings(SHARE_PERCENT))),
        ];
        let failed = bounds.into_iter().filter(|(_, settings)| {
            settings.as_ref().is_none_or(|settings| set_one(groups, settings).is_err())
        });
        failed.map(|(what, _)| what).collect()
    }
}

/// Our own group and those above it, whose bounds hold for us too.
fn above(hierarchy: &Hierarchy) -> Vec<PathBuf> {
    let own = hierarchy.own();
    let inside = own.ancestors().take_while(|folder| folder.starts_with(&hierarchy.mount));
    inside.map(Path::to_owned).collect()
}

/// Nothing for `max`.
fn number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

fn memory_of(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_to_the_machine_is_a_part_within_bounds() {
        let workloads = |megabytes: u64| {
            let together = Together::of(Some(megabytes << 20), None);
            together.memory_bytes.map(|bytes| bytes >> 20)
        };
        assert_eq!(workloads(128), Some(64));
        assert_eq!(workloads(512), Some(384));
        assert_eq!(workloads(4096), Some(3584));
        assert_eq!(workloads(65_536), Some(64_512));
        assert_eq!(Together::of(None, Some(32_768)).processes, Some(24_576));
        assert_eq!(memory_of("MemFree: 1 kB\nMemTotal:       2048 kB\n"), Some(2 << 20));
    }

    #[test]
    fn each_bound_goes_where_its_controller_is_and_what_is_missing_is_named() {
        let root = tempfile::tempdir().unwrap();
        let (one, other) = (root.path().join("memory"), root.path().join("rest"));
        for (folder, file) in [(&one, "memory.limit_in_bytes"), (&other, "pids.max")] {
            fs::create_dir(folder).unwrap();
            fs::write(folder.join(file), "max").unwrap();
        }
        let together = Together { memory_bytes: Some(4096), processes: Some(7) };
        let missing = together.set(&[one.clone(), other.clone()]);
        assert_eq!(missing, ["share of the processor"]);
        assert_eq!(number(&one.join("memory.limit_in_bytes")), Some(4096));
        assert_eq!(number(&other.join("pids.max")), Some(7));
        fs::write(other.join("cpu.weight"), "100").unwrap();
        assert!(together.set(&[one, other.clone()]).is_empty());
        assert_eq!(number(&other.join("cpu.weight")), Some(50));
        let unknown = Together::default().set(&[other]);
        assert_eq!(unknown, ["memory", "processes"], "what is not known is bounded by nothing");
    }
}
