//! Where everything runs: places for Apps, and the Assignments that carry them out. Called by
//! `tombolo_controller::placing`; start reading at [`plan`].
//!
//! The decision about an App is one write, that of its status: the placements in it name the
//! Assignments that shall exist. All else completes what the status says, so that a process that
//! dies in between leaves nothing half decided: the next look goes on where it stopped.

mod cause;
mod current;
mod doubt;
mod materialise;
mod offer;
mod peers;
mod quiet;
mod release;
mod remembered;
mod rule;
mod status;
mod strikes;
mod struck;
mod verdict;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use tombolo_model::condition::{self, Condition, PLACED};
use tombolo_model::{
    App, AppId, AppStatus, Assignment, AssignmentSpec, Link, Node, Reason, Shared, Site,
};
use tombolo_placement::select::Limits;
use tombolo_placement::{Continuum, Options, Running};

use crate::Monotonic;

use current::View;
use verdict::Verdict;

pub use materialise::assignment_name;
pub use offer::{Offer, offers};
pub use rule::REPLACE_AFTER_DEFAULT;
pub use struck::{Struck, struck};

/// Events about one decision; the status has the rest.
const NEWS_MAX: usize = 8;

/// Everything that is looked at. The objects are shared with the mirrors that keep them current.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    pub apps: Vec<Shared<App>>,
    pub assignments: Vec<Shared<Assignment>>,
    pub sites: Vec<Shared<Site>>,
    pub nodes: Vec<Shared<Node>>,
    pub links: Vec<Shared<Link>>,
    /// Who was found in violation of a policy where, as the statuses of Policies say.
    pub struck: Vec<Struck>,
}

impl Observed {
    /// As if the App had been applied: its spec, in place of the one that is there. Tells where among
    /// the Apps it is.
    pub fn put(&mut self, app: App) -> usize {
        let id = AppId::of(&app);
        let Some(at) = self.apps.iter().position(|known| AppId::of(known) == id) else {
            self.apps.push(app.into());
            return self.apps.len() - 1;
        };
        let known = &mut self.apps[at];
        if known.spec != app.spec {
            known.spec = app.spec;
            known.metadata.generation = known.metadata.generation.map(|before| before + 1);
        }
        at
    }
}

/// What one look leaves for the next. What has to outlive the process is in the statuses of the Apps as
/// well ([`remembered`]): the first look of a life takes it from there. The rest may be lost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Nodes that are not ready, and since when we know.
    silent: BTreeMap<String, Monotonic>,
    /// Assignments of theirs that are known to be in doubt, by uid.
    doubted: BTreeSet<String>,
    /// Which components fail where.
    troubles: strikes::Troubles,
    /// What need not be looked at again.
    quiet: Arc<quiet::Quiet>,
    /// Whether what an earlier process has left is in here already.
    is_recalled: bool,
}

#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// By App, in the order in which they were given.
    pub steps: Vec<Steps>,
    /// Assignments that nobody will take down, also of Apps that are gone.
    pub releases: Vec<Release>,
    /// Assignments of which nobody knows any more whether they are up.
    pub doubts: Vec<Doubt>,
    pub memory: Memory,
    /// When a silent node has had all its time.
    pub wake_at: Option<Monotonic>,
    /// What was assumed or could not be used, a sentence each.
    pub notes: Vec<String>,
}

/// What is to be done for one App, in this order; if one action fails, the rest waits for the next
/// look.
#[derive(Clone, Debug, PartialEq)]
pub struct Steps {
    /// Index into [`Observed::apps`].
    pub app: usize,
    pub actions: Vec<Action>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Action {
    pub verb: Verb,
    pub why: String,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Verb {
    /// Write the status of the App, whole, if the App is still the one that was looked at.
    Decide {
        status: Box<AppStatus>,
        news: Vec<News>,
    },
    Create(Box<Assignment>),
    /// Replace the spec, if the Assignment is still the one that was looked at.
    Update {
        name: String,
        resource_version: String,
        spec: Box<AssignmentSpec>,
    },
    Delete {
        name: String,
        uid: String,
    },
}

/// An Assignment is being deleted, and its agent will not say that it is down: it goes without.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    /// Only if it is still the one that was looked at.
    pub resource_version: String,
    /// What others still hold it by.
    pub finalizers: Vec<String>,
    pub why: String,
}

/// The node of an Assignment that was up has fallen silent: its conditions say that nobody knows.
#[derive(Clone, Debug, PartialEq)]
pub struct Doubt {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    /// Only if it is still the one that was looked at.
    pub resource_version: String,
    /// All of them, as they shall be.
    pub conditions: Vec<Condition>,
}

/// Something that people should hear of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct News {
    pub bad: bool,
    pub reason: Reason,
    pub message: String,
}

