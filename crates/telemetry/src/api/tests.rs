//! The API as its clients see it, over a store in a folder of the test: who sees and writes what, which
//! mistakes are told how, and what keeps its bounds.

use axum::body::Body;
use axum::http::{Request, StatusCode};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};
use tombolo_series::{Labels, Sample};
use tower::ServiceExt as _;

use super::*;
use crate::wire::remote_write::{Version, encode};
use crate::wire::{Metadata, Series};

const NOW_MS: i64 = 1_700_000_000_000;

struct World {
    service: Service,
    _folder: tempfile::TempDir,
}

fn asker(sees: Sees, stamp: Stamp) -> Asker {
    Asker { name: "tester".to_owned(), sees, stamp }
}

fn admin() -> Asker {
    asker(Sees::Everything, Stamp::AsSaid)
}

fn of_shop() -> Asker {
    let sees = Sees::Only { namespaces: vec!["shop".to_owned()], machines: true };
    asker(sees, Stamp::Namespace("shop".to_owned()))
}

fn series(pairs: &[(&str, &str)], value: f64) -> Series {
    let samples = (0..20).map(|n| Sample::new(NOW_MS - 285_000 + n * 15_000, value + n as f64));
    Series { labels: Labels::new(pairs.iter().copied()), samples: samples.collect() }
}

impl World {
    fn new(bounds: Bounds) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let service = Service::new(folder.path().join("t"), Config::default(), bounds, || NOW_MS);
        Self { service, _folder: folder }
    }

    /// Two namespaces and a machine, which have a metric in common.
    async fn with_namespaces() -> Self {
        let world = Self::new(Bounds::default());
        let all = [
            series(&[("__name__", "up"), ("namespace", "shop"), ("job", "web")], 1.0),
            series(&[("__name__", "up"), ("namespace", "bank"), ("job", "vault")], 100.0),
            series(&[("__name__", "up"), ("site", "north"), ("job", "node")], 1000.0),
            series(&[("__name__", "gold"), ("namespace", "bank"), ("job", "vault")], 5.0),
            series(&[("__name__", "bank_info"), ("namespace", "bank"), ("who", "anna")], 1.0),
        ];
        let told = |metric: &str| Metadata {
            metric: metric.into(),
            help: "what it is".into(),
            ..Metadata::default()
        };
        let body = encode(Version::V1, &all, &[told("gold"), told("up")]);
        let (code, text) = world.write(&admin(), Version::V1, body).await;
        assert_eq!((code, text.as_str()), (StatusCode::NO_CONTENT, ""));
        world
    }

    async fn send(&self, asker: &Asker, request: Request<Body>) -> (StatusCode, String) {
        let mut request = request;
        request.extensions_mut().insert(asker.clone());
        let response = router(self.service.clone()).oneshot(request).await.unwrap();
        let code = response.status();
        let bytes = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
        (code, String::from_utf8_lossy(&bytes).trim_end().to_owned())
    }

    async fn get(&self, asker: &Asker, path: &str) -> (StatusCode, Value) {
        let request = Request::get(format!("{ROOT}/api/v1/{path}")).body(Body::empty()).unwrap();
        let (code, text) = self.send(asker, request).await;
        (code, serde_json::from_str(&text).unwrap())
    }

    async fn query(&self, asker: &Asker, text: &str) -> Value {
        let text = utf8_percent_encode(text, NON_ALPHANUMERIC);
        self.get(asker, &format!("query?query={text}")).await.1
    }

    async fn write(&self, asker: &Asker, version: Version, body: Vec<u8>) -> (StatusCode, String) {
        let kind = match version {
            Version::V1 => Version::CONTENT_TYPE_V1,
            Version::V2 => Version::CONTENT_TYPE_V2,
        };
        let request = Request::post(format!("{ROOT}/api/v1/write"))
            .header("content-type", kind)
            .header("content-encoding", "snappy")
            .body(Body::from(body))
            .unwrap();
        self.send(asker, request).await
    }
}

