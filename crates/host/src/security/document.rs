//! The checks as a page for people: `docs/security-checks.md`. A test holds the two together.

use std::fmt::Write as _;

use super::TABLES;

const HEAD: &str = "\
# How safely a machine is set up

This page is written from the tables below `crates/host/src/security`; do not edit it by hand.
`UPDATE_EXPECT=1 cargo test -p tombolo-host` writes it anew.

The agent looks at its machine, and `tombolo agent doctor` prints what it saw. It only reads files: no
command is run, nothing is changed, nobody is asked over the network.

Each check passes, fails, does not apply (there is no ssh server), or is unknown (the agent may not
look; most of these go away when it runs as root). The score is the weight of what passed in a hundred
parts of the weight of all that applies, rounded down. **What is unknown counts as not passed**, so that
a machine gains nothing by hiding something. The score stands on the Node as `status.securityScore`, and
a component can ask for it with `needs.security`.
";

const COLUMNS: &str = "\
| id | what must hold | why | how to mend it | weight |
|---|---|---|---|---|";

/// The whole page.
pub fn render() -> String {
    let mut page = HEAD.to_owned();
    let checks = TABLES.iter().map(|table| table.checks.len()).sum::<usize>();
    writeln!(page, "\nThere are {checks} checks.").expect("writing to a String cannot fail");
    for table in TABLES {
        writeln!(page, "\n## {}\n\n{COLUMNS}", table.title)
            .expect("writing to a String cannot fail");
        for check in table.checks {
            writeln!(
                page,
                "| {} | {} | {} | {} | {} |",
                check.id, check.title, check.why, check.mend, check.weight
            )
            .expect("writing to a String cannot fail");
        }
    }
    page
}
