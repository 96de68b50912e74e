//! What a careless or hostile client must not be able to bring about, asked of the whole API in
//! process.

use axum::body::Body;
use futures::StreamExt as _;
use http::{Method, Request};
use serde_json::{Value, json};
use tombolo_apiserver::{Api, garbage};
use tombolo_identity::{AccessToken, Role, Subject, Token, token};
use tombolo_store::{Options, Store};
use tower::ServiceExt as _;

struct Server {
    api: Api,
    _folder: tempfile::TempDir,
}

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const MERGE: &str = "application/merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

async fn server() -> Server {
    let folder = tempfile::tempdir().expect("a folder");
    let store = Store::open(folder.path(), Options::default()).expect("a new store");
    let admin = Token::from_bytes([7; 32]).hash();
    let api = Api::open(store, admin).await.expect("the first objects are written");
    tokio::spawn(garbage::run(api.clone()));
    Server { api, _folder: folder }
}

impl Server {
    async fn send(&self, request: Request<Body>) -> (u16, Value) {
        let answer = self.api.router().oneshot(request).await.expect("an answer");
        let code = answer.status().as_u16();
        let bytes = axum::body::to_bytes(answer.into_body(), 1 << 24).await.expect("a body");
        (code, serde_json::from_slice(&bytes).unwrap_or_default())
    }

    async fn ask(&self, method: Method, path: &str, type_: &str, body: Value) -> (u16, Value) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let mut request = Request::builder().method(method).uri(path).header("content-type", type_);
        request = request.extension(Subject::first_admin());
        self.send(request.body(Body::from(body)).expect("a request")).await
    }

    async fn get(&self, path: &str) -> (u16, Value) {
        self.ask(Method::GET, path, "", Value::Null).await
    }

    async fn post(&self, path: &str, body: Value) -> (u16, Value) {
        self.ask(Method::POST, path, "application/json", body).await
    }

    async fn delete(&self, path: &str, options: Value) -> (u16, Value) {
        self.ask(Method::DELETE, path, "application/json", options).await
    }

    async fn apply(&self, path: &str, body: Value) -> (u16, Value) {
        self.ask(Method::PATCH, &format!("{path}?fieldManager=me"), APPLY, body).await
    }
}

fn map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"x": "1"}})
}

#[tokio::test]
async fn an_apply_that_drops_a_label_leaves_the_rest_of_the_metadata_alone() {
    let server = server().await;
    let path = format!("{MAPS}/a");
    let mut labelled = map("a");
    labelled["metadata"]["labels"] = json!({"l": "1"});
    labelled["data"]["z"] = json!("1");
    server.apply(&path, labelled).await;
    let held = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    server.ask(Method::PATCH, &path, MERGE, held).await;

    let (code, applied) = server.apply(&path, map("a")).await;
    assert_eq!(code, 200, "{applied}");
    assert_eq!(applied["metadata"].get("labels"), None);
    assert_eq!(applied["metadata"]["finalizers"], json!(["example.com/hold"]));
    assert_eq!(applied["data"], json!({"x": "1"}), "the field that is applied no more is gone");
    let entries = applied["metadata"]["managedFields"].as_array().expect("owners").len();
    assert_eq!(entries, 2, "both writers are still known");
}

#[tokio::test]
async fn whoever_prefers_it_is_told_of_a_write_only_what_others_may_have_added() {
    let server = server().await;
    let path = format!("{MAPS}/a");
    server.post(MAPS, map("a")).await;
    let patch = async |body: Value| {
        let request = Request::patch(&path)
            .header("content-type", MERGE)
            .header("prefer", "respond-async, return=minimal")
            .extension(Subject::first_admin())
            .body(Body::from(body.to_string()));
        server.send(request.expect("a request")).await
    };
    assert_eq!(patch(json!({"data": {"x": "2"}})).await, (204, Value::Null));
    let noted = json!({"metadata": {"annotations": {"note": "1"}}});
    assert_eq!(patch(noted.clone()).await, (200, noted.clone()));
    assert_eq!(patch(json!({"data": {"x": "3"}})).await, (200, noted));
    assert_eq!(server.get(&path).await.1["data"]["x"], "3");
    let (code, refused) = patch(json!({"data": 7})).await;
    assert_eq!((code, &refused["kind"]), (422, &json!("Status")), "{refused}");
}

