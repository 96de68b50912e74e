//! What a deployment manager tells of a job or of what became of it, and how that changes the status
//! of the Assignment. Called by [`super::jobmanager`]; start at [`Told::read`].
//!
//! The bodies of the job manager differ between its versions: a job with its resource inside, a
//! resource alone, states as numbers or as words. All are taken.

use axum::http::StatusCode;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use serde_json::Value;
use tombolo_model::condition::{
    APPLIED, AVAILABLE, Condition, DEGRADED, Finding, PROGRESSING, find, put, set,
};
use tombolo_model::{Assignment, AssignmentStatus, ConditionStatus, Reason};

use super::claims;
use super::job::{State, Type, is_uuid};
use crate::refusal::Refusal;

/// More than ever came; each is text that we keep.
const CONDITIONS_MAX: usize = 32;
const REASON_CHARS_MAX: usize = 256;
const MESSAGE_CHARS_MAX: usize = 2048;
const KNOWN: [&str; 4] = [APPLIED, PROGRESSING, AVAILABLE, DEGRADED];
/// Beside the four, of something that was undeployed.
const DELETED: &str = "Deleted";

/// What was told.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Told {
    /// The job, if it is named at all.
    pub(crate) job: Option<String>,
    /// The teller's own number for what it has deployed.
    pub(crate) resource: Option<String>,
    pub(crate) owner: Option<String>,
    state: Option<State>,
    conditions: Vec<ToldCondition>,
}

#[derive(Clone, Debug, PartialEq)]
struct ToldCondition {
    kind: &'static str,
    status: ConditionStatus,
    reason: String,
    message: String,
    at: Option<Timestamp>,
}

