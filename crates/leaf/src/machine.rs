//! What a machine does, from the texts of `/proc`, under the names of node_exporter. Start at [`samples`].
//!
//! A line that is not understood is left out, and so is a number that is none: a kernel of tomorrow costs a
//! series and not the rest.

use crate::Measured;
use crate::measured::Moment;
use crate::power::Power;

/// What one of the two words of `/proc/stat` for a tick means is fixed for programs, whatever the kernel's own.
const TICKS_PER_SECOND: f64 = 100.0;
/// `/proc/diskstats` counts in these whatever the disk does.
const SECTOR_BYTES: f64 = 512.0;

/// More of a kind than this are left out: a series costs everybody on its way.
const PROCESSORS_MAX: usize = 256;
const DISKS_MAX: usize = 32;
const INTERFACES_MAX: usize = 32;

/// What was read, as it stands in the files; empty where there is no such file.
#[derive(Clone, Debug, Default)]
pub struct Texts {
    /// `/proc/stat`
    pub stat: String,
    /// `/proc/loadavg`
    pub loadavg: String,
    /// `/proc/meminfo`
    pub meminfo: String,
    /// `/proc/diskstats`
    pub diskstats: String,
    /// `/proc/net/dev`
    pub netdev: String,
    /// Of `/proc/pressure`: `cpu`, `io`, `memory`, each with its text.
    pub pressure: Vec<(&'static str, String)>,
    pub filesystems: Vec<Filesystem>,
    /// Number and kind of a thermal zone, and degrees Celsius.
    pub zones: Vec<(String, String, f64)>,
    /// Number of a processor, and hertz.
    pub frequencies: Vec<(String, f64)>,
    /// Packages of processors: index, path and joules, where the kernel counts them.
    pub packages: Vec<(String, String, f64)>,
}

/// A file system that holds something.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Filesystem {
    pub device: String,
    pub kind: String,
    pub mountpoint: String,
    pub size_bytes: u64,
    pub available_bytes: u64,
}

/// Labels of the machine: `host` is its id, `node` its name.
#[derive(Clone, Copy, Debug)]
pub struct Whose<'a> {
    pub node: &'a str,
    pub host: &'a str,
}

impl<'a> Whose<'a> {
    /// `site`, `node` and the names of ICOS for them are put on by the server, which knows the certificate.
    pub(crate) fn labels(self) -> Vec<(&'a str, &'a str)> {
        vec![("job", "node"), ("instance", self.node), ("icos_host_id", self.host)]
    }
}

/// All samples of one reading.
pub fn samples(
    texts: &Texts,
    power: Option<&Power>,
    whose: Whose<'_>,
    at_ms: i64,
) -> Vec<Measured> {
    let mut moment = Moment::new(at_ms, whose.labels());
    moment.put("up", &[], 1.0);
    stat(&texts.stat, &mut moment);
    load(&texts.loadavg, &mut moment);
    memory(&texts.meminfo, &mut moment);
    disks(&texts.diskstats, &mut moment);
    network(&texts.netdev, &mut moment);
    for (what, text) in &texts.pressure {
        pressure(what, text, &mut moment);
    }
    filesystems(&texts.filesystems, &mut moment);
    for (zone, kind, celsius) in &texts.zones {
        moment.put("node_thermal_zone_temp", &[("zone", zone), ("type", kind)], *celsius);
    }
    for (cpu, hertz) in texts.frequencies.iter().take(PROCESSORS_MAX) {
        moment.put("node_cpu_scaling_frequency_hertz", &[("cpu", cpu)], *hertz);
    }
    for (index, path, joules) in &texts.packages {
        moment.put("node_rapl_package_joules_total", &[("index", index), ("path", path)], *joules);
    }
    if let Some(power) = power {
        let source = [("source", power.source.word())];
        moment.put("tombolo_node_power_watts", &source, power.watts);
        moment.put("tombolo_node_energy_joules_total", &source, power.joules);
        moment.put("scaph_host_energy_microjoules_total", &source, power.joules * 1e6);
    }
    moment.found
}

/// Names of the numbers in a line of a processor. Time for guests is within that of users.
const MODES: [&str; 8] = ["user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal"];