#[tokio::test]
async fn a_core_kind_cannot_be_defined_anew() {
    let server = server().await;
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "leases.coordination.k8s.io",
            "annotations": {"api-approved.kubernetes.io": "unapproved, x"}},
        "spec": {"group": "coordination.k8s.io", "scope": "Namespaced",
            "names": {"plural": "leases", "kind": "Lease"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object"}}}]},
    });
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let (code, answer) = server.post(path, definition).await;
    assert_eq!(code, 422, "{answer}");
    assert_eq!(server.get("/apis/coordination.k8s.io/v1/leases").await.0, 200);
}

fn gadgets(versions: &[&str]) -> Value {
    let last = versions.last().copied();
    let versions: Vec<Value> = versions
        .iter()
        .map(|name| {
            json!({"name": name, "served": true, "storage": Some(*name) == last,
                "subresources": {"scale": {"specReplicasPath": ".spec.size",
                    "statusReplicasPath": ".status.size"}},
                "schema": {"openAPIV3Schema": {"type": "object",
                    "x-kubernetes-preserve-unknown-fields": true}}})
        })
        .collect();
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "gadgets.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced",
            "names": {"plural": "gadgets", "kind": "Gadget"}, "versions": versions},
    })
}

const DEFINITION: &str =
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/gadgets.example.com";

#[tokio::test]
async fn an_object_of_an_older_version_can_be_patched_in_the_new_one() {
    let server = server().await;
    server.apply(DEFINITION, gadgets(&["v1"])).await;
    let gadget = json!({"apiVersion": "example.com/v1", "kind": "Gadget",
        "metadata": {"name": "g"}, "spec": {"size": 3}});
    let old = "/apis/example.com/v1/namespaces/default/gadgets";
    assert_eq!(server.post(old, gadget).await.0, 201);
    let (code, answer) = server.apply(DEFINITION, gadgets(&["v1", "v2"])).await;
    assert_eq!(code, 200, "{answer}");
    let new = "/apis/example.com/v2/namespaces/default/gadgets/g";
    let labels = json!({"metadata": {"labels": {"a": "b"}}});
    let (code, patched) = server.ask(Method::PATCH, new, MERGE, labels).await;
    assert_eq!((code, &patched["apiVersion"]), (200, &json!("example.com/v2")), "{patched}");
}

#[tokio::test]
async fn a_scale_that_makes_no_sense_changes_nothing() {
    let server = server().await;
    server.apply(DEFINITION, gadgets(&["v1"])).await;
    let gadget = json!({"apiVersion": "example.com/v1", "kind": "Gadget",
        "metadata": {"name": "g"}, "spec": {"size": 3}});
    let path = "/apis/example.com/v1/namespaces/default/gadgets";
    server.post(path, gadget).await;
    let scale = format!("{path}/g/scale");
    for nonsense in [json!(5), json!([]), json!({}), json!({"spec": "x"})] {
        let answer = server.ask(Method::PUT, &scale, "application/json", nonsense).await;
        assert_eq!(answer.0, 422, "{}", answer.1);
    }
    assert_eq!(server.get(&scale).await.1["spec"]["replicas"], 3);
}

