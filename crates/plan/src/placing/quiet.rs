//! What need not be looked at again: Apps for which a look found nothing to do, while nothing that they depend
//! on has changed since. Called by [`super::plan()`]; start reading at [`Part::of`].
//!
//! That nothing has changed is told by the objects being the same ones in memory, not by what they say. So a
//! memory that was lost costs one look at everything and changes no decision; tests compare both at each step.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use tombolo_model::component::Component;
use tombolo_model::condition::{self, DEGRADED, READY};
use tombolo_model::needs::Resources;
use tombolo_model::{App, AppId, Assignment, Bytes, Cpu, Link, Shared};
use tombolo_placement::Running;

use super::current::{View, World};
use super::verdict::Verdict;
use super::{Memory, Observed};

/// What the last look saw, and which of its Apps were quiet. Two of them never differ: it decides nothing.
#[derive(Clone, Debug, Default)]
pub(super) struct Quiet {
    observed: Observed,
    /// By where the App is in memory; `observed` keeps it there.
    apps: BTreeMap<usize, Shared<Footprint>>,
}

impl PartialEq for Quiet {
    fn eq(&self, _: &Quiet) -> bool {
        true
    }
}

impl Eq for Quiet {}

/// What a quiet App depends on beside itself, and what it takes.
#[derive(Clone, Debug)]
pub(super) struct Footprint {
    id: AppId,
    /// The nodes of its instances, each once, in order.
    nodes: Vec<String>,
    /// Where its Assignments are in memory, in order.
    own: Vec<usize>,
    running: Vec<Running>,
    /// Apps that it calls.
    calls: BTreeSet<AppId>,
    /// It speaks to somebody: ways in the network matter.
    is_wired: bool,
    /// Some of its connections set bandwidth aside.
    is_wide: bool,
}

/// The part of the world that is looked at.
#[derive(Debug, Default)]
pub(super) struct Part {
    pub observed: Observed,
    /// By App of the part: where it is in the whole.
    pub index: Vec<usize>,
    /// By App of the part: whether anything can have come up for it. The others are there because one of these
    /// speaks to them.
    pub is_due: Vec<bool>,
    /// What all others take.
    pub beside: Vec<Running>,
    /// Nothing is left out.
    pub is_whole: bool,
}

fn address<T>(object: &Shared<T>) -> usize {
    std::ptr::from_ref::<T>(object.as_ref()).addr()
}

impl Part {
    /// All of it.
    pub(super) fn whole(observed: &Observed) -> Part {
        let count = observed.apps.len();
        Part {
            observed: observed.clone(),
            index: (0..count).collect(),
            is_due: vec![true; count],
            beside: Vec::new(),
            is_whole: true,
        }
    }

    /// What has changed since the last look, and whatever that can matter to.
    pub(super) fn of(observed: &Observed, memory: &Memory) -> Part {
        let quiet = &memory.quiet;
        if quiet.apps.is_empty() || !memory.is_recalled {
            return Part::whole(observed);
        }
        let footprints: Vec<Option<&Shared<Footprint>>> =
            observed.apps.iter().map(|app| quiet.apps.get(&address(app))).collect();
        let touched = Touched::of(&quiet.observed, observed, memory);
        let mut due: Vec<bool> = observed
            .apps
            .iter()
            .zip(&footprints)
            .map(|(app, footprint)| footprint.is_none_or(|print| touched.concerns(app, print)))
            .collect();
        if due.iter().all(|due| *due) {
            return Part::whole(observed);
        }
        widen(observed, &footprints, &touched, &mut due);
        let beside_them = speaking_to(observed, &footprints, &due);
        let is_in = |app: usize| due[app] || beside_them[app];
        let index: Vec<usize> = (0..observed.apps.len()).filter(|app| is_in(*app)).collect();
        let out: Vec<&Shared<Footprint>> = (0..footprints.len())
            .filter(|app| !is_in(*app))
            .filter_map(|app| footprints[app])
            .collect();
        let mut left_out: Vec<usize> = out.iter().flat_map(|print| &print.own).copied().collect();
        left_out.sort_unstable();
        let is_left = |one: &&Shared<Assignment>| left_out.binary_search(&address(one)).is_err();
        Part {
            observed: Observed {
                apps: index.iter().map(|app| observed.apps[*app].clone()).collect(),
                assignments: observed.assignments.iter().filter(is_left).cloned().collect(),
                sites: observed.sites.clone(),
                nodes: observed.nodes.clone(),
                links: observed.links.clone(),
                struck: observed.struck.clone(),
            },
            is_due: index.iter().map(|app| due[*app]).collect(),
            index,
            beside: taken(&out),
            is_whole: false,
        }
    }

