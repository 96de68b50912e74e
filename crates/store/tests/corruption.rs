//! One flipped bit, or a missing end, anywhere in the store's file, or two flipped bits in its
//! header: either the store says that it is damaged, or it serves exactly what was written, and goes
//! on from there. Never anything else, and never a panic.
//!
//! The usual run takes a sample that touches every page in use, every bit of the header, the bit
//! that says which commit counts together with one of every byte, and a sample of the other pairs.
//! `TOMBOLO_TORTURE=all` takes every byte.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod fixture;

use std::path::Path;

use bytes::Bytes;
use tombolo_store::{At, Error, Event, Expect, Options, Store, Write};

use fixture::{block_on, delete, draft, one, put, text};

const PAGE: usize = 4096;
const HEADER: usize = 320;

/// Everything that a reader can see, as text.
fn contents(store: &Store) -> String {
    let mut shown = format!("{} {}\n", store.revision(), store.compacted());
    for object in store.list("", At::Latest, None, usize::MAX).unwrap().objects {
        shown += &format!("{} {}\n", object.key, text(&object));
    }
    let mut watch = store.watch("", store.compacted()).unwrap();
    loop {
        let batch = watch.now().unwrap();
        if batch.events.is_empty() {
            break;
        }
        let show = |event: &Event| format!("{:?} {}\n", event.kind, text(&event.object));
        shown.extend(batch.events.iter().map(show));
    }
    for (revision, note) in block_on(store.audit(0, usize::MAX)).unwrap() {
        shown += &format!("{revision} {note:?}\n");
    }
    shown
}

