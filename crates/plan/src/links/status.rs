//! What a Link says of itself: figures as they were measured or estimated, whether it lives, and whether what was
//! declared holds. When that is worth a write is decided by [`tombolo_network::status`].

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration as Span;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use tombolo_model::condition::{self, AS_DECLARED, Changed, Finding, READY, TRUTHFUL};
use tombolo_model::event::Tone;
use tombolo_model::link::FigureKind;
use tombolo_model::{
    BitRate, Condition, ConditionStatus, Duration, Link, LinkStatus, Node, Reason,
};
use tombolo_network::status::{Event, Failures, Figures, Keeper, Metric, Seen, Why, Write};
use tombolo_network::{Figure, Kind};

use super::pairs::{Known, milliseconds};
use super::{Action, Told};
use crate::Monotonic;

/// What [`Keeper`] takes for a link that is dead or alive beyond doubt.
const IN_A_ROW: u32 = tombolo_network::status::LOST_IN_A_ROW;

/// A write that nobody has seen by then got lost, or somebody wrote over it.
const SEEN_WITHIN: Span = Span::from_secs(10);

/// What is kept of a link from one look to the next.
#[derive(Clone, Debug, Default)]
pub(super) struct Kept {
    keeper: Keeper,
    /// What has happened since the last write, and is told with the next.
    news: Vec<Told>,
    /// What was last written, until it is seen.
    unseen: Option<(Said, Monotonic)>,
}

/// By what a status is known again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Said {
    latency: Option<Duration>,
    is_alive: bool,
}

impl Said {
    fn of(status: Option<&LinkStatus>) -> Said {
        let conditions = status.map_or(&[][..], |status| &status.conditions);
        let is_dead = condition::find(conditions, READY)
            .is_some_and(|ready| ready.status == ConditionStatus::False);
        Said { latency: status.and_then(|status| status.measured.latency), is_alive: !is_dead }
    }
}

impl Kept {
    /// Goes on with what an earlier process has counted.
    pub(super) fn of(link: &Link, time: &Time) -> Kept {
        let failures = link.status.as_ref().and_then(|status| status.measured.failures);
        // On which of the last days they were is not written down: as if they were of today.
        let failures = failures.filter(|count| *count > 0).map(|count| (day(time), count));
        Kept { keeper: Keeper::resume(Failures::of(failures)), ..Kept::default() }
    }

    /// What to write of a link, and whether nothing of it is about to change.
    pub(super) fn look(
        &mut self,
        link: &Link,
        known: &Known,
        now: Monotonic,
        time: &Time,
    ) -> (Option<Action>, bool) {
        if let Some((said, at)) = self.unseen {
            if Said::of(link.status.as_ref()) == said {
                self.unseen = None;
            } else if now.since(at) >= SEEN_WITHIN {
                self.unseen = None;
                self.keeper = Keeper::resume(self.keeper.failures().clone());
            }
        } else if link.status.is_none() && self.keeper.has_written() {
            self.keeper = Keeper::resume(self.keeper.failures().clone());
        }
        let seen = seen(link, known, time);
        let looked = self.keeper.look(&seen, now.since_start());
        self.news.extend(looked.events.iter().map(told));
        let is_settled = self.keeper.is_settled() && self.unseen.is_none();
        let Some(write) = looked.write else { return (None, is_settled) };
        let status = status(link, &write, time);
        self.unseen = Some((Said::of(Some(&status)), now));
        let action = Action::Write {
            link: link.metadata.name.clone().unwrap_or_default(),
            version: link.metadata.resource_version.clone(),
            status: Box::new(status),
            news: std::mem::take(&mut self.news),
        };
        (Some(action), false)
    }
}

fn seen(link: &Link, known: &Known, time: &Time) -> Seen {
    let declared = &link.spec.declared;
    let ms = |delay: Duration| milliseconds(delay);
    #[expect(clippy::cast_precision_loss, reason = "a rate is known to a few digits")]
    let bits = |rate: BitRate| rate.bps() as f64;
    let bounds = [
        (Metric::Latency, declared.latency.map(ms)),
        (Metric::Jitter, declared.jitter.map(ms)),
        (Metric::Loss, declared.loss),
        (Metric::Bandwidth, declared.bandwidth.map(bits)),
    ];
    Seen {
        figures: figures(known),
        declared: bounds.into_iter().filter_map(|(metric, bound)| Some((metric, bound?))).collect(),
        lost_in_a_row: if known.is_dead { IN_A_ROW } else { 0 },
        answered_in_a_row: if known.is_alive { IN_A_ROW } else { 0 },
        day: day(time),
    }
}

