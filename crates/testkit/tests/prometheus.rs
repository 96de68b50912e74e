//! Our API of Prometheus beside a real one: the same samples in both, and the same answers to the same
//! requests; a real Prometheus that writes into us; and promtool, which takes us for one.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking and prints what it compared"
)]
#![expect(
    clippy::cast_possible_truncation,
    reason = "the modules of the other test have few numbers"
)]

#[path = "../../series/tests/data/mod.rs"]
mod data;
#[path = "../../series/tests/queries/mod.rs"]
mod queries;
#[path = "../../series/tests/server/mod.rs"]
mod server;
#[path = "../../series/tests/support/mod.rs"]
mod support;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::{Value as Json, json};
use tombolo_series::exposition;
use tombolo_telemetry::wire::Series;
use tombolo_telemetry::wire::remote_write::{Version, encode};
use tombolo_testkit::{Tombolo, eventually};

use queries::{BASE_MS, Wanted};
use server::Server;

/// Where a server is, and what lets us in.
struct Home {
    address: String,
    /// `/prometheus`, or nothing.
    root: &'static str,
    token: Option<String>,
}

impl Home {
    fn ours(tombolo: &Tombolo) -> Home {
        let token = std::fs::read_to_string(tombolo.data().join("admin.token")).unwrap();
        let (address, token) = (tombolo.address().to_owned(), Some(token.trim().to_owned()));
        Home { address, root: "/prometheus", token }
    }

    fn theirs(server: &Server) -> Home {
        Home { address: server.address.clone(), root: "", token: None }
    }

    fn url(&self) -> String {
        format!("http://{}{}", self.address, self.root)
    }

    fn post(&self, path: &str, headers: &str, body: &[u8]) -> (u16, String) {
        let token = self.token.iter();
        let token: String =
            token.map(|token| format!("Authorization: Bearer {token}\r\n")).collect();
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let head = format!(
            "POST {}/api/v1/{path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n{token}{headers}\
             Content-Length: {}\r\n\r\n",
            self.root,
            self.address,
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(body).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let code = head.split(' ').nth(1).unwrap().parse().unwrap();
        let chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
        (code, if chunked { unchunked(body) } else { body.to_owned() })
    }

    /// A form, as Grafana sends it.
    fn ask(&self, path: &str, form: &[(&str, &str)]) -> (u16, Json) {
        let escape =
            |text: &str| text.bytes().map(|byte| format!("%{byte:02X}")).collect::<String>();
        let pairs: Vec<String> =
            form.iter().map(|(key, value)| format!("{}={}", escape(key), escape(value))).collect();
        let kind = "Content-Type: application/x-www-form-urlencoded\r\n";
        let (code, body) = self.post(path, kind, pairs.join("&").as_bytes());
        (code, serde_json::from_str(&body).unwrap_or_else(|error| panic!("{error}: {body}")))
    }
}

fn unchunked(mut text: &str) -> String {
    let mut out = String::new();
    while let Some((length, rest)) = text.split_once("\r\n") {
        let length = usize::from_str_radix(length.trim(), 16).unwrap();
        if length == 0 {
            break;
        }
        out.push_str(&rest[..length]);
        text = &rest[length + 2..];
    }
    out
}

/// How the first answer differs from the second, if it does.
fn differ(ours: &Json, theirs: &Json) -> Option<String> {
    match (ours, theirs) {
        (Json::Array(a), Json::Array(b)) => {
            if a.len() != b.len() {
                return Some(format!("{} and {} of them", a.len(), b.len()));
            }
            a.iter().zip(b).find_map(|(a, b)| differ(a, b))
        }
        (Json::Object(a), Json::Object(b)) => {
            if !a.keys().eq(b.keys()) {
                let keys =
                    |map: &serde_json::Map<String, Json>| map.keys().cloned().collect::<Vec<_>>();
                return Some(format!("keys {:?} and {:?}", keys(a), keys(b)));
            }
            a.iter().find_map(|(key, a)| differ(a, &b[key]).map(|why| format!("{key}: {why}")))
        }
        (Json::String(a), Json::String(b)) if a != b => {
            let number = |text: &str| match text {
                "+Inf" => Some(f64::INFINITY),
                "-Inf" => Some(f64::NEG_INFINITY),
                text => text.parse::<f64>().ok(),
            };
            match (number(a), number(b)) {
                (Some(x), Some(y)) if (x - y).abs() <= 1e-9 * x.abs().max(y.abs()) => None,
                _ => Some(format!("{a:?} and {b:?}")),
            }
        }
        (a, b) => (a != b).then(|| format!("{a} and {b}")),
    }
}

/// Vectors come in no order unless the query makes one.
fn ordered(answer: &mut Json, text: &str) {
    if ["sort", "topk", "bottomk"].iter().any(|word| text.starts_with(word)) {
        return;
    }
    if let Some(rows) = answer["data"]["result"].as_array_mut()
        && rows.iter().all(Json::is_object)
    {
        rows.sort_by_key(|row| row["metric"].to_string());
    }
}

#[derive(Default)]
struct Compared {
    same: usize,
    refused: usize,
    same_words: usize,
    wrong: Vec<String>,
}

impl Compared {
    fn add(&mut self, what: &str, ours: (u16, Json), theirs: (u16, Json)) {
        let ((code, ours), (other, theirs)) = (ours, theirs);
        if code != other || ours["status"] != theirs["status"] {
            self.wrong.push(format!("{what}\n    {code} {ours:.300}\n    {other} {theirs:.300}"));
        } else if theirs["status"] == "error" {
            self.refused += 1;
            self.same_words += usize::from(ours["error"] == theirs["error"]);
            if ours["errorType"] != theirs["errorType"] {
                self.wrong.push(format!("{what}\n    {ours}\n    {theirs}"));
            }
        } else {
            match differ(&ours["data"], &theirs["data"]) {
                None => self.same += 1,
                Some(why) => self.wrong.push(format!("{what}\n    {why}")),
            }
        }
    }

