//! Starting an instance: its image, its container, its files. Called by the driver, which holds the
//! lock of the instance meanwhile. Start with [`start`].

use std::collections::BTreeMap;
use std::sync::Arc;

use bollard::Docker;
use bollard::models::CreateImageInfo;
use bollard::query_parameters::{
    CreateContainerOptions, CreateImageOptions, RemoveContainerOptions, UploadToContainerOptions,
};
use bytes::Bytes;
use futures::StreamExt;
use tombolo_driver::{Error, FilePlaced, Result, Spec, State};

use crate::draft::{self, Draft, Project};
use crate::look::{self, Seen};
use crate::{Inner, error};

/// What is to be done, decided before anything is.
pub(crate) struct Start {
    project: Project,
    run: u32,
    /// Containers of earlier runs that nobody needs any more.
    surplus: Vec<String>,
}

/// Nothing if there is nothing to start. The run before the last is kept for its log and its exit.
pub(crate) fn decide(spec: &Spec, inner: &Inner, seen: &[Arc<Seen>]) -> Result<Option<Start>> {
    let project = draft::project(spec, &inner.options.log)?;
    let mut runs: Vec<&Arc<Seen>> = seen.iter().collect();
    runs.sort_by_key(|seen| seen.tag.run);
    let run = match runs.last().map(|last| (last.tag.run, look::state(last))) {
        None => 0,
        Some((_, State::Starting { .. } | State::Running(_) | State::Stopping(_))) => {
            return Ok(None);
        }
        Some((run, State::Exited(_))) => run.saturating_add(1),
        // It never ran: what is left of it makes room.
        Some((run, State::Failed(_))) => run,
    };
    let kept = |seen: &Seen| seen.tag.run < run && seen.tag.run.saturating_add(1) == run;
    let surplus = runs.iter().filter(|seen| !kept(seen)).map(|seen| seen.container.clone());
    Ok(Some(Start { surplus: surplus.collect(), project, run }))
}

/// Whether every image is on this machine, so that the rest will not take long.
pub(crate) async fn has_images(docker: &Docker, inner: &Inner, start: &Start) -> Result<bool> {
    for draft in &start.project.parts {
        match docker.inspect_image(draft.image()).await {
            Ok(_) => (),
            Err(error) if error::status(&error) == Some(404) => return Ok(false),
            Err(error) => return Err(inner.connection.failed("look for the image", error)),
        }
    }
    Ok(true)
}

pub(crate) async fn start(docker: &Docker, inner: &Inner, spec: &Spec, start: Start) -> Result<()> {
    for container in &start.surplus {
        remove_container(docker, inner, container).await?;
    }
    for draft in &start.project.parts {
        pull_if_missing(docker, inner, spec, draft.image()).await?;
        inner.say(spec, "starting");
        run(docker, inner, spec, &start, draft).await?;
    }
    Ok(())
}

async fn run(
    docker: &Docker,
    inner: &Inner,
    spec: &Spec,
    start: &Start,
    draft: &Draft,
) -> Result<()> {
    let failed = |doing: &str, error| inner.connection.failed(doing, error);
    let tag = start.project.tag(spec, draft, start.run);
    let options = CreateContainerOptions { name: Some(tag.name()), ..Default::default() };
    let created = docker.create_container(Some(options), draft.request(&tag)).await;
    let container = created.map_err(|error| failed("create the container", error))?.id;
    if !draft.files.is_empty() {
        let options = UploadToContainerOptions { path: "/".to_owned(), ..Default::default() };
        let body = bollard::body_full(archive(&draft.files)?);
        let uploaded = docker.upload_to_container(&container, Some(options), body).await;
        uploaded.map_err(|error| failed("put its files in place", error))?;
    }
    let started = docker.start_container(&container, None).await;
    started.map_err(|error| failed("start it", error))
}

pub(crate) async fn remove_container(
    docker: &Docker,
    inner: &Inner,
    container: &str,
) -> Result<()> {
    // Volumes without a name go with it; those with one are kept.
    let options = RemoveContainerOptions { v: true, force: true, link: false };
    match docker.remove_container(container, Some(options)).await {
        Ok(()) => Ok(()),
        // Gone already, or somebody else is about to remove it.
        Err(error) if matches!(error::status(&error), Some(404 | 409)) => Ok(()),
        Err(error) => Err(inner.connection.failed("remove the container", error)),
    }
}

/// An image that is here is used as it is: what runs must not depend on a registry.
async fn pull_if_missing(docker: &Docker, inner: &Inner, spec: &Spec, image: &str) -> Result<()> {
    match docker.inspect_image(image).await {
        Ok(_) => return Ok(()),
        Err(error) if error::status(&error) == Some(404) => (),
        Err(error) => return Err(inner.connection.failed("look for the image", error)),
    }
    inner.say(spec, &format!("pulling {image}"));
    let options = CreateImageOptions { from_image: Some(full_name(image)), ..Default::default() };
    let mut pulled = docker.create_image(Some(options), None, None);
    let mut layers: BTreeMap<String, (i64, i64)> = BTreeMap::new();
    let mut told = -1;
    while let Some(step) = pulled.next().await {
        let step = step.map_err(|error| match error::is_lost(&error) {
            true => inner.connection.failed("pull the image", error),
            false => error::of_pull(image, error),
        })?;
        let percent = progress(&mut layers, &step);
        if percent > told {
            told = percent;
            inner.say(spec, &format!("pulling {image}, {percent} %"));
        }
    }
    Ok(())
}

/// How much of all layers that are known so far is here, in percent.
fn progress(layers: &mut BTreeMap<String, (i64, i64)>, step: &CreateImageInfo) -> i64 {
    if let (Some(layer), Some(detail)) = (&step.id, &step.progress_detail)
        && let (Some(current), Some(total)) = (detail.current, detail.total)
        && step.status.as_deref() == Some("Downloading")
    {
        layers.insert(layer.clone(), (current, total));
    }
    let (current, total) =
        layers.values().fold((0_i64, 0_i64), |sum, layer| (sum.0 + layer.0, sum.1 + layer.1));
    current.saturating_mul(100).checked_div(total).unwrap_or(0)
}

/// Without a tag the engine would pull them all.
fn full_name(image: &str) -> String {
    let last = image.rsplit('/').next().unwrap_or(image);
    if last.contains([':', '@']) { image.to_owned() } else { format!("{image}:latest") }
}

fn archive(files: &[FilePlaced]) -> Result<Bytes> {
    let mut archive = tar::Builder::new(Vec::new());
    for file in files {
        let content = file.content.expose();
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        // Whoever the container runs as must be able to read it.
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
    fn only_an_image_without_a_tag_gets_one() {
        for (image, expected) in [
            ("web", "web:latest"),
            ("r.example:5000/web", "r.example:5000/web:latest"),
            ("web:1", "web:1"),
            ("web@sha256:00", "web@sha256:00"),
        ] {
            assert_eq!(full_name(image), expected);
        }
    }

    #[test]
    fn a_file_cannot_leave_the_container() {
        let file = |path: &str| FilePlaced { path: path.to_owned(), content: "x".into() };
        assert!(archive(&[file("/etc/web.conf")]).is_ok());
        assert_eq!(archive(&[file("/../etc/x")]).unwrap_err().reason(), "Invalid");
    }
}
