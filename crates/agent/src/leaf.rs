//! Measures the machine and what runs on it, and sends that to the server. Started by [`crate::work`]; start at
//! [`keep`]. What is measured under which name, and when it is sent, is in `tombolo_leaf`.
//!
//! Two halves: the one reads, gathers and puts messages into the [`Outbox`]; the other takes the oldest from
//! there and sends it. Other parts of the agent give their samples to the [`Sink`].

mod outbox;
mod reader;
mod sender;
mod sink;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use tokio::sync::watch;
use tombolo_driver::{Driver, Instance, State};
use tombolo_host::Root;
use tombolo_identity::Remit;
use tombolo_leaf::facts::Facts;
use tombolo_leaf::machine::Whose;
use tombolo_leaf::power::{Model, Source};
use tombolo_leaf::workload::{self, Status, Workload};
use tombolo_leaf::{Gathering, METRICS, Measured, Pace};
use tombolo_telemetry::wire::remote_write::{Version, encode};
use tombolo_telemetry::wire::{Metadata, MetricKind, Series};

use crate::clock::{self, Clock};
use crate::connection::Connection;
use crate::converge::Drivers;
use crate::credentials::Folder;
use crate::node::{self, Subject};
use crate::offer::{Offer, SAID};

use outbox::{Message, Outbox};
use reader::Reader;
use sender::Told;

pub use sink::Sink;
pub(crate) use tombolo_leaf::facts;

/// An engine that does not answer is left out of a reading.
const ENGINE_TIMEOUT: Duration = Duration::from_secs(5);
/// The server is asked what people have written of the machine, which takes a moment.
const FACTS_TIMEOUT: Duration = Duration::from_secs(5);
/// A message with more series is cut in two. On a link of 10 kbit/s one takes seven seconds, and the
/// heartbeat behind it waits no longer than that.
const MESSAGE_BYTES_MAX: usize = 8 << 10;
/// What metrics mean goes out with the first message and with each of this number: a server that has lost
/// its folder learns it again.
const MEANINGS_EVERY: u64 = 360;

/// How the agent measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    pub pace: Pace,
    /// What may wait on the disk while the server is away.
    pub buffer_bytes: u64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            pace: Pace {
                read_every: Duration::from_secs(15),
                send_every: Duration::from_secs(60),
                bytes_per_second: 8 << 10,
            },
            buffer_bytes: 64 << 20,
        }
    }
}

/// What is known of the machine, once it was looked at.
pub(crate) type Known = Option<Arc<Facts>>;

/// Which App an Assignment belongs to, both by uid.
pub(crate) type Owners = Arc<BTreeMap<String, String>>;

#[derive(Clone, Debug)]
pub(crate) struct Desk {
    pub(crate) settings: Settings,
    pub(crate) remit: Remit,
    pub(crate) connection: Connection,
    pub(crate) clock: Clock,
    pub(crate) folder: Arc<Folder>,
    pub(crate) drivers: Drivers,
    /// The machine that is measured; an agent of a site measures none.
    pub(crate) subject: Option<Subject>,
    pub(crate) sink: Sink,
    pub(crate) known: watch::Receiver<Known>,
    pub(crate) owners: watch::Receiver<Owners>,
}

/// Measures and sends for ever.
pub(crate) async fn keep(desk: Desk) {
    let outbox = Outbox::open(desk.folder.path(), desk.settings.buffer_bytes).await;
    let told = Told::default();
    let reading = Leaf::new(&desk, &outbox, &told);
    let sending = sender::send_on(&desk, &outbox, &told);
    tokio::join!(reading.read_on(), sending);
}

struct Leaf<'a> {
    desk: &'a Desk,
    outbox: &'a Outbox,
    told: &'a Told,
    gathering: Gathering,
    reader: Option<Reader>,
    /// What the machine is, where nobody could ask the server what people have written of it.
    own: Known,
    messages: u64,
}

