//! Samples that change no more, as one run of bytes: [`BlockWriter`] makes it, [`Block`] reads it.
//!
//! Chunks come first, one series after the other; then the index (all strings once, then the series with
//! their labels and where their chunks lie, each with its checksum); then where the index begins, and its
//! checksum. A damaged index is refused when the block is opened, a damaged chunk when it is read: the
//! other series stay readable. The inverted index is built from the series when a block is opened.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::chunk::{Broken, put_uvarint, put_varint, take_uvarint, take_varint};
use crate::labels::{Labels, Symbols};
use crate::matcher::Matcher;
use crate::postings::Postings;
use crate::query::{Budget, Part, Querier, ReadError, Selected, Union};
use crate::sample::{Sample, Span};

const MAGIC: &[u8; 8] = b"TOMSER01";

/// Where the index begins, how long it is, its checksum.
const TRAILER: usize = 8 + 8 + 4;

/// An hour at 15 s: large enough to compress well, small enough not to decode a day for a minute.
const CHUNK_SAMPLES: usize = 240;

/// A finished block.
#[derive(Clone, Debug)]
pub struct Sealed {
    pub bytes: Vec<u8>,
    pub span: Span,
    pub series: usize,
    pub samples: u64,
}

/// Takes series in the order of their labels.
#[derive(Debug)]
pub struct BlockWriter {
    chunks: Vec<u8>,
    strings: BTreeMap<Arc<str>, u32>,
    series: Vec<(Labels, Vec<Place>)>,
    samples: u64,
}

/// Where a chunk lies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) span: Span,
    pub(crate) offset: usize,
    pub(crate) length: usize,
    pub(crate) checksum: u32,
}

/// Where the bytes of a block are: in memory, or in a file of somebody who has files.
pub trait Storage {
    fn length(&self) -> usize;

    /// So many bytes from there on, all of them or none.
    fn bytes(&self, offset: usize, length: usize) -> Result<Cow<'_, [u8]>, Broken>;

    /// What to call it where it is damaged.
    fn name(&self) -> &str {
        "memory"
    }
}

impl<T: AsRef<[u8]>> Storage for T {
    fn length(&self) -> usize {
        self.as_ref().len()
    }

    fn bytes(&self, offset: usize, length: usize) -> Result<Cow<'_, [u8]>, Broken> {
        let end = offset.checked_add(length).ok_or(Broken("it ends too early"))?;
        let bytes = self.as_ref().get(offset..end).ok_or(Broken("it ends too early"))?;
        Ok(Cow::Borrowed(bytes))
    }
}

impl Default for BlockWriter {
    fn default() -> Self {
        Self { chunks: MAGIC.to_vec(), strings: BTreeMap::new(), series: Vec::new(), samples: 0 }
    }
}

impl BlockWriter {
    /// A series without samples is left out.
    ///
    /// # Panics
    /// When the labels do not come after those before, or the samples are not in order.
    pub fn add(&mut self, labels: &Labels, samples: &[Sample]) {
        if samples.is_empty() {
            return;
        }
        let ordered = self.series.last().is_none_or(|(before, _)| before < labels);
        assert!(ordered, "series of a block come in order");
        let mut places = Vec::with_capacity(samples.len().div_ceil(CHUNK_SAMPLES));
        for part in samples.chunks(CHUNK_SAMPLES) {
            let bytes = crate::chunk::encode(part);
            places.push(Place {
                span: Span::new(part[0].at_ms, part[part.len() - 1].at_ms),
                offset: self.chunks.len(),
                length: bytes.len(),
                checksum: crc32fast::hash(&bytes),
            });
            self.chunks.extend_from_slice(&bytes);
        }
        for text in labels.pairs().iter().flat_map(|(name, value)| [name, value]) {
            self.strings.entry(Arc::clone(text)).or_insert(0);
        }
        self.samples += samples.len() as u64;
        self.series.push((labels.clone(), places));
    }

    /// Nothing when no series had samples.
    pub fn finish(mut self) -> Option<Sealed> {
        let places = self.series.iter().flat_map(|(_, places)| places);
        let span = places
            .map(|place| place.span)
            .reduce(|a, b| Span::new(a.from_ms.min(b.from_ms), a.to_ms.max(b.to_ms)))?;
        let mut index = Vec::new();
        put_uvarint(&mut index, self.strings.len() as u64);
        for (number, (text, place)) in self.strings.iter_mut().enumerate() {
            *place = number as u32;
            put_uvarint(&mut index, text.len() as u64);
            index.extend_from_slice(text.as_bytes());
        }
        put_uvarint(&mut index, self.series.len() as u64);
        for (labels, places) in &self.series {
            put_uvarint(&mut index, labels.pairs().len() as u64);
            for text in labels.pairs().iter().flat_map(|(name, value)| [name, value]) {
                put_uvarint(&mut index, u64::from(self.strings[text]));
            }
            put_uvarint(&mut index, places.len() as u64);
            for place in places {
                put_varint(&mut index, place.span.from_ms);
                put_varint(&mut index, place.span.to_ms);
                put_uvarint(&mut index, place.offset as u64);
                put_uvarint(&mut index, place.length as u64);
                index.extend_from_slice(&place.checksum.to_le_bytes());
            }
        }
        let mut bytes = self.chunks;
        let start = bytes.len() as u64;
        let checksum = crc32fast::hash(&index);
        bytes.extend_from_slice(&index);
        bytes.extend_from_slice(&start.to_le_bytes());
        bytes.extend_from_slice(&(index.len() as u64).to_le_bytes());
        bytes.extend_from_slice(&checksum.to_le_bytes());
        Some(Sealed { bytes, span, series: self.series.len(), samples: self.samples })
    }
}

