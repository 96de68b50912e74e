//! Those who behave: an admin and ten users, each at a pace, and what the server shows of itself meanwhile.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use bytes::Bytes;
use http::{Method, StatusCode};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

use super::attacks::Attacked;
use super::{ADMIN, MAPS, PHASE, World};
use crate::client::Client;
use crate::numbers::{percentile_ms, rounded};
use crate::wire::{Connection, Door};

/// Between two requests of a user: ten a second each, which a server does on the side.
const USER_PACE: Duration = Duration::from_millis(100);
const ADMIN_PACE: Duration = Duration::from_millis(50);
const MEMORY_PACE: Duration = Duration::from_millis(50);
const LEASE_PACE: Duration = Duration::from_millis(500);

const EVENTS: &str = "/api/v1/events";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/tombolo-system/leases";

/// What a phase has shown.
#[derive(Clone, Debug)]
pub(super) struct Measured {
    pub nodes_lost: usize,
    renewals: usize,
    pub admin_p50_ms: f64,
    pub admin_p99_ms: f64,
    /// Requests of the admin that got another answer than they should, or none.
    admin_failed: usize,
    others_done: usize,
    others_p99_ms: f64,
    others_refused: usize,
    others_failed: usize,
    memory_mb_most: u64,
    pub attack: Attacked,
}

/// A phase with an attack against the one without.
pub(super) struct Compared {
    /// Shares of what there was without an attack.
    pub heartbeats: f64,
    pub others_rate: f64,
    pub memory_growth_mb: u64,
}

impl Measured {
    pub(super) fn against(&self, undisturbed: &Measured) -> Compared {
        let share = |now: usize, before: usize| now as f64 / before.max(1) as f64;
        Compared {
            heartbeats: share(self.renewals, undisturbed.renewals),
            others_rate: share(self.others_done, undisturbed.others_done),
            memory_growth_mb: self.memory_mb_most.saturating_sub(undisturbed.memory_mb_most),
        }
    }

    /// Requests of those who behave that were not served.
    pub(super) fn turned_away(&self) -> usize {
        self.admin_failed + self.others_refused + self.others_failed
    }

    pub(super) fn to_json(&self, undisturbed: &Measured) -> Value {
        let compared = self.against(undisturbed);
        let Attacked { sent, answered, refused, without_retry_after, broken } = self.attack;
        json!({
            "nodes_lost": self.nodes_lost, "heartbeats": self.renewals,
            "heartbeats_kept": rounded(compared.heartbeats),
            "admin_p50_ms": self.admin_p50_ms, "admin_p99_ms": self.admin_p99_ms,
            "admin_failed": self.admin_failed,
            "others_per_s": rounded(self.others_done as f64 / PHASE.as_secs_f64()),
            "others_rate": rounded(compared.others_rate), "others_p99_ms": self.others_p99_ms,
            "others_refused": self.others_refused, "others_failed": self.others_failed,
            "memory_mb_most": self.memory_mb_most, "memory_growth_mb": compared.memory_growth_mb,
            "attack": {
                "sent": sent, "answered": answered, "refused": refused,
                "refused_without_retry_after": without_retry_after, "broken": broken,
            },
        })
    }
}

/// What clients have seen.
#[derive(Debug, Default)]
pub(super) struct Seen {
    times: Vec<Duration>,
    refused: usize,
    failed: usize,
}

impl Seen {
    fn add(&mut self, other: Seen) {
        self.times.extend(other.times);
        self.refused += other.refused;
        self.failed += other.failed;
    }
}

/// Everybody works for so long. The admin's times, and those of the users together.
pub(super) async fn work(world: &World, long: Duration) -> anyhow::Result<(Seen, Seen)> {
    let admin = tokio::spawn(client(world.door.clone(), ADMIN.to_owned(), ADMIN_PACE, long));
    let others: Vec<_> = world
        .others
        .iter()
        .enumerate()
        .map(|(number, token)| {
            let door = Door { token: token.clone(), ..world.door.clone() };
            tokio::spawn(client(door, format!("user-{number}"), USER_PACE, long))
        })
        .collect();
    let mut together = Seen::default();
    for other in others {
        together.add(other.await??);
    }
    Ok((admin.await??, together))
}

/// Reads and writes in turns, one request after the other, no faster than its pace. A connection that
/// fails is opened anew, as a real client would do.
async fn client(door: Door, map: String, pace: Duration, long: Duration) -> anyhow::Result<Seen> {
    let started = Instant::now();
    let mut seen = Seen::default();
    let mut tick = interval(pace);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut connection = None;
    let mut number = 0_u32;
    while started.elapsed() < long {
        tick.tick().await;
        number += 1;
        let asked = Instant::now();
        match ask(&door, &mut connection, &map, number).await {
            Ok(StatusCode::TOO_MANY_REQUESTS) => seen.refused += 1,
            Ok(status) if status.is_success() => seen.times.push(asked.elapsed()),
            Ok(_) | Err(_) => {
                seen.failed += 1;
                connection = None;
            }
        }
    }
    Ok(seen)
}

