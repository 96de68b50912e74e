//! A policy over recorded samples: the same as looking live, and what comes of it.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use proptest::prelude::*;
use serde_json::{Value, json};
use tombolo_model::PolicySpec;
use tombolo_policy::backtest::{self, Report, Window};
use tombolo_policy::scale::Spec;
use tombolo_policy::template::Templates;
use tombolo_policy::{Act, Change, ChangeKind, Context, Machine, Rule, Watched, compile, look};
use tombolo_series::exposition::{self, Limits};
use tombolo_series::{Head, HeadConfig, Labels, Sample, Span};

const EVERY_MS: i64 = 15_000;

fn watched(mut spec: Value) -> Watched {
    spec["subject"] = json!({"app": "shop"});
    let spec: PolicySpec = serde_json::from_value(spec).unwrap();
    Watched::of_policy("busy", &spec)
}

fn rule(condition: Value, remediation: Value) -> Rule {
    let policy = watched(json!({"condition": condition, "remediation": remediation}));
    compile(&policy, &Templates::default(), &Context::default()).unwrap()
}

/// Samples of components, one every 15 s; nothing where there was none.
fn head(components: &[(&str, Vec<Option<f64>>)]) -> Head {
    let mut head = Head::new(HeadConfig::default());
    for (component, values) in components {
        let labels = Labels::new([
            ("__name__", "load"),
            ("icos_app_name", "shop"),
            ("icos_app_component", component),
        ]);
        let at = |(number, value): (usize, &Option<f64>)| {
            Some(Sample::new(number as i64 * EVERY_MS, (*value)?))
        };
        let samples: Vec<Sample> = values.iter().enumerate().filter_map(at).collect();
        head.insert("test", &labels, &samples).unwrap();
    }
    head
}

fn window(looks: usize, replicas: u32) -> Window {
    Window { span: Span::new(0, (looks as i64 - 1) * EVERY_MS), replicas }
}

fn levels(parts: &[(usize, f64)]) -> Vec<Option<f64>> {
    parts.iter().flat_map(|(count, level)| vec![Some(*level); *count]).collect()
}

fn run(rule: &Rule, head: &Head, window: Window) -> Report {
    backtest::run(rule, head, window).unwrap()
}

#[test]
fn firings_steps_and_time_in_violation_are_counted() {
    let condition = json!({
        "expr": "load", "violatedIf": "> 5", "properties": {"pendingInterval": "30s"},
    });
    let rule = rule(condition, json!({"action": "migrate", "cooldown": "5m"}));
    let web = levels(&[(10, 1.0), (20, 9.0), (10, 1.0)]);
    let head = head(&[("web", web), ("db", levels(&[(40, 2.0)]))]);
    let report = run(&rule, &head, window(40, 1));
    assert_eq!((report.looks, report.subjects, report.blind_looks), (40, 2, 0));
    let firing = &report.firings[0];
    assert_eq!((report.firings.len(), firing.from_ms, firing.to_ms), (1, 180_000, Some(450_000)));
    assert_eq!(report.violated_ms, 18 * EVERY_MS);
    assert_eq!((report.acts.len(), report.acts[0].at_ms), (1, 180_000));
    assert_eq!(report.acts[0].target.to_string(), "app/shop/web");
    // By the model it is over a minute after the step.
    assert_eq!(report.violated_after_ms, 4 * EVERY_MS);
    assert!(report.to_plot().lines().nth(1).unwrap().contains("!!!"), "{}", report.to_plot());
    assert!(report.to_json()["model"].as_str().unwrap().contains("60 s later"));
}

#[test]
fn more_instances_share_the_load_by_the_model() {
    let condition = json!({"expr": "load", "violatedIf": "> 5"});
    let rule = rule(condition, json!({"action": "scale-up", "cooldown": "1m"}));
    let head = head(&[("web", levels(&[(4, 1.0), (40, 9.0)]))]);
    let report = run(&rule, &head, window(44, 1));
    assert_eq!(report.acts.len(), 1, "9 on two is 4.5 on each");
    assert_eq!(report.violated_ms, 40 * EVERY_MS);
    assert_eq!(report.violated_after_ms, EVERY_MS);
}

