//! What is, before anything is decided: each App with its Assignments and the places that it was
//! given, and which of these are given up because their node is silent.

use std::collections::{BTreeMap, BTreeSet};

use tombolo_model::app::Placement;
use tombolo_model::component::{Component, Connection};
use tombolo_model::condition::{self, APPLIED, AVAILABLE, DEGRADED, READY};
use tombolo_model::needs::Resources;
use tombolo_model::ports::{self, NodePort};
use tombolo_model::{
    App, AppId, Assignment, Condition, ConditionStatus, InstanceKey, Node, Privilege, Reason,
    Shared, Site,
};
use tombolo_placement::{Hold, Running};

use super::rule::{current, patience};
use super::{Memory, Observed};
use crate::Monotonic;

/// A component and the number of the instance.
pub(super) type Instance<'o> = (&'o str, u32);

/// A component, and what it says of another component that it calls.
pub(super) type Call<'o> = (&'o Component, &'o Connection);

/// One App and what belongs to it.
#[derive(Debug)]
pub(super) struct View<'o> {
    pub app: &'o App,
    /// Where its instances are to be, as decided before; none when it is stopped.
    pub current: BTreeMap<InstanceKey, Placement>,
    /// All of its Assignments, by name.
    pub own: BTreeMap<&'o str, &'o Assignment>,
    /// By silent node that one of them is on: what says that it is not ready.
    unheard: BTreeMap<&'o str, &'o Condition>,
    memory: &'o Memory,
}

#[derive(Debug)]
pub(super) struct World<'o> {
    pub views: Vec<View<'o>>,
    pub observed: &'o Observed,
    ground: Ground<'o>,
    /// Indices into `views` by namespace and name, to find an App that another App calls.
    by_name: BTreeMap<(&'o str, &'o str), usize>,
    /// By namespace and App: the components of other Apps that call it.
    callers: BTreeMap<(&'o str, &'o str), Vec<Call<'o>>>,
    pub now: Monotonic,
}

/// Sites and Nodes by name, and since when which of them are silent.
#[derive(Clone, Debug)]
pub(super) struct Ground<'o> {
    pub sites: BTreeMap<&'o str, &'o Site>,
    pub nodes: BTreeMap<&'o str, &'o Node>,
    pub memory: &'o Memory,
}