/// Every way that was thought of to see what is another's.
const TRICKS: &[&str] = &[
    "up",
    "{__name__=~\".+\"}",
    "{__name__!=\"\"}",
    "{namespace=\"bank\"}",
    "{namespace=~\"bank|shop\"}",
    "{namespace!=\"shop\", __name__=~\".*\", job!=\"\"}",
    "{namespace!~\"shop|\", job=~\".+\"}",
    "up{namespace=~\".*\"}",
    "{\"gold\"}",
    "gold or up",
    "up or on() gold",
    "up * on() group_left(who) bank_info",
    "up + ignoring(namespace, job, site) group_left gold",
    "max_over_time(up[5m:1m])",
    "max_over_time({namespace=\"bank\"}[10m])",
    "sum(sum_over_time(gold[5m:15s] @ end()))",
    "label_replace(up, \"namespace\", \"shop\", \"namespace\", \".*\")",
    "label_replace(gold, \"namespace\", \"shop\", \"\", \"\")",
    "label_join(gold, \"x\", \"-\", \"job\")",
    "info(up, {__name__=~\".+_info\"})",
    "count_values(\"namespace\", gold)",
    "count by (namespace) ({__name__=~\".+\"})",
    "topk(10, {__name__=~\".+\"})",
    "absent_over_time(gold[5m])",
    "gold offset 1m",
    "gold @ 1699999990",
    "scalar(gold)",
    "vector(scalar(sum({namespace=\"bank\"})))",
    "up and on() gold",
    "up unless on() gold",
];

#[tokio::test]
async fn no_query_sees_another_namespace() {
    let world = World::with_namespaces().await;
    let without = World::new(Bounds::default());
    let mine = [
        series(&[("__name__", "up"), ("namespace", "shop"), ("job", "web")], 1.0),
        series(&[("__name__", "up"), ("site", "north"), ("job", "node")], 1000.0),
    ];
    without.write(&admin(), Version::V1, encode(Version::V1, &mine, &[])).await;
    for trick in TRICKS {
        let seen = world.query(&of_shop(), trick).await;
        // What is another's is as if it were not there at all.
        let never = without.query(&admin(), trick).await;
        assert_eq!(seen, never, "{trick}");
        assert!(!seen.to_string().contains("vault"), "{trick}: {seen}");
        assert!(!seen.to_string().contains("anna"), "{trick}: {seen}");
    }
    let all = world.query(&admin(), "count({__name__=~\".+\"})").await;
    assert_eq!(all["data"]["result"][0]["value"][1], "5");
}

#[tokio::test]
async fn absent_says_nothing_of_what_is_hidden() {
    let world = World::with_namespaces().await;
    let hidden = world.query(&of_shop(), "absent(gold{namespace=\"bank\"})").await;
    assert_eq!(hidden["data"]["result"][0]["value"][1], "1");
    let shown = world.query(&admin(), "absent(gold{namespace=\"bank\"})").await;
    assert_eq!(shown["data"]["result"], json!([]));
}

#[tokio::test]
async fn lists_of_names_hide_what_queries_hide() {
    let world = World::with_namespaces().await;
    let data = async |asker: &Asker, path: &str| world.get(asker, path).await.1["data"].clone();
    let shop = of_shop();
    assert_eq!(data(&shop, "labels").await, json!(["__name__", "job", "namespace", "site"]));
    assert_eq!(data(&shop, "label/namespace/values").await, json!(["shop"]));
    assert_eq!(data(&shop, "label/job/values").await, json!(["node", "web"]));
    assert_eq!(data(&shop, "label/__name__/values").await, json!(["up"]));
    assert_eq!(data(&shop, "series?match[]=gold").await, json!([]));
    let bank = "series?match[]=%7Bnamespace%3D%22bank%22%7D";
    assert_eq!(data(&shop, bank).await, json!([]));
    assert_eq!(data(&admin(), bank).await.as_array().unwrap().len(), 3);
    assert_eq!(data(&shop, "metadata").await.as_object().unwrap().len(), 1);
    assert_eq!(data(&admin(), "metadata").await.as_object().unwrap().len(), 2);
    assert_eq!(world.get(&shop, "status/tsdb").await.0, StatusCode::FORBIDDEN);
    let nobody = asker(Sees::Nothing, Stamp::Refused("no".to_owned()));
    assert_eq!(data(&nobody, "labels").await, json!([]));
    assert_eq!(world.query(&nobody, "up").await["data"]["result"], json!([]));
    assert_eq!(data(&nobody, "metadata").await, json!({}));
}