    /// What the next look may leave out: what this one left out, and what it found quiet.
    pub(super) fn quiet(
        &self,
        observed: &Observed,
        before: &Quiet,
        found: Vec<Option<Footprint>>,
    ) -> Quiet {
        let mut found: BTreeMap<usize, Option<Footprint>> =
            self.index.iter().copied().zip(found).collect();
        let mut apps = BTreeMap::new();
        for (number, app) in observed.apps.iter().enumerate() {
            let address = address(app);
            let footprint = match found.remove(&number) {
                Some(found) => found.map(Shared::from),
                None => before.apps.get(&address).cloned(),
            };
            apps.extend(footprint.map(|footprint| (address, footprint)));
        }
        Quiet { observed: observed.clone(), apps }
    }
}

/// What has changed since the last look.
#[derive(Debug, Default)]
struct Touched<'o> {
    /// The uids of Apps of whose Assignments one came, went or changed.
    owners: BTreeSet<&'o str>,
    /// Nodes that changed, whose site did, or on which something came, went or changed.
    nodes: BTreeSet<&'o str>,
    links: bool,
    /// Apps that are gone or not what they were, and those that they called.
    apps: BTreeSet<AppId>,
    called: BTreeSet<AppId>,
    /// Apps of which something fails.
    troubled: BTreeSet<&'o AppId>,
}

impl<'o> Touched<'o> {
    fn of(before: &'o Observed, now: &'o Observed, memory: &'o Memory) -> Touched<'o> {
        let mut touched = Touched::default();
        for app in changed(&before.apps, &now.apps, |app| &app.metadata) {
            touched.apps.insert(AppId::of(app));
            touched.called.extend(calls(app));
        }
        for one in changed(&before.assignments, &now.assignments, |one| &one.metadata) {
            let owners = one.metadata.owner_references.iter().flatten();
            touched.owners.extend(owners.map(|owner| owner.uid.as_str()));
            touched.nodes.extend(one.spec.node.as_deref());
        }
        let sites: BTreeSet<&str> = changed(&before.sites, &now.sites, |site| &site.metadata)
            .into_iter()
            .filter_map(|site| site.metadata.name.as_deref())
            .collect();
        let at_them = |node: &&tombolo_model::Node| sites.contains(node.spec.site.as_str());
        let nodes = now.nodes.iter().map(AsRef::as_ref);
        let nodes = nodes.filter(|_| !sites.is_empty()).filter(at_them);
        let nodes = nodes.chain(changed(&before.nodes, &now.nodes, |node| &node.metadata));
        touched.nodes.extend(nodes.filter_map(|node| node.metadata.name.as_deref()));
        touched.links = matters(&changed(&before.links, &now.links, |link| &link.metadata));
        touched.troubled = memory.troubles.keys().map(|(app, _)| app).collect();
        touched.troubled.extend(now.struck.iter().map(|one| &one.app));
        touched
    }

    fn concerns(&self, app: &App, footprint: &Footprint) -> bool {
        let uid = app.metadata.uid.as_deref().unwrap_or_default();
        self.links && footprint.is_wired
            || self.owners.contains(uid)
            || self.called.contains(&footprint.id)
            || self.troubled.contains(&footprint.id)
            || footprint.nodes.iter().any(|node| self.nodes.contains(node.as_str()))
            || footprint.calls.iter().any(|called| self.apps.contains(called))
    }
}

/// Objects that are in one of two lists only. Both are in order as a rule; where they are not, something may be told
/// as changed that is not.
fn changed<'o, T>(
    before: &'o [Shared<T>],
    now: &'o [Shared<T>],
    metadata: impl Fn(&'o T) -> &'o ObjectMeta,
) -> Vec<&'o T> {
    let mut changed = Vec::new();
    let (mut old, mut new) = (before.iter().peekable(), now.iter().peekable());
    loop {
        let order = match (old.peek().copied(), new.peek().copied()) {
            (None, None) => return changed,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(one), Some(other)) if address(one) == address(other) => {
                old.next();
                new.next();
                continue;
            }
            (Some(one), Some(other)) => name(metadata(one)).cmp(&name(metadata(other))),
        };
        if order != Ordering::Greater {
            changed.extend(old.next().map(AsRef::as_ref));
        }
        if order != Ordering::Less {
            changed.extend(new.next().map(AsRef::as_ref));
        }
    }
}