impl<'o> World<'o> {
    pub(super) fn of(observed: &'o Observed, memory: &'o Memory, now: Monotonic) -> World<'o> {
        let mut by_owner: BTreeMap<&str, BTreeMap<&str, &Assignment>> = BTreeMap::new();
        for assignment in &observed.assignments {
            let name = assignment.metadata.name.as_deref().unwrap_or_default();
            for owner in assignment.metadata.owner_references.iter().flatten() {
                by_owner.entry(&owner.uid).or_default().insert(name, assignment);
            }
        }
        let nodes = observed.nodes.iter();
        let sites = observed.sites.iter();
        let ground = Ground {
            nodes: nodes.filter_map(|n| Some((n.metadata.name.as_deref()?, n.as_ref()))).collect(),
            sites: sites.filter_map(|s| Some((s.metadata.name.as_deref()?, s.as_ref()))).collect(),
            memory,
        };
        let view = |app: &'o Shared<App>| {
            let uid = app.metadata.uid.as_deref().unwrap_or_default();
            let own = by_owner.get(uid).cloned().unwrap_or_default();
            let nodes = own.values().filter_map(|assignment| assignment.spec.node.as_deref());
            let unheard = nodes.filter_map(|node| Some((node, ground.unheard(node)?))).collect();
            View { app: app.as_ref(), current: current(app, &own, &ground), own, unheard, memory }
        };
        let views = observed.apps.iter().map(view).collect();
        let name = |app: &'o Shared<App>| {
            let namespace = app.metadata.namespace.as_deref().unwrap_or_default();
            (namespace, app.metadata.name.as_deref().unwrap_or_default())
        };
        let by_name = observed.apps.iter().map(name).zip(0..).collect();
        let callers = callers(&observed.apps);
        World { views, observed, ground, by_name, callers, now }
    }

    /// Who calls a component of an App, from that App or from another one.
    pub(super) fn callers<'w>(
        &'w self,
        view: &View<'o>,
        component: &'w str,
    ) -> impl Iterator<Item = Call<'o>> + 'w {
        let metadata = &view.app.metadata;
        let namespace = metadata.namespace.as_deref().unwrap_or_default();
        let name = metadata.name.as_deref().unwrap_or_default();
        let others = self.callers.get(&(namespace, name)).into_iter().flatten().copied();
        let own = calls(view.app).filter(|(_, connection)| connection.app.is_none());
        others.chain(own).filter(move |(_, connection)| connection.to == component)
    }

    pub(super) fn view(&self, namespace: Option<&str>, name: &str) -> Option<&View<'o>> {
        let index = self.by_name.get(&(namespace.unwrap_or_default(), name))?;
        self.views.get(*index)
    }

    pub(super) fn memory(&self) -> &'o Memory {
        self.ground.memory
    }

    pub(super) fn is_silent(&self, node: &str) -> bool {
        self.ground.memory.silent.contains_key(node)
    }

    pub(super) fn silent_since(&self, node: &str) -> Option<Monotonic> {
        self.ground.memory.silent.get(node).copied()
    }

    pub(super) fn has_node(&self, node: &str) -> bool {
        self.ground.nodes.contains_key(node)
    }

    /// Why an instance on this node is given up, as a clause.
    pub(super) fn loss(&self, node: &str) -> String {
        let Some(found) = self.ground.nodes.get(node) else { return format!("{node} is gone") };
        let silence = self.ground.memory.silence(node, self.now).unwrap_or_default().as_secs();
        let conditions = found.status.iter().flat_map(|status| &status.conditions);
        let ready = conditions.into_iter().find(|condition| condition.kind == READY);
        let why = ready.map(|ready| format!(" ({}: {})", ready.reason, ready.message));
        format!("{node} has been silent for {silence} s{}", why.unwrap_or_default())
    }

    /// What the site allows, if it says so.
    pub(super) fn allow(&self, site: &str) -> Option<&'o [Privilege]> {
        self.ground.sites.get(site)?.spec.allow.as_deref()
    }

    pub(super) fn has_site(&self, site: &str) -> bool {
        self.ground.sites.contains_key(site)
    }

    /// Everything that takes room, for the planner: what is here, and what others take that are not looked at.
    pub(super) fn running(&self, beside: &[Running]) -> Vec<Running> {
        let mut running = beside.to_vec();
        for view in &self.views {
            running.extend(view.current.values().filter_map(|at| self.held(view, at)));
        }
        let leaving = self.leaving();
        if leaving.is_empty() {
            return running;
        }
        let mut room = self.room(&running);
        let held: BTreeSet<(String, NodePort)> = ports_held(&running);
        for assignment in leaving {
            let Some(node) = assignment.spec.node.as_deref() else { continue };
            let used = assignment.spec.resources.clone().unwrap_or_default();
            // An instance on its way out takes room until it is gone. But instances that were given
            // that room already must not be chased away by it.
            if !room.get_mut(node).is_some_and(|left| take(left, &used)) {
                continue;
            }
            let replica = u32::try_from(running.len()).unwrap_or(u32::MAX);
            let mut ports = fixed_ports(assignment);
            ports.retain(|port| !held.contains(&(node.to_owned(), *port)));
            running.push(Running {
                app: None,
                component: assignment.spec.component.clone(),
                replica,
                node: node.to_owned(),
                engine: assignment.spec.engine,
                resources: Some(used),
                ports: Some(ports),
                hold: Hold::Held,
            });
        }
        running
    }

    pub(super) fn held(&self, view: &View<'_>, at: &Placement) -> Option<Running> {
        let node = at.node.clone()?;
        let assignment = at.assignment.as_deref().and_then(|name| view.own.get(name));
        let component = view.component(&at.component);
        let lost = component.is_none_or(|component| self.is_lost(view.app, component, &node));
        Some(Running {
            app: Some(AppId::of(view.app)),
            component: at.component.clone(),
            replica: at.replica,
            node,
            engine: at.engine?,
            resources: assignment.and_then(|assignment| assignment.spec.resources.clone()),
            ports: assignment.map(|assignment| fixed_ports(assignment)),
            hold: if lost { Hold::Lost } else { Hold::Held },
        })
    }

    /// Assignments that no status names: they were moved away, or nobody wants them.
    fn leaving(&self) -> Vec<&'o Assignment> {
        let mut wanted: BTreeSet<(&str, &str)> = BTreeSet::new();
        for view in &self.views {
            let namespace = view.app.metadata.namespace.as_deref().unwrap_or_default();
            let names = view.current.values().filter_map(|at| at.assignment.as_deref());
            wanted.extend(names.map(|name| (namespace, name)));
        }
        let named = |assignment: &&'o Shared<Assignment>| {
            let namespace = assignment.metadata.namespace.as_deref().unwrap_or_default();
            wanted.contains(&(namespace, assignment.metadata.name.as_deref().unwrap_or_default()))
        };
        self.observed
            .assignments
            .iter()
            .filter(|assignment| !named(assignment))
            .map(AsRef::as_ref)
            .collect()
    }

    /// By node: what the instances that have a place there leave of it.
    fn room(&self, running: &[Running]) -> BTreeMap<&'o str, Resources> {
        let mut room: BTreeMap<&str, Resources> = BTreeMap::new();
        for (name, node) in &self.ground.nodes {
            let status = node.status.as_ref();
            let has = status.and_then(|s| s.allocatable.clone().or_else(|| s.capacity.clone()));
            room.insert(name, has.unwrap_or_default());
        }
        for one in running.iter().filter(|one| one.hold == Hold::Held) {
            if let (Some(left), Some(used)) = (room.get_mut(one.node.as_str()), &one.resources) {
                take(left, used);
            }
        }
        room
    }

    /// Whether an instance on that node is given up: the node is gone, or silent for too long.
    pub(super) fn is_lost(&self, app: &App, component: &Component, node: &str) -> bool {
        if !self.has_node(node) {
            return true;
        }
        match (self.ground.memory.silence(node, self.now), patience(app, component)) {
            (Some(silence), Some(patience)) => silence >= patience,
            (Some(_), None) | (None, _) => false,
        }
    }

    /// When the first silent node with something on it will have had all its time.
    pub(super) fn wake_at(&self) -> Option<Monotonic> {
        let mut at: Option<Monotonic> = None;
        for view in &self.views {
            for placement in view.current.values() {
                let node = placement.node.as_deref();
                let Some(since) = node.and_then(|node| self.silent_since(node)) else {
                    continue;
                };
                let component = view.component(&placement.component);
                let Some(patience) = component.and_then(|c| patience(view.app, c)) else {
                    continue;
                };
                let due = since + patience;
                if due > self.now {
                    at = Some(at.map_or(due, |at| at.min(due)));
                }
            }
        }
        at
    }
}

