//! `POST /matchmake`: where the components of a descriptor would run, in the words of the ICOS
//! matchmaker. Nothing is written: the answer is a proposal.

use axum::body::Bytes;
use axum::http::StatusCode;
use axum::{Extension, Json};
use kube::api::{Api, ListParams};
use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tombolo_gate::Caller;
use tombolo_model::app::{Placement, Unplaced};
use tombolo_model::{App, Engine, Shared};
use tombolo_placement::plan::Outcome;
use tombolo_placement::select::Limits;
use tombolo_placement::{Continuum, Plan};
use tombolo_plan::placing::{Basis, Observed};

use super::{deployment, job};
use crate::refusal::Refusal;

pub(crate) async fn propose(
    Extension(caller): Extension<Caller>,
    body: Bytes,
) -> Result<Json<Value>, Refusal> {
    let reading = deployment::read(&body)?;
    let told = told_components(&body);
    let observed = look(&caller.client).await?;
    // A search takes some hundred milliseconds, in which others want to be served.
    let answer = tokio::task::spawn_blocking(move || answer(observed, reading.apps, &told));
    let answer = answer.await.map_err(|error| {
        tracing::error!(%error, "a match could not be made");
        Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "the server failed; see its log")
    })?;
    answer.map(Json)
}

async fn look(client: &Client) -> Result<Observed, Refusal> {
    Ok(Observed {
        sites: listed(client).await?,
        nodes: listed(client).await?,
        links: listed(client).await?,
        // Whoever may not see what runs everywhere gets an answer as if nothing did.
        apps: listed(client).await.unwrap_or_default(),
        assignments: listed(client).await.unwrap_or_default(),
    })
}

async fn listed<K>(client: &Client) -> Result<Vec<Shared<K>>, kube::Error>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned,
{
    let api: Api<K> = Api::all(client.clone());
    Ok(api.list(&ListParams::default()).await?.items.into_iter().map(Shared::from).collect())
}

/// The components as the descriptor has them, to be given back with their targets.
fn told_components(body: &[u8]) -> Vec<Value> {
    let text = String::from_utf8_lossy(body);
    let content = serde_json::from_str::<Value>(&text).ok();
    let content = content.as_ref().and_then(|body| body["content"].as_str()).unwrap_or(&text);
    let (documents, _) = tombolo_yaml::documents(content, &tombolo_yaml::Limits::default());
    let first = documents.first().map(tombolo_yaml::Node::to_json).unwrap_or_default();
    first["components"].as_array().cloned().unwrap_or_default()
}

fn answer(mut observed: Observed, apps: Vec<App>, told: &[Value]) -> Result<Value, Refusal> {
    let mut asked: Vec<(usize, App)> = Vec::new();
    for mut app in apps {
        app.metadata.namespace.get_or_insert_with(|| deployment::NAMESPACE_DEFAULT.to_owned());
        asked.push((observed.put(app.clone()), app));
    }
    let (continuum, _) = Continuum::of(&observed.sites, &observed.nodes, &observed.links);
    let Basis { running, options } = Basis::without_memory(&observed);
    let limits = Limits::default();
    let plan = tombolo_placement::plan(&continuum, &observed.apps, &running, &options, &limits);
    let plan = plan.map_err(|error| Refusal::new(StatusCode::BAD_REQUEST, error.to_string()))?;
    let mut components = Vec::new();
    for (index, app) in &asked {
        let found = found(&plan, *index, app, &observed.apps[*index]);
        for component in &app.spec.components {
            let name = component.name.as_str();
            let same = |one: &&Value| {
                one["name"].as_str().is_some_and(|told| told.eq_ignore_ascii_case(name))
            };
            let mut value =
                told.iter().find(same).cloned().unwrap_or_else(|| json!({"name": name}));
            value["targets"] = targets(name, &found.0);
            if let Some(unplaced) = found.1.iter().find(|one| one.component == name) {
                let reasons: Vec<&String> =
                    unplaced.reasons.iter().chain(&unplaced.suggestion).collect();
                value["reasons"] = json!(reasons);
            }
            components.push(value);
        }
    }
    Ok(json!({"components": components}))
}

/// The places of an App and what has none. One that the plan does not speak of stays as it is.
fn found(plan: &Plan, index: usize, app: &App, known: &App) -> (Vec<Placement>, Vec<Unplaced>) {
    let Some(found) = plan.apps.iter().find(|one| one.index == index) else {
        let placements = known.status.iter().flat_map(|status| status.placements.clone());
        return (placements.collect(), Vec::new());
    };
    if found.outcome == Outcome::Placed {
        return (found.instances.iter().map(|one| one.placement.clone()).collect(), Vec::new());
    }
    let mut unplaced = found.unplaced.clone();
    if unplaced.is_empty() {
        let own = plan.troubles.iter().filter(|trouble| trouble.is_about_app(&found.app));
        let reasons: Vec<String> = own.map(|trouble| trouble.says.clone()).collect();
        unplaced.extend(app.spec.components.iter().map(|component| Unplaced {
            component: component.name.clone(),
            reasons: reasons.clone(),
            ..Unplaced::default()
        }));
    }
    (Vec::new(), unplaced)
}

/// One target as ICOS knows it; several instances have several.
fn targets(component: &str, placements: &[Placement]) -> Value {
    let target = |at: &Placement| {
        let orchestrator = job::orchestrator(at.engine.unwrap_or(Engine::Kubernetes));
        json!({"cluster_name": at.site, "node_name": at.node, "orchestrator": orchestrator})
    };
    let mut own: Vec<Value> =
        placements.iter().filter(|at| at.component == component).map(target).collect();
    match own.len() {
        1 => own.remove(0),
        _ => Value::Array(own),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object<T: DeserializeOwned>(kind: &str, name: &str, rest: Value) -> T {
        let mut value = rest;
        value["apiVersion"] = json!(tombolo_model::keys::API_VERSION);
        value["kind"] = json!(kind);
        value["metadata"] = json!({"name": name});
        serde_json::from_value(value).unwrap()
    }

    /// The name of the node that is proposed when these are how busy two equal ones are.
    fn proposed(first: f64, second: f64) -> String {
        let node = |name: &str, cpu: f64| {
            let has = json!({"cpu": "4", "memory": "8Gi"});
            let status = json!({"capacity": has, "allocatable": has, "load": {"cpu": cpu}});
            object("Node", name, json!({"spec": {"site": "s"}, "status": status}))
        };
        let observed = Observed {
            sites: vec![object("Site", "s", json!({"spec": {"engine": "docker"}}))],
            nodes: vec![node("n1", first), node("n2", second)],
            links: Vec::new(),
            apps: Vec::new(),
            assignments: Vec::new(),
        };
        let parts = json!([{"name": "web", "run": [{"container": {"image": "web:1"}}]}]);
        let app = object("App", "shop", json!({"spec": {"components": parts}}));
        let answer = answer(observed, vec![app], &[]).unwrap();
        answer["components"][0]["targets"]["node_name"].as_str().unwrap().to_owned()
    }

    #[test]
    fn a_busy_node_is_avoided_as_the_loop_avoids_it() {
        assert_eq!(proposed(0.9, 0.1), "n2");
        assert_eq!(proposed(0.1, 0.9), "n1");
    }
}
