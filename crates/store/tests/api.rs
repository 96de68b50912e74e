//! What callers rely on, one sentence each.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod fixture;

use std::io::Cursor;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use expect_test::{Expect as Snapshot, expect};
use tombolo_store::{
    Amend, Amendment, At, Batch, Error, Event, Expect, KEY_BYTES_MAX, Options, Store,
    VALUE_BYTES_MAX, Write, restore_offline, verify_backup,
};

use fixture::{block_on, delete, draft, finished, one, open, put, text};

fn shown(events: &[Event]) -> String {
    let show = |event: &Event| {
        let previous = event.previous.as_ref().map_or(0, |previous| previous.revision);
        format!("{:?} {} after {previous}: {}\n", event.kind, event.key(), text(&event.object))
    };
    events.iter().map(show).collect()
}

#[track_caller]
fn check_refused(before: &[&str], write: Write, expected: Snapshot) {
    let dir = fixture::fast_dir();
    let store = open(dir.path());
    for key in before {
        put(&store, key, "before").unwrap();
    }
    let error = one(&store, write).unwrap_err();
    assert_eq!(store.revision(), before.len() as u64, "a refused write takes no revision");
    expected.assert_eq(&error.to_string());
}

#[test]
fn refuses_what_the_caller_did_not_expect() {
    check_refused(
        &["a", "b"],
        Write::put("a", Expect::Absent, draft("")),
        expect!["a exists already"],
    );
    check_refused(
        &["a", "b"],
        Write::put("a", Expect::Revision(2), draft("")),
        expect!["a was changed by someone else: it is at revision 1"],
    );
    check_refused(
        &["a"],
        Write::put("b", Expect::Revision(1), draft("")),
        expect!["b does not exist"],
    );
    check_refused(&["a"], Write::delete("b", Expect::Any, draft("")), expect!["b does not exist"]);
    check_refused(
        &["a"],
        Write::delete("b", Expect::Absent, draft("")),
        expect!["b does not exist"],
    );
}

#[test]
fn refuses_what_is_too_large_or_malformed() {
    check_refused(
        &[],
        Write::put("k".repeat(KEY_BYTES_MAX + 1), Expect::Any, draft("")),
        expect!["length of the key in bytes is 1025, and at most 1024 is allowed"],
    );
    check_refused(
        &[],
        Write::put("k", Expect::Any, draft(&"v".repeat(VALUE_BYTES_MAX))),
        expect!["length of the object in bytes is 3145752, and at most 3145728 is allowed"],
    );
    check_refused(
        &[],
        Write::put("", Expect::Any, draft("")),
        expect!["draft of  is malformed: its key is empty"],
    );
    let mut outside = draft("");
    outside.revision_at = 1000;
    check_refused(
        &[],
        Write::put("k", Expect::Any, outside),
        expect!["draft of k is malformed: the place of its revision lies behind its end"],
    );
}

#[test]
fn writes_all_of_a_call_or_nothing_of_it() {
    let dir = fixture::fast_dir();
    let store = open(dir.path());
    let writes = vec![
        Write::put("a", Expect::Absent, draft("1")),
        Write::put("a", Expect::Revision(1), draft("2")),
        Write::delete("b", Expect::Any, draft("3")),
    ];
    let error = block_on(store.commit(writes.clone())).unwrap_err();
    assert!(matches!(error, Error::NotFound { .. }));
    assert_eq!((store.revision(), store.get("a")), (0, None));

    put(&store, "b", "b").unwrap();
    let mut writes = writes;
    writes[1].expect = Expect::Revision(2);
    let objects = block_on(store.commit(writes)).unwrap();
    assert_eq!(text(&objects[1]), finished("2", 3));
    assert_eq!(store.read("b").revision, 4);
    assert_eq!(store.get("b"), None);
}

#[test]
fn a_failed_call_does_not_harm_the_others_of_its_group() {
    let dir = fixture::fast_dir();
    let store = open(dir.path());
    block_on(async {
        let create = |value: usize| {
            let store = store.clone();
            let write = Write::put("one", Expect::Absent, draft(&value.to_string()));
            async move { store.commit(vec![write]).await }
        };
        let mut tasks = tokio::task::JoinSet::new();
        for value in 0..50 {
            tasks.spawn(create(value));
        }
        let results = tasks.join_all().await;
        assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1);
        assert_eq!(store.revision(), 1);
    });
}