#[tokio::test]
async fn a_delete_whose_wishes_are_not_understood_deletes_nothing() {
    let server = server().await;
    server.post(MAPS, map("a")).await;
    let path = format!("{MAPS}/a");
    for options in [
        json!({"dryRun": "All"}),
        json!({"dryRun": ["some"]}),
        json!({"propagationPolicy": 5}),
        json!({"preconditions": "x"}),
        json!({"preconditions": {"uid": 5}}),
        json!({"orphanDependents": "yes"}),
    ] {
        let (code, answer) = server.delete(&path, options).await;
        assert!(matches!(code, 400 | 422), "{answer}");
    }
    assert_eq!(server.get(&path).await.0, 200);
}

#[tokio::test]
async fn a_delete_of_what_was_seen_is_of_that_state_alone() {
    let server = server().await;
    let path = format!("{MAPS}/a");
    let (_, seen) = server.post(MAPS, map("a")).await;
    server.ask(Method::PATCH, &path, MERGE, json!({"data": {"x": "2"}})).await;
    let only = |field: &str| json!({"preconditions": {field: seen["metadata"][field]}});
    let (code, refused) = server.delete(&path, only("resourceVersion")).await;
    assert_eq!(code, 409, "{refused}");
    assert_eq!(server.get(&path).await.0, 200);
    assert_eq!(server.delete(&path, only("uid")).await.0, 200, "it is still the same object");
}

/// A list in pages is the list of one moment.
#[tokio::test]
async fn what_comes_after_the_first_page_is_on_no_other() {
    let server = server().await;
    for name in ["a", "b", "d"] {
        server.post(MAPS, map(name)).await;
    }
    let (_, first) = server.get(&format!("{MAPS}?limit=2")).await;
    let token = first["metadata"]["continue"].as_str().expect("there is more");
    server.post(MAPS, map("c")).await;
    server.ask(Method::PATCH, &format!("{MAPS}/d"), MERGE, json!({"data": {"x": "2"}})).await;
    let (_, second) = server.get(&format!("{MAPS}?limit=2&continue={token}")).await;
    let items = second["items"].as_array().expect("a list");
    let seen: Vec<_> = items.iter().map(|map| (&map["metadata"]["name"], &map["data"])).collect();
    assert_eq!(seen, [(&json!("d"), &json!({"x": "1"}))]);
    let versions = [&first, &second].map(|page| &page["metadata"]["resourceVersion"]);
    assert_eq!(versions[0], versions[1]);
}

#[tokio::test]
async fn a_namespace_does_not_go_with_things_in_it() {
    let server = server().await;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}});
    server.post("/api/v1/namespaces", namespace).await;
    let mut held = map("a");
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    server.post("/api/v1/namespaces/n/configmaps", held).await;
    server.delete("/api/v1/namespaces/n", Value::Null).await;
    let free = json!({"spec": {"finalizers": null}});
    server.ask(Method::PATCH, "/api/v1/namespaces/n", MERGE, free).await;
    let (code, namespace) = server.get("/api/v1/namespaces/n").await;
    assert_eq!((code, &namespace["status"]["phase"]), (200, &json!("Terminating")));
    for name in ["default", "tombolo-system"] {
        let path = format!("/api/v1/namespaces/{name}");
        assert_eq!(server.delete(&path, Value::Null).await.0, 403, "{name} is always there");
    }
}

#[tokio::test]
async fn nothing_new_comes_of_a_kind_that_is_going() {
    let server = server().await;
    server.apply(DEFINITION, gadgets(&["v1"])).await;
    let mut gadget = json!({"apiVersion": "example.com/v1", "kind": "Gadget",
        "metadata": {"name": "g", "finalizers": ["example.com/hold"]}});
    let path = "/apis/example.com/v1/namespaces/default/gadgets";
    server.post(path, gadget.clone()).await;
    server.delete(DEFINITION, Value::Null).await;
    gadget["metadata"]["name"] = json!("h");
    assert_eq!(server.post(path, gadget).await.0, 405);
}

