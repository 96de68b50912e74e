//! `/api/v3/controller/`, `/api/v3/resource/` and `/characterization`, over the real API in process.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use http::Method;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tombolo_identity::Subject;
use tombolo_model::{Assignment, Node, Site};

use support::{Server, guest, manager, server};

async fn look(server: &Server, path: &str) -> (u16, Value) {
    server.ask_as(&guest(), Method::GET, path, "").await
}

/// One site with one node, and something that runs there.
async fn furnish(server: &Server) {
    let client = server.admin();
    let sites: Api<Site> = Api::all(client.clone());
    let site = json!({"apiVersion": "tombolo.dev/v1alpha1", "kind": "Site",
        "metadata": {"name": "harbour"},
        "spec": {"engine": "kubernetes", "location": {"city": "Kiel", "country": "DE"}}});
    sites.create(&PostParams::default(), &serde_json::from_value(site).unwrap()).await.unwrap();
    let nodes: Api<Node> = Api::all(client.clone());
    let node = json!({"apiVersion": "tombolo.dev/v1alpha1", "kind": "Node",
        "metadata": {"name": "crane"}, "spec": {"site": "harbour"}});
    nodes.create(&PostParams::default(), &serde_json::from_value(node).unwrap()).await.unwrap();
    let status = json!({"status": {
        "securityScore": 42, "addresses": ["192.0.2.7"],
        "conditions": [{"type": "Ready", "status": "True", "reason": "Heartbeat", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z"}],
        "characteristics": {
            "uuid": "4e849968-21fc-11ed-a346-204ef6b52cc7", "memory": "8Gi",
            "cpu": {"architecture": "arm64", "cores": 4, "frequencyMhzMax": 1500},
            "disks": [{"name": "sda", "type": "ssd", "size": "100Gi"}],
            "devices": [{"name": "camera", "type": "video", "status": "available",
                "path": "/dev/video0"}],
        },
    }});
    let params = PatchParams::default();
    nodes.patch_status("crane", &params, &Patch::Merge(status)).await.unwrap();
    let assignments: Api<Assignment> = Api::namespaced(client, "default");
    let assignment = json!({"apiVersion": "tombolo.dev/v1alpha1", "kind": "Assignment",
        "metadata": {"name": "gauge-0"},
        "spec": {"app": "tide", "component": "gauge", "replica": 0, "site": "harbour",
            "node": "crane", "engine": "kubernetes",
            "run": {"container": {"image": "example/gauge:1"}}}});
    let assignment = serde_json::from_value(assignment).unwrap();
    assignments.create(&PostParams::default(), &assignment).await.unwrap();
}

#[tokio::test]
async fn a_controller_registers_with_authority_and_is_found() {
    let server = server().await;
    assert_eq!(look(&server, "/api/v3/controller/").await.0, 204);
    let body = json!({"name": "controller_1", "address": "192.168.100.1"}).to_string();
    let register = async |subject: &Subject, body: &str| {
        server.ask_as(subject, Method::POST, "/api/v3/controller/", body).await.0
    };
    assert_eq!(register(&Subject::anonymous(), &body).await, 401);
    assert_eq!(register(&guest(), &body).await, 403);
    assert_eq!(register(&manager(), &body).await, 201);
    assert_eq!(register(&manager(), &body).await, 202);
    let found = json!([{"name": "controller-1", "address": "https://192.168.100.1:7070"}]);
    assert_eq!(look(&server, "/api/v3/controller").await, (200, found));
    for wrong in ["{}", "x", r#"{"name": "a", "address": "http://192.168.100.1"}"#] {
        assert_eq!(register(&manager(), wrong).await, 405, "{wrong}");
    }
    let wrong = r#"{"name": "Käfer!", "address": "192.168.100.1"}"#;
    assert_eq!(register(&manager(), wrong).await, 405);
}

#[tokio::test]
async fn resources_are_clusters_with_nodes_as_the_aggregator_has_them() {
    let server = server().await;
    furnish(&server).await;
    let (code, all) = look(&server, "/api/v3/resource/").await;
    assert_eq!(code, 200, "{all}");
    let cluster = &all["cluster"]["harbour"];
    assert_eq!((&cluster["type"], &cluster["name"]), (&json!("ocm"), &json!("harbour")));
    let node = &cluster["node"]["crane"];
    assert_eq!(node["uuid"], "4e849968-21fc-11ed-a346-204ef6b52cc7");
    assert_eq!((&node["ScaScore"], &node["status"]), (&json!(42), &json!("online")));
    assert_eq!(node["location"]["city"], "Kiel");
    let metrics = &node["staticMetrics"];
    assert_eq!(metrics["cpuArchitecture"], "aarch64");
    assert_eq!(metrics["cpuMaxFrequency"], 1_500_000_000_u64);
    assert_eq!(metrics["RAMMemory"], 8_589_934_592_u64);
    let camera = json!({"name": "camera", "type": "video", "status": "available",
        "path": "/dev/video0"});
    assert_eq!(node["devices"]["camera"], camera);
    assert_eq!(node["pod"]["gauge-0"]["status"], "Pending");

    let uuid = cluster["uuid"].as_str().unwrap();
    assert_eq!(look(&server, &format!("/api/v3/resource/{uuid}")).await, (200, cluster.clone()));
    let (code, one) = look(&server, "/api/v3/resource/crane").await;
    assert_eq!((code, &one), (200, node));
    assert_eq!(look(&server, "/api/v3/resource/17").await.0, 404);
}

#[tokio::test]
async fn machines_are_characterised_in_both_formats() {
    let server = server().await;
    furnish(&server).await;
    let (code, devices) = look(&server, "/characterization?format=json").await;
    assert_eq!(code, 200, "{devices}");
    let device = &devices[0]["device"];
    assert_eq!((&device["device_name"], &device["ip"]), (&json!("crane"), &json!("192.0.2.7")));
    assert_eq!(device["RAM(bytes)"], 8_589_934_592_u64);
    assert_eq!(device["CPU"]["Arch"], "aarch64");
    let (_, same) = look(&server, "/characterization?node=crane").await;
    assert_eq!(same, devices);
    let (_, topics) = look(&server, "/characterization?format=json&shape=topics").await;
    assert_eq!(topics["CPU Characterization"][0]["node_cpu_cores"], "4");

    let (code, tosca) = look(&server, "/characterization?format=tosca").await;
    let tosca = tosca.as_str().unwrap();
    assert_eq!(code, 200);
    assert!(tosca.starts_with("tosca_definitions_version"), "{tosca}");
    assert!(tosca.contains("\"crane\":"), "{tosca}");
    assert_eq!(look(&server, "/characterization?format=xml").await.0, 400);
    assert_eq!(look(&server, "/characterization?node=nobody").await.0, 404);
    let agent = Subject::agent("harbour", "crane").unwrap();
    let (code, own) = server.ask_as(&agent, Method::GET, "/characterization", "").await;
    assert_eq!((code, own), (200, devices));
    let anonymous = Subject::anonymous();
    let code = server.ask_as(&anonymous, Method::GET, "/characterization", "").await.0;
    assert_eq!(code, 401);
}
