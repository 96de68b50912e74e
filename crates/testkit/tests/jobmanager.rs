//! An ICOS deployment manager pulls its work from a real server: two of them race for a job, the
//! winner deploys, reports, undeploys. Nothing of ours runs at the site.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use http::{Method, Request};
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams};
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};

use tombolo_testkit::{Tombolo, eventually};

const LAND: &str = "\
apiVersion: tombolo.dev/v1alpha1
kind: Site
metadata: {name: harbour}
spec: {engine: kubernetes}
---
apiVersion: tombolo.dev/v1alpha1
kind: Node
metadata: {name: crane}
spec: {site: harbour}
---
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {name: node-crane, namespace: tombolo-system}
spec: {holderIdentity: cluster, leaseDurationSeconds: 86400}
";

const DESCRIPTOR: &str = "\
name: tide-watch
description: watches the tide
namespace: default
components:
- name: gauge
  type: kubernetes
  manifests:
  - name: gauge
  requirements: {cpu: 0.5, memory: 200Mi}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: gauge
spec:
  selector: {matchLabels: {app: gauge}}
  template:
    metadata: {labels: {app: gauge}}
    spec:
      containers:
      - name: gauge
        image: example/gauge:1
";

/// A deployment manager: its own id, and a token of a manager.
struct Manager {
    id: String,
    client: Client,
}

impl Manager {
    async fn new(tombolo: &Tombolo, id: &str) -> Manager {
        let create = ["token", "create", "--role", "manager", "--token-only", id];
        let token = tombolo.shell(&create).await.ok();
        let kubeconfig = Kubeconfig::read_from(tombolo.kubeconfig()).unwrap();
        let options = KubeConfigOptions::default();
        let mut config = Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
        config.auth_info = kube::config::AuthInfo {
            token: Some(token.trim().to_owned().into()),
            ..Default::default()
        };
        Manager { id: id.to_owned(), client: Client::try_from(config).unwrap() }
    }

    async fn executable(&self) -> Vec<Value> {
        let path = format!("/jobs/executable/ocm/{}", self.id);
        let (code, jobs) = ask(&self.client, Method::GET, &path, "").await;
        assert_eq!(code, 200, "{jobs}");
        jobs.as_array().unwrap().clone()
    }

    /// Waits for the one job of that type.
    async fn until_job(&self, kind: u8) -> Value {
        eventually(&format!("a job of type {kind} for {}", self.id), async || {
            self.executable().await.into_iter().find(|job| job["type"] == kind)
        })
        .await
    }

    async fn promote(&self, job: &Value) -> u16 {
        let path = format!("/jobs/promote/{}", job["ID"].as_str().unwrap());
        let body = json!({"owner_id": self.id}).to_string();
        ask(&self.client, Method::PATCH, &path, &body).await.0
    }

    /// What it sends when it has done what the job says.
    async fn finish(&self, job: &Value, conditions: Value) {
        let mut told = job.clone();
        told["state"] = json!(3);
        told["owner_id"] = json!(self.id);
        told["resource"]["conditions"] = conditions;
        let (code, answer) = ask(&self.client, Method::PUT, "/jobs", &told.to_string()).await;
        assert_eq!(code, 200, "{answer}");
    }
}

async fn ask(client: &Client, method: Method, path: &str, body: &str) -> (u16, Value) {
    let request = Request::builder().method(method).uri(format!("/jobmanager{path}"));
    let request = request.header("content-type", "application/json");
    let request = request.body(Body::from(body.as_bytes().to_vec())).unwrap();
    let answer = client.send(request).await.unwrap();
    let code = answer.status().as_u16();
    let bytes = answer.into_body().collect_bytes().await.unwrap();
    (code, serde_json::from_slice(&bytes).unwrap_or_default())
}

