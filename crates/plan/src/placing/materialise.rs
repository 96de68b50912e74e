//! From placements to Assignments: which to create, to change and to delete so that what was decided
//! comes true, and in which order.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use tombolo_model::app::Placement;
use tombolo_model::component::Component;
use tombolo_model::needs::Resources;
use tombolo_model::run::Run;
use tombolo_model::{App, Assignment, AssignmentSpec, Engine, keys, names, privilege};
use tombolo_placement::ask;
use tombolo_placement::continuum::Amounts;

use super::current::{Instance, View, World};
use super::doubt::was_up;
use super::verdict::Verdict;
use super::{Action, Verb, peers};
use crate::reach;

/// What is left of the 253 characters of a name after component, number and hash.
const APP_CHARS_MAX: usize = 160;

/// What is missing between the placements and the Assignments that are there.
#[derive(Debug, Default)]
pub(super) struct Completion {
    pub actions: Vec<Action>,
    /// Instances that are not yet what the App says, by their number among the placements.
    pub outdated: BTreeSet<usize>,
}

pub(super) fn complete(view: &View<'_>, verdict: &Verdict, world: &World<'_>) -> Completion {
    let placements = verdict.placements.as_slice();
    let mut actions = Vec::new();
    let had = || placements.iter().chain(&verdict.given_up);
    let by_instance: BTreeMap<Instance<'_>, &Placement> =
        had().map(|at| ((at.component.as_str(), at.replica), at)).collect();
    let mut budgets = Budgets { view, placements, left: BTreeMap::new() };
    let mut changes = Vec::new();
    for (number, at) in placements.iter().enumerate() {
        let Some(component) = view.component(&at.component) else { continue };
        let name = at.assignment.clone().unwrap_or_else(|| assignment_name(view.app, at));
        let Some(wanted) = assignment(view, component, at, &name, world) else { continue };
        match view.own.get(name.as_str()) {
            None if has_rival(view, component, at, &name, world) => (),
            None => {
                let why = "it was given this place".to_owned();
                actions.push(Action { verb: Verb::Create(Box::new(wanted)), why });
            }
            Some(known) if known.metadata.deletion_timestamp.is_some() => (),
            Some(known) => changes.extend(
                Change::between(known, wanted.spec).map(|change| (number, component, change)),
            ),
        }
    }
    let outdated: BTreeSet<usize> = changes
        .iter()
        .filter(|(.., change)| change.is_update())
        .map(|(number, ..)| *number)
        .collect();
    let failed = failed(view, placements, &outdated);
    for (_, component, change) in changes {
        // Where no place was found for all that is asked, nobody has checked that there is room.
        let held_up = change.is_update() && failed.contains(component.name.as_str())
            || verdict.lacks() && change.asks_for_more();
        let told_only = change.kind == ChangeKind::Surroundings;
        if told_only || !held_up && budgets.may_end(component, change.known) {
            actions.push(change.action());
        }
    }
    let named: BTreeSet<&str> = had().filter_map(|at| at.assignment.as_deref()).collect();
    for (name, known) in &view.own {
        if named.contains(name) || known.metadata.deletion_timestamp.is_some() {
            continue;
        }
        let instead = by_instance.get(&(known.spec.component.as_str(), known.spec.replica));
        if let Some(why) = dismissal(view, known, instead.copied(), world, &mut budgets) {
            let uid = known.metadata.uid.clone().unwrap_or_default();
            let verb = Verb::Delete { name: (*name).to_owned(), uid };
            actions.push(Action { verb, why: why.to_owned() });
        }
    }
    Completion { actions, outdated }
}

/// Components of which an instance was given what the App says now and went back to what it was: the
/// others are not given it too.
fn failed<'p>(
    view: &View<'_>,
    placements: &'p [Placement],
    outdated: &BTreeSet<usize>,
) -> BTreeSet<&'p str> {
    let current = placements.iter().enumerate().filter(|(number, _)| !outdated.contains(number));
    let failed = current.filter(|(_, at)| view.rolled_back(at).is_some());
    failed.map(|(_, at)| at.component.as_str()).collect()
}

