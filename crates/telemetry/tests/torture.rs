//! Kill -9 at the system calls that write. This test runs itself again as a child under strace, which kills
//! it when it enters the Nth call of a kind; then the store is opened again, and no acknowledged sample may
//! be missing, none may be another, and nothing may be called damaged.
//!
//! The usual run takes a sample of N; `TOMBOLO_TORTURE=all` walks all of them.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::print_stdout, reason = "a skipped test says why, the child what it was promised")]

use std::collections::BTreeMap;
use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;

use tombolo_series::{Budget, Labels, Querier as _, Sample, Span};
use tombolo_telemetry::store::{Batch, Config, Store};
use tombolo_telemetry::wire::Series;

const CHILD_DIR: &str = "TOMBOLO_TELEMETRY_TORTURE_DIR";
/// Every call that changes a file or makes it durable.
const CALLS: [&str; 7] = ["write", "fdatasync", "fsync", "rename", "unlink", "openat", "mkdir"];
const SIGKILL: i32 = 9;
/// Of ten minutes each: enough for several cuts of the head, checkpoints and a merge.
const BATCHES: i64 = 120;
const BATCH_MS: i64 = 10 * 60_000;
const SERIES: usize = 7;

fn config() -> Config {
    Config { log_bytes_max: 8_000, ..Config::default() }
}

fn labels(number: usize) -> Labels {
    Labels::new([("__name__", "m"), ("number", number.to_string().as_str())])
}

fn samples(series: usize, batch: i64) -> Vec<Sample> {
    let steps = (0..BATCH_MS).step_by(60_000);
    let value = |at_ms: i64| (at_ms / 1000 * 31 + series as i64) as f64 / 8.0;
    steps.map(|step| batch * BATCH_MS + step).map(|at| Sample::new(at, value(at))).collect()
}

/// Not a test of its own: the child that the other starts.
#[test]
fn child() {
    let Some(dir) = std::env::var_os(CHILD_DIR) else { return };
    let store = Store::open(Path::new(&dir), config()).unwrap();
    for number in 0..BATCHES {
        let series = (0..SERIES)
            .map(|series| Series { labels: labels(series), samples: samples(series, number) })
            .collect();
        let (source, now_ms) = ("torture".to_owned(), i64::MAX / 2);
        let (sender, receiver) = mpsc::channel();
        let batch = Batch { source, series, metadata: Vec::new(), now_ms };
        store.write(batch, move |written| sender.send(written).unwrap());
        let written = receiver.recv().unwrap().unwrap();
        assert_eq!(written.not_taken(), 0);
        // One system call, so that a kill leaves whole lines.
        std::io::stdout().write_all(format!("\nack {number}\n").as_bytes()).unwrap();
        std::io::stdout().flush().unwrap();
        if number % 10 == 9 {
            store.keep_house();
        }
    }
}

/// Runs the child with one fault injected. Returns how many batches it acknowledged, and the signal that
/// ended it.
fn run_child(dir: &Path, inject: &str) -> (i64, Option<i32>) {
    let output = Command::new("strace")
        .args(["-f", "-qq", "-o", "/dev/null", "-e"])
        .arg(format!("trace={}", CALLS.join(",")))
        .args(["-e", &format!("inject={inject}")])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--nocapture", "--test-threads=1"])
        .env(CHILD_DIR, dir)
        .stderr(Stdio::null())
        .output()
        .unwrap();
    let lines = String::from_utf8(output.stdout).unwrap();
    let acknowledged = lines.lines().filter_map(|line| line.strip_prefix("ack ")?.parse().ok());
    // strace ends in the way its child did; a shell would say 128 and the signal.
    let status = output.status;
    let signal = status.signal().or_else(|| status.code().filter(|c| *c > 128).map(|c| c - 128));
    (acknowledged.max().map_or(0, |last: i64| last + 1), signal)
}

/// Opens what a killed child left; says what is wrong with it.
fn verify(dir: &Path, acknowledged: i64) -> Result<(), String> {
    let store = Store::open(dir, config()).map_err(|error| error.to_string())?;
    let mut found: BTreeMap<String, Vec<Sample>> = BTreeMap::new();
    for selected in store.asked(Vec::new()).select(&[], Span::ALL) {
        let mut read = Vec::new();
        let ok = selected.read(Span::ALL, &Budget::default(), &mut read);
        ok.map_err(|error| error.to_string())?;
        found.insert(selected.labels.to_string(), read);
    }
    for series in 0..SERIES {
        let name = labels(series).to_string();
        let found = found.get(&name).map(Vec::as_slice).unwrap_or_default();
        let whole: Vec<Sample> = (0..BATCHES).flat_map(|batch| samples(series, batch)).collect();
        let promised = usize::try_from(acknowledged).unwrap() * samples(series, 0).len();
        if found.len() < promised {
            return Err(format!("{name}: {} of {promised} samples", found.len()));
        }
        // What was not acknowledged may be there, in order and as it was.
        if found != &whole[..found.len()] {
            return Err(format!("{name}: another sample than was written"));
        }
    }
    store.keep_house();
    match store.notices().as_slice() {
        [] => Ok(()),
        notices => Err(format!("damage: {notices:?}")),
    }
}

fn strace_works() -> bool {
    let status = Command::new("strace")
        .args(["-f", "-qq", "-o", "/dev/null", "true"])
        .stderr(Stdio::null())
        .status();
    let works = status.is_ok_and(|status| status.success());
    if !works {
        println!(
            "SKIPPED no_kill_loses_an_acknowledged_sample: strace is not here or may not trace"
        );
    }
    works
}

/// The numbers of calls to kill at: all, or a sample that is dense at the start and goes to the end.
fn numbers() -> Vec<usize> {
    if std::env::var_os("TOMBOLO_TORTURE").is_some_and(|value| value == "all") {
        return (1..).take(100_000).collect();
    }
    let mut numbers = vec![1, 2, 3, 5];
    while let Some(last) = numbers.last().filter(|last| **last < 3000) {
        numbers.push(last * 15 / 10 + 1);
    }
    numbers
}

#[test]
fn no_kill_loses_an_acknowledged_sample() {
    if !strace_works() {
        return;
    }
    let (mut killed, mut wrong) = (0, Vec::new());
    for call in CALLS {
        for number in numbers() {
            let dir = tempfile::tempdir().unwrap();
            let inject = format!("{call}:signal=SIGKILL:when={number}");
            let (acknowledged, signal) = run_child(dir.path(), &inject);
            if let Err(what) = verify(dir.path(), acknowledged) {
                wrong.push(format!("{call} {number}: {what}"));
            }
            if signal != Some(SIGKILL) {
                // There are no more calls of this kind: the run came to its end.
                assert_eq!(acknowledged, BATCHES, "{call} {number}: {signal:?}");
                break;
            }
            killed += 1;
        }
    }
    println!("{killed} runs were killed");
    assert!(killed > 20, "{killed}");
    assert!(wrong.is_empty(), "{wrong:#?}");
}
