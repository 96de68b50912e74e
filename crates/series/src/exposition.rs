//! Samples from text: OpenMetrics, and the older format of Prometheus. Pure, within bounds, and every
//! complaint names its line.
//!
//! Times are seconds in OpenMetrics, which ends with `# EOF`, and milliseconds in the older format. What is
//! far too small for milliseconds is taken for seconds there as well: people write it.

use std::collections::HashMap;

use crate::labels::{Labels, NAME};
use crate::sample::Sample;

/// What a reader takes.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub samples_max: usize,
    pub labels_max: usize,
    pub line_bytes_max: usize,
    /// The time of samples that have none; without it they are refused.
    pub default_ms: Option<i64>,
}

impl Default for Limits {
    fn default() -> Self {
        Self { samples_max: 50_000_000, labels_max: 128, line_bytes_max: 1 << 20, default_ms: None }
    }
}

/// What is wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct LineError {
    /// From 1.
    pub line: usize,
    pub problem: String,
}

/// Before this, milliseconds would be in 1973 and seconds are meant.
const MILLISECONDS_MIN: f64 = 1e11;

/// All series of a text, each with its samples in the order of time. Of two samples of one time the later
/// line counts.
pub fn read(text: &str, limits: &Limits) -> Result<Vec<(Labels, Vec<Sample>)>, LineError> {
    let open_metrics = text.trim_end().ends_with("# EOF");
    let mut series: HashMap<Labels, Vec<Sample>> = HashMap::new();
    let mut count = 0;
    for (number, line) in text.lines().enumerate() {
        let at = |problem: String| LineError { line: number + 1, problem };
        if line.len() > limits.line_bytes_max {
            return Err(at(format!("longer than {} bytes", limits.line_bytes_max)));
        }
        let line = line.trim_matches([' ', '\t', '\r']);
        if line == "# EOF" {
            break;
        }
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        count += 1;
        if count > limits.samples_max {
            return Err(at(format!("more than {} samples", limits.samples_max)));
        }
        let (labels, sample) = sample(line, open_metrics, limits).map_err(at)?;
        series.entry(labels).or_default().push(sample);
    }
    let mut series: Vec<(Labels, Vec<Sample>)> = series.into_iter().collect();
    series.sort_by(|a, b| a.0.cmp(&b.0));
    for (_, samples) in &mut series {
        samples.reverse();
        samples.sort_by_key(|sample| sample.at_ms);
        samples.dedup_by_key(|sample| sample.at_ms);
    }
    Ok(series)
}

fn sample(line: &str, open_metrics: bool, limits: &Limits) -> Result<(Labels, Sample), String> {
    let mut reader = Reader { rest: line };
    let mut pairs = Vec::new();
    let name = reader.word(|c| c.is_ascii_alphanumeric() || c == '_' || c == ':');
    if name.starts_with(|c: char| c.is_ascii_digit()) {
        return Err(format!("{name:?} is no name of a metric"));
    }
    if !name.is_empty() {
        pairs.push((NAME.to_owned(), name.to_owned()));
    }
    if reader.take('{') {
        reader.labels(&mut pairs, limits.labels_max)?;
    }
    if !pairs.iter().any(|(name, _)| name == NAME) {
        return Err("a metric has a name".to_owned());
    }
    let mut words = reader.rest.split_ascii_whitespace();
    let value = words.next().ok_or("there is no value")?;
    let value = number(value).ok_or_else(|| format!("{value:?} is not a number"))?;
    let at_ms = match words.next().filter(|word| *word != "#") {
        None => limits.default_ms.ok_or("there is no time after the value")?,
        Some(word) => {
            let time = number(word).filter(|time| time.is_finite());
            let time = time.ok_or_else(|| format!("{word:?} is not a time"))?;
            let seconds = open_metrics || time.abs() < MILLISECONDS_MIN;
            let ms = if seconds { time * 1000.0 } else { time };
            if ms.abs() > 9e15 {
                return Err(format!("{word:?} is beyond all times"));
            }
            if let Some(more) = words.next().filter(|more| *more != "#") {
                return Err(format!("{more:?} is left over"));
            }
            ms.round() as i64
        }
    };
    Ok((Labels::new(pairs), Sample::new(at_ms, value)))
}

fn number(word: &str) -> Option<f64> {
    match word.to_ascii_lowercase().trim_start_matches('+') {
        "inf" | "infinity" => Some(f64::INFINITY),
        "-inf" | "-infinity" => Some(f64::NEG_INFINITY),
        "nan" => Some(f64::NAN),
        word => word.parse().ok(),
    }
}

