//! What the comparisons with Prometheus do not show: places of errors, bounds, and the end of patience.

use std::sync::atomic::AtomicBool;

use proptest::prelude::*;

use super::{Options, Query, Value, evaluate, parse};
use crate::{Budget, Head, Labels, ReadError, Sample};

fn head() -> Head {
    let mut head = Head::default();
    for job in ["a", "b"] {
        let samples: Vec<Sample> = (0..100).map(|n| Sample::new(n * 15_000, n as f64)).collect();
        head.insert("t", &Labels::new([("__name__", "up"), ("job", job)]), &samples).unwrap();
    }
    head
}

#[track_caller]
fn refused(text: &str, problem: &str) {
    assert_eq!(parse(text).unwrap_err().to_string(), problem);
}

#[test]
fn an_error_names_line_and_column() {
    refused("", "1:1: parse error: no expression found in input");
    refused("sum(up", "1:7: parse error: unclosed left parenthesis");
    refused("up +\n  nope(up)", "2:3: parse error: unknown function with name \"nope\"");
    refused("up{job=}", "1:8: parse error: unexpected \"}\" in label matching, expected string");
    refused(
        "rate(up)",
        "1:6: parse error: expected type range vector in call to function \"rate\", got instant vector",
    );
    refused("{}", "1:1: parse error: vector selector must contain at least one non-empty matcher");
    refused("up[5m:1m:1s]", "1:9: parse error: unexpected repeated colon in duration expression");
}

#[test]
fn a_query_that_nests_without_end_is_refused() {
    for (open, close) in [("(", ")"), ("-(", ")"), ("sum(", ")"), ("up[5m * (", ")]")] {
        let text = format!("{}up{}", open.repeat(10_000), close.repeat(10_000));
        assert!(parse(&text).is_err());
    }
    assert!(parse(&"-".repeat(100_000)).is_err());
    for more in [" + up", "[5m:]", " offset 1m"] {
        assert!(parse(&format!("up{}", more.repeat(100_000))).is_err());
    }
    // What is allowed fits on a stack.
    let text = format!("up{}", " + up".repeat(400));
    let expr = parse(&text).unwrap();
    let at = Query::instant(0);
    evaluate(&text, &expr, at, Options::default(), &head(), &Budget::default()).unwrap();
}

#[test]
fn labels_that_a_query_makes_have_a_bound() {
    let head = head();
    let ask = |text: &str, budget: &Budget<'_>| {
        let expr = parse(text).unwrap();
        evaluate(text, &expr, Query::instant(1_000_000), Options::default(), &head, budget)
    };
    // Each level is three times as long as the one below.
    let nested = |levels: usize| {
        let start = "label_replace(up,\"y\",\"xxxxxxxxxx\",\"\",\"\")".to_owned();
        (0..levels)
            .fold(start, |inner, _| format!("label_join({inner},\"y\",\"\",\"y\",\"y\",\"y\")"))
    };
    ask(&nested(7), &Budget::default()).unwrap();
    assert_eq!(
        ask(&nested(30), &Budget::default()).unwrap_err().to_string(),
        "label \"y\" would get a value of 65610 bytes; a query makes none over 65536"
    );
    let doubled =
        format!("label_replace({},\"z\",\"{}\",\"y\",\"(.*)\")", nested(7), "$1".repeat(4));
    assert!(ask(&doubled, &Budget::default()).unwrap_err().to_string().contains("87480 bytes"));
    // What is short enough is counted.
    let little = Budget::new(u64::MAX, 5000);
    let error = ask(&nested(7), &little).unwrap_err();
    assert_eq!(error, ReadError::TooManySteps { max: 5000 }.into());
}

#[test]
fn counted_values_are_paid_for_before_they_take_room() {
    let text = "count_values(\"v\", up)";
    let expr = parse(text).unwrap();
    let budget = Budget::new(u64::MAX, 5000);
    let query = Query::range(0, 1_485_000, 15_000);
    let error = evaluate(text, &expr, query, Options::default(), &head(), &budget).unwrap_err();
    assert_eq!(error, ReadError::TooManySteps { max: 5000 }.into());
}

#[test]
fn a_query_has_a_budget_and_an_end() {
    let head = head();
    let ask = |text: &str, budget: &Budget<'_>| {
        let expr = parse(text).unwrap();
        let query = Query::range(0, 1_500_000, 15_000);
        evaluate(text, &expr, query, Options::default(), &head, budget)
    };
    assert!(ask("up", &Budget::new(1000, 1000)).is_ok());
    let few = ask("up", &Budget::new(100, 1000)).unwrap_err();
    assert_eq!(few, ReadError::TooManySamples { max: 100 }.into());
    let short = ask("sum(up) + sum(up)", &Budget::new(1000, 300)).unwrap_err();
    assert_eq!(short, ReadError::TooManySteps { max: 300 }.into());
    let stop = AtomicBool::new(true);
    let gone = ask("up", &Budget::default().until(&stop)).unwrap_err();
    assert_eq!(gone, ReadError::Cancelled.into());
}

#[test]
fn too_many_points_are_refused() {
    let expr = parse("up").unwrap();
    let query = Query::range(0, 11_001_000, 1000);
    let error =
        evaluate("up", &expr, query, Options::default(), &head(), &Budget::default()).unwrap_err();
    assert!(error.to_string().starts_with("exceeded maximum resolution"));
}

#[test]
fn a_name_is_dropped_at_once_or_at_the_end() {
    let text = "label_replace(-up, \"name\", \"$1\", \"__name__\", \"(.*)\")";
    let expr = parse(text).unwrap();
    let names = |delayed_name_removal| {
        let options = Options { delayed_name_removal, ..Options::default() };
        let at = Query::instant(60_000);
        let answer = evaluate(text, &expr, at, options, &head(), &Budget::default()).unwrap();
        let Value::Vector(points) = answer.value else { panic!("a vector") };
        points[0].labels.get("name").to_owned()
    };
    assert_eq!(names(false), "");
    assert_eq!(names(true), "up");
}

proptest! {
    #[test]
    fn any_text_is_a_query_or_refused(text in "[a-z_ \\[\\](){}\",=~!@:0-9.+*/^-]{0,80}") {
        let _ = parse(&text);
    }

    #[test]
    fn any_words_are_a_query_or_refused(words in prop::collection::vec(prop::sample::select(vec![
        "up", "sum", "by", "(", ")", "[", "]", "{", "}", "5m", ":", "offset", "@", "rate", "1", "-", "+",
        "on", "group_left", "bool", "==", "and", "\"a\"", ",", "job", "=", "=~", "start", "step", "fill",
        "topk", "anchored", "label_replace", "vector",
    ]), 0..25)) {
        let text = words.join(" ");
        if let Ok(expr) = parse(&text) {
            let budget = Budget::new(10_000, 10_000);
            let query = Query::range(0, 600_000, 60_000);
            let _ = evaluate(&text, &expr, query, Options::default(), &head(), &budget);
        }
    }
}
