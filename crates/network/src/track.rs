//! The latest probes of one peer, as an agent keeps them and tells of them: how long the way takes now, when that has
//! changed, and when a change is worth telling the controller. Start at [`Track::note`] and [`worth_telling`].
//!
//! A change is believed after three probes in a row that say the same; what was before is forgotten then, so that a
//! median over minutes does not hide for minutes that the way has become another.

use std::collections::VecDeque;
use std::time::Duration;

use crate::window::Delays;

/// Probes that are kept of a peer: percentiles of more are no better, and a peer that is probed every four seconds is
/// described by its last four minutes.
const PROBES_MOST: usize = 64;
/// Older ones describe another network.
const SPAN: Duration = Duration::from_secs(15 * 60);
/// Probes in a row that make a change one, and a peer dead or alive.
pub const IN_A_ROW: u32 = 3;
/// Delays there and back that are no further apart are the same.
const STEP: f64 = 0.15;
const STEP_LEAST: Duration = Duration::from_micros(600);
/// How often a quiet agent tells what it has found, and so for how long a figure counts as fresh.
pub const TELL_EVERY: Duration = Duration::from_secs(5 * 60);
/// Between two reports of which the second has something new.
const TELL_GAP: Duration = Duration::from_secs(10);
/// And of which the second has bad news.
const TELL_GAP_WORSE: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, Debug)]
struct Sample {
    at: Duration,
    delay: Option<Duration>,
}

/// The latest probes of a peer.
#[derive(Clone, Debug, Default)]
pub struct Track {
    samples: VecDeque<Sample>,
}

/// What the probes of a peer say.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Seen {
    pub probes: u32,
    pub answered: u32,
    pub lost_in_a_row: u32,
    pub delays: Option<Delays>,
    /// How long ago the latest answer came.
    pub age: Option<Duration>,
}

impl Track {
    /// What became of a probe that was sent at `at`; `None` is one that nobody answered.
    pub fn note(&mut self, at: Duration, delay: Option<Duration>) {
        self.samples.push_back(Sample { at, delay });
        while self.samples.len() > PROBES_MOST
            || self.samples.front().is_some_and(|first| at.saturating_sub(first.at) > SPAN)
        {
            self.samples.pop_front();
        }
        self.forget_what_was();
    }

    /// If the last few answers lie apart from all before, on one side, the way has changed.
    fn forget_what_was(&mut self) {
        let latest = self.samples.len().saturating_sub(IN_A_ROW as usize);
        let Some(before) = self.middle(0..latest) else { return };
        let turned = |turn: fn(Duration, Duration) -> bool| {
            self.samples.range(latest..).all(|sample| {
                sample.delay.is_some_and(|delay| is_apart(before, delay) && turn(delay, before))
            })
        };
        if turned(|delay, before| delay > before) || turned(|delay, before| delay < before) {
            self.samples.drain(..latest);
        }
    }

    fn middle(&self, range: std::ops::Range<usize>) -> Option<Duration> {
        let mut delays: Vec<Duration> =
            self.samples.range(range).filter_map(|sample| sample.delay).collect();
        delays.sort_unstable();
        delays.get(delays.len() / 2).copied()
    }

    /// Whether the next probes are worth more than others: too little is known, or the last one was not like those
    /// before, and it is not yet clear that this is how things are now.
    pub fn is_unsure(&self) -> bool {
        let count = u32::try_from(self.samples.len()).unwrap_or(u32::MAX);
        let Some(last) = self.samples.back() else { return true };
        let lost = self.lost_in_a_row();
        match last.delay {
            None => lost < IN_A_ROW,
            Some(_) if count < IN_A_ROW => true,
            Some(delay) => {
                self.middle(0..self.samples.len() - 1).is_some_and(|before| is_apart(before, delay))
            }
        }
    }

    fn lost_in_a_row(&self) -> u32 {
        let lost = self.samples.iter().rev().take_while(|sample| sample.delay.is_none()).count();
        u32::try_from(lost).unwrap_or(u32::MAX)
    }

    /// How many probes are not older than `span`.
    pub fn since(&self, now: Duration, span: Duration) -> u32 {
        let lately = |sample: &&Sample| now.saturating_sub(sample.at) <= span;
        u32::try_from(self.samples.iter().rev().take_while(lately).count()).unwrap_or(u32::MAX)
    }

    pub fn seen(&self, now: Duration) -> Seen {
        let delays: Vec<Duration> = self.samples.iter().filter_map(|sample| sample.delay).collect();
        let last = self.samples.iter().rev().find(|sample| sample.delay.is_some());
        Seen {
            probes: u32::try_from(self.samples.len()).unwrap_or(u32::MAX),
            answered: u32::try_from(delays.len()).unwrap_or(u32::MAX),
            lost_in_a_row: self.lost_in_a_row(),
            delays: Delays::of(&delays),
            age: last.map(|sample| now.saturating_sub(sample.at)),
        }
    }
}

fn is_apart(one: Duration, other: Duration) -> bool {
    one.abs_diff(other) > one.mul_f64(STEP).max(STEP_LEAST)
}

