//! Routes beside the protocol: who reaches them, and what their handlers may do then.

use axum::body::Body;
use axum::routing::{get, post};
use axum::{Extension, Router};
use http::Request;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::PostParams;
use tombolo_apiserver::Api;
use tombolo_apiserver::guard::Caller;
use tombolo_identity::{Role, Subject, Token};
use tombolo_store::{Options, Store};
use tower::ServiceExt as _;

async fn who(Extension(caller): Extension<Caller>) -> String {
    caller.subject.name
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

async fn router(folder: &tempfile::TempDir) -> Router {
    let store = Store::open(folder.path(), Options::default()).expect("a new store");
    let admin = Token::from_bytes([7; 32]).hash();
    let api = Api::open(store, admin).await.expect("the first objects are written");
    let routes = Router::new()
        .route("/api/v3/who", get(who))
        .route("/api/v3/make", post(make))
        .route("/elsewhere", get(who));
    api.router().merge(api.guarded(routes))
}

async fn check(subject: Subject, method: &str, path: &str, body: String, expect: (u16, &str)) {
    let folder = tempfile::tempdir().expect("a folder");
    let request = Request::builder().method(method).uri(path).extension(subject);
    let request = request.body(Body::from(body)).expect("a request");
    let answer = router(&folder).await.oneshot(request).await.expect("an answer");
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
