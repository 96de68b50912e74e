//! One policy over time: phases, pauses, memory, and that nothing flaps.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use expect_test::{Expect, expect};
use proptest::prelude::*;
use serde_json::{Value, json};
use tombolo_model::PolicySpec;
use tombolo_policy::look::{Look, Seen};
use tombolo_policy::template::Templates;
use tombolo_policy::{
    ChangeKind, Context, Held, Machine, Memory, Outcome, Phase, Rule, Watched, compile,
};
use tombolo_series::Labels;

const EVERY_MS: i64 = 15_000;

fn rule(mut spec: Value) -> Rule {
    spec["subject"] = json!({"app": "shop", "component": "web"});
    let spec: PolicySpec = serde_json::from_value(spec).unwrap();
    compile(&Watched::of_policy("busy", &spec), &Templates::default(), &Context::default()).unwrap()
}

fn busy(properties: Value, remediation: Value) -> Rule {
    rule(json!({
        "condition": {"expr": "load", "violatedIf": "> 5", "properties": properties},
        "remediation": remediation,
    }))
}

fn web() -> Labels {
    Labels::new([
        ("icos_app_name", "shop"),
        ("icos_app_component", "web"),
        ("icos_host_name", "n1"),
    ])
}

fn look(at_ms: i64, value: Option<f64>) -> Look {
    let seen = value.map(|value| Seen { labels: web(), value });
    Look { at_ms, seen: seen.into_iter().collect(), ..Look::default() }
}

fn kind(kind: ChangeKind) -> String {
    match kind {
        ChangeKind::Resolved { after_ms } => format!("resolved after {} s", after_ms / 1000),
        other => format!("{other:?}").to_lowercase(),
    }
}

/// Values, one a look; `-` for none. Lines for what changes and what is done.
fn story(machine: &mut Machine, from_ms: i64, values: &str) -> String {
    let mut lines = String::new();
    for (number, word) in values.split_whitespace().enumerate() {
        let at_ms = from_ms + number as i64 * EVERY_MS;
        let stepped = machine.step(&look(at_ms, word.parse().ok()));
        let seconds = at_ms / 1000;
        for change in stepped.changes {
            lines.push_str(&format!("{seconds} {}\n", kind(change.kind)));
        }
        for act in stepped.acts {
            lines.push_str(&format!("{seconds} {} for {}\n", act.action, act.target));
        }
    }
    lines
}

#[track_caller]
fn check(rule: Rule, values: &str, expected: Expect) {
    expected.assert_eq(&story(&mut Machine::new(rule, None), 0, values));
}

