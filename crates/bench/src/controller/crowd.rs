//! Those who talk to the server: [`Crew`] makes objects, many at once; [`Crowd`] plays the agents of
//! all nodes, which beat and bring up what is assigned to them, and sees how far the Apps are.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use futures::StreamExt as _;
use kube::core::WatchEvent;
use serde_json::Value;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;

use super::things::{self, APPS, ASSIGNMENTS, COMPONENTS, NODES, Request};
use crate::client::Client;
use crate::machine::is_true;
use crate::server::Server;
use crate::wire::{Connection, Door};

/// Connections of the crew, and as many again of the agents for what they say of instances.
const CONNECTIONS: usize = 32;
/// Connections that all heartbeats share.
const BEATING: usize = 8;
const BEAT_EVERY: Duration = Duration::from_secs(12);
/// A connection that has been silent for longer is not used again.
const SILENT_MAX: Duration = Duration::from_secs(3);
/// Statuses that wait to be written. More than are ever under way.
const WAITING_MAX: usize = 1 << 20;

/// Makes objects.
pub(super) struct Crew {
    door: Door,
}

impl Crew {
    pub(super) async fn open(door: &Door) -> anyhow::Result<Crew> {
        // Whether it is let in shows here, and not in a task.
        Connection::open(door).await?;
        Ok(Crew { door: door.clone() })
    }

    /// Asks all of it, in no order.
    pub(super) async fn ask_all(&self, requests: Vec<Request>) -> anyhow::Result<()> {
        let connections = requests.len().min(CONNECTIONS);
        let rest = Arc::new(Mutex::new(requests));
        let mut tasks = JoinSet::new();
        for _ in 0..connections {
            let (door, rest) = (self.door.clone(), Arc::clone(&rest));
            tasks.spawn(async move {
                let mut connection = Connection::open(&door).await?;
                let next = || rest.lock().unwrap_or_else(PoisonError::into_inner).pop();
                while let Some(one) = next() {
                    connection.ask(one.method, &one.path, one.body).await?;
                }
                anyhow::Ok(())
            });
        }
        while let Some(done) = tasks.join_next().await {
            done??;
        }
        Ok(())
    }
}

/// What the watches have shown.
#[derive(Debug, Default)]
pub(super) struct Seen {
    ready_nodes: BTreeSet<String>,
    apps: BTreeMap<String, AppSeen>,
    placed: usize,
    running: usize,
    failed: Option<String>,
}

#[derive(Debug, Default)]
struct AppSeen {
    has_places: bool,
    assignments: BTreeSet<String>,
    is_running: bool,
    is_counted: (bool, bool),
}

impl Seen {
    pub(super) fn ready_nodes(&self) -> usize {
        self.ready_nodes.len()
    }

    /// Apps that have their places, and with them all their Assignments.
    pub(super) fn placed(&self) -> usize {
        self.placed
    }

    /// Apps of which everything is known to be up.
    pub(super) fn running(&self) -> usize {
        self.running
    }

    fn change(&mut self, app: &str, change: impl FnOnce(&mut AppSeen)) {
        let known = self.apps.entry(app.to_owned()).or_default();
        change(known);
        let is = (known.has_places && known.assignments.len() >= COMPONENTS, known.is_running);
        let was = std::mem::replace(&mut known.is_counted, is);
        self.placed = self.placed + usize::from(is.0) - usize::from(was.0);
        self.running = self.running + usize::from(is.1) - usize::from(was.1);
    }
}

/// The agents of all nodes. They end with it.
pub(super) struct Crowd {
    seen: Arc<Mutex<Seen>>,
    changed: Arc<Notify>,
    /// Aborted when this is dropped.
    tasks: JoinSet<()>,
}

