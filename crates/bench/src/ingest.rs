//! `tombolo bench ingest`: samples over HTTP into a server and into a real Prometheus, and queries of
//! dashboards over a day of them, cold and warm. Both get the same messages and the same questions.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tombolo_telemetry::wire::Series;
use tombolo_telemetry::wire::remote_write::{Version, encode};

use crate::numbers::{percentile_ms, rounded};
use crate::peer::{Place, Prometheus, resident_bytes};
use crate::samples::{STEP_MS, sources};
use crate::server::Server;

/// For the rate: as Prometheus sends, two thousand samples in a message, one of each series.
const RATE_SERIES: usize = 10_000;
const RATE_STEPS: usize = 200;
const MESSAGE_SERIES: usize = 2000;

/// For the queries: a day of a thousand series.
const DAY_SERIES: usize = 1000;
const DAY_STEPS: usize = 5760;
const DAY_STEPS_AT_ONCE: usize = 40;

/// When the day begins.
const BASE_MS: i64 = 1_700_006_400_000;

const SENDERS: usize = 2;
const WARM_RUNS: usize = 5;

/// What dashboards of node_exporter ask.
const QUERIES: [&str; 10] = [
    "sum by (mode) (rate(node_cpu_seconds_total[5m]))",
    "100 - avg by (instance) (rate(node_cpu_seconds_total{mode=\"idle\"}[5m])) * 100",
    "sum by (instance) (rate(node_network_receive_bytes_total[5m]))",
    "topk(5, sum by (instance) (rate(node_disk_written_bytes_total[5m])))",
    "avg by (site) (node_memory_MemAvailable_bytes)",
    "max by (instance) (node_load1)",
    "quantile(0.95, rate(node_network_receive_bytes_total[5m]))",
    "count by (site) (node_uname_info)",
    "sum(increase(node_context_switches_total[1h]))",
    "avg_over_time(node_load1{instance=\"node-00003:9100\"}[1h])",
];

pub(crate) async fn run(folder: &Path) -> anyhow::Result<Value> {
    let folder = folder.to_owned();
    let server = Server::start_with(&folder.join("rate"), &["--no-agent"]).await?;
    let day = Server::start_with(&folder.join("day"), &["--no-agent"]).await?;
    let place = |server: &Server| -> anyhow::Result<Place> {
        let door = server.door()?;
        Ok(Place { address: door.address, root: "/prometheus", token: Some(door.token) })
    };
    let (ours, ours_day) = (place(&server)?, place(&day)?);
    let (rate_process, day_data) = (server.process_id(), folder.join("day"));
    let measured = tokio::task::spawn_blocking(move || -> anyhow::Result<(Value, Value)> {
        let messages = rate_messages();
        let mut rate = json!({"samples": RATE_SERIES * RATE_STEPS, "senders": SENDERS});
        rate["tombolo"] = send_all(&ours, &messages, rate_process)?;
        if let Some(prometheus) = Prometheus::start(&folder.join("prometheus-rate"))? {
            rate["prometheus"] = send_all(&prometheus.place, &messages, prometheus.process_id())?;
        }
        fill_day(&ours_day)?;
        let mut theirs = Value::Null;
        if let Some(prometheus) = Prometheus::start(&folder.join("prometheus-day"))? {
            fill_day(&prometheus.place)?;
            // Cold: what the process knows is gone, what the system has read is not.
            if let Some(prometheus) = prometheus.restart()? {
                theirs = ask_all(&prometheus.place)?;
                let ready = prometheus.ready_after.as_secs_f64() * 1000.0;
                theirs["restart_ms"] = json!(rounded(ready));
            }
        }
        Ok((rate, theirs))
    })
    .await??;
    drop((server, day));
    let day = Server::start_with(&day_data, &["--no-agent"]).await?;
    let (again, ready) = (place(&day)?, day.ready_after.as_secs_f64() * 1000.0);
    let asked = tokio::task::spawn_blocking(move || ask_all(&again)).await??;
    let mut asked = asked;
    asked["restart_ms"] = json!(rounded(ready));
    let (rate, theirs) = measured;
    let queries = json!({
        "series": DAY_SERIES, "samples": DAY_SERIES * DAY_STEPS, "tombolo": asked, "prometheus": theirs,
    });
    Ok(json!({"bench": "ingest", "remote_write": rate, "queries": queries}))
}

