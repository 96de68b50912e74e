//! How busy the machine is: cheap figures, for the telemetry of every few seconds. Called by the
//! agent; start reading at [`Sampler::sample`].

use serde::Serialize;

use crate::root::Root;
use crate::{memory, power};

/// Some machines have dozens of sensors, and each takes time to ask.
const SENSORS_MAX: usize = 16;

/// What was measured. What the machine does not tell is left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Load {
    /// Share of all processors that worked since the last sample, from 0 to 1; not in the first.
    pub cpu_busy: Option<f64>,
    /// Processes that ran or wanted to, averaged over one minute.
    pub load_average: Option<f64>,
    pub memory_total: Option<u64>,
    pub memory_available: Option<u64>,
    pub disk_total: Option<u64>,
    pub disk_free: Option<u64>,
    pub uptime_seconds: Option<f64>,
    /// The hottest sensor.
    pub temperature_celsius: Option<f64>,
    pub battery_level: Option<u8>,
    /// What the processors took since the last sample; nothing in the first.
    pub watts: Option<f64>,
}

/// Processor time since the start, in ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTime {
    pub busy: u64,
    pub all: u64,
}

/// Remembers the last sample, from which the shares are taken.
#[derive(Clone, Debug)]
pub struct Sampler {
    root: Root,
    data: String,
    cpu: Option<CpuTime>,
    uptime: Option<f64>,
    energy: Vec<(u64, u64)>,
}

impl Sampler {
    /// `data` is the folder whose disk is watched.
    pub fn new(root: Root, data: &str) -> Sampler {
        Sampler { root, data: data.to_owned(), cpu: None, uptime: None, energy: Vec::new() }
    }

    pub fn sample(&mut self) -> Load {
        let text = |path: &str| self.root.read(path).present().unwrap_or_default();
        let memory = memory::read(&self.root);
        let space = self.root.space(&self.data);
        let cpu = parse_stat(&text("/proc/stat"));
        let uptime = parse_first(&text("/proc/uptime"));
        let energy = power::energy_counters(&self.root);
        let load = Load {
            cpu_busy: self.cpu.zip(cpu).and_then(|(before, now)| share(before, now)),
            load_average: parse_first(&text("/proc/loadavg")),
            memory_total: memory.total,
            memory_available: memory.available,
            disk_total: space.map(|space| space.bytes_total),
            disk_free: space.map(|space| space.bytes_free),
            uptime_seconds: uptime,
            temperature_celsius: temperature(&self.root),
            battery_level: power::battery_exact(&self.root).and_then(|battery| battery.level),
            watts: self
                .uptime
                .zip(uptime)
                .and_then(|(before, now)| watts(&self.energy, &energy, now - before)),
        };
        (self.cpu, self.uptime, self.energy) = (cpu, uptime, energy);
        load
    }
}

/// Reads the first line of `/proc/stat`. Time for guests is within that of users, and what a
/// hypervisor took is no work of ours.
pub fn parse_stat(text: &str) -> Option<CpuTime> {
    let line = text.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<u64> = line.split_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
    let [user, nice, system, idle, rest @ ..] = &ticks[..] else { return None };
    let extra = |place: usize| rest.get(place).copied().unwrap_or(0);
    let (waiting, interrupts, soft, stolen) = (extra(0), extra(1), extra(2), extra(3));
    let busy = [*user, *nice, *system, interrupts, soft].into_iter().fold(0, u64::saturating_add);
    let all = [busy, *idle, waiting, stolen].into_iter().fold(0, u64::saturating_add);
    Some(CpuTime { busy, all })
}

/// Nothing if no time has passed, or the counters went back.
fn share(before: CpuTime, now: CpuTime) -> Option<f64> {
    let all = now.all.checked_sub(before.all).filter(|all| *all > 0)?;
    let busy = now.busy.checked_sub(before.busy)?;
    #[expect(clippy::cast_precision_loss, reason = "a share needs no exact ticks")]
    Some((busy as f64 / all as f64).clamp(0.0, 1.0))
}

/// Each counter begins again at its own limit.
fn watts(before: &[(u64, u64)], now: &[(u64, u64)], seconds: f64) -> Option<f64> {
    if before.is_empty() || before.len() != now.len() || seconds <= 0.0 {
        return None;
    }
    let used = before.iter().zip(now).map(|((before, _), (now, limit))| {
        now.checked_sub(*before)
            .unwrap_or_else(|| limit.saturating_sub(*before).saturating_add(*now))
    });
    #[expect(clippy::cast_precision_loss, reason = "power needs no exact microjoules")]
    let joules = used.fold(0, u64::saturating_add) as f64 / 1e6;
    Some((joules / seconds * 100.0).round() / 100.0)
}

/// The first number of a file such as `/proc/uptime`.
fn parse_first(text: &str) -> Option<f64> {
    text.split_whitespace().next()?.parse().ok().filter(|number: &f64| number.is_finite())
}

fn temperature(root: &Root) -> Option<f64> {
    let folder = "/sys/class/thermal";
    let zones = crate::processor::numbered(root, folder, "thermal_zone").take(SENSORS_MAX);
    let degrees = zones
        .filter_map(|zone| root.number::<f64>(&format!("{folder}/{zone}/temp")))
        .map(|thousandths| thousandths / 1000.0)
        // Sensors that are switched off answer with impossible values.
        .filter(|degrees| (-60.0..=200.0).contains(degrees));
    degrees.max_by(f64::total_cmp)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_is_what_is_neither_idle_nor_waiting_nor_stolen() {
        let time = parse_stat("cpu  10 20 30 100 5 3 2 7 4 0\ncpu0 1 1 1 1\n").unwrap();
        assert_eq!(time, CpuTime { busy: 65, all: 65 + 100 + 5 + 7 });
        assert_eq!(parse_stat("cpu  1 2 3 4\n"), Some(CpuTime { busy: 6, all: 10 }));
        for broken in ["", "cpu", "cpu 1 2 3", "cpu a b c d", "intr 1 2 3 4 5"] {
            assert_eq!(parse_stat(broken), None, "{broken:?}");
        }
    }

    #[test]
    fn counters_that_stand_still_or_go_back_give_no_share() {
        let at = |busy, all| CpuTime { busy, all };
        assert_eq!(share(at(0, 0), at(25, 100)), Some(0.25));
        assert_eq!(share(at(5, 100), at(5, 100)), None);
        assert_eq!(share(at(50, 100), at(10, 90)), None);
        assert_eq!(share(at(50, 100), at(10, 200)), None);
    }

    #[test]
    fn an_energy_counter_may_begin_again() {
        assert_eq!(watts(&[(1_000_000, 9)], &[(3_000_000, 9)], 2.0), Some(1.0));
        assert_eq!(watts(&[(9_000_000, 10_000_000)], &[(1_000_000, 10_000_000)], 1.0), Some(2.0));
        assert_eq!(watts(&[], &[], 1.0), None);
        assert_eq!(watts(&[(0, 9)], &[(1, 9)], 0.0), None);
    }
}
