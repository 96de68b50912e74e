//! What an agent measures, of a real machine and a real process, seen with `tombolo query` on a real server;
//! and what becomes of it while the server is away.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use tombolo_testkit::rig::{Machine, NODE, SITE};
use tombolo_testkit::{Rig, Tombolo, eventually};

/// As quick as an agent may be told to be.
const QUICK: [&str; 4] = ["--metrics-every", "1s", "--metrics-send-every", "1s"];

async fn rig(arguments: &[&str]) -> Rig {
    let tombolo = Tombolo::start().await;
    let mut machine = Machine::beside(&tombolo);
    machine.arguments = QUICK.iter().chain(arguments).map(|word| (*word).to_owned()).collect();
    Rig::of(tombolo, machine).await
}

/// The samples that a query finds; none while the server is away.
async fn ask(rig: &Rig, query: &str) -> Vec<Value> {
    let ran = rig.tombolo.shell(&["query", query, "-o", "json"]).await;
    let answer: Value = serde_json::from_str(&ran.stdout).unwrap_or_default();
    answer["data"]["result"].as_array().cloned().unwrap_or_default()
}

/// Waits until a query finds something that will do.
async fn until(rig: &Rig, query: &str, will_do: impl Fn(&[Value]) -> bool) -> Vec<Value> {
    eventually(&format!("{query} is answered"), async || {
        let found = ask(rig, query).await;
        (!found.is_empty() && will_do(&found)).then_some(found)
    })
    .await
}

fn number(found: &Value) -> f64 {
    found["value"][1].as_str().unwrap().parse().unwrap()
}

/// What waits on the agent's disk.
fn waiting(folder: &Path) -> usize {
    let entries = fs::read_dir(folder.join("metrics")).into_iter().flatten().filter_map(Result::ok);
    entries.filter(|entry| entry.path().extension().is_some_and(|ending| ending == "msg")).count()
}

#[tokio::test]
async fn a_machine_and_what_runs_on_it_are_measured_with_their_labels() {
    let rig = rig(&["--watts", "4:15"]).await;
    // It works a little, so that there is something to see.
    let busy = json!({"process": {"command": ["sh", "-c", "while :; do :; done"]}});
    rig.assign("web", json!({"run": busy})).await;
    rig.until_up("web").await;

    let memory = until(&rig, "node_memory_MemAvailable_bytes", |_| true).await;
    let labels = &memory[0]["metric"];
    assert_eq!((labels["site"].as_str(), labels["node"].as_str()), (Some(SITE), Some(NODE)));
    assert_eq!((labels["job"].as_str(), labels["instance"].as_str()), (Some("node"), Some(NODE)));
    assert!(number(&memory[0]) > 1e6, "{memory:?}");

    let rate = "rate(container_cpu_usage_seconds_total{component=\"web\"}[30s]) > 0";
    let used = until(&rig, rate, |_| true).await;
    let mut labels = used[0]["metric"].clone();
    for varying in ["id", "icos_host_id"] {
        assert!(labels[varying].as_str().is_some_and(|value| !value.is_empty()), "{labels}");
        labels.as_object_mut().unwrap().remove(varying);
    }
    let expected = json!({
        "namespace": "default", "app": "shop", "component": "web", "instance": "web", "pod": "web",
        "container": "web", "engine": "host", "site": SITE, "node": NODE,
        "icos_agent_id": SITE, "icos_cluster_id": SITE, "icos_host_name": NODE,
    });
    assert_eq!(labels, expected);
    until(&rig, "container_memory_working_set_bytes{instance=\"web\"} > 0", |_| true).await;

    // The operator's figures, and how busy the machine is.
    let watts = until(&rig, "tombolo_node_power_watts", |_| true).await;
    if watts[0]["metric"]["source"] == "said" {
        assert!((4.0..=15.0).contains(&number(&watts[0])), "{watts:?}");
    }

    // The template of ICOS for the security of the hosts of an application.
    let template = "tlum_workload_info{icos_app_component=\"web\"} * on(icos_host_id) group_left() \
        (tlum_host_info * on(ip, hostname) group_left() label_replace(label_replace(SCA_score, \
        \"ip\", \"$1\", \"agent_ip\", \"(.+)\"), \"hostname\", \"$1\", \"agent_hostname\", \"(.+)\"))";
    let score = until(&rig, template, |_| true).await;
    assert_eq!(score[0]["metric"]["status"], "running");
    assert!((0.0..=100.0).contains(&number(&score[0])), "{score:?}");
    until(&rig, "char_node_ram_total_bytes > 0", |_| true).await;
    until(&rig, "up{job=\"node\"} == 1", |_| true).await;
    let described = rig.tombolo.shell(&["metrics", "describe", "node_load1"]).await.ok();
    assert!(described.contains("gauge"), "{described}");

    let top = rig.tombolo.shell(&["top", "--once"]).await.ok();
    let row = top.lines().find(|line| line.starts_with("web ")).unwrap();
    let cells: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(cells[1..5], ["default", "shop", "web", NODE], "{top}");
    assert!(cells[5] != "-" && cells[6].ends_with("Mi"), "{top}");
    assert!(top.lines().any(|line| line.starts_with(SITE)), "{top}");

    // What is there no more ends at once and not when PromQL stops to look back.
    rig.assignments().delete("web", &kube::api::DeleteParams::default()).await.unwrap();
    eventually("the instance is told no more", async || {
        let alive = ask(&rig, "up{job=\"node\"}").await;
        let found = ask(&rig, "tlum_workload_info{icos_app_component=\"web\"}").await;
        (!alive.is_empty() && found.is_empty()).then_some(())
    })
    .await;
}

