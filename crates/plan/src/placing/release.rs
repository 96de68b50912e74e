//! Assignments that are being deleted and wait for an agent that will not answer: its node is gone,
//! or has been silent for longer than the rule of the App waits. They are let go of, so that nothing
//! hangs; if the node does come back, its agent finds that they are gone and takes their instances
//! down.

use std::time::Duration;

use tombolo_model::app::DisconnectAction;
use tombolo_model::keys::FINALIZER_ASSIGNMENT;
use tombolo_model::{Assignment, AssignmentSpec, InstanceKey};

use super::Release;
use super::current::World;
use super::rule::{REPLACE_AFTER_DEFAULT, STOP_GRACE_DEFAULT};
use crate::Monotonic;

pub(super) fn releases(world: &World<'_>) -> Vec<Release> {
    let waiting = world.observed.assignments.iter().filter(|assignment| is_waiting(assignment));
    waiting.filter_map(|assignment| release(assignment, world)).collect()
}

/// When the first of those that wait on a silent node is let go of.
pub(super) fn wake_at(world: &World<'_>) -> Option<Monotonic> {
    let waiting = world.observed.assignments.iter().filter(|assignment| is_waiting(assignment));
    let due = waiting.filter_map(|assignment| {
        let since = world.silent_since(assignment.spec.node.as_deref()?)?;
        Some(since + patience(assignment, world)?)
    });
    due.filter(|due| *due > world.now).min()
}

fn is_waiting(assignment: &Assignment) -> bool {
    let holders = assignment.metadata.finalizers.iter().flatten();
    assignment.metadata.deletion_timestamp.is_some()
        && holders.into_iter().any(|holder| holder == FINALIZER_ASSIGNMENT)
}

fn release(assignment: &Assignment, world: &World<'_>) -> Option<Release> {
    let spec = &assignment.spec;
    let node = spec.node.as_deref();
    let why = match node {
        _ if !world.has_site(&spec.site) => format!("site {} is gone", spec.site),
        // Any agent of the site may take it down.
        None => return None,
        Some(node) if !world.has_node(node) => format!("node {node} is gone"),
        Some(node) => {
            let silence = world.now.since(world.silent_since(node)?);
            if silence < patience(assignment, world)? {
                return None;
            }
            let seconds = silence.as_secs();
            format!(
                "node {node} has been silent for {seconds} s; what runs there ends when it returns"
            )
        }
    };
    let metadata = &assignment.metadata;
    let others = metadata.finalizers.iter().flatten();
    Some(Release {
        namespace: metadata.namespace.clone().unwrap_or_default(),
        name: metadata.name.clone().unwrap_or_default(),
        uid: metadata.uid.clone().unwrap_or_default(),
        resource_version: metadata.resource_version.clone().unwrap_or_default(),
        finalizers: others.filter(|holder| *holder != FINALIZER_ASSIGNMENT).cloned().collect(),
        why,
    })
}

/// How long a silent node is waited for. Without end only where another instance with state waits
/// for this one to be gone, and nobody has said for how long.
fn patience(assignment: &Assignment, world: &World<'_>) -> Option<Duration> {
    let spec = &assignment.spec;
    let awaited = || {
        let namespace = assignment.metadata.namespace.as_deref();
        let view = world.view(namespace, &spec.app)?;
        let known = |owner: &str| view.app.metadata.uid.as_deref() == Some(owner);
        let owners = assignment.metadata.owner_references.iter().flatten();
        let ours = owners.into_iter().any(|owner| known(&owner.uid));
        let stays = ours && view.app.metadata.deletion_timestamp.is_none();
        let wanted = view.current.contains_key(&InstanceKey::new(&spec.component, spec.replica));
        (stays && wanted).then_some(())
    };
    let keeps = match &spec.disconnect {
        None => true,
        Some(rule) => rule.action == DisconnectAction::Keep,
    };
    let endless = keeps && spec.fence.is_some() && awaited().is_some();
    (!endless).then(|| grace(spec))
}

fn grace(spec: &AssignmentSpec) -> Duration {
    let Some(rule) = &spec.disconnect else { return REPLACE_AFTER_DEFAULT };
    let after = rule.after.map_or(REPLACE_AFTER_DEFAULT, |after| after.to_std());
    match rule.action {
        DisconnectAction::Keep => REPLACE_AFTER_DEFAULT,
        DisconnectAction::Replace => after,
        DisconnectAction::Stop => {
            let grace = spec.stop_grace.map_or(STOP_GRACE_DEFAULT, |grace| grace.to_std());
            after.saturating_add(grace)
        }
    }
}
