//! Prometheus' own tests of PromQL, read from the Go module cache where the source lies after a build. Nothing
//! of them is copied. What cannot pass yet is counted by reason; what passes must go on to.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::cast_possible_truncation,
    clippy::float_cmp,
    reason = "a test fails by panicking, prints what it compared, and compares floats"
)]

mod support;

use std::collections::BTreeMap;

use tombolo_series::promql::{self, Answer, Expr, Options, Query, Value};
use tombolo_series::{Budget, Head, HeadConfig, Labels, Sample, Span};

/// So many passed when this was written; fewer are a fault.
const PASSED_MIN: usize = 1372;

#[test]
fn the_tests_of_prometheus_itself_pass() {
    let Some(source) = support::prometheus("source") else {
        support::skip(
            "the_tests_of_prometheus_itself_pass",
            "no Prometheus source in the Go module cache",
        );
        return;
    };
    let folder = source.join("promql/promqltest/testdata");
    let mut files: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut passed = 0;
    let mut failed: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for path in files {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let mut run = Run::default();
        run.file(&std::fs::read_to_string(&path).unwrap(), &name);
        println!("{name}: {} passed, {} not", run.passed, run.failed.len());
        passed += run.passed;
        for (reason, what) in run.failed {
            failed.entry(reason).or_default().push(what);
        }
    }
    for (reason, all) in &failed {
        println!("{reason}: {}", all.len());
        if reason != HISTOGRAMS && reason != STARTS {
            all.iter().for_each(|what| println!("  {what}"));
        }
    }
    println!("passed: {passed}");
    assert!(passed >= PASSED_MIN, "{passed} passed, and {PASSED_MIN} did");
}

const HISTOGRAMS: &str = "native histograms, which are not there";
const STARTS: &str = "start timestamps, which are not there";

#[derive(Default)]
struct Run {
    head: Head,
    samples: BTreeMap<Labels, BTreeMap<i64, f64>>,
    tainted: Option<&'static str>,
    passed: usize,
    failed: Vec<(String, String)>,
}

impl Run {
    fn file(&mut self, text: &str, name: &str) {
        self.clear();
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        let mut at = 0;
        while at < lines.len() {
            let number = at + 1;
            let line = lines[at];
            at += 1;
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if line == "clear" {
                self.clear();
                continue;
            }
            let mut body = Vec::new();
            while at < lines.len() && !lines[at].is_empty() {
                if !lines[at].starts_with('#') {
                    body.push(lines[at]);
                }
                at += 1;
            }
            if line.starts_with("load") {
                self.load(line, &body);
            } else if line.starts_with("eval") {
                let what = format!("{name}:{number} {line}");
                match self.eval(line, &body) {
                    Ok(()) => self.passed += 1,
                    Err(reason) => {
                        let histograms = body.iter().any(|line| line.contains("{{"));
                        let reason = if histograms {
                            HISTOGRAMS.to_owned()
                        } else if let Some(taint) = self.tainted {
                            taint.to_owned()
                        } else {
                            reason
                        };
                        self.failed.push((reason, what));
                    }
                }
            }
        }
    }

    fn clear(&mut self) {
        self.head = Head::default();
        self.samples.clear();
        self.tainted = None;
    }

    fn load(&mut self, line: &str, body: &[&str]) {
        if line.starts_with("load_with_nhcb") {
            self.tainted = Some(HISTOGRAMS);
        }
        let step = promql::duration(line.split_ascii_whitespace().nth(1).unwrap()).unwrap();
        for line in body {
            if line.contains("{{") {
                self.tainted = Some(HISTOGRAMS);
                continue;
            }
            let Some((labels, values)) = series(line) else {
                self.tainted = Some(STARTS);
                continue;
            };
            // Of two lines for one series the later one counts.
            let all = self.samples.entry(labels).or_default();
            for (number, value) in values.iter().enumerate() {
                if let Some(value) = value {
                    all.insert((number as f64 * step * 1000.0).round() as i64, *value);
                }
            }
        }
        self.head = Head::new(HeadConfig::default());
        for (labels, samples) in &self.samples {
            let samples: Vec<Sample> = samples.iter().map(|(at, v)| Sample::new(*at, *v)).collect();
            self.head.insert("test", labels, &samples).unwrap();
        }
    }

