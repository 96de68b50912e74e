//! An outside solver that knows nothing but the text of `docs/placement-model.md`: it reads the
//! dumped JSON and tries everything. It must find the same choices possible, and the same best.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;

use serde_json::Value;
use tombolo_model::component::{Affinity, Component, Expose, Preference, Spread};
use tombolo_placement::instance::{Shape, instance};
use tombolo_placement::select::{Limits, Outcome};
use tombolo_placement::{Continuum, Options, compile, select};

fn number(value: &Value) -> i64 {
    value.as_i64().unwrap()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap()
}

fn at(value: &Value) -> usize {
    usize::try_from(number(value)).unwrap()
}

/// The objective of one candidate for each item, or `None` if they break a rule.
fn judge(model: &Value, chosen: &[&Value]) -> Option<i64> {
    let node = |item: usize| &model["nodes"][at(&chosen[item]["node"])];
    let zone = |item: usize| at(&node(item)["zone"]);
    let mut used: BTreeMap<(usize, &str), i64> = BTreeMap::new();
    let mut objective = 0;
    for (item, candidate) in list(&model["items"]).iter().zip(chosen) {
        objective += number(&candidate["value"]);
        for (resource, demand) in item["demand"].as_object().unwrap() {
            *used.entry((at(&candidate["node"]), resource)).or_insert(0) += number(demand);
        }
    }
    for ((node, resource), used) in used {
        let capacity = model["nodes"][node]["capacity"].get(resource).map_or(0, number);
        if used > capacity {
            return None;
        }
    }
    let mut carried: BTreeMap<usize, i64> = BTreeMap::new();
    for edge in list(&model["edges"]) {
        let (from, to) = (zone(at(&edge["a"])), zone(at(&edge["b"])));
        let route = &model["routes"][from][to];
        let latency = route.get("latency_us").map(number)?;
        if edge["latency_us_max"].as_i64().is_some_and(|max| latency > max) {
            return None;
        }
        objective -= number(&edge["traffic"]) * number(&model["zone_cost"][from][to]);
        for link in list(&route["links"]).iter().filter(|_| from != to) {
            *carried.entry(at(link)).or_insert(0) += number(&edge["bandwidth_bps"]);
        }
    }
    let full = |(link, carried): (&usize, &i64)| {
        model["links"][*link]["bandwidth_bps"].as_i64().is_some_and(|left| *carried > left)
    };
    if carried.iter().any(full) {
        return None;
    }
    let place = |group: &Value, item: usize| match group["scope"].as_str().unwrap() {
        "node" => at(&chosen[item]["node"]),
        _ => zone(item),
    };
    for (rule, wanted) in [("apart", false), ("together", true)] {
        for group in list(&model[rule]) {
            let places: Vec<usize> =
                list(&group["items"]).iter().map(|item| place(group, at(item))).collect();
            let pairs = (0..places.len()).flat_map(|a| (0..a).map(move |b| (a, b)));
            if pairs.into_iter().any(|(a, b)| (places[a] == places[b]) != wanted) {
                return None;
            }
        }
    }
    for items in list(&model["same_engine"]) {
        let engines: Vec<&Value> =
            list(items).iter().map(|item| &chosen[at(item)]["engine"]).collect();
        if engines.windows(2).any(|pair| pair[0] != pair[1]) {
            return None;
        }
    }
    Some(objective - crowding(model, chosen))
}

/// What the load of nodes costs, and items in one place that would rather not be.
fn crowding(model: &Value, chosen: &[&Value]) -> i64 {
    let load = &model["load"];
    let cost = |of: i64| {
        let steps = list(&load["steps"]).iter();
        steps.map(|step| number(&step["cost"]) * (of - number(&step["above"])).max(0)).sum::<i64>()
    };
    let mut loads: BTreeMap<usize, i64> = BTreeMap::new();
    for (item, candidate) in list(&model["items"]).iter().zip(chosen) {
        let node = at(&candidate["node"]);
        if item["loads"] == true {
            let whole = load["nodes"][node]["whole"].as_object().unwrap();
            let share = |(resource, whole): (&String, &Value)| {
                item["demand"].get(resource).map_or(0, number) * 1000 / number(whole)
            };
            *loads.entry(node).or_insert(0) += whole.iter().map(share).max().unwrap_or(0).min(1000);
        }
    }
    let mut sum = 0;
    for (node, own) in loads {
        let before = number(&load["nodes"][node]["before"]);
        sum += cost(before + own) - cost(before);
    }
    for group in list(&model["scatter"]) {
        let place = |item: &Value| {
            let node = at(&chosen[at(item)]["node"]);
            if group["scope"] == "node" { node } else { at(&model["nodes"][node]["zone"]) }
        };
        let places: Vec<usize> = list(&group["items"]).iter().map(place).collect();
        let pairs = (0..places.len()).flat_map(|a| (0..a).map(move |b| (a, b)));
        let together = pairs.filter(|(a, b)| places[*a] == places[*b]).count();
        sum += number(&group["cost"]) * i64::try_from(together).unwrap();
    }
    sum
}

