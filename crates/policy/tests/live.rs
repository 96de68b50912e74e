//! Policies over made-up worlds: what is written down, what a restart forgets (nothing), and that nothing flaps.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeMap;

use expect_test::{Expect, expect};
use proptest::prelude::*;
use serde_json::{Value, json};
use tombolo_model::policy::{Policy, PolicyStatus, StepState};
use tombolo_model::{App, AppId, Link, Node, Shared};
use tombolo_series::Labels;

use tombolo_policy::live::*;
use tombolo_policy::look::Seen;

const EVERY_MS: i64 = 15_000;

/// Everything that a story is about. Steps that are written down are carried out at once.
struct Stage {
    fleet: Fleet,
    policies: Vec<Shared<Policy>>,
    apps: Vec<Shared<App>>,
    nodes: Vec<Shared<Node>>,
    links: Vec<Shared<Link>>,
    /// Where a component may go; in turn.
    places: Vec<&'static str>,
    lines: String,
}

fn policy(name: &str, mut spec: Value) -> Shared<Policy> {
    if spec.get("subject").is_none() {
        spec["subject"] = json!({"app": "shop", "component": "web"});
    }
    let made: Policy = serde_json::from_value(json!({
        "apiVersion": "tombolo.dev/v1alpha1", "kind": "Policy",
        "metadata": {"name": name, "namespace": "ns", "uid": name, "generation": 1},
        "spec": spec,
    }))
    .unwrap();
    made.into()
}

fn shop(node: &str) -> Shared<App> {
    let made: App = serde_json::from_value(json!({
        "apiVersion": "tombolo.dev/v1alpha1", "kind": "App",
        "metadata": {"name": "shop", "namespace": "ns", "uid": "u-1", "generation": 1},
        "spec": {"components": [
            {"name": "web", "run": [{"process": {"command": ["web"]}}]},
            {"name": "data", "run": [{"process": {"command": ["data"]}}]},
        ]},
        "status": {"placements": [
            {"component": "web", "replica": 0, "site": "a", "node": node, "assignment": "shop-web-0"},
            {"component": "data", "replica": 0, "site": "b", "node": "n9", "assignment": "shop-data-0"},
        ]},
    }))
    .unwrap();
    made.into()
}

fn node(name: &str, site: &str, status: Value) -> Shared<Node> {
    let made: Node = serde_json::from_value(json!({
        "apiVersion": "tombolo.dev/v1alpha1", "kind": "Node",
        "metadata": {"name": name}, "spec": {"site": site}, "status": status,
    }))
    .unwrap();
    made.into()
}

impl Stage {
    fn new(policies: Vec<Shared<Policy>>) -> Self {
        let nodes = ["n1", "n2", "n3", "n9"];
        let nodes = nodes.iter().map(|name| {
            let site = if *name == "n9" { "b" } else { "a" };
            node(name, site, json!({"securityScore": if *name == "n1" { 40 } else { 90 }}))
        });
        Self {
            fleet: Fleet::default(),
            policies,
            apps: vec![shop("n1")],
            nodes: nodes.collect(),
            links: Vec::new(),
            places: vec!["n1", "n2", "n3"],
            lines: String::new(),
        }
    }

    fn component(&self, name: &str) -> &tombolo_model::component::Component {
        self.apps[0].spec.components.iter().find(|one| one.name == name).unwrap()
    }

    fn node_of_web(&self) -> String {
        self.apps[0].status.as_ref().unwrap().placements[0].node.clone().unwrap()
    }

