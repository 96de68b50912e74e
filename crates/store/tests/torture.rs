//! Kill -9 at the system calls that write. This test runs itself again as a child under strace,
//! which kills it when it enters the Nth call of a kind; then the store is opened again, and no
//! acknowledged write may be missing or changed, and the log may have no gap and no duplicate.
//!
//! The usual run takes a sample of N; `TOMBOLO_TORTURE=all` walks all of them. With the feature
//! `planted-bugs` the child answers too early, and the test fails unless that is found.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::print_stdout, reason = "a skipped test says why")]

mod fixture;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};

use tombolo_store::{At, Event, Expect, Kind, Options, Store, Write};

use fixture::{block_on, draft, finished, open, put, text};

const CHILD_DIR: &str = "TOMBOLO_TORTURE_DIR";
const WRITERS: usize = 8;
const OPERATIONS: usize = 1000;
/// Every call that changes a file or makes it durable.
const CALLS: [&str; 6] = ["pwrite64", "fdatasync", "fsync", "ftruncate", "fallocate", "rename"];
const SIGABRT: i32 = 6;
const SIGKILL: i32 = 9;

/// What a killed run is known to have promised.
#[derive(Debug)]
struct Acknowledged {
    revision: u64,
    kind: String,
    key: String,
    value: String,
}

/// Not a test of its own: the child that the others start.
#[test]
fn child() {
    let Some(dir) = std::env::var_os(CHILD_DIR) else { return };
    let options = Options {
        #[cfg(feature = "planted-bugs")]
        acknowledge_before_durable: true,
        ..Options::default()
    };
    let store = Store::open(dir, options).unwrap();
    block_on(async {
        let mut tasks = tokio::task::JoinSet::new();
        for writer in 0..WRITERS {
            tasks.spawn(script(store.clone(), writer));
        }
        tasks.join_all().await;
    });
}

/// Creates, updates and deletes a few keys of its own, and reports each answer as it comes.
async fn script(store: Store, writer: usize) {
    for step in 0..OPERATIONS / WRITERS {
        let key = format!("k/{writer}/{}", step % 7);
        let value = format!("{writer}-{step}-{}", "x".repeat(step * 13 % 900));
        let found = store.get(&key).map(|object| object.revision);
        let (kind, write) = match (found, step % 5) {
            (None, _) => ("Created", Write::put(&*key, Expect::Absent, draft(&value))),
            (Some(revision), 4) => {
                ("Deleted", Write::delete(&*key, Expect::Revision(revision), draft(&value)))
            }
            (Some(revision), _) => {
                ("Updated", Write::put(&*key, Expect::Revision(revision), draft(&value)))
            }
        };
        let revision = store.commit(vec![write]).await.unwrap()[0].revision;
        // One system call, so that a kill leaves whole lines.
        let line = format!("\nack {revision} {kind} {key} {value}\n");
        std::io::stdout().write_all(line.as_bytes()).unwrap();
        std::io::stdout().flush().unwrap();
    }
}

/// Runs the child with one fault injected. Returns what it acknowledged and the signal that
/// ended it.
fn run_child(dir: &Path, inject: &str) -> (Vec<Acknowledged>, Option<i32>) {
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
    let acknowledged = lines.lines().filter_map(|line| {
        let mut words = line.strip_prefix("ack ")?.split(' ');
        Some(Acknowledged {
            revision: words.next()?.parse().ok()?,
            kind: words.next()?.to_owned(),
            key: words.next()?.to_owned(),
            value: words.next()?.to_owned(),
        })
    });
    // strace ends in the way its child did; a shell would say 128 and the signal.
    let status = output.status;
    let signal = status.signal().or_else(|| status.code().filter(|c| *c > 128).map(|c| c - 128));
    (acknowledged.collect(), signal)
}