#[tokio::test]
async fn nobody_acts_as_somebody_else() {
    let server = server().await;
    let token = Token::from_bytes([7; 32]).reveal();
    let request = |impersonate: Option<&str>| {
        let mut request = Request::get(MAPS).header("authorization", format!("bearer {token}"));
        if let Some(user) = impersonate {
            request = request.header("impersonate-user", user);
        }
        request.body(Body::empty()).expect("a request")
    };
    assert_eq!(server.send(request(None)).await.0, 200);
    assert_eq!(server.send(request(Some("nobody"))).await.0, 403);
}

/// An access token as `tombolo token create` stores it.
fn access_token(token: &Token) -> Value {
    let record = AccessToken::new(token, "bob", Role::Guest, None, None).expect("a record");
    json!({"apiVersion": "v1", "kind": "Secret", "type": token::ACCESS_TOKEN_TYPE,
        "metadata": {"name": token.hash().secret_name()}, "data": record.to_data()})
}

/// The clock stands still and jumps to the next timer, so that nothing is waited for.
#[tokio::test(start_paused = true)]
async fn a_watch_ends_when_the_token_behind_it_is_revoked() {
    let server = server().await;
    let token = Token::from_bytes([9; 32]);
    let secrets = format!("/api/v1/namespaces/{}/secrets", token::SYSTEM_NAMESPACE);
    assert_eq!(server.post(&secrets, access_token(&token)).await.0, 201);
    let request = Request::get(format!("{MAPS}?watch=1"))
        .header("authorization", format!("Bearer {}", token.reveal()))
        .body(Body::empty());
    let answer = server.api.router().oneshot(request.expect("a request")).await.expect("an answer");
    assert_eq!(answer.status().as_u16(), 200);
    let revoked = format!("{secrets}/{}", token.hash().secret_name());
    assert_eq!(server.delete(&revoked, Value::Null).await.0, 200);
    let stream = axum::body::to_bytes(answer.into_body(), 1 << 20).await.expect("it ends");
    let last: Value = serde_json::from_slice(&stream).expect("one line");
    assert_eq!((&last["type"], &last["object"]["code"]), (&json!("ERROR"), &json!(401)));
}

/// A client goes on from the revision of the last event; with an older one it would see this again.
#[tokio::test]
async fn what_leaves_a_selection_is_told_with_the_revision_at_which_it_left() {
    let server = server().await;
    let mut inside = map("a");
    inside["metadata"]["labels"] = json!({"tier": "edge"});
    let made = server.post(MAPS, inside).await.1;
    let start = made["metadata"]["resourceVersion"].as_str().expect("a revision");
    let request =
        Request::get(format!("{MAPS}?watch=1&labelSelector=tier%3Dedge&resourceVersion={start}"))
            .extension(Subject::first_admin())
            .body(Body::empty());
    let answer = server.api.router().oneshot(request.expect("a request")).await.expect("an answer");
    let outside = json!({"metadata": {"labels": {"tier": "cloud"}}});
    let left = server.ask(Method::PATCH, &format!("{MAPS}/a"), MERGE, outside).await.1;

    let mut lines = answer.into_body().into_data_stream();
    let line = lines.next().await.expect("a line").expect("of bytes");
    let told: Value = serde_json::from_slice(&line).expect("one event");
    assert_eq!(told["type"], "DELETED", "{told}");
    assert_ne!(left["metadata"]["resourceVersion"], start);
    assert_eq!(told["object"]["metadata"]["resourceVersion"], left["metadata"]["resourceVersion"]);
    assert_eq!(told["object"]["metadata"]["labels"]["tier"], "edge", "its last state inside");
}

