//! One policy over time: [`Machine`]. Each look goes in, changes and steps come out. The live loop and the
//! back-test drive the very same one; what it must not forget is a [`Memory`], which fits into a status.

mod acting;
mod memory;
mod track;

use std::collections::HashMap;

use tombolo_model::policy::{Action, Mode, PolicyPhase};
use tombolo_series::Labels;

use crate::look::Look;
use crate::{Rule, Target};

pub use memory::{Memory, Outcome, Past, Suggestion};
pub use track::{Phase, Track};

/// More subjects than this are not followed: a policy about everything would fill the memory.
const SUBJECTS_MAX: usize = 10_000;

/// A subject that has not been seen for so long is forgotten.
const FORGOTTEN_AFTER_MS: i64 = 3_600_000;

/// When nobody looked for longer than this, nobody knows that a violation lasted.
const GAP_MS_MIN: i64 = 300_000;

/// A change that is worth telling.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    pub at_ms: i64,
    pub labels: Labels,
    pub kind: ChangeKind,
    pub value: f64,
    pub limit: Option<f64>,
    pub level: Option<&'static str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// It does not hold, and not yet for long enough.
    Pending,
    /// It does not hold.
    Firing,
    /// It holds again, after so long.
    Resolved { after_ms: i64 },
    /// The trend leads to a violation.
    Predicted,
    /// There are no values any more.
    Lost,
    /// There is nothing left to try; said once.
    CannotBeMet,
}

/// A step that is to be taken, or suggested.
#[derive(Clone, Debug, PartialEq)]
pub struct Act {
    pub at_ms: i64,
    pub policy: String,
    pub labels: Labels,
    pub target: Target,
    pub action: Action,
    pub value: f64,
    pub limit: Option<f64>,
    /// Before the violation, by its trend.
    pub early: bool,
    /// How many steps were taken against this before.
    pub tries: u32,
    /// The mode in which it came up: [`Mode::Suggest`] asks a person first.
    pub mode: Mode,
    pub reason: String,
}

/// A step that is due and not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// The last one was too short a time ago.
    Cooldown { until_ms: i64 },
    /// So many were taken in the time.
    Budget { until_ms: i64 },
    /// A person is asked, and has not answered.
    Asked,
    /// The policy was for once.
    Done,
}

/// What comes of a look.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stepped {
    pub changes: Vec<Change>,
    pub acts: Vec<Act>,
    pub held: Vec<(Labels, Held)>,
    /// Subjects that were too many.
    pub dropped: usize,
}

/// A policy that is watched.
#[derive(Clone, Debug)]
pub struct Machine {
    rule: Rule,
    index: HashMap<Labels, usize>,
    tracks: Vec<Track>,
    past: Vec<Past>,
    suggestions: Vec<Suggestion>,
    done: bool,
    last_ms: Option<i64>,
    failure: Option<String>,
}

impl Machine {
    /// With what is remembered from before, if anything.
    pub fn new(rule: Rule, memory: Option<Memory>) -> Self {
        let mut machine = Self {
            rule,
            index: HashMap::new(),
            tracks: Vec::new(),
            past: Vec::new(),
            suggestions: Vec::new(),
            done: false,
            last_ms: None,
            failure: None,
        };
        if let Some(memory) = memory {
            memory.restore(&mut machine);
        }
        machine
    }

    pub fn rule(&self) -> &Rule {
        &self.rule
    }

    pub fn tracks(&self) -> &[Track] {
        &self.tracks
    }

    pub fn past(&self) -> &[Past] {
        &self.past
    }

    pub fn suggestions(&self) -> &[Suggestion] {
        &self.suggestions
    }

    /// Why the last look saw nothing, when it failed.
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// What must outlive the process.
    pub fn memory(&self) -> Memory {
        Memory::of(self)
    }

    /// The policy as a whole: the worst of its subjects.
    pub fn phase(&self) -> PolicyPhase {
        if self.rule.suspended || self.done {
            return PolicyPhase::Inactive;
        }
        if self.failure.is_some() || self.last_ms.is_none() {
            return PolicyPhase::Unknown;
        }
        let worst = self.tracks.iter().map(|track| track.phase).max();
        match worst {
            Some(phase) => phase_word(phase),
            // What gives a value only when it is violated, and gives none.
            None if self.rule.condition.is_any() => PolicyPhase::Enforced,
            None => PolicyPhase::Unknown,
        }
    }

