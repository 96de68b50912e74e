//! Checks of what Tombolo itself keeps on the machine.

use super::permissions::{OTHERS_ANY, OTHERS_LIST, OTHERS_WRITE, Owner, tight};
use super::{Check, Outcome};

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "TMB-AGT-001",
        title: "others neither list nor change the agent's data folder",
        why: "Its key is there: with it anyone could speak for this machine.",
        mend: "`chmod 711` the folder named, or 700 where no process runs as another user.",
        weight: 8,
        check: |facts| match &facts.data {
            Some((path, entry)) => {
                tight(std::iter::once((path.as_str(), *entry)), OTHERS_LIST, Owner::Anyone)
            }
            None => Outcome::not_applicable("no agent has a data folder here"),
        },
    },
    Check {
        id: "TMB-AGT-002",
        title: "keys and tokens of the agent are for the agent alone",
        why: "The folder may be opened by mistake; the secrets in it must hold on their own.",
        mend: "`chmod 600` the file named.",
        weight: 8,
        check: |facts| {
            let secrets = facts.own_secrets.iter().map(|(path, entry)| (path.as_str(), *entry));
            tight(secrets, OTHERS_ANY, Owner::Anyone)
        },
    },
    Check {
        id: "TMB-AGT-003",
        title: "nobody else can exchange the agent's program",
        why: "It runs with the agent's rights at the next start.",
        mend: "`chmod go-w` the file named.",
        weight: 6,
        check: |facts| match &facts.program {
            Some((path, entry)) => {
                tight(std::iter::once((path.as_str(), *entry)), OTHERS_WRITE, Owner::Anyone)
            }
            None => Outcome::not_applicable("the program is not known"),
        },
    },
];