    /// One look: each question is answered with these values of the component web.
    fn look(&mut self, at_ms: i64, answer: &dyn Fn(&str) -> Vec<f64>) {
        let holds = |_: &AppId, _: &str, _: &str| Some(true);
        let (apps, nodes, links) = (self.apps.clone(), self.nodes.clone(), self.links.clone());
        let world = World::new(&apps, &nodes, &links, &holds);
        self.fleet.sync(&self.policies, &world, at_ms);
        let due = self.fleet.due(at_ms);
        let answers = due.into_iter().map(|key| {
            let questions = self.fleet.get(&key).unwrap().questions();
            let answers = questions.iter().map(|question| {
                let labels = [("icos_app_name", "shop"), ("icos_app_component", "web")];
                let seen = answer(&question.text).into_iter();
                Ok(seen.map(|value| Seen { labels: Labels::new(labels), value }).collect())
            });
            let answers = answers.collect();
            (key, answers)
        });
        let answers: Vec<_> = answers.collect();
        let answered: Vec<(Key, Answered)> = self
            .policies
            .iter()
            .filter_map(|one| {
                let metadata = &one.metadata;
                let key = (metadata.namespace.clone()?, metadata.name.clone()?);
                Some((key, Answered::of(one)?))
            })
            .collect();
        let places = self.places.clone();
        let mut rehearse = |proposal: &Proposal| match &proposal.leaves {
            None => Ok(String::new()),
            Some((_, component, from)) => {
                let free = places.iter().find(|place| **place != from.as_str());
                free.map(|place| format!("{place} takes it"))
                    .ok_or_else(|| format!("no other node would take {component}"))
            }
        };
        let told = self.fleet.take(answers, answered, &world, at_ms, &mut rehearse);
        for (key, news) in told.0 {
            let line = format!("{} {}: {:?} {}\n", at_ms / 1000, key.1, news.kind, news.target);
            self.lines.push_str(&line);
        }
        self.write(at_ms);
        self.act(at_ms);
        self.write(at_ms);
    }

    fn write(&mut self, at_ms: i64) {
        let news: Vec<(Key, PolicyStatus)> = self
            .fleet
            .watches()
            .filter_map(|(key, watch)| Some((key.clone(), watch.status(at_ms)?)))
            .collect();
        for (key, status) in news {
            let is_it = |one: &&mut Shared<Policy>| one.metadata.name.as_ref() == Some(&key.1);
            // As it comes back from a disk.
            let text = serde_json::to_string(&status).unwrap();
            let kept: PolicyStatus = serde_json::from_str(&text).unwrap();
            self.policies.iter_mut().find(is_it).unwrap().status = Some(kept);
            self.fleet.get_mut(&key).unwrap().wrote(status, None, at_ms);
        }
    }

    fn act(&mut self, at_ms: i64) {
        let open: Vec<(Key, tombolo_model::policy::PolicyStep)> = self
            .fleet
            .watches()
            .flat_map(|(key, watch)| watch.durable().map(|step| (key.clone(), step.clone())))
            .collect();
        for (key, step) in open {
            let subject = &step.subject;
            let line = format!("{} {}: {} of {subject}", at_ms / 1000, key.1, step.action);
            let app = &mut self.apps[0];
            let what = match (&step.set, &step.node) {
                (Some(set), _) => {
                    let name = step.component.as_deref();
                    let own = app.spec.components.iter().position(|one| Some(&*one.name) == name);
                    let own = own.unwrap();
                    let changed =
                        tombolo_policy::remedy::patched(&app.spec.components[own], set).unwrap();
                    app.spec.components[own] = changed;
                    app.metadata.generation = app.metadata.generation.map(|number| number + 1);
                    set.to_string()
                }
                (None, Some(from)) => {
                    let to = self.places.iter().find(|place| *place != from).unwrap();
                    let status = app.status.as_mut().unwrap();
                    status.placements[0].node = Some((*to).to_owned());
                    format!("{from} to {to}")
                }
                (None, None) => String::new(),
            };
            self.lines.push_str(&format!("{line}: {what}\n"));
            self.fleet.get_mut(&key).unwrap().close(&step.id, StepState::Taken, None);
        }
    }

    fn restart(&mut self) {
        self.fleet = Fleet::default();
    }

    fn status(&self) -> &PolicyStatus {
        self.policies[0].status.as_ref().unwrap()
    }

    fn steps(&self) -> usize {
        self.lines.matches(" of ").count()
    }
}

/// Values of all questions, one a look; `-` for none.
#[track_caller]
fn check(policies: Vec<Shared<Policy>>, values: &str, expected: Expect) -> Stage {
    let mut stage = Stage::new(policies);
    for (number, word) in values.split_whitespace().enumerate() {
        let value: Vec<f64> = word.parse().ok().into_iter().collect();
        stage.look(number as i64 * EVERY_MS, &|_| value.clone());
    }
    expected.assert_eq(&stage.lines);
    stage
}

fn busy(remediation: Value) -> Shared<Policy> {
    policy(
        "busy",
        json!({
            "condition": {"expr": "load", "violatedIf": "> 5"}, "remediation": remediation,
        }),
    )
}

