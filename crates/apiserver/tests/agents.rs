//! What an agent with valid credentials reaches, and what it does not; asked of the whole API in
//! process. Sites `north` (nodes n1 and n2) and `south` (s1) each have an Assignment in namespace
//! `shop` that names no node, and n2 has one of its own; the subject is the agent of n1.

use axum::body::Body;
use expect_test::{Expect, expect};
use futures::StreamExt as _;
use http::{Method, Request};
use serde_json::{Value, json};
use tombolo_apiserver::Api;
use tombolo_identity::{Subject, Token};
use tombolo_store::{Options, Store};
use tower::ServiceExt as _;

const OURS: &str = "/apis/tombolo.dev/v1alpha1";
const SHOP: &str = "/apis/tombolo.dev/v1alpha1/namespaces/shop/assignments";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/tombolo-system/leases";
const MERGE: &str = "application/merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";
const JSON_PATCH: &str = "application/json-patch+json";

struct Server {
    api: Api,
    _folder: tempfile::TempDir,
}

fn assignment(name: &str, site: &str, secret: &str) -> Value {
    json!({
        "apiVersion": "tombolo.dev/v1alpha1", "kind": "Assignment",
        "metadata": {"name": name, "finalizers": ["tombolo.dev/undeploy"],
            // The label lies: both claim to be of the north.
            "labels": {"tombolo.dev/site": "north"}},
        "spec": {"app": "web", "component": "front", "replica": 0, "site": site, "engine": "host",
            "run": {"process": {"command": ["true"],
                "secretEnv": {"KEY": {"name": secret, "key": "k"}},
                "files": [{"path": "/c", "config": {"name": "settings", "key": "k"}}]}}},
    })
}

impl Server {
    async fn start() -> Server {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Store::open(folder.path(), Options::default()).expect("a new store");
        let admin = Token::from_bytes([7; 32]).hash();
        let api = Api::open(store, admin).await.expect("the first objects are written");
        let server = Server { api, _folder: folder };
        for site in ["north", "south"] {
            server
                .make(
                    &format!("{OURS}/sites"),
                    json!({
                        "apiVersion": "tombolo.dev/v1alpha1", "kind": "Site",
                        "metadata": {"name": site}, "spec": {"engine": "host"},
                    }),
                )
                .await;
        }
        for (node, site) in [("n1", "north"), ("n2", "north"), ("s1", "south")] {
            server
                .make(
                    &format!("{OURS}/nodes"),
                    json!({
                        "apiVersion": "tombolo.dev/v1alpha1", "kind": "Node",
                        "metadata": {"name": node}, "spec": {"site": site},
                    }),
                )
                .await;
        }
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
        server.make("/api/v1/namespaces", namespace).await;
        server.make(SHOP, assignment("mine", "north", "mine")).await;
        server.make(SHOP, assignment("theirs", "south", "theirs")).await;
        let mut beside = assignment("beside", "north", "beside");
        beside["spec"]["node"] = json!("n2");
        server.make(SHOP, beside).await;
        for secret in ["mine", "theirs", "beside", "nobodys"] {
            server
                .make(
                    "/api/v1/namespaces/shop/secrets",
                    json!({
                        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": secret},
                    }),
                )
                .await;
        }
        for map in ["settings", "others"] {
            server
                .make(
                    "/api/v1/namespaces/shop/configmaps",
                    json!({
                        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": map},
                    }),
                )
                .await;
        }
        server
    }

