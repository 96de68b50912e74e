//! Measures the store; prints nothing. `tombolo bench store` calls this and shows the results.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::{Draft, Error, Expect, Options, Result, Store, Write};

/// What an average object of the API weighs.
pub const VALUE_BYTES: usize = 2048;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Syncs {
    pub syncs: u64,
    pub per_second: f64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Creates {
    pub writers: usize,
    pub creates: u64,
    pub per_second: f64,
    pub latency_p50: Duration,
    pub latency_p99: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Load {
    pub objects: usize,
    pub load_time: Duration,
    /// The time to open the store again after it was closed.
    pub reopen_time: Duration,
    pub resident_bytes_before: u64,
    /// After the store was opened again, with everything in memory.
    pub resident_bytes_after: u64,
    pub file_bytes: u64,
}

/// How often one writer alone can append a block to a file and have it on disk.
pub fn serial_syncs(dir: &Path, duration: Duration) -> Result<Syncs> {
    let path = dir.join("bench-sync");
    let measured = append_and_sync(&path, duration);
    let removed = std::fs::remove_file(&path);
    let failed = |error: io::Error| Error::io(format!("measure syncs in {}", dir.display()), error);
    let syncs = measured.map_err(failed)?;
    removed.map_err(failed)?;
    Ok(syncs)
}

fn append_and_sync(path: &Path, duration: Duration) -> io::Result<Syncs> {
    let mut file: File = OpenOptions::new().write(true).create(true).truncate(true).open(path)?;
    let block = [b'x'; VALUE_BYTES];
    let started = Instant::now();
    let mut syncs = 0;
    while started.elapsed() < duration {
        file.write_all(&block)?;
        file.sync_data()?;
        syncs += 1;
    }
    Ok(Syncs { syncs, per_second: rate(syncs, started.elapsed()) })
}

/// Creates objects durably in a new store in `dir`, each writer one after the other.
pub async fn durable_creates(dir: &Path, writers: usize, duration: Duration) -> Result<Creates> {
    let options = Options { queue_calls_max: writers.max(1) * 2, ..Options::default() };
    let store = Store::open(dir, options)?;
    let started = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for writer in 0..writers {
        let store = store.clone();
        tasks.spawn(async move { create_until(&store, writer, started + duration).await });
    }
    let mut latencies = Vec::new();
    while let Some(result) = tasks.join_next().await {
        latencies.extend(result.map_err(|_| Error::Closed)??);
    }
    let elapsed = started.elapsed();
    latencies.sort_unstable();
    Ok(Creates {
        writers,
        creates: latencies.len() as u64,
        per_second: rate(latencies.len() as u64, elapsed),
        latency_p50: percentile(&latencies, 50),
        latency_p99: percentile(&latencies, 99),
    })
}

async fn create_until(store: &Store, writer: usize, end: Instant) -> Result<Vec<Duration>> {
    let mut latencies = Vec::new();
    while Instant::now() < end {
        let started = Instant::now();
        let key = format!("bench/{writer:04}/{:08}", latencies.len());
        store.commit(vec![Write::put(key, Expect::Absent, sample())]).await?;
        latencies.push(started.elapsed());
    }
    Ok(latencies)
}

/// Fills a new store in `dir` with objects, closes it and opens it again.
pub async fn load(dir: &Path, objects: usize) -> Result<Load> {
    const PER_CALL: usize = 500;
    let resident_bytes_before = resident_bytes()?;
    let started = Instant::now();
    let store = Store::open(dir, Options::default())?;
    for first in (0..objects).step_by(PER_CALL) {
        let numbers = first..objects.min(first + PER_CALL);
        let create = |number| Write::put(format!("bench/{number:08}"), Expect::Absent, sample());
        store.commit(numbers.map(create).collect()).await?;
    }
    let load_time = started.elapsed();
    drop(store);
    let started = Instant::now();
    let store = Store::open(dir, Options::default())?;
    let reopen_time = started.elapsed();
    assert_eq!(store.revision(), objects as u64, "every object was one write");
    let file_bytes = std::fs::metadata(dir.join("store.redb"))
        .map_err(|error| Error::io("measure the store's file", error))?
        .len();
    Ok(Load {
        objects,
        load_time,
        reopen_time,
        resident_bytes_before,
        resident_bytes_after: resident_bytes()?,
        file_bytes,
    })
}

/// How much memory this process takes.
pub fn resident_bytes() -> Result<u64> {
    let failed = |error| Error::io("read /proc/self/status", error);
    let status = std::fs::read_to_string("/proc/self/status").map_err(failed)?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kibibytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    match kibibytes {
        Some(kibibytes) => Ok(kibibytes * 1024),
        None => Err(failed(io::ErrorKind::InvalidData.into())),
    }
}

/// An object in the shape of the API's, of [`VALUE_BYTES`].
fn sample() -> Draft {
    let head = r#"{"metadata":{"resourceVersion":""#;
    let tail = r#""},"data":""#;
    let mut bytes = format!("{head}{tail}").into_bytes();
    let mut filler =
        (0_u32..).map(|number| b'a' + (number.wrapping_mul(2_654_435_761) >> 28) as u8);
    bytes.resize_with(VALUE_BYTES - 2, || filler.next().unwrap_or(b'a'));
    bytes.extend_from_slice(br#""}"#);
    Draft { bytes, revision_at: head.len() }
}

#[expect(clippy::cast_precision_loss, reason = "a rate needs no more than 52 bits")]
fn rate(count: u64, elapsed: Duration) -> f64 {
    count as f64 / elapsed.as_secs_f64()
}

fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    let at = (sorted.len() * percent / 100).min(sorted.len().saturating_sub(1));
    sorted.get(at).copied().unwrap_or_default()
}
