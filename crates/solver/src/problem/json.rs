//! The problem as JSON, for another solver, and back again. The format is described in
//! `docs/placement-model.md`; `tombolo match --dump-model` writes it.
//!
//! Classes are written out: every item has its own candidates with their final values, so that a
//! reader needs to know nothing of how we share them.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Deserialize;

use super::{
    Candidate, Class, Edge, Group, Invalid, Item, ItemId, Link, Load, Node, NodeId, NodeLoad, Part,
    Problem, Route, Scatter, Scope, Step, ZoneId,
};

/// 2 has `load` and `scatter`; what 1 says is read as well.
const VERSION: u64 = 2;
const VERSION_FIRST: u64 = 1;

/// Why a text is no problem.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("not a placement model")]
    Json(#[from] serde_json::Error),
    #[error("a placement model of version {0}; versions {VERSION_FIRST} and {VERSION} are read")]
    Version(u64),
    #[error("a placement model that cannot be solved")]
    Invalid(#[from] Invalid),
}

impl Problem {
    /// The whole problem, every item of every part, in the format that outside solvers read. It has
    /// no word for parts: all items are to be placed.
    pub fn to_json(&self) -> String {
        let mut out = String::with_capacity(64 * self.nodes.len() + 1024);
        let _ = write!(out, "{{\"version\":{VERSION},\"zones\":{}", text(&self.zones));
        list(&mut out, "links", &self.links, |out, link| {
            let bandwidth = number(link.bandwidth_bps);
            let (a, b) = (link.a, link.b);
            let _ = write!(out, "{{\"a\":{a},\"b\":{b},\"bandwidth_bps\":{bandwidth}}}");
        });
        list(&mut out, "routes", &self.routes, |out, row| write_routes(out, row));
        list(&mut out, "zone_cost", &self.zone_cost, |out, row| {
            let _ = write!(out, "{}", text(row));
        });
        list(&mut out, "nodes", &self.nodes, |out, node| {
            let _ = write!(out, "{{\"id\":{},\"zone\":{},", text(&node.id), node.zone);
            self.write_amounts(out, "capacity", &node.capacity);
            out.push('}');
        });
        self.write_crowding(&mut out);
        list(&mut out, "items", &self.items, |out, item| self.write_item(out, item));
        list(&mut out, "edges", &self.edges, |out, edge| {
            let latency = number(edge.latency_us_max);
            let Edge { a, b, traffic, bandwidth_bps, .. } = edge;
            let _ = write!(
                out,
                "{{\"a\":{a},\"b\":{b},\"traffic\":{traffic},\"latency_us_max\":{latency},\
                 \"bandwidth_bps\":{bandwidth_bps}}}"
            );
        });
        for (name, groups) in [("apart", &self.apart), ("together", &self.together)] {
            list(&mut out, name, groups, |out, group| {
                let (items, scope) = (text(&group.items), group.scope.word());
                let _ = write!(out, "{{\"items\":{items},\"scope\":\"{scope}\"}}");
            });
        }
        let _ = writeln!(out, ",\n\"same_engine\":{}}}", text(&self.same_engine));
        out
    }

    /// `load` and `scatter`.
    fn write_crowding(&self, out: &mut String) {
        out.push_str(",\n\"load\":{\"steps\":[");
        let mut comma = "";
        for Step { above, cost } in &self.load.steps {
            let _ = write!(out, "{comma}{{\"above\":{above},\"cost\":{cost}}}");
            comma = ",";
        }
        out.push(']');
        list(out, "nodes", &self.load.nodes, |out, node| {
            out.push('{');
            self.write_amounts(out, "whole", &node.whole);
            let _ = write!(out, ",\"before\":{}}}", node.before);
        });
        out.push('}');
        list(out, "scatter", &self.scatter, |out, group| {
            let (items, scope, cost) = (text(&group.items), group.scope.word(), group.cost);
            let _ = write!(out, "{{\"items\":{items},\"scope\":\"{scope}\",\"cost\":{cost}}}");
        });
    }

    fn write_item(&self, out: &mut String, item: &Item) {
        let (id, loads) = (text(&item.id), item.loads);
        let _ = write!(out, "{{\"id\":{id},\"loads\":{loads},");
        self.write_amounts(out, "demand", &item.demand);
        out.push_str(",\"candidates\":[");
        let class = &self.classes[item.class as usize];
        let mut first = true;
        for candidate in class.candidates.iter().filter(|c| !item.barred.contains(&c.node)) {
            let value = item.value_of(candidate);
            let engine = text(&self.engines[usize::from(candidate.engine)]);
            let comma = if first { "" } else { "," };
            first = false;
            let node = candidate.node;
            let _ = write!(out, "{comma}{{\"node\":{node},\"engine\":{engine},\"value\":{value}}}");
        }
        out.push_str("]}");
    }

    fn write_amounts(&self, out: &mut String, name: &str, amounts: &[u64]) {
        let _ = write!(out, "\"{name}\":{{");
        let mut comma = "";
        for (resource, amount) in self.resources.iter().zip(amounts).filter(|(_, n)| **n != 0) {
            let _ = write!(out, "{comma}{}:{amount}", text(resource));
            comma = ",";
        }
        out.push('}');
    }

    /// Reads what [`Problem::to_json`] wrote. All items become one part. Classes are found again:
    /// items with equal candidates share one.
    pub fn from_json(json: &str) -> Result<Problem, ReadError> {
        let model: Model = serde_json::from_str(json)?;
        if !(VERSION_FIRST..=VERSION).contains(&model.version) {
            return Err(ReadError::Version(model.version));
        }
        let problem = model.into_problem();
        problem.validate()?;
        Ok(problem)
    }
}

fn text<T: serde::Serialize + ?Sized>(value: &T) -> String {
    serde_json::to_string(value).expect("strings and numbers become JSON")
}

fn number(value: Option<u64>) -> String {
    value.map_or_else(|| "null".to_owned(), |value| value.to_string())
}

fn list<T>(out: &mut String, name: &str, all: &[T], mut one: impl FnMut(&mut String, &T)) {
    let _ = write!(out, ",\n\"{name}\":[");
    for (index, element) in all.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        one(out, element);
    }
    out.push(']');
}

