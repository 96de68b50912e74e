//! Errands, asked of the whole API in process: people who ask, and agents whose part is played by the
//! test. Nodes n1 and n2 are of site `north`; Assignment `mine` of namespace `shop` is on n1.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::body::{Body, BodyDataStream};
use bytes::Bytes;
use futures::{StreamExt as _, stream};
use http::{Method, Request, Response};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tombolo_apiserver::Api;
use tombolo_gate::Gate;
use tombolo_identity::token::ACCESS_TOKEN_TYPE;
use tombolo_identity::{AccessToken, Role, Subject, Token, Via};
use tombolo_model::Reason;
use tombolo_model::errand::{Channel, Errand, Frame, Opening, Refusal, What, broken, well};
use tower::ServiceExt as _;

const OURS: &str = "/apis/tombolo.dev/v1alpha1";
const MINE: &str = "/apis/tombolo.dev/v1alpha1/namespaces/shop/assignments/mine";
const ERRANDS: &str = "/tombolo/errands";

struct Server {
    api: Api,
    _folder: tempfile::TempDir,
}

impl Server {
    async fn start() -> Server {
        let (api, folder) = tombolo_testkit::empty_api().await;
        let gate = Gate::open(api.client(Subject::system("gate")), None).expect("a gate");
        let api = api.streaming(gate.router());
        let server = Server { api, _folder: folder };
        let ours = |kind: &str, name: &str, spec: Value| {
            json!({"apiVersion": "tombolo.dev/v1alpha1", "kind": kind, "metadata": {"name": name},
                "spec": spec})
        };
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
        server.make("/api/v1/namespaces", namespace).await;
        server
            .make(&format!("{OURS}/sites"), ours("Site", "north", json!({"engine": "host"})))
            .await;
        for node in ["n1", "n2"] {
            let node = ours("Node", node, json!({"site": "north"}));
            server.make(&format!("{OURS}/nodes"), node).await;
        }
        for (name, node) in [("mine", json!("n1")), ("nobodys", Value::Null)] {
            let mut spec = json!({
                "app": "web", "component": "front", "replica": 0, "site": "north",
                "engine": "host", "run": {"process": {"command": ["true"]}},
            });
            if !node.is_null() {
                spec["node"] = node;
            }
            let assignment = ours("Assignment", name, spec);
            server.make(&format!("{OURS}/namespaces/shop/assignments"), assignment).await;
        }
        server
    }

    async fn make(&self, path: &str, body: Value) {
        let request = Request::post(path).header("content-type", "application/json");
        let request = request.body(Body::from(body.to_string())).expect("a request");
        let answer = self.api.answer_as(Subject::first_admin(), request).await;
        assert_eq!(answer.status(), 201, "{path}");
    }

    async fn send(&self, subject: Subject, method: Method, path: &str) -> Response<Body> {
        let request = Request::builder().method(method).uri(path).body(Body::empty());
        self.api.answer_as(subject, request.expect("a request")).await
    }

    /// Code and sentence of an answer that is a refusal.
    async fn refusal(&self, subject: Subject, method: Method, path: &str) -> (u16, String) {
        let answer = self.send(subject, method, path).await;
        let code = answer.status().as_u16();
        let bytes = axum::body::to_bytes(answer.into_body(), 1 << 20).await.expect("a body");
        let status: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        (code, status["message"].as_str().unwrap_or_default().to_owned())
    }

    /// Somebody reads the log, in a task of its own.
    fn reads(&self, query: &'static str) -> tokio::task::JoinHandle<Response<Body>> {
        let api = self.api.clone();
        tokio::spawn(async move {
            let request = Request::get(format!("{MINE}/log{query}")).body(Body::empty());
            api.answer_as(person(Role::Guest), request.expect("a request")).await
        })
    }

    async fn listens(&self, node: &str) -> Listening {
        let answer = self.send(agent(node), Method::GET, ERRANDS).await;
        assert_eq!(answer.status(), 200);
        Listening { lines: answer.into_body().into_data_stream() }
    }

    /// The agent of a node answers an errand.
    async fn answers(&self, node: &str, id: &str) -> Result<Answering, u16> {
        let (frames, receiver) = mpsc::channel::<Bytes>(1);
        let body = Body::from_stream(stream::unfold(receiver, async |mut receiver| {
            let bytes = receiver.recv().await?;
            Some((Ok::<Bytes, std::convert::Infallible>(bytes), receiver))
        }));
        let request = Request::post(format!("{ERRANDS}?id={id}")).body(body).expect("a request");
        let answer = self.api.answer_as(agent(node), request).await;
        match answer.status().as_u16() {
            200 => Ok(Answering { frames, back: answer.into_body().into_data_stream() }),
            code => Err(code),
        }
    }
}

