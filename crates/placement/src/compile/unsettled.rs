//! Which Apps have something to do although nobody asked: an instance without a place or in one that
//! no longer suits, a promise or a rule between instances that is broken by now. Called by
//! [`super::scope`]; start reading at [`Looker`].

use std::collections::{BTreeMap, BTreeSet};

use tombolo_model::component::Component;
use tombolo_model::{App, AppId};
use tombolo_solver::problem::Scope;

use super::{Options, carried, scope};
use crate::affinity::{self, Bounds};
use crate::ask::{self, Ask, Slot};
use crate::continuum::{Amounts, Continuum};
use crate::filter::{self, Look};
use crate::paths::WayBook;
use crate::reschedule;
use crate::running::{Hold, Roster, Running};

/// Looks at one App after the other.
pub(super) struct Looker<'l, 'a> {
    continuum: &'l Continuum<'a>,
    roster: &'l Roster<'l>,
    /// Nodes that have become too small for what runs on them, or on which two want one port.
    crowded: BTreeSet<u32>,
    /// Links that have become too narrow for what is set aside on them.
    narrow: BTreeSet<u32>,
    options: &'l Options,
    book: WayBook,
}

impl<'l, 'a> Looker<'l, 'a> {
    /// `which` of the Apps are to run.
    pub(super) fn new(
        continuum: &'l Continuum<'a>,
        apps: &[&App],
        ids: &[AppId],
        which: &[usize],
        roster: &'l Roster<'l>,
        options: &'l Options,
    ) -> Looker<'l, 'a> {
        let mut book = WayBook::default();
        let carried = carried::by_link(continuum, apps, ids, which, roster, &mut book, |_| true);
        let too_much = |(link, carried): (u32, u64)| {
            let has = continuum.network.links[link as usize].bandwidth_bps;
            has.is_some_and(|has| carried > has).then_some(link)
        };
        let narrow = carried.into_iter().filter_map(too_much).collect();
        let crowded = crowded(continuum, apps, ids, roster);
        Looker { continuum, roster, crowded, narrow, options, book }
    }

    pub(super) fn has_to_do(&mut self, app: &App, id: &AppId) -> bool {
        let lacks = app.spec.components.iter().any(|component| {
            let slots = ask::slots(component);
            (0u32..).zip(slots).any(|(replica, slot)| self.unsettled(id, component, replica, slot))
                || self.connections_broken(id, component)
        });
        lacks || self.neighbours_broken(app, id)
    }

    fn unsettled(
        &mut self,
        id: &AppId,
        component: &Component,
        replica: u32,
        slot: Slot<'_>,
    ) -> bool {
        let held =
            self.roster.get(id, &component.name, replica).filter(|one| one.hold == Hold::Held);
        let Some((running, node)) =
            held.and_then(|one| Some((one, self.continuum.node_index(&one.node)?)))
        else {
            return true;
        };
        if self.crowded.contains(&node) || has_grown(component, running) {
            return true;
        }
        let struck = self.options.strikes.iter().any(|strike| {
            strike.app == *id
                && strike.component == component.name
                && strike.node == running.node
                && reschedule::penalty(strike, self.options.now).counts()
        });
        if struck {
            return true;
        }
        let mut ask = Ask::new(component, slot);
        ask.staying = Some(node);
        ask.reaches = scope::users(self.continuum, component, &mut self.book);
        // Devices are counted by what the node has: those in use may well be in use by this one.
        let look = Look {
            continuum: self.continuum,
            left: &self.continuum.node(node).total,
            ask: &ask,
            node,
        };
        !filter::asked(&ask)
            .into_iter()
            .all(|asked| asked.need.amount || (asked.need.admits)(&look, asked.number))
    }

