//! How safely the machine is set up: the checks, and the score from 0 to 100 that goes on the Node.
//! Called by the agent and by `tombolo agent doctor`.
//!
//! A check is a row of one of the [`TABLES`]. It gets [`Facts`], which [`Facts::gather`] has read,
//! and decides without looking at the machine again. To add one, write a row and run the tests with
//! `UPDATE_EXPECT=1`: `docs/security-checks.md` then shows it.

mod accounts;
mod agent;
mod boot;
pub mod document;
mod engine;
mod exposure;
pub mod facts;
mod files;
mod kernel;
mod mounts;
pub mod parse;
mod permissions;
mod ssh;
mod sysctl;
mod upkeep;
mod workloads;

use serde::Serialize;
use tombolo_model::phrase::first_few;

pub use facts::{Ask, Facts};
pub use workloads::Confinement;

/// A rule that a machine keeps or breaks.
#[derive(Clone, Copy, Debug)]
pub struct Check {
    /// Never given to another check, so that a note about it stays true.
    pub id: &'static str,
    pub title: &'static str,
    /// What could happen otherwise.
    pub why: &'static str,
    /// What to do about it.
    pub mend: &'static str,
    /// How much it counts in the score, from 1 to 10.
    pub weight: u8,
    pub check: fn(&Facts) -> Outcome,
}

/// Checks of one area.
#[derive(Clone, Copy, Debug)]
pub struct Table {
    pub title: &'static str,
    pub checks: &'static [Check],
}

/// All checks, in the order in which people read them.
pub const TABLES: &[Table] = &[
    Table { title: "Remote login", checks: ssh::CHECKS },
    Table { title: "Accounts and passwords", checks: accounts::CHECKS },
    Table { title: "Who may become root", checks: accounts::SUDO_CHECKS },
    Table { title: "Permissions of files", checks: files::CHECKS },
    Table { title: "Kernel", checks: kernel::CHECKS },
    Table { title: "Network settings", checks: kernel::NETWORK_CHECKS },
    Table { title: "Mounted file systems", checks: mounts::CHECKS },
    Table { title: "Firewall and open ports", checks: exposure::CHECKS },
    Table { title: "Updates", checks: upkeep::UPDATE_CHECKS },
    Table { title: "Time and logs", checks: upkeep::CHECKS },
    Table { title: "Boot and disks", checks: boot::CHECKS },
    Table { title: "Docker", checks: engine::CHECKS },
    Table { title: "Tombolo's own files", checks: agent::CHECKS },
    Table { title: "Workloads", checks: workloads::CHECKS },
];

/// What a check came to, and what it saw.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Outcome {
    pub verdict: Verdict,
    pub found: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Verdict {
    Pass,
    Fail,
    /// The machine has nothing that the rule is about.
    NotApplicable,
    /// What the rule is about may not be looked at.
    Unknown,
}

impl Verdict {
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Pass => "pass",
            Verdict::Fail => "FAIL",
            Verdict::NotApplicable => "n/a",
            Verdict::Unknown => "unknown",
        }
    }
}

impl Outcome {
    fn pass(found: impl Into<String>) -> Outcome {
        Outcome { verdict: Verdict::Pass, found: found.into() }
    }

    fn fail(found: impl Into<String>) -> Outcome {
        Outcome { verdict: Verdict::Fail, found: found.into() }
    }

    fn not_applicable(found: impl Into<String>) -> Outcome {
        Outcome { verdict: Verdict::NotApplicable, found: found.into() }
    }

    fn unknown(found: impl Into<String>) -> Outcome {
        Outcome { verdict: Verdict::Unknown, found: found.into() }
    }

    /// Fails with the problems, or passes if there are none.
    fn of_problems(problems: &[String], fine: impl Into<String>) -> Outcome {
        match problems {
            [] => Outcome::pass(fine),
            problems => Outcome::fail(listed(problems)),
        }
    }
}

/// One line of a report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    pub id: &'static str,
    pub area: &'static str,
    pub title: &'static str,
    #[serde(flatten)]
    pub outcome: Outcome,
    pub weight: u8,
    pub why: &'static str,
    pub mend: &'static str,
}

/// All checks of one machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    pub score: u8,
    pub rows: Vec<Row>,
}

/// Runs every check.
pub fn judge(facts: &Facts) -> Report {
    let mut rows = Vec::new();
    for table in TABLES {
        rows.extend(table.checks.iter().map(|check| Row {
            id: check.id,
            area: table.title,
            title: check.title,
            outcome: (check.check)(facts),
            weight: check.weight,
            why: check.why,
            mend: check.mend,
        }));
    }
    Report { score: score(&rows), rows }
}

/// The weight of what passed in a hundred parts of all that applies, rounded down: only a machine
/// without a fault has 100. What is unknown counts as not passed, so that nobody gains by hiding
/// something from the agent.
fn score(rows: &[Row]) -> u8 {
    let sum = |wanted: &[Verdict]| -> u32 {
        let counted = rows.iter().filter(|row| wanted.contains(&row.outcome.verdict));
        counted.map(|row| u32::from(row.weight)).sum()
    };
    let applicable = sum(&[Verdict::Pass, Verdict::Fail, Verdict::Unknown]);
    let hundredths = (sum(&[Verdict::Pass]) * 100).checked_div(applicable).unwrap_or(0);
    u8::try_from(hundredths).unwrap_or(100)
}

/// The first few of many, so that a message stays readable.
fn listed(items: &[String]) -> String {
    const SHOWN_MAX: usize = 4;
    first_few(items, SHOWN_MAX)
}

#[cfg(test)]
mod tests;