#[test]
fn what_is_about_a_fact_cannot_be_tested_with_samples() {
    let rule = rule(json!({"placement": true}), json!({"action": "redeploy"}));
    let problem = backtest::run(&rule, &head(&[]), window(4, 1)).unwrap_err();
    assert!(problem.to_string().contains("no samples tell"), "{problem}");
}

#[test]
fn a_security_score_that_drops_fires_over_icos_series() {
    let text = "\
        tlum_workload_info{icos_app_name=\"shop\",icos_app_component=\"web\",icos_host_id=\"h\"} 1 0\n\
        tlum_host_info{icos_host_id=\"h\",ip=\"10.0.0.1\",hostname=\"n\"} 1 0\n\
        SCA_score{agent_ip=\"10.0.0.1\",agent_hostname=\"n\"} 80 0\n\
        tlum_workload_info{icos_app_name=\"shop\",icos_app_component=\"web\",icos_host_id=\"h\"} 1 60\n\
        tlum_host_info{icos_host_id=\"h\",ip=\"10.0.0.1\",hostname=\"n\"} 1 60\n\
        SCA_score{agent_ip=\"10.0.0.1\",agent_hostname=\"n\"} 40 60\n# EOF\n";
    let mut head = Head::default();
    for (labels, samples) in exposition::read(text, &Limits::default()).unwrap() {
        head.insert("test", &labels, &samples).unwrap();
    }
    let rule = rule(json!({"security": "high"}), json!({"action": "redeploy"}));
    let report = run(&rule, &head, window(8, 1));
    assert_eq!(report.failure, None);
    assert_eq!(report.firings.len(), 1);
    assert_eq!((report.firings[0].from_ms, report.firings[0].value), (60_000, 40.0));
    assert_eq!(report.acts[0].target.to_string(), "app/shop/web");
}

#[test]
fn lost_telemetry_and_a_device_that_is_gone_are_found_in_icos_series() {
    let info = |at: i64| {
        format!(
            "tlum_workload_info{{icos_app_name=\"shop\",icos_app_component=\"web\",icos_host_id=\"h\"}} 1 {at}\n"
        )
    };
    let device = |at: i64| {
        format!("node_mounted{{resource_path=\"/dev/video0\",icos_host_id=\"h\"}} 1 {at}\n")
    };
    let mut text = String::new();
    for at in (0..1800).step_by(60) {
        text.push_str(&info(at));
        if at < 900 {
            text.push_str(&device(at));
        }
    }
    let mut head = Head::default();
    for (labels, samples) in
        exposition::read(&format!("{text}# EOF\n"), &Limits::default()).unwrap()
    {
        head.insert("test", &labels, &samples).unwrap();
    }
    let gone = rule(json!({"device": "/dev/video0"}), json!({"action": "redeploy"}));
    let report = run(&gone, &head, window(120, 1));
    assert_eq!((report.failure.as_deref(), report.firings.len()), (None, 1));
    let from_s = report.firings[0].from_ms / 1000;
    assert!((900..=1200).contains(&from_s), "{from_s}");
    let lost = rule(json!({"telemetryLost": "5m"}), json!({"action": "redeploy"}));
    let report = run(&lost, &head, window(160, 1));
    assert_eq!((report.failure.as_deref(), report.firings.len()), (None, 1));
    let from_s = report.firings[0].from_ms / 1000;
    assert!((2040..=2100).contains(&from_s), "{from_s}");
}

