//! Samples as they travel: [`remote_write`] of Prometheus, 1.0 and 2.0.
//!
//! Everything here reads what a stranger wrote. The messages are read field by field from the bytes
//! ([`protobuf`]), so that a bound of [`Limits`] is checked before memory is taken for what it bounds.

pub(crate) mod protobuf;
pub mod remote_read;
pub mod remote_write;

use tombolo_series::{Labels, Sample};

/// A series and some of its samples.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    pub labels: Labels,
    pub samples: Vec<Sample>,
}

/// What a metric is, for people.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata {
    pub metric: String,
    pub kind: MetricKind,
    pub help: String,
    pub unit: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MetricKind {
    #[default]
    Unknown,
    Counter,
    Gauge,
    Histogram,
    GaugeHistogram,
    Summary,
    Info,
    StateSet,
}

impl MetricKind {
    /// In the order of the numbers that remote-write has for them.
    const ALL: [MetricKind; 8] = [
        MetricKind::Unknown,
        MetricKind::Counter,
        MetricKind::Gauge,
        MetricKind::Histogram,
        MetricKind::GaugeHistogram,
        MetricKind::Summary,
        MetricKind::Info,
        MetricKind::StateSet,
    ];

    /// The word that Prometheus' API has for it.
    pub fn word(self) -> &'static str {
        match self {
            MetricKind::Unknown => "unknown",
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Histogram => "histogram",
            MetricKind::GaugeHistogram => "gaugehistogram",
            MetricKind::Summary => "summary",
            MetricKind::Info => "info",
            MetricKind::StateSet => "stateset",
        }
    }

    /// `None` if there is no such word.
    pub fn of_word(word: &str) -> Option<MetricKind> {
        MetricKind::ALL.into_iter().find(|kind| kind.word() == word)
    }

    pub(crate) fn of_number(number: u64) -> MetricKind {
        let place = usize::try_from(number).unwrap_or(usize::MAX);
        MetricKind::ALL.get(place).copied().unwrap_or_default()
    }
}

/// What one message brought.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Batch {
    pub series: Vec<Series>,
    pub metadata: Vec<Metadata>,
    /// Native histograms: they are not stored, and counted so that nobody believes that they are.
    pub histograms_dropped: u64,
    /// The same of exemplars.
    pub exemplars_dropped: u64,
}

impl Batch {
    pub fn samples(&self) -> usize {
        self.series.iter().map(|series| series.samples.len()).sum()
    }
}

/// What one message may bring.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// After decompression. Snappy makes at most some 20 bytes of one; without a bound a message of
    /// a few megabytes would take hundreds.
    pub bytes_max: usize,
    pub series_max: usize,
    pub samples_max: usize,
    pub labels_max: usize,
    pub label_name_bytes_max: usize,
    pub label_value_bytes_max: usize,
}

impl Default for Limits {
    /// Prometheus sends 2,000 to 10,000 samples in a message; ten times that is enough for anybody.
    fn default() -> Self {
        Self {
            bytes_max: 32 << 20,
            series_max: 100_000,
            samples_max: 200_000,
            labels_max: 64,
            label_name_bytes_max: 256,
            label_value_bytes_max: 4096,
        }
    }
}

/// Why a message is not taken. What was wrong is the sender's: the same message will never be taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("the body is not compressed with snappy")]
    NotSnappy,
    #[error("the message is not readable: {0}")]
    Malformed(&'static str),
    #[error("the message has more than {max} {what}")]
    TooMany { what: &'static str, max: usize },
    #[error("a series is not to be named so: {0}")]
    BadLabels(String),
}

impl Limits {
    /// Counts one more, if there may be one more.
    fn check(count: usize, max: usize, what: &'static str) -> Result<(), Error> {
        if count > max { Err(Error::TooMany { what, max }) } else { Ok(()) }
    }

    /// Checks what a sender calls a series, in place of the message's author. Labels need not be sorted.
    fn labels(&self, pairs: &[(&str, &str)]) -> Result<Labels, Error> {
        Limits::check(pairs.len(), self.labels_max, "labels in one series")?;
        for (name, value) in pairs {
            Limits::check(name.len(), self.label_name_bytes_max, "bytes in the name of a label")?;
            let what = "bytes in the value of a label";
            Limits::check(value.len(), self.label_value_bytes_max, what)?;
            if name.is_empty() {
                return Err(Error::BadLabels(format!("a label without a name has {value:?}")));
            }
        }
        let labels = Labels::new(pairs.iter().copied());
        let empty = pairs.iter().filter(|(_, value)| value.is_empty()).count();
        if labels.pairs().len() + empty != pairs.len() {
            return Err(Error::BadLabels(format!("{labels} has a label twice")));
        }
        if labels.get(tombolo_series::NAME).is_empty() {
            return Err(Error::BadLabels(format!("{labels} has no __name__")));
        }
        Ok(labels)
    }
}
