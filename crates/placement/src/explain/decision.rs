//! Why an instance was put where it is: the terms of its score, and what speaks against the next
//! best nodes.

use std::collections::BTreeMap;

use tombolo_model::app::{Alternative, Decision};
use tombolo_solver::problem::{Candidate, Choice, ItemId, NodeId};

use super::crowding::Crowding;
use super::neighbours::{self, Neighbours};
use crate::compile::Compiled;
use crate::plan::{Step, Why};
use crate::reschedule;
use crate::words;

/// So many are kept with a decision.
const ALTERNATIVES_MAX: usize = 3;
/// So many candidates of a class are looked at for them.
const BEST_MAX: usize = 8;

/// Explains the choices of one solution; what instances of a class share is found once.
#[derive(Debug)]
pub(crate) struct Reasons<'r, 'c, 'a> {
    compiled: &'r Compiled<'c, 'a>,
    chosen: &'r [Option<Choice>],
    /// By node and resource of the problem: what the chosen items take.
    used: Vec<u64>,
    /// By item: the edges that touch it.
    edges: BTreeMap<ItemId, Vec<usize>>,
    /// By class: what it would like most.
    best: BTreeMap<u32, Vec<Candidate>>,
    /// By class and demand: the nodes that have room for it, ascending.
    fitting: BTreeMap<(u32, Box<[u64]>), Vec<NodeId>>,
    neighbours: Neighbours<'r>,
    crowding: Crowding,
}

