//! `tombolo bench store`: the store alone, in this process, against the disk under it and etcd.

use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use serde_json::{Value, json};
use tombolo_store::bench;

use crate::etcd::Etcd;
use crate::numbers::rounded;

const WRITERS: usize = 64;
const TIME: Duration = Duration::from_secs(5);
const OBJECTS: usize = 50_000;
const VALUE_BYTES: usize = 2_000;

pub(crate) async fn run(dir: &Path) -> anyhow::Result<Value> {
    let folder = |name: &str| -> anyhow::Result<std::path::PathBuf> {
        let path = dir.join(name);
        std::fs::create_dir_all(&path).context("cannot make a folder")?;
        Ok(path)
    };
    let syncs = bench::serial_syncs(&folder("syncs")?, TIME)?;
    let creates = bench::durable_creates(&folder("creates")?, WRITERS, TIME).await?;
    let etcd = match Etcd::start(&dir.join("etcd")).await? {
        Some(etcd) => Some(etcd.puts_per_second(WRITERS, TIME, VALUE_BYTES).await?),
        None => None,
    };
    let load = bench::load(&folder("load")?, OBJECTS).await?;
    let milliseconds = |time: Duration| rounded(time.as_secs_f64() * 1000.0);
    let mib = |bytes: u64| -> anyhow::Result<f64> {
        Ok(rounded(f64::from(u32::try_from(bytes / 1024)?) / 1024.0))
    };
    Ok(json!({
        "bench": "store", "writers": WRITERS, "value_bytes": VALUE_BYTES,
        "serial_fsync_per_s": rounded(syncs.per_second),
        "creates_per_s": rounded(creates.per_second),
        "times_fsync": rounded(creates.per_second / syncs.per_second),
        "create_p50_ms": milliseconds(creates.latency_p50),
        "create_p99_ms": milliseconds(creates.latency_p99),
        "etcd_puts_per_s": etcd.map(rounded),
        "times_etcd": etcd.map(|etcd| rounded(creates.per_second / etcd)),
        "objects": load.objects, "rss_mb": mib(load.resident_bytes_after)?,
        "reopen_ms": milliseconds(load.reopen_time), "file_mb": mib(load.file_bytes)?,
    }))
}