    fn eval(&self, line: &str, body: &[&str]) -> Result<(), String> {
        let (verb, rest) = line.split_once(' ').unwrap();
        let mut ordered = verb == "eval_ordered";
        let mut fails = verb == "eval_fail";
        let mut range_vector = None;
        let mut text = None;
        let mut notes: Vec<&str> = Vec::new();
        let mut expected = Vec::new();
        for line in body {
            if let Some(expectation) = line.strip_prefix("expect ") {
                match expectation.split_ascii_whitespace().next().unwrap() {
                    "ordered" => ordered = true,
                    "fail" => fails = true,
                    "range" => range_vector = Some(moments(expectation)),
                    "string" => {
                        text = Some(expectation.trim_start_matches("string").trim().to_owned())
                    }
                    note => notes.push(note),
                }
            } else if line.starts_with("expected_fail") {
                fails = true;
            } else {
                expected.push(*line);
            }
        }
        let (query, expr) = parse_eval(rest);
        let parsed = promql::parse(&expr);
        let options = Options { delayed_name_removal: true, ..Options::default() };
        let result = parsed.map_err(|error| error.to_string()).and_then(|tree: Expr| {
            promql::evaluate(&expr, &tree, query, options, &self.head, &Budget::default())
                .map_err(|error| error.to_string())
        });
        match (result, fails) {
            (Err(_), true) => Ok(()),
            (Err(problem), false) => Err(format!("an error: {problem}")),
            (Ok(_), true) => Err("no error where one is wanted".to_owned()),
            (Ok(answer), false) => {
                if let Some(text) = text {
                    let quoted = text.trim_matches(['"', '`', '\'']);
                    let same = matches!(&answer.value, Value::Text { text, .. } if text == quoted);
                    return if same { Ok(()) } else { Err("another text".to_owned()) };
                }
                compare(&answer, &expected, query, ordered, range_vector)?;
                for note in notes {
                    let met = match note {
                        "warn" => !answer.warnings.is_empty(),
                        "no_warn" => answer.warnings.is_empty(),
                        "info" => !answer.infos.is_empty(),
                        "no_info" => answer.infos.is_empty(),
                        _ => true,
                    };
                    if !met {
                        return Err(format!("{note} is not met"));
                    }
                }
                Ok(())
            }
        }
    }
}

fn time(text: &str) -> i64 {
    let seconds = text.parse::<f64>().or_else(|_| promql::duration(text)).unwrap();
    (seconds * 1000.0).round() as i64
}

fn moments(text: &str) -> (i64, i64, i64) {
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let after = |word: &str| time(words[words.iter().position(|w| *w == word).unwrap() + 1]);
    (after("from"), after("to"), after("step"))
}

fn parse_eval(rest: &str) -> (Query, String) {
    let words: Vec<&str> = rest.split_ascii_whitespace().collect();
    let tail = |count: usize| {
        let mut rest = rest;
        for _ in 0..count {
            rest = rest.trim_start();
            rest = &rest[rest.find([' ', '\t']).unwrap_or(rest.len())..];
        }
        rest.trim().to_owned()
    };
    if words[0] == "range" {
        let (from, to, step) = moments(&words[..7].join(" "));
        return (Query::range(from, to, step), tail(7));
    }
    if words[1] == "at" {
        return (Query::instant(time(words[2])), tail(3));
    }
    (Query::instant(0), tail(1))
}

/// Labels, and a value or a gap for each step.
fn series(line: &str) -> Option<(Labels, Vec<Option<f64>>)> {
    let end = match line.find('{') {
        Some(open) if !line[..open].contains(' ') => {
            let mut quote = None;
            let mut end = open;
            let mut escaped = false;
            for (at, c) in line.char_indices().skip(open) {
                match quote {
                    Some(_) if escaped => escaped = false,
                    Some(q) if q != '`' && c == '\\' => escaped = true,
                    Some(q) if q == c => quote = None,
                    None if matches!(c, '"' | '\'' | '`') => quote = Some(c),
                    None if c == '}' => {
                        end = at + 1;
                        break;
                    }
                    _ => {}
                }
            }
            end
        }
        _ => line.find([' ', '\t']).unwrap_or(line.len()),
    };
    let (metric, values) = line.split_at(end);
    let labels = if metric == "{}" {
        Labels::empty()
    } else {
        let matchers = promql::parse_selector(metric).ok()?;
        Labels::new(matchers.iter().map(|m| (&*m.name, &*m.value)))
    };
    let mut out = Vec::new();
    for word in values.split_ascii_whitespace() {
        let (value, times) = match word.rsplit_once('x') {
            Some((value, times)) => (value, Some(times.parse::<usize>().ok()?)),
            None => (word, None),
        };
        if value == "_" {
            out.extend(std::iter::repeat_n(None, times.unwrap_or(1)));
            continue;
        }
        if value == "stale" {
            out.extend(std::iter::repeat_n(
                Some(Sample::stale(0).value),
                times.map_or(1, |t| t + 1),
            ));
            continue;
        }
        // A step, which begins with the last sign that is no exponent's.
        let split = value
            .char_indices()
            .filter(|(at, c)| {
                *at > 0 && matches!(c, '+' | '-') && !value[..*at].ends_with(['e', 'E'])
            })
            .map(|(at, _)| at)
            .next_back();
        let (start, step) = match (split, times) {
            (Some(at), Some(_)) => (number(&value[..at])?, number(&value[at..])?),
            _ => (number(value)?, 0.0),
        };
        let mut current = start;
        for _ in 0..=times.unwrap_or(0) {
            out.push(Some(current));
            current += step;
        }
    }
    Some((labels, out))
}

