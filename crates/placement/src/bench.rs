//! How fast and how good [`select`](tombolo_solver::select()) is, on problems made up from seeds. Called by
//! `tombolo bench placement`, which brings the clock. Start reading at [`run`].

use std::time::Duration;

use serde::Serialize;

use tombolo_solver::problem::{NodeId, Problem};
use tombolo_solver::sample::{self, Short, Size, Tight};
use tombolo_solver::select::{Dice, Limits, Outcome, Selection, select};

use crate::compile::{self, Options};
use crate::continuum::Continuum;
use crate::instance::{Instance, Shape, instance};

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
    /// What the problems are made of.
    pub of: &'static str,
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
    /// One for each [`Origin`].
    pub quality: Vec<Quality>,
}

/// What a small problem is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Numbers, without and with network.
    Plain,
    Network,
    /// Sites, Nodes, Links and an App, stated as a problem by [`compile`](crate::compile()).
    Documents,
    DocumentsNetwork,
}

impl Origin {
    pub const ALL: [Origin; 4] =
        [Origin::Plain, Origin::Network, Origin::Documents, Origin::DocumentsNetwork];

    fn name(self) -> &'static str {
        match self {
            Origin::Plain => "plain",
            Origin::Network => "network",
            Origin::Documents => "documents",
            Origin::DocumentsNetwork => "documents with network",
        }
    }
}

/// Tight packings that exist by construction, by how much there is to spare.
#[derive(Clone, Debug, Serialize)]
pub struct Packing {
    pub slack_percent: u64,
    pub problems: usize,
    pub placed: usize,
    /// Called impossible, which none of them is.
    pub impossible: usize,
    pub seconds_worst: f64,
}

/// 96 packings of 10, 15 and 20 nodes, with one and two resources that are short.
fn tight_ones() -> impl Iterator<Item = Tight> {
    let sizes = [10, 15, 20].into_iter().flat_map(|nodes| {
        [Short::Cpu, Short::CpuAndMemory].map(|short| Tight {
            nodes,
            slack_percent: 0,
            short,
            seed: 0,
        })
    });
    let slacks = [0, 5, 10, 20];
    let tight = slacks.into_iter().flat_map(move |slack_percent| {
        sizes.clone().map(move |size| Tight { slack_percent, ..size })
    });
    tight
        .enumerate()
        .flat_map(|(at, size)| (0..4).map(move |copy| Tight { seed: 4 * at as u64 + copy, ..size }))
}

/// How many of the tight packings are found.
pub fn packing(clock: &dyn Fn() -> Duration) -> Vec<Packing> {
    let mut rows: Vec<Packing> = Vec::new();
    for size in tight_ones() {
        let problem = sample::tight(&size);
        let (found, seconds) = timed(&problem, clock);
        let slack_percent = size.slack_percent;
        if rows.last().is_none_or(|row| row.slack_percent != slack_percent) {
            let (problems, placed, impossible, seconds_worst) = (0, 0, 0, 0.0);
            rows.push(Packing { slack_percent, problems, placed, impossible, seconds_worst });
        }
        let Some(row) = rows.last_mut() else { continue };
        row.problems += 1;
        row.placed += usize::from(found.parts == [Outcome::Placed]);
        row.impossible += usize::from(found.parts == [Outcome::Infeasible]);
        row.seconds_worst = row.seconds_worst.max(seconds);
    }
    rows
}

