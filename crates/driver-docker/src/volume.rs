//! Volumes with a name, which outlive the containers that use them. They are made by the engine with
//! the first of these; taken away only here, at an uninstall.

use bollard::Docker;
use bollard::query_parameters::{ListVolumesOptions, RemoveVolumeOptions};
use tombolo_driver::Result;

use crate::{Inner, error, tag};

/// Removes all that are ours. Says how many there were.
pub(crate) async fn clear(docker: &Docker, inner: &Inner) -> Result<usize> {
    let filters = Some(tag::agent_filter(&inner.options.agent));
    let listed = docker.list_volumes(Some(ListVolumesOptions { filters })).await;
    let listed = listed.map_err(|error| inner.connection.failed("list the volumes", error))?;
    let volumes = listed.volumes.unwrap_or_default();
    for volume in &volumes {
        match docker.remove_volume(&volume.name, None::<RemoveVolumeOptions>).await {
            Ok(()) => (),
            Err(error) if error::status(&error) == Some(404) => (),
            Err(error) => return Err(inner.connection.failed("remove a volume", error)),
        }
    }
    Ok(volumes.len())
}
