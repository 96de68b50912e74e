//! Checks of the kernel's settings, for itself and for the network.

use super::facts::Facts;
use super::sysctl::within;
use super::{Check, Outcome, listed};
use crate::root::Seen;

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "TMB-KERN-001",
        title: "programs lie at random addresses",
        why: "A hole in a program is easy to use when everything lies where it always lies.",
        mend: "`sysctl -w kernel.randomize_va_space=2`, and the same line in /etc/sysctl.d.",
        weight: 6,
        check: |facts| within(facts, &[("kernel.randomize_va_space", 2..=2)]),
    },
    Check {
        id: "TMB-KERN-002",
        title: "the kernel hides its addresses",
        why: "They are the first thing that an attack on the kernel needs to know.",
        mend: "`sysctl -w kernel.kptr_restrict=1`.",
        weight: 3,
        check: |facts| within(facts, &[("kernel.kptr_restrict", 1..=2)]),
    },
    Check {
        id: "TMB-KERN-003",
        title: "the kernel's log is for root",
        why: "It tells of addresses and faults that help an attacker.",
        mend: "`sysctl -w kernel.dmesg_restrict=1`.",
        weight: 2,
        check: |facts| within(facts, &[("kernel.dmesg_restrict", 1..=1)]),
    },
    Check {
        id: "TMB-KERN-004",
        title: "a program cannot look into another of the same user",
        why: "One program taken over would otherwise have the keys and passwords of all the \
              others.",
        mend: "`sysctl -w kernel.yama.ptrace_scope=1`.",
        weight: 4,
        check: |facts| within(facts, &[("kernel.yama.ptrace_scope", 1..=3)]),
    },
    Check {
        id: "TMB-KERN-005",
        title: "programs with special rights leave no memory behind",
        why: "When one crashes, secrets that it held would lie in a file of the user's.",
        mend: "`sysctl -w fs.suid_dumpable=0`.",
        weight: 3,
        check: |facts| within(facts, &[("fs.suid_dumpable", 0..=0)]),
    },
    Check {
        id: "TMB-KERN-006",
        title: "only root loads programs into the kernel",
        why: "Faults in the checker of such programs have given root to ordinary users again and \
              again.",
        mend: "`sysctl -w kernel.unprivileged_bpf_disabled=1`.",
        weight: 4,
        check: |facts| within(facts, &[("kernel.unprivileged_bpf_disabled", 1..=2)]),
    },
    Check {
        id: "TMB-KERN-007",
        title: "links in folders for all cannot mislead",
        why: "A link that is placed at the right moment makes a program of root write into another file.",
        mend: "Set `fs.protected_symlinks` and `fs.protected_hardlinks` to 1.",
        weight: 5,
        check: |facts| {
            within(facts, &[("fs.protected_symlinks", 1..=1), ("fs.protected_hardlinks", 1..=1)])
        },
    },
    Check {
        id: "TMB-KERN-008",
        title: "pipes and files of others in folders for all are not written to",
        why: "A file that was laid there beforehand collects what a program believes to write for \
              itself.",
        mend: "Set `fs.protected_fifos` and `fs.protected_regular` to 1 or 2.",
        weight: 2,
        check: |facts| {
            within(facts, &[("fs.protected_fifos", 1..=2), ("fs.protected_regular", 1..=2)])
        },
    },
    Check {
        id: "TMB-KERN-009",
        title: "measuring the whole machine is for root",
        why: "Counters of the processor show what other programs do, and their part of the kernel \
              has had many holes.",
        mend: "`sysctl -w kernel.perf_event_paranoid=2`.",
        weight: 2,
        check: |facts| within(facts, &[("kernel.perf_event_paranoid", 2..=4)]),
    },
    Check {
        id: "TMB-KERN-010",
        title: "the processor's known weaknesses are dealt with",
        why: "One workload could read the memory of another, or of the machine.",
        mend: "Update the kernel and the processor's microcode, and remove `mitigations=off` from \
               the boot line.",
        weight: 6,
        check: weaknesses,
    },
    Check {
        id: "TMB-KERN-011",
        title: "programs are confined to what they need",
        why: "Without AppArmor or SELinux a service that is taken over can do all that its account \
              can.",
        mend: "Switch on AppArmor (Debian, Ubuntu, SUSE) or SELinux (Fedora, Red Hat).",
        weight: 5,
        check: confined,
    },
];

