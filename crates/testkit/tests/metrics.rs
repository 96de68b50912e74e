//! Metrics of a real server: who may write them and as whom, who sees which, and the shell's commands.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use kube::config::AuthInfo;
use kube::{Client, Config};
use serde_json::{Value, json};
use tombolo_series::{Labels, Sample};
use tombolo_telemetry::wire::remote_write::{Version, encode};
use tombolo_telemetry::wire::{Metadata, MetricKind, Series};
use tombolo_testkit::rig::Machine;
use tombolo_testkit::{Rig, Tombolo, rig};

const USAGE: i32 = 2;
const NOT_FOUND: i32 = 3;

/// When all samples are.
const AT_MS: i64 = 1_700_000_000_000;

fn client(tombolo: &Tombolo, auth_info: AuthInfo) -> Client {
    drop(rustls::crypto::ring::default_provider().install_default());
    let mut config = Config::new(format!("https://{}", tombolo.address()).parse().unwrap());
    config.accept_invalid_certs = true;
    config.auth_info = auth_info;
    Client::try_from(config).unwrap()
}

async fn person(tombolo: &Tombolo, role: &[&str]) -> Client {
    let create = [&["token", "create", "--token-only", "--role"], role].concat();
    let token = tombolo.shell(&create).await.ok();
    let token = Some(token.trim().to_owned().into());
    client(tombolo, AuthInfo { token, ..AuthInfo::default() })
}

fn agent(tombolo: &Tombolo, folder: &Path) -> Client {
    let identity: Value =
        serde_json::from_str(&fs::read_to_string(folder.join("agent.json")).unwrap()).unwrap();
    let key = fs::read_to_string(folder.join("agent.key")).unwrap();
    let certificate = identity["certificate"].as_str().unwrap();
    let auth = AuthInfo {
        client_certificate_data: Some(BASE64.encode(certificate)),
        client_key_data: Some(BASE64.encode(key).into()),
        ..AuthInfo::default()
    };
    client(tombolo, auth)
}

fn series(pairs: &[(&str, &str)]) -> Series {
    let samples = (0..40).map(|n| Sample::new(AT_MS - 585_000 + n * 15_000, n as f64));
    Series { labels: Labels::new(pairs.iter().copied()), samples: samples.collect() }
}

/// The code that the server answers with.
async fn write(client: &Client, series: &[Series]) -> u16 {
    let told = Metadata {
        metric: "sold_total".to_owned(),
        kind: MetricKind::Counter,
        help: "what was sold".to_owned(),
        unit: "pieces".to_owned(),
    };
    let request = http::Request::post("/prometheus/api/v1/write")
        .header("content-type", Version::CONTENT_TYPE_V1)
        .header("content-encoding", "snappy")
        .body(encode(Version::V1, series, &[told]))
        .unwrap();
    match client.request_text(request).await {
        Ok(_) => 204,
        Err(kube::Error::Api(status)) => status.code,
        Err(other) => panic!("{other}"),
    }
}

async fn data(client: &Client, path: &str) -> Value {
    let request =
        http::Request::get(format!("/prometheus/api/v1/{path}")).body(Vec::new()).unwrap();
    let answer = client.request_text(request).await.unwrap();
    serde_json::from_str::<Value>(&answer).unwrap()["data"].clone()
}

#[tokio::test]
async fn everybody_writes_as_who_they_are_and_sees_what_is_theirs() {
    let tombolo = Tombolo::start().await;
    let mut machine = Machine::beside(&tombolo);
    // What the agent itself measures would be among it.
    machine.arguments = ["--metrics", "off"].map(str::to_owned).into();
    let rig = Rig::of(tombolo, machine).await;
    let tombolo = &rig.tombolo;
    tombolo.shell(&["create", "namespace", "shop"]).await.ok();
    let user = person(tombolo, &["user", "--for-namespace", "shop", "anna"]).await;
    let guest = person(tombolo, &["guest", "gerd"]).await;
    let agent = agent(tombolo, &tombolo.data().parent().unwrap().join("agent"));

    let load = [("__name__", "load"), ("site", "elsewhere"), ("node", "other")];
    assert_eq!(write(&agent, &[series(&load)]).await, 204);
    let mine = [("__name__", "sold_total"), ("namespace", "bank")];
    assert_eq!(write(&user, &[series(&mine)]).await, 204);
    let other = [("__name__", "gold"), ("namespace", "bank")];
    let manager = person(tombolo, &["manager", "max"]).await;
    assert_eq!(write(&manager, &[series(&other)]).await, 204);
    assert_eq!(write(&guest, &[series(&other)]).await, 403);
    let stranger = client(tombolo, AuthInfo::default());
    assert_eq!(write(&stranger, &[series(&other)]).await, 401);

    let all = "series?match[]=%7B__name__%3D~%22.%2B%22%7D";
    let of_agent = json!({
        "__name__": "load", "site": rig::SITE, "node": rig::NODE, "icos_agent_id": rig::SITE,
        "icos_cluster_id": rig::SITE, "icos_host_name": rig::NODE,
    });
    let of_user = json!({
        "__name__": "sold_total", "namespace": "shop", "exported_namespace": "bank",
    });
    assert_eq!(data(&user, all).await, json!([of_agent, of_user]));
    assert_eq!(data(&guest, all).await.as_array().unwrap().len(), 3);
    let request = http::Request::get("/prometheus/api/v1/query?query=up").body(Vec::new()).unwrap();
    match agent.request_text(request).await {
        Err(kube::Error::Api(status)) => assert_eq!(status.code, 403),
        other => panic!("an agent asks for nothing: {other:?}"),
    }
}

