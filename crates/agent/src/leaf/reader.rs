//! Reads the files that `tombolo_leaf` makes samples of: [`Reader::read`]. It may wait for a disk, so it is
//! called where that holds up nobody.

use tombolo_host::Root;
use tombolo_leaf::machine::{self, Filesystem, Texts};
use tombolo_leaf::power::{Meter, Model, Power};
use tombolo_plan::Monotonic;

const ZONES: &str = "/sys/class/thermal";
const PROCESSORS: &str = "/sys/devices/system/cpu";
/// Some machines have dozens of sensors, and each takes time to ask.
const ZONES_MAX: usize = 16;
const PROCESSORS_MAX: usize = 256;

/// Remembers the last reading, from which power is taken.
#[derive(Debug)]
pub(super) struct Reader {
    root: Root,
    /// The agent's own folder: its disk is told also where the table of mounts does not show it.
    data: String,
    meter: Meter,
    before: Option<(Monotonic, String)>,
    /// Which sensors and processors there are, by the first look: folders of `/sys` take time to list.
    zones: Vec<(String, String)>,
    processors: Vec<String>,
}

impl Reader {
    pub(super) fn new(root: Root, data: String) -> Reader {
        let number = |name: &str, kind: &str| {
            let number = name.strip_prefix(kind)?;
            number.parse::<u32>().ok().map(|_| number.to_owned())
        };
        let zones = root.list(ZONES);
        let zones = zones.iter().filter_map(|name| number(name, "thermal_zone")).take(ZONES_MAX);
        let kind = |zone: String| {
            let kind = root.text(&format!("{ZONES}/thermal_zone{zone}/type")).unwrap_or_default();
            (zone, kind)
        };
        let zones = zones.map(kind).collect();
        let processors = root.list(PROCESSORS);
        let processors = processors.iter().filter_map(|name| number(name, "cpu"));
        let processors =
            processors.filter(|cpu| root.exists(&frequency(cpu))).take(PROCESSORS_MAX).collect();
        Reader { root, data, meter: Meter::default(), before: None, zones, processors }
    }

    pub(super) fn read(&mut self, model: Option<Model>, now: Monotonic) -> (Texts, Option<Power>) {
        let root = &self.root;
        let text = |path: &str| root.read(path).present().unwrap_or_default();
        let pressure = ["cpu", "io", "memory"];
        let pressure = pressure.map(|what| (what, text(&format!("/proc/pressure/{what}"))));
        let packages = tombolo_host::power::packages_of_energy(root);
        let joules = |package: &tombolo_host::power::Package| {
            #[expect(clippy::cast_precision_loss, reason = "a sample is a float")]
            let joules = package.microjoules as f64 / 1e6;
            (package.index.clone(), package.path.clone(), joules)
        };
        let texts = Texts {
            stat: text("/proc/stat"),
            loadavg: text("/proc/loadavg"),
            meminfo: text("/proc/meminfo"),
            diskstats: text("/proc/diskstats"),
            netdev: text("/proc/net/dev"),
            pressure: pressure.into(),
            filesystems: self.filesystems(&text("/proc/mounts")),
            zones: self.temperatures(),
            frequencies: self.frequencies(),
            packages: packages.iter().map(joules).collect(),
        };
        let counters = packages.iter().map(|one| (one.microjoules, one.microjoules_max)).collect();
        let power = match self.before.take() {
            None => {
                self.meter.begin(counters);
                None
            }
            Some((then, stat)) => {
                let busy = machine::busy_share(&stat, &texts.stat);
                self.meter.read(counters, model, busy, now.since(then))
            }
        };
        self.before = Some((now, texts.stat.clone()));
        (texts, power)
    }

    fn filesystems(&self, mounts: &str) -> Vec<Filesystem> {
        let space = |device: String, kind: String, mountpoint: String| {
            let space = self.root.space(&mountpoint)?;
            let (size_bytes, available_bytes) = (space.bytes_total, space.bytes_free);
            Some(Filesystem { device, kind, mountpoint, size_bytes, available_bytes })
        };
        let mut found: Vec<Filesystem> = machine::mounts(mounts)
            .into_iter()
            .filter_map(|(device, kind, mountpoint)| space(device, kind, mountpoint))
            .collect();
        if found.is_empty() {
            let of_agent = space("data".to_owned(), String::new(), self.data.clone());
            found.extend(of_agent);
        }
        found
    }

    fn temperatures(&self) -> Vec<(String, String, f64)> {
        let celsius = |(zone, kind): &(String, String)| {
            let path = format!("{ZONES}/thermal_zone{zone}/temp");
            let celsius = self.root.number::<f64>(&path)? / 1000.0;
            // Sensors that are switched off answer with impossible values.
            let is_possible = (-60.0..=200.0).contains(&celsius);
            is_possible.then(|| (zone.clone(), kind.clone(), celsius))
        };
        self.zones.iter().filter_map(celsius).collect()
    }

    fn frequencies(&self) -> Vec<(String, f64)> {
        let hertz = |cpu: &String| {
            let kilohertz = self.root.number::<f64>(&frequency(cpu))?;
            Some((cpu.clone(), kilohertz * 1000.0))
        };
        self.processors.iter().filter_map(hertz).collect()
    }
}

fn frequency(cpu: &str) -> String {
    format!("{PROCESSORS}/cpu{cpu}/cpufreq/scaling_cur_freq")
}
