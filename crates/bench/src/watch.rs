//! `tombolo bench watch`: how long a change takes to reach a thousand watchers, and what one
//! costs that has stopped reading.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::ensure;
use bytes::Bytes;
use http::Method;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::api::config_map;
use crate::numbers::{percentile_ms, rounded};
use crate::server::Server;
use crate::wire::{Connection, Door};

const WATCHERS: usize = 1_000;
const CHANGES: usize = 200;
const CHANGE_EVERY: Duration = Duration::from_millis(50);
const FROZEN: usize = 50;
/// More than the history keeps, so that a watcher who missed it all must be told so; and enough
/// that a queue for each watcher would show: 80 MB for every one of them.
const FLOOD: usize = 40_000;
const VALUE_BYTES: usize = 2_000;
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

pub(crate) async fn run(dir: &Path) -> anyhow::Result<Value> {
    let server = Server::start(&dir.join("watch")).await?;
    let door = server.door()?;
    let mut delays = delays(&door).await?;
    let watching_mb = server.resident_mb()?;

    // Twice the same flood: the first fills what all watchers share, the second shows what the
    // frozen ones add.
    flood(&door, "warm").await?;
    flood(&door, "again").await?;
    let before = server.resident_mb()?;
    let frozen = freeze(&door).await?;
    flood(&door, "frozen").await?;
    let after = server.resident_mb()?;
    let ends = told_to_relist(frozen).await?;
    let frozen_count = f64::from(u32::try_from(FROZEN)?);
    Ok(json!({
        "bench": "watch", "watchers": WATCHERS, "changes": CHANGES,
        "p50_ms": percentile_ms(&mut delays, 50), "p99_ms": percentile_ms(&mut delays, 99),
        "max_ms": percentile_ms(&mut delays, 100), "rss_mb": rounded(watching_mb),
        "frozen_watchers": FROZEN,
        "frozen_watcher_mb": rounded((after - before).max(0.0) / frozen_count),
        "frozen_told_to_relist": ends,
    }))
}

/// For each change the time from before it was sent to when the last watcher had it: that is
/// longer than from its commit.
async fn delays(door: &Door) -> anyhow::Result<Vec<Duration>> {
    let (seen, mut arrivals) = mpsc::unbounded_channel();
    let mut tasks = Vec::new();
    for _ in 0..WATCHERS {
        let mut connection = Connection::open(door).await?;
        let path = format!("{CONFIG_MAPS}?watch=true&labelSelector=bench%3Dwatch");
        let (status, mut body) = connection.begin(Method::GET, &path, Bytes::new()).await?;
        ensure!(status.is_success(), "a watch was refused: {status}");
        let seen = seen.clone();
        tasks.push(tokio::spawn(async move {
            let _connection = connection;
            while let Some(Ok(frame)) = body.frame().await {
                let lines = frame
                    .data_ref()
                    .map_or(0, |data| data.iter().filter(|byte| **byte == b'\n').count());
                for _ in 0..lines {
                    let _ = seen.send(Instant::now());
                }
            }
        }));
    }
    let mut writer = Connection::open(door).await?;
    let mut delays = Vec::new();
    for index in 0..CHANGES {
        let mut object: Value =
            serde_json::from_slice(&config_map(&format!("watched-{index}"), 500))?;
        object["metadata"]["labels"] = json!({"bench": "watch"});
        let started = Instant::now();
        let body = Bytes::from(object.to_string());
        writer.ask(Method::POST, CONFIG_MAPS, body).await?;
        let mut last = started;
        for _ in 0..WATCHERS {
            let arrival = tokio::time::timeout(Duration::from_secs(30), arrivals.recv()).await?;
            last = last.max(arrival.unwrap_or(started));
        }
        delays.push(last - started);
        tokio::time::sleep(CHANGE_EVERY).await;
    }
    tasks.iter().for_each(tokio::task::JoinHandle::abort);
    Ok(delays)
}

async fn flood(door: &Door, name: &str) -> anyhow::Result<()> {
    const WRITERS: usize = 32;
    let tasks: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let (door, name) = (door.clone(), name.to_owned());
            tokio::spawn(async move {
                let mut connection = Connection::open(&door).await?;
                // The same objects again and again: what is stored does not grow.
                for index in 0..FLOOD / WRITERS {
                    let object = format!("flood-{writer}");
                    let path = format!("{CONFIG_MAPS}/{object}");
                    let body = json!({"data": {"value": format!("{name}-{index}-{}",
                        "x".repeat(VALUE_BYTES))}});
                    if index == 0 {
                        let made = config_map(&object, 1);
                        let _ = connection.ask(Method::POST, CONFIG_MAPS, made).await;
                    }
                    let body = Bytes::from(body.to_string());
                    connection.ask(Method::PATCH, &path, body).await?;
                }
                anyhow::Ok(())
            })
        })
        .collect();
    for task in tasks {
        task.await??;
    }
    Ok(())
}

type Frozen = Vec<(Connection, hyper::body::Incoming)>;

/// Watchers that read the answer's head and then nothing.
async fn freeze(door: &Door) -> anyhow::Result<Frozen> {
    let mut frozen = Vec::new();
    for _ in 0..FROZEN {
        let mut connection = Connection::open(door).await?;
        let path = format!("{CONFIG_MAPS}?watch=true");
        let (status, body) = connection.begin(Method::GET, &path, Bytes::new()).await?;
        ensure!(status.is_success(), "a watch was refused: {status}");
        frozen.push((connection, body));
    }
    Ok(frozen)
}

/// How many of the frozen watchers find, when they read again, that they must list anew.
async fn told_to_relist(frozen: Frozen) -> anyhow::Result<usize> {
    let readers = frozen.into_iter().map(|(_connection, body)| async move {
        let read = tokio::time::timeout(Duration::from_secs(30), body.collect()).await;
        let Ok(Ok(body)) = read else { return false };
        let told = b"\"reason\":\"Expired\"";
        body.to_bytes().windows(told.len()).any(|part| part == told)
    });
    let told = futures::future::join_all(readers).await;
    Ok(told.into_iter().filter(|told| *told).count())
}
