//! Prometheus' remote-write: [`encode`] and [`decode`] whole bodies of requests, 1.0 and 2.0.
//!
//! Fields are those of `prometheus.WriteRequest` and `io.prometheus.write.v2.Request`.

use tombolo_series::{Labels, Sample};

use super::protobuf::{Fields, put_bytes, put_double, put_message, put_number, put_varint};
use super::{Batch, Error, Limits, Metadata, MetricKind, Series};

/// Which of the two messages a body is; the header `Content-Type` says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    V1,
    V2,
}

impl Version {
    pub const CONTENT_TYPE_V1: &str = "application/x-protobuf";
    pub const CONTENT_TYPE_V2: &str = "application/x-protobuf;proto=io.prometheus.write.v2.Request";

    /// What a `Content-Type` says; `None` if it is neither.
    pub fn of_content_type(text: &str) -> Option<Version> {
        let mut parts = text.split(';').map(str::trim);
        if !parts.next()?.eq_ignore_ascii_case("application/x-protobuf") {
            return None;
        }
        match parts.find_map(|part| part.strip_prefix("proto=")) {
            None | Some("prometheus.WriteRequest") => Some(Version::V1),
            Some("io.prometheus.write.v2.Request") => Some(Version::V2),
            Some(_) => None,
        }
    }

    /// What the header `X-Prometheus-Remote-Write-Version` says.
    pub fn header(self) -> &'static str {
        match self {
            Version::V1 => "0.1.0",
            Version::V2 => "2.0.0",
        }
    }
}

/// Reads a body as it came, compressed.
pub fn decode(version: Version, body: &[u8], limits: &Limits) -> Result<Batch, Error> {
    let bytes = decompress(body, limits)?;
    match version {
        Version::V1 => decode_v1(&bytes, limits),
        Version::V2 => decode_v2(&bytes, limits),
    }
}

/// How much memory a body will take, if it may.
pub fn unpacked_bytes(body: &[u8], limits: &Limits) -> Result<usize, Error> {
    // The length stands in front; a body that lies about it is refused by the decoder.
    let length = snap::raw::decompress_len(body).map_err(|_| Error::NotSnappy)?;
    Limits::check(length, limits.bytes_max, "bytes")?;
    Ok(length)
}

pub(super) fn decompress(body: &[u8], limits: &Limits) -> Result<Vec<u8>, Error> {
    unpacked_bytes(body, limits)?;
    snap::raw::Decoder::new().decompress_vec(body).map_err(|_| Error::NotSnappy)
}

fn decode_v1(bytes: &[u8], limits: &Limits) -> Result<Batch, Error> {
    let mut reading = Reading::new(limits);
    let mut fields = Fields(bytes);
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => reading.series_v1(value.bytes()?)?,
            3 => reading.metadata_v1(value.bytes()?)?,
            _ => {}
        }
    }
    Ok(reading.batch)
}

/// The texts come first in what senders write, but need not.
fn decode_v2(bytes: &[u8], limits: &Limits) -> Result<Batch, Error> {
    let mut symbols = Vec::new();
    let mut fields = Fields(bytes);
    while let Some((field, value)) = fields.next()? {
        if field == 4 {
            symbols.push(value.text()?);
            let symbols_max = limits.series_max.saturating_mul(2);
            Limits::check(symbols.len(), symbols_max, "symbols")?;
        }
    }
    let mut reading = Reading::new(limits);
    let mut fields = Fields(bytes);
    while let Some((field, value)) = fields.next()? {
        if field == 5 {
            reading.series_v2(value.bytes()?, &symbols)?;
        }
    }
    Ok(reading.batch)
}

struct Reading<'a> {
    limits: &'a Limits,
    batch: Batch,
    samples: usize,
}

impl<'a> Reading<'a> {
    fn new(limits: &'a Limits) -> Self {
        Self { limits, batch: Batch::default(), samples: 0 }
    }

