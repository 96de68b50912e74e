//! Checks of accounts, passwords and sudo.

use std::collections::{BTreeMap, BTreeSet};

use super::facts::Facts;
use super::parse::{self, Account, PasswordKind};
use super::permissions::{OTHERS_WRITE, Owner, tight};
use super::{Check, Outcome, listed};
use crate::root::Seen;

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "TMB-ACC-001",
        title: "only root is root",
        why: "A second account with number 0 is root under another name, and nobody watches it.",
        mend: "Give the account a number of its own, or remove it.",
        weight: 9,
        check: |facts| {
            accounts(facts, |accounts| {
                let zero =
                    accounts.iter().filter(|account| account.user == 0 && account.name != "root");
                problems(zero.map(|account| account.name.clone()), "root alone has number 0")
            })
        },
    },
    Check {
        id: "TMB-ACC-002",
        title: "every account has a password or is locked",
        why: "An account without a password is open to whoever sits before the machine, and to \
              more if a service allows it.",
        mend: "`passwd NAME` to give it one, or `passwd -l NAME` to lock it.",
        weight: 9,
        check: |facts| passwords(facts, PasswordKind::Empty, "none is empty"),
    },
    Check {
        id: "TMB-ACC-003",
        title: "passwords are kept in a form that is slow to guess",
        why: "Whoever gets hold of the hashes finds passwords in old forms within minutes.",
        mend: "Let the user of the account set the password anew with `passwd`.",
        weight: 5,
        check: |facts| passwords(facts, PasswordKind::Weak, "all are of a slow form or locked"),
    },
    Check {
        id: "TMB-ACC-004",
        title: "new passwords get a form that is slow to guess",
        why: "The next password that is set would be easy to guess from its hash.",
        mend: "Set `ENCRYPT_METHOD YESCRYPT` (or `SHA512`) in /etc/login.defs.",
        weight: 3,
        check: |facts| {
            login_defs(facts, |text| {
                match parse::field(text, "ENCRYPT_METHOD").map(|method| method.to_uppercase()) {
                    Some(method)
                        if ["YESCRYPT", "SHA512", "SHA256", "BCRYPT"]
                            .contains(&method.as_str()) =>
                    {
                        Outcome::pass(format!("ENCRYPT_METHOD {method}"))
                    }
                    Some(method) => Outcome::fail(format!("ENCRYPT_METHOD {method}")),
                    None => Outcome::fail("ENCRYPT_METHOD is not set"),
                }
            })
        },
    },
    Check {
        id: "TMB-ACC-005",
        title: "weak passwords are refused",
        why: "People choose what they can remember, and so can guessers.",
        mend: "Install pam_pwquality or pam_passwdqc and require it in /etc/pam.d.",
        weight: 3,
        check: |facts| {
            pam(facts, &["pam_pwquality", "pam_passwdqc"], "no module judges new passwords")
        },
    },
    Check {
        id: "TMB-ACC-006",
        title: "an account locks after many wrong passwords",
        why: "Without a lock, a guesser has all the time in the world.",
        mend: "Require pam_faillock in /etc/pam.d.",
        weight: 3,
        check: |facts| {
            pam(facts, &["pam_faillock", "pam_tally2"], "no module counts wrong passwords")
        },
    },
    Check {
        id: "TMB-ACC-007",
        title: "nobody can log in as a service",
        why: "Accounts of services are for programs; a shell turns a hole in one of them into a \
              login.",
        mend: "`usermod -s /usr/sbin/nologin NAME`.",
        weight: 4,
        check: |facts| {
            accounts(facts, |accounts| {
                let services = accounts.iter().filter(|account| (1..1000).contains(&account.user));
                let open = services.filter(|account| account.can_log_in());
                problems(
                    open.map(|account| format!("{} has {}", account.name, account.shell)),
                    "no service has a shell",
                )
            })
        },
    },
    Check {
        id: "TMB-ACC-008",
        title: "every account has a name and a number of its own",
        why: "Two accounts with one number share all files, and no log tells them apart.",
        mend: "Give one of them another number, and its files to it.",
        weight: 4,
        check: |facts| {
            accounts(facts, |accounts| problems(shared(accounts).into_iter(), "all differ"))
        },
    },
    Check {
        id: "TMB-ACC-009",
        title: "new files are not readable by everyone",
        why: "What people and services write is otherwise open to every other account.",
        mend: "Set `UMASK 027` in /etc/login.defs.",
        weight: 2,
        check: |facts| login_defs(facts, umask),
    },
];

