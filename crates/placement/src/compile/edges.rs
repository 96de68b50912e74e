//! Connections become edges, nearness becomes groups. Both ends of an edge are items; an instance
//! of an App that is not planned now is an item with a single candidate.

use std::collections::BTreeMap;

use tombolo_model::{App, AppId};
use tombolo_solver::problem::{Class, Edge, Group, Item, ItemId, Scope};

use super::{Compiled, EdgeOrigin, Kind, Options, Origin, Scoped, by_name, index};
use crate::affinity::{self, Bounds};
use crate::score::Mix;

pub(super) type Instances = BTreeMap<(usize, usize), Vec<ItemId>>;

/// Who calls: the component that is planned, or the one that stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Calls {
    Out,
    In,
}

/// An instance that stays where it is and talks to one that is planned.
#[derive(Clone, Copy, Debug)]
pub(super) struct FixedEnd {
    pub app: usize,
    pub component: usize,
    pub replica: u32,
    pub node: u32,
    pub calls: Calls,
    pub bounds: Bounds,
    origin: EdgeOrigin,
    callees: usize,
}

/// Connections of one App to another, by the pair of `namespace/name` and component that is called.
#[derive(Debug, Default)]
pub(super) struct Crossing {
    ids: BTreeMap<AppId, usize>,
    planned: Vec<bool>,
    /// From Apps that stand: who is called, and by which connection.
    into: BTreeMap<(usize, String), Vec<EdgeOrigin>>,
}

impl Crossing {
    pub(super) fn of(apps: &[&App], ids: &[AppId], scoped: &Scoped) -> Crossing {
        let mut crossing = Crossing { planned: vec![false; apps.len()], ..Crossing::default() };
        for app in &scoped.planned {
            crossing.planned[*app] = true;
        }
        for app in scoped.planned.iter().chain(&scoped.standing) {
            crossing.ids.insert(ids[*app].clone(), *app);
        }
        for app in &scoped.standing {
            for (component, part) in apps[*app].spec.components.iter().enumerate() {
                for (connection, to) in part.connects.iter().enumerate() {
                    let Some(other) = crossing.target(apps, *app, to.app.as_deref()) else {
                        continue;
                    };
                    let origin = EdgeOrigin { app: *app, component, connection };
                    if other != *app {
                        crossing.into.entry((other, to.to.clone())).or_default().push(origin);
                    }
                }
            }
        }
        crossing
    }

    /// The App that a connection of `app` leads to.
    fn target(&self, apps: &[&App], app: usize, named: Option<&str>) -> Option<usize> {
        let Some(name) = named else { return Some(app) };
        self.ids.get(&AppId::of(apps[app]).beside(Some(name))).copied()
    }

    /// The ends of a planned component's connections that stay where they are.
    pub(super) fn fixed_ends(
        &self,
        compiled: &Compiled<'_, '_>,
        app: usize,
        component: usize,
    ) -> Vec<FixedEnd> {
        let apps = compiled.apps.as_slice();
        let part = &apps[app].spec.components[component];
        let mut ends = Vec::new();
        for (connection, to) in part.connects.iter().enumerate() {
            let Some(other) = self.target(apps, app, to.app.as_deref()) else { continue };
            if self.planned[other] {
                continue;
            }
            let named = apps[other].spec.components.iter().position(|one| one.name == to.to);
            let Some(called) = named else { continue };
            let origin = EdgeOrigin { app, component, connection };
            ends.extend(held(compiled, (other, called), Calls::Out, origin, None));
        }
        let callers = self.into.get(&(app, part.name.clone())).into_iter().flatten();
        for origin in callers {
            let own = crate::ask::instances(part);
            ends.extend(held(
                compiled,
                (origin.app, origin.component),
                Calls::In,
                *origin,
                Some(own),
            ));
        }
        ends
    }
}

fn held(
    compiled: &Compiled<'_, '_>,
    (app, component): (usize, usize),
    calls: Calls,
    origin: EdgeOrigin,
    callees: Option<usize>,
) -> Vec<FixedEnd> {
    let apps = compiled.apps.as_slice();
    let connection =
        &apps[origin.app].spec.components[origin.component].connects[origin.connection];
    let name = &apps[app].spec.components[component].name;
    let running: Vec<_> = compiled.roster.held(&compiled.ids[app], name).collect();
    let callees = callees.unwrap_or(running.len());
    let bounds = Bounds::of(connection).shared(callees);
    let place = |one: &&crate::running::Running| {
        let node = compiled.continuum.node_index(&one.node)?;
        Some(FixedEnd {
            app,
            component,
            replica: one.replica,
            node,
            calls,
            bounds,
            origin,
            callees,
        })
    };
    running.iter().filter_map(place).collect()
}

