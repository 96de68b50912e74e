//! Is it a problem, and is it an answer? Both are said without any of the code that searches, so
//! that the tests of the search can lean on them.

use std::collections::BTreeMap;
use std::fmt;

use super::{Candidate, Choice, Group, ItemId, NodeId, Problem, Route, Scope, ZoneId};

/// More than this times the items would leave `i64`.
const COST_MAX: i64 = 1 << 40;
const ITEMS_MAX: usize = 1 << 20;
/// In microseconds: some hundred thousand years. The search needs a number beyond all of them.
pub(crate) const LATENCY_US_MAX: u64 = 1 << 62;

/// A sentence that says why a problem cannot be solved as it stands.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Invalid(String);

impl Invalid {
    pub(crate) fn new(sentence: String) -> Invalid {
        Invalid(sentence)
    }
}

/// One constraint that an answer breaks. `Display` makes a clause of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Violation {
    /// The answer has another length than the items.
    Length {
        expected: usize,
        given: usize,
    },
    /// Some items of a part are placed and others are not.
    Torn {
        part: String,
    },
    NoCandidate {
        item: String,
        choice: Choice,
    },
    Capacity {
        node: String,
        resource: String,
        used: u128,
        capacity: u64,
    },
    NoRoute {
        a: String,
        b: String,
    },
    Latency {
        a: String,
        b: String,
        latency_us: u64,
        max: u64,
    },
    Bandwidth {
        link: u32,
        used: u128,
        bandwidth_bps: u64,
    },
    NotApart {
        items: Vec<String>,
        scope: Scope,
    },
    NotTogether {
        items: Vec<String>,
        scope: Scope,
    },
    MixedEngines {
        items: Vec<String>,
    },
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Violation::Length { expected, given } => {
                write!(f, "{given} choices for {expected} items")
            }
            Violation::Torn { part } => write!(f, "only some items of {part} are placed"),
            Violation::NoCandidate { item, choice } => {
                write!(f, "{item} may not run on node {} by engine {}", choice.node, choice.engine)
            }
            Violation::Capacity { node, resource, used, capacity } => {
                write!(f, "{node} has {capacity} {resource}, and {used} are used")
            }
            Violation::NoRoute { a, b } => write!(f, "no route between {a} and {b}"),
            Violation::Latency { a, b, latency_us, max } => {
                write!(f, "{latency_us} µs between {a} and {b}, at most {max} are allowed")
            }
            Violation::Bandwidth { link, used, bandwidth_bps } => {
                write!(f, "link {link} has {bandwidth_bps} bit/s, and {used} are used")
            }
            Violation::NotApart { items, scope } => {
                write!(f, "{} share a {}", items.join(", "), scope.word())
            }
            Violation::NotTogether { items, scope } => {
                write!(f, "{} do not share a {}", items.join(", "), scope.word())
            }
            Violation::MixedEngines { items } => {
                write!(f, "{} run on different engines", items.join(", "))
            }
        }
    }
}

impl Scope {
    pub(super) fn word(self) -> &'static str {
        match self {
            Scope::Node => "node",
            Scope::Zone => "zone",
        }
    }
}

impl Problem {
    /// The objective of an answer, or everything that is wrong with it. Items that are not placed
    /// count nothing, and neither do their edges and groups.
    ///
    /// # Panics
    ///
    /// If the problem is not valid; see [`Problem::validate`].
    pub fn check(&self, chosen: &[Option<Choice>]) -> Result<i64, Vec<Violation>> {
        if chosen.len() != self.items.len() {
            let (expected, given) = (self.items.len(), chosen.len());
            return Err(vec![Violation::Length { expected, given }]);
        }
        let mut found = Vec::new();
        let mut objective = self.check_items(chosen, &mut found);
        self.check_parts(chosen, &mut found);
        self.check_capacity(chosen, &mut found);
        objective -= self.check_edges(chosen, &mut found) + self.crowding(chosen);
        self.check_groups(chosen, &mut found);
        if found.is_empty() { Ok(objective) } else { Err(found) }
    }

    /// The way from one zone to another.
    pub fn route(&self, from: ZoneId, to: ZoneId) -> Option<&Route> {
        self.routes[from.at()][to.at()].as_ref()
    }

    /// The value of a candidate for an item, or `None` if it is not one.
    pub fn value(&self, item: ItemId, choice: Choice) -> Option<i64> {
        let item = &self.items[item];
        if item.barred.contains(&choice.node) {
            return None;
        }
        let candidates = &self.classes[item.class as usize].candidates;
        // Where they are in the order of nodes it is found at once; where not, by looking at all.
        let near = candidates.partition_point(|candidate| candidate.node < choice.node);
        let wanted = |c: &&Candidate| c.node == choice.node && c.engine == choice.engine;
        let there = candidates[near..].iter().take_while(|c| c.node == choice.node).find(wanted);
        let candidate = there.or_else(|| candidates.iter().find(wanted))?;
        Some(item.value_of(candidate))
    }

