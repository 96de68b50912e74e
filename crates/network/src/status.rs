//! When what is measured of a link is worth writing down. Called by whoever owns the status of a Link; start at
//! [`Keeper::look`].
//!
//! A write is durable and wakes everybody who watches, so there are few: a figure has to leave its step, and stay
//! away. What gets worse is told soon, since somebody suffers; what gets better has time. So a link that flaps
//! is written down once, as bad as it gets, and stays so until it has been good for a whole minute.

mod failures;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::figure::{Figure, Kind};
use crate::window::Summary;

pub use failures::{DAYS, Failures};

/// How long a figure has to stay worse. One slow packet is no news; two looks in a row are.
pub const WORSE_FOR: Duration = Duration::from_secs(3);
/// How long it has to stay better. Who moves an application because of it wants it to last.
pub const BETTER_FOR: Duration = Duration::from_secs(60);
/// Between a write and one that says that things got worse. With [`WORSE_FOR`] and a look a second, bad news is written
/// within ten seconds.
pub const GAP_WORSE: Duration = Duration::from_secs(5);
/// Between a write and any other: what keeps quiet links at one a minute.
pub const GAP: Duration = Duration::from_secs(60);
/// A status that nothing changes is written again for its age: placement trusts an old figure less.
pub const REFRESH: Duration = Duration::from_secs(15 * 60);
/// Probes in a row that must be lost before a link is called dead, and answered before it is alive again. Three of a
/// link that loses a tenth are one in a thousand.
pub const LOST_IN_A_ROW: u32 = 3;
pub const ANSWERED_IN_A_ROW: u32 = 3;
/// Fewer samples make no first status.
const SAMPLES_LEAST: u32 = 3;

/// What is kept of a link. Delays are in milliseconds one way, loss in percent, bandwidth in bits a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Metric {
    Latency,
    LatencyP95,
    Jitter,
    Loss,
    Bandwidth,
    BandwidthBack,
}

/// Which way a figure went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    Worse,
    Better,
}

/// The step of a metric: whatever lies within is the same.
struct Step {
    share: f64,
    least: f64,
    more_is: Turn,
}

impl Metric {
    fn step(self) -> Step {
        let step = |share, least, more_is| Step { share, least, more_is };
        match self {
            Metric::Latency => step(0.15, 0.3, Turn::Worse),
            Metric::LatencyP95 => step(0.3, 0.6, Turn::Worse),
            Metric::Jitter => step(0.5, 0.5, Turn::Worse),
            Metric::Loss => step(0.5, 1.0, Turn::Worse),
            Metric::Bandwidth | Metric::BandwidthBack => step(0.2, 64_000.0, Turn::Better),
        }
    }

    /// Where `seen` lies, from what was written.
    fn turn(self, written: f64, seen: f64) -> Option<Turn> {
        let Step { share, least, more_is } = self.step();
        let by = seen - written;
        if by.abs() <= (share * written.abs()).max(least) {
            return None;
        }
        match (by > 0.0, more_is) {
            (true, turn) => Some(turn),
            (false, Turn::Worse) => Some(Turn::Better),
            (false, Turn::Better) => Some(Turn::Worse),
        }
    }

    /// Whether a measurement leaves no doubt that the declared bound does not hold.
    fn contradicts(self, declared: f64, figure: &Figure) -> bool {
        if figure.kind != Kind::Measured || figure.samples < SAMPLES_LEAST {
            return false;
        }
        match self.step().more_is {
            Turn::Worse => self.turn(declared, figure.at_least()) == Some(Turn::Worse),
            Turn::Better => self.turn(declared, figure.at_most()) == Some(Turn::Worse),
        }
    }
}

pub type Figures = BTreeMap<Metric, Figure>;