/// Waits until the agent has nothing to send, and the server is told so.
async fn until_nothing_waits(rig: &Rig) {
    eventually("nothing waits any more", async || (waiting(rig.folder()) == 0).then_some(())).await;
    until(rig, "tombolo_leaf_buffered_samples == 0", |_| true).await;
}

/// The times and values of all samples of a series of which there is one.
async fn history(rig: &Rig, series: &str) -> Vec<(f64, f64)> {
    let found = until(rig, &format!("{series}[30m]"), |_| true).await;
    assert_eq!(found.len(), 1, "{found:?}");
    let pair =
        |pair: &Value| (pair[0].as_f64().unwrap(), pair[1].as_str().unwrap().parse().unwrap());
    found[0]["values"].as_array().unwrap().iter().map(pair).collect()
}

#[tokio::test]
async fn a_server_that_was_away_gets_everything_once() {
    let mut rig = rig(&[]).await;
    until(&rig, "node_load1", |_| true).await;
    let first = history(&rig, "tombolo_leaf_samples_total").await[0];
    rig.tombolo.kill9();
    eventually("metrics wait on the disk", async || (waiting(rig.folder()) >= 5).then_some(()))
        .await;
    rig.tombolo.restart().await;
    until_nothing_waits(&rig).await;

    // Every message says how many samples the agent has taken up to it. So many are there: with a gap it would
    // be less, and what is there twice would be more.
    let counts = history(&rig, "tombolo_leaf_samples_total").await;
    assert!(counts.len() >= 6 && counts[0] == first, "{counts:?}");
    let (at, taken) = counts[counts.len() - 1];
    let query = ["query", "{node=\"crane\"}[30m]", "--time", &format!("{at:.3}"), "-o", "json"];
    let answer = rig.tombolo.shell(&query).await.json();
    let mut count = 0;
    for series in answer["data"]["result"].as_array().unwrap() {
        let is_own = series["metric"]["__name__"].as_str().unwrap().starts_with("tombolo_leaf_");
        for value in series["values"].as_array().unwrap() {
            // Those that say it are not among what they count.
            let says_it = is_own && value[0].as_f64() == Some(at);
            count += u32::from(!says_it);
        }
    }
    assert_eq!(
        f64::from(count),
        taken,
        "{} series",
        answer["data"]["result"].as_array().unwrap().len()
    );
    let lost = until(&rig, "sum(tombolo_leaf_dropped_samples_total)", |_| true).await;
    assert_eq!(number(&lost[0]), 0.0);
    let refused = until(&rig, "tombolo_leaf_refused_samples_total", |_| true).await;
    assert_eq!(number(&refused[0]), 0.0);
}

#[tokio::test]
async fn an_agent_that_is_killed_while_it_is_cut_off_sends_what_waited() {
    let mut rig = rig(&[]).await;
    until(&rig, "node_load1", |_| true).await;
    rig.tombolo.kill9();
    eventually("metrics wait on the disk", async || (waiting(rig.folder()) >= 5).then_some(()))
        .await;
    rig.kill9_agent();
    let before = waiting(rig.folder());
    assert!(before >= 5);
    rig.start_agent(&[]);
    eventually("an agent without a server measures", async || {
        (waiting(rig.folder()) >= before + 2).then_some(())
    })
    .await;
    rig.tombolo.restart().await;
    until_nothing_waits(&rig).await;
    // A message has one reading, and is one file or more.
    let times = history(&rig, "up{job=\"node\"}").await;
    assert!(times.windows(2).all(|pair| pair[0].0 < pair[1].0), "{times:?}");
    let of_the_first_run = history(&rig, "tombolo_leaf_buffered_samples").await;
    assert!(of_the_first_run.iter().any(|(_, waiting)| *waiting > 0.0), "{of_the_first_run:?}");
}

#[tokio::test]
async fn what_is_more_than_may_wait_is_let_go_of_and_counted() {
    let mut rig = rig(&["--metrics-buffer", "16Ki"]).await;
    until(&rig, "node_load1", |_| true).await;
    rig.tombolo.kill9();
    let mut most = 0;
    let mut seen = std::collections::BTreeSet::new();
    eventually("the oldest have made room", async || {
        let entries = fs::read_dir(rig.folder().join("metrics")).into_iter().flatten();
        let names: Vec<_> = entries.filter_map(Result::ok).map(|entry| entry.file_name()).collect();
        most = most.max(names.len());
        seen.extend(names);
        (seen.len() > most + 3).then_some(())
    })
    .await;
    rig.tombolo.restart().await;
    let dropped = "tombolo_leaf_dropped_samples_total{why=\"buffer\"} > 0";
    let dropped = until(&rig, dropped, |_| true).await;
    assert_eq!(dropped[0]["metric"]["node"], NODE);
}

#[tokio::test]
async fn an_agent_that_is_to_measure_nothing_keeps_nothing_and_sends_nothing() {
    let rig = rig(&["--metrics", "off"]).await;
    rig.assign("web", json!({})).await;
    rig.until_up("web").await;
    rig.until_heartbeats(1).await;
    assert_eq!(ask(&rig, "{site=\"north\"}").await, Vec::<Value>::new());
    assert!(!rig.folder().join("metrics").exists());
}