pub(super) const NETWORK_CHECKS: &[Check] = &[
    Check {
        id: "TMB-NET-001",
        title: "packets with a false sender are dropped",
        why: "A false sender passes filters that trust an address, and hides who attacks.",
        mend: "`sysctl -w net.ipv4.conf.all.rp_filter=1` (2 where ways there and back differ).",
        weight: 4,
        check: |facts| {
            // The stricter of the two counts for an interface.
            let all = within(facts, &[("net.ipv4.conf.all.rp_filter", 1..=2)]);
            match all.verdict {
                super::Verdict::Fail => {
                    within(facts, &[("net.ipv4.conf.default.rp_filter", 1..=2)])
                }
                super::Verdict::Pass | super::Verdict::NotApplicable | super::Verdict::Unknown => {
                    all
                }
            }
        },
    },
    Check {
        id: "TMB-NET-002",
        title: "no stranger changes the routes",
        why: "Anyone on the same wire could lead traffic over their own machine.",
        mend: "Set `net.ipv4.conf.{all,default}.accept_redirects` and those of ipv6 to 0.",
        weight: 4,
        check: |facts| {
            within(
                facts,
                &[
                    ("net.ipv4.conf.all.accept_redirects", 0..=0),
                    ("net.ipv4.conf.default.accept_redirects", 0..=0),
                    ("net.ipv6.conf.all.accept_redirects", 0..=0),
                    ("net.ipv6.conf.default.accept_redirects", 0..=0),
                ],
            )
        },
    },
    Check {
        id: "TMB-NET-003",
        title: "the machine tells nobody other routes",
        why: "Only a router has to; from any other machine it is a way to mislead the neighbours.",
        mend: "Set `net.ipv4.conf.{all,default}.send_redirects` to 0.",
        weight: 2,
        check: |facts| {
            within(
                facts,
                &[
                    ("net.ipv4.conf.all.send_redirects", 0..=0),
                    ("net.ipv4.conf.default.send_redirects", 0..=0),
                ],
            )
        },
    },
    Check {
        id: "TMB-NET-004",
        title: "the sender does not choose the way of a packet",
        why: "So a stranger could reach networks that no route leads to.",
        mend: "Set `net.ipv4.conf.{all,default}.accept_source_route` to 0.",
        weight: 4,
        check: |facts| {
            within(
                facts,
                &[
                    ("net.ipv4.conf.all.accept_source_route", 0..=0),
                    ("net.ipv4.conf.default.accept_source_route", 0..=0),
                    ("net.ipv6.conf.all.accept_source_route", -1..=0),
                ],
            )
        },
    },
    Check {
        id: "TMB-NET-005",
        title: "a flood of half-open connections keeps nobody out",
        why: "Otherwise a single sender can make a service unreachable for all.",
        mend: "`sysctl -w net.ipv4.tcp_syncookies=1`.",
        weight: 4,
        check: |facts| within(facts, &[("net.ipv4.tcp_syncookies", 1..=2)]),
    },
    Check {
        id: "TMB-NET-006",
        title: "a ping to everyone is not answered",
        why: "Answers to a false sender would be an attack on whoever that is.",
        mend: "`sysctl -w net.ipv4.icmp_echo_ignore_broadcasts=1`.",
        weight: 2,
        check: |facts| within(facts, &[("net.ipv4.icmp_echo_ignore_broadcasts", 1..=1)]),
    },
];

fn weaknesses(facts: &Facts) -> Outcome {
    if facts.weaknesses.is_empty() {
        return Outcome::not_applicable("the kernel does not tell");
    }
    let open = facts.weaknesses.iter().filter(|(_, text)| text.starts_with("Vulnerable"));
    let open: Vec<String> = open.map(|(name, _)| name.clone()).collect();
    match open.is_empty() {
        true => Outcome::pass(format!("{} looked at", facts.weaknesses.len())),
        false => Outcome::fail(listed(&open)),
    }
}

fn confined(facts: &Facts) -> Outcome {
    if facts.text("/sys/module/apparmor/parameters/enabled").map(str::trim) == Seen::Present("Y") {
        return Outcome::pass("AppArmor");
    }
    match facts.text("/sys/fs/selinux/enforce").map(str::trim) {
        Seen::Present("1") => Outcome::pass("SELinux"),
        Seen::Present(_) => Outcome::fail("SELinux only watches"),
        Seen::Absent => Outcome::fail("neither AppArmor nor SELinux is on"),
        Seen::Unreadable => Outcome::unknown("cannot look at SELinux"),
    }
}
