//! The loop that gives Apps their places and keeps the Assignments that carry them out. What it
//! decides is in [`tombolo_plan::placing`]; here it looks, acts and sleeps. Called by `tombolo up`
//! and `tombolo controller`; start at [`run`].

mod act;
#[cfg(test)]
mod cost;

use std::future::Future;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Client;
use kube::api::ApiResource;

use tombolo_model::{App, Assignment, Link, Node, Site};
use tombolo_placement::select::Limits;
use tombolo_plan::Monotonic;
use tombolo_plan::placing::{Memory, Observed, Plan, plan};

use crate::clock::{self, Clock};
use crate::cycle::{self, Cycle, Pace};
use crate::mirror::{Change, Mirrors};
use crate::typed::{Loan, Typed};

/// More would hold up the next look; a large App must still come into being in one.
const ACTIONS_PER_ACTIVATION_MAX: usize = 1024;
/// What nobody told of is found by looking now and then.
const LOOK_EVERY: Duration = Duration::from_secs(60);
/// What a failed action left is looked at again after this.
const RETRY_AFTER: Duration = Duration::from_secs(2);
const PACE: Pace =
    Pace { gap_min: Duration::from_millis(50), gap_factor: 2, first_within: LOOK_EVERY };
/// A search takes what it has found by then.
const SEARCH_TIME_MAX: Duration = Duration::from_secs(2);

struct Placing {
    client: Client,
    clock: Clock,
    mirrors: Mirrors,
    copies: Copies,
    memory: Memory,
}

/// Runs until `shutdown` is ready.
pub async fn run(client: Client, clock: Clock, shutdown: impl Future<Output = ()>) {
    let (mirrors, changes) = Mirrors::watch(&client, &watched());
    let (copies, memory) = (Copies::default(), Memory::default());
    let placing = Placing { client, clock, mirrors, copies, memory };
    cycle::run(placing, changes, PACE, clock, shutdown).await;
}

impl Cycle for Placing {
    type Change = Change;

    fn note(&mut self, change: Change) -> bool {
        self.mirrors.note(change)
    }

    async fn activate(&mut self, now: Monotonic) -> Monotonic {
        if !self.mirrors.all_listed() {
            return now + LOOK_EVERY;
        }
        let (observed, loans) = self.copies.look(&self.mirrors);
        let Some((observed, plan)) = decide(observed, self.memory.clone(), self.clock).await else {
            return now + RETRY_AFTER;
        };
        self.memory = plan.memory.clone();
        for note in &plan.notes {
            tracing::debug!(note, "about the plan");
        }
        let all_done = carry_out(&self.client, &observed, &plan, &mut self.memory).await;
        self.copies.put_back(observed, loans);
        let usual = self.clock.now() + if all_done { LOOK_EVERY } else { RETRY_AFTER };
        plan.wake_at.map_or(usual, |at| at.min(usual))
    }
}

/// Whether nothing is left to do.
async fn carry_out(client: &Client, observed: &Observed, plan: &Plan, memory: &mut Memory) -> bool {
    let mut left = ACTIONS_PER_ACTIVATION_MAX;
    let mut all_done = true;
    for steps in &plan.steps {
        let app = &observed.apps[steps.app];
        // An App is begun only if all of it fits: it comes into being in one look or not yet.
        if steps.actions.len() > left && left < ACTIONS_PER_ACTIVATION_MAX {
            all_done = false;
            break;
        }
        left = left.saturating_sub(steps.actions.len());
        all_done &= act::apply(client, app, &steps.actions).await;
    }
    let all_fit = plan.releases.len() + plan.doubts.len() <= left;
    for release in plan.releases.iter().take(left) {
        all_done &= act::release(client, release).await;
    }
    for doubt in plan.doubts.iter().take(left.saturating_sub(plan.releases.len())) {
        match act::doubt(client, doubt).await {
            true => memory.note_written(doubt),
            false => all_done = false,
        }
    }
    all_done && all_fit
}

/// A search may take long; other loops must not wait for it.
async fn decide(observed: Observed, memory: Memory, clock: Clock) -> Option<(Observed, Plan)> {
    let decision = tokio::task::spawn_blocking(move || {
        let started = clock.now();
        let stop = || clock.now().since(started) > SEARCH_TIME_MAX;
        let limits = Limits { stop: &stop, ..Limits::default() };
        let time_of_day = Time(clock::time_of_day());
        let plan = plan(&observed, &memory, started, &time_of_day, &limits);
        (observed, plan)
    });
    let decided = decision.await;
    decided.inspect_err(|error| tracing::error!(%error, "a plan could not be made")).ok()
}

fn watched() -> [ApiResource; 5] {
    [
        ApiResource::erase::<App>(&()),
        ApiResource::erase::<Assignment>(&()),
        ApiResource::erase::<Site>(&()),
        ApiResource::erase::<Node>(&()),
        ApiResource::erase::<Link>(&()),
    ]
}

/// All that is looked at, by its type.
#[derive(Debug, Default)]
struct Copies {
    apps: Typed<App>,
    assignments: Typed<Assignment>,
    sites: Typed<Site>,
    nodes: Typed<Node>,
    links: Typed<Link>,
}

impl Copies {
    fn look(&mut self, mirrors: &Mirrors) -> (Observed, [Loan; 5]) {
        mirrors.refresh(0, &mut self.apps);
        mirrors.refresh(1, &mut self.assignments);
        mirrors.refresh(2, &mut self.sites);
        mirrors.refresh(3, &mut self.nodes);
        mirrors.refresh(4, &mut self.links);
        let (apps, of_apps) = self.apps.lend();
        let (assignments, of_assignments) = self.assignments.lend();
        let (sites, of_sites) = self.sites.lend();
        let (nodes, of_nodes) = self.nodes.lend();
        let (links, of_links) = self.links.lend();
        let observed = Observed { apps, assignments, sites, nodes, links };
        (observed, [of_apps, of_assignments, of_sites, of_nodes, of_links])
    }

    fn put_back(&mut self, observed: Observed, loans: [Loan; 5]) {
        let [of_apps, of_assignments, of_sites, of_nodes, of_links] = loans;
        self.apps.give_back(observed.apps, of_apps);
        self.assignments.give_back(observed.assignments, of_assignments);
        self.sites.give_back(observed.sites, of_sites);
        self.nodes.give_back(observed.nodes, of_nodes);
        self.links.give_back(observed.links, of_links);
    }
}
