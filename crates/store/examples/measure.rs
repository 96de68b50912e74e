//! Prints what `bench` measures, for work on this crate: `measure DIR`, and `measure DIR reopen` for
//! one more look at what the first left. `tombolo bench store` is the product's way to see it.

#![allow(clippy::print_stdout, reason = "it is a program, and printing is all that it does")]

use std::path::PathBuf;
use std::time::Duration;

use tombolo_store::{Options, Store, bench};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir: PathBuf = std::env::args_os().nth(1).ok_or("usage: measure DIR")?.into();
    if std::env::args().nth(2).is_some_and(|word| word == "reopen") {
        let started = std::time::Instant::now();
        let store = Store::open(dir.join("load"), Options::default())?;
        println!("open to revision {} in {:?}", store.revision(), started.elapsed());
        // Not closed, so that the next one finds what a kill leaves.
        std::process::abort();
    }
    std::fs::create_dir_all(&dir)?;
    let duration = Duration::from_secs(3);
    let syncs = bench::serial_syncs(&dir, duration)?;
    println!("{syncs:?}");
    for writers in [1, 8, 64, 256] {
        let store = dir.join(writers.to_string());
        let creates = bench::durable_creates(&store, writers, duration).await?;
        println!("{creates:?}: {:.1} x the serial rate", creates.per_second / syncs.per_second);
    }
    println!("{:?}", bench::load(&dir.join("load"), 50_000).await?);
    Ok(())
}
