//! Whether an instance with a check is well: when it is asked, and how its answers add up. Called by
//! `tombolo_agent::health`, which asks; start at [`Tally::after`].

use std::time::Duration;

use tombolo_model::component::Health as Check;

use crate::instances::Health;

const INTERVAL_DEFAULT: Duration = Duration::from_secs(10);
/// No instance is asked more often, whatever its check says.
const INTERVAL_MIN: Duration = Duration::from_millis(100);
const TIMEOUT_DEFAULT: Duration = Duration::from_secs(1);
const FAILURES_DEFAULT: u32 = 3;
/// Until the first good answer an instance is asked this often, so that those who wait for it need not
/// wait for a whole interval.
const EAGER: Duration = Duration::from_millis(250);

/// When to ask and what counts, with the defaults filled in.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    interval: Duration,
    pub timeout: Duration,
    failures: u32,
    startup: Duration,
}

impl Rule {
    pub fn of(check: &Check) -> Rule {
        let or = |given: Option<tombolo_model::Duration>, default: Duration| {
            given.map_or(default, |given| given.to_std())
        };
        Rule {
            interval: or(check.interval, INTERVAL_DEFAULT).max(INTERVAL_MIN),
            timeout: or(check.timeout, TIMEOUT_DEFAULT),
            failures: check.failures.unwrap_or(FAILURES_DEFAULT).max(1),
            startup: or(check.startup, Duration::ZERO),
        }
    }
}

/// How the answers of one instance add up.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    answered: bool,
    failures: u32,
    /// When a failure was counted last: in between, eager questions count nothing.
    counted_at: Option<Duration>,
}

impl Tally {
    /// What the instance counts as after one more answer; `running` is for how long it has been asked.
    pub fn after(&mut self, answer: Result<(), String>, rule: &Rule, running: Duration) -> Health {
        let Err(problem) = answer else {
            *self = Tally { answered: true, failures: 0, counted_at: None };
            return Health::Well;
        };
        let starting = !self.answered && running < rule.startup;
        let early = self
            .counted_at
            .is_some_and(|then| !self.answered && running.saturating_sub(then) < rule.interval);
        if !starting && !early {
            self.failures = self.failures.saturating_add(1);
            self.counted_at = Some(running);
        }
        if self.failures >= rule.failures {
            return Health::Unwell(problem);
        }
        // Before the first good answer nobody can say that it has become worse.
        if self.answered { Health::Failing(problem) } else { Health::Unknown }
    }

    pub fn pause(&self, rule: &Rule) -> Duration {
        if self.answered { rule.interval } else { rule.interval.min(EAGER) }
    }
}

#[cfg(test)]
mod tests {
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
}
