//! Whatever is sent: the right Status, a sentence that helps, and nothing changed.

use http::{Method, Request};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

use tombolo_testkit::Tombolo;

const APPS: &str = "/apis/tombolo.dev/v1alpha1/namespaces/default/apps";
const SITES: &str = "/apis/tombolo.dev/v1alpha1/sites";
const SITE: &str = "/apis/tombolo.dev/v1alpha1/sites/alps";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const STEPS: &str = "application/json-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

/// A request and what has to come of it: the code, the reason, and words of the message.
struct Case {
    what: &'static str,
    method: Method,
    path: String,
    content_type: &'static str,
    body: String,
    code: u16,
    reason: &'static str,
    says: &'static [&'static str],
}

fn case(
    what: &'static str,
    (method, path): (Method, &str),
    (content_type, body): (&'static str, String),
    (code, reason): (u16, &'static str),
    says: &'static [&'static str],
) -> Case {
    Case { what, method, path: path.to_owned(), content_type, body, code, reason, says }
}

/// Sends each case and compares the answer, and then the whole state with the one before.
async fn check(cases: Vec<Case>) {
    let tombolo = Tombolo::start().await;
    let client = tombolo.client().await;
    let site = json!({
        "apiVersion": "tombolo.dev/v1alpha1", "kind": "Site",
        "metadata": {"name": "alps"}, "spec": {"engine": "host"},
    });
    let (code, answer) = send(&client, Method::POST, SITES, JSON, site.to_string()).await;
    assert_eq!(code, 201, "{answer}");
    let before = state(&client).await;

    let mut wrong = Vec::new();
    for case in cases {
        let (code, answer) =
            send(&client, case.method, &case.path, case.content_type, case.body).await;
        let status: Value = serde_json::from_str(&answer).unwrap_or(Value::Null);
        let message = status["message"].as_str().unwrap_or_default();
        let right = code == case.code
            && status["kind"] == "Status"
            && status["code"] == case.code
            && status["reason"] == case.reason
            && case.says.iter().all(|word| message.contains(word));
        if !right {
            let short: String = answer.chars().take(600).collect();
            let expected = format!("{} {} saying {:?}", case.code, case.reason, case.says);
            wrong.push(format!("{}:\n  expected {expected}\n  got {code} {short}", case.what));
        }
        let after = state(&client).await;
        if after != before {
            wrong.push(format!("{}: something changed", case.what));
        }
    }
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

async fn send(
    client: &Client,
    method: Method,
    path: &str,
    content_type: &str,
    body: String,
) -> (u16, String) {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", content_type)
        .header("accept", JSON)
        .body(Body::from(body.into_bytes()))
        .expect("a request");
    let answer = client.send(request).await.expect("an answer");
    let code = answer.status().as_u16();
    let bytes = answer.into_body().collect_bytes().await.expect("a whole answer");
    (code, String::from_utf8_lossy(&bytes).into_owned())
}

/// Everything that the cases could have changed.
async fn state(client: &Client) -> Vec<String> {
    let mut state = Vec::new();
    for path in ["/apis/tombolo.dev/v1alpha1/apps", SITES, MAPS, "/api/v1/namespaces"] {
        let (code, answer) = send(client, Method::GET, path, JSON, String::new()).await;
        assert_eq!(code, 200, "{answer}");
        let list: Value = serde_json::from_str(&answer).expect("JSON");
        state.push(list["items"].to_string());
    }
    state
}

fn map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {}})
}

fn app(spec: &Value) -> String {
    let app = json!({
        "apiVersion": "tombolo.dev/v1alpha1", "kind": "App",
        "metadata": {"name": "shop"}, "spec": spec,
    });
    app.to_string()
}

