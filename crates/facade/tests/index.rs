//! Who names a job by its id is not told of all others: what is read does not grow with their number.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::body::Body;
use axum::extract::Request;
use axum::middleware::{self, Next};
use http::Method;
use http_body_util::BodyExt as _;
use kube::Client;
use kube::api::{Api, PostParams};
use serde_json::{Value, json};
use tombolo_gate::Caller;
use tombolo_model::{App, Assignment};
use tower::service_fn;

use support::{Server, manager, server_with};

const DM: &str = "6f1c1d3e-0001-4000-8000-000000000001";

/// A client that counts the objects which it is given.
fn counting(client: Client, count: Arc<AtomicUsize>) -> Client {
    let service = service_fn(move |request: http::Request<kube::client::Body>| {
        let (client, count) = (client.clone(), Arc::clone(&count));
        async move {
            let answer = client.send(request).await?;
            let (head, body) = answer.into_parts();
            let bytes = body.collect().await?.to_bytes();
            let value: Value = serde_json::from_slice(&bytes).unwrap_or_default();
            let objects = value["items"].as_array().map_or(1, Vec::len);
            count.fetch_add(objects, Ordering::Relaxed);
            Ok::<_, tower::BoxError>(http::Response::from_parts(head, Body::from(bytes)))
        }
    });
    Client::new(service, "default")
}

async fn make_app(server: &Server, name: &str, jobs: usize, engine: &str) -> (String, Vec<String>) {
    let app: App = serde_json::from_value(json!({
        "apiVersion": "tombolo.dev/v1alpha1", "kind": "App", "metadata": {"name": name},
        "spec": {"components": [
            {"name": "gauge", "run": [{"container": {"image": "example/gauge:1"}}]},
        ]},
    }))
    .unwrap();
    let apps: Api<App> = Api::namespaced(server.admin(), "default");
    let group = apps.create(&PostParams::default(), &app).await.unwrap().metadata.uid.unwrap();
    let assignments: Api<Assignment> = Api::namespaced(server.admin(), "default");
    let mut ids = Vec::new();
    for replica in 0..jobs {
        let assignment: Assignment = serde_json::from_value(json!({
            "apiVersion": "tombolo.dev/v1alpha1", "kind": "Assignment",
            "metadata": {"name": format!("{name}-{replica}")},
            "spec": {"app": name, "component": "gauge", "replica": replica, "site": "harbour",
                "engine": engine, "run": {"container": {"image": "example/gauge:1"}}},
        }))
        .unwrap();
        let made = assignments.create(&PostParams::default(), &assignment).await.unwrap();
        ids.push(made.metadata.uid.unwrap());
    }
    (group, ids)
}

/// What a deployment manager does about one job, and somebody with a shell about its group; how many
/// objects were read for it.
async fn read_among(others: usize) -> usize {
    let count = Arc::new(AtomicUsize::new(0));
    let to = Arc::clone(&count);
    let counted = middleware::from_fn(move |mut request: Request, next: Next| {
        if let Some(caller) = request.extensions_mut().get_mut::<Caller>() {
            caller.client = counting(caller.client.clone(), Arc::clone(&to));
        }
        next.run(request)
    });
    let server = server_with(|facades| facades.layer(counted)).await;
    make_app(&server, "others", others, "docker").await;
    let (group, jobs) = make_app(&server, "tide", 2, "kubernetes").await;
    server.until_indexed(others + jobs.len()).await;
    let ask = async |method: Method, path: &str, body: Value| {
        let (code, answer) = server.ask_as(&manager(), method, path, body).await;
        assert!(code < 300, "{path}: {code} {answer}");
        answer
    };
    let before = count.load(Ordering::Relaxed);
    let free = ask(Method::GET, &format!("/jobmanager/jobs/executable/ocm/{DM}"), json!("")).await;
    assert_eq!(free.as_array().map(Vec::len), Some(2), "{free}");
    let job = &jobs[0];
    let promote = format!("/jobmanager/jobs/promote/{job}");
    ask(Method::PATCH, &promote, json!({"owner_id": DM})).await;
    ask(Method::GET, &format!("/jobmanager/jobs/{job}"), json!("")).await;
    let told = json!({"job_id": job, "state": 2});
    ask(Method::PUT, &format!("/jobmanager/status/{job}"), told).await;
    let shown = ask(Method::GET, &format!("/api/v3/deployment/{group}"), json!("")).await;
    assert_eq!(shown["jobs"].as_array().map(Vec::len), Some(2), "{shown}");
    count.load(Ordering::Relaxed) - before
}

#[tokio::test]
async fn what_is_read_does_not_grow_with_the_number_of_jobs() {
    let (few, many) = (read_among(1).await, read_among(60).await);
    assert_eq!(few, many);
    assert!(few > 0, "the client of the test was not used");
}
