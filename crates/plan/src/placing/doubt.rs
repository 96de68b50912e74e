//! What an agent last said of its instances holds while its node is heard. Of one on a silent node
//! that was up nobody knows: it may still run, cut off, or be gone with its machine. Its agent says
//! so again as soon as it is back.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use tombolo_model::condition::{self, AVAILABLE, Finding};
use tombolo_model::{Assignment, ConditionStatus, Reason, Shared};

use super::Doubt;
use super::current::{World, is_available};

/// The uids of Assignments whose doubt is written already, for as long as their node stays silent. An
/// agent whose heartbeats do not arrive may still be able to write. What it then says of the instance
/// stands, or loop and agent would contradict each other for ever.
pub(super) fn remember(
    before: &BTreeSet<String>,
    assignments: &[Shared<Assignment>],
    silent: &BTreeSet<&str>,
) -> BTreeSet<String> {
    let on_silent = assignments.iter().filter(|assignment| {
        assignment.spec.node.as_deref().is_some_and(|node| silent.contains(node))
    });
    let known = on_silent.filter_map(|assignment| {
        let uid = assignment.metadata.uid.as_ref()?;
        (before.contains(uid) || is_doubted(assignment)).then(|| uid.clone())
    });
    known.collect()
}

pub(super) fn doubts(
    world: &World<'_>,
    doubted: &BTreeSet<String>,
    time_of_day: &Time,
) -> Vec<Doubt> {
    let new = world.observed.assignments.iter().filter(|assignment| {
        let uid = assignment.metadata.uid.as_deref().unwrap_or_default();
        is_available(assignment) && !doubted.contains(uid)
    });
    new.filter_map(|assignment| {
        let node = assignment.spec.node.as_deref().filter(|node| world.is_silent(node))?;
        Some(doubt(assignment, node, time_of_day))
    })
    .collect()
}

fn doubt(assignment: &Assignment, node: &str, time_of_day: &Time) -> Doubt {
    let status = assignment.status.clone().unwrap_or_default();
    let mut conditions = status.conditions;
    let finding = Finding {
        kind: AVAILABLE,
        status: ConditionStatus::Unknown,
        reason: Reason::NodeSilent,
        message: &format!("{node} is silent; the instance was up when it was last heard of"),
        observed_generation: status.observed_generation,
    };
    condition::set(&mut conditions, finding, time_of_day);
    let metadata = &assignment.metadata;
    Doubt {
        namespace: metadata.namespace.clone().unwrap_or_default(),
        name: metadata.name.clone().unwrap_or_default(),
        uid: metadata.uid.clone().unwrap_or_default(),
        resource_version: metadata.resource_version.clone().unwrap_or_default(),
        conditions,
    }
}

/// Whether the instance serves, or did when it was last heard of.
pub(super) fn was_up(assignment: &Assignment) -> bool {
    is_available(assignment) || is_doubted(assignment)
}

fn is_doubted(assignment: &Assignment) -> bool {
    let Some(status) = &assignment.status else { return false };
    condition::reason(&status.conditions, AVAILABLE) == Some(Reason::NodeSilent)
}