/// A block over bytes that somebody holds: a vector, or a file.
pub struct Block<B> {
    bytes: Arc<B>,
    series: Vec<(Labels, Vec<Place>)>,
    postings: Postings,
    span: Span,
}

impl<B> fmt::Debug for Block<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Block")
            .field("series", &self.series.len())
            .field("span", &self.span)
            .finish()
    }
}

impl<B: Storage> Block<B> {
    /// Reads the index; chunks are read when they are asked for.
    pub fn open(bytes: B) -> Result<Self, Broken> {
        const NO_BLOCK: Broken = Broken("it is no block");
        let head_length = bytes.length().checked_sub(TRAILER).ok_or(NO_BLOCK)?;
        let trailer = bytes.bytes(head_length, TRAILER)?.into_owned();
        if head_length < MAGIC.len() || *bytes.bytes(0, MAGIC.len())? != *MAGIC {
            return Err(NO_BLOCK);
        }
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|n| trailer[at + n]));
        let checksum = u32::from_le_bytes(std::array::from_fn(|n| trailer[16 + n]));
        let start = usize::try_from(word(0)).map_err(|_| NO_BLOCK)?;
        let length = head_length.checked_sub(start).filter(|length| *length as u64 == word(8));
        let index = bytes.bytes(start, length.ok_or(NO_BLOCK)?)?;
        if crc32fast::hash(&index) != checksum {
            return Err(Broken("the checksum of its index is another"));
        }
        let series = read_index(&index, start).ok_or(Broken("its index is not readable"))?;
        drop(index);
        let mut postings = Postings::default();
        for (number, (labels, _)) in series.iter().enumerate() {
            postings.add(number as u32, labels);
        }
        let places = series.iter().flat_map(|(_, places)| places).map(|place| place.span);
        let span = places
            .reduce(|a, b| Span::new(a.from_ms.min(b.from_ms), a.to_ms.max(b.to_ms)))
            .ok_or(Broken("it is empty"))?;
        Ok(Self { bytes: Arc::new(bytes), series, postings, span })
    }

    pub fn span(&self) -> Span {
        self.span
    }

    pub fn series_count(&self) -> usize {
        self.series.len()
    }

    /// What [`Querier::select`] gives, without a hold on this value.
    pub fn selected<'a>(&self, matchers: &[Matcher], span: Span) -> Vec<Selected<'a>>
    where
        B: 'a,
    {
        if !self.span.meets(span) {
            return Vec::new();
        }
        let numbers = self.postings.select(matchers).into_iter();
        let selected = numbers.filter_map(|number| {
            let (labels, places) = &self.series[number as usize];
            let from = places.partition_point(|place| place.span.to_ms < span.from_ms);
            let to = places.partition_point(|place| place.span.from_ms <= span.to_ms);
            let near = places.get(from..to).filter(|near| !near.is_empty())?;
            let bytes: Arc<dyn Storage + 'a> = Arc::<B>::clone(&self.bytes);
            let parts = vec![Part::Stored { bytes, places: near.into() }];
            Some(Selected { labels: labels.clone(), parts })
        });
        selected.collect()
    }

    /// The series whose samples are no longer what was written, by their labels.
    pub fn damaged(&self) -> Vec<Labels> {
        let mut samples = Vec::new();
        let mut damaged = Vec::new();
        for selected in self.selected(&[], Span::ALL) {
            let budget = Budget::new(u64::MAX, u64::MAX);
            if selected.read(Span::ALL, &budget, &mut samples).is_err() {
                damaged.push(selected.labels);
            }
        }
        damaged
    }
}

