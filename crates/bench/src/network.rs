//! How well a few probes tell of the whole network, without a network: delays of 490 machines that are made up
//! ([`matrix`]), the coordinates and the choice of neighbours that agents use, and 200 placements.
//! `docs/network.md` has the figures.

mod agents;
mod matrix;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde_json::{Value, json};
use tombolo_network::coordinates::{Coordinate, Vivaldi};
use tombolo_network::probing::{self, Because, Metering, NEIGHBOURS, Peer, Purses};
use tombolo_network::{Figure, Kind};

use crate::numbers::rounded;

use matrix::{Dice, Matrix};

/// As many as there were in PlanetLab when it was measured.
const MACHINES: usize = 490;
/// Probes of each neighbour: an hour and a quarter of an agent.
const ROUNDS: usize = 45;
/// When neighbours are chosen anew, by what is known by then.
const CHOOSE_EVERY: usize = 8;
const PLACEMENTS: usize = 200;
const CANDIDATES: usize = 60;
/// How many of them are measured.
const SHORTLIST: usize = 12;

/// A file with delays that were measured: milliseconds there and back, a line for each machine. With it they are
/// reckoned with as well as those that are made up.
const MATRIX: &str = "TOMBOLO_RTT_MATRIX";

pub(crate) fn run() -> anyhow::Result<Value> {
    let mut report = json!({
        "bench": "network",
        "made_up": of_matrix(&matrix::generate(MACHINES, 1)),
        "traffic": traffic(),
        "agents": agents::run()?,
    });
    if let Some(path) = std::env::var_os(MATRIX) {
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        report["measured"] = of_matrix(&Matrix::read(&text)?);
    }
    Ok(report)
}

fn of_matrix(matrix: &Matrix) -> Value {
    json!({
        "machines": matrix.len(),
        "rtt_ms_p5_p25_p50_p75_p95": matrix.percentiles([5, 25, 50, 75, 95]).map(rounded).to_vec(),
        "coordinates": coordinates(matrix),
    })
}

/// The errors of coordinates and what placements make of them.
fn coordinates(matrix: &Matrix) -> Value {
    let mut by_neighbours = serde_json::Map::new();
    for most in [NEIGHBOURS, 2 * NEIGHBOURS] {
        let settled = settle(matrix, most, 7);
        let [median, p90] = errors(matrix, &settled);
        let mut dice = Dice::new(11);
        let placed: Vec<Placed> =
            (0..PLACEMENTS).filter_map(|_| place(matrix, &settled, &mut dice)).collect();
        let good = |loss: fn(&Placed) -> f64| {
            let good = placed.iter().filter(|placed| loss(placed) <= 0.05).count();
            100.0 * ratio(good, placed.len())
        };
        by_neighbours.insert(
            format!("{most} neighbours"),
            json!({
                "error_percent_median": rounded(100.0 * median),
                "error_percent_p90": rounded(100.0 * p90),
                "placements_within_5_percent": good(|placed| placed.after_shortlist),
                "placements_within_5_percent_by_estimates_alone": good(|placed| placed.by_estimates),
            }),
        );
    }
    Value::Object(by_neighbours)
}

/// What a network of agents has come to know.
struct Settled {
    coordinates: Vec<Coordinate>,
    probed: Vec<BTreeSet<usize>>,
}