#[test]
fn shows_every_change_to_a_watcher_in_order() {
    let dir = fixture::fast_dir();
    let store = open(dir.path());
    let mut watch = store.watch("a/", 0).unwrap();
    put(&store, "a/1", "x").unwrap();
    put(&store, "b/1", "x").unwrap();
    put(&store, "a/1", "y").unwrap();
    delete(&store, "a/1").unwrap();
    let batch = block_on(watch.next()).unwrap();
    expect![[r#"
        Created a/1 after 0: {"revision":1,"value":"x"}
        Updated a/1 after 1: {"revision":3,"value":"y"}
        Deleted a/1 after 3: {"revision":4,"value":"gone"}
    "#]]
    .assert_eq(&shown(&batch.events));
    assert_eq!(batch.revision, 4);
}

#[test]
fn the_bookmark_of_a_quiet_watch_advances() {
    let dir = fixture::fast_dir();
    let store = open(dir.path());
    let mut watch = store.watch("quiet/", 0).unwrap();
    put(&store, "loud/1", "x").unwrap();
    assert_eq!(watch.now().unwrap(), Batch { events: Vec::new(), revision: 1 });
}

#[test]
fn a_watch_that_was_given_up_while_waiting_loses_nothing() {
    let dir = fixture::fast_dir();
    let store = open(dir.path());
    block_on(async {
        let mut watch = store.watch("", 0).unwrap();
        let mut seen = Vec::new();
        for round in 1..=20 {
            let waited = tokio::time::timeout(Duration::from_micros(50), watch.next()).await;
            if let Ok(batch) = waited {
                seen.extend(batch.unwrap().events.iter().map(Event::revision));
            }
            let write = Write::put("k", Expect::Any, draft(&round.to_string()));
            store.commit(vec![write]).await.unwrap();
        }
        seen.extend(watch.now().unwrap().events.iter().map(Event::revision));
        assert_eq!(seen, (1..=20).collect::<Vec<_>>());
    });
}

#[test]
fn a_watcher_that_falls_behind_is_told_so_and_a_quiet_one_is_not() {
    let dir = fixture::fast_dir();
    let options = Options { history_events_max: 4, ..Options::default() };
    let store = Store::open(dir.path(), options).unwrap();
    put(&store, "quiet/1", "x").unwrap();
    let mut frozen = store.watch("loud/", 1).unwrap();
    let mut quiet = store.watch("quiet/", 1).unwrap();
    for _ in 0..10 {
        put(&store, "loud/1", "x").unwrap();
    }
    assert!(matches!(block_on(frozen.next()), Err(Error::Compacted { oldest: 7 })));
    assert_eq!(quiet.now().unwrap().revision, 11);
    put(&store, "quiet/1", "y").unwrap();
    assert_eq!(block_on(quiet.next()).unwrap().events.len(), 1);
}

/// An event keeps the version before it in memory, and what it takes to find it.
#[test]
fn the_history_keeps_within_its_bytes_and_has_all_of_them_again_after_a_restore() {
    let dir = fixture::fast_dir();
    let options = Options { history_bytes_max: 20_000, ..Options::default() };
    let store = Store::open(dir.path(), options).unwrap();
    let long = "v".repeat(1000);
    for _ in 0..50 {
        put(&store, "k", &long).unwrap();
    }
    let kept = store.revision() - store.compacted();
    assert!((10..20).contains(&kept), "{kept} of a thousand bytes");
    let mut backup = Vec::new();
    store.backup(&mut backup).unwrap();
    let restored = block_on(store.restore(Cursor::new(backup), Amend::nothing())).unwrap();
    for _ in 0..5 {
        put(&store, "k", &long).unwrap();
    }
    assert_eq!(store.compacted(), restored, "nothing since is forgotten yet");
}

#[test]
fn a_long_backlog_comes_in_pieces_without_gap_or_duplicate() {
    let dir = fixture::fast_dir();
    let store = open(dir.path());
    let write = |i: usize| Write::put(format!("k/{i}"), Expect::Absent, draft("x"));
    block_on(store.commit((0..1000).map(write).collect())).unwrap();
    let mut watch = store.watch("k/", 100).unwrap();
    let mut seen = Vec::new();
    while watch.cursor() < 1000 {
        let batch = watch.now().unwrap();
        assert!(batch.events.len() <= 256);
        seen.extend(batch.events.iter().map(Event::revision));
    }
    assert_eq!(seen, (101..=1000).collect::<Vec<_>>());
}

#[test]
fn concurrent_watchers_all_see_one_gapless_log() {
    let dir = fixture::fast_dir();
    let store = open(dir.path());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..50 {
            let mut watch = store.watch("k/", 0).unwrap();
            tasks.spawn(async move {
                let mut next = 1;
                while next <= 400 {
                    for event in watch.next().await.unwrap().events {
                        assert_eq!(event.revision(), next);
                        next += 1;
                    }
                }
            });
        }
        for writer in 0..4 {
            let store = store.clone();
            tasks.spawn(async move {
                for _ in 0..100 {
                    let write = Write::put(format!("k/{writer}"), Expect::Any, draft("x"));
                    store.commit(vec![write]).await.unwrap();
                }
            });
        }
        tasks.join_all().await;
    });
}

