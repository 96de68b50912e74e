//! The real API in this process with the facades beside it, and requests to it.

#![allow(dead_code, reason = "every test program uses another part of it")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use http::{Method, Request};
use kube::Client;
use serde_json::Value;
use tombolo_apiserver::Api;
use tombolo_facade::Index;
use tombolo_gate::Gate;
use tombolo_identity::{Role, Subject};
use tombolo_plan::Monotonic;
use tower::ServiceExt as _;

pub(crate) struct Server {
    pub(crate) api: Api,
    router: Router,
    seconds: Arc<AtomicU64>,
    index: Index,
    _folder: tempfile::TempDir,
}

pub(crate) async fn server() -> Server {
    furnished(|facades| facades).await
}

/// The same, with something around the facades, and with an index that is kept: what is new is found a
/// moment later.
pub(crate) async fn server_with(around: impl FnOnce(Router) -> Router) -> Server {
    let server = furnished(around).await;
    let (kept, reads) = (server.index.clone(), server.api.client(Subject::system("job-index")));
    tokio::spawn(async move { kept.keep(&reads).await });
    server
}

async fn furnished(around: impl FnOnce(Router) -> Router) -> Server {
    let (api, folder) = tombolo_testkit::empty_api().await;
    let seconds = Arc::new(AtomicU64::new(0));
    let clock = Arc::clone(&seconds);
    let clock = move || Monotonic::from_start(Duration::from_secs(clock.load(Ordering::Relaxed)));
    let index = Index::default();
    let facades = around(tombolo_facade::router_by(Arc::new(clock), index.clone()));
    let gate = Gate::open(api.client(Subject::system("gate")), None).expect("a gate");
    tokio::spawn(gate.clone().listen());
    let api = api.streaming(gate.router()).serving(facades);
    let router = api.router();
    Server { api, router, seconds, index, _folder: folder }
}

pub(crate) fn manager() -> Subject {
    Subject { role: Role::Manager, name: "dm".to_owned(), ..Subject::anonymous() }
}

pub(crate) fn guest() -> Subject {
    Subject { role: Role::Guest, name: "anna".to_owned(), ..Subject::anonymous() }
}

impl Server {
    /// Until the index has seen so many jobs.
    pub(crate) async fn until_indexed(&self, jobs: usize) {
        let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
        while self.index.jobs_known() < jobs {
            assert!(tokio::time::Instant::now() < deadline, "the index has not seen {jobs} jobs");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    pub(crate) fn pass(&self, seconds: u64) {
        self.seconds.fetch_add(seconds, Ordering::Relaxed);
    }

    pub(crate) fn admin(&self) -> Client {
        self.api.client(Subject::first_admin())
    }

    /// An answer whose body may not end.
    pub(crate) async fn raw(&self, request: Request<Body>) -> axum::response::Response {
        self.router.clone().oneshot(request).await.expect("an answer")
    }

    pub(crate) async fn send(&self, request: Request<Body>) -> (u16, Value) {
        let answer = self.router.clone().oneshot(request).await.expect("an answer");
        let code = answer.status().as_u16();
        let bytes = axum::body::to_bytes(answer.into_body(), 1 << 24).await.expect("a body");
        let text = || Value::String(String::from_utf8_lossy(&bytes).into_owned());
        (code, serde_json::from_slice(&bytes).unwrap_or_else(|_| text()))
    }

    pub(crate) async fn ask_as(
        &self,
        subject: &Subject,
        method: Method,
        path: &str,
        body: impl ToString,
    ) -> (u16, Value) {
        let request = Request::builder().method(method).uri(path).extension(subject.clone());
        self.send(request.body(Body::from(body.to_string())).expect("a request")).await
    }
}