#[tokio::test]
async fn without_machines_only_the_namespaces_are_seen() {
    let world = World::with_namespaces().await;
    let sees = Sees::Only { namespaces: vec!["shop".to_owned()], machines: false };
    let answer = world.query(&asker(sees, Stamp::AsSaid), "count(up)").await;
    assert_eq!(answer["data"]["result"][0]["value"][1], "1");
}

#[tokio::test]
async fn what_is_written_gets_the_labels_of_its_sender() {
    let world = World::new(Bounds::default());
    let agent = Stamp::Node { site: "north".into(), node: "crane".into() };
    let agent = asker(Sees::Nothing, agent);
    let lie = [series(&[("__name__", "load"), ("site", "south"), ("node", "x")], 1.0)];
    for version in [Version::V1, Version::V2] {
        let (code, _) = world.write(&agent, version, encode(version, &lie, &[])).await;
        assert_eq!(code, StatusCode::NO_CONTENT);
    }
    let said = world.get(&admin(), "series?match[]=load").await.1;
    let stored = json!([{
        "__name__": "load", "site": "north", "node": "crane", "icos_agent_id": "north",
        "icos_cluster_id": "north", "icos_host_name": "crane",
    }]);
    assert_eq!(said["data"], stored);
    let mine = [series(&[("__name__", "sold"), ("namespace", "bank")], 1.0)];
    world.write(&of_shop(), Version::V1, encode(Version::V1, &mine, &[])).await;
    let said = world.get(&admin(), "series?match[]=sold").await.1;
    assert_eq!(said["data"][0]["namespace"], "shop");
    let guest = asker(Sees::Everything, Stamp::Refused("a guest only looks".to_owned()));
    let (code, text) = world.write(&guest, Version::V1, encode(Version::V1, &mine, &[])).await;
    assert_eq!((code, text.as_str()), (StatusCode::FORBIDDEN, "a guest only looks"));
}

#[tokio::test]
async fn a_message_that_is_none_or_too_large_is_refused_with_its_status() {
    let wire = Limits { bytes_max: 10_000, series_max: 5, ..Limits::default() };
    let world = World::new(Bounds { wire, ..Bounds::default() });
    let check = async |body: Vec<u8>, code: StatusCode, words: &str| {
        let (found, text) = world.write(&admin(), Version::V1, body).await;
        assert_eq!(found, code, "{text}");
        assert!(text.contains(words), "{text}");
    };
    let bad = StatusCode::BAD_REQUEST;
    check(b"nothing".to_vec(), bad, "snappy").await;
    let bomb = snap::raw::Encoder::new().compress_vec(&vec![0; 50_000]).unwrap();
    check(bomb, StatusCode::PAYLOAD_TOO_LARGE, "10000 bytes").await;
    let garbage = snap::raw::Encoder::new().compress_vec(&[0x0a, 0xff]).unwrap();
    check(garbage, bad, "not readable").await;
    let many: Vec<Series> =
        (0..6).map(|n| series(&[("__name__", "a"), ("n", &n.to_string())], 1.0)).collect();
    check(encode(Version::V1, &many, &[]), bad, "more than 5 series").await;
    let nameless = [series(&[("a", "b")], 1.0)];
    check(encode(Version::V1, &nameless, &[]), bad, "__name__").await;
    let labels = Labels::new([("__name__", "a")]);
    let ahead = [Series { labels, samples: vec![Sample::new(NOW_MS * 2, 1.0)] }];
    check(encode(Version::V1, &ahead, &[]), bad, "too far in the future").await;
    let request = Request::post(format!("{ROOT}/api/v1/write"))
        .header("content-type", "text/plain")
        .body(Body::from("up 1"))
        .unwrap();
    let (code, _) = world.send(&admin(), request).await;
    assert_eq!(code, StatusCode::UNSUPPORTED_MEDIA_TYPE);
}