/// The file of a store with some of everything: as it was left by a kill, and as it was left by
/// an orderly end.
fn samples() -> [(&'static str, Vec<u8>, String); 2] {
    let dir = fixture::fast_dir();
    let options = Options { history_events_max: 20, ..Options::default() };
    let store = Store::open(dir.path(), options).unwrap();
    for number in 0..30 {
        let key = format!("k/{}", number % 12);
        let mut write = Write::put(&*key, Expect::Any, draft(&"v".repeat(number * 40)));
        write.note = Some(Bytes::from("someone did something"));
        one(&store, write).unwrap();
    }
    put(&store, "large", &"w".repeat(20_000)).unwrap();
    delete(&store, "k/3").unwrap();
    let file = dir.path().join("store.redb");
    // Nothing is under way, so that this is what a kill at this moment would leave.
    let killed = std::fs::read(&file).unwrap();
    let expected = contents(&store);
    drop(store);
    let closed = std::fs::read(&file).unwrap();
    [("killed", killed, expected.clone()), ("closed", closed, expected)]
}

/// Opens a store whose file holds these bytes, and says whether it was found to be damaged.
fn check(dir: &Path, bytes: &[u8], expected: &str, what: &str) -> bool {
    std::fs::write(dir.join("store.redb"), bytes).unwrap();
    let options = Options { history_events_max: 20, ..Options::default() };
    let opened = std::panic::catch_unwind(|| Store::open(dir, options));
    match opened.unwrap_or_else(|_| panic!("{what}: it panicked")) {
        Ok(store) => {
            assert_eq!(contents(&store), expected, "{what}: wrong data was served");
            false
        }
        Err(error @ Error::Corrupt { .. }) => {
            assert!(error.to_string().contains("tombolo restore --data"), "{error}");
            true
        }
        Err(error) => panic!("{what}: {error}"),
    }
}

fn everything() -> bool {
    std::env::var_os("TOMBOLO_TORTURE").is_some_and(|value| value == "all")
}

/// Like [`check`]; a store that opens must also go on: what is written now is there at the next open.
fn check_onwards(dir: &Path, bytes: &[u8], expected: &str, what: &str) -> bool {
    if check(dir, bytes, expected, what) {
        return true;
    }
    let options = || Options { history_events_max: 20, ..Options::default() };
    let store = Store::open(dir, options()).unwrap();
    for number in 0..3 {
        put(&store, &format!("later/{number}"), &"l".repeat(number * 5_000)).unwrap();
    }
    let written = contents(&store);
    drop(store);
    let store = Store::open(dir, options()).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(contents(&store), written, "{what}: what was written afterwards is gone");
    false
}

/// Places to flip a bit at.
fn flips(bytes: &[u8]) -> Vec<(usize, u8)> {
    let header = (0..HEADER).flat_map(|at| (0..8).map(move |bit| (at, bit)));
    let step = if everything() { 1 } else { 401 };
    let mut flips: Vec<(usize, u8)> = header.collect();
    for (number, page) in bytes.chunks(PAGE).enumerate() {
        let used = page.iter().any(|byte| *byte != 0);
        let step = if used { step } else { PAGE };
        if !used && number % 16 != 0 && !everything() {
            continue;
        }
        // Another start in each page, so that the sample meets every kind of field.
        let places = (number * 37 % step..PAGE.min(page.len())).step_by(step);
        flips.extend(places.map(|at| (number * PAGE + at, u8::try_from(at % 8).unwrap())));
    }
    flips
}

#[test]
fn never_serves_a_flipped_bit() {
    for (name, bytes, expected) in samples() {
        let dir = fixture::fast_dir();
        assert!(!check(dir.path(), &bytes, &expected, name), "the sample itself is sound");
        let flips = flips(&bytes);
        let mut found = 0;
        for (at, bit) in &flips {
            let mut flipped = bytes.clone();
            flipped[*at] ^= 1 << bit;
            let what = format!("{name}: bit {bit} of byte {at}");
            found += usize::from(check(dir.path(), &flipped, &expected, &what));
        }
        println!("{name}: {} flips, {found} of them in bytes that matter", flips.len());
        assert!(found > 100, "the sample must meet data: {found}");
    }
}

#[test]
fn never_serves_a_file_that_lost_its_end() {
    for (name, bytes, expected) in samples() {
        let dir = fixture::fast_dir();
        let step = if everything() { 512 } else { 24_001 };
        for length in (0..bytes.len()).step_by(step).chain([1, 9, 319, 320, PAGE, 2 * PAGE]) {
            let what = format!("{name}: cut to {length}");
            assert!(check(dir.path(), &bytes[..length], &expected, &what), "{what}");
        }
    }
}

/// Where redb says which of its two commits counts.
const PRIMARY_BIT: usize = 9 * 8;

/// Pairs of bits of the header: the one that says which commit counts with others of every byte, and
/// then any two. That every bit of a slot is put right, `src/tests/header.rs` tries.
fn pairs() -> impl Iterator<Item = (usize, usize)> {
    let bits = HEADER * 8;
    let (step, sample) = if everything() { (1, 40_000) } else { (7, 150) };
    let mut state = 1_u64;
    let mut number = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        usize::try_from(state >> 33).unwrap() % bits
    };
    let any = (0..sample).map(move |_| (number(), number())).filter(|(one, other)| one != other);
    let others = (0..bits).step_by(step).filter(|bit| *bit != PRIMARY_BIT);
    others.map(|bit| (PRIMARY_BIT, bit)).chain(any)
}

#[test]
fn two_flipped_bits_of_the_header_lose_no_acknowledged_write() {
    for (name, bytes, expected) in samples() {
        let dir = fixture::fast_dir();
        let mut opened = 0;
        for (number, (one, other)) in pairs().enumerate() {
            let mut flipped = bytes.clone();
            flipped[one / 8] ^= 1 << (one % 8);
            flipped[other / 8] ^= 1 << (other % 8);
            let what = format!("{name}: bits {one} and {other} of the header");
            // Going on takes three opens and as many syncs: for some of them.
            let check = if number % 16 == 0 { check_onwards } else { check };
            opened += usize::from(!check(dir.path(), &flipped, &expected, &what));
        }
        println!("{name}: {opened} of the pairs were put right or did not matter");
        assert!(opened > 300, "{opened}");
    }
}