fn number(text: &str) -> Option<f64> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1.0, digits),
        None => (1.0, text.strip_prefix('+').unwrap_or(text)),
    };
    let value = match digits.to_ascii_lowercase().as_str() {
        "inf" => f64::INFINITY,
        "nan" => f64::NAN,
        _ => match digits.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16).ok()? as f64,
            None => digits.parse().or_else(|_| promql::duration(digits)).ok()?,
        },
    };
    Some(sign * value)
}

fn nearly(a: f64, b: f64) -> bool {
    a.to_bits() == b.to_bits()
        || a.is_nan() && b.is_nan()
        || a == b
        || (a - b).abs() <= 1e-6 * (a.abs() + b.abs())
}

fn compare(
    answer: &Answer,
    expected: &[&str],
    query: Query,
    ordered: bool,
    range_vector: Option<(i64, i64, i64)>,
) -> Result<(), String> {
    let mut wanted: Vec<(Labels, Vec<Sample>)> = Vec::new();
    let mut bare = None;
    for line in expected {
        if line.split_ascii_whitespace().count() == 1 {
            bare = number(line);
            continue;
        }
        let (labels, values) =
            series(line).ok_or_else(|| format!("an expectation not understood: {line}"))?;
        let (start, step) = match range_vector {
            Some((start, _, step)) => (start, step),
            None => (query.start_ms, query.step_ms.unwrap_or(1)),
        };
        let samples = values.iter().enumerate();
        let samples =
            samples.filter_map(|(n, v)| v.map(|v| Sample::new(start + step * n as i64, v)));
        wanted.push((labels, samples.filter(|s| Span::ALL.holds(s.at_ms)).collect()));
    }
    let mut found: Vec<(Labels, Vec<Sample>)> = match &answer.value {
        Value::Scalar(sample) => {
            let bare = bare.or_else(|| wanted.first().map(|(_, samples)| samples[0].value));
            let same = bare.is_some_and(|bare| nearly(bare, sample.value));
            return if same { Ok(()) } else { Err(format!("another number: {}", sample.value)) };
        }
        Value::Text { .. } => return Err("a text".to_owned()),
        Value::Vector(points) => {
            points.iter().map(|p| (p.labels.clone(), vec![p.sample])).collect()
        }
        Value::Matrix(series) => {
            series.iter().map(|p| (p.labels.clone(), p.samples.clone())).collect()
        }
    };
    if !ordered {
        wanted.sort_by(|a, b| a.0.cmp(&b.0));
        found.sort_by(|a, b| a.0.cmp(&b.0));
    }
    let same = wanted.len() == found.len()
        && wanted.iter().zip(&found).all(|(a, b)| {
            a.0 == b.0
                && a.1.len() == b.1.len()
                && a.1.iter().zip(&b.1).all(|(x, y)| x.at_ms == y.at_ms && nearly(x.value, y.value))
        });
    if same { Ok(()) } else { Err(format!("other values: {}", short(&found))) }
}

fn short(found: &[(Labels, Vec<Sample>)]) -> String {
    let series = found.iter().take(3).map(|(labels, samples)| {
        let values: Vec<String> = samples.iter().take(4).map(|s| s.value.to_string()).collect();
        format!("{labels} {}", values.join(" "))
    });
    let all: Vec<String> = series.collect();
    format!("{} series: {}", found.len(), all.join("; "))
}