impl<'r, 'c, 'a> Reasons<'r, 'c, 'a> {
    pub(crate) fn new(
        compiled: &'r Compiled<'c, 'a>,
        chosen: &'r [Option<Choice>],
    ) -> Reasons<'r, 'c, 'a> {
        let problem = &compiled.problem;
        let width = problem.resources.len();
        let mut used = vec![0u64; problem.nodes.len() * width];
        for (item, choice) in problem.items.iter().zip(chosen) {
            let Some(choice) = choice else { continue };
            let start = choice.node.at() * width;
            for (sum, demand) in used[start..start + width].iter_mut().zip(&item.demand) {
                *sum = sum.saturating_add(*demand);
            }
        }
        let mut edges: BTreeMap<ItemId, Vec<usize>> = BTreeMap::new();
        for (number, edge) in problem.edges.iter().enumerate() {
            edges.entry(edge.a).or_default().push(number);
            edges.entry(edge.b).or_default().push(number);
        }
        let neighbours = Neighbours::of(compiled, chosen);
        let (best, fitting) = (BTreeMap::new(), BTreeMap::new());
        let crowding = Crowding::of(compiled, chosen);
        Reasons { compiled, chosen, used, edges, best, fitting, neighbours, crowding }
    }

    pub(crate) fn decision(&mut self, item: ItemId, choice: Choice, step: &Step) -> Decision {
        let compiled = self.compiled;
        let class = compiled.problem.items[item].class;
        let node = compiled.nodes[choice.node.at()];
        // An instance that waits for its turn has a class without wishes.
        let wish = compiled.kinds[class as usize].wish.as_ref();
        let mut terms: BTreeMap<String, f64> = BTreeMap::new();
        let mut silent: Vec<String> = Vec::new();
        for (name, _, score) in wish.iter().flat_map(|wish| wish.terms(&compiled.ground, node)) {
            if score.is_none() {
                silent.push(name.to_owned());
            }
            terms.insert(name.to_owned(), tenth(score.unwrap_or(crate::score::NEUTRAL)));
        }
        if let Some(network) = self.network(item, choice.node) {
            terms.insert("network".to_owned(), tenth(network));
        }
        let alternatives = self.alternatives(item, choice);
        let reason = self.reason(item, step, &alternatives, &silent);
        let score = wish.map(|wish| tenth(wish.score(&compiled.ground, node)));
        Decision { reason: Some(reason), score, terms, alternatives }
    }

    /// How many nodes meet all needs of an item, room among them.
    fn fitting(&mut self, item: ItemId) -> usize {
        let problem = &self.compiled.problem;
        let own = &problem.items[item];
        let nodes = self.fitting.entry((own.class, own.demand.clone())).or_insert_with(|| {
            let candidates = &problem.classes[own.class as usize].candidates;
            let fits = |node: &NodeId| {
                problem.nodes[*node].capacity.iter().zip(&own.demand).all(|(has, need)| has >= need)
            };
            let mut nodes: Vec<NodeId> = candidates.iter().map(|c| c.node).filter(fits).collect();
            // They are in the order of nodes; one with two engines is there twice.
            nodes.dedup();
            nodes
        });
        nodes.len() - own.barred.iter().filter(|node| nodes.binary_search(node).is_ok()).count()
    }

    fn reason(
        &mut self,
        item: ItemId,
        step: &Step,
        next: &[Alternative],
        silent: &[String],
    ) -> String {
        let count = self.fitting(item);
        let mut reason = match step {
            Step::Start => match (count, next.first().and_then(|next| next.behind)) {
                (1, _) => "the only node that meets all its needs".to_owned(),
                (_, Some(behind)) if behind >= 0.0 => {
                    format!(
                        "best of {count} nodes that meet its needs, {behind} points before the next"
                    )
                }
                (_, _) => {
                    format!("best of {count} nodes that meet its needs, together with the others")
                }
            },
            Step::Stay => "stays: no other place gains more than a move costs".to_owned(),
            Step::Wait => "waits here until others of its component have moved".to_owned(),
            Step::Move { from, why } => match why {
                Why::Must(reasons) => format!("moves from {from}: {}", reasons.join("; ")),
                Why::Gains(points) => {
                    format!("moves from {from}: {} points better, moving paid", tenth(*points))
                }
                Why::Yields => format!("moves from {from}: others gain by it"),
                Why::MakesRoom => {
                    format!("moves from {from}: others would have no place otherwise")
                }
            },
        };
        if !silent.is_empty() {
            let silent = words::list(silent);
            reason.push_str(&format!("; nothing is known of its {silent}, which counts as 50"));
        }
        reason
    }

    /// How short the ways to its partners are, 0 to 100.
    fn network(&self, item: ItemId, node: NodeId) -> Option<f64> {
        let edges = self.edges.get(&item)?;
        let problem = &self.compiled.problem;
        let (mut cost, mut traffic) = (0.0, 0.0);
        for edge in edges.iter().map(|edge| &problem.edges[*edge]) {
            let Some((from, to)) = self.zones(item, node, edge.a, edge.b) else { continue };
            #[expect(clippy::cast_precision_loss, reason = "at most 100 each")]
            let (weight, price) = (edge.traffic as f64, problem.zone_cost[from][to] as f64);
            cost += weight * price;
            traffic += weight;
        }
        (traffic > 0.0).then(|| 100.0 - cost / traffic)
    }

    /// The zones of the two ends of an edge, if `item` were on `node`.
    fn zones(&self, item: ItemId, node: NodeId, a: ItemId, b: ItemId) -> Option<(usize, usize)> {
        let problem = &self.compiled.problem;
        let zone = |end: ItemId| {
            let node = if end == item { node } else { self.chosen[end]?.node };
            Some(problem.nodes[node].zone.at())
        };
        Some((zone(a)?, zone(b)?))
    }

    fn traffic_cost(&self, item: ItemId, node: NodeId) -> i64 {
        let problem = &self.compiled.problem;
        let edges = self.edges.get(&item).into_iter().flatten().map(|edge| &problem.edges[*edge]);
        let costs = edges.filter_map(|edge| {
            let (from, to) = self.zones(item, node, edge.a, edge.b)?;
            Some(edge.traffic * problem.zone_cost[from][to])
        });
        costs.sum()
    }

    fn total(&self, item: ItemId, choice: Choice) -> i64 {
        let value = self.compiled.problem.value(item, choice).unwrap_or(0);
        value - self.cost_beside(item, choice.node)
    }

    /// What the others make an item cost on a node: its traffic, and how full the node is.
    fn cost_beside(&self, item: ItemId, node: NodeId) -> i64 {
        let crowding = self.crowding.cost(self.compiled, (item, self.chosen[item]), node);
        self.traffic_cost(item, node) + crowding
    }

    fn alternatives(&mut self, item: ItemId, choice: Choice) -> Vec<Alternative> {
        let compiled = self.compiled;
        let class = compiled.problem.items[item].class;
        let best = self.best.entry(class).or_insert_with(|| best(compiled, class));
        let best = best.clone();
        let own = self.total_quick(item, choice, &best);
        let mut next: Vec<(i64, Candidate)> = best
            .into_iter()
            .filter(|candidate| candidate.node != choice.node)
            .map(|candidate| (own - self.candidate_total(item, candidate), candidate))
            .collect();
        next.sort_by_key(|(behind, candidate)| (*behind, candidate.node));
        next.truncate(ALTERNATIVES_MAX);
        next.into_iter()
            .map(|(behind, candidate)| self.alternative(item, choice, candidate, behind))
            .collect()
    }

    /// Like `total`, without a search through a long class when the choice is among the best.
    fn total_quick(&self, item: ItemId, choice: Choice, best: &[Candidate]) -> i64 {
        match best
            .iter()
            .find(|candidate| candidate.node == choice.node && candidate.engine == choice.engine)
        {
            Some(candidate) => self.candidate_total(item, *candidate),
            None => self.total(item, choice),
        }
    }

    fn candidate_total(&self, item: ItemId, candidate: Candidate) -> i64 {
        let value = self.compiled.problem.items[item].value_of(&candidate);
        value - self.cost_beside(item, candidate.node)
    }

    fn alternative(
        &self,
        item: ItemId,
        choice: Choice,
        other: Candidate,
        behind: i64,
    ) -> Alternative {
        let node = self.compiled.nodes[other.node.at()];
        let against = self.against(item, choice, other);
        #[expect(clippy::cast_precision_loss, reason = "points for people")]
        let behind = tenth(behind as f64 / 100.0);
        Alternative {
            site: self.compiled.continuum.site_of(node).name.to_owned(),
            node: Some(self.compiled.continuum.node(node).name.to_owned()),
            behind: Some(behind),
            reason: Some(against),
        }
    }

    /// What speaks most against another node: that it cannot be, or where it is worst.
    fn against(&self, item: ItemId, choice: Choice, other: Candidate) -> String {
        let problem = &self.compiled.problem;
        if problem.items[item].barred.contains(&other.node) {
            return "it violated a policy there".to_owned();
        }
        let (here, there) =
            (self.compiled.nodes[choice.node.at()], self.compiled.nodes[other.node.at()]);
        let engines = neighbours::engines(self.compiled, item, there);
        let unfit = || self.neighbours.against(self.compiled, item, there, &engines);
        let said = self.no_room(item, other.node).or_else(|| self.too_far(item, other.node));
        if let Some(said) = said.or_else(|| unfit().into_iter().next()) {
            return said;
        }
        let class = problem.items[item].class as usize;
        let ground = &self.compiled.ground;
        let mut worst: (f64, String) = (0.0, "nothing: it is as good".to_owned());
        let mut judge = |name: &str, weight: f64, here: f64, there: f64| {
            let loss = weight * (here - there);
            if loss > worst.0 {
                worst =
                    (loss, format!("{name} is {} there and {} here", tenth(there), tenth(here)));
            }
        };
        if let Some(wish) = &self.compiled.kinds[class].wish {
            let or = |score: Option<f64>| score.unwrap_or(crate::score::NEUTRAL);
            for (at, to) in wish.terms(ground, here).zip(wish.terms(ground, there)) {
                judge(at.0, at.1, or(at.2), or(to.2));
            }
        }
        if let (Some(at), Some(to)) =
            (self.network(item, choice.node), self.network(item, other.node))
        {
            judge("network", 0.5, at, to);
        }
        if let (Some(wish), Some(ask)) = (&self.compiled.kinds[class].wish, self.compiled.ask(item))
        {
            let less = f64::from(wish.bonus(here) - wish.bonus(there)) / 100.0;
            let prefers = &ask.component.prefers;
            let continuum = self.compiled.continuum;
            let lost = crate::score::wishes::lost(continuum, prefers, ask.needs, (here, there));
            if less > worst.0 && !lost.is_empty() {
                worst = (less, words::list(&lost));
            }
        }
        let at = (item, self.chosen[item]);
        let crowding = |node| self.crowding.cost(self.compiled, at, node);
        #[expect(clippy::cast_precision_loss, reason = "points for people")]
        let fuller = (crowding(other.node) - crowding(choice.node)) as f64 / 100.0;
        if fuller > worst.0 {
            let nodes = (choice.node, other.node);
            worst = (fuller, self.crowding.says(self.compiled, at, nodes));
        }
        if problem.items[item].current == Some(choice.node) {
            let ask = self.compiled.ask(item);
            let cost =
                ask.map_or(0.0, |ask| f64::from(reschedule::moving_cost(ask.component)) / 100.0);
            if cost > worst.0 {
                return format!("moving there costs {} points", tenth(cost));
            }
        }
        worst.1
    }

    fn no_room(&self, item: ItemId, node: NodeId) -> Option<String> {
        let problem = &self.compiled.problem;
        let width = problem.resources.len();
        let start = node.at() * width;
        for (resource, name) in problem.resources.iter().enumerate() {
            let need = problem.items[item].demand[resource];
            let left =
                problem.nodes[node].capacity[resource].saturating_sub(self.used[start + resource]);
            if need > left {
                let (need, left) = amounts(name, need, left);
                return Some(format!("no room: needs {need}, {left} would be left"));
            }
        }
        None
    }

    fn too_far(&self, item: ItemId, node: NodeId) -> Option<String> {
        let problem = &self.compiled.problem;
        for edge in self.edges.get(&item)?.iter().map(|edge| &problem.edges[*edge]) {
            let Some((from, to)) = self.zones(item, node, edge.a, edge.b) else { continue };
            let other = if edge.a == item { edge.b } else { edge.a };
            let other = &problem.items[other].id;
            let Some(route) = &problem.routes[from][to] else {
                return Some(format!("no way to {other}"));
            };
            if let Some(max) = edge.latency_us_max.filter(|max| route.latency_us > *max) {
                let (has, max) = (words::delay(route.latency_us), words::delay(max));
                return Some(format!("too far from {other}: {has}, at most {max} will do"));
            }
        }
        None
    }
}

