//! What an evaluation asks for, and how much of it: [`Querier`] and [`Budget`].

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::chunk::{self, Broken};
use crate::labels::Labels;
use crate::matcher::Matcher;
use crate::sample::{Sample, Span};

/// Where samples are found: a head, a block, or several of them as [`Union`].
pub trait Querier {
    /// The series that all matchers accept and that may have samples in the span, ordered by labels.
    fn select(&self, matchers: &[Matcher], span: Span) -> Vec<Selected<'_>>;

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
#[derive(Debug)]
pub(crate) enum Part<'a> {
    Plain(Cow<'a, [Sample]>),
    /// Compressed, and the checksum that it must have when it lies in a block.
    Chunk {
        span: Span,
        bytes: &'a [u8],
        checksum: Option<u32>,
    },
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
                Part::Chunk { span: held, bytes, checksum } => {
                    if !held.meets(span) {
                        continue;
                    }
                    let wrong = checksum.is_some_and(|sum| crc32fast::hash(bytes) != sum);
                    let read = if wrong {
                        Err(Broken("its checksum is another"))
                    } else {
                        chunk::decode(bytes, out)
                    };
                    read.map_err(|source| self.damaged(source))?;
                    if held.from_ms < span.from_ms || held.to_ms > span.to_ms {
                        keep(out, start, span);
                    }
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

    fn damaged(&self, source: Broken) -> ReadError {
        ReadError::Damaged { labels: self.labels.to_string(), source }
    }
}

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
}

impl<'a> Budget<'a> {
    pub fn new(samples_max: u64, steps_max: u64) -> Self {
        Self { samples_max, samples: Cell::new(0), steps_max, steps: Cell::new(0), stop: None }
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
        let mut merged: BTreeMap<Labels, Vec<Part<'_>>> = BTreeMap::new();
        for selected in self.0.iter().flat_map(|querier| querier.select(matchers, span)) {
            match merged.entry(selected.labels) {
                Entry::Vacant(place) => {
                    place.insert(selected.parts);
                }
                Entry::Occupied(mut place) => place.get_mut().extend(selected.parts),
            }
        }
        merged.into_iter().map(|(labels, parts)| Selected { labels, parts }).collect()
    }

    fn label_names(&self) -> Vec<String> {
        sorted(self.0.iter().flat_map(|querier| querier.label_names()))
    }

    fn label_values(&self, name: &str) -> Vec<String> {
        sorted(self.0.iter().flat_map(|querier| querier.label_values(name)))
    }
}

fn sorted(words: impl Iterator<Item = String>) -> Vec<String> {
    let mut words: Vec<String> = words.collect();
    words.sort_unstable();
    words.dedup();
    words
}
