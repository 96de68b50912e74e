//! The agent that `tombolo up` has for its own machine: in the same process, without a door to go
//! through. What it does is in `tombolo_agent`.

use std::io;
use std::path::PathBuf;

use anyhow::Context as _;
use http_body_util::BodyExt as _;
use kube::Client;
use kube::api::{Api, PostParams};
use serde_json::json;
use tokio::sync::watch;
use tombolo_agent::connection::{Flow, Wire};
use tombolo_agent::engines::DockerAt;
use tombolo_agent::offer::Metrics;
use tombolo_agent::{Beside, machine};
use tombolo_apiserver::Api as Server;
use tombolo_identity::Subject;
use tombolo_model::keys::LABEL_SITE;
use tombolo_model::{Node, Site};

use super::up;
use crate::output;

/// The name of this machine, as a site and as a node.
pub(super) fn name() -> String {
    let name = machine::host_name();
    if name.is_empty() { "local".to_owned() } else { name }
}

/// What the agent of this machine is told.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Agent {
    pub(super) docker: DockerAt,
    pub(super) metrics: Metrics,
}

/// Runs until the stop. If it cannot, the server goes on without it and says so.
pub(super) async fn run(
    server: Server,
    data: PathBuf,
    site: String,
    agent: Agent,
    stop: watch::Receiver<bool>,
) {
    if let Err(error) = try_run(&server, data, site, agent, stop).await {
        output::note(&format!("warning: this machine runs nothing: {error:#}"));
    }
}

async fn try_run(
    server: &Server,
    data: PathBuf,
    site: String,
    agent: Agent,
    stop: watch::Receiver<bool>,
) -> anyhow::Result<()> {
    let node = name();
    prepare(server.client(Subject::system("up")), &site, &node).await?;
    let subject = Subject::agent(&site, &node)?;
    let (client, wire) = (server.client(subject.clone()), wire(server.clone(), subject));
    let Agent { docker, metrics } = agent;
    let beside = Beside { folder: data.join("agent"), site, node, docker, metrics };
    Ok(tombolo_agent::run_beside(beside, client, wire, up::stopped(stop)).await?)
}

/// Requests with bodies that flow, straight to the server.
fn wire(server: Server, subject: Subject) -> Wire {
    Wire::new(tower::service_fn(move |request: http::Request<Flow>| {
        let (server, subject) = (server.clone(), subject.clone());
        async move {
            let request = request.map(axum::body::Body::new);
            let response = server.answer_as(subject, request).await;
            Ok(response.map(|body| body.map_err(io::Error::other).boxed_unsync()))
        }
    }))
}

/// A Site and a Node, as the joining makes them; those that are there stay as they are.
async fn prepare(client: Client, site: &str, node: &str) -> anyhow::Result<()> {
    let params = PostParams::default();
    let sites: Api<Site> = Api::all(client.clone());
    if sites.get_opt(site).await?.is_none() {
        let made = json!({
            "apiVersion": "tombolo.dev/v1alpha1", "kind": "Site", "metadata": {"name": site},
            "spec": {"engine": "host"},
        });
        let made = serde_json::from_value(made)?;
        sites.create(&params, &made).await.with_context(|| format!("cannot make site {site}"))?;
    }
    let nodes: Api<Node> = Api::all(client);
    let Some(known) = nodes.get_opt(node).await? else {
        let made = json!({
            "apiVersion": "tombolo.dev/v1alpha1", "kind": "Node",
            "metadata": {"name": node, "labels": {LABEL_SITE: site}}, "spec": {"site": site},
        });
        let made = serde_json::from_value(made)?;
        nodes.create(&params, &made).await.with_context(|| format!("cannot make node {node}"))?;
        return Ok(());
    };
    if known.spec.site != site {
        anyhow::bail!(
            "node {node} belongs to site {}; start with --site {0}, or remove the node",
            known.spec.site
        );
    }
    Ok(())
}
