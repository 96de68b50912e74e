//! `POST /matchmake`: where the components of a descriptor would run, in the words of the ICOS
//! matchmaker. Nothing is written: the answer is a proposal.

use axum::body::Bytes;
use axum::http::{Request, StatusCode};
use axum::{Extension, Json};
use kube::Client;
use serde_json::{Value, json};
use tombolo_gate::Caller;
use tombolo_model::app::{Placement, Unplaced};
use tombolo_model::explanation::{PLAN_PATH, PlanAnswer, PlanRequest, PlannedOutcome};
use tombolo_model::{App, AppId, Engine};

use super::{deployment, job};
use crate::refusal::Refusal;

pub(crate) async fn propose(
    Extension(caller): Extension<Caller>,
    body: Bytes,
) -> Result<Json<Value>, Refusal> {
    let mut apps = deployment::read(&body)?.apps;
    for app in &mut apps {
        app.metadata.namespace.get_or_insert_with(|| deployment::NAMESPACE_DEFAULT.to_owned());
    }
    let request = PlanRequest { files: apps.clone(), ..PlanRequest::default() };
    let answer = plan(&caller.client, &request).await?;
    Ok(Json(proposal(&answer, &apps, &told_components(&body))))
}

/// Asks the server, which plans with what its loops remember and with the rights of the caller.
async fn plan(client: &Client, request: &PlanRequest) -> Result<PlanAnswer, Refusal> {
    let failed = |error: &dyn std::fmt::Display| {
        tracing::error!(%error, "a match could not be asked for");
        Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "the server failed; see its log")
    };
    let body = serde_json::to_vec(request).map_err(|error| failed(&error))?;
    let request = Request::post(PLAN_PATH).body(body).map_err(|error| failed(&error))?;
    match client.request(request).await {
        Err(kube::Error::Api(status)) if status.code == 404 => {
            Err(Refusal::not_found("this server places nothing"))
        }
        answer => Ok(answer?),
    }
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

fn proposal(answer: &PlanAnswer, apps: &[App], told: &[Value]) -> Value {
    let mut components = Vec::new();
    for app in apps {
        let (placements, unplaced) = found(answer, &AppId::of(app));
        for component in &app.spec.components {
            let name = component.name.as_str();
            let same = |one: &&Value| {
                one["name"].as_str().is_some_and(|told| told.eq_ignore_ascii_case(name))
            };
            let mut value =
                told.iter().find(same).cloned().unwrap_or_else(|| json!({"name": name}));
            value["targets"] = targets(name, &placements);
            if let Some(unplaced) = unplaced.iter().find(|one| one.component == name) {
                let reasons: Vec<&String> =
                    unplaced.reasons.iter().chain(&unplaced.suggestion).collect();
                value["reasons"] = json!(reasons);
            }
            components.push(value);
        }
    }
    json!({"components": components})
}

/// The places of an App and what has none. One that the plan does not speak of stays as it is.
fn found<'a>(answer: &'a PlanAnswer, id: &AppId) -> (Vec<&'a Placement>, &'a [Unplaced]) {
    let planned = answer.apps.iter().find(|one| one.app == id.as_str());
    let Some(planned) = planned else {
        let settled = answer.settled.iter().filter(|one| one.app == id.as_str());
        return (settled.flat_map(|one| &one.placements).collect(), &[]);
    };
    if planned.outcome == PlannedOutcome::Placed {
        return (planned.instances.iter().map(|one| &one.placement).collect(), &[]);
    }
    (Vec::new(), &planned.unplaced)
}

/// One target as ICOS knows it; several instances have several.
fn targets(component: &str, placements: &[&Placement]) -> Value {
    let target = |at: &&Placement| {
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
    use tombolo_model::explanation::SettledApp;

    use super::*;

    #[test]
    fn what_stays_as_it_is_is_proposed_where_it_runs() {
        let parts = json!([{"name": "web", "run": [{"container": {"image": "web:1"}}]}]);
        let app = json!({"apiVersion": tombolo_model::keys::API_VERSION, "kind": "App",
            "metadata": {"name": "shop", "namespace": "default"}, "spec": {"components": parts}});
        let app: App = serde_json::from_value(app).unwrap();
        let at = Placement {
            component: "web".to_owned(),
            site: "s".to_owned(),
            node: Some("n1".to_owned()),
            ..Placement::default()
        };
        let settled = SettledApp { app: "default/shop".to_owned(), placements: vec![at] };
        let answer = PlanAnswer { settled: vec![settled], ..PlanAnswer::default() };
        let found = proposal(&answer, &[app], &[json!({"name": "Web", "type": "docker"})]);
        assert_eq!(found["components"][0]["targets"]["node_name"], "n1", "{found}");
        assert_eq!(found["components"][0]["type"], "docker", "what was sent comes back: {found}");
    }
}
