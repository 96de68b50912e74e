//! Raw requests and what Kubernetes answers to them, as tables: `tests/probes/*.yaml`, one claim after the
//! other. They are asked of the embedded API; with `TOMBOLO_KUBE_APISERVER=http://127.0.0.1:8001`, where
//! `kubectl proxy` listens, of that cluster instead. What may differ there is said in the row itself.

use std::collections::BTreeMap;
use std::time::Duration;

use http::Request;
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde::Deserialize;
use serde_json::{Value, json};
use tombolo_apiserver::{Api, garbage};
use tombolo_identity::{Subject, Token};
use tombolo_store::{Options, Store};

/// What is cleared up in the background takes its time on a busy machine.
const DEADLINE: Duration = Duration::from_secs(60);
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(20);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Scenario {
    claim: String,
    steps: Vec<Step>,
}

/// One request. `$NS`, `$CORE` (the path of the namespace's core objects), `$GROUP` (a group of the scenario's
/// own) and what earlier steps have kept are filled in everywhere.
#[derive(Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Step {
    /// `METHOD PATH`.
    ask: String,
    /// Of the body; a patch must say which kind of patch it is.
    #[serde(rename = "type")]
    type_: Option<String>,
    accept: Option<String>,
    body: Option<Value>,
    /// A body that no YAML can say, as it stands.
    raw: Option<String>,
    /// Lengthens the text at a pointer of the body to so many letters.
    long: BTreeMap<String, usize>,
    /// Repeats the request until the answer is as expected.
    until: bool,
    /// Pointers into the answer whose texts later steps need.
    keep: BTreeMap<String, String>,
    then: Expected,
    /// What a real cluster answers instead, and why that is right too.
    kubernetes: Option<Difference>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Expected {
    code: u16,
    /// Part of the answer: of objects the fields that are named, of lists all items.
    has: Option<Value>,
    /// Pointers that lead nowhere in the answer.
    lacks: Vec<String>,
    /// Texts that the answer contains.
    says: Vec<String>,
    /// Parts of headers.
    headers: BTreeMap<String, String>,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Difference {
    #[expect(dead_code, reason = "it is for whoever reads the table")]
    why: String,
    then: Expected,
}

struct Answer {
    code: u16,
    headers: http::HeaderMap,
    text: String,
    value: Value,
}

/// Who is asked.
struct Server {
    client: kube::Client,
    is_kubernetes: bool,
    /// Tells the namespaces of this run from those of others.
    run: String,
    _folder: tempfile::TempDir,
}

impl Server {
    async fn start() -> Server {
        let folder = tempfile::tempdir().expect("a folder");
        let run = uuid::Uuid::new_v4().simple().to_string()[..6].to_owned();
        if let Ok(url) = std::env::var("TOMBOLO_KUBE_APISERVER") {
            let config = kube::Config::new(url.parse().expect("the address of a proxy"));
            let client = kube::Client::try_from(config).expect("a client without TLS");
            return Server { client, is_kubernetes: true, run, _folder: folder };
        }
        let store = Store::open(folder.path(), Options::default()).expect("a new store");
        let admin = Token::from_bytes([7; 32]).hash();
        let api = Api::open(store, admin).await.expect("the first objects are written");
        tokio::spawn(garbage::run(api.clone()));
        let client = api.client(Subject::first_admin());
        Server { client, is_kubernetes: false, run, _folder: folder }
    }

    async fn ask(&self, step: &Step) -> Answer {
        let (method, path) = step.ask.split_once(' ').expect("METHOD PATH");
        let type_ = step.type_.as_deref().unwrap_or("application/json");
        let accept = step.accept.as_deref().unwrap_or("application/json");
        let mut request = Request::builder().method(method).uri(path).header("accept", accept);
        let body = match (&step.body, &step.raw) {
            (Some(body), _) => lengthened(body.clone(), &step.long).to_string(),
            (None, Some(raw)) => raw.clone(),
            (None, None) => String::new(),
        };
        if !body.is_empty() {
            request = request.header("content-type", type_);
        }
        let request = request.body(Body::from(body.into_bytes())).expect("a request");
        let answer = self.client.send(request).await.expect("an answer");
        let (parts, body) = answer.into_parts();
        let bytes = body.collect().await.expect("a whole body").to_bytes();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let value = serde_json::from_slice(&bytes).unwrap_or_default();
        Answer { code: parts.status.as_u16(), headers: parts.headers, text, value }
    }

    /// What was not as it should be, if anything.
    async fn try_step(&self, step: &Step, kept: &mut BTreeMap<String, String>) -> Option<String> {
        let expected = match &step.kubernetes {
            Some(other) if self.is_kubernetes => &other.then,
            _ => &step.then,
        };
        let deadline = tokio::time::Instant::now() + DEADLINE;
        loop {
            let answer = self.ask(step).await;
            let Some(problem) = problem(expected, &answer) else {
                for (name, pointer) in &step.keep {
                    let found = answer.value.pointer(pointer).and_then(Value::as_str);
                    kept.insert(format!("${name}"), found.unwrap_or_default().to_owned());
                }
                return None;
            };
            if !step.until || tokio::time::Instant::now() > deadline {
                let shown: String = answer.text.chars().take(700).collect();
                return Some(format!(
                    "{}: {problem}; the answer is {} {shown}",
                    step.ask, answer.code
                ));
            }
            tokio::time::sleep(LOOK_AGAIN_AFTER).await;
        }
    }

    async fn run(&self, index: usize, table: &str, scenario: &Scenario) -> Option<String> {
        let namespace = format!("probe-{table}-{index}-{}", self.run);
        let core = format!("/api/v1/namespaces/{namespace}");
        let group = format!("{namespace}.example.com");
        let made =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        let make =
            Step { ask: "POST /api/v1/namespaces".into(), body: Some(made), ..Step::default() };
        assert_eq!(self.ask(&make).await.code, 201, "the namespace of the scenario");
        let mut kept: BTreeMap<String, String> =
            [("$NS".into(), namespace), ("$CORE".into(), core), ("$GROUP".into(), group)].into();
        for step in &scenario.steps {
            let problem = self.try_step(&filled(step, &kept), &mut kept).await;
            if let Some(problem) = problem {
                return Some(format!("- {}\n    {problem}\n", scenario.claim));
            }
        }
        None
    }
}

fn problem(expected: &Expected, answer: &Answer) -> Option<String> {
    if answer.code != expected.code {
        return Some(format!("expected {}", expected.code));
    }
    if let Some(wanted) = &expected.has
        && let Some(place) = missing(wanted, &answer.value, "")
    {
        return Some(format!("{place} is not as expected"));
    }
    let lacks = expected.lacks.iter().find(|pointer| answer.value.pointer(pointer).is_some());
    if let Some(pointer) = lacks {
        return Some(format!("{pointer} should not be there"));
    }
    // The texts are those of the message, in which JSON would put a backslash before each quote.
    let message = answer.value["message"].as_str().unwrap_or(&answer.text);
    if let Some(text) = expected.says.iter().find(|text| !message.contains(*text)) {
        return Some(format!("it should say {text:?}"));
    }
    let found = |name: &str| {
        let values = answer.headers.get_all(name).iter();
        values.filter_map(|value| value.to_str().ok()).collect::<Vec<_>>().join("\n")
    };
    let (name, text) = expected.headers.iter().find(|(name, text)| !found(name).contains(*text))?;
    Some(format!("the header {name} should have {text:?}, found {:?}", found(name)))
}

/// Where `found` is not as `wanted`.
fn missing(wanted: &Value, found: &Value, place: &str) -> Option<String> {
    match (wanted, found) {
        (Value::Object(wanted), Value::Object(found)) => wanted.iter().find_map(|(key, value)| {
            missing(value, found.get(key).unwrap_or(&Value::Null), &format!("{place}/{key}"))
        }),
        (Value::Array(wanted), Value::Array(found)) if wanted.len() == found.len() => {
            let pairs = wanted.iter().zip(found).enumerate();
            pairs.into_iter().find_map(|(index, (wanted, found))| {
                missing(wanted, found, &format!("{place}/{index}"))
            })
        }
        (wanted, found) => (wanted != found).then(|| place.to_owned()),
    }
}

fn filled(step: &Step, kept: &BTreeMap<String, String>) -> Step {
    // Longer names first, so that `$A` does not take the beginning of `$AB`.
    let fill = |text: &str| {
        kept.iter().rev().fold(text.to_owned(), |text, (name, value)| text.replace(name, value))
    };
    let value = |value: &Value| -> Value {
        serde_json::from_str(&fill(&value.to_string())).expect("names are plain letters")
    };
    let expected = |expected: &Expected| Expected {
        has: expected.has.as_ref().map(value),
        says: expected.says.iter().map(|text| fill(text)).collect(),
        headers: expected.headers.iter().map(|(name, text)| (name.clone(), fill(text))).collect(),
        ..expected.clone()
    };
    Step {
        ask: fill(&step.ask),
        body: step.body.as_ref().map(value),
        raw: step.raw.as_deref().map(fill),
        then: expected(&step.then),
        kubernetes: step.kubernetes.as_ref().map(|difference| Difference {
            then: expected(&difference.then),
            ..difference.clone()
        }),
        ..step.clone()
    }
}

fn lengthened(mut body: Value, long: &BTreeMap<String, usize>) -> Value {
    for (pointer, letters) in long {
        *body.pointer_mut(pointer).expect("the text is there") = json!("x".repeat(*letters));
    }
    body
}

async fn check(table: &str, text: &str) {
    let scenarios: Vec<Scenario> = serde_saphyr::from_str(text).expect("the table can be read");
    let server = Server::start().await;
    let mut problems = Vec::new();
    for (index, scenario) in scenarios.iter().enumerate() {
        problems.extend(server.run(index, table, scenario).await);
    }
    let (bad, all) = (problems.len(), scenarios.len());
    assert!(problems.is_empty(), "{bad} of {all} claims do not hold:\n{}", problems.concat());
}

macro_rules! tables {
    ($($name:ident),* $(,)?) => {$(
        #[tokio::test]
        async fn $name() {
            check(stringify!($name), include_str!(concat!("probes/", stringify!($name), ".yaml"))).await;
        }
    )*};
}

tables![cores, definitions, events, lifetimes, metadata, negotiation, numbers, options, rules];