/// A client goes on from the revision of the last event here as well.
#[tokio::test]
async fn what_is_deleted_is_told_to_a_selection_with_the_revision_of_the_deletion() {
    let server = server().await;
    let mut inside = map("a");
    inside["metadata"]["labels"] = json!({"tier": "edge"});
    let made = server.post(MAPS, inside).await.1;
    let start = made["metadata"]["resourceVersion"].as_str().expect("a revision").to_owned();
    assert_eq!(server.delete(&format!("{MAPS}/a"), Value::Null).await.0, 200);
    let list = server.get(MAPS).await.1;
    let deleted_at = &list["metadata"]["resourceVersion"];
    assert_ne!(*deleted_at, start);
    for selection in ["", "labelSelector=tier%3Dedge&", "fieldSelector=metadata.name%3Da&"] {
        let request = Request::get(format!("{MAPS}?watch=1&{selection}resourceVersion={start}"))
            .extension(Subject::first_admin())
            .body(Body::empty());
        let answer = server.api.router().oneshot(request.expect("a request")).await;
        let mut lines = answer.expect("an answer").into_body().into_data_stream();
        let line = lines.next().await.expect("a line").expect("of bytes");
        let told: Value = serde_json::from_slice(&line).expect("one event");
        assert_eq!(told["type"], "DELETED", "{selection}: {told}");
        let version = &told["object"]["metadata"]["resourceVersion"];
        assert_eq!(version, deleted_at, "{selection}");
    }
}

#[tokio::test]
async fn a_watcher_is_given_large_objects_one_at_a_time() {
    let server = server().await;
    server.post(MAPS, map("large")).await;
    let start = server.get(MAPS).await.1["metadata"]["resourceVersion"].clone();
    let path = format!("{MAPS}/large");
    for index in 0..8 {
        let body = json!({"data": {"x": format!("{index}{}", "x".repeat(700_000))}});
        assert_eq!(server.ask(Method::PATCH, &path, MERGE, body).await.0, 200);
    }
    let start = start.as_str().expect("a revision");
    let request = Request::get(format!("{MAPS}?watch=1&resourceVersion={start}"))
        .extension(Subject::first_admin())
        .body(Body::empty());
    let answer = server.api.router().oneshot(request.expect("a request")).await.expect("an answer");
    let mut chunks = answer.into_body().into_data_stream();
    for _ in 0..8 {
        let chunk = chunks.next().await.expect("a chunk").expect("of bytes");
        assert!(chunk.len() < 1_000_000, "{} bytes at once", chunk.len());
    }
}

#[tokio::test]
async fn a_selection_is_found_in_a_long_history() {
    let server = server().await;
    let start = server.get(MAPS).await.1["metadata"]["resourceVersion"].clone();
    for number in 0..60 {
        let mut object = map(&format!("map-{number}"));
        object["metadata"]["labels"] = json!({"number": number.to_string()});
        object["data"]["x"] = json!("x".repeat(40_000));
        assert_eq!(server.post(MAPS, object).await.0, 201);
    }
    let start = start.as_str().expect("a revision");
    let selection = "labelSelector=number%20in%20(1%2C%2030%2C%2059)";
    let request = Request::get(format!("{MAPS}?watch=1&{selection}&resourceVersion={start}"))
        .extension(Subject::first_admin())
        .body(Body::empty());
    let answer = server.api.router().oneshot(request.expect("a request")).await.expect("an answer");
    let mut chunks = answer.into_body().into_data_stream();
    let mut told = Vec::new();
    while told.len() < 3 {
        let chunk = chunks.next().await.expect("a chunk").expect("of bytes");
        for line in chunk.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let event: Value = serde_json::from_slice(line).expect("a line of JSON");
            told.push(event["object"]["metadata"]["name"].as_str().expect("a name").to_owned());
        }
    }
    assert_eq!(told, ["map-1", "map-30", "map-59"]);
}

#[tokio::test]
async fn a_watch_of_metadata_is_asked_for_in_the_words_of_an_object() {
    let server = server().await;
    let accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    let request = Request::get(format!("{MAPS}?watch=1&timeoutSeconds=1"))
        .header("accept", accept)
        .extension(Subject::first_admin())
        .body(Body::empty());
    assert_eq!(server.send(request.expect("a request")).await.0, 200);
}