pub(super) const SUDO_CHECKS: &[Check] = &[
    Check {
        id: "TMB-SUDO-001",
        title: "nobody becomes root without showing who they are",
        why: "Whoever takes over such a session has the whole machine at once.",
        mend: "Remove `NOPASSWD: ALL` and `!authenticate` from the sudoers files; name single \
               commands where a program needs them.",
        weight: 6,
        check: |facts| {
            sudoers(facts, |lines| {
                let free = lines.iter().filter(|line| {
                    let line = line.replace(' ', "");
                    line.contains("NOPASSWD:ALL") || line.contains("!authenticate")
                });
                problems(free.cloned(), "everyone is asked")
            })
        },
    },
    Check {
        id: "TMB-SUDO-002",
        title: "commands run as root have a terminal of their own",
        why: "Otherwise a program that was run as root for a moment can go on typing into the \
              user's terminal.",
        mend: "Add `Defaults use_pty` to /etc/sudoers.",
        weight: 2,
        check: |facts| {
            sudoers(facts, |lines| {
                let set = lines
                    .iter()
                    .any(|line| line.starts_with("Defaults") && line.contains("use_pty"));
                if set {
                    Outcome::pass("use_pty is set")
                } else {
                    Outcome::fail("use_pty is not set")
                }
            })
        },
    },
    Check {
        id: "TMB-SUDO-003",
        title: "only root can change who may become root",
        why: "Whoever can write these files is root.",
        mend: "`chown root:root` and `chmod 440` /etc/sudoers and what is in /etc/sudoers.d.",
        weight: 7,
        check: |facts| {
            let fixed = ["/etc/sudoers", "/etc/sudoers.d"];
            let fixed = fixed.iter().map(|path| (*path, facts.entry(path)));
            let more = facts.sudoers_files.iter().map(|(path, entry)| (path.as_str(), *entry));
            tight(fixed.chain(more), OTHERS_WRITE, Owner::Root)
        },
    },
];

fn problems(found: impl Iterator<Item = String>, fine: &str) -> Outcome {
    Outcome::of_problems(&found.collect::<Vec<_>>(), fine)
}

fn accounts(facts: &Facts, judge: impl FnOnce(&[Account]) -> Outcome) -> Outcome {
    match facts.accounts.as_ref() {
        Seen::Present(accounts) => judge(accounts),
        Seen::Absent => Outcome::not_applicable("there are no accounts"),
        Seen::Unreadable => Outcome::unknown("cannot read /etc/passwd"),
    }
}

fn passwords(facts: &Facts, bad: PasswordKind, fine: &str) -> Outcome {
    match facts.passwords.as_ref() {
        Seen::Present(passwords) => {
            let found = passwords.iter().filter(|password| password.kind == bad);
            problems(found.map(|password| password.name.clone()), fine)
        }
        Seen::Absent => Outcome::not_applicable("there is no /etc/shadow"),
        Seen::Unreadable => Outcome::unknown("cannot read /etc/shadow: the agent is not root"),
    }
}

fn login_defs(facts: &Facts, judge: impl FnOnce(&str) -> Outcome) -> Outcome {
    match facts.text("/etc/login.defs") {
        Seen::Present(text) => judge(text),
        Seen::Absent => Outcome::not_applicable("there is no /etc/login.defs"),
        Seen::Unreadable => Outcome::unknown("cannot read /etc/login.defs"),
    }
}

fn umask(text: &str) -> Outcome {
    let Some(mask) = parse::field(text, "UMASK") else {
        return Outcome::fail("UMASK is not set");
    };
    match u32::from_str_radix(&mask, 8) {
        Ok(bits) if bits & 0o007 == 0o007 && bits & 0o020 != 0 => {
            Outcome::pass(format!("UMASK {mask}"))
        }
        Ok(_) | Err(_) => Outcome::fail(format!("UMASK {mask}")),
    }
}

fn pam(facts: &Facts, modules: &[&str], missing: &str) -> Outcome {
    if facts.container {
        return Outcome::not_applicable("nobody logs in to a container");
    }
    let text = match facts.pam.as_ref() {
        Seen::Present(text) => text,
        Seen::Absent => return Outcome::not_applicable("there is no PAM"),
        Seen::Unreadable => return Outcome::unknown("cannot read /etc/pam.d"),
    };
    let mut active = text.lines().map(str::trim).filter(|line| !line.starts_with('#'));
    let found = active.find_map(|line| modules.iter().find(|module| line.contains(**module)));
    match found {
        Some(module) => Outcome::pass(*module),
        None => Outcome::fail(missing),
    }
}

fn sudoers(facts: &Facts, judge: impl FnOnce(&[String]) -> Outcome) -> Outcome {
    match facts.sudoers.as_ref() {
        Seen::Present(lines) => judge(lines),
        Seen::Absent => Outcome::not_applicable("there is no sudo"),
        Seen::Unreadable => {
            Outcome::unknown("cannot read the sudoers files: the agent is not root")
        }
    }
}

/// Names and numbers that more than one account has; root's number has its own check.
fn shared(accounts: &[Account]) -> Vec<String> {
    let mut names: BTreeMap<&str, u32> = BTreeMap::new();
    let mut numbers: BTreeMap<u32, BTreeSet<&str>> = BTreeMap::new();
    for account in accounts {
        *names.entry(&account.name).or_default() += 1;
        numbers.entry(account.user).or_default().insert(&account.name);
    }
    let names = names
        .into_iter()
        .filter(|(_, count)| *count > 1)
        .map(|(name, _)| format!("{name} is there twice"));
    let numbers = numbers.into_iter().filter(|(number, names)| *number != 0 && names.len() > 1);
    let numbers = numbers.map(|(number, names)| {
        let names: Vec<String> = names.into_iter().map(str::to_owned).collect();
        format!("{} share number {number}", listed(&names))
    });
    names.chain(numbers).collect()
}
