//! The placement problem as plain numbers: what the needs and wishes of applications have become
//! before [`select`](crate::select()) chooses. Written as JSON by [`Problem::to_json`], so that
//! anyone can solve it with another solver and compare. Start reading at [`Problem`].
//!
//! Whatever the rest of the crate weighs has been turned into the `value` of a candidate and into
//! `zone_cost` before; whatever it rejects is no candidate. All numbers are integers, so that two
//! machines that add them up get the same sum.

mod check;
mod hops;
pub(crate) mod ids;
mod json;
mod load;

pub(crate) use check::LATENCY_US_MAX;
pub use check::{Invalid, Violation};
pub use hops::Hops;
pub use ids::{ItemId, NodeId, ZoneId};
pub use json::ReadError;
pub use load::{FULL, Load, NodeLoad, Scatter, Step};

/// Choose exactly one candidate for every item of a part, such that all the constraints hold and
/// Σ value − Σ over edges traffic · `zone_cost` − what load and nearness cost is greatest.
///
/// Indices ([`NodeId`], [`ZoneId`], [`ItemId`]; plain numbers for links, classes and engines) point
/// into the vectors of this struct. The order of the vectors does not matter
/// to the result: items, nodes, parts, zones and engines are compared by their names, which
/// therefore must differ. [`Problem::validate`] says in a sentence what is wrong with one that
/// cannot be solved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problem {
    /// Network locations; every node is in one.
    pub zones: Vec<String>,
    pub links: Vec<Link>,
    /// `[from zone][to zone]`; `None` where there is no way.
    pub routes: Vec<Vec<Option<Route>>>,
    /// `[from zone][to zone]`: the cost of one unit of traffic.
    pub zone_cost: Vec<Vec<i64>>,
    /// What nodes have and items need: the index is the dimension of `capacity` and `demand`.
    pub resources: Vec<String>,
    pub engines: Vec<String>,
    pub nodes: Vec<Node>,
    pub classes: Vec<Class>,
    pub items: Vec<Item>,
    pub edges: Vec<Edge>,
    /// No two of the items on the same node or in the same zone. They may be of several parts.
    pub apart: Vec<Group>,
    /// All of the items, which are of one part, on the same node or in the same zone.
    pub together: Vec<Group>,
    /// One engine for all items of each list, which are of one part.
    pub same_engine: Vec<Vec<ItemId>>,
    /// What it costs to put much on one node.
    pub load: Load,
    /// Items that would rather not be in one place.
    pub scatter: Vec<Scatter>,
    /// Applications: every item belongs to exactly one.
    pub parts: Vec<Part>,
}

/// An undirected link between zones, with the bandwidth that is left; `None` is unlimited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    pub a: ZoneId,
    pub b: ZoneId,
    pub bandwidth_bps: Option<u64>,
}

/// The way from one zone to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    pub latency_us: u64,
    /// The links that the traffic uses up; none inside a zone.
    pub links: Hops,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    pub id: String,
    pub zone: ZoneId,
    /// What is left for the items, as long as `resources`.
    pub capacity: Box<[u64]>,
}

/// Who is admitted, and how much each is liked: one list that all items with the same needs and
/// wishes share.
///
/// A class says nothing about demand. Whether an item fits is looked up while searching, so items
/// that differ in demand alone should share a class, and nodes that are too small for some of them
/// may stay in it. What is cheap and what is not:
/// - Time and memory grow with the candidates of all classes together (12 bytes each), not with
///   items × nodes. A thousand replicas of one class cost little more than one.
/// - A value that depends on the demand (headroom after placing) needs a class for every demand.
///   That is fine for the hundred components of one application on 100,000 nodes; for thousands of
///   items, round the demand to a few sizes before the score is taken, so that few classes remain.
/// - What concerns one item and a few nodes (it runs there now, it was violated there) belongs in
///   [`Item::adjust`] and [`Item::barred`], and keeps the class shared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Class {
    /// In any order; ascending by node is the quickest to read. At most one entry for a pair of node
    /// and engine.
    pub candidates: Vec<Candidate>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    pub node: NodeId,
    /// Index into [`Problem::engines`].
    pub engine: u8,
    pub value: i32,
}

/// One replica of one component.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Item {
    pub id: String,
    pub class: u32,
    /// As long as `resources`.
    pub demand: Box<[u64]>,
    /// A handful at most; a node that is not a candidate stays none.
    pub adjust: Vec<Adjust>,
    /// Nodes of the class that are no candidates for this item.
    pub barred: Vec<NodeId>,
    /// Where it runs now: tried first, and taken among equals. It carries no value of its own.
    pub current: Option<NodeId>,
    /// Whether it counts as load of its node. One that is to be packed does not.
    pub loads: bool,
}

/// Added to the value of candidates on a node: a bonus for staying where an item runs now is the cost
/// of moving away from it, a negative number is a penalty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Adjust {
    pub node: NodeId,
    /// Only for the candidate by this engine; for all on the node when left out.
    pub engine: Option<u8>,
    pub delta: i32,
}

impl Item {
    /// The value of a candidate of its class for this item.
    pub fn value_of(&self, candidate: &Candidate) -> i64 {
        let meant = self.adjust.iter().filter(|adjust| {
            adjust.node == candidate.node
                && adjust.engine.is_none_or(|engine| engine == candidate.engine)
        });
        i64::from(candidate.value) + meant.map(|adjust| i64::from(adjust.delta)).sum::<i64>()
    }
}

/// Traffic between two items of one part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edge {
    pub a: ItemId,
    pub b: ItemId,
    /// In units of which `zone_cost` is the price.
    pub traffic: i64,
    pub latency_us_max: Option<u64>,
    pub bandwidth_bps: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    pub items: Vec<ItemId>,
    pub scope: Scope,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    Node,
    Zone,
}

/// An application: all of its items are placed, or none.
///
/// Parts are taken by priority, greatest first, then by id. A part is placed whenever it can be
/// placed together with those before it, however little it adds to the objective.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    pub id: String,
    pub priority: i32,
    pub items: Vec<ItemId>,
    /// Of nodes that are worth the same, fill one after the other, so that the rest stay empty and can sleep. Others
    /// share equal nodes. The objective is the same either way.
    pub packs: bool,
}

/// Where an item was put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    pub node: NodeId,
    /// Index into [`Problem::engines`].
    pub engine: u8,
}
