//! A silent machine or a silent link: nodes of one site are asked whether they still reach a sibling
//! that we no longer hear. The question is put on the Lease of those who are alive, where their
//! agents find it in the answer to their next heartbeat; what they found comes with the one after.
//! So it costs no message of its own, and nothing at all while nobody is silent.

use std::collections::BTreeMap;

use super::{Ask, Kind, Lease, Observed, Subject, Voice, Why};

/// So many siblings are asked: one alone may be cut off as well.
const WITNESSES_MAX: usize = 2;
/// So many silent nodes are asked about at once; an annotation is no place for more.
const ASKED_MAX: usize = 16;

/// The nodes of one site.
#[derive(Default)]
pub(super) struct Circle<'a> {
    /// Those who can be asked, by name.
    witnesses: Vec<(&'a str, &'a Lease)>,
    /// Others whose Lease may still carry a question.
    rest: Vec<(&'a str, &'a Lease)>,
    /// Whom nobody hears, and where they were reached.
    silent: Vec<(&'a str, &'a str)>,
}

pub(super) fn circles<'a>(
    observed: &'a Observed,
    own: &BTreeMap<&Subject, Option<Why>>,
) -> BTreeMap<&'a str, Circle<'a>> {
    let mut circles: BTreeMap<&str, Circle<'_>> = BTreeMap::new();
    for (subject, member) in observed {
        // The machines of a site with one agent for all have nobody on them who could be asked.
        let (Kind::Node, Some(site), Voice::Own) = (subject.kind, &member.site, &member.voice)
        else {
            continue;
        };
        let circle = circles.entry(site).or_default();
        let name = subject.name.as_str();
        let lost = matches!(own[subject], Some(Why::HeartbeatLost { .. }));
        match (&member.address, &member.lease) {
            (Some(address), _) if lost && is_plain(name) && is_plain(address) => {
                if circle.silent.len() < ASKED_MAX {
                    circle.silent.push((name, address));
                }
            }
            (_, Some(lease)) if own[subject].as_ref().is_none_or(Why::ready) => {
                match circle.witnesses.len() < WITNESSES_MAX && member.ready == Some(true) {
                    true => circle.witnesses.push((name, lease)),
                    false => circle.rest.push((name, lease)),
                }
            }
            (Some(_) | None, Some(_) | None) => (),
        }
    }
    circles
}

impl Circle<'_> {
    /// Questions that are to be put, changed or taken back.
    pub(super) fn asks(&self) -> Vec<Ask> {
        let silent = self.silent.iter().map(|(name, address)| format!("{name}={address}"));
        let silent = silent.collect::<Vec<_>>().join(",");
        let probe = Some(silent).filter(|silent| !silent.is_empty());
        let mut asks = Vec::new();
        let witnesses = self.witnesses.iter().map(|(name, lease)| (name, lease, probe.clone()));
        let rest = self.rest.iter().map(|(name, lease)| (name, lease, None));
        for (name, lease, probe) in witnesses.chain(rest) {
            if lease.probe != probe {
                asks.push(Ask { node: (*name).to_owned(), probe });
            }
        }
        asks
    }

    /// What the siblings say about a silent node; `why` as it was if they have not said yet.
    pub(super) fn refine(&self, name: &str, why: Why) -> Why {
        let Why::HeartbeatLost { silent, .. } = why else { return why };
        let asked = |lease: &Lease| probes(lease).any(|(asked, _)| asked == name);
        let asked: Vec<&(&str, &Lease)> =
            self.witnesses.iter().filter(|(_, lease)| asked(lease)).collect();
        let answer = |lease: &Lease| lease.answers.get(name).copied();
        if let Some((sibling, _)) = asked.iter().find(|(_, lease)| answer(lease) == Some(true)) {
            return Why::LinkSilent { silent, sibling: (*sibling).to_owned() };
        }
        match asked.first() {
            Some((sibling, _)) if asked.iter().all(|(_, lease)| answer(lease).is_some()) => {
                Why::NodeSilent { silent, sibling: (*sibling).to_owned() }
            }
            Some(_) | None => why,
        }
    }
}

/// `node=address` of those that a Lease asks about.
fn probes(lease: &Lease) -> impl Iterator<Item = (&str, &str)> {
    lease.probe.iter().flat_map(|text| text.split(',')).filter_map(|one| one.split_once('='))
}

/// Whether it can stand in a question.
fn is_plain(text: &str) -> bool {
    !text.is_empty() && !text.contains([',', '='])
}
