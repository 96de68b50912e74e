//! Who is probed first, and that no budget is ever exceeded.

use proptest::prelude::*;

use super::*;
use crate::figure::Kind;

const fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn peer(link: &str) -> Peer {
    Peer { link: link.to_owned(), is_neighbour: true, ..Peer::default() }
}

fn purses() -> Purses {
    Purses::new([("l1", Metering::Free), ("l2", Metering::Metered)], s(0))
}

fn peers(peers: &[(&str, Peer)]) -> BTreeMap<String, Peer> {
    peers.iter().map(|(name, peer)| ((*name).to_owned(), peer.clone())).collect()
}

fn names(plan: &Plan) -> Vec<&str> {
    plan.probes.iter().map(|probe| probe.peer.as_str()).collect()
}

#[test]
fn what_matters_comes_first_and_what_waited_longest_next() {
    let now = s(1000);
    let peers = peers(&[
        ("a", Peer { probed: Some(s(900)), ..peer("l1") }),
        ("b", Peer { probed: Some(s(800)), ..peer("l1") }),
        ("c", Peer { probed: Some(s(990)), ..peer("l1") }),
        ("d", Peer { probed: Some(s(999)), matter: Some(Matter::Candidate), ..peer("l1") }),
        ("e", Peer { probed: Some(s(990)), matter: Some(Matter::Violated), ..peer("l1") }),
        ("f", Peer { probed: Some(s(990)), matter: Some(Matter::Connected), ..peer("l1") }),
        ("g", Peer { is_neighbour: false, ..peer("l1") }),
    ]);
    let plan = plan(&peers, &purses(), now);
    assert_eq!(names(&plan), ["e", "d", "f", "b", "a"]);
    assert_eq!(plan.next, s(1086));
}

#[test]
fn a_plan_that_was_carried_out_leaves_nothing_to_do() {
    let mut peers = peers(&[("a", peer("l1")), ("b", peer("l2"))]);
    let first = plan(&peers, &purses(), s(10));
    assert_eq!(names(&first), ["a", "b"]);
    for peer in peers.values_mut() {
        peer.probed = Some(s(10));
    }
    assert!(plan(&peers, &first.purses, s(10)).probes.is_empty());
}

#[test]
fn a_candidate_is_left_alone_once_it_is_known() {
    let known =
        Peer { matter: Some(Matter::Candidate), samples: 5, probed: Some(s(10)), ..peer("l1") };
    let peers = peers(&[("a", known)]);
    assert!(plan(&peers, &purses(), s(39)).probes.is_empty());
    assert_eq!(names(&plan(&peers, &purses(), s(40))), ["a"]);
}

#[test]
fn trains_go_over_idle_links_only_and_not_while_the_purse_is_empty() {
    let idle = Peer { is_idle: true, train_octets: 180_000, probed: Some(s(0)), ..peer("l1") };
    let busy = Peer { is_idle: false, ..idle.clone() };
    let both = peers(&[("a", idle.clone()), ("b", busy)]);
    let sent = plan(&both, &purses(), s(1));
    let train =
        Probe { peer: "a".to_owned(), what: What::Train, because: Because::Idle, octets: 180_000 };
    assert_eq!(sent.probes, [train]);
    assert!(plan(&peers(&[("a", idle)]), &sent.purses, s(2)).probes.is_empty());
}

#[test]
fn a_shortlist_has_whoever_might_be_best_and_the_likeliest_first() {
    let figure = |value: f64, spread: f64| Figure {
        value,
        kind: Kind::Estimated,
        age: Duration::ZERO,
        spread,
        samples: 1,
    };
    let candidates = [
        ("a", figure(20.0, 4.0)),
        ("b", figure(10.0, 2.0)),
        ("c", figure(15.0, 1.0)),
        ("d", figure(90.0, 9.0)),
    ];
    assert_eq!(shortlist(&candidates, 9), ["b", "c", "a"]);
    assert_eq!(shortlist(&candidates, 2), ["b", "c"]);
    assert!(shortlist::<&str>(&[], 9).is_empty());
}

