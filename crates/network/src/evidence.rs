//! What is dead: a link, a node or an agent. A lease that is not renewed says only that something is; probes of the
//! neighbours say what. Called by the controller; start at [`diagnose`].
//!
//! A system that answers "nobody listens there" is alive without its agent. One from which several witnesses at
//! several places hear nothing is dead, or cut off from all of them. One witness alone cannot tell a dead node from a
//! dead link, and no verdict claims so.

use std::collections::BTreeMap;

/// What a probe of one node by another brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Echo {
    /// Its reflector answered.
    Answered,
    /// Its system said that nobody listens.
    Refused,
    Silent,
}

/// One who probed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Witness {
    pub name: String,
    pub site: String,
    /// Whether the controller hears of this witness, so that what it says is of now.
    pub is_heard: bool,
    pub echo: Echo,
}

/// What is known of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    pub site: String,
    /// Whether its agent renews its lease.
    pub is_heard: bool,
    pub witnesses: Vec<Witness>,
}

/// What is the matter with a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    Alive,
    /// Its agent runs and answers its neighbours, but does not reach the controller.
    CutOff,
    DeadAgent,
    DeadNode,
    /// All links to its site are, or everything in it is: from outside both look the same.
    SiteUnreachable,
    /// Too few witnesses to say whether the node or a link is dead.
    Undecided,
}

/// A state with what speaks for it, in sentences for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnosis {
    pub state: State,
    pub evidence: Vec<String>,
}

/// A pair of nodes that are alive and do not reach each other.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeadLink {
    pub from: String,
    pub to: String,
    pub evidence: String,
}

/// What is the matter with each node, and which links are dead.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    pub nodes: BTreeMap<String, Diagnosis>,
    pub links: Vec<DeadLink>,
}

/// Judges all nodes by all evidence.
pub fn diagnose(cases: &BTreeMap<String, Case>) -> Findings {
    let mut findings = Findings::default();
    for (name, case) in cases {
        findings.nodes.insert(name.clone(), diagnosis(case));
    }
    // A link is dead if one end hears nothing of the other, and the other is alive by somebody else's word.
    for (name, case) in cases {
        let state = findings.nodes[name].state;
        if !matches!(state, State::Alive | State::CutOff | State::DeadAgent) {
            continue;
        }
        let silent = heard(case).filter(|witness| witness.echo == Echo::Silent);
        findings.links.extend(silent.map(|witness| DeadLink {
            from: witness.name.clone(),
            to: name.clone(),
            evidence: format!(
                "{} hears nothing of {name}, and {name} is alive: {}",
                witness.name,
                findings.nodes[name].evidence.join(", "),
            ),
        }));
    }
    findings.links.sort();
    findings
}

/// What those say who are heard themselves: the word of a silent one is old.
fn heard(case: &Case) -> impl Iterator<Item = &Witness> {
    case.witnesses.iter().filter(|witness| witness.is_heard)
}

fn diagnosis(case: &Case) -> Diagnosis {
    let names = |echo: Echo| -> Vec<&str> {
        let same = heard(case).filter(|witness| witness.echo == echo);
        same.map(|witness| witness.name.as_str()).collect()
    };
    let (answered, refused, silent) =
        (names(Echo::Answered), names(Echo::Refused), names(Echo::Silent));
    let mut evidence = vec![match case.is_heard {
        true => "it renews its lease".to_owned(),
        false => "it does not renew its lease".to_owned(),
    }];
    for (names, what) in [
        (&answered, "its reflector answers"),
        (&refused, "its system says that no agent listens to"),
        (&silent, "nothing comes back to"),
    ] {
        if !names.is_empty() {
            evidence.push(format!("{what} {}", names.join(" and ")));
        }
    }
    let state = match (case.is_heard, answered.is_empty(), refused.is_empty()) {
        (true, _, _) => State::Alive,
        (false, false, _) => State::CutOff,
        (false, true, false) => State::DeadAgent,
        (false, true, true) => silence(case),
    };
    Diagnosis { state, evidence }
}

/// Of a node of which nobody hears anything.
fn silence(case: &Case) -> State {
    let near = heard(case).filter(|witness| witness.site == case.site).count();
    let mut far: Vec<&str> = heard(case)
        .filter(|witness| witness.site != case.site)
        .map(|witness| witness.site.as_str())
        .collect();
    far.sort_unstable();
    far.dedup();
    match (near, far.len()) {
        // A neighbour at the same site does not need the links of the site.
        (1.., 1..) | (2.., 0) => State::DeadNode,
        (0, 2..) => State::SiteUnreachable,
        (0, 0 | 1) | (1, 0) => State::Undecided,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(is_heard: bool, witnesses: &[(&str, &str, Echo)]) -> Case {
        let witness = |(name, site, echo): &(&str, &str, Echo)| Witness {
            name: (*name).to_owned(),
            site: (*site).to_owned(),
            is_heard: true,
            echo: *echo,
        };
        let site = "edge".to_owned();
        Case { site, is_heard, witnesses: witnesses.iter().map(witness).collect() }
    }

    #[track_caller]
    fn check(is_heard: bool, witnesses: &[(&str, &str, Echo)], expected: State) {
        assert_eq!(diagnosis(&case(is_heard, witnesses)).state, expected);
    }

    use Echo::{Answered, Refused, Silent};

    #[test]
    fn a_dead_agent_is_told_from_a_dead_node() {
        check(false, &[("n2", "edge", Refused), ("c", "cloud", Silent)], State::DeadAgent);
        check(false, &[("n2", "edge", Silent), ("c", "cloud", Silent)], State::DeadNode);
        check(false, &[("n2", "edge", Silent), ("n3", "edge", Silent)], State::DeadNode);
    }

    #[test]
    fn who_still_answers_its_neighbours_is_only_cut_off() {
        check(false, &[("n2", "edge", Answered), ("c", "cloud", Silent)], State::CutOff);
    }

    #[test]
    fn one_witness_alone_decides_nothing() {
        check(false, &[("n2", "edge", Silent)], State::Undecided);
        check(false, &[("c", "cloud", Silent), ("d", "cloud", Silent)], State::Undecided);
        check(false, &[], State::Undecided);
        let outside = [("c", "cloud", Silent), ("d", "fog", Silent)];
        check(false, &outside, State::SiteUnreachable);
    }

    #[test]
    fn the_word_of_a_witness_that_is_silent_itself_is_old() {
        let mut case = case(false, &[("n2", "edge", Answered), ("c", "cloud", Silent)]);
        case.witnesses[0].is_heard = false;
        assert_eq!(diagnosis(&case).state, State::Undecided);
    }

    #[test]
    fn a_link_is_dead_if_both_ends_live_and_one_hears_nothing_of_the_other() {
        let mut cases = BTreeMap::new();
        let seen = [("c", "cloud", Silent), ("n2", "edge", Answered)];
        cases.insert("n1".to_owned(), case(true, &seen));
        cases.insert(
            "gone".to_owned(),
            case(false, &[("c", "cloud", Silent), ("n2", "edge", Silent)]),
        );
        let findings = diagnose(&cases);
        assert_eq!(findings.nodes["gone"].state, State::DeadNode);
        let links: Vec<_> = findings.links.iter().map(|link| (&*link.from, &*link.to)).collect();
        assert_eq!(links, [("c", "n1")]);
        let says = "c hears nothing of n1, and n1 is alive: it renews its lease, its reflector answers n2, \
                    nothing comes back to c";
        assert_eq!(findings.links[0].evidence, says);
    }
}
