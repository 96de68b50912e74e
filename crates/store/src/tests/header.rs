//! Headers as redb really writes them, and what is made of them when bytes of them are others.

use std::path::Path;

use tempfile::TempDir;

use crate::database::Database;
use crate::header::{Bytes, HEADER_BYTES, read};
use crate::{Disk, Draft, Expect, Options, Store, Write};

const FLAGS: usize = 9;

fn commit(store: &Store, write: Write) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(store.commit(vec![write])).unwrap();
}

fn header(dir: &Path) -> (Bytes, u64) {
    let file = std::fs::read(dir.join("store.redb")).unwrap();
    (file[..HEADER_BYTES].try_into().unwrap(), file.len() as u64)
}

#[track_caller]
fn is_as_redb_writes_it(dir: &Path) {
    let (bytes, length) = header(dir);
    let read = read(&bytes, length).unwrap();
    assert_eq!(read.bytes, bytes, "nothing of it is to be put right");
    assert_eq!(read.newer(), None);
}

/// A store with a few commits that was closed.
fn closed() -> (Bytes, u64) {
    let dir = TempDir::new().unwrap();
    let store = Store::open(dir.path(), Options::default()).unwrap();
    for number in 0..3 {
        let draft = Draft { bytes: vec![b'.'; 100], revision_at: 0 };
        commit(&store, Write::put(format!("k/{number}"), Expect::Any, draft));
    }
    drop(store);
    header(dir.path())
}

/// The same as if it had been killed.
fn killed() -> (Bytes, u64) {
    let (mut bytes, length) = closed();
    bytes[FLAGS] |= 2;
    (bytes, length)
}

/// Where the slot of the last commit begins, and that of the one before.
fn slots(bytes: &Bytes) -> [usize; 2] {
    if bytes[FLAGS] & 1 == 0 { [64, 192] } else { [192, 64] }
}

#[test]
fn nothing_is_wrong_with_a_header_of_redb_from_its_first_byte_to_growth_and_shrinking() {
    let dir = TempDir::new().unwrap();
    let store = Store::open(dir.path(), Options::default()).unwrap();
    is_as_redb_writes_it(dir.path());
    for number in 0..40 {
        let draft = Draft { bytes: vec![b'.'; 200_000], revision_at: 0 };
        commit(&store, Write::put(format!("k/{}", number % 30), Expect::Any, draft));
        is_as_redb_writes_it(dir.path());
    }
    for number in 0..30 {
        let draft = Draft { bytes: vec![b'.'; 20], revision_at: 0 };
        commit(&store, Write::delete(format!("k/{number}"), Expect::Any, draft));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(store.compact(store.revision())).unwrap();
    let (_, large) = header(dir.path());
    drop(store);
    is_as_redb_writes_it(dir.path());

    let disk = std::sync::Arc::new(Disk::new(dir.path()));
    let mut database = Database::open(dir.path(), &disk, None).unwrap();
    database.shrink().unwrap();
    let (_, small) = header(dir.path());
    assert!(small < large, "{small} of {large} are left");
    is_as_redb_writes_it(dir.path());
    drop(database);
    is_as_redb_writes_it(dir.path());
}

#[test]
fn what_is_the_same_in_every_store_is_put_right() {
    let (sound, length) = closed();
    for at in (10..24).chain(32..64) {
        let mut bytes = sound;
        bytes[at] ^= 0xFF;
        assert_eq!(read(&bytes, length).unwrap().bytes, sound, "byte {at}");
    }
    for bit in 2..8 {
        let mut bytes = sound;
        bytes[FLAGS] ^= 1 << bit;
        assert_eq!(read(&bytes, length).unwrap().bytes, sound, "flag {bit}");
    }
}

#[test]
fn one_wrong_byte_of_a_slot_is_put_right() {
    for (sound, length) in [closed(), killed()] {
        for at in 64..HEADER_BYTES {
            for other in (0..8).map(|bit| 1 << bit).chain((at % 16 == 0).then_some(0xA5)) {
                let mut bytes = sound;
                bytes[at] ^= other;
                assert_eq!(read(&bytes, length).unwrap().bytes, sound, "byte {at}");
                // Together with the bit that says which of the two counts, it is still seen that
                // the other one is the newer.
                bytes[FLAGS] ^= 1;
                assert!(read(&bytes, length).unwrap().newer().is_some(), "byte {at}");
            }
        }
    }
}

#[test]
fn two_wrong_bytes_of_the_slot_that_counts_are_damage() {
    for (sound, length) in [closed(), killed()] {
        let [counting, _] = slots(&sound);
        let mut bytes = sound;
        bytes[counting + 10] ^= 1;
        bytes[counting + 50] ^= 1;
        assert!(read(&bytes, length).unwrap_err().contains("last commit"));
    }
}

#[test]
fn a_slot_that_does_not_count_is_half_written_only_where_the_power_went_out() {
    let tear = |(mut bytes, length): (Bytes, u64)| {
        let [_, other] = slots(&bytes);
        for at in (other + 8..other + 128).step_by(16) {
            bytes[at] ^= 0x55;
        }
        (bytes, length)
    };
    let (bytes, length) = tear(killed());
    let torn = read(&bytes, length).unwrap();
    assert_eq!((torn.bytes, torn.newer()), (bytes, None), "the commit before it is taken as it is");
    let (bytes, length) = tear(closed());
    assert!(read(&bytes, length).unwrap_err().contains("before the last"));
}

#[test]
fn the_length_of_the_file_must_fit_after_an_orderly_end() {
    let (bytes, length) = closed();
    assert!(read(&bytes, length + 4096).unwrap_err().contains("bytes"));
    let (bytes, length) = killed();
    read(&bytes, length + 4096).unwrap();
}
