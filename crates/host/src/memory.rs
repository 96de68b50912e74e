//! Main memory, and the part of the machine that a control group leaves to us. Called by
//! [`crate::characterise`] and [`crate::load`].

use crate::root::Root;

/// Anything above is how the first version of control groups says that there is no limit.
const LIMIT_BYTES_MAX: u64 = 1 << 60;

/// What `/proc/meminfo` says, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    pub total: Option<u64>,
    /// What could be had without swapping.
    pub available: Option<u64>,
    pub swap_total: Option<u64>,
    pub swap_free: Option<u64>,
}

/// What a container may use of the machine it is on; nothing where there is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    pub memory_bytes: Option<u64>,
    pub cpu_millis: Option<u64>,
}

pub fn read(root: &Root) -> Memory {
    parse_meminfo(&root.read("/proc/meminfo").present().unwrap_or_default())
}

pub fn parse_meminfo(text: &str) -> Memory {
    let field = |name: &str| {
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        let kilobytes: u64 = value.trim().strip_suffix("kB")?.trim().parse().ok()?;
        kilobytes.checked_mul(1024)
    };
    // Kernels before 3.14 do not say what is available; what is free and cached comes near.
    let guessed = || Some(field("MemFree")? + field("Buffers")? + field("Cached")?);
    Memory {
        total: field("MemTotal"),
        available: field("MemAvailable").or_else(guessed),
        swap_total: field("SwapTotal"),
        swap_free: field("SwapFree"),
    }
}

/// The limits of the control group that this process sees at the top: the limits of its container.
pub fn limits(root: &Root) -> Limits {
    let memory = root
        .text("/sys/fs/cgroup/memory.max")
        .or_else(|| root.text("/sys/fs/cgroup/memory/memory.limit_in_bytes"));
    let cpu = root.text("/sys/fs/cgroup/cpu.max").or_else(|| {
        let quota = root.text("/sys/fs/cgroup/cpu/cpu.cfs_quota_us")?;
        Some(format!("{quota} {}", root.text("/sys/fs/cgroup/cpu/cpu.cfs_period_us")?))
    });
    Limits {
        memory_bytes: memory.and_then(|text| parse_memory_limit(&text)),
        cpu_millis: cpu.and_then(|text| parse_cpu_limit(&text)),
    }
}

fn parse_memory_limit(text: &str) -> Option<u64> {
    text.parse().ok().filter(|bytes| *bytes < LIMIT_BYTES_MAX)
}

/// `50000 100000` is half a core; `max 100000` and `-1 100000` are no limit.
fn parse_cpu_limit(text: &str) -> Option<u64> {
    let (quota, period) = text.split_once(' ')?;
    let (quota, period): (u64, u64) = (quota.parse().ok()?, period.trim().parse().ok()?);
    quota.checked_mul(1000)?.checked_div(period).map(|millis| millis.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_told_in_bytes() {
        let text = "MemTotal:       16 kB\nMemFree: 4 kB\nMemAvailable:    8 kB\nSwapTotal: 0 kB\n";
        let memory = parse_meminfo(text);
        assert_eq!((memory.total, memory.available), (Some(16 * 1024), Some(8 * 1024)));
        assert_eq!((memory.swap_total, memory.swap_free), (Some(0), None));
        let old = parse_meminfo("MemFree: 1 kB\nBuffers: 2 kB\nCached: 3 kB\n");
        assert_eq!(old.available, Some(6 * 1024));
        assert_eq!(parse_meminfo("MemTotal: lots\n"), Memory::default());
        assert_eq!(parse_meminfo("MemTotal: 99999999999999999999 kB\n"), Memory::default());
    }

    #[test]
    fn no_limit_has_many_spellings() {
        assert_eq!(parse_memory_limit("max"), None);
        assert_eq!(parse_memory_limit("9223372036854771712"), None);
        assert_eq!(parse_memory_limit("536870912"), Some(536_870_912));
        assert_eq!(parse_cpu_limit("max 100000"), None);
        assert_eq!(parse_cpu_limit("-1 100000"), None);
        assert_eq!(parse_cpu_limit("50000 100000"), Some(500));
        assert_eq!(parse_cpu_limit("50000 0"), None);
    }
}
