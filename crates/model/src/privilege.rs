//! What a workload may do beyond its own walls, and only where the Site allows it by name. One list
//! for all who ask: the placer (which sites fit), the agent and the drivers (what is started).
//!
//! [`asked`] says what a way to run asks for. It reads a compose project as it was written, so that a
//! new key of compose that reaches the machine needs a row in [`SERVICE_KEYS`].

use std::collections::BTreeSet;

use serde_json::Value;

use crate::named::named;
use crate::run::{Run, Way};

named! {
    /// Something that a workload may do only where its site allows it.
    pub enum Privilege {
        /// Programs of the host at all, each confined: as a user of its own or in a user namespace,
        /// without capabilities, seeing nothing of the host but its programs. Allowed unless `allow`
        /// says otherwise.
        Process = "process",
        /// Programs of the host also on a machine that cannot confine them: they run as the agent's
        /// own user, and can read its keys.
        UnconfinedProcess = "unconfined-process",
        /// Programs that run as a user of the host by name or number, root among them.
        HostUser = "host-user",
        /// Folders of the host: mounted into a container, or as the working directory of a program.
        /// A container that runs as root can write whatever it is given.
        HostPath = "host-path",
        /// The socket of the container engine. Who has it is root on the host.
        EngineSocket = "engine-socket",
        /// Containers and programs with all rights on the host.
        Privileged = "privileged",
        /// Containers in the network of the host.
        HostNetwork = "host-network",
        /// Containers that share the host's processes, shared memory, name or users.
        HostNamespaces = "host-namespaces",
        /// Devices of the host in a container.
        Devices = "devices",
        /// More capabilities than containers have by default.
        Capabilities = "capabilities",
        /// Containers without the engine's own confinement: another seccomp or AppArmor profile,
        /// another runtime, another cgroup.
        UnconfinedContainer = "unconfined-container",
    }
}

/// What a site allows that does not say.
pub const ALLOWED_BY_DEFAULT: &[Privilege] = &[Privilege::Process];

/// Folders of the host that every program sees, for reading: those of programs, libraries and
/// settings. What else there is takes [`Privilege::HostPath`].
pub const SHOWN: &[&str] = &[
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/nix", "/gnu",
    "/snap", "/sys",
];

/// Where container engines listen.
const SOCKETS: &[&str] = &["/run/docker.sock", "/run/containerd", "/run/podman", "/run/crio"];

impl Privilege {
    /// What a workload that asks for it does, to follow "the site does not allow".
    pub fn described(self) -> &'static str {
        match self {
            Privilege::Process => "programs of the host",
            Privilege::UnconfinedProcess => "programs that the machine cannot confine",
            Privilege::HostUser => "programs that run as a user of the host",
            Privilege::HostPath => "folders of the host",
            Privilege::EngineSocket => "the socket of the container engine",
            Privilege::Privileged => "privileged workloads",
            Privilege::HostNetwork => "containers in the network of the host",
            Privilege::HostNamespaces => "containers that share namespaces of the host",
            Privilege::Devices => "devices of the host in containers",
            Privilege::Capabilities => "more capabilities for containers",
            Privilege::UnconfinedContainer => "containers without the engine's confinement",
        }
    }
}

/// What a site allows that says so, or does not.
pub fn allowed(allow: Option<&[Privilege]>) -> BTreeSet<Privilege> {
    allow.unwrap_or(ALLOWED_BY_DEFAULT).iter().copied().collect()
}

/// What a site allows to this way to run, for its Assignment: no more than it asks for, so that an
/// Assignment changes only with what is about it. Nothing when the site does not say.
pub fn granted(run: &Run, allow: Option<&[Privilege]>) -> Option<Vec<Privilege>> {
    let allowed = allowed(Some(allow?));
    let mut asked = asked(run);
    if asked.contains(&Privilege::Process) {
        // Whether it is needed is the machine's matter.
        asked.insert(Privilege::UnconfinedProcess);
    }
    Some(asked.intersection(&allowed).copied().collect())
}

/// All that this way to run asks for.
pub fn asked(run: &Run) -> BTreeSet<Privilege> {
    let mut asked = BTreeSet::new();
    match run.way() {
        Some(Way::Container(container)) => {
            if container.privileged {
                asked.insert(Privilege::Privileged);
            }
            if !container.capabilities.is_empty() {
                asked.insert(Privilege::Capabilities);
            }
            for path in container.volumes.iter().filter_map(|volume| volume.host_path.as_deref()) {
                asked.extend(of_host_path(path));
            }
        }
        Some(Way::Process(process)) => {
            asked.insert(Privilege::Process);
            if process.privileged {
                asked.insert(Privilege::Privileged);
            }
            if process.user.is_some() {
                asked.insert(Privilege::HostUser);
            }
            if process.workdir.as_deref().is_some_and(|path| !is_shown(path)) {
                asked.insert(Privilege::HostPath);
            }
        }
        Some(Way::Compose(project)) => {
            let services = project.get("services").and_then(Value::as_object);
            for (_, service) in services.into_iter().flatten() {
                for (key, privileges) in SERVICE_KEYS {
                    asked.extend(service.get(key).map(privileges).unwrap_or_default());
                }
            }
        }
        // The cluster has its own admission.
        Some(Way::Manifests(_)) | None => (),
    }
    asked
}

