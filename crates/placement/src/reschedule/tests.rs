//! What moving costs, what a violation weighs, and that placements settle.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::compile::Scope;
use crate::plan::{Outcome, Step};
use crate::running::Hold;
use crate::testing::{app, shown, web, world};
use crate::what_if::World;

#[test]
fn moves_only_for_more_than_a_move_costs() {
    let text = |mhz: u32| {
        format!(
            "site s docker\nnode a s cpu=4 memory=8Gi mhz=2000\nnode b s cpu=4 memory=8Gi mhz={mhz}\nrun shop/web x 0 a"
        )
    };
    let weights = json!({"performance": 1});
    let of = |mhz: u32, stateful: bool| {
        let spec = json!({"weights": weights, "components": [{"name": "x", "stateful": stateful}]});
        shown(&world(&text(mhz)).with([app("web", spec)]).plan_all())
    };
    // 2000 MHz give 50 points of speed, of which performance counts a quarter.
    assert_eq!(of(2600, false), "x/0: stay on a\n");
    assert_eq!(of(8000, false), "x/0: move from a on b\n");
    assert_eq!(of(8000, true), "x/0: stay on a\n");
}

#[test]
fn a_move_gains_what_it_says() {
    let text = "site s docker\nnode a s cpu=4 memory=8Gi mhz=2000\nnode b s cpu=4 memory=8Gi mhz=8000\nrun shop/web x 0 a";
    let spec = json!({"weights": {"performance": 1}, "components": [{"name": "x"}]});
    let plan = world(text).with([app("web", spec)]).plan_all();
    let reason = plan.apps[0].instances[0].placement.decision.clone().unwrap().reason.unwrap();
    // 7.5 points better, 5 of them paid for the move of the only instance.
    assert!(reason.starts_with("moves from a: 2.5 points better, moving paid"), "{reason}");
}

#[test]
fn a_penalty_decays_and_ends() {
    let strike = |verdict| Strike {
        app: AppId::new("", ""),
        component: String::new(),
        node: String::new(),
        at: 1000,
        verdict,
    };
    let at = |verdict, now| penalty(&strike(verdict), now);
    assert_eq!(at(Verdict::Penalise, 1000), Penalty::Points(5000));
    assert_eq!(at(Verdict::Penalise, 1600), Penalty::Points(2500));
    assert_eq!(at(Verdict::Penalise, 0), Penalty::Points(5000));
    assert_eq!(at(Verdict::Penalise, u64::MAX), Penalty::Forgotten);
    assert_eq!(at(Verdict::Exclude, 1599), Penalty::Barred);
    assert_eq!(at(Verdict::Exclude, 1600), Penalty::Points(5000));
}

#[test]
fn the_load_that_an_instance_makes_itself_does_not_drive_it_away() {
    let text = "site s docker\nnode a s cpu=4 memory=8Gi load=1\nnode b s cpu=4 memory=8Gi load=0\nrun shop/web x 0 a";
    let spec =
        json!({"weights": {"performance": 1}, "components": [{"name": "x", "needs": {"cpu": 4}}]});
    let world = world(text).with([app("web", spec)]);
    assert_eq!(shown(&world.plan_all()), "x/0: stay on a\n");
}

/// What happens to the continuum between two looks.
#[derive(Clone, Debug)]
enum Churn {
    Kill(usize),
    Revive(usize),
    Drain(usize),
    Undrain(usize),
    Scale(usize, u32),
    /// Nothing happens; everything may be looked at.
    Rebalance,
}

fn churn() -> impl Strategy<Value = Churn> {
    prop_oneof![
        (0usize..8).prop_map(Churn::Kill),
        (0usize..8).prop_map(Churn::Revive),
        (0usize..8).prop_map(Churn::Drain),
        (0usize..8).prop_map(Churn::Undrain),
        ((0usize..3), (1u32..4)).prop_map(|(app, replicas)| Churn::Scale(app, replicas)),
        Just(Churn::Rebalance),
    ]
}

fn start() -> World {
    let mut text = String::from("site s docker\nsite t docker\nlink s t 12ms 100Mbps\n");
    for node in 0..8u32 {
        let site = if node % 2 == 0 { "s" } else { "t" };
        let (mhz, watts, security) =
            (1500 + 400 * node, 20 + 15 * (node * 5 % 8), 40 + 7 * (node * 3 % 8));
        text.push_str(&format!(
            "node n{node} {site} cpu=4 memory=8Gi mhz={mhz} watts={watts} security={security}\n"
        ));
    }
    let part = |cpu: f64, bandwidth: &str| {
        json!({"components": [
            {"name": "front", "needs": {"cpu": cpu}, "connects": [{"to": "back", "latency": "20ms", "bandwidth": bandwidth}]},
            {"name": "back", "needs": {"cpu": cpu}, "stateful": true, "affinity": {"spread": "node"}},
        ]})
    };
    world(&text).with([
        app("one", part(0.5, "5Mbps")),
        app("two", part(1.0, "10Mbps")),
        web(json!([{"name": "only", "needs": {"cpu": 1.5, "security": "medium"}, "unavailableMax": 2}])),
    ])
}

