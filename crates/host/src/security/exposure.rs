//! Checks of the firewall and of who listens.

use super::facts::Facts;
use super::{Check, Outcome, listed};
use crate::root::Seen;
use crate::system::parse_assignments;

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "TMB-FW-001",
        title: "a firewall is set up",
        why: "What was left listening by accident is then still not reached.",
        mend: "Enable nftables, ufw or firewalld. The agent itself needs no open port.",
        weight: 6,
        check: |facts| match firewall(facts) {
            Found::None => {
                Outcome::fail("none of nftables, ufw, firewalld and iptables is enabled")
            }
            Found::Some { name, .. } => Outcome::pass(name),
            Found::Beside(why) => Outcome::not_applicable(why),
            Found::Hidden => Outcome::unknown("cannot see what is started"),
        },
    },
    Check {
        id: "TMB-FW-002",
        title: "the firewall lets in only what is named",
        why: "A list of what is forbidden always lacks the next thing.",
        mend: "Make the default for incoming traffic deny: `ufw default deny`, or `policy drop` in \
               the input chain.",
        weight: 4,
        check: |facts| match firewall(facts) {
            Found::None => Outcome::not_applicable("there is no firewall"),
            Found::Some { name, denies: Some(true) } => {
                Outcome::pass(format!("{name} denies by default"))
            }
            Found::Some { name, denies: Some(false) } => {
                Outcome::fail(format!("{name} allows by default"))
            }
            Found::Some { name, denies: None } => {
                Outcome::unknown(format!("cannot read the rules of {name}"))
            }
            Found::Beside(why) => Outcome::not_applicable(why),
            Found::Hidden => Outcome::unknown("cannot see what is started"),
        },
    },
    Check {
        id: "TMB-LST-001",
        title: "no login over a wire that all can read",
        why: "Telnet, FTP and the r-commands send passwords as they are typed.",
        mend: "Stop and remove the service; use ssh in its place.",
        weight: 8,
        check: |facts| closed(facts, &[21, 23, 512, 513, 514]),
    },
    Check {
        id: "TMB-LST-002",
        title: "no database is open to the network",
        why: "Databases are found within hours and emptied; many ask for no password at all.",
        mend: "Let it listen on 127.0.0.1, or close its port in the firewall.",
        weight: 7,
        check: |facts| {
            closed(facts, &[1433, 1521, 2379, 3306, 5432, 5984, 6379, 9042, 9200, 11211, 27017])
        },
    },
    Check {
        id: "TMB-LST-003",
        title: "no files are shared with the network",
        why: "NFS, SMB and rsync give out files to whoever can reach them, unless each share is \
              guarded.",
        mend: "Stop rpcbind, NFS, Samba or rsyncd if nobody needs them here; else let the firewall \
               name who may.",
        weight: 4,
        check: |facts| closed(facts, &[111, 139, 445, 873, 2049]),
    },
    Check {
        id: "TMB-LST-004",
        title: "no screen is open to the network",
        why: "VNC and X11 show, and often hand over, keyboard and screen without a real login.",
        mend: "Let it listen on 127.0.0.1 and reach it through ssh.",
        weight: 5,
        check: |facts| closed(facts, &[5900, 5901, 5902, 6000, 6001]),
    },
];

/// A firewall, as far as files show: the rules inside the kernel are shown to nobody without a
/// command.
enum Found {
    None,
    Some { name: &'static str, denies: Option<bool> },
    Beside(&'static str),
    Hidden,
}

fn firewall(facts: &Facts) -> Found {
    if facts.container {
        return Found::Beside("the host of a container has the firewall");
    }
    let ufw = facts.text("/etc/ufw/ufw.conf").present().map(parse_assignments);
    if ufw.is_some_and(|ufw| ufw.get("ENABLED").is_some_and(|on| on.eq_ignore_ascii_case("yes"))) {
        let defaults = facts.text("/etc/default/ufw").map(parse_assignments).present();
        let policy = defaults.and_then(|defaults| defaults.get("DEFAULT_INPUT_POLICY").cloned());
        return Found::Some { name: "ufw", denies: policy.map(|policy| policy != "ACCEPT") };
    }
    if facts.service(&["firewalld"]).is_some() {
        let settings = facts.text("/etc/firewalld/firewalld.conf").map(parse_assignments).present();
        let zone = settings.map(|settings| settings.get("DefaultZone").cloned());
        // Every zone but this one refuses what it does not name.
        return Found::Some {
            name: "firewalld",
            denies: zone.map(|zone| zone.as_deref() != Some("trusted")),
        };
    }
    if facts.service(&["nftables"]).is_some() {
        let denies = facts.text("/etc/nftables.conf").map(nftables_denies).present();
        return Found::Some { name: "nftables", denies };
    }
    if facts.service(&["netfilter-persistent", "iptables"]).is_some() {
        let rules = facts.text("/etc/iptables/rules.v4");
        let denies = rules.map(|rules| rules.contains(":INPUT DROP")).present();
        return Found::Some { name: "iptables", denies };
    }
    match facts.services {
        Seen::Present(_) => Found::None,
        Seen::Absent | Seen::Unreadable => Found::Hidden,
    }
}

/// Whether some chain of the input drops what no rule has taken.
fn nftables_denies(text: &str) -> bool {
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
    let joined = lines.collect::<Vec<_>>().join(" ");
    joined
        .split("chain ")
        .any(|chain| chain.contains("hook input") && chain.contains("policy drop"))
}

fn closed(facts: &Facts, ports: &[u16]) -> Outcome {
    let Seen::Present(listening) = facts.listening.as_ref() else {
        return Outcome::unknown("cannot see who listens");
    };
    let mut open: Vec<String> = listening
        .iter()
        .filter(|found| ports.contains(&found.port) && !found.is_for_this_machine_only())
        .map(|found| format!("port {}", found.port))
        .collect();
    open.dedup();
    match open.is_empty() {
        true => Outcome::pass("none is open"),
        false => Outcome::fail(listed(&open)),
    }
}

#[cfg(test)]
mod tests {
    use super::nftables_denies;

    #[test]
    fn only_the_input_chain_decides() {
        let chain = |hook: &str, policy: &str| {
            format!(
                "table inet filter {{\n chain x {{\n type filter hook {hook} priority 0; policy {policy};\n }}\n}}\n"
            )
        };
        assert!(nftables_denies(&chain("input", "drop")));
        assert!(!nftables_denies(&chain("input", "accept")));
        assert!(!nftables_denies(&format!(
            "{}{}",
            chain("input", "accept"),
            chain("forward", "drop")
        )));
        assert!(!nftables_denies("# chain x { type filter hook input; policy drop; }"));
    }
}
