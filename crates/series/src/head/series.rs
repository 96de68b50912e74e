//! One series in memory: compressed chunks, the newest samples as they came, and late ones aside.

use std::borrow::Cow;
use std::sync::Arc;

use crate::chunk::{self, Broken};
use crate::labels::Labels;
use crate::query::Part;
use crate::sample::{Sample, Span};

use super::Outcome;

/// Samples wait uncompressed until there are so many. More would take more memory in each of many series,
/// fewer would compress again and again.
const OPEN_MAX: usize = 32;

/// A chunk grows until it has this many: a step further compresses it anew.
const GROWN: usize = 128;

/// No chunk of a series becomes larger.
const CHUNK_MAX: usize = GROWN + OPEN_MAX;

#[derive(Debug)]
pub(super) struct MemSeries {
    labels: Labels,
    source: Arc<str>,
    chunks: Vec<Chunk>,
    /// Later than all chunks.
    open: Vec<Sample>,
    /// Came after a later one; sorted.
    late: Vec<Sample>,
}

#[derive(Debug)]
struct Chunk {
    span: Span,
    count: u16,
    bytes: Arc<[u8]>,
}

impl Chunk {
    fn of(samples: &[Sample]) -> Self {
        Self {
            span: Span::new(samples[0].at_ms, samples[samples.len() - 1].at_ms),
            count: u16::try_from(samples.len()).expect("a chunk is small"),
            bytes: chunk::encode(samples).into(),
        }
    }

    fn samples(&self) -> Vec<Sample> {
        let mut samples = Vec::with_capacity(usize::from(self.count));
        chunk::decode(&self.bytes, &mut samples).expect("a chunk in memory is as it was made");
        samples
    }
}

impl MemSeries {
    pub(super) fn new(labels: Labels, source: Arc<str>) -> Self {
        Self { labels, source, chunks: Vec::new(), open: Vec::new(), late: Vec::new() }
    }

    pub(super) fn labels(&self) -> &Labels {
        &self.labels
    }

    pub(super) fn source(&self) -> &Arc<str> {
        &self.source
    }

    pub(super) fn append(&mut self, sample: Sample, window_ms: i64) -> Outcome {
        let Some(newest) = self.newest() else {
            self.open.push(sample);
            return Outcome::Taken;
        };
        if sample.at_ms > newest {
            if self.open.len() == OPEN_MAX {
                self.compress();
            }
            self.open.push(sample);
            return Outcome::Taken;
        }
        if sample.at_ms < newest.saturating_sub(window_ms) {
            return Outcome::TooOld;
        }
        match self.at(sample.at_ms) {
            Some(there) if there == sample => Outcome::Known,
            Some(_) => Outcome::Conflict,
            None => {
                let place = self.late.partition_point(|late| late.at_ms < sample.at_ms);
                self.late.insert(place, sample);
                Outcome::TakenLate
            }
        }
    }

    fn newest(&self) -> Option<i64> {
        // What is late is never the newest.
        let open = self.open.last().map(|sample| sample.at_ms);
        open.or_else(|| self.chunks.last().map(|chunk| chunk.span.to_ms))
    }

    fn at(&self, at_ms: i64) -> Option<Sample> {
        let find = |samples: &[Sample]| {
            let place = samples.binary_search_by_key(&at_ms, |sample| sample.at_ms);
            place.ok().map(|place| samples[place])
        };
        let chunk = self.chunks.iter().find(|chunk| chunk.span.holds(at_ms));
        find(&self.open).or_else(|| find(&self.late)).or_else(|| find(&chunk?.samples()))
    }

    fn compress(&mut self) {
        match self.chunks.last_mut() {
            Some(last) if usize::from(last.count) < GROWN => {
                let mut samples = last.samples();
                samples.append(&mut self.open);
                *last = Chunk::of(&samples);
            }
            Some(_) | None => {
                self.chunks.push(Chunk::of(&self.open));
                self.open.clear();
            }
        }
    }

    pub(super) fn parts(&self) -> Vec<Part<'_>> {
        self.parts_by(Cow::Borrowed)
    }

    /// The same without a hold on the series: chunks are shared, the newest samples copied.
    pub(super) fn shared_parts(&self) -> Vec<Part<'static>> {
        self.parts_by(|samples| Cow::Owned(samples.to_vec()))
    }

    fn parts_by<'a, 'b>(
        &'a self,
        plain: impl Fn(&'a [Sample]) -> Cow<'b, [Sample]>,
    ) -> Vec<Part<'b>> {
        let mut parts = Vec::with_capacity(self.chunks.len() + 2);
        parts.extend(
            self.chunks
                .iter()
                .map(|chunk| Part::Chunk { span: chunk.span, bytes: Arc::clone(&chunk.bytes) }),
        );
        for samples in [&self.open, &self.late] {
            if !samples.is_empty() {
                parts.push(Part::Plain(plain(samples)));
            }
        }
        parts
    }

    /// Everything as chunks, for [`MemSeries::adopt`].
    pub(super) fn chunks(&self) -> Vec<Arc<[u8]>> {
        let mut chunks: Vec<Arc<[u8]>> =
            self.chunks.iter().map(|chunk| Arc::clone(&chunk.bytes)).collect();
        for samples in [&self.open, &self.late] {
            chunks.extend(
                samples.chunks(chunk::CHUNK_SAMPLES_MAX).map(|part| chunk::encode(part).into()),
            );
        }
        chunks
    }

    /// Takes a chunk back. What is not later than all that is there is late.
    pub(super) fn adopt(&mut self, bytes: &[u8], samples: &mut Vec<Sample>) -> Result<(), Broken> {
        samples.clear();
        chunk::decode(bytes, samples)?;
        let Some(first) = samples.first() else { return Ok(()) };
        let later = self.newest().is_none_or(|newest| newest < first.at_ms);
        let whole = later && self.open.is_empty() && samples.len() > OPEN_MAX;
        if whole && samples.len() <= CHUNK_MAX {
            let span = Span::new(first.at_ms, samples[samples.len() - 1].at_ms);
            let count = samples.len() as u16;
            self.chunks.push(Chunk { span, count, bytes: bytes.into() });
            return Ok(());
        }
        for sample in samples.iter() {
            self.append(*sample, i64::MAX);
        }
        Ok(())
    }

    pub(super) fn span(&self) -> Option<Span> {
        let first = self.chunks.first().map(|chunk| chunk.span.from_ms);
        let open = self.open.first().map(|sample| sample.at_ms);
        let late = self.late.first().map(|sample| sample.at_ms);
        let from = [first, open, late].into_iter().flatten().min()?;
        let to = self.newest().max(self.late.last().map(|sample| sample.at_ms))?;
        Some(Span::new(from, to))
    }

    /// Whether nothing is left.
    pub(super) fn forget(&mut self, before_ms: i64) -> bool {
        self.open.retain(|sample| sample.at_ms >= before_ms);
        self.late.retain(|sample| sample.at_ms >= before_ms);
        self.chunks.retain(|chunk| chunk.span.to_ms >= before_ms);
        if let Some(first) = self.chunks.first_mut()
            && first.span.from_ms < before_ms
        {
            let mut samples = first.samples();
            samples.retain(|sample| sample.at_ms >= before_ms);
            *first = Chunk::of(&samples);
        }
        if self.late.is_empty() {
            self.late.shrink_to_fit();
        }
        self.chunks.is_empty() && self.open.is_empty() && self.late.is_empty()
    }
}