impl World {
    fn suffer(&mut self, churn: &Churn) {
        let name = |node: &usize| format!("n{node}");
        match churn {
            Churn::Kill(node) => {
                let mut options = Options::default();
                let _ =
                    self.apply(&crate::what_if::Supposition::FailNode(name(node)), &mut options);
            }
            Churn::Revive(node) => {
                if let Some(status) = &mut self.nodes[*node].status {
                    status.conditions.clear();
                }
                // What was given up is not there any more.
                self.running.retain(|running| running.hold == Hold::Held);
            }
            Churn::Drain(node) => {
                let mut options = Options::default();
                let _ =
                    self.apply(&crate::what_if::Supposition::DrainNode(name(node)), &mut options);
            }
            Churn::Undrain(node) => {
                self.nodes[*node].spec.taints.clear();
                self.nodes[*node].spec.unschedulable = false;
            }
            Churn::Scale(app, replicas) => {
                for component in &mut self.apps[*app].spec.components {
                    component.replicas = Some(*replicas);
                }
            }
            Churn::Rebalance => (),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Whatever happens, after some looks there is nothing left to do, and no look takes away what
    /// ran and could stay.
    #[test]
    fn placements_settle_after_any_churn(events in prop::collection::vec(churn(), 1..6)) {
        let mut world = start();
        for event in &events {
            world.suffer(event);
            let scope = match event {
                Churn::Rebalance => Scope::All,
                _ => Scope::Pending,
            };
            let options = Options { scope, ..Options::default() };
            let mut settled = false;
            for _ in 0..8 {
                let before = world.running.clone();
                let plan = world.plan(&options);
                let moving = plan.apps.iter().flat_map(|app| &app.instances).any(|instance| {
                    !matches!(instance.step, Step::Stay)
                });
                for app in plan.apps.iter().filter(|app| app.outcome != Outcome::Placed) {
                    let held = before.iter().filter(|r| r.app.as_ref() == Some(&app.app) && r.hold == Hold::Held).count();
                    prop_assert_eq!(app.instances.len(), held, "{:?} lost something", app.app);
                }
                let surplus = !plan.surplus.is_empty();
                world.settle(&plan);
                if !moving && !surplus {
                    settled = true;
                    break;
                }
            }
            prop_assert!(settled, "still moving after {:?}", event);
            let again = world.plan(&options);
            let steps: Vec<&Step> = again.apps.iter().flat_map(|app| &app.instances).map(|i| &i.step).collect();
            prop_assert!(steps.iter().all(|step| matches!(step, Step::Stay)), "{:?}", steps);
        }
    }
}

/// App `y` does not care where it runs and has the safe node; `x` would like it, and its node fails.
fn safe_node_is_taken(room: u32) -> World {
    let text = format!(
        "site s docker\nnode safe s cpu=4 memory=8Gi security=95\nnode open s cpu={room} memory=8Gi security=10\n\
         node gone s cpu=4 memory=8Gi silent\nrun shop/y y 0 safe\nrun shop/y z 0 gone lost\nrun shop/x x 0 gone lost"
    );
    let part = |name: &str| json!({"name": name, "needs": {"cpu": "2"}});
    let x = json!({"weights": {"security": 1}, "components": [part("x")]});
    let y = json!({"weights": {"cost": 1}, "components": [part("y"), part("z")]});
    world(&text).with([app("x", x), app("y", y)])
}

#[test]
fn what_runs_well_keeps_its_place_when_others_have_to_move_in() {
    let mut world = safe_node_is_taken(4);
    // Whoever fails needs room for two: without y/0 the safe node would have it.
    world.nodes[0].status.as_mut().unwrap().allocatable =
        serde_json::from_value(json!({"cpu": "2", "memory": "8Gi"})).unwrap();
    let plan = world.plan(&Options::default());
    assert_eq!(shown(&plan), "x/0: start on open\ny/0: stay on safe\nz/0: start on open\n");
    // If everything is looked at, what all gain together counts.
    assert!(shown(&world.plan_all()).contains("x/0: start on safe"));
}

#[test]
fn what_runs_well_moves_if_somebody_had_no_place_otherwise() {
    let mut world = safe_node_is_taken(2);
    let text = "node small s cpu=2 memory=1Gi security=5";
    world.nodes.extend(crate::testing::world(text).nodes);
    // Only the node of y/0 has the memory that x needs, and there is no room beside it.
    let needs = json!({"cpu": "4", "memory": "2Gi"});
    let needs = serde_json::from_value(needs).unwrap();
    world.apps[0].spec.components[0].needs = Some(needs);
    let plan = world.plan(&Options::default());
    let said = shown(&plan);
    assert!(said.contains("x/0: start on safe"), "{said}");
    assert!(said.contains("y/0: move from safe on "), "{said}");
    let moved = plan
        .apps
        .iter()
        .flat_map(|app| &app.instances)
        .find(|one| matches!(one.step, Step::Move { .. }));
    let reason = moved.unwrap().placement.decision.clone().unwrap().reason.unwrap();
    assert!(reason.contains("others would have no place otherwise"), "{reason}");
}

#[test]
fn who_has_no_place_in_any_case_moves_nobody() {
    let mut world = safe_node_is_taken(4);
    world.nodes[0].status.as_mut().unwrap().allocatable =
        serde_json::from_value(json!({"cpu": "2", "memory": "8Gi"})).unwrap();
    let huge = json!({"components": [{"name": "huge", "needs": {"cpu": "64"}}]});
    world.apps.push(app("impossible", huge).into());
    let said = shown(&world.plan(&Options::default()));
    assert!(said.contains("y/0: stay on safe\n"), "{said}");
    assert!(said.contains("x/0: start on open\n"), "{said}");
}

/// Apps `y00`, `y01` and so on of one instance each, two on each of the nodes, which have 4 cores.
fn in_pairs(nodes: usize, needs: &serde_json::Value) -> World {
    let mut text = String::from("site s docker\n");
    for node in 0..nodes {
        text += &format!("node n{node:03} s cpu=4 memory=8Gi arch=amd64\n");
        for app in [2 * node, 2 * node + 1] {
            text += &format!("run shop/y{app:03} y 0 n{node:03}\n");
        }
    }
    let apps = (0..2 * nodes)
        .map(|n| app(&format!("y{n:03}"), json!({"components": [{"name": "y", "needs": needs}]})));
    world(&text).with(apps)
}

/// The instances that move, with the reason of each.
fn moved(plan: &crate::Plan) -> Vec<String> {
    let instances = plan.apps.iter().flat_map(|app| &app.instances);
    let moved = instances.filter(|one| matches!(one.step, Step::Move { .. }));
    moved.map(|one| one.placement.decision.clone().unwrap().reason.unwrap()).collect()
}

#[test]
fn settled_apps_make_room_where_a_newcomer_has_no_place_otherwise() {
    // Few instances, all of which are looked at, and many, of which only some are.
    for nodes in [3, 200] {
        let mut world = in_pairs(nodes, &json!({"cpu": "1500m"}));
        let elsewhere = "node spare s cpu=2 memory=8Gi arch=arm64";
        world.nodes.extend(crate::testing::world(elsewhere).nodes);
        let needs = json!({"cpu": "2500m", "arch": ["amd64"]});
        let newcomer = json!({"components": [{"name": "x", "needs": needs}]});
        world.apps.push(app("x", newcomer).into());
        let plan = world.plan(&Options::default());
        let said = shown(&plan);
        assert!(said.contains("x/0: start on n"), "{nodes}: {said}");
        let moved = moved(&plan);
        assert_eq!(moved.len(), 1, "{nodes}: {said}");
        assert!(moved[0].contains("others would have no place otherwise"), "{moved:?}");
        world.settle(&plan);
        let again = world.plan(&Options::default());
        assert_eq!(shown(&again), "", "nothing is left to do");
    }
}

#[test]
fn settled_apps_stay_where_nobody_is_helped_and_it_is_not_called_impossible_without_a_proof() {
    for nodes in [3, 200] {
        let mut world = in_pairs(nodes, &json!({"cpu": "1500m"}));
        for (name, cpu) in [("late", "2500m"), ("huge", "64")] {
            let needs = json!({"cpu": cpu});
            let newcomer = json!({"components": [{"name": "x", "needs": needs}]});
            world.apps.push(app(name, newcomer).into());
        }
        let plan = world.plan(&Options::default());
        assert_eq!(moved(&plan), Vec::<String>::new());
        let gave_up = |name: &str| {
            let id = tombolo_model::AppId::new("shop", name);
            let found = plan.apps.iter().find(|app| app.app == id).unwrap();
            assert_eq!(found.outcome, Outcome::Unplaced, "{name}");
            found.unplaced[0].gave_up_after.is_some()
        };
        // No node is large enough for the one, whoever moves. Of the other that is only known if all were asked.
        assert!(!gave_up("huge"));
        assert_eq!(gave_up("late"), nodes == 200);
    }
}
