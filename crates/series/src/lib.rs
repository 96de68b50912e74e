//! Samples in time, as pure data: no clock, no files, no network.
//!
//! From the bottom: a [`Sample`] of a series with [`Labels`]; a [`chunk`] of samples, compressed; the
//! [`Head`] that takes samples in and seals old ones into a [`Block`]; a [`Querier`] over any number of
//! both; and [`promql`], which asks it. [`exposition`] reads samples from text.
//!
//! Who writes blocks to a disk, and who tells the time, is somebody else.

#![expect(
    clippy::cast_possible_truncation,
    reason = "bits are cut out of words, and floats become whole numbers, on every page"
)]

mod block;
pub mod chunk;
pub mod exposition;
mod hash;
mod head;
mod labels;
mod matcher;
mod postings;
pub mod promql;
mod query;
mod sample;

pub use block::{Block, BlockWriter, Sealed, Storage, merge, merge_within};
pub use head::{Dumped, Head, HeadConfig, Outcome, SeriesId, Tally, TooManySeries};
pub use labels::{Labels, NAME, Pair, Symbols, is_plain_name};
pub use matcher::{BadPattern, Matcher, Op, anchored, compile};
pub use query::{Budget, Querier, ReadError, Selected, Union, union};
pub use sample::{STALE_BITS, Sample, Span};
