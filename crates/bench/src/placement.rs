//! `tombolo bench placement`: the search alone over made-up problems, then the whole way from
//! documents to a plan with its reasons. One core; no server, no disk. Times are those on the
//! processor, so that whatever else runs does not count.

mod looks;

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde_json::{Value, json};
use tombolo_model::App;
use tombolo_placement::explain::pair;
use tombolo_placement::instance::{Instance, Shape, instance};
use tombolo_placement::plan::Outcome;
use tombolo_placement::select::Limits;
use tombolo_placement::{Continuum, Options, Scope, bench, plan};

use crate::numbers::{percentile_ms, rounded};

/// The best of so many runs counts.
const RUNS: usize = 3;
/// Copies of one App that are placed together.
const APPS: usize = 1_000;
const QUESTIONS: usize = 50;
/// Where one App is added to those that run.
const LOOK_NODES: usize = 5_000;
const LOOK_APPS: usize = 10_000;

pub(crate) fn run(models: Option<&Path>) -> anyhow::Result<Value> {
    let shape = Shape { sites: 1_000, nodes: 100_000, components: 100, seed: 1 };
    // First, so that the most memory so far is that of these alone.
    let plain = documents(&unconnected(instance(&shape)), 1)?;
    let plain_peak = peak_mib()?;
    let large = documents(&instance(&shape), 1)?;
    let large_peak = peak_mib()?;
    let shape = Shape { sites: 100, nodes: 5_000, components: 5, seed: 3 };
    let many = documents(&instance(&shape), APPS)?;
    let mut growth = Vec::new();
    for nodes in [1_000, 10_000, 100_000] {
        let shape = Shape { sites: nodes / 100, nodes, components: 100, seed: 1 };
        growth.push(documents(&unconnected(instance(&shape)), 1)?);
    }
    let why = why_ms()?;
    let looks = looks::run(LOOK_NODES, LOOK_APPS)?;
    let report = bench::run(&on_processor);
    if let Some(folder) = models {
        write_models(folder)?;
    }
    Ok(json!({
        "bench": "placement",
        "search": report,
        "documents": {
            "one_app_100000_nodes_plain": plain, "plain_peak_mib": plain_peak,
            "one_app_100000_nodes": large, "peak_mib": large_peak,
            "many_apps_5000_nodes": many, "growth_plain": growth,
        },
        "looks": looks,
        "why_10000_nodes_p50_ms": why.0, "why_10000_nodes_p99_ms": why.1,
        "peak_mib": peak_mib()?,
    }))
}

/// The same App without connections and users.
fn unconnected(mut made: Instance) -> Instance {
    for component in &mut made.app.spec.components {
        component.connects.clear();
        component.users = None;
    }
    made
}

/// From documents to a plan: reading the continuum, stating the problem, searching, explaining.
fn documents(made: &Instance, copies: usize) -> anyhow::Result<Value> {
    let apps: Vec<App> = (0..copies).map(|number| named(made, number)).collect();
    let mut best = way(made, &apps)?;
    for _ in 1..RUNS {
        let next = way(made, &apps)?;
        best = if next.all < best.all { next } else { best };
    }
    let rate = f64::from(u32::try_from(best.placements)?) / best.all.as_secs_f64().max(1e-9);
    Ok(json!({
        "nodes": made.nodes.len(), "apps": apps.len(), "apps_placed": best.apps_placed,
        "placements": best.placements, "continuum_ms": milliseconds(best.read),
        "all_ms": milliseconds(best.all), "all_wall_ms": milliseconds(best.wall),
        "placements_per_second": rounded(rate), "gap_percent": rounded(best.gap_percent),
    }))
}

struct Way {
    read: Duration,
    all: Duration,
    wall: Duration,
    apps_placed: usize,
    placements: usize,
    gap_percent: f64,
}

fn way(made: &Instance, apps: &[App]) -> anyhow::Result<Way> {
    let (started, before) = (Instant::now(), on_processor());
    let (continuum, _) = Continuum::of(&made.sites, &made.nodes, &made.links);
    let read = on_processor().saturating_sub(before);
    let options = Options { scope: Scope::All, ..Options::default() };
    let planned = plan(&continuum, apps, &[], &options, &Limits::default())?;
    let (all, wall) = (on_processor().saturating_sub(before), started.elapsed());
    let (mut apps_placed, mut placements) = (0, 0);
    for app in planned.apps.iter().filter(|app| app.outcome == Outcome::Placed) {
        apps_placed += 1;
        placements += app.instances.len();
    }
    #[expect(clippy::cast_precision_loss, reason = "a share for people to read")]
    let gap = (planned.bound - planned.objective) as f64 / planned.bound.max(1) as f64;
    Ok(Way { read, all, wall, apps_placed, placements, gap_percent: 100.0 * gap })
}

/// A copy of the App; each has its users at another site.
fn named(made: &Instance, number: usize) -> App {
    let mut app = made.app.clone();
    let name = app.metadata.name.unwrap_or_default();
    app.metadata.name = Some(format!("{name}-{number:04}"));
    let site = &made.sites[number % made.sites.len()].metadata.name;
    for users in app.spec.components.iter_mut().filter_map(|part| part.users.as_mut()) {
        users.sites = site.iter().cloned().collect();
    }
    app
}

/// Why is a component not on that node? The continuum is read anew for every question.
fn why_ms() -> anyhow::Result<(f64, f64)> {
    let made = instance(&Shape { sites: 200, nodes: 10_000, components: 10, seed: 5 });
    let apps = [made.app.clone()];
    let app = tombolo_model::AppId::of(&made.app);
    let options = Options::default();
    let mut times: Vec<Duration> = Vec::new();
    for question in 0..QUESTIONS {
        let component = &made.app.spec.components[question % made.app.spec.components.len()].name;
        let node = &made.nodes[question * 97 % made.nodes.len()].metadata.name;
        let node = node.as_deref().context("made-up nodes have names")?;
        let before = on_processor();
        let (continuum, _) = Continuum::of(&made.sites, &made.nodes, &made.links);
        let answer = pair(&continuum, &apps, &[], &options, (&app, component, node));
        answer.map_err(|trouble| anyhow::anyhow!("{trouble}"))?;
        times.push(on_processor().saturating_sub(before));
    }
    Ok((percentile_ms(&mut times, 50), percentile_ms(&mut times, 99)))
}

/// `tombolo bench packing`: tight packings that exist by construction, and how many of them are found.
pub(crate) fn packing(models: Option<&Path>) -> anyhow::Result<Value> {
    let rows = bench::packing(&on_processor);
    if let Some(folder) = models {
        written(folder, |write| bench::packing_models(&on_processor, write))?;
    }
    Ok(json!({"bench": "packing", "by_slack": rows}))
}

fn write_models(folder: &Path) -> anyhow::Result<()> {
    written(folder, |write| bench::models(bench::SMALL_EACH, &on_processor, write))
}

/// Writes the files that `make` hands over into the folder.
fn written(folder: &Path, make: impl FnOnce(&mut dyn FnMut(&str, &str))) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let mut failed = None;
    make(&mut |name, text| {
        if let Err(error) = std::fs::write(folder.join(name), text) {
            failed.get_or_insert(error);
        }
    });
    match failed {
        Some(error) => Err(error).with_context(|| format!("cannot write to {}", folder.display())),
        None => Ok(()),
    }
}

/// How long this thread has had a processor.
pub(crate) fn on_processor() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    let nanoseconds = u32::try_from(time.tv_nsec).unwrap_or(0);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), nanoseconds)
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
