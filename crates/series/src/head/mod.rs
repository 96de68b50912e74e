//! The newest samples of all series, in memory: [`Head`]. Takes samples in, answers queries, and seals
//! what is old into a block. Pure data: who makes it durable keeps a log of what it took.

mod series;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use crate::block::{BlockWriter, Sealed};
use crate::chunk::Broken;
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

impl SeriesId {
    pub fn number(self) -> u32 {
        self.0
    }
}

/// A series as [`Head::dump`] gives it.
#[derive(Clone, Debug)]
pub struct Dumped<'a> {
    pub source: &'a str,
    pub labels: &'a Labels,
    pub chunks: Vec<Arc<[u8]>>,
}

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
    /// What is older is on its way into a block, and takes no more samples.
    floor_ms: Option<i64>,
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
        if self.floor_ms.is_some_and(|floor_ms| sample.at_ms < floor_ms) {
            return Outcome::TooOld;
        }
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

    /// Takes no more samples from before this time, until [`Head::forget`]: they are being sealed.
    pub fn close_before(&mut self, at_ms: i64) {
        self.floor_ms = Some(at_ms);
    }

    /// Takes late samples again, where sealing came to nothing.
    pub fn reopen(&mut self) {
        self.floor_ms = None;
    }

    /// A block of all samples before this time, or nothing when there are none. They stay in the head
    /// until [`Head::forget`], so that whoever writes the block to a disk loses nothing when that fails.
    pub fn seal(&self, before_ms: i64) -> Option<Sealed> {
        let span = Span::new(i64::MIN, before_ms.checked_sub(1)?);
        let mut writer = BlockWriter::default();
        for id in self.in_order() {
            self.seal_series(id, span, &mut writer);
        }
        writer.finish()
    }

    /// All series in the order in which a block wants them.
    pub fn in_order(&self) -> Vec<SeriesId> {
        let mut ids: Vec<(&Labels, SeriesId)> = self.ids.iter().map(|(l, id)| (l, *id)).collect();
        ids.sort_unstable();
        ids.into_iter().map(|(_, id)| id).collect()
    }

    /// One series of [`Head::seal`], so that nobody has to wait until all are sealed.
    pub fn seal_series(&self, id: SeriesId, span: Span, writer: &mut BlockWriter) {
        let Some(Some(series)) = self.series.get(id.0 as usize) else { return };
        if series.span().is_none_or(|held| !held.meets(span)) {
            return;
        }
        let selected = Selected { labels: series.labels().clone(), parts: series.parts() };
        let mut samples = Vec::new();
        let read = selected.read(span, &Budget::new(u64::MAX, u64::MAX), &mut samples);
        read.expect("chunks in memory are as they were made");
        writer.add(series.labels(), &samples);
    }

    /// What a series is, whose it is, and its samples as chunks that [`Head::adopt`] takes; nothing
    /// when it is gone. For copies of the head.
    pub fn dump(&self, id: SeriesId) -> Option<Dumped<'_>> {
        let series = self.series.get(id.0 as usize)?.as_ref()?;
        let (source, labels, chunks) = (series.source(), series.labels(), series.chunks());
        Some(Dumped { source, labels, chunks })
    }

    /// Takes a chunk of [`Head::dump`].
    pub fn adopt(&mut self, id: SeriesId, chunk: &[u8]) -> Result<(), Broken> {
        let mut samples = Vec::new();
        match self.series.get_mut(id.0 as usize) {
            Some(Some(series)) => series.adopt(chunk, &mut samples),
            Some(None) | None => Err(Broken("there is no series for it")),
        }
    }

    /// What [`Querier::select`] gives, without a hold on the head: chunks are shared, and of each series
    /// only the newest samples are copied.
    pub fn select_shared(&self, matchers: &[Matcher], span: Span) -> Vec<Selected<'static>> {
        let parts = MemSeries::shared_parts;
        self.near(matchers, span)
            .into_iter()
            .map(|series| Selected { labels: series.labels().clone(), parts: parts(series) })
            .collect()
    }

    /// The series that all matchers accept with samples in the span, in the order of their labels.
    fn near(&self, matchers: &[Matcher], span: Span) -> Vec<&MemSeries> {
        let numbers = self.postings.select(matchers).into_iter();
        let series = numbers.filter_map(|number| self.series[number as usize].as_deref());
        let mut near: Vec<&MemSeries> =
            series.filter(|series| series.span().is_some_and(|held| held.meets(span))).collect();
        near.sort_unstable_by(|a, b| a.labels().cmp(b.labels()));
        near
    }

    /// Forgets all samples before this time, and the series that have none left. Returns how many series.
    pub fn forget(&mut self, before_ms: i64) -> usize {
        self.floor_ms = None;
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

    /// For each label name how many values it has, and for each value how many series.
    pub fn cardinality(&self) -> BTreeMap<&str, Vec<(&str, usize)>> {
        self.postings.counts()
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
        self.near(matchers, span)
            .into_iter()
            .map(|series| Selected { labels: series.labels().clone(), parts: series.parts() })
            .collect()
    }

    fn select_labels(&self, matchers: &[Matcher], span: Span) -> Vec<Labels> {
        self.near(matchers, span).into_iter().map(|series| series.labels().clone()).collect()
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