#[test]
fn closing_ends_every_watch() {
    let dir = fixture::fast_dir();
    let store = open(dir.path());
    let mut watch = store.watch("", 0).unwrap();
    drop(store);
    assert!(matches!(block_on(watch.next()), Err(Error::Closed)));
}

#[test]
fn a_second_process_is_told_that_the_store_is_in_use() {
    let dir = fixture::fast_dir();
    let _store = open(dir.path());
    let error = Store::open(dir.path(), Options::default()).unwrap_err();
    assert!(matches!(error, Error::Locked { .. }));
    assert!(error.to_string().ends_with("is in use by another process"));
}

#[test]
fn keeps_the_newest_notes_of_the_audit_record() {
    let dir = fixture::fast_dir();
    let options = Options { audit_notes_max: 3, ..Options::default() };
    let store = Store::open(dir.path(), options.clone()).unwrap();
    for number in 1..=5 {
        let mut write = Write::put("k", Expect::Any, draft("x"));
        write.note = Some(Bytes::from(format!("note {number}")));
        one(&store, write).unwrap();
    }
    drop(store);
    let store = Store::open(dir.path(), options).unwrap();
    let notes = block_on(store.audit(0, 100)).unwrap();
    let expected = (3..=5).map(|number| (number, Bytes::from(format!("note {number}"))));
    assert_eq!(notes, expected.collect::<Vec<_>>());
    assert_eq!(block_on(store.audit(3, 1)).unwrap().len(), 1);
    assert_eq!(block_on(store.audit(u64::MAX, 1)).unwrap(), []);
}

#[test]
fn turns_calls_away_when_too_many_wait() {
    let dir = fixture::fast_dir();
    let options = Options { queue_calls_max: 1, ..Options::default() };
    let store = Store::open(dir.path(), options).unwrap();
    block_on(async {
        let mut tasks = tokio::task::JoinSet::new();
        for number in 0..200 {
            let store = store.clone();
            let write = Write::put(format!("{number}"), Expect::Absent, draft("x"));
            tasks.spawn(async move { store.commit(vec![write]).await });
        }
        let results = tasks.join_all().await;
        let written = results.iter().filter(|result| result.is_ok()).count();
        assert_eq!(store.revision(), written as u64);
        let refused = results.iter().filter(|result| matches!(result, Err(Error::Overloaded)));
        assert_eq!(refused.count(), 200 - written);
        assert!(written > 0 && written < 200, "{written}");
    });
}

/// The bound in bytes is one, so that a call is taken only when no other one waits.
#[test]
fn bytes_of_calls_that_were_turned_away_are_given_back() {
    let dir = fixture::fast_dir();
    let options = Options { queue_bytes_max: 1, ..Options::default() };
    let store = Store::open(dir.path(), options).unwrap();
    block_on(async {
        // The writer may be quick enough to take each call before the next one comes.
        let mut refused = 0;
        while refused == 0 {
            let mut tasks = tokio::task::JoinSet::new();
            for number in 0..200 {
                let store = store.clone();
                let write = Write::put(format!("{number}"), Expect::Any, draft("x"));
                tasks.spawn(async move { store.commit(vec![write]).await });
            }
            let results = tasks.join_all().await;
            let overloaded =
                results.iter().filter(|result| matches!(result, Err(Error::Overloaded)));
            refused = overloaded.count();
        }
    });
    put(&store, "alone", "x").expect("nothing else waits");
}

#[test]
fn a_lock_that_is_removed_lets_no_second_process_in() {
    let dir = fixture::fast_dir();
    let _store = open(dir.path());
    std::fs::remove_file(dir.path().join("lock")).unwrap();
    let second = Store::open(dir.path(), Options::default());
    assert!(matches!(second, Err(Error::Locked { .. })), "{second:?}");
}

#[test]
fn a_store_whose_file_is_removed_says_so_and_takes_no_more() {
    let dir = fixture::fast_dir();
    let store = open(dir.path());
    put(&store, "k", "x").unwrap();
    assert!(store.damage().is_none());
    std::fs::remove_file(dir.path().join("store.redb")).unwrap();
    for _ in 0..2 {
        let refused = put(&store, "k", "y").unwrap_err().to_string();
        assert!(refused.contains("removed or replaced"), "{refused}");
    }
    assert!(store.damage().is_some());
    assert_eq!(store.get("k").unwrap().draft(), draft("x"), "it is still read");
}