impl Told {
    pub(crate) fn read(body: &[u8]) -> Result<Told, Refusal> {
        let wrong = |why: &str| Refusal::new(StatusCode::BAD_REQUEST, why);
        let body: Value = serde_json::from_slice(body)
            .map_err(|error| wrong(&format!("the body is not JSON: {error}")))?;
        if !body.is_object() {
            return Err(wrong("the body is neither a job nor a resource"));
        }
        // A job has its resource inside, and `id` is the job's; a resource names its job.
        let is_job = body["resource"].is_object();
        let resource = if is_job { &body["resource"] } else { &body };
        let text = |values: &[&Value]| {
            let found = values.iter().filter_map(|value| value.as_str());
            found.map(str::to_owned).find(|text| !text.is_empty())
        };
        let state = [&body["state"], &body["newstatus"], &body["status"]];
        let state = match state.into_iter().find(|value| !value.is_null()) {
            None => None,
            Some(value) => Some(State::read(value).ok_or_else(|| {
                wrong("state is none of 1 (Created), 2 (Progressing), 3 (Finished), 4 (Degraded)")
            })?),
        };
        let conditions = resource["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
        if conditions.len() > CONDITIONS_MAX {
            return Err(wrong(&format!("more than {CONDITIONS_MAX} conditions")));
        }
        Ok(Told {
            job: match is_job {
                true => text(&[&body["ID"], &body["id"], &resource["job_id"]]),
                false => text(&[&body["job_id"], &body["ID"], &body["id"]]),
            },
            resource: text(&[&resource["resource_uuid"]]).filter(|uuid| is_uuid(uuid)),
            owner: text(&[&body["owner_id"]]),
            state,
            conditions: conditions.iter().map(condition).collect::<Result<_, Refusal>>()?,
        })
    }

    /// Whether it says that nothing is left of what the job was to take down.
    pub(crate) fn is_gone(&self) -> bool {
        let deleted =
            |one: &ToldCondition| one.kind == DELETED && one.status == ConditionStatus::True;
        self.state == Some(State::Finished) || self.conditions.iter().any(deleted)
    }

    /// The status as it is with what was told. Whoever tells is alive, so that its claim lasts from
    /// now on.
    pub(crate) fn apply(&self, assignment: &Assignment, now: Timestamp) -> AssignmentStatus {
        let mut status = assignment.status.clone().unwrap_or_default();
        // What was promoted may not be the newest any more; the news then are a job of their own.
        let promoted = find(&status.conditions, PROGRESSING);
        let promoted = promoted.and_then(|condition| condition.observed_generation);
        let generation = promoted.or(assignment.metadata.generation);
        if Type::of(assignment) != Type::Delete {
            status.observed_generation = generation;
        }
        if status.agent.is_some() {
            status.held_until = Some(claims::held_until(now));
        }
        if let Some(resource) = &self.resource
            && assignment.metadata.uid.as_ref() != Some(resource)
        {
            status.instance = Some(resource.clone());
        }
        let under_way = Type::of(assignment).under_way();
        for (kind, so, reason, message) in self.of_state(under_way) {
            let finding =
                Finding { kind, status: so, reason, message, observed_generation: generation };
            set(&mut status.conditions, finding, &Time(now));
        }
        for told in self.conditions.iter().filter(|told| told.kind != DELETED) {
            let condition = Condition {
                kind: told.kind.to_owned(),
                status: told.status,
                reason: told.reason.clone(),
                message: told.message.clone(),
                last_transition_time: Time(told.at.unwrap_or(now)),
                observed_generation: generation,
            };
            put(&mut status.conditions, condition);
        }
        status
    }

    /// What a state means in conditions. What the resource says goes before it.
    fn of_state(
        &self,
        under_way: Reason,
    ) -> Vec<(&'static str, ConditionStatus, Reason, &'static str)> {
        use ConditionStatus::{False, True};
        match self.state {
            None | Some(State::Created) => Vec::new(),
            Some(State::Progressing) => vec![(PROGRESSING, True, under_way, "it is under way")],
            Some(State::Finished) => vec![
                (APPLIED, True, Reason::Deployed, "the deployment manager has handed it over"),
                (PROGRESSING, False, Reason::Deployed, "the job is finished"),
                (DEGRADED, False, Reason::Deployed, "the job is finished"),
            ],
            Some(State::Degraded) => vec![
                (PROGRESSING, False, Reason::JobDegraded, "the deployment manager has given up"),
                (
                    DEGRADED,
                    True,
                    Reason::JobDegraded,
                    "the deployment manager says that it has failed",
                ),
            ],
        }
    }
}

fn condition(value: &Value) -> Result<ToldCondition, Refusal> {
    let wrong = |why: String| Refusal::new(StatusCode::BAD_REQUEST, why);
    let text = |field: &str, chars_max: usize| {
        value[field].as_str().unwrap_or_default().chars().take(chars_max).collect::<String>()
    };
    let known = KNOWN.into_iter().chain([DELETED]);
    let kind = known.into_iter().find(|kind| value["type"].as_str() == Some(kind));
    let kind = kind.ok_or_else(|| {
        wrong(format!("a condition's type is one of {}, {DELETED}", KNOWN.join(", ")))
    })?;
    let status = match value["status"].as_str() {
        Some("True") => ConditionStatus::True,
        Some("False") => ConditionStatus::False,
        Some("Unknown") => ConditionStatus::Unknown,
        Some(_) | None => {
            return Err(wrong("a condition's status is True, False or Unknown".to_owned()));
        }
    };
    let at = value["lastTransitionTime"].as_str().and_then(|at| at.parse::<Timestamp>().ok());
    // To the second, as every time in a status.
    let at = at.and_then(|at| Timestamp::from_second(at.as_second()).ok());
    let reason = match text("reason", REASON_CHARS_MAX) {
        empty if empty.is_empty() => Reason::Told.word().to_owned(),
        reason => reason,
    };
    Ok(ToldCondition { kind, status, reason, message: text("message", MESSAGE_CHARS_MAX), at })
}

#[cfg(test)]
mod tests;
