//! The objects of the world: Sites, Nodes with what agents say of them, Leases, and Apps of four
//! components that talk to each other. Each as the request that makes it.

use std::ops::Range;

use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};

const NODES_PER_SITE: usize = 20;
pub(super) const COMPONENTS: usize = 4;
/// As the usual agent says: it beats every twelve seconds.
const LEASE_SECONDS: u64 = 40;

const OURS: &str = "/apis/tombolo.dev/v1alpha1";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/tombolo-system/leases";
pub(super) const ASSIGNMENTS: &str = "/apis/tombolo.dev/v1alpha1/namespaces/default/assignments";
pub(super) const APPS: &str = "/apis/tombolo.dev/v1alpha1/namespaces/default/apps";
pub(super) const NODES: &str = "/apis/tombolo.dev/v1alpha1/nodes";

#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) body: Bytes,
}

impl Request {
    pub(super) fn new(method: Method, path: impl Into<String>, body: &Value) -> Request {
        Request { method, path: path.into(), body: Bytes::from(body.to_string()) }
    }
}

pub(super) fn sites(nodes: usize) -> Vec<Request> {
    let site = |number: usize| {
        json!({"apiVersion": "tombolo.dev/v1alpha1", "kind": "Site",
            "metadata": {"name": format!("site-{number}")}, "spec": {"engine": "docker"}})
    };
    let numbers = 0..nodes.div_ceil(NODES_PER_SITE);
    numbers.map(|n| Request::new(Method::POST, format!("{OURS}/sites"), &site(n))).collect()
}

pub(super) fn nodes(nodes: usize) -> Vec<Request> {
    let node = |number: usize| {
        json!({"apiVersion": "tombolo.dev/v1alpha1", "kind": "Node",
            "metadata": {"name": format!("node-{number}"), "labels": {
                "zone": format!("zone-{}", number % 7), "tier": "edge"}},
            "spec": {"site": format!("site-{}", number / NODES_PER_SITE)}})
    };
    (0..nodes).map(|number| Request::new(Method::POST, NODES, &node(number))).collect()
}

/// What agents say of their machines.
pub(super) fn node_statuses(nodes: usize) -> Vec<Request> {
    let has = json!({"cpu": "16", "memory": "64Gi", "storage": "500Gi"});
    let status = |number: usize| {
        json!({"status": {
            "capacity": has, "allocatable": has, "securityScore": number % 100,
            "characteristics": {"cpu": {"architecture": "amd64", "cores": 16}},
            "load": {"cpu": 0.2, "memory": 0.3}, "addresses": [address(number)]}})
    };
    let request = |number| {
        Request::new(Method::PATCH, format!("{NODES}/node-{number}/status"), &status(number))
    };
    (0..nodes).map(request).collect()
}

fn address(number: usize) -> String {
    format!("10.{}.{}.{}", number >> 16, (number >> 8) & 0xff, number & 0xff)
}

pub(super) fn leases(nodes: usize) -> Vec<Request> {
    let lease = |number: usize| {
        json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": format!("node-node-{number}")},
            "spec": {"holderIdentity": format!("machine-{number}"),
                "leaseDurationSeconds": LEASE_SECONDS, "renewTime": "2026-01-01T00:00:00.000000Z"}})
    };
    (0..nodes).map(|number| Request::new(Method::POST, LEASES, &lease(number))).collect()
}

/// A heartbeat: the time differs from beat to beat, and nobody reads it.
pub(super) fn beat(node: usize, beat: u64) -> Request {
    let renewed = format!(
        "2026-01-01T{:02}:{:02}:{:02}.000000Z",
        beat / 3600 % 24,
        beat / 60 % 60,
        beat % 60
    );
    let body = json!({"spec": {"holderIdentity": format!("machine-{node}"),
        "leaseDurationSeconds": LEASE_SECONDS, "renewTime": renewed}});
    Request::new(Method::PATCH, format!("{LEASES}/node-node-{node}"), &body)
}

pub(super) fn apps(numbers: Range<usize>) -> Vec<Request> {
    numbers.map(|number| Request::new(Method::POST, APPS, &app(number))).collect()
}

fn app(number: usize) -> Value {
    let component = |name: &str, to: &[&str]| {
        let connects: Vec<Value> = to.iter().map(|to| json!({"to": to, "port": 80})).collect();
        json!({"name": name, "replicas": 1, "needs": {"cpu": "500m", "memory": "256Mi"},
            "run": [{"container": {"image": "registry.example/shop:1.4.2",
                "env": {"MODE": "production", "LOG_LEVEL": "info"}}}],
            "expose": [{"port": 80}], "connects": connects})
    };
    json!({"apiVersion": "tombolo.dev/v1alpha1", "kind": "App",
        "metadata": {"name": app_name(number)},
        "spec": {"components": [component("web", &["api"]), component("api", &["data"]),
            component("work", &["data"]), component("data", &[])]}})
}

fn app_name(number: usize) -> String {
    format!("app-{number}")
}

/// What an agent says of an instance that it has brought up.
pub(super) fn up(assignment: &Value) -> Request {
    let metadata = &assignment["metadata"];
    let now = &metadata["creationTimestamp"];
    let generation = &metadata["generation"];
    let condition = |kind: &str, status: &str, reason: &str, message: &str| {
        json!({"type": kind, "status": status, "reason": reason, "message": message,
            "lastTransitionTime": now, "observedGeneration": generation})
    };
    let name = metadata["name"].as_str().unwrap_or_default();
    let node = assignment["spec"]["node"].as_str().unwrap_or_default();
    let number = node.rsplit('-').next().and_then(|text| text.parse().ok()).unwrap_or(0);
    let status = json!({"status": {
    "observedGeneration": generation, "agent": node, "addresses": [address(number)],
    "ports": [{"port": 80, "protocol": "tcp", "published": 32000}],
    "restarts": 0, "startedAt": now, "instance": format!("tombolo-{name}"),
    "conditions": [
        condition("Applied", "True", "Applied", "it is as it was assigned"),
        condition("Progressing", "False", "Running", "nothing is under way"),
        condition("Available", "True", "Running", "the instance is up"),
        condition("Degraded", "False", "Running", ""),
    ]}});
    Request::new(Method::PATCH, format!("{ASSIGNMENTS}/{name}/status"), &status)
}

/// What an agent writes when nothing of an instance is left.
pub(super) fn let_go(assignment: &Value) -> Request {
    let name = assignment["metadata"]["name"].as_str().unwrap_or_default();
    let nobody = json!({"metadata": {"finalizers": []}});
    Request::new(Method::PATCH, format!("{ASSIGNMENTS}/{name}"), &nobody)
}
