//! What a [`Problem`] must be before it is searched: indices that point somewhere, names that
//! differ, sums that stay inside `i64`. The search relies on it and does not look again.

use super::{COST_MAX, ITEMS_MAX, Invalid, LATENCY_US_MAX, Problem};
use crate::problem::{Scope, Step};

/// Of a thousandth of load, and of two items in one place: a million points.
const CROWDING_MAX: i64 = 1 << 27;
/// A node that is overfull a thousand times.
const LOAD_MAX: u64 = 1_000_000;
const STEPS_MAX: usize = 16;
/// Each is an edge of the search.
const PAIRS_MAX: usize = 1 << 20;

impl Problem {
    /// Says in one sentence what makes the problem impossible to solve as it stands. Values are
    /// `i32` and need no limit; costs of traffic do.
    pub fn validate(&self) -> Result<(), Invalid> {
        self.validate_sizes()?;
        self.validate_network()?;
        self.validate_nodes()?;
        self.validate_items()?;
        self.validate_groups()?;
        self.validate_crowding()?;
        self.validate_parts()
    }

    fn validate_sizes(&self) -> Result<(), Invalid> {
        let sizes = [
            ("items", self.items.len(), ITEMS_MAX),
            ("nodes", self.nodes.len(), 1 << 24),
            ("zones", self.zones.len(), 1 << 16),
            ("links", self.links.len(), 1 << 24),
            ("edges", self.edges.len(), 1 << 22),
            ("engines", self.engines.len(), 256),
            ("resources", self.resources.len(), 256),
        ];
        match sizes.iter().find(|(_, len, max)| len > max) {
            Some((what, len, max)) => {
                Err(invalid(format!("{len} {what}; at most {max} are taken")))
            }
            None => Ok(()),
        }
    }

    fn validate_network(&self) -> Result<(), Invalid> {
        let zones = self.zones.len();
        differ("zones", self.zones.iter().map(String::as_str))?;
        differ("engines", self.engines.iter().map(String::as_str))?;
        differ("resources", self.resources.iter().map(String::as_str))?;
        let square = |mut lens: std::vec::IntoIter<usize>| lens.all(|len| len == zones);
        let lens: Vec<usize> = self.routes.iter().map(Vec::len).collect();
        if lens.len() != zones || !square(lens.into_iter()) {
            return Err(invalid(format!("routes are not a square of {zones} zones")));
        }
        let lens: Vec<usize> = self.zone_cost.iter().map(Vec::len).collect();
        if lens.len() != zones || !square(lens.into_iter()) {
            return Err(invalid(format!("zone_cost is not a square of {zones} zones")));
        }
        if self.links.iter().any(|link| link.a.max(link.b).at() >= zones) {
            return Err(invalid("a link names a zone that is not there".into()));
        }
        for route in self.routes.iter().flatten().flatten() {
            if route.links.iter().any(|link| *link as usize >= self.links.len()) {
                return Err(invalid("a route names a link that is not there".into()));
            }
            if route.latency_us > LATENCY_US_MAX {
                let latency = route.latency_us;
                return Err(invalid(format!("a route takes {latency} µs, more than any can")));
            }
        }
        let cost = self.zone_cost.iter().flatten().map(|cost| cost.unsigned_abs()).max();
        let traffic = self.edges.iter().map(|edge| edge.traffic.unsigned_abs()).max();
        let product = u128::from(cost.unwrap_or(0)) * u128::from(traffic.unwrap_or(0));
        if product > u128::from(COST_MAX.unsigned_abs()) {
            return Err(invalid(format!(
                "traffic times zone_cost reaches {product}; at most {COST_MAX} is taken"
            )));
        }
        Ok(())
    }

    fn validate_nodes(&self) -> Result<(), Invalid> {
        differ("nodes", self.nodes.iter().map(|node| node.id.as_str()))?;
        for node in &self.nodes {
            if node.zone.at() >= self.zones.len() {
                return Err(invalid(format!("node {} is in a zone that is not there", node.id)));
            }
            if node.capacity.len() != self.resources.len() {
                return Err(invalid(format!(
                    "node {} has {} capacities for {} resources",
                    node.id,
                    node.capacity.len(),
                    self.resources.len()
                )));
            }
        }
        let mut candidates = self.classes.iter().flat_map(|class| &class.candidates);
        let (nodes, engines) = (self.nodes.len(), self.engines.len());
        if candidates.any(|c| c.node.at() >= nodes || usize::from(c.engine) >= engines) {
            return Err(invalid("a candidate names a node or an engine that is not there".into()));
        }
        Ok(())
    }

    fn validate_items(&self) -> Result<(), Invalid> {
        differ("items", self.items.iter().map(|item| item.id.as_str()))?;
        for item in &self.items {
            if item.class as usize >= self.classes.len() {
                return Err(invalid(format!("{} has a class that is not there", item.id)));
            }
            if item.demand.len() != self.resources.len() {
                return Err(invalid(format!(
                    "{} has {} demands for {} resources",
                    item.id,
                    item.demand.len(),
                    self.resources.len()
                )));
            }
        }
        for edge in &self.edges {
            if edge.a.max(edge.b).at() >= self.items.len() {
                return Err(invalid("an edge names an item that is not there".into()));
            }
        }
        Ok(())
    }