    async fn send(
        &self,
        subject: Subject,
        (method, path, type_): Line<'_>,
        body: Value,
    ) -> (u16, Value) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let request = Request::builder().method(method).uri(path).header("content-type", type_);
        let request = request.extension(subject).body(Body::from(body)).expect("a request");
        let answer = self.api.router().oneshot(request).await.expect("an answer");
        let code = answer.status().as_u16();
        if path.contains("watch=") && code == 200 {
            return (code, first_lines(answer.into_body()).await);
        }
        let bytes = axum::body::to_bytes(answer.into_body(), 1 << 24).await.expect("a body");
        (code, serde_json::from_slice(&bytes).unwrap_or_default())
    }

    async fn make(&self, path: &str, body: Value) {
        let line = (Method::POST, path, "application/json");
        let (code, answer) = self.send(Subject::first_admin(), line, body).await;
        assert_eq!(code, 201, "{answer}");
    }

    async fn admin(&self, method: Method, path: &str, body: Value) -> (u16, Value) {
        let type_ = if method == Method::PATCH { MERGE } else { "application/json" };
        self.send(Subject::first_admin(), (method, path, type_), body).await
    }

    async fn agent(&self, method: Method, path: &str, type_: &str, body: Value) -> (u16, Value) {
        let subject = Subject::agent("north", "n1").expect("valid");
        self.send(subject, (method, path, type_), body).await
    }

    async fn get(&self, path: &str) -> (u16, Value) {
        self.agent(Method::GET, path, "", Value::Null).await
    }

    /// `CODE what came`, for a line of the expectation.
    async fn shown(&self, path: &str) -> String {
        let (code, answer) = self.get(path).await;
        let names: Vec<&str> = match answer["items"].as_array().or(answer.as_array()) {
            Some(items) => items.iter().map(name_of).collect(),
            None => vec![name_of(&answer)],
        };
        format!("{code} {}\n", names.join(" ")).replace(" \n", "\n")
    }
}

type Line<'a> = (Method, &'a str, &'a str);

fn name_of(value: &Value) -> &str {
    let object = value.get("object").unwrap_or(value);
    object["metadata"]["name"].as_str().unwrap_or_default()
}

/// What a watch has to say at once, and a moment later.
async fn first_lines(body: Body) -> Value {
    let mut stream = body.into_data_stream();
    let mut lines = Vec::new();
    while let Some(Ok(chunk)) = stream.next().await {
        for line in chunk.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            lines.push(serde_json::from_slice::<Value>(line).expect("a line of JSON"));
        }
    }
    Value::Array(lines)
}

#[track_caller]
fn same(found: &str, expect: Expect) {
    expect.assert_eq(found);
}

/// Everything that an agent may want to look at, its own and not.
fn paths() -> Vec<String> {
    vec![
        format!("{SHOP}/mine"),
        format!("{SHOP}/theirs"),
        format!("{SHOP}/beside"),
        format!("{SHOP}/nobodys"),
        SHOP.to_owned(),
        format!("{SHOP}?fieldSelector=spec.site%3Dnorth"),
        format!("{SHOP}?fieldSelector=spec.site%3Dsouth"),
        format!("{SHOP}?fieldSelector=spec.site%21%3Dsouth"),
        format!("{SHOP}?fieldSelector=spec.site%3Dnorth,spec.site%3Dsouth"),
        format!("{SHOP}?fieldSelector=metadata.name%3Dtheirs"),
        format!("{SHOP}?labelSelector=tombolo.dev/site%3Dnorth"),
        format!("{SHOP}?labelSelector=tombolo.dev/site+in+(north,south)"),
        format!("{OURS}/assignments?fieldSelector=spec.site%3Dnorth"),
        format!("{OURS}/assignments"),
        format!("{SHOP}?fieldSelector=spec.site%3Dnorth&watch=1&timeoutSeconds=1"),
        format!("{SHOP}?fieldSelector=spec.site%3Dsouth&watch=1&timeoutSeconds=1"),
        format!("{SHOP}?labelSelector=tombolo.dev/site%3Dnorth&watch=1&timeoutSeconds=1"),
        format!("{SHOP}?watch=1&timeoutSeconds=1"),
        format!("{SHOP}/theirs?watch=1&timeoutSeconds=1"),
        format!("{OURS}/nodes/n1"),
        format!("{OURS}/nodes/n2"),
        format!("{OURS}/nodes"),
        format!("{OURS}/nodes?fieldSelector=spec.site%3Dnorth"),
        format!("{OURS}/nodes?fieldSelector=metadata.name%3Dn1"),
        format!("{OURS}/nodes?fieldSelector=metadata.name%3Dn1&watch=1&timeoutSeconds=1"),
        format!("{OURS}/sites/north"),
        format!("{OURS}/apps"),
        format!("{OURS}/jointokens"),
        "/api/v1/namespaces/shop/secrets/mine".to_owned(),
        "/api/v1/namespaces/shop/secrets/theirs".to_owned(),
        "/api/v1/namespaces/shop/secrets/beside".to_owned(),
        "/api/v1/namespaces/shop/secrets/nobodys".to_owned(),
        "/api/v1/namespaces/shop/secrets".to_owned(),
        "/api/v1/secrets?fieldSelector=metadata.name%3Dmine".to_owned(),
        "/api/v1/namespaces/shop/secrets?fieldSelector=metadata.name%3Dmine".to_owned(),
        "/api/v1/namespaces/default/secrets/mine".to_owned(),
        "/api/v1/namespaces/tombolo-system/secrets/mine".to_owned(),
        "/api/v1/namespaces/shop/configmaps/settings".to_owned(),
        "/api/v1/namespaces/shop/configmaps/others".to_owned(),
        "/api/v1/namespaces/shop/events".to_owned(),
        LEASES.to_owned(),
        "/tombolo/audit".to_owned(),
        "/tombolo/backup".to_owned(),
    ]
}

