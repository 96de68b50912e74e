//! What a container asks of the machine beyond its own walls, read from the request to the engine and
//! not from what somebody wrote: variables, defaults and short forms are resolved by then. Called by
//! [`crate::draft`] for every container that is to be made; a field that reaches the machine is a row of
//! [`ROWS`]. And what every container is denied: [`confine`].

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use bollard::models::{HostConfig, Mount, MountType};
use tombolo_driver::{Error, Result, Spec};
use tombolo_model::privilege::{self, Privilege};

/// As many processes and threads as any server needs, and too few to hold up a machine.
const PROCESSES_MAX: i64 = 1024;
/// The kernel ends a container before it ends us when the machine runs out of memory.
const OOM_SCORE: i64 = 500;
/// Of the capabilities that engines give by default, those that servers do not need: raw packets, device
/// files, other roots, and handing capabilities on. What is left lets a server begin as root, take a low
/// port and become somebody else.
const DROPPED: &[&str] = &["AUDIT_WRITE", "MKNOD", "NET_RAW", "SETFCAP", "SETPCAP", "SYS_CHROOT"];
const NO_NEW_PRIVILEGES: &str = "no-new-privileges";

/// A field of the request, and what it asks for if it is so.
type Row = (Privilege, fn(&HostConfig) -> bool);

const ROWS: &[Row] = &[
    (Privilege::Privileged, |host| host.privileged == Some(true)),
    (Privilege::Capabilities, |host| any(&host.cap_add)),
    (Privilege::Devices, |host| any(&host.devices) || any(&host.device_cgroup_rules)),
    (Privilege::HostNetwork, |host| is_shared(host.network_mode.as_deref())),
    (Privilege::HostNamespaces, |host| {
        let cgroup = host.cgroupns_mode.as_ref().map(ToString::to_string);
        [&host.pid_mode, &host.ipc_mode, &host.uts_mode, &host.userns_mode, &cgroup]
            .iter()
            .any(|mode| is_shared(mode.as_deref()))
    }),
    (Privilege::UnconfinedContainer, |host| {
        let stricter =
            |option: &String| option.starts_with(NO_NEW_PRIVILEGES) && !option.contains("false");
        let options = host.security_opt.iter().flatten().all(stricter);
        let processes =
            host.pids_limit.is_none_or(|limit| (1..=privilege::PROCESSES_MAX).contains(&limit));
        !options
            || !processes
            || host.cgroup_parent.as_ref().is_some_and(|parent| !parent.is_empty())
            || host.runtime.as_ref().is_some_and(|runtime| !runtime.is_empty())
            || host.oom_score_adj.is_some_and(|score| score < 0)
            || host.oom_kill_disable == Some(true)
    }),
    (Privilege::HostPath, |host| any(&host.binds) || any(&host.volumes_from)),
];

/// Whether the site allows all that the container asks for.
pub(crate) fn check(spec: &Spec, host: &HostConfig) -> Result<()> {
    match asked(host, &spec.shown).difference(&spec.allow).next() {
        Some(privilege) => Err(Error::NotAllowed { privilege: *privilege }),
        None => Ok(()),
    }
}

/// `shown` are folders of the agent's own, which it lets the container read.
fn asked(host: &HostConfig, shown: &[PathBuf]) -> BTreeSet<Privilege> {
    let rows = ROWS.iter().filter(|(_, is_so)| is_so(host)).map(|(privilege, _)| *privilege);
    let mounts = host.mounts.iter().flatten().flat_map(|mount| of_mount(mount, shown));
    rows.chain(mounts).collect()
}

