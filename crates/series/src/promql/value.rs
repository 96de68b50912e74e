//! What a query gives, and how the HTTP API of Prometheus writes it, byte for byte.

use std::fmt::Write as _;

use super::eval::Answer;
use super::format::{format_plain, format_value};
use crate::labels::Labels;
use crate::sample::Sample;

#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Scalar(Sample),
    Text {
        at_ms: i64,
        text: String,
    },
    /// In the order that the query asks for.
    Vector(Vec<Point>),
    /// In the order of the labels.
    Matrix(Vec<Points>),
}

/// A series at a moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    pub labels: Labels,
    pub sample: Sample,
}

/// A series over time.
#[derive(Clone, Debug, PartialEq)]
pub struct Points {
    pub labels: Labels,
    pub samples: Vec<Sample>,
}

impl Answer {
    /// The body of a successful answer.
    pub fn to_json(&self) -> String {
        self.to_json_within(usize::MAX).unwrap_or_default()
    }

    /// The same, or nothing where it would be longer than about `bytes_max`: a few long labels on many
    /// series make much of little.
    pub fn to_json_within(&self, bytes_max: usize) -> Option<String> {
        let mut out = String::from(r#"{"status":"success","data":{"resultType":"#);
        match &self.value {
            Value::Scalar(sample) => {
                out.push_str(r#""scalar","result":["#);
                put_seconds(&mut out, sample.at_ms);
                let _ = write!(out, ",\"{}\"]", format_plain(sample.value));
            }
            Value::Text { at_ms, text } => {
                out.push_str(r#""string","result":["#);
                put_seconds(&mut out, *at_ms);
                out.push(',');
                put_text(&mut out, text, Escape::Html);
                out.push(']');
            }
            Value::Vector(points) => {
                out.push_str(r#""vector","result":["#);
                for (number, point) in points.iter().enumerate() {
                    out.push_str(if number == 0 { r#"{"metric":"# } else { r#",{"metric":"# });
                    put_labels(&mut out, &point.labels);
                    out.push_str(r#","value":"#);
                    put_sample(&mut out, &point.sample);
                    out.push('}');
                    if out.len() > bytes_max {
                        return None;
                    }
                }
                out.push(']');
            }
            Value::Matrix(series) => {
                out.push_str(r#""matrix","result":["#);
                for (number, points) in series.iter().enumerate() {
                    out.push_str(if number == 0 { r#"{"metric":"# } else { r#",{"metric":"# });
                    put_labels(&mut out, &points.labels);
                    out.push_str(r#","values":["#);
                    for (number, sample) in points.samples.iter().enumerate() {
                        if out.len() > bytes_max {
                            return None;
                        }
                        if number > 0 {
                            out.push(',');
                        }
                        put_sample(&mut out, sample);
                    }
                    out.push_str("]}");
                }
                out.push(']');
            }
        }
        out.push('}');
        for (name, notes) in [("warnings", &self.warnings), ("infos", &self.infos)] {
            if notes.is_empty() {
                continue;
            }
            let _ = write!(out, ",\"{name}\":[");
            for (number, note) in notes.iter().enumerate() {
                if number > 0 {
                    out.push(',');
                }
                put_text(&mut out, note, Escape::Html);
            }
            out.push(']');
        }
        out.push('}');
        Some(out)
    }
}

/// The body of an answer that says why there is none. `kind` is a word of the API: `bad_data`, `execution`.
pub fn error_json(kind: &str, problem: &str) -> String {
    let mut out = format!("{{\"status\":\"error\",\"errorType\":\"{kind}\",\"error\":");
    put_text(&mut out, problem, Escape::Html);
    out.push('}');
    out
}

fn put_labels(out: &mut String, labels: &Labels) {
    out.push('{');
    for (number, (name, value)) in labels.iter().enumerate() {
        if number > 0 {
            out.push(',');
        }
        put_text(out, name, Escape::Json);
        out.push(':');
        put_text(out, value, Escape::Json);
    }
    out.push('}');
}

fn put_sample(out: &mut String, sample: &Sample) {
    let (sign, ms) = (if sample.at_ms < 0 { "-" } else { "" }, sample.at_ms.unsigned_abs());
    let _ = write!(out, "[{sign}{}", ms / 1000);
    if !ms.is_multiple_of(1000) {
        let _ = write!(out, ".{:03}", ms % 1000);
    }
    let _ = write!(out, ",\"{}\"]", format_value(sample.value));
}

/// As a float, without zeros at the end.
fn put_seconds(out: &mut String, at_ms: i64) {
    let _ = write!(out, "{}", at_ms as f64 / 1000.0);
}

/// Go escapes what HTML would read in all texts but those of labels.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Escape {
    Json,
    Html,
}

pub(super) fn put_text(out: &mut String, text: &str, escape: Escape) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' if escape == Escape::Html => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c if u32::from(c) < 0x20 => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}
