//! The loop that watches Policies and does something about violations. What it decides is in
//! [`tombolo_policy::live`], and whether a step makes anything worse in [`tombolo_plan::rehearsal`]; here it asks what was
//! measured, writes and acts. Run by [`crate::harness`].
//!
//! The order is what a crash is survived by: a step is written into the status of its Policy first, and carried out
//! after that, by this look or by a later one of another process.

mod act;
mod decide;
mod tell;

use std::collections::BTreeMap;
use std::time::Duration;

use futures::stream::{self, StreamExt as _};
use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;

use tombolo_model::keys::{ANNOTATION_ACCEPT, ANNOTATION_DISMISS};
use tombolo_model::policy::{Policy, PolicyStatus};
use tombolo_plan::Monotonic;
use tombolo_plan::supervision::{Pace, Report};
use tombolo_policy::live::{Fleet, Key};

use crate::clock;
use crate::harness::{Context, Loop};
use crate::mirror::Source;
use crate::patch::guarded;
use crate::report::{Bounds, carry_out, failure};
use crate::world::World;

/// Who we are in managedFields and Events.
const FIELD_MANAGER: &str = "tombolo-policies";
const BOUNDS: Bounds = Bounds { actions_max: 1024, at_once: 16 };

pub(crate) struct Policies {
    context: Context,
    fleet: Fleet,
}

impl Loop for Policies {
    const NAME: &'static str = "policies";
    /// Whoever is due is looked at together with others; anything that changes wakes the loop, and must not take more
    /// than a tenth of a processor.
    const PACE: Pace = Pace {
        gap_min: Duration::from_millis(200),
        gap_factor: 9,
        look_every: Duration::from_secs(15),
        retry_after: Duration::from_secs(1),
    };

    fn reads(world: &World) -> Vec<&dyn Source> {
        world.observed_sources()
    }

    fn start(context: Context) -> Policies {
        Policies { context, fleet: Fleet::default() }
    }

    async fn look(&mut self, now: Monotonic) -> Result<Report, kube::Error> {
        let now_ms = clock::time_of_day().as_millisecond();
        let policies = self.context.world.policies.all();
        let mut report = self.carry(&policies).await;
        if policies.is_empty() {
            self.fleet = Fleet::default();
            return Ok(report);
        }
        let fleet = std::mem::take(&mut self.fleet);
        let decided = decide::decide(fleet, &self.context, policies.clone(), now, now_ms).await;
        self.fleet = decided.fleet;
        let written = self.write(now_ms).await;
        tell::told(&self.context, &decided.told).await;
        let acted = self.act(&policies, now_ms).await;
        // What was carried out is written down, so that nobody looks at it again.
        let closed = self.write(now_ms).await;
        let cleared = self.clear_answers(&policies).await;
        for other in [written, acted, closed, cleared] {
            report.done += other.done;
            report.failed.extend(other.failed);
            report.deferred += other.deferred;
        }
        let wait_ms = self.fleet.wake_ms().map(|at| (at - now_ms).max(0));
        let wait = wait_ms.map(|ms| Duration::from_millis(ms.unsigned_abs()));
        report.wake_at = wait.map(|wait| now + wait);
        Ok(report)
    }
}

impl Policies {
    /// Policies that Apps carry become objects.
    async fn carry(&self, policies: &[tombolo_model::Shared<Policy>]) -> Report {
        let apps = self.context.world.apps.all();
        let actions = tombolo_policy::live::of_apps(&apps, policies);
        let actions: Vec<act::Carry> = actions.into_iter().map(act::Carry).collect();
        carry_out(actions, BOUNDS, |action| act::carry(self.context.client.clone(), action)).await
    }

    /// Writes the statuses that say something new.
    async fn write(&mut self, now_ms: i64) -> Report {
        let current: BTreeMap<Key, Option<String>> = self
            .context
            .world
            .policies
            .all()
            .iter()
            .map(|policy| {
                let part = |part: &Option<String>| part.clone().unwrap_or_default();
                let metadata = &policy.metadata;
                let key = (part(&metadata.namespace), part(&metadata.name));
                (key, metadata.resource_version.clone())
            })
            .collect();
        let news = self.fleet.watches().filter_map(|(key, watch)| {
            let status = watch.status(now_ms)?;
            let seen = current.get(key)?.clone();
            Some((key.clone(), status, newer(seen, watch.version())))
        });
        let news: Vec<(Key, PolicyStatus, Option<String>)> = news.collect();
        let deferred = news.len().saturating_sub(BOUNDS.actions_max);
        let mut report = Report { deferred, ..Report::default() };
        let client = &self.context.client;
        let work =
            news.into_iter().take(BOUNDS.actions_max).map(|(key, status, version)| async move {
                let written = write_status(client, &key, &status, version).await;
                (key, status, written)
            });
        let mut work = std::pin::pin!(stream::iter(work).buffer_unordered(BOUNDS.at_once));
        while let Some((key, status, written)) = work.next().await {
            match written {
                Ok(version) => {
                    report.done += 1;
                    if let Some(watch) = self.fleet.get_mut(&key) {
                        watch.wrote(status, version, now_ms);
                    }
                }
                Err(kube::Error::Api(status)) if status.code == 404 => (),
                Err(error) => {
                    let what = format!("write the status of policy {}/{}", key.0, key.1);
                    report.failed.push(failure(&what, &error));
                }
            }
        }
        report
    }