#[test]
fn node_usage_names_the_worst_of_its_figures() {
    let mut text = String::new();
    for at in (0..600).step_by(15) {
        let busy = f64::from(at) * 0.1;
        for line in [
            "tlum_workload_info{icos_app_name=\"shop\",icos_app_component=\"web\",icos_host_id=\"h\"} 1".to_owned(),
            format!("node_cpu_seconds_total{{mode=\"idle\",cpu=\"0\",icos_host_id=\"h\"}} {busy}"),
            "node_memory_MemAvailable_bytes{icos_host_id=\"h\"} 2e9".to_owned(),
            "node_memory_MemTotal_bytes{icos_host_id=\"h\"} 8e9".to_owned(),
        ] {
            text.push_str(&format!("{line} {at}\n"));
        }
    }
    let mut head = Head::default();
    for (labels, samples) in
        exposition::read(&format!("{text}# EOF\n"), &Limits::default()).unwrap()
    {
        head.insert("test", &labels, &samples).unwrap();
    }
    let usage = |said: Value| {
        let rule = rule(json!({"nodeUsage": said}), json!({"action": "migrate"}));
        // Once the rates have all of their range.
        let span = Span::new(150_000, 585_000);
        let report = run(&rule, &head, Window { span, replicas: 1 });
        assert_eq!(report.failure, None);
        report.firings.first().map(|firing| (firing.value * 1000.0).round() / 1000.0)
    };
    assert_eq!(usage(json!({"cpuPercentMax": 80})), Some(1.125), "90 of 80");
    assert_eq!(usage(json!({"cpuPercentMax": 95})), None);
    assert_eq!(usage(json!({"cpuPercentMax": 95, "memoryPercentMax": 60})), Some(1.25), "75 of 60");
    assert_eq!(usage(json!({"memoryFreeMin": "4G", "excludeAppResources": true})), Some(2.0));
}

#[test]
fn a_scaling_follows_a_load_and_says_how_well() {
    let policy = watched(json!({
        "scaling": {"replicasMax": 20, "metrics": [{"expr": "sum(load)", "target": 10}]},
    }));
    let spec = Spec::compile(&policy, &Context::default()).unwrap();
    let head = head(&[("web", levels(&[(40, 30.0), (40, 80.0), (120, 30.0)]))]);
    let report = backtest::run_scaling("size", &spec, &head, window(200, 3)).unwrap();
    assert_eq!(report.failure, None);
    let supply = |number: usize| report.points[number].supply;
    assert_eq!((supply(39), supply(79), supply(199)), (3, 8, 3));
    assert!(report.elasticity.under_time_share < 3.0, "{:?}", report.elasticity);
    assert!(report.acts.len() <= 4, "{:?}", report.acts);
    assert!(report.to_plot().starts_with("needed"));
}

/// The changes and steps of looking at each moment, one after the other.
fn live(rule: &Rule, head: &Head, looks: usize) -> (Vec<Change>, Vec<Act>) {
    let mut machine = Machine::new(rule.clone(), None);
    let (mut changes, mut acts) = (Vec::new(), Vec::new());
    for number in 0..looks {
        let stepped = machine.step(&look::at(rule, head, number as i64 * EVERY_MS));
        changes.extend(stepped.changes);
        acts.extend(stepped.acts);
    }
    (changes, acts)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn a_back_test_sees_what_looking_live_sees(
        web in proptest::collection::vec(proptest::option::weighted(0.9, 3.0..7.0f64), 60),
        db in proptest::collection::vec(proptest::option::weighted(0.5, 3.0..7.0f64), 60),
        windowed in any::<bool>(),
    ) {
        let expr = if windowed { "avg_over_time(load[1m])" } else { "load" };
        let condition = json!({
            "expr": expr, "violatedIf": "> 5", "properties": {"pendingInterval": "15s"},
            "prediction": {"within": "1m", "over": "2m"},
        });
        // A step that changes nothing by the model.
        let rule = rule(condition, json!({"action": "notify", "cooldown": "30s"}));
        let head = head(&[("web", web), ("db", db)]);
        let (changes, acts) = live(&rule, &head, 60);
        let report = run(&rule, &head, window(60, 1));
        let fired = changes.iter().filter(|change| change.kind == ChangeKind::Firing).count();
        let predicted = changes.iter().filter(|change| change.kind == ChangeKind::Predicted).count();
        prop_assert_eq!(report.firings.len(), fired);
        prop_assert_eq!(report.predicted, predicted);
        prop_assert_eq!(report.acts, acts);
    }
}