    fn check_items(&self, chosen: &[Option<Choice>], found: &mut Vec<Violation>) -> i64 {
        let mut sum = 0;
        for (item, choice) in ItemId::first(chosen.len()).zip(chosen) {
            let Some(choice) = *choice else { continue };
            match self.value(item, choice) {
                Some(value) => sum += value,
                None => {
                    let item = self.items[item].id.clone();
                    found.push(Violation::NoCandidate { item, choice });
                }
            }
        }
        sum
    }

    fn check_parts(&self, chosen: &[Option<Choice>], found: &mut Vec<Violation>) {
        for part in &self.parts {
            let placed = part.items.iter().filter(|item| chosen[**item].is_some()).count();
            if placed != 0 && placed != part.items.len() {
                found.push(Violation::Torn { part: part.id.clone() });
            }
        }
    }

    fn check_capacity(&self, chosen: &[Option<Choice>], found: &mut Vec<Violation>) {
        let mut used: BTreeMap<(NodeId, usize), u128> = BTreeMap::new();
        for (item, choice) in self.items.iter().zip(chosen) {
            let Some(choice) = choice else { continue };
            for (resource, demand) in item.demand.iter().enumerate() {
                *used.entry((choice.node, resource)).or_default() += u128::from(*demand);
            }
        }
        for ((node, resource), used) in used {
            let Some(node) = self.nodes.get(node.at()) else { continue };
            let capacity = node.capacity[resource];
            if used > u128::from(capacity) {
                let (node, resource) = (node.id.clone(), self.resources[resource].clone());
                found.push(Violation::Capacity { node, resource, used, capacity });
            }
        }
    }

    fn check_edges(&self, chosen: &[Option<Choice>], found: &mut Vec<Violation>) -> i64 {
        let mut cost = 0;
        let mut used: BTreeMap<u32, u128> = BTreeMap::new();
        let zone_of = |item: ItemId| Some(self.nodes[chosen[item]?.node].zone);
        for edge in &self.edges {
            let (Some(from), Some(to)) = (zone_of(edge.a), zone_of(edge.b)) else { continue };
            let (a, b) = (&self.items[edge.a].id, &self.items[edge.b].id);
            let Some(route) = self.route(from, to) else {
                found.push(Violation::NoRoute { a: a.clone(), b: b.clone() });
                continue;
            };
            if let Some(max) = edge.latency_us_max.filter(|max| route.latency_us > *max) {
                let (a, b, latency_us) = (a.clone(), b.clone(), route.latency_us);
                found.push(Violation::Latency { a, b, latency_us, max });
            }
            cost += edge.traffic * self.zone_cost[from.at()][to.at()];
            if from != to {
                for link in &route.links {
                    *used.entry(*link).or_default() += u128::from(edge.bandwidth_bps);
                }
            }
        }
        for (link, used) in used {
            let left = self.links[link as usize].bandwidth_bps;
            if let Some(bandwidth_bps) = left.filter(|left| used > u128::from(*left)) {
                found.push(Violation::Bandwidth { link, used, bandwidth_bps });
            }
        }
        cost
    }

    fn check_groups(&self, chosen: &[Option<Choice>], found: &mut Vec<Violation>) {
        let names = |items: &[ItemId]| -> Vec<String> {
            items.iter().map(|item| self.items[*item].id.clone()).collect()
        };
        for group in &self.apart {
            let mut places = self.places(chosen, group);
            places.sort_unstable();
            if places.windows(2).any(|pair| pair[0] == pair[1]) {
                let (items, scope) = (names(&group.items), group.scope);
                found.push(Violation::NotApart { items, scope });
            }
        }
        for group in &self.together {
            let places = self.places(chosen, group);
            if places.windows(2).any(|pair| pair[0] != pair[1]) {
                let (items, scope) = (names(&group.items), group.scope);
                found.push(Violation::NotTogether { items, scope });
            }
        }
        for items in &self.same_engine {
            let mut engines = items.iter().filter_map(|item| Some(chosen[*item]?.engine));
            let first = engines.next();
            if engines.any(|engine| Some(engine) != first) {
                found.push(Violation::MixedEngines { items: names(items) });
            }
        }
    }

    fn places(&self, chosen: &[Option<Choice>], group: &Group) -> Vec<u32> {
        let placed = group.items.iter().filter_map(|item| chosen[*item]);
        match group.scope {
            Scope::Node => placed.map(|choice| choice.node.0).collect(),
            Scope::Zone => placed.map(|choice| self.nodes[choice.node].zone.0).collect(),
        }
    }
}

mod validate;
