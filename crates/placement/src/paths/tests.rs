//! Shortest ways over small networks, drawn as text.

use expect_test::{Expect, expect};

use crate::continuum::Continuum;
use crate::testing::world;
use crate::words;

/// The ways from the first location to all others.
#[track_caller]
fn check(links: &str, from: &str, expect: Expect) {
    let text = format!(
        "site a docker\nsite b docker\nsite c docker\nsite d docker\nnode x a\nnode y a\nnode z b\n{links}"
    );
    let world = world(&text);
    let (continuum, troubles) = Continuum::of(&world.sites, &world.nodes, &world.links);
    let mut out: String = troubles.iter().map(|trouble| format!("trouble: {trouble}\n")).collect();
    let network = &continuum.network;
    let start = network.zones.iter().position(|zone| zone.name == from).unwrap();
    for (zone, way) in network.zones.iter().zip(network.ways_from(u32::try_from(start).unwrap())) {
        let line = match way {
            None => "no way".to_owned(),
            Some(way) if way.assumed => "assumed".to_owned(),
            Some(way) => {
                let names: Vec<&str> = way
                    .links
                    .iter()
                    .map(|link| network.links[*link as usize].name.as_str())
                    .collect();
                let rate = way.bandwidth_bps.map_or("any".to_owned(), words::rate);
                format!(
                    "{} {rate} jitter {} over [{}]",
                    words::delay(way.latency_us),
                    words::delay(way.jitter_us),
                    names.join(" ")
                )
            }
        };
        out.push_str(&format!("{}: {line}\n", zone.name));
    }
    expect.assert_eq(&out);
}

#[test]
fn takes_the_shortest_way_with_its_narrowest_link() {
    check(
        "link a b 5ms 100Mbps jitter=1ms\nlink b c 5ms 10Mbps jitter=2ms\nlink a c 20ms 1Gbps",
        "a",
        expect![[r#"
        a: 0us any jitter 0us over []
        b: 5ms 100Mbps jitter 1ms over [a--b]
        c: 10ms 10Mbps jitter 3ms over [a--b b--c]
        d: assumed
    "#]],
    );
}

#[test]
fn goes_along_a_one_way_link_in_its_direction_only() {
    let links = "link a b 5ms oneway\nlink b c 5ms";
    check(
        links,
        "a",
        expect![[r#"
        a: 0us any jitter 0us over []
        b: 5ms any jitter 0us over [a--b]
        c: 10ms any jitter 0us over [a--b b--c]
        d: assumed
    "#]],
    );
    check(
        links,
        "c",
        expect![[r#"
        a: no way
        b: 5ms any jitter 0us over [b--c]
        c: 0us any jitter 0us over []
        d: assumed
    "#]],
    );
}

#[test]
fn a_node_with_links_is_a_place_of_its_own() {
    // x reaches its site without delay, for nobody has said otherwise; but y by their own link.
    check(
        "link a/x a/y 3ms\nlink a b 5ms",
        "a/x",
        expect![[r#"
        a: 0us any jitter 0us over []
        b: 5ms any jitter 0us over [a--b]
        c: assumed
        d: assumed
        a/x: 0us any jitter 0us over []
        a/y: 3ms any jitter 0us over [a.x--a.y]
    "#]],
    );
    check(
        "link a/x a 3ms\nlink a b 5ms",
        "a/x",
        expect![[r#"
        a: 3ms any jitter 0us over [a.x--a]
        b: 8ms any jitter 0us over [a.x--a a--b]
        c: assumed
        d: assumed
        a/x: 0us any jitter 0us over []
    "#]],
    );
}

#[test]
fn a_link_that_leads_nowhere_is_left_out() {
    check(
        "link a e 5ms\nlink a a 1ms",
        "a",
        expect![[r#"
        trouble: link a--e: Site "e" does not exist, so it is left out
        trouble: link a--a: both ends are the same, so it is left out
        a: 0us any jitter 0us over []
        b: assumed
        c: assumed
        d: assumed
    "#]],
    );
}

#[test]
fn absurd_delays_do_not_overflow() {
    check(
        "link a b 200000000h\nlink b c 200000000h",
        "a",
        expect![[r#"
        a: 0us any jitter 0us over []
        b: 1099511.7s any jitter 0us over [a--b]
        c: 2199023.3s any jitter 0us over [a--b b--c]
        d: assumed
    "#]],
    );
}

#[test]
fn what_was_measured_from_end_to_end_is_the_way_whatever_others_add_up_to() {
    check(
        "link a b 5ms\nlink b c 5ms\nlink a c measured=20ms",
        "a",
        expect![[r#"
        a: 0us any jitter 0us over []
        b: 5ms any jitter 0us over [a--b]
        c: 21ms any jitter 0us over [a--c]
        d: assumed
    "#]],
    );
    // Of an estimate nobody knows whether packets take that way.
    check(
        "link a b 5ms\nlink b c 5ms\nlink a c estimated=20ms",
        "a",
        expect![[r#"
        a: 0us any jitter 0us over []
        b: 5ms any jitter 0us over [a--b]
        c: 10ms any jitter 0us over [a--b b--c]
        d: assumed
    "#]],
    );
}

#[test]
fn that_probes_have_found_no_link_says_nothing_about_two_places() {
    check(
        "link a b measured=5ms made\nlink c d measured=5ms made\nlink b d made",
        "a",
        expect![[r#"
        a: 0us any jitter 0us over []
        b: 6ms any jitter 0us over [a--b]
        c: assumed
        d: assumed
    "#]],
    );
}

#[test]
fn how_a_delay_was_found_is_told() {
    let world = world("site a docker\nsite b docker\nlink a b estimated=5ms");
    let (continuum, _) = Continuum::of(&world.sites, &world.nodes, &world.links);
    let network = &continuum.network;
    let way = network.ways_from(0)[1].clone().unwrap();
    let told = " (link a--b: 5ms ± 1ms, estimated at 2030-01-31T12:00:00Z by 45 samples)";
    assert_eq!((way.latency_us, network.told(&way).as_str()), (7_000, told));
}