    /// Whether all were the same, and there were enough of them.
    fn end(&self, what: &str, least: usize) -> bool {
        println!(
            "{what}: {} the same, {} refused by both ({} in the same words), {} not",
            self.same,
            self.refused,
            self.same_words,
            self.wrong.len()
        );
        self.wrong.iter().for_each(|wrong| println!("{wrong}"));
        self.same + self.refused >= least && self.wrong.is_empty()
    }
}

fn write(home: &Home, text: &str) {
    let series = exposition::read(text, &exposition::Limits::default()).unwrap();
    let series: Vec<Series> =
        series.into_iter().map(|(labels, samples)| Series { labels, samples }).collect();
    let headers =
        format!("Content-Type: {}\r\nContent-Encoding: snappy\r\n", Version::CONTENT_TYPE_V2);
    let (code, said) = home.post("write", &headers, &encode(Version::V2, &series, &[]));
    assert_eq!(code, 204, "{said}");
}

fn seconds(ms: i64) -> String {
    format!("{:.3}", ms as f64 / 1000.0)
}

fn compare_queries(ours: &Home, theirs: &Home) -> bool {
    let mut compared = Compared::default();
    for Wanted { text, query } in queries::all() {
        let (start, end) = (seconds(query.start_ms), seconds(query.end_ms));
        let step = query.step_ms.map(seconds);
        let (path, mut form) = match &step {
            None => ("query", vec![("time", start.as_str())]),
            Some(step) => {
                ("query_range", vec![("start", &*start), ("end", &*end), ("step", &**step)])
            }
        };
        form.push(("query", text.as_str()));
        let (mut a, mut b) = (ours.ask(path, &form), theirs.ask(path, &form));
        ordered(&mut a.1, &text);
        ordered(&mut b.1, &text);
        compared.add(&format!("{path} {text}"), a, b);
    }
    compared.end("queries", 500)
}

/// What is compared here beside queries has to say the same in the same shape.
fn compare_lists(ours: &Home, theirs: &Home) -> bool {
    let mut compared = Compared::default();
    let (start, end) = (seconds(BASE_MS), seconds(BASE_MS + 7_200_000));
    let span = [("start", start.as_str()), ("end", end.as_str())];
    let mut check = |path: &str, form: &[(&str, &str)]| {
        let form = [&span[..], form].concat();
        compared.add(&format!("{path} {form:?}"), ours.ask(path, &form), theirs.ask(path, &form));
    };
    for selector in ["odd", "{job=\"api\"}", "{__name__=~\"l.*\"}", "nothing", "{job=~\".*\"}", "{"]
    {
        check("series", &[("match[]", selector)]);
        check("labels", &[("match[]", selector)]);
    }
    check("series", &[]);
    check("labels", &[]);
    check("series", &[("match[]", "odd"), ("match[]", "temperature"), ("limit", "3")]);
    check("labels", &[("limit", "-1")]);
    check("query", &[("query", "up"), ("time", "never")]);
    check("query", &[("query", "odd"), ("limit", "1x")]);
    check("query", &[("query", "odd"), ("timeout", "soon")]);
    check("query_range", &[("query", "odd"), ("step", "0")]);
    check("query_range", &[("query", "odd"), ("step", "0.1")]);
    check("query_range", &[("query", "odd[5m]"), ("step", "60")]);
    check("query_exemplars", &[("query", "odd")]);
    compared.end("lists and mistakes", 20)
}

/// Written out in another way here, with the same meaning: calculated durations, and numbers that were
/// written as durations (docs/telemetry.md).
const WRITTEN_OTHERWISE: &[&str] = &[
    "rate(http_requests_total[2m * 2] offset (1m + 30s))",
    "temperature offset -(1m)",
    "0x1f + 017 + 1_000 + 1e3 + .5 + 5m",
];

fn compare_texts(ours: &Home, theirs: &Home) -> bool {
    let mut texts: Vec<String> = queries::all().into_iter().map(|wanted| wanted.text).collect();
    texts.dedup();
    texts.retain(|text| !WRITTEN_OTHERWISE.contains(&text.as_str()));
    let mut all = true;
    for (path, name) in [("format_query", "formatted"), ("parse_query", "trees")] {
        let mut compared = Compared::default();
        for text in &texts {
            let form = [("query", text.as_str())];
            compared.add(&format!("{path} {text}"), ours.ask(path, &form), theirs.ask(path, &form));
        }
        all &= compared.end(name, 200);
    }
    all
}

fn promtool(programs: &Path, home: &Home, config: &Path, words: &[&str]) -> (Option<i32>, String) {
    let token = home.token.clone().unwrap_or_else(|| "none".to_owned());
    let text = json!({"authorization": {"type": "Bearer", "credentials": token}});
    std::fs::write(config, text.to_string()).unwrap();
    let url = home.url();
    let words: Vec<&str> =
        words.iter().map(|word| if *word == "URL" { url.as_str() } else { word }).collect();
    let run = Command::new(programs.join("promtool"))
        .args(["query", "--http.config.file"])
        .arg(config)
        .args(words)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&run.stdout).into_owned();
    let problem = String::from_utf8_lossy(&run.stderr).replace(&url, "URL");
    (run.status.code(), said + &problem)
}

