//! The samples of a minute, by series, until they are sent: [`Gathering`].

use std::collections::{BTreeMap, HashMap, HashSet};

use tombolo_series::{Labels, Sample};

use crate::Measured;

/// Samples between two sendings. A machine has some hundred series, of which each has four; with a hundred
/// times that something is wrong, and memory matters more.
pub const SAMPLES_MAX: usize = 100_000;

#[derive(Debug, Default)]
pub struct Gathering {
    series: Vec<(Labels, Vec<Sample>)>,
    /// Where in `series` each is.
    places: HashMap<Labels, usize>,
    samples: usize,
    /// Which series each source had when it was read last.
    present: BTreeMap<&'static str, HashSet<Labels>>,
    taken: u64,
    dropped: u64,
}

impl Gathering {
    /// All that a source has at this time. What it had before and has no more ends: it gets a marker of
    /// staleness, so that nobody is shown for minutes what is gone.
    pub fn see(&mut self, source: &'static str, at_ms: i64, found: Vec<Measured>) {
        let mut now = HashSet::with_capacity(found.len());
        for measured in found {
            now.insert(measured.labels.clone());
            self.push(measured);
        }
        let before = self.present.insert(source, now).unwrap_or_default();
        let now = &self.present[source];
        let mut gone: Vec<Labels> = before.into_iter().filter(|one| !now.contains(one)).collect();
        gone.sort_by_key(ToString::to_string);
        for labels in gone {
            self.put(labels, Sample::stale(at_ms));
        }
    }

    /// One more value, of a series that nobody watches for its end.
    pub fn push(&mut self, measured: Measured) {
        self.put(measured.labels, Sample::new(measured.at_ms, measured.value));
    }

    fn put(&mut self, labels: Labels, sample: Sample) {
        if self.samples >= SAMPLES_MAX {
            self.dropped += 1;
            return;
        }
        let place = *self.places.entry(labels).or_insert_with_key(|labels| {
            self.series.push((labels.clone(), Vec::new()));
            self.series.len() - 1
        });
        let samples = &mut self.series[place].1;
        // A clock that was set back, or read twice in one millisecond, makes no second value of one time.
        if samples.last().is_some_and(|last| last.at_ms == sample.at_ms) {
            self.dropped += 1;
            return;
        }
        samples.push(sample);
        self.samples += 1;
        self.taken += 1;
    }

    /// What was gathered since the last time.
    pub fn take(&mut self) -> Vec<(Labels, Vec<Sample>)> {
        self.places.clear();
        self.samples = 0;
        std::mem::take(&mut self.series)
    }

    /// Samples so far, since the start.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// Samples that were too many, since the start.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn up(at_ms: i64, disk: &str) -> Measured {
        Measured::new(at_ms, "size", &[("disk", disk)], 1.0)
    }

    fn text(taken: &[(Labels, Vec<Sample>)]) -> Vec<String> {
        let one = |sample: &Sample| {
            let end = if sample.is_stale() { "end" } else { "" };
            format!("{}{end}", sample.at_ms)
        };
        taken
            .iter()
            .map(|(labels, samples)| {
                let samples: Vec<String> = samples.iter().map(one).collect();
                format!("{} {}", labels.get("disk"), samples.join(" "))
            })
            .collect()
    }

    #[test]
    fn what_a_source_has_no_more_ends_once() {
        let mut gathering = Gathering::default();
        gathering.see("machine", 1, vec![up(1, "a"), up(1, "b")]);
        gathering.see("machine", 2, vec![up(2, "a")]);
        gathering.see("machine", 3, vec![up(3, "a")]);
        assert_eq!(text(&gathering.take()), ["a 1 2 3", "b 1 2end"]);
        gathering.see("machine", 4, vec![up(4, "b")]);
        assert_eq!(text(&gathering.take()), ["b 4", "a 4end"], "also over a sending");
    }

    #[test]
    fn sources_do_not_end_what_others_have() {
        let mut gathering = Gathering::default();
        gathering.see("machine", 1, vec![up(1, "a")]);
        gathering.see("workloads", 1, vec![up(1, "b")]);
        gathering.push(up(1, "c"));
        gathering.see("workloads", 2, Vec::new());
        assert_eq!(text(&gathering.take()), ["a 1", "b 1 2end", "c 1"]);
    }

    #[test]
    fn there_is_one_value_of_one_time_and_a_bound_on_all() {
        let mut gathering = Gathering::default();
        gathering.push(up(1, "a"));
        gathering.push(up(1, "a"));
        assert_eq!((gathering.taken(), gathering.dropped()), (1, 1));
        for at_ms in 2..=SAMPLES_MAX as i64 + 10 {
            gathering.push(up(at_ms, "a"));
        }
        assert_eq!(gathering.taken(), SAMPLES_MAX as u64);
        assert_eq!(gathering.dropped(), 1 + 10);
        gathering.take();
        gathering.push(up(1, "a"));
        assert_eq!(gathering.taken(), SAMPLES_MAX as u64 + 1);
    }
}