/// What it takes to mount this path of the host.
pub fn of_host_path(path: &str) -> Vec<Privilege> {
    let names = |path: &str| -> Vec<String> {
        let path =
            path.strip_prefix("/var/run").map_or(path.to_owned(), |rest| format!("/run{rest}"));
        path.split('/').filter(|name| !name.is_empty() && *name != ".").map(str::to_owned).collect()
    };
    let wanted = names(path);
    let holds = |socket: &&str| {
        let socket = names(socket);
        socket.starts_with(&wanted) || wanted.starts_with(&socket)
    };
    // `/var` holds the link to `/run`, and a link upwards can lead anywhere.
    let anywhere = wanted.iter().any(|name| name == "..") || path.ends_with(".sock");
    match anywhere || SOCKETS.iter().any(holds) {
        true => vec![Privilege::HostPath, Privilege::EngineSocket],
        false => vec![Privilege::HostPath],
    }
}

/// Whether a program sees this folder without any right. `/tmp` is one of its own, so that what the
/// host has below it is another matter.
pub fn is_shown(path: &str) -> bool {
    let below = |shown: &&str| {
        let rest = path.strip_prefix(*shown);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let climbs = path.split('/').any(|name| name == "..");
    path == "/" || path == "/tmp" || (!climbs && SHOWN.iter().any(below))
}

/// As many processes and threads as a service may ask for; more could hold up a machine.
pub const PROCESSES_MAX: i64 = 32_768;

/// What a key of a compose service asks for with this value.
type Asks = fn(&Value) -> Vec<Privilege>;

const SERVICE_KEYS: &[(&str, Asks)] = &[
    ("cap_add", |value| if_any(value, Privilege::Capabilities)),
    ("cgroup", |value| if_host(value, Privilege::HostNamespaces)),
    ("cgroup_parent", |value| if_any(value, Privilege::UnconfinedContainer)),
    ("device_cgroup_rules", |value| if_any(value, Privilege::Devices)),
    ("devices", |value| if_any(value, Privilege::Devices)),
    ("ipc", |value| if_host(value, Privilege::HostNamespaces)),
    ("network_mode", |value| if_host(value, Privilege::HostNetwork)),
    ("oom_score_adj", |value| {
        let lowered = number(value).is_none_or(|score| score < 0) && !value.is_null();
        if lowered { vec![Privilege::UnconfinedContainer] } else { Vec::new() }
    }),
    ("pids_limit", |value| {
        let bounded = number(value).is_some_and(|limit| (1..=PROCESSES_MAX).contains(&limit));
        if bounded || value.is_null() { Vec::new() } else { vec![Privilege::UnconfinedContainer] }
    }),
    ("pid", |value| if_host(value, Privilege::HostNamespaces)),
    ("privileged", |value| {
        // What is neither is refused by whoever reads the project.
        let not = value.is_null() || *value == Value::Bool(false);
        if not { Vec::new() } else { vec![Privilege::Privileged] }
    }),
    ("runtime", |value| if_any(value, Privilege::UnconfinedContainer)),
    ("security_opt", |value| {
        let options = value.as_array().map(Vec::as_slice).unwrap_or_default();
        let stricter = |option: &Value| {
            matches!(
                option.as_str(),
                Some("no-new-privileges" | "no-new-privileges:true" | "no-new-privileges=true")
            )
        };
        let all_stricter = value.is_null() || (value.is_array() && options.iter().all(stricter));
        if all_stricter { Vec::new() } else { vec![Privilege::UnconfinedContainer] }
    }),
    ("userns_mode", |value| if_host(value, Privilege::HostNamespaces)),
    ("uts", |value| if_host(value, Privilege::HostNamespaces)),
    ("volumes", |value| {
        let volumes = value.as_array().map(Vec::as_slice).unwrap_or_default();
        volumes.iter().filter_map(host_path).flat_map(of_host_path).collect()
    }),
];

fn number(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| value.as_str()?.parse().ok())
}

fn if_any(value: &Value, privilege: Privilege) -> Vec<Privilege> {
    let none = match value {
        Value::Null => true,
        Value::Array(list) => list.is_empty(),
        Value::String(text) => text.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::Object(_) => false,
    };
    if none { Vec::new() } else { vec![privilege] }
}

/// Namespaces that are the host's, or another container's.
fn if_host(value: &Value, privilege: Privilege) -> Vec<Privilege> {
    let text = value.as_str().unwrap_or_default();
    let open = text == "host" || text.contains(':') || is_variable(text);
    if open { vec![privilege] } else { Vec::new() }
}

/// Whether something will be put in place of a part of it: nobody knows yet what. `$$` is a plain `$`.
fn is_variable(text: &str) -> bool {
    text.replace("$$", "").contains('$')
}