    /// Carries out the steps that are written down.
    async fn act(&mut self, policies: &[tombolo_model::Shared<Policy>], now_ms: i64) -> Report {
        let open = self
            .fleet
            .watches()
            .flat_map(|(key, watch)| watch.durable().map(move |step| (key.clone(), step.clone())));
        let open: Vec<_> = open.take(BOUNDS.actions_max).collect();
        let mut report = Report::default();
        let context = &self.context;
        let work = open.into_iter().map(|(key, step)| async move {
            let acted = act::act(context, &key, &step, now_ms).await;
            (key, step, acted)
        });
        let work: Vec<_> = stream::iter(work).buffered(BOUNDS.at_once).collect().await;
        for (key, step, acted) in work {
            match acted {
                Ok(act::Acted::Still) => (),
                Ok(act::Acted::Over { state, message }) => {
                    report.done += 1;
                    let policy = policies.iter().find(|one| {
                        one.metadata.name.as_ref() == Some(&key.1)
                            && one.metadata.namespace.as_ref() == Some(&key.0)
                    });
                    let message = message.or_else(|| step.message.clone());
                    tell::acted(&self.context, &key, policy, (&step, state, message.as_deref()))
                        .await;
                    if let Some(watch) = self.fleet.get_mut(&key) {
                        watch.close(&step.id, state, message);
                    }
                }
                Err(error) => {
                    let what = format!("{} of {} for policy {}", step.action, step.subject, key.1);
                    report.failed.push(failure(&what, &error));
                }
            }
        }
        report
    }

    /// Answers of people that were heard are taken off.
    async fn clear_answers(&self, policies: &[tombolo_model::Shared<Policy>]) -> Report {
        let heard = policies.iter().filter(|policy| {
            let is_answered = tombolo_policy::live::Answered::of(policy).is_some();
            let key = |part: &Option<String>| part.clone().unwrap_or_default();
            let key = (key(&policy.metadata.namespace), key(&policy.metadata.name));
            let mut watches = self.fleet.watches();
            let is_written = watches.any(|(known, watch)| *known == key && watch.is_durable());
            is_answered && is_written
        });
        let keys = heard.filter_map(|policy| {
            Some(act::Cleared(policy.metadata.namespace.clone()?, policy.metadata.name.clone()?))
        });
        carry_out(keys.collect(), BOUNDS, |one| clear(self.context.client.clone(), one)).await
    }
}

async fn clear(client: Client, one: act::Cleared) -> Result<(), kube::Error> {
    let api: Api<Policy> = Api::namespaced(client, &one.0);
    let change = json!({"metadata": {"annotations":
        {ANNOTATION_ACCEPT: null, ANNOTATION_DISMISS: null}}});
    api.patch(&one.1, &as_ourselves(), &Patch::Merge(change)).await.map(drop)
}

async fn write_status(
    client: &Client,
    (namespace, name): &Key,
    status: &PolicyStatus,
    version: Option<String>,
) -> Result<Option<String>, kube::Error> {
    let api: Api<Policy> = Api::namespaced(client.clone(), namespace);
    let patch = guarded(version, "/status", json!(status))?;
    let written = api.patch_status(name, &as_ourselves(), &Patch::Json::<()>(patch)).await?;
    Ok(written.metadata.resource_version)
}

/// Our own last write may be newer than what the mirror has seen.
fn newer(seen: Option<String>, own: Option<String>) -> Option<String> {
    let number = |version: &Option<String>| version.as_ref()?.parse::<u64>().ok();
    if number(&own) > number(&seen) { own } else { seen }
}

fn as_ourselves() -> PatchParams {
    PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_last_write_counts_until_the_mirror_has_seen_it() {
        let of = |version: &str| Some(version.to_owned());
        assert_eq!(newer(of("9"), of("10")), of("10"));
        assert_eq!(newer(of("11"), of("10")), of("11"));
        assert_eq!(newer(of("9"), None), of("9"));
    }
}
