//! From placements to Assignments: which to create, to change and to delete so that what was decided
//! comes true, and in which order.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use tombolo_model::app::Placement;
use tombolo_model::assignment::Peer;
use tombolo_model::component::Component;
use tombolo_model::needs::{Needs, Resources};
use tombolo_model::run::Run;
use tombolo_model::{App, Assignment, AssignmentSpec, Engine, keys, names};

use super::current::{Instance, View, World, is_available};
use super::{Action, Verb, status};

/// Addresses that an instance is told of one other component.
const ADDRESSES_MAX: usize = 1024;
/// What is left of the 253 characters of a name after component, number and hash.
const APP_CHARS_MAX: usize = 160;

/// What is missing between the placements and the Assignments that are there.
pub(super) fn complete(
    view: &View<'_>,
    placements: &[Placement],
    world: &World<'_>,
) -> Vec<Action> {
    let mut actions = Vec::new();
    let by_instance: BTreeMap<Instance<'_>, &Placement> =
        placements.iter().map(|at| ((at.component.as_str(), at.replica), at)).collect();
    let mut budgets: BTreeMap<&str, usize> = BTreeMap::new();
    for at in placements {
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
            Some(known) => actions.extend(update(view, component, known, wanted, &mut budgets)),
        }
    }
    let named: BTreeSet<&str> =
        placements.iter().filter_map(|at| at.assignment.as_deref()).collect();
    for (name, known) in &view.own {
        if named.contains(name) || known.metadata.deletion_timestamp.is_some() {
            continue;
        }
        let instead = by_instance.get(&(known.spec.component.as_str(), known.spec.replica));
        if let Some(why) = dismissal(view, known, instead.copied()) {
            let uid = known.metadata.uid.clone().unwrap_or_default();
            let verb = Verb::Delete { name: (*name).to_owned(), uid };
            actions.push(Action { verb, why: why.to_owned() });
        }
    }
    actions
}

/// Why an Assignment that the status does not name may go now; `None` if it has to wait.
fn dismissal(
    view: &View<'_>,
    known: &Assignment,
    instead: Option<&Placement>,
) -> Option<&'static str> {
    let Some(instead) = instead else { return Some("it is no longer wanted") };
    let stateful = view.component(&known.spec.component).is_some_and(|one| one.stateful);
    match () {
        () if stateful => Some("it moves, and its state must not exist twice"),
        () if view.is_up(instead) => Some("it has moved, and the new one is up"),
        () if !is_available(known) => Some("it has moved, and was not up"),
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

fn update<'v>(
    view: &View<'v>,
    component: &'v Component,
    known: &Assignment,
    wanted: Assignment,
    budgets: &mut BTreeMap<&'v str, usize>,
) -> Option<Action> {
    let mut spec = wanted.spec;
    // Whoever holds the state goes on holding it, and a new generation of the App alone is no
    // reason to touch what did not change.
    spec.fence = known.spec.fence;
    let generation = spec.app_generation;
    spec.app_generation = known.spec.app_generation;
    if spec == known.spec {
        return None;
    }
    let told = AssignmentSpec {
        peers: spec.peers.clone(),
        decision: spec.decision.clone(),
        ..known.spec.clone()
    };
    let why = if told == spec {
        "its surroundings have changed"
    } else {
        let budget = budgets.entry(&component.name).or_insert_with(|| budget(view, component));
        // One that is down anyway needs none.
        if is_settled(known) {
            *budget = budget.checked_sub(1)?;
        }
        "the App has changed"
    };
    spec.app_generation = generation;
    let verb = Verb::Update {
        name: known.metadata.name.clone().unwrap_or_default(),
        resource_version: known.metadata.resource_version.clone().unwrap_or_default(),
        spec: Box::new(spec),
    };
    Some(Action { verb, why: why.to_owned() })
}

/// How many instances of a component may still be taken down for an update.
fn budget(view: &View<'_>, component: &Component) -> usize {
    let max = component.unavailable_max.unwrap_or(1).max(1) as usize;
    let down = view
        .own
        .values()
        .filter(|known| known.spec.component == component.name && !is_settled(known));
    max.saturating_sub(down.count())
}