#[test]
fn a_violation_must_last_and_is_resolved_when_it_ends() {
    check(
        busy(json!({"pendingInterval": "30s"}), json!({"action": "migrate"})),
        "1 9 1 9 9 9 9 1 1",
        expect![[r#"
            15 pending
            45 pending
            75 firing
            75 migrate for app/shop/web
            105 resolved after 30 s
        "#]],
    );
}

#[test]
fn a_violation_is_kept_for_a_while_and_nothing_is_done_meanwhile() {
    check(
        busy(json!({"keepFiringFor": "45s"}), json!({"action": "restart", "cooldown": "15s"})),
        "9 1 1 9 1 1 1 1",
        expect![[r#"
            0 firing
            0 restart for app/shop/web
            45 restart for app/shop/web
            90 resolved after 90 s
        "#]],
    );
}

#[test]
fn without_values_it_is_unknown_and_not_well() {
    let mut machine = Machine::new(busy(json!({}), json!({"action": "migrate"})), None);
    assert_eq!(machine.phase().as_str(), "unknown");
    expect![[r#"
        0 firing
        0 migrate for app/shop/web
        15 lost
    "#]]
    .assert_eq(&story(&mut machine, 0, "9 - - nan"));
    assert_eq!(machine.phase().as_str(), "unknown");
    story(&mut machine, 60_000, "1");
    assert_eq!(machine.phase().as_str(), "enforced");
    let failed = Look { at_ms: 75_000, failure: Some("no".to_owned()), ..Look::default() };
    machine.step(&failed);
    assert_eq!((machine.phase().as_str(), machine.failure()), ("unknown", Some("no")));
}

#[test]
fn what_shows_only_when_violated_is_well_when_it_does_not_show() {
    let rule = rule(json!({"condition": {"expr": "gone"}, "remediation": {"action": "redeploy"}}));
    let mut machine = Machine::new(rule, None);
    let told = story(&mut machine, 0, "- 1 1 - -");
    assert_eq!(told, "15 firing\n15 redeploy for app/shop/web\n45 resolved after 30 s\n");
    assert_eq!(machine.phase().as_str(), "enforced");
}

#[test]
fn a_step_that_does_not_help_is_tried_ever_more_seldom_and_said_once() {
    let rule = busy(json!({}), json!({"action": "migrate", "cooldown": "1m"}));
    let mut machine = Machine::new(rule, None);
    let told = story(&mut machine, 0, &"9 ".repeat(240));
    expect![[r#"
        0 firing
        0 migrate for app/shop/web
        60 migrate for app/shop/web
        180 migrate for app/shop/web
        420 migrate for app/shop/web
        900 cannotbemet
        900 migrate for app/shop/web
        1860 migrate for app/shop/web
    "#]]
    .assert_eq(&told);
    let outcomes: Vec<Outcome> = machine.past().iter().map(|past| past.outcome).collect();
    assert_eq!(outcomes[..5], [Outcome::InVain; 5]);
    assert_eq!(outcomes[5], Outcome::Open);
}

#[test]
fn a_budget_bounds_the_steps_of_a_time() {
    let remediation =
        json!({"action": "restart", "cooldown": "15s", "budget": {"acts": 2, "per": "1h"}});
    let mut machine = Machine::new(busy(json!({}), remediation), None);
    story(&mut machine, 0, &"9 ".repeat(238));
    assert_eq!(machine.past().len(), 2);
    let held = machine.step(&look(238 * EVERY_MS, Some(9.0))).held;
    assert_eq!(held, [(web(), Held::Budget { until_ms: 3_600_000 })]);
    let told = story(&mut machine, 3_585_000, "9 9");
    assert_eq!(told, "3600 restart for app/shop/web\n");
}

#[test]
fn once_is_once() {
    let mut machine =
        Machine::new(busy(json!({"oneOff": true}), json!({"action": "restart"})), None);
    let told = story(&mut machine, 0, &"9 1 ".repeat(100));
    assert_eq!(told, "0 firing\n0 restart for app/shop/web\n");
    assert_eq!(machine.phase().as_str(), "inactive");
    let mut again = Machine::new(machine.rule().clone(), Some(machine.memory()));
    assert_eq!(story(&mut again, 9_000_000, "9 9"), "");
}

#[test]
fn watching_does_nothing_and_neither_does_none() {
    let mut watched = busy(json!({}), json!({"action": "migrate"}));
    watched.mode = tombolo_model::policy::Mode::Watch;
    for rule in [watched, busy(json!({}), json!({"action": "none"}))] {
        assert_eq!(story(&mut Machine::new(rule, None), 0, "9 9 9 9 9 9"), "0 firing\n");
    }
}

#[test]
fn a_security_level_with_no_remediation_watches_and_does_not_move() {
    let rule = rule(json!({"condition": {"security": "high"}, "remediation": {"action": "none"}}));
    assert!(rule.alert().unwrap().ends_with(" < 67"), "{:?}", rule.alert());
    let mut machine = Machine::new(rule, None);
    assert_eq!(story(&mut machine, 0, "80 20 20 20"), "15 firing\n");
    assert_eq!(machine.tracks()[0].limit, Some(67.0));
}

#[test]
fn a_suggestion_waits_for_a_person_and_expires() {
    let mut rule = busy(json!({}), json!({"action": "scale-up"}));
    rule.mode = tombolo_model::policy::Mode::Suggest;
    let mut machine = Machine::new(rule, None);
    assert_eq!(story(&mut machine, 0, "9 9 9 9 9 9").lines().count(), 2, "firing, and asked once");
    let id = machine.suggestions()[0].id.clone();
    assert!(machine.past().is_empty());
    let mut again = Machine::new(machine.rule().clone(), Some(machine.memory()));
    assert!(again.accept("other", 90_000).is_none());
    let act = again.accept(&id, 90_000).unwrap();
    assert_eq!((act.action.as_str(), again.past().len()), ("scale-up", 1));
    assert!(again.accept(&id, 90_000).is_none(), "accepted twice");
    assert!(machine.dismiss(&id, 90_000));
    assert!(!machine.dismiss(&id, 90_000));
    assert_eq!(story(&mut machine, 105_000, "9 9"), "");
    assert_eq!(story(&mut machine, 150_000, "9"), "150 scale-up for app/shop/web\n");
    let told = story(&mut machine, 150_000 + 3_600_000, "9");
    assert_eq!(
        told, "3750 scale-up for app/shop/web\n",
        "the old one expired, and it is asked anew"
    );
}

#[test]
fn a_trend_is_a_state_of_its_own_with_its_own_step() {
    let rule = rule(json!({
        "condition": {
            "expr": "load", "violatedIf": "> 5",
            "prediction": {"within": "5m", "action": "scale-up"},
        },
        "remediation": {"action": "migrate"},
    }));
    let trend = rule.trend.clone().unwrap();
    assert_eq!(
        trend.text,
        "predict_linear((load{icos_app_component=\"web\",icos_app_name=\"shop\"})[600000ms:15000ms], 300)"
    );
    let mut machine = Machine::new(rule, None);
    let mut told = Vec::new();
    for (at_ms, value, ahead) in [
        (0, 1.0, 2.0),
        (15_000, 2.0, 6.0),
        (30_000, 3.0, 9.0),
        (45_000, 3.0, 3.0),
        (60_000, 9.0, 9.0),
    ] {
        let ahead = vec![Seen { labels: web(), value: ahead }];
        let stepped = machine.step(&Look { ahead, ..look(at_ms, Some(value)) });
        told.extend(stepped.changes.iter().map(|change| kind(change.kind)));
        told.extend(stepped.acts.iter().map(|act| format!("{} {}", act.action, act.early)));
        told.push(machine.phase().to_string());
    }
    let expected = [
        "enforced",
        "predicted",
        "scale-up true",
        "predicted",
        "predicted",
        "enforced",
        "firing",
        "violated",
    ];
    assert_eq!(told, expected, "the step against the violation waits for the cooldown");
}

#[test]
fn a_long_silence_of_ours_does_not_count_as_lasting() {
    let rule = busy(json!({"pendingInterval": "10m"}), json!({"action": "migrate"}));
    let mut machine = Machine::new(rule, None);
    story(&mut machine, 0, "9 9");
    assert_eq!(story(&mut machine, 3_600_000, "9 9"), "");
    assert_eq!(machine.tracks()[0].phase, Phase::Pending);
    assert_eq!(machine.tracks()[0].since_ms, 3_600_000);
}

#[test]
fn a_clock_that_is_set_back_does_nothing_twice() {
    let mut machine = Machine::new(busy(json!({}), json!({"action": "migrate"})), None);
    story(&mut machine, 1_000_000, "9");
    assert_eq!(story(&mut machine, 0, "9 9 9 9 9 9 9 9 9 9"), "");
}

/// Signals that a policy may see: noise, a square wave, steps, and anything.
fn signal() -> BoxedStrategy<Vec<Option<f64>>> {
    let length = 400usize;
    prop_oneof![
        proptest::collection::vec(0.0..10.0f64, length)
            .prop_map(|all| all.into_iter().map(Some).collect()),
        (1usize..40, 1usize..40).prop_map(move |(high, low)| {
            (0..length).map(|at| Some(if at % (high + low) < high { 9.0 } else { 1.0 })).collect()
        }),
        proptest::collection::vec((1usize..80, 0.0..10.0f64), 8).prop_map(move |steps| {
            let all = steps.into_iter().cycle();
            all.flat_map(|(count, level)| std::iter::repeat_n(Some(level), count))
                .take(length)
                .collect()
        }),
        proptest::collection::vec(proptest::option::weighted(0.8, 4.5..5.5f64), length),
    ]
    .boxed()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn steps_are_few_whatever_the_signal_does(
        signal in signal(),
        cooldown_looks in 1i64..20,
        for_looks in 0i64..4,
    ) {
        let cooldown = format!("{}s", cooldown_looks * 15);
        let rule = busy(
            json!({"pendingInterval": format!("{}s", for_looks * 15)}),
            json!({"action": "migrate", "cooldown": cooldown}),
        );
        let mut machine = Machine::new(rule, None);
        let mut acts: Vec<i64> = Vec::new();
        for (number, value) in signal.iter().enumerate() {
            let at_ms = number as i64 * EVERY_MS;
            acts.extend(machine.step(&look(at_ms, *value)).acts.iter().map(|act| act.at_ms));
        }
        let cooldown_ms = cooldown_looks * EVERY_MS;
        prop_assert!(acts.windows(2).all(|pair| pair[1] - pair[0] >= cooldown_ms));
        let bound = 1 + (signal.len() as i64 * EVERY_MS) / cooldown_ms;
        prop_assert!(acts.len() as i64 <= bound);
        // Without five quiet pauses in a row the pauses double: nobody can make it step at each chance.
        let bad = |value: &Option<f64>| value.is_some_and(|value| value > 5.0);
        let calm = signal.split(bad).map(<[_]>::len).max().unwrap_or_default() as i64;
        if calm < 4 * cooldown_looks {
            let doubled = 3 + bound.ilog2() as usize;
            prop_assert!(acts.len() <= doubled, "{} steps, at most {doubled}", acts.len());
        }
    }

    #[test]
    fn it_settles_when_the_signal_does(signal in signal(), last in 0.0..10.0f64) {
        let rule = busy(json!({"keepFiringFor": "1m"}), json!({"action": "restart"}));
        let mut machine = Machine::new(rule, None);
        let mut at_ms = 0;
        for value in signal {
            machine.step(&look(at_ms, value));
            at_ms += EVERY_MS;
        }
        let mut changes = Vec::new();
        for number in 0..100 {
            let stepped = machine.step(&look(at_ms, Some(last)));
            changes.extend(stepped.changes.into_iter().filter(|_| number > 5));
            at_ms += EVERY_MS;
        }
        changes.retain(|change| change.kind != ChangeKind::CannotBeMet);
        prop_assert_eq!(changes.len(), 0);
        let phase = if last > 5.0 { Phase::Violated } else { Phase::Enforced };
        prop_assert_eq!(machine.tracks()[0].phase, phase);
    }

    #[test]
    fn a_restart_at_any_time_changes_nothing(signal in signal(), every in 1usize..50) {
        let remediation =
            json!({"action": "migrate", "cooldown": "30s", "budget": {"acts": 3, "per": "20m"}});
        let properties = json!({"pendingInterval": "30s", "keepFiringFor": "15s"});
        let rule = busy(properties, remediation);
        let (mut one, mut other) = (Machine::new(rule.clone(), None), Machine::new(rule.clone(), None));
        for (number, value) in signal.into_iter().enumerate() {
            let look = look(number as i64 * EVERY_MS, value);
            let (a, b) = (one.step(&look), other.step(&look));
            prop_assert_eq!((a.changes, a.acts, a.held), (b.changes, b.acts, b.held));
            if number % every == 0 {
                let text = serde_json::to_string(&other.memory()).unwrap();
                let memory: Memory = serde_json::from_str(&text).unwrap();
                other = Machine::new(rule.clone(), Some(memory));
            }
        }
        prop_assert_eq!(one.memory(), other.memory());
    }
}
