//! Many agents at once, in this process: they join, beat, follow their Assignments and describe their
//! machine as any agent does, but their engine is in memory. Part of `tombolo bench agent`.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use futures::StreamExt as _;
use kube::core::WatchEvent;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tombolo_agent::converge::Drivers;
use tombolo_agent::engines::DockerAt;
use tombolo_agent::offer::Metrics;
use tombolo_agent::{JoinFile, Offer, Settings};
use tombolo_driver::Driver;
use tombolo_driver::fake::Fake;
use tombolo_model::Engine;

use crate::client::Client;
use crate::machine::is_true;
use crate::numbers::rounded;
use crate::server::Server;

/// So many machines a site.
const SITE_SIZE: usize = 20;
const WAIT_MAX: Duration = Duration::from_secs(600);
/// Two heartbeats, after which the controller has seen all there is to see.
const SETTLE: Duration = Duration::from_secs(20);
const NODES: &str = "/apis/tombolo.dev/v1alpha1/nodes?watch=true&resourceVersion=0";

pub(crate) async fn run(dir: &Path, agents: usize) -> anyhow::Result<Value> {
    let server = Server::start_with(&dir.join("server"), &["--no-agent"]).await?;
    let fleet = Fleet::join(&server, &dir.join("agents"), agents, &Offer::default()).await?;
    tokio::time::sleep(SETTLE).await;
    let resident = server.resident_mb()?;
    let took = fleet.ready_after;
    fleet.end().await;
    Ok(json!({
        "agents": agents, "all_ready_s": rounded(took.as_secs_f64()),
        "controller_rss_mb": rounded(resident),
    }))
}

/// Agents that have joined, until they are told to end.
pub(crate) struct Fleet {
    running: JoinSet<Result<(), tombolo_agent::Error>>,
    end: watch::Sender<bool>,
    /// From the first start to the last node that is ready.
    pub(crate) ready_after: Duration,
}

impl Fleet {
    /// Comes back when all nodes are ready.
    pub(crate) async fn join(
        server: &Server,
        folder: &Path,
        agents: usize,
        offer: &Offer,
    ) -> anyhow::Result<Fleet> {
        let client = server.connect().await?;
        let address = server.address()?;
        let mut files = Vec::new();
        for number in 0..agents {
            let site = format!("site-{}", number / SITE_SIZE);
            files.push(server.join_file(&site, &address).await?);
        }
        let (end, ended) = watch::channel(false);
        let started = Instant::now();
        let mut running = JoinSet::new();
        for (number, file) in files.into_iter().enumerate() {
            let folder = folder.join(number.to_string());
            running.spawn(simulate(folder, number, file, offer.clone(), ended.clone()));
        }
        let ready = async { tokio::time::timeout(WAIT_MAX, all_ready(&client, agents)).await };
        tokio::select! {
            ready = ready => ready.context("not all became ready")??,
            Some(ended) = running.join_next() => bail!("an agent has ended: {ended:?}"),
        }
        Ok(Fleet { running, end, ready_after: started.elapsed() })
    }

    pub(crate) async fn end(mut self) {
        let _ = self.end.send(true);
        while self.running.join_next().await.is_some() {}
    }
}

async fn simulate(
    folder: std::path::PathBuf,
    number: usize,
    file: JoinFile,
    offer: Offer,
    mut ended: watch::Receiver<bool>,
) -> Result<(), tombolo_agent::Error> {
    let settings = Settings {
        folder,
        join_file: Some(file),
        node: Some(format!("node-{number}")),
        machine: Some(format!("machine-{number}")),
        // All of them would read this one machine.
        offer: Offer { metrics: Metrics { on: Some(false), ..Metrics::default() }, ..offer },
        docker: DockerAt::Nowhere,
    };
    let engines = |_: &Path| {
        let driver: Arc<dyn Driver> = Arc::new(Fake::new(Engine::Host));
        Ok(Drivers::from([(Engine::Host, driver)]))
    };
    let shutdown = async move {
        let _ = ended.wait_for(|ended| *ended).await;
    };
    tombolo_agent::run_with(settings, engines, shutdown).await
}

async fn all_ready(client: &Client, agents: usize) -> anyhow::Result<()> {
    let mut ready = BTreeSet::new();
    let events = client.watch(NODES).await?;
    let mut events = std::pin::pin!(events);
    while let Some(event) = events.next().await {
        match event? {
            WatchEvent::Added(node) | WatchEvent::Modified(node) if is_true(&node, "Ready") => {
                ready.insert(node["metadata"]["name"].as_str().unwrap_or_default().to_owned());
            }
            WatchEvent::Error(status) => bail!("the watch has failed: {}", status.message),
            _other => (),
        }
        if ready.len() >= agents {
            return Ok(());
        }
    }
    bail!("the watch of nodes has ended")
}
