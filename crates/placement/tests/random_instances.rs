//! Plans over made-up continua, judged by a checker that knows nothing of the crate's inside: it
//! reads the App, the Nodes and the Links as they were given, and has a shortest-path algorithm of
//! its own.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::print_stdout, reason = "a test says how much it has seen")]

use std::collections::BTreeMap;

use tombolo_model::component::{ServiceClass, Spread};
use tombolo_model::{App, AppId, Link, Node, Site};
use tombolo_placement::instance::{Instance, Shape, instance};
use tombolo_placement::plan::{Outcome, Step};
use tombolo_placement::select::Limits;
use tombolo_placement::{Continuum, Hold, Options, Plan, Running, Scope, compile, plan, select};

const FAR: u64 = u64::MAX / 4;

fn shape(seed: u64) -> Shape {
    let pick = |modulus: u64, least: u64| usize::try_from(least + (seed * 7919) % modulus).unwrap();
    Shape { sites: pick(12, 2), nodes: pick(40, 4), components: pick(9, 1), seed }
}

/// Enough for instances of this size, and quick without optimisation.
fn limits() -> Limits<'static> {
    Limits { work: 300_000, ..Limits::default() }
}

fn planned(made: &Instance, running: &[Running], scope: Scope) -> Plan {
    let (continuum, troubles) = Continuum::of(&made.sites, &made.nodes, &made.links);
    assert_eq!(troubles, []);
    let apps = [made.app.clone()];
    let options = Options { scope, ..Options::default() };
    plan(&continuum, &apps, running, &options, &limits()).unwrap()
}

/// Where each instance is: component and replica to node.
fn places(plan: &Plan) -> BTreeMap<(String, u32), String> {
    let instances = plan.apps.iter().flat_map(|app| &app.instances);
    instances
        .map(|instance| {
            let at = &instance.placement;
            ((at.component.clone(), at.replica), at.node.clone().unwrap())
        })
        .collect()
}

fn as_running(made: &Instance, plan: &Plan) -> Vec<Running> {
    let app = AppId::of(&made.app);
    let instances = plan.apps.iter().flat_map(|app| &app.instances);
    instances
        .map(|instance| Running {
            app: Some(app.clone()),
            component: instance.placement.component.clone(),
            replica: instance.placement.replica,
            node: instance.placement.node.clone().unwrap(),
            engine: instance.placement.engine.unwrap(),
            resources: Some(instance.resources.clone()),
            ports: None,
            hold: Hold::Held,
        })
        .collect()
}

/// Everything that the placement breaks, in words.
fn broken(app: &App, made: &Instance, places: &BTreeMap<(String, u32), String>) -> Vec<String> {
    let mut found = Vec::new();
    let node =
        |name: &str| made.nodes.iter().find(|n| n.metadata.name.as_deref() == Some(name)).unwrap();
    let site = |node: &Node| -> &Site {
        made.sites.iter().find(|s| s.metadata.name.as_ref() == Some(&node.spec.site)).unwrap()
    };
    let mut used: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for component in &app.spec.components {
        let needs = component.needs.as_ref().unwrap();
        let mut taken: Vec<&str> = Vec::new();
        for replica in 0..component.replicas.unwrap_or(1) {
            let Some(name) = places.get(&(component.name.clone(), replica)) else {
                found.push(format!("{}/{replica} has no place", component.name));
                continue;
            };
            let on = node(name);
            let status = on.status.as_ref().unwrap();
            let sum = used.entry(name).or_default();
            sum.0 += needs.cpu.unwrap().millis();
            sum.1 += needs.memory.unwrap().get();
            let arch = status
                .characteristics
                .as_ref()
                .unwrap()
                .cpu
                .as_ref()
                .unwrap()
                .architecture
                .unwrap();
            if !needs.arch.is_empty() && !needs.arch.contains(&arch) {
                found.push(format!("{} on {arch}", component.name));
            }
            if needs.security.is_some_and(|level| level.score() > status.security_score.unwrap()) {
                found.push(format!("{} on an unsafe node", component.name));
            }
            let labels = on.metadata.labels.as_ref().unwrap();
            if needs.labels.iter().any(|(key, value)| labels.get(key) != Some(value)) {
                found.push(format!("{} without its label", component.name));
            }
            let at = site(on);
            if !needs.layers.is_empty() && !needs.layers.contains(&at.spec.layer.unwrap()) {
                found.push(format!("{} on a wrong layer", component.name));
            }
            let runs =
                component.run.iter().any(|r| r.way().unwrap().engines().contains(&at.spec.engine));
            if !runs {
                found.push(format!("{} cannot run by {}", component.name, at.spec.engine));
            }
            taken.push(name);
        }
        let spread = component.affinity.as_ref().and_then(|affinity| affinity.spread);
        taken.sort_unstable();
        if spread == Some(Spread::Node) && taken.windows(2).any(|pair| pair[0] == pair[1]) {
            found.push(format!("{} is not spread", component.name));
        }
    }
    for (name, (cpu, memory)) in used {
        let has = node(name).status.as_ref().unwrap().allocatable.as_ref().unwrap();
        if cpu > has.cpu.unwrap().millis() || memory > has.memory.unwrap().get() {
            found.push(format!("{name} is too full"));
        }
    }
    found.extend(network_broken(app, made, places));
    found
}

