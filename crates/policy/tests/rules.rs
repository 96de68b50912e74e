//! What becomes of a policy: its expression, bound to its subject, and when a value is a violation.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use serde_json::{Value, json};
use tombolo_model::policy::LinkCheck;
use tombolo_model::{PolicySpec, validate};
use tombolo_policy::template::Templates;
use tombolo_policy::{Context, Fact, Levels, Problem, Rule, Source, Watched, compile};

fn compiled(condition: Value) -> Result<Rule, Vec<Problem>> {
    let spec = json!({"subject": {"app": "shop", "component": "web"}, "condition": condition});
    let object = json!({
        "apiVersion": "tombolo.dev/v1alpha1", "kind": "Policy", "metadata": {"name": "p"},
        "spec": spec,
    });
    assert_eq!(validate::policy(&object), [], "{object}");
    let spec: PolicySpec = serde_json::from_value(spec).unwrap();
    compile(&Watched::of_policy("p", &spec), &Templates::default(), &Context::default())
}

const WEB: &str = r#"icos_app_component="web",icos_app_name="shop""#;

#[track_caller]
fn check(condition: Value, alert: &str) {
    let found = compiled(condition).unwrap().alert().unwrap();
    assert_eq!(found, alert.replace("WEB", WEB));
}

#[test]
fn an_expression_is_bound_to_its_subject_and_its_comparison_taken_off() {
    check(json!({"expr": "rate(x[5m]) > 3"}), "rate(x{WEB}[5m]) > 3");
    check(json!({"expr": "x{a=\"b\"} == 0"}), "x{WEB,a=\"b\"} == 0");
    check(json!({"expr": "x", "violatedIf": "<= 2"}), "x{WEB} <= 2");
    check(json!({"expr": "x unless y"}), "x{WEB} unless y{WEB}");
    check(json!({"expr": "x{ {{subject_label_selector}} } / y > 1"}), "x{ WEB } / y > 1");
    let rule = compiled(json!({"expr": "(x > 3)"})).unwrap();
    let Source::Query { text, .. } = rule.source else { panic!("it is measured") };
    assert_eq!(text, format!("x{{{WEB}}}"), "the value is asked for without the comparison");
}

#[test]
fn thresholds_alone_say_what_is_bad_by_their_order() {
    check(json!({"expr": "x", "thresholds": {"warning": 3, "critical": 5}}), "x{WEB} >= 3");
    check(json!({"expr": "x", "thresholds": {"warning": 5, "critical": 3}}), "x{WEB} <= 5");
    check(json!({"expr": "x", "thresholds": {"critical": 3}}), "x{WEB} >= 3");
    let below = compiled(json!({"expr": "x", "thresholds": {"warning": 5, "critical": 3}}));
    let condition = below.unwrap().condition;
    let levels = [6.0, 5.0, 4.0, 3.0].map(|value| condition.judge(value).level);
    assert_eq!(levels, [None, Some("warning"), Some("warning"), Some("critical")]);
    assert!(!condition.judge(6.0).violated && condition.judge(5.0).violated);
    let both =
        json!({"expr": "x", "violatedIf": "> 4", "thresholds": {"warning": 3, "critical": 5}});
    let condition = compiled(both).unwrap().condition;
    let found = [3.5, 4.5, 5.5].map(|value| {
        let verdict = condition.judge(value);
        (verdict.violated, verdict.level, verdict.limit)
    });
    assert_eq!(
        found,
        [
            (false, Some("warning"), Some(3.0)),
            (true, Some("warning"), Some(3.0)),
            (true, Some("critical"), Some(5.0))
        ]
    );
}

#[test]
fn every_template_compiles_with_its_variables() {
    for template in Templates::default().iter() {
        let given = template.variables.iter().filter(|(_, usual)| usual.is_null());
        let variables: Value = given.map(|(name, _)| (name.clone(), json!(1))).collect();
        let variables = if variables.is_null() { json!({}) } else { variables };
        let rule = compiled(json!({"template": template.name, "variables": variables}));
        let alert =
            rule.unwrap_or_else(|problems| panic!("{}: {problems:?}", template.name)).alert();
        assert!(alert.unwrap().contains(WEB), "{}", template.name);
    }
}

#[test]
fn the_words_of_security_levels_are_a_setting() {
    let spec: PolicySpec = serde_json::from_value(
        json!({"subject": {"app": "shop"}, "condition": {"security": "high"}}),
    )
    .unwrap();
    let levels = Levels { low: 0, medium: 50, high: 80 };
    let context = Context { levels, ..Context::default() };
    let rule = compile(&Watched::of_policy("p", &spec), &Templates::default(), &context).unwrap();
    assert!(rule.alert().unwrap().ends_with(" < 80"));
}

#[test]
fn a_devices_path_is_not_a_pattern() {
    let rule = compiled(json!({"device": "/dev/a.b+"})).unwrap();
    assert!(
        rule.alert().unwrap().contains(r#"resource_path=~"/dev/a[.]b[+]""#),
        "{:?}",
        rule.alert()
    );
}

#[test]
fn links_and_needs_are_facts_that_somebody_else_knows() {
    let link = json!({"link": {"to": "db", "latencyMax": "20ms", "bandwidthMin": "10Mbps"}});
    let rule = compiled(link).unwrap();
    let Source::Fact(Fact::Link(link)) = &rule.source else { panic!("it is a fact") };
    let of = |latency, bps| Fact::of_link(link, latency, bps);
    assert_eq!(of(Some(10_000.0), Some(20e6)), Some(0.5));
    assert_eq!(of(Some(30_000.0), Some(20e6)), Some(1.5), "too slow");
    assert_eq!(of(Some(10_000.0), Some(5e6)), Some(2.0), "too narrow");
    assert_eq!(of(None, None), None);
    assert!(rule.condition.judge(1.5).violated && !rule.condition.judge(1.0).violated);
    assert_eq!(rule.alert(), None);
    let only = LinkCheck { bandwidth_min: None, ..link.clone() };
    assert_eq!(Fact::of_link(&only, Some(40_000.0), Some(1.0)), Some(2.0));
    let needs = compiled(json!({"placement": true})).unwrap();
    assert!(needs.condition.judge(1.0).violated && !needs.condition.judge(0.0).violated);
}

#[test]
fn a_fact_has_no_trend() {
    let trend = json!({"link": {"to": "db", "latencyMax": "1ms"}, "prediction": {"within": "5m"}});
    let problems = compiled(trend).unwrap_err();
    assert_eq!(
        problems[0].to_string(),
        "condition.prediction: only with something that is measured"
    );
}

#[test]
fn a_subject_that_is_no_pattern_is_refused() {
    let spec: PolicySpec =
        serde_json::from_value(json!({"subject": {"app": "/(/"}, "condition": {"expr": "x"}}))
            .unwrap();
    let policy = Watched::of_policy("p", &spec);
    let problems = compile(&policy, &Templates::default(), &Context::default()).unwrap_err();
    assert_eq!((problems.len(), problems[0].path.as_str()), (1, "subject"));
}
