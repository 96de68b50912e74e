//! The newest samples of all series, in memory: [`Head`]. Takes samples in, answers queries, and seals
//! what is old into a block. Pure data: who makes it durable keeps a log of what it took.

mod series;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use crate::block::{BlockWriter, Sealed};
use crate::labels::{Labels, Symbols};
use crate::matcher::Matcher;
use crate::postings::Postings;
use crate::query::{Budget, Querier, Selected};
use crate::sample::{Sample, Span};
use series::MemSeries;

/// What a head allows.
#[derive(Clone, Copy, Debug)]
pub struct HeadConfig {
    /// How much older than the newest sample of its series a sample may be.
    pub out_of_order_ms: i64,
    /// How many series one source may have at a time.
    pub series_per_source_max: usize,
}

impl Default for HeadConfig {
    fn default() -> Self {
        Self { out_of_order_ms: 10 * 60 * 1000, series_per_source_max: 100_000 }
    }
}

/// A series of a head: faster than its labels for whoever writes to it again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SeriesId(u32);

/// What became of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Taken,
    /// Taken, although a later one was there already.
    TakenLate,
    /// It was there already.
    Known,
    /// Another value was there at this time, and stays.
    Conflict,
    /// Older than the window for late samples.
    TooOld,
    /// There is no such series any more: ask for its id again.
    NoSeries,
}

/// How many samples met which fate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub taken: u64,
    pub taken_late: u64,
    pub known: u64,
    pub conflicts: u64,
    pub too_old: u64,
}

impl Tally {
    pub fn count(&mut self, outcome: Outcome) {
        let counter = match outcome {
            Outcome::Taken => &mut self.taken,
            Outcome::TakenLate => &mut self.taken_late,
            Outcome::Known => &mut self.known,
            Outcome::Conflict => &mut self.conflicts,
            Outcome::TooOld | Outcome::NoSeries => &mut self.too_old,
        };
        *counter += 1;
    }
}

/// A source that has as many series as it may.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{source_name} has {series_max} series, which is as many as it may: its label {label:?} has {values} \
     different values"
)]
pub struct TooManySeries {
    pub source_name: String,
    pub series_max: usize,
    /// The label with the most values: most likely the one that should not be one.
    pub label: String,
    pub values: usize,
}

/// How often a source is refused before its worst label is counted again: to count it reads all its series.
const RECOUNT_EVERY: u64 = 4096;

#[derive(Debug, Default)]
struct Source {
    series: usize,
    refused: u64,
    worst: Option<(String, usize)>,
}

#[derive(Debug, Default)]
pub struct Head {
    config: HeadConfig,
    symbols: Symbols,
    ids: HashMap<Labels, SeriesId, BuildHasherDefault<Hashed>>,
    /// A place is never used twice, so that an id that somebody kept names no other series.
    series: Vec<Option<Box<MemSeries>>>,
    postings: Postings,
    sources: BTreeMap<Arc<str>, Source>,
}

/// Labels bring their hash along.
#[derive(Debug, Default)]
struct Hashed(u64);