fn write_routes(out: &mut String, row: &[Option<Route>]) {
    out.push('[');
    for (index, route) in row.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        match route {
            None => out.push_str("null"),
            Some(Route { latency_us, links }) => {
                let links = text(&links[..]);
                let _ = write!(out, "{{\"latency_us\":{latency_us},\"links\":{links}}}");
            }
        }
    }
    out.push(']');
}

#[derive(Deserialize)]
struct Model {
    version: u64,
    zones: Vec<String>,
    links: Vec<ModelLink>,
    routes: Vec<Vec<Option<ModelRoute>>>,
    zone_cost: Vec<Vec<i64>>,
    nodes: Vec<ModelNode>,
    items: Vec<ModelItem>,
    edges: Vec<ModelEdge>,
    apart: Vec<ModelGroup>,
    together: Vec<ModelGroup>,
    same_engine: Vec<Vec<ItemId>>,
    #[serde(default)]
    load: ModelLoad,
    #[serde(default)]
    scatter: Vec<ModelScatter>,
}

#[derive(Default, Deserialize)]
struct ModelLoad {
    steps: Vec<ModelStep>,
    nodes: Vec<ModelNodeLoad>,
}

#[derive(Deserialize)]
struct ModelStep {
    above: u64,
    cost: i64,
}

#[derive(Deserialize)]
struct ModelNodeLoad {
    whole: BTreeMap<String, u64>,
    before: u64,
}

#[derive(Deserialize)]
struct ModelScatter {
    items: Vec<ItemId>,
    scope: ModelScope,
    cost: i64,
}

#[derive(Deserialize)]
struct ModelLink {
    a: ZoneId,
    b: ZoneId,
    bandwidth_bps: Option<u64>,
}

#[derive(Deserialize)]
struct ModelRoute {
    latency_us: u64,
    links: Vec<u32>,
}

#[derive(Deserialize)]
struct ModelNode {
    id: String,
    zone: ZoneId,
    capacity: BTreeMap<String, u64>,
}

#[derive(Deserialize)]
struct ModelItem {
    id: String,
    #[serde(default)]
    loads: bool,
    demand: BTreeMap<String, u64>,
    candidates: Vec<ModelCandidate>,
}

#[derive(Deserialize)]
struct ModelCandidate {
    node: NodeId,
    engine: String,
    value: i32,
}

#[derive(Deserialize)]
struct ModelEdge {
    a: ItemId,
    b: ItemId,
    traffic: i64,
    latency_us_max: Option<u64>,
    bandwidth_bps: u64,
}

