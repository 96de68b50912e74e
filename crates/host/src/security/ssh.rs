//! Checks of remote login. What the server does when a setting is left out is that of OpenSSH 9.

use super::facts::Facts;
use super::parse::Sshd;
use super::permissions::{OTHERS_ANY, OTHERS_WRITE, Owner, of_root, tight};
use super::{Check, Outcome, listed};
use crate::root::Seen;

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "TMB-SSH-001",
        title: "root cannot log in with a password",
        why: "Root's name is known everywhere, so only the password is left to guess, and it opens \
              everything.",
        mend: "Set `PermitRootLogin prohibit-password` or `no` in the server's settings.",
        weight: 8,
        check: |facts| {
            one_of(
                facts,
                "PermitRootLogin",
                "prohibit-password",
                &["no", "prohibit-password", "without-password", "forced-commands-only"],
            )
        },
    },
    Check {
        id: "TMB-SSH-002",
        title: "nobody logs in with a password",
        why: "Passwords can be guessed from anywhere and reused from a leak; keys cannot.",
        mend: "Give everyone a key, then set `PasswordAuthentication no`.",
        weight: 8,
        check: |facts| one_of(facts, "PasswordAuthentication", "yes", &["no"]),
    },
    Check {
        id: "TMB-SSH-003",
        title: "an empty password opens nothing",
        why: "An account that was made without a password would be open to the whole network.",
        mend: "Remove `PermitEmptyPasswords yes`.",
        weight: 9,
        check: |facts| one_of(facts, "PermitEmptyPasswords", "no", &["no"]),
    },
    Check {
        id: "TMB-SSH-004",
        title: "a few wrong guesses end the connection",
        why: "The more guesses a connection allows, the faster a password is found and the less \
              shows in the log.",
        mend: "Set `MaxAuthTries 4`.",
        weight: 3,
        check: |facts| at_most(facts, "MaxAuthTries", 6, 4),
    },
    Check {
        id: "TMB-SSH-005",
        title: "who does not log in within a minute is cut off",
        why: "Connections that wait for a login cost memory; enough of them keep everyone else \
              out.",
        mend: "Set `LoginGraceTime 60`.",
        weight: 2,
        check: |facts| at_most(facts, "LoginGraceTime", 120, 60),
    },
    Check {
        id: "TMB-SSH-006",
        title: "no screen is forwarded",
        why: "A machine at the edge has no screen, and the other end of a forwarded one can read \
              what is typed.",
        mend: "Set `X11Forwarding no`.",
        weight: 2,
        check: |facts| one_of(facts, "X11Forwarding", "no", &["no"]),
    },
    Check {
        id: "TMB-SSH-007",
        title: "no other machine is trusted to say who someone is",
        why: "Whoever takes over a trusted machine is at once everyone who has an account here.",
        mend: "Remove `HostbasedAuthentication yes` and `IgnoreRhosts no`.",
        weight: 4,
        check: trusts_no_host,
    },
    Check {
        id: "TMB-SSH-008",
        title: "no broken ciphers are offered",
        why: "Old ciphers and hashes let someone on the way read or change what is sent.",
        mend: "Remove `Ciphers`, `MACs` and `KexAlgorithms` lines that name CBC, 3DES, RC4, MD5 or \
               SHA-1: what the server offers by itself is good.",
        weight: 5,
        check: ciphers,
    },
    Check {
        id: "TMB-SSH-009",
        title: "idle sessions end",
        why: "A session that is left open on a laptop is open for whoever finds the laptop.",
        mend: "Set `ClientAliveInterval 300`.",
        weight: 2,
        check: |facts| {
            with(facts, |sshd| match number(sshd, "clientaliveinterval") {
                Some(seconds @ 1..=900) => Outcome::pass(format!("ClientAliveInterval {seconds}")),
                Some(seconds) => Outcome::fail(format!("ClientAliveInterval {seconds}")),
                None => Outcome::fail("ClientAliveInterval is not set"),
            })
        },
    },
    Check {
        id: "TMB-SSH-010",
        title: "the server's private keys are for root alone",
        why: "With the private key another machine can pass for this one, and collect what is \
              typed there.",
        mend: "`chmod 600 /etc/ssh/ssh_host_*_key` and `chown root` them.",
        weight: 6,
        check: |facts| {
            let keys = facts.host_keys.iter().map(|(path, entry)| (path.as_str(), *entry));
            // Some distributions let a group of its own read them.
            tight(keys, OTHERS_ANY & !0o040, Owner::Root)
        },
    },
    Check {
        id: "TMB-SSH-011",
        title: "only root can change the server's settings",
        why: "Whoever can write them can let themselves in.",
        mend: "`chown root:root /etc/ssh/sshd_config` and `chmod go-w` it.",
        weight: 6,
        check: |facts| of_root(facts, &["/etc/ssh/sshd_config"], OTHERS_WRITE),
    },
];

