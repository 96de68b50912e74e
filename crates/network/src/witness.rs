//! Who lies about the delay to a peer. A delay there and back is the same for both ends, so that two honest ends
//! agree; an end that does not agree with most of its peers is the one that is wrong. Called by the controller with
//! what the agents report; start at [`judge`].
//!
//! Between two that contradict only each other nobody can say who is right, and nothing is claimed.

use std::collections::BTreeMap;

use crate::figure::{Figure, Kind};

/// Spreads that two figures may lie apart. Three of each: one honest pair in a thousand, if noise is as bad as it
/// looks.
const SPREADS: f64 = 3.0;
/// Differences below this are nobody's lie: two ends measure at different moments, and machines are busy. In
/// milliseconds.
const ALLOWANCE_MS: f64 = 1.0;
/// The same as a share of the larger figure.
const ALLOWANCE: f64 = 0.1;
/// Fewer samples prove nothing.
const SAMPLES_LEAST: u32 = 5;

/// Delays there and back in milliseconds, by who reports and about whom.
pub type Reports = BTreeMap<(String, String), Figure>;

/// What the reports say of those who wrote them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Verdict {
    /// Who contradicts most of its peers.
    pub liars: Vec<Liar>,
    /// Pairs that contradict each other, with neither of them a liar by others.
    pub disputes: Vec<Dispute>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Liar {
    pub name: String,
    /// Whose figures it contradicts.
    pub contradicts: Vec<String>,
    /// How many peers it could be compared with.
    pub compared: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Dispute {
    pub one: String,
    pub says: f64,
    pub other: String,
    pub replies: f64,
}

/// Whether two ends of a pair contradict each other.
pub fn contradict(one: &Figure, other: &Figure) -> bool {
    let tells = |figure: &Figure| figure.kind == Kind::Measured && figure.samples >= SAMPLES_LEAST;
    if !tells(one) || !tells(other) {
        return false;
    }
    let allowance = ALLOWANCE_MS.max(ALLOWANCE * one.value.max(other.value));
    (one.value - other.value).abs() > SPREADS * (one.spread + other.spread) + allowance
}

/// Compares every figure with that of the other end, and takes those for liars who contradict most, until what is
/// left agrees or cannot be decided.
pub fn judge(reports: &Reports) -> Verdict {
    let mut pairs: BTreeMap<(&str, &str), bool> = BTreeMap::new();
    for ((from, about), figure) in reports {
        let back = reports.get(&(about.clone(), from.clone()));
        if let (true, Some(back)) = (from < about, back) {
            pairs.insert((from, about), contradict(figure, back));
        }
    }
    let mut verdict = Verdict::default();
    while let Some(liar) = worst(&pairs) {
        pairs.retain(|(one, other), _| *one != liar.name && *other != liar.name);
        verdict.liars.push(liar);
    }
    for ((one, other), _) in pairs.iter().filter(|(_, contradict)| **contradict) {
        let value = |from: &str, about: &str| {
            reports.get(&(from.to_owned(), about.to_owned())).map_or(0.0, |figure| figure.value)
        };
        verdict.disputes.push(Dispute {
            one: (*one).to_owned(),
            says: value(one, other),
            other: (*other).to_owned(),
            replies: value(other, one),
        });
    }
    verdict.liars.sort_by(|a, b| a.name.cmp(&b.name));
    verdict
}

/// Who contradicts at least two peers, most of those it can be compared with, and more of them than anybody else.
fn worst(pairs: &BTreeMap<(&str, &str), bool>) -> Option<Liar> {
    let mut by_name: BTreeMap<&str, (Vec<String>, usize)> = BTreeMap::new();
    for ((one, other), contradict) in pairs {
        for (name, peer) in [(one, other), (other, one)] {
            let (contradicts, compared) = by_name.entry(name).or_default();
            *compared += 1;
            if *contradict {
                contradicts.push((*peer).to_owned());
            }
        }
    }
    let most = by_name.values().map(|(contradicts, _)| contradicts.len()).max().unwrap_or(0);
    let mut worst = by_name.into_iter().filter(|(_, (contradicts, compared))| {
        contradicts.len() == most && most >= 2 && contradicts.len() * 2 > *compared
    });
    let (name, (contradicts, compared)) = worst.next()?;
    // Of two that are equally bad, neither is named.
    match worst.next() {
        Some(_) => None,
        None => Some(Liar { name: name.to_owned(), contradicts, compared }),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    fn figure(value: f64) -> Figure {
        let age = Duration::ZERO;
        Figure { value, kind: Kind::Measured, age, spread: 0.5, samples: 20 }
    }

    /// Everybody reports 20 ms about everybody, but for who says something else of all.
    fn reports(names: &[&str], says: impl Fn(&str, &str) -> f64) -> Reports {
        let pairs = names.iter().flat_map(|from| names.iter().map(move |about| (*from, *about)));
        pairs
            .filter(|(from, about)| from != about)
            .map(|(from, about)| ((from.to_owned(), about.to_owned()), figure(says(from, about))))
            .collect()
    }

    #[test]
    fn who_contradicts_everybody_is_the_liar_and_nobody_else() {
        let says = |from: &str, _: &str| if from == "c" { 2.0 } else { 20.0 };
        let verdict = judge(&reports(&["a", "b", "c", "d"], says));
        let contradicts = ["a", "b", "d"].map(str::to_owned).to_vec();
        assert_eq!(verdict.liars, [Liar { name: "c".to_owned(), contradicts, compared: 3 }]);
        assert!(verdict.disputes.is_empty());
    }

    #[test]
    fn two_that_contradict_each_other_are_a_dispute() {
        let says = |from: &str, _: &str| if from == "a" { 40.0 } else { 20.0 };
        let verdict = judge(&reports(&["a", "b"], says));
        assert!(verdict.liars.is_empty());
        assert_eq!(verdict.disputes.len(), 1);
        assert_eq!((verdict.disputes[0].says, verdict.disputes[0].replies), (40.0, 20.0));
    }

    #[test]
    fn noise_estimates_and_a_few_samples_are_no_lies() {
        assert!(!contradict(&figure(20.0), &figure(22.9)));
        assert!(contradict(&figure(20.0), &figure(26.0)));
        let estimate = Figure { kind: Kind::Estimated, ..figure(200.0) };
        assert!(!contradict(&figure(20.0), &estimate));
        assert!(!contradict(&figure(20.0), &Figure { samples: 4, ..figure(200.0) }));
    }

    proptest! {
        #[test]
        fn the_honest_are_never_called_liars(noise in proptest::collection::vec(-1.0..1.0f64, 20)) {
            let names = ["a", "b", "c", "d", "e"];
            let mut noise = noise.into_iter();
            let mut reports = reports(&names, |_, _| 20.0);
            for figure in reports.values_mut() {
                figure.value += noise.next().unwrap_or(0.0);
            }
            prop_assert_eq!(judge(&reports), Verdict::default());
        }

        #[test]
        fn one_liar_among_five_is_found_whatever_it_says(offset in 8.0..500.0f64, liar in 0..5usize) {
            let names = ["a", "b", "c", "d", "e"];
            let says = |from: &str, _: &str| if from == names[liar] { 20.0 + offset } else { 20.0 };
            let verdict = judge(&reports(&names, says));
            prop_assert_eq!(verdict.liars.len(), 1);
            prop_assert_eq!(verdict.liars[0].name.as_str(), names[liar]);
        }
    }
}
