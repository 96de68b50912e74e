//! A head against a plain map of everything that it was given.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::block::Block;
use crate::matcher::Op;
use crate::query::Union;

fn labels(pairs: &[(&str, &str)]) -> Labels {
    Labels::new(pairs.iter().copied())
}

fn all(querier: &dyn Querier, matchers: &[Matcher], span: Span) -> Vec<(String, Vec<Sample>)> {
    let mut samples = Vec::new();
    let selected = querier.select(matchers, span);
    let read = selected.iter().map(|series| {
        series.read(span, &Budget::default(), &mut samples).unwrap();
        (series.labels.to_string(), samples.clone())
    });
    read.filter(|(_, samples)| !samples.is_empty()).collect()
}

#[test]
fn a_sample_is_taken_known_in_conflict_or_too_old() {
    let mut head = Head::new(HeadConfig { out_of_order_ms: 1000, ..HeadConfig::default() });
    let id = head.resolve("s", &labels(&[("a", "b")])).unwrap();
    assert_eq!(head.append(id, Sample::new(5000, 1.0)), Outcome::Taken);
    assert_eq!(head.append(id, Sample::new(5000, 1.0)), Outcome::Known);
    assert_eq!(head.append(id, Sample::new(5000, 2.0)), Outcome::Conflict);
    assert_eq!(head.append(id, Sample::new(4000, 2.0)), Outcome::TakenLate);
    assert_eq!(head.append(id, Sample::new(4000, 2.0)), Outcome::Known);
    assert_eq!(head.append(id, Sample::new(3999, 2.0)), Outcome::TooOld);
    assert_eq!(head.append(SeriesId(7), Sample::new(1, 2.0)), Outcome::NoSeries);
}

#[test]
fn a_source_with_too_many_series_is_told_which_label_it_is() {
    let mut head = Head::new(HeadConfig { series_per_source_max: 3, ..HeadConfig::default() });
    for number in 0..3 {
        head.resolve("shop", &labels(&[("__name__", "hits"), ("user", &number.to_string())]))
            .unwrap();
    }
    let refused =
        head.resolve("shop", &labels(&[("__name__", "hits"), ("user", "9")])).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "shop has 3 series, which is as many as it may: its label \"user\" has 3 different values"
    );
    head.resolve("other", &labels(&[("__name__", "hits"), ("user", "9")])).unwrap();
    // Series without samples are forgotten, and make room.
    assert_eq!(head.forget(0), 4);
    head.resolve("shop", &labels(&[("user", "9")])).unwrap();
}

#[test]
fn matchers_choose_series() {
    let mut head = Head::default();
    for (name, job) in [("up", "a"), ("up", "b"), ("down", "ab"), ("down", "")] {
        head.insert("s", &labels(&[("__name__", name), ("job", job)]), &[Sample::new(1, 1.0)])
            .unwrap();
    }
    let check = |matchers: &[(&str, Op, &str)], expected: &[&str]| {
        let matchers: Vec<Matcher> =
            matchers.iter().map(|(n, op, v)| Matcher::new(n, *op, v).unwrap()).collect();
        let found: Vec<String> = head
            .select(&matchers, Span::ALL)
            .iter()
            .map(|s| s.labels.get("job").to_owned())
            .collect();
        assert_eq!(found, expected, "{matchers:?}");
    };
    check(&[("__name__", Op::Equal, "up")], &["a", "b"]);
    check(&[("job", Op::NotEqual, "a")], &["", "ab", "b"]);
    check(&[("job", Op::Equal, "")], &[""]);
    check(&[("job", Op::NotEqual, "")], &["ab", "a", "b"]);
    check(&[("job", Op::Matches, "a.*")], &["ab", "a"]);
    check(&[("job", Op::Matches, "a|b|"), ("__name__", Op::MatchesNot, "u.")], &[""]);
    check(&[("none", Op::Equal, "x")], &[]);
    check(&[], &["", "ab", "a", "b"]);
}

#[test]
fn an_active_series_takes_less_than_two_kilobytes() {
    // What the parts of a series take after two hours at 15 s; the bench measures the whole process.
    let mut series = MemSeries::new(labels(&[("a", "b")]), Arc::from("s"));
    for number in 0..480_i32 {
        let hundredths = number * 1490 + (number * 7919) % 97;
        series.append(Sample::new(15_000 * i64::from(number), f64::from(hundredths) / 100.0), 0);
    }
    let chunks: usize = series
        .parts()
        .iter()
        .map(|part| match part {
            crate::query::Part::Plain(samples) => samples.len() * 16,
            crate::query::Part::Chunk { bytes, .. } => bytes.len() + 64,
            crate::query::Part::Stored { .. } => 0,
        })
        .sum();
    assert!(chunks < 1500, "{chunks}");
}

#[derive(Clone, Debug)]
enum Act {
    Insert(u8, i64, f64),
    Seal(i64),
}

fn an_act() -> impl Strategy<Value = Act> {
    prop_oneof![
        60 => (0_u8..4, -2_000_i64..20_000, any::<i16>())
            .prop_map(|(series, step, value)| Act::Insert(series, step, f64::from(value) / 4.0)),
        1 => (-50_000_i64..50_000).prop_map(Act::Seal),
    ]
}

proptest! {
    #[test]
    fn a_head_and_its_blocks_hold_what_was_put_in(acts in prop::collection::vec(an_act(), 0..600)) {
        let mut head = Head::new(HeadConfig { out_of_order_ms: 5_000, ..HeadConfig::default() });
        let mut blocks = Vec::new();
        let mut plain: BTreeMap<u8, BTreeMap<i64, f64>> = BTreeMap::new();
        let mut now = [0_i64; 4];
        for act in acts {
            match act {
                Act::Insert(series, step, value) => {
                    let clock = &mut now[usize::from(series)];
                    let at = *clock + step;
                    let set = labels(&[("n", &series.to_string())]);
                    let id = head.resolve("s", &set).unwrap();
                    match head.append(id, Sample::new(at, value)) {
                        Outcome::Taken | Outcome::TakenLate => {
                            *clock = at.max(*clock);
                            // What a block holds already wins: a sealed span is not written again.
                            plain.entry(series).or_default().entry(at).or_insert(value);
                        }
                        Outcome::Known | Outcome::Conflict | Outcome::TooOld | Outcome::NoSeries => {}
                    }
                }
                Act::Seal(back) => {
                    let before = now.iter().max().copied().unwrap() - back;
                    if let Some(sealed) = head.seal(before) {
                        blocks.push(Block::open(sealed.bytes).unwrap());
                    }
                    head.forget(before);
                }
            }
        }
        let mut queriers: Vec<&dyn Querier> = blocks.iter().map(|block| block as &dyn Querier).collect();
        queriers.push(&head);
        let union = Union(queriers);
        let span = Span::new(1_000, 60_000);
        for span in [span, Span::ALL] {
            let expected: Vec<(String, Vec<Sample>)> = plain
                .iter()
                .map(|(series, samples)| {
                    let inside = samples.iter().filter(|(at, _)| span.holds(**at));
                    let samples: Vec<Sample> = inside.map(|(at, v)| Sample::new(*at, *v)).collect();
                    (labels(&[("n", &series.to_string())]).to_string(), samples)
                })
                .filter(|(_, samples)| !samples.is_empty())
                .collect();
            prop_assert_eq!(all(&union, &[], span), expected);
        }
    }
}
