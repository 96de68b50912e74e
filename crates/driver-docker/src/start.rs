//! Starting an instance: its networks, its images, its containers, their files. Called by the attendant
//! of the instance. Start with [`start`].

use std::sync::Arc;
use std::time::Duration;

use bollard::Docker;
use bollard::models::{HealthStatusEnum, NetworkConnectRequest};
use bollard::query_parameters::{
    CreateContainerOptions, InspectContainerOptions, RemoveContainerOptions,
    UploadToContainerOptions,
};
use bytes::Bytes;
use tombolo_driver::{Error, FilePlaced, Result, Spec, State};

use crate::draft::{self, After, Draft, Project, Until};
use crate::look::{self, Seen};
use crate::{Inner, error, image, locked, network};

/// How long a part is waited for that must be well or done before the next; the plan tries again.
const PART_WITHIN: Duration = Duration::from_secs(60);
const ASK_AGAIN: Duration = Duration::from_millis(100);

/// What is to be done, decided before anything is.
pub(crate) struct Start {
    project: Project,
    /// Which run each part of the project is to begin; nothing for a part that goes on running.
    runs: Vec<Option<u32>>,
    /// Containers of earlier runs that nobody needs any more.
    surplus: Vec<String>,
}

/// Nothing if there is nothing to start. The run before the last is kept for its log and its exit.
pub(crate) fn decide(spec: &Spec, inner: &Inner, seen: &[Arc<Seen>]) -> Result<Option<Start>> {
    let project = draft::project(spec, &inner.options)?;
    let mut runs = Vec::with_capacity(project.parts.len());
    let mut surplus = Vec::new();
    for draft in &project.parts {
        let of_part = seen.iter().filter(|seen| seen.tag.part == draft.name);
        let of_part: Vec<&Arc<Seen>> = of_part.collect();
        let last = of_part.iter().max_by_key(|seen| seen.tag.run);
        let run = match last.map(|last| (last.tag.run, look::state(last))) {
            None => Some(0),
            Some((_, State::Starting { .. } | State::Running(_) | State::Stopping(_))) => None,
            Some((_, State::Exited(exit))) if draft.once && exit.code == Some(0) => {
                // Done, unless it was all that there is to run.
                let all = seen.iter().any(|other| other.is_running());
                if all { None } else { last.map(|last| last.tag.run.saturating_add(1)) }
            }
            Some((run, State::Exited(_))) => Some(run.saturating_add(1)),
            // It never ran: what is left of it makes room.
            Some((run, State::Failed(_))) => Some(run),
        };
        if let Some(run) = run {
            let kept = |seen: &Seen| seen.tag.run.saturating_add(1) == run;
            let gone = of_part.iter().filter(|seen| !kept(seen));
            surplus.extend(gone.map(|seen| seen.container.clone()));
        }
        runs.push(run);
    }
    let nothing = runs.iter().all(Option::is_none);
    Ok((!nothing).then_some(Start { project, runs, surplus }))
}

impl Start {
    fn begun(&self) -> impl Iterator<Item = (&Draft, u32)> {
        self.project.parts.iter().zip(&self.runs).filter_map(|(draft, run)| Some((draft, (*run)?)))
    }