    /// Takes a look in. A time before that of the last look counts as the last look's: clocks are set back.
    pub fn step(&mut self, look: &Look) -> Stepped {
        let mut out = Stepped::default();
        if self.rule.suspended || self.done {
            return out;
        }
        let now = self.last_ms.map_or(look.at_ms, |last| look.at_ms.max(last));
        let gap = self.last_ms.map_or(0, |last| now - last);
        let unwatched = gap > GAP_MS_MIN.max(4 * self.rule.interval_ms);
        self.last_ms = Some(now);
        self.failure.clone_from(&look.failure);
        if unwatched {
            self.tracks.iter_mut().for_each(|track| track.was_unwatched(now));
        }
        self.take_seen(look, now, &mut out);
        if look.failure.is_none() || look.seen.is_empty() {
            self.miss(look.failure.is_some(), now, &mut out);
        }
        self.take_ahead(look, now, &mut out);
        self.act(now, &mut out);
        self.forget(now);
        out
    }

    /// A step that came up is not taken: another policy is heard first, or nothing is there to be done. It does not
    /// count as a try, and comes up again after the pause.
    pub fn take_back(&mut self, act: &Act) {
        let is_it = |past: &Past| past.at_ms == act.at_ms && past.labels == act.labels;
        let Some(number) = self.past.iter().rposition(is_it) else { return };
        self.past.remove(number);
        self.done = false;
        if let Some(place) = self.index.get(&act.labels) {
            let track = &mut self.tracks[*place];
            track.tries = track.tries.saturating_sub(1);
            track.gave_up = track.gave_up && track.tries >= acting::TRIES_MAX;
        }
    }

    fn take_seen(&mut self, look: &Look, now: i64, out: &mut Stepped) {
        for seen in look.seen.iter().filter(|seen| !seen.value.is_nan()) {
            let place = match self.index.get(&seen.labels) {
                Some(place) => *place,
                None if self.tracks.len() >= SUBJECTS_MAX => {
                    out.dropped += 1;
                    continue;
                }
                None => {
                    self.index.insert(seen.labels.clone(), self.tracks.len());
                    self.tracks.push(Track::new(seen.labels.clone(), now));
                    self.tracks.len() - 1
                }
            };
            let verdict = self.rule.condition.judge(seen.value);
            self.tracks[place].see(&self.rule, seen.value, verdict, now, &mut out.changes);
        }
    }

    /// Those that were not seen: well when only violations show, and unknown otherwise.
    fn miss(&mut self, failed: bool, now: i64, out: &mut Stepped) {
        let only_violations = self.rule.condition.is_any() && !failed;
        for track in self.tracks.iter_mut().filter(|track| track.seen_ms != now) {
            match only_violations {
                true => track.hold(&self.rule, now, &mut out.changes),
                false => track.lose(now, &mut out.changes),
            }
        }
    }

    fn take_ahead(&mut self, look: &Look, now: i64, out: &mut Stepped) {
        if self.rule.trend.is_none() {
            return;
        }
        for seen in &look.ahead {
            let Some(place) = self.index.get(&seen.labels) else { continue };
            let verdict = self.rule.condition.judge(seen.value);
            let leads = !seen.value.is_nan() && verdict.violated;
            self.tracks[*place].look_ahead(leads, seen.value, verdict, now, &mut out.changes);
        }
    }

    fn forget(&mut self, now: i64) {
        let gone = |track: &Track| {
            let quiet = matches!(track.phase, Phase::Unknown | Phase::Enforced);
            quiet && now - track.seen_ms > FORGOTTEN_AFTER_MS && track.is_calm(&self.rule, now)
        };
        if self.tracks.iter().any(gone) {
            let rule = &self.rule;
            self.tracks.retain(|track| {
                let quiet = matches!(track.phase, Phase::Unknown | Phase::Enforced);
                !(quiet && now - track.seen_ms > FORGOTTEN_AFTER_MS && track.is_calm(rule, now))
            });
            let places = self.tracks.iter().enumerate();
            self.index = places.map(|(place, track)| (track.labels.clone(), place)).collect();
        }
    }
}

/// The phase of a subject as a word of the Policy's status.
pub fn phase_word(phase: Phase) -> PolicyPhase {
    match phase {
        Phase::Enforced => PolicyPhase::Enforced,
        Phase::Unknown => PolicyPhase::Unknown,
        Phase::Predicted => PolicyPhase::Predicted,
        Phase::Pending => PolicyPhase::Pending,
        Phase::Violated => PolicyPhase::Violated,
    }
}
