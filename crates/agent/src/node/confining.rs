//! Whether this machine can keep the programs of workloads apart, as its Node and its doctor tell it.

use std::os::unix::fs::DirBuilderExt as _;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use tombolo_driver::Confinement;
use tombolo_host::security;
use tombolo_model::condition::{CONFINING, Finding, find, set};
use tombolo_model::{ConditionStatus, NodeStatus, Reason};

use crate::report::{Told, Tone};

/// Says whether programs can be confined, once that is known. Returns what is news.
pub(super) fn put(
    confinement: Option<&Confinement>,
    status: &mut NodeStatus,
    now: &Time,
) -> Option<Told> {
    let confinement = confinement?;
    let lacks = [
        ("their view of the files", &confinement.view),
        ("their system calls", &confinement.calls),
        ("their signals", &confinement.signals),
        ("what they take together", &confinement.together),
    ];
    let lacks = lacks.into_iter().filter_map(|(what, why)| Some((what, why.as_ref()?)));
    let lacks: Vec<String> = lacks.map(|(what, why)| format!("{what} ({why})")).collect();
    let (so, reason, blanks) = match (&confinement.apart, lacks.is_empty()) {
        (Some(why), _) => {
            (ConditionStatus::False, Reason::CannotConfine, vec![("why", why.clone())])
        }
        (None, true) => (ConditionStatus::True, Reason::Confined, Vec::new()),
        (None, false) => {
            (ConditionStatus::True, Reason::ConfinedInPart, vec![("what", lacks.join(", "))])
        }
    };
    let message = reason.says(&blanks);
    let before = find(&status.conditions, CONFINING).map(|found| found.message.clone());
    let observed_generation = None;
    let message = message.as_str();
    let finding = Finding { kind: CONFINING, status: so, reason, message, observed_generation };
    set(&mut status.conditions, finding, now);
    let is_news = so == ConditionStatus::False && before.as_deref() != Some(message);
    let told = || Told { tone: Tone::Warning, reason, message: message.to_owned() };
    is_news.then(told)
}

/// For the checks of the machine.
pub(super) fn as_fact(found: Confinement) -> security::Confinement {
    let Confinement { apart, view, calls, signals, together } = found;
    security::Confinement { apart, view, calls, signals, together }
}

/// Why this machine cannot confine programs of this user's; nothing if it can.
pub fn cannot_confine() -> Option<String> {
    try_it()?.apart
}

/// Tries it on a folder that is gone afterwards.
pub(super) fn try_it() -> Option<Confinement> {
    let folder = std::env::temp_dir().join(format!("tombolo-doctor-{}", std::process::id()));
    let made = std::fs::DirBuilder::new().mode(0o700).create(&folder);
    let options = tombolo_driver_process::Options::default();
    let tried = made.and_then(|()| tombolo_driver_process::confinement(&options, &folder));
    _ = std::fs::remove_dir(&folder);
    tried.ok()
}
