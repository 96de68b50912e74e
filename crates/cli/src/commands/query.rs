//! `tombolo query`: PromQL, asked of a server or of files. A mistake in the query is found here, before
//! anybody is asked, and underlined.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use http_body_util::BodyExt as _;
use jiff::Timestamp;
use serde_json::Value;
use tombolo_series::promql::{self, Options, ParseError, Query as Asked};
use tombolo_series::{Budget, Head, HeadConfig, Querier as _, Span, exposition};

use crate::args::{QueryArgs, QueryFormat};
use crate::connection::{Connection, Query};
use crate::failure::{Exit, Failure};
use crate::moment;
use crate::output::note;
use crate::shell::Shell;

use super::chart;

/// Values over a range when no step is said: as many as a terminal shows.
const VALUES_USUAL: i64 = 100;

pub(super) async fn run(shell: &mut Shell, args: &QueryArgs) -> Result<Exit, Failure> {
    let expr = promql::parse(&args.query).map_err(|error| mistake(&args.query, &error))?;
    let body = if args.samples.is_empty() {
        let when = when(args, moment::now().as_millisecond())?;
        let connection = shell.connect().await?;
        ask(&connection, args, when).await?
    } else {
        let head = read(&args.samples)?;
        let newest = head.span().map_or(0, |span| span.to_ms);
        let when = when(args, newest)?;
        // A person's own files: no bound but the memory.
        let budget = Budget::new(u64::MAX, u64::MAX);
        let options = Options::default();
        promql::evaluate(&args.query, &expr, when, options, &head, &budget)
            .map_err(|error| Failure::failed(error.to_string()))?
            .to_json()
    };
    if args.output == QueryFormat::Json {
        shell.out.line(&body)?;
        return Ok(Exit::Ok);
    }
    let answer: Value = serde_json::from_str(&body)
        .map_err(|error| Failure::failed(format!("the answer is not JSON: {error}")))?;
    for kind in ["warnings", "infos"] {
        let notes = answer[kind].as_array().into_iter().flatten().filter_map(Value::as_str);
        notes.for_each(|told| note(&crate::output::harmless(told)));
    }
    let rows = chart::Rows::of(&answer["data"]);
    let text = match args.output {
        QueryFormat::Table => rows.table(),
        QueryFormat::Csv => rows.csv(),
        QueryFormat::Plot => rows.plot(shell.out.colour),
        QueryFormat::Json => body,
    };
    shell.out.text(&text)?;
    Ok(Exit::Ok)
}

/// What is wrong, and the place underlined.
fn mistake(query: &str, error: &ParseError) -> Failure {
    let mut message = error.to_string();
    if let Some(line) = query.lines().nth(error.line - 1) {
        let before = line.get(..error.column - 1).unwrap_or(line);
        let length = error.place.end.saturating_sub(error.place.start).max(1);
        let rest = line.get(error.column - 1..).unwrap_or_default();
        let marked = rest.chars().count().min(length).max(1);
        let (indent, marks) = (" ".repeat(before.chars().count()), "^".repeat(marked));
        message.push_str(&format!("\n  {line}\n  {indent}{marks}"));
    }
    Failure::usage(message)
}

fn when(args: &QueryArgs, now_ms: i64) -> Result<Asked, Failure> {
    let end = args.time.as_deref().map_or(Ok(now_ms), |text| time(text, now_ms))?;
    let Some(range) = args.range else { return Ok(Asked::instant(end)) };
    let range = i64::try_from(range.as_millis()).unwrap_or(i64::MAX);
    let step = match args.step {
        Some(step) => i64::try_from(step.as_millis()).unwrap_or(i64::MAX),
        None => (range / VALUES_USUAL).max(1000),
    };
    if step == 0 {
        return Err(Failure::usage("a step must be longer than zero"));
    }
    Ok(Asked::range(end.saturating_sub(range), end, step))
}

fn time(text: &str, now_ms: i64) -> Result<i64, Failure> {
    if let Some(ago) = text.strip_prefix('-')
        && let Ok(ago) = moment::parse_duration(ago)
    {
        return Ok(now_ms.saturating_sub(i64::try_from(ago.as_millis()).unwrap_or(i64::MAX)));
    }
    if text == "now" {
        return Ok(now_ms);
    }
    if let Some(ms) = chart::seconds_to_ms(text) {
        return Ok(ms);
    }
    text.parse::<Timestamp>().map(Timestamp::as_millisecond).map_err(|_| {
        Failure::usage(format!("{text:?} is not a time"))
            .hint("seconds since 1970, a time like 2026-05-04T12:00:00Z, or how long ago, like -1h")
    })
}

