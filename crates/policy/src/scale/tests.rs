//! What a scaler does over time, and that it settles.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn scaler(mut said: Value) -> Scaler {
    said["replicasMax"] = said.get("replicasMax").cloned().unwrap_or(json!(100));
    let has_metrics = said.get("steps").is_none() || said.get("metrics").is_some();
    if has_metrics && said.get("metrics").is_none() {
        said["metrics"] = json!([{"expr": "load", "target": 10}]);
    }
    let spec = json!({"subject": {"app": "shop", "component": "web"}, "scaling": said});
    let spec: tombolo_model::PolicySpec = serde_json::from_value(spec).unwrap();
    let policy = Watched::of_policy("size", &spec);
    Scaler::new(Spec::compile(&policy, &Context::default()).unwrap(), None)
}

fn reading(number: usize, load: f64) -> Reading {
    let at_ms = number as i64 * 15_000;
    let measured = Measured::of(&[load]);
    Reading { at_ms, metrics: vec![measured; 3], steps: vec![measured; 4] }
}

/// The number of instances after each look, from `count` on.
fn follow(scaler: &mut Scaler, mut count: u32, loads: impl IntoIterator<Item = f64>) -> Vec<u32> {
    let mut counts = Vec::new();
    for (number, load) in loads.into_iter().enumerate() {
        count = scaler.step(count, &reading(number, load)).replicas;
        counts.push(count);
    }
    counts
}

#[test]
fn it_grows_at_once_and_shrinks_when_that_has_become_worth_it() {
    let loads = [vec![30.0; 4], vec![100.0; 8], vec![30.0; 30]].concat();
    let counts = follow(&mut scaler(json!({"down": {"window": "60s"}})), 3, loads);
    assert_eq!(counts[3], 3);
    assert_eq!(counts[4], 7, "four more in 15 s, or twice as many");
    assert!(counts[..12].contains(&10), "{counts:?}");
    let last = *counts.last().unwrap();
    assert_eq!(last, 3, "{counts:?}");
}

#[test]
fn within_the_tolerance_it_stays() {
    assert_eq!(follow(&mut scaler(json!({})), 3, vec![32.9; 20]), vec![3; 20]);
    let strict = json!({"tolerance": 0.0});
    assert_eq!(follow(&mut scaler(strict), 3, vec![32.9; 20])[0], 4);
    let upward = json!({"up": {"tolerance": 0.5}});
    assert_eq!(follow(&mut scaler(upward), 3, vec![44.0; 20]), vec![3; 20]);
}

#[test]
fn a_window_upwards_takes_the_least_of_it() {
    let slow = json!({"up": {"window": "60s"}});
    let loads = [vec![30.0; 5], vec![90.0; 2], vec![30.0; 20]].concat();
    assert_eq!(follow(&mut scaler(slow.clone()), 3, loads).iter().max(), Some(&3));
    let loads = [vec![30.0; 5], vec![90.0; 8]].concat();
    assert!(follow(&mut scaler(slow), 3, loads).last().unwrap() > &3);
}

#[test]
fn it_keeps_to_its_bounds_and_comes_back_into_them() {
    let bounds = json!({"replicasMin": 2, "replicasMax": 5});
    assert_eq!(follow(&mut scaler(bounds.clone()), 3, vec![900.0; 9]).last(), Some(&5));
    assert_eq!(follow(&mut scaler(bounds.clone()), 1, [0.0])[0], 2);
    assert_eq!(follow(&mut scaler(bounds.clone()), 9, [0.0])[0], 5);
    let idle = follow(&mut scaler(bounds), 5, vec![0.0; 200]);
    assert_eq!(idle.last(), Some(&2));
}

#[test]
fn it_sleeps_when_nothing_asks_and_wakes_at_once() {
    let said = json!({"replicasMin": 0, "idleFor": "2m"});
    let mut sleepy = scaler(said);
    let counts = follow(&mut sleepy, 1, [vec![5.0; 3], vec![0.0; 12], vec![25.0; 1]].concat());
    assert_eq!(counts[10], 1, "two minutes are not over");
    assert_eq!(counts[11..15], [0; 4]);
    assert_eq!(counts[15], 3);
    let never = follow(&mut scaler(json!({})), 1, vec![0.0; 100]);
    assert_eq!(never.last(), Some(&1), "the least is 1 when nothing is said");
}

#[test]
fn of_several_metrics_the_one_that_asks_for_most_is_heard() {
    let metrics = json!([
        {"expr": "a", "target": 10},
        {"expr": "b", "target": 50, "kind": "average"},
        {"expr": "c", "target": 5, "kind": "total"},
    ]);
    let mut several = scaler(json!({"metrics": metrics}));
    let of = |value: f64| Measured::of(&[value]);
    let at = |metrics| Reading { at_ms: 0, metrics, steps: Vec::new() };
    let decision = several.step(4, &at(vec![of(20.0), of(75.0), of(5.0)]));
    assert_eq!(decision.replicas, 6, "4 * 75 / 50");
    let fresh =
        Scaler::new(several.spec().clone(), None).step(4, &at(vec![of(1.0), None, of(0.1)]));
    assert_eq!(fresh.replicas, 4, "what is not measured keeps it from shrinking");
    let blind = Scaler::new(several.spec().clone(), None).step(4, &at(vec![None, None, None]));
    assert_eq!((blind.replicas, blind.reason.as_str()), (4, "nothing is measured"));
}

