//! More to choose from never makes a place impossible, what is well stays where it is, and a move has a reason.

use serde_json::{Value, json};
use tombolo_model::AppId;
use tombolo_solver::select::Dice;

use super::super::{Outcome, Step, Why};
use crate::compile::Options;
use crate::plan::Plan;
use crate::testing::{app, world};
use crate::what_if::World;

fn node(number: usize, dice: &mut Dice) -> String {
    let (site, arch) = (dice.below(2), ["amd64", "arm64"][dice.below(2)]);
    let (cpu, memory, tier) =
        (2 + dice.below(5), 4 + dice.below(12), ["gold", "iron"][dice.below(2)]);
    format!("node n{number:02} s{site} cpu={cpu} memory={memory}Gi arch={arch} tier={tier}")
}

fn component(name: &str, dice: &mut Dice) -> Value {
    let mut needs = json!({"cpu": 1 + dice.below(3), "memory": format!("{}Gi", 1 + dice.below(4))});
    if dice.below(3) == 0 {
        let arch = ["amd64", "arm64"][dice.below(2)];
        needs["arch"] = json!([arch]);
    }
    if dice.below(4) == 0 {
        needs["labels"] = json!({"tier": "gold"});
    }
    json!({"name": name, "needs": needs, "replicas": 1 + dice.below(2), "stateful": dice.below(4) == 0})
}

/// Two components, some of which talk or stay apart.
fn spec(dice: &mut Dice) -> Value {
    let (mut a, b) = (component("a", dice), component("b", dice));
    match dice.below(5) {
        0 => a["connects"] = json!([{"to": "b", "latency": "10ms"}]),
        1 => a["affinity"] = json!({"apart": ["b"]}),
        2 => a["affinity"] = json!({"spread": "node"}),
        3 => a["affinity"] = json!({"with": ["b"]}),
        _ => (),
    }
    json!({"components": [a, b]})
}

/// Nodes that some Apps fill more and more.
fn filled(dice: &mut Dice) -> World {
    let mut text = String::from("site s0 docker\nsite s1 docker\nlink s0 s1 20ms 100Mbps\n");
    for number in 0..4 + dice.below(5) {
        text += &(node(number, dice) + "\n");
    }
    let mut world = world(&text);
    for number in 0..2 + dice.below(4) {
        world.apps.push(app(&format!("y{number}"), spec(dice)).into());
        let plan = world.plan(&Options::default());
        world.settle(&plan);
    }
    world.apps.retain(|app| {
        let id = AppId::of(app);
        world.running.iter().any(|one| one.app.as_ref() == Some(&id))
    });
    world
}

fn outcome(plan: &Plan, name: &str) -> Option<Outcome> {
    let id = AppId::new("shop", name);
    plan.apps.iter().find(|app| app.app == id).map(|app| app.outcome)
}

fn has_place(world: &World) -> bool {
    outcome(&world.plan(&Options::default()), "x") == Some(Outcome::Placed)
}

/// The App with one rule less, in every way.
fn with_less(spec: &Value) -> Vec<Value> {
    let mut less = Vec::new();
    for part in 0..2 {
        for rule in ["arch", "labels", "cpu", "memory"] {
            let mut spec = spec.clone();
            if spec["components"][part]["needs"].as_object_mut().unwrap().remove(rule).is_some() {
                less.push(spec);
            }
        }
        for rule in ["affinity", "connects", "stateful"] {
            let mut spec = spec.clone();
            if spec["components"][part].as_object_mut().unwrap().remove(rule).is_some() {
                less.push(spec);
            }
        }
    }
    less
}

#[test]
fn another_node_or_a_rule_less_never_turns_a_yes_into_a_no() {
    let (mut yes, mut no) = (0, 0);
    for seed in 0..60 {
        let mut dice = Dice::new(seed);
        let before = filled(&mut dice);
        let newcomer = spec(&mut dice);
        let with = |spec: &Value| before.clone().with([app("x", spec.clone())]);
        if !has_place(&with(&newcomer)) {
            no += 1;
            continue;
        }
        yes += 1;
        let mut more = with(&newcomer);
        more.nodes.extend(
            world(&format!("site s0 docker\nsite s1 docker\n{}", node(90, &mut dice))).nodes,
        );
        assert!(has_place(&more), "seed {seed}: another node");
        for less in with_less(&newcomer) {
            assert!(has_place(&with(&less)), "seed {seed}: {less}");
        }
    }
    assert!(yes > 20 && no > 5, "{yes} and {no}");
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Comes,
    Goes,
    Fails,
    Drains,
    Returns,
}

/// Whatever comes and goes, an instance that runs moves only because it must, or because somebody would have had no
/// place. What nobody has touched is not looked at twice.
#[test]
fn under_churn_whatever_moves_must_or_makes_room_and_then_all_is_still() {
    let (mut must, mut room, mut away, mut events) = (0, 0, 0, 0);
    for seed in 0..40 {
        let mut dice = Dice::new(1_000 + seed);
        let mut world = filled(&mut dice);
        for turn in 0..8 {
            let kinds = [
                Event::Comes,
                Event::Comes,
                Event::Goes,
                Event::Fails,
                Event::Drains,
                Event::Returns,
            ];
            let event = kinds[dice.below(kinds.len())];
            events += 1;
            away += happens(&mut world, event, turn, &mut dice);
            // A component takes its turns one instance after the other.
            for _ in 0..6 {
                let plan = world.plan(&Options::default());
                for one in plan.apps.iter().flat_map(|app| &app.instances) {
                    match &one.step {
                        Step::Move { why: Why::Must(_), .. } => must += 1,
                        Step::Move { why: Why::MakesRoom, .. } => room += 1,
                        Step::Move { why, .. } => panic!("seed {seed} {event:?}: {why:?}"),
                        Step::Start | Step::Stay | Step::Wait => (),
                    }
                }
                let before = world.running.clone();
                world.settle(&plan);
                if world.running == before {
                    break;
                }
            }
            let again = world.plan(&Options::default());
            let steps = again.apps.iter().flat_map(|app| &app.instances);
            let moves = steps.filter(|one| !matches!(one.step, Step::Stay)).count();
            assert_eq!(moves, 0, "seed {seed} {event:?}: it does not come to rest");
        }
    }
    println!("{must} had to move of {away} that were on drained nodes, {room} made room");
    assert!(must <= away, "{must} moves for {away} instances that had to leave");
    assert!((1..=events).contains(&room), "{room} made room in {events} events");
}

/// How many instances have to leave where they run because of it.
fn happens(world: &mut World, event: Event, turn: usize, dice: &mut Dice) -> usize {
    let node = dice.below(world.nodes.len());
    let name = world.nodes[node].metadata.name.clone().unwrap();
    let there = world.running.iter().filter(|one| one.node == name).count();
    match event {
        Event::Comes => world.apps.push(app(&format!("z{turn}"), spec(dice)).into()),
        Event::Goes => drop((!world.apps.is_empty()).then(|| world.apps.remove(0))),
        Event::Fails if world.nodes.len() > 3 => drop(world.nodes.remove(node)),
        Event::Fails => (),
        Event::Drains => {
            let taint = json!({"key": "tombolo.dev/drain", "effect": "NoExecute"});
            world.nodes[node].spec.taints = vec![serde_json::from_value(taint).unwrap()];
            return there;
        }
        Event::Returns => world.nodes[node].spec.taints.clear(),
    }
    0
}