impl<'o> Ground<'o> {
    /// What says of a silent node, or of its site, that it is not ready.
    fn unheard(&self, node: &str) -> Option<&'o Condition> {
        self.memory.silent.get(node)?;
        let found = self.nodes.get(node)?;
        let own = found.status.as_ref().map(|status| &status.conditions);
        let site = self.sites.get(found.spec.site.as_str());
        let of_site = site.and_then(|site| site.status.as_ref()).map(|status| &status.conditions);
        let mut said = [own, of_site].into_iter().flatten();
        said.find(|conditions| is_silent(conditions))
            .and_then(|conditions| condition::find(conditions, READY))
    }
}

fn calls(app: &App) -> impl Iterator<Item = Call<'_>> {
    let components = app.spec.components.iter();
    components.flat_map(|caller| caller.connects.iter().map(move |called| (caller, called)))
}

fn callers(apps: &[Shared<App>]) -> BTreeMap<(&str, &str), Vec<Call<'_>>> {
    let mut callers: BTreeMap<(&str, &str), Vec<Call<'_>>> = BTreeMap::new();
    for app in apps {
        let namespace = app.metadata.namespace.as_deref().unwrap_or_default();
        for call in calls(app) {
            let Some(name) = call.1.app.as_deref() else { continue };
            callers.entry((namespace, name)).or_default().push(call);
        }
    }
    callers
}