pub(super) fn connect(
    compiled: &mut Compiled<'_, '_>,
    crossing: &Crossing,
    instances: &Instances,
    options: &Options,
) {
    // A copy of the references: rows are pushed into `compiled` below.
    let apps = compiled.apps.clone();
    for app in compiled.scoped.planned.clone() {
        let part = compiled.part_of[&app];
        let mut anchors: BTreeMap<(usize, usize, u32), ItemId> = BTreeMap::new();
        for component in by_name(&apps, app) {
            let items = instances.get(&(app, component)).map_or(&[][..], Vec::as_slice);
            for (connection, to) in apps[app].spec.components[component].connects.iter().enumerate()
            {
                let Some(other) = crossing.target(&apps, app, to.app.as_deref()) else {
                    let missing = to.app.as_deref().unwrap_or_default();
                    compiled.notes.push(format!(
                        "{} of {} calls app {missing}, which does not run: nothing is reserved for it",
                        apps[app].spec.components[component].name, compiled.ids[app]
                    ));
                    continue;
                };
                let called = apps[other].spec.components.iter().position(|one| one.name == to.to);
                let callees = called.and_then(|called| instances.get(&(other, called)));
                let origin = EdgeOrigin { app, component, connection };
                add_edges(compiled, items, callees.map_or(&[][..], Vec::as_slice), origin, options);
            }
            for end in crossing.fixed_ends(compiled, app, component) {
                let key = (end.app, end.component, end.replica);
                let anchor = match anchors.get(&key) {
                    Some(anchor) => *anchor,
                    None => add_anchor(compiled, part, end),
                };
                anchors.insert(key, anchor);
                for item in items {
                    add_fixed_edge(compiled, *item, anchor, end, options);
                }
            }
        }
    }
}

fn add_edges(
    compiled: &mut Compiled<'_, '_>,
    callers: &[ItemId],
    callees: &[ItemId],
    origin: EdgeOrigin,
    options: &Options,
) {
    let spec = &compiled.apps[origin.app].spec;
    let component = &spec.components[origin.component];
    let connection = &component.connects[origin.connection];
    let mix = Mix::of(spec, component, options.weights.as_ref());
    let pairs = affinity::pairs(callers.len(), callees.len());
    let partners = (pairs.len() / callers.len().max(1)).max(1);
    let bounds = Bounds::of(connection).shared(partners);
    for (a, b) in pairs {
        if callers[a] == callees[b] {
            continue;
        }
        compiled.problem.edges.push(Edge {
            a: callers[a],
            b: callees[b],
            traffic: affinity::traffic(connection, &mix, partners),
            latency_us_max: bounds.latency(),
            bandwidth_bps: bounds.bandwidth_bps,
        });
        compiled.edge_origins.push(origin);
    }
}

fn add_anchor(compiled: &mut Compiled<'_, '_>, part: usize, end: FixedEnd) -> ItemId {
    let item = ItemId::new(compiled.problem.items.len());
    let class = index(compiled.problem.classes.len());
    compiled.problem.classes.push(Class::default());
    compiled.kinds.push(Kind::fixed(compiled.continuum, end.node));
    let name = &compiled.apps[end.app].spec.components[end.component].name;
    let of = &compiled.problem.parts[part].id;
    let id = format!("{}/{name}/{} for {of}", compiled.ids[end.app], end.replica);
    let demand = vec![0; compiled.problem.resources.len()].into();
    compiled.problem.items.push(Item { id, class, demand, ..Item::default() });
    compiled.problem.parts[part].items.push(item);
    compiled.origins.push(Origin::Anchor {
        app: end.app,
        component: end.component,
        replica: end.replica,
    });
    item
}

fn add_fixed_edge(
    compiled: &mut Compiled<'_, '_>,
    item: ItemId,
    anchor: ItemId,
    end: FixedEnd,
    options: &Options,
) {
    let spec = &compiled.apps[end.origin.app].spec;
    let component = &spec.components[end.origin.component];
    let connection = &component.connects[end.origin.connection];
    let mix = Mix::of(spec, component, options.weights.as_ref());
    let (a, b) = match end.calls {
        Calls::Out => (item, anchor),
        Calls::In => (anchor, item),
    };
    compiled.problem.edges.push(Edge {
        a,
        b,
        traffic: affinity::traffic(connection, &mix, end.callees),
        latency_us_max: end.bounds.latency(),
        bandwidth_bps: end.bounds.bandwidth_bps,
    });
    compiled.edge_origins.push(end.origin);
}

pub(super) fn group(compiled: &mut Compiled<'_, '_>, instances: &Instances) {
    for app in compiled.scoped.planned.clone() {
        let spec = &compiled.apps[app].spec;
        let items = |name: &str| -> &[ItemId] {
            let component = spec.components.iter().position(|component| component.name == name);
            component.and_then(|c| instances.get(&(app, c))).map_or(&[][..], Vec::as_slice)
        };
        let mut all: Vec<ItemId> = Vec::new();
        for component in by_name(&compiled.apps, app) {
            let own = items(&spec.components[component].name);
            all.extend(own);
            if let Some(scope) = affinity::spread(&spec.components[component])
                && own.len() > 1
            {
                compiled.problem.apart.push(Group { items: own.to_vec(), scope });
            }
        }
        for names in affinity::together(spec) {
            let items: Vec<ItemId> = names.iter().flat_map(|name| items(name)).copied().collect();
            if items.len() > 1 {
                compiled.problem.together.push(Group { items, scope: Scope::Zone });
            }
        }
        for (a, b) in affinity::apart(spec) {
            compiled.problem.apart.extend(apart(items(a), items(b), a == b));
        }
        if spec.homogeneous && all.len() > 1 {
            compiled.problem.same_engine.push(all);
        }
    }
}

fn apart(a: &[ItemId], b: &[ItemId], same: bool) -> Vec<Group> {
    /// Beyond this, one group for all: stricter, and the rule still holds.
    const GROUPS_MAX: usize = 4096;
    let scope = Scope::Node;
    if same {
        return (a.len() > 1).then(|| Group { items: a.to_vec(), scope }).into_iter().collect();
    }
    if a.len().saturating_mul(b.len()) > GROUPS_MAX {
        return vec![Group { items: [a, b].concat(), scope }];
    }
    a.iter().flat_map(|x| b.iter().map(move |y| Group { items: vec![*x, *y], scope })).collect()
}
