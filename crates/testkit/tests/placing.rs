//! Apps get their places on the real stack: Assignments, reasons, moves, and what has no place.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "placing/explained.rs"]
mod explained;

use http::Request;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Client;
use kube::api::{
    Api, ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams, PostParams,
};
use serde_json::{Value, json};

use tombolo_testkit::{Tombolo, eventually, tools};

const LAND: &str = include_str!("fixtures/land.yaml");
const SHOP: &str = include_str!("fixtures/placed.yaml");

fn kind(client: &Client, kind: &str, plural: &str) -> Api<DynamicObject> {
    let gvk = GroupVersionKind::gvk("tombolo.dev", "v1alpha1", kind);
    let resource = ApiResource::from_gvk_with_plural(&gvk, plural);
    match kind {
        "App" | "Assignment" => Api::namespaced_with(client.clone(), "default", &resource),
        _ => Api::all_with(client.clone(), &resource),
    }
}

/// Three sites with their nodes and links, as an agent would have reported them.
async fn start() -> (Tombolo, Client) {
    let tombolo = Tombolo::start().await;
    tombolo.shell_with(&["apply", "-f", "-"], LAND).await.ok();
    let client = tombolo.client().await;
    for (name, cpu, memory) in [("a1", "4", "8Gi"), ("b1", "2", "4Gi"), ("c1", "8", "16Gi")] {
        let has = json!({"cpu": cpu, "memory": memory, "storage": "100Gi"});
        let status = json!({"status": {
            "capacity": has, "allocatable": has, "securityScore": 80,
            "characteristics": {"cpu": {"architecture": "amd64"}},
        }});
        let nodes = kind(&client, "Node", "nodes");
        let params = PatchParams::default();
        nodes.patch_status(name, &params, &Patch::Merge(status)).await.unwrap();
        create_lease(&client, name).await;
        set_holder(&client, name, "agent-1").await;
    }
    (tombolo, client)
}

async fn app(client: &Client, name: &str) -> Value {
    serde_json::to_value(kind(client, "App", "apps").get(name).await.unwrap()).unwrap()
}

async fn until_phase(client: &Client, name: &str, phase: &str) -> Value {
    eventually(&format!("{name} is {phase}"), async || {
        let app = app(client, name).await;
        (app["status"]["phase"] == phase).then_some(app)
    })
    .await
}

async fn assignments(client: &Client) -> Vec<Value> {
    let list = kind(client, "Assignment", "assignments").list(&ListParams::default()).await;
    list.unwrap().items.iter().map(|one| serde_json::to_value(one).unwrap()).collect()
}

/// Plays the agents: everything that is assigned is up, and what is to go is let go of.
async fn play_agents(client: &Client) {
    let api = kind(client, "Assignment", "assignments");
    for one in assignments(client).await {
        if one["metadata"]["deletionTimestamp"].is_string() {
            let name = one["metadata"]["name"].as_str().unwrap();
            let patch = Patch::Merge(json!({"metadata": {"finalizers": null}}));
            let _ = api.patch(name, &PatchParams::default(), &patch).await;
            continue;
        }
        let status = json!({"status": {
            "observedGeneration": one["metadata"]["generation"],
            "addresses": ["192.0.2.7"],
            "conditions": [{"type": "Available", "status": "True", "reason": "Up",
                "message": "it runs", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
        }});
        let name = one["metadata"]["name"].as_str().unwrap();
        let _ = api.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await;
    }
}

async fn until_running(client: &Client, name: &str) -> Value {
    eventually(&format!("{name} is Running"), async || {
        play_agents(client).await;
        let app = app(client, name).await;
        (app["status"]["phase"] == "Running").then_some(app)
    })
    .await
}

fn leases(client: &Client) -> Api<Lease> {
    Api::namespaced(client.clone(), "tombolo-system")
}

/// An agent that is there for a day.
async fn create_lease(client: &Client, node: &str) {
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": format!("node-{node}")},
        "spec": {"holderIdentity": "agent", "leaseDurationSeconds": 86400}});
    let lease = serde_json::from_value(lease).unwrap();
    leases(client).create(&PostParams::default(), &lease).await.unwrap();
}

