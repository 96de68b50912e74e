//! What a policy must not forget over a restart: a few numbers for each subject.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tombolo_model::policy::Action;
use tombolo_series::Labels;

use super::{Machine, Phase, Track};

/// As JSON it stays below what a status may hold.
const REMEMBERED_MAX: usize = 256;

/// A step that was taken, and what came of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Past {
    pub at_ms: i64,
    pub labels: Labels,
    pub action: Action,
    pub outcome: Outcome,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Outcome {
    /// Not known yet.
    Open,
    /// The violation ended after so long.
    #[serde(rename_all = "camelCase")]
    Ended { after_ms: i64 },
    /// Another step had to be taken.
    InVain,
}

/// A step that a person is asked about.
#[derive(Clone, Debug, PartialEq)]
pub struct Suggestion {
    pub id: String,
    pub labels: Labels,
    pub action: Action,
    pub value: f64,
    pub limit: Option<f64>,
    pub at_ms: i64,
    /// From here on it is void.
    pub until_ms: i64,
}

/// The whole, as JSON.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Memory {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    last_ms: Option<i64>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    done: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    subjects: Vec<Subject>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    past: Vec<Step>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    suggestions: Vec<Asked>,
}

type Names = BTreeMap<String, String>;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Subject {
    labels: Names,
    phase: Phase,
    since_ms: i64,
    seen_ms: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    value: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    limit: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bad_ms: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    acted_ms: Option<i64>,
    #[serde(default)]
    tries: u32,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    gave_up: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Step {
    at_ms: i64,
    labels: Names,
    action: Action,
    outcome: Outcome,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Asked {
    id: String,
    labels: Names,
    action: Action,
    value: f64,
    limit: Option<f64>,
    at_ms: i64,
    until_ms: i64,
}

fn names(labels: &Labels) -> Names {
    labels.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

impl Memory {
    pub(super) fn of(machine: &Machine) -> Self {
        // The worst first, so that what falls off the end is what matters least.
        let mut tracks: Vec<&Track> = machine.tracks.iter().collect();
        tracks.sort_by(|a, b| (b.phase, &a.labels).cmp(&(a.phase, &b.labels)));
        let subjects = tracks.into_iter().take(REMEMBERED_MAX).map(|track| Subject {
            labels: names(&track.labels),
            phase: track.phase,
            since_ms: track.since_ms,
            seen_ms: track.seen_ms,
            value: Some(track.value).filter(|value| value.is_finite()),
            limit: track.limit.filter(|limit| limit.is_finite()),
            bad_ms: track.bad_ms,
            acted_ms: track.acted_ms,
            tries: track.tries,
            gave_up: track.gave_up,
        });
        let past = machine.past.iter().map(|past| Step {
            at_ms: past.at_ms,
            labels: names(&past.labels),
            action: past.action,
            outcome: past.outcome,
        });
        let suggestions = machine.suggestions.iter().take(REMEMBERED_MAX).map(|one| Asked {
            id: one.id.clone(),
            labels: names(&one.labels),
            action: one.action,
            value: one.value,
            limit: one.limit,
            at_ms: one.at_ms,
            until_ms: one.until_ms,
        });
        Self {
            last_ms: machine.last_ms,
            done: machine.done,
            subjects: subjects.collect(),
            past: past.collect(),
            suggestions: suggestions.collect(),
        }
    }

    pub(super) fn restore(self, machine: &mut Machine) {
        machine.last_ms = self.last_ms;
        machine.done = self.done;
        for one in self.subjects.into_iter().take(REMEMBERED_MAX) {
            let labels = Labels::new(one.labels);
            if machine.index.contains_key(&labels) {
                continue;
            }
            machine.index.insert(labels.clone(), machine.tracks.len());
            machine.tracks.push(Track {
                labels,
                phase: one.phase,
                since_ms: one.since_ms,
                seen_ms: one.seen_ms,
                value: one.value.unwrap_or(f64::NAN),
                limit: one.limit,
                level: None,
                bad_ms: one.bad_ms,
                acted_ms: one.acted_ms,
                tries: one.tries,
                gave_up: one.gave_up,
            });
        }
        machine.past = self
            .past
            .into_iter()
            .map(|past| Past {
                at_ms: past.at_ms,
                labels: Labels::new(past.labels),
                action: past.action,
                outcome: past.outcome,
            })
            .collect();
        machine.suggestions = self
            .suggestions
            .into_iter()
            .map(|one| Suggestion {
                id: one.id,
                labels: Labels::new(one.labels),
                action: one.action,
                value: one.value,
                limit: one.limit,
                at_ms: one.at_ms,
                until_ms: one.until_ms,
            })
            .collect();
    }
}
