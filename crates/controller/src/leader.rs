//! One of several controllers runs the loops, the others stand by. What is decided is in
//! [`tombolo_plan::leader`]; here the Lease is read and written. Called by `tombolo controller`, which
//! may be there several times over one cluster; `tombolo up` is alone with its store and needs no
//! leader. Start at [`lead`].

use std::future::Future;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::{Api, PostParams};
use kube::{Client, ResourceExt};

use tombolo_model::keys::SYSTEM_NAMESPACE;
use tombolo_plan::Monotonic;
use tombolo_plan::leader::{Decision, LASTS, Memory, RENEW_EVERY, STOP_AFTER, Seen, decide};

use crate::clock::{self, Clock};

/// The Lease that all controllers of a cluster look at.
pub const LEASE: &str = "tombolo-leader";
/// Longer than this, and the next renewal is due.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3);

/// Runs `work` whenever this one leads, and drops it when it does not any more. Comes back when
/// `shutdown` is ready, or when `work` ends by itself; then the Lease is given up at once.
pub async fn lead<W, F>(client: Client, me: &str, shutdown: impl Future<Output = ()>, work: W)
where
    W: Fn() -> F,
    F: Future<Output = ()>,
{
    let clock = Clock::start();
    let mut candidate = Candidate { client, me, memory: Memory::default(), clock };
    let mut shutdown = std::pin::pin!(shutdown);
    loop {
        tokio::select! {
            () = &mut shutdown => return,
            () = candidate.until_chosen() => (),
        }
        tracing::info!(me, "this controller leads");
        let ended = tokio::select! {
            () = &mut shutdown => true,
            () = work() => true,
            () = candidate.until_lost() => false,
        };
        if ended {
            candidate.give_up().await;
            return;
        }
        tracing::warn!(me, "this controller leads no longer");
    }
}

struct Candidate<'a> {
    client: Client,
    me: &'a str,
    memory: Memory,
    clock: Clock,
}

impl Candidate<'_> {
    async fn until_chosen(&mut self) {
        loop {
            let again = match self.step().await {
                Ok(Step::Written) => return,
                Ok(Step::Waits(until)) => until,
                Err(error) => {
                    tracing::warn!(%error, "cannot stand for leader");
                    self.clock.now() + RENEW_EVERY
                }
            };
            self.clock.sleep_until(again).await;
        }
    }

    /// Renews for as long as that is possible.
    async fn until_lost(&mut self) {
        let mut wrote_at = self.clock.now();
        loop {
            let next = (self.clock.now() + RENEW_EVERY).min(wrote_at + STOP_AFTER);
            self.clock.sleep_until(next).await;
            let began = self.clock.now();
            let asked = tokio::time::timeout(ANSWER_TIMEOUT, self.step()).await;
            match asked {
                // Counted from before it was sent: the API may have had it for as long.
                Ok(Ok(Step::Written)) => wrote_at = began,
                Ok(Ok(Step::Waits(_))) => return,
                Ok(Err(error)) => tracing::warn!(%error, "cannot renew the leadership"),
                Err(_late) => tracing::warn!("cannot renew the leadership in time"),
            }
            if self.clock.now().since(wrote_at) >= STOP_AFTER {
                return;
            }
        }
    }

    /// Looks at the Lease and writes it, if it is ours to write.
    async fn step(&mut self) -> Result<Step, kube::Error> {
        let api: Api<Lease> = Api::namespaced(self.client.clone(), SYSTEM_NAMESPACE);
        let known = api.get_opt(LEASE).await?;
        let seen = known.as_ref().map(seen);
        let now = self.clock.now();
        let params = PostParams::default();
        let written = match decide(seen.as_ref(), self.me, &mut self.memory, now) {
            Decision::Create => api.create(&params, &self.lease(None)).await,
            // With its version: if two controllers take the Lease at once, only one write succeeds.
            Decision::Take { .. } => api.replace(LEASE, &params, &self.lease(known)).await,
            Decision::Wait { until, .. } => return Ok(Step::Waits(until)),
        };
        match written {
            Ok(_) => Ok(Step::Written),
            // A cluster that has never had a controller of ours.
            Err(kube::Error::Api(status)) if status.code == 404 => {
                self.make_namespace().await?;
                Ok(Step::Waits(now))
            }
            Err(kube::Error::Api(status)) if status.code == 409 => {
                Ok(Step::Waits(now + RENEW_EVERY))
            }
            Err(error) => Err(error),
        }
    }

    async fn make_namespace(&self) -> Result<(), kube::Error> {
        let metadata =
            ObjectMeta { name: Some(SYSTEM_NAMESPACE.to_owned()), ..ObjectMeta::default() };
        let namespace = Namespace { metadata, ..Namespace::default() };
        let api: Api<Namespace> = Api::all(self.client.clone());
        match api.create(&PostParams::default(), &namespace).await {
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
            answer => answer.map(drop),
        }
    }

    fn lease(&self, known: Option<Lease>) -> Lease {
        let before = known.as_ref().and_then(|lease| lease.spec.clone()).unwrap_or_default();
        let fresh = before.holder_identity.as_deref() != Some(self.me);
        let turns = before.lease_transitions.unwrap_or(0);
        let now = MicroTime(clock::time_of_day());
        let metadata = known.map(|lease| lease.metadata).unwrap_or_else(|| ObjectMeta {
            name: Some(LEASE.to_owned()),
            ..ObjectMeta::default()
        });
        Lease {
            metadata: ObjectMeta { managed_fields: None, ..metadata },
            spec: Some(LeaseSpec {
                holder_identity: Some(self.me.to_owned()),
                lease_duration_seconds: i32::try_from(LASTS.as_secs()).ok(),
                renew_time: Some(now.clone()),
                acquire_time: if fresh { Some(now) } else { before.acquire_time },
                lease_transitions: Some(turns.saturating_add(i32::from(fresh))),
                ..LeaseSpec::default()
            }),
        }
    }

    /// So that the next need not wait. If nobody hears it, the Lease runs out by itself.
    async fn give_up(&mut self) {
        let api: Api<Lease> = Api::namespaced(self.client.clone(), SYSTEM_NAMESPACE);
        let given = async {
            let Some(mut lease) = api.get_opt(LEASE).await? else { return Ok(()) };
            let spec = lease.spec.get_or_insert_default();
            if spec.holder_identity.as_deref() != Some(self.me) {
                return Ok(());
            }
            spec.holder_identity = None;
            api.replace(LEASE, &PostParams::default(), &lease).await.map(drop)
        };
        let given: Result<Result<(), kube::Error>, _> =
            tokio::time::timeout(ANSWER_TIMEOUT, given).await;
        if !matches!(given, Ok(Ok(()))) {
            tracing::info!("the leadership could not be given up; it runs out by itself");
        }
    }
}

enum Step {
    Written,
    Waits(Monotonic),
}

fn seen(lease: &Lease) -> Seen {
    let holder = lease.spec.as_ref().and_then(|spec| spec.holder_identity.clone());
    Seen {
        holder: holder.filter(|holder| !holder.is_empty()),
        version: lease.resource_version().unwrap_or_default(),
    }
}