#[tokio::test]
async fn bodies_that_cannot_be_read() {
    let big = "x".repeat(16 << 20);
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let deep_map = format!(r#"{{"apiVersion":"v1","kind":"ConfigMap","data":{deep}}}"#);
    let post = || (Method::POST, MAPS);
    check(vec![
        case("oversized", post(), (JSON, big), (413, "RequestEntityTooLarge"), &[]),
        case("deep nesting", post(), (JSON, deep_map), (400, "BadRequest"), &["deep"]),
        case("cut off", post(), (JSON, r#"{"kind": "Conf"#.into()), (400, "BadRequest"), &[]),
        case("nothing", post(), (JSON, String::new()), (400, "BadRequest"), &[]),
        case("a list", post(), (JSON, "[]".into()), (400, "BadRequest"), &[]),
        case(
            "a content type that nobody knows",
            post(),
            ("text/html", map("a").to_string()),
            (415, "UnsupportedMediaType"),
            &["text/html", "application/json"],
        ),
        case(
            "a patch without a type of patch",
            (Method::PATCH, SITE),
            (JSON, "{}".into()),
            (415, "UnsupportedMediaType"),
            &["application/json", "merge-patch"],
        ),
    ])
    .await;
}

#[tokio::test]
async fn objects_that_are_not_what_they_say() {
    let other = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}});
    let version = json!({"apiVersion": "v9", "kind": "ConfigMap", "metadata": {"name": "a"}});
    let mut elsewhere = map("a");
    elsewhere["metadata"]["namespace"] = json!("other");
    let post = || (Method::POST, MAPS);
    check(vec![
        case("another kind", post(), (JSON, other.to_string()), (400, "BadRequest"), &["Secret"]),
        case("a version", post(), (JSON, version.to_string()), (400, "BadRequest"), &["v9"]),
        case(
            "another namespace",
            post(),
            (JSON, elsewhere.to_string()),
            (400, "BadRequest"),
            &["namespace"],
        ),
        case("a bad name", post(), (JSON, map("A b!").to_string()), (422, "Invalid"), &["A b!"]),
        case(
            "no name",
            post(),
            (JSON, json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}}).to_string()),
            (422, "Invalid"),
            &["name"],
        ),
        case(
            "a namespace that is not there",
            (Method::POST, "/api/v1/namespaces/nowhere/configmaps"),
            (JSON, map("a").to_string()),
            (404, "NotFound"),
            &["nowhere"],
        ),
        case(
            "one that is there already",
            (Method::POST, SITES),
            (
                JSON,
                json!({
                    "apiVersion": "tombolo.dev/v1alpha1", "kind": "Site",
                    "metadata": {"name": "alps"}, "spec": {"engine": "host"},
                })
                .to_string(),
            ),
            (409, "AlreadyExists"),
            &["alps"],
        ),
    ])
    .await;
}

#[tokio::test]
async fn fields_that_do_not_fit() {
    let component = |extra: Value| {
        let mut component = json!({"name": "web", "run": [{"container": {"image": "nginx:1"}}]});
        component.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        app(&json!({"components": [component]}))
    };
    let strict = format!("{APPS}?fieldValidation=Strict");
    check(vec![
        case(
            "a number as text",
            (Method::POST, APPS),
            (JSON, component(json!({"replicas": "two"}))),
            (422, "Invalid"),
            &["spec.components[0].replicas", "whole number", "two"],
        ),
        case(
            "a number out of range",
            (Method::POST, APPS),
            (JSON, component(json!({"replicas": -1}))),
            (422, "Invalid"),
            &["spec.components[0].replicas"],
        ),
        case(
            "a quantity that is none",
            (Method::POST, APPS),
            (JSON, component(json!({"needs": {"memory": "plenty"}}))),
            (422, "Invalid"),
            &["spec.components[0].needs.memory", "plenty"],
        ),
        case(
            "nothing where something is needed",
            (Method::POST, APPS),
            (JSON, app(&json!({}))),
            (422, "Invalid"),
            &["spec.components"],
        ),
        case(
            "an unknown field",
            (Method::POST, &strict),
            (JSON, component(json!({"replcas": 2}))),
            (400, "BadRequest"),
            &["spec.components[0].replcas", "replicas"],
        ),
        case(
            "an engine that nobody has",
            (Method::PATCH, SITE),
            (MERGE, json!({"spec": {"engine": "dokcer"}}).to_string()),
            (422, "Invalid"),
            &["spec.engine", "dokcer", "docker"],
        ),
    ])
    .await;
}

