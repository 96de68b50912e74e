//! One measured value, before it is among the samples of its series.

use tombolo_series::{Labels, NAME};

/// A value of a series at a time.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    pub labels: Labels,
    /// In milliseconds since 1970.
    pub at_ms: i64,
    pub value: f64,
}

impl Measured {
    /// Labels with an empty value are left out.
    pub fn new(at_ms: i64, metric: &str, labels: &[(&str, &str)], value: f64) -> Measured {
        let name = std::iter::once((NAME, metric));
        Measured { labels: Labels::new(name.chain(labels.iter().copied())), at_ms, value }
    }
}

/// Values of one moment, most of which share some labels.
#[derive(Debug)]
pub(crate) struct Moment<'a> {
    pub(crate) at_ms: i64,
    /// Of every series.
    pub(crate) of_all: Vec<(&'a str, &'a str)>,
    pub(crate) found: Vec<Measured>,
}

impl<'a> Moment<'a> {
    pub(crate) fn new(at_ms: i64, of_all: Vec<(&'a str, &'a str)>) -> Moment<'a> {
        Moment { at_ms, of_all, found: Vec::new() }
    }

    pub(crate) fn put(&mut self, metric: &str, labels: &[(&str, &str)], value: f64) {
        let name = std::iter::once((NAME, metric));
        let own = labels.iter().copied();
        let labels = Labels::new(name.chain(self.of_all.iter().copied()).chain(own));
        self.found.push(Measured { labels, at_ms: self.at_ms, value });
    }

    pub(crate) fn put_some(&mut self, metric: &str, labels: &[(&str, &str)], value: Option<f64>) {
        if let Some(value) = value {
            self.put(metric, labels, value);
        }
    }
}