    fn series_v1(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let (mut pairs, mut samples) = (Vec::new(), Vec::new());
        let mut fields = Fields(bytes);
        while let Some((field, value)) = fields.next()? {
            match field {
                1 => {
                    let what = "labels in one series";
                    Limits::check(pairs.len() + 1, self.limits.labels_max, what)?;
                    pairs.push(label(value.bytes()?)?);
                }
                2 => self.sample(value.bytes()?, &mut samples)?,
                3 => self.batch.exemplars_dropped += 1,
                4 => self.batch.histograms_dropped += 1,
                _ => {}
            }
        }
        let labels = self.limits.labels(&pairs)?;
        self.push(labels, samples)
    }

    fn series_v2(&mut self, bytes: &[u8], symbols: &[&str]) -> Result<(), Error> {
        const NO_SYMBOL: Error = Error::Malformed("a text that it refers to is not there");
        let symbol = |number: u64| {
            let number = usize::try_from(number).ok();
            number.and_then(|number| symbols.get(number).copied()).ok_or(NO_SYMBOL)
        };
        let (mut refs, mut samples, mut metadata) = (Vec::new(), Vec::new(), None);
        let mut fields = Fields(bytes);
        while let Some((field, value)) = fields.next()? {
            match field {
                1 => {
                    let mut packed = Fields(value.bytes()?);
                    while !packed.0.is_empty() {
                        refs.push(symbol(packed.varint()?)?);
                        let what = "labels in one series";
                        Limits::check(refs.len(), self.limits.labels_max * 2, what)?;
                    }
                }
                2 => self.sample(value.bytes()?, &mut samples)?,
                3 => self.batch.histograms_dropped += 1,
                4 => self.batch.exemplars_dropped += 1,
                5 => metadata = Some(value.bytes()?),
                _ => {}
            }
        }
        if !refs.len().is_multiple_of(2) {
            return Err(Error::Malformed("a label has a name and no value"));
        }
        let pairs: Vec<(&str, &str)> = refs.chunks(2).map(|pair| (pair[0], pair[1])).collect();
        let labels = self.limits.labels(&pairs)?;
        if let Some(bytes) = metadata {
            let mut told = Metadata {
                metric: labels.get(tombolo_series::NAME).to_owned(),
                ..Metadata::default()
            };
            let mut fields = Fields(bytes);
            while let Some((field, value)) = fields.next()? {
                match field {
                    1 => told.kind = MetricKind::of_number(value.number()?),
                    3 => symbol(value.number()?)?.clone_into(&mut told.help),
                    4 => symbol(value.number()?)?.clone_into(&mut told.unit),
                    _ => {}
                }
            }
            self.metadata(told)?;
        }
        self.push(labels, samples)
    }

    fn sample(&mut self, bytes: &[u8], samples: &mut Vec<Sample>) -> Result<(), Error> {
        self.samples += 1;
        Limits::check(self.samples, self.limits.samples_max, "samples")?;
        let mut sample = Sample::new(0, 0.0);
        let mut fields = Fields(bytes);
        while let Some((field, value)) = fields.next()? {
            match field {
                1 => sample.value = value.double()?,
                2 => sample.at_ms = value.signed()?,
                _ => {}
            }
        }
        samples.push(sample);
        Ok(())
    }

    fn push(&mut self, labels: Labels, samples: Vec<Sample>) -> Result<(), Error> {
        Limits::check(self.batch.series.len() + 1, self.limits.series_max, "series")?;
        self.batch.series.push(Series { labels, samples });
        Ok(())
    }

    fn metadata_v1(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let mut told = Metadata::default();
        let mut fields = Fields(bytes);
        while let Some((field, value)) = fields.next()? {
            match field {
                1 => told.kind = MetricKind::of_number(value.number()?),
                2 => value.text()?.clone_into(&mut told.metric),
                4 => value.text()?.clone_into(&mut told.help),
                5 => value.text()?.clone_into(&mut told.unit),
                _ => {}
            }
        }
        self.metadata(told)
    }

    fn metadata(&mut self, told: Metadata) -> Result<(), Error> {
        let count = self.batch.metadata.len() + 1;
        Limits::check(count, self.limits.series_max, "metrics that it describes")?;
        let bytes = told.metric.len().max(told.help.len()).max(told.unit.len());
        let what = "bytes in the description of a metric";
        Limits::check(bytes, self.limits.label_value_bytes_max, what)?;
        self.batch.metadata.push(told);
        Ok(())
    }
}

