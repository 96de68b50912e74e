//! What `tombolo bench` measures: the numbers of `docs/benchmarks.md`, one JSON value each. The `cli` has
//! the arguments, calls [`run`] and prints. Start at [`BENCHES`]; a new bench is a file and a row there.
//!
//! Whatever is measured as its users see it, a server or an agent, is the binary that runs the bench,
//! started again as a process of its own (`server`, `machine`).

mod agent;
mod api;
mod client;
mod controller;
mod deploy;
mod descriptor;
mod etcd;
mod feasible;
mod fleet;
pub mod hostile;
mod image;
mod ingest;
mod machine;
mod network;
mod numbers;
mod overload;
mod peer;
mod placement;
mod policy;
mod relay;
mod samples;
mod series;
mod server;
mod store;
mod watch;
mod wire;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use futures::future::{FutureExt as _, LocalBoxFuture};
use serde_json::Value;
use tombolo_agent::engines::DockerAt;

/// What the benches can be told. Each reads what concerns it.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Measure on the disk of this folder.
    pub folder: PathBuf,
    /// Placement and packing: where small problems and our answers are written.
    pub models: Option<PathBuf>,
    /// Policy: where the published loads lie; some of the same shape are made without.
    pub traces: Option<PathBuf>,
    /// Deploy: how many Apps of each kind. Controller: how many there are. Each has a usual number.
    pub apps: Option<usize>,
    /// Controller: how many nodes there are.
    pub nodes: usize,
    pub docker: DockerAt,
    /// Agent: for how long the idle one is watched.
    pub period: Duration,
    /// Agent: how many join one controller at once.
    pub agents: usize,
}

/// One thing that can be measured.
#[derive(Clone, Copy, Debug)]
pub struct Bench {
    pub name: &'static str,
    /// One sentence for `--help`.
    pub help: &'static str,
    run: Run,
}

/// A bench is given an empty folder of its own, which is removed afterwards.
type Run = for<'a> fn(&'a Path, &'a Settings) -> LocalBoxFuture<'a, anyhow::Result<Value>>;

pub const BENCHES: &[Bench] = &[
    Bench {
        name: "store",
        help: "Durable creates against the disk and etcd; memory and restart with 50,000 objects",
        run: |folder, _| store::run(folder).boxed_local(),
    },
    Bench {
        name: "watch",
        help: "The way of a change to 1,000 watchers, and the cost of a frozen one",
        run: |folder, _| watch::run(folder).boxed_local(),
    },
    Bench {
        name: "api",
        help: "Start, memory, creates, lists and gets of a server, over TLS",
        run: |folder, _| api::run(folder).boxed_local(),
    },
    Bench {
        name: "overload",
        help: "What clients that do not behave cost agents, an admin, ten users and memory",
        run: |folder, _| overload::run(folder).boxed_local(),
    },
    Bench {
        name: "controller",
        help: "Memory and processor of a server with thousands of nodes and Apps; 400 more Apps at once",
        run: |folder, settings| {
            let apps = settings.apps.unwrap_or(controller::APPS_USUAL);
            controller::run(folder, controller::Size { nodes: settings.nodes, apps }).boxed_local()
        },
    },
    Bench {
        name: "descriptor",
        help: "Text of every format to an App, a megabyte at a time",
        run: |_, _| async { descriptor::run() }.boxed_local(),
    },
    Bench {
        name: "deploy",
        help: "From an App to its process or its container, up and known to be",
        run: |folder, settings| {
            let apps = settings.apps.unwrap_or(deploy::APPS_USUAL);
            deploy::run(folder, apps, &settings.docker).boxed_local()
        },
    },
    Bench {
        name: "agent",
        help: "What an idle agent takes in memory, processor and traffic; a thousand that join at once",
        run: |folder, settings| agent::run(folder, settings.period, settings.agents).boxed_local(),
    },
    Bench {
        name: "leaf",
        help: "What it costs an agent to measure its machine: processor, memory and traffic more than without",
        run: |folder, settings| agent::leaf(folder, settings.period).boxed_local(),
    },
    Bench {
        name: "network",
        help: "How well few probes tell of a whole network, and what they cost: 490 machines, 200 placements",
        run: |_, _| async { network::run() }.boxed_local(),
    },
    Bench {
        name: "series",
        help: "Samples a second into the store of metrics, bytes a sample, memory a series, a restart",
        run: |folder, _| async { series::run(folder) }.boxed_local(),
    },
    Bench {
        name: "ingest",
        help: "Remote-write and queries of dashboards over HTTP, beside a real Prometheus",
        run: |folder, _| ingest::run(folder).boxed_local(),
    },
    Bench {
        name: "placement",
        help: "Placements a second, the gap to the proven bound, growth to 100,000 nodes, and `why`",
        run: |_, settings| async { placement::run(settings.models.as_deref()) }.boxed_local(),
    },
    Bench {
        name: "packing",
        help: "Tight packings that exist by construction: how many of 96 are found, and how fast",
        run: |_, settings| async { placement::packing(settings.models.as_deref()) }.boxed_local(),
    },
    Bench {
        name: "feasible",
        help: "2,000 problems that have an answer: how many are called impossible; small ones tried in full",
        run: |_, settings| {
            let problems = settings.apps.unwrap_or(feasible::PROBLEMS_USUAL);
            async move { feasible::run(problems) }.boxed_local()
        },
    },
    Bench {
        name: "policy",
        help: "10,000 policies, the back-test of one over a week, and our scaler against HPA's algorithm",
        run: |_, settings| async { policy::run(settings.traces.as_deref()) }.boxed_local(),
    },
];

/// Measures. Whatever it starts has ended when it comes back.
pub async fn run(bench: &Bench, settings: &Settings) -> anyhow::Result<Value> {
    let folder = tempfile::Builder::new()
        .prefix("tombolo-bench-")
        .tempdir_in(&settings.folder)
        .with_context(|| format!("cannot use {}", settings.folder.display()))?;
    (bench.run)(folder.path(), settings).await
}