impl Hasher for Hashed {
    fn write(&mut self, bytes: &[u8]) {
        self.0 = crate::hash::xxh64(bytes);
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

impl Head {
    pub fn new(config: HeadConfig) -> Self {
        Self { config, ..Self::default() }
    }

    /// The series of these labels, made when there is none.
    pub fn resolve(&mut self, source: &str, labels: &Labels) -> Result<SeriesId, TooManySeries> {
        if let Some(id) = self.ids.get(labels) {
            return Ok(*id);
        }
        let source = self.admit(source)?;
        let id =
            SeriesId(u32::try_from(self.series.len()).expect("no head sees four billion series"));
        let labels = self.symbols.intern_all(labels);
        self.postings.add(id.0, &labels);
        self.ids.insert(labels.clone(), id);
        self.series.push(Some(Box::new(MemSeries::new(labels, source))));
        Ok(id)
    }

    fn admit(&mut self, name: &str) -> Result<Arc<str>, TooManySeries> {
        let series_max = self.config.series_per_source_max;
        let key = self.symbols.intern(name);
        let source = self.sources.entry(Arc::clone(&key)).or_default();
        if source.series < series_max {
            source.series += 1;
            return Ok(key);
        }
        if source.refused.is_multiple_of(RECOUNT_EVERY) {
            let of_source = self.series.iter().flatten().filter(|series| series.source() == &key);
            source.worst = worst_label(of_source.map(|series| series.labels()));
        }
        source.refused += 1;
        let (label, values) = source.worst.clone().unwrap_or_default();
        Err(TooManySeries { source_name: name.to_owned(), series_max, label, values })
    }

    pub fn append(&mut self, id: SeriesId, sample: Sample) -> Outcome {
        match self.series.get_mut(id.0 as usize) {
            Some(Some(series)) => series.append(sample, self.config.out_of_order_ms),
            Some(None) | None => Outcome::NoSeries,
        }
    }

    /// All samples of one series.
    pub fn insert(
        &mut self,
        source: &str,
        labels: &Labels,
        samples: &[Sample],
    ) -> Result<Tally, TooManySeries> {
        let id = self.resolve(source, labels)?;
        let mut tally = Tally::default();
        for sample in samples {
            tally.count(self.append(id, *sample));
        }
        Ok(tally)
    }

    /// A block of all samples before this time, or nothing when there are none. They stay in the head
    /// until [`Head::forget`], so that whoever writes the block to a disk loses nothing when that fails.
    pub fn seal(&self, before_ms: i64) -> Option<Sealed> {
        let span = Span::new(i64::MIN, before_ms.checked_sub(1)?);
        let mut writer = BlockWriter::default();
        let mut samples = Vec::new();
        let mut ids: Vec<(&Labels, SeriesId)> = self.ids.iter().map(|(l, id)| (l, *id)).collect();
        ids.sort_unstable();
        for (labels, id) in ids {
            let Some(Some(series)) = self.series.get(id.0 as usize) else { continue };
            let selected = Selected { labels: labels.clone(), parts: series.parts() };
            let read = selected.read(span, &Budget::new(u64::MAX, u64::MAX), &mut samples);
            read.expect("chunks in memory are as they were made");
            writer.add(labels, &samples);
        }
        writer.finish()
    }

    /// Forgets all samples before this time, and the series that have none left. Returns how many series.
    pub fn forget(&mut self, before_ms: i64) -> usize {
        let mut gone = HashSet::new();
        for (number, place) in self.series.iter_mut().enumerate() {
            let Some(series) = place else { continue };
            if series.forget(before_ms) {
                if let Some(source) = self.sources.get_mut(series.source()) {
                    source.series -= 1;
                }
                self.ids.remove(series.labels());
                gone.insert(number as u32);
                *place = None;
            }
        }
        if !gone.is_empty() {
            self.postings.retain(|number| !gone.contains(&number));
            self.sources.retain(|_, source| source.series > 0);
            self.symbols.sweep();
        }
        gone.len()
    }

    pub fn series_count(&self) -> usize {
        self.ids.len()
    }

    /// From the oldest to the newest sample.
    pub fn span(&self) -> Option<Span> {
        let spans = self.series.iter().flatten().filter_map(|series| series.span());
        spans.reduce(|a, b| Span::new(a.from_ms.min(b.from_ms), a.to_ms.max(b.to_ms)))
    }
}

fn worst_label<'a>(all: impl Iterator<Item = &'a Labels>) -> Option<(String, usize)> {
    let mut values: BTreeMap<&str, HashSet<&str>> = BTreeMap::new();
    for (name, value) in all.flat_map(Labels::iter) {
        values.entry(name).or_default().insert(value);
    }
    let counted = values.into_iter().map(|(name, values)| (name.to_owned(), values.len()));
    counted.max_by_key(|(_, count)| *count)
}

impl Querier for Head {
    fn select(&self, matchers: &[Matcher], span: Span) -> Vec<Selected<'_>> {
        let numbers = self.postings.select(matchers);
        let mut selected: Vec<Selected<'_>> = numbers
            .into_iter()
            .filter_map(|number| self.series[number as usize].as_ref())
            .filter(|series| series.span().is_some_and(|held| held.meets(span)))
            .map(|series| Selected { labels: series.labels().clone(), parts: series.parts() })
            .collect();
        selected.sort_unstable_by(|a, b| a.labels.cmp(&b.labels));
        selected
    }

    fn label_names(&self) -> Vec<String> {
        self.postings.names().map(|name| (**name).to_owned()).collect()
    }

    fn label_values(&self, name: &str) -> Vec<String> {
        self.postings.values(name).map(|value| (**value).to_owned()).collect()
    }
}

#[cfg(test)]
mod tests;
