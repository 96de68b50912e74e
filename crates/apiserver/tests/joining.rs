//! Joining and renewing, asked of the whole API in process: what must hold when many come at once,
//! when answers are lost, and when somebody tries.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use futures::future::join_all;
use http::{Method, Request};
use serde_json::{Value, json};
use tombolo_apiserver::Api;
use tombolo_identity::{Authority, Subject, Token, request};
use tombolo_store::{Options, Store};
use tower::ServiceExt as _;

const OURS: &str = "/apis/tombolo.dev/v1alpha1";

struct Server {
    api: Api,
    authority: Arc<Authority>,
    _folder: tempfile::TempDir,
}

impl Server {
    async fn start() -> Server {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Store::open(folder.path(), Options::default()).expect("a new store");
        let admin = Token::from_bytes([7; 32]).hash();
        let authority = Arc::new(Authority::generate(jiff::Timestamp::now()).expect("a key"));
        let api = Api::open(store, admin).await.expect("the first objects are written");
        let api = api.signing_with(authority.clone());
        Server { api, authority, _folder: folder }
    }

    async fn ask(
        &self,
        subject: Option<Subject>,
        method: Method,
        path: &str,
        body: &Value,
    ) -> (u16, Value) {
        let text = if body.is_null() { String::new() } else { body.to_string() };
        let type_ = match method {
            Method::PATCH => "application/merge-patch+json",
            _ => "application/json",
        };
        let mut request = Request::builder().method(method).uri(path).header("content-type", type_);
        if let Some(subject) = subject {
            request = request.extension(subject);
        }
        let request = request.body(Body::from(text)).expect("a request");
        let answer = self.api.router().oneshot(request).await.expect("an answer");
        let code = answer.status().as_u16();
        let bytes = axum::body::to_bytes(answer.into_body(), 1 << 24).await.expect("a body");
        (code, serde_json::from_slice(&bytes).unwrap_or_default())
    }

    async fn admin(&self, method: Method, path: &str, body: Value) -> (u16, Value) {
        self.ask(Some(Subject::first_admin()), method, path, &body).await
    }

    async fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        self.ask(None, Method::POST, path, body).await
    }

    async fn token(&self, number: u8) -> Token {
        let token = Token::from_bytes([number; 32]);
        let expires = jiff::Timestamp::now() + Duration::from_secs(600);
        let (code, answer) = self
            .admin(
                Method::POST,
                &format!("{OURS}/jointokens"),
                json!({
                    "apiVersion": "tombolo.dev/v1alpha1", "kind": "JoinToken",
                    "metadata": {"name": token.hash().join_token_name()},
                    "spec": {"site": "north", "hash": token.hash().to_string(),
                        "expires": expires.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()},
                }),
            )
            .await;
        assert_eq!(code, 201, "{answer}");
        token
    }

    async fn nonce(&self) -> String {
        let (_, answer) = self.ask(None, Method::GET, "/tombolo/nonce", &Value::Null).await;
        answer["nonce"].as_str().expect("a nonce").to_owned()
    }

    async fn renew(&self, certificate: &Value, key: &str, nonce: &str) -> (u16, Value) {
        let request = request::make(key, nonce).expect("a request");
        self.post("/tombolo/renew", &json!({"certificate": certificate, "request": request})).await
    }
}

fn join(token: &Token, node: &str, machine: &str, key: &str) -> Value {
    json!({"token": token.reveal(), "request": request::make(key, "").expect("a request"),
        "node": node, "machine": machine, "agentVersion": "0.1.0"})
}

#[tokio::test]
async fn of_many_with_one_token_at_once_one_joins() {
    let server = Server::start().await;
    let token = server.token(1).await;
    let keys: Vec<String> = (0..16).map(|_| request::new_key().expect("a key")).collect();
    let tries = keys.iter().enumerate().map(|(number, key)| {
        let body = join(&token, &format!("n{number}"), &format!("m{number}"), key);
        let server = &server;
        async move { server.post("/tombolo/join", &body).await.0 }
    });
    let mut codes = join_all(tries).await;
    codes.sort_unstable();
    assert_eq!(codes, [vec![201], vec![401; 15]].concat());
    let (_, nodes) = server.admin(Method::GET, &format!("{OURS}/nodes"), Value::Null).await;
    assert_eq!(nodes["items"].as_array().map(Vec::len), Some(1), "nobody else left a trace");
}

#[tokio::test]
async fn an_answer_that_was_lost_is_given_again_and_to_nobody_else() {
    let server = Server::start().await;
    let token = server.token(1).await;
    let key = request::new_key().expect("a key");
    let body = join(&token, "n1", "m1", &key);
    assert_eq!(server.post("/tombolo/join", &body).await.0, 201);
    let (code, again) = server.post("/tombolo/join", &body).await;
    assert_eq!((code, &again["site"]), (201, &json!("north")));
    let other = join(&token, "n1", "m1", &request::new_key().expect("a key"));
    assert_eq!(server.post("/tombolo/join", &other).await.0, 401);
}

