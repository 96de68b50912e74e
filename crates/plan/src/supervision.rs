//! How the loops fare: when each looks next, whether one is late or dead, and how long a dead one
//! rests before it is started again. Called by the harness of `tombolo_controller`, which runs the
//! loops, and by everything that shows them; start reading at [`Record::state`].

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tombolo_model::Reason;

use crate::Monotonic;

/// A loop that has done nothing for this long past its time is late. Less would call a loop late that
/// only shares a busy machine.
pub const LATE_AFTER: Duration = Duration::from_secs(30);
/// A look that takes longer hangs: it is dropped, and the loop is started anew. The longest look
/// that we know of, a thousand writes to a slow disk, takes a tenth of this.
pub const LOOK_TIME_MAX: Duration = Duration::from_secs(300);
/// How long a loop rests after its first death; each further death without a good look in between
/// doubles the rest.
const REST_MIN: Duration = Duration::from_secs(1);
/// More would leave the cluster without the loop for longer than a person waits.
const REST_MAX: Duration = Duration::from_secs(60);

/// What has served for so long was well: its death has nothing to do with the one before.
const CALM: Duration = Duration::from_secs(10 * 60);

/// How often a loop may look, and how often it must.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Many changes come together; one look is enough for all of them.
    pub gap_min: Duration,
    /// After a look that took long, the loop waits this many times as long, unless it had to leave
    /// actions for the next look.
    pub gap_factor: u32,
    /// What nobody told of is found by looking now and then.
    pub look_every: Duration,
    /// What a failed action left is looked at again after this.
    pub retry_after: Duration,
}

/// What one look came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    pub done: usize,
    /// What failed, each as a sentence with its cause. Every action is tried once; if it is still
    /// needed, the next look plans it again.
    pub failed: Vec<String>,
    /// Actions left for the next look.
    pub deferred: usize,
    /// When to look again even if nothing changes before; by the [`Pace`] if it is `None` or later.
    pub wake_at: Option<Monotonic>,
}

/// What a loop is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It waits until everything that it looks at has been listed once.
    Listing {
        since: Monotonic,
    },
    Resting {
        until: Monotonic,
    },
    Looking {
        since: Monotonic,
    },
    /// It follows something by itself and has no looks that could be counted.
    Serving,
    /// It panicked or hung, and is started again.
    Dead {
        since: Monotonic,
        until: Monotonic,
    },
}

/// The word for it that people and programs read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    Listing,
    Idle,
    Looking,
    Serving,
    Late,
    Dead,
}

/// Different failures of one loop that are counted. More of them are said each time.
const COUNTED_MAX: usize = 256;

/// What the log says about failures after a look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// For the first time.
    Failed { what: String },
    /// It has failed in so many looks, without a good one in between.
    Still { what: String, looks: u64 },
    /// It no longer fails.
    Over { what: String, looks: u64 },
}

/// All that is known of one loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub phase: Phase,
    pub looks: u64,
    pub last: Option<Last>,
    pub restarts: u32,
    /// Deaths since the last look that came to an end.
    pub deaths_in_a_row: u32,
    pub error: Option<Told>,
    /// What fails look after look, and in how many so far.
    failing: BTreeMap<String, u64>,
}

/// The last look that came to an end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Last {
    pub ended: Monotonic,
    pub took: Duration,
    pub done: usize,
    pub failed: usize,
    pub deferred: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    pub at: Monotonic,
    pub text: String,
}

/// What people are told about a loop between its deaths, of which they are told when they happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    Late,
    OnTime,
}

/// When a loop looks next if nothing changes, and when it may look at the earliest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Next {
    pub earliest: Monotonic,
    pub wake_at: Monotonic,
}

/// Decides when to look again after a look that began at `began` and ended `now`.
pub fn next_look(report: &Report, pace: &Pace, began: Monotonic, now: Monotonic) -> Next {
    let took = now.since(began);
    let rest = pace.gap_min.max(took.saturating_mul(pace.gap_factor));
    let (earliest, usual) = match (report.deferred, report.failed.is_empty()) {
        (0, true) => (now + rest, now + pace.look_every),
        (0, false) => (now + rest, now + pace.retry_after),
        // There is no need to wait for more to come together: much is known to be left.
        (_, true) => (now + pace.gap_min, now + pace.gap_min),
        (_, false) => (now + rest, now + rest),
    };
    let wake_at = report.wake_at.map_or(usual, |at| at.min(usual));
    Next { earliest, wake_at: wake_at.max(earliest) }
}

