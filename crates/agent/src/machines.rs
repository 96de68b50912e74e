//! The Nodes of a site whose one agent stands for all its machines. Looks at the engine and at the Nodes,
//! lets [`tombolo_plan::machines`] decide, writes. Started by [`crate::work`]; start at [`keep`].

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Client;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::json;
use tombolo_driver::Machines;
use tombolo_model::Node;
use tombolo_model::phrase::with_causes;
use tombolo_plan::agent::pauses::{self, Told};
use tombolo_plan::machines::{Action, plan};

use crate::clock;
use crate::connection::Connection;

const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
const FIELD_MANAGER: &str = "tombolo-agent";
/// Thousands of machines must not be thousands of writes before anything else is looked at.
const ACTIONS_MAX: usize = 256;

/// Looks and tells for ever.
pub(crate) async fn keep(connection: Connection, site: String, machines: Arc<dyn Machines>) {
    let mut events = machines.events();
    loop {
        let looked = connection.ask(async |client| look(client, &site, &*machines).await).await;
        let told = match looked {
            Some(Ok(0)) => Told::All,
            Some(Ok(_)) => Told::Begun,
            None => Told::Failed,
            Some(Err(problem)) => {
                tracing::info!(problem, "cannot tell of the machines yet");
                Told::Failed
            }
        };
        tokio::select! {
            () = tokio::time::sleep(pauses::machines(told)) => (),
            Some(()) = events.next() => (),
        }
    }
}

/// Looks, decides, acts; once. Returns how much there was to do.
async fn look(client: Client, site: &str, machines: &dyn Machines) -> Result<usize, String> {
    let there = tokio::time::timeout(ANSWER_TIMEOUT, machines.list()).await;
    let there = there.map_err(|late| late.to_string())?.map_err(|error| with_causes(&error))?;
    let api: Api<Node> = Api::all(client);
    let params = ListParams::default().fields(&format!("spec.site={site}"));
    let nodes = answered(api.list(&params)).await?;
    let actions = plan(site, &there, &nodes.items, &Time(clock::time_of_day()));
    let count = actions.len();
    let mut problem = Ok(count);
    for action in actions.into_iter().take(ACTIONS_MAX) {
        tracing::info!(%action, "applying");
        if let Err(error) = apply(&api, &action).await {
            tracing::warn!(%action, error, "failed; the next look decides");
            problem = Err(error);
        }
    }
    problem
}

async fn apply(api: &Api<Node>, action: &Action) -> Result<(), String> {
    let params =
        PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
    match action {
        Action::Make(node) => answered(api.create(&params, node)).await.map(drop),
        Action::Label { node, labels } => {
            let patch = Patch::Merge(json!({"metadata": {"labels": labels}}));
            answered(api.patch(node, &PatchParams::default(), &patch)).await.map(drop)
        }
        Action::Tell(node) => {
            let name = node.metadata.name.as_deref().unwrap_or_default();
            answered(api.replace_status(name, &params, node)).await.map(drop)
        }
        Action::Remove(node) => {
            answered(api.delete(node, &DeleteParams::default())).await.map(drop)
        }
    }
}

async fn answered<T>(asked: impl Future<Output = Result<T, kube::Error>>) -> Result<T, String> {
    let answer = tokio::time::timeout(ANSWER_TIMEOUT, asked).await;
    answer.map_err(|late| late.to_string())?.map_err(|error| with_causes(&error))
}