    fn validate_parts(&self) -> Result<(), Invalid> {
        differ("parts", self.parts.iter().map(|part| part.id.as_str()))?;
        let mut seen = vec![false; self.items.len()];
        for part in &self.parts {
            for item in &part.items {
                match seen.get_mut(item.at()) {
                    Some(seen) if !*seen => *seen = true,
                    Some(_) => {
                        let id = &self.items[*item].id;
                        return Err(invalid(format!("{id} is in two parts")));
                    }
                    None => {
                        let id = &part.id;
                        return Err(invalid(format!("{id} has an item that is not there")));
                    }
                }
            }
        }
        match seen.iter().position(|seen| !seen) {
            Some(item) => Err(invalid(format!("{} is in no part", self.items[item].id))),
            None => self.validate_ties(),
        }
    }

    /// What ties items to each other stays inside a part, or placing one would wait for the other.
    fn validate_ties(&self) -> Result<(), Invalid> {
        let mut part_of = vec![0; self.items.len()];
        for (number, part) in self.parts.iter().enumerate() {
            part.items.iter().for_each(|item| part_of[item.at()] = number);
        }
        let edges = self.edges.iter().map(|edge| [edge.a, edge.b]);
        let together = self.together.iter().map(|group| &group.items);
        let scatter = self.scatter.iter().map(|group| &group.items);
        let tied =
            together.chain(&self.same_engine).chain(scatter).flat_map(|items| items.windows(2));
        for pair in edges.chain(tied.map(|pair| [pair[0], pair[1]])) {
            let [a, b] = pair;
            if part_of[a.at()] != part_of[b.at()] {
                let (a, b) = (&self.items[a].id, &self.items[b].id);
                return Err(invalid(format!("{a} and {b} are tied, but not of one part")));
            }
        }
        Ok(())
    }

    fn validate_groups(&self) -> Result<(), Invalid> {
        let groups = self.apart.iter().chain(&self.together).map(|group| &group.items);
        let scatter = self.scatter.iter().map(|group| &group.items);
        for items in groups.chain(&self.same_engine).chain(scatter) {
            let mut sorted = items.clone();
            sorted.sort_unstable();
            if sorted.last().is_some_and(|item| item.at() >= self.items.len()) {
                return Err(invalid("a group names an item that is not there".into()));
            }
            if let Some(pair) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
                let id = &self.items[pair[0]].id;
                return Err(invalid(format!("a group names {id} twice")));
            }
        }
        Ok(())
    }
}

impl Problem {
    /// Costs that rise, and sums that stay far from the end of `i64`.
    fn validate_crowding(&self) -> Result<(), Invalid> {
        let load = &self.load;
        if !load.nodes.is_empty() && load.nodes.len() != self.nodes.len() {
            let (loads, nodes) = (load.nodes.len(), self.nodes.len());
            return Err(invalid(format!("{loads} loads for {nodes} nodes")));
        }
        if load.nodes.iter().any(|node| node.whole.len() != self.resources.len()) {
            return Err(invalid("a node has a load of other resources than there are".into()));
        }
        if load.nodes.iter().any(|node| node.before > LOAD_MAX) {
            return Err(invalid(format!("a node has a load of more than {LOAD_MAX}")));
        }
        let dear = |step: &Step| !(0..=CROWDING_MAX).contains(&step.cost) || step.above > LOAD_MAX;
        if load.steps.len() > STEPS_MAX || load.steps.iter().any(dear) {
            return Err(invalid(format!(
                "load has at most {STEPS_MAX} steps of 0 to {CROWDING_MAX} each"
            )));
        }
        let mut pairs = 0;
        for group in &self.scatter {
            if group.cost.abs() > CROWDING_MAX {
                return Err(invalid(format!("a nearness costs at most {CROWDING_MAX}")));
            }
            match group.scope {
                Scope::Node if group.cost < 0 => {
                    return Err(invalid("items are drawn to zones, not to nodes".into()));
                }
                Scope::Node => (),
                Scope::Zone => pairs += group.items.len() * group.items.len() / 2,
            }
        }
        match pairs > PAIRS_MAX {
            true => {
                Err(invalid(format!("{pairs} pairs of items in one zone; at most {PAIRS_MAX}")))
            }
            false => Ok(()),
        }
    }
}

fn invalid(sentence: String) -> Invalid {
    Invalid::new(sentence)
}

/// Names that arrive sorted, as ours do, are compared once and not sorted again.
fn differ<'a>(what: &str, names: impl Iterator<Item = &'a str> + Clone) -> Result<(), Invalid> {
    if names.clone().is_sorted_by(|a, b| a < b) {
        return Ok(());
    }
    let mut sorted: Vec<&str> = names.collect();
    sorted.sort_unstable();
    match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(invalid(format!("two {what} are called {}", pair[0]))),
        None => Ok(()),
    }
}