#[test]
fn neighbours_hold_the_network_together_with_few_each() {
    let everybody: BTreeSet<String> = (0..1000).map(|index| format!("n{index:04}")).collect();
    let chosen: BTreeMap<&String, BTreeSet<String>> = everybody
        .iter()
        .map(|me| (me, neighbours(me, &everybody, &BTreeMap::new(), NEIGHBOURS, 5)))
        .collect();
    assert!(chosen.values().all(|chosen| chosen.len() == NEIGHBOURS));
    let mut probed: BTreeMap<&String, usize> = BTreeMap::new();
    for name in chosen.values().flatten() {
        *probed.entry(name).or_default() += 1;
    }
    assert!(everybody.iter().all(|name| probed.get(name) == Some(&NEIGHBOURS)));
    let mut reached = BTreeSet::from(["n0000".to_owned()]);
    let mut rounds = 0;
    while reached.len() < everybody.len() {
        reached =
            reached.iter().flat_map(|name| chosen[name].iter().chain([name])).cloned().collect();
        rounds += 1;
        assert!(rounds < 20, "{} reached", reached.len());
    }
}

#[test]
fn the_nearest_are_among_the_neighbours() {
    let everybody: BTreeSet<String> = (0..100).map(|index| format!("n{index:02}")).collect();
    let estimates = everybody.iter().zip(0..).map(|(name, ms)| (name.clone(), f64::from(100 - ms)));
    let chosen = neighbours("n50", &everybody, &estimates.collect(), 16, 0);
    assert_eq!(chosen.len(), 16);
    assert!((92..100).all(|index| chosen.contains(&format!("n{index}"))));
    assert!(!chosen.contains("n50"));
    let few: BTreeSet<String> = ["a", "b", "c"].map(str::to_owned).into();
    assert_eq!(neighbours("b", &few, &BTreeMap::new(), 16, 9).len(), 2);
}

fn any_peer() -> impl Strategy<Value = Peer> {
    let matter = prop_oneof![
        Just(None),
        Just(Some(Matter::Violated)),
        Just(Some(Matter::Candidate)),
        Just(Some(Matter::Connected)),
    ];
    let link = prop_oneof![Just("l1"), Just("l2"), Just("nobody knows")];
    (link, matter, any::<(bool, bool)>(), 0..8u32, 0..200_000u32).prop_map(
        |(link, matter, (is_neighbour, is_idle), samples, train_octets)| Peer {
            link: link.to_owned(),
            matter,
            is_neighbour,
            samples,
            is_idle,
            train_octets,
            ..Peer::default()
        },
    )
}

proptest! {
    /// Whatever matters, whenever one looks: over any stretch of time a link carries no more than its rate and its
    /// reserve.
    #[test]
    fn no_link_carries_more_than_its_budget(
        looks in proptest::collection::vec(
            (proptest::collection::btree_map("[a-f]", any_peer(), 0..6), 0..600_000u64),
            1..40,
        ),
    ) {
        let mut purses = purses();
        let mut now = s(0);
        let mut sent: Vec<(Duration, String, What, u32)> = Vec::new();
        for (peers, wait) in looks {
            now += Duration::from_millis(wait);
            let plan = plan(&peers, &purses, now);
            for probe in &plan.probes {
                sent.push((now, peers[&probe.peer].link.clone(), probe.what, probe.octets));
            }
            purses = plan.purses;
        }
        let budgets = [
            ("l1", What::Latency, 500.0, 60.0), ("l1", What::Train, 500.0, 3600.0),
            ("l2", What::Latency, 50.0, 60.0), ("l2", What::Train, 50.0, 36_000.0),
            ("nobody knows", What::Latency, 0.0, 0.0), ("nobody knows", What::Train, 0.0, 0.0),
        ];
        for (link, what, bps, reserve) in budgets {
            let of_link: Vec<_> = sent.iter().filter(|sent| sent.1 == link && sent.2 == what).collect();
            for (index, first) in of_link.iter().enumerate() {
                let mut octets = 0.0;
                for later in &of_link[index..] {
                    octets += f64::from(later.3);
                    let allowed = bps / 8.0 * (reserve + (later.0 - first.0).as_secs_f64());
                    prop_assert!(octets <= allowed + 1e-6, "{} on {} {:?}", octets, link, what);
                }
            }
        }
    }

    #[test]
    fn a_clock_that_goes_back_earns_nothing(times in proptest::collection::vec(0..1_000u64, 1..60)) {
        let mut purse = Purse::new(8, s(10), s(0));
        let mut paid = 0.0;
        for time in &times {
            purse.earn(s(*time));
            while purse.holds(1) {
                purse.pay(1);
                paid += 1.0;
            }
        }
        let latest = times.iter().copied().max().unwrap_or_default();
        prop_assert!(paid <= 10.0 + s(latest).as_secs_f64() + 1e-6);
    }
}