/// The tight packings for another solver, as [`models`] writes the small problems.
pub fn packing_models(clock: &dyn Fn() -> Duration, write: &mut dyn FnMut(&str, &str)) {
    for size in tight_ones() {
        let problem = sample::tight(&size);
        let (found, seconds) = timed(&problem, clock);
        let name = format!("tight-{:02}-{:03}", size.slack_percent, size.seed);
        write(&format!("{name}.json"), &problem.to_json());
        write(&format!("{name}.answer.json"), &answer(&problem, &found, seconds));
    }
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
        quality: Origin::ALL.map(|origin| quality(origin, SMALL_EACH, clock)).into(),
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

/// So many small problems of each origin.
pub const SMALL_EACH: usize = 60;

/// The best of so many runs counts; the others were held up by something else.
const RUNS: usize = 3;

/// Up to 20 instances on up to 200 nodes.
pub fn small(origin: Origin, seed: u64) -> Problem {
    let mut dice = Dice::new(seed);
    let mut grow = |least: usize, most: usize| least + dice.below(most - least + 1);
    let shape = Shape { sites: grow(3, 12), nodes: grow(20, 200), components: grow(2, 12), seed };
    match origin {
        Origin::Plain | Origin::Network => sample::problem(&Size {
            zones: grow(3, 20),
            nodes: grow(20, 200),
            parts: 1,
            items: grow(3, 20),
            classes: grow(1, 8),
            network: origin == Origin::Network,
            load: grow(2, 60) as u64,
            seed,
        }),
        Origin::DocumentsNetwork => stated(&instance(&shape)),
        Origin::Documents => {
            let mut made = instance(&shape);
            for component in &mut made.app.spec.components {
                component.connects.clear();
            }
            stated(&made)
        }
    }
}

fn stated(made: &Instance) -> Problem {
    let (continuum, _) = Continuum::of(&made.sites, &made.nodes, &made.links);
    let apps = [made.app.clone()];
    compile::compile(&continuum, &apps, &[], &Options::default()).problem
}

/// Makes the problem, then takes the time of the search alone.
pub fn speed(size: &Size, clock: &dyn Fn() -> Duration) -> Speed {
    let problem = sample::problem(size);
    let (found, mut seconds) = timed(&problem, clock);
    for _ in 1..RUNS {
        seconds = seconds.min(timed(&problem, clock).1);
    }
    let placed = found.chosen.iter().flatten().count();
    #[expect(clippy::cast_precision_loss, reason = "for people to read")]
    let placements_per_second = placed as f64 / seconds;
    let gap_percent = gap(&found);
    let (nodes, items) = (problem.nodes.len(), problem.items.len());
    Speed { nodes, items, placed, seconds, placements_per_second, gap_percent }
}

pub fn quality(origin: Origin, instances: usize, clock: &dyn Fn() -> Duration) -> Quality {
    let mut gaps = Vec::new();
    let mut times = Vec::new();
    let (mut proven_optimal, mut infeasible) = (0, 0);
    for seed in (0..).take(instances) {
        let problem = small(origin, seed);
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
        of: origin.name(),
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
pub fn models(each: usize, clock: &dyn Fn() -> Duration, write: &mut dyn FnMut(&str, &str)) {
    for origin in Origin::ALL {
        for seed in (0..).take(each) {
            let problem = small(origin, seed);
            let (found, seconds) = timed(&problem, clock);
            let name = format!("{}-{seed:03}", origin.name().replace(' ', "-"));
            write(&format!("{name}.json"), &problem.to_json());
            write(&format!("{name}.answer.json"), &answer(&problem, &found, seconds));
        }
    }
}

#[derive(Serialize)]
struct Answer<'a> {
    feasible: bool,
    objective: i64,
    bound: i64,
    optimal: bool,
    seconds: f64,
    /// For each item the index of its node, and its engine.
    chosen: Vec<Option<(NodeId, &'a str)>>,
}

/// An answer as JSON, for whoever wants to check it against the model.
pub fn answer(problem: &Problem, found: &Selection, seconds: f64) -> String {
    let engine = |engine: u8| problem.engines[usize::from(engine)].as_str();
    let chosen = found.chosen.iter().map(|choice| choice.map(|c| (c.node, engine(c.engine))));
    let answer = Answer {
        feasible: found.parts.iter().all(|part| *part == Outcome::Placed),
        objective: found.objective,
        bound: found.bound,
        optimal: found.optimal,
        seconds,
        chosen: chosen.collect(),
    };
    serde_json::to_string(&answer).expect("numbers become JSON")
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
