//! Backup and restore, asked of the whole API in process: who may come in afterwards, and what the audit
//! record has of it.

use axum::body::Body;
use http::{Method, Request};
use serde_json::{Value, json};
use tombolo_apiserver::Api;
use tombolo_identity::token::ACCESS_TOKEN_TYPE;
use tombolo_identity::{AccessToken, Role, Subject, Token};
use tombolo_model::keys;
use tower::ServiceExt as _;

const OURS: &str = "/apis/tombolo.dev/v1alpha1";
const SECRETS: &str = "/api/v1/namespaces/tombolo-system/secrets";

struct Server {
    api: Api,
    _folder: tempfile::TempDir,
}

impl Server {
    async fn start() -> Server {
        let (api, folder) = tombolo_testkit::empty_api().await;
        Server { api, _folder: folder }
    }

    async fn send(&self, request: http::request::Builder, body: Vec<u8>) -> (u16, Vec<u8>) {
        let request = request.body(Body::from(body)).expect("a request");
        let answer = self.api.router().oneshot(request).await.expect("an answer");
        let code = answer.status().as_u16();
        let bytes = axum::body::to_bytes(answer.into_body(), 1 << 24).await.expect("a body");
        (code, bytes.to_vec())
    }

    async fn ask(&self, subject: Subject, method: Method, path: &str, body: Value) -> (u16, Value) {
        let type_ = match method {
            Method::PATCH => "application/merge-patch+json",
            _ => "application/json",
        };
        let request = Request::builder().method(method).uri(path).extension(subject);
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let (code, bytes) = self.send(request.header("content-type", type_), body).await;
        (code, serde_json::from_slice(&bytes).unwrap_or_default())
    }

    async fn admin(&self, method: Method, path: &str, body: Value) -> Value {
        let (code, answer) = self.ask(Subject::first_admin(), method, path, body).await;
        assert!(code < 300, "{path}: {code} {answer}");
        answer
    }

    async fn make_token(&self, number: u8, user: &str) {
        let secret = Token::from_bytes([number; 32]);
        let token = AccessToken::new(&secret, user, Role::Guest, None, None).expect("valid");
        let object = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": secret.hash().secret_name()},
            "type": ACCESS_TOKEN_TYPE, "data": token.to_data(),
        });
        self.admin(Method::POST, SECRETS, object).await;
    }

    /// The code of a request with that token.
    async fn with_token(&self, number: u8) -> u16 {
        let token = Token::from_bytes([number; 32]).reveal();
        let request = Request::get(format!("{OURS}/nodes"));
        self.send(request.header("authorization", format!("Bearer {token}")), Vec::new()).await.0
    }

    async fn make_node(&self, name: &str, annotations: Value) {
        let node = json!({"apiVersion": keys::API_VERSION, "kind": "Node", "spec": {"site": "north"},
            "metadata": {"name": name, "annotations": annotations}});
        self.admin(Method::POST, &format!("{OURS}/nodes"), node).await;
    }

    async fn backup(&self) -> Vec<u8> {
        let request = Request::get("/tombolo/backup").extension(Subject::first_admin());
        let (code, bytes) = self.send(request, Vec::new()).await;
        assert_eq!(code, 200);
        bytes
    }

    async fn restore(&self, query: &str, backup: &[u8]) -> (u16, String) {
        let request = Request::post(format!("/tombolo/restore{query}"));
        let request = request.extension(Subject::first_admin());
        let (code, bytes) = self.send(request, backup.to_vec()).await;
        (code, String::from_utf8_lossy(&bytes).into_owned())
    }

    /// What a node says of who acts for it: `KEY`, `KEY revoked`, or nothing.
    async fn stands(&self, node: &str) -> String {
        let path = format!("{OURS}/nodes/{node}");
        let node = self.ask(Subject::first_admin(), Method::GET, &path, Value::Null).await.1;
        let mark = |key: &str| node["metadata"]["annotations"][key].as_str();
        let revoked = if mark(keys::ANNOTATION_REVOKED).is_some() { " revoked" } else { "" };
        format!("{}{revoked}", mark(keys::ANNOTATION_KEY).unwrap_or_default())
    }

    /// The verbs that the audit record has of the admin about everything.
    async fn recorded(&self) -> Vec<String> {
        let request = Request::get("/tombolo/audit").extension(Subject::first_admin());
        let (_, bytes) = self.send(request, Vec::new()).await;
        let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let rows = lines.map(|line| serde_json::from_slice::<Value>(line).expect("a row"));
        let about = rows.filter(|row| row["object"] == "/");
        about.map(|row| row["verb"].as_str().unwrap_or_default().to_owned()).collect()
    }
}

