//! `tombolo bench`: the numbers of the README, one JSON line each. Called by `programs::run`.

mod agent;
mod api;
mod deploy;
mod descriptor;
mod etcd;
mod fleet;
mod image;
mod machine;
mod numbers;
mod placement;
mod relay;
mod server;
mod store;
mod watch;
mod wire;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::agent::DockerArgs;
use crate::failure::{Exit, Failure};
use crate::moment::parse_duration;
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
    /// Deploy: how many Apps of each kind, one after the other.
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(crate) apps: usize,
    #[command(flatten)]
    pub(crate) docker: DockerArgs,
    /// Agent: for how long the idle one is watched.
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = parse_duration)]
    pub(crate) period: Duration,
    /// Agent: how many join one controller at once.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub(crate) agents: usize,
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
    /// From an App to its process or its container, up and known to be.
    Deploy,
    /// What an idle agent takes in memory, processor and traffic; a thousand that join at once.
    Agent,
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
        Bench::Deploy => runtime.block_on(deploy::run(dir.path(), args.apps, &args.docker.at())),
        Bench::Agent => runtime.block_on(agent::run(dir.path(), args.period, args.agents)),
        Bench::Placement => placement::run(args.models.as_deref()),
    };
    let mut out = Out::stdout();
    out.line(&line.map_err(failed)?.to_string())?;
    out.flush()?;
    Ok(Exit::Ok)
}
