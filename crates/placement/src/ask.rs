//! One instance that wants a place: the needs of its component and what is particular about this
//! instance. Made by [`crate::compile`], read by [`crate::filter`] and [`crate::score`].

use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};

use tombolo_model::Engine;
use tombolo_model::characteristics::EngineVersion;
use tombolo_model::component::Component;
use tombolo_model::needs::{Needs, PlaceKey, PlaceOperator, Resources};
use tombolo_model::ports::{self, NodePort};
use tombolo_model::run::Run;

use crate::continuum::{self, Amounts, NodeRow};
use crate::paths::Ways;

/// Of one component; what needs more is split into several.
pub const INSTANCES_MAX: usize = 10_000;

static NO_NEEDS: LazyLock<Needs> = LazyLock::new(Needs::default);
/// Holds the ports that an instance still asks for.
static NOBODY: LazyLock<Arc<str>> = LazyLock::new(|| Arc::from(""));

/// One instance that wants a place.
#[derive(Clone, Debug)]
pub(crate) struct Ask<'a> {
    pub component: &'a Component,
    pub needs: &'a Needs,
    pub demand: Amounts<'a>,
    pub slot: Slot<'a>,
    /// Places it must be near to in the network: users, and components of other Apps.
    pub reaches: Vec<Reach>,
    /// The node it runs on now. Cordons and `NoSchedule` do not drive it away from there.
    pub staying: Option<u32>,
}

/// What is particular about one instance of a component.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Slot<'a> {
    /// Nothing: any instance is like any other.
    Alike,
    /// It is the one for this value of a label.
    Label(&'a str, &'a str),
    /// It is one of those for this place.
    Place(PlaceKey, &'a str),
    /// In any of the component's places.
    AnyPlace,
}

/// A bound on the way to a fixed place.
#[derive(Clone, Debug)]
pub(crate) struct Reach {
    /// `its users at athens`.
    pub to: String,
    pub place: Leads,
    /// From each location to there, or from there to each.
    pub ways: Arc<Ways>,
    pub latency_us_max: Option<u64>,
    pub jitter_us_max: Option<u64>,
    pub bandwidth_bps: u64,
}

/// Which way a bound is about, by location of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leads {
    To(u32),
    From(u32),
}

impl<'a> Ask<'a> {
    pub(crate) fn new(component: &'a Component, slot: Slot<'a>) -> Ask<'a> {
        let needs = component.needs.as_ref().unwrap_or(&NO_NEEDS);
        let ports = fixed_ports(component);
        let demand = Amounts::of_needs(needs).with_ports(ports, &NOBODY);
        Ask { component, needs, demand, slot, reaches: Vec::new(), staying: None }
    }

    /// The engine of the node that runs it: for the best way that any of them can.
    pub(crate) fn engine_on(&self, row: &NodeRow<'_>) -> Option<Engine> {
        self.engine_of(row.engine, row.also)
    }

    fn engine_of(&self, engine: Engine, also: Option<Engine>) -> Option<Engine> {
        let engine = self.runs().pick(engine, also);
        self.run_on(engine).map(|_| engine)
    }

    pub(crate) fn runs(&self) -> Runs {
        Runs(std::array::from_fn(|number| self.run_on(Engine::ALL[number])))
    }

    /// The first way to run the component that the engine can run.
    pub(crate) fn run_on(&self, engine: Engine) -> Option<usize> {
        way_on(self.component, self.needs, engine)
    }
}

fn way_on(component: &Component, needs: &Needs, engine: Engine) -> Option<usize> {
    if !needs.engines.is_empty() && !needs.engines.contains(&engine) {
        return None;
    }
    let runs = |run: &Run| run.way().is_some_and(|way| way.engines().contains(&engine));
    component.run.iter().position(runs)
}

