//! Checks of updates, time and logs.

use super::facts::Facts;
use super::permissions::{Owner, tight};
use super::{Check, Outcome};
use crate::root::Seen;
use crate::system::parse_assignments;

/// Package lists older than this miss what is being attacked by now.
const LISTS_DAYS_MAX: i64 = 14;

pub(super) const UPDATE_CHECKS: &[Check] = &[
    Check {
        id: "TMB-UPD-001",
        title: "security updates are installed without anyone asking",
        why: "Holes are attacked within days of becoming known, and nobody visits a machine at the \
              edge every day.",
        mend: "Install and enable unattended-upgrades (Debian, Ubuntu) or dnf-automatic with \
               `apply_updates = yes`.",
        weight: 7,
        check: automatic,
    },
    Check {
        id: "TMB-UPD-002",
        title: "the machine knows of recent updates",
        why: "An old list of packages says that all is well when it is not.",
        mend: "`apt-get update`, and see why it does not happen by itself.",
        weight: 4,
        check: lists,
    },
    Check {
        id: "TMB-UPD-003",
        title: "no restart is pending",
        why: "An updated kernel protects only once it runs.",
        mend: "`tombolo node drain NAME`, then restart the machine.",
        weight: 4,
        check: |facts| match (facts.container, facts.entry("/run/reboot-required")) {
            (true, _) => Outcome::not_applicable("a container is replaced and not updated"),
            (false, Seen::Absent) => Outcome::pass("none is asked for"),
            (false, Seen::Present(_) | Seen::Unreadable) => {
                Outcome::fail("/run/reboot-required is there")
            }
        },
    },
];

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "TMB-TIME-001",
        title: "the clock is kept right",
        why: "Certificates end by the clock, and logs of several machines cannot be laid side by \
              side without it.",
        mend: "Enable chrony or systemd-timesyncd.",
        weight: 4,
        check: time,
    },
    Check {
        id: "TMB-LOG-001",
        title: "logs stay over a restart",
        why: "An attacker who can restart the machine would otherwise leave no trace.",
        mend: "`mkdir /var/log/journal` and restart systemd-journald, or run rsyslog.",
        weight: 4,
        check: logs,
    },
    Check {
        id: "TMB-LOG-002",
        title: "others can neither write the logs nor read who logs in",
        why: "Logs that can be written can be rewritten, and names of accounts help guessers.",
        mend: "`chmod o-rwx` the file named, and `chmod o-w /var/log`.",
        weight: 3,
        check: |facts| {
            let folder =
                tight(std::iter::once(("/var/log", facts.entry("/var/log"))), 0o002, Owner::Anyone);
            if folder.verdict == super::Verdict::Fail {
                return folder;
            }
            let files = ["/var/log/auth.log", "/var/log/secure", "/var/log/btmp"];
            tight(files.iter().map(|path| (*path, facts.entry(path))), 0o006, Owner::Anyone)
        },
    },
    Check {
        id: "TMB-LOG-003",
        title: "grave acts are recorded",
        why: "Without a record nobody can tell afterwards who changed an account or loaded a \
              module.",
        mend: "Install and enable auditd.",
        weight: 3,
        check: |facts| service(facts, &["auditd"], "auditd is not enabled"),
    },
];

/// Passes if one of the services starts by itself.
fn service(facts: &Facts, names: &[&str], missing: &str) -> Outcome {
    if facts.container {
        return Outcome::not_applicable("that is for the host of a container");
    }
    match (facts.service(names), &facts.services) {
        (Some(name), _) => Outcome::pass(format!("{name} is enabled")),
        (None, Seen::Present(_)) => Outcome::fail(missing),
        (None, Seen::Absent | Seen::Unreadable) => Outcome::unknown("cannot see what is started"),
    }
}