/// What a window says of a link. A delay one way is half of that there and back: nothing tells the two apart without
/// clocks that are right.
pub fn figures(summary: &Summary) -> Figures {
    let age = summary.age.unwrap_or_default();
    let figure =
        |value, spread, samples| Figure { value, kind: Kind::Measured, age, spread, samples };
    let ms = |time: Duration| time.as_secs_f64() * 1000.0;
    let mut figures = Figures::new();
    if summary.probes > 0 {
        // As far as so many samples can be from the share that they were drawn with.
        let spread = (summary.loss * (1.0 - summary.loss) / f64::from(summary.probes)).sqrt();
        let loss = figure(100.0 * summary.loss, 100.0 * spread, summary.probes);
        figures.insert(Metric::Loss, loss);
    }
    if let Some(delays) = summary.delays {
        for (metric, time) in [
            (Metric::Latency, delays.p50),
            (Metric::LatencyP95, delays.p95),
            (Metric::Jitter, delays.jitter),
        ] {
            let one_way = figure(ms(time) / 2.0, ms(delays.spread) / 2.0, summary.answered);
            figures.insert(metric, one_way);
        }
    }
    figures
}

/// What is known of a link at one look.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seen {
    pub figures: Figures,
    /// What the operator promised.
    pub declared: BTreeMap<Metric, f64>,
    pub lost_in_a_row: u32,
    pub answered_in_a_row: u32,
    /// Days since any, for the count of failures.
    pub day: u32,
}

/// Why a status is written.
#[derive(Clone, Debug, PartialEq)]
pub enum Why {
    First,
    /// A figure left its step.
    Changed {
        metric: Metric,
        from: f64,
        to: f64,
        turn: Turn,
    },
    Died,
    Revived,
    /// What was promised does not hold, or holds again.
    Contradicted,
    Agrees,
    /// Nothing changed, but the status was old.
    Aged,
}

/// What is worth an event.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    Died { failures: u32 },
    Revived,
    Contradicted { metric: Metric, declared: f64, figure: Figure },
    Agrees { metric: Metric, declared: f64 },
}

/// A status to write.
#[derive(Clone, Debug, PartialEq)]
pub struct Write {
    pub figures: Figures,
    pub is_alive: bool,
    /// The bounds that do not hold.
    pub contradicted: BTreeSet<Metric>,
    /// Within thirty days.
    pub failures: u32,
    /// The mean of the failures a day, the last days most.
    pub failures_mean: f64,
    pub because: Vec<Why>,
}

/// What one look brings.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Looked {
    pub write: Option<Write>,
    pub events: Vec<Event>,
}

/// What one look at a link leaves for the next.
#[derive(Clone, Debug, Default)]
pub struct Keeper {
    written: Option<(Figures, Duration)>,
    /// Figures out of their step: which way, and since when.
    away: BTreeMap<Metric, (Turn, Duration)>,
    is_dead: bool,
    failures: Failures,
    contradicted: BTreeSet<Metric>,
    /// Bounds about to change sides, and since when.
    doubts: BTreeMap<Metric, Duration>,
    /// What has happened since the last write and is to be written with the next.
    owed: Vec<Why>,
}

impl Keeper {
    /// Goes on with the failures that an earlier process counted.
    pub fn resume(failures: Failures) -> Keeper {
        Keeper { failures, ..Keeper::default() }
    }

    pub fn failures(&self) -> &Failures {
        &self.failures
    }

    /// Whether there is anything that a look could find unchanged.
    pub fn has_written(&self) -> bool {
        self.written.is_some()
    }

    /// Whether nothing is about to be written: until something else is seen, nobody has to look for a while.
    pub fn is_settled(&self) -> bool {
        self.away.is_empty() && self.doubts.is_empty() && self.owed.is_empty()
    }

    /// Looks at a link. At least once a second while it is probed, and whenever it likes else.
    pub fn look(&mut self, seen: &Seen, now: Duration) -> Looked {
        let mut looked = Looked::default();
        self.look_alive(seen, &mut looked.events);
        self.look_at_bounds(seen, now, &mut looked.events);
        let changes = self.changes(seen, now);
        let because = self.because(changes, seen, now);
        if !because.is_empty() {
            let figures = self.figures(seen, &because);
            self.written = Some((figures.clone(), now));
            self.away.clear();
            self.owed.clear();
            looked.write = Some(Write {
                figures,
                is_alive: !self.is_dead,
                contradicted: self.contradicted.clone(),
                failures: self.failures.count(seen.day),
                failures_mean: self.failures.mean(seen.day),
                because,
            });
        }
        looked
    }