/// Every machine probes its neighbours for a while, with the noise of a real network.
fn settle(matrix: &Matrix, most: usize, seed: u64) -> Settled {
    let mut dice = Dice::new(seed);
    let everybody: BTreeSet<String> = (0..matrix.len()).map(name).collect();
    let index: BTreeMap<&String, usize> = everybody.iter().zip(0..).collect();
    let mut agents: Vec<Vivaldi<usize>> =
        (0..matrix.len()).map(|_| Vivaldi::new(dice.number())).collect();
    let mut neighbours: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); matrix.len()];
    let mut probed = neighbours.clone();
    let mut epoch = 0;
    for round in 0..ROUNDS {
        if round % CHOOSE_EVERY == 0 {
            let known: Vec<Coordinate> = agents.iter().map(Vivaldi::coordinate).collect();
            for (me, mine) in neighbours.iter_mut().enumerate() {
                let others = (0..matrix.len()).filter(|other| *other != me && round > 0);
                let estimates: BTreeMap<String, f64> = others
                    .map(|other| (name(other), known[me].estimate(&known[other]).rtt_ms))
                    .collect();
                let chosen = probing::neighbours(&name(me), &everybody, &estimates, most, epoch);
                *mine = chosen.iter().map(|name| index[name]).collect();
                probed[me].extend(mine.iter());
            }
            epoch += 1;
        }
        for (me, mine) in neighbours.iter().enumerate() {
            for &peer in mine {
                let theirs = agents[peer].coordinate();
                // Queues only ever add; one probe in fifty meets a full one.
                let queue = if dice.unit() < 0.02 { 100.0 * dice.unit() } else { 0.0 };
                let noise = 1.0 + 0.02 * dice.unit();
                agents[me].observe(&peer, &theirs, matrix.rtt(me, peer) * noise + queue);
            }
        }
    }
    Settled { coordinates: agents.iter().map(Vivaldi::coordinate).collect(), probed }
}

fn name(machine: usize) -> String {
    format!("m{machine:03}")
}

impl Settled {
    /// What a placer reckons with: measured where it is probed anyway.
    fn figure(&self, matrix: &Matrix, from: usize, to: usize) -> Figure {
        let figure = |value, kind, spread, samples| Figure {
            value,
            kind,
            age: Duration::ZERO,
            spread,
            samples,
        };
        if from == to {
            return figure(0.0, Kind::Measured, 0.0, 1);
        }
        if self.probed[from].contains(&to) || self.probed[to].contains(&from) {
            return figure(matrix.rtt(from, to), Kind::Measured, 0.0, 5);
        }
        let estimate = self.coordinates[from].estimate(&self.coordinates[to]);
        figure(estimate.rtt_ms, Kind::Estimated, estimate.spread_ms, 1)
    }
}

/// Median and ninetieth percentile of how far off the estimates of pairs are that nobody probes.
fn errors(matrix: &Matrix, settled: &Settled) -> [f64; 2] {
    let pairs = (0..matrix.len()).flat_map(|a| (0..a).map(move |b| (a, b)));
    let errors = pairs.filter_map(|(a, b)| {
        let figure = settled.figure(matrix, a, b);
        let truth = matrix.rtt(a, b);
        (figure.kind == Kind::Estimated).then(|| (figure.value - truth).abs() / truth)
    });
    percentiles(errors.collect(), [50, 90])
}

/// By how much a place is worse than the best, as a share.
struct Placed {
    after_shortlist: f64,
    by_estimates: f64,
}

/// One component that talks to one to three others, with sixty machines to choose from.
fn place(matrix: &Matrix, settled: &Settled, dice: &mut Dice) -> Option<Placed> {
    let talks_to: Vec<usize> = (0..=dice.below(3)).map(|_| dice.below(matrix.len())).collect();
    let mut candidates: BTreeSet<usize> = BTreeSet::new();
    while candidates.len() < CANDIDATES {
        let candidate = dice.below(matrix.len());
        if !talks_to.contains(&candidate) {
            candidates.insert(candidate);
        }
    }
    let truth =
        |candidate: usize| talks_to.iter().map(|other| matrix.rtt(candidate, *other)).sum::<f64>();
    let estimates: Vec<(usize, Figure)> = candidates
        .iter()
        .map(|&candidate| {
            let figures = talks_to.iter().map(|other| settled.figure(matrix, candidate, *other));
            (candidate, sum(figures))
        })
        .collect();
    let least = |among: &mut dyn Iterator<Item = usize>| among.map(truth).min_by(f64::total_cmp);
    let best = least(&mut candidates.iter().copied())?;
    let shortlist = probing::shortlist(&estimates, SHORTLIST);
    let measured = least(&mut shortlist.iter().copied())?;
    let estimated = truth(*shortlist.first()?);
    Some(Placed { after_shortlist: measured / best - 1.0, by_estimates: estimated / best - 1.0 })
}

