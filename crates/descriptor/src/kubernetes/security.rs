//! Security contexts: as whom a container runs, and what else of it a container here cannot say.
//! Called by [`super::container`] and [`super::pod`].

use std::collections::BTreeSet;

use tombolo_model::run::Container;

use crate::beyond::{Beyond, foreign};
use crate::fields::{Field, Fields};
use crate::kubernetes::pod::{Matters, Unsaid, unsaid};
use crate::reader::Reader;

const SECURITY: &[Unsaid] = &[
    ("allowPrivilegeEscalation", Matters::Little, "hardening is the engine's"),
    ("appArmorProfile", Matters::Little, "hardening is the engine's"),
    ("procMount", Matters::Little, "hardening is the engine's"),
    ("readOnlyRootFilesystem", Matters::Little, "hardening is the engine's"),
    ("runAsNonRoot", Matters::Little, "hardening is the engine's"),
    ("seLinuxOptions", Matters::Little, "hardening is the engine's"),
    ("seccompProfile", Matters::Little, "hardening is the engine's"),
    ("windowsOptions", Matters::Little, "nodes run Linux"),
];

const POD_SECURITY: &[Unsaid] = &[
    ("appArmorProfile", Matters::Little, "hardening is the engine's"),
    ("fsGroupChangePolicy", Matters::Little, "volumes keep their group"),
    ("runAsNonRoot", Matters::Little, "hardening is the engine's"),
    ("seLinuxChangePolicy", Matters::Little, "hardening is the engine's"),
    ("seLinuxOptions", Matters::Little, "hardening is the engine's"),
    ("seccompProfile", Matters::Little, "hardening is the engine's"),
    ("supplementalGroupsPolicy", Matters::Little, "groups come beside those of the image"),
    ("sysctls", Matters::Much, "a container cannot set kernel parameters"),
    ("windowsOptions", Matters::Little, "nodes run Linux"),
];

/// The security context of a container.
pub(super) fn read<'a>(
    field: &Field<'a>,
    container: &mut Container,
    beyond: &mut Beyond<'a>,
    reader: &mut Reader<'_>,
) {
    let Some(mut fields) = field.fields(reader) else { return };
    if let Some(user) = read_user(&mut fields, container.user.as_deref(), reader) {
        container.user = Some(user);
    }
    if let Some(privileged) = fields.take("privileged") {
        container.privileged = privileged.boolean(reader).unwrap_or(false);
    }
    if let Some(capabilities) = fields.take("capabilities") {
        read_capabilities(&capabilities, container, beyond, reader);
    }
    unsaid(&mut fields, SECURITY, beyond, reader);
    let known = ["capabilities", "privileged", "runAsGroup", "runAsUser"];
    let rest = SECURITY.iter().map(|(key, _, _)| *key);
    fields.finish(foreign(&known.into_iter().chain(rest).collect::<Vec<_>>()), reader);
}

/// Added ones are carried; engines have their own minds about what a container does without.
fn read_capabilities<'a>(
    field: &Field<'a>,
    container: &mut Container,
    beyond: &mut Beyond<'a>,
    reader: &mut Reader<'_>,
) {
    let Some(mut fields) = field.fields(reader) else { return };
    if let Some(add) = fields.take("add") {
        let added: BTreeSet<String> = add.texts(reader).into_iter().collect();
        container.capabilities = added.into_iter().collect();
    }
    if let Some(drop) = fields.take("drop") {
        beyond.minor(&drop, "hardening is the engine's");
    }
    fields.finish(foreign(&["add", "drop"]), reader);
}

/// As whom all containers of a pod run.
#[derive(Clone, Debug, Default)]
pub(super) struct Who {
    pub(super) user: Option<String>,
    pub(super) groups: Vec<String>,
}

/// The user and the groups of a whole pod, from its security context.
pub(super) fn of_pod<'a>(
    field: &Field<'a>,
    beyond: &mut Beyond<'a>,
    reader: &mut Reader<'_>,
) -> Option<Who> {
    let mut fields = field.fields(reader)?;
    let user = read_user(&mut fields, None, reader);
    let range = 0..=i64::from(u32::MAX);
    let mut groups = BTreeSet::new();
    for group in fields.take_list("supplementalGroups", reader) {
        groups.extend(group.integer(reader, range.clone()).map(|group| group.to_string()));
    }
    if let Some(group) = fields.take("fsGroup") {
        groups.extend(group.integer(reader, range).map(|group| group.to_string()));
        beyond.minor(&group, "it is one of the groups; a volume keeps the group that it has");
    }
    unsaid(&mut fields, POD_SECURITY, beyond, reader);
    let rest = POD_SECURITY.iter().map(|(key, _, _)| *key);
    let taken = ["fsGroup", "runAsGroup", "runAsUser", "supplementalGroups"];
    let known: Vec<&str> = taken.into_iter().chain(rest).collect();
    fields.finish(foreign(&known), reader);
    Some(Who { user, groups: groups.into_iter().collect() })
}

fn read_user(fields: &mut Fields, before: Option<&str>, reader: &mut Reader<'_>) -> Option<String> {
    let range = 0..=i64::from(u32::MAX);
    let user = fields.take("runAsUser").and_then(|user| user.integer(reader, range.clone()));
    let group = fields.take("runAsGroup").and_then(|group| group.integer(reader, range));
    let (user_before, group_before) = match before.map(|before| before.split_once(':')) {
        Some(Some((user, group))) => (Some(user.to_owned()), Some(group.to_owned())),
        Some(None) => (before.map(str::to_owned), None),
        None => (None, None),
    };
    let user = user.map(|user| user.to_string()).or(user_before);
    let group = group.map(|group| group.to_string()).or(group_before);
    match (user, group) {
        (Some(user), Some(group)) => Some(format!("{user}:{group}")),
        (Some(user), None) => Some(user),
        // A group alone: the engines want a user before it.
        (None, Some(group)) => Some(format!("0:{group}")),
        (None, None) => None,
    }
}