#[tokio::test]
async fn reads_are_of_the_own_site_and_node_alone() {
    let server = Server::start().await;
    let mut found = String::new();
    for path in paths() {
        found.push_str(&format!("{path}  ->  {}", server.shown(&path).await));
    }
    same(
        &found.replace("/apis/tombolo.dev/v1alpha1", ""),
        expect![[r#"
        /namespaces/shop/assignments/mine  ->  200 mine
        /namespaces/shop/assignments/theirs  ->  404
        /namespaces/shop/assignments/beside  ->  404
        /namespaces/shop/assignments/nobodys  ->  404
        /namespaces/shop/assignments  ->  403
        /namespaces/shop/assignments?fieldSelector=spec.site%3Dnorth  ->  200 mine
        /namespaces/shop/assignments?fieldSelector=spec.site%3Dsouth  ->  403
        /namespaces/shop/assignments?fieldSelector=spec.site%21%3Dsouth  ->  403
        /namespaces/shop/assignments?fieldSelector=spec.site%3Dnorth,spec.site%3Dsouth  ->  200
        /namespaces/shop/assignments?fieldSelector=metadata.name%3Dtheirs  ->  403
        /namespaces/shop/assignments?labelSelector=tombolo.dev/site%3Dnorth  ->  200 mine
        /namespaces/shop/assignments?labelSelector=tombolo.dev/site+in+(north,south)  ->  403
        /assignments?fieldSelector=spec.site%3Dnorth  ->  200 mine
        /assignments  ->  403
        /namespaces/shop/assignments?fieldSelector=spec.site%3Dnorth&watch=1&timeoutSeconds=1  ->  200 mine
        /namespaces/shop/assignments?fieldSelector=spec.site%3Dsouth&watch=1&timeoutSeconds=1  ->  403
        /namespaces/shop/assignments?labelSelector=tombolo.dev/site%3Dnorth&watch=1&timeoutSeconds=1  ->  200 mine
        /namespaces/shop/assignments?watch=1&timeoutSeconds=1  ->  403
        /namespaces/shop/assignments/theirs?watch=1&timeoutSeconds=1  ->  404
        /nodes/n1  ->  200 n1
        /nodes/n2  ->  403
        /nodes  ->  403
        /nodes?fieldSelector=spec.site%3Dnorth  ->  403
        /nodes?fieldSelector=metadata.name%3Dn1  ->  200 n1
        /nodes?fieldSelector=metadata.name%3Dn1&watch=1&timeoutSeconds=1  ->  200 n1
        /sites/north  ->  403
        /apps  ->  403
        /jointokens  ->  403
        /api/v1/namespaces/shop/secrets/mine  ->  200 mine
        /api/v1/namespaces/shop/secrets/theirs  ->  404
        /api/v1/namespaces/shop/secrets/beside  ->  404
        /api/v1/namespaces/shop/secrets/nobodys  ->  404
        /api/v1/namespaces/shop/secrets  ->  403
        /api/v1/secrets?fieldSelector=metadata.name%3Dmine  ->  403
        /api/v1/namespaces/shop/secrets?fieldSelector=metadata.name%3Dmine  ->  200 mine
        /api/v1/namespaces/default/secrets/mine  ->  404
        /api/v1/namespaces/tombolo-system/secrets/mine  ->  404
        /api/v1/namespaces/shop/configmaps/settings  ->  200 settings
        /api/v1/namespaces/shop/configmaps/others  ->  404
        /api/v1/namespaces/shop/events  ->  403
        /apis/coordination.k8s.io/v1/namespaces/tombolo-system/leases  ->  403
        /tombolo/audit  ->  403
        /tombolo/backup  ->  403
    "#]],
    );
}

#[tokio::test]
async fn of_an_assignment_it_writes_the_status_and_lets_go_of_it_at_its_end() {
    let server = Server::start().await;
    let (mine, theirs) = (format!("{SHOP}/mine"), format!("{SHOP}/theirs"));
    let status = json!({"status": {"agent": "n1", "restarts": 3}});
    let patch = Method::PATCH;
    let of = |path: &str| format!("{path}/status");
    assert_eq!(server.agent(patch.clone(), &of(&mine), MERGE, status.clone()).await.0, 200);
    assert_eq!(server.agent(patch.clone(), &of(&theirs), MERGE, status.clone()).await.0, 404);
    let beside = format!("{SHOP}/beside");
    assert_eq!(server.agent(patch.clone(), &of(&beside), MERGE, status.clone()).await.0, 404);
    let held = json!({"metadata": {"finalizers": ["tombolo.dev/undeploy"]}});
    assert_eq!(server.agent(patch.clone(), &beside, MERGE, held).await.0, 404);

    // Through the status nothing else can be changed.
    let sly = json!({"status": {"agent": "n1"}, "spec": {"site": "south"},
        "metadata": {"labels": {"x": "y"}, "finalizers": []}});
    let (code, answer) = server.agent(patch.clone(), &of(&mine), MERGE, sly).await;
    assert_eq!(code, 200);
    assert_eq!(answer["spec"]["site"], "north");
    assert_eq!(answer["metadata"]["finalizers"], json!(["tombolo.dev/undeploy"]));
    assert_eq!(answer["metadata"]["labels"], json!({"tombolo.dev/site": "north"}));

    let mut codes = Vec::new();
    for (type_, change) in [
        (MERGE, json!({"spec": {"stopped": true}})),
        (MERGE, json!({"spec": {"site": "south"}})),
        (MERGE, json!({"metadata": {"labels": {"a": "b"}}})),
        (MERGE, json!({"metadata": {"annotations": {"a": "b"}}})),
        (MERGE, json!({"metadata": {"finalizers": null}})),
        (
            MERGE,
            json!({"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Namespace",
            "name": "default", "uid": "1"}]}}),
        ),
        (JSON_PATCH, json!([{"op": "replace", "path": "/spec/site", "value": "south"}])),
    ] {
        codes.push(server.agent(patch.clone(), &mine, type_, change).await.0);
    }
    let apply = format!("{mine}?fieldManager=agent&force=true");
    codes
        .push(server.agent(patch.clone(), &apply, APPLY, assignment("mine", "north", "x")).await.0);
    let (_, mut whole) = server.get(&mine).await;
    whole["spec"]["stopped"] = json!(true);
    codes.push(server.agent(Method::PUT, &mine, "application/json", whole).await.0);
    assert_eq!(codes, [403; 9]);

    for (method, path) in
        [(Method::DELETE, mine.as_str()), (Method::DELETE, SHOP), (Method::POST, SHOP)]
    {
        let body =
            if method == Method::POST { assignment("new", "north", "theirs") } else { json!({}) };
        let code = server.agent(method.clone(), path, "application/json", body).await.0;
        assert!([403, 404].contains(&code), "{method} {path}: {code}");
    }
    let new = format!("{SHOP}/new?fieldManager=agent");
    assert_eq!(
        server.agent(patch.clone(), &new, APPLY, assignment("new", "north", "x")).await.0,
        404
    );

    let (code, _) = server.admin(Method::DELETE, &mine, json!({})).await;
    assert_eq!(code, 200);
    let released = json!({"metadata": {"finalizers": null}});
    assert_eq!(server.agent(patch, &mine, MERGE, released).await.0, 200);
    assert_eq!(server.admin(Method::GET, &mine, Value::Null).await.0, 404);
}