fn automatic(facts: &Facts) -> Outcome {
    if facts.container || facts.is_there("/ostree") {
        return Outcome::not_applicable("the system is replaced as a whole");
    }
    if facts.is_there("/usr/bin/apt-get") {
        let text = facts.text("/etc/apt/apt.conf.d/20auto-upgrades").present().unwrap_or_default();
        return match apt_setting(text, "APT::Periodic::Unattended-Upgrade") {
            Some(days) if days != "0" => {
                Outcome::pass(format!("unattended-upgrades every {days} days"))
            }
            Some(_) => Outcome::fail("unattended-upgrades is switched off"),
            None => Outcome::fail("unattended-upgrades is not set up"),
        };
    }
    if facts.is_there("/usr/bin/dnf") {
        let timers = ["dnf-automatic.timer", "dnf-automatic-install.timer", "dnf5-automatic.timer"];
        let settings = facts.text("/etc/dnf/automatic.conf").map(parse_assignments).present();
        let applies = settings.and_then(|all| all.get("apply_updates").cloned());
        return match (facts.service(&timers), applies.as_deref()) {
            (Some("dnf-automatic-install.timer"), _) => Outcome::pass("dnf-automatic-install"),
            (Some(timer), Some("yes" | "true" | "1")) => Outcome::pass(timer),
            (Some(_), _) => Outcome::fail("dnf-automatic does not apply what it downloads"),
            (None, _) => Outcome::fail("dnf-automatic is not enabled"),
        };
    }
    Outcome::unknown("the way of updating is not known")
}

/// `APT::Periodic::Unattended-Upgrade "1";`
fn apt_setting(text: &str, name: &str) -> Option<String> {
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with("//"));
    let mut values = lines.filter_map(|line| line.strip_prefix(name));
    values
        .next_back()
        .map(|value| value.trim_matches(|letter| " \t\";".contains(letter)).to_owned())
}

fn lists(facts: &Facts) -> Outcome {
    if facts.container || !facts.is_there("/usr/bin/apt-get") {
        return Outcome::not_applicable("there are no lists of packages");
    }
    let stamps = [
        "/var/lib/apt/periodic/update-success-stamp",
        "/var/cache/apt/pkgcache.bin",
        "/var/lib/apt/lists",
    ];
    let newest = stamps
        .iter()
        .filter_map(|path| facts.entry(path).present())
        .map(|entry| entry.modified)
        .max();
    let Some(newest) = newest else {
        return Outcome::fail("there have never been any lists");
    };
    let days = facts.now.saturating_sub(newest) / 86_400;
    match days <= LISTS_DAYS_MAX {
        true => Outcome::pass(format!("{} days old", days.max(0))),
        false => Outcome::fail(format!("{days} days old")),
    }
}

fn time(facts: &Facts) -> Outcome {
    let running = [
        "/run/systemd/timesync/synchronized",
        "/run/chrony/chronyd.pid",
        "/run/chronyd.pid",
        "/run/ntpd.pid",
    ];
    if let Some(path) = running.iter().find(|path| !facts.container && facts.is_there(path)) {
        return Outcome::pass(format!("{path} is there"));
    }
    let names =
        ["chrony", "chronyd", "systemd-timesyncd", "ntp", "ntpd", "ntpsec", "ntpd-rs", "openntpd"];
    service(facts, &names, "nothing keeps the clock right")
}

fn logs(facts: &Facts) -> Outcome {
    if facts.container {
        return Outcome::not_applicable("the engine keeps the logs of a container");
    }
    if let Some(name) = facts.service(&["rsyslog", "syslog-ng", "syslog"]) {
        return Outcome::pass(format!("{name} is enabled"));
    }
    let journal = facts.text("/etc/systemd/journald.conf").map(parse_assignments).present();
    let storage = journal.and_then(|journal| journal.get("Storage").cloned()).unwrap_or_default();
    match (storage.as_str(), facts.entry("/var/log/journal")) {
        ("volatile" | "none", _) => Outcome::fail(format!("the journal has Storage={storage}")),
        ("persistent", _) | (_, Seen::Present(_)) => Outcome::pass("the journal is on disk"),
        (_, Seen::Absent) => Outcome::fail("the journal is in memory only"),
        (_, Seen::Unreadable) => Outcome::unknown("cannot look at /var/log/journal"),
    }
}
