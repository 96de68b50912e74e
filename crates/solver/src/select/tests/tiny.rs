//! Problems small enough to try everything, with every kind of constraint in them.

use super::Dice;
use crate::problem::{
    Adjust, Candidate, Class, Edge, Group, Hops, Item, ItemId, Link, Node, NodeId, NodeLoad, Part,
    Problem, Route, Scatter, Scope, Step, ZoneId,
};

pub(super) fn problem(seed: u64, parts: usize) -> Problem {
    let mut dice = Dice::new(seed.wrapping_mul(0x1234_5677).wrapping_add(parts as u64));
    let mut problem = Problem {
        resources: vec!["cpu".into(), "memory".into()],
        engines: vec!["podman".into(), "docker".into()],
        ..Problem::default()
    };
    add_network(&mut problem, &mut dice);
    for node in 0..2 + dice.below(4) {
        let zone = ZoneId(below(&mut dice, problem.zones.len()));
        let capacity = Box::new([dice.below(6) as u64, 2 + dice.below(6) as u64]);
        problem.nodes.push(Node { id: format!("n{node}"), zone, capacity });
    }
    for _ in 0..1 + dice.below(3) {
        let class = class(&problem, &mut dice);
        problem.classes.push(class);
    }
    for part in 0..parts {
        let items = match parts {
            1 => 1 + dice.below(4),
            _ => 1 + dice.below(2),
        };
        add_part(&mut problem, part, items, &mut dice);
    }
    if parts > 1 && dice.below(3) == 0 {
        let items = ItemId::first(problem.items.len()).filter(|_| dice.below(2) == 0).collect();
        let scope = if dice.below(2) == 0 { Scope::Node } else { Scope::Zone };
        problem.apart.push(Group { items, scope });
    }
    if dice.below(2) == 0 {
        add_crowding(&mut problem, &mut dice);
    }
    problem
}

/// Costs that are of the size of the values.
fn add_crowding(problem: &mut Problem, dice: &mut Dice) {
    for _ in 0..dice.below(4) {
        let (above, cost) = (10 * dice.below(5) as u64, signed(dice, 3));
        problem.load.steps.push(Step { above, cost });
    }
    for _ in &problem.nodes {
        let whole = Box::new([100 * dice.below(3) as u64, 100 + dice.below(200) as u64]);
        let before = [0, 0, 15, 40][dice.below(4)];
        problem.load.nodes.push(NodeLoad { whole, before });
    }
    for item in &mut problem.items {
        item.loads = dice.below(4) > 0;
    }
    for part in &problem.parts {
        let items = part.items.iter().copied().filter(|_| dice.below(3) > 0).collect();
        let (scope, cost) = match dice.below(2) {
            0 => (Scope::Node, signed(dice, 12)),
            _ => (Scope::Zone, signed(dice, 16) - 8),
        };
        problem.scatter.push(Scatter { items, scope, cost });
    }
}

fn below(dice: &mut Dice, sides: usize) -> u32 {
    u32::try_from(dice.below(sides)).unwrap()
}

fn signed(dice: &mut Dice, sides: usize) -> i64 {
    i64::try_from(dice.below(sides)).unwrap()
}

fn add_network(problem: &mut Problem, dice: &mut Dice) {
    let zones = 1 + dice.below(3);
    problem.zones = (0..zones).map(|zone| format!("z{zone}")).collect();
    for _ in 0..dice.below(4) {
        let (a, b) = (ZoneId(below(dice, zones)), ZoneId(below(dice, zones)));
        let bandwidth_bps = (dice.below(4) > 0).then(|| dice.below(8) as u64);
        problem.links.push(Link { a, b, bandwidth_bps });
    }
    for from in 0..zones {
        let mut routes = Vec::new();
        let mut costs = Vec::new();
        for to in 0..zones {
            let links = problem.links.len();
            let used = if links == 0 { 0 } else { dice.below(3) };
            let links: Hops = (0..used).map(|_| below(dice, links)).collect();
            let same = from == to;
            let latency_us = if same { 0 } else { dice.below(10) as u64 };
            let there = same || dice.below(6) > 0;
            routes.push(there.then_some(Route { latency_us, links }));
            costs.push(if same { 0 } else { signed(dice, 12) - 1 });
        }
        problem.routes.push(routes);
        problem.zone_cost.push(costs);
    }
}

fn class(problem: &Problem, dice: &mut Dice) -> Class {
    let mut candidates = Vec::new();
    for node in NodeId::first(problem.nodes.len()) {
        for engine in 0..2 {
            if dice.below(3) > 0 {
                let value = i32::try_from(signed(dice, 40)).unwrap() - 5;
                candidates.push(Candidate { node, engine, value });
            }
        }
    }
    Class { candidates }
}

