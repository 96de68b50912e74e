//! Coordinates of networks that are small enough to know what is right.

use proptest::prelude::*;

use super::*;

/// Machines on a plane, each with an access line; everybody probes everybody, with noise that `noise` makes.
fn settle(
    places: &[(f64, f64, f64)],
    rounds: usize,
    mut noise: impl FnMut() -> f64,
) -> Vec<Coordinate> {
    let mut nodes: Vec<Vivaldi<usize>> =
        (0..places.len()).map(|index| Vivaldi::new(index as u64 * 7919 + 1)).collect();
    for _ in 0..rounds {
        for me in 0..places.len() {
            for peer in (0..places.len()).filter(|peer| *peer != me) {
                let theirs = nodes[peer].coordinate();
                nodes[me].observe(&peer, &theirs, rtt(places[me], places[peer]) + noise());
            }
        }
    }
    nodes.iter().map(Vivaldi::coordinate).collect()
}

fn rtt(one: (f64, f64, f64), other: (f64, f64, f64)) -> f64 {
    (one.0 - other.0).hypot(one.1 - other.1) + one.2 + other.2
}

const PLACES: [(f64, f64, f64); 6] = [
    (0.0, 0.0, 1.0),
    (40.0, 0.0, 2.0),
    (0.0, 30.0, 1.0),
    (40.0, 30.0, 10.0),
    (90.0, 10.0, 1.0),
    (20.0, 80.0, 3.0),
];

#[track_caller]
fn check(settled: &[Coordinate], share: f64) {
    for (a, one) in PLACES.iter().enumerate() {
        for (b, other) in PLACES[..a].iter().enumerate() {
            let (truth, estimate) = (rtt(*one, *other), settled[a].estimate(&settled[b]));
            let off = (estimate.rtt_ms - truth).abs() / truth;
            assert!(off < share, "{a} to {b}: {estimate:?} instead of {truth}");
        }
    }
}

#[test]
fn delays_that_fit_into_a_space_are_found() {
    let settled = settle(&PLACES, 200, || 0.0);
    check(&settled, 0.05);
    assert!(settled.iter().all(|coordinate| coordinate.error < 0.1));
}

#[test]
fn single_slow_probes_move_nobody() {
    let mut probes = 0;
    // One in eleven meets a full queue.
    let settled = settle(&PLACES, 200, || {
        probes += 1;
        if probes % 11 == 0 { 800.0 } else { 0.0 }
    });
    check(&settled, 0.15);
}

#[test]
fn nodes_at_the_same_point_part() {
    let mut one: Vivaldi<&str> = Vivaldi::new(1);
    let start = Coordinate::default();
    assert_eq!(one.observe(&"b", &start, 50.0), Observed::Moved);
    assert!(one.coordinate().point.iter().any(|value| *value != 0.0));
}

#[test]
fn what_cannot_be_is_refused_and_what_was_can_be_resumed() {
    let mut node: Vivaldi<&str> = Vivaldi::new(1);
    let before = node.coordinate();
    let theirs = Coordinate::default();
    for rtt_ms in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e9] {
        assert_eq!(node.observe(&"b", &theirs, rtt_ms), Observed::Refused);
    }
    let wrong = [
        Coordinate { height: f64::NAN, ..theirs },
        Coordinate { height: -1.0, ..theirs },
        Coordinate { point: [1e300; DIMENSIONS], ..theirs },
        Coordinate { error: f64::INFINITY, ..theirs },
    ];
    for wrong in wrong {
        assert_eq!(node.observe(&"b", &wrong, 10.0), Observed::Refused);
        assert_eq!(Vivaldi::<&str>::resume(wrong, 1).coordinate(), Coordinate::default());
    }
    assert_eq!(node.coordinate(), before);
    let there = settle(&PLACES, 3, || 0.0)[0];
    assert_eq!(Vivaldi::<&str>::resume(there, 1).coordinate(), there);
}

#[test]
fn what_is_kept_of_peers_is_bounded() {
    let mut node: Vivaldi<usize> = Vivaldi::new(1);
    for peer in 0..2 * PEERS_MOST {
        node.observe(&peer, &Coordinate::default(), 10.0);
    }
    assert_eq!(node.recent.len(), PEERS_MOST);
}

proptest! {
    /// A peer may claim anything of itself.
    #[test]
    fn a_coordinate_stays_sound_whatever_peers_claim(
        claims in proptest::collection::vec(
            (proptest::array::uniform4(any::<f64>()), any::<f64>(), any::<f64>(), any::<f64>(), any::<f64>()),
            1..60,
        ),
    ) {
        let mut node: Vivaldi<u8> = Vivaldi::new(3);
        for (point, height, adjustment, error, rtt_ms) in claims {
            node.observe(&1, &Coordinate { point, height, adjustment, error }, rtt_ms.abs() % 70_000.0);
            let own = node.coordinate();
            prop_assert!(own.is_sound(), "{:?}", own);
            let estimate = own.estimate(&Coordinate::default());
            prop_assert!(estimate.rtt_ms > 0.0 && estimate.rtt_ms.is_finite());
        }
    }
}
