//! Checks of how file systems are mounted.

use super::facts::Facts;
use super::{Check, Outcome};
use crate::root::Seen;

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "TMB-MNT-001",
        title: "/tmp holds no devices and no programs with special rights",
        why: "Everyone can write there, so everyone could lay something there for others to run.",
        mend: "Mount /tmp on its own with `nodev,nosuid` (`systemctl enable tmp.mount`).",
        weight: 3,
        check: |facts| mounted(facts, "/tmp", &["nodev", "nosuid"], Alone::Required),
    },
    Check {
        id: "TMB-MNT-002",
        title: "/var/tmp holds no devices and no programs with special rights",
        why: "As /tmp, but what lies there stays over a restart.",
        mend: "Mount /var/tmp on its own with `nodev,nosuid`.",
        weight: 2,
        check: |facts| mounted(facts, "/var/tmp", &["nodev", "nosuid"], Alone::Required),
    },
    Check {
        id: "TMB-MNT-003",
        title: "nothing is run from shared memory",
        why: "Malware likes a place that everyone can write to and that leaves nothing on disk.",
        mend: "Mount /dev/shm with `nodev,nosuid,noexec`.",
        weight: 3,
        check: |facts| mounted(facts, "/dev/shm", &["nodev", "nosuid", "noexec"], Alone::Optional),
    },
    Check {
        id: "TMB-MNT-004",
        title: "homes hold no devices",
        why: "A device file in a home is a way around the permissions of the real one.",
        mend: "Mount /home with `nodev`.",
        weight: 1,
        check: |facts| mounted(facts, "/home", &["nodev"], Alone::Optional),
    },
];

/// Whether a folder must be a file system of its own.
#[derive(Clone, Copy, Debug)]
enum Alone {
    Required,
    Optional,
}

fn mounted(facts: &Facts, target: &str, options: &[&str], alone: Alone) -> Outcome {
    if facts.container {
        return Outcome::not_applicable("the engine decides on the mounts of a container");
    }
    let Seen::Present(mounts) = facts.mounts.as_ref() else {
        return Outcome::unknown("cannot read /proc/mounts");
    };
    // Of several on one folder only the last can be seen.
    let Some(mount) = mounts.iter().rfind(|mount| mount.target == target) else {
        return match alone {
            Alone::Required => Outcome::fail(format!("{target} is no mount of its own")),
            Alone::Optional => Outcome::not_applicable(format!("{target} is no mount of its own")),
        };
    };
    let has = |option: &str| mount.options.iter().any(|found| found == option);
    let missing: Vec<&str> = options.iter().filter(|option| !has(option)).copied().collect();
    match missing[..] {
        [] => Outcome::pass(options.join(",")),
        _ => Outcome::fail(format!("{target} lacks {}", missing.join(","))),
    }
}
