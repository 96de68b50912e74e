//! Joining and renewing, asked of the whole API in process: what must hold when many come at once,
//! when answers are lost, and when somebody tries.

mod broken_off;
mod support;

use std::time::Duration;

use futures::future::join_all;
use http::Method;
use serde_json::{Value, json};
use tombolo_identity::{Authority, Subject, Token, request};

use support::{OURS, Server, join};

const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/tombolo-system/leases";

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

/// A heartbeat of `instance` in the name of n1; its code.
async fn beat(server: &Server, instance: &str) -> u16 {
    let agent = || Some(Subject::agent("north", "n1").expect("valid"));
    let spec = json!({"holderIdentity": instance, "renewTime": now()});
    let renewed = json!({"spec": spec});
    let code = server.ask(agent(), Method::PATCH, &format!("{LEASES}/node-n1"), &renewed).await.0;
    if code != 404 {
        return code;
    }
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "node-n1"}, "spec": spec});
    server.ask(agent(), Method::POST, LEASES, &lease).await.0
}

fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
}

/// Waits until the gate has heard of everything that was written so far: its watch brings Leases in
/// their order, and the Lease of a controller is the last of them.
async fn heard(server: &Server, controller: &str) {
    let name = format!("controller-{controller}");
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": name, "annotations": {"tombolo.dev/addresses": "https://a"}}});
    let made = server.admin(Method::POST, LEASES, lease).await;
    assert_eq!(made.0, 201, "{}", made.1);
    let ended = tokio::time::Instant::now() + Duration::from_secs(120);
    loop {
        let listed = server.admin(Method::GET, "/tombolo/controllers", Value::Null).await.1;
        let controllers = listed["controllers"].as_array().cloned().unwrap_or_default();
        if controllers.iter().any(|found| found["name"] == controller) {
            return;
        }
        assert!(tokio::time::Instant::now() < ended, "{controller} was not heard: {listed}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn of_two_that_take_turns_at_one_lease_the_newcomer_is_shut_out() {
    let server = Server::start().await;
    let token = server.token(1).await;
    let key = request::new_key().expect("a key");
    let (code, answer) = server.post("/tombolo/join", &join(&token, "n1", "m1", &key)).await;
    assert_eq!(code, 201, "{answer}");
    assert_eq!(beat(&server, "first").await, 201);
    heard(&server, "a").await;
    assert_eq!(beat(&server, "copy").await, 200, "a restart looks like this");
    heard(&server, "b").await;
    assert_eq!(beat(&server, "first").await, 200);
    heard(&server, "c").await;
    assert_eq!(beat(&server, "copy").await, 403);
    assert_eq!(beat(&server, "first").await, 200);
    let (_, node) = server.admin(Method::GET, &format!("{OURS}/nodes/n1"), Value::Null).await;
    let marks = &node["metadata"]["annotations"];
    assert_eq!(marks["tombolo.dev/quarantined"], "copy", "{marks}");
    assert_eq!(node["status"]["conditions"][0]["type"], "Cloned");
    assert_eq!(node["status"]["conditions"][0]["status"], "True");

    assert_eq!(beat(&server, "another").await, 200, "a second copy");
    heard(&server, "d").await;
    assert_eq!(beat(&server, "first").await, 200);
    heard(&server, "e").await;
    for copy in ["another", "copy"] {
        assert_eq!(beat(&server, copy).await, 403, "{copy}");
    }
}