/// Whether to tell what is seen now, if `told` is what was told of the same peers, so long ago. A peer of which
/// nothing was told has `None` there.
pub fn worth_telling(peers: &[(Option<Seen>, Seen)], told_ago: Duration) -> bool {
    let news = peers.iter().map(|(told, seen)| news(told.as_ref(), seen)).max();
    match news.unwrap_or(News::None) {
        News::None => told_ago >= TELL_EVERY,
        News::Some => told_ago >= TELL_GAP,
        News::Bad => told_ago >= TELL_GAP_WORSE,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum News {
    None,
    Some,
    Bad,
}

fn news(told: Option<&Seen>, seen: &Seen) -> News {
    let is_lost = |seen: &Seen| seen.lost_in_a_row >= IN_A_ROW;
    let Some(told) = told else {
        let is_known = seen.answered >= IN_A_ROW || is_lost(seen);
        return if is_known { News::Some } else { News::None };
    };
    match (is_lost(told), is_lost(seen)) {
        (false, true) => return News::Bad,
        (true, false) => return News::Some,
        (true, true) => return News::None,
        (false, false) => (),
    }
    match (told.delays, seen.delays) {
        (Some(told), Some(seen)) if is_apart(told.p50, seen.p50) => {
            if seen.p50 > told.p50 {
                News::Bad
            } else {
                News::Some
            }
        }
        (None, Some(_)) if seen.answered >= IN_A_ROW => News::Some,
        (_, _) => News::None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// Probes a second apart; 0 is one that was lost.
    fn track(delays: &[u64]) -> Track {
        let mut track = Track::default();
        for (second, delay) in (0..).zip(delays) {
            track.note(Duration::from_secs(second), (*delay > 0).then(|| ms(*delay)));
        }
        track
    }

    #[track_caller]
    fn check(delays: &[u64], p50: u64, is_unsure: bool) {
        let track = track(delays);
        let seen = track.seen(Duration::from_secs(delays.len() as u64));
        assert_eq!(seen.delays.map_or(0, |it| it.p50.as_millis()), u128::from(p50), "{delays:?}");
        assert_eq!(track.is_unsure(), is_unsure, "{delays:?}");
    }

    #[test]
    fn three_in_a_row_that_differ_are_a_change_and_fewer_are_not() {
        check(&[20, 20, 20, 20, 20, 20], 20, false);
        check(&[20, 20, 20, 20, 20, 20, 90], 20, true);
        check(&[20, 20, 20, 20, 20, 20, 90, 91], 20, true);
        check(&[20, 20, 20, 20, 20, 20, 90, 91, 92], 91, false);
        check(&[20, 20, 20, 20, 20, 20, 90, 20, 90], 20, true);
        check(&[90, 90, 90, 90, 90, 90, 20, 21, 22], 21, false);
        // Up and down is no change to either.
        check(&[50, 50, 50, 50, 50, 90, 20, 90], 50, true);
    }

    #[test]
    fn who_knows_little_or_has_lost_a_probe_looks_closer_until_it_is_clear() {
        check(&[], 0, true);
        check(&[20, 20], 20, true);
        check(&[20, 20, 20, 0], 20, true);
        check(&[20, 20, 20, 0, 0, 0], 20, false);
        assert_eq!(track(&[20, 20, 20, 0, 0, 0]).seen(ms(6000)).lost_in_a_row, 3);
    }

    #[test]
    fn bad_news_are_told_at_once_and_no_news_now_and_then() {
        let seen = |delays: &[u64]| track(delays).seen(ms(9000));
        let good = seen(&[20, 20, 20]);
        let tells = |told: Option<Seen>, now: Seen, ago: u64| {
            worth_telling(&[(told, now)], Duration::from_secs(ago))
        };
        assert!(!tells(Some(good), good, 299) && tells(Some(good), good, 300));
        let worse = seen(&[90, 90, 90]);
        assert!(!tells(Some(good), worse, 1) && tells(Some(good), worse, 2));
        assert!(!tells(Some(worse), good, 9) && tells(Some(worse), good, 10));
        let dead = seen(&[20, 20, 20, 0, 0, 0]);
        assert!(tells(Some(good), dead, 2));
        assert!(!tells(Some(dead), dead, 299));
        assert!(!tells(None, seen(&[20]), 299) && tells(None, good, 10));
        assert!(!worth_telling(&[], Duration::from_secs(299)));
    }

    #[test]
    fn no_more_is_kept_than_what_describes_the_network_of_now() {
        let mut track = Track::default();
        for second in 0..1000 {
            track.note(Duration::from_secs(second), Some(ms(20)));
        }
        assert_eq!(track.seen(Duration::from_secs(1000)).probes, 64);
        track.note(Duration::from_secs(5000), Some(ms(20)));
        assert_eq!(track.seen(Duration::from_secs(5000)).probes, 1);
        assert_eq!(track.since(Duration::from_secs(5061), Duration::from_secs(60)), 0);
    }
}
