//! What an evaluation asks for, and how much of it: [`Querier`] and [`Budget`].

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::block::{Place, Storage};
use crate::chunk::{self, Broken};
use crate::labels::Labels;
use crate::matcher::Matcher;
use crate::sample::{Sample, Span};

/// Where samples are found: a head, a block, or several of them as [`Union`].
pub trait Querier {
    /// The series that all matchers accept and that may have samples in the span, ordered by labels.
    fn select(&self, matchers: &[Matcher], span: Span) -> Vec<Selected<'_>>;

    /// The labels of the series that all matchers accept and that may have samples in the span, in order.
    fn select_labels(&self, matchers: &[Matcher], span: Span) -> Vec<Labels> {
        self.select(matchers, span).into_iter().map(|selected| selected.labels).collect()
    }

    /// The names of labels, in order.
    fn label_names(&self) -> Vec<String>;

    /// The values of a label, in order.
    fn label_values(&self, name: &str) -> Vec<String>;
}

/// A series, and where its samples lie.
#[derive(Debug)]
pub struct Selected<'a> {
    pub labels: Labels,
    pub(crate) parts: Vec<Part<'a>>,
}

/// Some samples of a series.
pub(crate) enum Part<'a> {
    Plain(Cow<'a, [Sample]>),
    /// Compressed, in memory.
    Chunk {
        span: Span,
        bytes: Arc<[u8]>,
    },
    /// Chunks of a block, in the order of time.
    Stored {
        bytes: Arc<dyn Storage + 'a>,
        places: Box<[Place]>,
    },
}

impl fmt::Debug for Part<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Part::Plain(samples) => write!(f, "{} samples", samples.len()),
            Part::Chunk { bytes, .. } => write!(f, "a chunk of {} bytes", bytes.len()),
            Part::Stored { places, .. } => write!(f, "{} chunks of a block", places.len()),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    #[error("query processing would load too many samples into memory: more than {max}")]
    TooManySamples { max: u64 },
    #[error("the query needs more than {max} steps of calculation")]
    TooManySteps { max: u64 },
    #[error("the query was cancelled")]
    Cancelled,
    #[error("samples of {labels} are damaged")]
    Damaged {
        labels: String,
        #[source]
        source: Broken,
    },
}

impl Selected<'_> {
    /// A series of samples that are at hand.
    pub fn of_samples(labels: Labels, samples: Vec<Sample>) -> Selected<'static> {
        Selected { labels, parts: vec![Part::Plain(Cow::Owned(samples))] }
    }

    /// The samples of the span, in order, instead of what `out` held.
    pub fn read(
        &self,
        span: Span,
        budget: &Budget<'_>,
        out: &mut Vec<Sample>,
    ) -> Result<(), ReadError> {
        out.clear();
        let mut ordered = true;
        for part in &self.parts {
            let start = out.len();
            match part {
                Part::Plain(samples) => {
                    let from = samples.partition_point(|sample| sample.at_ms < span.from_ms);
                    let to = samples.partition_point(|sample| sample.at_ms <= span.to_ms);
                    out.extend_from_slice(&samples[from..to.max(from)]);
                }
                Part::Chunk { span: held, bytes } => {
                    if held.meets(span) {
                        self.tolerate(chunk::decode(bytes, out), "memory", *held, budget)?;
                        if held.from_ms < span.from_ms || held.to_ms > span.to_ms {
                            keep(out, start, span);
                        }
                    }
                }
                Part::Stored { bytes, places } => {
                    ordered &= self.read_stored(&**bytes, places, budget, out)?;
                    keep(out, start, span);
                }
            }
            budget.take_samples((out.len() - start) as u64)?;
            if start > 0 && start < out.len() {
                ordered &= out[start - 1].at_ms < out[start].at_ms;
            }
        }
        if !ordered {
            // Of two samples of one time, the part that comes first counts.
            out.sort_by_key(|sample| sample.at_ms);
            out.dedup_by_key(|sample| sample.at_ms);
        }
        Ok(())
    }

    /// Appends the samples of these chunks; returns whether they are in order.
    fn read_stored(
        &self,
        storage: &dyn Storage,
        places: &[Place],
        budget: &Budget<'_>,
        out: &mut Vec<Sample>,
    ) -> Result<bool, ReadError> {
        let mut ordered = true;
        let mut rest = places;
        while let Some(first) = rest.first() {
            // Chunks of a series lie beside each other: they are read at once.
            let mut end = first.offset.saturating_add(first.length);
            let neighbours = rest[1..].iter().take_while(|place| {
                let near = place.offset == end && end - first.offset < READ_BYTES_MAX;
                end = end.saturating_add(if near { place.length } else { 0 });
                near
            });
            let count = 1 + neighbours.count();
            let (run, later) = rest.split_at(count);
            rest = later;
            let bytes = match storage.bytes(first.offset, end - first.offset) {
                Ok(bytes) => bytes,
                Err(broken) => {
                    let span = Span::new(first.span.from_ms, run[count - 1].span.to_ms);
                    self.tolerate(Err(broken), storage.name(), span, budget)?;
                    continue;
                }
            };
            for place in run {
                let at = place.offset - first.offset;
                let chunk = &bytes[at..at + place.length];
                let start = out.len();
                let read = match crc32fast::hash(chunk) == place.checksum {
                    true => chunk::decode(chunk, out),
                    false => Err(Broken("its checksum is another")),
                };
                self.tolerate(read, storage.name(), place.span, budget)?;
                if start > 0 && start < out.len() {
                    ordered &= out[start - 1].at_ms < out[start].at_ms;
                }
            }
        }
        Ok(ordered)
    }

    /// Damage is an error, or a note where the budget says so.
    fn tolerate(
        &self,
        read: Result<(), Broken>,
        place: &str,
        span: Span,
        budget: &Budget<'_>,
    ) -> Result<(), ReadError> {
        let Err(source) = read else { return Ok(()) };
        let Some(damage) = &budget.damage else {
            return Err(ReadError::Damaged { labels: self.labels.to_string(), source });
        };
        let mut damage = damage.borrow_mut();
        if damage.len() < DAMAGE_MAX {
            let (labels, from, to) = (&self.labels, span.from_ms, span.to_ms);
            damage.insert(format!(
                "samples of {labels} between {from} and {to} ms are damaged in {place} and left out"
            ));
        }
        Ok(())
    }
}

