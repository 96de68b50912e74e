//! Answers in a row and what they add up to.

use expect_test::{Expect, expect};

use super::*;

/// `+` is a good answer, `-` a bad one; asked at the pause that the tally itself asks for.
#[track_caller]
fn check(answers: &str, rule: Rule, expect: Expect) {
    let mut tally = Tally::default();
    let mut running = Duration::ZERO;
    let mut out = String::new();
    for answer in answers.chars() {
        let answer = if answer == '+' { Ok(()) } else { Err("no answer".to_owned()) };
        let health = tally.after(answer, &rule, running);
        let word = match health {
            Health::Unknown => "unknown",
            Health::Well => "well",
            Health::Failing(_) => "failing",
            Health::Unwell(_) => "UNWELL",
        };
        out.push_str(&format!("{:>4} ms {word}\n", running.as_millis()));
        running += tally.pause(&rule);
    }
    expect.assert_eq(&out);
}

fn rule(startup: u64) -> Rule {
    Rule {
        interval: Duration::from_secs(1),
        timeout: Duration::from_secs(1),
        failures: 2,
        startup: Duration::from_secs(startup),
    }
}

#[test]
fn one_good_answer_makes_it_well_and_enough_bad_ones_in_a_row_unwell() {
    check(
        "+-+--",
        rule(0),
        expect![[r"
            0 ms well
         1000 ms failing
         2000 ms well
         3000 ms failing
         4000 ms UNWELL
    "]],
    );
}

#[test]
fn eager_questions_at_the_start_do_not_count_more_than_the_interval_allows() {
    check(
        "-----",
        rule(0),
        expect![[r"
            0 ms unknown
          250 ms unknown
          500 ms unknown
          750 ms unknown
         1000 ms UNWELL
    "]],
    );
}

#[test]
fn failures_while_it_starts_up_do_not_count() {
    check(
        "----+",
        rule(2),
        expect![[r"
            0 ms unknown
          250 ms unknown
          500 ms unknown
          750 ms unknown
         1000 ms well
    "]],
    );
}