    /// What to write: what is seen, but for what is better than it was and has not been so for long enough. Another
    /// reason to write must not make a link look well that flaps.
    fn figures(&self, seen: &Seen, because: &[Why]) -> Figures {
        let mut figures = seen.figures.clone();
        let Some((written, _)) = &self.written else { return figures };
        for (metric, figure) in &mut figures {
            let Some(old) = written.get(metric) else { continue };
            let is_proven = because.iter().any(
                |why| matches!(why, Why::Changed { metric: changed, .. } if changed == metric),
            );
            if !is_proven && metric.turn(old.value, figure.value) == Some(Turn::Better) {
                *figure = *old;
            }
        }
        figures
    }

    fn look_alive(&mut self, seen: &Seen, events: &mut Vec<Event>) {
        if !self.is_dead && seen.lost_in_a_row >= LOST_IN_A_ROW {
            self.is_dead = true;
            self.failures.add(seen.day);
            self.owed.push(Why::Died);
            events.push(Event::Died { failures: self.failures.count(seen.day) });
        } else if self.is_dead && seen.answered_in_a_row >= ANSWERED_IN_A_ROW {
            self.is_dead = false;
            self.owed.push(Why::Revived);
            events.push(Event::Revived);
        }
    }

    fn look_at_bounds(&mut self, seen: &Seen, now: Duration, events: &mut Vec<Event>) {
        // What the operator takes back is no promise any more.
        self.contradicted.retain(|metric| seen.declared.contains_key(metric));
        for (&metric, &declared) in &seen.declared {
            let Some(figure) = seen.figures.get(&metric) else { continue };
            let broken = metric.contradicts(declared, figure);
            if broken == self.contradicted.contains(&metric) {
                self.doubts.remove(&metric);
                continue;
            }
            let since = *self.doubts.entry(metric).or_insert(now);
            let patience = if broken { WORSE_FOR } else { BETTER_FOR };
            if now.saturating_sub(since) < patience {
                continue;
            }
            self.doubts.remove(&metric);
            if broken {
                self.contradicted.insert(metric);
                self.owed.push(Why::Contradicted);
                events.push(Event::Contradicted { metric, declared, figure: *figure });
            } else {
                self.contradicted.remove(&metric);
                self.owed.push(Why::Agrees);
                events.push(Event::Agrees { metric, declared });
            }
        }
    }

    /// Figures that have been out of their step for long enough.
    fn changes(&mut self, seen: &Seen, now: Duration) -> Vec<Why> {
        let Some((written, _)) = &self.written else { return Vec::new() };
        let mut changes = Vec::new();
        for (&metric, figure) in &seen.figures {
            let turn = match written.get(&metric) {
                Some(old) => metric.turn(old.value, figure.value),
                // A metric that was not there is news, and no bad ones.
                None => Some(Turn::Better),
            };
            let Some(turn) = turn else {
                self.away.remove(&metric);
                continue;
            };
            let (before, since) = *self.away.entry(metric).or_insert((turn, now));
            if before != turn {
                self.away.insert(metric, (turn, now));
                continue;
            }
            let patience = match turn {
                Turn::Worse => WORSE_FOR,
                Turn::Better => BETTER_FOR,
            };
            if now.saturating_sub(since) >= patience {
                let from = written.get(&metric).map_or(0.0, |old| old.value);
                changes.push(Why::Changed { metric, from, to: figure.value, turn });
            }
        }
        changes
    }

    /// Why to write now; empty if there is no reason or it is too soon.
    fn because(&self, changes: Vec<Why>, seen: &Seen, now: Duration) -> Vec<Why> {
        let Some((_, written_at)) = &self.written else {
            let known = seen.figures.values().any(|figure| figure.samples >= SAMPLES_LEAST);
            return if known || self.is_dead { vec![Why::First] } else { Vec::new() };
        };
        let passed = now.saturating_sub(*written_at);
        let is_bad = |why: &Why| match why {
            Why::Changed { turn, .. } => *turn == Turn::Worse,
            Why::Died | Why::Contradicted => true,
            Why::First | Why::Revived | Why::Agrees | Why::Aged => false,
        };
        let mut because = self.owed.clone();
        because.extend(changes);
        let gap = if because.iter().any(is_bad) { GAP_WORSE } else { GAP };
        match because.is_empty() {
            true if passed >= REFRESH => vec![Why::Aged],
            false if passed >= gap => because,
            true | false => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests;