fn add_part(problem: &mut Problem, part: usize, items: usize, dice: &mut Dice) {
    let first = problem.items.len();
    for item in 0..items {
        let nodes = problem.nodes.len();
        let mut new = Item {
            id: format!("p{part}/i{item}"),
            class: below(dice, problem.classes.len()),
            demand: Box::new([dice.below(3) as u64, dice.below(3) as u64]),
            ..Item::default()
        };
        if dice.below(4) == 0 {
            let delta = i32::try_from(signed(dice, 20)).unwrap() - 10;
            let engine = [None, Some(0), Some(1)][item % 3];
            new.adjust.push(Adjust { node: NodeId(below(dice, nodes)), engine, delta });
        }
        if dice.below(6) == 0 {
            new.barred.push(NodeId(below(dice, nodes)));
        }
        if dice.below(4) == 0 {
            new.current = Some(NodeId(below(dice, nodes)));
        }
        problem.items.push(new);
    }
    let some = |dice: &mut Dice| -> Vec<ItemId> {
        let all = (first..first + items).map(ItemId::new);
        all.filter(|_| dice.below(2) == 0).collect()
    };
    for _ in 0..dice.below(items + 2) {
        let edge = Edge {
            a: ItemId::new(first + dice.below(items)),
            b: ItemId::new(first + dice.below(items)),
            traffic: signed(dice, 4),
            latency_us_max: (dice.below(2) == 0).then(|| dice.below(10) as u64),
            bandwidth_bps: dice.below(5) as u64,
        };
        problem.edges.push(edge);
    }
    for _ in 0..dice.below(2) {
        let scope = if dice.below(2) == 0 { Scope::Node } else { Scope::Zone };
        let group = Group { items: some(dice), scope };
        match dice.below(2) {
            0 => problem.apart.push(group),
            _ => problem.together.push(group),
        }
    }
    if dice.below(4) == 0 {
        problem.same_engine.push(some(dice));
    }
    let ids = (first..first + items).map(ItemId::new).collect();
    let priority = i32::try_from(dice.below(3)).unwrap();
    problem.parts.push(Part { id: format!("p{part}"), priority, items: ids, packs: false });
}

/// The same problem in another order, and where each item went.
pub(super) fn shuffle(problem: &Problem, seed: u64) -> (Problem, Vec<usize>) {
    let mut dice = Dice::new(seed);
    let mut order = |len: usize| -> Vec<usize> {
        let mut order: Vec<usize> = (0..len).collect();
        (1..len).for_each(|at| order.swap(at, dice.below(at + 1)));
        order
    };
    // The thing at `order[i]` goes to `i`, so `at[old]` is its new index.
    let invert = |order: &[usize]| -> Vec<usize> {
        let mut at = vec![0; order.len()];
        order.iter().enumerate().for_each(|(new, old)| at[*old] = new);
        at
    };
    let (nodes, items) = (order(problem.nodes.len()), order(problem.items.len()));
    let (node_at, item_at) = (invert(&nodes), invert(&items));
    let node = |old: NodeId| NodeId::new(node_at[old.at()]);
    let item = |old: ItemId| ItemId::new(item_at[old.at()]);
    let mut new = problem.clone();
    new.nodes = nodes.iter().map(|old| problem.nodes[*old].clone()).collect();
    new.items = items.iter().map(|old| problem.items[*old].clone()).collect();
    for changed in &mut new.items {
        changed.adjust.iter_mut().for_each(|adjust| adjust.node = node(adjust.node));
        changed.barred.iter_mut().for_each(|at| *at = node(*at));
        changed.current = changed.current.map(node);
    }
    for class in &mut new.classes {
        class.candidates.iter_mut().for_each(|c| c.node = node(c.node));
        class.candidates.reverse();
    }
    for edge in &mut new.edges {
        (edge.a, edge.b) = (item(edge.a), item(edge.b));
    }
    new.edges.reverse();
    for group in new.apart.iter_mut().chain(&mut new.together) {
        group.items.iter_mut().for_each(|at| *at = item(*at));
        group.items.reverse();
    }
    new.apart.reverse();
    if !problem.load.nodes.is_empty() {
        let of = |old: &usize| problem.load.nodes[*old].clone();
        new.load.nodes = nodes.iter().map(of).collect();
    }
    for group in &mut new.scatter {
        group.items.iter_mut().for_each(|at| *at = item(*at));
        group.items.reverse();
    }
    new.scatter.reverse();
    for part in &mut new.parts {
        part.items.iter_mut().for_each(|at| *at = item(*at));
    }
    new.parts.reverse();
    (new, item_at)
}

pub(super) fn without_last_node(problem: &Problem) -> Problem {
    let mut without = problem.clone();
    without.nodes.pop();
    without.load.nodes.pop();
    let nodes = without.nodes.len();
    for class in &mut without.classes {
        class.candidates.retain(|c| c.node.at() < nodes);
    }
    without
}