fn day(time: &Time) -> u32 {
    u32::try_from(time.0.as_second().max(0) / (24 * 60 * 60)).unwrap_or(u32::MAX)
}

/// One way is half of there and back: nothing tells the two apart without clocks that are right.
fn figures(known: &Known) -> Figures {
    let mut figures = BTreeMap::new();
    if let Some((found, age)) = &known.middle {
        let spread = found.spread.map_or(0.0, milliseconds) / 2.0;
        let figure = |value, spread| Figure {
            value,
            kind: Kind::Measured,
            age: *age,
            spread,
            samples: known.samples,
        };
        for (metric, time) in [
            (Metric::Latency, found.p50),
            (Metric::LatencyP95, found.p95),
            (Metric::Jitter, found.jitter),
        ] {
            if let Some(time) = time {
                figures.insert(metric, figure(milliseconds(time) / 2.0, spread));
            }
        }
    } else if let Some(estimate) = known.estimated {
        let (value, spread) = (estimate.value / 2.0, estimate.spread / 2.0);
        figures.insert(Metric::Latency, Figure { value, spread, ..estimate });
    }
    if known.probes > 0 && !figures.is_empty() {
        let share = 1.0 - f64::from(known.answered) / f64::from(known.probes);
        let spread = (share * (1.0 - share) / f64::from(known.probes)).sqrt();
        let age = known.middle.as_ref().map(|(_, age)| *age).unwrap_or_default();
        let loss = Figure {
            value: 100.0 * share,
            kind: Kind::Measured,
            age,
            spread: 100.0 * spread,
            samples: known.probes,
        };
        figures.insert(Metric::Loss, loss);
    }
    figures
}

fn status(link: &Link, write: &Write, time: &Time) -> LinkStatus {
    let mut status = link.status.clone().unwrap_or_default();
    status.observed_generation = link.metadata.generation;
    let delay = |metric| write.figures.get(&metric).map(|figure: &Figure| micros(figure.value));
    // What lies within its step is the same: nobody has to look again because of it.
    let is_old =
        status.measured.latency.is_some() && write.because.iter().all(|why| *why == Why::Aged);
    if let Some(latency) = write.figures.get(&Metric::Latency) {
        if !is_old || status.kind != Some(kind(latency.kind)) {
            status.measured.latency = Some(micros(latency.value));
            status.latency_p95 = delay(Metric::LatencyP95);
            status.measured.jitter = delay(Metric::Jitter);
            status.spread = Some(micros(latency.spread));
            status.measured.loss =
                write.figures.get(&Metric::Loss).map(|loss| (loss.value * 100.0).round() / 100.0);
        }
        status.kind = Some(kind(latency.kind));
        status.samples = Some(latency.samples);
        let at = time.0.checked_sub(latency.age).unwrap_or(time.0);
        status.measured_at = Some(Time(at));
    }
    if write.failures > 0 {
        status.measured.failures = Some(write.failures);
        status.failures_mean = Some((write.failures_mean * 1000.0).round() / 1000.0);
    }
    set_ready(&mut status, write, time);
    set_as_declared(link, &mut status, write, time);
    status
}

fn kind(kind: Kind) -> FigureKind {
    match kind {
        Kind::Estimated => FigureKind::Estimated,
        Kind::Declared | Kind::Measured => FigureKind::Measured,
    }
}

/// An estimate says nothing about whether packets arrive.
fn set_ready(status: &mut LinkStatus, write: &Write, time: &Time) {
    let is_measured = status.kind == Some(FigureKind::Measured);
    let (word, reason) = match write.is_alive {
        true => (ConditionStatus::True, Reason::ProbesAnswered),
        false => (ConditionStatus::False, Reason::ProbesLost),
    };
    if is_measured || !write.is_alive {
        put(&mut status.conditions, READY, word, reason, &reason.says(&[]), time);
    }
}

