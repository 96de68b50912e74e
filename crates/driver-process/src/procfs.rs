//! What the kernel says of processes. Used by the driver to know its own again, and by the
//! supervisor to leave nothing behind.
//!
//! A process number alone says nothing: it is given to somebody else soon after. Together with the
//! time of its start, in ticks since the boot, it names one process for as long as the machine
//! runs; together with the boot's id, for ever.

use std::fs;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// One process, for as long as the machine runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProcessKey {
    pub(crate) pid: u32,
    /// In ticks since the boot.
    pub(crate) started: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) state: char,
    pub(crate) parent: u32,
    /// Processor time of it and of the children it has waited for.
    pub(crate) cpu_ticks: u64,
    pub(crate) started: u64,
    pub(crate) resident_pages: u64,
}

impl ProcessKey {
    /// The key of a process that runs now.
    pub(crate) fn of(pid: u32) -> Option<ProcessKey> {
        Some(ProcessKey { pid, started: stat(pid)?.started })
    }

    /// Whether it still runs: it is there, it is the same, and it is no zombie.
    pub(crate) fn alive(self) -> bool {
        stat(self.pid)
            .is_some_and(|stat| stat.started == self.started && !matches!(stat.state, 'Z' | 'X'))
    }
}

pub(crate) fn stat(pid: u32) -> Option<Stat> {
    read_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// The name of the program may hold anything, blanks and brackets too; what follows the last
/// bracket does not.
fn read_stat(text: &str) -> Option<Stat> {
    let rest = &text[text.rfind(')')? + 1..];
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    // The manual counts fields from 1, and the first two are before the bracket.
    let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    Some(Stat {
        state: fields.first()?.chars().next()?,
        parent: fields.get(1)?.parse().ok()?,
        cpu_ticks: number(14)? + number(15)? + number(16)? + number(17)?,
        started: number(22)?,
        resident_pages: number(24)?,
    })
}

/// Every process there is.
pub(crate) fn all() -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// The children of `ancestor`, their children, and so on.
pub(crate) fn descendants(ancestor: u32) -> Vec<u32> {
    let parents: Vec<(u32, u32)> =
        all().into_iter().filter_map(|pid| Some((pid, stat(pid)?.parent))).collect();
    let mut found = vec![ancestor];
    let mut looked_at = 0;
    while let Some(parent) = found.get(looked_at).copied() {
        let children = parents.iter().filter(|(pid, of)| *of == parent && *pid != parent);
        found.extend(children.map(|(pid, _)| *pid));
        looked_at += 1;
        // A number that was given away between two reads could close a circle.
        if found.len() > parents.len() + 1 {
            break;
        }
    }
    found.split_off(1)
}

/// The environment that a process was started with, as `NAME=value` each.
pub(crate) fn environment(pid: u32) -> Option<Vec<Vec<u8>>> {
    strings(&format!("/proc/{pid}/environ"))
}

/// The program of a process and its arguments, without those that are empty.
pub(crate) fn arguments(pid: u32) -> Option<Vec<Vec<u8>>> {
    strings(&format!("/proc/{pid}/cmdline"))
}

fn strings(path: &str) -> Option<Vec<Vec<u8>>> {
    let bytes = fs::read(path).ok()?;
    let entries = bytes.split(|byte| *byte == 0).filter(|entry| !entry.is_empty());
    Some(entries.map(<[u8]>::to_vec).collect())
}

/// The name of the program that a process runs.
pub(crate) fn name(pid: u32) -> Option<String> {
    Some(fs::read_to_string(format!("/proc/{pid}/comm")).ok()?.trim_end().to_owned())
}

/// Differs after every start of the machine.
pub(crate) fn boot_id() -> String {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    id.trim().to_owned()
}

/// How long the machine has been up, asleep or awake. Nobody can set it.
pub(crate) fn since_boot() -> Duration {
    let time = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_and_blanks_does_not_move_the_fields() {
        let text =
            "42 (a) b) S 7 42 42 0 -1 4194560 1 2 3 4 10 20 30 40 20 0 1 0 555 1000 99 18446";
        let expected =
            Stat { state: 'S', parent: 7, cpu_ticks: 100, started: 555, resident_pages: 99 };
        assert_eq!(read_stat(text), Some(expected));
        assert_eq!(read_stat("42 (a"), None);
        assert_eq!(read_stat("42 (a) S 7"), None);
    }

    #[test]
    fn another_start_time_is_another_process() {
        let own = ProcessKey::of(std::process::id()).unwrap();
        assert!(own.alive());
        assert!(!ProcessKey { started: own.started + 1, ..own }.alive());
    }
}
