//! Connections and groups, by what the documents say of them.

use serde_json::json;

use super::*;
use crate::testing::web;

fn connection(value: serde_json::Value) -> Connection {
    serde_json::from_value(value).unwrap()
}

#[test]
fn figures_are_promised_unless_it_says_best_effort() {
    let promised =
        Bounds::of(&connection(json!({"to": "b", "latency": "5ms", "bandwidth": "1Mbps"})));
    assert_eq!((promised.latency_us_max, promised.bandwidth_bps), (Some(5000), 1_000_000));
    let tried =
        Bounds::of(&connection(json!({"to": "b", "latency": "5ms", "class": "best-effort"})));
    assert_eq!(tried, Bounds::default());
    // A thousand bytes every millisecond.
    let framed = Bounds::of(&connection(
        json!({"to": "b", "class": "assured", "frameSize": "1000", "sendInterval": "1ms"}),
    ));
    assert_eq!(framed.bandwidth_bps, 8_000_000);
    // Nothing is promised over a way that nobody has measured.
    assert_eq!(framed.latency(), Some(UNMEASURED_US - 1));
}

#[test]
fn everyone_has_a_partner() {
    assert_eq!(pairs(2, 2), [(0, 0), (0, 1), (1, 0), (1, 1)]);
    assert_eq!(pairs(0, 5), []);
    let many = pairs(1000, 7);
    assert_eq!(many.len(), 1000);
    assert!((0..1000).all(|a| many.iter().any(|pair| pair.0 == a)));
}

#[test]
fn groups_that_touch_are_one() {
    let app = web(json!([
        {"name": "a", "affinity": {"with": ["b"]}},
        {"name": "b"},
        {"name": "c", "affinity": {"with": ["d"]}},
        {"name": "d", "affinity": {"with": ["a"], "apart": ["d", "c"]}},
    ]));
    assert_eq!(together(&app.spec), [vec!["a", "b", "c", "d"]]);
    assert_eq!(apart(&app.spec), [("c", "d"), ("d", "d")]);
}