struct Listening {
    lines: BodyDataStream,
}

impl Listening {
    async fn errand(&mut self) -> Errand {
        loop {
            let line = self.lines.next().await.expect("it goes on").expect("a line");
            if line.as_ref() != b"\n" {
                return serde_json::from_slice(&line).expect("an errand");
            }
        }
    }
}

struct Answering {
    frames: mpsc::Sender<Bytes>,
    back: BodyDataStream,
}

impl Answering {
    async fn says(&self, frame: Frame) {
        self.frames.send(frame.to_bytes().into()).await.expect("somebody listens");
    }
}

fn agent(node: &str) -> Subject {
    Subject::agent("north", node).expect("valid")
}

fn person(role: Role) -> Subject {
    Subject::person("anna", role, None, Via::Token).expect("valid")
}

fn ready() -> Frame {
    Frame::json(Channel::Opening, &Opening::Ready)
}

async fn text(answer: Response<Body>) -> Result<String, axum::Error> {
    let bytes = axum::body::to_bytes(answer.into_body(), 1 << 20).await?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[tokio::test]
async fn a_log_comes_from_the_agent_of_the_node_and_from_nobody_else() {
    let server = Server::start().await;
    let mut listening = server.listens("n1").await;
    let _other = server.listens("n2").await;
    let reader = server.reads("?tailLines=7");
    let errand = listening.errand().await;
    let What::Log(options) = &errand.what else { panic!("{errand:?}") };
    assert_eq!(options.tail_lines, Some(7));
    assert_eq!(server.answers("n2", &errand.id).await.err(), Some(404), "it was not asked");
    assert_eq!(server.answers("n1", "some-id").await.err(), Some(404));

    let answering = server.answers("n1", &errand.id).await.expect("it was asked");
    answering.says(ready()).await;
    let answer = reader.await.expect("an answer");
    assert_eq!(answer.status(), 200);
    let reading = tokio::spawn(text(answer));
    answering.says(Frame::new(Channel::Output, *b"one\n")).await;
    answering.says(Frame::new(Channel::Alive, [])).await;
    answering.says(Frame::new(Channel::ErrorOutput, *b"two\n")).await;
    answering.says(Frame::json(Channel::Status, &well())).await;
    assert_eq!(reading.await.expect("it ends").expect("all of it"), "one\ntwo\n");
    assert_eq!(server.answers("n1", &errand.id).await.err(), Some(404), "once is enough");
}

#[tokio::test]
async fn what_an_agent_serves_is_told_to_clients() {
    let server = Server::start().await;
    let list = server.send(person(Role::Guest), Method::GET, "/apis/tombolo.dev/v1alpha1").await;
    let list: Value = serde_json::from_str(&text(list).await.expect("all of it")).expect("JSON");
    let all = list["resources"].as_array().expect("a list");
    let verbs = |name: &str| {
        let found = all.iter().find(|resource| resource["name"] == name);
        found.map(|resource| (resource["verbs"].clone(), resource["namespaced"].clone()))
    };
    let session = (json!(["create", "get"]), json!(true));
    assert_eq!(verbs("assignments/exec"), Some(session.clone()));
    assert_eq!(verbs("assignments/portforward"), Some(session));
    assert_eq!(verbs("assignments/log"), Some((json!(["get"]), json!(true))));
    assert_eq!(verbs("apps/exec"), None, "an App is no instance");
}

#[tokio::test]
async fn a_log_that_breaks_off_is_not_taken_for_a_whole_one() {
    let server = Server::start().await;
    let mut listening = server.listens("n1").await;
    for status in [None, Some(broken(Reason::DiskFull, "the disk is full"))] {
        let reader = server.reads("?follow=true");
        let errand = listening.errand().await;
        let answering = server.answers("n1", &errand.id).await.expect("it was asked");
        answering.says(ready()).await;
        let reading = tokio::spawn(text(reader.await.expect("an answer")));
        answering.says(Frame::new(Channel::Output, *b"one\n")).await;
        if let Some(status) = status {
            answering.says(Frame::json(Channel::Status, &status)).await;
        }
        drop(answering);
        assert!(reading.await.expect("it ends").is_err());
    }
}

#[tokio::test]
async fn whoever_goes_away_is_missed_by_the_agent() {
    let server = Server::start().await;
    let mut listening = server.listens("n1").await;
    let reader = server.reads("?follow=true");
    let errand = listening.errand().await;
    let mut answering = server.answers("n1", &errand.id).await.expect("it was asked");
    answering.says(ready()).await;
    drop(reader.await.expect("an answer"));
    assert!(answering.back.next().await.is_none(), "the agent's errand ends");
    assert!(answering.frames.is_closed());
}

#[tokio::test]
async fn a_slow_reader_holds_back_the_agent() {
    let server = Server::start().await;
    let mut listening = server.listens("n1").await;
    let reader = server.reads("");
    let errand = listening.errand().await;
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let endless = stream::iter([ready()])
        .chain(stream::repeat_with(|| Frame::new(Channel::Output, vec![b'x'; 1000])))
        .map(move |frame| {
            count.fetch_add(1, Ordering::Relaxed);
            Ok::<Bytes, std::convert::Infallible>(frame.to_bytes().into())
        });
    let path = format!("{ERRANDS}?id={}", errand.id);
    let request = Request::post(path).body(Body::from_stream(endless)).expect("a request");
    let back = server.api.answer_as(agent("n1"), request).await;
    assert_eq!(back.status(), 200);
    let mut body = reader.await.expect("an answer").into_body().into_data_stream();
    for _ in 0..10 {
        body.next().await.expect("it is endless").expect("a piece");
        tokio::task::yield_now().await;
    }
    let asked = asked.load(Ordering::Relaxed);
    assert!((11..20).contains(&asked), "{asked} frames were taken for 10 that were read");
}

#[tokio::test]
async fn a_log_larger_than_any_buffer_comes_whole() {
    const PIECES: usize = 1024;
    const PIECE_BYTES: usize = 16 * 1024;
    let server = Server::start().await;
    let mut listening = server.listens("n1").await;
    let reader = server.reads("");
    let errand = listening.errand().await;
    let piece = Frame::new(Channel::Output, vec![b'x'; PIECE_BYTES]);
    let frames = stream::iter([ready()])
        .chain(stream::iter(std::iter::repeat_n(piece, PIECES)))
        .chain(stream::iter([Frame::json(Channel::Status, &well())]))
        .map(|frame| Ok::<Bytes, std::convert::Infallible>(frame.to_bytes().into()));
    let path = format!("{ERRANDS}?id={}", errand.id);
    let request = Request::post(path).body(Body::from_stream(frames)).expect("a request");
    let back = server.api.answer_as(agent("n1"), request).await;
    assert_eq!(back.status(), 200);
    let body = reader.await.expect("an answer").into_body();
    let whole = axum::body::to_bytes(body, usize::MAX).await.expect("all of it");
    assert_eq!(whole.len(), PIECES * PIECE_BYTES);
}

#[tokio::test(start_paused = true)]
async fn whoever_asks_in_vain_is_told_why() {
    let server = Server::start().await;
    let guest = || person(Role::Guest);
    let log = format!("{MINE}/log");
    let refused = server.refusal(guest(), Method::GET, &log).await;
    let sentence = "the agent of node \"n1\" is not connected; it has never been heard";
    assert_eq!(refused, (502, sentence.to_owned()));
    let nobodys = log.replace("/mine/", "/nobodys/");
    let (code, message) = server.refusal(guest(), Method::GET, &nobodys).await;
    assert_eq!(code, 409, "{message}");
    let (code, _) = server.refusal(guest(), Method::GET, &log.replace("/mine/", "/none/")).await;
    assert_eq!(code, 404);

    let mut listening = server.listens("n1").await;
    let (code, message) = server.refusal(guest(), Method::GET, &log).await;
    assert_eq!(code, 502, "{message}");
    assert!(message.contains("did not answer within 10 s"), "{message}");
    let late = listening.errand().await;
    assert_eq!(server.answers("n1", &late.id).await.err(), Some(404), "nobody waits any more");

    let reader = server.reads("");
    let errand = listening.errand().await;
    let answering = server.answers("n1", &errand.id).await.expect("it was asked");
    let refusal = Refusal::new(Reason::NotRunning, "it sleeps");
    answering.says(Frame::json(Channel::Opening, &Opening::Refused(refusal))).await;
    assert_eq!(reader.await.expect("an answer").status(), 409);
}

#[tokio::test]
async fn whoever_loses_the_right_loses_the_log() {
    let server = Server::start().await;
    let mut listening = server.listens("n1").await;
    let secret = Token::from_bytes([9; 32]);
    let token = AccessToken::new(&secret, "anna", Role::Guest, None, None).expect("valid");
    let name = secret.hash().secret_name();
    let object = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name},
        "type": ACCESS_TOKEN_TYPE, "data": token.to_data(),
    });
    let secrets = "/api/v1/namespaces/tombolo-system/secrets";
    server.make(secrets, object).await;
    let request = Request::get(format!("{MINE}/log?follow=true"));
    let request = request.header("authorization", format!("Bearer {}", secret.reveal()));
    let request = request.body(Body::empty()).expect("a request");
    let reader = tokio::spawn(server.api.router().oneshot(request));
    let errand = listening.errand().await;
    let answering = server.answers("n1", &errand.id).await.expect("it was asked");
    answering.says(ready()).await;
    let mut body =
        reader.await.expect("it ends").expect("an answer").into_body().into_data_stream();

    let path = format!("{secrets}/{name}");
    let gone = server.send(Subject::first_admin(), Method::DELETE, &path).await;
    assert!(gone.status().is_success());
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(6)).await;
    answering.says(Frame::new(Channel::Output, *b"one\n")).await;
    let came = body.next().await.expect("a word");
    assert!(came.is_err(), "{came:?}");
    assert!(body.next().await.is_none());
}