struct Reader<'a> {
    rest: &'a str,
}

impl<'a> Reader<'a> {
    fn space(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t']);
    }

    fn take(&mut self, wanted: char) -> bool {
        self.space();
        match self.rest.strip_prefix(wanted) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn word(&mut self, accepts: impl Fn(char) -> bool) -> &'a str {
        self.space();
        let end = self.rest.find(|c| !accepts(c)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word
    }

    /// After the brace.
    fn labels(
        &mut self,
        pairs: &mut Vec<(String, String)>,
        labels_max: usize,
    ) -> Result<(), String> {
        loop {
            if self.take('}') {
                return Ok(());
            }
            if pairs.len() >= labels_max {
                return Err(format!("more than {labels_max} labels"));
            }
            let (name, quoted) = if self.take('"') {
                (self.text()?, true)
            } else {
                (self.word(|c| c.is_ascii_alphanumeric() || c == '_').to_owned(), false)
            };
            if quoted && !self.rest.trim_start().starts_with('=') {
                pairs.push((NAME.to_owned(), name));
            } else {
                if name.is_empty() || !self.take('=') || !self.take('"') {
                    return Err(format!(
                        "a label like name=\"value\" is wanted at {:?}",
                        cut(self.rest)
                    ));
                }
                if pairs.iter().any(|(known, _)| *known == name) {
                    return Err(format!("the label {name:?} is there twice"));
                }
                pairs.push((name, self.text()?));
            }
            if !self.take(',') && !self.rest.trim_start().starts_with('}') {
                return Err(format!("\",\" or \"}}\" is wanted at {:?}", cut(self.rest)));
            }
        }
    }

    /// After the quote.
    fn text(&mut self) -> Result<String, String> {
        let mut text = String::new();
        let mut chars = self.rest.char_indices();
        while let Some((at, c)) = chars.next() {
            match c {
                '"' => {
                    self.rest = &self.rest[at + 1..];
                    return Ok(text);
                }
                '\\' => match chars.next() {
                    Some((_, 'n')) => text.push('\n'),
                    Some((_, c @ ('"' | '\\'))) => text.push(c),
                    Some((_, c)) => text.extend(['\\', c]),
                    None => break,
                },
                c => text.push(c),
            }
        }
        Err("a quote is not closed".to_owned())
    }
}

fn cut(text: &str) -> String {
    text.chars().take(20).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn refused(text: &str, problem: &str) {
        assert_eq!(read(text, &Limits::default()).unwrap_err().to_string(), problem);
    }

    #[test]
    fn text_of_both_formats_is_read() {
        let text = "# HELP up says\n# TYPE up gauge\nup{job=\"a\",x=\"q\\\"\\n\"} 1 1700000000.5 # {id=\"1\"} 3\n\
                    up{job=\"a\",x=\"q\\\"\\n\"} 0 1700000001\n{\"a.b\",c=\"d\"} +Inf 5\n# EOF\n";
        let series = read(text, &Limits::default()).unwrap();
        assert_eq!(series.len(), 2);
        assert_eq!(series[0].0.to_string(), r#"{__name__="a.b", c="d"}"#);
        assert_eq!(
            series[1].1,
            [Sample::new(1_700_000_000_500, 1.0), Sample::new(1_700_000_001_000, 0.0)]
        );
        let older = read("up 1 1700000000500\n", &Limits::default()).unwrap();
        assert_eq!(older[0].1, [Sample::new(1_700_000_000_500, 1.0)]);
    }

    #[test]
    fn a_complaint_names_the_line() {
        refused("up 1 1\nup x 1", "line 2: \"x\" is not a number");
        refused("up 1", "line 1: there is no time after the value");
        refused("up{a=\"b} 1 1", "line 1: a quote is not closed");
        refused(
            "up{a=\"b\" c=\"d\"} 1 1",
            "line 1: \",\" or \"}\" is wanted at \"c=\\\"d\\\"} 1 1\"",
        );
        refused("up{a=\"b\",a=\"c\"} 1 1", "line 1: the label \"a\" is there twice");
        refused("{a=\"b\"} 1 1", "line 1: a metric has a name");
        refused("up 1 1 2", "line 1: \"2\" is left over");
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[a-z_{}\",=#\\\\ 0-9.\n+-]{0,120}") {
            let _ = read(&text, &Limits::default());
        }
    }
}