/// What there is to tell about a loop that was in one state when somebody looked before, and is in
/// another now.
pub fn turn(before: Option<State>, now: State) -> Option<Turn> {
    match (before == Some(State::Late), now) {
        (false, State::Late) => Some(Turn::Late),
        (true, State::Listing | State::Idle | State::Looking | State::Serving) => {
            Some(Turn::OnTime)
        }
        (true, State::Late | State::Dead) => None,
        (false, State::Listing | State::Idle | State::Looking | State::Serving | State::Dead) => {
            None
        }
    }
}

/// How all loops fare together, as the condition `LoopsWell` says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    pub well: bool,
    /// That of the worst: a dead loop comes before a late one.
    pub reason: Reason,
    pub message: String,
}

/// Sums up the loops, by name.
pub fn verdict(records: &BTreeMap<&'static str, Record>, now: Monotonic) -> Verdict {
    let of_state = |state: State, reason: Reason| {
        let those = records.iter().filter(move |(_, record)| record.state(now) == state);
        those.map(move |(name, record)| {
            let why = record.error.as_ref().map_or_else(String::new, |told| told.text.clone());
            (reason, reason.says(&[("loop", (*name).to_owned()), ("why", why)]))
        })
    };
    let dead = of_state(State::Dead, Reason::LoopDied);
    let late = of_state(State::Late, Reason::LoopLate);
    let (reasons, sentences): (Vec<Reason>, Vec<String>) = dead.chain(late).unzip();
    match reasons.first() {
        None => {
            let reason = Reason::LoopsOnTime;
            Verdict { well: true, reason, message: reason.says(&[]) }
        }
        Some(reason) => Verdict { well: false, reason: *reason, message: sentences.join("; ") },
    }
}

impl Record {
    pub fn new(now: Monotonic) -> Record {
        Record {
            phase: Phase::Listing { since: now },
            looks: 0,
            last: None,
            restarts: 0,
            deaths_in_a_row: 0,
            error: None,
            failing: BTreeMap::new(),
        }
    }

    pub fn state(&self, now: Monotonic) -> State {
        let due = match self.phase {
            Phase::Dead { .. } => return State::Dead,
            Phase::Serving => return State::Serving,
            Phase::Listing { since } | Phase::Looking { since } => since,
            Phase::Resting { until } => until,
        };
        match (self.phase, now.since(due) > LATE_AFTER) {
            (_, true) => State::Late,
            (Phase::Listing { .. }, false) => State::Listing,
            (Phase::Looking { .. }, false) => State::Looking,
            (Phase::Resting { .. } | Phase::Serving | Phase::Dead { .. }, false) => State::Idle,
        }
    }

    /// After a look that came to an end.
    pub fn note_look(&mut self, report: &Report, took: Duration, now: Monotonic, next: Next) {
        self.looks += 1;
        self.deaths_in_a_row = 0;
        self.phase = Phase::Resting { until: next.wake_at };
        self.last = Some(Last {
            ended: now,
            took,
            done: report.done,
            failed: report.failed.len(),
            deferred: report.deferred,
        });
        if let Some(text) = report.failed.last() {
            self.error = Some(Told { at: now, text: text.clone() });
        }
    }

    /// After a look in which this failed, each as a sentence: what is worth saying. A retry that fails
    /// every two seconds is said once and then counted.
    pub fn note_failures(&mut self, failed: &[String]) -> Vec<Said> {
        let now: BTreeSet<&String> = failed.iter().collect();
        let (still, over): (BTreeMap<_, _>, BTreeMap<_, _>) =
            std::mem::take(&mut self.failing).into_iter().partition(|(what, _)| now.contains(what));
        let mut said: Vec<Said> =
            over.into_iter().map(|(what, looks)| Said::Over { what, looks }).collect();
        self.failing = still;
        for what in now {
            match self.failing.get_mut(what) {
                Some(looks) => {
                    *looks += 1;
                    if is_round(*looks) {
                        said.push(Said::Still { what: what.clone(), looks: *looks });
                    }
                }
                None => {
                    said.push(Said::Failed { what: what.clone() });
                    if self.failing.len() < COUNTED_MAX {
                        self.failing.insert(what.clone(), 1);
                    }
                }
            }
        }
        said
    }