fn stat(text: &str, moment: &mut Moment<'_>) {
    let mut processors = 0;
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let Some(word) = words.next() else { continue };
        let mut first = || words.next().and_then(number);
        match word {
            "ctxt" => moment.put_some("node_context_switches_total", &[], first()),
            "btime" => moment.put_some("node_boot_time_seconds", &[], first()),
            "processes" => moment.put_some("node_forks_total", &[], first()),
            "procs_running" => moment.put_some("node_procs_running", &[], first()),
            "procs_blocked" => moment.put_some("node_procs_blocked", &[], first()),
            "intr" => moment.put_some("node_intr_total", &[], first()),
            _ => {
                let Some(cpu) = word.strip_prefix("cpu").filter(|cpu| !cpu.is_empty()) else {
                    continue;
                };
                processors += 1;
                if processors > PROCESSORS_MAX {
                    continue;
                }
                for (mode, ticks) in MODES.iter().zip(words) {
                    let seconds = number(ticks).map(|ticks| ticks / TICKS_PER_SECOND);
                    let labels = [("cpu", cpu), ("mode", mode)];
                    moment.put_some("node_cpu_seconds_total", &labels, seconds);
                }
            }
        }
    }
}

/// The share of all processors that worked between two texts of `/proc/stat`; nothing if no time has
/// passed, or the counters went back.
pub fn busy_share(before: &str, now: &str) -> Option<f64> {
    let ((busy_before, all_before), (busy, all)) = (ticks(before)?, ticks(now)?);
    let passed = all - all_before;
    let busy = busy - busy_before;
    (passed > 0.0 && busy >= 0.0).then(|| (busy / passed).min(1.0))
}

/// Ticks in which all processors together worked, and all of them.
fn ticks(stat: &str) -> Option<(f64, f64)> {
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    let numbers: Vec<f64> = line.split_whitespace().take(MODES.len()).filter_map(number).collect();
    let idle = |place: &usize| matches!(MODES[*place], "idle" | "iowait" | "steal");
    let all: f64 = numbers.iter().sum();
    let away: f64 = (0..numbers.len()).filter(idle).map(|place| numbers[place]).sum();
    (numbers.len() >= 4).then_some((all - away, all))
}

fn load(text: &str, moment: &mut Moment<'_>) {
    let names = ["node_load1", "node_load5", "node_load15"];
    for (name, word) in names.iter().zip(text.split_whitespace()) {
        moment.put_some(name, &[], number(word));
    }
}

/// Of some fifty, those that somebody asks for.
const MEMORY: &[&str] = &[
    "MemTotal",
    "MemFree",
    "MemAvailable",
    "Buffers",
    "Cached",
    "SwapTotal",
    "SwapFree",
    "Active",
    "Inactive",
    "Dirty",
    "AnonPages",
    "Shmem",
    "SReclaimable",
];

fn memory(text: &str, moment: &mut Moment<'_>) {
    for line in text.lines() {
        let Some((name, rest)) = line.split_once(':') else { continue };
        if MEMORY.contains(&name) {
            let kibibytes = rest.split_whitespace().next().and_then(number);
            let bytes = kibibytes.map(|kibibytes| kibibytes * 1024.0);
            moment.put_some(&format!("node_memory_{name}_bytes"), &[], bytes);
        }
    }
}

/// The columns of `/proc/diskstats` after the name, what they are called, and what makes the unit of each.
const DISK: &[(usize, &str, f64)] = &[
    (0, "node_disk_reads_completed_total", 1.0),
    (2, "node_disk_read_bytes_total", SECTOR_BYTES),
    (3, "node_disk_read_time_seconds_total", 0.001),
    (4, "node_disk_writes_completed_total", 1.0),
    (6, "node_disk_written_bytes_total", SECTOR_BYTES),
    (7, "node_disk_write_time_seconds_total", 0.001),
    (8, "node_disk_io_now", 1.0),
    (9, "node_disk_io_time_seconds_total", 0.001),
    (10, "node_disk_io_time_weighted_seconds_total", 0.001),
];

fn disks(text: &str, moment: &mut Moment<'_>) {
    let lines = text.lines().map(|line| line.split_whitespace().skip(2).collect::<Vec<_>>());
    let lines = lines.filter(|words| words.first().is_some_and(|name| is_disk(name)));
    for words in lines.take(DISKS_MAX) {
        let device = [("device", words[0])];
        for (column, name, unit) in DISK {
            let value = words.get(column + 1).and_then(|word| number(word));
            moment.put_some(name, &device, value.map(|value| value * unit));
        }
    }
}