fn set_as_declared(link: &Link, status: &mut LinkStatus, write: &Write, time: &Time) {
    let declared = &link.spec.declared;
    let measurable =
        declared.latency.is_some() || declared.jitter.is_some() || declared.loss.is_some();
    if !measurable {
        status.conditions.retain(|condition| condition.kind != AS_DECLARED);
        return;
    }
    let broken: BTreeSet<Metric> = write.contradicted.clone();
    let (word, reason, message) = match broken.iter().next() {
        None => {
            let reason = Reason::AsDeclared;
            (ConditionStatus::True, reason, reason.says(&[]))
        }
        Some(metric) => {
            let reason = Reason::NotAsDeclared;
            let found = write.figures.get(metric).map_or(0.0, |figure| figure.value);
            let blanks = [
                ("metric", name(*metric).to_owned()),
                ("measured", words(*metric, found)),
                ("declared", declared_words(link, *metric)),
            ];
            (ConditionStatus::False, reason, reason.says(&blanks))
        }
    };
    put(&mut status.conditions, AS_DECLARED, word, reason, &message, time);
}

fn put(
    conditions: &mut Vec<Condition>,
    kind: &str,
    status: ConditionStatus,
    reason: Reason,
    message: &str,
    time: &Time,
) {
    let finding = Finding { kind, status, reason, message, observed_generation: None };
    condition::set(conditions, finding, time);
}

fn name(metric: Metric) -> &'static str {
    match metric {
        Metric::Latency => "delay",
        Metric::LatencyP95 => "delay of 19 of 20 packets",
        Metric::Jitter => "jitter",
        Metric::Loss => "loss",
        Metric::Bandwidth => "bandwidth",
        Metric::BandwidthBack => "bandwidth back",
    }
}

fn words(metric: Metric, value: f64) -> String {
    match metric {
        Metric::Latency | Metric::LatencyP95 | Metric::Jitter => micros(value).to_string(),
        Metric::Loss => format!("{value:.1} %"),
        Metric::Bandwidth | Metric::BandwidthBack => format!("{:.1} Mbit/s", value / 1e6),
    }
}

fn declared_words(link: &Link, metric: Metric) -> String {
    let declared = &link.spec.declared;
    let said = match metric {
        Metric::Latency | Metric::LatencyP95 => declared.latency.map(|it| it.to_string()),
        Metric::Jitter => declared.jitter.map(|it| it.to_string()),
        Metric::Loss => declared.loss.map(|it| words(metric, it)),
        Metric::Bandwidth | Metric::BandwidthBack => declared.bandwidth.map(|it| it.to_string()),
    };
    said.unwrap_or_default()
}

/// Of milliseconds.
fn micros(milliseconds: f64) -> Duration {
    let time = Span::try_from_secs_f64((milliseconds / 1000.0).max(0.0)).unwrap_or_default();
    Duration::from_micros(u64::try_from(time.as_micros()).unwrap_or(u64::MAX))
}

fn told(event: &Event) -> Told {
    let (tone, reason, blanks) = match event {
        Event::Died { .. } => (Tone::Warning, Reason::ProbesLost, Vec::new()),
        Event::Revived => (Tone::Normal, Reason::ProbesAnswered, Vec::new()),
        Event::Contradicted { metric, declared, figure } => {
            let blanks = vec![
                ("metric", name(*metric).to_owned()),
                ("measured", words(*metric, figure.value)),
                ("declared", words(*metric, *declared)),
            ];
            (Tone::Warning, Reason::NotAsDeclared, blanks)
        }
        Event::Agrees { .. } => (Tone::Normal, Reason::AsDeclared, Vec::new()),
    };
    Told { tone, reason, message: reason.says(&blanks) }
}

/// The conditions of a node whose figures are doubted, or believed again, if that is not what they say already.
pub(super) fn judged(name: &str, node: &Node, told: Told, time: &Time) -> Option<Action> {
    let status = node.status.as_ref();
    let mut conditions = status.map(|status| status.conditions.clone()).unwrap_or_default();
    let word = match told.reason {
        Reason::DelaysDoubted => ConditionStatus::False,
        _ => ConditionStatus::True,
    };
    let finding = Finding {
        kind: TRUTHFUL,
        status: word,
        reason: told.reason,
        message: &told.message,
        observed_generation: None,
    };
    if condition::set(&mut conditions, finding, time) == Changed::No {
        return None;
    }
    let version = node.metadata.resource_version.clone();
    Some(Action::Judge { node: name.to_owned(), version, conditions, told })
}