#[tokio::test]
async fn a_refused_sample_does_not_keep_the_others_out() {
    let world = World::new(Bounds::default());
    let first = [series(&[("__name__", "a")], 1.0)];
    world.write(&admin(), Version::V1, encode(Version::V1, &first, &[])).await;
    let other = [series(&[("__name__", "a")], 2.0), series(&[("__name__", "b")], 1.0)];
    let body = encode(Version::V1, &other, &[]);
    let (code, text) = world.write(&admin(), Version::V1, body).await;
    assert_eq!(code, StatusCode::BAD_REQUEST);
    assert!(text.contains("duplicate sample") && text.contains("__name__=\"a\""), "{text}");
    let answer = world.query(&admin(), "count_over_time(b[1h])").await;
    assert_eq!(answer["data"]["result"][0]["value"][1], "20");
    // The same once more is no mistake: a sender that heard no answer says it again.
    let (code, _) = world.write(&admin(), Version::V1, encode(Version::V1, &first, &[])).await;
    assert_eq!(code, StatusCode::NO_CONTENT);
}

#[tokio::test]
async fn mistakes_are_told_in_the_words_of_prometheus() {
    let world = World::with_namespaces().await;
    let check = async |path: &str, code: u16, kind: &str, problem: &str| {
        let (found, answer) = world.get(&admin(), path).await;
        assert_eq!(found.as_u16(), code, "{answer}");
        assert_eq!(answer["errorType"], kind, "{path}");
        assert_eq!(answer["error"], problem, "{path}");
    };
    check(
        "query?query=up%7B",
        400,
        "bad_data",
        "invalid parameter \"query\": 1:4: parse error: unexpected end of input inside braces",
    )
    .await;
    check(
        "query?query=up&time=x",
        400,
        "bad_data",
        "invalid parameter \"time\": cannot parse \"x\" to a valid timestamp",
    )
    .await;
    check(
        "query_range?query=up&start=10&end=5&step=1",
        400,
        "bad_data",
        "invalid parameter \"end\": end timestamp must not be before start time",
    )
    .await;
    check("series", 400, "bad_data", "no match[] parameter provided").await;
    check("query?query=up&timeout=0", 503, "timeout", "query timed out in expression evaluation")
        .await;
    let several = "up%20%2B%20on%28%29%20up";
    let (code, answer) = world.get(&admin(), &format!("query?query={several}")).await;
    assert_eq!((code.as_u16(), &answer["errorType"]), (422, &json!("execution")));
    assert_eq!(world.get(&admin(), "nothing").await.0, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_query_that_costs_too_much_ends() {
    let bounds = Bounds { samples_max: 30, steps_max: 1000, ..Bounds::default() };
    let world = World::new(bounds);
    let all: Vec<Series> =
        (0..5).map(|n| series(&[("__name__", "a"), ("n", &n.to_string())], 1.0)).collect();
    world.write(&admin(), Version::V1, encode(Version::V1, &all, &[])).await;
    let answer = world.query(&admin(), "count_over_time(a[1h])").await;
    assert_eq!(answer["errorType"], "execution");
    let start = NOW_MS / 1000;
    let path = format!("query_range?query=vector(1)&start={}&end={start}&step=1", start - 9000);
    let (code, answer) = world.get(&admin(), &path).await;
    assert_eq!((code.as_u16(), &answer["errorType"]), (422, &json!("execution")), "{answer}");
    let path = format!("query_range?query=vector(1)&start={}&end={start}&step=1", start - 12_000);
    assert_eq!(world.get(&admin(), &path).await.0, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn a_short_query_gets_no_long_answer() {
    let bounds = Bounds { answer_bytes_max: 100_000, ..Bounds::default() };
    let world = World::new(bounds);
    let all: Vec<Series> =
        (0..50).map(|n| series(&[("__name__", "a"), ("n", &n.to_string())], 1.0)).collect();
    world.write(&admin(), Version::V1, encode(Version::V1, &all, &[])).await;
    let (text, join) =
        ("x".repeat(2000), |inner: &str| format!("label_join({inner},\"y\",\"\",\"y\")"));
    let long = format!("label_replace(a,\"y\",\"{text}\",\"\",\"\")");
    assert_eq!(
        world.query(&admin(), &format!("count({})", join(&long))).await["status"],
        "success"
    );
    let answer = world.query(&admin(), &join(&long)).await;
    assert_eq!(answer["errorType"], "execution");
    assert_eq!(
        answer["error"],
        "the answer would be longer than 100000 bytes; aggregate, or ask for less time"
    );
}

#[tokio::test]
async fn a_query_ends_when_nobody_waits_for_it() {
    let bounds = Bounds { steps_max: u64::MAX, queries: 1, ..Bounds::default() };
    let world = World::new(bounds);
    world
        .write(
            &admin(),
            Version::V1,
            encode(Version::V1, &[series(&[("__name__", "a")], 1.0)], &[]),
        )
        .await;
    // Half a million steps, some hundred times.
    let long = vec!["count_over_time(a[6d:1s])"; 100].join(" + ");
    let text = utf8_percent_encode(&long, NON_ALPHANUMERIC).to_string();
    let (path, service) = (format!("query?query={text}"), world.service.clone());
    let request = |path: &str| {
        let mut request =
            Request::get(format!("{ROOT}/api/v1/{path}")).body(Body::empty()).unwrap();
        request.extensions_mut().insert(admin());
        request
    };
    let going = tokio::spawn(router(service.clone()).oneshot(request(&path)));
    // It has its turn when there is none left.
    while world.service.shared.queries.available_permits() > 0 {
        assert!(!going.is_finished(), "it was refused");
        tokio::task::yield_now().await;
    }
    going.abort();
    assert!(going.await.unwrap_err().is_cancelled());
    // Its turn ends with the evaluation, and there is only one.
    let after = world.query(&admin(), "1").await;
    assert_eq!(after["data"]["result"][1], "1");
    let told = world.get(&admin(), "status/tsdb").await.1;
    assert_eq!(told["data"]["tombolo"]["queriesCancelled"], 1);
}

#[tokio::test]
async fn a_query_may_come_as_a_form() {
    let world = World::with_namespaces().await;
    let request = Request::post(format!("{ROOT}/api/v1/query"))
        .header("content-type", "application/x-www-form-urlencoded")
        .body(Body::from("query=count%28up%29&time=1700000000"))
        .unwrap();
    let (code, text) = world.send(&admin(), request).await;
    assert_eq!(code, StatusCode::OK);
    let answer = "{\"status\":\"success\",\"data\":{\"resultType\":\"vector\",\"result\":[{\"metric\":{},\
                  \"value\":[1700000000,\"3\"]}]}}";
    assert_eq!(text, answer);
    let many = world.get(&admin(), "query?query=up&limit=2").await.1;
    assert_eq!(many["data"]["result"].as_array().unwrap().len(), 2);
    assert_eq!(many["warnings"], json!(["results truncated due to limit"]));
}

#[tokio::test]
async fn a_bomb_of_series_names_the_label_that_explodes() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = Config::default();
    config.head.series_per_source_max = 10;
    let folder_of = folder.path().join("t");
    let service = Service::new(folder_of, config, Bounds::default(), || NOW_MS);
    let world = World { service, _folder: folder };
    let bomb: Vec<Series> = (0..40)
        .map(|n| series(&[("__name__", "a"), ("job", "x"), ("request", &n.to_string())], 1.0))
        .collect();
    let (code, text) = world.write(&of_shop(), Version::V1, encode(Version::V1, &bomb, &[])).await;
    assert_eq!(code, StatusCode::BAD_REQUEST);
    assert!(text.contains("tester has 10 series") && text.contains("\"request\""), "{text}");
}