/// Decides. Carrying it out and planning again gives nothing to do; carrying out a part of it and
/// planning again leads to the same end. `time_of_day` is only written down, for people.
pub fn plan(
    observed: &Observed,
    memory: &Memory,
    now: Monotonic,
    time_of_day: &Time,
    limits: &Limits<'_>,
) -> Plan {
    let part = quiet::Part::of(observed, memory);
    let found = look(&part, memory, now, time_of_day, limits);
    // Who has no place may have one if others move, whether or not anything has changed for them.
    let (part, found) = match found.lacks && !part.is_whole {
        true => {
            let whole = quiet::Part::whole(observed);
            let found = look(&whole, memory, now, time_of_day, limits);
            (whole, found)
        }
        false => (part, found),
    };
    let Found { mut plan, quiet, .. } = found;
    for steps in &mut plan.steps {
        steps.app = part.index[steps.app];
    }
    plan.memory.quiet = Arc::new(part.quiet(observed, &memory.quiet, quiet));
    plan
}

/// What a look has found.
struct Found {
    plan: Plan,
    /// By App: what it depends on, if nothing is to be done for it.
    quiet: Vec<Option<quiet::Footprint>>,
    /// Somebody has no place.
    lacks: bool,
}

/// Decides about a part of the world. Apps are counted as the part does.
fn look(
    part: &quiet::Part,
    memory: &Memory,
    now: Monotonic,
    time_of_day: &Time,
    limits: &Limits<'_>,
) -> Found {
    let observed = &part.observed;
    let memory = memory.after(observed, now);
    let world = current::World::of(observed, &memory, now);
    let (continuum, troubles) = Continuum::of(&observed.sites, &observed.nodes, &observed.links);
    let running = world.running(&part.beside);
    let options = options(observed, &memory, now);
    let planned = tombolo_placement::plan(&continuum, &observed.apps, &running, &options, limits);
    let mut notes: Vec<String> = troubles.iter().map(ToString::to_string).collect();
    let planned = planned.unwrap_or_else(|invalid| {
        notes.push(format!("the placement problem cannot be solved: {invalid}"));
        tombolo_placement::Plan::default()
    });
    notes.extend(planned.notes.iter().cloned());

    let mut steps = Vec::new();
    let mut quiet = Vec::with_capacity(world.views.len());
    let mut lacks = false;
    for (index, view) in world.views.iter().enumerate() {
        // Its Assignments go with it, because it owns them.
        if view.app.metadata.deletion_timestamp.is_some() {
            quiet.push(None);
            continue;
        }
        let verdict = Verdict::of(view, index, &planned, &world);
        lacks |= verdict.lacks();
        // Whoever is here for the sake of others has nothing to do, and of those it speaks to not all are here.
        let is_due = part.is_due[index];
        let actions =
            if is_due { actions(view, &verdict, &world, time_of_day) } else { Vec::new() };
        let rests = actions.is_empty() && planned.pending.binary_search(&index).is_err();
        quiet.push(if rests { quiet::Footprint::of(view, &verdict, &world) } else { None });
        if !actions.is_empty() {
            steps.push(Steps { app: index, actions });
        }
    }
    let wakes =
        [world.wake_at(), release::wake_at(&world), strikes::wake_at(&memory.troubles, now)];
    let wake_at = wakes.into_iter().flatten().min();
    let releases = release::releases(&world);
    let mut doubts = doubt::doubts(&world, &memory.doubted, time_of_day);
    // What is let go in the same look is not there any more when the doubt is written.
    doubts.retain(|doubt| releases.iter().all(|release| release.uid != doubt.uid));
    let plan = Plan { steps, releases, doubts, memory, wake_at, notes };
    Found { plan, quiet, lacks }
}

/// What a plan is made from beside the objects themselves: what runs, and what the loop takes into
/// account. Explanations and suppositions begin from here too, so that they reckon as the loop does.
#[derive(Clone, Debug)]
pub struct Basis {
    pub running: Vec<Running>,
    pub options: Options,
}