#[tokio::test]
async fn the_shell_asks_a_server_and_lists_its_metrics() {
    let mut tombolo = Tombolo::start().await;
    let manager = person(&tombolo, &["manager", "max"]).await;
    let sold = |shop| series(&[("__name__", "sold_total"), ("shop", shop)]);
    assert_eq!(write(&manager, &[sold("north"), sold("south")]).await, 204);
    // What was acknowledged is there after a crash.
    tombolo.kill9();
    tombolo.restart().await;
    let time = (AT_MS / 1000).to_string();
    let ask = async |more: &[&str]| {
        let query = ["query", "sum by (shop) (sold_total)", "--time", &time];
        tombolo.shell(&[&query, more].concat()).await.ok()
    };
    let table = ask(&[]).await;
    assert!(table.contains("{shop=\"north\"}   39\n"), "{table}");
    let answer: Value = serde_json::from_str(&ask(&["-o", "json"]).await).unwrap();
    assert_eq!(answer["data"]["result"][1]["metric"]["shop"], "south");
    let csv = ask(&["--range", "2m", "--step", "1m", "-o", "csv"]).await;
    assert!(csv.contains("\"{shop=\"\"north\"\"}\",1699999880,31\n"), "{csv}");
    assert!(ask(&["--range", "5m", "-o", "plot"]).await.contains("── {shop=\"south\"}"));
    let list = tombolo.shell(&["metrics", "ls"]).await.ok();
    assert!(list.contains("sold_total   counter   pieces   what was sold"), "{list}");
    let one = tombolo.shell(&["metrics", "describe", "sold_total"]).await.ok();
    assert!(one.contains("Type:   counter") && one.contains("north, south"), "{one}");
    let none = tombolo.shell(&["metrics", "describe", "bought_total"]).await;
    assert_eq!(none.code, Some(NOT_FOUND), "{none:?}");
    let wrong = tombolo.shell(&["query", "sum(sold_total"]).await;
    assert_eq!(wrong.code, Some(USAGE), "{wrong:?}");
    let lines: Vec<&str> = wrong.stderr.lines().collect();
    assert_eq!(lines[1], "  sum(sold_total");
    assert_eq!(lines[2].trim(), "^");
}

#[tokio::test]
async fn files_are_asked_without_a_server() {
    let mut tombolo = Tombolo::start().await;
    tombolo.stop().await;
    let lines =
        (0..60).map(|n| format!("queue{{site=\"a\"}} {} {}\n", n * n, 1_700_000_000 + n * 15));
    let text = format!("# TYPE queue gauge\n{}# EOF\n", lines.collect::<String>());
    let file = tombolo.file("samples.om", &text).display().to_string();
    let query = ["query", "max_over_time(queue[10m])", "--samples", &file];
    let answer = tombolo.shell(&[&query[..], &["-o", "json"]].concat()).await.json();
    let newest = 1_700_000_000 + 59 * 15;
    let expected = json!([{"metric": {"site": "a"}, "value": [newest, "3481"]}]);
    assert_eq!(answer["data"]["result"], expected);
    let earlier = tombolo.shell(&[&query[..], &["--time", "-5m"]].concat()).await.ok();
    assert!(earlier.contains("1521"), "{earlier}");
    let broken = tombolo.file("broken.om", "queue 1 x\n").display().to_string();
    let wrong = tombolo.shell(&["query", "queue", "--samples", &broken]).await;
    assert_eq!(wrong.code, Some(USAGE));
    assert!(wrong.stderr.contains("line 1: \"x\" is not a time"), "{}", wrong.stderr);
}
