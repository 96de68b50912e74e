//! How fast and how good [`select`](crate::select()) is, on problems made up from seeds. Called by
//! `tombolo bench placement`, which brings the clock. Start reading at [`run`].

use std::time::Duration;

use serde::Serialize;

use crate::problem::Problem;
use crate::sample::{self, Size};
use crate::select::{Dice, Limits, Outcome, Selection, select};

/// One line of the report.
#[derive(Clone, Debug, Serialize)]
pub struct Speed {
    pub nodes: usize,
    pub items: usize,
    pub placed: usize,
    pub seconds: f64,
    pub placements_per_second: f64,
    /// How far the objective is from the proven bound, at most.
    pub gap_percent: f64,
}

/// How near to the proven bound the answers to many small problems are.
#[derive(Clone, Debug, Serialize)]
pub struct Quality {
    pub instances: usize,
    pub proven_optimal: usize,
    pub infeasible: usize,
    pub gap_percent_mean: f64,
    pub gap_percent_worst: f64,
    pub seconds_mean: f64,
    pub seconds_worst: f64,
}

#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// 5,000 nodes, nothing but room and value.
    pub plain: Speed,
    /// 5,000 nodes, with latency and bandwidth between components.
    pub network: Speed,
    /// One application of 100 components on 100,000 nodes.
    pub large: Speed,
    /// 1,000, 10,000 and 100,000 nodes, plain.
    pub growth: Vec<Speed>,
    pub quality: Quality,
}

/// Runs everything. `clock` is any clock that does not go back.
pub fn run(clock: &dyn Fn() -> Duration) -> Report {
    let grown = |nodes: usize| {
        let size = Size { zones: nodes / 50, nodes, parts: nodes / 5, ..PLAIN };
        speed(&size, clock)
    };
    Report {
        plain: speed(&PLAIN, clock),
        network: speed(&NETWORK, clock),
        large: speed(&LARGE, clock),
        growth: [1_000, 10_000, 100_000].map(grown).into(),
        quality: quality(240, clock),
    }
}

pub const PLAIN: Size = Size {
    zones: 100,
    nodes: 5_000,
    parts: 10_000,
    items: 5,
    classes: 20,
    network: false,
    load: 50,
    seed: 1,
};

pub const NETWORK: Size = Size { parts: 1_000, network: true, load: 30, ..PLAIN };

pub const LARGE: Size =
    Size { nodes: 100_000, parts: 1, items: 100, classes: 100, load: 1, ..NETWORK };

/// Up to 20 components on up to 200 nodes; every second one with network.
pub fn small(seed: u64) -> Size {
    let mut dice = Dice::new(seed);
    let mut grow = |least: usize, most: usize| least + dice.below(most - least + 1);
    Size {
        zones: grow(3, 20),
        nodes: grow(20, 200),
        parts: 1,
        items: grow(3, 20),
        classes: grow(1, 8),
        network: seed.is_multiple_of(2),
        load: grow(2, 60) as u64,
        seed,
    }
}

/// Makes the problem, then takes the time of the search alone.
pub fn speed(size: &Size, clock: &dyn Fn() -> Duration) -> Speed {
    let problem = sample::problem(size);
    let (found, seconds) = timed(&problem, clock);
    let placed = found.chosen.iter().flatten().count();
    #[expect(clippy::cast_precision_loss, reason = "for people to read")]
    let placements_per_second = placed as f64 / seconds;
    let gap_percent = gap(&found);
    let (nodes, items) = (problem.nodes.len(), problem.items.len());
    Speed { nodes, items, placed, seconds, placements_per_second, gap_percent }
}

pub fn quality(instances: usize, clock: &dyn Fn() -> Duration) -> Quality {
    let mut gaps = Vec::new();
    let mut times = Vec::new();
    let (mut proven_optimal, mut infeasible) = (0, 0);
    for seed in (0..).take(instances) {
        let problem = sample::problem(&small(seed));
        let (found, seconds) = timed(&problem, clock);
        proven_optimal += usize::from(found.optimal);
        times.push(seconds);
        match found.parts[0] {
            Outcome::Placed => gaps.push(gap(&found)),
            Outcome::Infeasible => infeasible += 1,
            Outcome::NotFound => gaps.push(100.0),
        }
    }
    #[expect(clippy::cast_precision_loss, reason = "for people to read")]
    let mean = |of: &[f64]| of.iter().sum::<f64>() / of.len().max(1) as f64;
    let worst = |of: &[f64]| of.iter().copied().fold(0.0, f64::max);
    Quality {
        instances,
        proven_optimal,
        infeasible,
        gap_percent_mean: mean(&gaps),
        gap_percent_worst: worst(&gaps),
        seconds_mean: mean(&times),
        seconds_worst: worst(&times),
    }
}

/// The same small problems for another solver: hands over NAME.json, the model, and
/// NAME.answer.json, what we found and in which time, as `scripts/bench-placement.py` reads them.
pub fn models(instances: usize, clock: &dyn Fn() -> Duration, write: &mut dyn FnMut(&str, &str)) {
    for seed in (0..).take(instances) {
        let problem = sample::problem(&small(seed));
        let (found, seconds) = timed(&problem, clock);
        let answer = Answer {
            feasible: found.parts[0] == Outcome::Placed,
            objective: found.objective,
            bound: found.bound,
            optimal: found.optimal,
            seconds,
        };
        write(&format!("{seed:04}.json"), &problem.to_json());
        let answer = serde_json::to_string(&answer).expect("numbers become JSON");
        write(&format!("{seed:04}.answer.json"), &answer);
    }
}

#[derive(Serialize)]
struct Answer {
    feasible: bool,
    objective: i64,
    bound: i64,
    optimal: bool,
    seconds: f64,
}

fn timed(problem: &Problem, clock: &dyn Fn() -> Duration) -> (Selection, f64) {
    let before = clock();
    let found = select(problem, &Limits::default()).expect("samples are valid");
    let seconds = clock().saturating_sub(before).as_secs_f64();
    (found, seconds.max(1e-9))
}

#[expect(clippy::cast_precision_loss, reason = "for people to read")]
fn gap(found: &Selection) -> f64 {
    100.0 * (found.bound - found.objective) as f64 / (found.bound.unsigned_abs().max(1)) as f64
}