impl Basis {
    /// With what a loop remembers, by its clock.
    pub fn of(observed: &Observed, memory: &Memory, now: Monotonic) -> Basis {
        let memory = memory.after(observed, now);
        let running = current::World::of(observed, &memory, now).running(&[]);
        Basis { running, options: options(observed, &memory, now) }
    }

    /// Where no loop is near: with what the statuses say of silent nodes and of what failed where.
    pub fn without_memory(observed: &Observed) -> Basis {
        Basis::of(observed, &Memory::default(), Monotonic::default())
    }
}

fn options(observed: &Observed, memory: &Memory, now: Monotonic) -> Options {
    let now = strikes::seconds(now);
    let mut strikes = strikes::strikes(&memory.troubles);
    strikes.extend(observed.struck.iter().map(|one| one.strike(now)));
    Options { strikes, now, changed: changed(observed), ..Options::default() }
}

/// Apps that somebody has changed since their places were chosen, by id. What they ask for may be
/// met where they are and better met elsewhere.
fn changed(observed: &Observed) -> BTreeSet<AppId> {
    let is_changed = |app: &&Shared<App>| {
        let conditions = app.status.as_ref().map_or(&[][..], |status| &status.conditions);
        let placed = condition::find(conditions, PLACED);
        placed.is_some_and(|placed| placed.observed_generation < app.metadata.generation)
    };
    observed.apps.iter().filter(is_changed).map(|app| AppId::of(app)).collect()
}

fn actions(
    view: &View<'_>,
    verdict: &Verdict,
    world: &current::World<'_>,
    time_of_day: &Time,
) -> Vec<Action> {
    let completion = materialise::complete(view, verdict, world);
    let mut actions = Vec::new();
    let status = AppStatus {
        remembered: remembered::record(view, world.memory(), world.now),
        ..status::status(view, verdict, &completion.outdated, time_of_day)
    };
    if view.app.status.as_ref() != Some(&status) {
        let mut news = status::news(view, verdict, &status);
        news.truncate(NEWS_MAX);
        let why = match news.first() {
            Some(first) => format!("{}: {}", first.reason, first.message),
            None => "what it says is old".to_owned(),
        };
        actions.push(Action { verb: Verb::Decide { status: Box::new(status), news }, why });
    }
    actions.extend(completion.actions);
    actions
}

impl Memory {
    /// For how long a node has been silent; nothing if it is not.
    fn silence(&self, node: &str, now: Monotonic) -> Option<Duration> {
        self.silent.get(node).map(|since| now.since(*since))
    }

    /// After a doubt was written. Its agent may have answered before anybody looks again.
    pub fn note_written(&mut self, doubt: &Doubt) {
        self.doubted.insert(doubt.uid.clone());
    }

    /// Brought up to what is seen. A memory that has seen nothing yet begins with what statuses say.
    fn after(&self, observed: &Observed, now: Monotonic) -> Memory {
        if !self.is_recalled {
            let recalled = remembered::recall(observed, now);
            return Memory { is_recalled: true, ..recalled }.after(observed, now);
        }
        let silent: BTreeSet<&str> = current::silent_nodes(observed).into_iter().collect();
        let troubles = strikes::remember(&self.troubles, &observed.assignments, &silent, now);
        let doubted = doubt::remember(&self.doubted, &observed.assignments, &silent);
        let since = |node: &str| self.silent.get(node).copied().unwrap_or(now);
        let silent = silent.into_iter().map(|node| (node.to_owned(), since(node))).collect();
        Memory { silent, doubted, troubles, is_recalled: true, quiet: Arc::default() }
    }
}

impl fmt::Display for Release {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "let go of {}: {}", self.name, self.why)
    }
}

impl fmt::Display for Doubt {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "doubt {}: its node is silent", self.name)
    }
}

impl fmt::Display for Action {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.verb {
            Verb::Decide { .. } => write!(out, "write the status: {}", self.why),
            Verb::Create(assignment) => {
                let name = assignment.metadata.name.as_deref().unwrap_or_default();
                write!(out, "create {name}: {}", self.why)
            }
            Verb::Update { name, .. } => write!(out, "update {name}: {}", self.why),
            Verb::Delete { name, .. } => write!(out, "delete {name}: {}", self.why),
        }
    }
}

#[cfg(test)]
mod tests;
