//! From what the engines say to what the plan takes: jobs, what is observed, who is checked.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tombolo_driver::{Instance, PublishedPort, State};
use tombolo_model::ports::NodePort;
use tombolo_model::{Assignment, Engine};
use tombolo_plan::agent::telling::Left;
use tombolo_plan::instances::serving::{spoken_of, takes_callers};
use tombolo_plan::instances::{Health, Id, Observed, Phase};

use crate::desired::{self, Job, Surroundings, problem};
use crate::health::{self, Target};
use crate::nearby::Nearby;
use crate::observe::{self, Look};
use crate::peer_files;

use super::{Converge, Now};

impl Converge {
    /// Where things are, as far as this node knows.
    pub(super) fn nearby(&self, look: &Look, now: &Now) -> Nearby {
        let files = self.peer_files.as_ref().map(|files| files.folder().to_owned());
        let mut nearby = Nearby { files, address: now.own_address, ..Nearby::default() };
        let running = running(look);
        for (id, (_, instance)) in &look.instances {
            let good = self.orders.good.get(&id.assignment).map(|good| good.revision);
            if takes_callers(id, good, &running, self.health(instance).as_ref()) {
                nearby.add(instance, now.address.as_deref());
            }
        }
        let ours = self.orders.assignments.values();
        for assignment in ours.filter(|found| desired::is_ours(found, &self.remit)) {
            nearby.assign(assignment);
        }
        nearby
    }

    /// What the checks say of an instance, if it runs and has been asked.
    fn health(&self, instance: &Instance) -> Option<Health> {
        match &instance.state {
            State::Running(running) => self.checks.of(&instance.id, &health::run(running)),
            State::Starting { .. } | State::Stopping(_) => None,
            State::Exited(_) | State::Failed(_) => None,
        }
    }

    /// Lets instances find out where their peers are now.
    pub(super) fn tell_peers(&mut self, look: &Look, nearby: &Nearby) {
        let Some(files) = &mut self.peer_files else { return };
        let ours = self.orders.assignments.iter();
        let ours = ours.filter(|(_, found)| {
            desired::is_ours(found, &self.remit) && !found.spec.peers.is_empty()
        });
        let wanted: BTreeMap<String, String> =
            ours.map(|(uid, found)| (uid.clone(), peer_files::text(found, nearby))).collect();
        let runs: BTreeSet<&str> = look.instances.keys().map(|id| id.assignment.as_str()).collect();
        let orders = &self.orders.assignments;
        files.follow(&wanted, |uid| orders.contains_key(uid) || runs.contains(uid));
    }

    /// What is to run here.
    pub(super) fn jobs(&self, look: &Look, nearby: &Nearby) -> BTreeMap<String, Job> {
        let ours = self.orders.assignments.iter();
        let ours = ours.filter(|(_, found)| desired::is_ours(found, &self.remit));
        ours.map(|(uid, assignment)| {
            let revision = desired::revision(assignment, &self.orders.entries);
            let around = Surroundings {
                remit: &self.remit,
                entries: &self.orders.entries,
                engines: &self.engines,
                ports_taken: &ports_taken(look, uid, revision),
                nearby,
                fallback: self.orders.good.get(uid).map(|good| good.revision),
            };
            let mut job = desired::job(assignment, &around);
            if let Some(error) = look.silent.get(&assignment.spec.engine) {
                job.wanted.blocked = Some(problem(error));
            }
            (uid.clone(), job)
        })
        .collect()
    }

    /// What is there, what is under way and what could not be started.
    pub(super) fn observed(&mut self, look: &Look, now: &Now) -> Observed {
        let seen = |(id, (engine, instance)): (&Id, &(Engine, Instance))| {
            let health = self.health(instance);
            let starts = self.under_way.starts(id);
            (id.clone(), observe::seen(*engine, instance, health.as_ref(), starts))
        };
        let engines_say = look.instances.iter().map(seen).collect();
        self.under_way.observe(engines_say, now.clock)
    }

    /// Lets those that run be asked how they are.
    pub(super) fn check_on(&mut self, look: &Look) {
        let targets = look.instances.iter().filter_map(|(id, (engine, instance))| {
            let State::Running(running) = &instance.state else { return None };
            let good = self.orders.good.get(&id.assignment);
            let now = self.orders.assignments.get(&id.assignment)?;
            let wanted = desired::revision(now, &self.orders.entries) == id.revision;
            let before = good.filter(|good| good.revision == id.revision && !wanted);
            let assignment = before.map_or(now, |good| &good.assignment);
            Some(Target {
                id: instance.id.clone(),
                run: health::run(running),
                check: assignment.spec.health.clone()?,
                driver: Arc::clone(self.drivers.get(engine)?),
            })
        });
        let targets = targets.collect();
        self.checks.follow(targets);
    }
}

/// Ports of the machine that other revisions hold.
fn ports_taken(look: &Look, uid: &str, revision: u64) -> BTreeSet<NodePort> {
    let others = look.instances.iter();
    let others = others.filter(|(id, _)| id.assignment == uid && id.revision != revision);
    let ports = others.filter_map(|(_, (_, instance))| match &instance.state {
        State::Running(running) | State::Stopping(running) => Some(&running.ports),
        State::Starting { .. } | State::Exited(_) | State::Failed(_) => None,
    });
    let taken = |port: &PublishedPort| {
        Some(NodePort { transport: port.protocol.transport(), number: port.published? })
    };
    ports.flatten().filter_map(taken).collect()
}

/// The instance that a status speaks of.
pub(super) fn serving<'a>(look: &'a Look, target: &Id, phase: &Phase) -> Option<&'a Instance> {
    let all = look.instances.keys().filter(|id| id.assignment == target.assignment).collect();
    let id = spoken_of(&all, &running(look), target, phase)?;
    look.instances.get(&id).map(|(_, instance)| instance)
}

fn running(look: &Look) -> BTreeSet<&Id> {
    let runs = |(_, found): &(Engine, Instance)| matches!(found.state, State::Running(_));
    look.instances.iter().filter(|(_, found)| runs(found)).map(|(id, _)| id).collect()
}

/// How much of an Assignment is left in its engine.
pub(super) fn left(look: &Look, observed: &Observed, assignment: &Assignment) -> Left {
    if look.silent.contains_key(&assignment.spec.engine) {
        return Left::NotKnown;
    }
    let uid = assignment.metadata.uid.as_ref();
    match observed.keys().any(|id| Some(&id.assignment) == uid) {
        true => Left::Something,
        false => Left::Nothing,
    }
}
