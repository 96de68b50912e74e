//! What policies cost and what scaling is worth: ten thousand policies over a head of samples, the back-test of
//! one over a week, and our scaler against HPA's algorithm on the same traces.

mod live;
mod scaling;
mod traces;

use std::path::Path;
use std::time::Instant;

use anyhow::{Context as _, anyhow, ensure};
use serde_json::{Value, json};
use tombolo_model::PolicySpec;
use tombolo_policy::backtest::{self, Window};
use tombolo_policy::template::Templates;
use tombolo_policy::{Context, Machine, Rule, Watched, compile, look};
use tombolo_series::{Head, HeadConfig, Labels, Sample, Span};

use crate::numbers::rounded;

const POLICIES: usize = 10_000;
const EVERY_MS: i64 = 15_000;

/// Looks that are measured, after one that warms up.
const LOOKS: i64 = 5;

/// A week at 15 s.
const WEEK_LOOKS: i64 = 7 * 24 * 240;
const WEEK_SERIES: usize = 100;

pub(crate) fn run(traces: Option<&Path>) -> anyhow::Result<Value> {
    Ok(json!({
        "bench": "policy",
        "evaluation": evaluation()?,
        "live": live()?,
        "backtest": week()?,
        "scaling": scaling::run(&traces::all(traces)?),
    }))
}

/// A rule over a series of its own, as an application has it.
fn rule(app: usize, window: &str) -> anyhow::Result<Rule> {
    let expr = match window {
        "" => "load".to_owned(),
        window => format!("avg_over_time(load[{window}])"),
    };
    let spec: PolicySpec = serde_json::from_value(json!({
        "subject": {"app": format!("app-{app}")},
        "condition": {"expr": expr, "violatedIf": "> 0.8", "properties": {"pendingInterval": "1m"}},
        "remediation": {"action": "migrate"},
    }))?;
    let policy = Watched::of_policy(&format!("policy-{app}"), &spec);
    let rule = compile(&policy, &Templates::default(), &Context::default());
    rule.map_err(|problems| anyhow!("{problems:?}"))
}

fn labels(app: usize, component: usize) -> Labels {
    Labels::new([
        ("__name__", "load".to_owned()),
        ("icos_app_name", format!("app-{app}")),
        ("icos_app_component", format!("component-{component}")),
        ("icos_host_name", format!("node-{}", (app * 7 + component) % 500)),
    ])
}

/// A value that is above the limit for a while now and then.
fn value(series: usize, number: i64) -> f64 {
    let phase = (number as f64 + series as f64 * 37.0) / 200.0;
    0.5 + 0.4 * phase.sin()
}

/// Two series for each policy, over a quarter of an hour.
fn filled() -> anyhow::Result<Head> {
    let mut head = Head::new(HeadConfig::default());
    for app in 0..POLICIES {
        for component in 0..2 {
            let at =
                |number: i64| Sample::new(number * EVERY_MS, value(app * 2 + component, number));
            let samples: Vec<Sample> = (0..60).map(at).collect();
            head.insert("bench", &labels(app, component), &samples).context("series")?;
        }
    }
    Ok(head)
}

/// The same policies as the loop runs them, with what they decide.
fn live() -> anyhow::Result<Value> {
    live::run(&filled()?, POLICIES, 50 * EVERY_MS)
}

/// Every policy looks at two series, one of each kind of query: the newest value, and five minutes.
fn evaluation() -> anyhow::Result<Value> {
    let head = filled()?;
    let machine = |app: usize| -> anyhow::Result<Machine> {
        let rule = rule(app, if app.is_multiple_of(2) { "" } else { "5m" })?;
        Ok(Machine::new(rule, None))
    };
    let mut machines: Vec<Machine> =
        (0..POLICIES).map(machine).collect::<anyhow::Result<Vec<Machine>>>()?;
    let start_ms = 50 * EVERY_MS;
    let mut acts = 0;
    let mut worst = 0.0_f64;
    let mut total = 0.0;
    for number in 0..=LOOKS {
        let started = Instant::now();
        for machine in &mut machines {
            let look = look::at(machine.rule(), &head, start_ms + number * EVERY_MS);
            ensure!(look.failure.is_none(), "a look failed: {:?}", look.failure);
            acts += machine.step(&look).acts.len();
        }
        if number > 0 {
            let took = started.elapsed().as_secs_f64();
            worst = worst.max(took);
            total += took;
        }
    }
    let seen = machines.iter().filter(|machine| machine.tracks().len() == 2).count();
    ensure!(seen == POLICIES, "{seen} of {POLICIES} policies saw their series");
    let mean = total / LOOKS as f64;
    Ok(json!({
        "policies": POLICIES,
        "series": head.series_count(),
        "seconds_each_look": rounded(mean),
        "seconds_worst_look": rounded(worst),
        "percent_of_a_core_at_15_s": rounded(100.0 * mean / 15.0),
        "goal_percent": 30,
        "steps": acts,
    }))
}

/// One policy over a hundred series and a week.
fn week() -> anyhow::Result<Value> {
    let mut head = Head::new(HeadConfig::default());
    for series in 0..WEEK_SERIES {
        let at = |number: i64| Sample::new(number * EVERY_MS, value(series, number));
        let samples: Vec<Sample> = (0..WEEK_LOOKS).map(at).collect();
        head.insert("bench", &labels(0, series), &samples).context("series")?;
    }
    let rule = rule(0, "")?;
    let span = Span::new(0, (WEEK_LOOKS - 1) * EVERY_MS);
    let started = Instant::now();
    let report = backtest::run(&rule, &head, Window { span, replicas: 1 });
    let took = started.elapsed().as_secs_f64();
    let report = report.map_err(|problem| anyhow!("{problem}"))?;
    ensure!(report.subjects == WEEK_SERIES, "{} series were seen", report.subjects);
    Ok(json!({
        "series": WEEK_SERIES,
        "looks": report.looks,
        "samples": WEEK_SERIES as i64 * WEEK_LOOKS,
        "seconds": rounded(took),
        "goal_seconds": 1,
        "firings": report.firings.len(),
        "steps": report.acts.len(),
    }))
}