/// The best of all combinations of candidates.
fn best<'m>(model: &'m Value, chosen: &mut Vec<&'m Value>) -> Option<i64> {
    let items = list(&model["items"]);
    if chosen.len() == items.len() {
        return judge(model, chosen);
    }
    let mut most = None;
    for candidate in list(&items[chosen.len()]["candidates"]) {
        chosen.push(candidate);
        most = most.max(best(model, chosen));
        chosen.pop();
    }
    most
}

/// A soft rule, a port of the node or an even spread, in turns.
fn ask_for_more(component: &mut Component, other: &str, turn: u64) {
    let weight = 10 + u32::try_from(turn % 30).unwrap();
    let wish = Preference { weight, ..Preference::default() };
    match turn % 7 {
        0 => component.prefers = vec![Preference { spread: Some(Spread::Node), ..wish }],
        1 => component.prefers = vec![Preference { with: vec![other.to_owned()], ..wish }],
        2 => component.prefers = vec![Preference { apart: vec![other.to_owned()], ..wish }],
        3 => component.prefers = vec![Preference { spread: Some(Spread::Site), ..wish }],
        4 => {
            let published = Some(8_080);
            component.expose = vec![Expose { port: 80, published, ..Expose::default() }];
        }
        5 => {
            let (spread, skew) = (Some(Spread::Site), Some(1));
            component.affinity = Some(Affinity { spread, skew, ..Affinity::default() });
        }
        _ => (),
    }
}

#[test]
fn who_tries_everything_in_the_dump_finds_our_answer() {
    let (mut placed, mut without) = (0, 0);
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    for seed in 0..240 {
        let pick = |modulus: u64, least: u64| usize::try_from(least + seed % modulus).unwrap();
        let shape = Shape { sites: pick(3, 1), nodes: pick(4, 3), components: pick(3, 1), seed };
        let mut made = instance(&shape);
        let other = made.app.spec.components[0].name.clone();
        for (number, component) in made.app.spec.components.iter_mut().enumerate() {
            ask_for_more(component, &other, seed / 3 + number as u64);
            component.replicas = component.replicas.map(|replicas| replicas.min(2));
            if let Some(needs) = &mut component.needs {
                // Large enough that not everything fits on one node.
                needs.cpu = needs.cpu.map(|cpu| tombolo_model::Cpu::from_millis(cpu.millis() * 3));
            }
            if seed % 5 == 0 && number == 0 {
                component.stateful = true;
            }
        }
        made.app.spec.homogeneous = seed % 4 == 0;
        let (continuum, _) = Continuum::of(&made.sites, &made.nodes, &made.links);
        let apps = [made.app];
        let compiled = compile(&continuum, &apps, &[], &Options::default());
        if compiled.problem.items.len() > 5 {
            continue;
        }
        let found = select(&compiled.problem, &Limits::default()).unwrap();
        let model: Value = serde_json::from_str(&compiled.problem.to_json()).unwrap();
        for (what, scope) in [("scatter", "node"), ("scatter", "zone"), ("apart", "zone")] {
            let is_there = list(&model[what]).iter().any(|group| group["scope"] == scope);
            *seen.entry(if what == "apart" { "even" } else { scope }).or_default() +=
                usize::from(is_there);
        }
        let port = |item: &Value| item["demand"].get("port/8080/tcp").is_some();
        *seen.entry("port").or_default() += usize::from(list(&model["items"]).iter().any(port));
        match best(&model, &mut Vec::new()) {
            Some(objective) => {
                assert_eq!(found.parts, [Outcome::Placed], "seed {seed}");
                assert_eq!(found.objective, objective, "seed {seed}");
                assert!(found.optimal, "seed {seed}");
                placed += 1;
            }
            None => {
                assert_eq!(found.parts, [Outcome::Infeasible], "seed {seed}");
                without += 1;
            }
        }
    }
    assert!(placed > 60 && without > 5, "{placed} placed, {without} without a place");
    assert!(seen.len() == 4 && seen.values().all(|count| *count > 5), "{seen:?}");
}
