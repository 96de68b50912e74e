//! `tombolo bench`: the arguments, and one JSON line printed. What is measured is in `tombolo_bench`.
//! Called by `programs::run`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use tombolo_bench::{BENCHES, Bench, Settings};

use super::agent::DockerArgs;
use crate::failure::{Exit, Failure};
use crate::moment::parse_duration;
use crate::output::Out;

/// Measure, and print one JSON line.
///
/// Starts what it measures itself, in a folder that is removed afterwards. Where etcd is
/// installed, it is measured in the same run on the same disk.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo bench api
  tombolo bench placement")]
pub(crate) struct BenchArgs {
    /// What to measure.
    #[arg(value_parser = bench())]
    pub(crate) name: &'static Bench,
    /// Measure on the disk of this folder; the folder for temporary files if left out.
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// Placement: write small problems and our answers here, for `scripts/bench-placement.py`.
    #[arg(long, value_name = "DIR")]
    pub(crate) models: Option<PathBuf>,
    /// Policy: a folder with published loads (CSV files of NAB, and `planetlab` with CPU traces); some
    /// of the same shape are made if left out.
    #[arg(long, value_name = "DIR")]
    pub(crate) traces: Option<PathBuf>,
    /// Deploy: how many Apps of each kind, one after the other; 100 if left out. Controller: how many
    /// Apps there are; 1600 if left out. Feasible: how many problems are made; 2000 if left out.
    #[arg(long, value_name = "N")]
    pub(crate) apps: Option<usize>,
    /// Controller: how many nodes there are.
    #[arg(long, value_name = "N", default_value_t = 3000)]
    pub(crate) nodes: usize,
    #[command(flatten)]
    pub(crate) docker: DockerArgs,
    /// Agent: for how long the idle one is watched.
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = parse_duration)]
    pub(crate) period: Duration,
    /// Agent: how many join one controller at once.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub(crate) agents: usize,
}

/// One of those that there are, by its name.
fn bench() -> impl TypedValueParser<Value = &'static Bench> {
    let names = BENCHES.iter().map(|bench| PossibleValue::new(bench.name).help(bench.help));
    PossibleValuesParser::new(names).try_map(|name| {
        let found = BENCHES.iter().find(|bench| bench.name == name);
        found.ok_or("there is no such bench")
    })
}

pub(crate) fn run(args: BenchArgs) -> Result<Exit, Failure> {
    let settings = Settings {
        folder: args.dir.unwrap_or_else(std::env::temp_dir),
        models: args.models,
        traces: args.traces,
        apps: args.apps,
        nodes: args.nodes,
        docker: args.docker.at(),
        period: args.period,
        agents: args.agents,
    };
    let line = super::up::runtime()?.block_on(tombolo_bench::run(args.name, &settings));
    let line = line.map_err(|error| Failure::failed(format!("{error:#}")))?;
    let mut out = Out::stdout();
    out.line(&line.to_string())?;
    out.flush()?;
    Ok(Exit::Ok)
}
