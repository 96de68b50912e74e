//! The store on a disk that runs full: simulated, and for real where that is possible.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::disk::Disk;
use crate::{At, Draft, Error, Expect, Object, Options, Result, Store, Write};

const MIB: u64 = 1024 * 1024;

/// In memory where that is possible: syncing is not what these tests are about.
fn fast_dir() -> TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { TempDir::new_in(memory).unwrap() } else { TempDir::new().unwrap() }
}

fn draft(size: usize) -> Draft {
    Draft { bytes: vec![b'x'; size], revision_at: 0 }
}

fn commit(store: &Store, write: Write) -> Result<Vec<Arc<Object>>> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(store.commit(vec![write]))
}

fn create(store: &Store, number: usize) -> Result<Vec<Arc<Object>>> {
    commit(store, Write::put(format!("k/{number:06}"), Expect::Absent, draft(100_000)))
}

fn delete(store: &Store, key: &str) -> Result<Vec<Arc<Object>>> {
    commit(store, Write::delete(key, Expect::Any, draft(100_000)))
}

/// Creates until there is no room; returns how many there are.
fn fill(store: &Store) -> usize {
    for number in 0..1_000_000 {
        let started = Instant::now();
        match create(store, number) {
            Ok(_) => (),
            Err(Error::Full) => {
                // A tenth of a second on an idle machine; here it only must not hang.
                assert!(started.elapsed() < Duration::from_secs(30), "the answer came late");
                return number;
            }
            Err(error) => panic!("{error}"),
        }
    }
    panic!("the disk never ran full");
}

fn wait_for_room(store: &Store, number: usize) {
    let started = Instant::now();
    while let Err(error) = create(store, number) {
        assert!(matches!(error, Error::Full), "{error}");
        assert!(started.elapsed() < Duration::from_secs(20), "it never recovered");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Fills the disk, deletes everything that fits into the emergency, makes room, writes again.
fn run_full(dir: &Path, disk: Arc<Disk>, make_room: impl FnOnce()) {
    let store = Store::open_on(dir, Options::default(), disk.clone()).unwrap();
    let count = fill(&store);
    assert!(count > 40, "{count}");
    let list = |store: &Store| store.list("", At::Latest, None, usize::MAX).unwrap().objects;
    assert_eq!(list(&store).len(), count, "reads go on, and a refused write leaves no trace");
    assert!(matches!(create(&store, count), Err(Error::Full)));

    for number in 0..count / 2 {
        delete(&store, &format!("k/{number:06}")).unwrap();
    }
    make_room();
    wait_for_room(&store, count);
    let expected = list(&store);
    drop(store);

    let store = Store::open_on(dir, Options::default(), disk).unwrap();
    assert_eq!(list(&store), expected);
    assert_eq!(expected.len(), count - count / 2 + 1);
}

#[test]
fn a_full_disk_refuses_creates_allows_deletes_and_recovers_by_itself() {
    let dir = fast_dir();
    let disk = Arc::new(Disk::new(dir.path()));
    disk.set_room(40 * MIB);
    run_full(dir.path(), disk.clone(), || disk.set_room(200 * MIB));
}

#[test]
fn deleting_enough_ends_the_emergency_without_other_help() {
    let dir = fast_dir();
    let disk = Arc::new(Disk::new(dir.path()));
    disk.set_room(48 * MIB);
    let store = Store::open_on(dir.path(), Options::default(), disk).unwrap();
    let count = fill(&store);
    for number in 0..count {
        delete(&store, &format!("k/{number:06}")).unwrap();
    }
    wait_for_room(&store, 0);
}

#[test]
fn a_store_that_opens_on_a_full_disk_serves_reads_and_deletes() {
    let dir = fast_dir();
    let disk = Arc::new(Disk::new(dir.path()));
    disk.set_room(40 * MIB);
    let store = Store::open_on(dir.path(), Options::default(), disk.clone()).unwrap();
    let count = fill(&store);
    drop(store);
    let store = Store::open_on(dir.path(), Options::default(), disk).unwrap();
    assert_eq!(store.list("", At::Latest, None, 0).unwrap().remaining, count);
    assert!(matches!(create(&store, count), Err(Error::Full)));
    delete(&store, "k/000000").unwrap();
}

/// The same on a real file system, which must be small and ours to fill.
#[test]
fn a_full_file_system_refuses_creates_allows_deletes_and_recovers_by_itself() {
    let dir = TempDir::new().unwrap();
    let mount = |arguments: &[&str]| {
        let status = std::process::Command::new(arguments[0])
            .args(&arguments[1..])
            .arg(dir.path())
            .stderr(std::process::Stdio::null())
            .status();
        status.is_ok_and(|status| status.success())
    };
    if !mount(&["mount", "-t", "tmpfs", "-o", "size=48m", "tmpfs"]) {
        println!("skipped: a file system of its own cannot be mounted here");
        return;
    }
    let other = dir.path().join("other");
    std::fs::write(&other, vec![b'x'; 8 * 1024 * 1024]).unwrap();
    let result = std::panic::catch_unwind(|| {
        let data = dir.path().join("data");
        let disk = Arc::new(Disk::new(&data));
        run_full(&data, disk, || std::fs::remove_file(&other).unwrap());
    });
    assert!(mount(&["umount", "-l"]));
    if let Err(panic) = result {
        std::panic::resume_unwind(panic);
    }
}