/// Why an Assignment that the status does not name may go now; `None` if it has to wait.
fn dismissal(
    view: &View<'_>,
    known: &Assignment,
    instead: Option<&Placement>,
    world: &World<'_>,
    budgets: &mut Budgets<'_, '_>,
) -> Option<&'static str> {
    let Some(instead) = instead else { return Some("it is no longer wanted") };
    let component = view.component(&known.spec.component);
    let stateful = component.filter(|component| component.stateful);
    let node = known.spec.node.as_deref();
    let waits = instead.instead_of.is_some() && instead.instead_of.as_deref() == node;
    if let Some(component) = stateful {
        let why = "it moves, and its state must not exist twice";
        return budgets.may_end(component, known).then_some(why);
    }
    match () {
        () if waits && node.is_some_and(|node| world.has_node(node)) => None,
        () if view.is_up(instead) => Some("it has moved, and the new one is up"),
        () if !was_up(known) => Some("it has moved, and was not up"),
        () => None,
    }
}

/// Whether another instance must be gone before this one may start. One on a node that was given up
/// does not count: nobody can say whether it is gone, and the rule of the App says not to wait.
fn has_rival(
    view: &View<'_>,
    component: &Component,
    at: &Placement,
    name: &str,
    world: &World<'_>,
) -> bool {
    component.stateful
        && view.own.iter().any(|(other, known)| {
            let spec = &known.spec;
            let same = spec.component == at.component && spec.replica == at.replica;
            let node = spec.node.as_deref().unwrap_or_default();
            *other != name && same && !world.is_lost(view.app, component, node)
        })
}

/// How an Assignment has to change.
struct Change<'o> {
    known: &'o Assignment,
    spec: Box<AssignmentSpec>,
    kind: ChangeKind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ChangeKind {
    /// It is told, and goes on.
    Surroundings,
    PeerMoved,
    Update,
}

impl<'o> Change<'o> {
    fn between(known: &'o Assignment, wanted: AssignmentSpec) -> Option<Change<'o>> {
        let generation = wanted.app_generation;
        // Whoever holds the state goes on holding it, and a new generation of the App alone is no
        // reason to touch what did not change.
        let (fence, app_generation) = (known.spec.fence, known.spec.app_generation);
        let reach = match (&known.spec.reach, wanted.reach) {
            (Some(open), Some(wanted)) if generation == app_generation => {
                Some(reach::widest(open, &wanted))
            }
            (_, wanted) => wanted,
        };
        let spec = AssignmentSpec { fence, app_generation, reach, ..wanted };
        if spec == known.spec {
            return None;
        }
        let told = AssignmentSpec {
            peers: spec.peers.clone(),
            decision: spec.decision.clone(),
            allow: spec.allow.clone(),
            ..known.spec.clone()
        };
        let kind = match (told == spec, bound(&spec) == bound(&known.spec)) {
            (true, true) => ChangeKind::Surroundings,
            (true, false) => ChangeKind::PeerMoved,
            (false, _) => ChangeKind::Update,
        };
        let spec = Box::new(AssignmentSpec { app_generation: generation, ..spec });
        Some(Change { known, spec, kind })
    }

    fn is_update(&self) -> bool {
        self.kind == ChangeKind::Update
    }

    fn asks_for_more(&self) -> bool {
        let (Some(wanted), Some(given)) = (&self.spec.resources, &self.known.spec.resources) else {
            return self.spec.resources.is_some();
        };
        Amounts::of_resources(wanted).exceed(&Amounts::of_resources(given))
    }

    fn action(self) -> Action {
        let why = match self.kind {
            ChangeKind::Surroundings => "its surroundings have changed",
            ChangeKind::PeerMoved => "a peer has moved, and it is to be restarted then",
            ChangeKind::Update => "the App has changed",
        };
        let metadata = &self.known.metadata;
        let verb = Verb::Update {
            name: metadata.name.clone().unwrap_or_default(),
            resource_version: metadata.resource_version.clone().unwrap_or_default(),
            spec: self.spec,
        };
        Action { verb, why: why.to_owned() }
    }
}

/// The addresses for which it is restarted when they change.
fn bound(spec: &AssignmentSpec) -> Vec<Option<&String>> {
    spec.peers.iter().map(|peer| peer.bound.as_ref()).collect()
}

/// How many instances of each component may still be taken down, whether for an update or a move.
struct Budgets<'v, 'o> {
    view: &'v View<'o>,
    placements: &'v [Placement],
    left: BTreeMap<String, usize>,
}

impl Budgets<'_, '_> {
    /// Whether an instance may be taken down now. One that is down anyway needs no leave, and of one
    /// on a silent node nobody knows.
    fn may_end(&mut self, component: &Component, known: &Assignment) -> bool {
        if !self.view.is_settled(known) {
            return true;
        }
        let left = match self.left.get(&component.name) {
            Some(left) => *left,
            None => {
                let max = component.unavailable_max.unwrap_or(1).max(1) as usize;
                max.saturating_sub(self.down(&component.name))
            }
        };
        self.left.insert(component.name.clone(), left.saturating_sub(1));
        left > 0
    }