#[test]
fn steps_have_cooldowns_of_their_own() {
    let steps = json!([
        {"expr": "load", "above": 100, "change": 3, "cooldown": "1m"},
        {"expr": "load", "above": 50, "change": 1, "cooldown": "30s"},
        {"expr": "load", "below": 10, "change": -1, "cooldown": "30s"},
    ]);
    let mut stepwise = scaler(json!({"steps": steps}));
    let loads = [vec![60.0; 3], vec![200.0; 5], vec![30.0; 2], vec![5.0; 5]].concat();
    let counts = follow(&mut stepwise, 2, loads);
    assert_eq!(counts, [3, 3, 4, 7, 7, 7, 7, 10, 10, 10, 9, 9, 8, 8, 7]);
}

#[test]
fn a_rate_is_kept_and_off_is_off() {
    let slow = json!({"up": {"rates": [{"replicas": 1, "per": "1m"}]}});
    let counts = follow(&mut scaler(slow), 3, vec![200.0; 9]);
    assert_eq!(counts, [4, 4, 4, 4, 5, 5, 5, 5, 6]);
    let off = json!({"down": {"select": "off"}});
    assert_eq!(follow(&mut scaler(off), 9, vec![1.0; 300]).last(), Some(&9));
}

#[test]
fn a_bad_expression_is_told_with_its_place() {
    let spec = json!({
        "subject": {"app": "shop"},
        "scaling": {"replicasMax": 3, "metrics": [{"expr": "up", "target": 1},
            {"expr": "sum(up", "target": 1}], "steps": [{"expr": "{{x}}", "above": 1, "change": 1}]},
    });
    let spec: tombolo_model::PolicySpec = serde_json::from_value(spec).unwrap();
    let problems = Spec::compile(&Watched::of_policy("p", &spec), &Context::default()).unwrap_err();
    let texts: Vec<String> = problems.iter().map(Problem::to_string).collect();
    assert_eq!(
        texts,
        [
            "scaling.metrics[1].expr:1:7: unclosed left parenthesis",
            "scaling.steps[0].expr:1:1: the variable \"x\" has no value"
        ]
    );
}

fn loads() -> BoxedStrategy<Vec<f64>> {
    let length = 300usize;
    prop_oneof![
        proptest::collection::vec(0.0..200.0f64, length),
        (1usize..40, 1usize..40, 1.0..100.0f64, 1.0..100.0f64).prop_map(
            move |(high, low, a, b)| {
                (0..length).map(|at| if at % (high + low) < high { a } else { b }).collect()
            }
        ),
        (20.0..100.0f64, proptest::collection::vec(-0.08..0.08f64, length))
            .prop_map(|(level, noise)| noise.into_iter().map(|n| level * (1.0 + n)).collect()),
    ]
    .boxed()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn it_settles_when_the_load_does(loads in loads(), last in 0.0..200.0f64) {
        let mut scaler = scaler(json!({}));
        let start = loads.len();
        let counts = follow(&mut scaler, 5, loads);
        let mut count = counts[start - 1];
        let mut late = Vec::new();
        for number in 0..1200 {
            count = scaler.step(count, &reading(start + number, last)).replicas;
            if number >= 800 {
                late.push(count);
            }
        }
        prop_assert!(late.windows(2).all(|pair| pair[0] == pair[1]), "{:?}", late);
        // Enough within the tolerance, and not one too many.
        let need = last / 10.0;
        prop_assert!(need <= f64::from(count) * 1.1 + 1e-9);
        prop_assert!(f64::from(count) <= need.ceil().max(1.0));
    }

    #[test]
    fn noise_within_the_tolerance_makes_it_change_a_few_times_at_most(
        level in 20.0..150.0f64,
        noise in proptest::collection::vec(-0.04..0.04f64, 400),
    ) {
        let mut scaler = scaler(json!({}));
        let loads = noise.into_iter().map(|n| level * (1.0 + n));
        let start = whole((level / 10.0).ceil());
        let counts = follow(&mut scaler, start, loads);
        let changes = counts.windows(2).filter(|pair| pair[0] != pair[1]).count();
        prop_assert!(changes <= 4, "{} changes", changes);
    }

    #[test]
    fn a_restart_at_any_time_changes_nothing(loads in loads(), every in 1usize..50) {
        let mut one = scaler(json!({"replicasMin": 0}));
        let mut other = one.clone();
        let (mut a, mut b) = (5, 5);
        for (number, load) in loads.into_iter().enumerate() {
            a = one.step(a, &reading(number, load)).replicas;
            b = other.step(b, &reading(number, load)).replicas;
            prop_assert_eq!(a, b);
            if number % every == 0 {
                let text = serde_json::to_string(other.memory()).unwrap();
                let memory: Remembered = serde_json::from_str(&text).unwrap();
                other = Scaler::new(other.spec().clone(), Some(memory));
            }
        }
    }

    #[test]
    fn it_never_leaves_its_bounds(loads in loads(), start in 0u32..40) {
        let mut scaler = scaler(json!({"replicasMin": 3, "replicasMax": 7}));
        let counts = follow(&mut scaler, start, loads);
        prop_assert!(counts.iter().all(|count| (3..=7).contains(count)));
    }
}