/// The ports of its node that an instance must have whichever way it runs: of one that needs them for
/// some way alone, nobody can say before it has a place.
pub(crate) fn fixed_ports(component: &Component) -> BTreeSet<NodePort> {
    let needs = component.needs.as_ref().unwrap_or(&NO_NEEDS);
    let ways = Engine::ALL.iter().filter_map(|engine| way_on(component, needs, *engine));
    let ways: BTreeSet<usize> = ways.collect();
    let each = ways.into_iter().map(|way| ports::stated(&component.run[way], &component.expose));
    each.reduce(|all, more| &all & &more).unwrap_or_default()
}

/// The way by which each engine would run a component, in the order of [`Engine::ALL`]; the lower,
/// the better.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Runs([Option<usize>; Engine::ALL.len()]);

impl Runs {
    pub(crate) fn can(&self, engine: Engine) -> bool {
        self.0[usize::from(engine_number(engine))].is_some()
    }

    /// Of two engines of a node, the one with the better way.
    pub(crate) fn pick(&self, engine: Engine, also: Option<Engine>) -> Engine {
        let Some(also) = also else { return engine };
        let way = |engine| self.0[usize::from(engine_number(engine))];
        match (way(engine), way(also)) {
            (Some(first), Some(second)) if second < first => also,
            (None, Some(_)) => also,
            (Some(_), _) | (None, None) => engine,
        }
    }
}

/// The order of the engines in the problem.
pub(crate) fn engine_number(engine: Engine) -> u8 {
    let position = Engine::ALL.iter().position(|known| *known == engine);
    u8::try_from(position.unwrap_or(0)).unwrap_or(0)
}

/// The instances that a component wants, in the order of their numbers.
pub(crate) fn slots(component: &Component) -> Vec<Slot<'_>> {
    if let Some(each) = &component.on_each {
        let values = each.values.iter().take(INSTANCES_MAX);
        return values.map(|value| Slot::Label(&each.label, value)).collect();
    }
    let wanted = usize::try_from(component.replicas.unwrap_or(1)).unwrap_or(INSTANCES_MAX);
    let wanted = wanted.min(INSTANCES_MAX);
    let mut slots = Vec::new();
    for place in component.places.iter().filter(|place| place.operator == PlaceOperator::In) {
        for value in &place.values {
            let quantity = place.quantity.unwrap_or(1) as usize;
            let room = INSTANCES_MAX - slots.len();
            slots.extend(vec![Slot::Place(place.by, value.as_str()); quantity.min(room)]);
        }
    }
    let rest = match (slots.is_empty(), component.replicas) {
        (true, _) => return vec![Slot::Alike; wanted],
        (false, Some(_)) => wanted.saturating_sub(slots.len()),
        (false, None) => 0,
    };
    slots.extend(vec![Slot::AnyPlace; rest]);
    slots
}

/// The engine that would run a component on a node, by the engine of its site and those that were
/// found on it: `rather`, if the node has it and it may run the component, or else as for any plan.
pub fn engine_on(
    component: &Component,
    of_site: Engine,
    found: &[EngineVersion],
    rather: Option<Engine>,
) -> Option<Engine> {
    let ask = Ask::new(component, Slot::Alike);
    let also = continuum::also(of_site, found);
    let has = |engine: &Engine| *engine == of_site || Some(*engine) == also;
    let rather = rather.filter(has).filter(|engine| ask.run_on(*engine).is_some());
    rather.or_else(|| ask.engine_of(of_site, also))
}

/// What an instance is given of its node.
pub fn resources(needs: &Needs) -> Resources {
    let gpu = Amounts::of_needs(needs).gpu;
    Resources {
        cpu: needs.cpu,
        memory: needs.memory,
        storage: needs.storage,
        gpu: u32::try_from(gpu).ok().filter(|gpu| needs.gpu.is_some() || *gpu > 0),
        devices: needs.devices.iter().map(|name| (name.clone(), 1)).collect(),
    }
}

/// How many instances an App wants of a component, places and label values counted.
pub fn instances(component: &Component) -> usize {
    slots(component).len()
}
