//! Which Apps get a new look although all of their instances run: those that break a rule by now.

use super::*;

/// Two sites with two nodes each.
const LAND: &str = "
    site a docker
    site b docker
    node a1 a cpu=4
    node a2 a cpu=4
    node b1 b cpu=4
    node b2 b cpu=4
    link a b 30ms 100Mbps
";

fn replanned(running: &str, spec: Value) -> String {
    let world = world(&format!("{LAND}\n{running}")).with([crate::testing::app("web", spec)]);
    shown(&world.plan(&Options::default()))
}

#[test]
fn a_rule_about_neighbours_that_was_added_is_carried_out() {
    let of = |running: &str, affinity: Value| {
        let parts = json!([{"name": "a", "replicas": 2, "affinity": affinity}, {"name": "b"}]);
        replanned(running, json!({"components": parts}))
    };
    let near = "run shop/web a 0 a1\nrun shop/web a 1 a1\nrun shop/web b 0 a1";
    assert_eq!(of(near, json!({})), "");
    for (affinity, moves) in [
        (json!({"spread": "node"}), "a/1: move from a1 on"),
        (json!({"spread": "site"}), "a/1: move from a1 on b"),
        (json!({"apart": ["a"]}), "a/1: move from a1 on"),
        (json!({"apart": ["b"]}), "b/0: move from a1 on"),
    ] {
        let found = of(near, affinity.clone());
        assert!(found.contains(moves), "{affinity}\n{found}");
    }
    let far = "run shop/web a 0 a1\nrun shop/web a 1 a1\nrun shop/web b 0 b1";
    assert_eq!(of(far, json!({"spread": "node"})).lines().count(), 3);
    assert!(of(far, json!({"with": ["b"]})).contains("b/0: move from b1 on a"));
}

#[test]
fn one_engine_for_all_that_was_added_is_carried_out() {
    let text = "
        site d docker
        site k kubernetes
        node d1 d cpu=4
        node k1 k cpu=4
        run shop/web a 0 d1
        run shop/web b 0 k1
    ";
    let of = |homogeneous: bool| {
        let parts = json!([{"name": "a"}, {"name": "b"}]);
        let spec = json!({"components": parts, "homogeneous": homogeneous});
        let mut world = world(text).with([crate::testing::app("web", spec)]);
        world.running[1].engine = Engine::Kubernetes;
        shown(&world.plan(&Options::default()))
    };
    assert_eq!(of(false), "");
    assert_eq!(of(true).matches("move from").count(), 1, "{}", of(true));
}

#[test]
fn a_link_that_carries_more_than_it_can_by_now_is_left() {
    let of = |rate: &str, needs: Value| {
        let connects = json!([{"to": "b", "bandwidth": rate}]);
        let parts = json!([
            {"name": "a", "needs": {"nodes": ["a1"]}, "connects": connects},
            {"name": "b", "needs": needs},
        ]);
        replanned("run shop/web a 0 a1\nrun shop/web b 0 b1", json!({"components": parts}))
    };
    assert_eq!(of("100Mbps", json!({})), "");
    assert!(of("101Mbps", json!({})).contains("b/0: move from b1 on a"));
    // It cannot be mended, so it is told, and all stays.
    expect![[r#"
        a/0: stay on a1
        b/0: stay on b1
        a/0: no place
          a needs 101Mbps to b
          -> they would fit with 100Mbps from a to b
        b/0: no place
          a needs 101Mbps to b
          -> they would fit with 100Mbps from a to b
    "#]]
    .assert_eq(&of("101Mbps", json!({"nodes": ["b1"]})));
}

#[test]
fn links_are_shared_by_all_apps() {
    let app = |name: &str, fixed: bool| {
        let node = |node: &str| if fixed { json!({"nodes": [node]}) } else { json!({}) };
        let connects = json!([{"to": "b", "bandwidth": "60Mbps"}]);
        let parts = json!([
            {"name": "a", "needs": {"nodes": ["a1"]}, "connects": connects},
            {"name": "b", "needs": node("b1")},
        ]);
        crate::testing::app(name, json!({"components": parts}))
    };
    let running = |name: &str| format!("run shop/{name} a 0 a1\nrun shop/{name} b 0 b1\n");
    let alone = world(&format!("{LAND}{}", running("web"))).with([app("web", false)]);
    assert_eq!(shown(&alone.plan(&Options::default())), "");
    let text = format!("{LAND}{}{}", running("old"), running("web"));
    let both = world(&text).with([app("old", true), app("web", false)]);
    let found = shown(&both.plan(&Options::default()));
    assert!(found.contains("b/0: move from b1 on a") && !found.contains("no place"), "{found}");
}

#[test]
fn a_promise_that_can_no_longer_be_kept_is_told() {
    let of = |latency: &str| {
        let parts = json!([
            {"name": "a", "needs": {"nodes": ["a1"]}, "connects": [{"to": "b", "latency": latency}]},
            {"name": "b", "needs": {"nodes": ["b1"]}},
        ]);
        replanned("run shop/web a 0 a1\nrun shop/web b 0 b1", json!({"components": parts}))
    };
    assert_eq!(of("30ms"), "");
    expect![[r#"
        a/0: stay on a1
        b/0: stay on b1
        a/0: no place
          a needs at most 29ms to b
          -> they would fit if 30ms from a to b would do
        b/0: no place
          a needs at most 29ms to b
          -> they would fit if 30ms from a to b would do
    "#]]
    .assert_eq(&of("29ms"));
}

#[test]
fn a_graphics_processor_that_is_asked_for_by_its_memory_is_taken() {
    let text = "
        site s docker
        node n s cpu=4 gpu=8Gi
    ";
    let part = |needs: Value| json!({"components": [{"name": "x", "needs": needs}]});
    let first = crate::testing::app("first", part(json!({"gpuMemory": "4Gi"})));
    let mut world = world(text).with([first]);
    let plan = world.plan(&Options::default());
    world.settle(&plan);
    assert_eq!(shown(&world.plan(&Options::default())), "");
    for needs in [json!({"gpu": 1}), json!({"gpuMemory": "1Gi"})] {
        let second = crate::testing::app("second", part(needs));
        let crowded = world.clone().with([second]).plan(&Options::default());
        assert!(shown(&crowded).contains("needs 1 gpu"), "{}", shown(&crowded));
    }
}
