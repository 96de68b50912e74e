//! Which Apps are planned, which stand, and what those that stand leave of the nodes.

use std::collections::{BTreeMap, BTreeSet};

use tombolo_model::App;
use tombolo_model::component::Component;

use super::{Options, Scope};
use crate::affinity::Bounds;
use crate::ask::{self, Ask, Leads, Reach, Slot};
use crate::continuum::{Amounts, Continuum};
use crate::filter::{self, Look};
use crate::paths::WayBook;
use crate::reschedule;
use crate::running::{Hold, Roster, Running};

/// The Apps, told apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Scoped {
    /// Indices of the Apps in the problem, by id.
    pub planned: Vec<usize>,
    /// Indices of the Apps that run and stay as they are, by id.
    pub standing: Vec<usize>,
    /// Indices of the Apps that contradict themselves.
    pub refused: Vec<usize>,
}

pub(super) fn decide(
    continuum: &Continuum<'_>,
    apps: &[App],
    ids: &[String],
    sound: &[bool],
    roster: &Roster<'_>,
    options: &Options,
    frozen: &BTreeSet<usize>,
) -> Scoped {
    let mut order: Vec<usize> = (0..apps.len()).filter(|app| sound[*app]).collect();
    order.sort_by_key(|app| ids[*app].as_str());
    let crowded = crowded(continuum, apps, ids, roster);
    let mut looker =
        Looker { continuum, roster, crowded: &crowded, options, book: WayBook::default() };
    let refused = (0..apps.len()).filter(|app| !sound[*app]).collect();
    let mut scoped = Scoped { refused, ..Scoped::default() };
    for app in order {
        if apps[app].spec.stopped || apps[app].metadata.deletion_timestamp.is_some() {
            continue;
        }
        let plan = match options.scope {
            _ if frozen.contains(&app) => false,
            Scope::All => true,
            Scope::Pending => looker.has_to_do(&apps[app], &ids[app]),
        };
        if plan { scoped.planned.push(app) } else { scoped.standing.push(app) }
    }
    scoped
}

/// What each node has left for the planned Apps, and the cores that these already use of it.
pub(super) fn free<'a>(
    continuum: &Continuum<'a>,
    apps: &[App],
    ids: &[String],
    scoped: &Scoped,
    roster: &Roster<'_>,
) -> (Vec<Amounts<'a>>, Vec<f64>) {
    let mut free: Vec<Amounts<'a>> =
        continuum.nodes.iter().map(|node| node.total.clone()).collect();
    let mut own = vec![0.0; continuum.nodes.len()];
    let planned: BTreeSet<&str> = scoped.planned.iter().map(|app| ids[*app].as_str()).collect();
    let by_id: BTreeMap<&str, &App> = ids.iter().map(String::as_str).zip(apps).collect();
    for running in roster.iter().filter(|running| running.hold == Hold::Held) {
        let Some(node) = continuum.node_index(&running.node) else { continue };
        let used = amounts(running, by_id.get(running.app.as_str()).copied());
        if planned.contains(running.app.as_str()) {
            #[expect(clippy::cast_precision_loss, reason = "cores for a share")]
            let cores = used.cpu_millis as f64 / 1000.0;
            own[node as usize] += cores;
        } else {
            let left = &mut free[node as usize];
            *left = left.without(&used);
        }
    }
    (free, own)
}

fn amounts<'r>(running: &'r Running, app: Option<&'r App>) -> Amounts<'r> {
    if let Some(resources) = &running.resources {
        return Amounts::of_resources(resources);
    }
    let components = app.map_or(&[][..], |app| &app.spec.components);
    let component = components.iter().find(|component| component.name == running.component);
    component.and_then(|c| c.needs.as_ref()).map(Amounts::of_needs).unwrap_or_default()
}

/// Whether it asks for more than it was given: room has to be found for that first.
fn has_grown(component: &Component, running: &Running) -> bool {
    let (Some(needs), Some(given)) = (&component.needs, &running.resources) else { return false };
    Amounts::of_needs(needs).exceed(&Amounts::of_resources(given))
}

/// Nodes that have become too small for what runs on them.
fn crowded(
    continuum: &Continuum<'_>,
    apps: &[App],
    ids: &[String],
    roster: &Roster<'_>,
) -> BTreeSet<u32> {
    let by_id: BTreeMap<&str, &App> = ids.iter().map(String::as_str).zip(apps).collect();
    let mut used: BTreeMap<u32, Amounts<'_>> = BTreeMap::new();
    for running in roster.iter().filter(|running| running.hold == Hold::Held) {
        if let Some(node) = continuum.node_index(&running.node) {
            let amounts = amounts(running, by_id.get(running.app.as_str()).copied());
            used.entry(node).or_default().add(&amounts);
        }
    }
    used.retain(|node, used| used.exceed(&continuum.node(*node).total));
    used.into_keys().collect()
}

/// Looks at one App after the other.
struct Looker<'l, 'a> {
    continuum: &'l Continuum<'a>,
    roster: &'l Roster<'l>,
    crowded: &'l BTreeSet<u32>,
    options: &'l Options,
    book: WayBook,
}

impl Looker<'_, '_> {
    fn has_to_do(&mut self, app: &App, id: &str) -> bool {
        app.spec.components.iter().any(|component| {
            let slots = ask::slots(component);
            (0u32..).zip(slots).any(|(replica, slot)| self.unsettled(id, component, replica, slot))
                || self.connections_broken(id, component)
        })
    }

    fn unsettled(&mut self, id: &str, component: &Component, replica: u32, slot: Slot<'_>) -> bool {
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
            strike.app == id
                && strike.component == component.name
                && strike.node == running.node
                && reschedule::penalty(strike, self.options.now).counts()
        });
        if struck {
            return true;
        }
        let mut ask = Ask::new(component, slot);
        ask.staying = Some(node);
        ask.reaches = users(self.continuum, component, &mut self.book);
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
    fn connections_broken(&mut self, id: &str, component: &Component) -> bool {
        let namespace = id.split('/').next().unwrap_or_default();
        for connection in component.connects.iter().filter(|one| Bounds::of(one).promised()) {
            let other = connection
                .app
                .as_ref()
                .map_or_else(|| id.to_owned(), |app| format!("{namespace}/{app}"));
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
                }
            }
        }
        false
    }
}

/// The bound on the way to each site with users.
pub(super) fn users(
    continuum: &Continuum<'_>,
    component: &Component,
    book: &mut WayBook,
) -> Vec<Reach> {
    let Some(users) = component.users.as_ref().filter(|users| users.latency.is_some()) else {
        return Vec::new();
    };
    let known = users.sites.iter().filter_map(|site| Some((site, continuum.site_index(site)?)));
    let reach = |(site, index): (&String, u32)| Reach {
        to: format!("its users at {site}"),
        place: Leads::To(continuum.sites[index as usize].zone),
        ways: book.to(&continuum.network, continuum.sites[index as usize].zone),
        latency_us_max: users.latency.map(|latency| latency.micros()),
        jitter_us_max: None,
        bandwidth_bps: 0,
    };
    known.map(reach).collect()
}
