//! Every weight, profile and figure moves the choice in its direction.

use serde_json::{Value, json};

use crate::compile::Options;
use crate::testing::{app, nodes, web, world};

/// Two nodes that differ in one thing; the first is better in it.
const PAIRS: &[(&str, &str, &str)] = &[
    ("performance", "cpu=4 memory=8Gi mhz=4000", "cpu=4 memory=8Gi mhz=1000"),
    ("energy", "cpu=4 memory=8Gi watts=10", "cpu=4 memory=8Gi watts=200"),
    ("security", "cpu=4 memory=8Gi security=95", "cpu=4 memory=8Gi security=40"),
    ("cost", "cpu=4 memory=8Gi cost=1", "cpu=4 memory=8Gi cost=9"),
    ("resilience", "cpu=4 memory=8Gi failures=0", "cpu=4 memory=8Gi failures=20"),
];

fn chosen(text: &str, spec: Value) -> String {
    let plan = world(text).with([app("web", spec)]).plan(&Options::default());
    nodes(&plan)["a/0"].clone()
}

#[test]
fn every_weight_moves_the_result_in_its_direction() {
    for (criterion, good, bad) in PAIRS {
        for (other, _, _) in PAIRS {
            // The names take turns, so that it is not the name that decides.
            for (first, second) in [("x", "y"), ("y", "x")] {
                let text = format!("site s docker\nnode {first} s {good}\nnode {second} s {bad}");
                let weights = json!({(*criterion): 1, (*other): 1});
                let spec = json!({"weights": weights, "components": [{"name": "a"}]});
                assert_eq!(chosen(&text, spec), first, "{criterion} with {other}");
            }
        }
    }
}

#[test]
fn the_weights_decide_between_two_criteria() {
    let text = "
        site s docker
        node fast s cpu=4 memory=8Gi mhz=5000 watts=300
        node green s cpu=4 memory=8Gi mhz=800 watts=8
    ";
    let with = |performance: f64, energy: f64| {
        let weights = json!({"performance": performance, "energy": energy});
        chosen(text, json!({"weights": weights, "components": [{"name": "a"}]}))
    };
    assert_eq!(with(10.0, 1.0), "fast");
    assert_eq!(with(1.0, 10.0), "green");
}

#[test]
fn the_weight_of_latency_draws_to_users_and_between_components() {
    let text = "
        site near docker
        site far docker
        node n near cpu=4 memory=8Gi mhz=800
        node f far cpu=4 memory=8Gi mhz=5000
        link near far 40ms
    ";
    let to_users = |latency: f64| {
        let parts = json!([{"name": "a", "users": {"sites": ["near"]}}]);
        chosen(
            text,
            json!({"weights": {"performance": 1, "latency": latency}, "components": parts}),
        )
    };
    assert_eq!(to_users(0.0), "f");
    assert_eq!(to_users(1.0), "n");
    let to_other = |latency: f64| {
        let parts = json!([
            {"name": "a", "connects": [{"to": "b", "bandwidth": "50Mbps"}]},
            {"name": "b", "needs": {"sites": ["near"]}},
        ]);
        chosen(
            text,
            json!({"weights": {"performance": 1, "latency": latency}, "components": parts}),
        )
    };
    assert_eq!(to_other(0.0), "f");
    assert_eq!(to_other(1.0), "n");
}

#[test]
fn profiles_follow_the_formulas_of_codeco() {
    // Both take the same energy; one has the wider way out.
    let text = "
        site wide docker
        site slim docker
        site hub docker
        node w wide cpu=4 watts=40
        node s slim cpu=4 watts=40
        link wide hub 1ms 10Gbps
        link slim hub 1ms 10Mbps
    ";
    let spec = |profile: &str| json!({"profile": profile, "components": [{"name": "a"}]});
    assert_eq!(chosen(text, spec("greenness")), "w");
    let text = "
        site a docker
        site b docker
        site hub docker
        node x a cpu=4
        node y b cpu=4
        link a hub 1ms failures=9
        link b hub 1ms failures=0
    ";
    assert_eq!(chosen(text, spec("resilience")), "y");
}