/// The sum of delays: as unsure as all of them, and measured only if all are.
fn sum(figures: impl Iterator<Item = Figure>) -> Figure {
    let none = Figure { kind: Kind::Measured, ..Figure::declared(0.0) };
    figures.fold(none, |sum, figure| Figure {
        value: sum.value + figure.value,
        kind: sum.kind.max(figure.kind),
        spread: sum.spread + figure.spread,
        samples: figure.samples,
        ..sum
    })
}

/// What a day of probing costs a node with sixteen neighbours and two connections, in bits a second. The first minute
/// spends what was saved up, which a day makes up for.
fn traffic() -> Value {
    let links: Vec<String> = (0..NEIGHBOURS).map(|index| format!("l{index}")).collect();
    let ways = links.iter().map(|link| (link.as_str(), Metering::Free));
    let mut purses = Purses::new(ways, Duration::ZERO);
    let mut peers: BTreeMap<String, Peer> = links
        .iter()
        .map(|link| {
            let peer = Peer { link: link.clone(), is_neighbour: true, ..Peer::default() };
            (link.clone(), peer)
        })
        .collect();
    for connected in peers.values_mut().take(2) {
        connected.matter = Some(probing::Matter::Connected);
    }
    let seconds = 24 * 3600;
    let started = Instant::now();
    let mut octets: BTreeMap<Because, u64> = BTreeMap::new();
    for now in (0..seconds).map(Duration::from_secs) {
        let plan = probing::plan(&peers, &purses, now);
        for probe in &plan.probes {
            *octets.entry(probe.because).or_default() += u64::from(probe.octets);
            if let Some(peer) = peers.get_mut(&probe.peer) {
                peer.probed = Some(now);
            }
        }
        purses = plan.purses;
    }
    let planning = started.elapsed().as_secs_f64();
    let share = planning / Duration::from_secs(seconds).as_secs_f64();
    let bps = |octets: u64| octets * 8 / seconds;
    let of = |because| bps(octets.get(&because).copied().unwrap_or(0));
    json!({
        "planning_percent_of_a_core": rounded(100.0 * share),
        "bits_per_second_of_a_node": bps(octets.values().sum()),
        "of_which_connections": of(Because::Matters(probing::Matter::Connected)),
        "of_which_neighbours": of(Because::Neighbour),
    })
}

fn ratio(part: usize, whole: usize) -> f64 {
    let count = |many: usize| f64::from(u32::try_from(many).unwrap_or(u32::MAX));
    count(part) / count(whole).max(1.0)
}

/// In the order asked for; zero where there are no values.
fn percentiles<const N: usize>(mut values: Vec<f64>, percents: [usize; N]) -> [f64; N] {
    values.sort_unstable_by(f64::total_cmp);
    percents.map(|percent| values.get(values.len() * percent / 100).copied().unwrap_or(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The goals of the whole, with the machines of the bench.
    #[test]
    fn coordinates_and_shortlists_reach_their_goals() {
        let report = coordinates(&matrix::generate(MACHINES, 1));
        let few = &report["16 neighbours"];
        let figure = |name: &str| few[name].as_f64().unwrap();
        assert!(figure("error_percent_median") <= 12.0, "{few}");
        assert!(figure("error_percent_p90") <= 60.0, "{few}");
        assert!(figure("placements_within_5_percent") >= 95.0, "{few}");
    }

    #[test]
    fn a_node_keeps_to_half_a_kilobit() {
        let bps = traffic()["bits_per_second_of_a_node"].as_u64().unwrap();
        assert!((100..=501).contains(&bps), "{bps}");
    }

    #[test]
    fn a_matrix_that_is_none_is_refused() {
        assert_eq!(Matrix::read("0 2\n2 0\n").unwrap().rtt(0, 1), 2.0);
        for wrong in ["", "0 1\n1\n", "0 1\n1 x\n", "0 -1\n1 0\n"] {
            assert!(Matrix::read(wrong).is_err(), "{wrong:?}");
        }
    }
}
