//! Small graphs by hand, and random ones against slow and simple answers.

use proptest::prelude::*;

use super::*;

fn graph(links: &[(&'static str, &'static str, u64)]) -> Graph<&'static str> {
    let both = links.iter().flat_map(|&(a, b, cost)| [(a, b, cost), (b, a, cost)]);
    Graph::new([], both)
}

#[test]
fn the_best_way_is_the_cheapest_and_then_the_shortest() {
    let graph =
        graph(&[("a", "b", 5), ("b", "c", 5), ("a", "c", 20), ("a", "d", 10), ("d", "e", 0)]);
    let way = |places: &[&'static str], cost| Some(Way { places: places.to_vec(), cost });
    assert_eq!(graph.best(&"a", &"c"), way(&["a", "b", "c"], 10));
    assert_eq!(graph.best(&"e", &"c"), way(&["e", "d", "a", "b", "c"], 20));
    assert_eq!(graph.best(&"a", &"a"), way(&["a"], 0));
    assert_eq!(graph.best(&"a", &"nowhere"), None);
}

#[test]
fn two_ways_are_found_where_the_cheapest_blocks_both() {
    // The cheapest way a-b-c-d uses the only bridge; without it a-b-d and a-c-d remain.
    let links = [("a", "b", 1), ("b", "c", 1), ("c", "d", 1), ("a", "c", 5), ("b", "d", 5)];
    let ways = graph(&links).disjoint(&"a", &"d", 9);
    let places: Vec<_> = ways.iter().map(|way| way.places.clone()).collect();
    assert_eq!(places, [["a", "b", "d"], ["a", "c", "d"]]);
    assert_eq!(graph(&links).disjoint(&"a", &"d", 1)[0].places, ["a", "b", "c", "d"]);
    assert!(graph(&links).disjoint(&"a", &"a", 9).is_empty());
}

#[test]
fn the_middle_of_a_star_stands_between_all_others() {
    let star = graph(&[("m", "a", 1), ("m", "b", 1), ("m", "c", 1)]).standings();
    assert_eq!(star["m"], Standing { degree: 3, path_length: 1.0, betweenness: 1.0 });
    assert_eq!(star["a"], Standing { degree: 1, path_length: 5.0 / 3.0, betweenness: 0.0 });
}

#[test]
fn equal_ways_share_what_lies_between() {
    let square = graph(&[("a", "b", 1), ("b", "c", 1), ("c", "d", 1), ("d", "a", 1)]).standings();
    // Of six ordered pairs of others, two lead through each corner or the one opposite.
    assert!((square["a"].betweenness - 1.0 / 6.0).abs() < 1e-9);
}

#[test]
fn a_place_without_links_is_there() {
    let alone = Graph::new(["a"], []).standings();
    assert_eq!(alone["a"], Standing { degree: 0, path_length: 0.0, betweenness: 0.0 });
}

/// The most ways that share no link, by trying: how many links have to be cut.
fn least_cut(links: &[(u8, u8, u64)], from: u8, to: u8) -> u32 {
    let pairs: Vec<(u8, u8)> = {
        let mut pairs: Vec<_> =
            links.iter().map(|(a, b, _)| (*a, *b)).filter(|(a, b)| a != b).collect();
        pairs.sort_unstable();
        pairs.dedup();
        pairs
    };
    let reaches = |cut: u32| {
        let mut reached = vec![from];
        let mut next = 0;
        while next < reached.len() {
            for (bit, (a, b)) in pairs.iter().enumerate() {
                if cut >> bit & 1 == 0 && *a == reached[next] && !reached.contains(b) {
                    reached.push(*b);
                }
            }
            next += 1;
        }
        reached.contains(&to)
    };
    (0..1u32 << pairs.len()).filter(|cut| !reaches(*cut)).map(u32::count_ones).min().unwrap()
}

proptest! {
    #[test]
    fn as_many_ways_are_found_as_links_must_be_cut(
        links in proptest::collection::vec((0..5u8, 0..5u8, 0..9u64), 0..11),
    ) {
        let graph = Graph::new(0..5u8, links.iter().copied());
        let ways = graph.disjoint(&0, &4, 9);
        prop_assert_eq!(u32::try_from(ways.len()).unwrap(), least_cut(&links, 0, 4));
        let mut taken: Vec<(u8, u8)> = Vec::new();
        for way in &ways {
            prop_assert_eq!((way.places[0], *way.places.last().unwrap()), (0, 4));
            taken.extend(way.places.windows(2).map(|pair| (pair[0], pair[1])));
        }
        let all = taken.len();
        taken.sort_unstable();
        taken.dedup();
        prop_assert_eq!(taken.len(), all);
    }

    #[test]
    fn betweenness_is_a_share_and_the_best_way_is_no_dearer_than_any_other(
        links in proptest::collection::vec((0..6u8, 0..6u8, 1..9u64), 0..20),
    ) {
        let graph = Graph::new(0..6u8, links.iter().copied());
        for standing in graph.standings().values() {
            prop_assert!((-1e-9..=1.0 + 1e-9).contains(&standing.betweenness));
        }
        for way in graph.disjoint(&0, &5, 9) {
            prop_assert!(graph.best(&0, &5).unwrap().cost <= way.cost);
        }
    }
}
