//! What the guard ends, and when.

use expect_test::{Expect, expect};

use super::*;

/// `"web 5+2"` is a deadline at 5 with a grace of 2; `"web kill 7"` was asked to end until 7.
#[track_caller]
fn check(known: &[&str], ending: &[&str], now: u64, expect: Expect) {
    let id = |name: &str| format!("{name}.1").parse::<InstanceId>().unwrap();
    let records = known.iter().map(|line| {
        let (name, times) = line.split_once(' ').unwrap();
        let (at, grace) = times.split_once('+').unwrap();
        let [end_at_ms, grace_ms] = [at, grace].map(|text| text.parse().unwrap());
        (id(name), DeadlineRecord { end_at_ms, after_ms: 1, grace_ms })
    });
    let asked = ending.iter().map(|line| {
        let (name, at) = line.split_once(" kill ").unwrap();
        (id(name), at.parse().unwrap())
    });
    let (known, ending) = (records.collect(), asked.collect());
    let orders = judge(&known, &ending, now);
    let lines = orders.iter().map(|(id, order)| format!("{id}: {order:?}\n"));
    let pause = pause(&known, &ending, now);
    expect.assert_eq(&format!("{}then {pause:?}\n", lines.collect::<String>()));
}

#[test]
fn nothing_ends_before_its_time() {
    check(
        &["web 9000+2000", "db 200000+1"],
        &[],
        8000,
        expect![[r#"
        then 1s
    "#]],
    );
    check(
        &["db 200000+1"],
        &[],
        8000,
        expect![[r#"
        then 5s
    "#]],
    );
}

#[test]
fn a_deadline_that_is_over_is_an_order_with_its_grace() {
    check(
        &["web 9000+200", "db 200000+1"],
        &[],
        9000,
        expect![[r#"
        web.1: End { kill_at_ms: 9200 }
        then 5s
    "#]],
    );
    check(
        &["web 9000+200"],
        &["web kill 9200"],
        9100,
        expect![[r#"
        web.1: End { kill_at_ms: 9200 }
        then 100ms
    "#]],
    );
    check(
        &["web 9000+200"],
        &["web kill 9200"],
        9300,
        expect![[r#"
        web.1: End { kill_at_ms: 9200 }
        then 500ms
    "#]],
    );
}

#[test]
fn what_was_told_to_end_does_so_also_when_its_deadline_is_put_off_or_forgotten() {
    check(
        &["web 99000+200"],
        &["web kill 9200"],
        9100,
        expect![[r#"
        web.1: Finish { kill_at_ms: 9200 }
        then 100ms
    "#]],
    );
    check(
        &[],
        &["web kill 9200"],
        9100,
        expect![[r#"
        web.1: Finish { kill_at_ms: 9200 }
        then 100ms
    "#]],
    );
}

#[test]
fn what_the_engine_lists_is_read_and_nonsense_left_out() {
    let listed = serde_json::json!([
        {"Id": "a1", "Names": ["/tombolo.web.1.0"]}, {"Id": 7}, {"Names": []}, "x",
    ]);
    let found = Container { id: "a1".to_owned(), name: "/tombolo.web.1.0".to_owned() };
    assert_eq!(containers(&listed), [found]);
    assert_eq!(containers(&serde_json::json!({"message": "no"})), []);
}
