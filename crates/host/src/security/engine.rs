//! Checks of a Docker engine.

use serde_json::Value;

use super::facts::Facts;
use super::permissions::{OTHERS_WRITE, Owner, tight};
use super::{Check, Outcome};
use crate::root::Seen;

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "TMB-DOCK-001",
        title: "the engine's socket is for root and its group",
        why: "Who can write to the socket can start a container that owns the machine.",
        mend: "`chmod 660 /run/docker.sock` and `chown root:docker` it.",
        weight: 8,
        check: |facts| {
            with(facts, |_| {
                tight(
                    std::iter::once(("/run/docker.sock", facts.entry("/run/docker.sock"))),
                    0o007,
                    Owner::Root,
                )
            })
        },
    },
    Check {
        id: "TMB-DOCK-002",
        title: "the engine does not listen on the network in the clear",
        why: "An open engine is found within hours, and whoever finds it is root.",
        mend: "Remove `tcp://` from `hosts`, or set `tlsverify` with certificates.",
        weight: 10,
        check: |facts| with(facts, |settings| listens(facts, settings)),
    },
    Check {
        id: "TMB-DOCK-003",
        title: "only trusted people control the engine",
        why: "The group of the engine is as good as root, and needs no password.",
        mend: "`gpasswd -d NAME docker` for everyone who need not be root.",
        weight: 4,
        check: |facts| with(facts, |_| members(facts)),
    },
    Check {
        id: "TMB-DOCK-004",
        title: "processes in containers gain no rights",
        why: "A program with special rights in an image is otherwise a step towards root.",
        mend: "Set `\"no-new-privileges\": true` in /etc/docker/daemon.json.",
        weight: 3,
        check: |facts| {
            said_or(facts, &["no-new-privileges"], |settings| {
                flag(settings, "no-new-privileges", true)
            })
        },
    },
    Check {
        id: "TMB-DOCK-005",
        title: "root in a container is not root outside",
        why: "Whoever breaks out of a container is then an account without rights.",
        mend: "Set `\"userns-remap\": \"default\"` in /etc/docker/daemon.json, or run the engine \
               without root.",
        weight: 3,
        check: |facts| {
            said_or(facts, &["userns", "rootless"], |settings| {
                match settings.get("userns-remap").and_then(Value::as_str) {
                    Some(user) if !user.is_empty() => {
                        Outcome::pass(format!("userns-remap is {user}"))
                    }
                    Some(_) | None => Outcome::fail("userns-remap is not set"),
                }
            })
        },
    },
    Check {
        id: "TMB-DOCK-006",
        title: "images come from registries that prove who they are",
        why: "Anyone on the way could put another image in the place of the one that was asked \
              for.",
        mend: "Remove `insecure-registries` from /etc/docker/daemon.json.",
        weight: 5,
        check: |facts| {
            with(facts, |settings| {
                let open = settings.get("insecure-registries").and_then(Value::as_array);
                match open.map(Vec::as_slice).unwrap_or_default() {
                    [] => Outcome::pass("all registries prove themselves"),
                    open => Outcome::fail(format!("{} registries are insecure", open.len())),
                }
            })
        },
    },
    Check {
        id: "TMB-DOCK-007",
        title: "the logs of containers cannot fill the disk",
        why: "One workload that writes without end stops all the others.",
        mend: "Set `log-opts` with `max-size`, or the `local` log driver, in \
               /etc/docker/daemon.json.",
        weight: 3,
        check: |facts| {
            with(facts, |settings| {
                let driver =
                    settings.get("log-driver").and_then(Value::as_str).unwrap_or("json-file");
                let limit = settings.pointer("/log-opts/max-size").and_then(Value::as_str);
                match (driver, limit) {
                    ("json-file", None) => Outcome::fail("the json-file driver has no max-size"),
                    (driver, limit) => {
                        Outcome::pass(format!("{driver} {}", limit.unwrap_or_default()).trim_end())
                    }
                }
            })
        },
    },
    Check {
        id: "TMB-DOCK-008",
        title: "only root can change the engine's settings",
        why: "Who writes them decides what every container may do.",
        mend: "`chown root:root /etc/docker/daemon.json` and `chmod 644` it.",
        weight: 4,
        check: |facts| {
            with(facts, |_| {
                let path = "/etc/docker/daemon.json";
                tight(std::iter::once((path, facts.entry(path))), OTHERS_WRITE, Owner::Root)
            })
        },
    },
    Check {
        id: "TMB-DOCK-009",
        title: "system calls of containers are filtered",
        why: "Most ways from a container to the kernel lead through calls that no workload needs.",
        mend: "Remove `seccomp-profile` from /etc/docker/daemon.json, and use a kernel with \
               `CONFIG_SECCOMP_FILTER`.",
        weight: 5,
        check: |facts| {
            let unconfined = |profile: &str| profile == "unconfined";
            let Some(said) = &facts.engine else {
                return with(facts, |settings| {
                    match settings.get("seccomp-profile").and_then(Value::as_str) {
                        Some(profile) if unconfined(profile) => Outcome::fail("they are not"),
                        Some(profile) => Outcome::pass(format!("by {profile}")),
                        None => Outcome::pass("by the engine's own profile"),
                    }
                });
            };
            let options = said.iter().find_map(|line| line.strip_prefix("name=seccomp"));
            match options.map(|options| options.split_once("profile=").map_or("", |(_, name)| name))
            {
                None => Outcome::fail("the engine says that they are not"),
                Some(profile) if unconfined(profile) => Outcome::fail("its profile is unconfined"),
                Some(profile) => Outcome::pass(format!("its profile is {profile}")),
            }
        },
    },
];