    /// Whether every image is on this machine, so that the rest will not take long.
    pub(crate) async fn has_images(&self, docker: &Docker, inner: &Inner) -> Result<bool> {
        for (draft, _) in self.begun() {
            if !image::is_here(docker, inner, draft.image()).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

pub(crate) async fn start(
    docker: &Docker,
    inner: &Inner,
    spec: &Spec,
    mut start: Start,
) -> Result<()> {
    for (draft, _) in start.begun() {
        image::pull_if_missing(docker, inner, spec, draft.image()).await?;
    }
    inner.say(spec, "starting");
    for container in &start.surplus {
        remove_container(docker, inner, container).await?;
    }
    let project = &mut start.project;
    let made = inner.networks.make(async || {
        for (name, internal) in project.networks() {
            match network::make(docker, inner, spec, &name, internal).await? {
                network::Made::There => (),
                network::Made::Without { note } => project.do_without(&name, note),
            }
        }
        Ok(())
    });
    // Until its containers are on them.
    let _used = made.await?;
    for (draft, run) in start.begun() {
        for after in &draft.after {
            wait_for(docker, inner, spec, &start, after).await?;
        }
        begin(docker, inner, spec, &start.project, draft, run).await?;
    }
    Ok(())
}

async fn begin(
    docker: &Docker,
    inner: &Inner,
    spec: &Spec,
    project: &Project,
    draft: &Draft,
    run: u32,
) -> Result<()> {
    let failed = |doing: &str, error| inner.connection.failed(doing, error);
    let tag = project.tag(spec, draft, &inner.options.agent, run);
    let options = CreateContainerOptions { name: Some(tag.name()), ..Default::default() };
    let created = docker.create_container(Some(options), draft.request(&tag)).await;
    let container = created.map_err(|error| failed("create the container", error))?.id;
    for attachment in draft.networks.iter().skip(1) {
        let request = NetworkConnectRequest {
            container: container.clone(),
            endpoint_config: Some(attachment.endpoint()),
        };
        let connected = docker.connect_network(&attachment.network, request).await;
        connected.map_err(|error| failed("put it on its network", error))?;
    }
    if !draft.files.is_empty() {
        let options = UploadToContainerOptions { path: "/".to_owned(), ..Default::default() };
        let body = bollard::body_full(archive(&draft.files)?);
        let uploaded = docker.upload_to_container(&container, Some(options), body).await;
        uploaded.map_err(|error| failed("put its files in place", error))?;
    }
    let started = docker.start_container(&container, None).await;
    // Whatever a look saw of it meanwhile is old.
    locked(&inner.cache).forget(&container);
    started.map_err(|error| failed("start it", error))
}

/// Waits until another part is so far.
async fn wait_for(
    docker: &Docker,
    inner: &Inner,
    spec: &Spec,
    start: &Start,
    after: &After,
) -> Result<()> {
    if after.until == Until::Started {
        return Ok(());
    }
    let part = &after.part;
    let parts = start.project.parts.iter().zip(&start.runs);
    let mut of_part = parts.filter(|(draft, _)| draft.name.as_ref() == Some(part));
    // A part that goes on running was so far before.
    let Some((draft, Some(run))) = of_part.next() else { return Ok(()) };
    inner.say(spec, &format!("waiting for {part}"));
    let name = start.project.tag(spec, draft, &inner.options.agent, *run).name();
    let waited = tokio::time::timeout(PART_WITHIN, async {
        loop {
            let inspected = docker.inspect_container(&name, None::<InspectContainerOptions>).await;
            let inspected =
                inspected.map_err(|error| inner.connection.failed("wait for a part", error))?;
            let state = inspected.state.unwrap_or_default();
            let health = state.health.and_then(|health| health.status);
            let ended = state.running == Some(false);
            match (after.until, ended) {
                (Until::Started, _) => return Ok(()),
                (Until::Healthy, false) => match health {
                    Some(HealthStatusEnum::STARTING | HealthStatusEnum::UNHEALTHY) => (),
                    // Without a check nobody can say more than that it runs.
                    Some(
                        HealthStatusEnum::HEALTHY
                        | HealthStatusEnum::NONE
                        | HealthStatusEnum::EMPTY,
                    )
                    | None => return Ok(()),
                },
                (Until::Completed, false) => (),
                (Until::Completed, true) if state.exit_code == Some(0) => return Ok(()),
                (Until::Healthy | Until::Completed, true) => {
                    let code = state.exit_code.unwrap_or(-1);
                    return Err(Error::Failed {
                        doing: format!("start what waits for {part}"),
                        source: error::words(&format!("{part} has ended with code {code}")),
                    });
                }
            }
            tokio::time::sleep(ASK_AGAIN).await;
        }
    });
    let late = |_| Error::TimedOut { doing: format!("waiting for {part}"), after: PART_WITHIN };
    waited.await.map_err(late)?
}

pub(crate) async fn remove_container(
    docker: &Docker,
    inner: &Inner,
    container: &str,
) -> Result<()> {
    locked(&inner.cache).forget(container);
    // Volumes without a name go with the container; volumes with a name are kept.
    let options = RemoveContainerOptions { v: true, force: true, link: false };
    let removed = match docker.remove_container(container, Some(options)).await {
        Ok(()) => Ok(()),
        // Gone already, or somebody else is about to remove it.
        Err(error) if matches!(error::status(&error), Some(404 | 409)) => Ok(()),
        Err(error) => Err(inner.connection.failed("remove the container", error)),
    };
    locked(&inner.cache).forget(container);
    removed
}

fn archive(files: &[FilePlaced]) -> Result<Bytes> {
    let mut archive = tar::Builder::new(Vec::new());
    for file in files {
        let content = file.content.expose();
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        // The user that the container runs as must be able to read it.
        header.set_mode(0o644);
        let path = file.path.trim_start_matches('/');
        let added = archive.append_data(&mut header, path, content);
        added.map_err(|_| Error::Invalid {
            what: format!("{:?} is no path of a file", file.path),
        })?;
    }
    let bytes = archive.into_inner();
    bytes.map(Bytes::from).map_err(|error| Error::io("pack its files", error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_cannot_leave_the_container() {
        let file = |path: &str| FilePlaced { path: path.to_owned(), content: "x".into() };
        assert!(archive(&[file("/etc/web.conf")]).is_ok());
        assert_eq!(archive(&[file("/../etc/x")]).unwrap_err().reason(), "Invalid");
    }
}