#[tokio::test]
async fn of_nodes_and_leases_it_writes_its_own() {
    let server = Server::start().await;
    let patch = Method::PATCH;
    let status = json!({"status": {"securityScore": 80}});
    let node = |name: &str| format!("{OURS}/nodes/{name}");
    let of = |name: &str| format!("{OURS}/nodes/{name}/status");
    assert_eq!(server.agent(patch.clone(), &of("n1"), MERGE, status.clone()).await.0, 200);
    for name in ["n2", "s1"] {
        assert_eq!(server.agent(patch.clone(), &of(name), MERGE, status.clone()).await.0, 403);
    }
    let spec = json!({"spec": {"site": "south"}});
    assert_eq!(server.agent(patch.clone(), &node("n1"), MERGE, spec).await.0, 403);
    let key = json!({"metadata": {"annotations": {"tombolo.dev/key": "mine"}}, "status": {}});
    assert_eq!(server.agent(patch.clone(), &of("n1"), MERGE, key).await.0, 200);
    let (_, stored) = server.get(&node("n1")).await;
    assert_eq!(stored["metadata"]["annotations"], Value::Null, "the status changes the status");

    let lease = |name: &str| {
        json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name},
            "spec": {"holderIdentity": "n1.a", "leaseDurationSeconds": 40},
        })
    };
    let json_type = "application/json";
    assert_eq!(server.agent(Method::POST, LEASES, json_type, lease("node-n1")).await.0, 201);
    assert_eq!(server.agent(Method::POST, LEASES, json_type, lease("node-n2")).await.0, 403);
    assert_eq!(server.agent(Method::POST, LEASES, json_type, lease("site-north")).await.0, 403);
    assert_eq!(server.agent(Method::POST, LEASES, json_type, lease("controller-x")).await.0, 403);
    let applied = format!("{LEASES}/node-s1?fieldManager=agent");
    assert_eq!(server.agent(patch.clone(), &applied, APPLY, lease("node-s1")).await.0, 403);
    let own = format!("{LEASES}/node-n1");
    let renewed = json!({"spec": {"renewTime": "2026-06-01T00:00:00.000000Z"}});
    assert_eq!(server.agent(patch.clone(), &own, MERGE, renewed).await.0, 200);
    // A comma would make two names of it where copies are listed, and the second that of the original.
    for holder in ["thief,n1.a".to_owned(), "e".repeat(65), "two words".to_owned()] {
        let taken = json!({"spec": {"holderIdentity": holder}});
        assert_eq!(server.agent(patch.clone(), &own, MERGE, taken).await.0, 400, "{holder}");
    }
    let held = json!({"metadata": {"finalizers": ["a.example/b"]}});
    assert_eq!(server.agent(patch, &own, MERGE, held).await.0, 403);
    assert_eq!(server.agent(Method::DELETE, &own, json_type, json!({})).await.0, 403);
}

