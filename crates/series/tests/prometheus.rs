//! The same samples and the same queries, here and in a real Prometheus: the answers must be the same, to
//! 1e-9 and in the same order where PromQL orders, and what one refuses the other must refuse.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::cast_possible_truncation,
    clippy::float_cmp,
    reason = "a test fails by panicking, prints what it compared, and compares floats"
)]

mod data;
mod queries;
mod server;
mod support;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use serde_json::Value as Json;
use tombolo_series::promql::{self, Options, Query, Value};
use tombolo_series::{Budget, Head, HeadConfig, Labels, Sample, exposition};

use queries::Wanted;
use server::Server;

#[test]
fn answers_are_those_of_a_real_prometheus() {
    let Some(programs) = support::prometheus("where") else {
        let reason = "no Prometheus; scripts/prometheus.sh build makes one where there is Go";
        support::skip("answers_are_those_of_a_real_prometheus", reason);
        return;
    };
    let text = data::text();
    let series = exposition::read(&text, &exposition::Limits::default()).unwrap();
    let mut head = Head::new(HeadConfig::default());
    for (labels, samples) in &series {
        head.insert("test", labels, samples).unwrap();
    }
    let server = Server::start(&programs, &text);
    let wanted = queries::all();
    let (mut same, mut refused, mut bytes, mut bytes_of) = (0, 0, 0, 0);
    let mut wrong = Vec::new();
    for Wanted { text, query } in &wanted {
        let theirs = answer(&server, text, *query);
        let ours = ask(&head, text, *query);
        let body: Json = serde_json::from_str(&theirs).unwrap();
        match (&ours, body["status"].as_str()) {
            (Err(_), Some("error")) => refused += 1,
            (Err(problem), _) => wrong.push(format!("{text}\n    only we refuse: {problem}")),
            (Ok(_), Some("error")) => {
                wrong.push(format!("{text}\n    only they refuse: {}", body["error"]))
            }
            (Ok(answer), _) => match differ(&answer.value, &body["data"], ordered(text)) {
                Some(difference) => wrong.push(format!("{text} {query:?}\n    {difference}")),
                None => {
                    same += 1;
                    // Of vectors that nothing orders, Prometheus changes the order from time to time.
                    if !matches!(answer.value, Value::Vector(_))
                        && body["infos"].is_null()
                        && body["warnings"].is_null()
                    {
                        bytes_of += 1;
                        let mine = answer.to_json();
                        bytes += usize::from(mine == theirs);
                        if mine != theirs && std::env::var_os("TOMBOLO_SHOW_BYTES").is_some() {
                            let at = mine.bytes().zip(theirs.bytes()).position(|(a, b)| a != b);
                            let at = at.unwrap_or_default().saturating_sub(40);
                            println!("{text}\n  {:.120}\n  {:.120}", &mine[at..], &theirs[at..]);
                        }
                    }
                }
            },
        }
    }
    println!(
        "{} queries: {same} the same, {refused} refused by both, {} not; {bytes} of {bytes_of} the same bytes",
        wanted.len(),
        wrong.len()
    );
    for difference in &wrong {
        println!("{difference}");
    }
    assert!(wanted.len() >= 500);
    assert!(wrong.is_empty(), "{} differ", wrong.len());
    assert!(bytes * 100 >= bytes_of * 90, "{bytes} of {bytes_of} are the same bytes");
}

