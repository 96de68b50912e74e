//! The live loop's own work, without the API: ten thousand policies of ten thousand Apps, each looked at when its time has
//! come, over as many seconds as they ask for; then all that is violated at once, and how long each takes to be decided.

use std::time::Instant;

use anyhow::ensure;
use serde_json::{Value, json};
use tombolo_model::policy::Policy;
use tombolo_model::{App, AppId, Node, Shared};
use tombolo_policy::live::{Fleet, Proposal, World};
use tombolo_policy::look::{Engine, Question, Seen, instant};
use tombolo_series::Head;

use crate::numbers::rounded;

/// A look each so often, as the loop does when something is due.
const LOOK_EVERY_MS: i64 = 250;
/// Time that is played, after a first round that compiles everything.
const PLAYED_MS: i64 = 30_000;

struct Samples<'h>(&'h Head);

impl Engine for Samples<'_> {
    fn ask(&self, _: &str, question: &Question, at_ms: i64) -> Result<Vec<Seen>, String> {
        let seen = instant(&question.text, &question.expr, self.0, at_ms);
        seen.map_err(|error| error.to_string())
    }
}

fn app(number: usize) -> anyhow::Result<Shared<App>> {
    let components: Vec<Value> = (0..2)
        .map(|one| json!({"name": format!("component-{one}"), "run": [{"process": {"command": ["x"]}}]}))
        .collect();
    let placements: Vec<Value> = (0..2)
        .map(|one| {
            let node = format!("node-{}", (number * 7 + one) % 500);
            json!({"component": format!("component-{one}"), "replica": 0, "site": "a", "node": node})
        })
        .collect();
    let app: App = serde_json::from_value(json!({
        "apiVersion": "tombolo.dev/v1alpha1", "kind": "App",
        "metadata": {"name": format!("app-{number}"), "namespace": "ns", "generation": 1},
        "spec": {"components": components}, "status": {"placements": placements},
    }))?;
    Ok(app.into())
}

fn policy(number: usize) -> anyhow::Result<Shared<Policy>> {
    let expr = if number.is_multiple_of(2) { "load" } else { "avg_over_time(load[5m])" };
    let policy: Policy = serde_json::from_value(json!({
        "apiVersion": "tombolo.dev/v1alpha1", "kind": "Policy",
        "metadata": {"name": format!("policy-{number}"), "namespace": "ns", "generation": 1},
        "spec": {
            "subject": {"app": format!("app-{number}")},
            "condition": {"expr": expr, "violatedIf": "> 0.8"},
            "remediation": {"action": "migrate"},
        },
        // As after a restart: they do not all come at once.
        "status": {"observedGeneration": 1},
    }))?;
    Ok(policy.into())
}

pub(super) fn run(head: &Head, policies: usize, start_ms: i64) -> anyhow::Result<Value> {
    let apps: Vec<Shared<App>> = (0..policies).map(app).collect::<anyhow::Result<_>>()?;
    let all: Vec<Shared<Policy>> = (0..policies).map(policy).collect::<anyhow::Result<_>>()?;
    let nodes: Vec<Shared<Node>> = Vec::new();
    let holds = |_: &AppId, _: &str, _: &str| None;
    let engine = Samples(head);
    let mut fleet = Fleet::default();
    let mut decided = Vec::new();
    let (mut busy, mut looks, mut asked, mut statuses) = (0.0, 0_usize, 0_usize, 0_usize);
    let mut now_ms = start_ms;
    while now_ms < start_ms + 15_000 + PLAYED_MS {
        let began = Instant::now();
        let world = World::new(&apps, &nodes, &[], &holds);
        fleet.sync(&all, &world, now_ms);
        let answers: Vec<_> = fleet
            .due(now_ms)
            .into_iter()
            .filter_map(|key| {
                let questions = fleet.get(&key)?.questions();
                let answers = questions.iter().map(|one| engine.ask("ns", one, now_ms)).collect();
                Some((key, answers))
            })
            .collect();
        let count = answers.len();
        let mut rehearse = |_: &Proposal| Ok(String::new());
        fleet.take(answers, Vec::new(), &world, now_ms, &mut rehearse);
        let news: Vec<_> = fleet
            .watches()
            .filter_map(|(key, watch)| Some((key.clone(), watch.status(now_ms)?)))
            .collect();
        let steps: usize = news.iter().map(|(_, status)| status.steps.len()).sum();
        let took = began.elapsed().as_secs_f64();
        if steps > 0 {
            decided.push(took);
        }
        if now_ms >= start_ms + 15_000 {
            busy += took;
            looks += 1;
            asked += count;
            statuses += news.len();
        }
        for (key, status) in news {
            if let Some(watch) = fleet.get_mut(&key) {
                watch.wrote(status, None, now_ms);
            }
        }
        now_ms += LOOK_EVERY_MS;
    }
    ensure!(asked >= 2 * policies - policies / 10, "only {asked} questions were asked");
    decided.sort_by(f64::total_cmp);
    let p99 = decided.get((decided.len() * 99 / 100).min(decided.len().saturating_sub(1)));
    Ok(json!({
        "policies": policies,
        "looks": looks,
        "evaluations": asked,
        "statuses": statuses,
        "percent_of_a_core": rounded(100.0 * busy / (PLAYED_MS as f64 / 1000.0)),
        "goal_percent": 30,
        "seconds_evaluation_to_decision_p99": p99.map(|one| rounded(*one)),
        "goal_seconds": 1,
        "note": "without the API: the write of a status comes on top, see `tombolo bench api`",
    }))
}
