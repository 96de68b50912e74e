//! From Apps and the continuum to the [`Problem`] that the search solves, with the way back from its
//! numbers to names. Called by [`crate::plan()`], by `match --dump-model` and by [`crate::explain`].
//! Start reading at [`compile`].

mod carried;
mod classes;
mod crowding;
mod edges;
mod even;
mod layout;
mod resources;
mod scope;
mod unsettled;

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tombolo_model::app::{Profile, Qos, Weights};
use tombolo_model::{About, App, AppId, AppSpec, Trouble};
use tombolo_solver::problem::{Item, ItemId, NodeId, Part, Problem};

use crate::ask::{self, Ask, Runs};
use crate::bits::Bits;
use crate::check;
use crate::continuum::{Amounts, Continuum};
use crate::reschedule;
use crate::running::{Roster, Running, Strike};
use crate::score::{Ground, Mix, Wish};

pub(crate) use layout::reserved;
pub(crate) use resources::{is_port, say as say_amount};
pub(crate) use scope::{Scoped, amounts};

/// What to plan, and how.
#[derive(Clone, Debug, Default)]
pub struct Options {
    pub scope: Scope,
    /// In place of the weights of every App: what if these counted?
    pub weights: Option<Weights>,
    /// Apps (by id) that get a new look whatever the scope, because somebody has changed them.
    pub changed: BTreeSet<AppId>,
    /// Apps (by id) that run well and are planned nevertheless: each of their instances is held where it is as
    /// long as nobody has no place for it.
    pub also_planned: BTreeSet<AppId>,
    pub strikes: Vec<Strike>,
    /// In seconds of the clock that also gives the times of `strikes`.
    pub now: u64,
}

/// Which Apps get a new look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    /// Those with something to do: an instance without a place or in one that no longer suits, a
    /// promise or a rule between instances that is broken.
    #[default]
    Pending,
    /// All of them: anything may move when it gains more than moving costs.
    All,
}

/// The problem and the way back.
#[derive(Debug)]
pub struct Compiled<'c, 'a> {
    pub problem: Problem,
    /// By item of the problem.
    pub origins: Vec<Origin>,
    /// By node of the problem: index into the nodes of the continuum.
    pub nodes: Vec<u32>,
    /// By planned App: the part of the problem that it is in.
    pub(crate) part_of: BTreeMap<usize, usize>,
    /// What kept Apps or parts of the input out of the problem.
    pub troubles: Vec<Trouble>,
    /// Sentences about what was assumed or cut.
    pub notes: Vec<String>,
    pub(crate) continuum: &'c Continuum<'a>,
    pub(crate) apps: Vec<&'c App>,
    pub(crate) ids: Vec<AppId>,
    pub(crate) scoped: Scoped,
    pub(crate) roster: Roster<'c>,
    /// By node of the continuum: what is left for the items.
    pub(crate) free: Vec<Amounts<'a>>,
    pub(crate) ground: Ground,
    pub(crate) asks: Vec<Ask<'c>>,
    /// By class of the problem.
    pub(crate) kinds: Vec<Kind>,
    /// By node of the continuum: index into the nodes of the problem.
    pub(crate) at: Vec<Option<NodeId>>,
    /// Where each edge of the problem comes from, for explanations.
    pub(crate) edge_origins: Vec<EdgeOrigin>,
    /// Groups of the problem that keep the instances of one component even.
    pub(crate) evenly: Vec<even::Evenly>,
    /// Some choices that the documents allow are none in the problem, so that it proves nothing of what is not there.
    pub(crate) is_narrowed: bool,
    /// If places had to be left out: what no choice of all of them could have more than.
    pub(crate) ceiling: Option<i64>,
}

/// Where an item comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// An instance that wants a place.
    Wanted {
        /// Index into the Apps.
        app: usize,
        /// Index into the components of the App.
        component: usize,
        replica: u32,
        /// Index into the asks.
        ask: usize,
    },
    /// An instance of an App that is not planned now and stays where it is, because someone who is
    /// planned talks to it.
    Anchor { app: usize, component: usize, replica: u32 },
}

/// What all items of a class share.
#[derive(Debug)]
pub(crate) struct Kind {
    pub wish: Option<Wish>,
    /// Nodes of the continuum that are admitted.
    pub admitted: Bits,
    /// The value of every node of the continuum, if many of them are admitted.
    pub values: Option<Arc<[i32]>>,
    /// What decides between two engines of a node.
    pub runs: Runs,
}