/// The body of its answer.
fn answer(server: &Server, text: &str, query: Query) -> String {
    let seconds = |ms: i64| format!("{:.3}", ms as f64 / 1000.0);
    let (path, rest) = match query.step_ms {
        None => ("query", format!("time={}", seconds(query.start_ms))),
        Some(step) => (
            "query_range",
            format!(
                "start={}&end={}&step={}",
                seconds(query.start_ms),
                seconds(query.end_ms),
                seconds(step)
            ),
        ),
    };
    let escaped: String = text.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let body = format!("query={escaped}&{rest}");
    let mut stream = TcpStream::connect(&server.address).unwrap();
    write!(
        stream,
        "POST /api/v1/{path} HTTP/1.0\r\nContent-Type: application/x-www-form-urlencoded\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split_once("\r\n\r\n").unwrap().1.to_owned()
}

fn ask(head: &Head, text: &str, query: Query) -> Result<promql::Answer, String> {
    let expr = promql::parse(text).map_err(|error| error.to_string())?;
    let (options, budget) = (Options::default(), Budget::default());
    promql::evaluate(text, &expr, query, options, head, &budget).map_err(|error| error.to_string())
}

fn ordered(text: &str) -> bool {
    ["sort", "topk", "bottomk"].iter().any(|word| text.starts_with(word))
}

type Rows = Vec<(BTreeMap<String, String>, Vec<(i64, f64)>)>;

fn number(json: &Json) -> f64 {
    match json.as_str().unwrap() {
        "+Inf" => f64::INFINITY,
        "-Inf" => f64::NEG_INFINITY,
        text => text.parse().unwrap(),
    }
}

fn pair(json: &Json) -> (i64, f64) {
    ((json[0].as_f64().unwrap() * 1000.0).round() as i64, number(&json[1]))
}

fn labels(json: &Json) -> BTreeMap<String, String> {
    let map = json.as_object().unwrap();
    map.iter().map(|(name, value)| (name.clone(), value.as_str().unwrap().to_owned())).collect()
}

fn of_labels(labels: &Labels) -> BTreeMap<String, String> {
    labels.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

fn of_samples(samples: &[Sample]) -> Vec<(i64, f64)> {
    samples.iter().map(|sample| (sample.at_ms, sample.value)).collect()
}

/// How ours differs from theirs, if it does.
fn differ(ours: &Value, theirs: &Json, ordered: bool) -> Option<String> {
    let kind = theirs["resultType"].as_str().unwrap();
    let result = &theirs["result"];
    let rows = |field: &str, many: bool| -> Rows {
        let row = |row: &Json| {
            let values = &row[field];
            let values = if many {
                values.as_array().map(|all| all.iter().map(pair).collect()).unwrap_or_default()
            } else {
                vec![pair(values)]
            };
            (labels(&row["metric"]), values)
        };
        result.as_array().unwrap().iter().map(row).collect()
    };
    let (mut a, mut b): (Rows, Rows) = match (ours, kind) {
        (Value::Scalar(sample), "scalar") => (
            vec![(BTreeMap::new(), of_samples(&[*sample]))],
            vec![(BTreeMap::new(), vec![pair(result)])],
        ),
        (Value::Text { text, .. }, "string") => {
            return (result[1].as_str() != Some(text)).then(|| format!("{text:?} {result}"));
        }
        (Value::Vector(points), "vector") => (
            points
                .iter()
                .map(|point| (of_labels(&point.labels), of_samples(&[point.sample])))
                .collect(),
            rows("value", false),
        ),
        (Value::Matrix(series), "matrix") => (
            series
                .iter()
                .map(|points| (of_labels(&points.labels), of_samples(&points.samples)))
                .collect(),
            rows("values", true),
        ),
        (_, kind) => return Some(format!("they give a {kind}")),
    };
    if !ordered {
        a.sort_by(|a, b| a.0.cmp(&b.0));
        b.sort_by(|a, b| a.0.cmp(&b.0));
    }
    let same = a.len() == b.len()
        && a.iter().zip(&b).all(|(a, b)| {
            a.0 == b.0
                && a.1.len() == b.1.len()
                && a.1.iter().zip(&b.1).all(|(x, y)| x.0 == y.0 && nearly(x.1, y.1))
        });
    (!same).then(|| format!("ours   {}\n    theirs {}", short(&a, &b), short(&b, &a)))
}

fn nearly(a: f64, b: f64) -> bool {
    a == b || a.is_nan() && b.is_nan() || (a - b).abs() <= 1e-9 * a.abs().max(b.abs())
}

/// The first row in which the two differ.
fn short(rows: &Rows, others: &Rows) -> String {
    let mut out = format!("{} series: ", rows.len());
    let first = rows.iter().zip(others).position(|(a, b)| {
        let differ = |(x, y): (&(i64, f64), &(i64, f64))| x.0 != y.0 || !nearly(x.1, y.1);
        a.0 != b.0 || a.1.len() != b.1.len() || a.1.iter().zip(&b.1).any(differ)
    });
    if let Some(row) = rows.get(first.unwrap_or_default()) {
        let _ = write!(out, "{:?} {:?}", row.0, &row.1[..row.1.len().min(6)]);
    }
    out
}