#[tokio::test]
async fn the_agent_of_a_site_makes_so_many_nodes_and_no_better_ones() {
    let server = Server::start().await;
    let nodes = format!("{OURS}/nodes");
    let node = |name: &str, spec: Value| {
        json!({"apiVersion": "tombolo.dev/v1alpha1", "kind": "Node",
            "metadata": {"name": name, "labels": {"tombolo.dev/managed": "true"}}, "spec": spec})
    };
    let agent = || Subject::site_agent("north").expect("valid");
    let post = async |object: Value| {
        server.send(agent(), (Method::POST, &nodes, "application/json"), object).await
    };
    let patch = async |path: &str, change: Value| {
        server.send(agent(), (Method::PATCH, path, MERGE), change).await.0
    };
    assert_eq!(post(node("m1", json!({"site": "north"}))).await.0, 201);
    assert_eq!(post(node("m2", json!({"site": "south"}))).await.0, 403);
    let placed = json!({"site": "north", "location": {"country": "DE"}});
    let (code, answer) = post(node("m2", placed)).await;
    assert_eq!(code, 403, "{answer}");

    let own = format!("{nodes}/m1");
    let status = format!("{own}/status");
    assert_eq!(patch(&status, json!({"status": {"securityScore": 99}})).await, 403);
    assert_eq!(patch(&status, json!({"status": {"capacity": {"cpu": "4"}}})).await, 200);
    let label = |key: &str| json!({"metadata": {"labels": {key: "true"}}});
    assert_eq!(patch(&own, label("secure.tombolo.dev/hall")).await, 403);
    assert_eq!(patch(&own, label("zone")).await, 200);
    let taint = json!({"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}});
    server.admin(Method::PATCH, &own, taint).await;
    assert_eq!(patch(&own, json!({"spec": {"taints": null}})).await, 403);
    let line = (Method::DELETE, own.as_str(), "application/json");
    assert_eq!(server.send(agent(), line, Value::Null).await.0, 403, "it would come back without");

    // n1 and n2 are there, and m1.
    let more = (3..tombolo_gate::scope::NODES_MAX).map(|number| {
        let object = node(&format!("x{number}"), json!({"site": "north"}));
        server.send(Subject::first_admin(), (Method::POST, &nodes, "application/json"), object)
    });
    assert!(futures::future::join_all(more).await.iter().all(|(code, _)| *code == 201));
    let (code, answer) = post(node("one-more", json!({"site": "north"}))).await;
    let told = answer["message"].as_str().unwrap_or_default();
    assert!(code == 403 && told.contains("1000 already"), "{code} {answer}");
    server.make(&nodes, node("by-hand", json!({"site": "north"}))).await;
}

#[tokio::test]
async fn events_are_about_its_own() {
    let server = Server::start().await;
    let event = |kind: &str, namespace: &str, name: &str| {
        json!({
            "apiVersion": "v1", "kind": "Event", "metadata": {"generateName": "e."},
            "involvedObject": {"apiVersion": "tombolo.dev/v1alpha1", "kind": kind,
                "namespace": namespace, "name": name},
            "reason": "Started", "message": "it runs", "type": "Normal",
        })
    };
    let path = |namespace: &str| format!("/api/v1/namespaces/{namespace}/events");
    let post = async |namespace: &str, event: Value| {
        server.agent(Method::POST, &path(namespace), "application/json", event).await
    };
    let (code, made) = post("shop", event("Assignment", "shop", "mine")).await;
    assert_eq!(code, 201, "{made}");
    assert_eq!(post("default", event("Node", "", "n1")).await.0, 201);
    assert_eq!(post("shop", event("Assignment", "shop", "theirs")).await.0, 403);
    assert_eq!(post("shop", event("Assignment", "shop", "beside")).await.0, 403);
    assert_eq!(post("default", event("Assignment", "shop", "mine")).await.0, 403);
    assert_eq!(post("default", event("Node", "", "n2")).await.0, 403);
    assert_eq!(post("shop", event("Node", "", "n1")).await.0, 403);
    assert_eq!(post("default", event("Namespace", "", "default")).await.0, 403);
    let mut owned = event("Assignment", "shop", "mine");
    owned["metadata"]["finalizers"] = json!(["a.example/b"]);
    assert_eq!(post("shop", owned).await.0, 403);

    let name = made["metadata"]["name"].as_str().expect("a name");
    let own = format!("{}/{name}", path("shop"));
    let again = json!({"count": 2});
    assert_eq!(server.agent(Method::PATCH, &own, MERGE, again).await.0, 200);
    let other = json!({"involvedObject": {"name": "theirs"}});
    assert_eq!(server.agent(Method::PATCH, &own, MERGE, other).await.0, 403);
}

/// The other name of the same objects is no way round.
#[tokio::test]
async fn events_are_about_its_own_under_their_other_name_too() {
    let server = Server::start().await;
    let event = |name: &str| {
        json!({
            "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"generateName": "e."},
            "regarding": {"apiVersion": "tombolo.dev/v1alpha1", "kind": "Assignment",
                "namespace": "shop", "name": name},
            "eventTime": "2026-01-02T03:04:05.000000Z", "reason": "Started", "type": "Normal",
            "action": "Start", "reportingController": "tombolo.dev/agent", "reportingInstance": "n1",
        })
    };
    let path = "/apis/events.k8s.io/v1/namespaces/shop/events";
    let post =
        async |event: Value| server.agent(Method::POST, path, "application/json", event).await;
    let (code, made) = post(event("mine")).await;
    assert_eq!(code, 201, "{made}");
    assert_eq!(post(event("theirs")).await.0, 403);
    // What an agent may read is asked of the object, whatever it is called.
    assert_eq!(server.get(path).await.0, 403);
    let own = format!("{path}/{}", made["metadata"]["name"].as_str().expect("a name"));
    let series = json!({"series": {"count": 2, "lastObservedTime": "2026-01-02T03:04:06.000000Z"}});
    assert_eq!(server.agent(Method::PATCH, &own, MERGE, series).await.0, 200);
    let other = json!({"regarding": {"name": "theirs"}});
    assert_ne!(server.agent(Method::PATCH, &own, MERGE, other).await.0, 200);
}

#[tokio::test]
async fn a_removed_or_revoked_node_is_out_with_its_next_request() {
    let server = Server::start().await;
    let list = format!("{SHOP}?fieldSelector=spec.site%3Dnorth");
    assert_eq!(server.get(&list).await.0, 200);
    let node = format!("{OURS}/nodes/n1");
    let revoked =
        |value: Value| json!({"metadata": {"annotations": {"tombolo.dev/revoked": value}}});
    server.admin(Method::PATCH, &node, revoked(json!("2026-06-01T00:00:00Z"))).await;
    let (code, answer) = server.get(&list).await;
    assert_eq!(code, 401);
    assert!(answer["message"].as_str().is_some_and(|text| text.contains("was revoked")));
    server.admin(Method::PATCH, &node, revoked(Value::Null)).await;
    assert_eq!(server.get(&list).await.0, 200);
    server.admin(Method::DELETE, &format!("{OURS}/sites/north"), json!({})).await;
    assert_eq!(server.get(&list).await.0, 401);
}

#[tokio::test]
async fn a_watch_ends_when_its_agent_is_revoked() {
    let server = Server::start().await;
    let subject = Subject::agent("north", "n1").expect("valid");
    let path = format!("{SHOP}?fieldSelector=spec.site%3Dnorth&watch=1");
    let request = Request::builder().uri(path).extension(subject).body(Body::empty());
    let answer = server.api.router().oneshot(request.expect("a request")).await.expect("an answer");
    let mut lines = answer.into_body().into_data_stream();
    let first = lines.next().await.expect("a line").expect("readable");
    assert!(String::from_utf8_lossy(&first).contains("mine"));
    server.admin(Method::DELETE, &format!("{OURS}/nodes/n1"), json!({})).await;
    let last = lines.next().await.expect("a line").expect("readable");
    let last: Value = serde_json::from_slice(&last).expect("JSON");
    assert_eq!((&last["type"], &last["object"]["code"]), (&json!("ERROR"), &json!(401)));
    assert!(lines.next().await.is_none());
}

#[tokio::test]
async fn an_assignment_that_is_given_to_another_node_leaves_the_watch() {
    let server = Server::start().await;
    let subject = Subject::agent("north", "n1").expect("valid");
    let path = format!("{SHOP}?fieldSelector=spec.site%3Dnorth&watch=1");
    let request = Request::builder().uri(path).extension(subject).body(Body::empty());
    let answer = server.api.router().oneshot(request.expect("a request")).await.expect("an answer");
    let mut lines = answer.into_body().into_data_stream();
    lines.next().await.expect("what is there").expect("readable");
    let mut told = Vec::new();
    for node in ["n2", "n1"] {
        let change = json!({"spec": {"node": node}});
        assert_eq!(server.admin(Method::PATCH, &format!("{SHOP}/mine"), change).await.0, 200);
        let next = lines.next().await.expect("a line").expect("readable");
        let next: Value = serde_json::from_slice(&next).expect("one line of JSON");
        told.push(format!("{} {}", next["type"], name_of(&next)));
    }
    assert_eq!(told, [r#""DELETED" mine"#, r#""ADDED" mine"#]);
    let status = json!({"status": {"agent": "n1"}});
    let mine = format!("{SHOP}/mine/status");
    assert_eq!(server.agent(Method::PATCH, &mine, MERGE, status).await.0, 200);
}

#[tokio::test]
async fn an_assignment_that_leaves_the_site_leaves_the_watch() {
    let server = Server::start().await;
    let subject = Subject::agent("north", "n1").expect("valid");
    let path = format!("{SHOP}?labelSelector=tombolo.dev/site%3Dnorth&watch=1");
    let request = Request::builder().uri(path).extension(subject).body(Body::empty());
    let answer = server.api.router().oneshot(request.expect("a request")).await.expect("an answer");
    let mut lines = answer.into_body().into_data_stream();
    lines.next().await.expect("what is there").expect("readable");
    let change = json!({"spec": {"stopped": true}});
    // Nothing of this one is seen, though its label says so.
    assert_eq!(server.admin(Method::PATCH, &format!("{SHOP}/theirs"), change.clone()).await.0, 200);
    assert_eq!(server.admin(Method::PATCH, &format!("{SHOP}/mine"), change).await.0, 200);
    let next = lines.next().await.expect("a line").expect("readable");
    let next: Value = serde_json::from_slice(&next).expect("one line of JSON");
    assert_eq!((&next["type"], name_of(&next)), (&json!("MODIFIED"), "mine"));
}