async fn ask(connection: &Connection, args: &QueryArgs, when: Asked) -> Result<String, Failure> {
    let query = Query::default().with("query", args.query.as_str());
    let seconds = chart::seconds;
    let path = match when.step_ms {
        None => query.with("time", seconds(when.start_ms)).after("/prometheus/api/v1/query"),
        Some(step_ms) => query
            .with("start", seconds(when.start_ms))
            .with("end", seconds(when.end_ms))
            .with("step", seconds(step_ms))
            .after("/prometheus/api/v1/query_range"),
    };
    get(connection, &path).await
}

/// An answer of the API of Prometheus; its refusals are no `Status`.
pub(super) async fn get(connection: &Connection, path: &str) -> Result<String, Failure> {
    let request = http::Request::get(path).body(kube::client::Body::empty());
    let request = request.map_err(|error| Failure::failed(error.to_string()))?;
    let response = connection.send_raw(request).await?;
    let status = response.status();
    let body = response.into_body().collect().await;
    let body = body.map_err(|error| Failure::failed(format!("the answer broke off: {error}")))?;
    let text = String::from_utf8_lossy(&body.to_bytes()).into_owned();
    if status.is_success() {
        return Ok(text);
    }
    let said: Value = serde_json::from_str(&text).unwrap_or_default();
    let problem = said["error"].as_str().or_else(|| said["message"].as_str()).unwrap_or(&text);
    Err(match status.as_u16() {
        400 => Failure::usage(problem.to_owned()),
        401 | 403 => Failure::new(Exit::Denied, problem.to_owned()),
        404 => Failure::new(Exit::NotFound, problem.to_owned())
            .hint("this server keeps no metrics: it is a lighthouse, or of an older version"),
        503 => Failure::new(Exit::Timeout, problem.to_owned()),
        _ => Failure::failed(problem.to_owned()),
    })
}

fn read(files: &[PathBuf]) -> Result<Head, Failure> {
    let config = HeadConfig { out_of_order_ms: i64::MAX, series_per_source_max: usize::MAX };
    let mut head = Head::new(config);
    for file in files {
        let text = text_of(file)?;
        let wrong = |problem: String| Failure::usage(format!("{}: {problem}", file.display()));
        let series = exposition::read(&text, &exposition::Limits::default());
        for (labels, samples) in series.map_err(|error| wrong(error.to_string()))? {
            let taken = head.insert("files", &labels, &samples);
            let tally = taken.map_err(|error| wrong(error.to_string()))?;
            if tally.conflicts > 0 {
                return Err(wrong(format!("{labels} has two values at one time in these files")));
            }
        }
    }
    if head.select_labels(&[], Span::ALL).is_empty() {
        note("these files have no samples");
    }
    Ok(head)
}

fn text_of(file: &Path) -> Result<String, Failure> {
    let read = if file.as_os_str() == "-" {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).map(|_| text)
    } else {
        fs::read_to_string(file)
    };
    read.map_err(|error| Failure::usage(format!("{}: {error}", file.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_of_a_mistake_is_underlined() {
        let query = "up + foo{a=b}";
        let failure = mistake(query, &promql::parse(query).unwrap_err());
        let lines: Vec<&str> = failure.message.lines().collect();
        assert_eq!(lines[1..], ["  up + foo{a=b}", &format!("{}^", " ".repeat(13))]);
    }

    #[test]
    fn times_are_moments_or_how_long_ago() {
        let now = 1_700_000_000_000;
        assert_eq!(time("-1h", now).unwrap(), now - 3_600_000);
        assert_eq!(time("now", now).unwrap(), now);
        assert_eq!(time("1700000000.5", 0).unwrap(), now + 500);
        assert_eq!(time("2023-11-14T22:13:20Z", 0).unwrap(), now);
        assert_eq!(time("yesterday", 0).unwrap_err().exit, Exit::Usage);
    }
}