#[test]
fn a_violation_moves_a_component_once_and_its_end_is_told() {
    let stage = check(
        vec![busy(json!({"action": "migrate"}))],
        "1 9 9 1 1",
        expect![[r#"
            15 busy: Violated app/shop/web
            15 busy: migrate of app/shop/web: n1 to n2
            45 busy: Resolved { after_ms: 30000 } app/shop/web
        "#]],
    );
    assert_eq!(stage.node_of_web(), "n2");
    let step = &stage.status().steps[0];
    assert_eq!(step.node.as_deref(), Some("n1"));
    assert_eq!(step.outcome.as_deref(), Some("the violation ended after 30 s"));
    let why = step.message.as_deref().unwrap();
    assert!(why.contains("9, the limit is 5") && why.contains("n2 takes it"), "{why}");
}

#[test]
fn what_cannot_be_met_is_said_once_with_the_reason() {
    let mut stage = Stage::new(vec![busy(json!({"action": "migrate", "cooldown": "15s"}))]);
    stage.places = vec!["n1"];
    for number in 0..400 {
        stage.look(number * EVERY_MS, &|_| vec![9.0]);
        if number % 50 == 0 {
            stage.restart();
        }
    }
    let expected = "0 busy: Violated app/shop/web\n0 busy: Helpless app/shop/web\n";
    assert_eq!(stage.lines, expected);
    let told = tombolo_model::condition::find(&stage.status().conditions, "Achievable").unwrap();
    assert!(told.message.contains("no other node would take web"), "{}", told.message);
    assert_eq!(stage.status().steps.len(), 1, "each refusal is no step of its own");
    assert_eq!(stage.node_of_web(), "n1");
}

#[test]
fn scaling_changes_the_number_within_its_bounds() {
    let stage = check(
        vec![busy(json!({"action": "scale-up", "replicasMax": 3, "cooldown": "15s"}))],
        "9 9 9 9 9 9 9",
        expect![[r#"
            0 busy: Violated app/shop/web
            0 busy: scale-up of app/shop/web: {"replicas":2}
            15 busy: scale-up of app/shop/web: {"replicas":3}
            45 busy: Helpless app/shop/web
        "#]],
    );
    assert_eq!(stage.component("web").replicas, Some(3));
}

#[test]
fn a_number_of_instances_follows_a_load() {
    let follows = policy(
        "follows",
        json!({"scaling": {
            "replicasMin": 1, "replicasMax": 4,
            "metrics": [{"expr": "load", "target": 10}],
        }}),
    );
    let mut stage = Stage::new(vec![follows]);
    for number in 0..20 {
        stage.look(number * EVERY_MS, &|_| vec![40.0]);
    }
    assert_eq!(stage.component("web").replicas, Some(4));
    for number in 20..200 {
        stage.look(number * EVERY_MS, &|_| vec![2.0]);
        if number % 20 == 0 {
            stage.restart();
        }
    }
    assert_eq!(stage.component("web").replicas, Some(1));
    assert!(stage.steps() <= 6, "{}", stage.lines);
}

#[test]
fn a_person_is_asked_and_the_answer_is_heard_once() {
    let spec = json!({
        "condition": {"expr": "load", "violatedIf": "> 5"},
        "remediation": {"action": "migrate"}, "mode": "suggest",
    });
    let mut stage = Stage::new(vec![policy("busy", spec)]);
    for number in 0..3 {
        stage.look(number * EVERY_MS, &|_| vec![9.0]);
    }
    assert_eq!(stage.node_of_web(), "n1");
    let id = stage.status().suggestions[0].id.clone();
    let answer = BTreeMap::from([("tombolo.dev/accept".to_owned(), id)]);
    stage.policies[0].metadata.annotations = Some(answer);
    for number in 3..6 {
        stage.look(number * EVERY_MS, &|_| vec![9.0]);
        stage.restart();
    }
    assert_eq!(stage.node_of_web(), "n2", "{}", stage.lines);
    assert_eq!(stage.steps(), 1, "{}", stage.lines);
}

#[test]
fn a_score_that_falls_moves_who_asks_for_it_and_nobody_else() {
    let safe = policy(
        "safe",
        json!({
            "condition": {"security": "high"}, "remediation": {"action": "migrate"},
        }),
    );
    let loose = policy(
        "loose",
        json!({
            "subject": {"app": "shop", "component": "data"},
            "condition": {"security": "low"}, "remediation": {"action": "migrate"},
        }),
    );
    let stage = check(
        vec![safe, loose],
        "- -",
        expect![[r#"
            0 safe: Violated app/shop/web
            0 safe: migrate of app/shop/web: n1 to n2
            15 safe: Resolved { after_ms: 15000 } app/shop/web
        "#]],
    );
    assert_eq!(stage.node_of_web(), "n2");
}

#[test]
fn a_way_that_becomes_too_slow_is_seen_by_the_link() {
    let near = policy(
        "near",
        json!({
            "condition": {"link": {"to": "data", "latencyMax": "10ms"}}, "mode": "watch",
        }),
    );
    let mut stage = Stage::new(vec![near]);
    let link = |latency: &str| -> Shared<Link> {
        let made: Link = serde_json::from_value(json!({
            "apiVersion": "tombolo.dev/v1alpha1", "kind": "Link", "metadata": {"name": "a-b"},
            "spec": {"ends": [{"kind": "Site", "name": "a"}, {"kind": "Site", "name": "b"}]},
            "status": {"latency": latency},
        }))
        .unwrap();
        made.into()
    };
    for (number, latency) in ["4ms", "30ms", "6ms"].iter().enumerate() {
        stage.links = vec![link(latency)];
        stage.look(number as i64 * EVERY_MS, &|_| Vec::new());
    }
    expect![[r#"
        15 near: Violated app/shop/web
        30 near: Resolved { after_ms: 15000 } app/shop/web
    "#]]
    .assert_eq(&stage.lines);
}

#[test]
fn a_device_that_is_gone_and_a_node_that_is_silent_are_seen_without_samples() {
    let camera = policy(
        "camera",
        json!({
            "condition": {"device": "/dev/video0"}, "remediation": {"action": "redeploy"},
        }),
    );
    let heard = policy(
        "heard",
        json!({
            "subject": {"app": "shop", "component": "data"},
            "condition": {"telemetryLost": "1m"}, "mode": "watch",
        }),
    );
    let mut stage = Stage::new(vec![camera, heard]);
    let has = |path: &str| json!({"characteristics": {"devices": [{"name": "c", "path": path}]}});
    stage.nodes[0] = node("n1", "a", has("/dev/video0"));
    stage.look(0, &|_| Vec::new());
    assert_eq!(stage.lines, "");
    stage.nodes[0] = node("n1", "a", has("/dev/sda"));
    let silent = json!({"conditions": [{"type": "Ready", "status": "Unknown", "reason": "r",
        "message": "m", "lastTransitionTime": "1970-01-01T00:00:00Z"}]});
    stage.nodes[3] = node("n9", "b", silent);
    stage.look(4 * EVERY_MS, &|_| Vec::new());
    expect![[r#"
        60 camera: Violated app/shop/web
        60 heard: Violated app/shop/data
        60 camera: redeploy of app/shop/web: n1 to n2
    "#]]
    .assert_eq(&stage.lines);
}

#[test]
fn machines_are_put_into_quarantine_by_those_who_look_after_them_alone() {
    let spec = json!({
        "subject": {"node": "n1"},
        "condition": {"security": "high"}, "remediation": {"action": "quarantine"},
    });
    let stage = check(
        vec![policy("safe", spec)],
        "-",
        expect![[r#"
            0 safe: Violated node/n1
            0 safe: Helpless node/n1
        "#]],
    );
    let told = &stage.status().steps[0];
    assert_eq!(told.state, StepState::Refused);
    assert!(told.message.as_deref().unwrap().contains("tombolo-system"), "{told:?}");
}

#[test]
fn a_policy_with_a_mistake_says_where() {
    let broken = policy("broken", json!({"condition": {"expr": "sum(load"}}));
    let stage = check(vec![broken], "1", expect![""]);
    let told = tombolo_model::condition::find(&stage.status().conditions, "Valid").unwrap();
    assert!(told.message.contains("condition.expr:1:"), "{}", told.message);
}

#[test]
fn policies_of_an_app_come_change_and_go_with_it() {
    let with = |policies: Value| -> Vec<Shared<App>> {
        let mut app = shop("n1");
        app.spec.policies = serde_json::from_value(policies).unwrap();
        vec![app]
    };
    let quick = |expr: &str| json!([{"name": "quick", "condition": {"expr": expr}}]);
    let made = of_apps(&with(quick("late")), &[]);
    let [Carried::Create(own)] = &made[..] else { panic!("{made:?}") };
    assert_eq!(own.metadata.name.as_deref(), Some("shop.quick"));
    assert_eq!(own.spec.subject.app.as_deref(), Some("shop"));
    let mut own = own.clone();
    own.metadata.uid = Some("p-1".to_owned());
    let known = vec![Shared::from(*own)];
    assert_eq!(of_apps(&with(quick("late")), &known), []);
    assert!(matches!(of_apps(&with(quick("later")), &known)[..], [Carried::Update { .. }]));
    assert!(matches!(of_apps(&with(json!([])), &known)[..], [Carried::Delete { .. }]));
    // Somebody else's policy of that name is left alone.
    let other = policy("shop.quick", json!({"condition": {"expr": "mine"}}));
    assert_eq!(of_apps(&with(quick("late")), &[other]), []);
}

/// A signal of any shape.
fn signal() -> impl Strategy<Value = Vec<f64>> {
    let looks = 400usize;
    prop_oneof![
        proptest::collection::vec(0.0..10.0f64, looks),
        (1usize..40).prop_map(move |half| {
            (0..looks).map(|n| if (n / half) % 2 == 0 { 9.0 } else { 1.0 }).collect()
        }),
        (0usize..400)
            .prop_map(move |at| (0..looks).map(|n| if n < at { 9.0 } else { 1.0 }).collect()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn nothing_flaps_whatever_the_signal_and_it_settles_when_the_signal_does(values in signal()) {
        let remediation = json!({"action": "migrate", "cooldown": "1m"});
        let mut stage = Stage::new(vec![busy(remediation)]);
        for (number, value) in values.iter().enumerate() {
            stage.look(number as i64 * EVERY_MS, &|_| vec![*value]);
        }
        // A pause that doubles: of 100 minutes there is room for few.
        prop_assert!(stage.steps() <= 12, "{} steps: {}", stage.steps(), stage.lines);
        let before = stage.steps();
        for number in 400..800 {
            stage.look(number * EVERY_MS, &|_| vec![1.0]);
        }
        prop_assert_eq!(stage.steps(), before);
    }

    #[test]
    fn two_policies_that_pull_apart_do_not_fight_live(values in signal()) {
        let of = |name: &str, violated: &str, action: &str| policy(name, json!({
            "condition": {"expr": "load", "violatedIf": violated},
            "remediation": {"action": action, "cooldown": "15s", "replicasMax": 9},
        }));
        let mut stage = Stage::new(vec![of("up", "> 5", "scale-up"), of("down", "< 5", "scale-down")]);
        for (number, value) in values.iter().enumerate() {
            stage.look(number as i64 * EVERY_MS, &|_| vec![*value]);
        }
        let turns = {
            let acts: Vec<bool> = stage.lines.lines().filter(|line| line.contains(" of "))
                .map(|line| line.contains("scale-up of")).collect();
            acts.windows(2).filter(|pair| pair[0] != pair[1]).count()
        };
        prop_assert!(turns <= 6, "{turns} turns in 100 minutes: {}", stage.lines);
    }

    #[test]
    fn a_restart_at_any_moment_takes_no_step_twice(
        values in signal(),
        ends in proptest::collection::btree_set(0usize..400, 0..30),
    ) {
        let mut calm = Stage::new(vec![busy(json!({"action": "scale-up", "replicasMax": 50}))]);
        let mut torn = Stage::new(vec![busy(json!({"action": "scale-up", "replicasMax": 50}))]);
        for (number, value) in values.iter().enumerate() {
            let at_ms = number as i64 * EVERY_MS;
            calm.look(at_ms, &|_| vec![*value]);
            if ends.contains(&number) {
                torn.restart();
            }
            torn.look(at_ms, &|_| vec![*value]);
        }
        // What nobody watched for a moment may be done later, and never more often.
        prop_assert!(torn.steps() <= calm.steps() + 1, "{}\n{}", calm.lines, torn.lines);
    }
}
