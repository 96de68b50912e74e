//! The whole API in process with a gate beside it, and what a machine says that wants to join.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use http::{Method, Request};
use serde_json::{Value, json};
use tombolo_apiserver::Api;
use tombolo_gate::Gate;
use tombolo_identity::{Authority, Subject, Token, request};
use tower::ServiceExt as _;

pub(crate) const OURS: &str = "/apis/tombolo.dev/v1alpha1";

pub(crate) struct Server {
    pub(crate) api: Api,
    pub(crate) authority: Arc<Authority>,
    _folder: tempfile::TempDir,
}

impl Server {
    pub(crate) async fn start() -> Server {
        Server::start_with(Clone::clone).await
    }

    /// With a gate that sees the API through what `view` makes of a client.
    pub(crate) async fn start_with(view: impl Fn(&kube::Client) -> kube::Client) -> Server {
        let (api, folder) = tombolo_testkit::empty_api().await;
        let authority = Arc::new(Authority::generate(jiff::Timestamp::now()).expect("a key"));
        let client = view(&api.client(Subject::system("gate")));
        let gate = Gate::open(client, Some(authority.clone())).expect("a gate");
        tokio::spawn(gate.clone().listen());
        let api = api.streaming(gate.router());
        Server { api, authority, _folder: folder }
    }

    pub(crate) async fn ask(
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

    pub(crate) async fn admin(&self, method: Method, path: &str, body: Value) -> (u16, Value) {
        self.ask(Some(Subject::first_admin()), method, path, &body).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        self.ask(None, Method::POST, path, body).await
    }

    pub(crate) async fn token(&self, number: u8) -> Token {
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

    pub(crate) async fn nonce(&self) -> String {
        let (_, answer) = self.ask(None, Method::GET, "/tombolo/nonce", &Value::Null).await;
        answer["nonce"].as_str().expect("a nonce").to_owned()
    }

    pub(crate) async fn renew(&self, certificate: &Value, key: &str, nonce: &str) -> (u16, Value) {
        let request = request::make(key, nonce).expect("a request");
        self.post("/tombolo/renew", &json!({"certificate": certificate, "request": request})).await
    }
}

pub(crate) fn join(token: &Token, node: &str, machine: &str, key: &str) -> Value {
    json!({"token": token.reveal(), "request": request::make(key, "").expect("a request"),
        "node": node, "machine": machine, "agentVersion": "0.1.0"})
}