/// `"/a:/b"`, `"./a:/b"`, or `{type: bind, source: /a}`. What a variable stands for may be any path.
fn host_path(volume: &Value) -> Option<&str> {
    match volume {
        Value::String(text) if is_variable(text) => Some("/"),
        Value::String(text) => {
            let source = text.split_once(':')?.0;
            source.starts_with(['/', '.', '~']).then_some(source)
        }
        Value::Object(volume) => {
            let bind = volume.get("type").and_then(Value::as_str) == Some("bind");
            let source = volume.get("source").or_else(|| volume.get("src"));
            let source = source.and_then(Value::as_str).unwrap_or_default();
            if is_variable(source) {
                return Some("/");
            }
            (bind || source.starts_with(['/', '.', '~'])).then_some(source)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use serde_json::json;

    use super::*;

    /// What each way asks for, a line each.
    #[track_caller]
    fn check(ways: &[Value], expected: Expect) {
        let line = |way: &Value| {
            let run: Run = serde_json::from_value(way.clone()).unwrap();
            let asked: Vec<&str> = asked(&run).into_iter().map(Privilege::as_str).collect();
            format!("{}\n", asked.join(" "))
        };
        expected.assert_eq(&ways.iter().map(line).collect::<String>());
    }

    #[test]
    fn a_program_asks_for_more_by_its_user_and_its_folder() {
        check(
            &[
                json!({"process": {"command": ["a"]}}),
                json!({"process": {"command": ["a"], "user": "root"}}),
                json!({"process": {"command": ["a"], "workdir": "/usr/share/x"}}),
                json!({"process": {"command": ["a"], "workdir": "/usrdata"}}),
                json!({"process": {"command": ["a"], "workdir": "/usr/../home"}}),
                json!({"process": {"command": ["a"], "workdir": "/tmp"}}),
                json!({"process": {"command": ["a"], "workdir": "/tmp/theirs"}}),
            ],
            expect![[r#"
                process
                process host-user
                process
                process host-path
                process host-path
                process
                process host-path
            "#]],
        );
    }

    #[test]
    fn a_container_asks_for_more_by_what_it_mounts() {
        let volume = |path: &str| json!({"container": {"image": "a", "volumes": [{"path": "/x", "hostPath": path}]}});
        check(
            &[
                json!({"container": {"image": "a", "volumes": [{"path": "/x", "name": "data"}]}}),
                json!({"container": {"image": "a", "privileged": true}}),
                json!({"container": {"image": "a", "capabilities": ["SYS_NICE"]}}),
                volume("/srv/data"),
                volume("/var/run/docker.sock"),
                volume("/run"),
                volume("/"),
                volume("/srv/../run"),
            ],
            expect![[r#"

                privileged
                capabilities
                host-path
                host-path engine-socket
                host-path engine-socket
                host-path engine-socket
                host-path engine-socket
            "#]],
        );
    }

    #[test]
    fn a_project_asks_for_what_any_of_its_services_does() {
        let service = |service: Value| json!({"compose": {"services": {"quiet": {"image": "a"}, "loud": service}}});
        check(
            &[
                service(
                    json!({"cap_add": [], "cap_drop": ["ALL"], "network_mode": "none", "security_opt": ["no-new-privileges:true"], "volumes": ["data:/x", "/x"]}),
                ),
                service(json!({"cap_add": ["NET_ADMIN"], "devices": ["/dev/video0"]})),
                service(json!({"network_mode": "host", "pid": "host"})),
                service(json!({"ipc": "container:other"})),
                service(json!({"security_opt": ["seccomp=unconfined"]})),
                service(json!({"privileged": true, "runtime": "crun", "oom_score_adj": -1000})),
                service(json!({"pid": "${MODE:-host}", "pids_limit": -1})),
                service(json!({"volumes": ["${FOLDER:-/}:/x"]})),
                service(
                    json!({"volumes": ["./here:/x", {"type": "bind", "source": "/run/docker.sock", "target": "/s"}]}),
                ),
            ],
            expect![[r#"

                devices capabilities
                host-network host-namespaces
                host-namespaces
                unconfined-container
                privileged unconfined-container
                host-namespaces unconfined-container
                host-path engine-socket
                host-path engine-socket
            "#]],
        );
    }

    #[test]
    fn an_assignment_is_given_no_more_than_it_asks_for() {
        let check = |way: Value, allow: Option<&[Privilege]>, expected: Option<&[Privilege]>| {
            let run: Run = serde_json::from_value(way).unwrap();
            assert_eq!(granted(&run, allow).as_deref(), expected, "{allow:?}");
        };
        let program = || json!({"process": {"command": ["a"], "user": "root"}});
        check(program(), None, None);
        check(program(), Some(&[]), Some(&[]));
        let all = Privilege::ALL;
        let given: &[Privilege] =
            &[Privilege::Process, Privilege::UnconfinedProcess, Privilege::HostUser];
        check(program(), Some(all), Some(given));
        check(json!({"container": {"image": "a"}}), Some(all), Some(&[]));
    }
}