    /// Whether a promise about a connection is no longer kept where the two ends run.
    fn connections_broken(&mut self, id: &AppId, component: &Component) -> bool {
        for connection in component.connects.iter().filter(|one| Bounds::of(one).promised()) {
            let other = id.beside(connection.app.as_deref());
            let bounds = Bounds::of(connection);
            for caller in self.roster.held(id, &component.name) {
                let Some(from) = self.continuum.node_index(&caller.node) else { continue };
                let ways = self.book.from(&self.continuum.network, self.continuum.node(from).zone);
                for callee in self.roster.held(&other, &connection.to) {
                    let Some(to) = self.continuum.node_index(&callee.node) else { continue };
                    let way = ways[self.continuum.node(to).zone as usize].as_ref();
                    if way.is_none_or(|way| !bounds.kept_by(way)) {
                        return true;
                    }
                    let mut links = way.iter().flat_map(|way| &way.links);
                    if bounds.bandwidth_bps > 0 && links.any(|link| self.narrow.contains(link)) {
                        return true;
                    }
                }
            }
        }
        false
    }

    /// Whether instances are together or apart where the App says otherwise by now.
    fn neighbours_broken(&self, app: &App, id: &AppId) -> bool {
        let spec = &app.spec;
        let held = |name: &str| -> Vec<&Running> {
            let component = spec.components.iter().find(|component| component.name == name);
            let wanted = component.map_or(0, ask::instances);
            self.roster.held(id, name).filter(|one| (one.replica as usize) < wanted).collect()
        };
        let nodes = |name: &str| -> Vec<Option<u32>> {
            held(name).into_iter().map(|one| self.continuum.node_index(&one.node)).collect()
        };
        let site = |node: Option<u32>| node.map(|node| self.continuum.node(node).site);
        let crammed = spec.components.iter().any(|part| match affinity::spread(part) {
            Some(Scope::Node) => repeats(nodes(&part.name)),
            Some(Scope::Zone) => repeats(nodes(&part.name).into_iter().map(site)),
            None => false,
        });
        let too_near = || {
            affinity::apart(spec).into_iter().any(|(a, b)| match a == b {
                true => repeats(nodes(a)),
                false => nodes(a).iter().any(|node| nodes(b).contains(node)),
            })
        };
        let too_far = || {
            affinity::together(spec).into_iter().any(|names| {
                let sites = names.into_iter().flat_map(nodes).map(site);
                sites.collect::<BTreeSet<_>>().len() > 1
            })
        };
        let mixed = || {
            let all = spec.components.iter().flat_map(|part| held(&part.name));
            let engines: BTreeSet<u8> = all.map(|one| ask::engine_number(one.engine)).collect();
            spec.homogeneous && engines.len() > 1
        };
        crammed || too_near() || too_far() || mixed()
    }
}

fn repeats<T: Ord>(all: impl IntoIterator<Item = T>) -> bool {
    let mut seen = BTreeSet::new();
    !all.into_iter().all(|one| seen.insert(one))
}

/// Whether it asks for more than it was given: room has to be found for that first.
fn has_grown(component: &Component, running: &Running) -> bool {
    let (Some(needs), Some(given)) = (&component.needs, &running.resources) else { return false };
    Amounts::of_needs(needs).exceed(&Amounts::of_resources(given))
}

fn crowded(
    continuum: &Continuum<'_>,
    apps: &[&App],
    ids: &[AppId],
    roster: &Roster<'_>,
) -> BTreeSet<u32> {
    let by_id: BTreeMap<&AppId, &App> = ids.iter().zip(apps.iter().copied()).collect();
    let mut used: BTreeMap<u32, Amounts<'_>> = BTreeMap::new();
    // Two there must have the same port.
    let mut contested: BTreeSet<u32> = BTreeSet::new();
    for running in roster.iter().filter(|running| running.hold == Hold::Held) {
        if let Some(node) = continuum.node_index(&running.node) {
            let amounts =
                scope::amounts(running, running.app.as_ref().and_then(|id| by_id.get(id)).copied());
            let used = used.entry(node).or_default();
            if amounts.ports.keys().any(|port| used.ports.contains_key(port)) {
                contested.insert(node);
            }
            used.add(&amounts);
        }
    }
    used.retain(|node, used| used.exceed(&continuum.node(*node).total));
    used.into_keys().chain(contested).collect()
}