/// An amount of a resource of the problem, as people say it.
pub(super) fn amount(resource: &str, amount: u64) -> String {
    match resource {
        "cpu_millis" => format!("{} cpu", words::cpu(amount)),
        "memory_bytes" => format!("{} memory", words::bytes(amount)),
        "storage_bytes" => format!("{} storage", words::bytes(amount)),
        "gpu" => format!("{amount} gpu"),
        other => crate::compile::say_amount(other, amount),
    }
}

/// What is needed and what is left of it, in so many digits that the one that is more reads as more.
pub(super) fn amounts(resource: &str, need: u64, left: u64) -> (String, String) {
    match resource {
        "memory_bytes" => {
            let (need, left) = words::bytes_both(need, left);
            (format!("{need} memory"), format!("{left} memory"))
        }
        "storage_bytes" => {
            let (need, left) = words::bytes_both(need, left);
            (format!("{need} storage"), format!("{left} storage"))
        }
        other => (amount(other, need), amount(other, left)),
    }
}

/// The best candidates of a class, each node once.
fn best(compiled: &Compiled<'_, '_>, class: u32) -> Vec<Candidate> {
    let mut candidates = compiled.problem.classes[class as usize].candidates.clone();
    // They are in the order of nodes; of two engines of a node the better one stays.
    candidates.dedup_by(|next, kept| {
        let same = next.node == kept.node;
        if same && next.value > kept.value {
            *kept = *next;
        }
        same
    });
    let order = |candidate: &Candidate| (std::cmp::Reverse(candidate.value), candidate.node);
    if candidates.len() > BEST_MAX {
        candidates.select_nth_unstable_by_key(BEST_MAX, order);
        candidates.truncate(BEST_MAX);
    }
    candidates.sort_by_key(order);
    candidates
}

fn tenth(number: f64) -> f64 {
    (number * 10.0).round() / 10.0
}