/// Whether any of these links is not as it was, for who reckons with it. A status that is written anew for its age
/// brings nothing up for anybody.
fn matters(changed: &[&Link]) -> bool {
    let mut by_name: BTreeMap<&str, Vec<&Link>> = BTreeMap::new();
    for link in changed {
        by_name.entry(name(&link.metadata).1).or_default().push(link);
    }
    let ready = |link: &Link| {
        let conditions = link.status.as_ref().map_or(&[][..], |status| &status.conditions);
        condition::find(conditions, READY).map(|ready| ready.status)
    };
    let is_same = |one: &Link, other: &Link| {
        one.spec == other.spec
            && one.quality() == other.quality()
            && one.is_measured() == other.is_measured()
            && one.is_made_by_probes() == other.is_made_by_probes()
            && ready(one) == ready(other)
    };
    !by_name.values().all(|versions| matches!(versions[..], [one, other] if is_same(one, other)))
}

fn name(metadata: &ObjectMeta) -> (&str, &str) {
    let namespace = metadata.namespace.as_deref().unwrap_or_default();
    (namespace, metadata.name.as_deref().unwrap_or_default())
}

/// Other Apps that an App calls.
fn calls(app: &App) -> impl Iterator<Item = AppId> + '_ {
    let connections = app.spec.components.iter().flat_map(|component| &component.connects);
    let others = connections.filter_map(|connection| connection.app.as_deref());
    others.map(move |name| AppId::of(app).beside(Some(name)))
}

/// Something may have come up for an App because of what is due: it speaks to it, shares a node with it, or the links.
fn widen(
    observed: &Observed,
    footprints: &[Option<&Shared<Footprint>>],
    touched: &Touched<'_>,
    due: &mut [bool],
) {
    let speaks = speaking_to(observed, footprints, due);
    let wide = |app: usize| {
        footprints[app].map_or_else(|| is_wide(&observed.apps[app]), |one| one.is_wide)
    };
    let are_wide = (0..due.len()).any(|app| due[app] && wide(app));
    let mut nodes: BTreeSet<&str> = touched.nodes.clone();
    for app in (0..due.len()).filter(|app| due[*app]) {
        let placements = observed.apps[app].status.iter().flat_map(|status| &status.placements);
        nodes.extend(placements.filter_map(|at| at.node.as_deref()));
    }
    for (app, due) in due.iter_mut().enumerate().filter(|(_, due)| !**due) {
        let Some(footprint) = footprints[app] else { continue };
        *due = speaks[app]
            || are_wide && footprint.is_wide
            || footprint.nodes.iter().any(|node| nodes.contains(node.as_str()));
    }
}

/// By App: whether it calls one of those that are meant, or is called by one.
fn speaking_to(
    observed: &Observed,
    footprints: &[Option<&Shared<Footprint>>],
    meant: &[bool],
) -> Vec<bool> {
    let which = || observed.apps.iter().enumerate().filter(|(app, _)| meant[*app]);
    let ids: BTreeSet<AppId> = which().map(|(_, app)| AppId::of(app)).collect();
    let called: BTreeSet<AppId> = which().flat_map(|(_, app)| calls(app)).collect();
    let speaks = |footprint: &Footprint| {
        called.contains(&footprint.id) || footprint.calls.iter().any(|call| ids.contains(call))
    };
    footprints.iter().map(|footprint| footprint.is_some_and(|one| speaks(one))).collect()
}

