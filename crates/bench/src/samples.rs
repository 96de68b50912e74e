//! Samples like those of node_exporter, always the same: counters that grow by chance, gauges that wander,
//! and much that never changes.

use tombolo_series::{Labels, Sample};

/// From one scrape to the next.
pub(crate) const STEP_MS: i64 = 15_000;

/// Numbers that look random and are always the same (xorshift, Marsaglia 2003).
#[derive(Clone, Debug)]
pub(crate) struct Chance(pub(crate) u64);

impl Chance {
    pub(crate) fn below(&mut self, end: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        u32::try_from((self.0 >> 11) % u64::from(end)).expect("it is below a number of 32 bits")
    }
}

/// What a series does from one scrape to the next. A third of what node_exporter tells never changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Constant,
    Bytes,
    Seconds,
    Gauge,
    Slow,
}

#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) labels: Labels,
    kind: Kind,
    value: f64,
    chance: Chance,
}

impl Source {
    pub(crate) fn next(&mut self, at_ms: i64) -> Sample {
        let step = match self.kind {
            Kind::Constant => 0.0,
            Kind::Bytes => f64::from(self.chance.below(200_000)),
            Kind::Seconds => f64::from(self.chance.below(1500)) / 100.0,
            Kind::Gauge => f64::from(self.chance.below(2001)) * 4096.0 - 1000.0 * 4096.0,
            Kind::Slow => f64::from(u32::from(self.chance.below(20) == 0)),
        };
        self.value += step;
        if self.kind == Kind::Seconds {
            // As a program has it that counts hundredths.
            self.value = (self.value * 100.0).round() / 100.0;
        }
        Sample::new(at_ms, self.value)
    }
}

const METRICS: [(&str, Kind); 9] = [
    ("node_cpu_seconds_total", Kind::Seconds),
    ("node_network_receive_bytes_total", Kind::Bytes),
    ("node_disk_written_bytes_total", Kind::Bytes),
    ("node_memory_MemAvailable_bytes", Kind::Gauge),
    ("node_load1", Kind::Gauge),
    ("node_context_switches_total", Kind::Slow),
    ("node_filesystem_size_bytes", Kind::Constant),
    ("node_boot_time_seconds", Kind::Constant),
    ("node_uname_info", Kind::Constant),
];

/// So many series, of nodes that have a hundred each.
pub(crate) fn sources(count: usize) -> Vec<Source> {
    let one = |number: usize| {
        let (metric, kind) = METRICS[number % METRICS.len()];
        let (node, device) = (number / 100, number % 100);
        let labels = Labels::new([
            ("__name__".to_owned(), metric.to_owned()),
            ("job".to_owned(), "node".to_owned()),
            ("instance".to_owned(), format!("node-{node:05}:9100")),
            ("site".to_owned(), format!("site-{}", node % 20)),
            ("device".to_owned(), format!("dev{device}")),
            ("mode".to_owned(), ["idle", "user", "system", "iowait"][device % 4].to_owned()),
        ]);
        let seed = u64::try_from(number).unwrap_or_default() * 0x9E37_79B9_7F4A_7C15 + 1;
        Source { labels, kind, value: 1e9, chance: Chance(seed) }
    };
    (0..count).map(one).collect()
}
