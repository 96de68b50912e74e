//! The loop that tells who is alive, on the real stack.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::Event;
use kube::api::{
    Api, ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams,
};
use kube::api::{ObjectMeta, PostParams};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

use tombolo_testkit::{Tombolo, eventually};

fn nodes(client: &Client) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("tombolo.dev", "v1alpha1", "Node");
    Api::all_with(client.clone(), &ApiResource::from_gvk_with_plural(&kind, "nodes"))
}

fn leases(client: &Client) -> Api<Lease> {
    Api::namespaced(client.clone(), "tombolo-system")
}

async fn create_node(client: &Client, name: &str) {
    let node = json!({
        "apiVersion": "tombolo.dev/v1alpha1", "kind": "Node",
        "metadata": {"name": name}, "spec": {"site": "alps"},
    });
    let node = serde_json::from_value(node).unwrap();
    nodes(client).create(&PostParams::default(), &node).await.unwrap();
}

async fn create_lease(client: &Client, name: &str, seconds: i32) {
    let lease = Lease {
        metadata: ObjectMeta { name: Some(format!("node-{name}")), ..ObjectMeta::default() },
        spec: Some(LeaseSpec {
            holder_identity: Some("agent".to_owned()),
            lease_duration_seconds: Some(seconds),
            ..LeaseSpec::default()
        }),
    };
    leases(client).create(&PostParams::default(), &lease).await.unwrap();
}

/// Renews with a time of day that is wildly wrong, because it must not matter.
async fn renew(client: &Client, name: &str) {
    let patch = json!({"spec": {"renewTime": "1970-01-01T00:00:01.000000Z"}});
    let name = format!("node-{name}");
    leases(client).patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
}

async fn until_ready_is(client: &Client, name: &str, status: &str) -> Value {
    eventually(&format!("{name} has Ready={status}"), async || {
        let node = nodes(client).get(name).await.unwrap();
        let conditions = node.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.into_iter().find(|it| it["type"] == "Ready" && it["status"] == status)
    })
    .await
}

#[tokio::test]
async fn a_node_goes_and_comes_back_with_its_lease() {
    let tombolo = Tombolo::start().await;
    let client = tombolo.client().await;
    create_node(&client, "hut").await;
    create_lease(&client, "hut", 1).await;
    let condition = until_ready_is(&client, "hut", "True").await;
    assert_eq!(condition["message"], "heartbeat from agent");

    let condition = until_ready_is(&client, "hut", "False").await;
    assert_eq!(condition["reason"], "HeartbeatLost");
    let message = condition["message"].as_str().unwrap();
    assert!(message.ends_with("lease lasts 1 s"), "{message}");

    renew(&client, "hut").await;
    until_ready_is(&client, "hut", "True").await;

    let events: Api<Event> = Api::namespaced(client, "default");
    let told = eventually("the events count three turns", async || {
        let params = ListParams::default().fields("involvedObject.name=hut");
        let events = events.list(&params).await.unwrap();
        let told = events.iter().map(|event| {
            (event.reason.clone().unwrap_or_default(), event.count.unwrap_or_default())
        });
        let told: BTreeMap<String, i32> = told.collect();
        (told.values().sum::<i32>() >= 3).then_some(told)
    })
    .await;
    // The same again is one Event that counts.
    let expected = [("NodeNotReady".to_owned(), 1), ("NodeReady".to_owned(), 2)];
    assert_eq!(told, BTreeMap::from(expected));
}

#[tokio::test]
async fn other_conditions_are_left_alone() {
    let tombolo = Tombolo::start().await;
    let client = tombolo.client().await;
    create_node(&client, "hut").await;
    let other = json!({"status": {"conditions": [{
        "type": "DiskPressure", "status": "False", "reason": "Enough", "message": "half full",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }]}});
    let params = PatchParams::default();
    nodes(&client).patch_status("hut", &params, &Patch::Merge(other)).await.unwrap();
    create_lease(&client, "hut", 40).await;
    until_ready_is(&client, "hut", "True").await;
    let node = nodes(&client).get("hut").await.unwrap();
    assert_eq!(node.data["status"]["conditions"].as_array().unwrap().len(), 2, "{node:?}");
    assert_eq!(node.name_any(), "hut");
}

#[tokio::test]
async fn a_restart_calls_nobody_silent() {
    let mut tombolo = Tombolo::start().await;
    let client = tombolo.client().await;
    create_node(&client, "hut").await;
    create_lease(&client, "hut", 20).await;
    until_ready_is(&client, "hut", "True").await;
    tombolo.kill9();
    tombolo.restart().await;

    // Another node passes through the loop after the restart, so that it surely has looked.
    create_node(&client, "lodge").await;
    create_lease(&client, "lodge", 20).await;
    until_ready_is(&client, "lodge", "True").await;
    until_ready_is(&client, "hut", "True").await;
}