/// Whole disks: what their partitions do they do, and loops and memory are none.
fn is_disk(name: &str) -> bool {
    let none = ["loop", "ram", "zram", "fd", "sr"];
    let numbered = name.ends_with(|last: char| last.is_ascii_digit());
    let parts = if name.starts_with("nvme") || name.starts_with("mmcblk") {
        name.rsplit_once('p').is_some_and(|(disk, part)| {
            disk.ends_with(|last: char| last.is_ascii_digit())
                && !part.is_empty()
                && part.chars().all(|digit| digit.is_ascii_digit())
        })
    } else {
        ["sd", "hd", "vd", "xvd"].iter().any(|kind| name.starts_with(kind)) && numbered
    };
    !parts && !none.iter().any(|kind| name.starts_with(kind))
}

/// The columns of `/proc/net/dev`.
const NETWORK: &[(usize, &str)] = &[
    (0, "node_network_receive_bytes_total"),
    (1, "node_network_receive_packets_total"),
    (2, "node_network_receive_errs_total"),
    (3, "node_network_receive_drop_total"),
    (8, "node_network_transmit_bytes_total"),
    (9, "node_network_transmit_packets_total"),
    (10, "node_network_transmit_errs_total"),
    (11, "node_network_transmit_drop_total"),
];

fn network(text: &str, moment: &mut Moment<'_>) {
    let rows = text.lines().filter_map(|line| line.split_once(':'));
    let rows = rows.map(|(name, rest)| (name.trim(), rest));
    // What goes through the end of a container's cable goes through a bridge as well, and such ends come and go.
    let rows = rows.filter(|(name, _)| *name != "lo" && !name.starts_with("veth"));
    for (device, rest) in rows.take(INTERFACES_MAX) {
        let words: Vec<&str> = rest.split_whitespace().collect();
        for (column, name) in NETWORK {
            let value = words.get(*column).and_then(|word| number(word));
            moment.put_some(name, &[("device", device)], value);
        }
    }
}

fn pressure(what: &str, text: &str, moment: &mut Moment<'_>) {
    for line in text.lines() {
        let kind = line.split_whitespace().next().unwrap_or_default();
        let total = line.rsplit_once("total=").and_then(|(_, micros)| number(micros));
        let kind = match kind {
            "some" => "waiting",
            // Processors have none that means something.
            "full" if what != "cpu" => "stalled",
            _ => continue,
        };
        let name = format!("node_pressure_{what}_{kind}_seconds_total");
        moment.put_some(&name, &[], total.map(|micros| micros / 1e6));
    }
}

fn filesystems(found: &[Filesystem], moment: &mut Moment<'_>) {
    for one in found {
        let labels = [
            ("device", one.device.as_str()),
            ("fstype", &one.kind),
            ("mountpoint", &one.mountpoint),
        ];
        moment.put("node_filesystem_size_bytes", &labels, one.size_bytes as f64);
        moment.put("node_filesystem_avail_bytes", &labels, one.available_bytes as f64);
    }
}

/// The file systems in a text of `/proc/mounts` that hold something, each device once: device, kind, place.
pub fn mounts(text: &str) -> Vec<(String, String, String)> {
    const KINDS: &[&str] =
        &["ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "vfat", "overlay"];
    const PLACES_MAX: usize = 16;
    let mut found: Vec<(String, String, String)> = Vec::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [device, place, kind, ..] = words[..] else { continue };
        // A container's root lies on a disk that is there already; that of this machine is told.
        let wanted = KINDS.contains(&kind) && (kind != "overlay" || place == "/");
        let known = found.iter().any(|(other, _, at)| other == device || at == place);
        if wanted && !known && found.len() < PLACES_MAX {
            found.push((device.to_owned(), kind.to_owned(), unescaped(place)));
        }
    }
    found
}

/// The kernel writes blanks in names as `\040`.
fn unescaped(name: &str) -> String {
    name.replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\")
}

fn number(word: &str) -> Option<f64> {
    word.trim().parse().ok().filter(|number: &f64| number.is_finite())
}

#[cfg(test)]
mod tests;