fn backed_up() -> (Store, tempfile::TempDir, Vec<u8>) {
    let dir = fixture::fast_dir();
    let store = open(dir.path());
    for number in 0..20 {
        put(&store, &format!("k/{number}"), &"v".repeat(number)).unwrap();
    }
    let mut bytes = Vec::new();
    store.backup(&mut bytes).unwrap();
    (store, dir, bytes)
}

#[test]
fn refuses_a_flipped_or_truncated_backup_and_changes_nothing() {
    let (store, _dir, bytes) = backed_up();
    for at in 0..bytes.len() {
        let mut flipped = bytes.clone();
        flipped[at] ^= 1 << (at % 8);
        assert!(verify_backup(&*flipped).is_err(), "flip at {at}");
        assert!(verify_backup(&bytes[..at]).is_err(), "cut at {at}");
    }
    let mut longer = bytes.clone();
    longer.push(0);
    assert!(verify_backup(&*longer).is_err());
    let cut = Cursor::new(bytes[..bytes.len() / 2].to_vec());
    let error = block_on(store.restore(cut, Amend::nothing())).unwrap_err();
    expect!["backup is unusable (it is cut off); nothing was changed"]
        .assert_eq(&error.to_string());
    assert_eq!(store.revision(), 20);
}

#[test]
fn restores_into_an_empty_or_damaged_directory() {
    let (store, dir, bytes) = backed_up();
    let objects = store.list("", At::Latest, None, usize::MAX).unwrap().objects;
    drop(store);
    let values = |objects: &[Arc<tombolo_store::Object>]| {
        objects.iter().map(|object| (object.key.clone(), object.draft())).collect::<Vec<_>>()
    };
    std::fs::write(dir.path().join("store.redb"), "rubbish").unwrap();
    let empty = fixture::fast_dir();
    for path in [dir.path(), empty.path()] {
        let revision =
            restore_offline(path, Options::default(), &*bytes, Amend::nothing()).unwrap();
        assert_eq!(revision, 1_000_000_040);
        let restored = open(path).list("", At::Latest, None, usize::MAX).unwrap();
        assert_eq!(restored.revision, revision);
        assert_eq!(values(&restored.objects), values(&objects));
    }
    assert!(dir.path().join("store.redb.damaged-1").exists());
}

#[test]
fn what_is_restored_is_as_old_or_young_among_itself_as_before() {
    let dir = fixture::fast_dir();
    let store = open(dir.path());
    for key in ["b", "c", "a", "b"] {
        put(&store, key, "x").unwrap();
    }
    let mut backup = Vec::new();
    store.backup(&mut backup).unwrap();
    block_on(store.restore(Cursor::new(backup), Amend::nothing())).unwrap();
    let mut objects = store.list("", At::Latest, None, usize::MAX).unwrap().objects;
    objects.sort_by_key(|object| object.revision);
    let keys: Vec<&str> = objects.iter().map(|object| &*object.key).collect();
    assert_eq!(keys, ["c", "a", "b"]);
}

#[test]
fn a_restore_leaves_out_and_puts_what_its_caller_says_and_a_refusal_changes_nothing() {
    let (store, dir, bytes) = backed_up();
    let refuse = || Amend::new(|_, _| Err("not today".to_owned()));
    let error = block_on(store.restore(Cursor::new(bytes.clone()), refuse())).unwrap_err();
    assert_eq!(error.to_string(), "not today");
    assert_eq!(store.revision(), 20);

    let amend = Amend::new(|live, backup| {
        assert_eq!((live.len(), backup.len()), (20, 20), "it sees both");
        let put = [("k/1".into(), draft("amended")), ("new".into(), draft("added"))].into();
        Ok(Amendment { left_out: ["k/0".into()].into(), put })
    });
    let revision = block_on(store.restore(Cursor::new(bytes.clone()), amend)).unwrap();
    assert_eq!(store.revision(), revision);
    assert!(store.get("k/0").is_none());
    assert_eq!(store.get("k/1").unwrap().draft(), draft("amended"));
    assert_eq!(store.get("new").unwrap().draft(), draft("added"));
    drop(store);
    assert_eq!(open(dir.path()).revision(), revision, "it is on disk");

    let empty = fixture::fast_dir();
    assert!(restore_offline(empty.path(), Options::default(), &*bytes, refuse()).is_err());
    assert!(!empty.path().join("store.redb").exists(), "a refusal makes nothing");
}