/// Whether the engine says that it has one of these options; by its settings where it cannot be asked.
fn said_or(facts: &Facts, names: &[&str], judge: impl FnOnce(&Value) -> Outcome) -> Outcome {
    let Some(said) = &facts.engine else { return with(facts, judge) };
    let has = |name: &&&str| said.iter().any(|line| line.strip_prefix("name=") == Some(**name));
    match names.iter().find(has) {
        Some(name) => Outcome::pass(format!("the engine says {name}")),
        None => Outcome::fail(format!("the engine does not say {}", names.join(" or "))),
    }
}

fn with(facts: &Facts, judge: impl FnOnce(&Value) -> Outcome) -> Outcome {
    match facts.docker.as_ref() {
        Seen::Present(settings) => judge(settings),
        Seen::Absent => Outcome::not_applicable("there is no Docker engine"),
        Seen::Unreadable => {
            Outcome::unknown("/etc/docker/daemon.json cannot be read or is no JSON")
        }
    }
}

fn flag(settings: &Value, name: &str, wanted: bool) -> Outcome {
    match settings.get(name).and_then(Value::as_bool) {
        Some(value) if value == wanted => Outcome::pass(format!("{name} is {value}")),
        Some(value) => Outcome::fail(format!("{name} is {value}")),
        None => Outcome::fail(format!("{name} is not set")),
    }
}

fn listens(facts: &Facts, settings: &Value) -> Outcome {
    let listening = facts.listening.as_ref().present().map(Vec::as_slice).unwrap_or_default();
    if listening.iter().any(|found| found.port == 2375 && !found.is_for_this_machine_only()) {
        return Outcome::fail("port 2375 is open");
    }
    let hosts = settings.get("hosts").and_then(Value::as_array).cloned().unwrap_or_default();
    let mut hosts = hosts.iter().filter_map(Value::as_str);
    let verified = settings.get("tlsverify").and_then(Value::as_bool) == Some(true);
    match hosts.find(|host| host.starts_with("tcp://")) {
        Some(host) if !verified => Outcome::fail(format!("{host} without tlsverify")),
        Some(host) => Outcome::pass(format!("{host} with tlsverify")),
        None => Outcome::pass("on its socket only"),
    }
}

fn members(facts: &Facts) -> Outcome {
    let Seen::Present(groups) = facts.text("/etc/group") else {
        return Outcome::unknown("cannot read /etc/group");
    };
    let group = groups.lines().find(|line| line.starts_with("docker:"));
    let members = group.and_then(|group| group.split(':').nth(3)).unwrap_or_default();
    let members: Vec<String> =
        members.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect();
    Outcome::of_problems(&members, "the group has no members")
}