#[tokio::test]
async fn an_agent_that_is_revoked_loses_what_is_under_way() {
    let server = Server::start().await;
    let mut listening = server.listens("n1").await;
    let reader = server.reads("?follow=true");
    let errand = listening.errand().await;
    let answering = server.answers("n1", &errand.id).await.expect("it was asked");
    answering.says(ready()).await;
    let mut body = reader.await.expect("it ends").into_body().into_data_stream();
    let gone =
        server.send(Subject::first_admin(), Method::DELETE, &format!("{OURS}/nodes/n1")).await;
    assert!(gone.status().is_success());
    tokio::time::pause();
    let began = tokio::time::Instant::now();
    // It says nothing at all, and that does not help it.
    let came = body.next().await.expect("a word");
    assert!(came.is_err(), "{came:?}");
    assert!(began.elapsed() <= Duration::from_secs(10), "{:?}", began.elapsed());
    assert!(body.next().await.is_none());
}

#[tokio::test]
async fn viewers_read_logs_and_only_users_of_the_namespace_go_in() {
    let server = Server::start().await;
    let user = |namespace: &str| {
        Subject::person("anna", Role::User, Some(namespace.to_owned()), Via::Token).expect("valid")
    };
    let exec = format!("{MINE}/exec?command=sh");
    let forward = format!("{MINE}/portforward?port=80");
    for path in [&exec, &forward] {
        for method in [Method::GET, Method::POST] {
            let code = |subject| server.refusal(subject, method.clone(), path);
            assert_eq!(code(person(Role::Guest)).await.0, 403);
            assert_eq!(code(person(Role::Manager)).await.0, 403);
            assert_eq!(code(user("farm")).await.0, 403);
            // Let in, and told that this is for WebSockets.
            assert_eq!(code(user("shop")).await.0, 426);
            assert_eq!(code(Subject::first_admin()).await.0, 426);
            assert_eq!(code(agent("n1")).await.0, 404, "an agent asks nobody");
        }
    }
    assert_eq!(server.refusal(agent("n1"), Method::GET, &format!("{MINE}/log")).await.0, 404);
    for path in ["/tombolo/errands", "/tombolo/errands?id=x"] {
        let code = |subject, method| server.refusal(subject, method, path);
        assert_eq!(code(person(Role::Guest), Method::GET).await.0, 403);
        assert_eq!(code(Subject::first_admin(), Method::POST).await.0, 403);
    }
}

#[tokio::test]
async fn an_agent_that_does_not_stand_for_its_node_any_more_is_sent_no_errands() {
    let server = Server::start().await;
    let mut listening = server.listens("n1").await;
    assert_eq!(listening.lines.next().await.expect("a word").expect("a line").as_ref(), b"\n");
    let path = format!("{OURS}/nodes/n1");
    let answer = server.send(Subject::first_admin(), Method::DELETE, &path).await;
    assert!(answer.status().is_success());
    let reader = server.reads("");
    assert!(listening.lines.next().await.is_none(), "it is over");
    drop(reader);
}
