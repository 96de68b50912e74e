//! When a step is due, and what holds it back.

use tombolo_model::policy::{Action, Mode};

use super::memory::{Outcome, Past, Suggestion};
use super::{Act, ChangeKind, Held, Machine, Phase, Stepped, Track};
use crate::subject::target;

/// After so many steps in vain it is said that the policy cannot be met.
pub(super) const TRIES_MAX: u32 = 5;

/// Steps that are remembered; the older ones are in the timeline.
const PAST_MAX: usize = 64;

/// How long a suggestion waits for a person.
const SUGGESTION_MS: i64 = 3_600_000;

impl Machine {
    pub(super) fn act(&mut self, now: i64, out: &mut Stepped) {
        self.judge_past(now);
        self.suggestions.retain(|one| one.until_ms > now);
        if self.rule.mode == Mode::Watch {
            return;
        }
        for place in 0..self.tracks.len() {
            let track = &self.tracks[place];
            let Some((action, early)) = self.due(track) else { continue };
            if let Some(held) = self.held(track, now) {
                out.held.push((track.labels.clone(), held));
                continue;
            }
            let act = self.proposed(track, action, early, now);
            match self.rule.mode {
                Mode::Watch => (),
                Mode::Suggest => self.suggest(&act),
                Mode::Enforce => self.note(place, &act, out),
            }
            out.acts.push(act);
            if self.done {
                return;
            }
        }
    }

    fn due(&self, track: &Track) -> Option<(Action, bool)> {
        let ahead = || self.rule.trend.as_ref().map_or(Action::None, |trend| trend.action);
        let (action, early) = match track.phase {
            Phase::Violated => (self.rule.action, false),
            Phase::Predicted => (ahead(), true),
            Phase::Enforced | Phase::Unknown | Phase::Pending => return None,
        };
        // What was seen last must be bad, too: while a violation is only kept, nothing is done.
        let is_bad = early || track.bad_ms == Some(track.seen_ms) || self.rule.condition.is_any();
        (action != Action::None && is_bad).then_some((action, early))
    }

    fn held(&self, track: &Track, now: i64) -> Option<Held> {
        if let Some(acted) = track.acted_ms {
            let until_ms = acted.saturating_add(track.pause_ms(&self.rule));
            if now < until_ms {
                return Some(Held::Cooldown { until_ms });
            }
        }
        if let Some((acts, per_ms)) = self.rule.budget {
            let recent = self.past.iter().filter(|past| now - past.at_ms < per_ms);
            let times: Vec<i64> = recent.map(|past| past.at_ms).collect();
            if times.len() >= acts as usize {
                let first = times[times.len() - acts as usize];
                return Some(Held::Budget { until_ms: first + per_ms });
            }
        }
        let asked = |one: &&Suggestion| one.labels == track.labels;
        self.suggestions.iter().find(asked).map(|_| Held::Asked)
    }

    fn proposed(&self, track: &Track, action: Action, early: bool, now: i64) -> Act {
        let rule = &self.rule;
        let target = target(&track.labels, &rule.subject, &rule.vocabulary);
        let limit = track.limit.map(|limit| format!(", the limit is {limit}")).unwrap_or_default();
        let verb = if early { "will not hold" } else { "does not hold" };
        let reason =
            format!("the policy {} {verb} for {target}: {}{limit}", rule.name, track.value);
        Act {
            at_ms: now,
            policy: rule.name.clone(),
            labels: track.labels.clone(),
            target,
            action,
            value: track.value,
            limit: track.limit,
            early,
            tries: track.tries,
            mode: rule.mode,
            reason,
        }
    }

    fn suggest(&mut self, act: &Act) {
        self.suggestions.push(Suggestion {
            id: format!("{:016x}", act.labels.hash64() ^ act.at_ms.unsigned_abs()),
            labels: act.labels.clone(),
            action: act.action,
            value: act.value,
            limit: act.limit,
            at_ms: act.at_ms,
            until_ms: act.at_ms.saturating_add(SUGGESTION_MS),
        });
    }

    /// Counts a step that is taken.
    fn note(&mut self, place: usize, act: &Act, out: &mut Stepped) {
        let track = &mut self.tracks[place];
        track.acted_ms = Some(act.at_ms);
        track.tries = track.tries.saturating_add(1);
        if track.tries >= TRIES_MAX && !track.gave_up && !act.early {
            track.gave_up = true;
            out.changes.push(track.change(ChangeKind::CannotBeMet, act.at_ms));
        }
        self.past.push(Past {
            at_ms: act.at_ms,
            labels: act.labels.clone(),
            action: act.action,
            outcome: Outcome::Open,
        });
        let room = match self.rule.budget {
            Some((acts, _)) => PAST_MAX.max(acts as usize),
            None => PAST_MAX,
        };
        let over = self.past.len().saturating_sub(room);
        self.past.drain(..over);
        self.done = self.rule.once;
    }

    /// What came of the steps so far: the violation ended, or the next step had to be taken.
    fn judge_past(&mut self, now: i64) {
        for number in 0..self.past.len() {
            let past = &self.past[number];
            if past.outcome != Outcome::Open {
                continue;
            }
            let again = self.past[number + 1..].iter().any(|next| next.labels == past.labels);
            let track = self.index.get(&past.labels).map(|place| &self.tracks[*place]);
            let ended = track.is_none_or(|track| track.phase == Phase::Enforced);
            let outcome = match (again, ended) {
                (true, _) => Outcome::InVain,
                (false, true) => Outcome::Ended { after_ms: now - past.at_ms },
                (false, false) => Outcome::Open,
            };
            self.past[number].outcome = outcome;
        }
    }

    /// A person accepts a suggestion: the step, or nothing when there is no such suggestion any more.
    pub fn accept(&mut self, id: &str, now: i64) -> Option<Act> {
        let number = self.suggestions.iter().position(|one| one.id == id && now < one.until_ms)?;
        let suggestion = self.suggestions.remove(number);
        let place = *self.index.get(&suggestion.labels)?;
        let mut act = self.proposed(&self.tracks[place], suggestion.action, false, now);
        act.mode = Mode::Enforce;
        act.reason = format!("a person accepted the suggestion of {}", act.reason);
        self.note(place, &act, &mut Stepped::default());
        Some(act)
    }

    /// A person wants none of it. It comes up again after the cooldown.
    pub fn dismiss(&mut self, id: &str, now: i64) -> bool {
        let Some(number) = self.suggestions.iter().position(|one| one.id == id) else {
            return false;
        };
        let suggestion = self.suggestions.remove(number);
        if let Some(place) = self.index.get(&suggestion.labels) {
            self.tracks[*place].acted_ms = Some(now);
            self.tracks[*place].tries = self.tracks[*place].tries.saturating_add(1);
        }
        true
    }
}
