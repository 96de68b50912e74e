//! Words for placements, pairs and conflicts; a conflict is minimal by trial.

mod causes;
mod suggestions;

use expect_test::expect;
use serde_json::{Value, json};
use tombolo_model::TroubleKind;

use super::*;
use crate::continuum::Continuum;
use crate::instance::{Shape, instance};
use crate::testing::{shown, web, world};

#[test]
fn names_the_needs_in_conflict_and_the_cheapest_change() {
    let text = "
        site s docker
        node big s cpu=16 memory=32Gi arch=amd64 security=30
        node edge-7 s cpu=4 memory=4Gi arch=arm64 security=80
    ";
    let parts = json!([{"name": "a", "needs": {"arch": ["arm64"], "memory": "4296Mi", "cpu": 1}}]);
    let plan = world(text).with([web(parts)]).plan(&Options::default());
    expect![[r#"
        a/0: no place
          needs architecture arm64; the only node that meets the rest, big, is amd64
          needs 4.2Gi memory; the only node that meets the rest, edge-7, has 4Gi
          -> node edge-7 would fit with 4Gi memory instead of 4.2Gi
    "#]]
    .assert_eq(&shown(&plan));
}

/// The needs of a component as single changes that take them away, each with its name.
type Removal = (&'static str, fn(&mut tombolo_model::needs::Needs));

const REMOVALS: &[Removal] = &[
    ("architecture", |needs| needs.arch.clear()),
    ("cpu", |needs| needs.cpu = None),
    ("memory", |needs| needs.memory = None),
    ("security", |needs| needs.security = None),
    ("layer", |needs| needs.layers.clear()),
    ("label", |needs| needs.labels.clear()),
    ("site", |needs| needs.sites.clear()),
];

#[test]
fn without_any_one_of_the_needs_in_conflict_there_is_a_place() {
    let mut looked_at = 0;
    for seed in 0..60u64 {
        let made = instance(&Shape { sites: 4, nodes: 12, components: 1, seed });
        let mut app = made.app.clone();
        let component = &mut app.spec.components[0];
        component.users = None;
        component.replicas = None;
        let site = made.sites[usize::try_from(seed % 4).unwrap()].metadata.name.clone().unwrap();
        let pick = |words: &[&'static str]| words[usize::try_from(seed).unwrap() % words.len()];
        component.needs = serde_json::from_value(json!({
            "cpu": 2 + seed % 9,
            "memory": format!("{}Gi", 1 + seed % 17),
            "arch": [pick(&["arm64", "amd64"])],
            "security": 40 + seed % 50,
            "layers": [pick(&["cloud", "near-edge", "far-edge"])],
            "labels": {"tier": "gold"},
            "sites": [site],
        }))
        .unwrap();
        let mut world = crate::what_if::World {
            sites: crate::testing::shared(&made.sites),
            nodes: crate::testing::shared(&made.nodes),
            links: crate::testing::shared(&made.links),
            ..Default::default()
        };
        world.apps = vec![app.clone().into()];
        let plan = world.plan(&Options::default());
        let Some(unplaced) = plan.apps[0].unplaced.first() else { continue };
        // What is taken for granted (readiness, engine) has no removal.
        let named: Vec<&Removal> = REMOVALS
            .iter()
            .filter(|(name, _)| {
                unplaced
                    .reasons
                    .iter()
                    .any(|r| r.starts_with("needs") && r.split(';').next().unwrap().contains(name))
            })
            .collect();
        if named.len() != unplaced.reasons.len() {
            continue;
        }
        looked_at += 1;
        // All of them together, and nothing else, are in conflict.
        let mut only = app.clone();
        let needs = only.spec.components[0].needs.as_mut().unwrap();
        for (name, remove) in REMOVALS {
            if !named.iter().any(|(kept, _)| kept == name) {
                remove(needs);
            }
        }
        world.apps = vec![only.clone().into()];
        assert!(
            world.plan(&Options::default()).apps[0].instances.is_empty(),
            "seed {seed}: not a conflict"
        );
        for (name, remove) in &named {
            let mut without = only.clone();
            remove(without.spec.components[0].needs.as_mut().unwrap());
            world.apps = vec![without.into()];
            let plan = world.plan(&Options::default());
            assert_eq!(
                plan.apps[0].instances.len(),
                1,
                "seed {seed}: {name} is not needed for the conflict"
            );
        }
    }
    assert!(looked_at > 20, "only {looked_at} conflicts");
}

#[test]
fn says_what_lies_between_components_that_find_no_place_together() {
    let text = "
        site a docker
        site b docker
        node x a cpu=4
        node y b cpu=4
        link a b 30ms
    ";
    let parts = json!([
        {"name": "one", "needs": {"nodes": ["x"]}, "connects": [{"to": "two", "latency": "20ms"}]},
        {"name": "two", "needs": {"nodes": ["y"]}},
    ]);
    let plan = world(text).with([web(parts)]).plan(&Options::default());
    expect![[r#"
        one/0: no place
          one needs at most 20ms to two
          -> they would fit if 30ms from one to two would do
        two/0: no place
          one needs at most 20ms to two
          -> they would fit if 30ms from one to two would do
    "#]]
    .assert_eq(&shown(&plan));
}

#[test]
fn suggests_nothing_where_more_than_a_handful_of_nodes_are_too_small() {
    let suggested = |nodes: usize| {
        let names = (0..nodes).map(|number| format!("n{number}"));
        let text = names
            .clone()
            .fold("site s docker".to_owned(), |text, name| format!("{text}\nnode {name} s cpu=4"));
        let two = |name: String| {
            ["a", "b"].map(|which| {
                let needs = json!({"cpu": 3, "nodes": [&name]});
                json!({"name": format!("{which}-{name}"), "needs": needs})
            })
        };
        let parts: Vec<serde_json::Value> = names.flat_map(two).collect();
        let plan = world(&text).with([web(json!(parts))]).plan(&Options::default());
        plan.apps[0].unplaced[0].suggestion.clone()
    };
    let few = suggested(2);
    assert_eq!(
        few.as_deref(),
        Some("they would fit with 2 cpu more on node n0 and 2 cpu more on node n1")
    );
    assert_eq!(suggested(12), None);
}

#[test]
fn explains_a_choice_by_its_terms_and_the_next_best() {
    let text = "
        site s docker
        node best s cpu=8 memory=8Gi mhz=3000 security=80 watts=20
        node next s cpu=8 memory=8Gi mhz=3000 security=70 watts=40
        node full s cpu=8 memory=8Gi mhz=9000 security=99 watts=1
        run shop/other x 0 full
    ";
    let other =
        crate::testing::app("other", json!({"components": [{"name": "x", "needs": {"cpu": 7}}]}));
    let world = world(text).with([other, web(json!([{"name": "a", "needs": {"cpu": 2}}]))]);
    let plan = world.plan(&Options::default());
    let decision = plan.apps[0].instances[0].placement.decision.clone().unwrap();
    let lines: Vec<String> = decision
        .alternatives
        .iter()
        .map(|next| {
            format!(
                "{} {:?} {}",
                next.node.as_deref().unwrap(),
                next.behind.unwrap(),
                next.reason.as_deref().unwrap()
            )
        })
        .collect();
    expect![[r#"
        next 4.9 energy is 61.5 there and 76.2 here
        full 8.4 no room: needs 2 cpu, 1 cpu would be left"#]]
    .assert_eq(&lines.join("\n"));
    assert!(decision.terms.contains_key("performance"));
}

#[test]
fn says_everything_that_fails_for_a_pair() {
    let text = "
        site a docker
        site b docker
        node x a cpu=4 security=80 arch=arm64
        node y b cpu=1 security=20 arch=amd64 cordoned
        link a b 30ms
        run shop/web db 0 x
        run shop/web a 0 x
    ";
    let parts = json!([
        {"name": "a", "needs": {"cpu": 2, "security": "medium", "arch": ["arm64"]}, "connects": [{"to": "db", "latency": "5ms"}]},
        {"name": "db"},
    ]);
    let world = world(text).with([web(parts)]);
    let (continuum, _) = Continuum::of(&world.sites, &world.nodes, &world.links);
    let (app, options) = (AppId::new("shop", "web"), Options::default());
    let ask = |node: &str| {
        pair(&continuum, &world.apps, &world.running, &options, (&app, "a", node)).unwrap()
    };
    expect![[r#"
        needs a node that takes new work, is cordoned
        needs architecture arm64, is amd64
        needs 2 cpu, has 1
        needs security 34, has 20
        needs at most 5ms to db/0 on x, has 30ms"#]]
    .assert_eq(&ask("y").failing.join("\n"));
    let here = ask("x");
    assert_eq!(here.failing, [] as [String; 0]);
    assert_eq!(here.instead, [("x".to_owned(), here.score)]);
    let missing = |of: (&AppId, &str, &str)| {
        let trouble = pair(&continuum, &world.apps, &[], &options, of).unwrap_err();
        (trouble.kind, trouble.to_string())
    };
    let none = |what: &str| (TroubleKind::NotFound, format!("{what}: does not exist"));
    assert_eq!(missing((&app, "a", "z")), none("node z"));
    assert_eq!(missing((&app, "c", "x")), none("component c"));
    assert_eq!(missing((&AppId::new("shop", "db"), "a", "x")), none("app shop/db"));
}

#[test]
fn since_when_a_node_is_silent_is_said_first_of_a_pair() {
    let of = |others: &str| {
        let text = format!("site a docker\nnode y a cpu=1 silent\n{others}");
        let world = world(&text).with([web(json!([{"name": "a", "needs": {"cpu": 2}}]))]);
        let (continuum, _) = Continuum::of(&world.sites, &world.nodes, &world.links);
        let (app, options) = (AppId::new("shop", "web"), Options::default());
        let found = pair(&continuum, &world.apps, &[], &options, (&app, "a", "y")).unwrap();
        found.failing.join("\n")
    };
    let since = "is silent since 2024-01-01 00:00 UTC: no heartbeat for 60 s\nneeds 2 cpu, has 1";
    assert_eq!(of("node x a cpu=4"), format!("node y {since}"));
    assert_eq!(of(""), format!("site a {since}"));
}

#[test]
fn says_what_neighbours_leave_for_a_pair() {
    let text = "
        site a docker
        site b docker
        site k kubernetes
        node x a cpu=4
        node z a cpu=4
        node y b cpu=4
        node w k cpu=4
        link a b 5ms 10Mbps
        link a k 5ms
        run shop/web db 0 x
        run shop/web near 0 x
        run shop/web talker 0 x
    ";
    let parts = json!([
        {"name": "db", "needs": {"cpu": 3}},
        {"name": "large", "needs": {"cpu": 2}},
        {"name": "shy", "affinity": {"apart": ["db"]}},
        {"name": "near", "affinity": {"with": ["db"]}},
        {"name": "talker", "connects": [{"to": "db", "bandwidth": "8Mbps"}]},
        {"name": "loud", "connects": [{"to": "db", "bandwidth": "11Mbps"}]},
    ]);
    let mut web = web(parts);
    let of = |web: &tombolo_model::App, component: &str, node: &str| {
        let broken = crate::testing::app("broken", json!({"components": []}));
        let world = world(text).with([broken, web.clone()]);
        let (continuum, _) = Continuum::of(&world.sites, &world.nodes, &world.links);
        let app = AppId::new("shop", "web");
        let about = (&app, component, node);
        let found = pair(&continuum, &world.apps, &world.running, &Options::default(), about);
        found.unwrap().failing.join("\n")
    };
    assert_eq!(of(&web, "large", "z"), "");
    assert_eq!(of(&web, "large", "x"), "needs 2 cpu, has 1");
    assert_eq!(of(&web, "shy", "x"), "needs a node without db/0, which is there");
    assert_eq!(of(&web, "shy", "z"), "");
    assert_eq!(of(&web, "near", "z"), "");
    assert_eq!(of(&web, "near", "y"), "needs the site of db/0, is at another");
    assert_eq!(of(&web, "loud", "z"), "");
    assert_eq!(of(&web, "loud", "y"), "needs 11Mbps of link a--b, has 10Mbps left");
    assert_eq!(of(&web, "talker", "y"), "");
    assert_eq!(of(&web, "db", "y"), "needs the site of near/0, is at another");
    web.spec.homogeneous = true;
    let found = of(&web, "large", "w");
    assert_eq!(found, "needs docker, by which db/0 runs, has another engine");
}

#[test]
fn the_next_best_node_may_be_ruled_out_by_a_neighbour() {
    let text = "
        site s docker
        node good s cpu=8 security=90
        node fair s cpu=8 security=50
    ";
    let parts = json!([
        {"name": "a", "replicas": 2, "affinity": {"spread": "node"}},
    ]);
    let plan = world(text).with([web(parts)]).plan(&Options::default());
    for instance in &plan.apps[0].instances {
        let decision = instance.placement.decision.clone().unwrap();
        let next = decision.alternatives[0].reason.clone().unwrap();
        assert!(next.starts_with("needs a node without a/"), "{next}");
    }
}

#[test]
fn a_node_that_is_left_is_none_of_those_that_may_run_them() {
    let text = "
        site s docker
        node old s cpu=4 taint=drain:NoExecute
        node new s cpu=2
        run shop/web a 0 old
        run shop/web b 0 new
    ";
    let parts = json!([{"name": "a", "needs": {"cpu": 2}}, {"name": "b", "needs": {"cpu": 1}}]);
    let plan = world(text).with([web(parts)]).plan(&Options::default());
    let said = "together they need 3 cpu, the only node that may run them has 2 cpu left";
    assert_eq!(plan.apps[0].unplaced[0].reasons, [said]);
}

#[test]
fn only_nodes_with_room_are_counted_as_meeting_the_needs() {
    let text = "
        site s docker
        node a s cpu=4
        node b s cpu=4
        node c s cpu=1
    ";
    // One class for both, because nothing but their size tells them apart.
    let parts =
        json!([{"name": "big", "needs": {"cpu": "2"}}, {"name": "small", "needs": {"cpu": "1"}}]);
    let plan = world(text).with([web(parts)]).plan(&Options::default());
    let instances = plan.apps.iter().flat_map(|app| &app.instances);
    let said: Vec<String> = instances
        .map(|one| one.placement.decision.clone().unwrap().reason.unwrap())
        .map(|reason| reason.split(" nodes").next().unwrap().to_owned())
        .collect();
    assert_eq!(said, ["best of 2", "best of 3"]);
}

#[test]
fn what_is_down_where_it_would_fit_is_the_first_cause() {
    let of = |state: &str| {
        let text =
            format!("site a docker\nnode a1 a cpu=4 {state}\nsite b docker\nnode b1 b cpu=4");
        let parts = json!([{"name": "x", "needs": {"sites": ["a"], "cpu": "1"}}]);
        shown(&world(&text).with([web(parts)]).plan(&Options::default()))
    };
    expect![[r#"
        x/0: no place
          site a is silent since 2024-01-01 00:00 UTC: no heartbeat for 60 s
          -> node a1 would fit if it were ready
    "#]]
    .assert_eq(&of("silent"));
    expect![[r#"
        x/0: no place
          node a1 is cordoned
          -> node a1 would fit if it were not cordoned
    "#]]
    .assert_eq(&of("cordoned"));
    expect![[r#"
        x/0: no place
          node a1 has taint key:NoExecute
          -> node a1 would fit if it tolerated taint key:NoExecute
    "#]]
    .assert_eq(&of("taint=key:NoExecute"));
}

#[test]
fn a_silent_node_that_is_held_by_others_is_silent_first() {
    let of = |first: &str, second: &str| {
        let text = format!(
            "site a docker\nnode a1 a cpu=4 {first}\nnode a2 a cpu=1 {second}\n\
             site b docker\nnode b1 b cpu=4\nrun shop/other y 0 a1"
        );
        let other = json!({"components": [{"name": "y", "needs": {"cpu": "3", "nodes": ["a1"]}}]});
        let parts = json!([{"name": "x", "needs": {"sites": ["a"], "cpu": "3"}}]);
        let world = world(&text).with([crate::testing::app("other", other), web(parts)]);
        shown(&world.plan(&Options::default()))
    };
    expect![[r#"
        x/0: no place
          site a is silent since 2024-01-01 00:00 UTC: no heartbeat for 60 s
          -> node a1 would fit if it were ready and with 1 cpu instead of 3
    "#]]
    .assert_eq(&of("silent", "silent"));
    expect![[r#"
        x/0: no place
          node a1 is cordoned
          -> node a1 would fit if it were not cordoned and with 1 cpu instead of 3
    "#]]
    .assert_eq(&of("cordoned", "cordoned"));
    // One that is open and too small says what is missing: the other is as full.
    expect![[r#"
        x/0: no place
          needs 3 cpu; the only node that meets the rest, a2, has 1
          needs site a; the only node that meets the rest, b1, is at b
          -> node a2 would fit with 1 cpu instead of 3
    "#]]
    .assert_eq(&of("cordoned", ""));
}

#[test]
fn several_closed_nodes_are_counted_and_each_way_is_told() {
    let of = |first: &str, second: &str| {
        let text = format!(
            "site a docker\nnode a1 a cpu=4 {first}\nsite b docker\nnode b1 b cpu=4 {second}\n\
             site c docker\nnode c1 c cpu=1"
        );
        let parts = json!([{"name": "x", "needs": {"cpu": "3"}}]);
        let plan = world(&text).with([web(parts)]).plan(&Options::default());
        plan.apps[0].unplaced[0].reasons.join("\n")
    };
    expect!["none of 2 nodes that would do is open: node a1 is silent since 2024-01-01 00:00 UTC: no heartbeat for 60 s"].assert_eq(&of("silent", "silent"));
    expect![[r#"
        site a is silent since 2024-01-01 00:00 UTC: no heartbeat for 60 s
        node b1 is cordoned"#]]
    .assert_eq(&of("silent", "cordoned"));
    expect!["none of 2 nodes that would do is open: node a1 is cordoned"]
        .assert_eq(&of("cordoned taint=k:NoSchedule", "cordoned"));
}

#[test]
fn what_is_wrong_with_a_whole_site_is_said_of_the_site() {
    let of = |change: &dyn Fn(&mut tombolo_model::Site)| {
        let text =
            "site a docker\nnode a1 a cpu=4\nnode a2 a cpu=4\nsite b docker\nnode b1 b cpu=4";
        let parts = json!([{"name": "x", "needs": {"sites": ["a"]}}]);
        let mut world = world(text).with([web(parts)]);
        change(&mut world.sites[0]);
        world.plan(&Options::default()).apps[0].unplaced[0].reasons.join("\n")
    };
    let taint = json!({"key": tombolo_model::keys::TAINT_DRAIN, "effect": "NoExecute"});
    let taint: tombolo_model::needs::Taint = serde_json::from_value(taint).unwrap();
    assert_eq!(of(&|site| site.spec.unschedulable = true), "site a is cordoned");
    assert_eq!(of(&|site| site.spec.taints.push(taint.clone())), "site a is being drained");
}

#[test]
fn a_name_that_nothing_has_is_the_first_cause() {
    let land =
        "site athens docker\nsite berlin docker\nnode edge-7 athens cpu=4\nnode b1 berlin cpu=4";
    let of = |component: Value| {
        let plan = world(land).with([web(json!([component]))]).plan(&Options::default());
        plan.apps[0].unplaced[0].reasons.join("\n")
    };
    let needs = |needs: Value| of(json!({"name": "x", "needs": needs}));
    expect![[r#"there is no node "edge7" (did you mean "edge-7"?)"#]]
        .assert_eq(&needs(json!({"nodes": ["edge7"]})));
    expect![[r#"there is no site "atens" (did you mean "athens"?)"#]]
        .assert_eq(&needs(json!({"sites": ["atens"]})));
    expect![[r#"there is no site "nowhere""#]].assert_eq(&needs(json!({"sites": ["nowhere"]})));
    // What does exist and will not do is told after it.
    let both = needs(json!({"nodes": ["edge7", "b1"], "cpu": 5}));
    let said: Vec<&str> = both.lines().collect();
    assert_eq!(said[0], r#"there is no node "edge7" (did you mean "edge-7"?)"#, "{both}");
    assert!(said.len() > 1, "{both}");
    let places = json!([{"by": "site", "values": ["berln"]}]);
    let placed = of(json!({"name": "x", "places": places}));
    assert!(placed.starts_with(r#"there is no site "berln" (did you mean "berlin"?)"#), "{placed}");
}