/// More would take more memory than a chunk that is decoded; the samples of a day fit.
const READ_BYTES_MAX: usize = 64 * 1024;

/// Who is told of so many damaged chunks knows that more are.
const DAMAGE_MAX: usize = 20;

/// Drops what was added since `start` and lies outside of the span.
fn keep(out: &mut Vec<Sample>, start: usize, span: Span) {
    let end = start + out[start..].partition_point(|sample| sample.at_ms <= span.to_ms);
    out.truncate(end);
    let from = start + out[start..].partition_point(|sample| sample.at_ms < span.from_ms);
    out.drain(start..from);
}

/// How much one query may read and calculate, and whether somebody still waits for it. Knows no time:
/// whoever has a clock sets `stop`.
#[derive(Debug)]
pub struct Budget<'a> {
    samples_max: u64,
    samples: Cell<u64>,
    steps_max: u64,
    steps: Cell<u64>,
    stop: Option<&'a AtomicBool>,
    /// What was damaged and left out, where that is wanted.
    damage: Option<RefCell<BTreeSet<String>>>,
}

impl<'a> Budget<'a> {
    pub fn new(samples_max: u64, steps_max: u64) -> Self {
        let (samples, steps) = (Cell::new(0), Cell::new(0));
        Self { samples_max, samples, steps_max, steps, stop: None, damage: None }
    }

    /// Leaves damaged samples out and says so, instead of refusing the whole.
    pub fn tolerant(self) -> Self {
        Self { damage: Some(RefCell::default()), ..self }
    }

    /// What was left out.
    pub fn damage(&self) -> Vec<String> {
        self.damage.iter().flat_map(|damage| damage.borrow().clone()).collect()
    }

    /// Ends the query once the flag is set.
    pub fn until(mut self, stop: &'a AtomicBool) -> Self {
        self.stop = Some(stop);
        self
    }

    pub fn samples(&self) -> u64 {
        self.samples.get()
    }

    pub fn steps(&self) -> u64 {
        self.steps.get()
    }

    pub fn take_samples(&self, count: u64) -> Result<(), ReadError> {
        self.samples.set(self.samples.get().saturating_add(count));
        if self.samples.get() > self.samples_max {
            return Err(ReadError::TooManySamples { max: self.samples_max });
        }
        self.look_up()
    }

    pub fn take_steps(&self, count: u64) -> Result<(), ReadError> {
        self.steps.set(self.steps.get().saturating_add(count));
        if self.steps.get() > self.steps_max {
            return Err(ReadError::TooManySteps { max: self.steps_max });
        }
        self.look_up()
    }

    fn look_up(&self) -> Result<(), ReadError> {
        match self.stop {
            Some(stop) if stop.load(Ordering::Relaxed) => Err(ReadError::Cancelled),
            Some(_) | None => Ok(()),
        }
    }
}

/// 50 million samples, as Prometheus allows, and steps without a bound.
impl Default for Budget<'_> {
    fn default() -> Self {
        Self::new(50_000_000, u64::MAX)
    }
}

/// Several as one. Of samples at one time, those of the first querier count.
#[expect(missing_debug_implementations, reason = "queriers of others have none")]
pub struct Union<'a>(pub Vec<&'a dyn Querier>);

impl Querier for Union<'_> {
    fn select(&self, matchers: &[Matcher], span: Span) -> Vec<Selected<'_>> {
        union(self.0.iter().flat_map(|querier| querier.select(matchers, span)))
    }

    fn select_labels(&self, matchers: &[Matcher], span: Span) -> Vec<Labels> {
        let all = self.0.iter().flat_map(|querier| querier.select_labels(matchers, span));
        all.collect::<BTreeSet<Labels>>().into_iter().collect()
    }

    fn label_names(&self) -> Vec<String> {
        sorted(self.0.iter().flat_map(|querier| querier.label_names()))
    }

    fn label_values(&self, name: &str) -> Vec<String> {
        sorted(self.0.iter().flat_map(|querier| querier.label_values(name)))
    }
}

/// The same series once, with the parts of all in the order in which they come.
pub fn union<'a>(all: impl Iterator<Item = Selected<'a>>) -> Vec<Selected<'a>> {
    let mut places: HashMap<Labels, usize> = HashMap::new();
    let mut merged: Vec<Selected<'a>> = Vec::new();
    for selected in all {
        match places.entry(selected.labels.clone()) {
            Entry::Vacant(place) => {
                place.insert(merged.len());
                merged.push(selected);
            }
            Entry::Occupied(place) => merged[*place.get()].parts.extend(selected.parts),
        }
    }
    merged.sort_unstable_by(|a, b| a.labels.cmp(&b.labels));
    merged
}

fn sorted(words: impl Iterator<Item = String>) -> Vec<String> {
    let mut words: Vec<String> = words.collect();
    words.sort_unstable();
    words.dedup();
    words
}