async fn start() -> (Tombolo, Client) {
    let tombolo = Tombolo::start().await;
    tombolo.shell_with(&["apply", "-f", "-"], LAND).await.ok();
    let client = tombolo.client().await;
    let gvk = GroupVersionKind::gvk("tombolo.dev", "v1alpha1", "Node");
    let resource = ApiResource::from_gvk_with_plural(&gvk, "nodes");
    let nodes: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let has = json!({"cpu": "4", "memory": "8Gi", "storage": "100Gi"});
    let status = json!({"status": {"capacity": has, "allocatable": has}});
    nodes.patch_status("crane", &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    (tombolo, client)
}

async fn until_status(client: &Client, group: &str, status: &str) {
    eventually(&format!("the group is {status}"), async || {
        let (_, found) = ask(client, Method::GET, &format!("/groups/{group}"), "").await;
        (found["status"] == status).then_some(())
    })
    .await;
}

fn up() -> Value {
    let condition = |kind: &str| {
        json!({"type": kind, "status": "True", "reason": "Up", "message": "all are up",
            "lastTransitionTime": "2026-01-01T00:00:00Z"})
    };
    json!([condition("Applied"), condition("Available")])
}

#[tokio::test]
async fn a_deployment_manager_pulls_deploys_reports_and_undeploys() {
    let (tombolo, admin) = start().await;
    let (code, group) = ask(&admin, Method::POST, "/groups", DESCRIPTOR).await;
    assert_eq!(code, 201, "{group}");
    let group = group["id"].as_str().unwrap();
    let managers = [
        Manager::new(&tombolo, "8d2f0c1e-0001-4000-8000-000000000001").await,
        Manager::new(&tombolo, "8d2f0c1e-0002-4000-8000-000000000002").await,
    ];
    let job = managers[0].until_job(5).await;
    assert_eq!(job["targets"]["cluster_name"], "harbour");
    assert_eq!(job["job_group_id"], group);
    let manifest = job["manifests"][0]["yamlString"].as_str().unwrap();
    assert!(manifest.contains("example/gauge:1"), "{manifest}");

    let (first, second) = tokio::join!(managers[0].promote(&job), managers[1].promote(&job));
    let (winner, loser) = match (first, second) {
        (204, 409) => (&managers[0], &managers[1]),
        (409, 204) => (&managers[1], &managers[0]),
        codes => panic!("one of two has it: {codes:?}"),
    };
    assert!(loser.executable().await.is_empty());
    winner.finish(&job, up()).await;
    until_status(&admin, group, "Running").await;

    // Stopped: a job to undeploy, for the one who has deployed, and gone when that is done.
    let (code, _) = ask(&admin, Method::PUT, &format!("/groups/stop/{group}"), "").await;
    assert_eq!(code, 200);
    let job = winner.until_job(6).await;
    assert!(loser.executable().await.is_empty());
    assert_eq!(winner.promote(&job).await, 204);
    winner.finish(&job, json!([])).await;
    until_status(&admin, group, "Stopped").await;
    let (_, jobs) = ask(&admin, Method::GET, "/jobs", "").await;
    assert_eq!(jobs, json!([]));

    // Started again: a new job, for whoever comes first.
    ask(&admin, Method::PUT, &format!("/groups/start/{group}"), "").await;
    let job = loser.until_job(5).await;
    assert_eq!(loser.promote(&job).await, 204);
    loser.finish(&job, up()).await;
    until_status(&admin, group, "Running").await;

    let (code, _) = ask(&admin, Method::PUT, &format!("/groups/undeploy/{group}"), "").await;
    assert_eq!(code, 200);
    let job = loser.until_job(6).await;
    assert_eq!(loser.promote(&job).await, 204);
    loser
        .finish(
            &job,
            json!([{"type": "Deleted", "status": "True", "reason": "Deleted",
        "message": "it is gone"}]),
        )
        .await;
    let (code, _) = ask(&admin, Method::GET, &format!("/groups/{group}"), "").await;
    assert_eq!(code, 404);
    eventually("nothing is left", async || {
        let (_, jobs) = ask(&admin, Method::GET, "/jobs", "").await;
        (jobs == json!([])).then_some(())
    })
    .await;
}
