//! How long a descriptor takes to become an App: one megabyte of each of three formats, and ten times
//! as little, to see how the cost grows.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use tombolo_descriptor::write::{self, Target};
use tombolo_descriptor::{NoFiles, Reading, Source, read, sample};

use crate::numbers::{percentile_ms, rounded};

/// So many readings, of which the middle one counts.
const RUNS: usize = 21;
const BYTES: usize = 1_000_000;

pub(crate) fn run() -> anyhow::Result<Value> {
    let native = sample(BYTES);
    let app = read_text(&native).apps.into_iter().next().context("the sample has no app")?;
    let mut formats = serde_json::Map::new();
    formats.insert("native".to_owned(), measure(&native)?);
    for target in [Target::Compose, Target::Kubernetes, Target::Icos, Target::Codeco] {
        let text = write::write(&app, target).text;
        formats.insert(target.as_str().to_owned(), measure(&text)?);
    }
    Ok(json!({
        "bench": "descriptor",
        "goal_ms_per_megabyte": 50,
        "native_100_kilobytes": measure(&sample(BYTES / 10))?,
        "formats": formats,
    }))
}

fn read_text(text: &str) -> Reading {
    read(Source { name: "sample", text }, None, &NoFiles)
}

fn measure(text: &str) -> anyhow::Result<Value> {
    let reading = read_text(text);
    ensure!(
        !reading.apps.is_empty(),
        "the sample became no app: {:?}",
        reading.diagnostics.first()
    );
    let mut times: Vec<Duration> = (0..RUNS).map(|_| time(text)).collect();
    let median = percentile_ms(&mut times, 50);
    Ok(json!({
        "bytes": text.len(),
        "components": reading.apps.iter().map(|app| app.spec.components.len()).sum::<usize>(),
        "median_ms": median,
        "worst_ms": percentile_ms(&mut times, 100),
        "ms_per_megabyte": rounded(median * 1e6 / text.len() as f64),
    }))
}

fn time(text: &str) -> Duration {
    let start = Instant::now();
    std::hint::black_box(read_text(text));
    start.elapsed()
}
