//! The store over folders of the test: what lasts, what is cut and forgotten, what is damaged.

use std::fs;

use tombolo_series::promql::{self, Options, Query, Value};
use tombolo_series::{Budget, Op, Sample};

use super::*;

const HOUR: i64 = 3600 * 1000;
const STEP: i64 = 15_000;

fn labels(number: usize) -> Labels {
    Labels::new([("__name__", "m"), ("number", number.to_string().as_str())])
}

fn batch(series: Vec<(Labels, Vec<Sample>)>) -> Batch {
    let series = series.into_iter().map(|(labels, samples)| Series { labels, samples }).collect();
    Batch { source: "test".to_owned(), series, metadata: Vec::new(), now_ms: i64::MAX / 2 }
}

/// Ten series, a sample each at every step of the span.
fn fill(store: &Store, from_ms: i64, to_ms: i64) {
    let mut at_ms = from_ms;
    while at_ms < to_ms {
        let end = (at_ms + 40 * STEP).min(to_ms);
        let times = || (at_ms..end).step_by(15_000);
        let of = |n: usize| times().map(|t| Sample::new(t, value(n, t))).collect::<Vec<_>>();
        let written = store.write_and_wait(batch((0..10).map(|n| (labels(n), of(n))).collect()));
        assert_eq!(written.unwrap().not_taken(), 0);
        at_ms = end;
    }
}

fn value(series: usize, at_ms: i64) -> f64 {
    f64::from(u32::try_from((at_ms / STEP * 7 + series as i64 * 13) % 1000).unwrap()) / 4.0
}

/// How many samples are there; each must be right.
fn count(store: &Store) -> usize {
    let mut samples = Vec::new();
    let mut total = 0;
    for selected in store.asked(Vec::new()).select(&[], Span::ALL) {
        let number: usize = selected.labels.get("number").parse().unwrap();
        selected.read(Span::ALL, &Budget::default().tolerant(), &mut samples).unwrap();
        assert!(samples.windows(2).all(|two| two[0].at_ms < two[1].at_ms));
        for sample in &samples {
            assert_eq!(*sample, Sample::new(sample.at_ms, value(number, sample.at_ms)));
        }
        total += samples.len();
    }
    total
}

fn small() -> Config {
    Config { log_bytes_max: 20_000, ..Config::default() }
}

fn steps(hours: i64) -> usize {
    usize::try_from(hours * HOUR / STEP).unwrap() * 10
}

#[test]
fn what_was_acknowledged_is_there_after_a_start() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), Config::default()).unwrap();
    assert!(matches!(Store::open(folder.path(), Config::default()), Err(OpenError::Locked { .. })));
    fill(&store, 0, HOUR);
    let told = Metadata { metric: "m".into(), help: "what it is".into(), ..Metadata::default() };
    let with = Batch { metadata: vec![told.clone()], ..batch(Vec::new()) };
    store.write_and_wait(with).unwrap();
    drop(store);
    let store = Store::open(folder.path(), Config::default()).unwrap();
    assert_eq!(count(&store), steps(1));
    assert_eq!(store.metadata().get("m"), Some(&told));
    assert_eq!(store.notices(), [] as [&str; 0]);
}

#[test]
fn a_day_becomes_blocks_and_nothing_of_it_is_lost_or_twice() {
    let folder = tempfile::tempdir().unwrap();
    for start in 0..3 {
        let store = Store::open(folder.path(), small()).unwrap();
        assert_eq!(count(&store), steps(start * 8));
        fill(&store, start * 8 * HOUR, (start + 1) * 8 * HOUR);
        store.keep_house();
        assert_eq!(count(&store), steps((start + 1) * 8));
        let statistics = store.statistics();
        assert!(statistics.blocks > 0, "{statistics:?}");
        let head = statistics.span.unwrap();
        assert!(head.to_ms - head.from_ms < 3 * HOUR, "{head:?}");
        assert_eq!(store.notices(), [] as [&str; 0]);
    }
    let store = Store::open(folder.path(), small()).unwrap();
    assert!(store.statistics().blocks < 8, "blocks are merged: {:?}", store.statistics());
    let logs = fs::read_dir(folder.path().join("log")).unwrap().count();
    assert!(logs < 10, "old logs go: {logs}");
}

#[test]
fn what_is_too_old_or_too_much_is_forgotten() {
    let folder = tempfile::tempdir().unwrap();
    let config = Config { retention_ms: 6 * HOUR, ..small() };
    let store = Store::open(folder.path(), config).unwrap();
    fill(&store, 0, 16 * HOUR);
    store.keep_house();
    let left = count(&store);
    assert!((steps(6)..=steps(9)).contains(&left), "{left}");
    let late = batch(vec![(labels(77), vec![Sample::new(0, 1.0)])]);
    assert_eq!(store.write_and_wait(late).unwrap().tally.too_old, 1);
    drop(store);
    let config = Config { bytes_max: 1, ..small() };
    let store = Store::open(folder.path(), config).unwrap();
    store.keep_house();
    assert_eq!(store.statistics().blocks, 0);
    assert!(count(&store) <= steps(3));
}

