//! `tombolo bench api`: a server as its users see it, over TLS on loopback.

use std::path::Path;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};

use crate::etcd::Etcd;
use crate::numbers::{percentile_ms, rounded};
use crate::server::Server;
use crate::wire::{Connection, Door};

const WRITERS: usize = 64;
const CREATE_TIME: Duration = Duration::from_secs(5);
const NODES: usize = 10_000;
const LISTS: usize = 30;
const GETS: usize = 2_000;
const WRITES_PER_SECOND: u64 = 200;
const VALUE_BYTES: usize = 2_000;

pub(crate) async fn run(dir: &Path) -> anyhow::Result<Value> {
    let server = Server::start(&dir.join("api")).await?;
    let ready_ms = rounded(server.ready_after.as_secs_f64() * 1000.0);
    // Idle is after the first second, when what starting needed has been given back.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let idle_mb = rounded(server.resident_mb()?);
    let door = server.door()?;

    let creates = creates_per_second(&door).await?;
    let etcd = match Etcd::start(&dir.join("etcd")).await? {
        Some(etcd) => Some(etcd.puts_per_second(WRITERS, CREATE_TIME, VALUE_BYTES).await?),
        None => None,
    };
    fill_nodes(&door).await?;
    let mut lists = lists(&door).await?;
    let mut gets = gets_under_writes(&door).await?;
    Ok(json!({
        "bench": "api", "ready_ms": ready_ms, "idle_rss_mb": idle_mb,
        "writers": WRITERS, "object_bytes": VALUE_BYTES,
        "creates_per_s": rounded(creates),
        "etcd_puts_per_s": etcd.map(rounded),
        "times_etcd": etcd.map(|etcd| rounded(creates / etcd)),
        "listed_nodes": NODES,
        "list_p50_ms": percentile_ms(&mut lists, 50), "list_p99_ms": percentile_ms(&mut lists, 99),
        "background_writes_per_s": WRITES_PER_SECOND,
        "get_p50_ms": percentile_ms(&mut gets, 50), "get_p99_ms": percentile_ms(&mut gets, 99),
        "rss_mb": rounded(server.resident_mb()?),
    }))
}

pub(crate) fn config_map(name: &str, bytes: usize) -> Bytes {
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name},
        "data": {"value": "x".repeat(bytes)},
    });
    Bytes::from(object.to_string())
}

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn creates_per_second(door: &Door) -> anyhow::Result<f64> {
    let started = Instant::now();
    let tasks: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let door = door.clone();
            tokio::spawn(async move {
                let mut connection = Connection::open(&door).await?;
                let mut done = 0_u32;
                while started.elapsed() < CREATE_TIME {
                    let body = config_map(&format!("bench-{writer}-{done}"), VALUE_BYTES);
                    connection.ask(Method::POST, CONFIG_MAPS, body).await?;
                    done += 1;
                }
                anyhow::Ok(done)
            })
        })
        .collect();
    let mut total = 0;
    for task in tasks {
        total += task.await??;
    }
    Ok(f64::from(total) / started.elapsed().as_secs_f64())
}

async fn fill_nodes(door: &Door) -> anyhow::Result<()> {
    let tasks: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let door = door.clone();
            tokio::spawn(async move {
                let mut connection = Connection::open(&door).await?;
                for index in (writer..NODES).step_by(WRITERS) {
                    let node = json!({
                        "apiVersion": "tombolo.dev/v1alpha1", "kind": "Node",
                        "metadata": {"name": format!("node-{index}"),
                            "labels": {"bench": "yes", "shard": (index % 10).to_string()}},
                        "spec": {"site": "site-a"},
                    });
                    let body = Bytes::from(node.to_string());
                    connection.ask(Method::POST, "/apis/tombolo.dev/v1alpha1/nodes", body).await?;
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

async fn lists(door: &Door) -> anyhow::Result<Vec<Duration>> {
    let mut connection = Connection::open(door).await?;
    let mut times = Vec::new();
    for _ in 0..LISTS {
        let started = Instant::now();
        let path = "/apis/tombolo.dev/v1alpha1/nodes";
        connection.ask(Method::GET, path, Bytes::new()).await?;
        times.push(started.elapsed());
    }
    Ok(times)
}

async fn gets_under_writes(door: &Door) -> anyhow::Result<Vec<Duration>> {
    let writer_door = door.clone();
    let writer = tokio::spawn(async move {
        let mut tick = tokio::time::interval(Duration::from_millis(1000 / WRITES_PER_SECOND));
        let mut connections = Vec::new();
        for _ in 0..8 {
            connections.push(Connection::open(&writer_door).await?);
        }
        let mut done = 0_u32;
        loop {
            for connection in &mut connections {
                tick.tick().await;
                let body = config_map(&format!("background-{done}"), VALUE_BYTES);
                connection.ask(Method::POST, CONFIG_MAPS, body).await?;
                done += 1;
            }
        }
        #[expect(unreachable_code, reason = "names the type of the loop's errors")]
        anyhow::Ok(())
    });
    let mut connection = Connection::open(door).await?;
    let mut times = Vec::new();
    for index in 0..GETS {
        let path = format!("/apis/tombolo.dev/v1alpha1/nodes/node-{}", index % NODES);
        let started = Instant::now();
        connection.ask(Method::GET, &path, Bytes::new()).await?;
        times.push(started.elapsed());
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    anyhow::ensure!(!writer.is_finished(), "the background writes stopped");
    writer.abort();
    Ok(times)
}