impl<'a> Leaf<'a> {
    fn new(desk: &'a Desk, outbox: &'a Outbox, told: &'a Told) -> Leaf<'a> {
        let machine = desk.folder.path().display().to_string();
        let reader = desk.subject.as_ref().map(|_| Reader::new(Root::real(), machine));
        let gathering = Gathering::default();
        Leaf { desk, outbox, told, gathering, reader, own: None, messages: 0 }
    }

    async fn read_on(mut self) {
        let (clock, pace) = (self.desk.clock, self.desk.settings.pace);
        self.until_known().await;
        let mut read_at = clock.now();
        let mut send_at = read_at;
        loop {
            clock.sleep_until(read_at).await;
            let is_last = clock.now() >= send_at;
            self.read().await;
            if is_last {
                self.add_what_changes_seldom();
                self.send().await;
                let pause = match self.messages {
                    1 => pace.second_after(sender::chance()),
                    _ => pace.send_every,
                };
                send_at = (send_at + pause).max(clock.now());
            }
            // After a sleep of the machine nobody reads the time that was slept through.
            read_at = (read_at + pace.read_every).max(clock.now());
        }
    }

    /// Waits until the machine was looked at: without its id samples would have other labels than with it.
    async fn until_known(&mut self) {
        let Some(subject) = &self.desk.subject else { return };
        let mut known = self.desk.known.clone();
        let told = known.wait_for(Option::is_some);
        if tokio::time::timeout(FACTS_TIMEOUT, told).await.is_ok() {
            return;
        }
        match node::facts(subject).await {
            Ok(facts) => self.own = Some(Arc::new(facts)),
            Err(problem) => tracing::warn!(problem, "nobody could look at the machine"),
        }
    }

    fn facts(&self) -> Known {
        self.desk.known.borrow().clone().or_else(|| self.own.clone())
    }

    /// The names of the node and of the machine.
    fn whose(&self) -> (String, String) {
        let host = self.facts().and_then(|facts| facts.characteristics.uuid.clone());
        (self.desk.remit.name().to_owned(), host.unwrap_or_default())
    }

    async fn read(&mut self) {
        let at_ms = clock::time_of_day().as_millisecond();
        let (node, host) = self.whose();
        if let Some(mut reader) = self.reader.take() {
            let model = self.facts().and_then(|facts| model(&facts));
            let now = self.desk.clock.now();
            let read = tokio::task::spawn_blocking(move || {
                let (texts, power) = reader.read(model, now);
                (reader, texts, power)
            });
            let (reader, texts, power) = match read.await {
                Ok(read) => read,
                // The task that keeps this one alive deals with it.
                Err(error) => std::panic::resume_unwind(error.into_panic()),
            };
            self.reader = Some(reader);
            let whose = Whose { node: &node, host: &host };
            let found = tombolo_leaf::machine::samples(&texts, power.as_ref(), whose, at_ms);
            self.gathering.see("machine", at_ms, found);
        }
        let owners = self.desk.owners.borrow().clone();
        let workloads = workloads(&self.desk.drivers, &owners).await;
        self.gathering.see("workloads", at_ms, workload::samples(&workloads, &host, at_ms));
        for measured in self.desk.sink.take() {
            self.gathering.push(measured);
        }
    }

    fn add_what_changes_seldom(&mut self) {
        let at_ms = clock::time_of_day().as_millisecond();
        let (node, host) = self.whose();
        let whose = Whose { node: &node, host: &host };
        if let Some(facts) = self.facts() {
            self.gathering.see("facts", at_ms, facts::samples(&facts, whose, at_ms));
        }
        let own = |name: &str, labels: &[(&str, &str)], value: u64| {
            let of_all = [("instance", node.as_str())];
            let labels: Vec<_> = of_all.iter().chain(labels).copied().collect();
            #[expect(clippy::cast_precision_loss, reason = "a sample is a float")]
            Measured::new(at_ms, name, &labels, value as f64)
        };
        let state = self.outbox.state();
        let dropped = |why| [("why", why)];
        let found = vec![
            own("tombolo_leaf_samples_total", &[], self.gathering.taken()),
            own("tombolo_leaf_sent_bytes_total", &[], self.told.sent_bytes()),
            own("tombolo_leaf_send_failures_total", &[], self.told.failures()),
            own("tombolo_leaf_refused_samples_total", &[], self.told.refused()),
            own("tombolo_leaf_dropped_samples_total", &dropped("buffer"), state.dropped),
            own(
                "tombolo_leaf_dropped_samples_total",
                &dropped("gathering"),
                self.gathering.dropped(),
            ),
            own("tombolo_leaf_dropped_samples_total", &dropped("pushed"), self.desk.sink.dropped()),
            own("tombolo_leaf_buffered_samples", &[], state.samples),
            own("tombolo_leaf_buffered_bytes", &[], state.bytes),
            own("tombolo_leaf_bytes_per_second_max", &[], self.desk.settings.pace.bytes_per_second),
        ];
        self.gathering.see("leaf", at_ms, found);
    }

    /// Puts what was gathered into the outbox.
    async fn send(&mut self) {
        let taken = self.gathering.take();
        let series: Vec<Series> =
            taken.into_iter().map(|(labels, samples)| Series { labels, samples }).collect();
        if series.is_empty() {
            return;
        }
        let meanings = match self.messages % MEANINGS_EVERY {
            0 => meanings(),
            _ => Vec::new(),
        };
        self.messages += 1;
        let mut messages = Vec::new();
        pack(&series, &meanings, &mut messages);
        self.outbox.put(messages).await;
    }
}

/// Messages of bounded length, in the order of the series.
fn pack(series: &[Series], meanings: &[Metadata], messages: &mut Vec<Message>) {
    // Meanings are told once: the part that has a metric first has its meaning too.
    let body = encode(Version::V2, series, meanings);
    if body.len() > MESSAGE_BYTES_MAX && series.len() > 1 {
        let (first, second) = series.split_at(series.len() / 2);
        pack(first, meanings, messages);
        pack(second, meanings, messages);
        return;
    }
    let samples = series.iter().map(|one| one.samples.len() as u64).sum();
    messages.push(Message { body: body.into(), samples });
}

fn meanings() -> Vec<Metadata> {
    let meaning = |metric: &tombolo_leaf::Metric| Metadata {
        metric: metric.name.to_owned(),
        kind: match metric.kind {
            tombolo_leaf::Kind::Counter => MetricKind::Counter,
            tombolo_leaf::Kind::Gauge => MetricKind::Gauge,
            tombolo_leaf::Kind::Info => MetricKind::Info,
        },
        help: metric.help.to_owned(),
        unit: metric.unit.to_owned(),
    };
    METRICS.iter().map(meaning).collect()
}

/// What the model of power knows of this machine.
fn model(facts: &Facts) -> Option<Model> {
    let (idle_watts, busy_watts) = facts.energy.idle_watts.zip(facts.energy.busy_watts)?;
    let source = match facts.energy.source.as_deref() {
        Some(SAID) => Source::Said,
        Some(_) | None => Source::Model,
    };
    Some(Model { idle_watts, busy_watts, source })
}

async fn workloads(drivers: &Drivers, owners: &Owners) -> Vec<Workload> {
    let asked = drivers.values().map(|driver| async {
        let found = tokio::time::timeout(ENGINE_TIMEOUT, of_engine(driver.as_ref(), owners)).await;
        found.unwrap_or_default()
    });
    join_all(asked).await.into_iter().flatten().collect()
}

/// Nothing of an engine that cannot be asked: others say so.
async fn of_engine(driver: &dyn Driver, owners: &Owners) -> Vec<Workload> {
    let Ok(instances) = driver.list().await else { return Vec::new() };
    if instances.is_empty() {
        return Vec::new();
    }
    let used: BTreeMap<_, _> = driver.usage().await.unwrap_or_default().into_iter().collect();
    let engine = driver.engine();
    let told = |instance: Instance| {
        let usage = used.get(&instance.id).map(|used| workload::Usage {
            cpu_micros: used.cpu_micros,
            memory_bytes: used.memory_bytes,
            processes: used.processes,
            received_bytes: used.received_bytes,
            sent_bytes: used.sent_bytes,
        });
        let (status, since) = match &instance.state {
            State::Starting { .. } => (Status::Pending, None),
            State::Running(running) | State::Stopping(running) => {
                (Status::Running, Some(running.since))
            }
            State::Exited(exit) if exit.code == Some(0) => (Status::Exited, None),
            State::Exited(_) | State::Failed(_) => (Status::Failed, None),
        };
        let since = since.and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok());
        Workload {
            id: instance.id.to_string(),
            engine: engine.as_str().to_owned(),
            namespace: instance.origin.namespace,
            app: instance.origin.app,
            component: instance.origin.component,
            instance: instance.origin.assignment,
            app_id: owners.get(instance.id.assignment()).cloned(),
            status,
            started_at: since.map(|since| since.as_secs_f64()),
            restarts: instance.restarts,
            usage,
        }
    };
    instances.into_iter().map(told).collect()
}

impl Settings {
    /// As the operator has said; nothing if nothing is to be measured.
    pub(crate) fn of(offer: &Offer) -> Option<Settings> {
        let usual = Settings::default();
        let time = |ms: Option<u64>, usual| ms.map_or(usual, Duration::from_millis);
        let metrics = &offer.metrics;
        let wanted = Settings {
            pace: Pace {
                read_every: time(metrics.every_ms, usual.pace.read_every),
                send_every: time(metrics.send_every_ms, usual.pace.send_every),
                bytes_per_second: metrics
                    .bytes_per_second
                    .map_or(usual.pace.bytes_per_second, tombolo_model::Bytes::get),
            },
            buffer_bytes: metrics.buffer.map_or(usual.buffer_bytes, tombolo_model::Bytes::get),
        };
        metrics.on.unwrap_or(true).then_some(wanted)
    }
}

#[cfg(test)]
mod tests;