/// Whether the agent has carried out what is assigned.
fn is_settled(assignment: &Assignment) -> bool {
    let seen = assignment.status.as_ref().and_then(|status| status.observed_generation);
    let current = seen.is_none_or(|seen| Some(seen) >= assignment.metadata.generation);
    current && is_available(assignment)
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
    let spec = AssignmentSpec {
        app: app_name.clone(),
        component: at.component.clone(),
        replica: at.replica,
        site: at.site.clone(),
        node: at.node.clone(),
        engine,
        run: run_on(component, engine)?.clone(),
        resources: component.needs.as_ref().map(resources).filter(|r| *r != Resources::default()),
        peers: peers(view, component, world),
        expose: component.expose.clone(),
        health: component.health.clone(),
        stop_grace: component.stop_grace,
        disconnect: component.disconnect.clone().or_else(|| app.spec.disconnect.clone()),
        stopped: false,
        fence: component.stateful.then(|| fence(app)),
        app_generation: app.metadata.generation,
        decision: at.decision.clone(),
    };
    let mut assignment = Assignment::new(name, spec);
    assignment.metadata.namespace.clone_from(&app.metadata.namespace);
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
fn run_on(component: &Component, engine: Engine) -> Option<&Run> {
    let can = |run: &&Run| run.way().is_some_and(|way| way.engines().contains(&engine));
    component.run.iter().find(can)
}

fn resources(needs: &Needs) -> Resources {
    Resources {
        cpu: needs.cpu,
        memory: needs.memory,
        storage: needs.storage,
        gpu: needs.gpu,
        devices: needs.devices.iter().map(|name| (name.clone(), 1)).collect(),
    }
}

/// The components that one calls, and where they can be reached.
fn peers(view: &View<'_>, component: &Component, world: &World<'_>) -> Vec<Peer> {
    let namespace = view.app.metadata.namespace.as_deref();
    let mut peers: BTreeMap<&str, Peer> = BTreeMap::new();
    for connection in &component.connects {
        let of_app = connection.app.as_deref();
        let callee = match of_app {
            None => Some(view),
            Some(name) => world.views.iter().find(|other| {
                other.app.metadata.name.as_deref() == Some(name)
                    && other.app.metadata.namespace.as_deref() == namespace
            }),
        };
        let peer = peers
            .entry(&connection.to)
            .or_insert_with(|| Peer { component: connection.to.clone(), ..Peer::default() });
        peer.first |= of_app.is_none() && !calls_back(view, &connection.to, &component.name);
        let Some(callee) = callee else { continue };
        let port = connection
            .port
            .or_else(|| Some(callee.component(&connection.to)?.expose.first()?.port));
        let Some(port) = port else { continue };
        let there = callee.own.values().filter(|own| {
            own.spec.component == connection.to
                && own.metadata.deletion_timestamp.is_none()
                && is_available(own)
        });
        let reached = there.flat_map(|own| status::reached(own, port, connection.protocol));
        peer.addresses.extend(reached.map(|(host, port)| format!("{host}:{port}")));
    }
    for peer in peers.values_mut() {
        peer.addresses.sort();
        peer.addresses.dedup();
        peer.addresses.truncate(ADDRESSES_MAX);
    }
    peers.into_values().collect()
}

/// Whether `from` leads back to `to`: two that call each other cannot both be first.
fn calls_back(view: &View<'_>, from: &str, to: &str) -> bool {
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    let mut open: Vec<&str> = vec![from];
    while let Some(name) = open.pop() {
        if name == to {
            return true;
        }
        let Some(component) = view.component(name).filter(|_| seen.len() <= 512) else { continue };
        if seen.insert(&component.name) {
            let own = component.connects.iter().filter(|one| one.app.is_none());
            open.extend(own.map(|one| one.to.as_str()));
        }
    }
    false
}
