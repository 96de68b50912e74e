//! Checks of how far the programs of workloads are kept apart from the machine. Nothing here looks at the
//! machine: the driver that runs them has tried, and says so in [`Confinement`].

use super::{Check, Outcome};

/// Each field is why something is missing, and nothing where it is not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Confinement {
    /// Programs would run as the agent's own user.
    pub apart: Option<String>,
    /// Programs see the machine's own files.
    pub view: Option<String>,
    /// Programs can make every system call.
    pub calls: Option<String>,
    /// Programs can send signals to the agent.
    pub signals: Option<String>,
    /// Programs can take the whole machine together.
    pub together: Option<String>,
}

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "TMB-WRK-001",
        title: "programs of workloads are kept apart from the agent",
        why: "A program that runs as the agent's own user reads its keys and speaks for this machine. \
              It is refused unless the site allows it by name.",
        mend: "Run the agent as root, or let its user make user namespaces \
               (`sysctl -w kernel.apparmor_restrict_unprivileged_userns=0` on Ubuntu).",
        weight: 10,
        check: |facts| judge(facts, |found| &found.apart, "each App has a user or a namespace"),
    },
    Check {
        id: "TMB-WRK-002",
        title: "programs of workloads see only what they need of the file system",
        why: "What is readable for everybody on the machine need not be for every workload.",
        mend: "Give the agent the right to mount (`CAP_SYS_ADMIN`), or run it outside of a container.",
        weight: 6,
        check: |facts| judge(facts, |found| &found.view, "each has a root of its own"),
    },
    Check {
        id: "TMB-WRK-003",
        title: "programs of workloads cannot make the system calls that attacks begin with",
        why: "Most ways from a user to the kernel lead through calls that no workload needs.",
        mend: "Use a kernel with `CONFIG_SECCOMP_FILTER`.",
        weight: 5,
        check: |facts| judge(facts, |found| &found.calls, "they are refused"),
    },
    Check {
        id: "TMB-WRK-004",
        title: "programs of workloads cannot signal the agent",
        why: "A workload that kills the agent keeps the machine from hearing of anything new.",
        mend: "Run the agent as root, or use a kernel from 6.12 on.",
        weight: 3,
        check: |facts| judge(facts, |found| &found.signals, "signals stay inside"),
    },
    Check {
        id: "TMB-WRK-005",
        title: "all programs of workloads together leave room for the machine and its agent",
        why: "Many programs without limits could otherwise take all memory and all processes, and nobody could end \
              them from afar.",
        mend: "Give the agent the right to make cgroups: run it as root, or as a service with `Delegate=yes`.",
        weight: 4,
        check: |facts| judge(facts, |found| &found.together, "their cgroup is bounded"),
    },
];

fn judge(
    facts: &super::Facts,
    lacks: impl Fn(&Confinement) -> &Option<String>,
    fine: &str,
) -> Outcome {
    match facts.confinement.as_ref().map(|found| lacks(found).as_ref()) {
        None => Outcome::not_applicable("this machine runs no programs of workloads"),
        Some(None) => Outcome::pass(fine),
        Some(Some(why)) => Outcome::fail(why.as_str()),
    }
}
