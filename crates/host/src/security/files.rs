//! Checks of the permissions of the system's files.

use super::facts::Facts;
use super::permissions::{OTHERS_ANY, OTHERS_WRITE, Owner, of_root, tight};
use super::{Check, Outcome};
use crate::root::Seen;

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "TMB-FILE-001",
        title: "only root can change the list of accounts",
        why: "A line more in it is an account more, with any rights.",
        mend: "`chown root:root /etc/passwd /etc/group` and `chmod 644` them.",
        weight: 8,
        check: |facts| of_root(facts, &["/etc/passwd", "/etc/group"], OTHERS_WRITE),
    },
    Check {
        id: "TMB-FILE-002",
        title: "the hashes of passwords are not for everyone",
        why: "Who can read them can guess at leisure, elsewhere, unseen.",
        mend: "`chmod 640 /etc/shadow /etc/gshadow` and `chown root:shadow` them.",
        weight: 8,
        check: |facts| of_root(facts, &["/etc/shadow", "/etc/gshadow"], OTHERS_ANY & !0o040),
    },
    Check {
        id: "TMB-FILE-003",
        title: "only root can change what runs by the clock",
        why: "What is written there runs as root, every hour.",
        mend: "`chown root:root` and `chmod go-w` /etc/crontab and the /etc/cron.* folders.",
        weight: 6,
        check: |facts| {
            of_root(
                facts,
                &[
                    "/etc/crontab",
                    "/etc/cron.d",
                    "/etc/cron.hourly",
                    "/etc/cron.daily",
                    "/etc/cron.weekly",
                    "/etc/cron.monthly",
                ],
                OTHERS_WRITE,
            )
        },
    },
    Check {
        id: "TMB-FILE-004",
        title: "only root can change the programs that root runs",
        why: "A program that someone else can replace runs with root's rights the next time.",
        mend: "`chmod go-w` the folder named, and `chown root:root` it.",
        weight: 8,
        check: |facts| {
            // Debian's group `staff` may write below /usr/local; by itself it has no members.
            let folders = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"];
            let local = ["/usr/local/sbin", "/usr/local/bin"];
            let system = folders.iter().map(|path| (*path, facts.entry(path), OTHERS_WRITE));
            let local = local.iter().map(|path| (*path, facts.entry(path), 0o002));
            let outcomes = system.chain(local).map(|(path, entry, forbidden)| {
                tight(std::iter::once((path, entry)), forbidden, Owner::Root)
            });
            worst(outcomes)
        },
    },
    Check {
        id: "TMB-FILE-005",
        title: "in folders for all, everyone can remove only their own files",
        why: "Otherwise one account can take away another's file and put its own in the place.",
        mend: "`chmod +t` the folder named.",
        weight: 5,
        check: sticky,
    },
    Check {
        id: "TMB-FILE-006",
        title: "root's home is for root alone",
        why: "Keys, histories and tokens of the most powerful account lie there.",
        mend: "`chmod 700 /root`.",
        weight: 5,
        check: |facts| of_root(facts, &["/root"], OTHERS_ANY),
    },
    Check {
        id: "TMB-FILE-007",
        title: "homes are not open to others",
        why: "People keep keys and tokens there and forget them.",
        mend: "`chmod 750` the folder named.",
        weight: 4,
        check: |facts| {
            let homes = facts.homes.iter().map(|(path, entry)| (path.as_str(), *entry));
            tight(homes, 0o027, Owner::Anyone)
        },
    },
    Check {
        id: "TMB-FILE-008",
        title: "the boot settings are for root alone",
        why: "They may hold a password, and who changes them decides what is started.",
        mend: "`chmod 600` the file named.",
        weight: 3,
        check: |facts| of_root(facts, &["/boot/grub/grub.cfg", "/boot/grub2/grub.cfg"], OTHERS_ANY),
    },
];

fn sticky(facts: &Facts) -> Outcome {
    let mut problems = Vec::new();
    let mut looked_at = 0;
    for path in ["/tmp", "/var/tmp", "/dev/shm"] {
        let Seen::Present(entry) = facts.entry(path) else { continue };
        looked_at += 1;
        if entry.mode & 0o002 != 0 && entry.mode & 0o1000 == 0 {
            problems.push(format!("{path} has mode {:04o}", entry.mode));
        }
    }
    match looked_at {
        0 => Outcome::not_applicable("there are no such folders"),
        count => Outcome::of_problems(&problems, format!("{count} looked at")),
    }
}

/// The worst of several: a fault before what is unknown before what is fine.
fn worst(outcomes: impl Iterator<Item = Outcome>) -> Outcome {
    use super::Verdict;
    let gravity = |outcome: &Outcome| match outcome.verdict {
        Verdict::Fail => 3,
        Verdict::Unknown => 2,
        Verdict::Pass => 1,
        Verdict::NotApplicable => 0,
    };
    outcomes.max_by_key(gravity).unwrap_or_else(|| Outcome::not_applicable("nothing to look at"))
}