/// Sites by number, and the delay of the shortest way between each two.
struct Net {
    number: BTreeMap<String, usize>,
    distance: Vec<Vec<u64>>,
}

impl Net {
    /// Whether the shortest way from one site to another goes along the link, one way or the other.
    fn crosses(&self, from: usize, to: usize, link: &Link) -> bool {
        let [a, b] = [0, 1].map(|end: usize| self.number[&link.spec.ends[end].name]);
        let latency = link.quality().latency.unwrap().micros();
        [(a, b), (b, a)].into_iter().any(|(first, second)| {
            self.distance[from][first] + latency + self.distance[second][to]
                == self.distance[from][to]
        })
    }
}

impl Net {
    /// Floyd and Warshall, by delay.
    fn of(sites: &[Site], links: &[Link]) -> Net {
        let names = sites.iter().map(|site| site.metadata.name.clone().unwrap());
        let number: BTreeMap<String, usize> =
            names.enumerate().map(|(i, name)| (name, i)).collect();
        let mut distance = vec![vec![FAR; sites.len()]; sites.len()];
        for (site, row) in distance.iter_mut().enumerate() {
            row[site] = 0;
        }
        for link in links {
            let [a, b] = [0, 1].map(|end: usize| number[&link.spec.ends[end].name]);
            let latency = link.quality().latency.unwrap().micros();
            distance[a][b] = distance[a][b].min(latency);
            distance[b][a] = distance[b][a].min(latency);
        }
        for middle in 0..sites.len() {
            for from in 0..sites.len() {
                for to in 0..sites.len() {
                    let around = distance[from][middle].saturating_add(distance[middle][to]);
                    distance[from][to] = distance[from][to].min(around);
                }
            }
        }
        Net { number, distance }
    }
}

fn network_broken(
    app: &App,
    made: &Instance,
    places: &BTreeMap<(String, u32), String>,
) -> Vec<String> {
    let net = Net::of(&made.sites, &made.links);
    let site = |node: &str| {
        let node = made.nodes.iter().find(|n| n.metadata.name.as_deref() == Some(node)).unwrap();
        net.number[&node.spec.site]
    };
    let mut found = Vec::new();
    let mut carried = vec![0; made.links.len()];
    for component in &app.spec.components {
        let own =
            || places.iter().filter(|((name, _), _)| *name == component.name).map(|(_, node)| node);
        for connection in &component.connects {
            assert_ne!(connection.class, Some(ServiceClass::BestEffort));
            let callees: Vec<usize> = places
                .iter()
                .filter(|((name, _), _)| *name == connection.to)
                .map(|(_, node)| site(node))
                .collect();
            let rate = connection.bandwidth.map_or(0, |rate| rate.bps());
            let share = rate.div_ceil(u64::try_from(callees.len().max(1)).unwrap());
            for (from, to) in own().flat_map(|from| callees.iter().map(|to| (site(from), *to))) {
                let has = net.distance[from][to];
                if connection.latency.is_some_and(|max| has > max.micros()) {
                    found.push(format!("{} to {}: {has} µs", component.name, connection.to));
                }
                for (link, carried) in made.links.iter().zip(&mut carried) {
                    *carried += if net.crosses(from, to, link) { share } else { 0 };
                }
            }
        }
        if let Some(users) = &component.users {
            for from in own() {
                let has = net.distance[site(from)][net.number[&users.sites[0]]];
                if has > users.latency.unwrap().micros() {
                    found.push(format!("{} to its users: {has} µs", component.name));
                }
            }
        }
    }
    for (link, carried) in made.links.iter().zip(carried) {
        let bandwidth = link.quality().bandwidth.unwrap().bps();
        if carried > bandwidth {
            let name = link.metadata.name.as_deref().unwrap();
            found.push(format!("{name} carries {carried} of {bandwidth} bit/s"));
        }
    }
    found
}

#[test]
fn a_plan_breaks_nothing_that_the_documents_ask_for() {
    let (mut placed, mut refused) = (0, 0);
    for seed in 0..150 {
        let made = instance(&shape(seed));
        let plan = planned(&made, &[], Scope::Pending);
        let [app] = plan.apps.as_slice() else { panic!("one app, one plan") };
        match app.outcome {
            Outcome::Placed => {
                assert_eq!(
                    broken(&made.app, &made, &places(&plan)),
                    [] as [String; 0],
                    "seed {seed}"
                );
                assert!(plan.objective <= plan.bound, "seed {seed}");
                placed += 1;
            }
            Outcome::Unplaced => {
                assert!(!app.unplaced.is_empty(), "seed {seed} says nothing");
                assert!(app.unplaced.iter().all(|u| !u.reasons.is_empty()), "seed {seed}");
                refused += 1;
            }
            Outcome::Kept | Outcome::Refused => panic!("seed {seed}: {:?}", app.outcome),
        }
    }
    // Made-up Apps that have no place are as welcome here, but not too many of them.
    println!("placed {placed}, no place {refused}");
    assert!(placed > 100, "placed {placed}, no place {refused}");
}

