//! The foreign kinds as the API serves them: definitions, and a status in their own shape.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tombolo_descriptor::foreign::{self, Observed, Usage, charity, codeco};
use tombolo_model::{App, Assignment, Node, Site};

fn from_json<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn app(phase: &str, status: Value) -> App {
    let mut app = json!({
        "apiVersion": "tombolo.dev/v1alpha1", "kind": "App",
        "metadata": {"name": "kiosk", "namespace": "stands"},
        "spec": {"components": [{"name": "till", "run": [{"container": {"image": "till:1"}}]}]},
        "status": status,
    });
    app["status"]["phase"] = json!(phase);
    from_json(app)
}

fn assignment(name: &str, replica: u32, node: &str, available: &str) -> Assignment {
    from_json(json!({
        "apiVersion": "tombolo.dev/v1alpha1", "kind": "Assignment",
        "metadata": {"name": name, "namespace": "stands"},
        "spec": {
            "app": "kiosk", "component": "till", "replica": replica, "site": "hall", "node": node,
            "engine": "docker", "run": {"container": {"image": "till:1"}},
        },
        "status": {"instance": format!("c-{name}"), "conditions": [{
            "type": "Available", "status": available, "reason": "Up", "message": "",
            "lastTransitionTime": "2024-01-01T00:00:00Z",
        }]},
    }))
}

fn node(name: &str) -> Node {
    from_json(json!({
        "apiVersion": "tombolo.dev/v1alpha1", "kind": "Node", "metadata": {"name": name},
        "spec": {"site": "hall"}, "status": {"failures": {"node": 2, "network": 0}},
    }))
}

fn site(name: &str) -> Site {
    from_json(json!({
        "apiVersion": "tombolo.dev/v1alpha1", "kind": "Site", "metadata": {"name": name},
        "spec": {"engine": "kubernetes"}, "status": {"conditions": [{
            "type": "Ready", "status": "True", "reason": "Alive", "message": "",
            "lastTransitionTime": "2024-01-01T00:00:00Z",
        }]},
    }))
}

#[test]
fn there_is_a_definition_for_each_foreign_kind() {
    let definitions = foreign::definitions();
    let names: Vec<&Value> = definitions.iter().map(|one| &one["metadata"]["name"]).collect();
    assert_eq!(
        names,
        ["codecoapps.codeco.he-codeco.eu", "lowlevelorchestrations.charity-project.eu"]
    );
    assert_eq!(definitions[1]["spec"]["names"]["shortNames"], json!(["llorch"]));
}

#[test]
fn a_codecoapp_gets_its_status_in_codecos_shape() {
    let usage = Usage {
        instances: BTreeMap::from([
            ("one".to_owned(), from_json(json!({"cpu": "200m", "memory": "64Mi"}))),
            ("two".to_owned(), from_json(json!({"cpu": "300m"}))),
        ]),
        node_watts: BTreeMap::from([("n1".to_owned(), 12.5)]),
    };
    let observed = Observed {
        apps: &[&app("Degraded", json!({"message": "1 of 2 is up"}))],
        assignments: &[&assignment("two", 1, "n1", "False"), &assignment("one", 0, "n1", "True")],
        nodes: &[&node("n1")],
        sites: &[],
        usage: &usage,
    };
    assert_eq!(
        codeco::status(&observed),
        json!({
            "status": "Warning",
            "errorMsg": "1 of 2 is up",
            "nodeMetrics": [{
                "nodeName": "n1", "avgNodeCpu": "500m", "avgNodeMemory": "64Mi",
                "avgNodeFailure": "2", "avgNodeEnergy": "12.5",
            }],
            "appMetrics": {
                "numPods": 1,
                "avgAppCpu": "500m",
                "avgAppMemory": "64Mi",
                "serviceMetrics": [
                    {
                        "serviceName": "till", "nodeName": "n1", "podName": "c-one",
                        "clusterName": "hall", "avgServiceCpu": "200m", "avgServiceMemory": "64Mi",
                    },
                    {
                        "serviceName": "till", "nodeName": "n1", "podName": "c-two",
                        "clusterName": "hall", "avgServiceCpu": "300m",
                    },
                ],
            },
        })
    );
}

#[test]
fn what_was_not_measured_is_not_made_up() {
    let observed = Observed {
        apps: &[&app("Running", json!({}))],
        assignments: &[&assignment("one", 0, "n1", "True")],
        nodes: &[],
        sites: &[],
        usage: &Usage::default(),
    };
    assert_eq!(
        codeco::status(&observed),
        json!({
            "status": "OK",
            "nodeMetrics": [{"nodeName": "n1"}],
            "appMetrics": {
                "numPods": 1,
                "serviceMetrics": [{
                    "serviceName": "till", "nodeName": "n1", "podName": "c-one",
                    "clusterName": "hall",
                }],
            },
        })
    );
}

#[test]
fn an_application_without_a_place_is_an_error_with_its_reasons() {
    let status = json!({"unplaced": [
        {"component": "till", "replica": 0, "reasons": ["no node has 64 cores"]},
    ]});
    let observed = Observed {
        apps: &[&app("Unplaceable", status)],
        assignments: &[],
        nodes: &[],
        sites: &[],
        usage: &Usage::default(),
    };
    let status = codeco::status(&observed);
    assert_eq!(status["status"], "Error");
    assert_eq!(status["errorMsg"], "till 0 has no place: no node has 64 cores");
}

#[test]
fn an_orchestration_gets_a_status_for_each_cluster_and_app() {
    let object = json!({
        "metadata": {"name": "harbour"},
        "spec": {"clusters": [{"name": "quay"}, {"name": "office"}]},
    });
    let endpoints = json!({"endpoints": [{
        "component": "till", "port": 80, "url": "http://till.example:8000", "public": true,
    }]});
    let observed = Observed {
        apps: &[&app("Running", endpoints)],
        assignments: &[&assignment("one", 0, "n1", "True")],
        nodes: &[],
        sites: &[&site("harbour-quay")],
        usage: &Usage::default(),
    };
    assert_eq!(
        charity::status(&object, &observed),
        json!({
            "phase": "Running",
            "ready": "1/1",
            "clusters": [
                {"name": "quay", "site": "harbour-quay", "ready": true},
                {
                    "name": "office", "ready": false,
                    "message": "no site is named office or harbour-office; let the cluster join as one",
                },
            ],
            "apps": [{
                "name": "kiosk",
                "phase": "Running",
                "components": [{
                    "name": "till", "cluster": "hall", "node": "n1", "ready": true,
                    "endpoints": ["http://till.example:8000"],
                }],
            }],
        })
    );
}

#[test]
fn what_cannot_be_read_says_so_in_the_status() {
    assert_eq!(
        codeco::refused("no services"),
        json!({"status": "Error", "errorMsg": "no services"})
    );
    assert_eq!(charity::refused("no apps"), json!({"phase": "Error", "message": "no apps"}));
}