    /// After something that has no looks has served since `began`.
    pub fn note_life(&mut self, began: Monotonic, now: Monotonic) {
        if now.since(began) >= CALM {
            self.deaths_in_a_row = 0;
        }
    }

    /// After a panic, or a look that hung. Gives when the loop starts again.
    pub fn note_death(&mut self, text: String, now: Monotonic) -> Monotonic {
        let rest = REST_MIN.saturating_mul(1 << self.deaths_in_a_row.min(16)).min(REST_MAX);
        self.deaths_in_a_row = self.deaths_in_a_row.saturating_add(1);
        self.restarts = self.restarts.saturating_add(1);
        self.error = Some(Told { at: now, text });
        let until = now + rest;
        self.phase = Phase::Dead { since: now, until };
        until
    }
}

/// 10, 100, 1,000 and so on: the log grows with the digits of the count.
pub fn is_round(count: u64) -> bool {
    count >= 10 && count == 10_u64.pow(count.ilog10())
}

impl State {
    pub fn as_str(self) -> &'static str {
        match self {
            State::Listing => "Listing",
            State::Idle => "Idle",
            State::Looking => "Looking",
            State::Serving => "Serving",
            State::Late => "Late",
            State::Dead => "Dead",
        }
    }

    /// Whether somebody should look into it.
    pub fn is_well(self) -> bool {
        match self {
            State::Listing | State::Idle | State::Looking | State::Serving => true,
            State::Late | State::Dead => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACE: Pace = Pace {
        gap_min: Duration::from_secs(1),
        gap_factor: 3,
        look_every: Duration::from_secs(60),
        retry_after: Duration::from_secs(2),
    };

    fn at(seconds: u64) -> Monotonic {
        Monotonic::from_start(Duration::from_secs(seconds))
    }

    /// Seconds after the end of a look that took `took`: the earliest and the next.
    #[track_caller]
    fn check(report: Report, took: u64, earliest: u64, wake_at: u64) {
        let next = next_look(&report, &PACE, at(100), at(100 + took));
        let found = (next.earliest.since(at(100 + took)), next.wake_at.since(at(100 + took)));
        assert_eq!(found, (Duration::from_secs(earliest), Duration::from_secs(wake_at)));
    }

    #[test]
    fn a_quiet_loop_looks_now_and_then() {
        check(Report { done: 3, ..Report::default() }, 0, 1, 60);
    }

    #[test]
    fn a_failed_write_is_tried_again_soon() {
        check(Report { failed: vec!["no".to_owned()], ..Report::default() }, 0, 1, 2);
    }

    #[test]
    fn what_was_left_over_is_done_as_soon_as_the_pace_allows() {
        check(Report { deferred: 1, failed: vec!["no".to_owned()], ..Report::default() }, 0, 1, 1);
        check(Report { deferred: 1, ..Report::default() }, 10, 1, 1);
    }

    #[test]
    fn what_was_left_over_waits_when_writes_fail() {
        let failed = vec!["no".to_owned()];
        check(Report { deferred: 1, failed, ..Report::default() }, 10, 30, 30);
    }

    #[test]
    fn a_look_that_took_long_is_followed_by_a_longer_rest() {
        check(Report::default(), 10, 30, 60);
    }

    #[test]
    fn a_plan_may_wake_its_loop_earlier_but_never_against_the_pace() {
        check(Report { wake_at: Some(at(120)), ..Report::default() }, 0, 1, 20);
        check(Report { wake_at: Some(at(100)), ..Report::default() }, 0, 1, 1);
        check(Report { wake_at: Some(at(900)), ..Report::default() }, 0, 1, 60);
    }

    #[test]
    fn a_death_after_a_long_life_counts_as_the_first() {
        let mut record = Record::new(at(0));
        assert_eq!(record.note_death("no".to_owned(), at(0)), at(1));
        record.note_life(at(1), at(600));
        assert_eq!(record.note_death("no".to_owned(), at(600)), at(602), "it was not long enough");
        record.note_life(at(602), at(1202));
        assert_eq!(record.note_death("no".to_owned(), at(1202)), at(1203));
    }

    #[test]
    fn a_loop_that_is_past_its_time_is_late_until_it_looks() {
        let mut record = Record::new(at(0));
        assert_eq!((record.state(at(30)), record.state(at(31))), (State::Listing, State::Late));
        record.phase = Phase::Looking { since: at(40) };
        assert_eq!((record.state(at(70)), record.state(at(71))), (State::Looking, State::Late));
        let next = Next { earliest: at(80), wake_at: at(140) };
        record.note_look(&Report::default(), Duration::from_secs(5), at(80), next);
        assert_eq!((record.state(at(170)), record.state(at(171))), (State::Idle, State::Late));
    }

    #[test]
    fn people_are_told_once_that_a_loop_is_late_and_once_that_it_is_not() {
        let states = [State::Idle, State::Late, State::Late, State::Dead, State::Late, State::Idle];
        let mut before = None;
        let told: Vec<Option<Turn>> =
            states.into_iter().map(|now| turn(before.replace(now), now)).collect();
        let (late, on_time) = (Some(Turn::Late), Some(Turn::OnTime));
        assert_eq!(told, [None, late, None, None, late, on_time]);
    }

    #[test]
    fn all_loops_are_summed_up_the_dead_before_the_late() {
        let mut records = BTreeMap::from([("a", Record::new(at(0))), ("b", Record::new(at(40)))]);
        let said = |records: &BTreeMap<_, _>, seconds| {
            let Verdict { well, reason, message } = verdict(records, at(seconds));
            format!("{well} {reason}: {message}")
        };
        assert_eq!(said(&records, 20), "true LoopsOnTime: no loop is dead or late");
        assert_eq!(
            said(&records, 50),
            "false LoopLate: the loop a is late: it should have looked, or come to an end of it, by \
             now"
        );
        records.get_mut("b").unwrap().note_death("boom".to_owned(), at(50));
        assert_eq!(
            said(&records, 50),
            "false LoopDied: the loop b has died and is started again: boom; the loop a is late: it \
             should have looked, or come to an end of it, by now"
        );
    }

    #[test]
    fn a_failure_is_said_once_then_counted_and_its_end_is_said() {
        let mut record = Record::new(at(0));
        let (a, b) = ("a".to_owned(), "b".to_owned());
        let failed = |what: &String| Said::Failed { what: what.clone() };
        assert_eq!(record.note_failures(&[a.clone(), a.clone()]), [failed(&a)]);
        assert_eq!(record.note_failures(&[a.clone(), b.clone()]), [failed(&b)]);
        let over = Said::Over { what: b.clone(), looks: 1 };
        assert_eq!(record.note_failures(std::slice::from_ref(&a)), [over]);
        let said: Vec<Said> =
            (4..=100).flat_map(|_| record.note_failures(std::slice::from_ref(&a))).collect();
        let still = |looks| Said::Still { what: a.clone(), looks };
        assert_eq!(said, [still(10), still(100)]);
        assert_eq!(record.note_failures(&[]), [Said::Over { what: a.clone(), looks: 100 }]);
        assert_eq!(record.note_failures(&[]), []);
    }

    #[test]
    fn what_fails_in_ever_other_words_takes_no_more_room() {
        let mut record = Record::new(at(0));
        let all: Vec<String> = (0..2 * COUNTED_MAX).map(|number| number.to_string()).collect();
        assert_eq!(record.note_failures(&all).len(), all.len());
        assert_eq!(record.failing.len(), COUNTED_MAX);
    }

    #[test]
    fn each_death_in_a_row_means_a_longer_rest_up_to_a_minute() {
        let mut record = Record::new(at(0));
        let rests: Vec<u64> = (0..8)
            .map(|_| record.note_death("boom".to_owned(), at(10)).since(at(10)).as_secs())
            .collect();
        assert_eq!(rests, [1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!((record.state(at(10)), record.restarts), (State::Dead, 8));
        let next = Next { earliest: at(20), wake_at: at(20) };
        record.note_look(&Report::default(), Duration::ZERO, at(20), next);
        assert_eq!(record.note_death("boom".to_owned(), at(30)), at(31), "a good look forgives");
        assert_eq!(record.error.as_ref().map(|told| told.text.as_str()), Some("boom"));
    }
}