impl Kind {
    /// Of who stays where it is whatever happens.
    pub(crate) fn fixed(continuum: &Continuum<'_>, node: u32) -> Kind {
        let mut admitted = Bits::none(continuum.nodes.len());
        admitted.insert(node);
        Kind { wish: None, admitted, values: None, runs: Runs::default() }
    }

    pub(crate) fn value(&self, ground: &Ground, node: u32) -> i32 {
        match (&self.values, &self.wish) {
            (Some(values), _) => values[node as usize],
            (None, Some(wish)) => wish.value(ground, node),
            (None, None) => 0,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EdgeOrigin {
    pub app: usize,
    pub component: usize,
    pub connection: usize,
}

/// States the problem: every instance of every App in scope, with everything that bears on it.
/// Apps, components and nodes are taken by name, so that the order of the input does not matter.
pub fn compile<'c, 'a, A: Borrow<App>>(
    continuum: &'c Continuum<'a>,
    apps: &'c [A],
    running: &'c [Running],
    options: &Options,
) -> Compiled<'c, 'a> {
    let apps: Vec<&App> = apps.iter().map(Borrow::borrow).collect();
    compile_without(continuum, &apps, running, options, &BTreeSet::new())
}

/// The same, with some Apps (by index) standing as they are whatever they want.
pub(crate) fn compile_without<'c, 'a>(
    continuum: &'c Continuum<'a>,
    apps: &[&'c App],
    running: &'c [Running],
    options: &Options,
    frozen: &BTreeSet<usize>,
) -> Compiled<'c, 'a> {
    let ids: Vec<AppId> = apps.iter().copied().map(AppId::of).collect();
    let mut troubles = Vec::new();
    let sound = sound_apps(apps, &ids, &mut troubles);
    let roster = Roster::of(running);
    let scoped = scope::decide(continuum, apps, &ids, &sound, &roster, options, frozen);
    let (free, own) = scope::free(continuum, apps, &ids, &scoped, &roster);
    let ground = Ground::of(continuum, &free, &own);
    let mut compiled = Compiled {
        problem: Problem::default(),
        origins: Vec::new(),
        nodes: Vec::new(),
        part_of: BTreeMap::new(),
        troubles,
        notes: Vec::new(),
        continuum,
        apps: apps.to_vec(),
        ids,
        scoped,
        roster,
        free,
        ground,
        asks: Vec::new(),
        kinds: Vec::new(),
        at: Vec::new(),
        edge_origins: Vec::new(),
        evenly: Vec::new(),
        is_narrowed: false,
        ceiling: None,
    };
    compiled.state(options);
    compiled
}

impl<'c, 'a> Compiled<'c, 'a> {
    fn state(&mut self, options: &Options) {
        let mut classes = classes::Classes::new(self);
        let resources = resources::asked(self);
        let several = self.scoped.planned.len() > 1;
        let mut by_instance: BTreeMap<(usize, usize), Vec<ItemId>> = BTreeMap::new();
        for app in self.scoped.planned.clone() {
            let spec = &self.apps[app].spec;
            let packs = packs(spec, options);
            let mut part = self.part_for(app, packs);
            for component in by_name(&self.apps, app) {
                for (replica, slot) in (0u32..).zip(ask::slots(&spec.components[component])) {
                    let (ask, class) =
                        classes.class_of(self, (app, component, replica), slot, options);
                    let name = &spec.components[component].name;
                    let id = match several {
                        true => format!("{}/{name}/{replica}", self.ids[app]),
                        false => format!("{name}/{replica}"),
                    };
                    let item = ItemId::new(self.origins.len());
                    part.items.push(item);
                    by_instance.entry((app, component)).or_default().push(item);
                    let demand = resources::demand(&self.asks[ask].demand, &resources);
                    let loads = !packs;
                    self.problem.items.push(Item { id, class, demand, loads, ..Item::default() });
                    self.origins.push(Origin::Wanted { app, component, replica, ask });
                }
            }
            match self.part_of.get(&app).copied() {
                Some(known) => self.problem.parts[known] = part,
                None => {
                    self.part_of.insert(app, self.problem.parts.len());
                    self.problem.parts.push(part);
                }
            }
        }
        self.problem.resources = resources;
        self.note_unknown_places();
        edges::connect(self, &classes.crossing, &by_instance, options);
        edges::group(self, &by_instance);
        even::spread(self, &by_instance);
        crowding::scatter(self, &by_instance, options);
        crowding::prefer(self, &by_instance);
        layout::lay_out(self);
        reschedule::weigh(self, options);
    }

    /// The part that the instances of an App belong to: one of its own, unless it is joined with others.
    fn part_for(&mut self, app: usize, packs: bool) -> Part {
        let priority = priority(self.apps[app].spec.qos);
        let first = self.scoped.joined.get(&app).and_then(|first| self.part_of.get(first)).copied();
        if let Some(known) = first {
            self.part_of.insert(app, known);
            let mut part = self.problem.parts[known].clone();
            part.priority = part.priority.max(priority);
            part.packs &= packs;
            return part;
        }
        Part { id: self.ids[app].to_string(), priority, items: Vec::new(), packs }
    }

    fn note_unknown_places(&mut self) {
        let mut notes = Vec::new();
        for app in &self.scoped.planned {
            for component in by_name(&self.apps, *app) {
                let component = &self.apps[*app].spec.components[component];
                let of = format!("of {} of {}", component.name, self.ids[*app]);
                let unknown = |site: &&String| self.continuum.site_index(site).is_none();
                let users = component.users.iter().flat_map(|users| &users.sites);
                let data = component.data.iter().filter_map(|data| data.from.as_ref());
                notes.extend(users.filter(unknown).map(|site| {
                    format!(
                        "users {of} are at site {site}, which does not exist: they are left out"
                    )
                }));
                notes.extend(data.filter(unknown).map(|site| {
                    format!("data {of} is at site {site}, which does not exist: it is left out")
                }));
            }
        }
        self.notes.extend(notes);
    }

    /// Whether something may have a place although the problem has no answer.
    pub(crate) fn is_narrower(&self) -> bool {
        self.is_narrowed
            || self.ceiling.is_some()
            || self.evenly.iter().any(|even| even.is_narrower)
    }

    /// The ask of an item; anchors have none.
    pub(crate) fn ask(&self, item: ItemId) -> Option<&Ask<'c>> {
        match self.origins[item.at()] {
            Origin::Wanted { ask, .. } => Some(&self.asks[ask]),
            Origin::Anchor { .. } => None,
        }
    }

    /// The nodes that items run on now, with the item.
    pub(crate) fn currents(&self) -> impl Iterator<Item = (ItemId, u32)> + '_ {
        ItemId::first(self.origins.len()).zip(&self.origins).filter_map(|(item, origin)| {
            match *origin {
                Origin::Wanted { app, component, replica, .. } => {
                    Some((item, self.runs_on(app, component, replica)?))
                }
                Origin::Anchor { .. } => None,
            }
        })
    }

    /// The node that an item runs on now, as an index into the continuum.
    pub(crate) fn runs_on(&self, app: usize, component: usize, replica: u32) -> Option<u32> {
        let name = &self.apps[app].spec.components[component].name;
        let running = self.roster.get(&self.ids[app], name, replica)?;
        match running.hold {
            crate::running::Hold::Held => self.continuum.node_index(&running.node),
            crate::running::Hold::Lost => None,
        }
    }
}

/// Components by name, so that their order in the file does not matter.
pub(crate) fn by_name(apps: &[&App], app: usize) -> Vec<usize> {
    let components = &apps[app].spec.components;
    let mut order: Vec<usize> = (0..components.len()).collect();
    order.sort_by_key(|index| components[*index].name.as_str());
    order
}

/// Gold before silver before the rest; who says nothing stands in the middle.
pub(crate) fn priority(qos: Option<Qos>) -> i32 {
    match qos {
        Some(Qos::Gold) => 2,
        Some(Qos::Silver) | None => 1,
        Some(Qos::BestEffort) => 0,
    }
}

/// Nodes are filled one after the other: that is asked for, or the wish for little energy leads all others.
pub(crate) fn packs(spec: &AppSpec, options: &Options) -> bool {
    if spec.profile == Some(Profile::Pack) {
        return true;
    }
    let mix = |component| Mix::of(spec, component, options.weights.as_ref());
    spec.components.iter().all(|component| mix(component).saves_energy())
}

fn sound_apps(apps: &[&App], ids: &[AppId], troubles: &mut Vec<Trouble>) -> Vec<bool> {
    let mut seen: BTreeMap<&AppId, usize> = BTreeMap::new();
    let mut sound = Vec::with_capacity(apps.len());
    for (index, (app, id)) in apps.iter().zip(ids).enumerate() {
        let mut found = check::troubles(app);
        if *seen.entry(id).or_insert(index) != index {
            found.push("there are two of this name; the first is used".to_owned());
        }
        sound.push(found.is_empty());
        troubles.extend(found.into_iter().map(|says| Trouble::new(About::App(id.clone()), says)));
    }
    sound
}

/// Puts a number into the problem; more than `u32` has are refused by its check before.
pub(crate) fn index(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
