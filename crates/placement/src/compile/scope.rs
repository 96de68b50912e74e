//! Which Apps are planned, which stand, and what those that stand leave of the nodes.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use tombolo_model::component::Component;
use tombolo_model::{App, AppId};

use super::unsettled::Looker;
use super::{Options, Scope};
use crate::ask::{self, Leads, Reach};
use crate::continuum::{Amounts, Continuum};
use crate::paths::WayBook;
use crate::running::{Hold, Roster, Running};

/// The Apps, told apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Scoped {
    /// Indices of the Apps in the problem, by id.
    pub planned: Vec<usize>,
    /// Indices of the Apps that run and stay as they are, by id.
    pub standing: Vec<usize>,
    /// Those among them that want a place as well, and wait for one until others that they speak to have theirs.
    pub deferred: Vec<usize>,
    /// Of planned Apps that have a place together or none: the first of them.
    pub joined: BTreeMap<usize, usize>,
    /// Indices of the Apps that contradict themselves.
    pub refused: Vec<usize>,
}

pub(super) fn decide(
    continuum: &Continuum<'_>,
    apps: &[&App],
    ids: &[AppId],
    sound: &[bool],
    roster: &Roster<'_>,
    options: &Options,
    frozen: &BTreeSet<usize>,
) -> Scoped {
    let mut order: Vec<usize> = (0..apps.len()).filter(|app| sound[*app]).collect();
    order.sort_by_key(|app| &ids[*app]);
    let goes_on =
        |app: &usize| !apps[*app].spec.stopped && apps[*app].metadata.deletion_timestamp.is_none();
    order.retain(goes_on);
    let mut looker = Looker::new(continuum, apps, ids, &order, roster, options);
    let refused = (0..apps.len()).filter(|app| !sound[*app]).collect();
    let mut scoped = Scoped { refused, ..Scoped::default() };
    for app in order {
        let plan = match options.scope {
            _ if frozen.contains(&app) => false,
            Scope::All => true,
            Scope::Pending => {
                options.changed.contains(&ids[app])
                    || options.also_planned.contains(&ids[app])
                    || looker.has_to_do(apps[app], &ids[app])
            }
        };
        if plan { scoped.planned.push(app) } else { scoped.standing.push(app) }
    }
    let speech = Speech::of(apps, ids, &scoped.planned);
    match options.also_planned.is_empty() {
        true => scoped.deferred = speech.deferred(apps, ids, &scoped.planned),
        // Whoever makes room for a neighbour is planned with it.
        false => scoped.joined = speech.joined(&scoped.planned),
    }
    if !scoped.deferred.is_empty() {
        scoped.planned.retain(|app| !scoped.deferred.contains(app));
        scoped.standing.extend(&scoped.deferred);
        scoped.standing.sort_by_key(|app| &ids[*app]);
    }
    scoped
}

/// Which of the planned Apps speak to each other.
#[derive(Debug, Default)]
struct Speech {
    /// Whom each calls.
    calls: BTreeMap<usize, BTreeSet<usize>>,
    /// Whom each calls or is called by.
    ties: BTreeMap<usize, BTreeSet<usize>>,
}

impl Speech {
    fn of(apps: &[&App], ids: &[AppId], planned: &[usize]) -> Speech {
        let mut speech = Speech::default();
        let is_social = |app: &&usize| {
            let parts = apps[**app].spec.components.iter();
            parts.flat_map(|part| &part.connects).any(|connection| connection.app.is_some())
        };
        if !planned.iter().any(|app| is_social(&app)) {
            return speech;
        }
        let named: BTreeMap<&AppId, usize> = planned.iter().map(|app| (&ids[*app], *app)).collect();
        for app in planned.iter().filter(is_social) {
            let connections = apps[*app].spec.components.iter().flat_map(|part| &part.connects);
            for other in connections.filter_map(|connection| connection.app.as_deref()) {
                let other = ids[*app].beside(Some(other));
                if let Some(other) = named.get(&other).filter(|other| *other != app) {
                    speech.calls.entry(*app).or_default().insert(*other);
                    speech.ties.entry(*app).or_default().insert(*other);
                    speech.ties.entry(*other).or_default().insert(*app);
                }
            }
        }
        speech
    }