fn rate_messages() -> Vec<Vec<u8>> {
    let mut sources = sources(RATE_SERIES);
    let mut messages = Vec::new();
    for step in 0..RATE_STEPS {
        for some in sources.chunks_mut(MESSAGE_SERIES) {
            let at_ms = BASE_MS + i64::try_from(step).unwrap_or_default() * STEP_MS;
            let series: Vec<Series> = some
                .iter_mut()
                .map(|one| Series { samples: vec![one.next(at_ms)], labels: one.labels.clone() })
                .collect();
            messages.push(encode(Version::V1, &series, &[]));
        }
    }
    messages
}

fn headers() -> String {
    format!("Content-Type: {}\r\nContent-Encoding: snappy\r\n", Version::CONTENT_TYPE_V1)
}

/// Each sender has series of its own, so that samples of a series come in order.
fn send_all(place: &Place, messages: &[Vec<u8>], process: u32) -> anyhow::Result<Value> {
    let groups = RATE_SERIES / MESSAGE_SERIES;
    let before = processor_time(process)?;
    let started = Instant::now();
    std::thread::scope(|scope| -> anyhow::Result<()> {
        let senders: Vec<_> = (0..SENDERS)
            .map(|sender| {
                scope.spawn(move || -> anyhow::Result<()> {
                    let mut talk = place.talk()?;
                    for (number, message) in messages.iter().enumerate() {
                        if number % groups % SENDERS == sender {
                            talk.post("write", &headers(), message)?;
                        }
                    }
                    Ok(())
                })
            })
            .collect();
        for sender in senders {
            sender.join().map_err(|_| anyhow::anyhow!("a sender stumbled"))??;
        }
        Ok(())
    })?;
    let wall = started.elapsed();
    let busy = processor_time(process)?.saturating_sub(before);
    let samples = f64::from(u32::try_from(RATE_SERIES * RATE_STEPS)?);
    Ok(json!({
        "samples_per_s": rounded(samples / wall.as_secs_f64()),
        "samples_per_s_of_its_processor": rounded(samples / busy.as_secs_f64().max(0.01)),
        "memory_mib": rounded(f64::from(u32::try_from(resident_bytes(process)? / 1024)?) / 1024.0),
    }))
}

/// What a process has worked, in hundredths of a second.
fn processor_time(process: u32) -> anyhow::Result<Duration> {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
    let after = text.rsplit_once(')').map_or("", |(_, after)| after);
    let words: Vec<&str> = after.split_ascii_whitespace().collect();
    let ticks = |place: usize| words.get(place).and_then(|word| word.parse::<u64>().ok());
    let total = ticks(11).unwrap_or_default() + ticks(12).unwrap_or_default();
    Ok(Duration::from_millis(total * 10))
}

fn fill_day(place: &Place) -> anyhow::Result<()> {
    let (mut sources, mut talk) = (sources(DAY_SERIES), place.talk()?);
    for from in (0..DAY_STEPS).step_by(DAY_STEPS_AT_ONCE) {
        let times = || {
            (from..from + DAY_STEPS_AT_ONCE)
                .map(|step| BASE_MS + i64::try_from(step).unwrap_or_default() * STEP_MS)
        };
        let series: Vec<Series> = sources
            .iter_mut()
            .map(|one| Series {
                samples: times().map(|at| one.next(at)).collect(),
                labels: one.labels.clone(),
            })
            .collect();
        talk.post("write", &headers(), &encode(Version::V1, &series, &[]))?;
    }
    Ok(())
}

/// Each query over the day at five minutes, and at its end.
fn ask_all(place: &Place) -> anyhow::Result<Value> {
    let mut talk = place.talk()?;
    let form = "Content-Type: application/x-www-form-urlencoded\r\n";
    let end = BASE_MS / 1000 + 86_400;
    let mut asked = |query: &str| -> anyhow::Result<Duration> {
        let query: String = query.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let started = Instant::now();
        let range = format!("query={query}&start={}&end={end}&step=300", end - 86_400);
        talk.post("query_range", form, range.as_bytes())?;
        talk.post("query", form, format!("query={query}&time={end}").as_bytes())?;
        Ok(started.elapsed())
    };
    let mut rows = Vec::new();
    let (mut cold_all, mut warm_all) = (0.0, 0.0);
    for query in QUERIES {
        let mut cold = [asked(query)?];
        let mut warm = (0..WARM_RUNS).map(|_| asked(query)).collect::<anyhow::Result<Vec<_>>>()?;
        let (cold, warm) = (percentile_ms(&mut cold, 50), percentile_ms(&mut warm, 50));
        cold_all += cold;
        warm_all += warm;
        rows.push(json!({"query": query, "cold_ms": cold, "warm_ms": warm}));
    }
    Ok(json!({"cold_ms": rounded(cold_all), "warm_ms": rounded(warm_all), "each": rows}))
}
