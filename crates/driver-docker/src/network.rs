//! The networks on which containers find each other by name: one for each App on this node, one for
//! each of those of a compose project. Made before the first container needs it, removed after the last is gone.

use std::collections::BTreeSet;
use std::sync::Arc;

use bollard::Docker;
use bollard::models::NetworkCreateRequest;
use bollard::query_parameters::{InspectNetworkOptions, ListNetworksOptions};
use tombolo_driver::{Result, Spec};

use crate::tag::{self, Tag};
use crate::{Inner, error, list};

/// What became of a network that is wanted.
pub(crate) enum Made {
    There,
    /// Its components go on without their names.
    Without {
        note: &'static str,
    },
}

/// Called inside [`Networks::make`].
pub(crate) async fn make(
    docker: &Docker,
    inner: &Inner,
    spec: &Spec,
    name: &str,
    internal: bool,
) -> Result<Made> {
    match docker.inspect_network(name, None::<InspectNetworkOptions>).await {
        Ok(_) => return Ok(Made::There),
        Err(error) if error::status(&error) == Some(404) => (),
        Err(error) => return Err(inner.connection.failed("look for its network", error)),
    }
    let agent = inner.options.agent.clone();
    let tag = Tag { agent, origin: spec.origin.clone(), ..Tag::default() };
    let request = NetworkCreateRequest {
        name: name.to_owned(),
        driver: Some("bridge".to_owned()),
        internal: Some(internal),
        labels: Some(tag.labels()),
        ..NetworkCreateRequest::default()
    };
    match docker.create_network(request).await {
        Ok(_) => Ok(Made::There),
        // Thirty or so is all that an engine has as it comes.
        Err(error) if error::is_out_of_addresses(&error) => Ok(Made::Without {
            note: "It is not found by its name: the engine has no addresses left for one more \
                   network (see default-address-pools).",
        }),
        Err(error) => Err(inner.connection.failed("make its network", error)),
    }
}

/// The networks of this agent, with one lock for all. A start that uses some holds the token inside, from
/// when it makes sure that they are there until its containers are on them.
#[derive(Debug, Default)]
pub(crate) struct Networks(tokio::sync::Mutex<Arc<()>>);

/// While there is such a value, no network is removed.
#[derive(Debug)]
pub(crate) struct Used {
    _token: Arc<()>,
}

impl Networks {
    /// Lets networks be made, one after the other: the engine itself would make two of one name.
    pub(crate) async fn make(&self, make: impl AsyncFnOnce() -> Result<()>) -> Result<Used> {
        let token = self.0.lock().await;
        make().await?;
        Ok(Used { _token: Arc::clone(&token) })
    }
}

/// Removes the networks that no container of ours is on, unless a start is about to use some. A network
/// that cannot be removed does no harm: the next sweep tries again.
pub(crate) async fn sweep(docker: &Docker, inner: &Arc<Inner>) -> Result<()> {
    // Locked to the end: of two instances that are removed at once, the later finds no container left.
    let token = inner.networks.0.lock().await;
    if Arc::strong_count(&token) > 1 {
        return Ok(());
    }
    let seen = list::seen(inner, None).await?;
    let filters = Some(tag::agent_filter(&inner.options.agent));
    let Ok(listed) = docker.list_networks(Some(ListNetworksOptions { filters })).await else {
        return Ok(());
    };
    let used = seen.iter().flat_map(|seen| {
        let settings = seen.inspected.network_settings.as_ref();
        settings.and_then(|settings| settings.networks.as_ref()).into_iter().flatten()
    });
    let used: BTreeSet<&str> = used.map(|(name, _)| name.as_str()).collect();
    for network in listed {
        let (Some(name), Some(id)) = (network.name, network.id) else { continue };
        if !used.contains(name.as_str())
            && let Err(error) = docker.remove_network(&id).await
        {
            tracing::debug!(name, %error, "the network stays for now");
        }
    }
    Ok(())
}