#[tokio::test]
async fn answers_over_http_are_those_of_a_real_prometheus() {
    let Some(programs) = support::prometheus("where") else {
        let reason = "no Prometheus; scripts/prometheus.sh build makes one where there is Go";
        support::skip("answers_over_http_are_those_of_a_real_prometheus", reason);
        return;
    };
    let text = data::text();
    let server = Server::start(&programs, &text);
    let tombolo = Tombolo::start().await;
    let (ours, theirs) = (Home::ours(&tombolo), Home::theirs(&server));
    write(&ours, &text);
    let compared =
        [compare_queries, compare_lists, compare_texts].map(|compare| compare(&ours, &theirs));
    assert_eq!(compared, [true; 3], "what differs is printed above");

    let config = tombolo.file("promtool.json", "");
    let (start, end) = (seconds(BASE_MS + 600_000), seconds(BASE_MS + 1_200_000));
    for words in [
        vec![
            "instant",
            "--time",
            &end,
            "URL",
            "sort(sum by (job) (rate(http_requests_total[5m])))",
        ],
        vec!["range", "--start", &start, "--end", &end, "--step", "60s", "URL", "sum(temperature)"],
        vec!["series", "--start", &start, "--end", &end, "--match", "odd", "URL"],
        vec!["labels", "--start", &start, "--end", &end, "URL", "job"],
        vec!["instant", "URL", "sum("],
    ] {
        let mine = promtool(&programs, &ours, &config, &words);
        let yours = promtool(&programs, &theirs, &config, &words);
        assert_eq!(mine, yours, "{words:?}");
    }
}