impl Crowd {
    pub(super) async fn start(server: &Server, nodes: usize) -> anyhow::Result<Crowd> {
        let (client, door) = (server.connect().await?, server.door()?);
        let mut crowd =
            Crowd { seen: Arc::default(), changed: Arc::default(), tasks: JoinSet::new() };
        for first in 0..BEATING {
            crowd.add(beat(door.clone(), (first..nodes).step_by(BEATING).collect()));
        }
        let (sender, receiver) = mpsc::channel(WAITING_MAX);
        let receiver = Arc::new(tokio::sync::Mutex::new(receiver));
        for _ in 0..CONNECTIONS {
            crowd.add(say(door.clone(), Arc::clone(&receiver)));
        }
        let watch = |path: &'static str, seen: fn(&mut Seen, &Value)| {
            let (client, sender) = (client.clone(), sender.clone());
            let (place, changed) = (Arc::clone(&crowd.seen), Arc::clone(&crowd.changed));
            async move { follow(&client, path, &sender, &place, &changed, seen).await }
        };
        let watches =
            [watch(NODES, saw_node), watch(APPS, saw_app), watch(ASSIGNMENTS, saw_assignment)];
        for watch in watches {
            crowd.add(watch);
        }
        Ok(crowd)
    }

    /// Runs until it ends or fails. What has failed is told to those who wait.
    fn add(&mut self, task: impl Future<Output = anyhow::Result<()>> + Send + 'static) {
        let (seen, changed) = (Arc::clone(&self.seen), Arc::clone(&self.changed));
        self.tasks.spawn(async move {
            if let Err(error) = task.await {
                let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
                seen.failed.get_or_insert(format!("{error:#}"));
                changed.notify_waiters();
            }
        });
    }

    /// Waits until it has seen so much.
    pub(super) async fn wait(
        &self,
        what: &str,
        most: Duration,
        enough: impl Fn(&Seen) -> bool,
    ) -> anyhow::Result<()> {
        let deadline = tokio::time::Instant::now() + most;
        loop {
            let changed = self.changed.notified();
            let mut changed = std::pin::pin!(changed);
            changed.as_mut().enable();
            let counts = {
                let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(failed) = &seen.failed {
                    bail!("the crowd has failed: {failed}");
                }
                if enough(&seen) {
                    return Ok(());
                }
                (seen.ready_nodes(), seen.placed(), seen.running())
            };
            if tokio::time::timeout_at(deadline, changed).await.is_err() {
                let (nodes, placed, running) = counts;
                bail!(
                    "waited {most:?} for {what}; {nodes} nodes are ready, {placed} Apps placed, \
                     {running} up"
                );
            }
        }
    }
}

/// The heartbeats of some nodes, spread over the time between two of one node.
async fn beat(door: Door, nodes: Vec<usize>) -> anyhow::Result<()> {
    let mut connection = Connection::open(&door).await?;
    let pause = BEAT_EVERY / u32::try_from(nodes.len().max(1))?;
    let mut tick = tokio::time::interval(pause);
    let started = Instant::now();
    loop {
        for node in &nodes {
            tick.tick().await;
            let beat = things::beat(*node, started.elapsed().as_secs());
            connection.ask(beat.method, &beat.path, beat.body).await?;
        }
    }
}

/// Writes what agents say of instances.
async fn say(
    door: Door,
    waiting: Arc<tokio::sync::Mutex<mpsc::Receiver<Request>>>,
) -> anyhow::Result<()> {
    let mut connection = Connection::open(&door).await?;
    let mut used = Instant::now();
    loop {
        let next = waiting.lock().await.recv().await;
        let Some(one) = next else { return Ok(()) };
        // The server may close it at any moment from then on.
        if used.elapsed() > SILENT_MAX || connection.is_closed() {
            connection = Connection::open(&door).await?;
        }
        connection.ask(one.method, &one.path, one.body).await?;
        used = Instant::now();
    }
}

async fn follow(
    client: &Client,
    path: &str,
    agents: &mpsc::Sender<Request>,
    seen: &Mutex<Seen>,
    changed: &Notify,
    see: fn(&mut Seen, &Value),
) -> anyhow::Result<()> {
    let events = client.watch(&format!("{path}?watch=true&resourceVersion=0")).await?;
    let mut events = std::pin::pin!(events);
    while let Some(event) = events.next().await {
        match event? {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                if let Some(word) = word_of_agent(&object) {
                    agents.send(word).await.context("the agents have ended")?;
                }
                see(&mut seen.lock().unwrap_or_else(PoisonError::into_inner), &object);
                changed.notify_waiters();
            }
            WatchEvent::Error(status) => {
                bail!("the watch of {path} has failed: {}", status.message)
            }
            WatchEvent::Deleted(_) | WatchEvent::Bookmark(_) => (),
        }
    }
    bail!("the watch of {path} has ended")
}

/// An agent brings up what is new at once, and takes down what goes.
fn word_of_agent(object: &Value) -> Option<Request> {
    if object["kind"] != "Assignment" {
        return None;
    }
    if object["metadata"]["deletionTimestamp"].is_string() {
        return Some(things::let_go(object));
    }
    let is_told = object["status"]["observedGeneration"] == object["metadata"]["generation"];
    (!is_told).then(|| things::up(object))
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

fn saw_node(seen: &mut Seen, node: &Value) {
    match is_true(node, "Ready") {
        true => seen.ready_nodes.insert(name(node).to_owned()),
        false => seen.ready_nodes.remove(name(node)),
    };
}

fn saw_app(seen: &mut Seen, app: &Value) {
    let (has_places, is_running) = (is_true(app, "Placed"), app["status"]["phase"] == "Running");
    seen.change(name(app), |known| {
        known.has_places = has_places;
        known.is_running = is_running;
    });
}

fn saw_assignment(seen: &mut Seen, assignment: &Value) {
    let app = assignment["spec"]["app"].as_str().unwrap_or_default();
    seen.change(app, |known| {
        known.assignments.insert(name(assignment).to_owned());
    });
}