/// Opens what a killed child left; says what is wrong with it.
fn verify(dir: &Path, acknowledged: &[Acknowledged]) -> Result<(), String> {
    let store = Store::open(dir, Options::default()).map_err(|error| error.to_string())?;
    let mut watch = store.watch("", 0).map_err(|error| error.to_string())?;
    let mut log: Vec<Event> = Vec::new();
    while watch.cursor() < store.revision() {
        log.extend(watch.now().map_err(|error| error.to_string())?.events);
    }
    let mut replayed: BTreeMap<&str, &Event> = BTreeMap::new();
    for (event, revision) in log.iter().zip(1..) {
        if event.revision() != revision {
            return Err(format!("{} stands at the place of {revision}", event.revision()));
        }
        match event.kind {
            Kind::Created | Kind::Updated => replayed.insert(event.key(), event),
            Kind::Deleted => replayed.remove(event.key()),
        };
    }
    let mut revisions = std::collections::BTreeSet::new();
    for promised in acknowledged {
        let at = usize::try_from(promised.revision).unwrap() - 1;
        let event = log.get(at).ok_or_else(|| format!("{} is lost", promised.revision))?;
        let same = format!("{:?}", event.kind) == promised.kind
            && event.key() == promised.key
            && text(&event.object) == finished(&promised.value, promised.revision);
        if !same || !revisions.insert(promised.revision) {
            return Err(format!("{} is not what was promised", promised.revision));
        }
    }
    let listed = store.list("", At::Latest, None, usize::MAX).unwrap().objects;
    if !listed.iter().map(|o| o.revision).eq(replayed.values().map(|event| event.revision())) {
        return Err("the objects are not what the log leads to".to_owned());
    }
    let next = put(&store, "afterwards", "x").map_err(|error| error.to_string())?;
    if next.revision != log.len() as u64 + 1 {
        return Err("writing does not go on where it ended".to_owned());
    }
    Ok(())
}

fn strace_works() -> bool {
    let status = Command::new("strace")
        .args(["-f", "-qq", "-o", "/dev/null", "true"])
        .stderr(Stdio::null())
        .status();
    let works = status.is_ok_and(|status| status.success());
    if !works {
        println!("skipped: strace is not here or may not trace");
    }
    works
}

/// The numbers of calls to kill at: all, or a sample that is dense at the start, where the file
/// is created, and goes to the end.
fn numbers() -> Vec<usize> {
    if std::env::var_os("TOMBOLO_TORTURE").is_some_and(|value| value == "all") {
        return (1..).take(100_000).collect();
    }
    let mut numbers = vec![1, 2, 3, 5];
    while let Some(last) = numbers.last().filter(|last| **last < 3000) {
        numbers.push(last * 13 / 10 + 1);
    }
    numbers
}

/// Kills at each sampled call; returns how many runs were killed, and what was found wrong.
fn walk() -> (usize, Vec<String>) {
    let mut killed = 0;
    let mut wrong = Vec::new();
    for call in CALLS {
        for number in numbers() {
            let dir = fixture::fast_dir();
            let inject = format!("{call}:signal=SIGKILL:when={number}");
            let (acknowledged, signal) = run_child(dir.path(), &inject);
            if let Err(what) = verify(dir.path(), &acknowledged) {
                wrong.push(format!("{call} {number}: {what}"));
            }
            if signal != Some(SIGKILL) {
                // There are no more calls of this kind: the run came to its end.
                assert_eq!(acknowledged.len(), OPERATIONS, "{call} {number}: {signal:?}");
                break;
            }
            killed += 1;
        }
    }
    (killed, wrong)
}

#[test]
fn no_kill_loses_an_acknowledged_write() {
    if !strace_works() {
        return;
    }
    let (killed, wrong) = walk();
    println!("{killed} kills");
    assert!(killed >= 20, "{killed} kills prove little");
    if cfg!(feature = "planted-bugs") {
        assert!(!wrong.is_empty(), "the planted bug was not found");
    } else {
        assert!(wrong.is_empty(), "{wrong:#?}");
    }
}

#[test]
fn a_failed_sync_stops_the_process() {
    if !strace_works() {
        return;
    }
    let dir = fixture::fast_dir();
    let (acknowledged, signal) = run_child(dir.path(), "fdatasync:error=EIO:when=40");
    assert_eq!(signal, Some(SIGABRT));
    assert!(!acknowledged.is_empty() && acknowledged.len() < OPERATIONS);
    if cfg!(not(feature = "planted-bugs")) {
        verify(dir.path(), &acknowledged).unwrap();
        drop(open(dir.path()));
    }
}

/// The disk says that it has written 320 bytes, and has not: the whole of a header, or the beginning
/// of a page. What is missing is either written again later or found when the store is opened.
#[test]
fn a_disk_that_lies_loses_nothing_without_a_word() {
    if !strace_works() {
        return;
    }
    let mut found = 0;
    for number in [40, 41, 42, 43, 150, 300, 450] {
        let dir = fixture::fast_dir();
        let inject = format!("pwrite64:retval=320:when={number}");
        let (acknowledged, _) = run_child(dir.path(), &inject);
        match verify(dir.path(), &acknowledged) {
            Ok(()) => (),
            Err(what) if what.contains("tombolo restore --data") => found += 1,
            Err(what) => panic!("pwrite64 {number}: {what}"),
        }
    }
    println!("{found} of the lies left damage, and it was found");
}