/// Reads the index of a block whose chunks end at `end`.
fn read_index(mut index: &[u8], end: usize) -> Option<Vec<(Labels, Vec<Place>)>> {
    let mut symbols = Symbols::default();
    let mut strings = Vec::new();
    for _ in 0..take_uvarint(&mut index)? {
        let length = usize::try_from(take_uvarint(&mut index)?).ok()?;
        let (text, rest) = index.split_at_checked(length)?;
        index = rest;
        strings.push(symbols.intern(std::str::from_utf8(text).ok()?));
    }
    let take_string = |index: &mut &[u8]| {
        let number = usize::try_from(take_uvarint(index)?).ok()?;
        strings.get(number).cloned()
    };
    let mut series = Vec::new();
    for _ in 0..take_uvarint(&mut index)? {
        let mut pairs = Vec::new();
        for _ in 0..take_uvarint(&mut index)? {
            pairs.push((take_string(&mut index)?, take_string(&mut index)?));
        }
        let mut places = Vec::new();
        for _ in 0..take_uvarint(&mut index)? {
            let span = Span::new(take_varint(&mut index)?, take_varint(&mut index)?);
            let offset = usize::try_from(take_uvarint(&mut index)?).ok()?;
            let length = usize::try_from(take_uvarint(&mut index)?).ok()?;
            let (checksum, rest) = index.split_first_chunk::<4>()?;
            index = rest;
            if offset.checked_add(length)? > end {
                return None;
            }
            places.push(Place { span, offset, length, checksum: u32::from_le_bytes(*checksum) });
        }
        series.push((Labels::from_pairs(pairs), places));
    }
    index.is_empty().then_some(series)
}

impl<B: Storage> Querier for Block<B> {
    fn select(&self, matchers: &[Matcher], span: Span) -> Vec<Selected<'_>> {
        self.selected(matchers, span)
    }

    fn select_labels(&self, matchers: &[Matcher], span: Span) -> Vec<Labels> {
        if !self.span.meets(span) {
            return Vec::new();
        }
        let meets = |places: &[Place]| places.iter().any(|place| place.span.meets(span));
        let numbers = self.postings.select(matchers).into_iter();
        let series = numbers.map(|number| &self.series[number as usize]);
        series.filter(|(_, places)| meets(places)).map(|(labels, _)| labels.clone()).collect()
    }

    fn label_names(&self) -> Vec<String> {
        self.postings.names().map(|name| (**name).to_owned()).collect()
    }

    fn label_values(&self, name: &str) -> Vec<String> {
        self.postings.values(name).map(|value| (**value).to_owned()).collect()
    }
}

/// Several blocks as one, for the span: what compaction and retention are made of. Of samples at one
/// time, those of the first block count.
pub fn merge(blocks: &[&dyn Querier], span: Span) -> Result<Option<Sealed>, ReadError> {
    merge_within(blocks, span, &Budget::new(u64::MAX, u64::MAX))
}

/// The same with a budget, which may let damaged samples be left out.
pub fn merge_within(
    blocks: &[&dyn Querier],
    span: Span,
    budget: &Budget<'_>,
) -> Result<Option<Sealed>, ReadError> {
    let union = Union(blocks.to_vec());
    let mut writer = BlockWriter::default();
    let mut samples = Vec::new();
    for selected in union.select(&[], span) {
        selected.read(span, budget, &mut samples)?;
        writer.add(&selected.labels, &samples);
    }
    Ok(writer.finish())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sealed() -> Sealed {
        let mut writer = BlockWriter::default();
        for job in ["a", "b", "c"] {
            let samples: Vec<Sample> =
                (0..500).map(|n| Sample::new(n * 1000, n as f64 * 0.5)).collect();
            writer.add(&Labels::new([("__name__", "up"), ("job", job)]), &samples);
        }
        writer.finish().unwrap()
    }

    #[test]
    fn a_flipped_bit_anywhere_is_noticed_and_the_other_series_are_served() {
        let whole = sealed();
        let mut damaged_series = 0;
        for at in 0..whole.bytes.len() {
            let mut bytes = whole.bytes.clone();
            bytes[at] ^= 0x10;
            let Ok(block) = Block::open(bytes) else { continue };
            let mut out = Vec::new();
            let read = |series: &Selected<'_>| {
                series.read(Span::ALL, &Budget::default(), &mut out).is_err()
            };
            assert_eq!(
                block.select(&[], Span::ALL).iter().map(read).filter(|wrong| *wrong).count(),
                1
            );
            damaged_series += 1;
        }
        assert!(damaged_series > 100);
    }

    #[test]
    fn merged_blocks_hold_what_each_held() {
        let whole = sealed();
        let block = Block::open(whole.bytes.as_slice()).unwrap();
        let early = merge(&[&block], Span::new(0, 99_999)).unwrap().unwrap();
        let late = merge(&[&block], Span::new(50_000, i64::MAX)).unwrap().unwrap();
        let (early, late) = (Block::open(early.bytes).unwrap(), Block::open(late.bytes).unwrap());
        let again = merge(&[&early, &late], Span::ALL).unwrap().unwrap();
        assert_eq!((again.series, again.samples), (whole.series, whole.samples));
        assert_eq!(again.bytes, whole.bytes);
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_block_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = Block::open(bytes.as_slice());
            // With a trailer that fits, so that the index itself is read.
            let mut fitting = MAGIC.to_vec();
            fitting.extend_from_slice(&bytes);
            fitting.extend_from_slice(&8_u64.to_le_bytes());
            fitting.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
            fitting.extend_from_slice(&crc32fast::hash(&bytes).to_le_bytes());
            let _ = Block::open(fitting);
        }
    }
}