    /// Instances that are not up, as far as anybody can do something about it.
    fn down(&self, component: &str) -> usize {
        let own = self.placements.iter().filter(|at| at.component == component);
        own.filter(|at| !self.view.is_kept_waiting(at) && !self.view.is_carried_out(at)).count()
    }
}

/// Equal for equal places, so that it need not be remembered, and different for others.
pub fn assignment_name(app: &App, at: &Placement) -> String {
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let name = text(&app.metadata.name);
    let cut: String = name.chars().take(APP_CHARS_MAX).collect();
    let cut = cut.trim_end_matches(['-', '.']);
    let uid = text(&app.metadata.uid);
    let hash =
        hash(&[&uid, &name, &at.component, &at.replica.to_string(), &at.site, &text(&at.node)]);
    format!("{cut}-{}-{}-{hash:08x}", at.component, at.replica)
}

/// FNV-1a, folded to 32 bits: names must be short, and a clash only makes two wait for each other.
fn hash(parts: &[&str]) -> u32 {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in parts.iter().flat_map(|part| part.bytes().chain([0])) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    u32::try_from((hash >> 32) ^ (hash & 0xffff_ffff)).unwrap_or(0)
}

/// The Assignment for a placement; `None` if no engine there can run the component any more.
fn assignment(
    view: &View<'_>,
    component: &Component,
    at: &Placement,
    name: &str,
    world: &World<'_>,
) -> Option<Assignment> {
    let app = view.app;
    let engine = at.engine?;
    let app_name = app.metadata.name.clone().unwrap_or_default();
    let run = run_on(component, engine)?;
    let spec = AssignmentSpec {
        app: app_name.clone(),
        component: at.component.clone(),
        replica: at.replica,
        site: at.site.clone(),
        node: at.node.clone(),
        engine,
        run: run.clone(),
        resources: component
            .needs
            .as_ref()
            .map(ask::resources)
            .filter(|r| *r != Resources::default()),
        peers: peers::peers(view, component, at, world),
        expose: component.expose.clone(),
        reach: (!component.expose.is_empty())
            .then(|| reach::open(component, world.callers(view, &component.name))),
        health: component.health.clone(),
        restarted_at: component.restarted_at.clone(),
        stop_grace: component.stop_grace,
        disconnect: component.disconnect.clone().or_else(|| app.spec.disconnect.clone()),
        allow: privilege::granted(run, world.allow(&at.site)),
        stopped: false,
        fence: component.stateful.then(|| fence(app)),
        app_generation: app.metadata.generation,
        decision: at.decision.clone(),
    };
    let mut assignment = Assignment::new(name, spec);
    assignment.metadata.namespace.clone_from(&app.metadata.namespace);
    // Deleting it waits until its agent has taken the instance down.
    assignment.metadata.finalizers = Some(vec![keys::FINALIZER_ASSIGNMENT.to_owned()]);
    assignment.metadata.owner_references = Some(vec![OwnerReference {
        api_version: keys::API_VERSION.to_owned(),
        kind: "App".to_owned(),
        name: app_name.clone(),
        uid: app.metadata.uid.clone().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }]);
    let labels = [
        (keys::LABEL_APP, app_name.as_str()),
        (keys::LABEL_COMPONENT, &at.component),
        (keys::LABEL_REPLICA, &at.replica.to_string()),
        (keys::LABEL_SITE, &at.site),
        (keys::LABEL_NODE, at.node.as_deref().unwrap_or_default()),
    ];
    // A name may be longer than the value of a label; the spec has it in full.
    let labels = labels.into_iter().filter(|(_, value)| names::label_value(value).is_ok());
    let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    assignment.metadata.labels = Some(labels);
    Some(assignment)
}

/// Every decision is a write of the App, so that its version grows from holder to holder.
fn fence(app: &App) -> u64 {
    let version = app.metadata.resource_version.as_deref().unwrap_or_default();
    version
        .parse()
        .unwrap_or_else(|_| u64::try_from(app.metadata.generation.unwrap_or(0)).unwrap_or(0))
}

/// The first way to run it that the engine can run.
pub(super) fn run_on(component: &Component, engine: Engine) -> Option<&Run> {
    let can = |run: &&Run| run.way().is_some_and(|way| way.engines().contains(&engine));
    component.run.iter().find(can)
}
