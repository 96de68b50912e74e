//! `/api/v3/deployment` as an ICOS client uses it, over the real API in process.

use axum::body::Body;
use http::{Method, Request};
use serde_json::{Value, json};
use tombolo_apiserver::Api;
use tombolo_identity::{Role, Subject, Token};
use tower::ServiceExt as _;

const DESCRIPTOR: &str = "\
name: tide-watch
description: watches the tide
namespace: coast
components:
- name: gauge
  type: kubernetes
  manifests:
  - name: gauge-pod
  requirements:
    cpu: 0.5
    memory: 200Mi
---
apiVersion: v1
kind: Pod
metadata:
  name: gauge-pod
spec:
  containers:
  - name: gauge
    image: example/gauge:1
";

struct Server {
    api: Api,
    _folder: tempfile::TempDir,
}

async fn server() -> Server {
    let (api, folder) = tombolo_testkit::empty_api().await;
    let api = api.serving(tombolo_facade::router(tombolo_facade::Index::default()));
    Server { api, _folder: folder }
}

impl Server {
    async fn send(&self, request: Request<Body>) -> (u16, Value) {
        let answer = self.api.router().oneshot(request).await.expect("an answer");
        let code = answer.status().as_u16();
        let bytes = axum::body::to_bytes(answer.into_body(), 1 << 24).await.expect("a body");
        (code, serde_json::from_slice(&bytes).unwrap_or_default())
    }

    async fn ask(&self, method: Method, path: &str, body: &str) -> (u16, Value) {
        let request = Request::builder().method(method).uri(format!("/api/v3{path}"));
        let request = request.extension(Subject::first_admin());
        self.send(request.body(Body::from(body.to_owned())).expect("a request")).await
    }
}

#[tokio::test]
async fn a_descriptor_is_deployed_listed_stopped_changed_and_deleted() {
    let server = server().await;
    let (code, made) = server.ask(Method::POST, "/deployment/", DESCRIPTOR).await;
    assert_eq!((code, &made["appName"]), (201, &json!("tide-watch")), "{made}");
    let id = made["id"].as_str().expect("an id").to_owned();

    let (code, all) = server.ask(Method::GET, "/deployment/", "").await;
    assert_eq!((code, &all[0]["id"]), (200, &json!(id)));
    let (code, one) = server.ask(Method::GET, &format!("/deployment/{id}"), "").await;
    assert_eq!((code, &one["appDescription"]), (200, &json!("watches the tide")));

    let (code, _) = server.ask(Method::DELETE, &format!("/deployment/{id}/stop"), "").await;
    assert_eq!(code, 200);
    let app = "/apis/tombolo.dev/v1alpha1/namespaces/coast/apps/tide-watch";
    let get = || Request::get(app).extension(Subject::first_admin()).body(Body::empty());
    let (_, stored) = server.send(get().expect("a request")).await;
    assert_eq!(stored["spec"]["stopped"], json!(true), "{stored}");
    assert_eq!(stored["spec"]["components"][0]["needs"]["cpu"], json!("500m"));

    for (found, other) in [("name: tide-watch", "name: wind-watch"), ("coast", "default")] {
        let of_another = DESCRIPTOR.replacen(found, other, 1);
        let path = format!("/deployment/{id}");
        let (code, refused) = server.ask(Method::PUT, &path, &of_another).await;
        assert_eq!(code, 409, "{refused}");
    }
    let (_, all) = server.ask(Method::GET, "/deployment/", "").await;
    assert_eq!(all.as_array().map(Vec::len), Some(1), "nothing else was made: {all}");

    let body = json!({"content": DESCRIPTOR.replace("200Mi", "300Mi")}).to_string();
    let (code, changed) = server.ask(Method::PUT, &format!("/deployment/{id}"), &body).await;
    assert_eq!((code, &changed["id"]), (200, &json!(id)), "{changed}");
    let (_, stored) = server.send(get().expect("a request")).await;
    assert_eq!(stored["spec"]["components"][0]["needs"]["memory"], json!("300Mi"));

    let (code, _) = server.ask(Method::DELETE, &format!("/deployment/{id}"), "").await;
    assert_eq!(code, 200);
    let (code, _) = server.ask(Method::GET, &format!("/deployment/{id}"), "").await;
    assert_eq!(code, 404);
}

#[tokio::test]
async fn the_content_may_come_in_json_and_twice_is_a_conflict() {
    let server = server().await;
    let body = json!({"content": DESCRIPTOR}).to_string();
    assert_eq!(server.ask(Method::POST, "/deployment", &body).await.0, 201);
    let (code, answer) = server.ask(Method::POST, "/deployment", &body).await;
    assert_eq!(code, 409, "{answer}");
}

#[tokio::test]
async fn a_broken_descriptor_is_refused_with_the_line() {
    let server = server().await;
    let broken = DESCRIPTOR.replace("- name: gauge-pod", "-name: gauge-pod");
    let (code, answer) = server.ask(Method::POST, "/deployment/", &broken).await;
    assert_eq!(code, 405);
    let told = answer["details"]["diagnostics"].as_array().expect("diagnostics");
    let line = |found: &&Value| found["code"] == "missing-blank";
    let found = told.iter().find(line).expect("the mistake is told");
    assert_eq!(found["range"]["start"]["line"], json!(8));
    let (code, answer) = server.ask(Method::POST, "/deployment/", "\u{7f}{{{").await;
    assert_eq!(code, 405, "{answer}");
}

#[tokio::test]
async fn a_guest_may_look_and_not_deploy() {
    let server = server().await;
    let guest = Subject { role: Role::Guest, name: "anna".to_owned(), ..Subject::anonymous() };
    let look = Request::get("/api/v3/deployment/").extension(guest.clone());
    assert_eq!(server.send(look.body(Body::empty()).expect("a request")).await.0, 200);
    let deploy = Request::post("/api/v3/deployment/").extension(guest);
    let (code, answer) = server.send(deploy.body(Body::from(DESCRIPTOR)).expect("a request")).await;
    assert_eq!(code, 403, "{answer}");
}

#[tokio::test]
async fn the_key_may_come_in_the_header_that_icos_uses() {
    let server = server().await;
    let token = Token::from_bytes([7; 32]);
    let key = token.reveal().to_owned();
    let ask = |key: &str| {
        let request = Request::get("/api/v3/deployment/").header("api_key", key.to_owned());
        request.body(Body::empty()).expect("a request")
    };
    assert_eq!(server.send(ask(&key)).await.0, 200);
    assert_eq!(server.send(ask("nonsense")).await.0, 401);
}