impl<'o> View<'o> {
    pub(super) fn component(&self, name: &str) -> Option<&'o Component> {
        self.app.spec.components.iter().find(|component| component.name == name)
    }

    /// The Assignment of a placement, if it is there and stays.
    pub(super) fn assignment(&self, at: &Placement) -> Option<&'o Assignment> {
        let assignment = self.own.get(at.assignment.as_deref()?)?;
        assignment.metadata.deletion_timestamp.is_none().then_some(*assignment)
    }

    /// Whether the instance is up where it was put. Of one on a silent node nobody knows.
    pub(super) fn is_up(&self, at: &Placement) -> bool {
        self.assignment(at).is_some_and(|assignment| self.is_well(assignment))
    }

    /// Whether the instance serves, there or, while it moves, where it was before. One with state
    /// leaves its old place first.
    pub(super) fn serves(&self, at: &Placement) -> bool {
        if self.component(&at.component).is_some_and(|component| component.stateful) {
            return self.is_up(at);
        }
        let same = |own: &&&Assignment| {
            own.spec.component == at.component
                && own.spec.replica == at.replica
                && own.metadata.deletion_timestamp.is_none()
        };
        self.own.values().filter(same).any(|own| self.is_well(own))
    }

    /// Whether an instance is up somewhere and as it was assigned.
    pub(super) fn is_carried_out(&self, at: &Placement) -> bool {
        let same = |own: &&&Assignment| {
            own.spec.component == at.component && own.spec.replica == at.replica
        };
        self.own.values().filter(same).any(|own| self.is_done(own))
    }

    /// Whether it is up as it was assigned, and not as it was before.
    pub(super) fn is_done(&self, assignment: &Assignment) -> bool {
        self.is_settled(assignment) && !is_updating(assignment)
    }

    /// Whether its agent has carried out what is assigned, and the instance is up and stays.
    pub(super) fn is_settled(&self, assignment: &Assignment) -> bool {
        let seen = assignment.status.as_ref().and_then(|status| status.observed_generation);
        let current = seen.is_none_or(|seen| Some(seen) >= assignment.metadata.generation);
        current && assignment.metadata.deletion_timestamp.is_none() && self.is_well(assignment)
    }

    /// What its agent says of an instance that went back to what it was before: it serves, but what
    /// the App says now did not come up.
    pub(super) fn rolled_back(&self, at: &Placement) -> Option<&'o str> {
        let assignment = self.assignment(at)?;
        let status = assignment.status.as_ref()?;
        let degraded = condition::find(&status.conditions, DEGRADED)?;
        let why = Reason::of(&degraded.reason);
        let is_so = degraded.status == ConditionStatus::True && why == Some(Reason::RolledBack);
        let is_current = status.observed_generation >= assignment.metadata.generation;
        (is_so && is_current).then_some(degraded.message.as_str())
    }

    /// What says of the node of an instance that it is not ready, where it is waited for.
    pub(super) fn unheard(&self, at: &Placement) -> Option<&'o Condition> {
        self.assignment(at)?;
        self.unheard.get(at.node.as_deref()?).copied()
    }

    /// Whether the instance is on a silent node, which is waited for.
    pub(super) fn is_kept_waiting(&self, at: &Placement) -> bool {
        let node = at.node.as_deref().unwrap_or_default();
        self.memory.silent.contains_key(node) && self.assignment(at).is_some()
    }

    fn is_well(&self, assignment: &Assignment) -> bool {
        let node = assignment.spec.node.as_deref().unwrap_or_default();
        is_available(assignment) && !self.memory.silent.contains_key(node)
    }
}

