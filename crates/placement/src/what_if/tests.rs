//! Suppositions over a small world, which itself stays as it was.

use expect_test::{Expect, expect};
use serde_json::json;

use super::*;
use crate::testing::{web, world};

#[track_caller]
fn check(changes: &[Supposition], expect: Expect) {
    let text = "
        site a docker
        site b docker
        node a1 a cpu=4 memory=8Gi watts=10 mhz=1000
        node b1 b cpu=4 memory=8Gi watts=90 mhz=4000
        link a b 5ms
        run shop/web x 0 a1
        run shop/web y 0 a1
    ";
    let parts = json!([
        {"name": "x", "needs": {"cpu": 2}, "connects": [{"to": "y", "latency": "20ms"}]},
        {"name": "y", "needs": {"cpu": 2}},
    ]);
    let world = world(text).with([web(parts)]);
    let before = world.clone();
    let answer = what_if(&world, changes, &Options::default(), &Limits::default());
    assert_eq!(world.running, before.running);
    let lines: Vec<String> = match answer {
        Err(trouble) => vec![trouble.to_string()],
        Ok(answer) => answer
            .differences
            .iter()
            .map(|d| format!("{}: {:?} -> {:?}", d.component, d.from.as_deref(), d.to.as_deref()))
            .collect(),
    };
    expect.assert_eq(&lines.join("\n"));
}

#[test]
fn shows_what_would_follow() {
    check(&[], expect![""]);
    check(
        &[Supposition::FailNode("a1".into())],
        expect![[r#"
        x: Some("a1") -> Some("b1")
        y: Some("a1") -> Some("b1")"#]],
    );
    check(
        &[Supposition::FailSite("a".into())],
        expect![[r#"
        x: Some("a1") -> Some("b1")
        y: Some("a1") -> Some("b1")"#]],
    );
    check(
        &[Supposition::DrainSite("a".into())],
        expect![[r#"
        x: Some("a1") -> Some("b1")
        y: Some("a1") -> Some("b1")"#]],
    );
    let fast = Weights { performance: Some(1.0), ..Weights::default() };
    check(&[Supposition::Weights(fast)], expect![[r#"x: Some("a1") -> Some("b1")"#]]);
    let all = [Supposition::FailSite("a".into()), Supposition::FailSite("b".into())];
    check(
        &all,
        expect![[r#"
        x: Some("a1") -> None
        y: Some("a1") -> None"#]],
    );
    check(&[Supposition::LinkDown("a--b".into())], expect![""]);
    check(&[Supposition::FailNode("c1".into())], expect!["node c1: does not exist"]);
}

#[test]
fn a_site_that_is_added_comes_with_its_links() {
    let app = || {
        let bound = json!([{"to": "far", "latency": "10ms"}]);
        web(json!([
            {"name": "far", "needs": {"sites": ["c"]}},
            {"name": "near", "needs": {"sites": ["a"]}, "connects": bound},
        ]))
    };
    let old = "site a docker\nnode a1 a cpu=4\nsite b docker\nlink a b 50ms";
    let new = world("site c docker\nnode c1 c cpu=4\nsite a docker\nlink a c 5ms");
    let site = Supposition::AddSite(new.sites[0].clone());
    let node = Supposition::AddNode(new.nodes[0].clone());
    let link = Supposition::AddLink(new.links[0].clone());
    let feasible = |changes: &[Supposition]| {
        let world = world(old).with([app()]);
        let found = what_if(&world, changes, &Options::default(), &Limits::default()).unwrap();
        found.plan.apps[0].outcome == Outcome::Placed
    };
    assert!(!feasible(&[site.clone(), node.clone()]));
    assert!(feasible(&[site, node, link]));
}

#[test]
fn names_every_instance_that_goes_down_with_its_app() {
    let text = "
        site a docker
        node a1 a cpu=4
        site b docker
        node b1 b cpu=4
        run shop/web x 0 a1
        run shop/web y 0 a1
    ";
    // y would have a place on b1, but the App is placed whole or not at all.
    let app = web(json!([{"name": "x", "needs": {"sites": ["a"]}}, {"name": "y"}]));
    let changes = [Supposition::FailNode("a1".into())];
    let world = world(text).with([app]);
    let found = what_if(&world, &changes, &Options::default(), &Limits::default()).unwrap();
    let said: Vec<String> = found
        .differences
        .iter()
        .map(|one| format!("{} {:?} {:?}", one.component, one.from, one.to))
        .collect();
    assert_eq!(said, [r#"x Some("a1") None"#, r#"y Some("a1") None"#]);
    assert!(found.differences[1].why.contains("once x/0 has one"), "{:?}", found.differences[1]);
}

#[test]
fn a_link_that_takes_longer_keeps_no_promise() {
    let text = "site a docker\nnode a1 a cpu=4\nsite b docker\nnode b1 b cpu=4\nlink a b 5ms";
    let bound = json!([{"to": "far", "latency": "10ms"}]);
    let app = web(json!([
        {"name": "far", "needs": {"sites": ["b"]}},
        {"name": "near", "needs": {"sites": ["a"]}, "connects": bound},
    ]));
    let outcome = |latency: &str| {
        let delay = Supposition::LinkDelay("a--b".into(), latency.parse().unwrap());
        let world = world(text).with([app.clone()]);
        let found = what_if(&world, &[delay], &Options::default(), &Limits::default()).unwrap();
        found.plan.apps[0].outcome
    };
    assert_eq!(outcome("9ms"), Outcome::Placed);
    assert_ne!(outcome("11ms"), Outcome::Placed);
    let nobody = Supposition::LinkDelay("a--c".into(), "1ms".parse().unwrap());
    check(&[nobody], expect!["link a--c: does not exist"]);
}