fn is_wide(app: &App) -> bool {
    let connections = app.spec.components.iter().flat_map(|component| &component.connects);
    connections.into_iter().any(|one| one.bandwidth.is_some() || one.frame_size.is_some())
}

impl Footprint {
    /// Of an App for which nothing was to be done; nothing if time alone could bring something up for it.
    pub(super) fn of(view: &View<'_>, verdict: &Verdict, world: &World<'_>) -> Option<Footprint> {
        let status = view.app.status.as_ref()?;
        let rests = status.remembered.is_none()
            && !verdict.lacks()
            && !verdict.waits
            && verdict.given_up.is_empty()
            && view.app.metadata.deletion_timestamp.is_none()
            && view.own.len() == view.current.len()
            && !view.app.spec.components.iter().any(has_gpu_memory);
        let is_well = |one: &Assignment| {
            let conditions = one.status.as_ref().map_or(&[][..], |status| &status.conditions);
            one.metadata.deletion_timestamp.is_none() && !condition::is_true(conditions, DEGRADED)
        };
        let stays = |at: &tombolo_model::app::Placement| {
            at.instead_of.is_none()
                && view.assignment(at).is_some()
                && at
                    .node
                    .as_deref()
                    .is_some_and(|node| world.has_node(node) && !world.is_silent(node))
        };
        if !rests || !view.own.values().all(|one| is_well(one)) || !view.current.values().all(stays)
        {
            return None;
        }
        let running: Vec<Running> =
            view.current.values().filter_map(|at| world.held(view, at)).collect();
        let nodes: BTreeSet<&String> = running.iter().map(|one| &one.node).collect();
        let connects = view.app.spec.components.iter().flat_map(|component| &component.connects);
        let mut own: Vec<usize> =
            view.own.values().map(|one| std::ptr::from_ref::<Assignment>(one).addr()).collect();
        own.sort_unstable();
        Some(Footprint {
            id: AppId::of(view.app),
            nodes: nodes.into_iter().cloned().collect(),
            own,
            calls: calls(view.app).collect(),
            is_wired: connects.count() > 0
                || view.app.spec.components.iter().any(|component| component.users.is_some()),
            is_wide: is_wide(view.app),
            running,
        })
    }
}

/// What such an instance takes is not in what it was given.
fn has_gpu_memory(component: &Component) -> bool {
    component.needs.as_ref().is_some_and(|needs| needs.gpu_memory.is_some())
}

/// What these take, summed up by node. Who has a port, a device or a graphics processor stays as it is.
fn taken(of: &[&Shared<Footprint>]) -> Vec<Running> {
    let mut sums: BTreeMap<&str, Running> = BTreeMap::new();
    let mut taken = Vec::new();
    for one in of.iter().flat_map(|footprint| &footprint.running) {
        let Some(resources) = &one.resources else { continue };
        let has_ports = one.ports.as_ref().is_some_and(|ports| !ports.is_empty());
        if has_ports || resources.gpu.is_some() || !resources.devices.is_empty() {
            taken.push(one.clone());
            continue;
        }
        match sums.get_mut(one.node.as_str()).and_then(|sum| sum.resources.as_mut()) {
            Some(sum) => add(sum, resources),
            None => {
                let replica = u32::try_from(sums.len()).unwrap_or(u32::MAX);
                let component = String::new();
                let sum = Running { app: None, component, replica, ports: None, ..one.clone() };
                sums.insert(&one.node, sum);
            }
        }
    }
    taken.extend(sums.into_values());
    taken
}

fn add(sum: &mut Resources, more: &Resources) {
    let cpu = |of: &Resources| of.cpu.map_or(0, |cpu| cpu.millis());
    sum.cpu = Some(Cpu::from_millis(cpu(sum).saturating_add(cpu(more))));
    let bytes = |one: Option<Bytes>, other: Option<Bytes>| {
        let bytes = |of: Option<Bytes>| of.map_or(0, |bytes| bytes.get());
        Some(Bytes::new(bytes(one).saturating_add(bytes(other))))
    };
    sum.memory = bytes(sum.memory, more.memory);
    sum.storage = bytes(sum.storage, more.storage);
}