/// Whether the instance serves, as far as its agent says.
pub(super) fn is_available(assignment: &Assignment) -> bool {
    let status = assignment.status.as_ref();
    status.is_some_and(|status| condition::is_true(&status.conditions, AVAILABLE))
}

/// Whether what it was before still serves, until what it is to be is well. Whatever the new one does
/// meanwhile gives the conditions their reason, so only the end of it tells that it is over.
pub(super) fn is_updating(assignment: &Assignment) -> bool {
    let status = assignment.status.as_ref();
    let applied = status.and_then(|status| condition::find(&status.conditions, APPLIED));
    let not_yet = applied.is_some_and(|found| {
        found.status == ConditionStatus::False
            && Reason::of(&found.reason) != Some(Reason::RolledBack)
    });
    not_yet && is_available(assignment)
}

/// Nodes that are known not to be ready, by themselves or with their site.
pub(super) fn silent_nodes(observed: &Observed) -> Vec<&str> {
    let sites = observed
        .sites
        .iter()
        .filter(|site| site.status.as_ref().is_some_and(|status| is_silent(&status.conditions)));
    let sites: BTreeSet<&str> = sites.filter_map(|site| site.metadata.name.as_deref()).collect();
    let silent = |node: &&Shared<Node>| {
        sites.contains(node.spec.site.as_str())
            || node.status.as_ref().is_some_and(|status| is_silent(&status.conditions))
    };
    observed.nodes.iter().filter(silent).filter_map(|node| node.metadata.name.as_deref()).collect()
}

fn is_silent(conditions: &[Condition]) -> bool {
    condition::find(conditions, READY).is_some_and(|ready| match ready.status {
        ConditionStatus::True => false,
        ConditionStatus::False | ConditionStatus::Unknown => true,
    })
}

/// The ports of its node that an instance has.
fn fixed_ports(assignment: &Assignment) -> BTreeSet<NodePort> {
    ports::stated(&assignment.spec.run, &assignment.spec.expose)
}

/// By node: the ports of the instances that have a place there.
fn ports_held(running: &[Running]) -> BTreeSet<(String, NodePort)> {
    let held = running.iter().filter(|one| one.hold == Hold::Held);
    held.flat_map(|one| one.ports.iter().flatten().map(|port| (one.node.clone(), *port))).collect()
}

/// Takes from what is left; whether there was enough.
fn take(left: &mut Resources, used: &Resources) -> bool {
    let cpu = left.cpu.map_or(0, |cpu| cpu.millis());
    let cpu = cpu.checked_sub(used.cpu.map_or(0, |cpu| cpu.millis()));
    let bytes = |left: Option<tombolo_model::Bytes>, used: Option<tombolo_model::Bytes>| {
        left.map_or(0, |left| left.get()).checked_sub(used.map_or(0, |used| used.get()))
    };
    let memory = bytes(left.memory, used.memory);
    let storage = bytes(left.storage, used.storage);
    let gpu = left.gpu.unwrap_or(0).checked_sub(used.gpu.unwrap_or(0));
    let (Some(cpu), Some(memory), Some(storage), Some(gpu)) = (cpu, memory, storage, gpu) else {
        return false;
    };
    left.cpu = Some(tombolo_model::Cpu::from_millis(cpu));
    left.memory = Some(tombolo_model::Bytes::new(memory));
    left.storage = Some(tombolo_model::Bytes::new(storage));
    left.gpu = Some(gpu);
    true
}