/// Parts of the names of algorithms that are broken.
const BROKEN: &[&str] =
    &["cbc", "3des", "arcfour", "blowfish", "cast128", "md5", "sha1", "umac-64"];

fn with(facts: &Facts, judge: impl FnOnce(&Sshd) -> Outcome) -> Outcome {
    match facts.sshd.as_ref() {
        Seen::Present(sshd) => judge(sshd),
        Seen::Absent => Outcome::not_applicable("there is no ssh server"),
        Seen::Unreadable => Outcome::unknown("cannot read the settings of the ssh server"),
    }
}

fn one_of(facts: &Facts, name: &str, unset: &str, good: &[&str]) -> Outcome {
    with(facts, |sshd| {
        let set = sshd.setting(&name.to_lowercase());
        let value = set.as_deref().unwrap_or(unset);
        let note = if set.is_some() { "" } else { " (not set)" };
        let found = format!("{name} {value}{note}");
        if good.contains(&value) { Outcome::pass(found) } else { Outcome::fail(found) }
    })
}

/// Zero means without limit.
fn at_most(facts: &Facts, name: &str, unset: u64, most: u64) -> Outcome {
    with(facts, |sshd| {
        let set = sshd.setting(&name.to_lowercase());
        let value = if set.is_some() { number(sshd, &name.to_lowercase()) } else { Some(unset) };
        match value {
            Some(value) if (1..=most).contains(&value) => Outcome::pass(format!("{name} {value}")),
            Some(value) => Outcome::fail(format!("{name} {value}, {most} at most")),
            None => Outcome::fail(format!("{name} {}", set.unwrap_or_default())),
        }
    })
}

/// A number or a time such as `2m`.
fn number(sshd: &Sshd, name: &str) -> Option<u64> {
    let text = sshd.setting(name)?;
    let (digits, factor) = match text.strip_suffix(['s', 'm', 'h']) {
        Some(digits) if text.ends_with('m') => (digits, 60),
        Some(digits) if text.ends_with('h') => (digits, 3600),
        Some(digits) => (digits, 1),
        None => (text.as_str(), 1),
    };
    digits.parse::<u64>().ok()?.checked_mul(factor)
}

fn trusts_no_host(facts: &Facts) -> Outcome {
    with(facts, |sshd| {
        let mut problems = Vec::new();
        if sshd.setting("hostbasedauthentication").as_deref() == Some("yes") {
            problems.push("HostbasedAuthentication yes".to_owned());
        }
        if sshd.setting("ignorerhosts").as_deref() == Some("no") {
            problems.push("IgnoreRhosts no".to_owned());
        }
        Outcome::of_problems(&problems, "no host is trusted")
    })
}

/// A list that begins with `-` takes algorithms away, so naming a broken algorithm there is right.
fn ciphers(facts: &Facts) -> Outcome {
    with(facts, |sshd| {
        let lists = ["ciphers", "macs", "kexalgorithms"];
        let offered = lists.iter().filter_map(|name| sshd.setting(name));
        let offered = offered.filter(|list| !list.starts_with('-'));
        let mut broken = Vec::new();
        for list in offered {
            let names = list.split(',').map(|name| name.trim_start_matches(['+', '^']));
            let bad = |name: &&str| BROKEN.iter().any(|part| name.contains(part));
            broken.extend(names.filter(bad).map(str::to_owned));
        }
        match broken.is_empty() {
            true => Outcome::pass("none is named"),
            false => Outcome::fail(listed(&broken)),
        }
    })
}