/// A Prometheus that scrapes itself and writes into us.
struct Writer {
    child: Child,
    address: String,
}

impl Writer {
    async fn start(programs: &Path, folder: &Path, ours: &Home) -> Writer {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = port.local_addr().unwrap().to_string();
        drop(port);
        let config = json!({
            "global": {"scrape_interval": "1s"},
            "scrape_configs": [{"job_name": "self", "static_configs": [{"targets": [address]}]}],
            "remote_write": [{
                "url": format!("{}/api/v1/write", ours.url()),
                "authorization": {"credentials": ours.token},
                "queue_config": {"batch_send_deadline": "1s", "min_backoff": "100ms"},
                "protobuf_message": "io.prometheus.write.v2.Request",
            }],
        });
        std::fs::create_dir_all(folder).unwrap();
        std::fs::write(folder.join("prometheus.yml"), config.to_string()).unwrap();
        let child = Command::new(programs.join("prometheus"))
            .arg(format!("--config.file={}", folder.join("prometheus.yml").display()))
            .arg(format!("--storage.tsdb.path={}", folder.join("data").display()))
            .arg(format!("--web.listen-address={address}"))
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(folder.join("log")).unwrap())
            .spawn()
            .unwrap();
        let writer = Writer { child, address };
        eventually("Prometheus listens", async || TcpStream::connect(&writer.address).ok()).await;
        writer
    }

    fn home(&self) -> Home {
        Home { address: self.address.clone(), root: "", token: None }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The value of a query that has one.
fn value(home: &Home, query: &str, time: Option<&str>) -> Option<f64> {
    let mut form = vec![("query", query)];
    form.extend(time.map(|time| ("time", time)));
    let (_, answer) = home.ask("query", &form);
    answer["data"]["result"][0]["value"][1].as_str()?.parse().ok()
}

#[tokio::test]
async fn a_real_prometheus_writes_into_us_and_a_crash_leaves_no_gap() {
    let Some(programs) = support::prometheus("where") else {
        let reason = "no Prometheus; scripts/prometheus.sh build makes one where there is Go";
        support::skip("a_real_prometheus_writes_into_us_and_a_crash_leaves_no_gap", reason);
        return;
    };
    let mut tombolo = Tombolo::start().await;
    let ours = Home::ours(&tombolo);
    let folder = tombolo.data().parent().unwrap().join("writer");
    let writer = Writer::start(&programs, &folder, &ours).await;
    let theirs = writer.home();
    let came = "count_over_time(up{job=\"self\"}[1h])";
    let until = async |count: f64| {
        eventually("samples come", async || value(&ours, came, None).filter(|n| *n >= count)).await
    };
    let before = until(5.0).await;
    tombolo.kill9();
    tombolo.restart().await;
    until(before + 5.0).await;
    // Up to the newest sample that we have, both have the same.
    let newest = value(&ours, "max(timestamp(up{job=\"self\"}))", None).unwrap();
    let time = format!("{newest:.3}");
    for query in [
        came,
        "count({job=\"self\"})",
        "count(count by (__name__) ({job=\"self\"}))",
        "sum(sum_over_time(scrape_samples_scraped[1h]))",
        "sum(prometheus_tsdb_head_series)",
        "sum(rate(prometheus_http_requests_total[1h]))",
    ] {
        let mine = eventually("what was sent last is there", async || {
            let (mine, yours) =
                (value(&ours, query, Some(&time)), value(&theirs, query, Some(&time)));
            (mine == yours).then_some(mine)
        });
        assert!(mine.await.is_some(), "{query}");
    }
}
