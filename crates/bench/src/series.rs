//! `tombolo bench series`: the store of samples alone, in this process. How fast samples come in, what they
//! take on the disk and in memory, and how long a start takes.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde_json::{Value, json};
use tombolo_series::Sample;
use tombolo_telemetry::store::{Batch, Config, Store};
use tombolo_telemetry::wire::Series;

use crate::numbers::rounded;
use crate::peer::{folder_bytes, resident_bytes};
use crate::samples::{STEP_MS, Source, sources};

const SERIES: usize = 10_000;
/// Two million samples for each number that is measured.
const STEPS: usize = 200;
/// A day, for what is on the disk.
const DAY_SERIES: usize = 500;
const DAY_STEPS: usize = 5760;
/// Twenty million samples in the head.
const HEAD_SERIES: usize = 50_000;
const HEAD_STEPS: usize = 400;

pub(crate) fn run(folder: &Path) -> anyhow::Result<Value> {
    let ingest = ingest(&folder.join("ingest"))?;
    let disk = disk(&folder.join("disk"))?;
    let head = head(&folder.join("head"))?;
    Ok(json!({"bench": "series", "ingest": ingest, "disk": disk, "head": head}))
}

fn config() -> Config {
    let mut config = Config { retention_ms: i64::MAX / 4, ..Config::default() };
    config.head.series_per_source_max = usize::MAX;
    config
}

/// One scrape of some steps of all series.
fn batch(sources: &mut [Source], from: usize, steps: usize) -> Batch {
    let at = |step: usize| i64::try_from(step).unwrap_or_default() * STEP_MS;
    let of = |source: &mut Source| -> Vec<Sample> {
        (from..from + steps).map(|step| source.next(at(step))).collect()
    };
    let series = sources.iter_mut().map(|source| {
        let samples = of(source);
        Series { labels: source.labels.clone(), samples }
    });
    let (source, series) = ("bench".to_owned(), series.collect());
    Batch { source, series, metadata: Vec::new(), now_ms: i64::MAX / 2 }
}

fn fill(store: &Store, sources: &mut [Source], steps: usize, at_once: usize) -> anyhow::Result<()> {
    for from in (0..steps).step_by(at_once) {
        let written = store.write_and_wait(batch(sources, from, at_once.min(steps - from)))?;
        anyhow::ensure!(written.not_taken() == 0, "samples were not taken: {written:?}");
    }
    Ok(())
}

/// Batches are made ahead, so that only the store is measured: the log, its syncs, the head, checkpoints.
fn ingest(folder: &Path) -> anyhow::Result<Value> {
    let store = Store::open(folder, config())?;
    let mut sources = sources(SERIES);
    let batches: Vec<Batch> = (0..STEPS).map(|step| batch(&mut sources, step, 1)).collect();
    let before = threads_time()?;
    let started = Instant::now();
    for batch in batches {
        store.write_and_wait(batch)?;
    }
    let (wall, busy) = (started.elapsed(), threads_time()?.saturating_sub(before));
    let samples = float(SERIES * STEPS);
    Ok(json!({
        "series": SERIES, "samples": SERIES * STEPS,
        "samples_per_s": rounded(samples / wall.as_secs_f64()),
        "samples_per_s_of_one_core": rounded(samples / busy.as_secs_f64()),
    }))
}

/// What all threads of this process have worked.
fn threads_time() -> anyhow::Result<Duration> {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Ok(Duration::new(u64::try_from(time.tv_sec)?, u32::try_from(time.tv_nsec)?))
}

fn float(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

fn mib(bytes: u64) -> f64 {
    rounded(float(usize::try_from(bytes / 1024).unwrap_or(usize::MAX)) / 1024.0)
}

fn disk(folder: &Path) -> anyhow::Result<Value> {
    let store = Store::open(folder, config())?;
    fill(&store, &mut sources(DAY_SERIES), DAY_STEPS, 240)?;
    store.keep_house();
    let statistics = store.statistics();
    let head = statistics.span.map_or(0, |span| (span.to_ms - span.from_ms) / STEP_MS + 1);
    let in_blocks = DAY_SERIES * (DAY_STEPS - usize::try_from(head)?);
    let bytes = folder_bytes(&folder.join("blocks"))?;
    Ok(json!({
        "samples": in_blocks, "block_bytes": bytes,
        "bytes_per_sample": rounded(float(usize::try_from(bytes)?) / float(in_blocks)),
        "blocks": statistics.blocks,
    }))
}

fn head(folder: &Path) -> anyhow::Result<Value> {
    let process = std::process::id();
    let (mut sources, empty) = (sources(HEAD_SERIES), resident_bytes(process)?);
    let store = Store::open(folder, config())?;
    fill(&store, &mut sources, HEAD_STEPS, 1)?;
    let running = resident_bytes(process)?.saturating_sub(empty);
    drop(store);
    let started = Instant::now();
    let store = Store::open(folder, config())?;
    let opened = started.elapsed();
    let again = resident_bytes(process)?.saturating_sub(empty);
    let series = store.statistics().series;
    anyhow::ensure!(series == HEAD_SERIES, "{series} series are back");
    let of_series = running / u64::try_from(HEAD_SERIES).context("a number")?;
    Ok(json!({
        "series": HEAD_SERIES, "samples": HEAD_SERIES * HEAD_STEPS,
        "memory_mib": mib(running), "bytes_per_active_series": of_series,
        "restart_ms": rounded(opened.as_secs_f64() * 1000.0), "memory_after_restart_mib": mib(again),
    }))
}
