//! The samples of the comparisons with a real Prometheus, as text.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::queries::{BASE_MS, Chance};

/// Lines of exposition, each under the family and the kind that it is to be told with.
#[derive(Default)]
struct Families(BTreeMap<&'static str, (&'static str, Vec<String>)>);

impl Families {
    fn put(&mut self, family: &'static str, kind: &'static str, line: String) {
        self.0.entry(family).or_insert((kind, Vec::new())).1.push(line);
    }

    /// One text, each series in one piece.
    fn text(self) -> String {
        let mut text = String::new();
        for (family, (kind, mut lines)) in self.0 {
            lines.sort_by_key(|line| line.split(' ').next().unwrap().to_owned());
            let mut last = String::new();
            for line in lines {
                let name = if kind == "counter" { family } else { line.split('{').next().unwrap() };
                if name != last {
                    let _ = writeln!(text, "# TYPE {name} {kind}");
                    name.clone_into(&mut last);
                }
                let _ = writeln!(text, "{line}");
            }
        }
        text.push_str("# EOF\n");
        text
    }
}

/// What one instance of a job tells.
struct Told {
    job: &'static str,
    instance: &'static str,
    counters: [f64; 3],
    buckets: [u64; 6],
    gauge: f64,
}

impl Told {
    fn at(&mut self, step: i64, chance: &mut Chance, families: &mut Families) {
        let at = (BASE_MS + step * 15_000 + (chance.below(5) as i64 - 2)) as f64 / 1000.0;
        let Told { job, instance, .. } = *self;
        let gap = instance == "b:1" && (100..140).contains(&step);
        let ended = instance == "c:1" && step > 300;
        if gap || ended {
            return;
        }
        let of = format!("job=\"{job}\",instance=\"{instance}\"");
        for (number, code) in ["200", "404", "500"].iter().enumerate() {
            let counter = &mut self.counters[number];
            *counter += (chance.below(100) / (number as u64 + 1)) as f64;
            if step == 200 + number as i64 * 7 {
                *counter = 3.0;
            }
            let line = format!("http_requests_total{{{of},code=\"{code}\"}} {counter} {at:.3}");
            families.put("http_requests", "counter", line);
        }
        self.gauge += (chance.below(2001) as f64 - 1000.0) / 500.0;
        families.put("temperature", "gauge", format!("temperature{{{of}}} {} {at:.3}", self.gauge));
        let odd = match step % 40 {
            7 => "NaN".to_owned(),
            17 => "+Inf".to_owned(),
            27 => "-Inf".to_owned(),
            _ => format!("{}", chance.below(7)),
        };
        families.put("odd", "gauge", format!("odd{{{of}}} {odd} {at:.3}"));
        let place = chance.below(6) as usize;
        self.buckets[place..].iter_mut().for_each(|count| *count += 1 + chance.0 % 3);
        for (le, count) in ["0.1", "0.5", "1", "2.5", "10", "+Inf"].iter().zip(&self.buckets) {
            let line = format!("latency_bucket{{{of},le=\"{le}\"}} {count} {at:.3}");
            families.put("latency", "gauge", line);
        }
        let build = format!("build_info{{{of},version=\"1.{}\"}} 1 {at:.3}", job.len());
        families.put("build", "gauge", build);
        let region = instance.len() + job.len();
        families.put(
            "target",
            "gauge",
            format!("target_info{{{of},region=\"r{region}\"}} 1 {at:.3}"),
        );
    }
}

/// Two hours of samples at 15 s, always the same: counters that begin anew, gauges, histograms, series that
/// end, gaps, NaN and infinities.
pub(crate) fn text() -> String {
    let mut chance = Chance(42);
    let mut families = Families::default();
    for (job, instance) in [("api", "a:1"), ("api", "b:1"), ("db", "a:1"), ("db", "c:1")] {
        let mut told = Told { job, instance, counters: [0.0; 3], buckets: [0; 6], gauge: 20.0 };
        for step in 0..480_i64 {
            told.at(step, &mut chance, &mut families);
        }
    }
    families.text()
}
