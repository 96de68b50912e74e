//! Looking at the engine: one call lists what is ours, and only what changed since the last look is
//! inspected. Called for every look of the agent. Start with [`seen`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bollard::Docker;
use bollard::container::LogOutput;
use bollard::models::{ContainerStatsResponse, ContainerSummary, ContainerSummaryStateEnum};
use bollard::query_parameters::{
    InspectContainerOptions, ListContainersOptions, LogsOptions, StatsOptions,
};
use futures::StreamExt;
use futures::stream;
use tombolo_driver::{InstanceId, Result, State, Usage};

use crate::look::{self, Seen};
use crate::tag::{self, Tag};
use crate::{Inner, error, held};

/// Lines of the log that go with an exit.
const TAIL_LINES: usize = 20;
/// Questions to the engine at a time: it shares the machine with what it runs.
const ASKED_AT_ONCE: usize = 8;

/// What was inspected, by container, with what the list said of it then.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    known: BTreeMap<String, (Glance, Arc<Seen>)>,
    /// Counts what was forgotten, so that an answer from before is not kept.
    epoch: u64,
}

/// As much as the list tells.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Glance {
    state: Option<ContainerSummaryStateEnum>,
    names: Option<Vec<String>>,
}

impl Cache {
    /// The engine told of a change; without a container, of any.
    pub(crate) fn forget(&mut self, container: Option<&str>) {
        self.epoch = self.epoch.wrapping_add(1);
        match container {
            Some(container) => _ = self.known.remove(container),
            None => self.known.clear(),
        }
    }
}

/// All containers that are ours, or those of one instance.
pub(crate) async fn seen(inner: &Inner, id: Option<&InstanceId>) -> Result<Vec<Arc<Seen>>> {
    let docker = inner.connection.docker().await?;
    let epoch = held(&inner.seen).epoch;
    let filters = Some(tag::filter(id));
    let options = ListContainersOptions { all: true, filters, ..Default::default() };
    let listed = docker.list_containers(Some(options)).await;
    let listed = listed.map_err(|error| inner.connection.failed("list the containers", error))?;
    if id.is_none() {
        let there: BTreeSet<&String> = listed.iter().filter_map(|one| one.id.as_ref()).collect();
        held(&inner.seen).known.retain(|container, _| there.contains(container));
    }
    let looks = listed.into_iter().map(|summary| look_at(&docker, inner, epoch, summary));
    let looks: Vec<Result<Option<Arc<Seen>>>> =
        stream::iter(looks).buffered(ASKED_AT_ONCE).collect().await;
    looks.into_iter().filter_map(Result::transpose).collect()
}

async fn look_at(
    docker: &Docker,
    inner: &Inner,
    epoch: u64,
    summary: ContainerSummary,
) -> Result<Option<Arc<Seen>>> {
    let tag = summary.labels.as_ref().and_then(Tag::read);
    let (Some(tag), Some(container)) = (tag, summary.id) else { return Ok(None) };
    let glance = Glance { state: summary.state, names: summary.names };
    if let Some((known, seen)) = held(&inner.seen).known.get(&container)
        && *known == glance
    {
        return Ok(Some(Arc::clone(seen)));
    }
    let inspected = docker.inspect_container(&container, None::<InspectContainerOptions>).await;
    let inspected = match inspected {
        Ok(inspected) => inspected,
        // It was removed since the list was made.
        Err(error) if error::status(&error) == Some(404) => return Ok(None),
        Err(error) => return Err(inner.connection.failed("inspect a container", error)),
    };
    let name = inspected.name.clone().unwrap_or_default();
    let mut seen = Seen { container, name, tag, inspected, log: Vec::new() };
    if matches!(look::state(&seen), State::Exited(_)) {
        seen.log = tail(docker, &seen.container).await;
    }
    let seen = Arc::new(seen);
    let mut cache = held(&inner.seen);
    if cache.epoch == epoch {
        cache.known.insert(seen.container.clone(), (glance, Arc::clone(&seen)));
    }
    Ok(Some(seen))
}

/// The last lines of a container; none if the engine does not tell them.
async fn tail(docker: &Docker, container: &str) -> Vec<String> {
    let options = LogsOptions {
        stdout: true,
        stderr: true,
        tail: TAIL_LINES.to_string(),
        ..LogsOptions::default()
    };
    let lines = docker.logs(container, Some(options)).take(TAIL_LINES);
    let text = |line: LogOutput| {
        String::from_utf8_lossy(line.as_ref()).trim_end_matches(['\n', '\r']).to_owned()
    };
    lines.filter_map(async |line| line.ok().map(text)).collect().await
}

pub(crate) async fn usage(inner: &Inner) -> Result<Vec<(InstanceId, Usage)>> {
    let docker = inner.connection.docker().await?;
    let seen = seen(inner, None).await?;
    let runs =
        |seen: &Arc<Seen>| matches!(look::state(seen), State::Running(_) | State::Stopping(_));
    let asked = seen.into_iter().filter(runs).map(|seen| {
        let docker = docker.clone();
        async move {
            let options = StatsOptions { stream: false, one_shot: true };
            let stats = docker.stats(&seen.container, Some(options)).next().await?.ok()?;
            Some((seen.tag.id.clone()?, used(&stats)))
        }
    });
    let mut used: Vec<(InstanceId, Usage)> =
        stream::iter(asked).buffered(ASKED_AT_ONCE).filter_map(async |one| one).collect().await;
    used.sort_by(|one, other| one.0.cmp(&other.0));
    Ok(used)
}

fn used(stats: &ContainerStatsResponse) -> Usage {
    let cpu = stats.cpu_stats.as_ref().and_then(|cpu| cpu.cpu_usage.as_ref()?.total_usage);
    let memory = stats.memory_stats.as_ref();
    let detail = memory.and_then(|memory| memory.stats.as_ref());
    // Pages of files that the kernel can take back at any time; the two versions of cgroups have
    // two names for them.
    let cached = detail.and_then(|detail| {
        detail.get("total_inactive_file").or_else(|| detail.get("inactive_file"))
    });
    let memory_bytes = memory.and_then(|memory| memory.usage).unwrap_or_default();
    let processes = stats.pids_stats.as_ref().and_then(|pids| pids.current).unwrap_or_default();
    let networks = stats.networks.as_ref();
    Usage {
        cpu_micros: cpu.unwrap_or_default() / 1000,
        memory_bytes: memory_bytes.saturating_sub(cached.copied().unwrap_or_default()),
        processes: u32::try_from(processes).unwrap_or(u32::MAX),
        received_bytes: networks.map(|all| all.values().filter_map(|one| one.rx_bytes).sum()),
        sent_bytes: networks.map(|all| all.values().filter_map(|one| one.tx_bytes).sum()),
    }
}