async fn ask(
    door: &Door,
    connection: &mut Option<Connection>,
    map: &str,
    number: u32,
) -> anyhow::Result<StatusCode> {
    if connection.is_none() {
        *connection = Some(Connection::open(door).await?);
    }
    let connection = connection.as_mut().context("it was opened")?;
    let path = format!("{MAPS}/{map}");
    let (status, body) = match number % 2 {
        0 => connection.begin(Method::GET, &path, Bytes::new()).await?,
        _ => {
            let patch = json!({"data": {"number": number.to_string()}});
            connection.begin(Method::PATCH, &path, Bytes::from(patch.to_string())).await?
        }
    };
    body.collect().await?;
    Ok(status)
}

/// What is looked at from outside while a phase lasts.
pub(super) struct Watched {
    lost_before: usize,
    samples: Arc<Mutex<Samples>>,
    tasks: JoinSet<anyhow::Result<()>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Samples {
    memory_mb_most: u64,
    renewals: usize,
}

impl Watched {
    pub(super) async fn begin(world: &World) -> anyhow::Result<Watched> {
        let samples = Arc::new(Mutex::new(Samples::default()));
        let mut tasks = JoinSet::new();
        tasks.spawn(sample_memory(world.clone(), samples.clone()));
        tasks.spawn(count_renewals(world.client.clone(), samples.clone()));
        Ok(Watched { lost_before: lost(&world.client).await?, samples, tasks })
    }

    /// What it has shown, together with what the clients have seen and the attack was told.
    pub(super) async fn end(
        mut self,
        world: &World,
        (mut admin, mut others): (Seen, Seen),
        attack: Attacked,
    ) -> anyhow::Result<Measured> {
        self.tasks.shutdown().await;
        let samples = *lock(&self.samples);
        let lost = lost(&world.client).await?.saturating_sub(self.lost_before);
        Ok(Measured {
            nodes_lost: lost,
            renewals: samples.renewals,
            admin_p50_ms: percentile_ms(&mut admin.times, 50),
            admin_p99_ms: percentile_ms(&mut admin.times, 99),
            admin_failed: admin.failed + admin.refused,
            others_done: others.times.len(),
            others_p99_ms: percentile_ms(&mut others.times, 99),
            others_refused: others.refused,
            others_failed: others.failed,
            memory_mb_most: samples.memory_mb_most,
            attack,
        })
    }
}

async fn sample_memory(world: World, samples: Arc<Mutex<Samples>>) -> anyhow::Result<()> {
    let mut tick = interval(MEMORY_PACE);
    loop {
        tick.tick().await;
        let now = world.resident()?.now;
        let mut samples = lock(&samples);
        samples.memory_mb_most = samples.memory_mb_most.max(now);
    }
}

/// Counts each Lease of a node that has another version than at the last look. Looks four times as often
/// as agents beat.
async fn count_renewals(client: Client, samples: Arc<Mutex<Samples>>) -> anyhow::Result<()> {
    let mut tick = interval(LEASE_PACE);
    let mut last = BTreeMap::new();
    loop {
        tick.tick().await;
        let Ok(leases) = client.get(LEASES).await else { continue };
        for lease in leases["items"].as_array().into_iter().flatten() {
            let metadata = &lease["metadata"];
            let name = metadata["name"].as_str().unwrap_or_default().to_owned();
            let version = metadata["resourceVersion"].clone();
            if name.starts_with("node-")
                && last.insert(name, version.clone()).is_some_and(|before| before != version)
            {
                lock(&samples).renewals += 1;
            }
        }
    }
}

/// How many Events say so far that a node was lost. An Event that is told again counts again.
async fn lost(client: &Client) -> anyhow::Result<usize> {
    let events = client.get(EVENTS).await?;
    let events = events["items"].as_array().cloned().unwrap_or_default();
    let is_loss = |event: &&Value| event["reason"] == "NodeNotReady";
    let counts = events.iter().filter(is_loss).map(|event| event["count"].as_u64().unwrap_or(1));
    Ok(usize::try_from(counts.sum::<u64>())?)
}

fn lock(samples: &Mutex<Samples>) -> MutexGuard<'_, Samples> {
    // A panic while the lock was held cannot leave a number half changed.
    samples.lock().unwrap_or_else(PoisonError::into_inner)
}
