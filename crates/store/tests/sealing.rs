//! What is secret does not lie in the store's file in clear, and comes back with its key only.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod fixture;

use std::path::Path;

use tombolo_seal::Key;
use tombolo_store::{Amend, Error, Options, Sealing, Store, restore_offline};

use fixture::{block_on, delete, put, text};

const MARKER: &str = "hunter2-hunter2-hunter2";

fn sealed_with(byte: u8) -> Options {
    let sealing = Sealing { key: Key::new([byte; 32]), prefixes: &["/secrets/"] };
    Options { sealing: Some(sealing), ..Options::default() }
}

/// Everything in the folder, the reserve and what is left of other files too.
fn holds_the_marker(dir: &Path) -> bool {
    std::fs::read_dir(dir).unwrap().any(|entry| {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        bytes.windows(MARKER.len()).any(|window| window == MARKER.as_bytes())
    })
}

fn fill(store: &Store) {
    put(store, "/secrets/default/db", &format!("old {MARKER}")).unwrap();
    put(store, "/secrets/default/db", MARKER).unwrap();
    put(store, "/secrets/default/gone", MARKER).unwrap();
    delete(store, "/secrets/default/gone").unwrap();
    put(store, "/configmaps/default/plain", "in clear").unwrap();
}

#[test]
fn a_secret_lies_in_no_file_and_comes_back_with_its_key() {
    let dir = fixture::fast_dir();
    let store = Store::open(dir.path(), sealed_with(1)).unwrap();
    fill(&store);
    let revision = store.revision();
    drop(store);
    assert!(!holds_the_marker(dir.path()));

    let store = Store::open(dir.path(), sealed_with(1)).unwrap();
    assert_eq!(store.revision(), revision);
    assert!(text(&store.get("/secrets/default/db").unwrap()).contains(MARKER));
}

#[test]
fn a_wrong_key_and_no_key_are_called_so_and_change_nothing() {
    let dir = fixture::fast_dir();
    drop(Store::open(dir.path(), sealed_with(1)).unwrap());
    let error = Store::open(dir.path(), sealed_with(2)).unwrap_err();
    assert!(matches!(error, Error::OtherKey { .. }), "{error}");
    let error = Store::open(dir.path(), Options::default()).unwrap_err();
    assert!(matches!(error, Error::NoKey { .. }), "{error}");
    Store::open(dir.path(), sealed_with(1)).unwrap();
}

#[test]
fn a_store_from_before_is_sealed_and_leaves_nothing_in_clear() {
    let dir = fixture::fast_dir();
    let store = Store::open(dir.path(), Options::default()).unwrap();
    fill(&store);
    let (revision, events) = (store.revision(), store.compacted());
    drop(store);
    assert!(holds_the_marker(dir.path()), "or this test tests nothing");

    let store = Store::open(dir.path(), sealed_with(1)).unwrap();
    assert!(!holds_the_marker(dir.path()));
    assert_eq!((store.revision(), store.compacted()), (revision, events));
    assert!(text(&store.get("/secrets/default/db").unwrap()).contains(MARKER));
    assert!(text(&store.get("/configmaps/default/plain").unwrap()).contains("in clear"));
    put(&store, "/secrets/default/new", MARKER).unwrap();
    drop(store);
    assert!(!holds_the_marker(dir.path()));
    Store::open(dir.path(), sealed_with(1)).unwrap();
}

#[test]
fn what_is_restored_is_sealed_with_the_key_of_the_store_it_goes_to() {
    let from = fixture::fast_dir();
    let store = Store::open(from.path(), sealed_with(1)).unwrap();
    fill(&store);
    let mut backup = Vec::new();
    store.backup(&mut backup).unwrap();

    let to = fixture::fast_dir();
    restore_offline(to.path(), sealed_with(2), &*backup, Amend::nothing()).unwrap();
    assert!(!holds_the_marker(to.path()));
    let store = Store::open(to.path(), sealed_with(2)).unwrap();
    assert!(text(&store.get("/secrets/default/db").unwrap()).contains(MARKER));
    block_on(store.restore(std::io::Cursor::new(backup), Amend::nothing())).unwrap();
    drop(store);
    assert!(!holds_the_marker(to.path()));
}
