//! Looking at the engine: one call lists what is ours, and what is not known from before is
//! inspected. Called for every look of the agent and before everything that is done. Start with
//! [`seen`].

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
use tombolo_driver::{InstanceId, Result, Usage};

use crate::cache::{Glance, Moment};
use crate::look::Seen;
use crate::tag::{self, Tag};
use crate::{Inner, error, locked};

/// Lines of the log that go with an exit.
const TAIL_LINES: usize = 20;
/// Questions to the engine at a time: it shares the machine with what it runs.
const ASKED_AT_ONCE: usize = 8;

/// All containers that are ours, or those of one instance. The list is always the engine's own of this
/// moment.
pub(crate) async fn seen(inner: &Arc<Inner>, id: Option<&InstanceId>) -> Result<Vec<Arc<Seen>>> {
    let docker = inner.connection.docker().await?;
    let asked = locked(&inner.cache).moment();
    let filters = Some(tag::filter(&inner.options.agent, id));
    let options = ListContainersOptions { all: true, filters, ..Default::default() };
    let listed = docker.list_containers(Some(options)).await;
    let listed = listed.map_err(|error| inner.connection.failed("list the containers", error))?;
    if id.is_none() {
        let there: BTreeSet<&str> = listed.iter().filter_map(|one| one.id.as_deref()).collect();
        locked(&inner.cache).retain(&there);
    }
    let looks = listed.into_iter().map(|summary| look_at(&docker, inner, asked, summary));
    let looks: Vec<Result<Option<Arc<Seen>>>> =
        stream::iter(looks).buffered(ASKED_AT_ONCE).collect().await;
    let looks: Result<Vec<Arc<Seen>>> = looks.into_iter().filter_map(Result::transpose).collect();
    looks
}

/// Nothing for what is not ours, or is on its way out.
async fn look_at(
    docker: &Docker,
    inner: &Inner,
    asked: Moment,
    summary: ContainerSummary,
) -> Result<Option<Arc<Seen>>> {
    let tag = summary.labels.as_ref().and_then(Tag::read);
    let (Some(tag), Some(container)) = (tag, summary.id) else { return Ok(None) };
    if summary.state == Some(ContainerSummaryStateEnum::REMOVING) {
        return Ok(None);
    }
    let glance = Glance { state: summary.state, names: summary.names };
    if let Some(seen) = locked(&inner.cache).find(&container, &glance) {
        return Ok(Some(seen));
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
    if seen.has_exited() {
        seen.log = tail(docker, &seen.container).await;
    }
    let seen = Arc::new(seen);
    locked(&inner.cache).keep(asked, glance, &seen);
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

pub(crate) async fn usage(inner: &Arc<Inner>) -> Result<Vec<(InstanceId, Usage)>> {
    let docker = inner.connection.docker().await?;
    let seen = seen(inner, None).await?;
    let asked = seen.into_iter().filter(|seen| seen.is_running()).map(|seen| {
        let docker = docker.clone();
        async move {
            let options = StatsOptions { stream: false, one_shot: true };
            let stats = docker.stats(&seen.container, Some(options)).next().await?.ok()?;
            Some((seen.tag.id.clone()?, used(&stats)))
        }
    });
    let mut all: BTreeMap<InstanceId, Usage> = BTreeMap::new();
    let mut asked = stream::iter(asked).buffered(ASKED_AT_ONCE);
    while let Some(one) = asked.next().await {
        let Some((id, used)) = one else { continue };
        // The parts of an instance together are what it uses.
        let sum = all.entry(id).or_default();
        sum.cpu_micros = sum.cpu_micros.saturating_add(used.cpu_micros);
        sum.memory_bytes = sum.memory_bytes.saturating_add(used.memory_bytes);
        sum.processes = sum.processes.saturating_add(used.processes);
        sum.received_bytes = added(sum.received_bytes, used.received_bytes);
        sum.sent_bytes = added(sum.sent_bytes, used.sent_bytes);
    }
    Ok(all.into_iter().collect())
}

fn added(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    match (one, other) {
        (None, None) => None,
        (one, other) => Some(one.unwrap_or_default().saturating_add(other.unwrap_or_default())),
    }
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