#[test]
fn a_flipped_byte_in_a_block_is_named_and_set_aside_and_the_rest_is_served() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), small()).unwrap();
    fill(&store, 0, 5 * HOUR);
    store.keep_house();
    let before = count(&store);
    drop(store);
    let blocks = folder.path().join("blocks");
    let path = fs::read_dir(&blocks).unwrap().next().unwrap().unwrap().path();
    let mut bytes = fs::read(&path).unwrap();
    bytes[100] ^= 1;
    fs::write(&path, bytes).unwrap();
    let name = path.file_name().unwrap().to_str().unwrap().to_owned();

    let store = Store::open(folder.path(), small()).unwrap();
    let (text, asked) = ("count_over_time(m[5h])", store.asked(Vec::new()));
    let budget = Budget::default().tolerant();
    let (query, options) = (Query::instant(5 * HOUR), Options::default());
    let expr = promql::parse(text).unwrap();
    let answer = promql::evaluate(text, &expr, query, options, &asked, &budget).unwrap();
    assert!(answer.warnings.iter().any(|warning| warning.contains(&name)), "{answer:?}");
    let Value::Vector(points) = answer.value else { panic!("it is a vector") };
    assert_eq!(points.len(), 10);

    store.keep_house();
    let left = count(&store);
    assert!(left < before && left >= before - 480, "{left} of {before}");
    assert!(folder.path().join("quarantine").join(&name).exists());
    assert!(store.notices().iter().any(|notice| notice.contains(&name)), "{:?}", store.notices());
    let expr = promql::parse(text).unwrap();
    let answer = promql::evaluate(text, &expr, query, options, &asked, &budget).unwrap();
    let fresh = Budget::default().tolerant();
    let again = promql::evaluate(text, &expr, query, options, &asked, &fresh).unwrap();
    assert_eq!((again.warnings.len(), answer.value), (0, again.value));
}

#[test]
fn a_block_without_a_readable_index_is_set_aside_whole() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), small()).unwrap();
    fill(&store, 0, 5 * HOUR);
    store.keep_house();
    drop(store);
    let blocks = folder.path().join("blocks");
    let path = fs::read_dir(&blocks).unwrap().next().unwrap().unwrap().path();
    let mut bytes = fs::read(&path).unwrap();
    let end = bytes.len();
    bytes[end - 30] ^= 1;
    fs::write(&path, bytes).unwrap();
    let store = Store::open(folder.path(), small()).unwrap();
    assert!(count(&store) >= steps(1));
    assert!(folder.path().join("quarantine").join(path.file_name().unwrap()).exists());
}

#[test]
fn a_flipped_byte_in_the_log_is_named_and_what_comes_after_it_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), Config::default()).unwrap();
    fill(&store, 0, HOUR);
    drop(store);
    let log = fs::read_dir(folder.path().join("log")).unwrap().next().unwrap().unwrap().path();
    let mut bytes = fs::read(&log).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&log, bytes).unwrap();
    let store = Store::open(folder.path(), Config::default()).unwrap();
    let left = count(&store);
    assert!(left < steps(1) && left > steps(1) / 2, "{left}");
    assert_eq!(store.notices().len(), 1);
    assert!(fs::read_dir(folder.path().join("quarantine")).unwrap().count() == 1);
}

#[test]
fn a_source_with_too_many_series_is_refused_and_others_are_not() {
    let folder = tempfile::tempdir().unwrap();
    let head = HeadConfig { series_per_source_max: 5, ..HeadConfig::default() };
    let store = Store::open(folder.path(), Config { head, ..Config::default() }).unwrap();
    let many = || (0..10).map(|n| (labels(n), vec![Sample::new(0, value(n, 0))])).collect();
    let written = store.write_and_wait(batch(many())).unwrap();
    assert_eq!((written.tally.taken, written.beyond), (5, 5));
    let refusal = written.refusal.unwrap();
    assert_eq!((refusal.source_name.as_str(), refusal.label.as_str()), ("test", "number"));
    let other = Batch { source: "other".to_owned(), ..batch(many()) };
    assert_eq!(store.write_and_wait(other).unwrap().tally.taken, 5);
    drop(store);
    let store = Store::open(folder.path(), Config { head, ..Config::default() }).unwrap();
    let more = batch(vec![(labels(20), vec![Sample::new(0, 0.0)])]);
    assert_eq!(store.write_and_wait(more).unwrap().beyond, 1, "the bound outlives a start");
}

#[test]
fn a_sample_of_tomorrow_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), Config::default()).unwrap();
    let samples = vec![Sample::new(1_000_000, 0.0), Sample::new(1_000_000 + AHEAD_MS_MAX, 0.0)];
    let early = Batch { now_ms: 1_000_000 - 1, ..batch(vec![(labels(0), samples)]) };
    let written = store.write_and_wait(early).unwrap();
    assert_eq!((written.tally.taken, written.ahead), (1, 1));
}

#[test]
fn conditions_that_are_enforced_hold_for_names_and_values_too() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), small()).unwrap();
    fill(&store, 0, 5 * HOUR);
    store.keep_house();
    let only = Matcher::new("number", Op::Matches, "3|4").unwrap();
    let asked = store.asked(vec![only]);
    assert_eq!(asked.label_values("number"), ["3", "4"]);
    assert_eq!(asked.label_names(), ["__name__", "number"]);
    let other = Matcher::equal("number", "5");
    assert!(asked.select(std::slice::from_ref(&other), Span::ALL).is_empty());
    assert!(asked.select_labels(&[other], Span::ALL).is_empty());
}

#[test]
fn queries_go_on_while_samples_come_and_the_head_is_cut() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), small()).unwrap();
    fill(&store, 0, HOUR);
    let done = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let (reader, over) = (store.clone(), Arc::clone(&done));
    let reading = std::thread::spawn(move || {
        let mut seen = 0;
        while !over.load(Ordering::Relaxed) {
            let now = count(&reader);
            assert!(now >= seen, "{now} after {seen}");
            seen = now;
        }
    });
    for hour in 1..13 {
        fill(&store, hour * HOUR, (hour + 1) * HOUR);
        store.keep_house();
    }
    done.store(true, Ordering::Relaxed);
    reading.join().unwrap();
    assert_eq!(count(&store), steps(13));
}
