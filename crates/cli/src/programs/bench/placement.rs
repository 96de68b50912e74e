//! `tombolo bench placement`: the search alone over made-up problems, then the whole way from
//! documents to a plan with its reasons. One core; no server, no disk.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use serde_json::{Value, json};
use tombolo_model::App;
use tombolo_placement::explain::pair;
use tombolo_placement::instance::{Instance, Shape, instance};
use tombolo_placement::plan::Outcome;
use tombolo_placement::select::Limits;
use tombolo_placement::{Continuum, Options, Scope, bench, plan};

use super::numbers::{percentile_ms, rounded};
use crate::moment;

/// So many of the small problems are written out for another solver.
const MODELS: usize = 200;
/// Copies of one App that are placed together.
const APPS: usize = 1_000;
const QUESTIONS: usize = 50;

pub(super) fn run(models: Option<&Path>) -> anyhow::Result<Value> {
    let started = moment::monotonic();
    let clock = move || started.elapsed();
    // First, so that the most memory so far is that of this alone.
    let large = documents(&Shape { sites: 1_000, nodes: 100_000, components: 100, seed: 1 }, 1)?;
    let large_peak = peak_mib()?;
    let many = documents(&Shape { sites: 100, nodes: 5_000, components: 5, seed: 3 }, APPS)?;
    let why = why_ms()?;
    let report = bench::run(&clock);
    if let Some(folder) = models {
        write_models(folder, &clock)?;
    }
    Ok(json!({
        "bench": "placement",
        "search": report,
        "documents": {"one_app_100000_nodes": large, "peak_mib": large_peak,
            "many_apps_5000_nodes": many},
        "why_10000_nodes_p50_ms": why.0, "why_10000_nodes_p99_ms": why.1,
        "peak_mib": peak_mib()?,
    }))
}

/// From documents to a plan: reading the continuum, stating the problem, searching, explaining.
fn documents(shape: &Shape, copies: usize) -> anyhow::Result<Value> {
    let made = instance(shape);
    let apps: Vec<App> = (0..copies).map(|number| named(&made, number)).collect();
    let loads = BTreeMap::new();
    let started = moment::monotonic();
    let (continuum, _) = Continuum::of(&made.sites, &made.nodes, &made.links, &loads);
    let read = started.elapsed();
    let options = Options { scope: Scope::All, ..Options::default() };
    let planned = plan(&continuum, &apps, &[], &options, &Limits::default())?;
    let took = started.elapsed();
    let placed = planned.apps.iter().filter(|app| app.outcome == Outcome::Placed);
    let (mut apps_placed, mut placements) = (0usize, 0usize);
    for app in placed {
        apps_placed += 1;
        placements += app.instances.len();
    }
    let rate = f64::from(u32::try_from(placements)?) / took.as_secs_f64().max(1e-9);
    Ok(json!({
        "nodes": made.nodes.len(), "apps": apps.len(), "apps_placed": apps_placed,
        "placements": placements, "continuum_ms": milliseconds(read), "all_ms": milliseconds(took),
        "placements_per_second": rounded(rate),
    }))
}

fn named(made: &Instance, number: usize) -> App {
    let mut app = made.app.clone();
    let name = app.metadata.name.unwrap_or_default();
    app.metadata.name = Some(format!("{name}-{number:04}"));
    app
}

/// Why is a component not on that node? The continuum is read anew for every question.
fn why_ms() -> anyhow::Result<(f64, f64)> {
    let made = instance(&Shape { sites: 200, nodes: 10_000, components: 10, seed: 5 });
    let apps = [made.app.clone()];
    let app = tombolo_placement::ask::app_id(&made.app);
    let options = Options::default();
    let mut times: Vec<Duration> = Vec::new();
    for question in 0..QUESTIONS {
        let component = &made.app.spec.components[question % made.app.spec.components.len()].name;
        let node = &made.nodes[question * 97 % made.nodes.len()].metadata.name;
        let node = node.as_deref().context("made-up nodes have names")?;
        let started = moment::monotonic();
        let loads = BTreeMap::new();
        let (continuum, _) = Continuum::of(&made.sites, &made.nodes, &made.links, &loads);
        let answer = pair(&continuum, &apps, &[], &options, (&app, component, node));
        answer.map_err(|trouble| anyhow::anyhow!("{trouble}"))?;
        times.push(started.elapsed());
    }
    Ok((percentile_ms(&mut times, 50), percentile_ms(&mut times, 99)))
}

fn write_models(folder: &Path, clock: &dyn Fn() -> Duration) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let mut failed = None;
    bench::models(MODELS, clock, &mut |name, text| {
        if let Err(error) = std::fs::write(folder.join(name), text) {
            failed.get_or_insert(error);
        }
    });
    match failed {
        Some(error) => Err(error).with_context(|| format!("cannot write to {}", folder.display())),
        None => Ok(()),
    }
}

/// The most memory that this process ever had.
fn peak_mib() -> anyhow::Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kibibytes =
        line.and_then(|line| line.trim().strip_suffix(" kB")).context("VmHWM in /proc")?;
    Ok(rounded(f64::from(kibibytes.trim().parse::<u32>()?) / 1024.0))
}

fn milliseconds(time: Duration) -> f64 {
    rounded(time.as_secs_f64() * 1000.0)
}