    /// Of Apps that speak to each other one is planned after the other, so that the first is a fixed end for the
    /// second: each has a place or none by itself. Who calls none of the others comes first.
    fn deferred(&self, apps: &[&App], ids: &[AppId], planned: &[usize]) -> Vec<usize> {
        if self.ties.is_empty() {
            return Vec::new();
        }
        let calls_none = |app: &usize| !self.calls.contains_key(app);
        let mut first: BTreeSet<usize> = planned.iter().copied().filter(calls_none).collect();
        if first.is_empty() {
            // They call each other in a circle.
            let priority = |app: &usize| std::cmp::Reverse(super::priority(apps[*app].spec.qos));
            first.extend(planned.iter().min_by_key(|app| (priority(app), &ids[**app])));
        }
        planned.iter().copied().filter(|app| !first.contains(app)).collect()
    }

    /// The first of all that each has to do with, directly or through others.
    fn joined(&self, planned: &[usize]) -> BTreeMap<usize, usize> {
        let mut joined = BTreeMap::new();
        for first in planned.iter().filter(|app| self.ties.contains_key(app)) {
            let mut open = vec![*first];
            while let Some(app) = open.pop() {
                if let Entry::Vacant(new) = joined.entry(app) {
                    new.insert(*first);
                    open.extend(&self.ties[&app]);
                }
            }
        }
        joined
    }
}

/// What each node has left for the planned Apps, and the cores that these already use of it.
pub(super) fn free<'a>(
    continuum: &Continuum<'a>,
    apps: &[&App],
    ids: &[AppId],
    scoped: &Scoped,
    roster: &Roster<'_>,
) -> (Vec<Amounts<'a>>, Vec<f64>) {
    let mut free: Vec<Amounts<'a>> =
        continuum.nodes.iter().map(|node| node.total.clone()).collect();
    let mut own = vec![0.0; continuum.nodes.len()];
    let planned: BTreeSet<&AppId> = scoped.planned.iter().map(|app| &ids[*app]).collect();
    let by_id: BTreeMap<&AppId, &App> = ids.iter().zip(apps.iter().copied()).collect();
    for running in roster.iter().filter(|running| running.hold == Hold::Held) {
        let Some(node) = continuum.node_index(&running.node) else { continue };
        let used = amounts(running, running.app.as_ref().and_then(|id| by_id.get(id)).copied());
        if running.app.as_ref().is_some_and(|id| planned.contains(id)) {
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

pub(crate) fn amounts<'r>(running: &'r Running, app: Option<&'r App>) -> Amounts<'r> {
    let components = app.map_or(&[][..], |app| &app.spec.components);
    let component = components.iter().find(|component| component.name == running.component);
    let needs = component.and_then(|component| component.needs.as_ref());
    let amounts = match (&running.resources, needs) {
        (None, needs) => needs.map(Amounts::of_needs).unwrap_or_default(),
        (Some(resources), needs) => {
            let memory = needs.and_then(|needs| needs.gpu_memory);
            Amounts::of_resources(resources)
                .with_gpu_memory(memory.map_or(0, |memory| memory.get()))
        }
    };
    let must_have = || component.map(ask::fixed_ports);
    let ports = running.ports.clone().or_else(must_have).unwrap_or_default();
    if ports.is_empty() {
        return amounts;
    }
    let holder = match &running.app {
        Some(app) => format!("{app}/{}/{}", running.component, running.replica),
        None => format!("{} on its way out", running.component),
    };
    amounts.with_ports(ports, &holder.into())
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