/// Tokens 1 and 2 and some nodes; and the backup of them.
async fn backed_up() -> (Server, Vec<u8>) {
    let server = Server::start().await;
    server.make_token(1, "anna").await;
    server.make_token(2, "bob").await;
    let keyed = |key: &str| json!({keys::ANNOTATION_KEY: key});
    for node in ["same", "revoked", "replaced", "removed"] {
        server.make_node(node, keyed("k1")).await;
    }
    server.make_node("plain", json!({"note": "never joined"})).await;
    let backup = server.backup().await;
    (server, backup)
}

#[tokio::test]
async fn what_was_revoked_since_the_backup_stays_revoked() {
    let (server, backup) = backed_up().await;
    let secret = format!("{SECRETS}/{}", Token::from_bytes([1; 32]).hash().secret_name());
    server.admin(Method::DELETE, &secret, Value::Null).await;
    server.make_token(3, "carol").await;
    let node = |name: &str| format!("{OURS}/nodes/{name}");
    let mark = |key: &str, value: &str| json!({"metadata": {"annotations": {key: value}}});
    let (revoked, replaced) =
        (mark(keys::ANNOTATION_REVOKED, "now"), mark(keys::ANNOTATION_KEY, "k2"));
    server.admin(Method::PATCH, &node("revoked"), revoked).await;
    server.admin(Method::PATCH, &node("replaced"), replaced).await;
    for name in ["removed", "plain"] {
        server.admin(Method::DELETE, &node(name), Value::Null).await;
    }

    let (code, answer) = server.restore("", &backup).await;
    assert_eq!(code, 200, "{answer}");
    assert_eq!(server.with_token(1).await, 401, "it was revoked");
    assert_eq!(server.with_token(2).await, 200);
    assert_eq!(server.with_token(3).await, 200, "it was made since");
    assert_eq!(server.stands("same").await, "k1");
    assert_eq!(server.stands("revoked").await, "k1 revoked");
    assert_eq!(server.stands("replaced").await, "k2", "the old key is worth nothing");
    assert_eq!(server.stands("removed").await, " revoked", "its agent needs a new token");
    assert_eq!(server.stands("plain").await, "", "nobody has a certificate for it");
    assert_eq!(server.recorded().await, ["backup", "restore"]);

    // Whoever wants it otherwise says so.
    let (code, answer) = server.restore("?access=backup", &backup).await;
    assert_eq!(code, 200, "{answer}");
    assert_eq!((server.with_token(1).await, server.with_token(3).await), (200, 401));
    assert_eq!(server.stands("replaced").await, "k1");
}

#[tokio::test]
async fn a_store_that_cannot_know_what_was_revoked_has_to_be_told_who_may_come_in() {
    let (_, backup) = backed_up().await;
    let server = Server::start().await;
    let (code, answer) = server.restore("", &backup).await;
    assert_eq!(code, 400);
    assert!(answer.contains("access=backup") && answer.contains("access=nobody"), "{answer}");
    assert_eq!(server.stands("same").await, "", "nothing was restored");
    assert_eq!(server.restore("?access=everybody", &backup).await.0, 400);

    assert_eq!(server.restore("?access=nobody", &backup).await.0, 200);
    assert_eq!((server.with_token(1).await, server.with_token(2).await), (401, 401));
    assert_eq!((server.stands("same").await, server.stands("plain").await).0, " revoked");

    let server = Server::start().await;
    assert_eq!(server.restore("?access=backup", &backup).await.0, 200);
    assert_eq!((server.with_token(1).await, server.stands("same").await), (200, "k1".to_owned()));
    // From now on it knows.
    assert_eq!(server.restore("", &backup).await.0, 200);
}

#[tokio::test]
async fn the_namespace_of_the_system_is_shown_to_those_who_may_see_it() {
    let server = Server::start().await;
    let of = |role: Role| Subject { role, name: "anna".to_owned(), ..Subject::anonymous() };
    let one = "/api/v1/namespaces/tombolo-system";
    let selected = "/api/v1/namespaces?fieldSelector=metadata.name%3Dtombolo-system";
    for (subject, code, all, some) in [
        (of(Role::Guest), 403, 1, 0),
        (of(Role::Manager), 403, 1, 0),
        (Subject::first_admin(), 200, 2, 1),
    ] {
        let get =
            async |path: &str| server.ask(subject.clone(), Method::GET, path, Value::Null).await;
        let count = |list: &Value| list["items"].as_array().map(Vec::len);
        assert_eq!(get(one).await.0, code, "{}", subject.role);
        let listed = get("/api/v1/namespaces").await.1;
        assert_eq!(count(&listed), Some(all), "{}: {listed}", subject.role);
        let listed = get(selected).await.1;
        assert_eq!(count(&listed), Some(some), "{}: {listed}", subject.role);
        // Seen from far away, a page says nothing of what is hidden.
        let listed = get("/api/v1/namespaces?limit=1").await.1;
        assert_eq!(listed["metadata"]["remainingItemCount"].is_null(), code == 403, "{listed}");
    }
}