/// It takes its leave, or comes back, and is noticed.
async fn set_holder(client: &Client, node: &str, holder: &str) {
    let patch = json!({"spec": {"holderIdentity": holder}});
    let name = format!("node-{node}");
    leases(client).patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    let expected = if holder.is_empty() { "False" } else { "True" };
    eventually(&format!("{node} has Ready={expected}"), async || {
        let node = kind(client, "Node", "nodes").get(node).await.unwrap();
        let conditions = node.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.into_iter().find(|it| it["type"] == "Ready" && it["status"] == expected)
    })
    .await;
}

fn node_of(app: &Value, component: &str) -> String {
    let placements = app["status"]["placements"].as_array().unwrap();
    let at = placements.iter().find(|at| at["component"] == component).unwrap();
    at["node"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn an_app_is_placed_with_reasons_and_goes_with_its_assignments() {
    let (tombolo, client) = start().await;
    tombolo.shell_with(&["apply", "-f", "-"], SHOP).await.ok();
    until_phase(&client, "shop", "Deploying").await;
    let placed = until_running(&client, "shop").await;
    assert_eq!(placed["status"]["ready"], "3/3");
    assert_eq!(placed["status"]["observedGeneration"], placed["metadata"]["generation"]);
    for at in placed["status"]["placements"].as_array().unwrap() {
        assert!(at["decision"]["reason"].is_string(), "{at}");
        assert!(at["decision"]["score"].is_number(), "{at}");
    }
    let assigned = assignments(&client).await;
    assert_eq!(assigned.len(), 3, "{assigned:#?}");
    for one in &assigned {
        assert_eq!(one["metadata"]["ownerReferences"][0]["name"], "shop");
        assert_eq!(one["metadata"]["labels"]["tombolo.dev/app"], "shop");
        assert!(one["spec"]["decision"]["reason"].is_string());
        assert!(one["spec"]["run"]["container"]["image"].is_string());
    }
    let events = tombolo.shell(&["events", "--for", "app/shop"]).await.ok();
    assert!(events.contains("Placed"), "{events}");
    tombolo.shell(&["wait", "app/shop", "--for=condition=Ready", "--timeout=30s"]).await.ok();

    let why = tombolo.shell(&["why", "shop"]).await.ok();
    assert!(why.contains("web/0 on ") && why.contains("score "), "{why}");
    let why = tombolo.shell(&["why", "shop/data", "--node", "b1"]).await.ok();
    assert!(why.contains("data cannot run on b1:"), "{why}");
    assert!(why.contains("needs 3 cpu"), "{why}");
    let gone = tombolo.shell(&["why", "shop/data", "--node", "nowhere"]).await;
    assert_eq!(gone.code, Some(3), "{gone:?}");

    tombolo.shell(&["delete", "app", "shop", "--yes"]).await.ok();
    let going = eventually("the Assignments are to go with their App", async || {
        let left = assignments(&client).await;
        left.iter().all(|one| one["metadata"]["deletionTimestamp"].is_string()).then_some(left)
    })
    .await;
    assert_eq!(going.len(), 3, "they wait until their agents have taken the instances down");
    eventually("the Assignments go with their App", async || {
        play_agents(&client).await;
        assignments(&client).await.is_empty().then_some(())
    })
    .await;
}

#[tokio::test]
async fn an_app_without_a_place_says_what_is_in_the_way() {
    let (tombolo, client) = start().await;
    let large = SHOP.replace("cpu: 3", "cpu: 30");
    tombolo.shell_with(&["apply", "-f", "-"], &large).await.ok();
    let app = until_phase(&client, "shop", "Unplaceable").await;
    let unplaced = &app["status"]["unplaced"][0];
    assert_eq!(unplaced["component"], "data");
    assert!(unplaced["reasons"][0].as_str().unwrap().contains("needs 30 cpu"), "{unplaced}");
    assert!(unplaced["suggestion"].as_str().unwrap().contains("would fit"), "{unplaced}");
    assert_eq!(assignments(&client).await.len(), 0, "nothing of it may be assigned");
    let waited = tombolo.shell(&["wait", "app/shop", "--for=phase=Running", "--timeout=1s"]).await;
    assert_eq!(waited.code, Some(8), "{waited:?}");
    let events = tombolo.shell(&["events", "--for", "app/shop"]).await.ok();
    assert!(events.contains("Unplaceable"), "{events}");
    let planned = tombolo.shell_with(&["plan", "-f", "-"], &large).await;
    assert_eq!(planned.code, Some(8), "{planned:?}");
    assert!(planned.stdout.contains("data/0 has no place:"), "{planned:?}");
}

#[tokio::test]
async fn a_silent_node_is_replaced_and_a_drained_one_left() {
    let (tombolo, client) = start().await;
    let quick = SHOP.replace("spec:\n", "spec:\n  disconnect: {action: replace, after: 1s}\n");
    tombolo.shell_with(&["apply", "-f", "-"], &quick).await.ok();
    let placed = until_running(&client, "shop").await;
    let before = node_of(&placed, "data");
    set_holder(&client, &before, "").await;
    let after = eventually("data is on another node", async || {
        let app = app(&client, "shop").await;
        let node = node_of(&app, "data");
        (node != before).then_some(node)
    })
    .await;
    let events = tombolo.shell(&["events", "--for", "app/shop"]).await.ok();
    assert!(events.contains("Moved"), "{events}");

    set_holder(&client, &before, "agent").await;
    until_running(&client, "shop").await;
    let drain = json!({"spec": {"unschedulable": true,
        "taints": [{"key": "tombolo.dev/drain", "effect": "NoExecute"}]}});
    let nodes = kind(&client, "Node", "nodes");
    nodes.patch(&after, &PatchParams::default(), &Patch::Merge(drain)).await.unwrap();
    eventually("nothing is assigned to the drained node", async || {
        play_agents(&client).await;
        let there = assignments(&client).await;
        let on_it = there.iter().filter(|one| one["spec"]["node"] == after.as_str());
        (on_it.count() == 0 && there.len() == 3).then_some(())
    })
    .await;
}

#[tokio::test]
async fn plan_and_what_if_change_nothing() {
    let (tombolo, client) = start().await;
    let planned = tombolo.shell_with(&["plan", "-f", "-", "-o", "json"], SHOP).await.json();
    assert_eq!(planned["feasible"], true, "{planned}");
    assert_eq!(planned["placements"].as_array().unwrap().len(), 3);
    assert_eq!(assignments(&client).await.len(), 0);

    tombolo.shell_with(&["apply", "-f", "-"], SHOP).await.ok();
    let placed = until_running(&client, "shop").await;
    let node = node_of(&placed, "data");
    eventually("callers know where data is, and nothing is left to do", async || {
        let known = |one: &Value| one["spec"]["peers"][0]["addresses"][0].is_string();
        let callers = assignments(&client).await;
        let callers = callers.iter().filter(|one| one["spec"]["component"] == "web");
        (callers.filter(|one| known(one)).count() == 2).then_some(())
    })
    .await;
    let before = versions(&client).await;
    let answer = tombolo.shell(&["what-if", "--fail", &format!("node/{node}"), "-o", "json"]).await;
    let answer: Value = serde_json::from_str(&answer.stdout).unwrap();
    let moved = answer["differences"].as_array().unwrap();
    assert!(moved.iter().any(|one| one["component"] == "data" && one["from"] == node), "{answer}");
    let table = tombolo.shell(&["what-if", "--drain", &format!("node/{node}")]).await;
    assert!(table.stdout.contains("data"), "{table:?}");
    tombolo.shell(&["what-if", "--weights", "energy=1,cost=3"]).await.ok();
    let gone = tombolo.shell(&["what-if", "--fail", "site/nowhere"]).await;
    assert_eq!(gone.code, Some(3), "{gone:?}");
    assert_eq!(versions(&client).await, before);
}

/// The versions of all that a plan could touch.
async fn versions(client: &Client) -> Vec<(String, String)> {
    let mut versions = Vec::new();
    for (name, plural) in [("App", "apps"), ("Assignment", "assignments"), ("Node", "nodes")] {
        for one in kind(client, name, plural).list(&ListParams::default()).await.unwrap() {
            let metadata = one.metadata;
            versions.push((metadata.name.unwrap(), metadata.resource_version.unwrap()));
        }
    }
    versions
}

/// In the words of ICOS, written for this test.
const DESCRIPTOR: &str = "\
name: greenhouse
description: measures and waters
components:
  - name: sensor
    type: kubernetes
    requirements: {cpu: 0.5, memory: 256Mi}
    manifests: [{name: sensor}]
  - name: pump
    type: kubernetes
    requirements: {cpu: 40, memory: 1Gi}
    manifests: [{name: pump}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: sensor}
spec: {template: {spec: {containers: [{name: sensor, image: sensor}]}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: pump}
spec: {template: {spec: {containers: [{name: pump, image: pump}]}}}
";

async fn matchmake(client: &Client, descriptor: &str) -> Value {
    let request = Request::post("/matchmake").body(descriptor.as_bytes().to_vec()).unwrap();
    serde_json::from_str(&client.request_text(request).await.unwrap()).unwrap()
}

#[tokio::test]
async fn the_icos_matchmaker_answers_in_its_own_shape() {
    let (_tombolo, client) = start().await;
    let small = DESCRIPTOR.replace("cpu: 40", "cpu: 2");
    let answer = matchmake(&client, &small).await;
    let components = answer["components"].as_array().unwrap();
    assert_eq!(components.len(), 2, "{answer}");
    for component in components {
        let target = &component["targets"];
        // The only cluster that runs Kubernetes.
        assert_eq!(target["cluster_name"], "c", "{answer}");
        assert_eq!(target["node_name"], "c1", "{answer}");
        assert_eq!(target["orchestrator"], "ocm", "{answer}");
        assert_eq!(component["type"], "kubernetes", "what was sent comes back: {answer}");
    }
    let answer = matchmake(&client, DESCRIPTOR).await;
    let pump = answer["components"].as_array().unwrap().iter().find(|it| it["name"] == "pump");
    assert_eq!(pump.unwrap()["targets"], json!([]), "{answer}");
    assert!(pump.unwrap()["reasons"][0].as_str().unwrap().contains("needs 40 cpu"), "{answer}");
    assert!(assignments(&client).await.is_empty());
    let request = Request::post("/matchmake").body(b"name: [".to_vec()).unwrap();
    assert!(client.request_text(request).await.is_err());
}

#[tokio::test]
async fn the_samples_of_icos_are_matched() {
    let test = "placing::the_samples_of_icos_are_matched";
    let topology = tools::shared(test, "data/icos/matchmaking/aggregator_taxonomy.json");
    let descriptor = tools::shared(test, "data/icos/matchmaking/application.yaml");
    let (Some(topology), Some(descriptor)) = (topology, descriptor) else { return };
    let (tombolo, client) = start().await;
    // As published it lacks a blank in two places, which is told as an error.
    let text = std::fs::read_to_string(&descriptor).unwrap().replace("\n  -name:", "\n- name:");
    let mended = tombolo.file("mended.yaml", &text);
    let (topology, app) = (topology.to_str().unwrap(), mended.to_str().unwrap());
    let ran = tombolo.shell(&["match", "--topology", topology, "--app", app, "-o", "json"]).await;
    assert!(matches!(ran.code, Some(0 | 8)), "{ran:?}");
    let found: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(ran.code, Some(if found["feasible"] == true { 0 } else { 8 }), "{ran:?}");
    let count = |key: &str| found[key].as_array().unwrap().len();
    assert!(count("placements") + count("unplaced") > 0, "{found}");

    let answer = matchmake(&client, &text).await;
    for component in answer["components"].as_array().unwrap() {
        let targets = &component["targets"];
        assert!(targets.is_array() || targets["cluster_name"].is_string(), "{answer}");
    }
}