#[derive(Deserialize)]
struct ModelGroup {
    items: Vec<ItemId>,
    scope: ModelScope,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum ModelScope {
    Node,
    Zone,
}

impl Model {
    fn into_problem(self) -> Problem {
        let mut resources: Vec<String> = Vec::new();
        let named = self.nodes.iter().map(|node| &node.capacity);
        let named = named.chain(self.load.nodes.iter().map(|node| &node.whole));
        for names in named.chain(self.items.iter().map(|item| &item.demand)) {
            resources.extend(names.keys().cloned());
            resources.sort_unstable();
            resources.dedup();
        }
        let amounts = |of: &BTreeMap<String, u64>| -> Box<[u64]> {
            resources.iter().map(|name| of.get(name).copied().unwrap_or(0)).collect()
        };
        let nodes = self.nodes.iter().map(|node| Node {
            id: node.id.clone(),
            zone: node.zone,
            capacity: amounts(&node.capacity),
        });
        let nodes: Vec<Node> = nodes.collect();
        let mut problem = Problem { zones: self.zones, nodes, ..Problem::default() };
        for item in &self.items {
            problem.push_item(item, amounts(&item.demand));
        }
        let items = ItemId::first(problem.items.len()).collect();
        problem.parts = vec![Part { id: "all".into(), priority: 0, items, packs: false }];
        let node =
            |node: &ModelNodeLoad| NodeLoad { whole: amounts(&node.whole), before: node.before };
        problem.load = Load {
            steps: self.load.steps.iter().map(|s| Step { above: s.above, cost: s.cost }).collect(),
            nodes: self.load.nodes.iter().map(node).collect(),
        };
        problem.scatter = self.scatter.into_iter().map(ModelScatter::into_scatter).collect();
        problem.resources = resources;
        problem.links = self.links.into_iter().map(ModelLink::into_link).collect();
        let route = |route: ModelRoute| Route {
            latency_us: route.latency_us,
            links: route.links.into_iter().collect(),
        };
        let row = |row: Vec<Option<ModelRoute>>| row.into_iter().map(|r| r.map(route)).collect();
        problem.routes = self.routes.into_iter().map(row).collect();
        problem.zone_cost = self.zone_cost;
        problem.edges = self.edges.into_iter().map(ModelEdge::into_edge).collect();
        problem.apart = self.apart.into_iter().map(ModelGroup::into_group).collect();
        problem.together = self.together.into_iter().map(ModelGroup::into_group).collect();
        problem.same_engine = self.same_engine;
        problem
    }
}

impl Problem {
    fn push_item(&mut self, item: &ModelItem, demand: Box<[u64]>) {
        let mut candidates = Vec::with_capacity(item.candidates.len());
        for candidate in &item.candidates {
            let engine = match self.engines.iter().position(|name| *name == candidate.engine) {
                Some(engine) => engine,
                None => {
                    self.engines.push(candidate.engine.clone());
                    self.engines.len() - 1
                }
            };
            // A 257th engine is refused by `validate` right after.
            let engine = u8::try_from(engine).unwrap_or(u8::MAX);
            candidates.push(Candidate { node: candidate.node, engine, value: candidate.value });
        }
        let class = match self.classes.iter().position(|class| class.candidates == candidates) {
            Some(class) => class,
            None => {
                self.classes.push(Class { candidates });
                self.classes.len() - 1
            }
        };
        let class = u32::try_from(class).unwrap_or(u32::MAX);
        let (id, loads) = (item.id.clone(), item.loads);
        self.items.push(Item { id, class, demand, loads, ..Item::default() });
    }
}

impl ModelLink {
    fn into_link(self) -> Link {
        Link { a: self.a, b: self.b, bandwidth_bps: self.bandwidth_bps }
    }
}

impl ModelEdge {
    fn into_edge(self) -> Edge {
        Edge {
            a: self.a,
            b: self.b,
            traffic: self.traffic,
            latency_us_max: self.latency_us_max,
            bandwidth_bps: self.bandwidth_bps,
        }
    }
}

impl ModelGroup {
    fn into_group(self) -> Group {
        Group { items: self.items, scope: self.scope.into_scope() }
    }
}

impl ModelScatter {
    fn into_scatter(self) -> Scatter {
        Scatter { items: self.items, scope: self.scope.into_scope(), cost: self.cost }
    }
}

impl ModelScope {
    fn into_scope(self) -> Scope {
        match self {
            ModelScope::Node => Scope::Node,
            ModelScope::Zone => Scope::Zone,
        }
    }
}
