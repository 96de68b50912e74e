//! What was decided before, and the rules about silent nodes: how long one is waited for, and who wins
//! when it returns.

use std::collections::BTreeMap;
use std::time::Duration;

use tombolo_model::app::{Decision, Disconnect, DisconnectAction, OnReturn, Placement};
use tombolo_model::component::Component;
use tombolo_model::{App, Assignment, InstanceKey};
use tombolo_placement::ask::engine_on;

use super::current::Ground;

/// Where no rule says otherwise, an instance on a silent node is replaced after this; one that keeps
/// state never is.
pub const REPLACE_AFTER_DEFAULT: Duration = Duration::from_secs(300);
/// How long an agent may take to stop an instance, where the component does not say.
pub(super) const STOP_GRACE_DEFAULT: Duration = Duration::from_secs(10);

/// What was decided before. What the status names counts; what is assigned without it is taken
/// over, so that a status that got lost moves nothing, and an instance that was given up is known
/// when its node returns.
pub(super) fn current(
    app: &App,
    own: &BTreeMap<&str, &Assignment>,
    ground: &Ground<'_>,
) -> BTreeMap<InstanceKey, Placement> {
    let mut current = BTreeMap::new();
    if app.spec.stopped {
        return current;
    }
    // Of two for one instance, that on a node that answers.
    let answers = |own: &Assignment| {
        let node = own.spec.node.as_deref().unwrap_or_default();
        ground.nodes.contains_key(node) && !ground.memory.silent.contains_key(node)
    };
    let stays = own.values().filter(|own| own.metadata.deletion_timestamp.is_none());
    let (first, then): (Vec<&Assignment>, Vec<&Assignment>) = stays.partition(|own| answers(own));
    for assignment in first.into_iter().chain(then) {
        let spec = &assignment.spec;
        current
            .entry(InstanceKey::new(&spec.component, spec.replica))
            .or_insert_with(|| placement(assignment));
    }
    for at in app.status.iter().flat_map(|status| &status.placements) {
        let at = returned(app, at, own, ground).unwrap_or_else(|| at.clone());
        current.insert(InstanceKey::placed(&at), at);
    }
    current
}

fn placement(assignment: &Assignment) -> Placement {
    let spec = &assignment.spec;
    Placement {
        component: spec.component.clone(),
        replica: spec.replica,
        site: spec.site.clone(),
        node: spec.node.clone(),
        engine: Some(spec.engine),
        assignment: assignment.metadata.name.clone(),
        decision: spec.decision.clone(),
        ..Placement::default()
    }
}

/// The place that an instance goes back to, because the node in whose place it is has returned and
/// the rule says that the original wins.
fn returned(
    app: &App,
    at: &Placement,
    own: &BTreeMap<&str, &Assignment>,
    ground: &Ground<'_>,
) -> Option<Placement> {
    let name = at.instead_of.as_deref()?;
    let component = app.spec.components.iter().find(|one| one.name == at.component)?;
    let node = ground.nodes.get(name).filter(|_| !ground.memory.silent.contains_key(name))?;
    if !original_wins(app, component) {
        return None;
    }
    let there = own.values().find(|own| {
        let spec = &own.spec;
        spec.component == at.component
            && spec.replica == at.replica
            && spec.node.as_deref() == Some(name)
    });
    let of_site = ground.sites.get(node.spec.site.as_str())?.spec.engine;
    let found = node.status.as_ref().and_then(|status| status.characteristics.as_ref());
    let found = found.map_or(&[][..], |found| &found.engines);
    // The others of a homogeneous App run by the engine that it has now.
    let rather = at.engine.filter(|_| app.spec.homogeneous);
    match there {
        Some(original) if original.metadata.deletion_timestamp.is_none() => {
            Some(placement(original))
        }
        // It has to be gone before it can begin anew.
        Some(_) => None,
        None => Some(Placement {
            component: at.component.clone(),
            replica: at.replica,
            site: node.spec.site.clone(),
            node: Some(name.to_owned()),
            engine: Some(engine_on(component, of_site, found, rather)?),
            decision: Some(Decision {
                reason: Some("its node has returned, and the original stays".to_owned()),
                ..Decision::default()
            }),
            ..Placement::default()
        }),
    }
}

/// Whether an instance goes back to its node when that returns after it was replaced.
pub(super) fn original_wins(app: &App, component: &Component) -> bool {
    let rule = component.disconnect.as_ref().or(app.spec.disconnect.as_ref());
    rule.is_some_and(|rule| rule.on_return == Some(OnReturn::Original))
}

/// How long an instance on a silent node is waited for; without end if nothing is said.
pub(super) fn patience(app: &App, component: &Component) -> Option<Duration> {
    let rule = component.disconnect.as_ref().or(app.spec.disconnect.as_ref());
    let Some(Disconnect { action, after, .. }) = rule else {
        return (!component.stateful).then_some(REPLACE_AFTER_DEFAULT);
    };
    let after = after.map_or(REPLACE_AFTER_DEFAULT, |after| after.to_std());
    match action {
        DisconnectAction::Keep => None,
        DisconnectAction::Replace => Some(after),
        DisconnectAction::Stop => {
            // The agent counts by itself and takes the instance down; then another may start.
            let grace = component.stop_grace.map_or(STOP_GRACE_DEFAULT, |grace| grace.to_std());
            Some(after.saturating_add(grace))
        }
    }
}