fn of_mount(mount: &Mount, shown: &[PathBuf]) -> Vec<Privilege> {
    let source = mount.source.as_deref().unwrap_or_default();
    let ours =
        mount.read_only == Some(true) && shown.iter().any(|folder| folder == Path::new(source));
    match mount.typ {
        Some(MountType::BIND) if ours => Vec::new(),
        Some(MountType::BIND) => privilege::of_host_path(source),
        // A driver of volumes can mount whatever it is told to.
        Some(MountType::VOLUME) => {
            let options = mount.volume_options.as_ref();
            let driver = options.and_then(|options| options.driver_config.as_ref());
            if driver.is_some() {
                vec![Privilege::HostPath, Privilege::EngineSocket]
            } else {
                Vec::new()
            }
        }
        Some(MountType::TMPFS) | None => Vec::new(),
        Some(_) => vec![Privilege::HostPath],
    }
}

fn any<T>(list: &Option<Vec<T>>) -> bool {
    list.as_ref().is_some_and(|list| !list.is_empty())
}

/// The machine's, or another container's.
fn is_shared(mode: Option<&str>) -> bool {
    mode.is_some_and(|mode| mode == "host" || mode.contains(':'))
}

/// What every container is denied that did not ask for more, and was not allowed it.
pub(crate) fn confine(host: &mut HostConfig) {
    if host.privileged == Some(true) {
        return;
    }
    let options = host.security_opt.get_or_insert_default();
    if !options.iter().any(|option| option.starts_with(NO_NEW_PRIVILEGES)) {
        options.push(NO_NEW_PRIVILEGES.to_owned());
    }
    let dropped = host.cap_drop.get_or_insert_default();
    dropped.extend(DROPPED.iter().map(|capability| (*capability).to_owned()));
    host.pids_limit.get_or_insert(PROCESSES_MAX);
    host.oom_score_adj.get_or_insert(OOM_SCORE);
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    /// What each change of an ordinary container asks for, a line each.
    #[track_caller]
    fn check(changes: &[fn(&mut HostConfig)], expected: Expect) {
        let line = |change: &fn(&mut HostConfig)| {
            let mut host = HostConfig::default();
            change(&mut host);
            confine(&mut host);
            let shown = [PathBuf::from("/agent/peers")];
            let asked: Vec<&str> =
                asked(&host, &shown).into_iter().map(Privilege::as_str).collect();
            format!("{}\n", asked.join(" "))
        };
        expected.assert_eq(&changes.iter().map(line).collect::<String>());
    }

    fn mount(typ: MountType, source: &str, read_only: bool) -> Option<Vec<Mount>> {
        let (typ, source, read_only) = (Some(typ), Some(source.to_owned()), Some(read_only));
        Some(vec![Mount { typ, source, read_only, ..Mount::default() }])
    }

    #[test]
    fn whatever_reaches_the_machine_is_asked_for() {
        check(
            &[
                |_| (),
                |host| host.privileged = Some(true),
                |host| host.cap_add = Some(vec!["NET_ADMIN".to_owned()]),
                |host| host.devices = Some(vec![Default::default()]),
                |host| host.network_mode = Some("host".to_owned()),
                |host| host.pid_mode = Some("host".to_owned()),
                |host| host.ipc_mode = Some("container:other".to_owned()),
                |host| host.security_opt = Some(vec!["seccomp=unconfined".to_owned()]),
                |host| host.security_opt = Some(vec!["no-new-privileges:false".to_owned()]),
                |host| host.pids_limit = Some(-1),
                |host| host.oom_score_adj = Some(-1000),
                |host| host.runtime = Some("other".to_owned()),
                |host| host.binds = Some(vec!["/:/host".to_owned()]),
                |host| host.mounts = mount(MountType::BIND, "/srv", true),
                |host| host.mounts = mount(MountType::BIND, "/var/run/docker.sock", true),
                |host| host.mounts = mount(MountType::VOLUME, "data", false),
                |host| host.mounts = mount(MountType::BIND, "/agent/peers", true),
                |host| host.mounts = mount(MountType::BIND, "/agent/peers", false),
            ],
            expect![[r#"

                privileged
                capabilities
                devices
                host-network
                host-namespaces
                host-namespaces
                unconfined-container
                unconfined-container
                unconfined-container
                unconfined-container
                unconfined-container
                host-path
                host-path
                host-path engine-socket


                host-path
            "#]],
        );
    }
}
