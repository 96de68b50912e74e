//! Messages and settings. What is read of this very machine has a row in the table of metrics.

use std::collections::BTreeSet;

use tombolo_driver::fake::Fake;
use tombolo_driver::{Origin, Process, Spec, Workload};
use tombolo_leaf::Kind;
use tombolo_model::Engine;
use tombolo_plan::Monotonic;
use tombolo_series::Sample;
use tombolo_telemetry::wire::Limits;
use tombolo_telemetry::wire::remote_write::decode;

use super::*;
use crate::offer::Metrics;

const WHOSE: Whose<'_> = Whose { node: "crane", host: "4f2a" };

fn series(count: usize) -> Vec<Series> {
    let one = |number: usize| {
        let measured = Measured::new(0, "m", &[("number", &number.to_string())], 0.0);
        let sample = |at_ms: i64| Sample::new(at_ms, number as f64 * 0.1);
        Series { labels: measured.labels, samples: (0..4).map(sample).collect() }
    };
    (0..count).map(one).collect()
}

#[test]
fn a_long_message_is_cut_into_short_ones_that_say_the_same() {
    let all = series(2000);
    let mut messages = Vec::new();
    pack(&all, &[], &mut messages);
    assert!(messages.len() > 1);
    let mut again = Vec::new();
    for message in &messages {
        assert!(message.body.len() <= MESSAGE_BYTES_MAX);
        let batch = decode(Version::V2, &message.body, &Limits::default()).unwrap();
        assert_eq!(batch.samples() as u64, message.samples);
        again.extend(batch.series);
    }
    assert_eq!(again, all);
}

#[test]
fn all_that_is_read_of_this_machine_is_described() {
    let known: BTreeSet<&str> = METRICS.iter().map(|metric| metric.name).collect();
    let root = Root::real();
    let mut reader = Reader::new(root, "/".to_owned());
    let model = Some(Model { idle_watts: 1.0, busy_watts: 2.0, source: Source::Model });
    let start = Monotonic::from_start(Duration::ZERO);
    reader.read(model, start);
    let (texts, power) = reader.read(model, start + Duration::from_secs(1));
    let found = tombolo_leaf::machine::samples(&texts, power.as_ref(), WHOSE, 0);
    let names: BTreeSet<&str> = found.iter().map(|one| one.labels.get("__name__")).collect();
    let unknown: Vec<_> = names.difference(&known).collect();
    assert!(unknown.is_empty(), "without a row: {unknown:?}");
    let expected = [
        "node_cpu_seconds_total",
        "node_memory_MemAvailable_bytes",
        "node_load1",
        "node_filesystem_avail_bytes",
    ];
    for name in expected {
        assert!(names.contains(name), "{name} is missing");
    }
    let mut labels: Vec<String> = found.iter().map(|one| one.labels.to_string()).collect();
    labels.sort();
    let count = labels.len();
    labels.dedup();
    assert_eq!(labels.len(), count, "a series is there twice");
}

#[test]
fn meanings_are_those_of_the_table() {
    let meanings = meanings();
    let counter = meanings.iter().find(|one| one.metric == "node_cpu_seconds_total").unwrap();
    assert_eq!((counter.kind, counter.unit.as_str()), (MetricKind::Counter, "seconds"));
    assert_eq!(meanings.len(), METRICS.len());
    assert!(METRICS.iter().any(|metric| metric.kind == Kind::Info));
}

#[test]
fn what_the_operator_says_counts_and_off_is_off() {
    let offer = |metrics| Offer { metrics, ..Offer::default() };
    assert_eq!(Settings::of(&Offer::default()), Some(Settings::default()));
    let off = Metrics { on: Some(false), every_ms: Some(1000), ..Metrics::default() };
    assert_eq!(Settings::of(&offer(off)), None);
    let quick = Metrics { every_ms: Some(1000), ..Metrics::default() };
    let quick = Settings::of(&offer(quick)).unwrap();
    assert_eq!(quick.pace.read_every, Duration::from_secs(1));
    assert_eq!(quick.pace.send_every, Duration::from_secs(60));
}

#[tokio::test]
async fn what_an_engine_runs_is_told_with_its_app() {
    let engine = Fake::new(Engine::Host);
    engine.start(&spec("u1.a")).await.unwrap();
    engine.start(&spec("u2.a")).await.unwrap();
    engine.stop(&"u2.a".parse().unwrap(), Duration::ZERO).await.unwrap();
    let owners: Owners = Arc::new(BTreeMap::from([("u1".to_owned(), "app-1".to_owned())]));
    let found = of_engine(&engine, &owners).await;
    let [first, second] = &found[..] else { panic!("{found:?}") };
    assert_eq!((first.id.as_str(), first.app_id.as_deref()), ("u1.a", Some("app-1")));
    assert_eq!((first.namespace.as_str(), first.instance.as_str()), ("shop", "web-0"));
    assert_eq!(first.status, Status::Running);
    assert!(first.usage.is_some() && first.started_at.is_some());
    assert_eq!((second.app_id.as_deref(), second.usage), (None, None));
    assert_ne!(second.status, Status::Running);
}

fn spec(id: &str) -> Spec {
    Spec {
        id: id.parse().unwrap(),
        origin: Origin {
            namespace: "shop".to_owned(),
            assignment: "web-0".to_owned(),
            ..Origin::default()
        },
        node: None,
        workload: Workload::Process(Process::default()),
        env: BTreeMap::new(),
        files: Vec::new(),
        ports: Vec::new(),
        fixed_ports: BTreeSet::new(),
        address: None,
        resources: tombolo_model::needs::Resources::default(),
        stop_grace: Duration::ZERO,
        asks: BTreeSet::new(),
        allow: BTreeSet::new(),
        shown: Vec::new(),
        deadline: None,
    }
}
