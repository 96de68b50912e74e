//! `tombolo bench`: the numbers of the README, one JSON line each. Called by `programs::run`.

mod api;
mod descriptor;
mod etcd;
mod numbers;
mod placement;
mod server;
mod store;
mod watch;
mod wire;

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::failure::{Exit, Failure};
use crate::output::Out;

/// Measure, and print one JSON line.
///
/// Starts what it measures itself, in a folder that is removed afterwards. Where etcd is
/// installed, it is measured in the same run on the same disk.
#[derive(Args, Debug)]
pub(crate) struct BenchArgs {
    /// What to measure.
    pub(crate) name: Bench,
    /// Measure on the disk of this folder; the folder for temporary files if left out.
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// Placement: write small problems and our answers here, for `scripts/bench-placement.py`.
    #[arg(long, value_name = "DIR")]
    pub(crate) models: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Bench {
    /// Durable creates against the disk and etcd; memory and restart with 50,000 objects.
    Store,
    /// The way of a change to 1,000 watchers, and the cost of a frozen one.
    Watch,
    /// Start, memory, creates, lists and gets of a server, over TLS.
    Api,
    /// Text of every format to an App, a megabyte at a time.
    Descriptor,
    /// Placements a second, the gap to the proven bound, growth to 100,000 nodes, and `why`.
    Placement,
}

pub(crate) fn run(args: BenchArgs) -> Result<Exit, Failure> {
    let failed = |error: anyhow::Error| Failure::failed(format!("{error:#}"));
    let base = args.dir.unwrap_or_else(std::env::temp_dir);
    let dir = tempfile::Builder::new()
        .prefix("tombolo-bench-")
        .tempdir_in(&base)
        .map_err(|error| Failure::failed(format!("cannot use {}: {error}", base.display())))?;
    let runtime = super::up::runtime()?;
    let line = match args.name {
        Bench::Store => runtime.block_on(store::run(dir.path())),
        Bench::Watch => runtime.block_on(watch::run(dir.path())),
        Bench::Api => runtime.block_on(api::run(dir.path())),
        Bench::Descriptor => descriptor::run(),
        Bench::Placement => placement::run(args.models.as_deref()),
    };
    let mut out = Out::stdout();
    out.line(&line.map_err(failed)?.to_string())?;
    out.flush()?;
    Ok(Exit::Ok)
}
