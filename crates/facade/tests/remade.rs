//! An id means one object: another that somebody has made under its name meanwhile is left alone.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use axum::extract::Request;
use axum::middleware::{self, Next};
use http::Method;
use kube::Client;
use serde_json::{Value, json};
use tombolo_gate::Caller;
use tombolo_identity::Subject;
use tower::service_fn;

use support::server_with;

const OURS: &str = "/apis/tombolo.dev/v1alpha1/namespaces/default";

async fn ask(client: &Client, method: Method, path: &str, body: &Value) -> Value {
    let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    let request = http::Request::builder().method(method).uri(path);
    let request = request.header("content-type", "application/json").body(body).unwrap();
    client.request(request).await.unwrap()
}

/// A client with which somebody is always quicker: what it would delete is deleted and made anew.
fn overtaken(client: Client) -> Client {
    let service = service_fn(move |request: http::Request<kube::client::Body>| {
        let client = client.clone();
        async move {
            if *request.method() == Method::DELETE {
                let path = request.uri().path();
                let mut object = ask(&client, Method::GET, path, &Value::Null).await;
                ask(&client, Method::DELETE, path, &Value::Null).await;
                object["metadata"] = json!({"name": object["metadata"]["name"]});
                let (collection, _) = path.rsplit_once('/').unwrap();
                ask(&client, Method::POST, collection, &object).await;
            }
            Ok::<_, tower::BoxError>(client.send(request).await?)
        }
    });
    Client::new(service, "default")
}

#[tokio::test]
async fn what_is_deleted_by_its_id_is_no_other() {
    let around = middleware::from_fn(|mut request: Request, next: Next| {
        if let Some(caller) = request.extensions_mut().get_mut::<Caller>() {
            caller.client = overtaken(caller.client.clone());
        }
        next.run(request)
    });
    let server = server_with(|facades| facades.layer(around)).await;
    let admin = server.admin();
    let run = json!({"container": {"image": "example/gauge:1"}});
    let app = json!({"apiVersion": "tombolo.dev/v1alpha1", "kind": "App",
        "metadata": {"name": "tide"},
        "spec": {"components": [{"name": "gauge", "run": [run]}]}});
    let job = json!({"apiVersion": "tombolo.dev/v1alpha1", "kind": "Assignment",
        "metadata": {"name": "tide-0"},
        "spec": {"app": "tide", "component": "gauge", "replica": 0, "site": "harbour",
            "engine": "kubernetes", "run": run}});
    let ways = [("apps", app, "/api/v3/deployment"), ("assignments", job, "/jobmanager/jobs")];
    for (plural, object, facade) in ways {
        let made = ask(&admin, Method::POST, &format!("{OURS}/{plural}"), &object).await;
        let id = made["metadata"]["uid"].as_str().unwrap();
        let path = format!("{facade}/{id}");
        let (code, answer) =
            server.ask_as(&Subject::first_admin(), Method::DELETE, &path, "").await;
        assert_eq!(code, 409, "{path}: {answer}");
        let left = ask(&admin, Method::GET, &format!("{OURS}/{plural}"), &Value::Null).await;
        assert_eq!(left["items"].as_array().map(Vec::len), Some(1), "{plural}");
        assert_ne!(left["items"][0]["metadata"]["uid"], *id, "{plural}: it is another");
    }
}
