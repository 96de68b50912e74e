//! Routes beside the protocol: who reaches them, and what their handlers may do then.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::body::Body;
use axum::routing::{any, get, post};
use axum::{Extension, Router};
use futures::StreamExt as _;
use http::Request;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::PostParams;
use serde_json::{Value, json};
use tombolo_apiserver::Api;
use tombolo_apiserver::health::LoopHealth;
use tombolo_apiserver::serve::Peer;
use tombolo_gate::Caller;
use tombolo_identity::{Role, Subject, Token};
use tombolo_model::keys;
use tombolo_store::{Options, Store};
use tower::ServiceExt as _;

const EXEC: &str = "/apis/tombolo.dev/v1alpha1/namespaces/{namespace}/assignments/{name}/exec";

async fn who(Extension(caller): Extension<Caller>) -> String {
    caller.subject().name.clone()
}

async fn make(Extension(caller): Extension<Caller>, body: String) -> String {
    let maps: kube::Api<ConfigMap> = kube::Api::namespaced(caller.client, "default");
    let mut map = ConfigMap::default();
    map.metadata.name = Some(body);
    match maps.create(&PostParams::default(), &map).await {
        Ok(_) => "made".to_owned(),
        Err(kube::Error::Api(status)) => format!("{}", status.code),
        Err(error) => error.to_string(),
    }
}

/// Sends back what comes, as it comes.
async fn flow(body: Body) -> Body {
    body
}

async fn open(folder: &tempfile::TempDir) -> Api {
    let store = Store::open(folder.path(), Options::default()).expect("a new store");
    let admin = Token::from_bytes([7; 32]).hash();
    let api = Api::open(store, admin).await.expect("the first objects are written");
    let routes = Router::new()
        .route("/api/v3/who", get(who))
        .route("/api/v3/make", post(make).put(make))
        .route("/elsewhere", get(who));
    let flowing = Router::new()
        .route(EXEC, any(who))
        .route("/tombolo/flow", post(flow))
        .route("/tombolo/errands", post(who));
    api.serving(routes).streaming(flowing)
}

async fn check(subject: Subject, method: &str, path: &str, body: String, expect: (u16, &str)) {
    let folder = tempfile::tempdir().expect("a folder");
    let request = Request::builder().method(method).uri(path).extension(subject);
    let request = request.body(Body::from(body)).expect("a request");
    let answer = open(&folder).await.router().oneshot(request).await.expect("an answer");
    let code = answer.status().as_u16();
    let bytes = axum::body::to_bytes(answer.into_body(), 1 << 20).await.expect("a body");
    let text = String::from_utf8_lossy(&bytes);
    assert!(code == expect.0 && text.contains(expect.1), "{code} {text}");
}

fn subject(role: Role) -> Subject {
    Subject { role, name: "anna".to_owned(), ..Subject::anonymous() }
}

#[tokio::test]
async fn a_stranger_reaches_no_guarded_route() {
    check(Subject::anonymous(), "GET", "/api/v3/who", String::new(), (401, "signed in")).await;
}

#[tokio::test]
async fn a_stranger_hears_whether_loops_are_well_and_not_which_there_are() {
    let folder = tempfile::tempdir().expect("a folder");
    let dead = LoopHealth { name: "placing", state: "Dead", is_well: false };
    let api = open(&folder).await.telling_of(move || vec![dead]);
    let ask = async |subject: Subject, path: &str| {
        let request = Request::builder().uri(path).extension(subject);
        let request = request.body(Body::empty()).expect("a request");
        let answer = api.router().oneshot(request).await.expect("an answer");
        let bytes = axum::body::to_bytes(answer.into_body(), 1 << 20).await.expect("a body");
        String::from_utf8_lossy(&bytes).into_owned()
    };
    for path in ["/readyz?verbose", "/readyz/loops", "/readyz/loops?verbose"] {
        let told = ask(Subject::anonymous(), path).await;
        assert!(told.contains("1 of 1") && !told.contains("placing"), "{path}: {told}");
        let told = ask(subject(Role::Guest), path).await;
        assert!(told.contains("placing"), "{path}: {told}");
    }
}

#[tokio::test]
async fn a_handler_acts_with_the_rights_of_its_caller_and_no_more() {
    check(subject(Role::Guest), "GET", "/api/v3/who", String::new(), (200, "anna")).await;
    check(subject(Role::Guest), "POST", "/api/v3/make", "map".to_owned(), (200, "403")).await;
    check(Subject::first_admin(), "POST", "/api/v3/make", "map".to_owned(), (200, "made")).await;
}

#[tokio::test]
async fn a_route_outside_the_table_is_for_admins_alone() {
    check(subject(Role::Manager), "GET", "/elsewhere", String::new(), (403, "may not")).await;
}

#[tokio::test]
async fn a_body_beyond_the_bound_reaches_no_handler() {
    let large = "x".repeat(4 << 20);
    check(Subject::first_admin(), "POST", "/api/v3/make", large, (413, "more than")).await;
}

#[tokio::test]
async fn a_route_that_is_a_resource_takes_the_right_to_that_resource() {
    let exec = |namespace: &str| EXEC.replace("{namespace}", namespace).replace("{name}", "web");
    let user = || Subject { namespace: Some("shop".to_owned()), ..subject(Role::User) };
    check(user(), "POST", &exec("shop"), String::new(), (200, "anna")).await;
    check(user(), "POST", &exec("farm"), String::new(), (403, "may not")).await;
    check(subject(Role::Guest), "POST", &exec("shop"), String::new(), (403, "may not")).await;
    // Where the router sees a route and the door no resource, nobody comes in.
    let (slash, long) = (exec("shop%2Fx"), exec(&"x".repeat(5000)));
    check(user(), "POST", &slash, String::new(), (404, "no such path")).await;
    check(subject(Role::Guest), "GET", &slash, String::new(), (404, "no such path")).await;
    check(subject(Role::Guest), "GET", &long, String::new(), (404, "no such path")).await;
}

