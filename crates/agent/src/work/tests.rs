//! The working half with an engine in memory and a server of a few lines, with time that stands still
//! while nothing waits.

use std::convert::Infallible;
use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tombolo_driver::Driver;
use tombolo_driver::fake::Fake;
use tombolo_model::Engine;
use tower::service_fn;

use crate::connection::{Flow, Wire};

use super::*;

/// In the time of the test.
const DEADLINE: Duration = Duration::from_secs(600);
const DEATHS: usize = 2;

/// Lists one Assignment, panics in the first calls to a path, and keeps Events.
#[derive(Clone, Default)]
struct Server {
    panics_at: &'static str,
    panicked: Arc<AtomicUsize>,
    asked: Arc<AtomicUsize>,
    events: Arc<Mutex<Vec<Value>>>,
}

impl Server {
    fn client(&self) -> Client {
        let server = self.clone();
        let service = service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move { Ok::<_, Infallible>(server.answer(request).await) }
        });
        Client::new(service, "default")
    }

    fn wire(&self) -> Wire {
        let server = self.clone();
        Wire::new(service_fn(move |request: Request<Flow>| {
            let server = server.clone();
            async move {
                server.stumble(request.uri().path());
                Err::<Response<Flow>, _>(io::Error::other("nobody is there"))
            }
        }))
    }

    /// A call that comes from the task that asked: it panics there.
    fn stumble(&self, path: &str) {
        if path.ends_with(self.panics_at) {
            let before = self.asked.fetch_add(1, Ordering::SeqCst);
            if before < DEATHS {
                self.panicked.fetch_add(1, Ordering::SeqCst);
                panic!("planted at {path}");
            }
        }
    }

    async fn answer(&self, request: Request<Body>) -> Response<Body> {
        let (parts, body) = request.into_parts();
        let path = parts.uri.path();
        let query = parts.uri.query().unwrap_or_default();
        if parts.method == Method::POST && path.ends_with("/events") {
            let body = body.collect().await.unwrap().to_bytes();
            let event: Value = serde_json::from_slice(&body).unwrap();
            self.events.lock().unwrap().push(event.clone());
            return as_json(StatusCode::CREATED, &event);
        }
        self.stumble(path);
        if query.contains("watch=") {
            std::future::pending::<()>().await;
        }
        if path.ends_with("/assignments") {
            let list = json!({"apiVersion": "tombolo.dev/v1alpha1", "kind": "AssignmentList",
                "metadata": {"resourceVersion": "7"}, "items": [assignment()]});
            return as_json(StatusCode::OK, &list);
        }
        let gone = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure",
            "reason": "NotFound", "message": "not here", "code": 404});
        as_json(StatusCode::NOT_FOUND, &gone)
    }
}

fn as_json(code: StatusCode, value: &Value) -> Response<Body> {
    Response::builder().status(code).body(Body::from(value.to_string().into_bytes())).unwrap()
}

fn assignment() -> Value {
    json!({
        "apiVersion": "tombolo.dev/v1alpha1", "kind": "Assignment",
        "metadata": {"name": "web", "namespace": "default", "uid": "web", "resourceVersion": "1",
            "generation": 1},
        "spec": {"app": "shop", "component": "web", "replica": 0, "site": "north",
            "node": "crane", "engine": "host", "run": {"process": {"command": ["web"]}}},
    })
}

/// What asks for `path` dies twice, lives again, and the Node says so.
async fn check_survives(name: &str, path: &'static str) {
    let server = Server { panics_at: path, ..Server::default() };
    let folder = tempfile::tempdir().unwrap();
    let engine = Fake::new(Engine::Host);
    let driver: Arc<dyn Driver> = Arc::new(engine.clone());
    let clock = Clock::start();
    let (_heartbeats, heard) = watch::channel(Some(clock.asked()));
    let workplace = Workplace {
        remit: Remit::Node { site: "north".to_owned(), node: "crane".to_owned() },
        machines: None,
        machine: "m".to_owned(),
        folder: Arc::new(Folder::open(folder.path()).unwrap()),
        connection: Connection::fixed(server.client(), server.wire()),
        drivers: Drivers::from([(Engine::Host, driver)]),
        clock,
        heard,
        offer: Offer::default(),
    };
    let working = tokio::spawn(run(workplace));
    let began = clock.now();
    let starts = || engine.done().iter().any(|line| line.starts_with("start"));
    while !(starts() && server.asked.load(Ordering::SeqCst) > DEATHS) {
        assert!(clock.now().since(began) < DEADLINE, "{name}: {:?}", engine.done());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    working.abort();
    assert_eq!(server.panicked.load(Ordering::SeqCst), DEATHS, "{name}");
    let events = server.events.lock().unwrap();
    let of_death: Vec<&Value> =
        events.iter().filter(|event| event["reason"] == "LoopDied").collect();
    assert_eq!(of_death.len(), DEATHS, "{name}: {events:?}");
    assert_eq!(of_death[0]["involvedObject"]["name"], "crane");
    let message = of_death[0]["message"].as_str().unwrap();
    assert!(message.contains(name) && message.contains("planted"), "{message}");
}

#[tokio::test(start_paused = true)]
async fn a_panic_beside_the_loop_is_survived_and_told() {
    check_survives("assignments", "/assignments").await;
    check_survives("node", "/nodes/crane").await;
    check_survives("errands", "/errands").await;
}
