//! A disk that says it has written what it has not.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tempfile::TempDir;

use crate::disk::Disk;
use crate::{Draft, Error, Expect, Object, Options, Result, Store, Write};

fn commit(store: &Store, write: Write) -> Result<Vec<Arc<Object>>> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(store.commit(vec![write]))
}

fn put(store: &Store, key: &str) -> Result<Vec<Arc<Object>>> {
    let draft = Draft { bytes: vec![b'.'; 5_000], revision_at: 0 };
    commit(store, Write::put(key, Expect::Any, draft))
}

#[track_caller]
fn tells_how_to_restore(error: Option<Error>) {
    let error = error.expect("the damage is told");
    assert!(matches!(error, Error::Corrupt { .. }), "{error}");
    assert!(error.to_string().contains("tombolo restore --data"), "{error}");
}

#[test]
fn a_disk_that_writes_half_is_told_to_every_writer_and_to_who_asks() {
    let dir = TempDir::new().unwrap();
    let disk = Arc::new(Disk::new(dir.path()));
    let store = Store::open_on(dir.path(), Options::default(), disk.clone()).unwrap();
    put(&store, "before").unwrap();
    assert!(store.damage().is_none());

    disk.lies.store(true, Ordering::Relaxed);
    put(&store, "half").unwrap();
    disk.lies.store(false, Ordering::Relaxed);
    // A write that fails lets the next one read the file again, which shows the damage.
    disk.set_room(0);
    let large = |number| {
        let draft = Draft { bytes: vec![b'.'; 900_000], revision_at: 0 };
        commit(&store, Write::put(format!("large/{number}"), Expect::Any, draft))
    };
    let failed = (0..10).find_map(|number| large(number).err());
    assert!(failed.is_some(), "there is no room for all of it");
    disk.set_room(u64::MAX);
    let draft = Draft { bytes: Vec::new(), revision_at: 0 };
    tells_how_to_restore(commit(&store, Write::delete("half", Expect::Any, draft)).err());
    tells_how_to_restore(put(&store, "later").err());
    tells_how_to_restore(store.damage());
    assert!(store.get("before").is_some(), "what is in memory is still read");
    assert!(!store.is_closed());

    drop(store);
    tells_how_to_restore(Store::open(dir.path(), Options::default()).err());
}