/// The agent of node n1, with a key.
fn agent_with(key: &str) -> Peer {
    Peer {
        address: "127.0.0.1:1".parse().expect("an address"),
        subject: Some(Subject::agent("north", "n1").expect("valid")),
        key: Some(key.to_owned()),
        refusal: None,
        tls: true,
    }
}

#[tokio::test]
async fn an_agent_whose_key_was_replaced_reaches_no_guarded_route() {
    let folder = tempfile::tempdir().expect("a folder");
    let api = open(&folder).await;
    let objects = [
        (
            "sites",
            json!({"kind": "Site", "metadata": {"name": "north"},
            "spec": {"engine": "host"}}),
        ),
        (
            "nodes",
            json!({"kind": "Node", "spec": {"site": "north"}, "metadata": {"name": "n1",
            "annotations": {keys::ANNOTATION_KEY: "new"}}}),
        ),
    ];
    for (plural, mut object) in objects {
        object["apiVersion"] = json!(keys::API_VERSION);
        let request = Request::post(format!("/apis/{}/{plural}", keys::API_VERSION))
            .header("content-type", "application/json")
            .body(Body::from(object.to_string()));
        let answer = api.answer_as(Subject::first_admin(), request.expect("a request")).await;
        assert_eq!(answer.status(), 201, "{plural}");
    }
    let exec = EXEC.replace("{namespace}", "default").replace("{name}", "web");
    for (method, path, with_new_key) in [
        ("GET", "/api/v3/who", 200),
        ("PUT", "/api/v3/make", 200),
        ("POST", "/tombolo/errands", 200),
        ("POST", exec.as_str(), 404),
    ] {
        for (key, code) in [("new", with_new_key), ("old", 401)] {
            let request = Request::builder().method(method).uri(path).extension(agent_with(key));
            let request = request.body(Body::from("from-agent")).expect("a request");
            let answer = api.router().oneshot(request).await.expect("an answer");
            assert_eq!(answer.status(), code, "{method} {path} with the {key} key");
        }
    }
}

/// Larger than any bound on a body that has to be there whole.
const FLOW_PIECES: usize = 1024;
const PIECE_BYTES: usize = 64 * 1024;

#[tokio::test]
async fn what_flows_through_a_route_is_not_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let api = open(&folder).await;
    let taken = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&taken);
    let piece = bytes::Bytes::from(vec![b'x'; PIECE_BYTES]);
    let pieces = futures::stream::iter(std::iter::repeat_n(piece, FLOW_PIECES)).map(move |piece| {
        count.fetch_add(1, Ordering::SeqCst);
        Ok::<_, std::convert::Infallible>(piece)
    });
    let request = Request::post("/tombolo/flow").body(Body::from_stream(pieces));
    let answer = api.answer_as(Subject::first_admin(), request.expect("a request")).await;
    assert_eq!(answer.status(), 200);
    assert_eq!(taken.load(Ordering::SeqCst), 0, "nothing was read before the handler asked");
    let mut body = answer.into_body().into_data_stream();
    let mut length = 0;
    for number in 1..=FLOW_PIECES {
        length += body.next().await.expect("there is more").expect("a piece").len();
        assert_eq!(taken.load(Ordering::SeqCst), number, "one piece is taken for one that is read");
    }
    assert!(body.next().await.is_none());
    assert_eq!(length, FLOW_PIECES * PIECE_BYTES);
}

/// The users whom the audit record names for what was done to `object`.
async fn recorded(api: &Api, object: &str) -> Vec<String> {
    let request = Request::get("/tombolo/audit").body(Body::empty()).expect("a request");
    let answer = api.answer_as(Subject::first_admin(), request).await;
    let bytes = axum::body::to_bytes(answer.into_body(), 1 << 20).await.expect("a body");
    let rows = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let rows = rows.map(|line| serde_json::from_slice::<Value>(line).expect("a row"));
    let about = rows.filter(|row| row["object"] == object);
    about.map(|row| row["user"].as_str().unwrap_or_default().to_owned()).collect()
}

#[tokio::test]
async fn only_the_system_says_for_whom_it_writes() {
    let folder = tempfile::tempdir().expect("a folder");
    let api = open(&folder).await;
    let header =
        "%7B%22user%22%3A%22mallory%22%2C%22role%22%3A%22admin%22%2C%22verb%22%3A%22join%22%7D";
    let user = Subject { namespace: Some("default".to_owned()), ..subject(Role::User) };
    for (name, subject, expect) in [
        ("by-admin", Subject::first_admin(), Subject::first_admin().name),
        ("by-user", user, "anna".to_owned()),
        ("by-system", Subject::system("gate"), "mallory".to_owned()),
    ] {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
        let request = Request::post("/api/v1/namespaces/default/configmaps")
            .header("content-type", "application/json")
            .header(tombolo_gate::record::HEADER, header)
            .body(Body::from(map.to_string()));
        let answer = api.answer_as(subject, request.expect("a request")).await;
        assert_eq!(answer.status(), 201, "{name}");
        assert_eq!(recorded(&api, &format!("/configmaps/default/{name}")).await, [expect]);
    }
}