#[tokio::test]
async fn a_renewal_needs_the_key_a_fresh_nonce_and_a_node_that_stands() {
    let server = Server::start().await;
    let token = server.token(1).await;
    let key = request::new_key().expect("a key");
    let (_, joined) = server.post("/tombolo/join", &join(&token, "n1", "m1", &key)).await;
    let certificate = &joined["certificate"];
    let nonce = server.nonce().await;
    let (code, renewed) = server.renew(certificate, &key, &nonce).await;
    assert_eq!(code, 201, "{renewed}");
    assert_ne!(&renewed["certificate"], certificate);

    assert_eq!(server.renew(certificate, &key, "").await.0, 401);
    assert_eq!(server.renew(certificate, &key, "1-forged").await.0, 401);
    let thief = request::new_key().expect("a key");
    assert_eq!(server.renew(certificate, &thief, &nonce).await.0, 401, "without the key");
    let stranger = Authority::generate(jiff::Timestamp::now()).expect("a key");
    let forged = |authority: &Authority, subject: &Subject| {
        let request = request::make(&key, "").expect("a request");
        let now = jiff::Timestamp::now();
        json!(
            authority
                .sign_request(&request, subject, Duration::from_secs(60), now)
                .expect("signed")
        )
    };
    let agent = Subject::agent("north", "n1").expect("valid");
    assert_eq!(server.renew(&forged(&stranger, &agent), &key, &nonce).await.0, 400);
    let sibling = Subject::agent("north", "n2").expect("valid");
    assert_eq!(server.renew(&forged(&server.authority, &sibling), &key, &nonce).await.0, 401);
    let admin = Subject::first_admin();
    assert_eq!(server.renew(&forged(&server.authority, &admin), &key, &nonce).await.0, 403);

    let node = format!("{OURS}/nodes/n1");
    let revoked = json!({"metadata": {"annotations": {"tombolo.dev/revoked": "now"}}});
    server.admin(Method::PATCH, &node, revoked).await;
    assert_eq!(server.renew(certificate, &key, &nonce).await.0, 401);
    server.admin(Method::DELETE, &node, Value::Null).await;
    assert_eq!(server.renew(certificate, &key, &nonce).await.0, 401);
}

#[tokio::test]
async fn bad_bodies_are_refused_without_a_word_of_the_token_and_too_many_are_slowed_down() {
    let server = Server::start().await;
    let token = server.token(1).await;
    let key = request::new_key().expect("a key");
    let good = join(&token, "n1", "m1", &key);
    let with = |field: &str, value: Value| {
        let mut body = good.clone();
        body[field] = value;
        body
    };
    for (body, expected) in [
        (json!([]), 400),
        (json!({"token": token.reveal()}), 400),
        (with("node", json!("Bad Name")), 400),
        (with("node", json!("n".repeat(250))), 400),
        (with("machine", json!("../etc")), 400),
        (with("agentVersion", json!("x".repeat(100))), 400),
        (with("request", json!("nonsense")), 400),
        (with("token", json!("tombolo_00")), 401),
        (with("token", json!(Token::from_bytes([9; 32]).reveal())), 401),
        (with("request", json!("x".repeat(100_000))), 413),
    ] {
        let (code, answer) = server.post("/tombolo/join", &body).await;
        assert_eq!(code, expected, "{answer}");
        assert!(!answer.to_string().contains(&token.reveal()[8..40]), "{answer}");
    }
    let wrong = with("token", json!(Token::from_bytes([9; 32]).reveal()));
    let mut last = (0, Value::Null);
    for _ in 0..60 {
        last = server.post("/tombolo/join", &wrong).await;
    }
    assert_eq!(last.0, 429, "{}", last.1);
    assert!(last.1["details"]["retryAfterSeconds"].as_u64().is_some_and(|wait| wait <= 60));
}

#[tokio::test]
async fn controllers_are_listed_to_those_who_signed_in_and_registered_by_those_who_may() {
    let server = Server::start().await;
    let path = "/tombolo/controllers";
    let harbour = json!({"name": "harbour", "addresses": ["https://10.0.0.1:7070"]});
    assert_eq!(server.post(path, &harbour).await.0, 401);
    assert_eq!(server.ask(None, Method::GET, path, &Value::Null).await.0, 401);
    let (code, answer) = server.admin(Method::POST, path, harbour).await;
    assert_eq!(code, 200, "{answer}");
    let (_, listed) = server.admin(Method::GET, path, Value::Null).await;
    assert_eq!(listed["controllers"][0]["addresses"], json!(["https://10.0.0.1:7070"]));
    for bad in [
        json!({"name": "Bad Name", "addresses": ["https://a"]}),
        json!({"name": "a", "addresses": []}),
        json!({"name": "a", "addresses": ["http://a"]}),
        json!({"name": "a", "addresses": ["https://a,https://b"]}),
    ] {
        assert_eq!(server.admin(Method::POST, path, bad).await.0, 400);
    }
    let lease = "/apis/coordination.k8s.io/v1/namespaces/tombolo-system/leases/controller-harbour";
    assert_eq!(server.admin(Method::GET, lease, Value::Null).await.0, 200, "one source of truth");
}