fn label(bytes: &[u8]) -> Result<(&str, &str), Error> {
    let mut pair = ("", "");
    let mut fields = Fields(bytes);
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => pair.0 = value.text()?,
            2 => pair.1 = value.text()?,
            _ => {}
        }
    }
    Ok(pair)
}

/// The body of a request, compressed. 2.0 is the smaller one: each text is there once.
pub fn encode(version: Version, series: &[Series], metadata: &[Metadata]) -> Vec<u8> {
    let message = match version {
        Version::V1 => encode_v1(series, metadata),
        Version::V2 => encode_v2(series, metadata),
    };
    let compressed = snap::raw::Encoder::new().compress_vec(&message);
    compressed.expect("a message is shorter than the four gigabytes that snappy can say")
}

fn encode_v1(series: &[Series], metadata: &[Metadata]) -> Vec<u8> {
    let (mut out, mut one) = (Vec::new(), Vec::new());
    put_series(&mut out, series);
    for told in metadata {
        one.clear();
        put_number(&mut one, 1, told.kind as u64);
        put_bytes(&mut one, 2, told.metric.as_bytes());
        put_bytes(&mut one, 4, told.help.as_bytes());
        put_bytes(&mut one, 5, told.unit.as_bytes());
        put_message(&mut out, 3, &one);
    }
    out
}

/// Series as 1.0 has them.
pub(super) fn put_series(out: &mut Vec<u8>, series: &[Series]) {
    let (mut one, mut inner) = (Vec::new(), Vec::new());
    for Series { labels, samples } in series {
        one.clear();
        for (name, value) in labels.iter() {
            inner.clear();
            put_bytes(&mut inner, 1, name.as_bytes());
            put_bytes(&mut inner, 2, value.as_bytes());
            put_message(&mut one, 1, &inner);
        }
        put_samples(&mut one, &mut inner, samples);
        put_message(out, 1, &one);
    }
}

fn put_samples(out: &mut Vec<u8>, inner: &mut Vec<u8>, samples: &[Sample]) {
    for sample in samples {
        inner.clear();
        put_double(inner, 1, sample.value);
        put_number(inner, 2, sample.at_ms.cast_unsigned());
        put_message(out, 2, inner);
    }
}

/// Texts by their numbers; the first one is empty, as the format demands.
struct SymbolTable<'a> {
    texts: Vec<&'a str>,
    numbers: std::collections::HashMap<&'a str, u64>,
}

impl<'a> SymbolTable<'a> {
    fn number(&mut self, text: &'a str) -> u64 {
        *self.numbers.entry(text).or_insert_with(|| {
            self.texts.push(text);
            self.texts.len() as u64 - 1
        })
    }
}

fn encode_v2(series: &[Series], metadata: &[Metadata]) -> Vec<u8> {
    let mut table = SymbolTable { texts: vec![""], numbers: [("", 0)].into() };
    let told: std::collections::HashMap<&str, &Metadata> =
        metadata.iter().map(|told| (told.metric.as_str(), told)).collect();
    let (mut all, mut one, mut inner) = (Vec::new(), Vec::new(), Vec::new());
    for Series { labels, samples } in series {
        one.clear();
        inner.clear();
        for text in labels.iter().flat_map(|(name, value)| [name, value]) {
            put_varint(&mut inner, table.number(text));
        }
        put_bytes(&mut one, 1, &inner);
        put_samples(&mut one, &mut inner, samples);
        if let Some(told) = told.get(labels.get(tombolo_series::NAME)) {
            inner.clear();
            put_number(&mut inner, 1, told.kind as u64);
            put_number(&mut inner, 3, table.number(&told.help));
            put_number(&mut inner, 4, table.number(&told.unit));
            put_message(&mut one, 5, &inner);
        }
        put_message(&mut all, 5, &one);
    }
    let mut out = Vec::with_capacity(all.len() * 2);
    for text in &table.texts {
        put_message(&mut out, 4, text.as_bytes());
    }
    out.append(&mut all);
    out
}

#[cfg(test)]
mod tests;