#[test]
fn who_is_busy_or_will_be_is_avoided() {
    for busy in ["load=0.9", "forecast=0.9"] {
        let text = format!("site s docker\nnode x s cpu=4 {busy}\nnode y s cpu=4 load=0.1");
        let spec = json!({"weights": {"performance": 1}, "components": [{"name": "a"}]});
        assert_eq!(chosen(&text, spec), "y", "{busy}");
    }
}

#[test]
fn carbon_and_an_energy_limit_count_as_energy() {
    let text = "
        site clean docker carbon=30
        site dirty docker carbon=700
        node c clean cpu=4 memory=8Gi watts=50
        node d dirty cpu=4 memory=8Gi watts=40
    ";
    assert_eq!(chosen(text, json!({"weights": {"energy": 1}, "components": [{"name": "a"}]})), "c");
    let text = "site s docker\nnode large s cpu=64 watts=900\nnode small s cpu=4 watts=20";
    let of = |limit: f64| {
        let parts = json!([{"name": "a", "needs": {"cpu": 1}}]);
        chosen(text, json!({"energyLimit": limit, "weights": {"energy": 1}, "components": parts}))
    };
    assert_eq!(of(50.0), "small");
    assert_eq!(of(10.0), "large");
}

#[test]
fn an_outside_planner_is_listened_to() {
    let text = "site s docker\nnode x s cpu=4\nnode y s cpu=4";
    let value = json!([{"name": "a", "recommendations": [{"node": "y", "value": 0.9}, {"node": "x", "value": 0.1}]}]);
    assert_eq!(chosen(text, json!({"components": value})), "y");
    let cost = json!([{"name": "a", "recommendations": [{"node": "x", "cost": 9}, {"node": "y", "cost": 1}]}]);
    assert_eq!(chosen(text, json!({"components": cost})), "y");
}

#[test]
fn data_draws_a_component_to_it() {
    let text = "
        site here docker
        site there docker
        node h here cpu=4 memory=8Gi mhz=3000
        node t there cpu=4 memory=8Gi mhz=2500
        link here there 40ms
    ";
    let of = |size: &str| {
        chosen(
            text,
            json!({"components": [{"name": "a", "data": {"input": size, "from": "there"}}]}),
        )
    };
    assert_eq!(of("1M"), "h");
    assert_eq!(of("50G"), "t");
}

#[test]
fn what_is_not_known_counts_as_50_and_is_said() {
    let world = world("site s docker\nnode n s cpu=4").with([web(json!([{"name": "a"}]))]);
    let plan = world.plan(&Options::default());
    let decision = plan.apps[0].instances[0].placement.decision.clone().unwrap();
    assert_eq!(decision.terms["energy"], 50.0);
    let reason = decision.reason.unwrap();
    assert!(
        reason.contains("nothing is known of its energy, security, cost and resilience"),
        "{reason}"
    );
}

#[test]
fn the_value_of_all_nodes_is_that_of_each() {
    use crate::instance::{Shape, instance};
    use crate::{Continuum, compile};
    for seed in 0..30 {
        let mut made = instance(&Shape { sites: 7, nodes: 60, components: 8, seed });
        let recommended = json!([{"node": made.nodes[3].metadata.name, "value": 0.9, "cost": 2.0}]);
        made.app.spec.components[0].recommendations = serde_json::from_value(recommended).unwrap();
        made.app.spec.energy_limit = (seed % 3 == 0).then_some(10.0);
        let (continuum, _) = Continuum::of(&made.sites, &made.nodes, &made.links);
        let apps = [made.app];
        let compiled = compile(&continuum, &apps, &[], &Options::default());
        for kind in &compiled.kinds {
            let wish = kind.wish.as_ref().unwrap();
            let each: Vec<i32> = (0..60).map(|node| wish.value(&compiled.ground, node)).collect();
            assert_eq!(wish.values(&compiled.ground), each, "seed {seed}");
        }
    }
}
