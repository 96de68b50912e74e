//! Tells people how the loops of this process fare: an Event when one is late, and the condition
//! `LoopsWell` of the namespace tombolo-system. Run by [`crate::run`], under the same supervision as the
//! loops, since what watches over others can die as well.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Namespace, NamespaceCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{Api, Patch, PatchParams};
use kube::{Client, ResourceExt as _};
use serde_json::json;

use tombolo_model::condition::LOOPS_WELL;
use tombolo_model::event::Tone;
use tombolo_model::keys::SYSTEM_NAMESPACE;
use tombolo_model::{ConditionStatus, Reason};
use tombolo_plan::supervision::{State, Turn, Verdict, turn, verdict};

use crate::board::Board;
use crate::clock;
use crate::harness::{BeforeLook, TELL_TIME_MAX, tell};
use crate::patch::guarded;

pub(crate) const NAME: &str = "oversight";

/// Who we are in managedFields.
const FIELD_MANAGER: &str = "tombolo-harness";
/// A loop is late after three times as long.
const WATCH_EVERY: Duration = Duration::from_secs(10);
/// A person reads this much; more may be a hostile text in a panic.
const MESSAGE_CHARS_MAX: usize = 1024;

/// Looks at the board now and then, and at once when a loop has died; never ends.
pub(crate) async fn watch_over(board: &Board, client: &Client, before_look: &BeforeLook) {
    let clock = board.clock();
    let mut before: BTreeMap<&'static str, State> = BTreeMap::new();
    let mut told: Option<Verdict> = None;
    loop {
        before_look(NAME);
        for (name, state) in board.states() {
            let (tone, reason) = match turn(before.insert(name, state), state) {
                Some(Turn::Late) => (Tone::Warning, Reason::LoopLate),
                Some(Turn::OnTime) => (Tone::Normal, Reason::LoopOnTime),
                None => continue,
            };
            tracing::warn!(name, %reason, "a loop has become late, or is late no longer");
            tell(board, client, (tone, reason), name, String::new()).await;
        }
        let verdict = verdict(&board.records(), clock.now());
        if told.as_ref() != Some(&verdict) {
            let written = tokio::time::timeout(TELL_TIME_MAX, write(client, &verdict)).await;
            // Not written is tried again with the next look at the board.
            match written {
                Ok(Ok(())) => told = Some(verdict),
                Ok(Err(error)) => tracing::warn!(%error, "cannot say how the loops fare"),
                Err(late) => tracing::warn!(%late, "cannot say how the loops fare"),
            }
        }
        tokio::select! {
            () = clock.sleep_until(clock.now() + WATCH_EVERY) => (),
            () = board.death() => (),
        }
    }
}

/// Puts the verdict among the conditions of the namespace, and leaves those of others as they are.
async fn write(client: &Client, verdict: &Verdict) -> Result<(), kube::Error> {
    let api: Api<Namespace> = Api::all(client.clone());
    let live = api.get(SYSTEM_NAMESPACE).await?;
    let version = live.resource_version();
    let known = live.status.and_then(|status| status.conditions).unwrap_or_default();
    let (before, mut conditions): (Vec<_>, Vec<_>) =
        known.into_iter().partition(|condition| condition.type_ == LOOPS_WELL);
    conditions.push(condition(verdict, before.first()));
    let patch = guarded(version, "/status/conditions", json!(conditions))?;
    let params =
        PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
    api.patch_status(SYSTEM_NAMESPACE, &params, &Patch::Json::<()>(patch)).await.map(drop)
}

fn condition(verdict: &Verdict, before: Option<&NamespaceCondition>) -> NamespaceCondition {
    let status = if verdict.well { ConditionStatus::True } else { ConditionStatus::False };
    let status = status.as_str().to_owned();
    let since = before.filter(|before| before.status == status);
    let since = since.and_then(|before| before.last_transition_time.clone());
    NamespaceCondition {
        type_: LOOPS_WELL.to_owned(),
        status,
        reason: Some(verdict.reason.word().to_owned()),
        message: Some(verdict.message.chars().take(MESSAGE_CHARS_MAX).collect()),
        last_transition_time: since.or_else(|| Some(Time(clock::time_of_day()))),
    }
}