#[test]
fn no_link_carries_more_than_it_can() {
    let (mut placed, mut narrow) = (0, 0);
    for seed in 0..120 {
        let mut made = instance(&Shape { nodes: 12, ..shape(seed) });
        let light = planned(&made, &[], Scope::Pending);
        for component in &mut made.app.spec.components {
            for connection in &mut component.connects {
                let rate = connection.bandwidth.map(|rate| rate.bps());
                connection.bandwidth = rate.map(|bps| tombolo_model::BitRate::from_bps(bps * 12));
            }
        }
        let plan = planned(&made, &[], Scope::Pending);
        if plan.apps[0].outcome == Outcome::Placed {
            assert_eq!(broken(&made.app, &made, &places(&plan)), [] as [String; 0], "seed {seed}");
            placed += 1;
            // The lighter answer would not do any more.
            narrow += usize::from(!broken(&made.app, &made, &places(&light)).is_empty());
        }
    }
    assert!(placed > 50 && narrow > 0, "placed {placed}, {narrow} of them by another way");
}

#[test]
fn another_node_never_makes_the_best_worse() {
    let mut compared = 0;
    for seed in 0..80 {
        let mut made = instance(&shape(seed));
        // The unit of money is the middle price, which one more node may move: none has a price.
        made.nodes.iter_mut().for_each(|node| node.spec.cost_hourly = None);
        let with = planned(&made, &[], Scope::Pending);
        made.nodes.pop();
        let without = planned(&made, &[], Scope::Pending);
        if without.optimal && without.apps[0].outcome == Outcome::Placed {
            assert_eq!(with.apps[0].outcome, Outcome::Placed, "seed {seed}");
            assert!(with.bound >= without.objective, "seed {seed}");
            assert!(!with.optimal || with.objective >= without.objective, "seed {seed}");
            compared += usize::from(with.optimal);
        }
    }
    assert!(compared > 30, "{compared}");
}

#[test]
fn the_order_of_the_input_does_not_matter() {
    for seed in 0..40 {
        let made = instance(&shape(seed));
        let mut turned = made.clone();
        turned.sites.reverse();
        turned.nodes.reverse();
        turned.links.reverse();
        turned.app.spec.components.reverse();
        for component in &mut turned.app.spec.components {
            component.connects.reverse();
        }
        let (first, second) =
            (planned(&made, &[], Scope::Pending), planned(&turned, &[], Scope::Pending));
        assert_eq!(first.objective, second.objective, "seed {seed}");
        assert_eq!(places(&first), places(&second), "seed {seed}");
    }
}

#[test]
fn the_dumped_model_gives_our_objective_for_our_answer() {
    for seed in 0..60 {
        let made = instance(&shape(seed));
        let (continuum, _) = Continuum::of(&made.sites, &made.nodes, &made.links);
        let apps = [made.app.clone()];
        let compiled = compile(&continuum, &apps, &[], &Options::default());
        let found = select(&compiled.problem, &limits()).unwrap();
        assert_eq!(compiled.problem.check(&found.chosen), Ok(found.objective), "seed {seed}");
        let plan = planned(&made, &[], Scope::Pending);
        assert_eq!(plan.objective, found.objective, "seed {seed}");
    }
}

#[test]
fn a_settled_state_gives_nothing_to_do() {
    let mut proven = 0;
    for seed in 0..60 {
        let made = instance(&shape(seed));
        let first = planned(&made, &[], Scope::Pending);
        // Of an answer that is not proven to be the best, a second search may find a better one.
        if first.apps[0].outcome != Outcome::Placed || !first.optimal {
            continue;
        }
        proven += 1;
        let running = as_running(&made, &first);
        let quiet = planned(&made, &running, Scope::Pending);
        assert_eq!(quiet.apps, [], "seed {seed}");
        let thorough = planned(&made, &running, Scope::All);
        let steps =
            thorough.apps.iter().flat_map(|app| &app.instances).map(|instance| &instance.step);
        assert!(
            steps.clone().all(|step| *step == Step::Stay),
            "seed {seed}: {:?}",
            steps.collect::<Vec<_>>()
        );
    }
    assert!(proven > 30, "only {proven} of 60 were proven");
}

#[test]
fn a_large_app_with_many_bounds_finds_a_place() {
    for seed in 0..3 {
        let made = instance(&Shape { sites: 20, nodes: 300, components: 60, seed });
        let plan = planned(&made, &[], Scope::Pending);
        assert_eq!(plan.apps[0].outcome, Outcome::Placed, "seed {seed}");
        assert_eq!(broken(&made.app, &made, &places(&plan)), [] as [String; 0], "seed {seed}");
    }
}
