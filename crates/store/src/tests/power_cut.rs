//! The power goes out at any moment: of what was written since the last sync, any part may be on
//! the disk, in pieces of a sector. A killed process loses nothing of that kind, so that the
//! kill test could not miss a sync that is not there; this one does.

use std::collections::BTreeMap;
use std::sync::Arc;

use tempfile::TempDir;

use crate::disk::{Disk, Recorded};
use crate::{At, Draft, Expect, Options, Store, Write};

const SECTOR: usize = 512;
/// Memory that keeps what it holds, and is written without sectors, can tear even the header.
const WORD: usize = 8;
const CUTS: usize = 200;
const KEYS: u64 = 7;

/// Small, so that dropping old versions is part of it.
fn options() -> Options {
    Options { history_events_max: 10, ..Options::default() }
}

/// Revision `r` writes `r` to a key that follows from it; every fifth write deletes.
fn write(revision: u64, live: &mut BTreeMap<String, u64>) -> Write {
    let key = format!("k/{}", revision % KEYS);
    let size = usize::try_from(revision * 397 % 6000).unwrap();
    let draft = Draft { bytes: vec![b'.'; size], revision_at: size / 2 };
    if revision.is_multiple_of(5) && live.remove(&key).is_some() {
        return Write::delete(key, Expect::Any, draft);
    }
    live.insert(key.clone(), revision);
    Write::put(key, Expect::Any, draft)
}

/// What `write` has left after each revision.
fn expected(revision: u64) -> BTreeMap<String, u64> {
    let mut live = BTreeMap::new();
    for revision in 1..=revision {
        write(revision, &mut live);
    }
    live
}

/// The same numbers in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        usize::try_from(self.0 >> 33).unwrap() % end
    }
}

/// Runs 120 writes; returns the file before them, and all that was done to it.
fn run() -> (Vec<u8>, Vec<Recorded>) {
    let dir = TempDir::new().unwrap();
    let disk = Arc::new(Disk::new(dir.path()));
    let store = Store::open_on(dir.path(), options(), disk.clone()).unwrap();
    let base = std::fs::read(dir.path().join("store.redb")).unwrap();
    disk.recorded.lock().unwrap().clear();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let mut live = BTreeMap::new();
    for revision in 1..=120 {
        let written = runtime.block_on(store.commit(vec![write(revision, &mut live)]));
        assert_eq!(written.unwrap()[0].revision, revision);
        disk.record(Recorded::Acknowledged(revision));
    }
    drop(store);
    let recorded = std::mem::take(&mut *disk.recorded.lock().unwrap());
    (base, recorded)
}

fn apply(image: &mut Vec<u8>, recorded: &Recorded, piece: usize, mut keep: impl FnMut() -> bool) {
    match recorded {
        Recorded::SetLen(len) => image.resize(usize::try_from(*len).unwrap(), 0),
        Recorded::Sync | Recorded::Acknowledged(_) => (),
        Recorded::Write { offset, data } => {
            let offset = usize::try_from(*offset).unwrap();
            for (number, kept) in data.chunks(piece).enumerate() {
                let at = offset + number * piece;
                if keep() && at + kept.len() <= image.len() {
                    image[at..at + kept.len()].copy_from_slice(kept);
                }
            }
        }
    }
}

#[test]
fn no_power_cut_loses_an_acknowledged_write() {
    cut_often(SECTOR);
}

#[test]
fn no_power_cut_loses_an_acknowledged_write_where_a_sector_can_tear() {
    cut_often(WORD);
}

fn cut_often(piece: usize) {
    let (base, recorded) = run();
    let mut numbers = Numbers(1);
    for _ in 0..CUTS {
        let cut = numbers.below(recorded.len() + 1);
        let done = &recorded[..cut];
        let synced = done.iter().rposition(|r| matches!(r, Recorded::Sync)).map_or(0, |at| at + 1);
        let acknowledged = done.iter().rev().find_map(|recorded| match recorded {
            Recorded::Acknowledged(revision) => Some(*revision),
            Recorded::Write { .. } | Recorded::SetLen(_) | Recorded::Sync => None,
        });
        let mut image = base.clone();
        done[..synced].iter().for_each(|recorded| apply(&mut image, recorded, piece, || true));
        // From nearly nothing to nearly everything of what was not synced.
        let share = 1 + numbers.below(9);
        for recorded in &done[synced..] {
            apply(&mut image, recorded, piece, || numbers.below(10) < share);
        }
        check(&image, acknowledged.unwrap_or(0), cut);
    }
}

#[track_caller]
fn check(image: &[u8], acknowledged: u64, cut: usize) {
    let dir = if std::path::Path::new("/dev/shm").is_dir() {
        TempDir::new_in("/dev/shm").unwrap()
    } else {
        TempDir::new().unwrap()
    };
    std::fs::write(dir.path().join("store.redb"), image).unwrap();
    let store = Store::open(dir.path(), options())
        .unwrap_or_else(|error| panic!("after {acknowledged}, cut {cut}: {error}"));
    let page = store.list("", At::Latest, None, usize::MAX).unwrap();
    assert!(
        page.revision == acknowledged || page.revision == acknowledged + 1,
        "{acknowledged} was acknowledged, {} is there, cut {cut}",
        page.revision
    );
    let found: BTreeMap<String, u64> =
        page.objects.iter().map(|object| (object.key.to_string(), object.revision)).collect();
    assert_eq!(found, expected(page.revision));
}