#[tokio::test]
async fn patches_that_cannot_be_applied() {
    let patch = || (Method::PATCH, SITE);
    let steps = |steps: Value| (STEPS, steps.to_string());
    check(vec![
        case(
            "a step to nowhere",
            patch(),
            steps(json!([{"op": "replace", "path": "/spec/nothing/here", "value": 1}])),
            (422, "Invalid"),
            &["/spec/nothing/here"],
        ),
        case(
            "a step that nobody knows",
            patch(),
            steps(json!([{"op": "rename", "path": "/spec/engine"}])),
            (400, "BadRequest"),
            &["rename"],
        ),
        case("steps that are none", patch(), steps(json!({"op": "add"})), (400, "BadRequest"), &[]),
        case(
            "a stale resourceVersion",
            patch(),
            (
                MERGE,
                json!({"metadata": {"resourceVersion": "1"}, "spec": {"owner": "a"}}).to_string(),
            ),
            (409, "Conflict"),
            &["alps", "modified"],
        ),
        case(
            "another name",
            patch(),
            (MERGE, json!({"metadata": {"name": "andes"}}).to_string()),
            (400, "BadRequest"),
            &["andes"],
        ),
        case(
            "an object that is not there",
            (Method::PATCH, "/apis/tombolo.dev/v1alpha1/sites/andes"),
            (MERGE, json!({"spec": {"owner": "a"}}).to_string()),
            (404, "NotFound"),
            &["andes"],
        ),
        case(
            "an apply without a manager",
            patch(),
            (APPLY, "{apiVersion: tombolo.dev/v1alpha1, kind: Site}".into()),
            (422, "Invalid"),
            &["fieldManager"],
        ),
        case(
            "an apply that is no YAML",
            (Method::PATCH, &format!("{SITE}?fieldManager=a")),
            (APPLY, "{apiVersion: [".into()),
            (400, "BadRequest"),
            &[],
        ),
    ])
    .await;
}

#[tokio::test]
async fn questions_that_make_no_sense() {
    let get = |path: &str| (Method::GET, format!("{SITES}{path}"));
    let ask = |what, (method, path): (Method, String), outcome, says| {
        case(what, (method, &path), (JSON, String::new()), outcome, says)
    };
    let bad = (400, "BadRequest");
    check(vec![
        ask("a bad label selector", get("?labelSelector=a%20in%20(b"), bad, &["selector"]),
        ask("a bad field selector", get("?fieldSelector=spec.nothing%3D1"), bad, &["spec.nothing"]),
        ask("a bad limit", get("?limit=many"), bad, &["limit"]),
        ask("a bad continue", get("?limit=1&continue=nonsense"), bad, &["continue"]),
        ask("a bad version", get("?watch=1&resourceVersion=new"), bad, &["resourceVersion"]),
        ask(
            "a bad match",
            get("?resourceVersionMatch=Perhaps"),
            (422, "Invalid"),
            &["resourceVersionMatch"],
        ),
        ask("an object", get("/andes"), (404, "NotFound"), &["andes"]),
        ask("a subresource", get("/alps/log"), (404, "NotFound"), &[]),
        ask(
            "a group",
            (Method::GET, "/apis/nothing.example/v1/things".into()),
            (404, "NotFound"),
            &[],
        ),
        ask("a path", (Method::GET, "/nothing/here".into()), (404, "NotFound"), &[]),
        ask("a verb on a list", (Method::PUT, SITES.into()), (405, "MethodNotAllowed"), &[]),
        ask("a verb on an object", (Method::POST, SITE.into()), (405, "MethodNotAllowed"), &[]),
    ])
    .await;
}

#[tokio::test]
async fn nobody_is_let_in_without_credentials() {
    let tombolo = Tombolo::start().await;
    drop(tombolo.client().await);
    // Plain HTTP is for loopback, and no credentials go over it; so neither does anything else.
    for (path, code) in [("/healthz", 200), ("/livez", 200), ("/readyz", 200), (SITES, 401)] {
        let server = format!("http://{}", tombolo.address());
        let client = Client::try_from(kube::Config::new(server.parse().unwrap())).unwrap();
        let (found, answer) = send(&client, Method::GET, path, JSON, String::new()).await;
        assert_eq!(found, code, "{path}: {answer}");
    }
}
